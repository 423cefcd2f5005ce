//! Sizes of files and functions. What is too large today is in the ratchet, which only shrinks.

use super::Report;
use super::source::Source;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILE_LINES_ASK: usize = 800;
const FILE_LINES_MAX: usize = 1200;
const FUNCTION_LINES_MAX: usize = 70;
const RATCHET: &str = "xtask/ratchet.toml";

/// Sizes that were tolerated, by path and by `path::function`.
#[derive(Debug, Default)]
struct Ratchet {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
}

pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) -> Result<(), String> {
    let text =
        fs::read_to_string(root.join(RATCHET)).map_err(|error| format!("{RATCHET}: {error}"))?;
    let ratchet = parse(&text)?;
    judge(&ratchet, sources, report);
    Ok(())
}

fn parse(text: &str) -> Result<Ratchet, String> {
    let table: toml::Table = text
        .parse()
        .map_err(|error| format!("{RATCHET}: {error}"))?;
    let mut ratchet = Ratchet::default();
    for (section, values) in &table {
        let target = match section.as_str() {
            "files" => &mut ratchet.files,
            "functions" => &mut ratchet.functions,
            other => return Err(format!("{RATCHET}: unknown section {other}")),
        };
        for (name, lines) in values
            .as_table()
            .ok_or_else(|| format!("{RATCHET}: {section} is no table"))?
        {
            let lines = lines
                .as_integer()
                .and_then(|lines| usize::try_from(lines).ok());
            target.insert(
                name.clone(),
                lines.ok_or_else(|| format!("{RATCHET}: {name} needs a number"))?,
            );
        }
    }
    Ok(ratchet)
}

fn judge(ratchet: &Ratchet, sources: &[Source], report: &mut Report) {
    let mut files = BTreeMap::new();
    let mut functions = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let lines = source.lines_outside_tests();
        if lines > FILE_LINES_MAX {
            files.insert(source.path.clone(), lines);
        } else if lines > FILE_LINES_ASK {
            report.warnings.push(format!(
                "{}: {lines} lines: does it hold two things?",
                source.path
            ));
        }
        for function in source.functions() {
            if function.lines > FUNCTION_LINES_MAX {
                functions.insert(
                    format!("{}::{}", source.path, function.name),
                    function.lines,
                );
            }
        }
    }
    compare(&ratchet.files, &files, FILE_LINES_MAX, report);
    compare(&ratchet.functions, &functions, FUNCTION_LINES_MAX, report);
}

fn compare(
    tolerated: &BTreeMap<String, usize>,
    found: &BTreeMap<String, usize>,
    lines_max: usize,
    report: &mut Report,
) {
    for (name, &lines) in found {
        match tolerated.get(name) {
            None => report
                .findings
                .push(format!("{name}: {lines} lines, at most {lines_max}")),
            Some(&before) if lines > before => {
                report.findings.push(format!(
                    "{name}: grew from {before} to {lines} lines, at most {lines_max}"
                ));
            }
            Some(&before) if lines < before => {
                report.findings.push(format!(
                    "{name}: shrank to {lines} lines, lower it in {RATCHET}"
                ));
            }
            Some(_) => {}
        }
    }
    for name in tolerated.keys().filter(|name| !found.contains_key(*name)) {
        report.findings.push(format!(
            "{name} is within the limit: remove it from {RATCHET}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(lines: usize) -> Source {
        Source::new(
            "a.rs",
            &format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2)),
        )
    }

    fn check(tolerated: &str, lines: usize, expected: &[&str]) {
        let mut report = Report::default();
        judge(&parse(tolerated).unwrap(), &[source(lines)], &mut report);
        assert_eq!(report.findings, expected);
    }

    #[test]
    fn the_ratchet_only_shrinks() {
        check("", 70, &[]);
        check("", 71, &["a.rs::long: 71 lines, at most 70"]);
        check("[functions]\n\"a.rs::long\" = 80", 80, &[]);
        check(
            "[functions]\n\"a.rs::long\" = 80",
            81,
            &["a.rs::long: grew from 80 to 81 lines, at most 70"],
        );
        check(
            "[functions]\n\"a.rs::long\" = 80",
            79,
            &["a.rs::long: shrank to 79 lines, lower it in xtask/ratchet.toml"],
        );
        check(
            "[functions]\n\"a.rs::long\" = 80",
            70,
            &["a.rs::long is within the limit: remove it from xtask/ratchet.toml"],
        );
        assert!(parse("[other]\n").is_err());
    }
}
