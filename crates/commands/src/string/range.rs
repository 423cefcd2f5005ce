//! Parts and lengths of strings: APPEND, STRLEN, GETRANGE, SETRANGE.

use super::{string, write_string};
use base::number::parse_i64;
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome,
};
use store::{Expire, Value};

/// Offsets beyond this may make SETRANGE write that many zero bytes, which takes its time.
const OFFSET_FAST_MAX: i64 = 256 << 10;

pub(super) static APPEND: Command = Command {
    name: "APPEND",
    group: Group::String,
    since: "2.0.0",
    summary: "Adds bytes at the end of a string, which is made if it is missing.",
    complexity: "O(N), N being the number of bytes added, on average over many calls",
    arity: 3,
    flags: Flags::WRITE.or(Flags::DENY_OOM).or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::RW.or(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::new("value", ArgKind::String)],
    handler: append,
    ..Command::BASE
}
.checked();

fn append(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let bytes_max = cx.server.config.proto_max_bulk_len();
    let bytes = &args[2];
    let mut edit = cx.edit(0);
    let existing = match edit.view() {
        None => None,
        Some(view) => Some(string(&view)?.len()),
    };
    let len = if let Some(existing) = existing {
        check_len(existing, bytes.len(), bytes_max)?;
        edit.append(bytes)?
    } else {
        edit.set(Value::Bytes(bytes), Expire::Clear)?;
        bytes.len()
    };
    cx.reply.integer(len as i64);
    Ok(())
}

/// Checks that `bytes` more at `offset` stay within the limit of a string.
fn check_len(offset: usize, bytes: usize, bytes_max: usize) -> Outcome {
    match offset.checked_add(bytes) {
        Some(len) if len <= bytes_max => Ok(()),
        _ => Err(Error::StringTooLong),
    }
}

pub(super) static STRLEN: Command = Command {
    name: "STRLEN",
    group: Group::String,
    since: "2.2.0",
    summary: "Answers with the length of a string in bytes.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::RO)],
    args: &[Arg::key("key")],
    handler: strlen,
    ..Command::BASE
}
.checked();

fn strlen(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, |reply, view| {
        let len = match view {
            Some(view) => string(view)?.len(),
            None => 0,
        };
        reply.integer(len as i64);
        Ok(())
    })
}

const RANGE_ARGS: &[Arg] = &[
    Arg::key("key"),
    Arg::new("start", ArgKind::Integer),
    Arg::new("end", ArgKind::Integer),
];

pub(super) static GETRANGE: Command = Command {
    name: "GETRANGE",
    group: Group::String,
    since: "2.4.0",
    summary: "Answers with a part of a string; negative positions count from its end.",
    complexity: "O(N), N being the number of bytes in the part",
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::RO.or(KeyFlags::ACCESS))],
    args: RANGE_ARGS,
    handler: getrange,
    ..Command::BASE
}
.checked();

pub(super) static SUBSTR: Command = Command {
    name: "SUBSTR",
    group: Group::String,
    since: "1.0.0",
    summary: "The former name of GETRANGE.",
    complexity: "O(N), N being the number of bytes in the part",
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::RO.or(KeyFlags::ACCESS))],
    deprecated: Some(("2.0.0", "`GETRANGE`")),
    args: RANGE_ARGS,
    handler: getrange,
    ..Command::BASE
}
.checked();

fn getrange(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let start = parse_i64(&args[2]).ok_or(Error::NotInteger)?;
    let end = parse_i64(&args[3]).ok_or(Error::NotInteger)?;
    cx.read(0, |reply, view| {
        let Some(view) = view else {
            reply.bulk(b"");
            return Ok(());
        };
        let view = string(view)?;
        match part(start, end, view.len()) {
            None => reply.bulk(b""),
            Some((0, len)) if len == view.len() => write_string(reply, view)?,
            Some((first, len)) => {
                reply.bulk_header(len);
                view.copy_range_into(first, len, reply.bytes());
                reply.bulk_end();
            }
        }
        Ok(())
    })
}

/// First byte and length of the part from `start` to `end` of a string of `len` bytes.
fn part(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let len = len as i64;
    let from_start = |position: i64| {
        if position < 0 {
            (len + position).max(0)
        } else {
            position
        }
    };
    let first = from_start(start);
    let last = from_start(end).min(len - 1);
    (first <= last).then(|| (first as usize, (last - first + 1) as usize))
}

pub(super) static SETRANGE: Command = Command {
    name: "SETRANGE",
    group: Group::String,
    since: "2.2.0",
    summary: "Overwrites part of a string, which is made or extended with zero bytes as needed.",
    complexity: "O(N), N being the number of bytes written, zero bytes of a gap included",
    arity: 4,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::RW.or(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::new("offset", ArgKind::Integer),
        Arg::new("value", ArgKind::String),
    ],
    handler: setrange,
    slow: Some(setrange_is_slow),
    ..Command::BASE
}
.checked();

fn setrange_is_slow(_keys: &dyn Fn() -> u64, args: Args<'_>) -> bool {
    args.get(2)
        .and_then(parse_i64)
        .is_some_and(|offset| offset > OFFSET_FAST_MAX)
}

fn setrange(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let offset = parse_i64(&args[2]).ok_or(Error::NotInteger)?;
    let offset = usize::try_from(offset).map_err(|_| Error::OffsetOutOfRange)?;
    let bytes_max = cx.server.config.proto_max_bulk_len();
    let bytes = &args[3];
    let mut edit = cx.edit(0);
    let existing = match edit.view() {
        None => 0,
        Some(view) => string(&view)?.len(),
    };
    let len = if bytes.is_empty() {
        existing
    } else {
        check_len(offset, bytes.len(), bytes_max)?;
        edit.overwrite(offset, bytes)?
    };
    cx.reply.integer(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_clamped() {
        assert_eq!(part(0, 3, 16), Some((0, 4)));
        assert_eq!(part(-3, -1, 16), Some((13, 3)));
        assert_eq!(part(0, -1, 16), Some((0, 16)));
        assert_eq!(part(-100, 3, 16), Some((0, 4)));
        assert_eq!(part(i64::MIN, 0, 16), Some((0, 1)));
        assert_eq!(part(0, i64::MAX, 16), Some((0, 16)));
        assert_eq!(part(5, 3, 16), None);
        assert_eq!(part(16, 16, 16), None);
        assert_eq!(part(-1, -3, 16), None);
        assert_eq!(part(-100, -200, 16), None);
        assert_eq!(part(0, -1, 0), None);
        // Both before the beginning, in order: the first byte.
        assert_eq!(part(-200, -100, 16), Some((0, 1)));
    }
}
