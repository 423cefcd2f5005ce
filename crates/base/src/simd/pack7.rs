//! ASCII text in seven bits a character.
//!
//! Character `i` is bits `7i..7i+7` of one continuous stream, and bit `j` of the stream is bit
//! `j % 8` of byte `j / 8`, so eight characters are exactly seven bytes:
//!
//! ```text
//! byte      0        1        2        3        4        5        6
//!       1aaaaaaa 22bbbbbb 333ccccc 4444dddd 55555eee 666666ff 7777777g
//! ```
//!
//! (letters: high bits of the character that ends in the byte, digits: low bits of the next one).
//! Unused high bits of the last byte are zero. The stream has no length of its own.
//!
//! Two implementations with equal results: BMI2 `pext`/`pdep`, chosen once at run time where these
//! are fast, and plain shifts and masks.

/// Bytes that `count` characters take.
#[inline]
pub const fn packed_len(count: usize) -> usize {
    // Not `(7 * count + 7) / 8`, which overflows for counts near the top.
    count - count / 8
}

/// Whether all bytes are below 128, that is, can be packed.
#[inline]
pub fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    // Without an early exit this becomes vector code; texts are short, and mostly ASCII.
    let all = words.iter().fold(small_word(rest), |all, word| {
        all | u64::from_le_bytes(*word)
    });
    all & HIGH_BITS == 0
}

/// Whether the processor has BMI2 and runs `pext` and `pdep` at full speed, for callers with kernels
/// of their own.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn has_fast_bits() -> bool {
    bmi2::is_fast()
}

/// Packs the ASCII bytes of `source` into the first `packed_len(source.len())` bytes of `target`,
/// which must have that many. Bytes after these are left alone. High bits of non-ASCII bytes are lost.
#[inline]
pub fn pack(source: &[u8], target: &mut [u8]) {
    pack_two(source, &[], target);
}

/// Packs `first` followed by `second` as one stream; otherwise as [`pack`].
#[inline]
pub fn pack_two(first: &[u8], second: &[u8], target: &mut [u8]) {
    let target = &mut target[..packed_len(first.len() + second.len())];
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bmi2::is_fast() {
        // SAFETY: `is_fast` is true only if the processor has BMI2, the one feature required.
        unsafe { bmi2::pack_two(first, second, target) };
        return;
    }
    pack_two_with(first, second, target, squeeze);
}

/// Unpacks the first `count` characters of `source` into the first `count` bytes of `target`.
#[inline]
pub fn unpack(source: &[u8], count: usize, target: &mut [u8]) {
    unpack_range(source, 0, count, target);
}

/// Unpacks `count` characters beginning with character `first` into the first `count` bytes of
/// `target`. Both slices must be long enough.
#[inline]
pub fn unpack_range(source: &[u8], first: usize, count: usize, target: &mut [u8]) {
    let source = &source[..packed_len(first + count)];
    let target = &mut target[..count];
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bmi2::is_fast() {
        // SAFETY: `is_fast` is true only if the processor has BMI2, the one feature required.
        unsafe { bmi2::unpack(source, first, target) };
        return;
    }
    unpack_with(source, first, target, spread);
}

/// Eight bytes to 56 bits.
#[inline(always)]
fn squeeze(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// 56 bits to eight bytes; higher bits are ignored.
#[inline(always)]
fn spread(bits: u64) -> u64 {
    let word = (bits & 0x0fff_ffff) | ((bits & 0x00ff_ffff_f000_0000) << 4);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x0fff_c000_0fff_c000) << 2);
    (word & 0x007f_007f_007f_007f) | ((word & 0x3f80_3f80_3f80_3f80) << 1)
}

/// Packing, written once for both ways to squeeze a word. `target` is exactly the packed length.
#[inline(always)]
fn pack_two_with(first: &[u8], second: &[u8], target: &mut [u8], squeeze: impl Fn(u64) -> u64) {
    let (done, rest) = pack_words(first, target, &squeeze);
    if second.is_empty() {
        store_last(rest, &[], &mut target[done..], &squeeze);
        return;
    }
    // The word that spans the seam, then the remainder of the second slice.
    let borrowed = if rest.is_empty() {
        0
    } else {
        second.len().min(8 - rest.len())
    };
    let (head, tail) = second.split_at(borrowed);
    let mut target = &mut target[done..];
    if !rest.is_empty() {
        let size = packed_len(rest.len() + head.len());
        store_last(rest, head, &mut target[..size], &squeeze);
        target = &mut target[size..];
    }
    let (done, rest) = pack_words(tail, target, &squeeze);
    store_last(rest, &[], &mut target[done..], &squeeze);
}

/// Packs whole words; gives the bytes written and the up to seven characters left over.
#[inline(always)]
fn pack_words<'a>(
    source: &'a [u8],
    target: &mut [u8],
    squeeze: &impl Fn(u64) -> u64,
) -> (usize, &'a [u8]) {
    let (words, rest) = source.as_chunks::<8>();
    let size = words.len() * 7;
    assert!(size <= target.len(), "the target is too short");
    // Eight bytes are one store; the eighth is overwritten by what follows. Only the last word may
    // have no room for it.
    let roomy = if size < target.len() {
        words.len()
    } else {
        words.len().saturating_sub(1)
    };
    let (wide, narrow) = words.split_at(roomy);
    let mut slot = target.as_mut_ptr();
    for word in wide {
        let bits = squeeze(u64::from_le_bytes(*word)).to_le_bytes();
        // SAFETY: this is word `i < roomy`, written to bytes `7i..7i + 8`. If all words are roomy,
        // `7i + 8 <= size + 1 <= target.len()`; else `i + 1 < words.len()`, and `7i + 8 <= size`.
        // The pointer is of the exclusive borrow `target` and is not kept; unaligned is allowed.
        unsafe {
            slot.cast::<[u8; 8]>().write_unaligned(bits);
            slot = slot.add(7);
        }
    }
    for word in narrow {
        let bits = squeeze(u64::from_le_bytes(*word)).to_le_bytes();
        target[size - 7..size].copy_from_slice(&bits[..7]);
    }
    (size, rest)
}

/// Packs at most eight characters, given in two parts, into exactly `target`.
#[inline(always)]
fn store_last(first: &[u8], second: &[u8], target: &mut [u8], squeeze: &impl Fn(u64) -> u64) {
    let shift = first.len() * 8;
    let mut word = small_word(first);
    if !second.is_empty() {
        word |= small_word(second) << shift;
    }
    let bits = squeeze(word).to_le_bytes();
    // Branch-light copy of zero to seven bytes.
    let size = target.len();
    if size >= 4 {
        target[..4].copy_from_slice(&bits[..4]);
        target[size - 4..].copy_from_slice(&bits[size - 4..size]);
    } else if size > 0 {
        target[0] = bits[0];
        target[size / 2] = bits[size / 2];
        target[size - 1] = bits[size - 1];
    }
}

/// Up to seven bytes as a little-endian word.
#[inline(always)]
fn small_word(bytes: &[u8]) -> u64 {
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

/// Unpacking, written once. `source` is exactly what holds the characters wanted.
///
/// Eight characters are seven bytes, so every word begins at the same bit of its first byte, and an
/// eight-byte load shifted by at most seven still holds the 56 bits needed.
#[inline(always)]
fn unpack_with(source: &[u8], first: usize, target: &mut [u8], spread: impl Fn(u64) -> u64) {
    let skip_bits = (first % 8) * 7;
    let mut source = &source[first / 8 * 7 + skip_bits / 8..];
    let shift = skip_bits % 8;
    let (words, rest) = target.as_chunks_mut::<8>();
    // Words whose eight-byte load lies inside the source; the last one or two may not.
    let roomy = (source.len().saturating_sub(1) / 7).min(words.len());
    let (wide, narrow) = words.split_at_mut(roomy);
    let mut slot = source.as_ptr();
    for word in wide {
        // SAFETY: this is word `i < roomy`, read from bytes `7i..7i + 8`, and
        // `7i + 8 <= 7 * roomy + 1 <= source.len()`. The pointer is of the shared borrow `source`.
        let bytes = unsafe { slot.cast::<[u8; 8]>().read_unaligned() };
        // SAFETY: `7i + 7 <= source.len()` by the above.
        slot = unsafe { slot.add(7) };
        *word = spread(u64::from_le_bytes(bytes) >> shift).to_le_bytes();
    }
    source = &source[roomy * 7..];
    for word in narrow {
        *word = spread(small_word(source) >> shift).to_le_bytes();
        source = &source[7..];
    }
    if rest.is_empty() {
        return;
    }
    let bits = match source.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => small_word(source),
    };
    let bytes = spread(bits >> shift).to_le_bytes();
    let size = rest.len();
    if size >= 4 {
        rest[..4].copy_from_slice(&bytes[..4]);
        rest[size - 4..].copy_from_slice(&bytes[size - 4..size]);
    } else {
        rest[0] = bytes[0];
        rest[size / 2] = bytes[size / 2];
        rest[size - 1] = bytes[size - 1];
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod bmi2 {
    use std::arch::x86_64::{__cpuid, _pdep_u64, _pext_u64};
    use std::sync::atomic::{AtomicU8, Ordering};

    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;

    /// Whether BMI2 is present and not microcoded. The answer is computed once.
    #[inline(always)]
    pub(super) fn is_fast() -> bool {
        static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
        match ANSWER.load(Ordering::Relaxed) {
            UNKNOWN => {
                let answer = detect();
                ANSWER.store(u8::from(answer), Ordering::Relaxed);
                answer
            }
            answer => answer == 1,
        }
    }

    const UNKNOWN: u8 = 2;

    /// AMD before family 19h (Zen 3) has `pext` and `pdep` in microcode, at up to hundreds of
    /// cycles, far slower than shifts.
    #[cold]
    fn detect() -> bool {
        if !std::arch::is_x86_feature_detected!("bmi2") {
            return false;
        }
        let vendor = __cpuid(0);
        let is_amd = vendor.ebx == u32::from_le_bytes(*b"Auth");
        let signature = __cpuid(1).eax;
        let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
        !is_amd || family >= 0x19
    }

    #[target_feature(enable = "bmi2")]
    pub(super) fn pack_two(first: &[u8], second: &[u8], target: &mut [u8]) {
        super::pack_two_with(first, second, target, |word| _pext_u64(word, LOW_SEVEN));
    }

    #[target_feature(enable = "bmi2")]
    pub(super) fn unpack(source: &[u8], first: usize, target: &mut [u8]) {
        super::unpack_with(source, first, target, |bits| _pdep_u64(bits, LOW_SEVEN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, one bit at a time.
    fn naive_pack(text: &[u8]) -> Vec<u8> {
        let mut packed = vec![0; (7 * text.len()).div_ceil(8)];
        for (index, byte) in text.iter().enumerate() {
            for bit in 0..7 {
                let at = index * 7 + bit;
                packed[at / 8] |= (byte >> bit & 1) << (at % 8);
            }
        }
        packed
    }

    fn check(text: &[u8], split: usize, first: usize, count: usize) {
        let expected = naive_pack(text);
        assert_eq!(packed_len(text.len()), expected.len());
        let (left, right) = text.split_at(split);

        // One byte more than needed, to see that it is left alone.
        let mut packed = vec![0xee; expected.len() + 1];
        pack_two(left, right, &mut packed);
        assert_eq!(packed, [&expected[..], &[0xee]].concat());
        let mut portable = vec![0xee; expected.len()];
        pack_two_with(left, right, &mut portable, squeeze);
        assert_eq!(portable, expected);

        let wanted = &text[first..first + count];
        let mut text_again = vec![0xee; count + 1];
        unpack_range(&expected, first, count, &mut text_again);
        assert_eq!(text_again, [wanted, &[0xee]].concat());
        let mut portable = vec![0xee; count];
        unpack_with(
            &expected[..packed_len(first + count)],
            first,
            &mut portable,
            spread,
        );
        assert_eq!(portable, wanted);
    }

    #[test]
    fn small_sizes_in_all_positions() {
        let text: Vec<u8> = (0..26).map(|index| (index * 37 % 128) as u8).collect();
        let size_max = if cfg!(miri) { 10 } else { text.len() };
        for size in 0..=size_max {
            for split in 0..=size {
                for first in 0..=size {
                    check(&text[..size], split, first, size - first);
                }
                check(&text[..size], split, size / 3, size / 2);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: if cfg!(miri) { 8 } else { 512 },
            ..ProptestConfig::default()
        })]
        #[test]
        fn equals_the_definition(
            text in proptest::collection::vec(0u8..128, 0..300),
            split: prop::sample::Index,
            first: prop::sample::Index,
            count: prop::sample::Index,
        ) {
            let split = split.index(text.len() + 1);
            let first = first.index(text.len() + 1);
            let count = count.index(text.len() - first + 1);
            check(&text, split, first, count);
        }
    }
}
