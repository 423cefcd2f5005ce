//! Removing keys whose time is over: when somebody meets one, and by a sweep that looks only at
//! buckets with an expiry in them.

use crate::keys::KeyUse;
use crate::locks::Mode;
use crate::store::Store;
use std::sync::atomic::Ordering::Relaxed;
use structures::keymap::Probe;

/// Buckets looked at before the sweep looks at the clock.
const BUCKETS_PER_STEP: u64 = 256;
/// Spins for a latch; a busy bucket is left for the next round.
const LATCH_SPINS: u32 = 20;

/// Where the sweep is.
#[derive(Debug, Default, Clone)]
pub struct SweepCursor {
    shard: usize,
    db: usize,
    bucket: u64,
}

/// What one sweep did.
#[derive(Debug, Default, Clone, Copy)]
pub struct Swept {
    /// Keys removed.
    pub removed: u64,
    /// Keys with an expiry looked at.
    pub seen: u64,
    /// It came once around everything.
    pub complete: bool,
}

impl Store {
    /// Removes `key` if its time is over and nobody has it locked. True if removed.
    pub fn expire_if_due(&self, key: &KeyUse<'_>, now_ms: i64) -> bool {
        let map = self.map(key.hash);
        let Some(mut latch) = map.latch(key.db, key.hash, LATCH_SPINS) else {
            return false;
        };
        let shard = self.shard(key.hash);
        if latch.key_locked()
            && self
                .locks
                .blocks(shard, key.db as u32, key.hash, Mode::Exclusive)
        {
            return false;
        }
        let Some(slot) = latch.find(&Probe {
            key: key.key,
            hash: key.hash,
        }) else {
            return false;
        };
        if latch.view(slot).expire_at().is_none_or(|at| at > now_ms) {
            return false;
        }
        let blob = latch.remove(slot);
        drop(latch);
        map.maintain(key.db);
        self.count_expired(1);
        self.drop_later(blob.into_iter().collect());
        true
    }

    /// Goes on sweeping from `cursor` until `deadline_ns` (monotonic) or once around.
    pub fn sweep(&self, cursor: &mut SweepCursor, now_ms: i64, deadline_ns: u64) -> Swept {
        let mut swept = Swept::default();
        let start = (cursor.shard, cursor.db);
        let mut dropped = Vec::new();
        let mut first = true;
        loop {
            let map = self.map_at(cursor.shard);
            let mut removed = 0;
            let next = if map.counts(cursor.db).expires == 0 {
                0
            } else {
                let db = cursor.db;
                map.walk_expiring(db, cursor.bucket, BUCKETS_PER_STEP, &mut |latch, slot| {
                    swept.seen += 1;
                    let due = latch.view(slot).expire_at().is_some_and(|at| at <= now_ms);
                    // Who has a key of this bucket locked sees it as it was; next round then.
                    if due && !latch.key_locked() {
                        dropped.extend(latch.remove(slot));
                        removed += 1;
                    }
                })
            };
            if removed > 0 {
                swept.removed += removed;
                self.count_expired(removed);
                self.drop_later(std::mem::take(&mut dropped));
                map.maintain(cursor.db);
            }
            cursor.bucket = next;
            if next == 0 {
                cursor.db += 1;
                if cursor.db == self.databases() {
                    cursor.db = 0;
                    cursor.shard = (cursor.shard + 1) % self.shards();
                }
                if (cursor.shard, cursor.db) == start && !first {
                    swept.complete = true;
                    return swept;
                }
                first = false;
            }
            if env::clock::monotonic_ns() >= deadline_ns {
                return swept;
            }
        }
    }

    /// Turns the sweep off and on (DEBUG SET-ACTIVE-EXPIRE).
    pub fn set_sweeping(&self, on: bool) {
        self.sweeping.store(on, Relaxed);
    }

    /// Is the sweep on?
    pub fn is_sweeping(&self) -> bool {
        self.sweeping.load(Relaxed)
    }

    /// Accounts for one turn of the sweep.
    pub fn note_sweep(&self, spent_ns: u64, capped: bool) {
        self.sweep_us.fetch_add(spent_ns / 1000, Relaxed);
        self.sweep_caps.fetch_add(u64::from(capped), Relaxed);
    }

    /// Time spent sweeping, ms.
    pub fn sweep_ms(&self) -> u64 {
        self.sweep_us.load(Relaxed) / 1000
    }

    /// Turns of the sweep that ended for lack of time.
    pub fn sweep_caps(&self) -> u64 {
        self.sweep_caps.load(Relaxed)
    }
}
