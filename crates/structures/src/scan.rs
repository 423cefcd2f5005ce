//! Walking a table while it is used, and taking it apart.
//!
//! # The cursor
//!
//! Read a hash's low bits in reverse, lowest first, as a fraction in `0..1`. A bucket of depth `k`
//! then owns an interval of length `2^-k`, and the live buckets cover `0..1` without gap or overlap
//! at any time, however the table grows and shrinks. The cursor is a point in that order: all keys
//! before it were visited. A step visits the bucket that owns the cursor and moves to the end of the
//! bucket's interval. If buckets were merged since, the interval may begin before the cursor and its
//! keys be seen twice; a key that is there all the time is never missed.

use crate::bucket::control;
use crate::keymap::KeyMap;
use crate::latch::{Latch, Slot};
use crate::table::{Contents, Table, used_positions};
use crate::view::View;
use base::Blob;
use env::random::Rng;
use env::sync::atomic::Ordering;

/// The keys of a database that were taken out of it and wait to be freed by
/// [`KeyMap::drain_step`] of the map they came from. Dropped before that, they stay allocated.
#[must_use = "the records are freed by `drain_step`"]
pub struct Detached {
    table: Table,
    next: u64,
}

impl std::fmt::Debug for Detached {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut structure = formatter.debug_struct("Detached");
        structure.field("buckets", &self.table.buckets());
        structure.field("next", &self.next);
        structure.finish_non_exhaustive()
    }
}

impl Detached {
    /// Keys not freed yet.
    pub fn keys(&self) -> u64 {
        self.table.counts.keys.load(Ordering::Relaxed)
    }
}

/// Tries of [`KeyMap::sample`] before it looks for any key at all.
const SAMPLE_TRIES: u32 = 64;
/// Entries of a bucket that are told apart in sampling.
const SAMPLE_ENTRIES: u64 = 32;
/// Looks at a latched bucket in a walk that may skip it.
const WALK_SPINS: u32 = 64;

impl KeyMap {
    /// Visits the bucket at `cursor`, latched, and gives the cursor of the next one. A walk begins
    /// with 0 and has ended when 0 comes back; cursors are below 2^40. Keys that are there during
    /// the whole walk are visited at least once.
    pub fn scan(&self, db: usize, cursor: u64, visit: &mut dyn FnMut(&View<'_>)) -> u64 {
        let Some(latch) = self.latch_patiently(self.table(db), cursor) else {
            return 0;
        };
        let depth = control::depth(latch.word());
        visit_entries(&latch, visit);
        // The highest bits in reverse order are the lowest here: add one at the bucket's depth.
        let point = (cursor | (u64::MAX << depth)).reverse_bits();
        point.wrapping_add(1).reverse_bits()
    }

    /// Visits one key, every key with the same chance. False if none was found: there are none, or
    /// next to none beside many that went.
    pub fn sample(&self, db: usize, rng: &mut Rng, visit: &mut dyn FnMut(&View<'_>)) -> bool {
        let table = self.table(db);
        for _ in 0..SAMPLE_TRIES {
            let buckets = table.buckets();
            if buckets == 0 {
                return false;
            }
            // Every bucket and every place in it with the same chance, else try again.
            let Some(latch) = self.latch_patiently(table, rng.below(buckets)) else {
                return false;
            };
            let place = rng.below(SAMPLE_ENTRIES) as usize;
            if let Some(&slot) = latch.slots().get(place) {
                visit(&latch.view(slot));
                return true;
            }
        }
        // Few keys in many buckets: the next one from a random bucket on.
        let buckets = table.buckets();
        let start = rng.below(buckets.max(1));
        for step in 0..buckets {
            let Some(latch) = self.latch_patiently(table, (start + step) % buckets) else {
                return false;
            };
            if let Some(&slot) = latch.slots().first() {
                visit(&latch.view(slot));
                return true;
            }
        }
        false
    }

    /// Visits the entries that have a deadline in up to `buckets` buckets from bucket `from` on, and
    /// gives the bucket to go on with, 0 after the last. `visit` may change or remove the entry it
    /// is given, but insert nothing. Buckets without deadlines are passed by reading one word, and
    /// those that are busy are skipped.
    pub fn walk_expiring(
        &self,
        db: usize,
        from: u64,
        buckets: u64,
        visit: &mut dyn for<'l> FnMut(&mut Latch<'l>, Slot<'l>),
    ) -> u64 {
        let table = self.table(db);
        let mut index = from;
        for _ in 0..buckets {
            if index >= table.buckets() {
                return 0;
            }
            let word = table.bucket(index).control().load(Ordering::Relaxed);
            if word & (control::TTL | control::OVERFLOW) != 0
                && let Some(mut latch) = self.latch_table(table, index, WALK_SPINS)
            {
                visit_expiring(&mut latch, visit);
            }
            index += 1;
        }
        if index >= table.buckets() { 0 } else { index }
    }

    /// Takes all keys out of a database. Only at a moment when no thread is inside this map:
    /// otherwise a write may go to the old table and be lost.
    pub fn take_table(&self, db: usize) -> Detached {
        let table = self.table(db);
        let contents = table.release(&mut table.maintenance.lock());
        let detached = Detached {
            table: Table::new(),
            next: 0,
        };
        detached
            .table
            .adopt(&mut detached.table.maintenance.lock(), contents);
        detached
    }

    /// Exchanges two databases. Only at a moment when no thread is inside this map.
    pub fn swap_tables(&self, one: usize, other: usize) {
        if one == other {
            return;
        }
        let (one, other) = (self.table(one.min(other)), self.table(one.max(other)));
        let mut one_maintenance = one.maintenance.lock();
        let mut other_maintenance = other.maintenance.lock();
        let first: Contents = one.release(&mut one_maintenance);
        let second = other.release(&mut other_maintenance);
        one.adopt(&mut one_maintenance, second);
        other.adopt(&mut other_maintenance, first);
    }

    /// Frees the records of up to `buckets` buckets. False when all are freed and the memory of the
    /// buckets is given back.
    pub fn drain_step(&self, detached: &mut Detached, buckets: usize) -> bool {
        let table = &detached.table;
        let total = table.buckets();
        let end = total.min(detached.next.saturating_add(buckets as u64));
        while detached.next < end {
            // Nobody else knows this table: the latch is free and the index its own hash.
            let Some(mut latch) = self.latch_table(table, detached.next, 0) else {
                unreachable!("a detached bucket is latched by somebody");
            };
            for slot in latch.slots() {
                drop::<Option<Blob>>(latch.remove(slot));
            }
            latch.shed();
            latch.bury();
            detached.next += 1;
        }
        if detached.next < total {
            return true;
        }
        let contents = table.release(&mut table.maintenance.lock());
        if let Some(number) = contents.maintenance.region {
            self.give_region(number, contents.maintenance.touched());
        }
        detached.next = 0;
        false
    }
}

fn visit_entries(latch: &Latch<'_>, visit: &mut dyn FnMut(&View<'_>)) {
    for slot in latch.slots() {
        visit(&latch.view(slot));
    }
}

fn visit_expiring(latch: &mut Latch<'_>, visit: &mut dyn for<'l> FnMut(&mut Latch<'l>, Slot<'l>)) {
    let mut slots = Vec::new();
    latch.each_bucket(|bucket, word| {
        let mut marked = used_positions(bucket, word) & control::ttl_mask(word);
        while marked != 0 {
            let position = marked.trailing_zeros() as usize;
            marked &= marked - 1;
            slots.push(latch.slot(bucket, position, bucket.reference(position)));
        }
        true
    });
    for slot in slots {
        visit(latch, slot);
    }
}
