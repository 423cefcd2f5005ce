//! Strings as numbers: INCR and its relatives.

use super::{integer, string};
use base::number::{FloatError, incr_by_float, parse_i64};
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome,
};
use store::{Expire, Value};

const FLAGS: Flags = Flags::WRITE.or(Flags::DENY_OOM).or(Flags::FAST);
const KEYS: &[KeySpec] = &[KeySpec::one(
    KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
)];

pub(super) static INCR: Command = Command {
    name: "INCR",
    group: Group::String,
    since: "1.0.0",
    summary: "Adds one to the integer a key holds; a missing key counts as 0.",
    arity: 2,
    flags: FLAGS,
    categories: Categories::STRING,
    keys: KEYS,
    args: &[Arg::key("key")],
    handler: incr,
    ..Command::BASE
}
.checked();

fn incr(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    add(cx, 1)
}

pub(super) static DECR: Command = Command {
    name: "DECR",
    group: Group::String,
    since: "1.0.0",
    summary: "Takes one from the integer a key holds; a missing key counts as 0.",
    arity: 2,
    flags: FLAGS,
    categories: Categories::STRING,
    keys: KEYS,
    args: &[Arg::key("key")],
    handler: decr,
    ..Command::BASE
}
.checked();

fn decr(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    add(cx, -1)
}

pub(super) static INCRBY: Command = Command {
    name: "INCRBY",
    group: Group::String,
    since: "1.0.0",
    summary: "Adds to the integer a key holds; a missing key counts as 0.",
    arity: 3,
    flags: FLAGS,
    categories: Categories::STRING,
    keys: KEYS,
    args: &[Arg::key("key"), Arg::new("increment", ArgKind::Integer)],
    handler: incrby,
    ..Command::BASE
}
.checked();

fn incrby(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    add(cx, parse_i64(&args[2]).ok_or(Error::NotInteger)?)
}

pub(super) static DECRBY: Command = Command {
    name: "DECRBY",
    group: Group::String,
    since: "1.0.0",
    summary: "Takes from the integer a key holds; a missing key counts as 0.",
    arity: 3,
    flags: FLAGS,
    categories: Categories::STRING,
    keys: KEYS,
    args: &[Arg::key("key"), Arg::new("decrement", ArgKind::Integer)],
    handler: decrby,
    ..Command::BASE
}
.checked();

fn decrby(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let decrement = parse_i64(&args[2]).ok_or(Error::NotInteger)?;
    add(cx, decrement.checked_neg().ok_or(Error::DecrementOverflow)?)
}

fn add(cx: &mut Cx<'_>, increment: i64) -> Outcome {
    let mut edit = cx.edit(0);
    let current = match edit.view() {
        None => 0,
        Some(view) => integer(&view)?,
    };
    let sum = current.checked_add(increment).ok_or(Error::Overflow)?;
    edit.set_int(sum)?;
    cx.reply.integer(sum);
    Ok(())
}

pub(super) static INCRBYFLOAT: Command = Command {
    name: "INCRBYFLOAT",
    group: Group::String,
    since: "2.6.0",
    summary: "Adds to the number a key holds, fractions included; a missing key counts as 0.",
    arity: 3,
    flags: FLAGS,
    categories: Categories::STRING,
    keys: KEYS,
    args: &[Arg::key("key"), Arg::new("increment", ArgKind::Double)],
    handler: incrbyfloat,
    ..Command::BASE
}
.checked();

fn incrbyfloat(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut edit = cx.edit(0);
    let mut current = Vec::new();
    match edit.view() {
        None => current.push(b'0'),
        Some(view) => string(&view)?.copy_into(&mut current),
    }
    let sum = incr_by_float(&current, &args[2]).map_err(|error| match error {
        FloatError::Current | FloatError::Increment => Error::NotFloat,
        FloatError::NotFinite => Error::NanOrInfinity,
    })?;
    // It stays text, even without a fraction.
    edit.set(Value::Text(&sum), Expire::Keep)?;
    cx.reply.bulk(&sum);
    Ok(())
}
