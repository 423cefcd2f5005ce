//! The checks, each in its module; together they answer with a [`Report`].

use std::fs;
use std::path::Path;
use std::process::Command;

mod arrows;
mod documents;
mod seams;
mod sizes;
mod source;

use source::Source;

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// How many files were read.
    pub files: usize,
    /// What must be changed.
    pub findings: Vec<String>,
    /// What should be looked at.
    pub warnings: Vec<String>,
}

/// A text file of the tree.
#[derive(Debug)]
struct Document {
    /// Path from the root, with slashes.
    path: String,
    text: String,
}

/// Runs every check on the tree at `root`.
pub fn run(root: &Path) -> Result<Report, String> {
    let documents = read_tree(root)?;
    let sources: Vec<Source> = documents
        .iter()
        .filter(|document| has_extension(&document.path, "rs"))
        .map(|document| Source::new(&document.path, &document.text))
        .collect();
    let mut report = Report {
        files: documents.len(),
        ..Report::default()
    };
    arrows::check(root, &mut report)?;
    sizes::check(root, &sources, &mut report)?;
    for source in &sources {
        seams::check(source, &mut report);
    }
    documents::check(root, &documents, &mut report);
    Ok(report)
}

/// Every text file that git tracks or would track.
fn read_tree(root: &Path) -> Result<Vec<Document>, String> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "git ls-files: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    let mut documents = Vec::new();
    for path in names.split('\0').filter(|path| !path.is_empty()) {
        // A file removed but still in the index, and binary files, have nothing to check.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            documents.push(Document {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(documents)
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}
