//! Short text in and out of records without detours: what most reads and writes are made of.
//!
//! Packing here copies key and value one behind the other, takes eight characters at a time to seven
//! bytes, and notices on the way whether they are ASCII at all. Unpacking goes from record words to
//! the output directly. Results equal those of [`base::simd::pack7`]; whatever does not fit here goes
//! through [`crate::record`].

use crate::record::{
    Encoding, HEADER_SHORT, PACK_CHARACTERS_MIN, Value, int_bytes, ttl_field, ttl_flag,
};
use crate::words::Words;
use base::simd::pack7;
use std::mem::MaybeUninit;

/// Characters of key and value together.
const TEXT_MAX: usize = if cfg!(loom) { 24 } else { 224 };
/// Bytes of a record: header, deadline, text, and a word beyond for whole stores.
const BUFFER_WORDS: usize = 32;
const _FITS: () = assert!(HEADER_SHORT + 8 + TEXT_MAX + 2 * 8 <= BUFFER_WORDS * 8);

/// A record in the short form, built on the stack.
pub(crate) struct Small {
    buffer: [MaybeUninit<u64>; BUFFER_WORDS],
    bytes: usize,
    has_ttl: bool,
}

impl Small {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            buffer: [MaybeUninit::uninit(); BUFFER_WORDS],
            bytes: 0,
            has_ttl: false,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has_ttl(&self) -> bool {
        self.has_ttl
    }

    /// Builds the record; false if it is not one for here.
    #[inline]
    pub(crate) fn build(
        &mut self,
        key: &[u8],
        value: &Value<'_>,
        expire: Option<i64>,
        access: u8,
    ) -> bool {
        let (text, number) = match *value {
            Value::Int(number) => (&[][..], Some(number)),
            Value::Text(text) => (text, None),
            Value::Bytes(text) if text.len() > 20 => (text, None),
            Value::Bytes(text) => (text, base::number::parse_i64(text)),
            Value::Slack(_) | Value::Blob(_) => return false,
        };
        if key.len() + text.len() > TEXT_MAX {
            return false;
        }
        let ttl = ttl_field(expire);
        self.has_ttl = ttl.is_some();
        let body = HEADER_SHORT + ttl.map_or(0, |(_, size)| size);
        if let Some((deadline, _)) = ttl {
            self.put_word(HEADER_SHORT, deadline as u64);
        }
        let (format, value_len, end) = if let Some(number) = number {
            let end = body + key.len();
            self.put_bytes(body, key);
            self.put_word(end, number as u64);
            (Encoding::Int, int_bytes(number), end + int_bytes(number))
        } else {
            let characters = key.len() + text.len();
            let packed = body + pack7::packed_len(characters);
            let raw = body + characters;
            let is_smaller = packed.div_ceil(8) < raw.div_ceil(8);
            if characters >= PACK_CHARACTERS_MIN && is_smaller && self.pack(body, key, text) {
                (Encoding::Packed, text.len(), packed)
            } else {
                self.put_bytes(body, key);
                self.put_bytes(body + key.len(), text);
                (Encoding::Raw, text.len(), raw)
            }
        };
        // Zeroes behind the end, so that the last word is whole.
        self.put_word(end, 0);
        let flags = format as u32 | u32::from(ttl_flag(ttl));
        let lens = (key.len() as u32) << 16 | (value_len as u32) << 24;
        self.put_half(flags | u32::from(access) << 8 | lens);
        self.bytes = end;
        true
    }

    /// The finished record.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[u64] {
        let words = self.bytes.div_ceil(8);
        // SAFETY: `build` has written every byte before `bytes` and the eight behind it.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), words) }
    }

    #[inline(always)]
    fn byte(&mut self, offset: usize, size: usize) -> *mut u8 {
        debug_assert!(offset + size <= BUFFER_WORDS * 8);
        self.buffer.as_mut_ptr().cast::<u8>().wrapping_add(offset)
    }

    #[inline(always)]
    fn put_word(&mut self, offset: usize, word: u64) {
        let target = self.byte(offset, 8).cast::<[u8; 8]>();
        // SAFETY: `_FITS`: header, deadline, text and one word more are within the buffer; bytes
        // have no alignment.
        unsafe { target.write(word.to_le_bytes()) };
    }

    #[inline(always)]
    fn put_half(&mut self, word: u32) {
        let target = self.byte(0, 4).cast::<[u8; 4]>();
        // SAFETY: the buffer has four bytes.
        unsafe { target.write(word.to_le_bytes()) };
    }

    #[inline(always)]
    fn put_bytes(&mut self, offset: usize, bytes: &[u8]) {
        let target = self.byte(offset, bytes.len());
        // SAFETY: as in `put_word`, and a slice never overlaps our own buffer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Packs at `offset`; false if some character is not ASCII.
    #[inline(always)]
    fn pack(&mut self, offset: usize, key: &[u8], value: &[u8]) -> bool {
        let mut text = Text([MaybeUninit::uninit(); TEXT_MAX + 8]);
        let characters = key.len() + value.len();
        let target = text.0.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller has checked that both fit into `TEXT_MAX`; eight zeroes more fit too.
        unsafe {
            std::ptr::copy_nonoverlapping(key.as_ptr(), target, key.len());
            std::ptr::copy_nonoverlapping(value.as_ptr(), target.add(key.len()), value.len());
            target.add(characters).cast::<[u8; 8]>().write([0; 8]);
        }
        let groups = characters.div_ceil(8);
        let target = self.byte(offset, groups * 7 + 1);
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        if pack7::has_fast_bits() {
            // SAFETY: BMI2 is there; the text is initialized to the end of its last group; and the
            // buffer holds seven bytes a group and one more.
            return unsafe { bmi2::pack(text.0.as_ptr().cast(), groups, target) };
        }
        // SAFETY: as above.
        unsafe {
            pack_with(
                text.0.as_ptr().cast(),
                groups,
                target,
                crate::record::squeeze,
            )
        }
    }
}

struct Text([MaybeUninit<u8>; TEXT_MAX + 8]);

/// Packs groups of eight characters; false, with the target half written, if one is not ASCII.
///
/// # Safety
///
/// `source` has eight initialized bytes a group, `target` room for seven a group and one more.
#[inline(always)]
unsafe fn pack_with(
    source: *const u8,
    groups: usize,
    target: *mut u8,
    squeeze: impl Fn(u64) -> u64,
) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    for group in 0..groups {
        // SAFETY: by the caller's promise.
        let word = u64::from_le_bytes(unsafe { source.add(group * 8).cast::<[u8; 8]>().read() });
        if word & HIGH_BITS != 0 {
            return false;
        }
        // SAFETY: by the caller's promise; the eighth byte is zero and overwritten by the next.
        unsafe {
            target
                .add(group * 7)
                .cast::<[u8; 8]>()
                .write(squeeze(word).to_le_bytes());
        }
    }
    true
}

/// Appends `count` characters, beginning with character `first` of the stream at byte `offset`.
#[inline]
pub(crate) fn unpack_to(
    words: Words<'_>,
    offset: usize,
    first: usize,
    count: usize,
    target: &mut Vec<u8>,
) {
    let groups = count.div_ceil(8);
    target.reserve(groups * 8);
    let output = target.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    let bit = offset * 8 + first * 7;
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if pack7::has_fast_bits() {
        // SAFETY: BMI2 is there, and eight bytes a group were reserved.
        unsafe { bmi2::unpack(words, bit, groups, output) };
    } else {
        // SAFETY: as above.
        unsafe { unpack_with(words, bit, groups, output, crate::record::spread) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    // SAFETY: as above.
    unsafe {
        unpack_with(words, bit, groups, output, crate::record::spread);
    }
    // SAFETY: `count` bytes, at most eight a group, were initialized behind the length.
    unsafe { target.set_len(target.len() + count) };
}

/// Unpacks groups of eight characters from bit `bit` of a record on.
///
/// # Safety
///
/// `target` has room for eight bytes a group.
#[inline(always)]
unsafe fn unpack_with(
    words: Words<'_>,
    bit: usize,
    groups: usize,
    target: *mut u8,
    spread: impl Fn(u64) -> u64,
) {
    let mut bit = bit;
    for group in 0..groups {
        let (index, shift) = (bit / 64, bit % 64);
        // Two words as one number, shifted: the 56 bits never need a third.
        let pair = u128::from(words.load(index + 1)) << 64 | u128::from(words.load(index));
        let bytes = spread((pair >> shift) as u64).to_le_bytes();
        // SAFETY: by the caller's promise.
        unsafe { target.add(group * 8).cast::<[u8; 8]>().write(bytes) };
        bit += 56;
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod bmi2 {
    use crate::words::Words;
    use std::arch::x86_64::{_pdep_u64, _pext_u64};

    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;

    /// # Safety
    ///
    /// As for `pack_with`.
    #[target_feature(enable = "bmi2")]
    pub(super) unsafe fn pack(source: *const u8, groups: usize, target: *mut u8) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { super::pack_with(source, groups, target, |word| _pext_u64(word, LOW_SEVEN)) }
    }

    /// # Safety
    ///
    /// As for `unpack_with`.
    #[target_feature(enable = "bmi2")]
    pub(super) unsafe fn unpack(words: Words<'_>, bit: usize, groups: usize, target: *mut u8) {
        // SAFETY: by the caller's promise.
        unsafe {
            super::unpack_with(words, bit, groups, target, |bits| {
                _pdep_u64(bits, LOW_SEVEN)
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use env::sync::atomic::AtomicU64;

    #[test]
    fn equals_packing_by_slices() {
        let words: Vec<AtomicU64> = (0..5000).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: more words than any record reads, alive during the test.
        let words = unsafe { Words::new(words.as_ptr()) };
        let mut rng = env::random::Rng::seeded(8);
        for round in 0..4_000 {
            let total = rng.below(TEXT_MAX as u64 + 1) as usize;
            let text: Vec<u8> = (0..total).map(|_| (rng.next_u64() % 128) as u8).collect();
            let (key, value) = text.split_at(rng.below(total as u64 + 1) as usize);
            let expire = [None, Some(1 << 40), Some(-1)][round % 3];
            let mut small = Small::new();
            assert!(small.build(key, &Value::Text(value), expire, 7));
            words.store_record(small.words());
            let view = crate::view::View::latched(words);
            let (mut key_again, mut value_again) = (Vec::new(), b"before".to_vec());
            view.key_into(&mut key_again);
            view.copy_into(&mut value_again);
            assert_eq!((&key_again[..], &value_again[6..]), (key, value));
            assert_eq!((view.expire_at(), view.access()), (expire, 7));
            assert!(view.key_equals(key));
            if view.encoding() == Encoding::Packed {
                let mut packed = vec![0; pack7::packed_len(total)];
                pack7::pack(&text, &mut packed);
                let offset = small.bytes() - packed.len();
                assert!(words.equal(offset, &packed));
            }
        }
    }
}
