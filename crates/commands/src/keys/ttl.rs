//! When a key ends: TTL, PTTL, EXPIRETIME, PEXPIRETIME; and PERSIST, which makes it stay.

use engine::{Arg, Args, Categories, Command, Cx, Flags, Group, KeyFlags, KeySpec, Outcome};

const KEYS: &[KeySpec] = &[KeySpec::one(KeyFlags::RO.or(KeyFlags::ACCESS))];
const HISTORY: &[(&str, &str)] = &[("2.8.0", "Answers -2 if there is no such key.")];

/// Answer for a key that does not end.
const STAYS: i64 = -1;
/// Answer for a key that does not exist.
const MISSING: i64 = -2;

pub(super) static TTL: Command = Command {
    name: "TTL",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Answers in how many seconds a key ends.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: &["nondeterministic_output"],
    history: HISTORY,
    args: &[Arg::key("key")],
    handler: ttl,
    ..Command::BASE
}
.checked();

fn ttl(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms;
    answer(cx, |at_ms| to_seconds(at_ms - now_ms))
}

pub(super) static PTTL: Command = Command {
    name: "PTTL",
    group: Group::Generic,
    since: "2.6.0",
    summary: "Answers in how many milliseconds a key ends.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: &["nondeterministic_output"],
    history: HISTORY,
    args: &[Arg::key("key")],
    handler: pttl,
    ..Command::BASE
}
.checked();

fn pttl(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms;
    answer(cx, |at_ms| at_ms - now_ms)
}

pub(super) static EXPIRETIME: Command = Command {
    name: "EXPIRETIME",
    group: Group::Generic,
    since: "7.0.0",
    summary: "Answers with the Unix time in seconds at which a key ends.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: KEYS,
    args: &[Arg::key("key")],
    handler: expiretime,
    ..Command::BASE
}
.checked();

fn expiretime(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    answer(cx, to_seconds)
}

pub(super) static PEXPIRETIME: Command = Command {
    name: "PEXPIRETIME",
    group: Group::Generic,
    since: "7.0.0",
    summary: "Answers with the Unix time in milliseconds at which a key ends.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: KEYS,
    args: &[Arg::key("key")],
    handler: pexpiretime,
    ..Command::BASE
}
.checked();

fn pexpiretime(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    answer(cx, |at_ms| at_ms)
}

/// Answers with what `convert` makes of the expiry, a Unix time in ms.
fn answer(cx: &mut Cx<'_>, convert: impl Fn(i64) -> i64) -> Outcome {
    cx.read(0, |reply, view| {
        reply.integer(match view {
            None => MISSING,
            Some(view) => view.expire_at().map_or(STAYS, &convert),
        });
        Ok(())
    })
}

/// Milliseconds to seconds, rounded to the nearest.
fn to_seconds(ms: i64) -> i64 {
    ms / 1_000 + i64::from(ms % 1_000 >= 500)
}

pub(super) static PERSIST: Command = Command {
    name: "PERSIST",
    group: Group::Generic,
    since: "2.2.0",
    summary: "Lets a key stay that had an end.",
    arity: 2,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::one(KeyFlags::RW.or(KeyFlags::UPDATE))],
    args: &[Arg::key("key")],
    handler: persist,
    ..Command::BASE
}
.checked();

fn persist(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let mut edit = cx.edit(0);
    let ended = edit.view().is_some_and(|view| view.expire_at().is_some());
    if ended {
        edit.set_expire(None)?;
    }
    cx.reply.integer(i64::from(ended));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::to_seconds;

    #[test]
    fn seconds_are_rounded_without_overflow() {
        assert_eq!(to_seconds(0), 0);
        assert_eq!(to_seconds(499), 0);
        assert_eq!(to_seconds(500), 1);
        assert_eq!(to_seconds(1_499), 1);
        assert_eq!(to_seconds(i64::MAX), 9_223_372_036_854_776);
    }
}
