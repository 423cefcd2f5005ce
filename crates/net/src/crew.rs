//! What the loops of one server share: their mailboxes, wakers and gauges.
//!
//! Invariant: a letter is either read by the loop or, once that loop has ended, handed back to the
//! sender; none is lost.

use crate::config::MessageSink;
use crate::listener::Listener;
use crate::service::Peer;
use crate::stats::{Gauge, LoopStats};
use crate::waker::Waker;
use base::output::Output;
use env::sync::Mutex;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A message to a loop.
pub(crate) enum Mail<C> {
    /// A newly accepted connection.
    Open { socket: OwnedFd, peer: Peer },
    /// An open connection from another loop, with what it sent and what it is owed.
    Adopt {
        socket: OwnedFd,
        session: Box<C>,
        output: Output,
        backlog: Vec<u8>,
    },
    /// Serve this listener (loop 0 only).
    Listen { index: u32, listener: Arc<Listener> },
    /// Forget this listener (loop 0 only).
    Unlisten { index: u32 },
    /// Stop or resume accepting (loop 0 only).
    Accepting(bool),
    /// Close everything, flushing for at most so long, and end.
    Stop { flush_ns_max: u64 },
}

/// One loop as the others see it.
pub(crate) struct Berth<C> {
    pub(crate) waker: Waker,
    pub(crate) gauge: Gauge,
    backend: OnceLock<&'static str>,
    /// `None` once the loop has ended.
    mail: Mutex<Option<Vec<Mail<C>>>>,
}

/// All loops of a server.
pub(crate) struct Crew<C> {
    pub(crate) berths: Vec<Berth<C>>,
    pub(crate) messages: MessageSink,
    pub(crate) tcp_keepalive_s: AtomicU32,
}

impl<C> Berth<C> {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            waker: Waker::new()?,
            gauge: Gauge::default(),
            backend: OnceLock::new(),
            mail: Mutex::new(Some(Vec::new())),
        })
    }

    /// Posts a letter and wakes the loop; gives it back if the loop has ended.
    pub(crate) fn post(&self, letter: Mail<C>) -> Result<(), Mail<C>> {
        match &mut *self.mail.lock() {
            Some(letters) => letters.push(letter),
            None => return Err(letter),
        }
        self.waker.wake();
        Ok(())
    }

    /// Takes all letters; the loop's own call.
    pub(crate) fn collect(&self) -> Vec<Mail<C>> {
        self.mail
            .lock()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Takes the last letters and closes the box; the loop's last call.
    pub(crate) fn shut(&self) -> Vec<Mail<C>> {
        self.mail.lock().take().unwrap_or_default()
    }

    pub(crate) fn set_backend(&self, name: &'static str) {
        let _ = self.backend.set(name);
    }

    pub(crate) fn stats(&self) -> LoopStats {
        self.gauge
            .snapshot(self.backend.get().copied().unwrap_or("none"))
    }
}

impl<C> Crew<C> {
    pub(crate) fn say(&self, message: &str) {
        (self.messages)(message);
    }

    /// The loop for a new connection: the fewest connections and the least busy, both relative to
    /// the crew; counted at once, so that the next choice sees it.
    pub(crate) fn assign(&self) -> usize {
        let assigned = |berth: &Berth<C>| berth.gauge.assigned.load(Ordering::Relaxed);
        let total: u64 = self.berths.iter().map(assigned).sum();
        let mean = total / self.berths.len() as u64 + 1;
        let load = |berth: &Berth<C>| {
            assigned(berth) * 1000 / mean + berth.gauge.counters.busy_permille.get()
        };
        let (index, berth) = self
            .berths
            .iter()
            .enumerate()
            .min_by_key(|(_, berth)| load(berth))
            .expect("a crew has at least one loop");
        berth.gauge.assigned.fetch_add(1, Ordering::Relaxed);
        index
    }
}
