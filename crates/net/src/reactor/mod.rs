//! One loop: waits for events, turns them into batches, sends what the service answers.
//!
//! ```text
//! wait -> [ gather <= 64 connections -> prepare -> run -> send each ]* -> mail, inbox -> tick
//!          \__ repeated until the events of this wait and the queue of this pass are used up
//! ```
//!
//! It never looks into the bytes. Everything here is safe code over a [`Backend`].
//!
//! Invariants:
//! - Every session given by `open` or `adopt` ends in exactly one `close` or one departure.
//! - The loop blocks only if the queue is empty and its bell was not rung.
//! - A connection that is not reading leaves its bytes in the socket (epoll) or, for the little
//!   that was already under way, in its backlog, which is delivered before anything newer.

mod balance;
mod batch;
mod desk;
mod door;
mod traffic;

use crate::backend::{Backend, Event, Key};
use crate::crew::{Berth, Crew};
use crate::service::{Closed, Ready, Service};
use crate::slots::Slots;
use base::output::Output;
use batch::Item;
use door::Door;
use env::clock::monotonic_ns;
use std::collections::VecDeque;
use std::sync::Arc;

/// Time between two calls of [`Service::tick`].
const TICK_NS: u64 = 100_000_000;
/// How long a finished connection may take to accept the rest of its output, and then to close.
const LINGER_NS: u64 = 1_000_000_000;

/// See the module's text.
pub(crate) struct Reactor<S: Service, B: Backend> {
    index: usize,
    service: Arc<S>,
    worker: S::Worker,
    backend: B,
    crew: Arc<Crew<S::Conn>>,
    slots: Slots<S::Conn, B::Link>,
    /// Listeners by number; on loop 0 only.
    doors: Vec<Option<Door>>,
    accepting: bool,

    events: Vec<Event<B::Pending>>,
    /// Events of connections that were already in the batch, in order.
    deferred: VecDeque<Event<B::Pending>>,
    /// Connections to run in the next pass.
    queue: VecDeque<Key>,
    items: Vec<Item<B::Chunk>>,
    /// Empty between batches; keeps its memory.
    batch: Vec<Ready<'static, S::Conn>>,
    pool: Vec<Output>,
    scratch: Vec<Vec<u8>>,

    /// Connections with output appended outside a batch.
    touched: Vec<Key>,
    /// Connections the service wants closed at once.
    aborted: Vec<Key>,
    /// When connections that are flushing or lingering are given up, soonest first.
    deadlines: VecDeque<(u64, Key)>,

    now: u64,
    awake_since: u64,
    tick_at: u64,
    balance: balance::Balance,
    /// Set once the loop shall end: when it ends at the latest.
    stop_at: Option<u64>,
}

impl<S: Service, B: Backend> Reactor<S, B> {
    /// A loop that has not served anything yet; calls [`Service::start`].
    pub(crate) fn new(index: usize, service: Arc<S>, backend: B, crew: Arc<Crew<S::Conn>>) -> Self {
        let worker = service.start(index, crew.berths[index].waker.clone());
        let now = monotonic_ns();
        Self {
            index,
            service,
            worker,
            backend,
            crew,
            slots: Slots::new(),
            doors: Vec::new(),
            accepting: true,
            events: Vec::new(),
            deferred: VecDeque::new(),
            queue: VecDeque::new(),
            items: Vec::new(),
            batch: Vec::new(),
            pool: Vec::new(),
            scratch: Vec::new(),
            touched: Vec::new(),
            aborted: Vec::new(),
            deadlines: VecDeque::new(),
            now,
            awake_since: now,
            tick_at: now + TICK_NS,
            balance: balance::Balance::new(now),
            stop_at: None,
        }
    }

    /// Serves until it is told to stop.
    pub(crate) fn run(mut self) {
        loop {
            self.wait();
            self.serve();
            if self.berth().waker.bell().take() {
                self.read_mail();
                self.at_desk(|service, worker, desk| service.inbox(worker, desk));
            }
            if self.now >= self.tick_at {
                self.tick();
            }
            if let Some(stop_at) = self.stop_at
                && (self.slots.len() == 0 || self.now >= stop_at)
            {
                break;
            }
        }
        self.end();
    }

    fn berth(&self) -> &Berth<S::Conn> {
        &self.crew.berths[self.index]
    }

    fn wait(&mut self) {
        let waker = &self.crew.berths[self.index].waker;
        let counters = &*self.crew.berths[self.index].gauge.counters;
        let before = monotonic_ns();
        counters.busy_ns.add(before - self.awake_since);
        let timeout_ns = self.tick_at.saturating_sub(before);
        let asleep = self.queue.is_empty() && timeout_ns > 0 && waker.bell().doze();
        let waited = if asleep {
            self.service.sleeping(&mut self.worker, true);
            let waited = self.backend.wait(timeout_ns, &mut self.events);
            self.service.sleeping(&mut self.worker, false);
            waker.bell().rouse();
            self.now = monotonic_ns();
            waited
        } else {
            self.now = before;
            self.backend.wait(0, &mut self.events)
        };
        self.awake_since = self.now;
        counters.passes.add(1);
        counters.events.add(self.events.len() as u64);
        if let Err(error) = waited {
            panic!("the {} backend cannot wait: {error}", B::NAME);
        }
    }

    fn tick(&mut self) {
        self.tick_at = self.now + TICK_NS;
        self.at_desk(|service, worker, desk| service.tick(worker, desk));
        while let Some(&(deadline, key)) = self.deadlines.front()
            && deadline <= self.now
        {
            self.deadlines.pop_front();
            self.give_up(key);
        }
        self.retry_doors();
        self.rebalance();
    }

    /// Everything must go: the time to flush is over, or nothing is left.
    fn end(mut self) {
        let keys: Vec<Key> = self.slots.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.end_session(key, Closed::Shutdown);
        }
        for letter in self.berth().shut() {
            self.refuse_letter(letter);
        }
    }
}
