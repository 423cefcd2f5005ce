//! CLIENT and its subcommands except KILL.

use super::client_kill::CLIENT_KILL;
use crate::help::help;
use base::number::parse_i64;
use engine::session::ReplyMode;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, Outcome};
use std::sync::atomic::Ordering::Relaxed;

const PLAIN: Flags = Flags::NO_SCRIPT.or(Flags::LOADING).or(Flags::STALE);
const ADMIN: Flags = PLAIN.or(Flags::ADMIN);
const BASE: Command = Command {
    group: Group::Connection,
    categories: Categories::CONNECTION,
    ..Command::BASE
};

pub(super) static CLIENT: Command = Command {
    name: "CLIENT",
    since: "2.4.0",
    summary: "Commands about client connections.",
    complexity: "Depends on subcommand.",
    arity: -2,
    categories: Categories::NONE,
    subcommands: &[
        &CLIENT_GETNAME,
        &CLIENT_HELP,
        &CLIENT_ID,
        &CLIENT_INFO,
        &CLIENT_KILL,
        &CLIENT_LIST,
        &CLIENT_NO_EVICT,
        &CLIENT_NO_TOUCH,
        &CLIENT_REPLY,
        &CLIENT_SETINFO,
        &CLIENT_SETNAME,
    ],
    ..BASE
}
.checked();

static CLIENT_HELP: Command = Command {
    name: "HELP",
    since: "5.0.0",
    summary: "Shows the subcommands.",
    arity: 2,
    flags: Flags::LOADING.or(Flags::STALE),
    handler: |cx, _| {
        help(cx);
        Ok(())
    },
    ..BASE
}
.checked();

static CLIENT_ID: Command = Command {
    name: "ID",
    since: "5.0.0",
    summary: "Answers with this connection's number.",
    arity: 2,
    flags: PLAIN,
    handler: |cx, _| {
        let id = cx.session.id as i64;
        cx.reply.integer(id);
        Ok(())
    },
    ..BASE
}
.checked();

static CLIENT_INFO: Command = Command {
    name: "INFO",
    since: "6.2.0",
    summary: "Describes this connection.",
    arity: 2,
    flags: PLAIN,
    tips: &["nondeterministic_output"],
    handler: client_info,
    ..BASE
}
.checked();

fn client_info(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.client.last_command.store(cx.command.0, Relaxed);
    cx.client.db.store(cx.session.db as u32, Relaxed);
    cx.client
        .resp
        .store(cx.session.version.number().into(), Relaxed);
    let line = line(cx, cx.client) + "\n";
    cx.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

fn line(cx: &Cx<'_>, client: &engine::clients::Client) -> String {
    client.line(cx.now_ms, &|id| {
        if id == u16::MAX {
            "NULL".to_owned()
        } else {
            cx.server
                .registry
                .entry(engine::registry::CommandId(id))
                .full_name
                .clone()
        }
    })
}

static CLIENT_LIST: Command = Command {
    name: "LIST",
    since: "2.4.0",
    summary: "Describes all connections.",
    complexity: "O(N) where N is the number of client connections",
    arity: -2,
    flags: ADMIN,
    tips: &["nondeterministic_output"],
    history: &[
        ("2.8.12", "Connections have a number."),
        ("5.0.0", "TYPE chooses a kind."),
        ("6.0.0", "Shows the user."),
        ("6.2.0", "ID chooses connections; shows our address."),
        ("7.0.0", "Shows the protocol version."),
        ("7.0.3", "Shows the sharded channels."),
    ],
    args: &[
        Arg::one_of(
            "normal_master_replica_pubsub",
            &[
                Arg::word("normal", "NORMAL"),
                Arg::word("master", "MASTER"),
                Arg::word("replica", "REPLICA"),
                Arg::word("pubsub", "PUBSUB"),
            ],
        )
        .token("TYPE")
        .optional()
        .since("5.0.0"),
        Arg::block("id", &[Arg::new("client-id", ArgKind::Integer).multiple()])
            .token("ID")
            .optional()
            .since("6.2.0"),
    ],
    handler: client_list,
    ..BASE
}
.checked();

fn client_list(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    cx.client.last_command.store(cx.command.0, Relaxed);
    cx.client.db.store(cx.session.db as u32, Relaxed);
    let mut ids = None;
    let mut nobody = false;
    if args.len() == 4 && args[2].eq_ignore_ascii_case(b"TYPE") {
        nobody = match client_type(&args[3])? {
            ClientType::Normal => false,
            ClientType::Master | ClientType::Replica | ClientType::PubSub => true,
        };
    } else if args.len() > 3 && args[2].eq_ignore_ascii_case(b"ID") {
        let mut chosen = Vec::new();
        for id in args.skip(3).iter() {
            let id = parse_i64(id).ok_or(Error::text("ERR Invalid client ID"))?;
            // Nobody has a number below 1.
            chosen.extend(u64::try_from(id));
        }
        ids = Some(chosen);
    } else if args.len() != 2 {
        return Err(Error::Syntax);
    }
    let clients = match ids {
        Some(ids) => ids
            .iter()
            .filter_map(|id| cx.server.clients.get(*id))
            .collect(),
        None if nobody => Vec::new(),
        None => cx.server.clients.all(),
    };
    let mut text = String::new();
    for client in clients {
        text.push_str(&line(cx, &client));
        text.push('\n');
    }
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Kinds of connection that LIST and KILL tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    Master,
    Replica,
    PubSub,
}

pub(super) fn client_type(name: &[u8]) -> Result<ClientType, Error> {
    for (text, kind) in [
        ("normal", ClientType::Normal),
        ("slave", ClientType::Replica),
        ("replica", ClientType::Replica),
        ("pubsub", ClientType::PubSub),
        ("master", ClientType::Master),
    ] {
        if name.eq_ignore_ascii_case(text.as_bytes()) {
            return Ok(kind);
        }
    }
    Err(Error::owned(format!(
        "ERR Unknown client type '{}'",
        String::from_utf8_lossy(name)
    )))
}

static CLIENT_GETNAME: Command = Command {
    name: "GETNAME",
    since: "2.6.9",
    summary: "Answers with this connection's name.",
    arity: 2,
    flags: PLAIN,
    handler: |cx, _| {
        let name = cx.client.labels.lock().name.clone();
        if name.is_empty() {
            cx.reply.null();
        } else {
            cx.reply.bulk(&name);
        }
        Ok(())
    },
    ..BASE
}
.checked();

static CLIENT_SETNAME: Command = Command {
    name: "SETNAME",
    since: "2.6.9",
    summary: "Names this connection.",
    arity: 3,
    flags: PLAIN,
    args: &[Arg::new("connection-name", ArgKind::String)],
    handler: |cx, args| {
        check_label(&args[2], "Client names")?;
        cx.client.labels.lock().name = args[2].to_vec();
        cx.reply.ok();
        Ok(())
    },
    ..BASE
}
.checked();

/// Names and library texts are printable and without spaces, so that CLIENT LIST can be parsed.
pub(super) fn check_label(label: &[u8], what: &str) -> Outcome {
    if label.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(())
    } else {
        Err(Error::owned(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        )))
    }
}

static CLIENT_SETINFO: Command = Command {
    name: "SETINFO",
    since: "7.2.0",
    summary: "Tells which client library this connection uses.",
    arity: 4,
    flags: PLAIN,
    args: &[Arg::one_of(
        "attr",
        &[
            Arg::new("libname", ArgKind::String).token("LIB-NAME"),
            Arg::new("libver", ArgKind::String).token("LIB-VER"),
        ],
    )],
    handler: client_setinfo,
    ..BASE
}
.checked();

fn client_setinfo(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let name = String::from_utf8_lossy(&args[2]).into_owned();
    let mut labels = cx.client.labels.lock();
    if args[2].eq_ignore_ascii_case(b"lib-name") {
        check_label(&args[3], &name)?;
        labels.lib_name = args[3].to_vec();
    } else if args[2].eq_ignore_ascii_case(b"lib-ver") {
        check_label(&args[3], &name)?;
        labels.lib_ver = args[3].to_vec();
    } else {
        return Err(Error::owned(format!("ERR Unrecognized option '{name}'")));
    }
    drop(labels);
    cx.reply.ok();
    Ok(())
}

static CLIENT_REPLY: Command = Command {
    name: "REPLY",
    since: "3.2.0",
    summary: "Turns replies of this connection off and on.",
    arity: 3,
    flags: PLAIN,
    args: &[Arg::one_of(
        "on_off_skip",
        &[
            Arg::word("on", "ON"),
            Arg::word("off", "OFF"),
            Arg::word("skip", "SKIP"),
        ],
    )],
    handler: client_reply,
    ..BASE
}
.checked();

fn client_reply(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mode = &args[2];
    if mode.eq_ignore_ascii_case(b"ON") {
        cx.session.reply_mode = ReplyMode::On;
        cx.reply.ok();
    } else if mode.eq_ignore_ascii_case(b"OFF") {
        cx.session.reply_mode = ReplyMode::Off;
    } else if mode.eq_ignore_ascii_case(b"SKIP") {
        if cx.session.reply_mode != ReplyMode::Off {
            cx.session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(Error::Syntax);
    }
    Ok(())
}

const ON_OFF: &[Arg] = &[Arg::one_of(
    "enabled",
    &[Arg::word("on", "ON"), Arg::word("off", "OFF")],
)];

fn on_off(text: &[u8]) -> Result<bool, Error> {
    match () {
        () if text.eq_ignore_ascii_case(b"ON") => Ok(true),
        () if text.eq_ignore_ascii_case(b"OFF") => Ok(false),
        () => Err(Error::Syntax),
    }
}

static CLIENT_NO_EVICT: Command = Command {
    name: "NO-EVICT",
    since: "7.0.0",
    summary: "Protects this connection from being closed for memory.",
    arity: 3,
    flags: ADMIN,
    args: ON_OFF,
    handler: |cx, args| {
        cx.client.no_evict.store(on_off(&args[2])?, Relaxed);
        cx.reply.ok();
        Ok(())
    },
    ..BASE
}
.checked();

static CLIENT_NO_TOUCH: Command = Command {
    name: "NO-TOUCH",
    since: "7.2.0",
    summary: "Keeps this connection's commands from marking keys as used.",
    arity: 3,
    flags: PLAIN,
    args: ON_OFF,
    handler: |cx, args| {
        cx.client.no_touch.store(on_off(&args[2])?, Relaxed);
        cx.reply.ok();
        Ok(())
    },
    ..BASE
}
.checked();
