//! Looking at whole databases: KEYS, SCAN, RANDOMKEY, DBSIZE.
//!
//! A walk is atomic bucket by bucket, not as a whole: a key that is there all the time is shown, one
//! that comes or goes meanwhile may be.

use super::type_name;
use base::glob::{Case, matches};
use base::number::{parse_i64, push_u64};
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeySet, Outcome};
use env::random::{Rng, seed_64};
use store::View;

/// Keys walked between two breaths on the slow lane.
const KEYS_PER_STEP: usize = 64;
/// Keys of a database up to which KEYS is fast.
const KEYS_FAST_MAX: u64 = 2_000;
/// Keys per call up to which SCAN is fast.
const SCAN_FAST_COUNT_MAX: i64 = 500;
/// Keys per call of SCAN if nothing is said.
const SCAN_COUNT: i64 = 10;

/// The pattern that is not even looked at, so that it matches the empty key, which no other pattern
/// with a star does.
const EVERYTHING: &[u8] = b"*";

/// Key names one after the other.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    fn write(&self, reply: &mut resp::Reply<'_>) {
        reply.array(self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            reply.bulk(&self.bytes[start..*end]);
            start = *end;
        }
    }
}

/// Walks about `count` keys from `cursor`, giving way in between; returns where to go on, 0 at the
/// end.
fn walk(
    cx: &Cx<'_>,
    mut cursor: u64,
    count: usize,
    visit: &mut dyn FnMut(&[u8], &View<'_>),
) -> u64 {
    let mut left = count;
    // A step may show few keys if the table is sparse; the number of steps bounds the time.
    for _ in 0..count.div_ceil(KEYS_PER_STEP) {
        let mut shown = 0;
        let step = left.min(KEYS_PER_STEP);
        cursor = cx
            .server
            .store
            .scan(cx.session.db, cursor, step, cx.now_ms, &mut |key, view| {
                shown += 1;
                visit(key, view);
            });
        left = left.saturating_sub(shown);
        if cursor == 0 || left == 0 || cx.breathe() {
            break;
        }
    }
    cursor
}

pub(super) static KEYS: Command = Command {
    name: "KEYS",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Answers with all keys whose names match a pattern.",
    complexity: "O(N), N being the number of keys in the database; O(1) without wildcards",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE.or(Categories::DANGEROUS),
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    args: &[Arg::new("pattern", ArgKind::Pattern)],
    handler: keys,
    key_finder: Some(keys_of_pattern),
    slow: Some(keys_is_slow),
    ..Command::BASE
}
.checked();

/// A pattern that matches itself and nothing else.
fn is_literal(pattern: &[u8]) -> bool {
    !pattern
        .iter()
        .any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

fn keys_is_slow(keys_in_database: &dyn Fn() -> u64, args: Args<'_>) -> bool {
    keys_in_database() > KEYS_FAST_MAX && args.get(1).is_some_and(|pattern| !is_literal(pattern))
}

/// Without wildcards the pattern is the one key to look up.
fn keys_of_pattern(
    selected: usize,
    _databases: usize,
    args: Args<'_>,
    keys: &mut KeySet,
) -> Outcome {
    if is_literal(&args[1]) {
        keys.push(selected, 1);
    }
    Ok(())
}

fn keys(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let pattern = &args[1];
    let mut names = Names::default();
    if is_literal(pattern) {
        if cx.look(0, |view| Ok(view.is_some()))? {
            names.push(pattern);
        }
    } else {
        let all = pattern == EVERYTHING;
        walk(cx, 0, usize::MAX, &mut |key, _| {
            if all || matches(pattern, key, Case::Sensitive) {
                names.push(key);
            }
        });
    }
    names.write(&mut cx.reply);
    Ok(())
}

pub(super) static SCAN: Command = Command {
    name: "SCAN",
    group: Group::Generic,
    since: "2.8.0",
    summary: "Answers with some of the keys and a cursor for the next call.",
    complexity: "O(1) per call; O(N) for all N keys",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    tips: &["nondeterministic_output", "request_policy:special"],
    history: &[("6.0.0", "Takes `TYPE`.")],
    args: &[
        Arg::new("cursor", ArgKind::Integer),
        Arg::new("pattern", ArgKind::Pattern)
            .token("MATCH")
            .optional(),
        Arg::new("count", ArgKind::Integer)
            .token("COUNT")
            .optional(),
        Arg::new("type", ArgKind::String)
            .token("TYPE")
            .optional()
            .since("6.0.0"),
    ],
    handler: scan,
    slow: Some(scan_is_slow),
    ..Command::BASE
}
.checked();

/// What SCAN was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScanOptions<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: i64,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Error> {
        let mut options = ScanOptions {
            cursor: parse_cursor(&args[1]).ok_or(Error::InvalidCursor)?,
            pattern: None,
            count: SCAN_COUNT,
            kind: None,
        };
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let value = args.get(at + 1).ok_or(Error::Syntax)?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                options.count = parse_i64(value).ok_or(Error::NotInteger)?;
                if options.count < 1 {
                    return Err(Error::Syntax);
                }
            } else if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = (value != EVERYTHING).then_some(value);
            } else if word.eq_ignore_ascii_case(b"TYPE") {
                options.kind = Some(value);
            } else {
                return Err(Error::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }

    fn wants(&self, key: &[u8], view: &View<'_>) -> bool {
        self.kind
            .is_none_or(|kind| kind.eq_ignore_ascii_case(type_name(view.kind()).as_bytes()))
            && self
                .pattern
                .is_none_or(|pattern| matches(pattern, key, Case::Sensitive))
    }
}

/// Reads a cursor as C's `strtoul` does, which clients have come to rely on: nothing at all is 0, a
/// sign is taken, a negative number wraps, and a zero byte ends the text.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for digit in digits {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

fn scan_is_slow(keys_in_database: &dyn Fn() -> u64, args: Args<'_>) -> bool {
    args.len() > 3
        && keys_in_database() > SCAN_FAST_COUNT_MAX as u64
        && ScanOptions::parse(args).is_ok_and(|options| options.count > SCAN_FAST_COUNT_MAX)
}

fn scan(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let options = ScanOptions::parse(args)?;
    let mut names = Names::default();
    let next = walk(
        cx,
        options.cursor,
        options.count as usize,
        &mut |key, view| {
            if options.wants(key, view) {
                names.push(key);
            }
        },
    );
    let mut cursor = Vec::new();
    push_u64(&mut cursor, next);
    cx.reply.array(2);
    cx.reply.bulk(&cursor);
    names.write(&mut cx.reply);
    Ok(())
}

pub(super) static RANDOMKEY: Command = Command {
    name: "RANDOMKEY",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Answers with the name of a key chosen at random.",
    arity: 1,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    handler: randomkey,
    ..Command::BASE
}
.checked();

fn randomkey(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let mut rng = Rng::seeded(seed_64());
    match cx
        .server
        .store
        .random_key(cx.session.db, cx.now_ms, &mut rng)
    {
        Some(key) => cx.reply.bulk(&key),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) static DBSIZE: Command = Command {
    name: "DBSIZE",
    group: Group::Server,
    since: "1.0.0",
    summary: "Answers with the number of keys in the selected database.",
    arity: 1,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    handler: dbsize,
    ..Command::BASE
}
.checked();

fn dbsize(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let keys = cx.server.store.len_of(cx.session.db);
    cx.reply.integer(keys as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{is_literal, parse_cursor};

    #[test]
    fn cursors_are_read_leniently() {
        assert_eq!(parse_cursor(b"0"), Some(0));
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"+17"), Some(17));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551616"), None);
        assert_eq!(parse_cursor(b"12\0x"), Some(12));
        assert_eq!(parse_cursor(b"-"), None);
        assert_eq!(parse_cursor(b"0 "), None);
        assert_eq!(parse_cursor(b" 0"), None);
        assert_eq!(parse_cursor(b"abc"), None);
    }

    #[test]
    fn literal_patterns() {
        assert!(is_literal(b"plain") && is_literal(b""));
        for pattern in ["a*", "a?", "[a]", "a\\*"] {
            assert!(!is_literal(pattern.as_bytes()));
        }
    }
}
