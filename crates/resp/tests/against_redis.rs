//! Requests, right and wrong, compared with a real redis-server.

#[path = "../../base/tests/reference/mod.rs"]
mod reference;

use env::random::Rng;
use reference::{Reference, command, split};
use resp::{Limits, Parsed, Progress, inline, parse_command};

/// The error our parser ends with, as a reply; `None` if it would go on.
fn our_error(input: &[u8], authenticated: bool) -> Option<String> {
    let limits = Limits {
        bulk_bytes_max: 512 << 20,
        authenticated,
    };
    let mut progress = Progress::default();
    let mut args = Vec::new();
    let mut at = 0;
    loop {
        args.clear();
        match parse_command(input, at, &limits, &mut progress, &mut args) {
            Ok(Parsed::Complete { end } | Parsed::Empty { end }) => at = end,
            Ok(Parsed::Quoted { end }) => {
                if inline::split(&input[at..end]).is_none() {
                    return Some("-ERR Protocol error: unbalanced quotes in request".to_owned());
                }
                at = end;
            }
            Ok(Parsed::Incomplete { .. }) => return None,
            // Replies are lines: so says whoever writes them.
            Err(error) => return Some(format!("-ERR {error}").replace(['\r', '\n'], " ")),
        }
    }
}

fn their_error(reply: &[u8]) -> Option<String> {
    let reply = String::from_utf8_lossy(reply);
    let at = reply.find("-ERR Protocol error")?;
    Some(reply[at..].trim_end().to_owned())
}

fn check(reference: &Reference, input: &[u8], authenticated: bool) {
    assert_eq!(
        our_error(input, authenticated),
        their_error(&reference.ask(input)),
        "{:?}",
        String::from_utf8_lossy(&input[..input.len().min(300)])
    );
}

#[test]
fn malformed_requests_are_refused_alike() {
    let reference = Reference::start("malformed", &[]);
    let long = "1".repeat(70_000);
    let limit = |prefix: &str, size: usize| format!("{prefix}{}", "1".repeat(size - prefix.len()));
    let mut table: Vec<String> = [
        "*x\r\n",
        "*1048576\r\n",
        "*1048577\r\n",
        "*2147483648\r\n",
        "*+1\r\n",
        "*01\r\n",
        "*-2\r\n",
        "*\r\n",
        "* 1\r\n",
        "*1 \r\n",
        "*-0\r\n",
        "*1\r\n#",
        "*1\r\n\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$x\r\n",
        "*1\r\n$\r\n",
        "*1\r\n$536870912\r\n",
        "*1\r\n$536870913\r\n",
        "*1\r\n$+1\r\na\r\n",
        "*1\r\n$01\r\na\r\n",
        "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
        "*1\rx$4\rxPING\r\n",
        "*0\r\n*-1\r\n\r\n\n*x\r\n",
        "*1\r\n$99999999999999999999\r\n",
        "PING\n*q\r\n",
        "ping 'a\r\n",
        "ping \"a\\\"\r\n",
        "ping \"a\"b\r\n",
        "ping 'a'b\r\n",
        "ping 'a\0'\r\n",
        "ping a\0'b\r\n",
        "ping \"a\"\0b\r\n",
        "ping a\"b c\"\r\n",
        "ping \"\\x4\"\r\n",
        "p\0ing\n*x\r\n",
        "*\x001\r\n*x\r\n",
        "*2\r\n$4\r\nECHO\r\n:1\r\n",
    ]
    .map(str::to_owned)
    .into();
    for prefix in ["*", "*1\r\n$", ""] {
        table.push(format!("{prefix}{long}"));
        for size in 65_535..65_539 {
            let head = prefix.len() - prefix.trim_start_matches("*1\r\n").len();
            table.push(limit(prefix, size + head));
        }
    }
    for input in table {
        check(&reference, input.as_bytes(), true);
    }
}

#[test]
fn strangers_are_limited_alike() {
    let reference = Reference::start("strangers", &["--requirepass", "secret"]);
    for input in [
        "*10\r\n",
        "*11\r\n",
        "*-1\r\n*11\r\n",
        "*1\r\n$16384\r\n",
        "*1\r\n$16385\r\n",
        "*1048577\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$4\r\nPING\r\n*11\r\n",
    ] {
        check(&reference, input.as_bytes(), false);
    }
}

#[test]
fn damaged_streams_are_refused_alike() {
    let reference = Reference::start("damaged", &[]);
    let mut rng = Rng::seeded(5);
    let stream = b"*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n*1\r\n$4\r\nPING\r\nECHO 'x y'\r\n*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$0\r\n\r\n";
    let replacements = b"*$\r\n0129-+x' \"\\";
    for _ in 0..2_000 {
        let mut input = stream.to_vec();
        for _ in 0..=rng.below(3) {
            let at = rng.below(input.len() as u64) as usize;
            match rng.below(3) {
                0 => drop(input.remove(at)),
                1 => input[at] = replacements[rng.below(replacements.len() as u64) as usize],
                _ => input.insert(
                    at,
                    replacements[rng.below(replacements.len() as u64) as usize],
                ),
            }
        }
        check(&reference, &input, true);
    }
}

#[test]
fn inline_words_are_split_alike() {
    let reference = Reference::start("inline", &[]);
    let mut rng = Rng::seeded(6);
    let alphabet = b"abxn\\\\''\"\"  \t\r\x0b\x0c\x0041f\xff";
    for _ in 0..3_000 {
        let mut line = b"rpush k w ".to_vec();
        for _ in 0..rng.below(12) {
            line.push(alphabet[rng.below(alphabet.len() as u64) as usize]);
        }
        line.push(b'\n');
        let limits = Limits {
            bulk_bytes_max: 512 << 20,
            authenticated: true,
        };
        let mut args = Vec::new();
        let parsed = parse_command(&line, 0, &limits, &mut Progress::default(), &mut args);
        let ours = match parsed.unwrap() {
            Parsed::Quoted { .. } => inline::split(&line),
            Parsed::Complete { .. } => {
                Some(args.iter().map(|arg| line[arg.range()].to_vec()).collect())
            }
            // A zero byte: the line never ends, for them neither.
            Parsed::Incomplete { .. } => {
                assert!(line.contains(&0));
                continue;
            }
            Parsed::Empty { .. } => panic!("there are words"),
        };
        let mut request = command(&[b"DEL", b"k"]);
        request.extend_from_slice(&line);
        request.extend(command(&[b"LRANGE", b"k", b"0", b"-1"]));
        let reply = reference.ask(&request);
        let theirs = match their_error(&reply) {
            Some(_) => None,
            None => Some(
                split(&reply)[3..]
                    .iter()
                    .flatten()
                    .cloned()
                    .collect::<Vec<_>>(),
            ),
        };
        let ours = ours.map(|words: Vec<Vec<u8>>| words[2..].to_vec());
        assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(&line));
    }
}
