//! Sizes of record slots: every eight bytes to 256, then eight sizes to each doubling.

use crate::record::RECORD_BYTES_MAX;

/// Records larger than this are in classes an eighth apart.
const FINE_BYTES_MAX: usize = 256;
const FINE_CLASSES: usize = FINE_BYTES_MAX / 8;

/// Number of classes.
pub(crate) const CLASSES: usize = class_of(RECORD_BYTES_MAX) + 1;

/// The smallest class whose slots hold `bytes`, which is at most `RECORD_BYTES_MAX`.
#[inline(always)]
pub(crate) const fn class_of(bytes: usize) -> usize {
    debug_assert!(bytes > 0 && bytes <= RECORD_BYTES_MAX);
    if bytes <= FINE_BYTES_MAX {
        return bytes.div_ceil(8) - 1;
    }
    // `last >> step` is the number of eighths, 8..16, within the doubling that `last` is in.
    let last = bytes - 1;
    let step = usize::BITS - 1 - last.leading_zeros() - 3;
    FINE_CLASSES + (step as usize - 5) * 8 + (last >> step) - 8
}

/// Bytes of a slot of a class.
#[inline(always)]
pub(crate) const fn slot_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        return (class + 1) * 8;
    }
    let class = class - FINE_CLASSES;
    (class % 8 + 9) << (class / 8 + 5)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_tightest_class() {
        for bytes in 1..=RECORD_BYTES_MAX {
            let class = class_of(bytes);
            let slot = slot_bytes(class);
            assert!(slot >= bytes && class < CLASSES);
            assert!(class == 0 || slot_bytes(class - 1) < bytes, "{bytes}");
            assert!(
                bytes <= 256 || slot - bytes < bytes / 8 + 1,
                "{bytes} in {slot}"
            );
            assert!(bytes > 256 || slot - bytes < 8);
        }
        assert_eq!(slot_bytes(CLASSES - 1), RECORD_BYTES_MAX);
    }
}
