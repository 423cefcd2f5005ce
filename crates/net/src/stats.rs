//! Counters of a loop: written by its own thread only, read by anybody at any time.

use env::sync::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only the owning thread may call this: it is a load and a store, not one operation.
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.get().wrapping_add(by), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a loop counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) passes: Counter,
    pub(crate) events: Counter,
    pub(crate) batches: Counter,
    pub(crate) batched_connections: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) accepted: Counter,
    pub(crate) adopted: Counter,
    pub(crate) migrated: Counter,
    pub(crate) busy_ns: Counter,
    /// Busy share of the last full window, in thousandths.
    pub(crate) busy_permille: Counter,
    pub(crate) connections: Counter,
}

/// The shared, written part of a loop: its counters and its number of connections, which the
/// acceptor raises when it chooses the loop, so that a storm of connections is spread at once.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pub(crate) counters: CachePadded<Counters>,
    /// Connections of this loop plus those on their way to it.
    pub(crate) assigned: CachePadded<AtomicU64>,
}

/// One loop's counters at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopStats {
    /// "io_uring" or "epoll".
    pub backend: &'static str,
    /// Open connections.
    pub connections: u64,
    /// Passes of the loop.
    pub passes: u64,
    /// Events taken from the kernel.
    pub events: u64,
    /// Batches handed to the service.
    pub batches: u64,
    /// Connections in these batches, summed.
    pub batched_connections: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections accepted by this loop (for itself or others).
    pub accepted: u64,
    /// Connections that came from other loops after they were open.
    pub adopted: u64,
    /// Connections given to other loops after they were open.
    pub migrated: u64,
    /// Nanoseconds not spent waiting.
    pub busy_ns: u64,
    /// Share of the last tenth of a second not spent waiting, in thousandths.
    pub busy_permille: u64,
}

impl Gauge {
    pub(crate) fn snapshot(&self, backend: &'static str) -> LoopStats {
        let c = &*self.counters;
        LoopStats {
            backend,
            connections: c.connections.get(),
            passes: c.passes.get(),
            events: c.events.get(),
            batches: c.batches.get(),
            batched_connections: c.batched_connections.get(),
            bytes_in: c.bytes_in.get(),
            bytes_out: c.bytes_out.get(),
            accepted: c.accepted.get(),
            adopted: c.adopted.get(),
            migrated: c.migrated.get(),
            busy_ns: c.busy_ns.get(),
            busy_permille: c.busy_permille.get(),
        }
    }
}
