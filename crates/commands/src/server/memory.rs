//! MEMORY USAGE.

use crate::help::help;
use base::number::parse_i64;
use engine::{Arg, ArgKind, Args, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome};

pub(super) static MEMORY: Command = Command {
    name: "MEMORY",
    group: Group::Server,
    since: "4.0.0",
    summary: "Commands about memory.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[&MEMORY_HELP, &MEMORY_USAGE],
    ..Command::BASE
}
.checked();

static MEMORY_HELP: Command = Command {
    name: "HELP",
    group: Group::Server,
    since: "4.0.0",
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

static MEMORY_USAGE: Command = Command {
    name: "USAGE",
    group: Group::Server,
    since: "4.0.0",
    summary: "Estimates the bytes that a key and its value take.",
    complexity: "O(N) where N is the number of samples.",
    arity: -3,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    args: &[
        Arg::key("key"),
        Arg::new("count", ArgKind::Integer)
            .token("SAMPLES")
            .optional(),
    ],
    handler: memory_usage,
    ..Command::BASE
}
.checked();

fn memory_usage(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    // Strings have nothing to sample, but a wrong number is an error all the same.
    let mut at = 3;
    while let Some(option) = args.get(at) {
        let value = args.get(at + 1);
        if !option.eq_ignore_ascii_case(b"SAMPLES") || value.is_none() {
            return Err(Error::Syntax);
        }
        let samples = value.and_then(parse_i64).ok_or(Error::NotInteger)?;
        if samples < 0 {
            return Err(Error::Syntax);
        }
        at += 2;
    }
    let bytes = cx.look(0, |view| Ok(view.map(store::View::memory_bytes)))?;
    match bytes {
        Some(bytes) => cx.reply.integer(bytes as i64),
        None => cx.reply.null(),
    }
    Ok(())
}
