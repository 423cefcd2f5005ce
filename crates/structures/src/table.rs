//! The bucket array of one database in one shard: linear hashing.
//!
//! With `n` buckets and `top` the largest power of two not above `n`, a hash belongs to bucket
//! `hash % (2 * top)`, or `top` less if there is no such bucket yet. Growing by one splits bucket
//! `n - top` into itself and bucket `n`; shrinking is the inverse. The array is address space
//! reserved in one piece and never moves.
//!
//! ```text
//! n = 6, top = 4:   index   000  001  010  011  100  101
//!                   depth     3    3    2    2    3    3
//! ```
//!
//! Every bucket carries its depth, so whoever worked with an outdated `n` notices.

use crate::bucket::{BUCKET_BYTES, Bucket, ENTRIES, control, positions};
use crate::keymap::KeyMap;
use crate::latch::Latch;
use crate::spin::SpinLock;
use crate::sys::{HUGE_PAGE_BYTES, Region};
use crate::words::{newest, publish};
use env::sync::CachePadded;
use env::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Buckets of a table that was just made.
pub(crate) const BUCKETS_MIN: u64 = 2;
/// Growth keeps the load below 8.8 keys a bucket, shrinking above 3.85, in twentieths of a key.
const LOAD_MAX_TWENTIETHS: u64 = 176;
const LOAD_MIN_TWENTIETHS: u64 = 77;
/// Pairs split or merged after one command.
const STEPS_MAX: u32 = 2;
const LATCH_SPINS: u32 = 200;
/// Dead buckets whose memory is kept for the next growth.
const DEAD_BYTES_KEPT: u64 = 256 << 10;

pub(crate) struct Table {
    /// Read by every access, written when a bucket comes or goes.
    pub(crate) geometry: CachePadded<Geometry>,
    pub(crate) counts: CachePadded<Counts>,
    pub(crate) maintenance: CachePadded<SpinLock<Maintenance>>,
}

pub(crate) struct Geometry {
    /// 0 before the first use.
    pub(crate) buckets: AtomicU64,
    base: AtomicPtr<AtomicU64>,
}

pub(crate) struct Counts {
    pub(crate) keys: AtomicU64,
    pub(crate) expires: AtomicU64,
}

/// What only the thread that changes the number of buckets needs.
#[derive(Default)]
pub(crate) struct Maintenance {
    /// Bucket lives begun, from which their first sequence numbers come.
    births: u64,
    /// Bytes at the end of which no bucket was ever alive since the memory was returned.
    touched: u64,
    /// Bytes mapped by huge pages or found not to be worth it.
    collapsed: u64,
    /// Number of the reserved region in the map's list.
    pub(crate) region: Option<usize>,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    stay: Vec<Entry>,
    leave: Vec<Entry>,
    links: Vec<u32>,
    key: Vec<u8>,
}

/// An entry on its way from one place to another.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) reference: u32,
    pub(crate) tag: u8,
    pub(crate) has_ttl: bool,
    pub(crate) is_saved: bool,
}

/// The bucket of a hash among `buckets`.
#[inline(always)]
pub(crate) fn home_index(hash: u64, buckets: u64) -> u64 {
    let top = 1u64 << buckets.ilog2();
    let index = hash & (2 * top - 1);
    if index >= buckets { index ^ top } else { index }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            geometry: CachePadded::new(Geometry {
                buckets: AtomicU64::new(0),
                base: AtomicPtr::new(std::ptr::null_mut()),
            }),
            counts: CachePadded::new(Counts {
                keys: AtomicU64::new(0),
                expires: AtomicU64::new(0),
            }),
            maintenance: CachePadded::new(SpinLock::new(Maintenance::default())),
        }
    }

    #[inline(always)]
    pub(crate) fn buckets(&self) -> u64 {
        self.geometry.buckets.load(Ordering::Acquire)
    }

    /// The bucket that `hash` seems to belong to, and its index. `None` before the first use.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> Option<(u64, Bucket<'_>)> {
        let buckets = self.buckets();
        if buckets == 0 {
            return None;
        }
        let index = home_index(hash, buckets);
        Some((index, self.bucket(index)))
    }

    /// A bucket whose index was below the number of buckets at some time.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the address of a bucket")]
    pub(crate) fn bucket(&self, index: u64) -> Bucket<'_> {
        let base = self.geometry.base.load(Ordering::Relaxed);
        // SAFETY: 1. a number of buckets above zero is published after the base (`create`,
        // `adopt`), so the base leads to a region; 2. all regions of a map have equal sizes and the
        // number of buckets never exceeds what fits (`split`), so the index is within whichever
        // region the base names; 3. regions are unmapped only with the map, which owns this table.
        unsafe { Bucket::new(base.wrapping_add(index as usize * 8).cast_const()) }
    }

    /// The contents, to be given to [`Table::adopt`]. For a moment when nobody else is inside.
    pub(crate) fn release(&self, maintenance: &mut Maintenance) -> Contents {
        let geometry = &self.geometry;
        Contents {
            buckets: geometry.buckets.swap(0, Ordering::Relaxed),
            base: geometry.base.load(Ordering::Relaxed),
            keys: self.counts.keys.swap(0, Ordering::Relaxed),
            expires: self.counts.expires.swap(0, Ordering::Relaxed),
            maintenance: std::mem::take(maintenance),
        }
    }

    /// Takes contents over in place of its own, which were released. As there, nobody is inside.
    pub(crate) fn adopt(&self, maintenance: &mut Maintenance, contents: Contents) {
        // The base leads somewhere unless there are no buckets.
        self.geometry.base.store(contents.base, Ordering::Relaxed);
        self.counts.keys.store(contents.keys, Ordering::Relaxed);
        self.counts
            .expires
            .store(contents.expires, Ordering::Relaxed);
        *maintenance = contents.maintenance;
        self.geometry
            .buckets
            .store(contents.buckets, Ordering::Release);
    }
}

/// A table's contents without the table.
pub(crate) struct Contents {
    pub(crate) buckets: u64,
    base: *mut AtomicU64,
    keys: u64,
    expires: u64,
    pub(crate) maintenance: Maintenance,
}

impl KeyMap {
    /// Makes the table of a database on its first use. False if there is no address space left.
    #[cold]
    pub(crate) fn create(&self, table: &Table) -> bool {
        let mut maintenance = table.maintenance.lock();
        if table.buckets() != 0 {
            return true;
        }
        let Some((number, base)) = self.take_region() else {
            return false;
        };
        maintenance.region = Some(number);
        table
            .geometry
            .base
            .store(base.cast_mut(), Ordering::Relaxed);
        for index in 0..BUCKETS_MIN {
            let word = maintenance.birth(index, BUCKETS_MIN.ilog2());
            table.bucket(index).control().store(word, Ordering::Relaxed);
        }
        table.geometry.buckets.store(BUCKETS_MIN, Ordering::Release);
        true
    }

    /// Lets the table grow or shrink by a pair or two if its load asks for it. To be called after a
    /// command that wrote, when it holds no latch any more. Gives whether something was done.
    #[inline]
    pub fn maintain(&self, db: usize) -> bool {
        let table = self.table(db);
        match wanted(table) {
            Wanted::Nothing => false,
            wanted => self.resize(table, wanted),
        }
    }

    #[cold]
    fn resize(&self, table: &Table, mut wish: Wanted) -> bool {
        let Some(mut maintenance) = table.maintenance.try_lock() else {
            return false;
        };
        for step in 0..STEPS_MAX {
            let is_done = match wish {
                Wanted::Nothing => return step > 0,
                Wanted::Growth => self.split(table, &mut maintenance),
                Wanted::Shrinking => self.merge(table, &mut maintenance),
            };
            if !is_done {
                return step > 0;
            }
            wish = wanted(table);
        }
        true
    }

    /// Adds a bucket. False if the reservation is used up or the bucket to split is busy.
    pub(crate) fn split(&self, table: &Table, maintenance: &mut Maintenance) -> bool {
        let buckets = newest(&table.geometry.buckets);
        if buckets == 0 || buckets >= self.buckets_max() {
            return false;
        }
        let depth = buckets.ilog2();
        let source = buckets - (1 << depth);
        let Some(mut latch) = self.latch_table(table, source, LATCH_SPINS) else {
            return false;
        };
        debug_assert_eq!(control::depth(latch.word()), depth);
        let mut scratch = std::mem::take(&mut maintenance.scratch);
        scratch.stay.clear();
        scratch.leave.clear();
        scratch.links.clear();
        latch.gather(&mut scratch.stay, &mut scratch.links);
        for entry in &scratch.stay {
            self.arena.prefetch(entry.reference);
        }
        scratch.stay.retain(|entry| {
            scratch.key.clear();
            self.record_view(entry.reference).key_into(&mut scratch.key);
            let leaves = self.hash(&scratch.key) >> depth & 1 != 0;
            if leaves {
                scratch.leave.push(*entry);
            }
            !leaves
        });
        // Two parts never need more overflow buckets than the whole did.
        let target = table.bucket(buckets).owned();
        let marks = latch.word() & control::MARKS;
        let bits = self.write_chain(target, &scratch.leave, &mut scratch.links);
        let born = maintenance.birth(buckets, depth + 1) | marks | bits;
        latch.rewrite(&scratch.stay, &mut scratch.links);
        latch.set_depth(depth + 1);
        for number in scratch.links.drain(..) {
            self.overflow.give(number);
        }
        maintenance.scratch = scratch;
        // Order: the new bucket, then the way to it, then (by dropping the latch) the old bucket, so
        // that a key is never in neither for one who checks depths.
        publish(target.control(), born);
        table.geometry.buckets.store(buckets + 1, Ordering::Release);
        true
    }

    /// Removes the last bucket. False if it or its counterpart is busy, or memory is out.
    pub(crate) fn merge(&self, table: &Table, maintenance: &mut Maintenance) -> bool {
        let buckets = newest(&table.geometry.buckets);
        if buckets <= BUCKETS_MIN {
            return false;
        }
        let last = buckets - 1;
        let depth = last.ilog2();
        let source = last - (1 << depth);
        let Some(mut low) = self.latch_table(table, source, LATCH_SPINS) else {
            return false;
        };
        // Never waits long while holding: others may hold the second and want the first.
        let Some(high) = self.latch_table(table, last, LATCH_SPINS) else {
            return false;
        };
        let mut scratch = std::mem::take(&mut maintenance.scratch);
        scratch.stay.clear();
        scratch.links.clear();
        low.gather(&mut scratch.stay, &mut scratch.links);
        high.gather(&mut scratch.stay, &mut scratch.links);
        let owned = scratch.links.len();
        let is_enough = self.take_links(links_needed(scratch.stay.len()), &mut scratch.links);
        if is_enough {
            let marks = high.word() & control::MARKS;
            low.rewrite(&scratch.stay, &mut scratch.links);
            low.set_depth(depth);
            low.add_marks(marks);
            for number in scratch.links.drain(..) {
                self.overflow.give(number);
            }
            table.geometry.buckets.store(last, Ordering::Release);
            // Depth 0: whoever still comes here looks again where the hash belongs.
            high.bury();
        } else {
            for number in scratch.links.drain(owned..) {
                self.overflow.give(number);
            }
        }
        maintenance.scratch = scratch;
        is_enough
    }

    /// Brings `links` to at least `count` overflow buckets. False if there is no memory.
    fn take_links(&self, count: usize, links: &mut Vec<u32>) -> bool {
        while links.len() < count {
            match self.overflow.take() {
                Ok((number, _)) => links.push(number),
                Err(_) => return false,
            }
        }
        true
    }

    /// Fills an empty chain with entries, taking overflow buckets from `links`. Gives the overflow,
    /// ttl and saved bits of the head's control word, which is not touched.
    pub(crate) fn write_chain(
        &self,
        head: Bucket<'_>,
        entries: &[Entry],
        links: &mut Vec<u32>,
    ) -> u64 {
        let mut rest = entries;
        let mut bucket = head;
        let mut head_bits = 0;
        loop {
            let is_last = rest.len() <= ENTRIES;
            let count = if is_last { rest.len() } else { ENTRIES - 1 };
            let (here, after) = rest.split_at(count);
            bucket.wipe();
            let mut bits = if is_last { 0 } else { control::OVERFLOW };
            for (position, entry) in here.iter().enumerate() {
                bucket.set_entry(position, entry.tag, entry.reference);
                bits |= entry.bits(position);
            }
            if bucket.is(head) {
                head_bits = bits;
            } else {
                bucket.control().store(bits, Ordering::Relaxed);
            }
            if is_last {
                return head_bits;
            }
            let number = links.pop().expect("the caller brings as many as needed");
            bucket.set_reference(ENTRIES - 1, number);
            let next = self.overflow.bucket(number).expect("a number of the pool");
            bucket = next.owned();
            rest = after;
        }
    }

    /// One step of keeping the tables' memory in order. Gives whether there was something to do.
    pub(crate) fn table_memory_step(&self, table: &Table) -> bool {
        let Some(mut maintenance) = table.maintenance.try_lock() else {
            return false;
        };
        let Some(number) = maintenance.region else {
            return false;
        };
        let alive = table.buckets() * BUCKET_BYTES as u64;
        maintenance.memory_step(&self.region(number), alive)
    }
}

impl Maintenance {
    /// The control word of a bucket that begins to live. First sequence numbers are scattered, so
    /// that a reader left over from an earlier life is not taken in by an equal word.
    fn birth(&mut self, index: u64, depth: u32) -> u64 {
        self.births += 1;
        self.touched = self.touched.max((index + 1) * BUCKET_BYTES as u64);
        control::born(depth, self.births.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33)
    }

    fn memory_step(&mut self, region: &Region, alive: u64) -> bool {
        let huge = HUGE_PAGE_BYTES as u64;
        if self.collapsed + huge / 16 * 15 <= alive {
            region.collapse(self.collapsed as usize, HUGE_PAGE_BYTES);
            self.collapsed += huge;
            return true;
        }
        // Half as much again as is alive may come back soon.
        let keep = (alive + (alive / 2).max(DEAD_BYTES_KEPT)).next_multiple_of(huge);
        if self.touched > keep {
            let start = (self.touched - 1) / huge * huge;
            region.discard(
                start as usize,
                (self.touched.next_multiple_of(4096) - start) as usize,
            );
            self.touched = start;
            self.collapsed = self.collapsed.min(start);
            return true;
        }
        false
    }

    /// Bytes of buckets that were touched.
    pub(crate) fn touched(&self) -> u64 {
        self.touched
    }
}

impl Entry {
    #[inline(always)]
    pub(crate) fn at(bucket: Bucket<'_>, word: u64, position: usize) -> Self {
        Self {
            reference: bucket.reference(position),
            tag: bucket.tag(position),
            has_ttl: word & control::ttl(position) != 0,
            is_saved: word & control::saved(position) != 0,
        }
    }

    #[inline(always)]
    pub(crate) fn bits(self, position: usize) -> u64 {
        let ttl = if self.has_ttl {
            control::ttl(position)
        } else {
            0
        };
        let saved = if self.is_saved {
            control::saved(position)
        } else {
            0
        };
        ttl | saved
    }
}

/// Overflow buckets a chain of `entries` needs.
pub(crate) fn links_needed(entries: usize) -> usize {
    entries.saturating_sub(ENTRIES).div_ceil(ENTRIES - 1)
}

/// Positions in use in a bucket with a given control word.
#[inline(always)]
pub(crate) fn used_positions(bucket: Bucket<'_>, word: u64) -> u32 {
    bucket.occupied() & positions(word)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Growth,
    Shrinking,
}

#[inline(always)]
fn wanted(table: &Table) -> Wanted {
    let buckets = table.geometry.buckets.load(Ordering::Relaxed);
    let keys = table.counts.keys.load(Ordering::Relaxed);
    if keys * 20 > buckets * LOAD_MAX_TWENTIETHS {
        Wanted::Growth
    } else if keys * 20 < buckets * LOAD_MIN_TWENTIETHS && buckets > BUCKETS_MIN {
        Wanted::Shrinking
    } else {
        Wanted::Nothing
    }
}

impl Latch<'_> {
    /// Appends the entries and the overflow buckets of the chain.
    pub(crate) fn gather(&self, entries: &mut Vec<Entry>, links: &mut Vec<u32>) {
        self.each_bucket(|bucket, word| {
            let mut used = used_positions(bucket, word);
            while used != 0 {
                let position = used.trailing_zeros() as usize;
                used &= used - 1;
                entries.push(Entry::at(bucket, word, position));
            }
            links.extend(bucket.link(word));
            true
        });
    }
}
