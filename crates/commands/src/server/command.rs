//! COMMAND: what commands there are, from the registry alone.

use super::command_docs::COMMAND_DOCS;
use crate::help::help;
use base::glob::{Case, matches};
use engine::registry::{CommandId, Entry};
use engine::{
    Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome,
};

const PLAIN: Flags = Flags::LOADING.or(Flags::STALE);
const CONNECTION: Categories = Categories::CONNECTION;

pub(super) static COMMAND: Command = Command {
    name: "COMMAND",
    group: Group::Server,
    since: "2.8.13",
    summary: "Describes all commands.",
    complexity: "O(N) where N is the total number of Redis commands",
    arity: -1,
    flags: PLAIN,
    categories: CONNECTION,
    tips: &["nondeterministic_output_order"],
    subcommands: &[
        &COMMAND_COUNT,
        &COMMAND_DOCS,
        &COMMAND_GETKEYS,
        &COMMAND_GETKEYSANDFLAGS,
        &COMMAND_HELP,
        &COMMAND_INFO,
        &COMMAND_LIST,
    ],
    handler: command,
    ..Command::BASE
}
.checked();

fn command(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let ids = cx.server.registry.top_level().to_vec();
    cx.reply.array(ids.len());
    for id in ids {
        describe(cx, id);
    }
    Ok(())
}

static COMMAND_COUNT: Command = Command {
    name: "COUNT",
    group: Group::Server,
    since: "2.8.13",
    summary: "Answers with the number of commands.",
    arity: 2,
    flags: PLAIN,
    categories: CONNECTION,
    handler: |cx, _| {
        let count = cx.server.registry.top_level().len() as i64;
        cx.reply.integer(count);
        Ok(())
    },
    ..Command::BASE
}
.checked();

static COMMAND_HELP: Command = Command {
    name: "HELP",
    group: Group::Server,
    since: "5.0.0",
    summary: "Shows the subcommands.",
    arity: 2,
    flags: PLAIN,
    categories: CONNECTION,
    handler: |cx, _| {
        help(cx);
        Ok(())
    },
    ..Command::BASE
}
.checked();

static COMMAND_INFO: Command = Command {
    name: "INFO",
    group: Group::Server,
    since: "2.8.13",
    summary: "Describes the named commands, or all of them.",
    complexity: "O(N) where N is the number of commands to look up",
    arity: -2,
    flags: PLAIN,
    categories: CONNECTION,
    tips: &["nondeterministic_output_order"],
    history: &[("7.0.0", "Without names it describes all commands.")],
    args: &[Arg::new("command-name", ArgKind::String)
        .optional()
        .multiple()],
    handler: command_info,
    ..Command::BASE
}
.checked();

fn command_info(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 2 {
        return command(cx, args);
    }
    cx.reply.array(args.len() - 2);
    for name in args.skip(2).iter() {
        match cx.server.registry.find_full(name) {
            Some(id) => describe(cx, id),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

/// One command as COMMAND INFO shows it.
fn describe(cx: &mut Cx<'_>, id: CommandId) {
    let server = cx.server.clone();
    let entry = server.registry.entry(id);
    let command = entry.command;
    let reply = &mut cx.reply;
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags = flag_names(&server.registry, id, entry);
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    let (first, last, step) = legacy_range(command);
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    let categories: Vec<_> = command.all_categories().names().collect();
    reply.set(categories.len());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    reply.set(command.tips.len());
    for tip in command.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(command.keys.len());
    for spec in command.keys {
        describe_keys(cx, spec);
    }
    cx.reply.set(entry.children.len());
    for child in &entry.children {
        describe(cx, *child);
    }
}

fn flag_names(
    registry: &engine::registry::Registry,
    id: CommandId,
    entry: &Entry,
) -> Vec<&'static str> {
    let hidden = ["sentinel", "only_sentinel"];
    let mut names: Vec<_> = entry
        .command
        .flags
        .names()
        .filter(|name| !hidden.contains(name))
        .collect();
    if registry.movable_keys(id) && !names.contains(&"movablekeys") {
        names.push("movablekeys");
    }
    names
}

/// First key, last key and step, as clients before key specifications read them.
fn legacy_range(command: &Command) -> (i64, i64, i64) {
    let ranges: Vec<_> = command.keys.iter().filter(|spec| !spec.counted).collect();
    let Some(first) = ranges.iter().map(|spec| spec.first).min() else {
        return (0, 0, 0);
    };
    let ends: Vec<i64> = ranges
        .iter()
        .map(|spec| {
            if spec.last < 0 {
                i64::from(spec.last)
            } else {
                spec.first as i64 + i64::from(spec.last)
            }
        })
        .collect();
    let last = match ends.iter().filter(|end| **end < 0).max() {
        Some(open) => *open,
        None => ends.iter().copied().max().unwrap_or(0),
    };
    (first as i64, last, ranges[0].step as i64)
}

fn describe_keys(cx: &mut Cx<'_>, spec: &KeySpec) {
    let reply = &mut cx.reply;
    reply.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(spec.notes.as_bytes());
    }
    reply.bulk(b"flags");
    let flags: Vec<_> = spec.flags.names().collect();
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(spec.first as i64);
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    if spec.counted {
        reply.bulk(b"keynum");
        reply.bulk(b"spec");
        reply.map(3);
        reply.bulk(b"keynumidx");
        reply.integer(0);
        reply.bulk(b"firstkey");
        reply.integer(1);
        reply.bulk(b"keystep");
        reply.integer(spec.step as i64);
    } else {
        reply.bulk(b"range");
        reply.bulk(b"spec");
        reply.map(3);
        reply.bulk(b"lastkey");
        reply.integer(i64::from(spec.last));
        reply.bulk(b"keystep");
        reply.integer(spec.step as i64);
        reply.bulk(b"limit");
        reply.integer(0);
    }
}

static COMMAND_LIST: Command = Command {
    name: "LIST",
    group: Group::Server,
    since: "7.0.0",
    summary: "Lists the names of all commands, or of those that a filter selects.",
    complexity: "O(N) where N is the total number of Redis commands",
    arity: -2,
    flags: PLAIN,
    categories: CONNECTION,
    tips: &["nondeterministic_output_order"],
    args: &[Arg::one_of(
        "filterby",
        &[
            Arg::new("module-name", ArgKind::String).token("MODULE"),
            Arg::new("category", ArgKind::String).token("ACLCAT"),
            Arg::new("pattern", ArgKind::Pattern).token("PATTERN"),
        ],
    )
    .token("FILTERBY")
    .optional()],
    handler: command_list,
    ..Command::BASE
}
.checked();

fn command_list(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let registry = &cx.server.registry;
    let all = || registry.ids().map(|id| registry.entry(id));
    let named = |entry: &Entry| entry.full_name.clone();
    let names: Vec<String> = match args.len() {
        2 => registry
            .top_level()
            .iter()
            .map(|id| named(registry.entry(*id)))
            .collect(),
        5 if args[2].eq_ignore_ascii_case(b"FILTERBY") => {
            let value = &args[4];
            match args[3].to_ascii_uppercase().as_slice() {
                b"MODULE" => Vec::new(),
                b"ACLCAT" => {
                    let category = Categories::NAMES
                        .iter()
                        .find(|(_, name)| value.eq_ignore_ascii_case(name.as_bytes()));
                    match category {
                        Some((category, _)) => all()
                            .filter(|entry| entry.command.all_categories().has(*category))
                            .map(named)
                            .collect(),
                        None => Vec::new(),
                    }
                }
                b"PATTERN" => all()
                    .filter(|entry| matches(value, entry.full_name.as_bytes(), Case::Insensitive))
                    .map(named)
                    .collect(),
                _ => return Err(Error::Syntax),
            }
        }
        _ => return Err(Error::Syntax),
    };
    cx.reply.array(names.len());
    for name in names {
        cx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

const FULL_COMMAND: &[Arg] = &[
    Arg::new("command", ArgKind::String),
    Arg::new("arg", ArgKind::String).optional().multiple(),
];

static COMMAND_GETKEYS: Command = Command {
    name: "GETKEYS",
    group: Group::Server,
    since: "2.8.13",
    summary: "Answers with the keys of a whole command.",
    complexity: "O(N) where N is the number of arguments to the command",
    arity: -4,
    flags: PLAIN,
    categories: CONNECTION,
    args: FULL_COMMAND,
    handler: |cx, args| getkeys(cx, args, false),
    ..Command::BASE
}
.checked();

static COMMAND_GETKEYSANDFLAGS: Command = Command {
    name: "GETKEYSANDFLAGS",
    group: Group::Server,
    since: "7.0.0",
    summary: "Answers with the keys of a whole command and what it does with each.",
    complexity: "O(N) where N is the number of arguments to the command",
    arity: -4,
    flags: PLAIN,
    categories: CONNECTION,
    args: FULL_COMMAND,
    handler: |cx, args| getkeys(cx, args, true),
    ..Command::BASE
}
.checked();

fn getkeys(cx: &mut Cx<'_>, args: Args<'_>, with_flags: bool) -> Outcome {
    let line = args.skip(2);
    let registry = &cx.server.registry;
    let id = registry
        .resolve(line)
        .map_err(|_| Error::text("ERR Invalid command specified"))?;
    let command = registry.entry(id).command;
    if command.keys.is_empty() {
        return Err(Error::text("ERR The command has no key arguments"));
    }
    if !command.arity_allows(line.len()) {
        return Err(Error::text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let mut keys: Vec<(&[u8], KeyFlags)> = Vec::new();
    for spec in command.keys {
        for at in spec.positions(line.len()) {
            keys.push((line.at(at), actual_flags(command, spec.flags, line)));
        }
    }
    cx.reply.array(keys.len());
    for (key, flags) in keys {
        if !with_flags {
            cx.reply.bulk(key);
            continue;
        }
        cx.reply.array(2);
        cx.reply.bulk(key);
        let names: Vec<_> = flags
            .names()
            .filter(|name| *name != "variable_flags")
            .collect();
        cx.reply.set(names.len());
        for name in names {
            cx.reply.simple(name);
        }
    }
    Ok(())
}

/// Flags of a key where they depend on the arguments.
fn actual_flags(command: &Command, declared: KeyFlags, line: Args<'_>) -> KeyFlags {
    if !declared.has(KeyFlags::VARIABLE_FLAGS) {
        return declared;
    }
    let reads = line
        .skip(3)
        .iter()
        .any(|arg| arg.eq_ignore_ascii_case(b"GET"));
    match command.name {
        "SET" if !reads => KeyFlags::OW.or(KeyFlags::UPDATE),
        _ => declared,
    }
}
