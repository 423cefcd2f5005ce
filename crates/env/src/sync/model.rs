//! loom's primitives with the interface of the real ones.

pub use loom::hint;
pub use loom::sync::{Arc, atomic};
pub use std::sync::Weak;

use std::time::Duration;

pub type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;
pub type RwLockReadGuard<'a, T> = loom::sync::RwLockReadGuard<'a, T>;
pub type RwLockWriteGuard<'a, T> = loom::sync::RwLockWriteGuard<'a, T>;

const POISON: &str = "a thread of the model panicked";

#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect(POISON)
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(POISON)
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().expect(POISON)
    }
}

#[derive(Debug)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect(POISON)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect(POISON)
    }
}

/// Result of a wait with a limit.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Waits until notified. loom takes the guard by value, so this swaps it through a scope.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        replace_with(guard, |guard| self.0.wait(guard).expect(POISON));
    }

    /// loom knows no time: this waits until notified and never reports a timeout.
    pub fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _limit: Duration,
    ) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(false)
    }

    pub fn notify_one(&self) -> bool {
        self.0.notify_one();
        true
    }

    pub fn notify_all(&self) -> usize {
        self.0.notify_all();
        0
    }
}

use crate::sys::replace_with;
