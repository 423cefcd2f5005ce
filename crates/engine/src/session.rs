//! One connection as the engine sees it.

use crate::clients::Client;
use crate::lane::Parked;
use base::output::Output;
use env::sync::Arc;
use resp::{Progress, Version};

/// CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// Nothing is sent.
    Off,
    /// The next command's reply is not sent.
    SkipNext,
    /// This command's reply is not sent.
    Skipping,
}

/// What commands see and change of their connection. Travels to the slow lane with a slow command.
#[derive(Debug)]
pub struct Session {
    /// CLIENT ID.
    pub id: u64,
    /// Selected database.
    pub db: usize,
    /// Protocol version of replies.
    pub version: Version,
    /// May run commands.
    pub authenticated: bool,
    /// Connected from this machine.
    pub local: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// Close once the reply is out.
    pub close_after_reply: bool,
}

/// What a connection is doing.
#[derive(Debug)]
pub(crate) enum State {
    /// Runs its commands.
    Ready,
    /// A command waits for its key locks, or runs on the slow lane; later input is kept.
    Suspended(Arc<Parked>),
    /// No more commands: a protocol error or QUIT.
    Closing,
}

/// What the loop holds for a connection.
#[derive(Debug)]
pub struct Conn {
    /// Shared description.
    pub client: Arc<Client>,
    /// Unconsumed input; empty for an idle connection.
    pub(crate) pending: Vec<u8>,
    /// Where unconsumed input begins in `pending`.
    pub(crate) pending_start: usize,
    /// Parser's memory of an incomplete command.
    pub(crate) progress: Progress,
    /// Commands and their effects on the connection.
    pub(crate) session: Option<Box<Session>>,
    pub(crate) state: State,
    /// Output grew over the soft limit at this time (ms), 0 if it is under.
    pub(crate) soft_limit_since_ms: i64,
}

impl Conn {
    /// Bytes received and not yet consumed.
    pub fn pending(&self) -> &[u8] {
        &self.pending[self.pending_start..]
    }

    /// Keeps `rest` as the unconsumed input that did not come from `pending`.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        debug_assert!(self.pending.is_empty());
        self.pending.extend_from_slice(rest);
        self.pending_start = 0;
    }

    /// Drops `count` bytes from the front of `pending`; frees the buffer when it is empty.
    pub(crate) fn consume(&mut self, count: usize) {
        self.pending_start += count;
        if self.pending_start == self.pending.len() {
            self.pending = Vec::new();
            self.pending_start = 0;
        } else if self.pending_start > self.pending.len() / 2 {
            self.pending.drain(..self.pending_start);
            self.pending_start = 0;
        }
    }

    /// True if it may move to another loop.
    pub fn movable(&self) -> bool {
        matches!(self.state, State::Ready) && self.session.is_some()
    }

    /// True while a command waits or runs elsewhere.
    pub fn suspended(&self) -> bool {
        matches!(self.state, State::Suspended(_))
    }
}

/// What the loop shall do with the connection next; mirrors the loop's own vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read more.
    Read,
    /// Call again without new input.
    Again,
    /// Call again once the output has drained.
    Drain,
    /// Do not read until resumed.
    Hold,
    /// Send, then close.
    Close,
    /// Close at once.
    Abort,
}

/// One connection of a batch.
#[derive(Debug)]
pub struct Item<'a> {
    /// The connection.
    pub conn: &'a mut Conn,
    /// New input.
    pub input: &'a [u8],
    /// Unsent replies.
    pub output: &'a mut Output,
    /// What to do next.
    pub flow: &'a mut Flow,
}

/// A batch of connections, whatever the loop keeps them in.
pub trait Items {
    /// Number of connections.
    fn len(&self) -> usize;
    /// True if there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Connection `index`.
    fn item(&mut self, index: usize) -> Item<'_>;
}
