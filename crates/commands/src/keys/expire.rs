//! EXPIRE and its relatives: setting when a key ends.

use base::number::parse_i64;
use engine::error::quoted;
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome,
};

const FLAGS: Flags = Flags::WRITE.or(Flags::FAST);
const KEYS: &[KeySpec] = &[KeySpec::one(KeyFlags::RW.or(KeyFlags::UPDATE))];
const HISTORY: &[(&str, &str)] = &[("7.0.0", "Takes `NX`, `XX`, `GT` and `LT`.")];
const CONDITION: Arg = Arg::one_of(
    "condition",
    &[
        Arg::word("nx", "NX"),
        Arg::word("xx", "XX"),
        Arg::word("gt", "GT"),
        Arg::word("lt", "LT"),
    ],
)
.optional()
.since("7.0.0");

pub(super) static EXPIRE: Command = Command {
    name: "EXPIRE",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Lets a key end in a number of seconds.",
    arity: -3,
    flags: FLAGS,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    history: HISTORY,
    args: &[
        Arg::key("key"),
        Arg::new("seconds", ArgKind::Integer),
        CONDITION,
    ],
    handler: expire,
    ..Command::BASE
}
.checked();

fn expire(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms;
    end_at(cx, args, 1_000, now_ms, "expire")
}

pub(super) static PEXPIRE: Command = Command {
    name: "PEXPIRE",
    group: Group::Generic,
    since: "2.6.0",
    summary: "Lets a key end in a number of milliseconds.",
    arity: -3,
    flags: FLAGS,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    history: HISTORY,
    args: &[
        Arg::key("key"),
        Arg::new("milliseconds", ArgKind::Integer),
        CONDITION,
    ],
    handler: pexpire,
    ..Command::BASE
}
.checked();

fn pexpire(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms;
    end_at(cx, args, 1, now_ms, "pexpire")
}

pub(super) static EXPIREAT: Command = Command {
    name: "EXPIREAT",
    group: Group::Generic,
    since: "1.2.0",
    summary: "Lets a key end at a Unix time in seconds.",
    arity: -3,
    flags: FLAGS,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    history: HISTORY,
    args: &[
        Arg::key("key"),
        Arg::new("unix-time-seconds", ArgKind::UnixTime),
        CONDITION,
    ],
    handler: expireat,
    ..Command::BASE
}
.checked();

fn expireat(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    end_at(cx, args, 1_000, 0, "expireat")
}

pub(super) static PEXPIREAT: Command = Command {
    name: "PEXPIREAT",
    group: Group::Generic,
    since: "2.6.0",
    summary: "Lets a key end at a Unix time in milliseconds.",
    arity: -3,
    flags: FLAGS,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    history: HISTORY,
    args: &[
        Arg::key("key"),
        Arg::new("unix-time-milliseconds", ArgKind::UnixTime),
        CONDITION,
    ],
    handler: pexpireat,
    ..Command::BASE
}
.checked();

fn pexpireat(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    end_at(cx, args, 1, 0, "pexpireat")
}

/// Under which conditions the expiry is changed; those that are set must all hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the command's words, each on or off"
)]
struct Conditions {
    none_yet: bool,
    some_already: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut conditions = Conditions::default();
        for word in args.skip(3).iter() {
            let condition = match word.to_ascii_uppercase().as_slice() {
                b"NX" => &mut conditions.none_yet,
                b"XX" => &mut conditions.some_already,
                b"GT" => &mut conditions.later,
                b"LT" => &mut conditions.earlier,
                _ => {
                    return Err(Error::UnsupportedOption(quoted(word, usize::MAX)));
                }
            };
            *condition = true;
        }
        let others = conditions.some_already || conditions.later || conditions.earlier;
        if conditions.none_yet && others {
            return Err(Error::ExpireNxConflict);
        }
        if conditions.later && conditions.earlier {
            return Err(Error::ExpireGtLtConflict);
        }
        Ok(conditions)
    }

    /// May an expiry `current` become `next_ms`? No expiry counts as later than any.
    fn allow(self, current: Option<i64>, next_ms: i64) -> bool {
        !(self.none_yet && current.is_some()
            || self.some_already && current.is_none()
            || self.later && current.is_none_or(|current_ms| next_ms <= current_ms)
            || self.earlier && current.is_some_and(|current_ms| next_ms >= current_ms))
    }
}

/// Sets the expiry to the given number of units of `unit_ms` after `base_ms`. A time that has come
/// already removes the key.
fn end_at(
    cx: &mut Cx<'_>,
    args: Args<'_>,
    unit_ms: i64,
    base_ms: i64,
    name: &'static str,
) -> Outcome {
    let conditions = Conditions::parse(args)?;
    let at_ms = parse_i64(&args[2])
        .ok_or(Error::NotInteger)?
        .checked_mul(unit_ms)
        .and_then(|given_ms| given_ms.checked_add(base_ms))
        .ok_or(Error::InvalidExpire(name))?;
    let now_ms = cx.now_ms;
    let mut edit = cx.edit(0);
    let allowed = edit
        .view()
        .is_some_and(|view| conditions.allow(view.expire_at(), at_ms));
    if allowed {
        if at_ms <= now_ms {
            edit.remove();
        } else {
            edit.set_expire(Some(at_ms))?;
        }
    }
    cx.reply.integer(i64::from(allowed));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Conditions;

    #[test]
    fn conditions_compare_with_what_is_there() {
        let none = Conditions::default();
        assert!(none.allow(None, 5) && none.allow(Some(9), 5));
        let nx = Conditions {
            none_yet: true,
            ..none
        };
        assert!(nx.allow(None, 5) && !nx.allow(Some(9), 5));
        let xx = Conditions {
            some_already: true,
            ..none
        };
        assert!(!xx.allow(None, 5) && xx.allow(Some(9), 5));
        let gt = Conditions {
            later: true,
            ..none
        };
        assert!(!gt.allow(None, 5) && !gt.allow(Some(5), 5) && gt.allow(Some(4), 5));
        let lt = Conditions {
            earlier: true,
            ..none
        };
        assert!(lt.allow(None, 5) && !lt.allow(Some(5), 5) && lt.allow(Some(6), 5));
    }
}
