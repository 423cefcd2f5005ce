//! The seam between the loops, which move bytes, and whoever understands them.
//!
//! A loop hands its [`Service`] a *batch* of connections that have input or were woken, in two
//! steps: [`Service::prepare`] (parse, hash, prefetch: a hint only) and [`Service::run`] (execute
//! in order, append replies). The loop never looks into the bytes, the service never sees a socket.
//!
//! Invariants:
//! - A connection is in at most one batch at a time and belongs to exactly one loop.
//! - `input` is valid until `run` returns; what the service wants to keep it copies.
//! - Replies leave in the order in which they were appended to `output`.

use base::output::Output;
use std::net::SocketAddr;

/// Names a connection within its loop: slot number and generation, so that a stale token never
/// reaches a newcomer in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// Where a connection came from.
#[derive(Debug, Clone)]
pub enum Address {
    /// TCP, IPv4 or IPv6.
    Tcp(SocketAddr),
    /// Unix socket; the path of the listening socket.
    Unix(String),
}

/// What is known of a connection when it is accepted.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client's end.
    pub remote: Address,
    /// Our end.
    pub local: Address,
    /// File descriptor number, for CLIENT LIST only.
    pub fd: i32,
    /// Index of the listener (as given to the server) that accepted it.
    pub listener: usize,
}

/// One connection of a batch.
#[derive(Debug)]
pub struct Ready<'a, C> {
    /// The connection's name in this loop.
    pub token: Token,
    /// The service's session.
    pub conn: Box<C>,
    /// Bytes received since the last batch; empty if the connection was only resumed.
    pub input: &'a [u8],
    /// Unsent replies; the service appends.
    pub output: Output,
    /// The service's answer: what the loop does next with this connection.
    pub flow: Flow,
}

/// What a loop does with a connection after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Send, and read more.
    Read,
    /// Complete commands are still buffered, or a command was deferred on a busy latch: include it
    /// in the next pass without new input; the loop must not sleep meanwhile.
    Again,
    /// Too much unsent output: stop reading, and run it again once the output has drained.
    Drain,
    /// Parked and its input buffer is full: do not read until resumed. (A parked session that still
    /// has room answers `Read` and buffers.)
    Hold,
    /// Send what there is, then close.
    Close,
    /// Close at once, dropping unsent output.
    Abort,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed or reset it.
    ByPeer,
    /// The service asked for it (`Flow::Close`, `Flow::Abort`, `Desk::close`).
    ByService,
    /// A receive or send failed.
    Failed,
    /// The server stops.
    Shutdown,
}

/// What a service may do to connections of the calling loop outside a batch.
pub trait Desk<C> {
    /// Put the connection into the next batch (without input). False if the token is stale.
    fn resume(&mut self, token: Token) -> bool;
    /// Close it; `flush` sends pending output first. False if the token is stale.
    fn close(&mut self, token: Token, flush: bool) -> bool;
    /// Session and unsent output of a connection that is not in a batch; output appended here is
    /// sent soon. None if the token is stale.
    fn with(&mut self, token: Token) -> Option<(&mut C, &mut Output)>;
    /// Tokens of all connections of this loop.
    fn tokens(&self) -> Vec<Token>;
}

/// Who understands the bytes. One value shared by all loops.
pub trait Service: Send + Sync + 'static {
    /// Per-loop state; never leaves its thread.
    type Worker;
    /// Per-connection state; moves with its connection between loops.
    type Conn: Send + 'static;

    /// Called once on each loop's thread before it serves. `waker` makes this loop call
    /// [`Service::inbox`] soon, from any thread.
    fn start(&self, index: usize, waker: crate::Waker) -> Self::Worker;

    /// A new connection. `Err(bytes)` refuses it: the bytes are sent, then it is closed.
    fn open(
        &self,
        worker: &mut Self::Worker,
        token: Token,
        peer: Peer,
    ) -> Result<Box<Self::Conn>, Vec<u8>>;

    /// A connection arrived from another loop and has a new token here.
    fn adopt(&self, worker: &mut Self::Worker, token: Token, conn: &mut Self::Conn);

    /// May this connection move to another loop now? (Not while parked, blocked, subscribed.)
    fn movable(&self, conn: &Self::Conn) -> bool;

    /// Step one: parse, hash, prefetch. No effects that a client can see.
    fn prepare(&self, worker: &mut Self::Worker, batch: &mut [Ready<'_, Self::Conn>]);

    /// Step two: execute in order, append replies, set `flow`.
    fn run(&self, worker: &mut Self::Worker, batch: &mut [Ready<'_, Self::Conn>]);

    /// The loop was woken: take messages meant for it. Called at most once per pass.
    fn inbox(&self, worker: &mut Self::Worker, desk: &mut dyn Desk<Self::Conn>);

    /// Output is still unsent after a send. `pending` is in bytes. False closes the connection
    /// (client-output-buffer-limit).
    fn pending(&self, worker: &mut Self::Worker, conn: &mut Self::Conn, pending: usize) -> bool;

    /// About every 100 ms, also when idle. `desk` for idle timeouts and limits.
    fn tick(&self, worker: &mut Self::Worker, desk: &mut dyn Desk<Self::Conn>);

    /// The loop is about to wait for events / has woken up: the service leaves and enters its
    /// critical region (safepoints). Not called when the loop only polls.
    fn sleeping(&self, worker: &mut Self::Worker, asleep: bool);

    /// The connection is gone.
    fn close(&self, worker: &mut Self::Worker, conn: Box<Self::Conn>, why: Closed);
}
