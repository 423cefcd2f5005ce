//! AUTH, and the check of a password that HELLO shares.

use engine::stats::bump;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, Outcome};

pub(super) static AUTH: Command = Command {
    name: "AUTH",
    group: Group::Connection,
    since: "1.0.0",
    summary: "Tells the server who this connection is.",
    complexity: "O(N) where N is the number of passwords defined for the user",
    arity: -2,
    flags: Flags::NO_SCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY)
        .or(Flags::SKIP_SLOWLOG),
    categories: Categories::CONNECTION,
    history: &[("6.0.0", "Takes a user name as well.")],
    args: &[
        Arg::new("username", ArgKind::String)
            .optional()
            .since("6.0.0"),
        Arg::new("password", ArgKind::String),
    ],
    handler: auth,
    ..Command::BASE
}
.checked();

fn auth(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let (user, password) = match args.len() {
        2 => {
            if cx.server.config.requirepass().is_empty() {
                return Err(Error::text(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?",
                ));
            }
            (&b"default"[..], &args[1])
        }
        3 => (&args[1], &args[2]),
        _ => return Err(Error::Syntax),
    };
    authenticate(cx, user, password)?;
    cx.reply.ok();
    Ok(())
}

/// Authenticates the connection as `user`; there is only the default user.
pub(super) fn authenticate(cx: &mut Cx<'_>, user: &[u8], password: &[u8]) -> Outcome {
    let expected = cx.server.config.requirepass();
    let known =
        user == b"default" && (expected.is_empty() || same_secret(expected.as_bytes(), password));
    if !known {
        bump(&cx.stats.auth_denied, 1);
        return Err(Error::WrongPass);
    }
    cx.session.authenticated = true;
    Ok(())
}

/// Compares without telling by its duration where the two differ.
fn same_secret(expected: &[u8], given: &[u8]) -> bool {
    let mut different = expected.len() ^ given.len();
    for (index, byte) in given.iter().enumerate() {
        different |= usize::from(expected[index % expected.len()] ^ byte);
    }
    different == 0
}

#[cfg(test)]
mod tests {
    use super::same_secret;

    #[test]
    fn secrets_compare_whole() {
        assert!(same_secret(b"abc", b"abc"));
        assert!(!same_secret(b"abc", b"abd"));
        assert!(!same_secret(b"abc", b"ab"));
        assert!(!same_secret(b"abc", b"abcabc"));
        assert!(!same_secret(b"abc", b""));
    }
}
