//! Requests: multibulk and inline commands out of a growing buffer, without copying.
//!
//! The parser keeps no bytes. The caller hands it the unconsumed input from the start of a command
//! each time; [`Progress`] remembers how far an incomplete command was understood, so that a large
//! one arriving in many pieces is not parsed from its beginning each time.
//!
//! Limits and error texts are those of redis-server 7.0.

use std::fmt;

/// Where one argument lies within the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgRef {
    start: u32,
    len: u32,
}

impl ArgRef {
    /// An argument of `len` bytes at `start`.
    #[inline]
    pub fn new(start: usize, len: usize) -> Self {
        debug_assert!(u32::try_from(start).is_ok() && u32::try_from(len).is_ok());
        ArgRef {
            start: start as u32,
            len: len as u32,
        }
    }

    fn moved(self, by: usize) -> Self {
        ArgRef::new(self.start as usize + by, self.len as usize)
    }

    /// The bytes it covers.
    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// What a client may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// `proto-max-bulk-len`, bytes.
    pub bulk_bytes_max: usize,
    /// Authenticated clients may send more.
    pub authenticated: bool,
}

/// Arguments of one command at most. Memory is taken only for those that arrive.
const ARGS_MAX: i64 = i32::MAX as i64;
/// The same before authentication.
const ARGS_MAX_UNAUTHENTICATED: i64 = 10;
/// Bytes of one argument before authentication.
const BULK_MAX_UNAUTHENTICATED: i64 = 16384;
/// Bytes of an inline command, or of a count, without its line end.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Memory of an incomplete command; start a new one for each command and each connection.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Arguments still to come; 0 if the command's header has not been read.
    left: u32,
    /// Bytes understood, relative to the command's start.
    offset: usize,
    /// Arguments understood, relative to the command's start.
    args: Vec<ArgRef>,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A command; the next one begins at `end`.
    Complete {
        /// Position after it.
        end: usize,
    },
    /// An empty line or an empty multibulk; nothing to do.
    Empty {
        /// Position after it.
        end: usize,
    },
    /// An inline command with quotes, whose arguments do not lie in the input as they are: see
    /// [`crate::inline::split`].
    Quoted {
        /// Position after it.
        end: usize,
    },
    /// More bytes are needed.
    Incomplete {
        /// At least so many.
        needed: usize,
    },
}

/// The client does not speak the protocol; it is told so and disconnected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError(String);

impl ProtocolError {
    /// An inline command's quotes do not match.
    pub fn unbalanced_quotes() -> Self {
        error("unbalanced quotes in request")
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

impl std::error::Error for ProtocolError {}

fn error(text: &str) -> ProtocolError {
    ProtocolError(text.to_owned())
}

/// Parses the command that begins at `start` of `input` and appends its arguments to `args`. Unless
/// it is complete, `args` is left as it was.
///
/// # Errors
/// [`ProtocolError`]; the connection cannot go on.
#[inline]
pub fn parse_command(
    input: &[u8],
    start: usize,
    limits: &Limits,
    progress: &mut Progress,
    args: &mut Vec<ArgRef>,
) -> Result<Parsed, ProtocolError> {
    if input.len() > u32::MAX as usize {
        // Positions would not fit; buffers are limited long before that unless configured away.
        return Err(error("too big request"));
    }
    if progress.offset != 0 {
        return resume(input, start, limits, progress, args);
    }
    match input.get(start) {
        None => return Ok(Parsed::Incomplete { needed: 1 }),
        Some(b'*') => {}
        Some(_) => return inline_command(input, start, args),
    }
    let Some((count, at)) = number_line(input, start + 1, "too big mbulk count string")? else {
        return Ok(Parsed::Incomplete { needed: 1 });
    };
    let count = count.filter(|count| *count <= ARGS_MAX);
    let count = count.ok_or_else(|| error("invalid multibulk length"))?;
    if count > ARGS_MAX_UNAUTHENTICATED && !limits.authenticated {
        return Err(error("unauthenticated multibulk length"));
    }
    if count <= 0 {
        return Ok(Parsed::Empty { end: at });
    }
    let first = args.len();
    let found = arguments(input, 0, at, count as u32, limits, args);
    if let Ok(Found { at, left: 0, .. }) = found {
        return Ok(Parsed::Complete { end: at });
    }
    let relative = args[first..]
        .iter()
        .map(|arg| ArgRef::new(arg.start as usize - start, arg.len as usize));
    progress.args.extend(relative);
    args.truncate(first);
    let found = found?;
    progress.offset = found.at - start;
    progress.left = found.left;
    Ok(Parsed::Incomplete {
        needed: found.needed,
    })
}

/// Goes on with a command of which a part is understood. The arguments known are not touched until
/// it is complete: a million of them, sent byte by byte, must not be copied for each byte.
#[cold]
fn resume(
    input: &[u8],
    start: usize,
    limits: &Limits,
    progress: &mut Progress,
    args: &mut Vec<ArgRef>,
) -> Result<Parsed, ProtocolError> {
    let at = start + progress.offset;
    let found = arguments(input, start, at, progress.left, limits, &mut progress.args)?;
    if found.left > 0 {
        progress.offset = found.at - start;
        progress.left = found.left;
        return Ok(Parsed::Incomplete {
            needed: found.needed,
        });
    }
    args.extend(progress.args.iter().map(|arg| arg.moved(start)));
    // The memory goes too: few commands are resumed, and an idle connection should be small.
    *progress = Progress::default();
    Ok(Parsed::Complete { end: found.at })
}

/// How far a run of arguments goes.
struct Found {
    /// Position after the last complete argument.
    at: usize,
    /// Arguments still missing.
    left: u32,
    /// Bytes missing at least, if any argument is.
    needed: usize,
}

/// Reads up to `left` arguments from `at`; their positions are noted relative to `origin`.
#[inline]
fn arguments(
    input: &[u8],
    origin: usize,
    mut at: usize,
    mut left: u32,
    limits: &Limits,
    args: &mut Vec<ArgRef>,
) -> Result<Found, ProtocolError> {
    let mut needed = 1;
    while left > 0 {
        if input.get(at) != Some(&b'$') {
            no_bulk(&input[at..])?;
            break;
        }
        let Some((len, body)) = number_line(input, at + 1, "too big bulk count string")? else {
            break;
        };
        let len = len.filter(|len| *len >= 0 && *len as u64 <= limits.bulk_bytes_max as u64);
        let len = len.ok_or_else(|| error("invalid bulk length"))?;
        if len > BULK_MAX_UNAUTHENTICATED && !limits.authenticated {
            return Err(error("unauthenticated bulk length"));
        }
        // A length is at most 2^63, so this cannot overflow.
        let end = body + len as usize + 2;
        if input.len() < end {
            needed = end - input.len();
            break;
        }
        args.push(ArgRef::new(body - origin, len as usize));
        at = end;
        left -= 1;
    }
    Ok(Found { at, left, needed })
}

/// What should be a bulk is none. It is refused as soon as its line is whole.
#[cold]
fn no_bulk(rest: &[u8]) -> Result<(), ProtocolError> {
    match find_in_line(rest, b'\r') {
        Some(end) if rest.len() >= end + 2 => {
            let found = rest[0] as char;
            Err(ProtocolError(format!("expected '$', got '{found}'")))
        }
        None if rest.len() > LINE_BYTES_MAX => Err(error("too big bulk count string")),
        _ => Ok(()),
    }
}

/// Reads a number up to CR LF. `None` if the line is not complete; the inner `None` if it is no
/// number.
#[inline]
fn number_line(
    input: &[u8],
    at: usize,
    too_long: &str,
) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
    // One to three digits are by far the most common.
    if let Some([a, b'\r', b'\n']) = input.get(at..at + 3)
        && a.is_ascii_digit()
    {
        return Ok(Some((Some(i64::from(a - b'0')), at + 3)));
    }
    if let Some([a, b, b'\r', b'\n']) = input.get(at..at + 4)
        && matches!(a, b'1'..=b'9')
        && b.is_ascii_digit()
    {
        return Ok(Some((
            Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
            at + 4,
        )));
    }
    if let Some([a, b, c, b'\r', b'\n']) = input.get(at..at + 5)
        && matches!(a, b'1'..=b'9')
        && b.is_ascii_digit()
        && c.is_ascii_digit()
    {
        let [a, b, c] = [a, b, c].map(|digit| i64::from(digit - b'0'));
        return Ok(Some((Some(a * 100 + b * 10 + c), at + 5)));
    }
    let rest = input.get(at..).unwrap_or_default();
    let Some(end) = find_in_line(rest, b'\r') else {
        // The byte before the number counts as well.
        if rest.len() + 1 > LINE_BYTES_MAX {
            return Err(error(too_long));
        }
        return Ok(None);
    };
    if rest.len() < end + 2 {
        return Ok(None);
    }
    Ok(Some((base::number::parse_i64(&rest[..end]), at + end + 2)))
}

/// Position of a line end. One behind a zero byte does not count: such a line never ends, and is
/// refused when it becomes too long.
fn find_in_line(bytes: &[u8], end: u8) -> Option<usize> {
    let at = bytes.iter().position(|byte| *byte == end || *byte == 0)?;
    (bytes[at] == end).then_some(at)
}

#[cold]
fn inline_command(
    input: &[u8],
    start: usize,
    args: &mut Vec<ArgRef>,
) -> Result<Parsed, ProtocolError> {
    let rest = &input[start..];
    let Some(newline) = find_in_line(rest, b'\n') else {
        if rest.len() > LINE_BYTES_MAX {
            return Err(error("too big inline request"));
        }
        return Ok(Parsed::Incomplete { needed: 1 });
    };
    let end = start + newline + 1;
    let line = rest[..newline]
        .strip_suffix(b"\r")
        .unwrap_or(&rest[..newline]);
    if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return Ok(Parsed::Quoted { end });
    }
    let before = args.len();
    let mut at = 0;
    loop {
        at += line[at..]
            .iter()
            .take_while(|byte| is_space(**byte))
            .count();
        if matches!(line.get(at), None | Some(0)) {
            break;
        }
        let word = line[at..]
            .iter()
            .take_while(|byte| !ends_word(**byte))
            .count();
        args.push(ArgRef::new(start + at, word));
        at += word;
    }
    if args.len() == before {
        return Ok(Parsed::Empty { end });
    }
    Ok(Parsed::Complete { end })
}

/// White space as C's `isspace` has it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// What ends a word outside quotes. Vertical tab and form feed come between words but not inside
/// them; a zero byte ends the whole line.
pub(crate) fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline;

    fn limits() -> Limits {
        Limits {
            bulk_bytes_max: 512 << 20,
            authenticated: true,
        }
    }

    /// Parses everything, fed in pieces of `piece` bytes.
    fn parse_all(input: &[u8], piece: usize) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut have, mut commands) = (Vec::new(), Vec::new());
        let mut progress = Progress::default();
        for part in input.chunks(piece) {
            have.extend_from_slice(part);
            let mut at = 0;
            loop {
                let mut args = Vec::new();
                match parse_command(&have, at, &limits(), &mut progress, &mut args)? {
                    Parsed::Complete { end } => {
                        commands.push(args.iter().map(|a| have[a.range()].to_vec()).collect());
                        at = end;
                    }
                    Parsed::Quoted { end } => {
                        let words = inline::split(&have[at..end]);
                        commands.push(words.ok_or_else(|| error("unbalanced quotes in request"))?);
                        at = end;
                    }
                    Parsed::Empty { end } => at = end,
                    Parsed::Incomplete { .. } => break,
                }
            }
            have.drain(..at);
        }
        Ok(commands)
    }

    #[test]
    fn any_split_gives_the_same_commands() {
        let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nab\r\ncdefghij\r\n*0\r\nPING\r\n\r\n*-1\r\n  GET   k \r\nset a \"b c\\x41\"\n*1\r\n$0\r\n\r\n";
        let whole = parse_all(input, input.len()).unwrap();
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[0][2], b"ab\r\ncdefghij");
        assert_eq!(whole[3], [b"set".to_vec(), b"a".to_vec(), b"b cA".to_vec()]);
        for piece in 1..input.len() {
            assert_eq!(parse_all(input, piece).unwrap(), whole, "pieces of {piece}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_commands_in_any_pieces(
            commands in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 0..200), 1..12),
                0..12,
            ),
            piece in 1usize..300,
        ) {
            let mut input = Vec::new();
            for command in &commands {
                input.extend(format!("*{}\r\n", command.len()).bytes());
                for word in command {
                    input.extend(format!("${}\r\n", word.len()).bytes());
                    input.extend_from_slice(word);
                    input.extend_from_slice(b"\r\n");
                }
            }
            proptest::prop_assert_eq!(parse_all(&input, piece).unwrap(), commands);
        }
    }

    #[test]
    fn a_million_arguments_in_small_pieces_take_linear_time() {
        let count = 1_000_000;
        let mut input = format!("*{count}\r\n").into_bytes();
        input.extend(b"$1\r\nx\r\n".repeat(count));
        let (mut progress, mut args) = (Progress::default(), Vec::new());
        let mut parsed = Parsed::Incomplete { needed: 1 };
        // Eleven is no multiple of an argument's size, so pieces end everywhere.
        for end in (0..=input.len()).step_by(11).chain([input.len()]) {
            assert!(matches!(parsed, Parsed::Incomplete { .. }));
            parsed = parse_command(&input[..end], 0, &limits(), &mut progress, &mut args).unwrap();
        }
        assert_eq!(parsed, Parsed::Complete { end: input.len() });
        assert_eq!(args.len(), count);
    }

    #[test]
    fn malformed_input_is_named() {
        for (input, text) in [
            ("*x\r\n", "invalid multibulk length"),
            ("*2147483648\r\n", "invalid multibulk length"),
            ("*1\r\n#1\r\n", "expected '$', got '#'"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$x\r\n", "invalid bulk length"),
            ("*1\r\n$536870913\r\n", "invalid bulk length"),
            ("get \"a\n", "unbalanced quotes in request"),
        ] {
            let found = parse_all(input.as_bytes(), 1).unwrap_err().to_string();
            assert_eq!(found, format!("Protocol error: {text}"));
        }
        let long = vec![b'a'; LINE_BYTES_MAX + 2];
        assert!(parse_all(&long, long.len()).is_err());
        let mut count = b"*".to_vec();
        count.extend(vec![b'1'; LINE_BYTES_MAX + 2]);
        assert!(parse_all(&count, count.len()).is_err());
    }

    #[test]
    fn strangers_may_send_little() {
        let strict = Limits {
            authenticated: false,
            ..limits()
        };
        let parse = |input: &[u8]| {
            parse_command(input, 0, &strict, &mut Progress::default(), &mut Vec::new())
        };
        let text = |input: &[u8]| parse(input).unwrap_err().to_string();
        assert_eq!(
            text(b"*11\r\n"),
            "Protocol error: unauthenticated multibulk length"
        );
        assert_eq!(
            text(b"*1\r\n$16385\r\n"),
            "Protocol error: unauthenticated bulk length"
        );
        assert!(parse(b"*10\r\n$16384\r\n").is_ok());
    }

    #[test]
    fn a_large_value_says_how_much_is_missing() {
        let mut progress = Progress::default();
        let mut args = Vec::new();
        let parsed =
            parse_command(b"*1\r\n$100\r\nab", 0, &limits(), &mut progress, &mut args).unwrap();
        assert_eq!(parsed, Parsed::Incomplete { needed: 100 });
    }
}
