//! Which crate may use which: downwards only, never sideways.

use super::Report;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What any crate's tests may use.
const FOR_TESTS: &[&str] = &["base", "env"];

/// The whole table. A new arrow is a decision, not a line in a manifest.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("env", &["base"]),
    ("resp", &["base"]),
    ("structures", &["base", "env"]),
    ("store", &["base", "env", "structures"]),
    ("engine", &["base", "env", "resp", "store"]),
    ("commands", &["base", "env", "resp", "store", "engine"]),
    ("net", &["base", "env"]),
    (
        "server",
        &[
            "base",
            "env",
            "resp",
            "structures",
            "store",
            "engine",
            "commands",
            "net",
        ],
    ),
    ("conformance", &["base", "env"]),
    ("pronghorn-bench", &[]),
    ("xtask", &[]),
];

pub(super) fn check(root: &Path, report: &mut Report) -> Result<(), String> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    report.findings.extend(judge(&metadata));
    Ok(())
}

fn judge(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(format!(
                "crate {name} is not in the table of arrows (xtask/src/tidy/arrows.rs)"
            ));
            continue;
        };
        let dependencies = package["dependencies"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        for dependency in dependencies
            .iter()
            .filter(|dependency| dependency["path"].is_string())
        {
            let target = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"] == "dev" && FOR_TESTS.contains(&target);
            if !allowed.contains(&target) && !for_tests {
                findings.push(format!("arrow {name} -> {target} is not allowed"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn upward_arrows_and_strangers_are_found() {
        let metadata = json!({"packages": [
            {"name": "net", "dependencies": [{"name": "base", "path": "x"}, {"name": "resp", "path": "x"}]},
            {"name": "stranger", "dependencies": []},
            {"name": "base", "dependencies": [
                {"name": "libc"}, {"name": "env", "path": "x", "kind": "dev"}]},
        ]});
        let findings = judge(&metadata);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(findings[0], "arrow net -> resp is not allowed");
        assert!(findings[1].contains("stranger"));
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Each crate may only name crates above it in the table, so no cycle can be written.
        for (index, (name, allowed)) in ARROWS.iter().enumerate() {
            for target in *allowed {
                let position = ARROWS.iter().position(|(known, _)| known == target);
                assert!(
                    position.is_some_and(|position| position < index),
                    "{name} -> {target}"
                );
            }
        }
    }
}
