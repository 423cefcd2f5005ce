//! The list of command tables.

use engine::config::Config;
use engine::registry::{Registry, Rename};

/// The registry of this process, with `rename-command` applied.
///
/// # Errors
/// A rename that cannot be.
pub(crate) fn build(config: &Config) -> Result<Registry, String> {
    let renames: Vec<Rename> = config
        .renames()
        .into_iter()
        .map(|(from, to)| Rename { from, to })
        .collect();
    Registry::new(commands::TABLES, &renames)
}
