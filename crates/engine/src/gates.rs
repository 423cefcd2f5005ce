//! What stands between a parsed command and its execution, in this order. A refusal counts as a
//! rejected call.

use crate::command::{Args, Flags};
use crate::error::Error;
use crate::registry::CommandId;
use crate::server::Server;
use crate::session::Session;
use std::fmt::Write as _;

/// Bytes of arguments quoted by the unknown-command error.
const QUOTED_BYTES_MAX: usize = 128;

/// Resolves the command and checks everything that does not need its keys.
///
/// # Errors
/// The reply, and the command if it is known (its rejected calls are counted).
#[inline]
pub(crate) fn admit(
    server: &Server,
    session: &Session,
    name: Option<CommandId>,
    args: Args<'_>,
) -> Result<CommandId, (Error, Option<CommandId>)> {
    let id = exists(server, name, args)?;
    let entry = server.registry.entry(id);
    let refuse = |error| Err((error, Some(id)));
    if !entry.command.arity_allows(args.len()) {
        return refuse(Error::Arity(entry.full_name.clone().into()));
    }
    if !session.authenticated && !entry.command.flags.has(Flags::NO_AUTH) {
        return refuse(Error::NoAuth);
    }
    if entry.debug && !server.debug_enabled(session) {
        return refuse(debug_refused());
    }
    Ok(id)
}

#[inline]
fn exists(
    server: &Server,
    name: Option<CommandId>,
    args: Args<'_>,
) -> Result<CommandId, (Error, Option<CommandId>)> {
    let Some(id) = name else {
        return Err((unknown(args), None));
    };
    let entry = server.registry.entry(id);
    if entry.children.is_empty() || args.len() < 2 {
        return Ok(id);
    }
    server.registry.find_child(id, &args[1]).ok_or_else(|| {
        let given = crate::error::quoted(&args[1], QUOTED_BYTES_MAX);
        (Error::UnknownSubcommand(entry.command.name, given), None)
    })
}

fn unknown(args: Args<'_>) -> Error {
    let short = crate::error::quoted;
    let mut text = format!(
        "'{}', with args beginning with: ",
        short(&args[0], QUOTED_BYTES_MAX)
    );
    let mut quoted = 0;
    for arg in args.skip(1).iter() {
        if quoted >= QUOTED_BYTES_MAX {
            break;
        }
        let part = short(arg, QUOTED_BYTES_MAX - quoted);
        quoted += part.len() + 3;
        let _ = write!(text, "'{part}' ");
    }
    Error::UnknownCommand(text.replace(['\r', '\n'], " "))
}

/// DEBUG is for the operator only: `enable-debug-command`.
fn debug_refused() -> Error {
    Error::text(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
         run it from a local connection, otherwise you need to set this option in the configuration \
         file, and then restart the server.",
    )
}
