//! Locks and atomics under one import path: the system's, or those of a model checker.
//!
//! With `--cfg loom` everything here comes from loom, so that the same code can be run under every
//! interleaving. Locks are never poisoned in either case: a panic ends the process.

#[cfg(not(loom))]
mod real {
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use std::hint;
    pub use std::sync::{Arc, Weak, atomic};
}

#[cfg(loom)]
mod model;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use real::*;

/// A value alone on its cache lines, so that writers of neighbours do not slow its readers.
///
/// 128 bytes: processors fetch lines of 64 in pairs.
#[derive(Debug, Default, Clone, Copy)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> CachePadded<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn padded_values_share_no_line() {
        let pair = [CachePadded::new(1u8), CachePadded::new(2u8)];
        assert_eq!(size_of_val(&pair), 256);
        assert_eq!(*pair[0] + *pair[1], 3);
    }
}
