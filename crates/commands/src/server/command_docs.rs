//! COMMAND DOCS.

use engine::registry::CommandId;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Flags, Group, Outcome};

pub(super) static COMMAND_DOCS: Command = Command {
    name: "DOCS",
    group: Group::Server,
    since: "7.0.0",
    summary: "Documents the named commands, or all of them.",
    complexity: "O(N) where N is the number of commands to look up",
    arity: -2,
    flags: Flags::LOADING.or(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    args: &[Arg::new("command-name", ArgKind::String)
        .optional()
        .multiple()],
    handler: command_docs,
    ..Command::BASE
}
.checked();

fn command_docs(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let registry = &cx.server.registry;
    let ids: Vec<CommandId> = if args.len() == 2 {
        registry.top_level().to_vec()
    } else {
        args.skip(2)
            .iter()
            .filter_map(|name| registry.find_full(name))
            .collect()
    };
    cx.reply.map(ids.len());
    for id in ids {
        document(cx, id);
    }
    Ok(())
}

/// Name and documentation of one command.
fn document(cx: &mut Cx<'_>, id: CommandId) {
    let server = cx.server.clone();
    let entry = server.registry.entry(id);
    let command = entry.command;
    let reply = &mut cx.reply;
    reply.bulk(entry.full_name.as_bytes());
    let fields = 4
        + 3 * usize::from(command.deprecated.is_some())
        + usize::from(!command.history.is_empty())
        + usize::from(!command.args.is_empty())
        + usize::from(!entry.children.is_empty());
    reply.map(fields);
    for (name, value) in [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
        ("complexity", command.complexity),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if let Some((since, instead)) = command.deprecated {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
        reply.bulk(b"deprecated_since");
        reply.bulk(since.as_bytes());
        reply.bulk(b"replaced_by");
        reply.bulk(instead.as_bytes());
    }
    if !command.history.is_empty() {
        reply.bulk(b"history");
        reply.set(command.history.len());
        for (version, change) in command.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !command.args.is_empty() {
        reply.bulk(b"arguments");
        arguments(cx, command.args);
    }
    if !entry.children.is_empty() {
        cx.reply.bulk(b"subcommands");
        cx.reply.map(entry.children.len());
        for child in &entry.children {
            document(cx, *child);
        }
    }
}

fn type_name(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Key(_) => "key",
        ArgKind::String => "string",
        ArgKind::Integer => "integer",
        ArgKind::Double => "double",
        ArgKind::Pattern => "pattern",
        ArgKind::UnixTime => "unix-time",
        ArgKind::Token => "pure-token",
        ArgKind::OneOf => "oneof",
        ArgKind::Block => "block",
    }
}

fn arguments(cx: &mut Cx<'_>, args: &'static [Arg]) {
    cx.reply.array(args.len());
    for arg in args {
        let flags: Vec<&str> = [
            (arg.optional, "optional"),
            (arg.multiple, "multiple"),
            (arg.multiple_token, "multiple_token"),
        ]
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| *name)
        .collect();
        let texts: Vec<(&str, &str)> = [
            ("token", arg.token),
            ("since", arg.since),
            ("deprecated_since", arg.deprecated_since),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
        let is_key = matches!(arg.kind, ArgKind::Key(_));
        let fields = 2
            + usize::from(is_key)
            + usize::from(!flags.is_empty())
            + usize::from(!arg.parts.is_empty())
            + texts.len();
        let reply = &mut cx.reply;
        reply.map(fields);
        reply.bulk(b"name");
        reply.bulk(arg.name.as_bytes());
        reply.bulk(b"type");
        reply.bulk(type_name(arg.kind).as_bytes());
        if let ArgKind::Key(spec) = arg.kind {
            reply.bulk(b"key_spec_index");
            reply.integer(spec as i64);
        }
        for (name, value) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            for flag in flags {
                reply.simple(flag);
            }
        }
        if !arg.parts.is_empty() {
            reply.bulk(b"arguments");
            arguments(cx, arg.parts);
        }
    }
}
