//! CLIENT KILL, old form (an address) and new form (filters).

use super::client::{ClientType, client_type};
use base::number::parse_i64;
use engine::clients::Client;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Error, Flags, Group, Outcome};

pub(super) static CLIENT_KILL: Command = Command {
    name: "KILL",
    group: Group::Connection,
    since: "2.4.0",
    summary: "Closes connections.",
    complexity: "O(N) where N is the number of client connections",
    arity: -3,
    flags: Flags::ADMIN
        .or(Flags::NO_SCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE),
    categories: Categories::CONNECTION,
    history: &[
        ("2.8.12", "Filters."),
        ("3.2.0", "TYPE master."),
        ("5.0.0", "TYPE replica."),
        ("6.2.0", "LADDR."),
        ("7.4.0", "MAXAGE."),
    ],
    args: &[Arg::one_of(
        "filter",
        &[
            Arg::new("ip:port", ArgKind::String),
            Arg::one_of(
                "new-format",
                &[
                    Arg::new("client-id", ArgKind::Integer)
                        .token("ID")
                        .optional()
                        .since("2.8.12"),
                    Arg::one_of(
                        "client-type",
                        &[
                            Arg::word("normal", "NORMAL"),
                            Arg::word("master", "MASTER").since("3.2.0"),
                            Arg::word("slave", "SLAVE"),
                            Arg::word("replica", "REPLICA").since("5.0.0"),
                            Arg::word("pubsub", "PUBSUB"),
                        ],
                    )
                    .token("TYPE")
                    .optional()
                    .since("2.8.12"),
                    Arg::new("username", ArgKind::String)
                        .token("USER")
                        .optional(),
                    Arg::new("ip:port", ArgKind::String)
                        .token("ADDR")
                        .optional(),
                    Arg::new("ip:port", ArgKind::String)
                        .token("LADDR")
                        .optional()
                        .since("6.2.0"),
                    Arg::one_of("skipme", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])
                        .token("SKIPME")
                        .optional(),
                    Arg::new("maxage", ArgKind::Integer)
                        .token("MAXAGE")
                        .optional()
                        .since("7.4.0"),
                ],
            )
            .multiple(),
        ],
    )],
    handler: client_kill,
    ..Command::BASE
}
.checked();

/// Whom to close; all conditions must hold.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<ClientType>,
    user: Option<&'a [u8]>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    max_age_s: Option<i64>,
}

impl Filter<'_> {
    fn matches(&self, client: &Client, now_ms: i64) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == ClientType::Normal)
            && self.user.is_none_or(|user| user == b"default")
            && self.addr.is_none_or(|addr| addr == client.addr.as_bytes())
            && self
                .laddr
                .is_none_or(|addr| addr == client.laddr.as_bytes())
            && self
                .max_age_s
                .is_none_or(|age| (now_ms - client.created_ms) / 1000 >= age)
    }
}

fn client_kill(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 3 {
        let filter = Filter {
            addr: Some(args.at(2)),
            ..Filter::default()
        };
        return if kill(cx, &filter, false) == 0 {
            Err(Error::text("ERR No such client"))
        } else {
            cx.reply.ok();
            Ok(())
        };
    }
    let (filter, skip_me) = parse(args)?;
    let killed = kill(cx, &filter, skip_me);
    cx.reply.integer(killed);
    Ok(())
}

fn parse(args: Args<'_>) -> Result<(Filter<'_>, bool), Error> {
    let mut filter = Filter::default();
    let mut skip_me = true;
    let mut at = 2;
    while at < args.len() {
        let value = args.get(at + 1).ok_or(Error::Syntax)?;
        let option = args[at].to_ascii_uppercase();
        match option.as_slice() {
            b"ID" => {
                let number = parse_i64(value)
                    .ok_or(Error::text("ERR client-id should be greater than 0"))?;
                if number < 1 {
                    return Err(Error::text("ERR client-id should be greater than 0"));
                }
                filter.id = Some(number as u64);
            }
            b"TYPE" => filter.kind = Some(client_type(value)?),
            b"ADDR" => filter.addr = Some(value),
            b"LADDR" => filter.laddr = Some(value),
            b"USER" => {
                if value != b"default" {
                    let user = String::from_utf8_lossy(value);
                    return Err(Error::owned(format!("ERR No such user '{user}'")));
                }
                filter.user = Some(value);
            }
            b"SKIPME" if value.eq_ignore_ascii_case(b"yes") => skip_me = true,
            b"SKIPME" if value.eq_ignore_ascii_case(b"no") => skip_me = false,
            b"MAXAGE" => {
                let age = parse_i64(value)
                    .ok_or(Error::text("ERR maxage is not an integer or out of range"))?;
                if age < 1 {
                    return Err(Error::text("ERR maxage should be greater than 0"));
                }
                filter.max_age_s = Some(age);
            }
            _ => return Err(Error::Syntax),
        }
        at += 2;
    }
    Ok((filter, skip_me))
}

/// Closes everybody who matches; this connection itself only after its reply.
fn kill(cx: &mut Cx<'_>, filter: &Filter<'_>, skip_me: bool) -> i64 {
    let mut killed = 0;
    for client in cx.server.clients.all() {
        if !filter.matches(&client, cx.now_ms) {
            continue;
        }
        if client.id == cx.session.id {
            if skip_me {
                continue;
            }
            cx.session.close_after_reply = true;
        } else {
            cx.server.kill(&client);
        }
        killed += 1;
    }
    killed
}
