//! RENAME and RENAMENX.

use engine::ArgKind;
use engine::{Arg, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome};

const SOURCE: KeySpec = KeySpec::one(KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE));
const ARGS: &[Arg] = &[Arg::key("key"), Arg::new("newkey", ArgKind::Key(1))];

pub(super) static RENAME: Command = Command {
    name: "RENAME",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Gives a key another name, in place of what had that name.",
    arity: 3,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: &[SOURCE, KeySpec::at(2, KeyFlags::OW.or(KeyFlags::UPDATE))],
    args: ARGS,
    handler: rename,
    ..Command::BASE
}
.checked();

fn rename(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if !cx.edit(0).exists() {
        return Err(Error::NoSuchKey);
    }
    if args[1] != args[2] {
        cx.hold.transfer(0, 1, false)?;
    }
    cx.reply.ok();
    Ok(())
}

pub(super) static RENAMENX: Command = Command {
    name: "RENAMENX",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Gives a key another name if no key has that name.",
    arity: 3,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[SOURCE, KeySpec::at(2, KeyFlags::OW.or(KeyFlags::INSERT))],
    history: &[("3.2.0", "The same name twice is no error.")],
    args: ARGS,
    handler: renamenx,
    ..Command::BASE
}
.checked();

fn renamenx(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if !cx.edit(0).exists() {
        return Err(Error::NoSuchKey);
    }
    let free = args[1] != args[2] && !cx.edit(1).exists();
    if free {
        cx.hold.transfer(0, 1, false)?;
    }
    cx.reply.integer(i64::from(free));
    Ok(())
}
