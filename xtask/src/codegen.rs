//! Files that the server writes about itself from its tables of commands and directives.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Each generated file and the server's flag that prints it.
const OUTPUTS: &[(&str, &str)] = &[
    ("COMPAT.md", "--print-compat"),
    ("pronghorn.conf", "--print-conf"),
    ("docs/configuration.md", "--print-config-docs"),
];

/// Writes every generated file; returns how many changed.
pub fn write(root: &Path) -> Result<usize, String> {
    let mut changed = 0;
    for (path, flag) in OUTPUTS {
        let text = generate(root, flag)?;
        if fs::read_to_string(root.join(path)).ok().as_deref() != Some(text.as_str()) {
            fs::write(root.join(path), text).map_err(|error| format!("{path}: {error}"))?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// Fails if a generated file is not what the server prints.
pub fn check(root: &Path) -> Result<(), String> {
    let mut stale = Vec::new();
    for (path, flag) in OUTPUTS {
        let text = generate(root, flag)?;
        if fs::read_to_string(root.join(path)).ok().as_deref() != Some(text.as_str()) {
            stale.push(*path);
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "out of step, run `cargo xtask codegen`: {}",
        stale.join(", ")
    ))
}

/// Runs the server named by `PRONGHORN_BIN`, or builds it.
fn generate(root: &Path, flag: &str) -> Result<String, String> {
    let mut command = if let Some(binary) = std::env::var_os("PRONGHORN_BIN") {
        Command::new(binary)
    } else {
        let mut cargo = Command::new("cargo");
        cargo.args(["run", "--quiet", "--package", "server", "--"]);
        cargo
    };
    let output = command
        .arg(flag)
        .current_dir(root)
        .output()
        .map_err(|error| format!("the server cannot be run: {error}"))?;
    if !output.status.success() || output.stdout.is_empty() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!(
            "pronghorn {flag} failed ({}): {reason}",
            output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
