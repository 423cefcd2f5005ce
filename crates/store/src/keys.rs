//! The keys of one command, hashed.

use smallvec::SmallVec;

/// One key in one database.
#[derive(Debug, Clone, Copy)]
pub struct KeyUse<'a> {
    /// Database.
    pub db: usize,
    /// The key.
    pub key: &'a [u8],
    /// Its hash.
    pub hash: u64,
}

/// The keys of a command in order.
#[derive(Debug, Default)]
pub struct KeyUses<'a>(SmallVec<[KeyUse<'a>; 2]>);

impl<'a> KeyUses<'a> {
    /// No keys yet.
    #[inline]
    pub fn new() -> Self {
        KeyUses(SmallVec::new())
    }

    /// Adds a key.
    #[inline]
    pub fn push(&mut self, db: usize, key: &'a [u8], hash: u64) {
        self.0.push(KeyUse { db, key, hash });
    }

    /// The keys.
    #[inline]
    pub fn as_slice(&self) -> &[KeyUse<'a>] {
        &self.0
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
