//! COPY and MOVE: keys that go to other names or other databases.
//!
//! Key 0 is the source, key 1 the destination. Their databases differ, so both commands name their
//! keys themselves, and what can be wrong about databases is found there.

use super::database;
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySet, KeySpec,
    Outcome,
};

pub(super) static COPY: Command = Command {
    name: "COPY",
    group: Group::Generic,
    since: "6.2.0",
    summary: "Copies the value and expiry of a key to another key.",
    complexity: "O(N), N being the size of the value",
    arity: -3,
    flags: Flags::WRITE.or(Flags::DENY_OOM),
    categories: Categories::KEYSPACE,
    keys: &[
        KeySpec::one(KeyFlags::RO.or(KeyFlags::ACCESS)),
        KeySpec::at(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
    ],
    args: &[
        Arg::key("source"),
        Arg::new("destination", ArgKind::Key(1)),
        Arg::new("destination-db", ArgKind::Integer)
            .token("DB")
            .optional(),
        Arg::word("replace", "REPLACE").optional(),
    ],
    handler: copy,
    key_finder: Some(copy_keys),
    ..Command::BASE
}
.checked();

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CopyOptions {
    db: usize,
    replace: bool,
}

impl CopyOptions {
    fn parse(selected: usize, databases: usize, args: Args<'_>) -> Result<Self, Error> {
        let mut options = CopyOptions {
            db: selected,
            replace: false,
        };
        let mut at = 3;
        while let Some(word) = args.get(at) {
            at += 1;
            if word.eq_ignore_ascii_case(b"REPLACE") {
                options.replace = true;
            } else if word.eq_ignore_ascii_case(b"DB") && at < args.len() {
                options.db = database(args.at(at), databases)?;
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

fn copy_keys(selected: usize, databases: usize, args: Args<'_>, keys: &mut KeySet) -> Outcome {
    let options = CopyOptions::parse(selected, databases, args)?;
    if options.db == selected && args[1] == args[2] {
        return Err(Error::SameObject);
    }
    keys.push(selected, 1);
    keys.push(options.db, 2);
    Ok(())
}

fn copy(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let options = CopyOptions::parse(cx.session.db, cx.server.databases, args)?;
    let found = cx.read(0, |_, view| Ok(view.is_some()))?;
    let copied = found && (options.replace || !cx.edit(1).exists());
    if copied {
        cx.hold.transfer(0, 1, true)?;
    }
    cx.reply.integer(i64::from(copied));
    Ok(())
}

pub(super) static MOVE: Command = Command {
    name: "MOVE",
    group: Group::Generic,
    since: "1.0.0",
    summary: "Moves a key to another database, unless that has such a key.",
    arity: 3,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::one(
        KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
    )],
    args: &[Arg::key("key"), Arg::new("db", ArgKind::Integer)],
    handler: move_key,
    key_finder: Some(move_keys),
    ..Command::BASE
}
.checked();

fn move_keys(selected: usize, databases: usize, args: Args<'_>, keys: &mut KeySet) -> Outcome {
    let db = database(&args[2], databases)?;
    if db == selected {
        return Err(Error::SameObject);
    }
    keys.push(selected, 1);
    keys.push(db, 1);
    Ok(())
}

fn move_key(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let moves = cx.edit(0).exists() && !cx.edit(1).exists();
    if moves {
        cx.hold.transfer(0, 1, false)?;
    }
    cx.reply.integer(i64::from(moves));
    Ok(())
}
