//! The keys of one command.

use crate::command::{Args, Command, Outcome};
use smallvec::SmallVec;

/// One key: where it is among the arguments and in which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyAt {
    /// Database.
    pub db: usize,
    /// Position among the arguments.
    pub at: usize,
}

/// The keys of a command in the order of its key specifications.
#[derive(Debug, Default)]
pub struct KeySet(SmallVec<[KeyAt; 4]>);

impl KeySet {
    /// Adds the key at argument `at` of database `db`.
    pub fn push(&mut self, db: usize, at: usize) {
        self.0.push(KeyAt { db, at });
    }

    /// The keys.
    pub fn as_slice(&self) -> &[KeyAt] {
        &self.0
    }

    /// The keys of `command` called with `args`.
    ///
    /// # Errors
    /// What the command's own key finder reports.
    pub fn find(
        command: &Command,
        selected: usize,
        databases: usize,
        args: Args<'_>,
        keys: &mut KeySet,
    ) -> Outcome {
        keys.0.clear();
        if let Some(finder) = command.key_finder {
            return finder(selected, databases, args, keys);
        }
        for spec in command.keys {
            for at in spec.positions(args.len()) {
                keys.push(selected, at);
            }
        }
        Ok(())
    }
}
