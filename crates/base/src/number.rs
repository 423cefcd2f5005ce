//! Numbers as text: strict integers, the floats clients send and the floats they get back.
//!
//! What is accepted and what is printed equals the original server byte for byte; for floats that
//! means the C library's `strtod`, `strtold` and `printf` in the "C" locale.

mod float;
mod long_double;

pub use float::{parse_f64, push_f64};
pub use long_double::{FloatError, incr_by_float};

/// A signed integer in its one canonical spelling: optional `-`, no `+`, no leading zeros, no
/// spaces, not `-0`. `None` also if it does not fit.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => {
            let size = parse_u64(digits)?;
            if size == 0 || size > i64::MIN.unsigned_abs() {
                return None;
            }
            Some(size.wrapping_neg() as i64)
        }
        digits => i64::try_from(parse_u64(digits)?).ok(),
    }
}

/// An unsigned integer in its one canonical spelling; see [`parse_i64`].
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    if first == b'0' {
        return rest.is_empty().then_some(0);
    }
    if text.len() > U64_DIGITS_MAX {
        return None;
    }
    let mut value = digit(first)?;
    if text.len() < U64_DIGITS_MAX {
        // Nineteen digits cannot overflow.
        for &byte in rest {
            value = value * 10 + digit(byte)?;
        }
        return Some(value);
    }
    for &byte in rest {
        value = value.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    Some(value)
}

/// Decimal digits of `u64::MAX`.
const U64_DIGITS_MAX: usize = 20;

#[inline(always)]
fn digit(byte: u8) -> Option<u64> {
    let value = byte.wrapping_sub(b'0');
    (value < 10).then_some(u64::from(value))
}

/// Appends a signed integer in decimal.
#[inline]
pub fn push_i64(target: &mut Vec<u8>, value: i64) {
    target.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an unsigned integer in decimal.
#[inline]
pub fn push_u64(target: &mut Vec<u8>, value: u64) {
    target.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Number of decimal digits of `value`, 1 for zero.
#[inline]
pub fn digits_u64(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_canonical_spelling_is_an_integer() {
        for text in [
            "", "-", "+1", "01", "-0", "-01", "00", " 1", "1 ", "1a", "0x1", "1.0", "--1",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"0"), Some(0));
        assert_eq!(parse_i64(b"-1"), Some(-1));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"99999999999999999999"), None);
        assert_eq!(parse_u64(b"100000000000000000000"), None);
    }

    proptest! {
        #[test]
        fn integers_survive_the_round_trip(value: i64) {
            let mut text = Vec::new();
            push_i64(&mut text, value);
            prop_assert_eq!(parse_i64(&text), Some(value));
            let mut text = Vec::new();
            push_u64(&mut text, value as u64);
            prop_assert_eq!(parse_u64(&text), Some(value as u64));
            prop_assert_eq!(digits_u64(value as u64), text.len());
        }
    }
}
