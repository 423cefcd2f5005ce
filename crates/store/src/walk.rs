//! Looking at the whole keyspace: SCAN, KEYS, RANDOMKEY, counts. Atomic per bucket, not as a whole.

use crate::store::Store;
use env::random::Rng;
use structures::keymap::View;

/// Buckets visited per key asked for, at most, before a SCAN step ends early.
const BUCKETS_PER_KEY: usize = 10;
/// Attempts to hit a live key before RANDOMKEY walks.
const SAMPLES_MAX: usize = 128;

impl Store {
    /// Number of keys of a database, those included whose time is over but that are still there.
    pub fn len_of(&self, db: usize) -> u64 {
        self.maps().map(|map| map.counts(db).keys).sum()
    }

    /// Number of keys of a database that have an expiry.
    pub fn expires_of(&self, db: usize) -> u64 {
        self.maps().map(|map| map.counts(db).expires).sum()
    }

    /// One SCAN step from `cursor`: about `count` keys are shown to `visit`. Returns the next
    /// cursor, 0 at the end. A key that is there during the whole scan is shown at least once.
    ///
    /// The cursor holds the shard in its low bits and the table's own cursor above them.
    pub fn scan(
        &self,
        db: usize,
        cursor: u64,
        count: usize,
        now_ms: i64,
        visit: &mut dyn FnMut(&[u8], &View<'_>),
    ) -> u64 {
        let shards = self.shards() as u64;
        let bits = shards.trailing_zeros();
        let mut shard = cursor & (shards - 1);
        let mut inner = cursor >> bits;
        let (mut shown, mut buckets) = (0, 0);
        let mut key = Vec::new();
        loop {
            inner = self.map_at(shard as usize).scan(db, inner, &mut |view| {
                if view.expire_at().is_some_and(|at| at <= now_ms) {
                    return;
                }
                shown += 1;
                key.clear();
                view.key_into(&mut key);
                visit(&key, view);
            });
            buckets += 1;
            if inner == 0 {
                shard += 1;
                if shard == shards {
                    return 0;
                }
            }
            if shown >= count || buckets >= count.saturating_mul(BUCKETS_PER_KEY) {
                return inner << bits | shard;
            }
        }
    }

    /// Shows every live key to `visit` until it returns false.
    pub fn for_each_key(
        &self,
        db: usize,
        now_ms: i64,
        visit: &mut dyn FnMut(&[u8], &View<'_>) -> bool,
    ) {
        let mut cursor = 0;
        let mut more = true;
        loop {
            cursor = self.scan(db, cursor, 1, now_ms, &mut |key, view| {
                if more {
                    more = visit(key, view);
                }
            });
            if cursor == 0 || !more {
                return;
            }
        }
    }

    /// A live key chosen about evenly; `None` if the database has none.
    pub fn random_key(&self, db: usize, now_ms: i64, rng: &mut Rng) -> Option<Vec<u8>> {
        for _ in 0..SAMPLES_MAX {
            let total = self.len_of(db);
            if total == 0 {
                return None;
            }
            let mut pick = rng.below(total);
            let map = self.maps().find(|map| {
                let own = map.counts(db).keys;
                let here = pick < own;
                pick = pick.saturating_sub(own);
                here
            });
            let Some(map) = map else { continue };
            let mut chosen = None;
            map.sample(db, rng, &mut |view| {
                if view.expire_at().is_none_or(|at| at > now_ms) {
                    let mut key = Vec::new();
                    view.key_into(&mut key);
                    chosen = Some(key);
                }
            });
            if chosen.is_some() {
                return chosen;
            }
        }
        let mut first = None;
        self.for_each_key(db, now_ms, &mut |key, _| {
            first = Some(key.to_vec());
            false
        });
        first
    }
}
