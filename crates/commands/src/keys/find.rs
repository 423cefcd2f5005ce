//! EXISTS, TOUCH, TYPE.

use super::{KEYS_PER_BREATH, type_name};
use engine::{Arg, Args, Categories, Command, Cx, Flags, Group, KeyFlags, KeySpec, Outcome};

const TIPS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

pub(super) static EXISTS: Command = Command {
    name: "EXISTS",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Answers how many of the keys exist, a repeated one counting each time.",
    complexity: "O(N), N being the number of keys",
    arity: -2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::all(KeyFlags::RO)],
    tips: TIPS,
    history: &[("3.0.3", "Takes several keys.")],
    args: &[Arg::key("key").multiple()],
    handler: count,
    ..Command::BASE
}
.checked();

pub(super) static TOUCH: Command = Command {
    name: "TOUCH",
    group: Group::Generic,
    since: "3.2.1",
    summary: "Uses keys without answering their values; answers how many exist.",
    complexity: "O(N), N being the number of keys",
    arity: -2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::all(KeyFlags::RO)],
    tips: TIPS,
    args: &[Arg::key("key").multiple()],
    handler: count,
    ..Command::BASE
}
.checked();

fn count(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut found = 0;
    for key in 0..args.len() - 1 {
        found += i64::from(cx.read(key, |_, view| Ok(view.is_some()))?);
        if key % KEYS_PER_BREATH == KEYS_PER_BREATH - 1 && cx.breathe() {
            break;
        }
    }
    cx.reply.integer(found);
    Ok(())
}

pub(super) static TYPE: Command = Command {
    name: "TYPE",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Answers with the type of the value a key holds, or none.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::one(KeyFlags::RO)],
    args: &[Arg::key("key")],
    handler: type_of,
    ..Command::BASE
}
.checked();

fn type_of(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, |reply, view| {
        reply.simple(view.map_or("none", |view| type_name(view.kind())));
        Ok(())
    })
}
