//! DEBUG: what tests and operators need to look inside. Off unless `enable-debug-command` allows it.

use base::number::{parse_f64, parse_i64};
use engine::{Args, Command, Cx, Error, Flags, Group, KeySet, Outcome};
use std::fmt::Write as _;
use store::{Expire, Value, View};

pub(super) static DEBUG: Command = Command {
    name: "DEBUG",
    group: Group::Server,
    since: "1.0.0",
    summary: "Looks inside the server, for tests and repair.",
    complexity: "Depends on subcommand.",
    arity: -2,
    flags: Flags::ADMIN
        .or(Flags::NO_SCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE),
    key_finder: Some(keys),
    slow: Some(|_, args| {
        ["SLEEP", "POPULATE", "DIGEST"]
            .iter()
            .any(|name| is(args.at(1), name))
    }),
    handler: debug,
    ..Command::BASE
}
.checked();

/// Subcommands with what HELP says of them.
const HELP: &[(&str, &str)] = &[
    (
        "DIGEST",
        "Answers with a hex number that depends on all keys and values.",
    ),
    (
        "DIGEST-VALUE <key> [<key> ...]",
        "The same for the values of the given keys.",
    ),
    ("ERROR <string>", "Answers with this error."),
    ("HTSTATS <dbid>", "Describes the tables of a database."),
    ("LOG <message>", "Writes a line to the server's log."),
    ("OBJECT <key>", "Describes how a key is stored."),
    (
        "POPULATE <count> [<prefix>] [<size>]",
        "Creates string keys that are not there yet.",
    ),
    (
        "PROTOCOL <type>",
        "Answers with a value of this type: string, integer, double, bignum, null, array, set, map, attrib, push, verbatim, true, false.",
    ),
    (
        "SET-ACTIVE-EXPIRE <0|1>",
        "Turns the sweep for expired keys off and on.",
    ),
    ("SLEEP <seconds>", "Keeps this client waiting; nobody else."),
];

fn is(text: &[u8], name: &str) -> bool {
    text.eq_ignore_ascii_case(name.as_bytes())
}

fn keys(selected: usize, _databases: usize, args: Args<'_>, keys: &mut KeySet) -> Outcome {
    if args.len() == 3 && is(&args[1], "OBJECT") {
        keys.push(selected, 2);
    } else if args.len() > 2 && is(&args[1], "DIGEST-VALUE") {
        for at in 2..args.len() {
            keys.push(selected, at);
        }
    }
    Ok(())
}

fn debug(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let name = args[1].to_ascii_uppercase();
    match (name.as_slice(), args.len()) {
        (b"HELP", 2) => help(cx),
        (b"SLEEP", 3) => return sleep(cx, args),
        (b"OBJECT", 3) => return object(cx),
        (b"SET-ACTIVE-EXPIRE", 3) => {
            let on = parse_i64(&args[2]).unwrap_or(0) != 0;
            cx.server.store.set_sweeping(on);
            cx.reply.ok();
        }
        (b"PROTOCOL", 3) => return protocol(cx, &args[2]),
        (b"ERROR", 3) => {
            let text = String::from_utf8_lossy(&args[2]).replace(['\r', '\n'], " ");
            return Err(Error::owned(text));
        }
        (b"LOG", 3) => {
            let text = String::from_utf8_lossy(&args[2]).into_owned();
            cx.server.host().log(&format!("DEBUG LOG: {text}"));
            cx.reply.ok();
        }
        (b"POPULATE", 3..=5) => return populate(cx, args),
        (b"DIGEST", 2) => digest(cx),
        (b"DIGEST-VALUE", 3..) => return digest_values(cx, args),
        (b"HTSTATS", 3) => return htstats(cx, args),
        _ => {
            let given = String::from_utf8_lossy(&args[1])
                .chars()
                .take(128)
                .collect::<String>();
            return Err(Error::owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{given}'. Try DEBUG HELP."
            )));
        }
    }
    Ok(())
}

fn help(cx: &mut Cx<'_>) {
    cx.reply.array(3 + 2 * HELP.len());
    cx.reply
        .simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    for (grammar, text) in HELP {
        cx.reply.simple(grammar);
        cx.reply.simple(&format!("    {text}"));
    }
    cx.reply.simple("HELP");
    cx.reply.simple("    Prints this help.");
}

fn sleep(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let seconds = parse_f64(&args[2]).unwrap_or(0.0).clamp(0.0, 1e9);
    let end_ns = env::clock::monotonic_ns() + (seconds * 1e9) as u64;
    while let Some(left_ns) = end_ns
        .checked_sub(env::clock::monotonic_ns())
        .filter(|ns| *ns > 0)
    {
        env::thread::sleep_us((left_ns / 1000).clamp(1, 10_000));
        if cx.breathe() {
            break;
        }
    }
    cx.reply.ok();
    Ok(())
}

fn object(cx: &mut Cx<'_>) -> Outcome {
    let now_ms = cx.now_ms;
    let text = cx.look(0, |view| {
        Ok(view.map(|view| {
            format!(
                "Value at:0x{:x} refcount:{} encoding:{} serializedlength:{} lru:{} \
                 lru_seconds_idle:{}",
                0,
                crate::keys::references(view),
                store::Encoding::of(view).name(),
                view.len(),
                (now_ms / 1000) & 0xff_ffff,
                crate::keys::idle_s(view.access()),
            )
        }))
    })?;
    cx.reply.simple(&text.ok_or(Error::NoSuchKey)?);
    Ok(())
}

/// What DEBUG PROTOCOL DOUBLE answers.
#[expect(clippy::approx_constant, reason = "these very digits are the answer")]
const PROTOCOL_DOUBLE: f64 = 3.141;

fn protocol(cx: &mut Cx<'_>, kind: &[u8]) -> Outcome {
    let resp3 = cx.session.version == resp::Version::Resp3;
    let reply = &mut cx.reply;
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(PROTOCOL_DOUBLE),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.integer(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if resp3 {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if !resp3 {
                return Err(Error::text("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(Error::text(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn populate(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let positive = |at: usize| -> Result<Option<i64>, Error> {
        let Some(text) = args.get(at) else {
            return Ok(None);
        };
        let number = parse_i64(text).ok_or(Error::NotInteger)?;
        if number < 0 {
            return Err(Error::text("ERR value is out of range, must be positive"));
        }
        Ok(Some(number))
    };
    let count = positive(2)?.unwrap_or(0);
    let prefix = args.get(3).unwrap_or(b"key");
    let size = positive(4)?;
    let mut key = Vec::new();
    for number in 0..count {
        key.clear();
        key.extend_from_slice(prefix);
        let _ = write!(Text(&mut key), ":{number}");
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size as usize, 0);
        }
        cx.server
            .store
            .edit_now(cx.session.db, &key, cx.now_ms, |edit| {
                if edit.exists() {
                    Ok(())
                } else {
                    edit.set(Value::Bytes(&value), Expire::Clear)
                }
            })?;
        if number % 64 == 63 {
            cx.breathe();
        }
    }
    cx.reply.ok();
    Ok(())
}

struct Text<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// 160 bits that do not depend on the order in which they are mixed.
#[derive(Default, Clone, Copy)]
struct Digest([u64; 3]);

impl Digest {
    fn of(parts: &[&[u8]]) -> Digest {
        let mut all = Vec::new();
        for part in parts {
            all.extend_from_slice(&(part.len() as u64).to_le_bytes());
            all.extend_from_slice(part);
        }
        Digest(std::array::from_fn(|lane| {
            base::hash::SipKeys::new(0x5072_6f6e_6768_6f72 << 64 | lane as u128).hash(&all)
        }))
    }

    fn mix(&mut self, other: Digest) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own ^= other;
        }
    }

    fn hex(self) -> String {
        format!(
            "{:016x}{:016x}{:08x}",
            self.0[0], self.0[1], self.0[2] as u32
        )
    }
}

fn digest_of(view: &View<'_>) -> Digest {
    let mut value = Vec::new();
    view.copy_into(&mut value);
    let expires = [u8::from(view.expire_at().is_some())];
    Digest::of(&[&value, &expires])
}

fn digest(cx: &mut Cx<'_>) {
    let mut whole = Digest::default();
    for db in 0..cx.server.databases {
        let mut seen = 0_u32;
        cx.server
            .store
            .for_each_key(db, cx.now_ms, &mut |key, view| {
                let value = digest_of(view);
                whole.mix(Digest::of(&[&[db as u8], key, value.hex().as_bytes()]));
                seen += 1;
                if seen.is_multiple_of(64) {
                    cx.breathe();
                }
                true
            });
    }
    cx.reply.simple(&whole.hex());
}

fn digest_values(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let mut digests = Vec::new();
    for index in 0..args.len() - 2 {
        digests.push(cx.look(index, |view| Ok(view.map(digest_of).unwrap_or_default()))?);
    }
    cx.reply.array(digests.len());
    for digest in digests {
        cx.reply.simple(&digest.hex());
    }
    Ok(())
}

fn htstats(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let db = parse_i64(&args[2]).ok_or(Error::NotInteger)?;
    let db = usize::try_from(db)
        .ok()
        .filter(|db| *db < cx.server.databases);
    let db = db.ok_or(Error::text("ERR Out of range database"))?;
    let text = cx.server.store.describe_tables(db);
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}
