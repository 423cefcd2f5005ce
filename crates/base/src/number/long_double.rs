//! Extended precision (x87, 64 bits of mantissa), in which INCRBYFLOAT and HINCRBYFLOAT count.
//!
//! A value is `mantissa * 2^exponent`, the mantissa being the low 64 bits of the 80-bit format:
//!
//! ```text
//! bit  79   78..64     63..0
//!      sign exponent   mantissa, integer bit included
//! ```

use super::float::Spelling;
use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round};
use std::fmt::Write;

/// Why a float could not be incremented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatError {
    /// The value that is there is not a float.
    Current,
    /// The increment is not a float.
    Increment,
    /// The sum is infinite or not a number.
    NotFinite,
}

/// Longest text taken for a float, in bytes.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;

/// The sum of two floats given as text, as text: 17 decimals, rounded half to even on the exact
/// value, without trailing zeros.
pub fn incr_by_float(current: &[u8], increment: &[u8]) -> Result<Vec<u8>, FloatError> {
    let current = parse(current).ok_or(FloatError::Current)?;
    let increment = parse(increment).ok_or(FloatError::Increment)?;
    let sum = (current + increment).value;
    if !sum.is_finite() {
        return Err(FloatError::NotFinite);
    }
    Ok(format_human(sum))
}

/// `strtold` with the limits of the command: nothing around the number, no NaN, no overflow, no
/// underflow to zero; infinity is a number here.
fn parse(text: &[u8]) -> Option<X87DoubleExtended> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    if let Some(value) = super::parse_i64(text) {
        return Some(X87DoubleExtended::from_i128(i128::from(value)).value);
    }
    let (text, zero) = match Spelling::of(text)? {
        Spelling::Infinity { negative } => {
            let infinity = X87DoubleExtended::INFINITY;
            return Some(if negative { -infinity } else { infinity });
        }
        Spelling::Decimal { text, zero } => (text, zero),
        Spelling::Hexadecimal { text, zero } => (text.into(), zero),
    };
    if let Some(value) = parse_short(&text) {
        return Some(value);
    }
    let value = X87DoubleExtended::from_str_r(&text, Round::NearestTiesToEven)
        .ok()?
        .value;
    (value.is_finite() && (zero || !value.is_zero())).then_some(value)
}

/// Decimals of up to 19 digits without an exponent, exactly: both the digits and the power of ten
/// are representable, so that one division rounds once (Clinger's fast path).
fn parse_short(text: &str) -> Option<X87DoubleExtended> {
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if unsigned.len() > 20 {
        return None;
    }
    let mut digits: u64 = 0;
    let mut count = 0;
    let mut point = None;
    for &byte in unsigned {
        if byte == b'.' {
            // The grammar has been checked: there is one point at most.
            point = Some(count);
        } else {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 || count == 19 {
                return None;
            }
            digits = digits * 10 + u64::from(digit);
            count += 1;
        }
    }
    let decimals = count - point.unwrap_or(count);
    let whole = X87DoubleExtended::from_u128(u128::from(digits)).value;
    let power = X87DoubleExtended::from_u128(10u128.pow(decimals)).value;
    let value = (whole / power).value;
    Some(if negative { -value } else { value })
}

/// `%.17Lf` with trailing zeros, a trailing point and the sign of zero removed.
fn format_human(value: X87DoubleExtended) -> Vec<u8> {
    let bits = value.to_bits();
    let negative = bits >> 79 & 1 == 1;
    let mantissa = bits as u64;
    // Subnormals have the exponent of the smallest normal number.
    let exponent = ((bits >> 64) as i32 & 0x7fff).max(1) - 16_383 - 63;
    let mut text = if exponent >= 0 {
        shifted_decimal(mantissa, exponent as u32)
    } else {
        fixed_decimal(mantissa, exponent.unsigned_abs())
    };
    if negative && text != b"0" {
        text.insert(0, b'-');
    }
    text
}

/// 10^17: the value is rounded to a multiple of its inverse.
const SCALE: u128 = 100_000_000_000_000_000;

/// `mantissa / 2^shift`, rounded to 17 decimals.
fn fixed_decimal(mantissa: u64, shift: u32) -> Vec<u8> {
    // 64 + 57 bits fit; shifts that leave less than half a unit give zero.
    let scaled = u128::from(mantissa) * SCALE;
    let rounded = if shift > 127 {
        0
    } else {
        let whole = scaled >> shift;
        let rest = scaled & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
    };
    // The value is below 2^64, since the shift is at least one.
    let mut text = Vec::with_capacity(40);
    super::push_u64(&mut text, (rounded / SCALE) as u64);
    let fraction = (rounded % SCALE) as u64;
    if fraction != 0 {
        let digits = format!("{fraction:017}");
        text.push(b'.');
        text.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
    text
}

/// `mantissa * 2^shift` in decimal, by limbs of nine digits, least significant first.
fn shifted_decimal(mantissa: u64, shift: u32) -> Vec<u8> {
    const LIMB: u64 = 1_000_000_000;
    const STEP_BITS: u32 = 32;
    let mut limbs = vec![
        mantissa % LIMB,
        mantissa / LIMB % LIMB,
        mantissa / LIMB / LIMB,
    ];
    let mut left = shift;
    while left > 0 {
        let step = left.min(STEP_BITS);
        let mut carry = 0;
        for limb in &mut limbs {
            let value = (*limb << step) + carry;
            *limb = value % LIMB;
            carry = value / LIMB;
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
        left -= step;
    }
    while limbs.len() > 1 && limbs.last() == Some(&0) {
        limbs.pop();
    }
    let mut text = String::with_capacity(limbs.len() * 9);
    let mut limbs = limbs.iter().rev();
    if let Some(first) = limbs.next() {
        text.push_str(&first.to_string());
    }
    for limb in limbs {
        // Writing to a string cannot fail.
        let _ = write!(text, "{limb:09}");
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_from_a_table() {
        let table = [
            ("0", "0.1", Ok("0.1")),
            ("0.1", "0.2", Ok("0.3")),
            ("3.0e3", "200", Ok("3200")),
            ("10.5", "-10.5", Ok("0")),
            ("-0", "0x.8", Ok("0.5")),
            ("0", "1e21", Ok("1000000000000000000000")),
            ("0", "1e-400", Ok("0")),
            ("1", "1e-19", Ok("1")),
            ("0", "inf", Err(FloatError::NotFinite)),
            ("inf", "-inf", Err(FloatError::NotFinite)),
            ("0", "nan", Err(FloatError::Increment)),
            ("x", "1", Err(FloatError::Current)),
            ("0", "1e5000", Err(FloatError::Increment)),
            ("0", "1e-5000", Err(FloatError::Increment)),
        ];
        for (current, increment, expected) in table {
            assert_eq!(
                incr_by_float(current.as_bytes(), increment.as_bytes()),
                expected.map(|text: &str| text.as_bytes().to_vec()),
                "{current} + {increment}"
            );
        }
        let huge = incr_by_float(b"0", b"1e400").unwrap();
        assert_eq!(huge.len(), 401);
        assert!(
            huge.starts_with(b"10000000000000000000281880683947586514586453433629052038625910693")
        );
    }
}
