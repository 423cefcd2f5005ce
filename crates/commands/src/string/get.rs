//! GET, and the commands that read a value and change the key at the same time.

use super::deadline::{Lifetime, parse_getex};
use super::write_string_or_null;
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Flags, Group, KeyFlags, KeySpec, Outcome,
};
use store::{Expire, Value};

pub(super) static GET: Command = Command {
    name: "GET",
    group: Group::String,
    since: "1.0.0",
    summary: "Answers with the value of a key.",
    arity: 2,
    flags: Flags::READONLY.or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::RO.or(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    handler: get,
    ..Command::BASE
}
.checked();

fn get(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, write_string_or_null)
}

pub(super) static GETDEL: Command = Command {
    name: "GETDEL",
    group: Group::String,
    since: "6.2.0",
    summary: "Answers with the value of a key and removes the key.",
    arity: 2,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(
        KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE),
    )],
    args: &[Arg::key("key")],
    handler: getdel,
    ..Command::BASE
}
.checked();

fn getdel(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, write_string_or_null)?;
    cx.edit(0).remove();
    Ok(())
}

pub(super) static GETSET: Command = Command {
    name: "GETSET",
    group: Group::String,
    since: "1.0.0",
    summary: "Sets the value of a key and answers with the one it had.",
    arity: 3,
    flags: Flags::WRITE.or(Flags::DENY_OOM).or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(
        KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
    )],
    deprecated: Some(("6.2.0", "`SET` with the `!GET` argument")),
    args: &[Arg::key("key"), Arg::new("value", ArgKind::String)],
    handler: getset,
    ..Command::BASE
}
.checked();

fn getset(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    cx.read(0, write_string_or_null)?;
    cx.edit(0).set(Value::Bytes(&args[2]), Expire::Clear)?;
    Ok(())
}

pub(super) static GETEX: Command = Command {
    name: "GETEX",
    group: Group::String,
    since: "6.2.0",
    summary: "Answers with the value of a key and changes when the key expires.",
    arity: -2,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[
        KeySpec::one(KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))
            .noted("RW and UPDATE because it changes the TTL"),
    ],
    args: &[
        Arg::key("key"),
        Arg::one_of(
            "expiration",
            &[
                Arg::new("seconds", ArgKind::Integer).token("EX"),
                Arg::new("milliseconds", ArgKind::Integer).token("PX"),
                Arg::new("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
                Arg::new("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
                Arg::word("persist", "PERSIST"),
            ],
        )
        .optional(),
    ],
    handler: getex,
    ..Command::BASE
}
.checked();

fn getex(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let lifetime = parse_getex(args)?;
    let found = cx.read(0, |reply, view| {
        write_string_or_null(reply, view)?;
        Ok(view.is_some())
    })?;
    if !found {
        // A missing key is answered before the deadline is even looked at.
        return Ok(());
    }
    let now_ms = cx.now_ms;
    match lifetime {
        Lifetime::Unsaid | Lifetime::Keep => {}
        Lifetime::Persist => {
            let mut edit = cx.edit(0);
            if edit.view().is_some_and(|view| view.expire_at().is_some()) {
                edit.set_expire(None)?;
            }
        }
        Lifetime::Until(deadline) => {
            let at_ms = deadline.at_ms(now_ms, "getex")?;
            let mut edit = cx.edit(0);
            if at_ms <= now_ms {
                edit.remove();
            } else {
                edit.set_expire(Some(at_ms))?;
            }
        }
    }
    Ok(())
}
