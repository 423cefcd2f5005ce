//! Several keys at once: MGET, MSET, MSETNX.

use super::write_string;
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome,
};
use store::{Expire, Kind, Value};

/// Keys handled between two breaths on the slow lane.
const KEYS_PER_BREATH: usize = 64;

/// Grammar of MSET and MSETNX.
const PAIRS: &[Arg] = &[Arg::block(
    "key_value",
    &[Arg::key("key"), Arg::new("value", ArgKind::String)],
)
.multiple()];

pub(super) static MGET: Command = Command {
    name: "MGET",
    group: Group::String,
    since: "1.0.0",
    summary: "Answers with the values of several keys.",
    complexity: "O(N), N being the number of keys",
    arity: -2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::all(KeyFlags::RO.or(KeyFlags::ACCESS))],
    tips: &["request_policy:multi_shard"],
    args: &[Arg::key("key").multiple()],
    handler: mget,
    ..Command::BASE
}
.checked();

fn mget(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let keys = args.len() - 1;
    cx.reply.array(keys);
    for key in 0..keys {
        cx.read(key, |reply, view| match view {
            Some(view) if view.kind() == Kind::String => write_string(reply, view),
            _ => {
                reply.null();
                Ok(())
            }
        })?;
        if key % KEYS_PER_BREATH == KEYS_PER_BREATH - 1 && cx.breathe() {
            break;
        }
    }
    Ok(())
}

pub(super) static MSET: Command = Command {
    name: "MSET",
    group: Group::String,
    since: "1.0.1",
    summary: "Sets the values of several keys.",
    complexity: "O(N), N being the number of keys",
    arity: -3,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::STRING,
    keys: &[KeySpec::every(2, KeyFlags::OW.or(KeyFlags::UPDATE))],
    tips: &[
        "request_policy:multi_shard",
        "response_policy:all_succeeded",
    ],
    args: PAIRS,
    handler: mset,
    ..Command::BASE
}
.checked();

fn mset(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::Arity("mset".into()));
    }
    set_all(cx, args)?;
    cx.reply.ok();
    Ok(())
}

/// Sets every pair, a repeated key to its last value.
fn set_all(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    for key in 0..args.len() / 2 {
        cx.edit(key)
            .set(Value::Bytes(&args[2 + 2 * key]), Expire::Clear)?;
        if key % KEYS_PER_BREATH == KEYS_PER_BREATH - 1 {
            cx.breathe();
        }
    }
    Ok(())
}

pub(super) static MSETNX: Command = Command {
    name: "MSETNX",
    group: Group::String,
    since: "1.0.1",
    summary: "Sets the values of several keys if none of them exists.",
    complexity: "O(N), N being the number of keys",
    arity: -3,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::STRING,
    keys: &[KeySpec::every(2, KeyFlags::OW.or(KeyFlags::INSERT))],
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    args: PAIRS,
    handler: msetnx,
    ..Command::BASE
}
.checked();

fn msetnx(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::Arity("msetnx".into()));
    }
    let mut any = false;
    for key in 0..args.len() / 2 {
        any = cx.look(key, |view| Ok(view.is_some()))?;
        if any {
            break;
        }
        if key % KEYS_PER_BREATH == KEYS_PER_BREATH - 1 {
            cx.breathe();
        }
    }
    if !any {
        set_all(cx, args)?;
    }
    cx.reply.integer(i64::from(!any));
    Ok(())
}
