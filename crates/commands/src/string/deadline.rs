//! The options that SET and GETEX share: conditions and what becomes of the key's expiry.

use base::number::parse_i64;
use engine::{Args, Error};

/// In what a deadline is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Unix time, seconds.
    UnixSeconds,
    /// Unix time, milliseconds.
    UnixMilliseconds,
}

/// A deadline as the client wrote it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline<'a> {
    pub(super) text: &'a [u8],
    pub(super) unit: Unit,
}

impl Deadline<'_> {
    /// Unix time in ms. May lie in the past if it was given as Unix time.
    ///
    /// # Errors
    /// Not an integer; or zero, negative, or too far away, for which the text names `command`.
    pub(super) fn at_ms(self, now_ms: i64, command: &'static str) -> Result<i64, Error> {
        let given = parse_i64(self.text).ok_or(Error::NotInteger)?;
        let in_ms = match self.unit {
            Unit::Seconds | Unit::UnixSeconds => given.checked_mul(1_000),
            Unit::Milliseconds | Unit::UnixMilliseconds => Some(given),
        };
        let base_ms = match self.unit {
            Unit::Seconds | Unit::Milliseconds => now_ms,
            Unit::UnixSeconds | Unit::UnixMilliseconds => 0,
        };
        in_ms
            .filter(|ms| *ms > 0)
            .and_then(|ms| ms.checked_add(base_ms))
            .ok_or(Error::InvalidExpire(command))
    }
}

/// What becomes of the expiry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Lifetime<'a> {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
    /// EX, PX, EXAT, PXAT.
    Until(Deadline<'a>),
}

impl Lifetime<'_> {
    /// May `next` be said after this? The same word may be repeated.
    fn allows(self, next: Lifetime<'_>) -> bool {
        match (self, next) {
            (Lifetime::Unsaid, _)
            | (Lifetime::Keep, Lifetime::Keep)
            | (Lifetime::Persist, Lifetime::Persist) => true,
            (Lifetime::Until(one), Lifetime::Until(other)) => one.unit == other.unit,
            _ => false,
        }
    }
}

/// Options of SET.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SetOptions<'a> {
    /// Only if the key does not exist.
    pub(super) if_missing: bool,
    /// Only if the key exists.
    pub(super) if_present: bool,
    /// Answer with the old value.
    pub(super) get: bool,
    /// What becomes of the expiry.
    pub(super) lifetime: Lifetime<'a>,
}

impl<'a> SetOptions<'a> {
    /// Parses what follows key and value.
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let mut options = SetOptions::default();
        let mut at = 3;
        while let Some(word) = args.get(at) {
            at += 1;
            if word.eq_ignore_ascii_case(b"NX") && !options.if_present {
                options.if_missing = true;
            } else if word.eq_ignore_ascii_case(b"XX") && !options.if_missing {
                options.if_present = true;
            } else if word.eq_ignore_ascii_case(b"GET") {
                options.get = true;
            } else if word.eq_ignore_ascii_case(b"KEEPTTL")
                && options.lifetime.allows(Lifetime::Keep)
            {
                options.lifetime = Lifetime::Keep;
            } else {
                options.lifetime = until(options.lifetime, word, args, &mut at)?;
            }
        }
        Ok(options)
    }
}

/// Parses what follows the key of GETEX.
pub(super) fn parse_getex(args: Args<'_>) -> Result<Lifetime<'_>, Error> {
    let mut lifetime = Lifetime::default();
    let mut at = 2;
    while let Some(word) = args.get(at) {
        at += 1;
        if word.eq_ignore_ascii_case(b"PERSIST") && lifetime.allows(Lifetime::Persist) {
            lifetime = Lifetime::Persist;
        } else {
            lifetime = until(lifetime, word, args, &mut at)?;
        }
    }
    Ok(lifetime)
}

/// Takes `word` and the argument at `at` as a deadline.
fn until<'a>(
    so_far: Lifetime<'a>,
    word: &[u8],
    args: Args<'a>,
    at: &mut usize,
) -> Result<Lifetime<'a>, Error> {
    let unit = match word.to_ascii_uppercase().as_slice() {
        b"EX" => Unit::Seconds,
        b"PX" => Unit::Milliseconds,
        b"EXAT" => Unit::UnixSeconds,
        b"PXAT" => Unit::UnixMilliseconds,
        _ => return Err(Error::Syntax),
    };
    let text = args.get(*at).ok_or(Error::Syntax)?;
    let next = Lifetime::Until(Deadline { text, unit });
    if !so_far.allows(next) {
        return Err(Error::Syntax);
    }
    *at += 1;
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, unit: Unit) -> Result<i64, Error> {
        let deadline = Deadline {
            text: text.as_bytes(),
            unit,
        };
        deadline.at_ms(1_000_000, "set")
    }

    #[test]
    fn deadlines_are_absolute_or_from_now() {
        assert_eq!(at("10", Unit::Seconds), Ok(1_010_000));
        assert_eq!(at("10", Unit::Milliseconds), Ok(1_000_010));
        assert_eq!(at("10", Unit::UnixSeconds), Ok(10_000));
        assert_eq!(at("10", Unit::UnixMilliseconds), Ok(10));
    }

    #[test]
    fn deadlines_that_cannot_be_are_refused() {
        let invalid = Err(Error::InvalidExpire("set"));
        assert_eq!(at("0", Unit::Seconds), invalid);
        assert_eq!(at("-1", Unit::UnixMilliseconds), invalid);
        assert_eq!(at("9223372036854775807", Unit::Milliseconds), invalid);
        assert_eq!(at("9223372036854776", Unit::UnixSeconds), invalid);
        assert_eq!(
            at("9223372036854775807", Unit::UnixMilliseconds),
            Ok(i64::MAX)
        );
        assert_eq!(at("1.5", Unit::Seconds), Err(Error::NotInteger));
    }
}
