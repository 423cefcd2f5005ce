//! FLUSHDB, FLUSHALL, SWAPDB: whole databases at once, while all loops stand still for the moment
//! it takes to exchange tables.

use base::number::parse_i64;
use engine::stats::bump;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, Outcome};

const CATEGORIES: Categories = Categories::KEYSPACE.or(Categories::DANGEROUS);
const TIPS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const HISTORY: &[(&str, &str)] = &[("4.0.0", "Takes `ASYNC`."), ("6.2.0", "Takes `SYNC`.")];
const ARGS: &[Arg] = &[Arg::one_of(
    "async",
    &[
        Arg::word("async", "ASYNC").since("4.0.0"),
        Arg::word("sync", "SYNC").since("6.2.0"),
    ],
)
.optional()];

pub(super) static FLUSHDB: Command = Command {
    name: "FLUSHDB",
    group: Group::Server,
    since: "1.0.0",
    summary: "Removes all keys of the selected database.",
    complexity: "O(1) for other clients; O(N) until the memory of N keys is free",
    arity: -1,
    flags: Flags::WRITE,
    categories: CATEGORIES,
    tips: TIPS,
    history: HISTORY,
    args: ARGS,
    handler: flushdb,
    at_safepoint: true,
    ..Command::BASE
}
.checked();

fn flushdb(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let db = cx.session.db;
    flush(cx, args, Some(db))
}

pub(super) static FLUSHALL: Command = Command {
    name: "FLUSHALL",
    group: Group::Server,
    since: "1.0.0",
    summary: "Removes all keys of all databases.",
    complexity: "O(1) for other clients; O(N) until the memory of N keys is free",
    arity: -1,
    flags: Flags::WRITE,
    categories: CATEGORIES,
    tips: TIPS,
    history: HISTORY,
    args: ARGS,
    handler: flushall,
    at_safepoint: true,
    ..Command::BASE
}
.checked();

fn flushall(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    flush(cx, args, None)
}

/// Removes at once; then, unless ASYNC was asked for, the reply waits until memory is free, which
/// only the asking client notices.
fn flush(cx: &mut Cx<'_>, args: Args<'_>, db: Option<usize>) -> Outcome {
    let wait = match args.len() {
        1 => !cx.server.config.lazyfree_lazy_user_flush(),
        2 if args[1].eq_ignore_ascii_case(b"SYNC") => true,
        2 if args[1].eq_ignore_ascii_case(b"ASYNC") => false,
        _ => return Err(Error::Syntax),
    };
    let removed = cx.server.store.flush(db);
    bump(&cx.stats.changes, removed + u64::from(db.is_none()));
    if wait {
        while cx.server.store.take_out_trash() {}
    }
    cx.reply.ok();
    Ok(())
}

pub(super) static SWAPDB: Command = Command {
    name: "SWAPDB",
    group: Group::Server,
    since: "4.0.0",
    summary: "Exchanges two databases; connected clients see the other's keys at once.",
    arity: 3,
    flags: Flags::WRITE.or(Flags::FAST),
    categories: CATEGORIES,
    args: &[
        Arg::new("index1", ArgKind::Integer),
        Arg::new("index2", ArgKind::Integer),
    ],
    handler: swapdb,
    at_safepoint: true,
    ..Command::BASE
}
.checked();

fn swapdb(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let number = |text: &[u8], error: Error| {
        parse_i64(text)
            .and_then(|number| i32::try_from(number).ok())
            .ok_or(error)
    };
    let first = number(&args[1], Error::InvalidFirstDbIndex)?;
    let second = number(&args[2], Error::InvalidSecondDbIndex)?;
    let databases = cx.server.databases;
    let index = |number: i32| {
        usize::try_from(number)
            .ok()
            .filter(|db| *db < databases)
            .ok_or(Error::DbOutOfRange)
    };
    let (first, second) = (index(first)?, index(second)?);
    if first != second {
        cx.server.store.swap(first, second);
    }
    bump(&cx.stats.changes, 1);
    cx.reply.ok();
    Ok(())
}
