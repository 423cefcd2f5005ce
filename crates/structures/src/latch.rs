//! The exclusive right to one bucket: stable reads and every change.
//!
//! A latch is spun for, held for microseconds, and never while its owner waits for anything but
//! other latches in ascending order. While it is held the memory's control word has the latch bit
//! and the true word is in the guard; letting go stores it, with the sequence advanced if readers
//! could tell the difference.
//!
//! A [`Slot`] says where a key was found. Inserting may move entries to an overflow bucket, so it
//! makes all slots of this latch invalid; using one afterwards is a bug and panics. Nothing else
//! moves entries while the latch is held: chains are tidied when it is let go.

use crate::arena::{OutOfMemory, class};
use crate::bucket::{BUCKET_BYTES, Bucket, ENTRIES, control, positions, tag_of};
use crate::keymap::{Expire, KeyMap, Probe};
use crate::record::{Encoding, Header, Plan, VALUE_INLINE_MAX, Value, int_bytes, with_expire};
use crate::small::Small;
use crate::spin::Pause;
use crate::table::{Entry, Table, links_needed, used_positions};
use crate::view::View;
use crate::words::{Words, blob_into_word, blob_take, newest, publish};
use base::Blob;
use env::sync::atomic::{Ordering, fence};
use std::sync::Arc;

/// See the module.
pub struct Latch<'a> {
    map: &'a KeyMap,
    table: &'a Table,
    index: u64,
    head: Bucket<'a>,
    /// The head's control word, without the latch bit.
    word: u64,
    edits: u32,
    /// Raised when entries may have moved.
    layout: u32,
    is_changed: bool,
    is_thinned: bool,
}

/// Where a key's entry is, as long as its latch is held and nothing is inserted.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    bucket: Bucket<'a>,
    position: u8,
    layout: u32,
    reference: u32,
}

impl std::fmt::Debug for Latch<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut structure = formatter.debug_struct("Latch");
        structure
            .field("index", &self.index)
            .field("edits", &self.edits);
        structure.finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Slot<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Slot").field(&self.position).finish()
    }
}

impl KeyMap {
    /// Latches the bucket of a hash. `None` if others held it during `spins` looks, or if the table
    /// did not exist and there is no address space for it.
    #[inline]
    pub fn latch(&self, db: usize, hash: u64, spins: u32) -> Option<Latch<'_>> {
        let table = self.table(db);
        if table.buckets() == 0 && !self.create(table) {
            return None;
        }
        self.latch_table(table, hash, spins)
    }

    /// Latches the bucket of a hash, however long its owner takes. Only for threads that hold no
    /// latch. `None` if the table was never used.
    pub(crate) fn latch_patiently<'a>(&'a self, table: &'a Table, hash: u64) -> Option<Latch<'a>> {
        let mut pause = Pause::new();
        loop {
            if table.buckets() == 0 {
                return None;
            }
            if let Some(latch) = self.latch_table(table, hash, 64) {
                return Some(latch);
            }
            pause.wait();
        }
    }

    #[inline]
    pub(crate) fn latch_table<'a>(
        &'a self,
        table: &'a Table,
        hash: u64,
        spins: u32,
    ) -> Option<Latch<'a>> {
        let mut looks = 0;
        loop {
            let (index, head) = table.home(hash)?;
            let head = head.owned();
            let word = newest(head.control());
            let is_free = word & control::LATCH == 0;
            if is_free && control::is_home(word, index, hash) {
                let latched = word | control::LATCH;
                let exchange = head.control().compare_exchange(
                    word,
                    latched,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if exchange.is_ok() {
                    // A reader that sees anything stored from here on also sees the latch bit.
                    fence(Ordering::Release);
                    return Some(Latch {
                        map: self,
                        table,
                        index,
                        head,
                        word,
                        edits: 0,
                        layout: 0,
                        is_changed: false,
                        is_thinned: false,
                    });
                }
            }
            if looks >= spins {
                return None;
            }
            looks += 1;
            if cfg!(loom) {
                env::thread::yield_now();
            } else {
                env::sync::hint::spin_loop();
            }
        }
    }
}

impl<'a> Latch<'a> {
    /// Whether a key with this hash, in the same database of the same map, is in this bucket.
    #[inline]
    pub fn covers(&self, hash: u64) -> bool {
        control::is_home(self.word, self.index, hash)
    }

    /// Changes so far. A command with no edits changed nothing.
    #[inline]
    pub fn edits(&self) -> u32 {
        self.edits
    }

    /// The entry of a key.
    #[inline]
    pub fn find(&self, probe: &Probe<'_>) -> Option<Slot<'a>> {
        debug_assert!(self.covers(probe.hash), "a key of another bucket");
        let tag = tag_of(probe.hash);
        let (mut bucket, mut word) = (self.head, self.word);
        loop {
            let mut matches = bucket.tagged(tag) & positions(word);
            while matches != 0 {
                let position = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                let reference = bucket.reference(position);
                if self.map.record_view(reference).key_equals(probe.key) {
                    return Some(self.slot(bucket, position, reference));
                }
            }
            bucket = self.map.linked(bucket, word)?;
            word = newest(bucket.control());
        }
    }

    /// Every entry of the bucket.
    pub fn slots(&self) -> Vec<Slot<'a>> {
        let mut slots = Vec::with_capacity(ENTRIES);
        self.each_bucket(|bucket, word| {
            let mut used = used_positions(bucket, word);
            while used != 0 {
                let position = used.trailing_zeros() as usize;
                used &= used - 1;
                slots.push(self.slot(bucket, position, bucket.reference(position)));
            }
            true
        });
        slots
    }

    /// What an entry holds.
    #[inline]
    pub fn view(&self, slot: Slot<'a>) -> View<'_> {
        self.check(slot);
        self.map.record_view(slot.reference)
    }

    /// Adds a key that is not there.
    pub fn insert(
        &mut self,
        probe: &Probe<'_>,
        value: Value<'_>,
        expire: Option<i64>,
    ) -> Result<Slot<'a>, OutOfMemory> {
        debug_assert!(self.find(probe).is_none(), "the key is there already");
        let mut small = Small::new();
        let ready = Ready::new(&mut small, probe.key, value, expire, 0);
        let has_ttl = ready.has_ttl();
        let (bucket, position) = self.vacancy()?;
        let reference = self.map.store_new(ready)?;
        bucket.set_entry(position, tag_of(probe.hash), reference);
        let bits = self.word_of(bucket) & !control::ttl(position) & !control::saved(position);
        self.set_word(
            bucket,
            bits | if has_ttl { control::ttl(position) } else { 0 },
        );
        self.table.counts.keys.fetch_add(1, Ordering::Relaxed);
        if has_ttl {
            self.table.counts.expires.fetch_add(1, Ordering::Relaxed);
        }
        self.layout += 1;
        self.edited();
        Ok(self.slot(bucket, position, reference))
    }

    /// Puts another value in an entry's place. `probe` is the entry's key. Gives the new slot and
    /// the old value if it was out of line, to be dropped where that may take time.
    pub fn replace(
        &mut self,
        slot: Slot<'a>,
        probe: &Probe<'_>,
        value: Value<'_>,
        expire: Expire,
    ) -> Result<(Slot<'a>, Option<Blob>), OutOfMemory> {
        self.check(slot);
        let words = self.map.arena.words(slot.reference);
        let header = Header(words.load(0));
        let expire = match expire {
            Expire::Keep => header.expire_at(words),
            Expire::Clear => None,
            Expire::At(deadline) => Some(deadline),
        };
        let mut small = Small::new();
        let ready = Ready::new(&mut small, probe.key, value, expire, header.access());
        self.put(slot, ready, header)
    }

    /// Removes an entry. Gives the value if it was out of line.
    pub fn remove(&mut self, slot: Slot<'a>) -> Option<Blob> {
        self.check(slot);
        let position = usize::from(slot.position);
        let word = self.word_of(slot.bucket);
        if word & control::ttl(position) != 0 {
            self.table.counts.expires.fetch_sub(1, Ordering::Relaxed);
        }
        self.set_word(
            slot.bucket,
            word & !control::ttl(position) & !control::saved(position),
        );
        slot.bucket.set_entry(position, 0, 0);
        self.table.counts.keys.fetch_sub(1, Ordering::Relaxed);
        self.is_thinned = true;
        self.edited();
        self.map.discard_record(slot.reference)
    }

    /// Sets or clears a deadline, in Unix milliseconds.
    pub fn set_expire(
        &mut self,
        slot: Slot<'a>,
        expire: Option<i64>,
    ) -> Result<Slot<'a>, OutOfMemory> {
        self.check(slot);
        let words = self.map.arena.words(slot.reference);
        let header = Header(words.load(0));
        let size = crate::record::ttl_field(expire).map_or(0, |(_, size)| size);
        let Some(deadline) = expire.filter(|_| size == header.ttl_bytes()) else {
            if expire.is_none() && header.ttl_bytes() == 0 {
                return Ok(slot);
            }
            let record = with_expire(words, header, expire);
            let old_class = class::class_of(header.record_bytes(words));
            let new_class = class::class_of(crate::record::bytes_with_ttl(words, header, size));
            let reference = if old_class == new_class {
                slot.reference
            } else {
                let reference = self.map.arena.alloc(new_class)?;
                self.map.arena.free(slot.reference, old_class);
                slot.bucket
                    .set_reference(usize::from(slot.position), reference);
                reference
            };
            self.map.arena.words(reference).store_record(&record);
            self.mark_ttl(slot, expire.is_some());
            self.edited();
            return Ok(Slot { reference, ..slot });
        };
        words.store_at(header.ttl_offset(), &deadline.to_le_bytes()[..size]);
        self.edited();
        Ok(slot)
    }

    /// Sets an integer, in place if it fits where the last one was.
    pub fn set_int(&mut self, slot: Slot<'a>, number: i64) -> Result<Slot<'a>, OutOfMemory> {
        self.check(slot);
        let words = self.map.arena.words(slot.reference);
        let header = Header(words.load(0));
        let width = header.value_len();
        if header.encoding() == Some(Encoding::Int) && int_bytes(number) <= width {
            words.store_at(header.value_offset(), &number.to_le_bytes()[..width]);
            self.edited();
            return Ok(slot);
        }
        let (slot, displaced) = self.rebuild(slot, header, Value::Int(number))?;
        drop(displaced);
        Ok(slot)
    }

    /// Writes `bytes` at byte `offset` of the value, filling a gap behind its end with zeroes. The
    /// value stays, or becomes, unpacked with slack. Gives the slot and the value's new length.
    pub fn overwrite(
        &mut self,
        slot: Slot<'a>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(Slot<'a>, usize), OutOfMemory> {
        self.check(slot);
        let words = self.map.arena.words(slot.reference);
        let header = Header(words.load(0));
        let encoding = header.encoding().expect("a record has a known format");
        if encoding == Encoding::Blob {
            let len = self.blob_edit(slot, |value| {
                let end = offset + bytes.len();
                if value.len() < end {
                    value.resize(end, 0);
                }
                value[offset..end].copy_from_slice(bytes);
                value.len()
            });
            return Ok((slot, len));
        }
        let old_len = self.view(slot).len();
        let len = old_len.max(offset + bytes.len());
        if encoding == Encoding::Slack && len <= header.slack_capacity(words) {
            let start = header.value_offset() + 2;
            if offset > old_len {
                words.store_at(start + old_len, &vec![0; offset - old_len]);
            }
            words.store_at(start + offset, bytes);
            words.store(0, header.with_value_len(len).0);
            self.edited();
            return Ok((slot, len));
        }
        let mut value = Vec::with_capacity(len);
        self.view(slot).copy_into(&mut value);
        value.resize(len, 0);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        let value = if len > VALUE_INLINE_MAX {
            Value::Blob(Arc::new(value))
        } else {
            Value::Slack(&value)
        };
        let (slot, _) = self.rebuild(slot, header, value)?;
        Ok((slot, len))
    }

    /// Appends to the value. Gives the slot and the new length.
    pub fn append(
        &mut self,
        slot: Slot<'a>,
        bytes: &[u8],
    ) -> Result<(Slot<'a>, usize), OutOfMemory> {
        let offset = self.view(slot).len();
        self.overwrite(slot, offset, bytes)
    }

    /// Changes a value that is out of line, copying it first if a reply still refers to it. Panics
    /// if it is not out of line.
    pub fn blob_edit<R>(&mut self, slot: Slot<'a>, edit: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.check(slot);
        let words = self.map.arena.words(slot.reference);
        let header = Header(words.load(0));
        assert!(
            header.encoding() == Some(Encoding::Blob),
            "the value is in line"
        );
        let offset = header.value_offset();
        #[expect(unsafe_code, reason = "the record's own reference")]
        // SAFETY: the record is ours by the latch, its word stands for one reference, and the word
        // is replaced below before anybody can read it (readers without the latch never do).
        let mut blob = unsafe { blob_take(words.load_at(offset)) };
        let before = blob.capacity();
        let result = edit(Arc::make_mut(&mut blob));
        self.map.count_blob_bytes(before, blob.capacity());
        words.store_at(offset, &blob_into_word(blob).to_le_bytes());
        self.edited();
        result
    }

    /// Sets an entry's access byte. Not a change anybody can see in a value.
    #[inline]
    pub fn touch(&mut self, slot: Slot<'a>, access: u8) {
        self.check(slot);
        let words = self.map.arena.words(slot.reference);
        words.store(0, Header(words.load(0)).with_access(access).0);
    }

    /// Whether some key of this bucket has an entry in the lock table.
    #[inline]
    pub fn key_locked(&self) -> bool {
        self.word & control::KEY_LOCKED != 0
    }

    #[inline]
    pub fn set_key_locked(&mut self, on: bool) {
        self.set_mark(control::KEY_LOCKED, on);
    }

    /// Whether some client waits for a key of this bucket.
    #[inline]
    pub fn blocked(&self) -> bool {
        self.word & control::BLOCKED != 0
    }

    #[inline]
    pub fn set_blocked(&mut self, on: bool) {
        self.set_mark(control::BLOCKED, on);
    }

    /// Whether some client watches a key of this bucket.
    #[inline]
    pub fn watched(&self) -> bool {
        self.word & control::WATCHED != 0
    }

    #[inline]
    pub fn set_watched(&mut self, on: bool) {
        self.set_mark(control::WATCHED, on);
    }

    /// Whether the running snapshot has this entry.
    pub fn saved(&self, slot: Slot<'a>) -> bool {
        self.check(slot);
        self.word_of(slot.bucket) & control::saved(usize::from(slot.position)) != 0
    }

    pub fn set_saved(&mut self, slot: Slot<'a>, on: bool) {
        self.check(slot);
        let bit = control::saved(usize::from(slot.position));
        let word = self.word_of(slot.bucket) & !bit;
        self.set_word(slot.bucket, word | if on { bit } else { 0 });
    }

    fn set_mark(&mut self, mark: u64, on: bool) {
        self.word = (self.word & !mark) | if on { mark } else { 0 };
    }
}

/// For the table's own use.
impl<'a> Latch<'a> {
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    pub(crate) fn set_depth(&mut self, depth: u32) {
        self.word = control::with_depth(self.word, depth);
        self.is_changed = true;
    }

    pub(crate) fn add_marks(&mut self, marks: u64) {
        self.word |= marks & control::MARKS;
    }

    /// Fills the chain anew, with overflow buckets from `links`.
    pub(crate) fn rewrite(&mut self, entries: &[Entry], links: &mut Vec<u32>) {
        let bits = self.map.write_chain(self.head, entries, links);
        self.word = (self.word & !(control::ENTRY_BITS | control::OVERFLOW)) | bits;
        self.layout += 1;
        self.is_changed = true;
        self.is_thinned = false;
    }

    /// Gives all overflow buckets of an emptied chain back.
    pub(crate) fn shed(&mut self) {
        self.tidy();
    }

    /// Ends the bucket's life.
    pub(crate) fn bury(mut self) {
        self.word = control::with_depth(control::advanced(self.word), 0)
            & !(control::ENTRY_BITS | control::OVERFLOW | control::MARKS);
        self.is_changed = false;
        self.is_thinned = false;
    }

    /// Calls `visit` with each bucket of the chain and its control word until it says to stop.
    pub(crate) fn each_bucket(&self, mut visit: impl FnMut(Bucket<'a>, u64) -> bool) {
        let (mut bucket, mut word) = (self.head, self.word);
        while visit(bucket, word) {
            let Some(next) = self.map.linked(bucket, word) else {
                return;
            };
            bucket = next;
            word = newest(bucket.control());
        }
    }

    #[inline(always)]
    pub(crate) fn slot(&self, bucket: Bucket<'a>, position: usize, reference: u32) -> Slot<'a> {
        Slot {
            bucket,
            position: position as u8,
            layout: self.layout,
            reference,
        }
    }

    /// A slot is good if nothing moved since, and it is an entry of this bucket.
    #[inline(always)]
    fn check(&self, slot: Slot<'_>) {
        assert!(
            slot.layout == self.layout
                && slot.bucket.reference(usize::from(slot.position)) == slot.reference,
            "a slot used after its entry moved or went"
        );
        debug_assert!(slot.reference != 0);
    }

    #[inline(always)]
    fn word_of(&self, bucket: Bucket<'_>) -> u64 {
        if bucket.is(self.head) {
            self.word
        } else {
            newest(bucket.control())
        }
    }

    #[inline(always)]
    fn set_word(&mut self, bucket: Bucket<'_>, word: u64) {
        if bucket.is(self.head) {
            self.word = word;
        } else {
            bucket.control().store(word, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn edited(&mut self) {
        self.edits += 1;
        self.is_changed = true;
    }

    /// A free place in the chain, which is made longer if there is none.
    fn vacancy(&mut self) -> Result<(Bucket<'a>, usize), OutOfMemory> {
        let (mut bucket, mut word) = (self.head, self.word);
        loop {
            let free = !bucket.occupied() & positions(word);
            if free != 0 {
                return Ok((bucket, free.trailing_zeros() as usize));
            }
            let Some(next) = self.map.linked(bucket, word) else {
                break;
            };
            bucket = next;
            word = newest(bucket.control());
        }
        // The last bucket is full: its last entry makes room for the link.
        let (number, next) = self.map.overflow.take()?;
        let last = ENTRIES - 1;
        let moved = Entry::at(bucket, word, last);
        next.set_entry(0, moved.tag, moved.reference);
        next.control().store(moved.bits(0), Ordering::Relaxed);
        bucket.set_entry(last, 0, number);
        let word = word & !control::ttl(last) & !control::saved(last);
        self.set_word(bucket, word | control::OVERFLOW);
        self.layout += 1;
        self.is_changed = true;
        Ok((next, 1))
    }

    fn mark_ttl(&mut self, slot: Slot<'a>, on: bool) {
        let bit = control::ttl(usize::from(slot.position));
        let word = self.word_of(slot.bucket);
        let expires = &self.table.counts.expires;
        match (word & bit != 0, on) {
            (false, true) => _ = expires.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = expires.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        }
        self.set_word(slot.bucket, word ^ bit);
    }

    /// Replaces the value, with key and deadline taken from the record.
    fn rebuild(
        &mut self,
        slot: Slot<'a>,
        header: Header,
        value: Value<'_>,
    ) -> Result<(Slot<'a>, Option<Blob>), OutOfMemory> {
        let mut key = Vec::with_capacity(header.key_len());
        let view = self.view(slot);
        view.key_into(&mut key);
        let expire = view.expire_at();
        let mut small = Small::new();
        let ready = Ready::new(&mut small, &key, value, expire, header.access());
        self.put(slot, ready, header)
    }

    fn put(
        &mut self,
        slot: Slot<'a>,
        ready: Ready<'_>,
        header: Header,
    ) -> Result<(Slot<'a>, Option<Blob>), OutOfMemory> {
        let words: Words<'_> = self.map.arena.words(slot.reference);
        let has_ttl = ready.has_ttl();
        let old_class = class::class_of(header.record_bytes(words));
        let new_class = class::class_of(ready.bytes());
        let (reference, displaced) = if old_class == new_class {
            let displaced = self.map.empty_record(words, header);
            self.map.count_blob_bytes(0, ready.blob_bytes());
            ready.write(words);
            (slot.reference, displaced)
        } else {
            let reference = self.map.store_new(ready)?;
            let displaced = self.map.discard_record(slot.reference);
            slot.bucket
                .set_reference(usize::from(slot.position), reference);
            (reference, displaced)
        };
        self.mark_ttl(slot, has_ttl);
        self.edited();
        Ok((Slot { reference, ..slot }, displaced))
    }

    /// Brings the chain back to as few buckets as its entries need.
    #[cold]
    fn tidy(&mut self) {
        let mut buckets = 0;
        let mut count = 0;
        self.each_bucket(|bucket, word| {
            buckets += 1;
            count += used_positions(bucket, word).count_ones() as usize;
            true
        });
        if links_needed(count) + 1 == buckets {
            return;
        }
        let mut entries = Vec::with_capacity(count);
        let mut links = Vec::with_capacity(buckets);
        self.gather(&mut entries, &mut links);
        self.rewrite(&entries, &mut links);
        for number in links {
            self.map.overflow.give(number);
        }
    }
}

impl Drop for Latch<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_thinned && self.word & control::OVERFLOW != 0 {
            self.tidy();
        }
        let word = if self.is_changed {
            control::advanced(self.word)
        } else {
            self.word
        };
        publish(self.head.control(), word);
    }
}

/// A record about to be stored, either way.
pub(crate) enum Ready<'b> {
    Small(&'b Small),
    Plan(Plan<'b>, u8),
}

impl<'b> Ready<'b> {
    #[inline(always)]
    fn new(
        small: &'b mut Small,
        key: &'b [u8],
        value: Value<'b>,
        expire: Option<i64>,
        access: u8,
    ) -> Self {
        if small.build(key, &value, expire, access) {
            return Self::Small(small);
        }
        let plan = Plan::new(key, value, expire, |bytes| {
            class::slot_bytes(class::class_of(bytes))
        });
        Self::Plan(plan, access)
    }

    #[inline(always)]
    fn has_ttl(&self) -> bool {
        match self {
            Self::Small(small) => small.has_ttl(),
            Self::Plan(plan, _) => plan.has_ttl(),
        }
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Small(small) => small.bytes(),
            Self::Plan(plan, _) => plan.bytes(),
        }
    }

    /// Bytes out of line.
    #[inline(always)]
    pub(crate) fn blob_bytes(&self) -> usize {
        match self {
            Self::Small(_) => 0,
            Self::Plan(plan, _) => plan.blob_bytes(),
        }
    }

    #[inline(always)]
    pub(crate) fn write(self, target: Words<'_>) {
        match self {
            Self::Small(small) => target.store_record(small.words()),
            Self::Plan(plan, access) => plan.write(target, access),
        }
    }
}

const _: () = assert!(BUCKET_BYTES == 8 * 8);
