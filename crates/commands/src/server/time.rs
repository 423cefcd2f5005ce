//! TIME.

use engine::{Args, Categories, Command, Cx, Flags, Group, Outcome};

pub(super) static TIME: Command = Command {
    name: "TIME",
    group: Group::Server,
    since: "2.6.0",
    summary: "Answers with the server's clock: Unix seconds, and microseconds within the second.",
    arity: 1,
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    categories: Categories::NONE,
    tips: &["nondeterministic_output"],
    handler: time,
    ..Command::BASE
}
.checked();

fn time(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    let now_us = cx.server.clock().now_us();
    cx.reply.array(2);
    cx.reply.bulk((now_us / 1_000_000).to_string().as_bytes());
    cx.reply.bulk((now_us % 1_000_000).to_string().as_bytes());
    Ok(())
}
