//! The connections of one loop, found by slot number.
//!
//! Invariants:
//! - A slot's generation goes up each time it is emptied, so a key names one connection only.
//! - `u32::MAX` is never a generation (the epoll backend's own registrations use it).

use crate::backend::{Interest, Key, SLOTS_MAX};
use crate::service::Closed;
use base::output::Output;
use rustix::fd::OwnedFd;

/// No batch.
pub(crate) const NOT_IN_BATCH: u16 = u16::MAX;

/// A connection that is to run and sends more than this on top is not read any more.
pub(crate) const BACKLOG_BYTES_MAX: usize = 64 * 1024;

/// What the loop does with a connection between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reading.
    Read,
    /// Runs in the next pass; not reading.
    Again,
    /// Not reading until the output has drained, then runs.
    Drain,
    /// Not reading until resumed; watched for hang-up.
    Hold,
    /// Output is flushed, then the session ends for this reason. Not reading.
    Closing(Closed),
    /// The session is gone; what output is left is flushed, not reading.
    Flush,
    /// The session is gone and our end is shut; input is thrown away until the peer closes too.
    Linger,
    /// The session is gone and the kernel is asked to let go; the slot is freed when it has.
    Dead,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<C, L> {
    pub(crate) socket: OwnedFd,
    pub(crate) mode: Mode,
    /// In the queue of connections to run in the next pass.
    pub(crate) queued: bool,
    /// Index in the batch being put together or run, or [`NOT_IN_BATCH`].
    pub(crate) in_batch: u16,
    /// Output was appended outside a batch.
    pub(crate) touched: bool,
    /// The peer closed its end while commands were still to be run.
    pub(crate) ended: bool,
    /// Moves to this loop as soon as the kernel lets go.
    pub(crate) moving: Option<u16>,
    /// Batches it was part of since the loop last began to look for one to give away.
    pub(crate) activity: u32,
    pub(crate) link: L,
    /// `None` while in a batch and after the end.
    pub(crate) session: Option<Box<C>>,
    /// Unsent and not under way.
    pub(crate) output: Output,
    /// Input that came while it was not wanted (completion backends only).
    pub(crate) backlog: Vec<u8>,
}

impl<C, L: Default> Connection<C, L> {
    /// A connection that reads and has no session yet.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            mode: Mode::Read,
            queued: false,
            in_batch: NOT_IN_BATCH,
            touched: false,
            ended: false,
            moving: None,
            activity: 0,
            link: L::default(),
            session: None,
            output: Output::new(),
            backlog: Vec::new(),
        }
    }
}

impl<C, L> Connection<C, L> {
    /// Whether the service may be asked about it.
    pub(crate) fn is_served(&self) -> bool {
        self.session.is_some() && !matches!(self.mode, Mode::Closing(_))
    }

    /// Puts unsent output back before what was appended meanwhile.
    pub(crate) fn put_back(&mut self, mut rest: Output) {
        for segment in self.output.segments(usize::MAX) {
            rest.bytes().extend_from_slice(segment);
        }
        self.output = rest;
    }

    /// What the kernel should report.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        let reads = match self.mode {
            Mode::Read | Mode::Linger => true,
            Mode::Again => self.backlog.len() < BACKLOG_BYTES_MAX,
            _ => false,
        };
        Interest {
            read: reads && !self.ended && self.moving.is_none(),
            hangup: self.mode == Mode::Hold,
            write: !self.output.is_empty(),
        }
    }
}

#[derive(Debug)]
struct Slot<C, L> {
    generation: u32,
    connection: Option<Connection<C, L>>,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Slots<C, L> {
    slots: Vec<Slot<C, L>>,
    free: Vec<u32>,
}

impl<C, L> Slots<C, L> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, connection: Connection<C, L>) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(
                self.slots.len() < SLOTS_MAX as usize,
                "too many connections in one loop"
            );
            self.slots.push(Slot {
                generation: 1,
                connection: None,
            });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.connection = Some(connection);
        Key {
            slot,
            generation: place.generation,
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Connection<C, L>> {
        let place = self.slots.get(key.slot as usize)?;
        place
            .connection
            .as_ref()
            .filter(|_| place.generation == key.generation)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Connection<C, L>> {
        let place = self.slots.get_mut(key.slot as usize)?;
        place
            .connection
            .as_mut()
            .filter(|_| place.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Connection<C, L>> {
        let place = self.slots.get_mut(key.slot as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let connection = place.connection.take()?;
        place.generation = match place.generation + 1 {
            u32::MAX => 1,
            next => next,
        };
        self.free.push(key.slot);
        Some(connection)
    }

    /// All connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Connection<C, L>)> {
        self.slots.iter().enumerate().filter_map(|(slot, place)| {
            let key = Key {
                slot: slot as u32,
                generation: place.generation,
            };
            place
                .connection
                .as_ref()
                .map(|connection| (key, connection))
        })
    }

    /// All connections, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Connection<C, L>)> {
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(|(slot, place)| {
                let key = Key {
                    slot: slot as u32,
                    generation: place.generation,
                };
                place
                    .connection
                    .as_mut()
                    .map(|connection| (key, connection))
            })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    // Filled by the loop's own tests; here only the reuse rule.
    use super::*;

    #[test]
    fn a_stale_key_finds_nobody() {
        let mut slots: Slots<(), ()> = Slots::new();
        let descriptor =
            || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let connection = || Connection::new(descriptor());
        let first = slots.insert(connection());
        assert!(slots.remove(first).is_some());
        let second = slots.insert(connection());
        assert_eq!(first.slot, second.slot);
        assert!(slots.get(first).is_none() && slots.remove(first).is_none());
        assert!(slots.get(second).is_some());
        assert_eq!((slots.len(), slots.iter().count()), (1, 1));
    }
}
