//! DEL and UNLINK. Both take the key out at once and free what is large later: no client waits for
//! memory to be freed.

use super::KEYS_PER_BREATH;
use engine::{Arg, Args, Categories, Command, Cx, Flags, Group, KeyFlags, KeySpec, Outcome};

const KEYS: &[KeySpec] = &[KeySpec::all(KeyFlags::RM.or(KeyFlags::DELETE))];
const TIPS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

pub(super) static DEL: Command = Command {
    name: "DEL",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Removes keys and answers how many there were.",
    complexity: "O(N), N being the number of keys; large values are freed later",
    arity: -2,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: TIPS,
    args: &[Arg::key("key").multiple()],
    handler: remove,
    ..Command::BASE
}
.checked();

pub(super) static UNLINK: Command = Command {
    name: "UNLINK",
    group: Group::Generic,
    since: "4.0.0",
    summary: "Removes keys and answers how many there were; memory is freed in the background.",
    complexity: "O(N), N being the number of keys; large values are freed later",
    arity: -2,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: TIPS,
    args: &[Arg::key("key").multiple()],
    handler: remove,
    ..Command::BASE
}
.checked();

fn remove(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut removed = 0;
    for key in 0..args.len() - 1 {
        removed += i64::from(cx.edit(key).remove());
        if key % KEYS_PER_BREATH == KEYS_PER_BREATH - 1 {
            cx.breathe();
        }
    }
    cx.reply.integer(removed);
    Ok(())
}
