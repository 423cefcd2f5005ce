//! Interleavings of closing a safepoint with loops, slow holds, the gate and the queue.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

/// Something only one side may touch at a time; loom reports overlapping or unordered access.
struct Guarded(UnsafeCell<usize>);

impl Guarded {
    fn new() -> loom::sync::Arc<Self> {
        loom::sync::Arc::new(Guarded(UnsafeCell::new(0)))
    }

    fn change(&self) {
        self.0.with_mut(|value| {
            // The pointer is only observed, loom checks the access itself.
            let _ = value;
        });
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model
}

/// The closer and a loop never overlap, and each sees what the other did.
#[test]
fn loom_safepoint_excludes_a_loop() {
    bounded(3).check(|| {
        let safepoint = Safepoint::new();
        let data = Guarded::new();
        let worker = {
            let data = data.clone();
            let participant = safepoint.register();
            thread::spawn(move || {
                participant.enter();
                data.change();
                participant.pass();
                data.change();
                participant.leave();
            })
        };
        safepoint.run(|| data.change());
        worker.join().unwrap();
    });
}

/// Two loops enter and leave while a safepoint is closed; nobody is lost.
#[test]
fn loom_safepoint_with_two_loops() {
    bounded(2).check(|| {
        let safepoint = Safepoint::new();
        let inside = loom::sync::Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let inside = inside.clone();
                let participant = safepoint.register();
                thread::spawn(move || {
                    participant.enter();
                    inside.fetch_add(1, Ordering::Relaxed);
                    inside.fetch_sub(1, Ordering::Relaxed);
                    participant.leave();
                })
            })
            .collect();
        safepoint.run(|| assert_eq!(inside.load(Ordering::Relaxed), 0));
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// A slow command that holds locks across batches of its loop is not cut in half, and the next
/// one waits at the gate, not the loop.
#[test]
fn loom_safepoint_against_a_slow_hold() {
    bounded(3).check(|| {
        let safepoint = Safepoint::new();
        let data = Guarded::new();
        let slow = {
            let (safepoint, data) = (safepoint.clone(), data.clone());
            thread::spawn(move || {
                let hold = safepoint.slow_begin();
                data.change();
                data.change();
                drop(hold);
            })
        };
        safepoint.run(|| data.change());
        safepoint.run(|| data.change());
        slow.join().unwrap();
    });
}

/// A slow command turned away at the gate is given a hold when it opens, and a safepoint after
/// that waits for it.
#[test]
fn loom_safepoint_admits_whoever_waited() {
    bounded(3).check(|| {
        struct Bell(loom::sync::Notify);
        impl Wake for Bell {
            fn wake(&self) {
                self.0.notify();
            }
        }
        let safepoint = Safepoint::new();
        let data = Guarded::new();
        let slow = {
            let (safepoint, data) = (safepoint.clone(), data.clone());
            thread::spawn(move || {
                let bell = Arc::new(Bell(loom::sync::Notify::new()));
                let hold = match safepoint.slow_begin_or_queue(bell.clone()) {
                    Ok(hold) => hold,
                    // loom also wakes sleepers for no reason.
                    Err(mut claim) => loop {
                        bell.0.wait();
                        match claim.collect() {
                            Ok(hold) => break hold,
                            Err(again) => claim = again,
                        }
                    },
                };
                data.change();
                drop(hold);
            })
        };
        safepoint.run(|| data.change());
        safepoint.run(|| data.change());
        slow.join().unwrap();
    });
}

/// Requests reach the serving thread, and it ends.
#[test]
fn loom_safepoint_requests_are_served() {
    bounded(2).check(|| {
        let safepoint = Safepoint::new();
        let ran = loom::sync::Arc::new(AtomicUsize::new(0));
        let server = {
            let safepoint = safepoint.clone();
            thread::spawn(move || safepoint.serve())
        };
        let work = ran.clone();
        let count = move || {
            work.fetch_add(1, Ordering::Relaxed);
        };
        safepoint.request(Box::new(count), None).unwrap();
        safepoint.stop();
        server.join().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    });
}
