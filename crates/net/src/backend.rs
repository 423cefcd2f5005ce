//! What a loop needs from the kernel, so that the loop is written once over epoll and io_uring.
//!
//! Readiness (epoll) and completion (io_uring) are brought together like this: an event names a
//! connection; [`Backend::receive`] turns a readable one into bytes, by a system call or by looking
//! at what the kernel has already delivered; [`Backend::send`] either finishes at once or takes the
//! output away until [`Event::Sent`].
//!
//! Invariants:
//! - Bytes of a connection come out of `receive` in the order in which they were sent.
//! - Of one connection at most one send is under way, and its output belongs to the backend.
//! - After [`Backend::cancel`] no input comes; the connection's descriptor may be closed once the
//!   link is idle.

use crate::service::Token;
use base::output::Output;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Slot and generation of a connection in its loop; the inside of a [`Token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Key {
    pub(crate) fn token(self) -> Token {
        Token(self.bits())
    }

    pub(crate) fn of(token: Token) -> Self {
        Self::from_bits(token.0)
    }

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self {
            slot: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// Slots are numbered below this, so that a slot, a generation and a kind fit into 64 bits.
pub(crate) const SLOTS_MAX: u32 = 1 << 28;

/// What the loop wants to hear of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    /// Input.
    pub(crate) read: bool,
    /// That the peer closed, though input is not wanted.
    pub(crate) hangup: bool,
    /// Room for output (only where sends do not complete by themselves).
    pub(crate) write: bool,
}

/// Something happened.
#[derive(Debug)]
pub(crate) enum Event<P> {
    /// A listener has connections; ask [`Backend::accept`].
    Acceptable { listener: u32, pending: P },
    /// Input, end of input or an error may be had from [`Backend::receive`].
    Readable { key: Key, pending: P },
    /// There is room for output.
    Writable { key: Key },
    /// A send is over; take it by [`Backend::sent`].
    Sent { key: Key, result: i32 },
    /// The peer closed its end, or the connection broke; input was not wanted.
    Hangup { key: Key },
}

/// Answer of [`Backend::receive`].
#[derive(Debug)]
pub(crate) enum Received<C> {
    /// At least one byte.
    Bytes(C),
    /// Nothing now.
    Nothing,
    /// The peer closed its end.
    End,
    /// The connection broke.
    Failed(Errno),
}

/// Answer of [`Backend::send`] and [`Backend::sent`].
#[derive(Debug)]
pub(crate) enum Sent {
    /// So many bytes went; the output is given back and advanced, maybe empty.
    Now(Output, usize),
    /// The output is with the kernel until [`Event::Sent`].
    Later,
    /// The connection broke.
    Failed(Output, Errno),
}

/// Answer of [`Backend::accept`].
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection; there may be more.
    One(OwnedFd),
    /// No more for now.
    Nothing,
    /// Accepting failed.
    Failed(Errno),
}

/// One kernel interface, owned and called by one loop.
pub(crate) trait Backend: Sized {
    /// What the backend keeps with each connection.
    type Link: Default + std::fmt::Debug;
    /// What an event carries for `receive` or `accept`.
    type Pending: Copy + std::fmt::Debug;
    /// Received bytes; must go back by `release`.
    type Chunk: std::fmt::Debug;

    const NAME: &'static str;
    /// Input may come although it is not wanted (any more), and must then be taken.
    const COMPLETES: bool;

    /// Starts (or, after it stopped by itself, restarts) accepting.
    fn arm_accept(&mut self, listener: u32, socket: BorrowedFd<'_>) -> io::Result<()>;
    /// Stops accepting.
    fn disarm_accept(&mut self, listener: u32, socket: BorrowedFd<'_>);
    /// The next connection of an `Acceptable` event.
    fn accept(&mut self, listener: u32, socket: BorrowedFd<'_>, pending: Self::Pending)
    -> Accepted;

    /// Makes the kernel report what is wanted and nothing else. Cheap if nothing changes.
    fn watch(
        &mut self,
        key: Key,
        socket: BorrowedFd<'_>,
        link: &mut Self::Link,
        want: Interest,
    ) -> io::Result<()>;

    /// Input of a `Readable` event. Must be called for each such event of a live connection.
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        link: &mut Self::Link,
        pending: Self::Pending,
    ) -> Received<Self::Chunk>;
    /// Disposes of a `Readable` event whose connection is gone.
    fn discard(&mut self, pending: Self::Pending);
    /// The bytes of a chunk.
    fn bytes<'a>(&'a self, chunk: &'a Self::Chunk) -> &'a [u8];
    /// Gives a chunk back.
    fn release(&mut self, chunk: Self::Chunk);
    /// A new batch begins; no chunk is outstanding.
    fn begin_batch(&mut self);
    /// Whether another `receive` can succeed in this batch.
    fn has_room(&self) -> bool;

    /// Sends a non-empty output. Not to be called while the link is sending.
    fn send(
        &mut self,
        key: Key,
        socket: BorrowedFd<'_>,
        link: &mut Self::Link,
        output: Output,
    ) -> Sent;
    /// Takes back the output of a `Sent` event.
    fn sent(&mut self, link: &mut Self::Link, result: i32) -> Sent;
    /// Bytes under way, 0 if no send is.
    fn sending(&self, link: &Self::Link) -> usize;
    /// Hands queued sends to the kernel without waiting.
    fn flush(&mut self) -> io::Result<()>;

    /// Ends everything that is under way for this connection. Events tell when the link is idle.
    fn cancel(&mut self, key: Key, socket: BorrowedFd<'_>, link: &mut Self::Link);
    /// Whether the kernel holds nothing of this connection.
    fn is_idle(&self, link: &Self::Link) -> bool;

    /// Waits until something happens or `timeout_ns` passed (0: only looks) and appends events.
    fn wait(&mut self, timeout_ns: u64, events: &mut Vec<Event<Self::Pending>>) -> io::Result<()>;
}
