//! Record memory as relaxed 64-bit words, and bytes read from and written into them.
//!
//! Record memory may be read by anybody while its owner writes, so it is never touched as plain
//! bytes: all access is through whole relaxed words, and a byte offset is reached by shifting two
//! neighbours together. What comes out of a race is garbage; the reader finds out afterwards.

use base::Blob;
use env::sync::atomic::{AtomicU64, Ordering};
use std::marker::PhantomData;
use std::sync::Arc;

/// Stores a control word, with release.
#[inline(always)]
pub(crate) fn publish(word: &AtomicU64, value: u64) {
    if cfg!(loom) {
        // In its place in loom's order of the read-modify-writes of those who want the latch.
        word.swap(value, Ordering::Release);
    } else {
        word.store(value, Ordering::Release);
    }
}

/// The words of one record, and of whatever lies behind it.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    first: *const AtomicU64,
    /// Loads come from the record's owner; see `loom_model`.
    #[cfg(loom)]
    is_owned: bool,
    owner: PhantomData<&'a AtomicU64>,
}

/// Loads a word whose last value is known to be visible, relaxed.
#[inline(always)]
pub(crate) fn newest(word: &AtomicU64) -> u64 {
    if cfg!(loom) {
        word.fetch_add(0, Ordering::Relaxed)
    } else {
        word.load(Ordering::Relaxed)
    }
}

/// Words that can be loaded from the start of any record, garbage lengths included.
pub(crate) const READABLE_WORDS: usize = if cfg!(loom) { 16 } else { 4096 };

impl<'a> Words<'a> {
    /// # Safety
    ///
    /// `READABLE_WORDS` words from `first` on belong to a region that lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(first: *const AtomicU64) -> Self {
        Self {
            first,
            #[cfg(loom)]
            is_owned: true,
            owner: PhantomData,
        }
    }

    /// The same for a reader that does not own the record.
    #[inline(always)]
    pub(crate) fn shared(self) -> Self {
        Self {
            #[cfg(loom)]
            is_owned: false,
            ..self
        }
    }

    #[inline(always)]
    fn word(self, index: usize) -> &'a AtomicU64 {
        debug_assert!(index < READABLE_WORDS, "beyond any record");
        // SAFETY: 1. lengths are clamped when a header is parsed, so that no record ends after
        // `READABLE_WORDS` (`record::limits_fit`); 2. that many words are mapped for `'a` by the
        // promise given to `new`; 3. atomics may be shared freely.
        unsafe { &*self.first.add(index) }
    }

    #[inline(always)]
    pub(crate) fn load(self, index: usize) -> u64 {
        #[cfg(loom)]
        if self.is_owned {
            return newest(self.word(index));
        }
        self.word(index).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn store(self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    /// Eight bytes from byte `offset` on.
    #[inline(always)]
    pub(crate) fn load_at(self, offset: usize) -> u64 {
        let (index, shift) = (offset / 8, offset % 8 * 8);
        let low = self.load(index);
        if shift == 0 {
            return low;
        }
        (low >> shift) | (self.load(index + 1) << (64 - shift))
    }

    /// Whether the bytes from `offset` on are `expected`.
    #[inline(always)]
    pub(crate) fn equal(self, offset: usize, expected: &[u8]) -> bool {
        let (chunks, rest) = expected.as_chunks::<8>();
        for (index, chunk) in chunks.iter().enumerate() {
            if self.load_at(offset + index * 8) != u64::from_le_bytes(*chunk) {
                return false;
            }
        }
        if rest.is_empty() {
            return true;
        }
        let mask = (1u64 << (rest.len() * 8)) - 1;
        let last = self.load_at(offset + chunks.len() * 8) & mask;
        last == small_word(rest)
    }

    /// Appends `len` bytes from `offset` on to `target`.
    #[inline]
    pub(crate) fn copy_to(self, offset: usize, len: usize, target: &mut Vec<u8>) {
        let words = len.div_ceil(8);
        target.reserve(words * 8);
        let start = target.len();
        let (index, shift) = (offset / 8, offset % 8 * 8);
        let output = target.spare_capacity_mut().as_mut_ptr();
        let mut low = if words == 0 { 0 } else { self.load(index) };
        for step in 0..words {
            let word = if shift == 0 {
                self.load(index + step)
            } else {
                let high = self.load(index + step + 1);
                let word = (low >> shift) | (high << (64 - shift));
                low = high;
                word
            };
            // SAFETY: `words * 8` bytes of spare capacity were reserved, and `step < words`; the array
            // has the alignment of a byte.
            unsafe {
                output
                    .add(step * 8)
                    .cast::<[u8; 8]>()
                    .write(word.to_le_bytes());
            }
        }
        // SAFETY: `len` bytes, at most `words * 8`, were initialized just above.
        unsafe { target.set_len(start + len) };
    }

    /// Fills `target` with the bytes from `offset` on.
    #[inline]
    pub(crate) fn fill(self, offset: usize, target: &mut [u8]) {
        let (chunks, rest) = target.as_chunks_mut::<8>();
        let mut at = offset;
        for chunk in chunks {
            *chunk = self.load_at(at).to_le_bytes();
            at += 8;
        }
        if !rest.is_empty() {
            let word = self.load_at(at).to_le_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }

    /// Writes `bytes` at `offset`, leaving neighbours in the first and last word as they are. Only
    /// for the record's owner: two owners would lose each other's bytes.
    pub(crate) fn store_at(self, offset: usize, bytes: &[u8]) {
        let mut at = offset;
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let (index, skip) = (at / 8, at % 8);
            let count = bytes.len().min(8 - skip);
            let mut word = if count == 8 {
                [0; 8]
            } else {
                self.load(index).to_le_bytes()
            };
            word[skip..skip + count].copy_from_slice(&bytes[..count]);
            self.store(index, u64::from_le_bytes(word));
            bytes = &bytes[count..];
            at += count;
        }
    }

    /// Writes a whole record, its header last.
    #[inline]
    pub(crate) fn store_record(self, record: &[u64]) {
        for (index, &word) in record.iter().enumerate().skip(1) {
            self.store(index, word);
        }
        self.store(0, record[0]);
    }
}

/// Up to seven bytes as a little-endian word.
#[inline(always)]
pub(crate) fn small_word(bytes: &[u8]) -> u64 {
    let size = bytes.len();
    debug_assert!(size < 8);
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let low = u64::from(u32::from_le_bytes(*head));
        let high = u64::from(u32::from_le_bytes(*tail));
        return low | (high << ((size - 4) * 8));
    }
    if size == 0 {
        return 0;
    }
    u64::from(bytes[0])
        | (u64::from(bytes[size / 2]) << (size / 2 * 8))
        | (u64::from(bytes[size - 1]) << ((size - 1) * 8))
}

/// The same memory as bytes.
#[inline(always)]
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    let bytes = size_of_val(words);
    // SAFETY: the same initialized memory under the same exclusive borrow; `u8` has no alignment
    // and every byte pattern is valid for both types.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) }
}

/// Turns a shared value into the word a record keeps. The record then owns one reference.
pub(crate) fn blob_into_word(blob: Blob) -> u64 {
    Arc::into_raw(blob).expose_provenance() as u64
}

/// The value behind a record's word, without taking the reference from the record.
///
/// # Safety
///
/// `word` comes from [`blob_into_word`], and the reference it stands for lives for `'a`.
pub(crate) unsafe fn blob_behind<'a>(word: u64) -> &'a Vec<u8> {
    // SAFETY: by the caller's promise the pointer leads to a live value.
    unsafe { &*std::ptr::with_exposed_provenance(word as usize) }
}

/// Another reference to the value behind a record's word.
///
/// # Safety
///
/// As for [`blob_behind`], during the call.
pub(crate) unsafe fn blob_clone(word: u64) -> Blob {
    let pointer: *const Vec<u8> = std::ptr::with_exposed_provenance(word as usize);
    // SAFETY: the pointer came from `Arc::into_raw` and the count is at least one; the count is
    // raised first, so that the new `Arc` owns a reference of its own.
    unsafe {
        Arc::increment_strong_count(pointer);
        Arc::from_raw(pointer)
    }
}

/// Takes the reference back from a record.
///
/// # Safety
///
/// `word` comes from [`blob_into_word`], and nobody uses it after this call.
pub(crate) unsafe fn blob_take(word: u64) -> Blob {
    // SAFETY: the word stands for exactly one reference, which the caller gives up.
    unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(word as usize)) }
}
