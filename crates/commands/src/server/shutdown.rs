//! SHUTDOWN.

use engine::server::ShutdownOptions;
use engine::{Arg, Args, Command, Cx, Error, Flags, Group, Outcome};

pub(super) static SHUTDOWN: Command = Command {
    name: "SHUTDOWN",
    group: Group::Server,
    since: "1.0.0",
    summary: "Stops the server.",
    complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    arity: -1,
    flags: Flags::ADMIN
        .or(Flags::NO_SCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::NO_MULTI)
        .or(Flags::ALLOW_BUSY),
    history: &[("7.0.0", "NOW, FORCE and ABORT.")],
    args: &[
        Arg::one_of("nosave_save", &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")])
            .optional(),
        Arg::word("now", "NOW").optional().since("7.0.0"),
        Arg::word("force", "FORCE").optional().since("7.0.0"),
        Arg::word("abort", "ABORT").optional().since("7.0.0"),
    ],
    handler: shutdown,
    ..Command::BASE
}
.checked();

fn shutdown(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut options = ShutdownOptions::default();
    let mut abort = false;
    for word in args.skip(1).iter() {
        match word.to_ascii_uppercase().as_slice() {
            b"NOSAVE" => options.nosave = true,
            b"SAVE" => options.save = true,
            b"NOW" => options.now = true,
            b"FORCE" => options.force = true,
            b"ABORT" => abort = true,
            _ => return Err(Error::Syntax),
        }
    }
    let any = options != ShutdownOptions::default();
    if (abort && any) || (options.nosave && options.save) {
        return Err(Error::Syntax);
    }
    if abort {
        if !cx.server.host().abort_shutdown() {
            return Err(Error::text("ERR No shutdown in progress."));
        }
        cx.reply.ok();
        return Ok(());
    }
    if options.save {
        return Err(Error::text(
            "ERR SHUTDOWN SAVE needs persistence, which this version does not have",
        ));
    }
    // No reply: the connection closes when the server ends.
    cx.server.host().shutdown(options);
    Ok(())
}
