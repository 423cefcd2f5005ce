//! The flag through which other threads wake a loop: one atomic word, a system call only if the
//! loop sleeps. It knows neither messages nor descriptors.
//!
//! ```text
//!            ring                  ring: the ringer must signal
//!   AWAKE ---------> RUNG <------------------------------- ASLEEP
//!     ^               |                                      |  ^
//!     |     take      |               rouse (not rung)       |  |
//!     +---------------+--------------------------------------+  |
//!     +---------------------------- doze -----------------------+
//! ```
//!
//! Invariants:
//! - A ringer first publishes its message, then rings; the loop first takes, then reads messages.
//!   Both are read-modify-writes of the same word, so one comes first: either `take` sees the ring,
//!   and with it the message, or the ring finds the state after `take` and is seen by the next one.
//! - The loop blocks only after `doze` moved AWAKE to ASLEEP: a ring before that makes it fail, a
//!   ring after it finds ASLEEP and is told to signal. The signal stays readable until it was seen,
//!   so it does not matter whether the loop was already blocked.

use env::sync::atomic::{AtomicU32, Ordering};

const AWAKE: u32 = 0;
const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Bell {
    state: AtomicU32,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU32::new(AWAKE),
        }
    }

    /// Any thread. True if the loop sleeps and the caller must signal it.
    pub(crate) fn ring(&self) -> bool {
        self.state.swap(RUNG, Ordering::AcqRel) == ASLEEP
    }

    /// The loop, while awake. True if the bell was rung since the last call.
    pub(crate) fn take(&self) -> bool {
        // A ring that this load does not see yet is not lost: `doze` will find it.
        self.state.load(Ordering::Relaxed) == RUNG
            && self.state.swap(AWAKE, Ordering::AcqRel) == RUNG
    }

    /// The loop, before it blocks. False if the bell was rung and the loop must not block.
    pub(crate) fn doze(&self) -> bool {
        self.state
            .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The loop, after it blocked. A ring stays to be taken.
    pub(crate) fn rouse(&self) {
        let _ = self
            .state
            .compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Bell;

    #[test]
    fn signals_are_asked_for_only_while_asleep() {
        let bell = Bell::new();
        assert!(!bell.take());
        assert!(!bell.ring());
        assert!(!bell.doze());
        assert!(bell.take());
        assert!(bell.doze());
        assert!(bell.ring());
        assert!(!bell.ring());
        bell.rouse();
        assert!(bell.take());
        assert!(!bell.take());
        assert!(bell.doze());
        bell.rouse();
        assert!(!bell.take());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Bell;
    use env::sync::atomic::{AtomicU32, Ordering};
    use env::sync::{Arc, Condvar, Mutex};

    struct World {
        bell: Bell,
        /// Messages published and not yet seen; relaxed, so that only the bell orders them.
        messages: [AtomicU32; 2],
        signalled: Mutex<bool>,
        signal: Condvar,
    }

    impl World {
        fn send(&self, from: usize) {
            self.messages[from].store(1, Ordering::Relaxed);
            if self.bell.ring() {
                *self.signalled.lock() = true;
                self.signal.notify_one();
            }
        }

        fn seen(&self) -> u32 {
            self.messages
                .iter()
                .map(|m| m.load(Ordering::Relaxed))
                .sum()
        }

        /// What a loop does until it has seen `count` messages. A lost wake-up is a deadlock here,
        /// which the model checker reports.
        fn receive(&self, count: u32) {
            loop {
                if self.bell.take() && self.seen() == count {
                    return;
                }
                if self.bell.doze() {
                    let mut signalled = self.signalled.lock();
                    while !*signalled {
                        self.signal.wait(&mut signalled);
                    }
                    *signalled = false;
                    drop(signalled);
                    self.bell.rouse();
                }
            }
        }
    }

    fn run(senders: usize) {
        loom::model(move || {
            let world = Arc::new(World {
                bell: Bell::new(),
                messages: [AtomicU32::new(0), AtomicU32::new(0)],
                signalled: Mutex::new(false),
                signal: Condvar::new(),
            });
            let threads: Vec<_> = (0..senders)
                .map(|from| {
                    let world = Arc::clone(&world);
                    loom::thread::spawn(move || world.send(from))
                })
                .collect();
            world.receive(senders as u32);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_one_ringer_is_always_heard() {
        run(1);
    }

    #[test]
    fn loom_two_ringers_are_both_heard() {
        run(2);
    }
}
