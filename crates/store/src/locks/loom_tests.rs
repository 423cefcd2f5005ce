//! Interleavings of enqueue, seal, grant, cancel and release.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

/// An owner that sleeps until it is granted.
struct Bell {
    notify: Notify,
    rung: AtomicUsize,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Bell {
            notify: Notify::new(),
            rung: AtomicUsize::new(0),
        })
    }

    /// loom also wakes sleepers for no reason.
    fn wait(&self) {
        while self.rung.load(Ordering::Acquire) == 0 {
            self.notify.wait();
        }
    }
}

impl Wake for Bell {
    fn wake(&self) {
        let before = self.rung.fetch_add(1, Ordering::AcqRel);
        assert_eq!(before, 0, "woken twice");
        self.notify.notify();
    }
}

/// What a key protects; loom reports overlapping or unordered access.
struct Data([UnsafeCell<usize>; 2]);

impl Data {
    fn new() -> loom::sync::Arc<Self> {
        loom::sync::Arc::new(Data([UnsafeCell::new(0), UnsafeCell::new(0)]))
    }

    fn write(&self, key: u64) {
        self.0[key as usize].with_mut(|value| {
            let _ = value;
        });
    }

    fn read(&self, key: u64) {
        self.0[key as usize].with(|value| {
            let _ = value;
        });
    }
}

/// Takes the keys, in this order, waits, touches them, releases.
fn run(table: &LockTable, data: &Data, keys: &[(u64, Mode)]) {
    let bell = Bell::new();
    let request = table.begin(bell.clone());
    for &(key, mode) in keys {
        table.enqueue(&request, key as usize, 0, key, mode);
    }
    if !table.seal(&request) {
        bell.wait();
        assert!(table.is_granted(&request));
    }
    for &(key, mode) in keys {
        match mode {
            Mode::Shared => data.read(key),
            Mode::Exclusive => data.write(key),
        }
    }
    table.release(&request);
}

fn model(preemptions: usize, commands: &'static [&'static [(u64, Mode)]]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let table = loom::sync::Arc::new(LockTable::new(2));
        let data = Data::new();
        let threads: Vec<_> = commands[1..]
            .iter()
            .map(|keys| {
                let (table, data) = (table.clone(), data.clone());
                thread::spawn(move || run(&table, &data, keys))
            })
            .collect();
        run(&table, &data, commands[0]);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((table.entries_in(0), table.entries_in(1)), (0, 0));
    });
}

const SHARED: Mode = Mode::Shared;
const EXCLUSIVE: Mode = Mode::Exclusive;

/// Opposite orders of the same two keys: the classical deadlock.
#[test]
fn loom_locks_opposite_orders() {
    model(
        3,
        &[
            &[(0, EXCLUSIVE), (1, EXCLUSIVE)],
            &[(1, EXCLUSIVE), (0, EXCLUSIVE)],
        ],
    );
}

/// A pair against single-key commands on both sides.
#[test]
fn loom_locks_pair_between_singles() {
    model(
        2,
        &[
            &[(0, EXCLUSIVE), (1, EXCLUSIVE)],
            &[(0, EXCLUSIVE)],
            &[(1, EXCLUSIVE)],
        ],
    );
}

/// Readers beside a writer of one of their keys.
#[test]
fn loom_locks_readers_and_writer() {
    model(
        2,
        &[
            &[(0, SHARED), (1, SHARED)],
            &[(1, SHARED), (0, SHARED)],
            &[(0, EXCLUSIVE), (1, SHARED)],
        ],
    );
}

/// Three pairs in a ring.
#[test]
fn loom_locks_ring() {
    model(
        1,
        &[
            &[(0, EXCLUSIVE), (1, EXCLUSIVE)],
            &[(1, EXCLUSIVE), (0, EXCLUSIVE)],
            &[(1, SHARED), (0, EXCLUSIVE)],
        ],
    );
}

/// A waiter's client goes while the holder releases: either it was cancelled, or it was granted
/// and woken and releases. Whoever comes behind it is granted in both cases.
#[test]
fn loom_locks_cancel_against_grant() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let table = loom::sync::Arc::new(LockTable::new(2));
        let data = Data::new();
        let holder = table.begin(Bell::new());
        table.enqueue(&holder, 0, 0, 0, EXCLUSIVE);
        assert!(table.seal(&holder));
        let bell = Bell::new();
        let waiter = table.begin(bell.clone());
        table.enqueue(&waiter, 0, 0, 0, EXCLUSIVE);
        table.enqueue(&waiter, 1, 0, 1, EXCLUSIVE);
        assert!(!table.seal(&waiter));
        let behind = {
            let (table, data) = (table.clone(), data.clone());
            thread::spawn(move || run(&table, &data, &[(1, EXCLUSIVE)]))
        };
        let canceller = {
            let (table, data) = (table.clone(), data.clone());
            thread::spawn(move || {
                if !table.cancel(&waiter) {
                    bell.wait();
                    data.write(0);
                    data.write(1);
                    table.release(&waiter);
                }
            })
        };
        data.write(0);
        table.release(&holder);
        behind.join().unwrap();
        canceller.join().unwrap();
        assert_eq!((table.entries_in(0), table.entries_in(1)), (0, 0));
    });
}

/// An earlier request is inserted before a later one at the moment the later one is sealed: it is
/// overtaken or granted, not both.
#[test]
fn loom_locks_overtake_against_seal() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let table = loom::sync::Arc::new(LockTable::new(2));
        let data = Data::new();
        let early_bell = Bell::new();
        let early = table.begin(early_bell.clone());
        let later = {
            let (table, data) = (table.clone(), data.clone());
            thread::spawn(move || run(&table, &data, &[(0, EXCLUSIVE), (1, SHARED)]))
        };
        table.enqueue(&early, 1, 0, 1, EXCLUSIVE);
        table.enqueue(&early, 0, 0, 0, SHARED);
        if !table.seal(&early) {
            early_bell.wait();
        }
        data.write(1);
        data.read(0);
        table.release(&early);
        later.join().unwrap();
    });
}

/// A script reaches for a key of others, without waiting, or under the token.
#[test]
fn loom_locks_late_key() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let table = loom::sync::Arc::new(LockTable::new(2));
        let token = WaitToken::new();
        let data = Data::new();
        let pair = {
            let (table, data) = (table.clone(), data.clone());
            thread::spawn(move || run(&table, &data, &[(1, EXCLUSIVE), (0, EXCLUSIVE)]))
        };
        let late = Arc::new(Late {
            notify: Notify::new(),
            grants: AtomicUsize::new(0),
        });
        let script = table.begin(late.clone());
        table.enqueue(&script, 0, 0, 0, EXCLUSIVE);
        let mut grants = usize::from(!table.seal(&script));
        late.wait(grants);
        data.write(0);
        if !table.try_enqueue_granted(&script, 1, 0, 1, EXCLUSIVE) {
            let held = token.try_take().expect("nobody else wants it");
            grants += usize::from(!table.enqueue_late(&script, &held, 1, 0, 1, EXCLUSIVE));
            late.wait(grants);
            assert!(!table.waits_late(&script));
        }
        data.write(1);
        table.release(&script);
        pair.join().unwrap();
        assert_eq!((table.entries_in(0), table.entries_in(1)), (0, 0));
    });
}

/// An owner that is granted more than once.
struct Late {
    notify: Notify,
    grants: AtomicUsize,
}

impl Late {
    fn wait(&self, grants: usize) {
        while self.grants.load(Ordering::Acquire) < grants {
            self.notify.wait();
        }
    }
}

impl Wake for Late {
    fn wake(&self) {
        self.grants.fetch_add(1, Ordering::AcqRel);
        self.notify.notify();
    }
}

/// The token is handed on to a claim that comes or goes at the same time.
#[test]
fn loom_token_is_handed_on() {
    loom::model(|| {
        let token = WaitToken::new();
        let data = Data::new();
        let other = {
            let (token, data) = (token.clone(), data.clone());
            thread::spawn(move || {
                let bell = Bell::new();
                let held = match token.take_or_queue(bell.clone()) {
                    Ok(held) => held,
                    Err(claim) => {
                        bell.wait();
                        claim.collect().expect("woken")
                    }
                };
                data.write(0);
                drop(held);
            })
        };
        match token.take_or_queue(Bell::new()) {
            Ok(held) => {
                data.write(0);
                drop(held);
            }
            Err(claim) => drop(claim),
        }
        other.join().unwrap();
        assert!(token.try_take().is_some());
    });
}
