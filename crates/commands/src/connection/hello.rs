//! HELLO: protocol version, authentication and name in one.

use super::auth::authenticate;
use super::client::check_label;
use base::number::parse_i64;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, Outcome};
use resp::Version;

pub(super) static HELLO: Command = Command {
    name: "HELLO",
    group: Group::Connection,
    since: "6.0.0",
    summary: "Agrees on the protocol version, and optionally authenticates and names the connection.",
    arity: -1,
    flags: Flags::NO_SCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY)
        .or(Flags::SKIP_SLOWLOG),
    categories: Categories::CONNECTION,
    history: &[("6.2.0", "The version may be left out.")],
    args: &[Arg::block(
        "arguments",
        &[
            Arg::new("protover", ArgKind::Integer),
            Arg::block(
                "username_password",
                &[
                    Arg::new("username", ArgKind::String),
                    Arg::new("password", ArgKind::String),
                ],
            )
            .token("AUTH")
            .optional(),
            Arg::new("clientname", ArgKind::String).token("SETNAME").optional(),
        ],
    )
    .optional()],
    handler: hello,
    ..Command::BASE
}
.checked();

fn hello(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut version = None;
    let mut at = 1;
    if let Some(given) = args.get(1) {
        let number = parse_i64(given).ok_or(Error::text(
            "ERR Protocol version is not an integer or out of range",
        ))?;
        version = Some(match number {
            2 => Version::Resp2,
            3 => Version::Resp3,
            _ => return Err(Error::text("NOPROTO unsupported protocol version")),
        });
        at = 2;
    }
    let mut credentials = None;
    let mut name = None;
    while let Some(option) = args.get(at) {
        let more = args.len() - 1 - at;
        if option.eq_ignore_ascii_case(b"AUTH") && more >= 2 {
            credentials = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && more >= 1 {
            name = Some(args.at(at + 1));
            check_label(args.at(at + 1), "Client names")?;
            at += 2;
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(Error::owned(format!(
                "ERR Syntax error in HELLO option '{option}'"
            )));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(cx, user, password)?;
    }
    if !cx.session.authenticated {
        return Err(Error::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        cx.client.labels.lock().name = name.to_vec();
    }
    if let Some(version) = version {
        cx.session.version = version;
        cx.reply.set_version(version);
    }
    greeting(cx);
    Ok(())
}

fn greeting(cx: &mut Cx<'_>) {
    let version = cx.session.version.number();
    let id = cx.session.id as i64;
    let reply = &mut cx.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(crate::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(i64::from(version));
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}
