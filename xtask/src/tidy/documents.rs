//! Texts of every kind: links, leftovers, paths of somebody's machine, the changelog.

use super::{Document, Report, has_extension};
use std::path::Path;

/// Words that mark unfinished work, written apart so that this file passes.
const LEFTOVERS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO:"),
    concat!("todo", "!("),
];
/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];
/// Texts that are not ours to change.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE"];

const CHANGELOG_HEADINGS: &[&str] = &[
    "## Unreleased",
    "### Behaviour & safety",
    "### Speed",
    "### Internals",
];

pub(super) fn check(root: &Path, documents: &[Document], report: &mut Report) {
    for document in documents
        .iter()
        .filter(|document| !FOREIGN.contains(&document.path.as_str()))
    {
        check_words(document, report);
        if has_extension(&document.path, "md") {
            check_links(root, document, report);
        }
    }
    match documents
        .iter()
        .find(|document| document.path == "CHANGELOG.md")
    {
        None => report.findings.push("CHANGELOG.md is missing".into()),
        Some(changelog) => {
            let missing = CHANGELOG_HEADINGS
                .iter()
                .filter(|heading| !changelog.text.lines().any(|line| line == **heading));
            report
                .findings
                .extend(missing.map(|heading| format!("CHANGELOG.md: no heading {heading}")));
        }
    }
}

fn check_words(document: &Document, report: &mut Report) {
    for (index, line) in document.text.lines().enumerate() {
        for word in LEFTOVERS {
            if stands_alone(line, word) {
                report
                    .findings
                    .push(format!("{}:{}: {word}", document.path, index + 1));
            }
        }
        for path in MACHINE_PATHS {
            if line.contains(path) {
                report.findings.push(format!(
                    "{}:{}: a path of one machine ({path})",
                    document.path,
                    index + 1
                ));
            }
        }
    }
}

fn stands_alone(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(offset, _)| {
        let before = line[..offset].chars().next_back();
        let after = line[offset + word.len()..].chars().next();
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !part(before) && (word.ends_with(['(', ':']) || !part(after))
    })
}

fn check_links(root: &Path, document: &Document, report: &mut Report) {
    let directory = root.join(&document.path);
    let directory = directory.parent().unwrap_or(root);
    let mut fenced = false;
    for (index, line) in document.text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in links(line) {
            let file = target.split('#').next().unwrap_or_default();
            let foreign = target.contains("://") || target.starts_with("mailto:");
            if !foreign && !file.is_empty() && !directory.join(file).exists() {
                report.findings.push(format!(
                    "{}:{}: dead link {target}",
                    document.path,
                    index + 1
                ));
            }
        }
    }
}

/// Targets of `[text](target)` in a line.
fn links(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find("](") {
        rest = &rest[start + 2..];
        let Some(end) = rest.find(')') else { break };
        targets.push(rest[..end].trim());
        rest = &rest[end..];
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str, expected: usize) {
        let document = Document {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let mut report = Report::default();
        check_words(&document, &mut report);
        check_links(&crate::root(), &document, &mut report);
        assert_eq!(report.findings.len(), expected, "{:?}", report.findings);
    }

    #[test]
    fn leftovers_and_machine_paths_are_found() {
        check_text("a.md", &format!("// {}: later", concat!("FIX", "ME")), 1);
        check_text("a.md", concat!("XX", "XX"), 0);
        check_text("a.md", &format!("see {}x", concat!("/ho", "me/")), 1);
    }

    #[test]
    fn dead_links_are_found() {
        check_text(
            "README.md",
            "[a](Cargo.toml) [b](Cargo.toml#x) [c](#y) [d](https://x.y/z)",
            0,
        );
        check_text("README.md", "[a](no-such-file.md)", 1);
        check_text("docs/x.md", "[a](../Cargo.toml)", 0);
        check_text("README.md", "```\n[a](no-such-file.md)\n```", 0);
    }
}
