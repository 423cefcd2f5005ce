//! The tables of all shards, and the protocol by which a command comes to its locks.
//!
//! 1. [`LockTable::begin`] draws a ticket.
//! 2. For each key, with the latch of its bucket held and the bucket's key-locked bit set:
//!    [`LockTable::enqueue`]. Only that key's shard is locked meanwhile, so a command of a million
//!    keys holds one table for a moment, a million times.
//! 3. [`LockTable::seal`]: granted at once, or [`Wake::wake`] comes later.
//! 4. Afterwards exactly one of [`LockTable::release`] and, before the grant,
//!    [`LockTable::cancel`].
//!
//! Invariants:
//! - Whoever holds a lock waits for nothing (but see *late keys*), and whoever waits holds nothing:
//!   an entry of a request that is not granted gives no right, it is a place in a line.
//! - A request waits only for running holders and for requests with earlier tickets. The earliest
//!   request that is not granted therefore waits for running holders only: no cycle, no
//!   starvation, whatever the order in which requests were entered into their queues.
//! - No owner is called, no latch and no second table is taken, with a table locked.
//!
//! *Late keys.* A running command may ask for a further key without waiting, at any time. It may
//! wait for one only while it owns the process's [`WaitToken`](super::WaitToken); it then goes
//! before all that are not granted, and so waits for running holders only, none of which waits.

use super::queue::Queue;
use super::request::{Effects, Inner, KeyAt, Phase, Request, Wake};
use super::token::TokenHeld;
use env::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use env::sync::{CachePadded, Mutex};
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// How a key is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Beside other shared ones.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// May the two not hold one key together?
    pub fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// Key locks of the whole process.
pub struct LockTable {
    shards: Box<[Shard]>,
    /// Touched only by commands that come here, never on the path of short commands.
    next_ticket: CachePadded<AtomicU64>,
}

struct Shard {
    /// Number of queues, readable without the mutex.
    keys: CachePadded<AtomicUsize>,
    queues: Mutex<Queues>,
}

type Queues = HashMap<(u32, u64), Queue, BuildHasherDefault<HashedKey>>;

/// Entries looked through by [`LockTable::any_entry_matching`] before it answers "maybe".
const SEARCH_KEYS_MAX: usize = 64;

/// Requests of more keys yield the processor while they are taken out of their queues.
const YIELDING_KEYS_MIN: usize = 1024;

/// Keys released under one locking of a shard's table.
const RELEASE_RUN_KEYS: usize = 32;

impl LockTable {
    /// `shards` as the keyspace has.
    pub fn new(shards: usize) -> Self {
        LockTable {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            next_ticket: CachePadded::new(AtomicU64::new(1)),
        }
    }

    /// A new request with the next ticket. Its owner then enqueues and seals it.
    pub fn begin(&self, owner: Arc<dyn Wake>) -> Request {
        Request::new(self.next_ticket.fetch_add(1, Ordering::Relaxed), owner)
    }

    /// Adds a key, in the stronger mode if it was there. The caller holds the latch of the key's
    /// bucket and has set the bucket's key-locked bit: no short command is inside, and none enters
    /// without asking [`LockTable::blocks`].
    pub fn enqueue(&self, request: &Request, shard: usize, db: u32, hash: u64, mode: Mode) {
        let mut effects = Effects::default();
        self.shards[shard].with_queue(db, hash, |queue| {
            if queue.enqueue(&request.0, mode, &mut effects) {
                request.0.add_key(shard, db, hash);
            }
        });
        effects.run();
    }

    /// All keys are added. True if the locks are granted; otherwise the owner will be woken.
    #[must_use = "a granted request must run and be released"]
    pub fn seal(&self, request: &Request) -> bool {
        request.0.seal()
    }

    /// Does the owner hold its locks?
    pub fn is_granted(&self, request: &Request) -> bool {
        request.is_granted()
    }

    /// The granted command has ended: gives its locks to whoever is next, and wakes them.
    pub fn release(&self, request: &Request) {
        request.0.release();
        self.remove_all(&request.0);
    }

    /// The command will not run (client gone, timeout). False if it was granted first: then the
    /// caller must [`LockTable::release`].
    #[must_use = "a request that was granted first must be released"]
    pub fn cancel(&self, request: &Request) -> bool {
        let cancelled = request.0.cancel();
        if cancelled {
            self.remove_all(&request.0);
        }
        cancelled
    }

    /// Ends a request whichever way it stands: cancels it, or releases it if it was granted first.
    pub fn end(&self, request: &Request) {
        if request.is_granted() || !self.cancel(request) {
            self.release(request);
        }
    }

    /// Must a short command keep away from this key? It asks with the latch held, if the bucket's
    /// key-locked bit is set; if so it becomes a request itself. Waiters count as holders do, else
    /// a stream of short commands would starve them.
    pub fn blocks(&self, shard: usize, db: u32, hash: u64, mode: Mode) -> bool {
        let shard = &self.shards[shard];
        if shard.keys.load(Ordering::Acquire) == 0 {
            return false;
        }
        let queues = shard.queues.lock();
        queues
            .get(&(db, hash))
            .is_some_and(|queue| queue.blocks(mode))
    }

    /// Number of keys with a queue. Exact for entries made under a latch the caller holds.
    pub fn entries_in(&self, shard: usize) -> usize {
        self.shards[shard].keys.load(Ordering::Acquire)
    }

    /// Hashes of the keys of a database that have a queue.
    pub fn hashes_of(&self, shard: usize, db: u32) -> Vec<u64> {
        if self.entries_in(shard) == 0 {
            return Vec::new();
        }
        let queues = self.shards[shard].queues.lock();
        let own = queues.keys().filter(|&&(entry_db, _)| entry_db == db);
        own.map(|&(_, hash)| hash).collect()
    }

    /// May some entry of this database have a hash for which `matches` is true? With the latch of a
    /// bucket held, false means that the bucket's key-locked bit may be cleared. Answers true
    /// without looking if the shard has very many entries: a stale bit costs a look-up, a long
    /// search under a latch costs more.
    pub fn any_entry_matching(
        &self,
        shard: usize,
        db: u32,
        mut matches: impl FnMut(u64) -> bool,
    ) -> bool {
        let shard = &self.shards[shard];
        if shard.keys.load(Ordering::Acquire) == 0 {
            return false;
        }
        let queues = shard.queues.lock();
        queues.len() > SEARCH_KEYS_MAX
            || queues
                .keys()
                .any(|&(entry_db, hash)| entry_db == db && matches(hash))
    }

    /// Adds a key to a granted request, without waiting. Latch and bit as for
    /// [`LockTable::enqueue`]. False, with nothing changed, if the key is held in a conflicting
    /// mode or an earlier request waits for it.
    #[must_use = "without the lock the key must not be touched"]
    pub fn try_enqueue_granted(
        &self,
        request: &Request,
        shard: usize,
        db: u32,
        hash: u64,
        mode: Mode,
    ) -> bool {
        assert_eq!(
            request.0.phase(),
            Phase::Granted,
            "a late key of a request that has not begun"
        );
        let mut effects = Effects::default();
        let added = self.shards[shard].with_queue(db, hash, |queue| {
            let added = queue.try_add_late(&request.0, mode, &mut effects);
            if added == Some(true) {
                request.0.add_key(shard, db, hash);
            }
            added
        });
        effects.run();
        added.is_some()
    }

    /// Adds a key to a granted request and waits for it, under the token. True if the lock is there
    /// at once; otherwise the owner is woken when it is, and asks for no other key until then.
    #[must_use = "without the lock the key must not be touched"]
    pub fn enqueue_late(
        &self,
        request: &Request,
        _token: &TokenHeld,
        shard: usize,
        db: u32,
        hash: u64,
        mode: Mode,
    ) -> bool {
        assert_eq!(request.0.phase(), Phase::Granted, "a second late key");
        let mut effects = Effects::default();
        let ready = self.shards[shard].with_queue(db, hash, |queue| {
            let (ready, new) = queue.add_late(&request.0, mode, &mut effects);
            // Before the table is unlocked: from then on the owner may be woken elsewhere.
            if new {
                request.0.add_key(shard, db, hash);
            }
            ready
        });
        effects.run();
        ready
    }

    /// Is the request still waiting for a late key?
    pub fn waits_late(&self, request: &Request) -> bool {
        request.0.phase() == Phase::LateWaiting
    }

    /// Gives up waiting for a late key (script killed). False if the lock has come: the request
    /// holds it. In both cases the request is granted as before.
    pub fn abandon_late(&self, request: &Request, shard: usize, db: u32, hash: u64) -> bool {
        let mut effects = Effects::default();
        let abandoned = self.shards[shard].with_queue(db, hash, |queue| {
            queue.abandon_late(&request.0, &mut effects)
        });
        if abandoned == Some(false) {
            request.0.forget_key(shard, db, hash);
        }
        effects.run();
        abandoned.is_some()
    }

    /// Takes all entries out, one shard locked at a time, and wakes whoever is next.
    fn remove_all(&self, request: &Arc<Inner>) {
        let keys = std::mem::take(&mut *request.keys.lock());
        let mut rest = keys.as_slice();
        while let Some(first) = rest.first() {
            let run = rest
                .iter()
                .take(RELEASE_RUN_KEYS)
                .take_while(|key| key.shard == first.shard)
                .count();
            let mut effects = Effects::default();
            self.shards[first.shard as usize].remove(request, &rest[..run], &mut effects);
            effects.run();
            rest = &rest[run..];
            // A million keys take their time; others run in between.
            if !rest.is_empty() && keys.len() > YIELDING_KEYS_MIN {
                env::thread::yield_now();
            }
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn check_invariants(&self) {
        for shard in &self.shards {
            let queues = shard.queues.lock();
            assert_eq!(queues.len(), shard.keys.load(Ordering::Relaxed));
            for queue in queues.values() {
                assert!(!queue.is_empty());
                queue.check_invariants();
            }
        }
    }
}

impl Shard {
    fn new() -> Self {
        Shard {
            keys: CachePadded::new(AtomicUsize::new(0)),
            queues: Mutex::new(Queues::default()),
        }
    }

    /// Runs `act` on the key's queue, which is made if absent and dropped if empty afterwards.
    fn with_queue<R>(&self, db: u32, hash: u64, act: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queues = self.queues.lock();
        let result = match queues.entry((db, hash)) {
            MapEntry::Occupied(mut slot) => {
                let result = act(slot.get_mut());
                if slot.get().is_empty() {
                    slot.remove();
                }
                result
            }
            MapEntry::Vacant(slot) => {
                let mut queue = Queue::default();
                let result = act(&mut queue);
                if !queue.is_empty() {
                    slot.insert(queue);
                }
                result
            }
        };
        self.keys.store(queues.len(), Ordering::Release);
        result
    }

    fn remove(&self, request: &Arc<Inner>, keys: &[KeyAt], effects: &mut Effects) {
        let mut queues = self.queues.lock();
        for key in keys {
            let MapEntry::Occupied(mut slot) = queues.entry((key.db, key.hash)) else {
                panic!("a request's key has no queue");
            };
            slot.get_mut().remove(request, effects);
            if slot.get().is_empty() {
                slot.remove();
            }
        }
        // A table that once was huge would make every later search of it long.
        if queues.len() <= SEARCH_KEYS_MAX && queues.capacity() > 64 * SEARCH_KEYS_MAX {
            queues.shrink_to_fit();
        }
        self.keys.store(queues.len(), Ordering::Release);
    }
}

impl fmt::Debug for LockTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: usize = (0..self.shards.len())
            .map(|shard| self.entries_in(shard))
            .sum();
        f.debug_struct("LockTable")
            .field("shards", &self.shards.len())
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// Spreads hashes that are keyed and random already, but share their top bits within a shard.
#[derive(Default)]
struct HashedKey(u64);

impl Hasher for HashedKey {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u32(&mut self, db: u32) {
        self.0 ^= u64::from(db) << 40;
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 ^= hash;
    }

    fn finish(&self) -> u64 {
        // An odd constant near 2^64 divided by the golden ratio carries low bits upwards.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
