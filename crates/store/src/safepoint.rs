//! Moments at which nobody is inside the keyspace: FLUSHALL, SWAPDB, a snapshot's cut, attaching a
//! consumer of the journal.
//!
//! *Participants* (loops, housekeeping, walkers) are inside while they work and outside while they
//! sleep or wait. *Holds* are slow commands, which keep key locks for longer than a batch. A
//! safepoint is closed in three steps, so that only its own start is late, nobody else:
//!
//! ```text
//!   1. gate shut:   no new hold; loops run on; wait until the last hold has ended
//!   2. pausing:     each participant leaves at its next batch boundary and waits
//!   3. closed:      the work runs (microseconds); then pausing ends, then the gate opens
//! ```
//!
//! Invariants:
//! - The work never runs while a participant is inside or a hold exists.
//! - A hold is taken before the command draws its ticket for key locks, so nobody waits at the gate
//!   with a place in a lock queue, and every hold can end while the gate is shut.
//! - One hold per command: whoever has one never waits at the gate for a second.
//! - A participant never waits for a safepoint while it is inside. It asks with
//!   [`Safepoint::request`] and goes on.
//!
//! The crossing of `inside = true; fence; read pausing` and `pausing = true; fence; read inside`
//! guarantees that a participant sees the pause, or the closer sees the participant. The same
//! crossing on the way out guarantees that the closer sees it leave, or is notified.

use crate::locks::Wake;
use env::sync::atomic::{AtomicBool, Ordering, fence};
use env::sync::{CachePadded, Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Work to be done at a safepoint. It must be short: every client waits for it.
pub type Work = Box<dyn FnOnce() + Send>;

/// The process's safepoint; clones share it.
#[derive(Clone)]
pub struct Safepoint(Arc<Shared>);

struct Shared {
    /// Read by every participant at every batch boundary, written twice per safepoint.
    pausing: CachePadded<AtomicBool>,
    pause: Mutex<Vec<Arc<CachePadded<Seat>>>>,
    /// A participant left while `pausing`.
    left: Condvar,
    /// `pausing` has ended.
    resumed: Condvar,
    gate: Mutex<Gate>,
    /// The last hold has ended, or the gate has opened.
    gate_changed: Condvar,
    /// Held from shutting the gate until it opens: one safepoint at a time.
    closing: Mutex<()>,
    queue: Mutex<Queue>,
    queue_changed: Condvar,
}

struct Seat {
    inside: AtomicBool,
}

#[derive(Default)]
struct Gate {
    holds: usize,
    shut: bool,
    /// Number of openings. Everybody who waits at an opening gets a hold by it, so that a stream of
    /// safepoints starves nobody.
    openings: u64,
    /// Threads waiting in [`Safepoint::slow_begin`].
    threads: usize,
    /// Commands waiting with a [`GateClaim`].
    claims: Vec<(u64, Arc<dyn Wake>)>,
    next_claim: u64,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<(Work, Option<Arc<dyn Wake>>)>,
    stopping: bool,
}

/// A thread that works inside the keyspace and can be paused between two batches. Dropping it
/// leaves and unregisters.
pub struct Participant {
    shared: Arc<Shared>,
    seat: Arc<CachePadded<Seat>>,
}

/// Permission of one slow command to hold key locks; dropping it ends it.
pub struct SlowHold(Arc<Shared>);

/// A slow command's place at the shut gate; dropping it gives up the place, or the hold it has been
/// given.
pub struct GateClaim {
    shared: Arc<Shared>,
    id: u64,
    /// Value of `openings` when the claim was made.
    openings: u64,
    collected: bool,
}

/// The server is stopping: the work was not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

impl Safepoint {
    /// A safepoint without participants.
    pub fn new() -> Self {
        Safepoint(Arc::new(Shared {
            pausing: CachePadded::new(AtomicBool::new(false)),
            pause: Mutex::new(Vec::new()),
            left: Condvar::new(),
            resumed: Condvar::new(),
            gate: Mutex::new(Gate::default()),
            gate_changed: Condvar::new(),
            closing: Mutex::new(()),
            queue: Mutex::new(Queue::default()),
            queue_changed: Condvar::new(),
        }))
    }

    /// A new participant, outside.
    pub fn register(&self) -> Participant {
        let seat = Arc::new(CachePadded::new(Seat {
            inside: AtomicBool::new(false),
        }));
        self.0.pause.lock().push(Arc::clone(&seat));
        Participant {
            shared: Arc::clone(&self.0),
            seat,
        }
    }

    /// Permission to hold key locks, waiting while the gate is shut. For threads that may wait: not
    /// for a participant that is inside, and not on the slow lane while a command that has its hold
    /// may be queued for the same thread.
    pub fn slow_begin(&self) -> SlowHold {
        let mut gate = self.0.gate.lock();
        if gate.shut {
            gate.threads += 1;
            let openings = gate.openings;
            while gate.openings == openings {
                self.0.gate_changed.wait(&mut gate);
            }
            // Whoever opened the gate has counted this hold.
        } else {
            gate.holds += 1;
        }
        SlowHold(Arc::clone(&self.0))
    }

    /// Permission to hold key locks, or a place at the gate: `owner` is woken when there is a hold
    /// to collect.
    pub fn slow_begin_or_queue(&self, owner: Arc<dyn Wake>) -> Result<SlowHold, GateClaim> {
        let mut gate = self.0.gate.lock();
        if !gate.shut {
            gate.holds += 1;
            return Ok(SlowHold(Arc::clone(&self.0)));
        }
        let id = gate.next_claim;
        gate.next_claim += 1;
        gate.claims.push((id, owner));
        let openings = gate.openings;
        Err(GateClaim {
            shared: Arc::clone(&self.0),
            id,
            openings,
            collected: false,
        })
    }

    /// Runs `work` at a safepoint and returns its result. Waits for all holds to end, so the caller
    /// has none, and is no participant that is inside.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let shared = &*self.0;
        let closing = shared.closing.lock();
        shared.shut_gate();
        shared.pause_all();
        let result = work();
        shared.resume_all();
        let waiting = shared.open_gate();
        drop(closing);
        for (_, owner) in waiting {
            owner.wake();
        }
        result
    }

    /// Queues `work` for the thread that runs [`Safepoint::serve`]; requests are run in the order
    /// in which they came. `done` is woken afterwards, when the participants go on.
    ///
    /// # Errors
    /// After [`Safepoint::stop`].
    pub fn request(&self, work: Work, done: Option<Arc<dyn Wake>>) -> Result<(), Stopped> {
        let mut queue = self.0.queue.lock();
        if queue.stopping {
            return Err(Stopped);
        }
        queue.requests.push_back((work, done));
        self.0.queue_changed.notify_one();
        Ok(())
    }

    /// Runs requests until [`Safepoint::stop`]; those queued before it are still run. All that wait
    /// when a safepoint is closed share it.
    pub fn serve(&self) {
        loop {
            let mut queue = self.0.queue.lock();
            while queue.requests.is_empty() {
                if queue.stopping {
                    return;
                }
                self.0.queue_changed.wait(&mut queue);
            }
            drop(queue);
            let done = self.run(|| {
                let requests = std::mem::take(&mut self.0.queue.lock().requests);
                let run = |(work, done): (Work, _)| {
                    work();
                    done
                };
                requests
                    .into_iter()
                    .map(run)
                    .collect::<Vec<Option<Arc<dyn Wake>>>>()
            });
            for owner in done.into_iter().flatten() {
                owner.wake();
            }
        }
    }

    /// Starts a thread that serves requests until [`Safepoint::stop`].
    pub fn spawn_server(&self) -> io::Result<env::thread::JoinHandle<()>> {
        let safepoint = self.clone();
        env::thread::spawn_named("safepoint", move || safepoint.serve())
    }

    /// Lets [`Safepoint::serve`] return once its queue is empty; further requests are refused.
    pub fn stop(&self) {
        self.0.queue.lock().stopping = true;
        self.0.queue_changed.notify_all();
    }
}

impl Participant {
    /// Goes inside, after a pause if there is one. The participant is outside.
    #[inline]
    pub fn enter(&self) {
        self.seat.inside.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.shared.pausing.load(Ordering::Acquire) {
            self.enter_after_pause();
        }
    }

    /// Goes outside: before sleeping, or waiting for anything that a safepoint may delay.
    #[inline]
    pub fn leave(&self) {
        self.seat.inside.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.shared.pausing.load(Ordering::Relaxed) {
            self.shared.notify_left();
        }
    }

    /// A batch boundary, without sleeping: one relaxed load if nobody closes a safepoint. The
    /// participant is inside, before and after, and holds no latch.
    #[inline]
    pub fn pass(&self) {
        if self.shared.pausing.load(Ordering::Relaxed) {
            self.leave();
            self.enter();
        }
    }

    /// Is it inside?
    pub fn is_inside(&self) -> bool {
        self.seat.inside.load(Ordering::Relaxed)
    }

    #[cold]
    fn enter_after_pause(&self) {
        loop {
            self.leave();
            let mut pause = self.shared.pause.lock();
            while self.shared.pausing.load(Ordering::Relaxed) {
                self.shared.resumed.wait(&mut pause);
            }
            drop(pause);
            self.seat.inside.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !self.shared.pausing.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

impl Shared {
    fn shut_gate(&self) {
        let mut gate = self.gate.lock();
        assert!(!gate.shut, "two safepoints at once");
        gate.shut = true;
        while gate.holds > 0 {
            self.gate_changed.wait(&mut gate);
        }
    }

    fn open_gate(&self) -> Vec<(u64, Arc<dyn Wake>)> {
        let mut gate = self.gate.lock();
        gate.shut = false;
        gate.openings += 1;
        gate.holds += gate.threads + gate.claims.len();
        gate.threads = 0;
        self.gate_changed.notify_all();
        std::mem::take(&mut gate.claims)
    }

    fn end_hold(&self) {
        let mut gate = self.gate.lock();
        assert!(gate.holds > 0, "a hold that was not counted");
        gate.holds -= 1;
        if gate.holds == 0 && gate.shut {
            // All: others wait here for the gate to open.
            self.gate_changed.notify_all();
        }
    }

    /// On return every participant is outside, and none comes in before [`Shared::resume_all`].
    fn pause_all(&self) {
        let mut seats = self.pause.lock();
        self.pausing.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while seats.iter().any(|seat| seat.inside.load(Ordering::Acquire)) {
            self.left.wait(&mut seats);
        }
    }

    fn resume_all(&self) {
        // Under the mutex: a participant that has read `pausing` under it is waiting by now. The
        // release hands what the work wrote to whoever reads false without it.
        let seats = self.pause.lock();
        self.pausing.store(false, Ordering::Release);
        drop(seats);
        self.resumed.notify_all();
    }

    #[cold]
    fn notify_left(&self) {
        // Under the mutex: the closer has not looked yet, or waits.
        let seats = self.pause.lock();
        self.left.notify_one();
        drop(seats);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.leave();
        self.shared
            .pause
            .lock()
            .retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

impl GateClaim {
    /// The hold, if the gate has been opened since the claim was made.
    pub fn collect(mut self) -> Result<SlowHold, GateClaim> {
        if self.shared.gate.lock().openings == self.openings {
            return Err(self);
        }
        self.collected = true;
        Ok(SlowHold(Arc::clone(&self.shared)))
    }
}

impl Drop for GateClaim {
    fn drop(&mut self) {
        if self.collected {
            return;
        }
        let mut gate = self.shared.gate.lock();
        if gate.openings == self.openings {
            gate.claims.retain(|&(id, _)| id != self.id);
            return;
        }
        drop(gate);
        self.shared.end_hold();
    }
}

impl Drop for SlowHold {
    fn drop(&mut self) {
        self.0.end_hold();
    }
}

impl Default for Safepoint {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Safepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gate = self.0.gate.lock();
        f.debug_struct("Safepoint")
            .field("holds", &gate.holds)
            .field("shut", &gate.shut)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("inside", &self.is_inside())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GateClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateClaim")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SlowHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlowHold")
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
