//! PING, ECHO, QUIT.

use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, Outcome};

pub(super) static PING: Command = Command {
    name: "PING",
    group: Group::Connection,
    since: "1.0.0",
    summary: "Answers PONG, or with the given message.",
    arity: -1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    args: &[Arg::new("message", ArgKind::String).optional()],
    handler: ping,
    ..Command::BASE
}
.checked();

fn ping(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    match args.len() {
        1 => cx.reply.simple("PONG"),
        2 => cx.reply.bulk(&args[1]),
        _ => return Err(Error::Arity("ping".into())),
    }
    Ok(())
}

pub(super) static ECHO: Command = Command {
    name: "ECHO",
    group: Group::Connection,
    since: "1.0.0",
    summary: "Answers with the given message.",
    arity: 2,
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    categories: Categories::CONNECTION,
    args: &[Arg::new("message", ArgKind::String)],
    handler: echo,
    ..Command::BASE
}
.checked();

fn echo(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    cx.reply.bulk(&args[1]);
    Ok(())
}

pub(super) static QUIT: Command = Command {
    name: "QUIT",
    group: Group::Connection,
    since: "1.0.0",
    summary: "Closes the connection once the replies before it are sent.",
    arity: -1,
    flags: Flags::NO_SCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY),
    categories: Categories::CONNECTION,
    deprecated: Some(("7.2.0", "just closing the connection")),
    handler: quit,
    ..Command::BASE
}
.checked();

fn quit(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.session.close_after_reply = true;
    cx.reply.ok();
    Ok(())
}
