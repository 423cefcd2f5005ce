//! Instructions per operation of the hot path, counted by valgrind.
//!
//! Counts hold still where times do not: they tell a change of one per cent on a busy machine. They
//! say nothing about caches and the kernel; for those there is `bench`.
//!
//! Each case of `crates/commands/benches/hot_path.rs` runs twice with different numbers of rounds;
//! the difference of their counts is what the rounds cost, set-up cancels out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the counts that were agreed on are.
const AGREED: &str = "bench/instructions.toml";
/// What it begins with.
const HEADER: &str = "\
# Instructions per operation of the hot path; see the README here.
# Written by `cargo xtask instructions --bless`.

";
/// Rounds of the two runs.
const ROUNDS: [u64; 2] = [1000, 3000];
/// Deviation from the agreed count that is noticed, per cent.
const TOLERANCE_PERCENT: f64 = 5.0;

/// What is to be done with the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Print them beside the agreed ones; fail where they are worse.
    Compare,
    /// The same, but fail also where they are better by more than is tolerated.
    Check,
    /// Make them the agreed ones.
    Bless,
}

/// Builds the benchmark, counts all cases and compares.
pub fn run(root: &Path, mode: Mode) -> Result<(), String> {
    valgrind_is_there()?;
    let binary = build(root)?;
    let list = output(Command::new(&binary).arg("--list"))?;
    let agreed = read_agreed(root)?;
    let mut counted = BTreeMap::new();
    println!(
        "{:20} {:>9} {:>9} {:>8}",
        "instructions", "agreed", "now", ""
    );
    for line in list.lines() {
        let (name, operations) = line.split_once(' ').ok_or("the list is not understood")?;
        let operations: u64 = operations.parse().map_err(|_| "no number of operations")?;
        let [few, many] = ROUNDS.map(|rounds| count(&binary, name, rounds));
        let each =
            many?.saturating_sub(few?) as f64 / ((ROUNDS[1] - ROUNDS[0]) * operations) as f64;
        let each = (each * 10.0).round() / 10.0;
        let before = agreed.get(name).copied();
        println!(
            "{name:20} {:>9} {each:>9.1} {:>8}",
            before.map_or("-".to_owned(), |before| format!("{before:.1}")),
            before.map_or(String::new(), |before| format!(
                "{:+.1}%",
                change(before, each)
            ))
        );
        counted.insert(name.to_owned(), each);
    }
    if mode == Mode::Bless {
        return fs::write(root.join(AGREED), written(&counted))
            .map_err(|error| format!("{AGREED}: {error}"));
    }
    let complaints = compare(&agreed, &counted, mode);
    if complaints.is_empty() {
        return Ok(());
    }
    Err(complaints.join("\n"))
}

fn change(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

/// What is worth failing for; in the lenient mode the rest is printed.
fn compare(
    agreed: &BTreeMap<String, f64>,
    counted: &BTreeMap<String, f64>,
    mode: Mode,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, now) in counted {
        let Some(before) = agreed.get(name) else {
            complaints.push(format!("{name} is new: run with --bless"));
            continue;
        };
        let change = change(*before, *now);
        if change > TOLERANCE_PERCENT {
            complaints.push(format!("{name} costs {change:.1}% more than agreed"));
        } else if change < -TOLERANCE_PERCENT {
            let text = format!("{name} costs {:.1}% less: run with --bless", -change);
            if mode == Mode::Check {
                complaints.push(text);
            } else {
                println!("{text}");
            }
        }
    }
    let gone = agreed.keys().filter(|name| !counted.contains_key(*name));
    complaints.extend(gone.map(|name| format!("{name} is no case any more: run with --bless")));
    complaints
}

fn written(counted: &BTreeMap<String, f64>) -> String {
    let mut text = HEADER.to_owned();
    for (name, each) in counted {
        writeln!(text, "{name} = {each:.1}").expect("a string takes text");
    }
    text
}

fn read_agreed(root: &Path) -> Result<BTreeMap<String, f64>, String> {
    let Ok(text) = fs::read_to_string(root.join(AGREED)) else {
        return Ok(BTreeMap::new());
    };
    let table: toml::Table = text.parse().map_err(|error| format!("{AGREED}: {error}"))?;
    table
        .into_iter()
        .map(|(name, value)| {
            let value = value.as_float().filter(|value| *value > 0.0);
            let value = value.ok_or_else(|| format!("{AGREED}: {name} is no positive number"))?;
            Ok((name, value))
        })
        .collect()
}

fn valgrind_is_there() -> Result<(), String> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("valgrind is not there; in Debian it is the package `valgrind`".to_owned()),
    }
}

/// Builds the benchmark with the profile `quick`; returns where it is.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["bench", "--quiet", "--package", "commands"]);
    cargo.args(["--bench", "hot_path", "--profile", "quick", "--no-run"]);
    cargo.arg("--message-format=json").current_dir(root);
    let messages = output(&mut cargo)?;
    let executable = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let ours = message["target"]["name"] == "hot_path";
        message["executable"]
            .as_str()
            .filter(|_| ours)
            .map(PathBuf::from)
    });
    executable.ok_or_else(|| "cargo does not say where the benchmark is".to_owned())
}

/// Instructions of a whole run.
fn count(binary: &Path, case: &str, rounds: u64) -> Result<u64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(binary).arg(case).arg(rounds.to_string());
    let output = valgrind
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{case} failed under valgrind:\n{text}"));
    }
    collected(&text).ok_or_else(|| format!("valgrind says nothing about instructions:\n{text}"))
}

/// The number in callgrind's line `==PID== Collected : NUMBER`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", command.get_program().display()))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!(
            "{} failed: {reason}",
            command.get_program().display()
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, f64)]) -> BTreeMap<String, f64> {
        let entries = entries.iter();
        entries
            .map(|(name, each)| ((*name).to_owned(), *each))
            .collect()
    }

    #[test]
    fn worse_fails_better_asks_for_a_blessing() {
        let agreed = table(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("gone", 1.0)]);
        let counted = table(&[("a", 104.0), ("b", 106.0), ("c", 94.0), ("new", 1.0)]);
        let lenient = compare(&agreed, &counted, Mode::Compare);
        assert_eq!(lenient.len(), 3, "{lenient:?}");
        assert_eq!(lenient[0], "b costs 6.0% more than agreed");
        assert_eq!(compare(&agreed, &counted, Mode::Check).len(), 4);
    }

    #[test]
    fn reads_what_callgrind_says() {
        let text = "==7== Events    : Ir\n==7== Collected : 210405\n==7==\n";
        assert_eq!(collected(text), Some(210_405));
        assert_eq!(collected("==7== Events\n"), None);
    }
}
