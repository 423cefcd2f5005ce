//! The keyspace: shards, and what belongs to all of them.

use crate::edit::Edit;
use crate::keys::KeyUse;
use crate::locks::{LockTable, Mode, Request, Wake};
use crate::safepoint::Safepoint;
use crate::slow_lane::{LaneLimits, SlowLane};
use base::hash::SipKeys;
use base::output::Blob;
use env::sync::{Arc, CachePadded, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use structures::keymap::{Detached, OutOfMemory};
use structures::{Config as MapConfig, KeyMap};

/// Safepoints come one at a time, so more threads would only wait for each other.
const SAFEPOINT_LANE: LaneLimits = LaneLimits {
    threads_min: 2,
    threads_max: 2,
    queue_max: 1024,
};

/// Sizes fixed at start.
#[derive(Debug, Clone, Copy)]
pub struct StoreConfig {
    /// Shards; a power of two, about 16 per thread.
    pub shards: usize,
    /// Databases.
    pub databases: usize,
    /// Memory of the machine, bytes: what address space is reserved for.
    pub memory_bytes: u64,
    /// Threads of the slow lane.
    pub lane_threads: usize,
}

/// The keyspace. Shared by all threads.
#[derive(Debug)]
pub struct Store {
    shards: Box<[CachePadded<KeyMap>]>,
    shift: u32,
    hasher: SipKeys,
    pub(crate) locks: LockTable,
    safepoint: Safepoint,
    lane: SlowLane,
    safepoint_lane: SlowLane,
    databases: usize,
    /// Keys removed by time outside commands.
    expired: AtomicU64,
    /// Values out of line and whole tables waiting to be freed by housekeeping.
    trash: Mutex<Trash>,
    trash_len: AtomicU64,
    lazyfreed: AtomicU64,
    pub(crate) sweeping: AtomicBool,
    pub(crate) sweep_us: AtomicU64,
    pub(crate) sweep_caps: AtomicU64,
}

#[derive(Debug, Default)]
struct Trash {
    blobs: Vec<Blob>,
    tables: Vec<(usize, Detached)>,
}

impl Store {
    /// An empty keyspace with its slow-lane threads running.
    pub fn new(config: StoreConfig) -> std::io::Result<Arc<Store>> {
        Store::with_secret(config, env::random::secret_128())
    }

    /// As [`Store::new`], but keys are placed by a known secret: for measuring, where they should
    /// lie the same each time. Who knows the secret can make all keys fall together.
    pub fn with_secret(config: StoreConfig, secret: u128) -> std::io::Result<Arc<Store>> {
        assert!(
            config.shards.is_power_of_two(),
            "the shard is the top bits of the hash"
        );
        let hasher = SipKeys::new(secret);
        // Address space only: a shard may hold twice its fair share before it is full.
        let fair = config.memory_bytes / config.shards as u64;
        let map = MapConfig {
            databases: config.databases,
            arena_bytes: (fair * 2).clamp(256 << 20, 32 << 30) as usize,
            table_bytes: fair.clamp(64 << 20, 4 << 30) as usize,
            hash_keys: hasher,
        };
        let shards = (0..config.shards)
            .map(|_| KeyMap::new(&map).map(CachePadded::new))
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Arc::new(Store {
            shards: shards.into(),
            shift: 64 - config.shards.trailing_zeros(),
            hasher,
            locks: LockTable::new(config.shards),
            safepoint: Safepoint::new(),
            lane: SlowLane::start(config.lane_threads)?,
            safepoint_lane: SlowLane::new(SAFEPOINT_LANE),
            databases: config.databases,
            expired: AtomicU64::new(0),
            trash: Mutex::new(Trash::default()),
            trash_len: AtomicU64::new(0),
            lazyfreed: AtomicU64::new(0),
            sweeping: AtomicBool::new(true),
            sweep_us: AtomicU64::new(0),
            sweep_caps: AtomicU64::new(0),
        }))
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Hash of a key, keyed with this process's secret.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    /// Shard of a hash: its top bits.
    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> usize {
        (hash.checked_shr(self.shift).unwrap_or(0)) as usize
    }

    #[inline]
    pub(crate) fn map(&self, hash: u64) -> &KeyMap {
        &self.shards[self.shard(hash)].0
    }

    pub(crate) fn map_at(&self, shard: usize) -> &KeyMap {
        &self.shards[shard].0
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = &KeyMap> {
        self.shards.iter().map(|shard| &shard.0)
    }

    /// Brings the bucket of a hash into the cache.
    #[inline]
    pub fn prefetch_bucket(&self, db: usize, hash: u64) {
        self.map(hash).prefetch_bucket(db, hash);
    }

    /// Brings the likely record of a hash into the cache; its bucket should be there already.
    #[inline]
    pub fn prefetch_record(&self, db: usize, hash: u64) {
        self.map(hash).prefetch_record(db, hash);
    }

    /// Where loops and walkers stop for what needs everybody to stand still.
    pub fn safepoint(&self) -> &Safepoint {
        &self.safepoint
    }

    /// Threads for slow commands.
    pub fn lane(&self) -> &SlowLane {
        &self.lane
    }

    /// Threads for commands that call for a safepoint. Apart from [`Store::lane`], because they wait
    /// for commands that may still be in its queue.
    pub fn safepoint_lane(&self) -> &SlowLane {
        &self.safepoint_lane
    }

    /// Lets both lanes finish what was submitted and ends their threads.
    pub fn stop_lanes(&self) {
        self.safepoint_lane.stop();
        self.lane.stop();
    }

    /// Begins a request for key locks.
    pub fn lock_begin(&self, owner: std::sync::Arc<dyn Wake>) -> Request {
        self.locks.begin(owner)
    }

    /// Queues `request` on one key.
    pub fn lock_key(&self, request: &Request, key: &KeyUse<'_>, mode: Mode) {
        // The bit goes up before the entry exists and under the latch, so no short command is
        // inside, and the next one looks into the table.
        let mut latch = self.latch_surely(key);
        latch.set_key_locked(true);
        self.locks
            .enqueue(request, self.shard(key.hash), key.db as u32, key.hash, mode);
    }

    /// All keys are queued. True if all locks are granted already.
    pub fn lock_seal(&self, request: &Request) -> bool {
        self.locks.seal(request)
    }

    /// Gives up the locks of a command that ended, or its places in the queues.
    pub fn lock_end(&self, request: &Request) {
        self.locks.end(request);
    }

    pub(crate) fn count_expired(&self, keys: u64) {
        self.expired.fetch_add(keys, Relaxed);
    }

    /// Keys removed by time outside commands, since start.
    pub fn expired_outside_commands(&self) -> u64 {
        self.expired.load(Relaxed)
    }

    /// Frees values out of line later, on the housekeeping thread.
    pub(crate) fn drop_later(&self, blobs: Vec<Blob>) {
        if blobs.is_empty() {
            return;
        }
        let mut trash = self.trash.lock();
        self.trash_len.fetch_add(blobs.len() as u64, Relaxed);
        trash.blobs.extend(blobs);
    }

    /// Objects waiting to be freed.
    pub fn lazyfree_pending(&self) -> u64 {
        self.trash_len.load(Relaxed)
    }

    /// Frees some of what waits. True if more is left. Called by housekeeping.
    pub fn take_out_trash(&self) -> bool {
        let blobs = std::mem::take(&mut self.trash.lock().blobs);
        self.trash_len.fetch_sub(blobs.len() as u64, Relaxed);
        self.lazyfreed.fetch_add(blobs.len() as u64, Relaxed);
        drop(blobs);
        let next = self.trash.lock().tables.pop();
        let Some((shard, mut table)) = next else {
            return false;
        };
        let before = table.keys();
        let more = self.map_at(shard).drain_step(&mut table, 4096);
        self.trash_len.fetch_sub(before - table.keys(), Relaxed);
        self.lazyfreed.fetch_add(before - table.keys(), Relaxed);
        if more {
            self.trash.lock().tables.push((shard, table));
        }
        true
    }

    /// Objects freed by housekeeping since start.
    pub fn lazyfreed(&self) -> u64 {
        self.lazyfreed.load(Relaxed)
    }

    /// Empties a database, or all of them, while all loops stand still. Waits for that; not for a
    /// thread that takes part in safepoints. Returns the keys removed.
    pub fn flush(&self, db: Option<usize>) -> u64 {
        self.safepoint.run(|| self.clear_at_safepoint(db))
    }

    /// Exchanges two databases while all loops stand still.
    pub fn swap(&self, a: usize, b: usize) {
        self.safepoint.run(|| {
            for map in self.maps() {
                map.swap_tables(a, b);
            }
            self.mark_locked_keys(a);
            self.mark_locked_keys(b);
        });
    }

    /// Changes one key outside a command's hold (DEBUG POPULATE). Waits for the key's bucket.
    ///
    /// # Errors
    /// What `change` returns.
    pub fn edit_now(
        &self,
        db: usize,
        key: &[u8],
        now_ms: i64,
        change: impl FnOnce(&mut Edit<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        loop {
            let keys = [KeyUse {
                db,
                key,
                hash: self.hash(key),
            }];
            if let Ok(mut hold) = self.hold_latched(&keys, now_ms, true) {
                let result = change(&mut hold.edit(0));
                hold.finish();
                return result;
            }
            env::thread::yield_now();
        }
    }

    /// What the keyspace occupies.
    pub fn memory(&self) -> StoreMemory {
        let mut sum = StoreMemory::default();
        for map in self.maps() {
            let own = map.memory();
            let index = own.tables_bytes + own.overflow_used_bytes;
            sum.index_bytes += index;
            sum.used_bytes += own.records.used_bytes + own.blobs_bytes + index;
            sum.touched_bytes += own.records.reserved_bytes
                + own.blobs_bytes
                + own.tables_bytes
                + own.overflow_bytes;
        }
        sum
    }

    /// Describes the tables of a database, for people.
    pub fn describe_tables(&self, db: usize) -> String {
        let (mut buckets, mut keys, mut expires) = (0, 0, 0);
        for map in self.maps() {
            let counts = map.counts(db);
            buckets += map.buckets(db);
            keys += counts.keys;
            expires += counts.expires;
        }
        format!(
            "[Dictionary HT]\n shards: {}\n buckets: {buckets}\n number of elements: {keys}\n \
             entries per bucket: {:.2}\n[Expires HT]\n number of elements: {expires}\n",
            self.shards(),
            keys as f64 / buckets.max(1) as f64,
        )
    }

    /// One step of background work on memory. True if there was something to do.
    pub fn memory_step(&self) -> bool {
        self.maps().any(KeyMap::memory_step)
    }

    fn clear_at_safepoint(&self, db: Option<usize>) -> u64 {
        let databases = match db {
            Some(db) => db..db + 1,
            None => 0..self.databases,
        };
        let mut removed = 0;
        for db in databases {
            for (shard, map) in self.maps().enumerate() {
                let keys = map.counts(db).keys;
                if map.buckets(db) > 0 {
                    let table = map.take_table(db);
                    removed += keys;
                    self.trash_len.fetch_add(keys, Relaxed);
                    self.trash.lock().tables.push((shard, table));
                }
            }
            self.mark_locked_keys(db);
        }
        removed
    }

    /// Key locks belong to a database by its number, the bits that point to them to its table. When
    /// another table has taken its place, parked commands may have entries: their keys' buckets are
    /// marked anew. At a safepoint, when all latches are free.
    fn mark_locked_keys(&self, db: usize) {
        for shard in 0..self.shards() {
            for hash in self.locks.hashes_of(shard, db as u32) {
                self.latch_surely(&KeyUse { db, key: b"", hash })
                    .set_key_locked(true);
            }
        }
    }
}

/// What the keyspace occupies, bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct StoreMemory {
    /// Records, values out of line and the index over them.
    pub used_bytes: u64,
    /// The index alone.
    pub index_bytes: u64,
    /// Memory taken from the machine for them.
    pub touched_bytes: u64,
}
