//! A lock for sections of a few dozen instructions, released by one plain store.
//!
//! It is spun on, and the processor is given away when the owner seems not to be running. It is
//! never held across a system call that can block, and never while a bucket latch is waited for.
//!
//! A model checker cannot see that spinning ends, so for it the lock is one it knows.

#[cfg(loom)]
pub(crate) type SpinLock<T> = env::sync::Mutex<T>;

#[cfg(not(loom))]
pub(crate) use real::SpinLock;

#[cfg(not(loom))]
mod real {
    use super::Pause;
    use env::sync::atomic::{AtomicBool, Ordering};
    use std::cell::UnsafeCell;
    use std::ops::{Deref, DerefMut};

    pub(crate) struct SpinLock<T> {
        locked: AtomicBool,
        value: UnsafeCell<T>,
    }

    // SAFETY: `value` is reached only through a guard, and `locked` lets one guard exist at a time; the
    // acquire/release pair on `locked` orders one owner's accesses before the next one's.
    unsafe impl<T: Send> Sync for SpinLock<T> {}

    impl<T> SpinLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self {
                locked: AtomicBool::new(false),
                value: UnsafeCell::new(value),
            }
        }

        #[inline]
        pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
            let mut pause = Pause::new();
            while self.locked.swap(true, Ordering::Acquire) {
                while self.locked.load(Ordering::Relaxed) {
                    pause.wait();
                }
            }
            SpinGuard { lock: self }
        }

        #[inline]
        pub(crate) fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
            if self.locked.load(Ordering::Relaxed) || self.locked.swap(true, Ordering::Acquire) {
                return None;
            }
            Some(SpinGuard { lock: self })
        }
    }

    pub(crate) struct SpinGuard<'a, T> {
        lock: &'a SpinLock<T>,
    }

    impl<T> Deref for SpinGuard<'_, T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            // SAFETY: this guard exists, so its thread owns the lock and no other guard does.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for SpinGuard<'_, T> {
        #[inline(always)]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, and `&mut self` makes this the only reference made from the guard.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for SpinGuard<'_, T> {
        #[inline(always)]
        fn drop(&mut self) {
            self.lock.locked.store(false, Ordering::Release);
        }
    }
}

/// Waiting for another thread's next few instructions.
pub(crate) struct Pause {
    rounds: u32,
}

impl Pause {
    pub(crate) fn new() -> Self {
        Self { rounds: 0 }
    }

    /// One step: a pause instruction, or now and then the rest of the time slice.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.rounds += 1;
        if cfg!(loom) || self.rounds.is_multiple_of(128) {
            env::thread::yield_now();
        } else {
            env::sync::hint::spin_loop();
        }
    }
}
