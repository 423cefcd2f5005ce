//! SET and its older special cases.

use super::deadline::{Deadline, Lifetime, SetOptions, Unit};
use super::write_string_or_null;
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Flags, Group, KeyFlags, KeySpec, Outcome,
};
use store::{Edit, Expire, OutOfMemory, Value};

pub(super) static SET: Command = Command {
    name: "SET",
    group: Group::String,
    since: "1.0.0",
    summary: "Sets the value of a key, whatever it held before.",
    arity: -3,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::STRING,
    keys: &[KeySpec::one(
        KeyFlags::RW
            .or(KeyFlags::ACCESS)
            .or(KeyFlags::UPDATE)
            .or(KeyFlags::VARIABLE_FLAGS),
    )
    .noted("RW and ACCESS due to the optional `GET` argument")],
    history: &[
        ("2.6.12", "Takes `EX`, `PX`, `NX` and `XX`."),
        ("6.0.0", "Takes `KEEPTTL`."),
        ("6.2.0", "Takes `GET`, `EXAT` and `PXAT`."),
        ("7.0.0", "`NX` and `GET` go together."),
    ],
    args: &[
        Arg::key("key"),
        Arg::new("value", ArgKind::String),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
            .optional()
            .since("2.6.12"),
        Arg::word("get", "GET").optional().since("6.2.0"),
        Arg::one_of(
            "expiration",
            &[
                Arg::new("seconds", ArgKind::Integer)
                    .token("EX")
                    .since("2.6.12"),
                Arg::new("milliseconds", ArgKind::Integer)
                    .token("PX")
                    .since("2.6.12"),
                Arg::new("unix-time-seconds", ArgKind::UnixTime)
                    .token("EXAT")
                    .since("6.2.0"),
                Arg::new("unix-time-milliseconds", ArgKind::UnixTime)
                    .token("PXAT")
                    .since("6.2.0"),
                Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
            ],
        )
        .optional(),
    ],
    handler: set,
    ..Command::BASE
}
.checked();

fn set(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 3 {
        cx.edit(0).set(Value::Bytes(&args[2]), Expire::Clear)?;
        cx.reply.ok();
        return Ok(());
    }
    let now_ms = cx.now_ms;
    let options = SetOptions::parse(args)?;
    let expire = match options.lifetime {
        Lifetime::Unsaid | Lifetime::Persist => Expire::Clear,
        Lifetime::Keep => Expire::Keep,
        Lifetime::Until(deadline) => Expire::At(deadline.at_ms(now_ms, "set")?),
    };
    if options.get {
        cx.read(0, write_string_or_null)?;
    }
    let mut edit = cx.edit(0);
    let refused = options.if_missing && edit.exists() || options.if_present && !edit.exists();
    if !refused {
        store_until(&mut edit, &args[2], expire, now_ms)?;
    }
    if !options.get {
        if refused {
            cx.reply.null();
        } else {
            cx.reply.ok();
        }
    }
    Ok(())
}

/// Stores the value; one that is over already leaves no key.
fn store_until(
    edit: &mut Edit<'_, '_>,
    value: &[u8],
    expire: Expire,
    now_ms: i64,
) -> Result<(), OutOfMemory> {
    if matches!(expire, Expire::At(at_ms) if at_ms <= now_ms) {
        edit.remove();
        return Ok(());
    }
    edit.set(Value::Bytes(value), expire)
}

pub(super) static SETNX: Command = Command {
    name: "SETNX",
    group: Group::String,
    since: "1.0.0",
    summary: "Sets the value of a key that does not exist.",
    arity: 3,
    flags: Flags::WRITE.or(Flags::DENY_OOM).or(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::OW.or(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::new("value", ArgKind::String)],
    handler: setnx,
    ..Command::BASE
}
.checked();

fn setnx(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut edit = cx.edit(0);
    let missing = !edit.exists();
    if missing {
        edit.set(Value::Bytes(&args[2]), Expire::Clear)?;
    }
    cx.reply.integer(i64::from(missing));
    Ok(())
}

pub(super) static SETEX: Command = Command {
    name: "SETEX",
    group: Group::String,
    since: "2.0.0",
    summary: "Sets the value of a key and the seconds it has to live.",
    arity: 4,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::OW.or(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::new("seconds", ArgKind::Integer),
        Arg::new("value", ArgKind::String),
    ],
    handler: setex,
    ..Command::BASE
}
.checked();

fn setex(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    set_for(cx, args, Unit::Seconds, "setex")
}

pub(super) static PSETEX: Command = Command {
    name: "PSETEX",
    group: Group::String,
    since: "2.6.0",
    summary: "Sets the value of a key and the milliseconds it has to live.",
    arity: 4,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::STRING,
    keys: &[KeySpec::one(KeyFlags::OW.or(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::new("milliseconds", ArgKind::Integer),
        Arg::new("value", ArgKind::String),
    ],
    handler: psetex,
    ..Command::BASE
}
.checked();

fn psetex(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    set_for(cx, args, Unit::Milliseconds, "psetex")
}

fn set_for(cx: &mut Cx<'_>, args: Args<'_>, unit: Unit, name: &'static str) -> Outcome {
    let deadline = Deadline {
        text: args.at(2),
        unit,
    };
    let at_ms = deadline.at_ms(cx.now_ms, name)?;
    cx.edit(0).set(Value::Bytes(&args[3]), Expire::At(at_ms))?;
    cx.reply.ok();
    Ok(())
}
