//! The keys of one command, hashed.

/// One key in one database.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyUse<'a> {
    /// Database.
    pub db: usize,
    /// The key.
    pub key: &'a [u8],
    /// Its hash.
    pub hash: u64,
}

/// Keys kept without an allocation.
const FEW: usize = 2;

/// The keys of a command in order.
#[derive(Debug, Default)]
pub struct KeyUses<'a> {
    few: [KeyUse<'a>; FEW],
    /// Number of keys in `few`; 0 once they are in `many`.
    few_len: usize,
    many: Vec<KeyUse<'a>>,
}

impl<'a> KeyUses<'a> {
    /// No keys yet.
    #[inline]
    pub fn new() -> Self {
        KeyUses::default()
    }

    /// Adds a key.
    #[inline]
    pub fn push(&mut self, db: usize, key: &'a [u8], hash: u64) {
        let key = KeyUse { db, key, hash };
        if self.many.is_empty() && self.few_len < FEW {
            self.few[self.few_len] = key;
            self.few_len += 1;
            return;
        }
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
            self.few_len = 0;
        }
        self.many.push(key);
    }

    /// The keys.
    #[inline]
    pub fn as_slice(&self) -> &[KeyUse<'a>] {
        if self.many.is_empty() {
            &self.few[..self.few_len]
        } else {
            &self.many
        }
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.few_len == 0 && self.many.is_empty()
    }
}
