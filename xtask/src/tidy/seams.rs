//! Seams inside the code: the door to the system, the homes of unsafe code, module headers.

use super::Report;
use super::source::Source;

/// Standard modules whose items come from `env` instead; an empty list bans the whole module.
const DOORS: &[(&str, &[&str])] = &[
    ("time", &["Instant", "SystemTime"]),
    ("fs", &[]),
    (
        "net",
        &["TcpListener", "TcpStream", "UdpSocket", "ToSocketAddrs", ""],
    ),
    (
        "thread",
        &[
            "",
            "spawn",
            "sleep",
            "Builder",
            "JoinHandle",
            "scope",
            "current",
            "park",
            "park_timeout",
            "yield_now",
        ],
    ),
    ("sync", &["Mutex", "RwLock", "Condvar"]),
];

/// Who may pass beside the door, and why.
const BESIDE_THE_DOOR: &[(&str, &str)] = &[
    ("crates/env/", "it is the door"),
    (
        "crates/conformance/",
        "starts other programs and speaks to them, outside the server",
    ),
    (
        "bench/",
        "measures from outside, shares nothing with the server",
    ),
    ("xtask/", "a developer's tool"),
    (
        "crates/server/src/running.rs",
        "looks up the names in `bind` once, at start",
    ),
];

/// Where `unsafe` may stand.
const UNSAFE_HOMES: &[&str] = &[
    "crates/base/src/simd",
    "crates/structures/",
    "crates/env/src/sys",
    "crates/net/src/sys",
    "bench/src/sys",
    "bench/src/floor/uring",
];

/// How far above an unsafe block its argument may begin.
const SAFETY_LINES_MAX: usize = 12;

pub(super) fn check(source: &Source, report: &mut Report) {
    if !source.text.trim_start().starts_with("//!") {
        report
            .findings
            .push(format!("{}:1: no module header (//!)", source.path));
    }
    if source.path.starts_with("fuzz/") {
        return;
    }
    if !source.is_test
        && !BESIDE_THE_DOOR
            .iter()
            .any(|(home, _)| source.path.starts_with(home))
    {
        for (module, banned) in DOORS {
            check_door(source, module, banned, report);
        }
    }
    check_unsafe(source, report);
}

fn check_door(source: &Source, module: &str, banned: &[&str], report: &mut Report) {
    let path = format!("std::{module}");
    for offset in source.words(&path) {
        for name in names_after(&source.code[offset + path.len()..]) {
            if banned.is_empty() || banned.contains(&name) {
                let line = source.line_of(offset);
                let item = if name.is_empty() {
                    path.clone()
                } else {
                    format!("{path}::{name}")
                };
                report
                    .findings
                    .push(format!("{}:{line}: {item} comes from env", source.path));
            }
        }
    }
}

/// The items named after a module: `::One`, `::{One, Two}`, or the module itself (empty).
fn names_after(rest: &str) -> Vec<&str> {
    let Some(items) = rest.strip_prefix("::") else {
        return vec![""];
    };
    let word = |text: &'_ str| {
        text.find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len())
    };
    match items.strip_prefix('{') {
        Some(list) => {
            let list = &list[..list.find('}').unwrap_or(list.len())];
            let items = list
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            items.map(|item| &item[..word(item)]).collect()
        }
        None => vec![&items[..word(items)]],
    }
}

fn check_unsafe(source: &Source, report: &mut Report) {
    let at_home = UNSAFE_HOMES
        .iter()
        .any(|home| source.path.starts_with(home));
    for offset in source.words("unsafe") {
        let line = source.line_of(offset);
        if !at_home {
            report
                .findings
                .push(format!("{}:{line}: unsafe outside its homes", source.path));
        }
        let rest = source.code[offset + "unsafe".len()..].trim_start();
        let needs_argument = rest.starts_with('{') || rest.starts_with("impl");
        let lines: Vec<&str> = source
            .text
            .lines()
            .take(line)
            .skip(line.saturating_sub(SAFETY_LINES_MAX))
            .collect();
        if needs_argument && !lines.iter().any(|line| line.contains("SAFETY:")) {
            report.findings.push(format!(
                "{}:{line}: unsafe without a SAFETY: argument",
                source.path
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str, expected: &[&str]) {
        let mut report = Report::default();
        check(&Source::new(path, text), &mut report);
        assert_eq!(report.findings, expected, "{text}");
    }

    #[test]
    fn the_door_is_kept() {
        let path = "crates/store/src/a.rs";
        check_file(
            path,
            "//! a\nuse std::time::{Duration, Instant};\n",
            &["crates/store/src/a.rs:2: std::time::Instant comes from env"],
        );
        check_file(
            path,
            "//! a\nuse std::time::Duration;\nuse std::net::SocketAddr;\nuse std::sync::{Arc, atomic::AtomicBool};\n",
            &[],
        );
        check_file(
            path,
            "//! a\nuse std::fs;\n",
            &["crates/store/src/a.rs:2: std::fs comes from env"],
        );
        check_file(
            path,
            "//! a\n// std::fs\nfn f() { std::thread::yield_now(); }\n",
            &["crates/store/src/a.rs:3: std::thread::yield_now comes from env"],
        );
        check_file(
            path,
            "//! a\nuse std::sync::Mutex;\n",
            &["crates/store/src/a.rs:2: std::sync::Mutex comes from env"],
        );
        check_file("crates/env/src/a.rs", "//! a\nuse std::fs;\n", &[]);
        check_file("crates/store/tests/a.rs", "//! a\nuse std::fs;\n", &[]);
    }

    #[test]
    fn unsafe_stays_at_home_with_its_argument() {
        check_file(
            "crates/store/src/a.rs",
            "//! a\n// SAFETY: b\nunsafe { x() }\n",
            &["crates/store/src/a.rs:3: unsafe outside its homes"],
        );
        check_file(
            "crates/structures/src/a.rs",
            "//! a\n// SAFETY: b\nunsafe { x() }\n",
            &[],
        );
        check_file(
            "crates/structures/src/a.rs",
            "//! a\nunsafe { x() }\n",
            &["crates/structures/src/a.rs:2: unsafe without a SAFETY: argument"],
        );
        check_file(
            "crates/structures/src/a.rs",
            "//! a\nunsafe fn f() {}\n",
            &[],
        );
    }

    #[test]
    fn every_file_has_a_header() {
        check_file(
            "crates/store/src/a.rs",
            "fn f() {}\n",
            &["crates/store/src/a.rs:1: no module header (//!)"],
        );
    }
}
