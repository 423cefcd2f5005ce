//! One cache line of the table: eleven entries and the word that guards them.
//!
//! ```text
//! word 0   control
//!   bit 0        latch: the owner may change everything, others wait
//!   bit 1        overflow: the last reference is the link to a further bucket
//!   bit 2        key-locked: some key here has an entry in the lock table
//!   bit 3        blocked: some client waits for a key here
//!   bit 4        watched: some client watches a key here
//!   bits 5..11   depth: how many low hash bits all keys here have in common; 0 is no bucket
//!   bits 11..22  ttl: which entries have a deadline
//!   bits 22..33  saved: which entries the running snapshot has
//!   bits 33..64  sequence: counts changes
//! word 1, 2   eleven tags, one spare byte, reference 0
//! words 3..8  references 1 to 10
//! ```
//!
//! A tag is eight bits of the hash, 0 for an empty entry. A bucket reached by a link has the same
//! shape; of its control word only the overflow, ttl and saved bits are used, and the head's latch
//! and sequence cover it. All words are read and written relaxed, whole; see [`crate::keymap`] for
//! the protocol.

use env::sync::atomic::{AtomicU64, Ordering};

/// Entries of a bucket; one less when it overflows.
pub(crate) const ENTRIES: usize = 11;
pub(crate) const BUCKET_BYTES: usize = 64;

pub(crate) mod control {
    pub(crate) const LATCH: u64 = 1;
    pub(crate) const OVERFLOW: u64 = 1 << 1;
    pub(crate) const KEY_LOCKED: u64 = 1 << 2;
    pub(crate) const BLOCKED: u64 = 1 << 3;
    pub(crate) const WATCHED: u64 = 1 << 4;
    pub(crate) const MARKS: u64 = KEY_LOCKED | BLOCKED | WATCHED;
    const DEPTH_SHIFT: u32 = 5;
    const DEPTH: u64 = 0x3f << DEPTH_SHIFT;
    const TTL_SHIFT: u32 = 11;
    pub(crate) const TTL: u64 = 0x7ff << TTL_SHIFT;
    const SAVED_SHIFT: u32 = 22;
    pub(crate) const SAVED: u64 = 0x7ff << SAVED_SHIFT;
    const SEQUENCE_SHIFT: u32 = 33;
    /// Entry bits: what travels with an entry from one place to another.
    pub(crate) const ENTRY_BITS: u64 = TTL | SAVED;

    #[inline(always)]
    pub(crate) fn depth(word: u64) -> u32 {
        ((word & DEPTH) >> DEPTH_SHIFT) as u32
    }

    #[inline(always)]
    pub(crate) fn with_depth(word: u64, depth: u32) -> u64 {
        debug_assert!(depth < 64);
        (word & !DEPTH) | (u64::from(depth) << DEPTH_SHIFT)
    }

    /// Whether `hash` belongs into the bucket `index` that carries `word`.
    #[inline(always)]
    pub(crate) fn is_home(word: u64, index: u64, hash: u64) -> bool {
        let depth = depth(word);
        depth != 0 && hash & ((1 << depth) - 1) == index
    }

    #[inline(always)]
    pub(crate) fn ttl(position: usize) -> u64 {
        1 << (TTL_SHIFT as usize + position)
    }

    #[inline(always)]
    pub(crate) fn saved(position: usize) -> u64 {
        1 << (SAVED_SHIFT as usize + position)
    }

    /// Which positions have a deadline, as a mask.
    #[inline(always)]
    pub(crate) fn ttl_mask(word: u64) -> u32 {
        ((word & TTL) >> TTL_SHIFT) as u32
    }

    /// The word after one more change.
    #[inline(always)]
    pub(crate) fn advanced(word: u64) -> u64 {
        // The sequence is the topmost field and wraps by itself.
        word.wrapping_add(1 << SEQUENCE_SHIFT)
    }

    /// The word of a bucket that begins a life.
    pub(crate) fn born(depth: u32, sequence: u64) -> u64 {
        with_depth(sequence << SEQUENCE_SHIFT, depth)
    }
}

/// The tag of a hash; never 0.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u8 {
    ((hash >> 40) as u8).max(1)
}

/// One bucket, head or overflow.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    words: &'a [AtomicU64; 8],
    /// Loads come from the latch's owner; see `loom_model`.
    #[cfg(loom)]
    is_owned: bool,
}

impl<'a> Bucket<'a> {
    /// # Safety
    ///
    /// Eight words from `first` on belong to a region that lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(first: *const AtomicU64) -> Self {
        // SAFETY: the words are there by the caller's promise, and atomics may be shared.
        let words = unsafe { &*first.cast() };
        Self {
            words,
            #[cfg(loom)]
            is_owned: false,
        }
    }

    /// The same for the latch's owner.
    #[inline(always)]
    pub(crate) fn owned(self) -> Self {
        Self {
            #[cfg(loom)]
            is_owned: true,
            ..self
        }
    }

    #[inline(always)]
    pub(crate) fn address(self) -> *const AtomicU64 {
        self.words.as_ptr()
    }

    #[inline(always)]
    pub(crate) fn is(self, other: Bucket<'_>) -> bool {
        std::ptr::eq(self.words.as_ptr(), other.words.as_ptr())
    }

    #[inline(always)]
    pub(crate) fn control(self) -> &'a AtomicU64 {
        &self.words[0]
    }

    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        #[cfg(loom)]
        if self.is_owned {
            return crate::words::newest(&self.words[word]);
        }
        self.words[word].load(Ordering::Relaxed)
    }

    /// Positions whose tag is `tag`, among the first `ENTRIES`, link position included.
    #[inline(always)]
    pub(crate) fn tagged(self, tag: u8) -> u32 {
        tag_matches(self.load(1), self.load(2), tag)
    }

    /// Positions in use.
    #[inline(always)]
    pub(crate) fn occupied(self) -> u32 {
        !self.tagged(0) & ALL
    }

    #[inline(always)]
    pub(crate) fn reference(self, position: usize) -> u32 {
        let half = position + 5;
        (self.load(half / 2) >> (half % 2 * 32)) as u32
    }

    #[inline(always)]
    pub(crate) fn tag(self, position: usize) -> u8 {
        (self.load(1 + position / 8) >> (position % 8 * 8)) as u8
    }

    /// For the latch's owner, as all that stores.
    #[inline(always)]
    pub(crate) fn set_reference(self, position: usize, reference: u32) {
        let half = position + 5;
        let shift = half % 2 * 32;
        let word = self.load(half / 2) & !(0xffff_ffff << shift);
        self.words[half / 2].store(word | (u64::from(reference) << shift), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_tag(self, position: usize, tag: u8) {
        let (index, shift) = (1 + position / 8, position % 8 * 8);
        let word = self.load(index) & !(0xff << shift);
        self.words[index].store(word | (u64::from(tag) << shift), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_entry(self, position: usize, tag: u8, reference: u32) {
        self.set_tag(position, tag);
        self.set_reference(position, reference);
    }

    /// The overflow bucket's number, if the control word `word` of this bucket says there is one.
    #[inline(always)]
    pub(crate) fn link(self, word: u64) -> Option<u32> {
        (word & control::OVERFLOW != 0).then(|| self.reference(ENTRIES - 1))
    }

    /// Empties everything but the control word.
    pub(crate) fn wipe(self) {
        for word in &self.words[1..] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Positions for entries, given the control word.
#[inline(always)]
pub(crate) fn positions(word: u64) -> u32 {
    if word & control::OVERFLOW == 0 {
        ALL
    } else {
        ALL >> 1
    }
}

const ALL: u32 = (1 << ENTRIES) - 1;

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline(always)]
fn tag_matches(low: u64, high: u64, tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64, and these work on values only.
    unsafe {
        let tags = _mm_set_epi64x(high as i64, low as i64);
        let equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8));
        _mm_movemask_epi8(equal) as u32 & ALL
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline(always)]
fn tag_matches(low: u64, high: u64, tag: u8) -> u32 {
    portable_matches(low, high, tag)
}

/// Matching without vector instructions.
#[cfg_attr(
    all(target_arch = "x86_64", not(any(test, loom, miri))),
    expect(dead_code)
)]
#[inline(always)]
fn portable_matches(low: u64, high: u64, tag: u8) -> u32 {
    (equal_bytes(low, tag) | (equal_bytes(high, tag) << 8)) & ALL
}

/// One bit per byte of `word` that equals `tag`, exactly (without the usual borrow into neighbours).
#[inline(always)]
fn equal_bytes(word: u64, tag: u8) -> u32 {
    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let difference = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    let zero = !(((difference & LOW_SEVEN) + LOW_SEVEN) | difference | LOW_SEVEN);
    // Gathers the eight high bits into one byte.
    ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_match_agree() {
        let mut rng = env::random::Rng::seeded(5);
        for _ in 0..20_000 {
            let mut words = [rng.next_u64(), rng.next_u64()];
            // Few distinct values, so that there are matches.
            for word in &mut words {
                *word &= 0x8103_0101_8081_0102;
            }
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            for tag in [0, 1, 2, 3, 0x80, 0x81] {
                let expected = (0..ENTRIES).fold(0, |mask, position| {
                    mask | (u32::from(bytes[position] == tag) << position)
                });
                assert_eq!(tag_matches(words[0], words[1], tag), expected);
                assert_eq!(portable_matches(words[0], words[1], tag), expected);
            }
        }
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let words: [AtomicU64; 8] = std::array::from_fn(|_| AtomicU64::new(0));
        // SAFETY: eight words that outlive the bucket.
        let bucket = unsafe { Bucket::new(words.as_ptr()) };
        for position in 0..ENTRIES {
            bucket.set_entry(
                position,
                position as u8 + 100,
                position as u32 + 1_000_000_000,
            );
        }
        for position in 0..ENTRIES {
            assert_eq!(bucket.reference(position), position as u32 + 1_000_000_000);
            assert_eq!(bucket.tag(position), position as u8 + 100);
            assert_eq!(bucket.tagged(position as u8 + 100), 1 << position);
        }
        bucket.set_tag(3, 0);
        assert_eq!(bucket.occupied(), ALL & !(1 << 3));
        assert_eq!(
            words[2].load(Ordering::Relaxed) >> 24 & 0xff,
            0,
            "the spare byte"
        );
        let word = control::born(5, 0x7fff_ffff) | control::ttl(10) | control::saved(0);
        assert_eq!(control::depth(word), 5);
        assert_eq!(control::ttl_mask(word), 1 << 10);
        assert_eq!(
            control::advanced(word) >> 33,
            0,
            "wraps without touching others"
        );
        assert_eq!(control::depth(control::advanced(word)), 5);
        assert!(control::is_home(word, 3, 0b1_00011) && !control::is_home(word, 3, 0b10011));
        assert!(!control::is_home(0, 0, 0));
    }
}
