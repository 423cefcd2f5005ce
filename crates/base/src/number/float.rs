//! Double precision: `strtod` for what comes in, `%.17g` for what goes out.

use rustc_apfloat::ieee::Double;
use rustc_apfloat::{Float, Round};
use std::io::Write;

/// A double as clients may write it: decimal or hexadecimal (`0x1.8p3`), `inf` and `infinity` in
/// any case, an optional sign; no spaces, no NaN. A number too big for a double, or one that is not
/// zero but would become zero, is refused.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(value) = small_integer(text) {
        return Some(value);
    }
    let value = match Spelling::of(text)? {
        Spelling::Infinity { negative } => {
            return Some(if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            });
        }
        Spelling::Decimal { text, zero } => (text.parse::<f64>().ok()?, zero),
        Spelling::Hexadecimal { text, zero } => {
            let parsed = Double::from_str_r(&text, Round::NearestTiesToEven).ok()?;
            (f64::from_bits(parsed.value.to_bits() as u64), zero)
        }
    };
    let (value, zero) = value;
    (value.is_finite() && (value != 0.0 || zero)).then_some(value)
}

/// The common case without any float parsing: up to fifteen digits, exactly representable.
#[inline]
fn small_integer(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let mut value: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    let value = value as f64;
    Some(if negative { -value } else { value })
}

/// What a valid spelling of a float says, in a form the parsers of any precision take.
pub(super) enum Spelling<'a> {
    Infinity {
        negative: bool,
    },
    /// Decimal text, checked; `zero` if all its digits are.
    Decimal {
        text: std::borrow::Cow<'a, str>,
        zero: bool,
    },
    /// Hexadecimal text, checked, with an exponent.
    Hexadecimal {
        text: String,
        zero: bool,
    },
}

/// Exponents beyond this are equivalent to it for every number that fits in a request line: the
/// result is infinite or zero. Keeps parsers away from overflow of their own exponents.
const EXPONENT_MAX: i64 = 2_000_000_000;

impl<'a> Spelling<'a> {
    /// Checks the grammar of `strtod`, with nothing before or behind; `None` for NaN.
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        let (negative, unsigned) = split_sign(text);
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinity { negative });
        }
        let hexadecimal = matches!(unsigned, [b'0', b'x' | b'X', ..]);
        let (body, marker) = if hexadecimal {
            (&unsigned[2..], b'p')
        } else {
            (unsigned, b'e')
        };
        let split = body
            .iter()
            .position(|byte| byte.to_ascii_lowercase() == marker)
            .unwrap_or(body.len());
        let (mantissa, exponent) = body.split_at(split);
        let zero = check_mantissa(mantissa, hexadecimal)?;
        let exponent = match exponent.split_first() {
            None => 0,
            Some((_, digits)) => parse_exponent(digits)?,
        };
        let mantissa = std::str::from_utf8(mantissa).ok()?;
        if hexadecimal {
            let sign = if negative { "-" } else { "" };
            // A number of zero digits has no exponent worth parsing.
            let exponent = if zero { 0 } else { exponent };
            let text = format!("{sign}0x{mantissa}p{exponent}");
            return Some(Self::Hexadecimal { text, zero });
        }
        let text = if exponent.abs() < 100_000 {
            std::str::from_utf8(text).ok()?.into()
        } else {
            let sign = if negative { "-" } else { "" };
            format!("{sign}{mantissa}e{}", if zero { 0 } else { exponent }).into()
        };
        Some(Self::Decimal { text, zero })
    }
}

/// Whether there is a minus, and what follows the optional sign.
fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [sign @ (b'-' | b'+'), rest @ ..] => (*sign == b'-', rest),
        rest => (false, rest),
    }
}

/// Digits with at most one point, at least one digit; gives whether all digits are zero.
fn check_mantissa(mantissa: &[u8], hexadecimal: bool) -> Option<bool> {
    let mut digits = 0;
    let mut points = 0;
    let mut zero = true;
    for &byte in mantissa {
        if byte == b'.' {
            points += 1;
        } else if byte.is_ascii_digit() || (hexadecimal && byte.is_ascii_hexdigit()) {
            digits += 1;
            zero &= byte == b'0';
        } else {
            return None;
        }
    }
    (digits > 0 && points <= 1).then_some(zero)
}

/// An exponent with optional sign, held within `EXPONENT_MAX`.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0i64, |size, byte| {
        (size * 10 + i64::from(byte - b'0')).min(EXPONENT_MAX)
    });
    Some(if negative { -size } else { size })
}

/// Appends a double as C's `%.17g` prints it: `inf`, `-inf`, `nan`, `0.10000000000000001`, `1e+17`.
pub fn push_f64(target: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        target.extend_from_slice(if value.is_sign_negative() {
            b"-nan"
        } else {
            b"nan"
        });
        return;
    }
    if value.is_infinite() {
        target.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
        return;
    }
    // Integers below 2^53 print as themselves; negative zero does not. The cast saturates and drops
    // fractions, so only integers survive the way there and back.
    let whole = value as i64;
    if (whole as f64).to_bits() == value.to_bits() && whole.unsigned_abs() < 1 << 53 {
        super::push_i64(target, whole);
        return;
    }
    push_seventeen_digits(target, value);
}

fn push_seventeen_digits(target: &mut Vec<u8>, value: f64) {
    // Scientific form with 17 digits: `d.dddddddddddddddde-ddd`.
    let mut scratch = [0u8; 32];
    let mut cursor = &mut scratch[..];
    let room = cursor.len();
    // 17 digits, point, sign, exponent: at most 24 bytes.
    write!(cursor, "{:.16e}", value.abs()).expect("32 bytes hold 17 digits");
    let size = room - cursor.len();
    let text = &scratch[..size];
    let split = text.iter().position(|&byte| byte == b'e').unwrap_or(size);
    let exponent: i32 = super::parse_i64(&text[split + 1..]).map_or(0, |value| value as i32);
    let mut digits = [b'0'; 17];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..split]);
    let kept = 17
        - digits
            .iter()
            .rev()
            .take_while(|&&byte| byte == b'0')
            .count()
            .min(16);

    if value.is_sign_negative() {
        target.push(b'-');
    }
    if !(-4..17).contains(&exponent) {
        target.push(digits[0]);
        if kept > 1 {
            target.push(b'.');
            target.extend_from_slice(&digits[1..kept]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a vector cannot fail.
        let _ = write!(target, "e{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        target.extend_from_slice(b"0.");
        target.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        target.extend_from_slice(&digits[..kept]);
    } else {
        let whole = exponent as usize + 1;
        target.extend_from_slice(&digits[..whole]);
        if kept > whole {
            target.push(b'.');
            target.extend_from_slice(&digits[whole..kept]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_strtod_reads() {
        let table = [
            ("0x10", Some(16.0)),
            ("0x1.8p3", Some(12.0)),
            ("0x.8", Some(0.5)),
            ("+5", Some(5.0)),
            ("5.", Some(5.0)),
            (".5", Some(0.5)),
            ("1e+5", Some(100_000.0)),
            ("infinity", Some(f64::INFINITY)),
            ("-INF", Some(f64::NEG_INFINITY)),
            ("1e-320", Some(1e-320)),
            ("0x0p99999", Some(0.0)),
            ("0e99999999999999999999", Some(0.0)),
            ("1e400", None),
            ("1e-400", None),
            ("1e99999999999999999999", None),
            ("1e-99999999999999999999", None),
            ("0x1p99999999999999999999", None),
            ("0x1p-5000", None),
            ("1e", None),
            ("1e+", None),
            ("nan", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            (".", None),
            ("0x", None),
            ("0x1p", None),
            ("0x.", None),
            ("1_0", None),
            ("++1", None),
            ("1.2.3", None),
            ("infinityx", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_f64(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(
            parse_f64(b"-0").map(f64::to_bits),
            Some((-0.0f64).to_bits())
        );
    }

    #[test]
    fn prints_what_printf_prints() {
        let table = [
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (12_345_678_901_234_567.0, "12345678901234568"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e-320, "9.9998886718268301e-321"),
            (1.0 + 1.0 / 131_072.0, "1.0000076293945312"),
            (1e21, "1e+21"),
            (-0.0, "-0"),
            (-2.5, "-2.5"),
            (3.0, "3"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in table {
            let mut text = Vec::new();
            push_f64(&mut text, value);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
