//! SLOWLOG.

use crate::help::help;
use base::number::parse_i64;
use engine::{Arg, ArgKind, Args, Command, Cx, Error, Flags, Group, Outcome};

const FLAGS: Flags = Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE);
/// Entries that GET answers with if it is not told how many.
const ENTRIES_DEFAULT: usize = 10;

pub(super) static SLOWLOG: Command = Command {
    name: "SLOWLOG",
    group: Group::Server,
    since: "2.2.12",
    summary: "Commands about the log of slow commands.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
    ..Command::BASE
}
.checked();

static SLOWLOG_GET: Command = Command {
    name: "GET",
    group: Group::Server,
    since: "2.2.12",
    summary: "Shows the newest entries; 10 if not told how many, all with -1.",
    complexity: "O(N) where N is the number of entries returned",
    arity: -2,
    flags: FLAGS,
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    history: &[("4.0.0", "Entries show the client's address and name.")],
    args: &[Arg::new("count", ArgKind::Integer).optional()],
    handler: slowlog_get,
    ..Command::BASE
}
.checked();

fn slowlog_get(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let count = match args.len() {
        2 => ENTRIES_DEFAULT,
        3 => {
            let range = Error::text("ERR count should be greater than or equal to -1");
            match parse_i64(&args[2])
                .filter(|count| *count >= -1)
                .ok_or(range)?
            {
                -1 => usize::MAX,
                count => count as usize,
            }
        }
        _ => {
            return Err(Error::owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try SLOWLOG HELP.",
                String::from_utf8_lossy(&args[1])
            )));
        }
    };
    let entries = cx.server.slowlog.latest(count);
    cx.reply.array(entries.len());
    for entry in entries {
        cx.reply.array(6);
        cx.reply.integer(entry.id as i64);
        cx.reply.integer(entry.time_s);
        cx.reply.integer(entry.duration_us as i64);
        cx.reply.array(entry.args.len());
        for arg in &entry.args {
            cx.reply.bulk(arg);
        }
        cx.reply.bulk(entry.addr.as_bytes());
        cx.reply.bulk(&entry.name);
    }
    Ok(())
}

static SLOWLOG_LEN: Command = Command {
    name: "LEN",
    group: Group::Server,
    since: "2.2.12",
    summary: "Answers with the number of entries.",
    arity: 2,
    flags: FLAGS,
    tips: &[
        "request_policy:all_nodes",
        "response_policy:agg_sum",
        "nondeterministic_output",
    ],
    handler: |cx, _| {
        let len = cx.server.slowlog.len() as i64;
        cx.reply.integer(len);
        Ok(())
    },
    ..Command::BASE
}
.checked();

static SLOWLOG_RESET: Command = Command {
    name: "RESET",
    group: Group::Server,
    since: "2.2.12",
    summary: "Removes all entries.",
    complexity: "O(N) where N is the number of entries in the slowlog",
    arity: 2,
    flags: FLAGS,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: |cx, _| {
        cx.server.slowlog.clear();
        cx.reply.ok();
        Ok(())
    },
    ..Command::BASE
}
.checked();

static SLOWLOG_HELP: Command = Command {
    name: "HELP",
    group: Group::Server,
    since: "6.2.0",
    summary: "Shows the subcommands.",
    arity: 2,
    flags: Flags::LOADING.or(Flags::STALE),
    handler: |cx, _| {
        help(cx);
        Ok(())
    },
    ..Command::BASE
}
.checked();
