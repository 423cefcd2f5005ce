//! Messages to one loop from everybody else.
//!
//! Any thread pushes, the loop drains. Messages come out in the one order in which they went in,
//! whoever pushed them: what is pushed while a key is locked is seen in the order of that key's
//! changes. The inbox knows no sockets: [`Inbox::push`] says whether the loop must be woken, and
//! the caller does that after its unlock.
//!
//! Invariants:
//! - *No lost wake-up.* `signalled` is set by the pusher after its message is in, and cleared by
//!   the loop before it takes messages. So a pusher that finds it set knows that a drain which
//!   will see its message is still to come; a pusher that sets it must wake the loop.
//! - *Bounded.* A message is either *owed* ([`Inbox::push`]): an answer the loop waits for, of which
//!   there is at most one per connection or request of that loop; or *offered*
//!   ([`Inbox::offer`]): at most `offered_max` of these wait, one more is refused and given back.

use env::sync::atomic::{AtomicBool, Ordering};
use env::sync::{CachePadded, Mutex};
use std::fmt;

/// Offered messages that wait at most, unless an inbox is given another bound.
pub const OFFERED_MAX: usize = 65_536;

/// What the pusher has to do.
#[must_use = "a loop that is not woken sleeps on"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Wake the loop, now or after the unlock.
    Wake,
    /// It has been woken already and has not looked yet.
    Enough,
}

/// A message that an inbox refused, because too many offered ones wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<T>(pub T);

/// Messages waiting for one loop.
pub struct Inbox<T> {
    signalled: CachePadded<AtomicBool>,
    state: Mutex<State<T>>,
    offered_max: usize,
}

struct State<T> {
    messages: Vec<T>,
    offered: usize,
}

impl<T> Inbox<T> {
    /// An empty inbox that holds at most [`OFFERED_MAX`] offered messages.
    pub fn new() -> Self {
        Self::with_bound(OFFERED_MAX)
    }

    /// An empty inbox that holds at most `offered_max` offered messages.
    pub fn with_bound(offered_max: usize) -> Self {
        Inbox {
            signalled: CachePadded::new(AtomicBool::new(false)),
            state: Mutex::new(State {
                messages: Vec::new(),
                offered: 0,
            }),
            offered_max,
        }
    }

    /// Appends a message that the loop waits for: a grant, a served blocked client, the end of a
    /// slow command. Never refused; bounded by what the loop has outstanding.
    pub fn push(&self, message: T) -> Pushed {
        self.state.lock().messages.push(message);
        self.signal()
    }

    /// Appends a message that comes unasked, as often as others like: a published message, an
    /// invalidation.
    ///
    /// # Errors
    /// Gives the message back if `offered_max` of them wait. The caller treats it as it treats a
    /// client that does not read: it drops the message and closes the connection, or counts it.
    pub fn offer(&self, message: T) -> Result<Pushed, Refused<T>> {
        {
            let mut state = self.state.lock();
            if state.offered == self.offered_max {
                return Err(Refused(message));
            }
            state.offered += 1;
            state.messages.push(message);
        }
        Ok(self.signal())
    }

    fn signal(&self) -> Pushed {
        if self.signalled.swap(true, Ordering::AcqRel) {
            Pushed::Enough
        } else {
            Pushed::Wake
        }
    }

    /// Is there nothing to drain? One relaxed load. After the wake-up call of a push it says no
    /// until the next drain; it may also say no when a drain has just taken everything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.signalled.load(Ordering::Relaxed)
    }

    /// Passes all messages to `take`, oldest first, with nothing locked; for the owning loop only.
    /// Otherwise as [`Inbox::drain_into`].
    pub fn drain(&self, take: impl FnMut(T)) {
        if self.is_empty() {
            return;
        }
        let mut messages = Vec::new();
        self.drain_into(&mut messages);
        messages.drain(..).for_each(take);
        let mut state = self.state.lock();
        if state.messages.capacity() == 0 {
            state.messages = messages;
        }
    }

    /// Moves all messages to the end of `into`, oldest first; for the owning loop only. Every
    /// message whose push came before the call is among them. `into`, if empty, lends its memory
    /// to the next messages, so that a steady stream allocates nothing.
    pub fn drain_into(&self, into: &mut Vec<T>) {
        if self.is_empty() {
            return;
        }
        // Before taking: a message that comes after the taking signals again.
        self.signalled.swap(false, Ordering::AcqRel);
        let mut state = self.state.lock();
        state.offered = 0;
        if into.is_empty() {
            std::mem::swap(into, &mut state.messages);
        } else {
            into.append(&mut state.messages);
        }
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("empty", &self.is_empty())
            .field("offered_max", &self.offered_max)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn order_wake_and_bound() {
        let inbox = Inbox::with_bound(2);
        assert!(inbox.is_empty());
        assert_eq!(inbox.push(1), Pushed::Wake);
        assert_eq!(inbox.offer(2), Ok(Pushed::Enough));
        assert_eq!(inbox.offer(3), Ok(Pushed::Enough));
        assert_eq!(inbox.offer(4), Err(Refused(4)));
        assert_eq!(inbox.push(5), Pushed::Enough);
        let mut got = vec![0];
        inbox.drain_into(&mut got);
        assert_eq!(got, [0, 1, 2, 3, 5]);
        assert!(inbox.is_empty());
        assert_eq!(inbox.offer(6), Ok(Pushed::Wake));
        got.clear();
        inbox.drain(|message| got.push(message));
        assert_eq!(got, [6]);
    }

    #[test]
    fn producers_keep_their_order() {
        let inbox = std::sync::Arc::new(Inbox::with_bound(0));
        let producers: Vec<_> = (0..4u32)
            .map(|producer| {
                let inbox = std::sync::Arc::clone(&inbox);
                env::thread::spawn_named("producer", move || {
                    for number in 0..10_000u32 {
                        let _ = inbox.push((producer, number));
                    }
                })
                .unwrap()
            })
            .collect();
        let mut next = [0u32; 4];
        let mut got = Vec::new();
        while next.iter().sum::<u32>() < 40_000 {
            inbox.drain_into(&mut got);
            for (producer, number) in got.drain(..) {
                assert_eq!(next[producer as usize], number);
                next[producer as usize] += 1;
            }
        }
        for producer in producers {
            producer.join().unwrap();
        }
        inbox.drain_into(&mut got);
        assert!(got.is_empty() && inbox.is_empty());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    /// A loop that sleeps unless woken receives everything from two producers.
    #[test]
    fn loom_inbox_loses_no_wake_up() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::with_bound(0));
            let bell = Arc::new(Notify::new());
            let producers: Vec<_> = (0..2u32)
                .map(|producer| {
                    let (inbox, bell) = (Arc::clone(&inbox), Arc::clone(&bell));
                    thread::spawn(move || {
                        if inbox.push(producer) == Pushed::Wake {
                            bell.notify();
                        }
                    })
                })
                .collect();
            let mut got = Vec::new();
            while got.len() < 2 {
                bell.wait();
                inbox.drain_into(&mut got);
            }
            got.sort_unstable();
            assert_eq!(got, [0, 1]);
            for producer in producers {
                producer.join().unwrap();
            }
        });
    }

    /// What one producer pushed first comes out first, also across drains.
    #[test]
    fn loom_inbox_keeps_order() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::with_bound(0));
            let producer = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let _ = inbox.push(1);
                    let _ = inbox.push(2);
                })
            };
            let mut got = Vec::new();
            inbox.drain_into(&mut got);
            producer.join().unwrap();
            inbox.drain_into(&mut got);
            assert_eq!(got, [1, 2]);
        });
    }
}
