//! What keeps the house in order: checks that no compiler makes, and generated files.
//!
//! `cargo test -p xtask` runs the checks too, so that nobody needs to remember the command.
//! It reads the tree and never changes it, except for `codegen`.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a developer's tool outside the server: it reads files and runs cargo and git"
)]

use std::path::{Path, PathBuf};

pub mod codegen;
pub mod instructions;
pub mod tidy;

/// The workspace's root directory.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
