//! SELECT, RESET.

use crate::keys::database;
use engine::session::ReplyMode;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Flags, Group, Outcome};
use resp::Version;

pub(super) static SELECT: Command = Command {
    name: "SELECT",
    group: Group::Connection,
    since: "1.0.0",
    summary: "Chooses the database that this connection's commands use.",
    arity: 2,
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    categories: Categories::CONNECTION,
    args: &[Arg::new("index", ArgKind::Integer)],
    handler: select,
    ..Command::BASE
}
.checked();

fn select(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    cx.session.db = database(&args[1], cx.server.databases)?;
    cx.reply.ok();
    Ok(())
}

pub(super) static RESET: Command = Command {
    name: "RESET",
    group: Group::Connection,
    since: "6.2.0",
    summary: "Brings the connection back to the state it began in.",
    arity: 1,
    flags: Flags::NO_SCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY),
    categories: Categories::CONNECTION,
    handler: reset,
    ..Command::BASE
}
.checked();

fn reset(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.session.db = 0;
    cx.session.version = Version::Resp2;
    cx.session.reply_mode = ReplyMode::On;
    cx.session.authenticated = cx.server.config.requirepass().is_empty();
    cx.client.labels.lock().name.clear();
    cx.client
        .no_evict
        .store(false, std::sync::atomic::Ordering::Relaxed);
    cx.client
        .no_touch
        .store(false, std::sync::atomic::Ordering::Relaxed);
    cx.reply.set_version(Version::Resp2);
    cx.reply.simple("RESET");
    Ok(())
}
