//! One shard of the keyspace: an arena of records and one table per database, used by many threads.
//!
//! It knows no commands, no clock and no key locks; it keeps deadlines but never decides that one
//! has passed, and it keeps the marks of those who lock, wait for and watch keys without knowing
//! what they mean (a key-locked bucket sends optimistic readers to the latch, no more).
//!
//! # The optimistic read
//!
//! A reader writes nothing. It
//!
//! 1. finds the bucket from the number of buckets and loads its control word `w` (acquire);
//! 2. gives up if the latch bit is set, and starts again if the bucket's depth says that the hash
//!    belongs elsewhere: the number of buckets was outdated;
//! 3. loads tags, references and record words, all relaxed, and copies what it wants;
//! 4. issues an acquire fence and loads the control word again. If it is still `w`, everything it
//!    read was there at one moment, namely the moment of step 1. If not, it undoes its copy.
//!
//! A writer sets the latch bit, issues a release fence, changes words, and stores the control word
//! with the sequence advanced (release).
//!
//! *Nothing newer is taken for old.* Suppose step 3 loads a word that a writer stored after the moment
//! of step 1. The store came after that writer's release fence, so the reader's fence in step 4
//! makes everything before the writer's fence visible, its latch bit or later, and the words differ.
//! This covers, besides changes in place:
//!
//! - *a slot that was freed and used again for another bucket's key*: the bucket the reader came by
//!   was latched when the slot was freed; the allocator's lock orders that before the next `alloc`,
//!   whose release fence orders it before the first word of the new record;
//! - *an overflow bucket that changed chains*: likewise;
//! - *split and merge*: both happen under the latch of the bucket that keeps the low half. The new
//!   half becomes alive (its control word is stored) after its entries are complete, the old half
//!   loses its latch after that, so a key is in one of two live buckets, and a reader that came to
//!   the wrong one sees the wrong depth or a changed word;
//! - *a bucket that died and lives again*: a life begins with a sequence number scattered over 31 bits.
//!
//! *Nothing is misread into a fault.* Slots are memory of one arena forever, lengths are clamped, the
//! arena ends in readable space, references out of range are refused, addresses inside records are
//! followed only under the latch.
//!
//! *The sequence wraps* after 2^31 changes of one bucket: a reader would have to sleep exactly
//! through that many. This is accepted.
//!
//! # Locks, outermost first
//!
//! a table's maintenance lock (only ever tried by commands) > bucket latches (bounded waiting, so no
//! order is needed for safety; ascending order avoids livelock) > the arena's, the overflow pool's
//! and the region list's spin locks.

use crate::arena::{Arena, class};
use crate::bucket::{Bucket, control, positions, tag_of};
use crate::latch::Ready;
use crate::overflow::Overflow;
use crate::record::{Encoding, Header};
use crate::spin::SpinLock;
use crate::sys::{self, Region};
use crate::table::Table;
use crate::words::{Words, blob_take};
use base::Blob;
use base::hash::SipKeys;
use env::sync::CachePadded;
use env::sync::atomic::{AtomicU64, Ordering, fence};
use std::io;
use std::sync::Arc;

pub use crate::arena::{ArenaStats, ClassStats, OutOfMemory};
pub use crate::latch::{Latch, Slot};
pub use crate::record::{Encoding as ValueEncoding, KEY_INLINE_MAX, Kind, VALUE_INLINE_MAX, Value};
pub use crate::scan::Detached;
pub use crate::view::View;

/// Sizes of one shard. Address space is only reserved; memory is used as data comes.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Number of databases.
    pub databases: usize,
    /// Address space for records, at most 32 GiB. When it is full, writes fail.
    pub arena_bytes: usize,
    /// Address space for the buckets of one database, and again for all overflow buckets. When it
    /// is full, chains grow longer.
    pub table_bytes: usize,
    /// The secret of the hash by which keys are placed.
    pub hash_keys: SipKeys,
}

/// A key to look for.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    pub key: &'a [u8],
    /// What [`KeyMap::hash`] says.
    pub hash: u64,
}

/// What becomes of a deadline when a value is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expire {
    Keep,
    Clear,
    /// Unix milliseconds.
    At(i64),
}

/// Outcome of a read without the latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The closure's last run saw the value as it was at one moment.
    Hit,
    /// The key was not there at one moment.
    Miss,
    /// Somebody is writing, the bucket is key-locked, or the value is out of line: use the latch.
    /// The closure may have run.
    Busy,
}

/// Proof of what a read saw, to be checked again after further reads.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    word: &'a AtomicU64,
    value: u64,
}

impl Stamp<'_> {
    /// Whether what the read saw was still so when this was called.
    #[inline]
    pub fn holds(&self) -> bool {
        fence(Ordering::Acquire);
        self.word.load(Ordering::Relaxed) == self.value
    }
}

/// Which bucket a hash belongs to just now; for ordering and comparing, within one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketId {
    db: u32,
    index: u64,
}

/// Number of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub keys: u64,
    /// Keys with a deadline.
    pub expires: u64,
}

/// What a shard occupies, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryStats {
    pub records: ArenaStats,
    /// Buckets of all tables.
    pub tables_bytes: u64,
    /// Overflow buckets in use, and ever used.
    pub overflow_used_bytes: u64,
    pub overflow_bytes: u64,
    /// Values and keys out of line.
    pub blobs_bytes: u64,
}

/// One shard; see the module.
pub struct KeyMap {
    pub(crate) arena: Arena,
    pub(crate) overflow: Overflow,
    tables: Box<[Table]>,
    hash_keys: SipKeys,
    table_bytes: usize,
    regions: SpinLock<Regions>,
    blob_bytes: CachePadded<AtomicU64>,
}

#[derive(Default)]
struct Regions {
    all: Vec<Arc<Region>>,
    /// Numbers of regions without a table.
    idle: Vec<usize>,
}

impl std::fmt::Debug for KeyMap {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut structure = formatter.debug_struct("KeyMap");
        structure.field("databases", &self.tables.len());
        structure.finish_non_exhaustive()
    }
}

/// Times an optimistic read looks before it gives up. Attempts do not depend on each other, so one is
/// enough to explore.
const ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 3 };
/// Looks at a latched bucket before it counts as an attempt.
const LATCHED_LOOKS: u32 = if cfg!(loom) { 0 } else { 24 };
/// Buckets of a chain an optimistic read follows; a racing chain may lead in circles.
const CHAIN_MAX: u32 = if cfg!(loom) { 3 } else { 16 };

impl KeyMap {
    /// Reserves address space. Fails only if the kernel refuses.
    pub fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            arena: Arena::new(config.arena_bytes)?,
            overflow: Overflow::new(config.table_bytes)?,
            tables: (0..config.databases).map(|_| Table::new()).collect(),
            hash_keys: config.hash_keys,
            table_bytes: config.table_bytes.next_multiple_of(64).max(128),
            regions: SpinLock::new(Regions::default()),
            blob_bytes: CachePadded::new(AtomicU64::new(0)),
        })
    }

    /// The hash by which keys are placed.
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hash_keys.hash(key)
    }

    /// A probe for a key.
    #[inline(always)]
    pub fn probe<'k>(&self, key: &'k [u8]) -> Probe<'k> {
        Probe {
            key,
            hash: self.hash(key),
        }
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.tables.len()
    }

    /// Reads a key's record without writing anything anywhere. `read` may run several times, also
    /// on garbage that is rejected afterwards; it undoes the previous run's output first.
    #[inline]
    pub fn read<F: FnMut(&View<'_>)>(&self, db: usize, probe: &Probe<'_>, read: &mut F) -> Seen {
        self.read_stamped(db, probe, read).0
    }

    /// As [`KeyMap::read`], with a stamp by which several reads can be confirmed together.
    #[inline]
    pub fn read_stamped<F: FnMut(&View<'_>)>(
        &self,
        db: usize,
        probe: &Probe<'_>,
        read: &mut F,
    ) -> (Seen, Stamp<'_>) {
        let table = self.table(db);
        let mut stamp = Stamp {
            word: &table.geometry.buckets,
            value: 0,
        };
        let (mut attempts, mut looks) = (0, 0);
        while attempts < ATTEMPTS {
            let Some((index, bucket)) = table.home(probe.hash) else {
                return (Seen::Miss, stamp);
            };
            let word = bucket.control().load(Ordering::Acquire);
            stamp = Stamp {
                word: bucket.control(),
                value: word,
            };
            if word & control::LATCH != 0 && looks < LATCHED_LOOKS {
                looks += 1;
                pause();
                continue;
            }
            attempts += 1;
            if word & control::LATCH != 0 || !control::is_home(word, index, probe.hash) {
                pause();
                continue;
            }
            if word & control::KEY_LOCKED != 0 || probe.key.len() > KEY_INLINE_MAX {
                break;
            }
            let seen = self.glance(bucket, word, probe, read);
            if stamp.holds() {
                return (seen, stamp);
            }
        }
        (Seen::Busy, stamp)
    }

    /// One look at a chain, to be confirmed or rejected by the caller.
    #[inline(always)]
    fn glance<F: FnMut(&View<'_>)>(
        &self,
        head: Bucket<'_>,
        word: u64,
        probe: &Probe<'_>,
        read: &mut F,
    ) -> Seen {
        let tag = tag_of(probe.hash);
        let (mut bucket, mut word) = (head, word);
        for _ in 0..CHAIN_MAX {
            let mut matches = bucket.tagged(tag) & positions(word);
            while matches != 0 {
                let reference = bucket.reference(matches.trailing_zeros() as usize);
                matches &= matches - 1;
                if !self.arena.contains(reference) {
                    return Seen::Busy;
                }
                let words = self.arena.words(reference).shared();
                let header = Header(words.load(0));
                if !header.key_is(words, probe.key) {
                    continue;
                }
                let Some(view) = View::optimistic(words, header) else {
                    return Seen::Busy;
                };
                read(&view);
                return Seen::Hit;
            }
            let Some(number) = bucket.link(word) else {
                return Seen::Miss;
            };
            let Some(next) = self.overflow.bucket(number) else {
                return Seen::Busy;
            };
            bucket = next;
            word = bucket.control().load(Ordering::Relaxed);
        }
        Seen::Busy
    }

    /// Asks for the bucket of a hash to be brought into the cache.
    #[inline(always)]
    pub fn prefetch_bucket(&self, db: usize, hash: u64) {
        if let Some((_, bucket)) = self.table(db).home(hash) {
            sys::prefetch(bucket.address());
        }
    }

    /// Asks for the first lines of the record a hash probably has, or for the overflow bucket it may
    /// be in. To be called when [`KeyMap::prefetch_bucket`] has had its time.
    #[inline(always)]
    pub fn prefetch_record(&self, db: usize, hash: u64) {
        let Some((_, bucket)) = self.table(db).home(hash) else {
            return;
        };
        let word = bucket.control().load(Ordering::Relaxed);
        let matches = bucket.tagged(tag_of(hash)) & positions(word);
        if matches != 0 {
            let reference = bucket.reference(matches.trailing_zeros() as usize);
            self.arena.prefetch(reference);
        } else if let Some(next) = bucket
            .link(word)
            .and_then(|link| self.overflow.bucket(link))
        {
            sys::prefetch(next.address());
        }
    }

    /// Which bucket a hash belongs to at the moment.
    #[inline]
    pub fn bucket_id(&self, db: usize, hash: u64) -> BucketId {
        BucketId {
            db: db as u32,
            index: self
                .table(db)
                .home(hash)
                .map_or(hash & 1, |(index, _)| index),
        }
    }

    /// Number of keys of a database.
    pub fn counts(&self, db: usize) -> Counts {
        let counts = &self.table(db).counts;
        Counts {
            keys: counts.keys.load(Ordering::Relaxed),
            expires: counts.expires.load(Ordering::Relaxed),
        }
    }

    /// Number of buckets of a database.
    pub fn buckets(&self, db: usize) -> u64 {
        self.table(db).buckets()
    }

    /// Bytes of memory in use, near enough for a limit: records, buckets, values out of line.
    pub fn memory_bytes(&self) -> u64 {
        let tables: u64 = self.tables.iter().map(Table::buckets).sum();
        self.arena.reserved_bytes()
            + tables * 64
            + self.overflow.bytes().0
            + self.blob_bytes.load(Ordering::Relaxed)
    }

    /// What the shard occupies, in detail.
    pub fn memory(&self) -> MemoryStats {
        let tables = self.tables.iter();
        let (overflow_used_bytes, overflow_bytes) = self.overflow.bytes();
        MemoryStats {
            records: self.arena.stats(),
            tables_bytes: tables.map(|table| table.maintenance.lock().touched()).sum(),
            overflow_used_bytes,
            overflow_bytes,
            blobs_bytes: self.blob_bytes.load(Ordering::Relaxed),
        }
    }

    /// One step of keeping memory in order, for a thread in the background: returns empty pages to
    /// the kernel, and maps by huge pages what is full. A step may take some hundred microseconds
    /// and holds no lock that commands wait for. Gives whether there was something to do.
    pub fn memory_step(&self) -> bool {
        self.arena.trim_step()
            || self.arena.collapse_step()
            || self
                .tables
                .iter()
                .any(|table| self.table_memory_step(table))
    }

    #[inline(always)]
    pub(crate) fn table(&self, db: usize) -> &Table {
        &self.tables[db]
    }

    /// The record of a reference in a latched bucket.
    #[inline(always)]
    pub(crate) fn record_view(&self, reference: u32) -> View<'_> {
        View::latched(self.arena.words(reference))
    }

    /// The next bucket of a latched chain.
    #[inline(always)]
    pub(crate) fn linked(&self, bucket: Bucket<'_>, word: u64) -> Option<Bucket<'_>> {
        let number = bucket.link(word)?;
        Some(
            self.overflow
                .bucket(number)
                .expect("a latched link leads somewhere"),
        )
    }

    /// Stores a new record.
    #[inline]
    pub(crate) fn store_new(&self, ready: Ready<'_>) -> Result<u32, OutOfMemory> {
        let reference = self.arena.alloc(class::class_of(ready.bytes()))?;
        self.count_blob_bytes(0, ready.blob_bytes());
        ready.write(self.arena.words(reference));
        Ok(reference)
    }

    /// Frees a record that no bucket refers to any more. Gives its value if it was out of line.
    #[inline]
    pub(crate) fn discard_record(&self, reference: u32) -> Option<Blob> {
        let words = self.arena.words(reference);
        let header = Header(words.load(0));
        let class = class::class_of(header.record_bytes(words));
        let blob = self.empty_record(words, header);
        self.arena.free(reference, class);
        blob
    }

    /// Takes what a record has out of line, before it is freed or overwritten.
    #[inline]
    pub(crate) fn empty_record(&self, words: Words<'_>, header: Header) -> Option<Blob> {
        if header.key_is_out_of_line() {
            #[expect(unsafe_code, reason = "the record's own reference")]
            // SAFETY: the record is ours by the latch, and gives up the reference its word stands
            // for; the caller frees or overwrites it next.
            let key = unsafe { blob_take(words.load_at(header.body_offset())) };
            self.count_blob_bytes(key.len(), 0);
        }
        if header.encoding() != Some(Encoding::Blob) {
            return None;
        }
        #[expect(unsafe_code, reason = "the record's own reference")]
        // SAFETY: as above.
        let blob = unsafe { blob_take(words.load_at(header.value_offset())) };
        self.count_blob_bytes(blob.capacity(), 0);
        Some(blob)
    }

    pub(crate) fn count_blob_bytes(&self, before: usize, after: usize) {
        if before != after {
            let difference = (after as u64).wrapping_sub(before as u64);
            self.blob_bytes.fetch_add(difference, Ordering::Relaxed);
        }
    }

    pub(crate) fn buckets_max(&self) -> u64 {
        (self.table_bytes / 64) as u64
    }

    /// A region for a table: its number and first word. All zeroes, or dead buckets.
    pub(crate) fn take_region(&self) -> Option<(usize, *const AtomicU64)> {
        let mut regions = self.regions.lock();
        let number = if let Some(number) = regions.idle.pop() {
            number
        } else {
            regions
                .all
                .push(Arc::new(Region::reserve(self.table_bytes).ok()?));
            regions.all.len() - 1
        };
        Some((number, regions.all[number].base()))
    }

    /// Takes back a region whose buckets are dead.
    pub(crate) fn give_region(&self, number: usize, touched: u64) {
        let region = self.region(number);
        region.discard(
            0,
            (touched as usize)
                .next_multiple_of(4096)
                .min(self.table_bytes),
        );
        self.regions.lock().idle.push(number);
    }

    pub(crate) fn region(&self, number: usize) -> Arc<Region> {
        Arc::clone(&self.regions.lock().all[number])
    }
}

impl Drop for KeyMap {
    /// Values out of line are not in the arena and must be let go one by one.
    fn drop(&mut self) {
        if self.blob_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        for db in 0..self.tables.len() {
            let mut detached = self.take_table(db);
            while self.drain_step(&mut detached, usize::MAX) {}
        }
    }
}

#[inline(always)]
fn pause() {
    if cfg!(loom) {
        env::thread::yield_now();
    } else {
        env::sync::hint::spin_loop();
    }
}
