//! CONFIG.

use crate::help::help;
use engine::{Arg, ArgKind, Args, Command, Cx, Error, Flags, Group, Outcome};

const FLAGS: Flags = Flags::ADMIN
    .or(Flags::NO_SCRIPT)
    .or(Flags::LOADING)
    .or(Flags::STALE);

pub(super) static CONFIG: Command = Command {
    name: "CONFIG",
    group: Group::Server,
    since: "2.0.0",
    summary: "Commands about the configuration.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[
        &CONFIG_GET,
        &CONFIG_HELP,
        &CONFIG_RESETSTAT,
        &CONFIG_REWRITE,
        &CONFIG_SET,
    ],
    ..Command::BASE
}
.checked();

static CONFIG_HELP: Command = Command {
    name: "HELP",
    group: Group::Server,
    since: "5.0.0",
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

static CONFIG_GET: Command = Command {
    name: "GET",
    group: Group::Server,
    since: "2.0.0",
    summary: "Shows the directives whose names match the patterns.",
    complexity: "O(N) when N is the number of configuration parameters provided",
    arity: -3,
    flags: FLAGS,
    history: &[("7.0.0", "Takes several patterns.")],
    args: &[Arg::block("parameter", &[Arg::new("parameter", ArgKind::String)]).multiple()],
    handler: config_get,
    ..Command::BASE
}
.checked();

fn config_get(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let patterns: Vec<&[u8]> = args.skip(2).iter().collect();
    let found = cx.server.config.get_matching(&patterns);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(value.as_bytes());
    }
    Ok(())
}

static CONFIG_SET: Command = Command {
    name: "SET",
    group: Group::Server,
    since: "2.0.0",
    summary: "Sets directives, all or none.",
    complexity: "O(N) when N is the number of configuration parameters provided",
    arity: -4,
    flags: FLAGS,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[("7.0.0", "Sets several at once.")],
    args: &[Arg::block(
        "parameter_value",
        &[
            Arg::new("parameter", ArgKind::String),
            Arg::new("value", ArgKind::String),
        ],
    )
    .multiple()],
    handler: config_set,
    ..Command::BASE
}
.checked();

fn config_set(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    let all: Vec<&[u8]> = args.skip(2).iter().collect();
    let pairs: Vec<(&[u8], &[u8])> = all.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    cx.server
        .config
        .set_many(&pairs, cx.session.local)
        .map_err(|text| Error::owned(format!("ERR {text}")))?;
    cx.reply.ok();
    Ok(())
}

static CONFIG_RESETSTAT: Command = Command {
    name: "RESETSTAT",
    group: Group::Server,
    since: "2.0.0",
    summary: "Sets the counters that INFO shows to zero.",
    arity: 2,
    flags: FLAGS,
    handler: |cx, _| {
        cx.server.stats.reset();
        cx.reply.ok();
        Ok(())
    },
    ..Command::BASE
}
.checked();

static CONFIG_REWRITE: Command = Command {
    name: "REWRITE",
    group: Group::Server,
    since: "2.8.0",
    summary: "Writes the configuration in force into the configuration file.",
    arity: 2,
    flags: FLAGS,
    handler: config_rewrite,
    ..Command::BASE
}
.checked();

fn config_rewrite(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let path = cx.server.host().config_file();
    if path.is_empty() {
        return Err(Error::text(
            "ERR The server is running without a config file",
        ));
    }
    cx.server
        .config
        .rewrite(&path)
        .map_err(|error| Error::owned(format!("ERR Rewriting config file: {error}")))?;
    cx.reply.ok();
    Ok(())
}
