//! `cargo xtask tidy`, `cargo xtask codegen [--check]`, `cargo xtask instructions [--check|--bless]`.

use std::path::Path;
use std::process::ExitCode;
use xtask::instructions::Mode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = xtask::root();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy(&root),
        ["codegen"] => {
            xtask::codegen::write(&root).map(|changed| println!("{changed} files changed"))
        }
        ["codegen", "--check"] => xtask::codegen::check(&root),
        ["instructions"] => xtask::instructions::run(&root, Mode::Compare),
        ["instructions", "--check"] => xtask::instructions::run(&root, Mode::Check),
        ["instructions", "--bless"] => xtask::instructions::run(&root, Mode::Bless),
        _ => Err(
            "usage: cargo xtask tidy | codegen [--check] | instructions [--check|--bless]"
                .to_owned(),
        ),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn tidy(root: &Path) -> Result<(), String> {
    let report = xtask::tidy::run(root)?;
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    if report.findings.is_empty() {
        println!(
            "tidy: {} files in order, {} warnings",
            report.files,
            report.warnings.len()
        );
        return Ok(());
    }
    Err(format!(
        "{}\ntidy: {} findings",
        report.findings.join("\n"),
        report.findings.len()
    ))
}
