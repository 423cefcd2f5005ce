//! Threads for commands that take long, below the loops.
//!
//! A job runs to its end on one thread; it has its locks and its hold of the safepoint before it is
//! submitted, and knows here only [`SlowCx::breathe`], which it calls often. The lane knows no
//! commands, keys or clients.
//!
//! *Rank.* Every [`TURN_US`] of run time a job yields its processor, until somebody waits for its
//! locks: then it is *raised*, yields no more, and takes its full share. Measured on two cores
//! (Linux 6.18, unprivileged): a loop that wakes up on a processor where a job runs waits 66 µs if
//! nothing else runs, 74 µs beside a job that yields every 50 µs, 215 µs at 200 µs, and up to 3.7 ms
//! beside one that never yields; a loop that never sleeps keeps 96, 87 and 50 % of the processor.
//! What the yields cost the job is below the noise of 7 %. `SCHED_IDLE` would be stronger, but a process without privileges
//! cannot undo it, so whoever waits for the job's locks would wait for an idle processor.
//! `SCHED_BATCH`, which the threads use, only keeps their own wake-ups from interrupting a loop.
//!
//! Invariants:
//! - A job that waits for a key while it holds others (the owner of the token) occupies a thread;
//!   there is at most one such job and there are at least two threads, so the others go on.
//! - At most `queue_max` jobs wait. One more is refused with [`LaneError::Full`], and its owner
//!   answers its client with an error, having released its locks.
//! - A panic in a job ends the process: half a change must not live on.

use env::sync::atomic::{AtomicBool, Ordering};
use env::sync::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Run time between two yields of a job that nobody waits for, in µs.
pub const TURN_US: u64 = 50;

/// A thread above the minimum ends after so long without a job.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Size of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLimits {
    /// Threads kept, parked when idle; at least 2.
    pub threads_min: usize,
    /// Threads at most, started when jobs wait.
    pub threads_max: usize,
    /// Jobs waiting for a thread at most.
    pub queue_max: usize,
}

impl Default for LaneLimits {
    fn default() -> Self {
        LaneLimits {
            threads_min: 2,
            threads_max: 8,
            queue_max: 1024,
        }
    }
}

/// What a job does.
pub type SlowWork = Box<dyn FnOnce(&SlowCx<'_>) + Send>;

/// Why a job was not taken. The work comes back unrun.
pub enum LaneError {
    /// `queue_max` jobs wait.
    Full(SlowWork),
    /// The lane is stopping.
    Stopped(SlowWork),
}

/// The job does not need to be finished: its client is gone, or it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// What others may say to a job, before, while and after it runs.
#[derive(Debug, Default)]
pub struct SlowJob {
    cancelled: AtomicBool,
    raised: AtomicBool,
}

impl SlowJob {
    /// A job not yet submitted. Made early, so that the owner of its lock request can pass
    /// [`Wake::awaited`](crate::locks::Wake::awaited) on to it.
    pub fn new() -> Arc<Self> {
        Arc::new(SlowJob {
            cancelled: AtomicBool::new(false),
            raised: AtomicBool::new(false),
        })
    }

    /// Somebody waits for its locks: it goes to the head of the queue, and yields no more.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Nobody waits any more.
    pub fn lower(&self) {
        self.raised.store(false, Ordering::Release);
    }

    /// Is somebody waiting for its locks?
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Asks the job to end early; it learns so when it next breathes.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Was it asked to end early?
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// What a running job has of its thread.
#[derive(Debug)]
pub struct SlowCx<'a> {
    job: &'a SlowJob,
    turn_start_ns: Cell<u64>,
}

impl SlowCx<'_> {
    /// Called by a job at points where it could stop, at least every few µs; costs a reading of the
    /// clock. Yields the processor when the turn is over.
    ///
    /// # Errors
    /// [`Cancelled`] if the job should end early.
    pub fn breathe(&self) -> Result<(), Cancelled> {
        if self.job.is_cancelled() {
            return Err(Cancelled);
        }
        let turn_ns = env::clock::monotonic_ns() - self.turn_start_ns.get();
        if turn_ns >= TURN_US * 1_000 {
            if !self.job.is_raised() {
                env::thread::yield_now();
            }
            self.turn_start_ns.set(env::clock::monotonic_ns());
        }
        Ok(())
    }

    /// The job, as others see it.
    pub fn job(&self) -> &SlowJob {
        self.job
    }
}

/// The lane; clones share it.
#[derive(Clone)]
pub struct SlowLane(Arc<Lane>);

struct Lane {
    limits: LaneLimits,
    state: Mutex<State>,
    /// A job was queued, or the lane stops.
    queued: Condvar,
    /// A thread has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Arc<SlowJob>, SlowWork)>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl SlowLane {
    /// A lane without threads: they start with the first jobs.
    pub fn new(limits: LaneLimits) -> Self {
        assert!(
            limits.threads_min >= 2,
            "a waiting script would occupy the only thread"
        );
        assert!(limits.threads_max >= limits.threads_min);
        SlowLane(Arc::new(Lane {
            limits,
            state: Mutex::new(State::default()),
            queued: Condvar::new(),
            ended: Condvar::new(),
        }))
    }

    /// A lane that keeps `threads` threads (at least 2) and starts them now, so that a machine that
    /// gives no threads is noticed early. Under load it grows to twice as many, or 8.
    pub fn start(threads: usize) -> io::Result<Self> {
        let threads_min = threads.max(2);
        let defaults = LaneLimits::default();
        let lane = SlowLane::new(LaneLimits {
            threads_min,
            threads_max: defaults.threads_max.max(2 * threads_min),
            ..defaults
        });
        for _ in 0..threads_min {
            let mut state = lane.0.state.lock();
            lane.0.spawn(&mut state)?;
        }
        Ok(lane)
    }

    /// Queues a job. It runs when a thread is free, raised jobs first, otherwise in this order.
    ///
    /// # Errors
    /// See [`LaneError`]; nothing has been run.
    pub fn submit(&self, job: Arc<SlowJob>, work: SlowWork) -> Result<(), LaneError> {
        let lane = &self.0;
        let mut state = lane.state.lock();
        if state.stopping {
            return Err(LaneError::Stopped(work));
        }
        let waiting = state.queue.len();
        // Idle threads have been notified of as many jobs already.
        let grow = state.idle <= waiting && state.threads < lane.limits.threads_max;
        if !grow && waiting >= lane.limits.queue_max + state.idle {
            return Err(LaneError::Full(work));
        }
        if grow && lane.spawn(&mut state).is_err() && state.threads == 0 {
            return Err(LaneError::Full(work));
        }
        // If the machine gives no more threads, those there are will do.
        state.queue.push_back((job, work));
        drop(state);
        lane.queued.notify_one();
        Ok(())
    }

    /// Jobs waiting for a thread.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().queue.len()
    }

    /// Threads there are.
    pub fn threads(&self) -> usize {
        self.0.state.lock().threads
    }

    /// Refuses further jobs, lets those submitted finish, and returns when all threads have ended.
    /// Whoever wants it sooner cancels them first.
    pub fn stop(&self) {
        let mut state = self.0.state.lock();
        state.stopping = true;
        self.0.queued.notify_all();
        while state.threads > 0 {
            self.0.ended.wait(&mut state);
        }
    }
}

impl Lane {
    fn spawn(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let lane = Arc::clone(self);
        env::thread::spawn_named("slow-lane", move || lane.serve())?;
        state.threads += 1;
        Ok(())
    }

    fn serve(&self) {
        // Refused at worst, which costs a loop an interruption.
        let _ = env::thread::set_batch_priority();
        while let Some((job, work)) = self.next() {
            let _bomb = AbortOnPanic;
            let turn_start_ns = Cell::new(env::clock::monotonic_ns());
            work(&SlowCx {
                job: &job,
                turn_start_ns,
            });
        }
    }

    /// The next job; `None` ends the thread, which has been counted out.
    fn next(&self) -> Option<(Arc<SlowJob>, SlowWork)> {
        let mut state = self.state.lock();
        loop {
            if let Some(at) = state.queue.iter().position(|(job, _)| job.is_raised()) {
                return state.queue.remove(at);
            }
            if let Some(next) = state.queue.pop_front() {
                return Some(next);
            }
            let mut surplus = false;
            if !state.stopping {
                state.idle += 1;
                surplus = self.queued.wait_for(&mut state, IDLE_MAX).timed_out();
                state.idle -= 1;
                surplus &= state.queue.is_empty() && state.threads > self.limits.threads_min;
            }
            if surplus || (state.stopping && state.queue.is_empty()) {
                state.threads -= 1;
                self.ended.notify_all();
                return None;
            }
        }
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl fmt::Debug for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LaneError::Full(_) => "Full",
            LaneError::Stopped(_) => "Stopped",
        })
    }
}

impl fmt::Debug for SlowLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowLane")
            .field("threads", &self.threads())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const SMALL: LaneLimits = LaneLimits {
        threads_min: 2,
        threads_max: 2,
        queue_max: 3,
    };

    /// A job that tells that it runs and then breathes until cancelled.
    fn endless(started: &mpsc::Sender<()>) -> SlowWork {
        let started = started.clone();
        Box::new(move |cx| {
            started.send(()).expect("the test listens");
            while cx.breathe().is_ok() {}
        })
    }

    #[test]
    fn the_bound_raised_jobs_and_stop() {
        let lane = SlowLane::new(SMALL);
        let (started, runs) = mpsc::channel();
        let long = [SlowJob::new(), SlowJob::new()];
        for job in &long {
            lane.submit(Arc::clone(job), endless(&started)).unwrap();
            runs.recv().unwrap();
        }
        let (report, order) = mpsc::channel();
        let job_named = |name: u32| -> SlowWork {
            let report = report.clone();
            Box::new(move |_| report.send(name).unwrap())
        };
        let waiting = [SlowJob::new(), SlowJob::new(), SlowJob::new()];
        for (name, job) in waiting.iter().enumerate() {
            lane.submit(Arc::clone(job), job_named(name as u32))
                .unwrap();
        }
        assert!(matches!(
            lane.submit(SlowJob::new(), job_named(9)),
            Err(LaneError::Full(_))
        ));
        assert_eq!((lane.threads(), lane.waiting()), (2, 3));
        waiting[2].raise();
        long[0].cancel();
        assert_eq!([0; 3].map(|_| order.recv().unwrap()), [2, 0, 1]);
        long[1].cancel();
        lane.stop();
        assert_eq!(lane.threads(), 0);
        assert!(matches!(
            lane.submit(SlowJob::new(), job_named(9)),
            Err(LaneError::Stopped(_))
        ));
    }

    #[test]
    fn stop_runs_what_was_submitted() {
        let lane = SlowLane::start(3).unwrap();
        assert_eq!(lane.threads(), 3);
        let (report, order) = mpsc::channel();
        for number in 0..200u32 {
            let report = report.clone();
            lane.submit(
                SlowJob::new(),
                Box::new(move |_| report.send(number).unwrap()),
            )
            .unwrap();
        }
        lane.stop();
        let mut ran: Vec<u32> = order.try_iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..200).collect::<Vec<_>>());
    }
}
