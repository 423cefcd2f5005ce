//! Commands as precomputed bytes with holes.
//!
//! What it never knows: sockets, time.
//!
//! ```text
//! SET {key} {value}   ->  *3 $3 SET $14 key:__________ $100 ______...
//!                                       ^ hole: decimal    ^ hole: bytes of the data pool
//! ```
//! A request is one copy of these bytes and one small write per hole, because key width and value
//! size are fixed for a run.

use crate::random::{KeyStream, Random};
use crate::resp::encode_command;

/// Digits of a `{number}` hole.
const NUMBER_WIDTH: usize = 10;
/// Where values are cut from; small enough to stay in the client's second-level cache.
const POOL_BYTES: usize = 128 * 1024;

/// What stands for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Data {
    /// Letters and digits.
    Ascii,
    /// All byte values.
    Random,
}

/// The shape of keys and values.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) key_prefix: String,
    /// Decimal digits after the prefix.
    pub(crate) key_width: usize,
    pub(crate) value_bytes: usize,
    pub(crate) data: Data,
    /// `{number}` is uniform below this.
    pub(crate) number_range: u64,
}

/// A command with holes.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The first word, for the report.
    pub(crate) name: String,
    bytes: Vec<u8>,
    holes: Vec<Hole>,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    at: usize,
    fill: Fill,
}

#[derive(Debug, Clone, Copy)]
enum Fill {
    Key { width: usize },
    Number,
    Value { bytes: usize },
}

impl Template {
    /// Compiles a command line: words separated by blanks, double quotes around a word with
    /// blanks, and `{key}`, `{value}`, `{number}` anywhere in a word. A word that ends in `*N`
    /// after a closing brace (`{key}*10`) is repeated N times, for MGET and its like; a pair is
    /// repeated by `({key} {value})*10`.
    pub(crate) fn compile(line: &str, shape: &Shape) -> Result<Self, String> {
        let words = split(line)?;
        let words = expand(&words)?;
        let Some(name) = words.first() else {
            return Err("an empty command".to_owned());
        };
        let name = name.to_ascii_uppercase();
        let mut arguments = Vec::new();
        let mut fills = Vec::new();
        for word in &words {
            let (bytes, holes) = argument(word, shape);
            arguments.push(bytes);
            fills.push(holes);
        }
        let slices: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::new();
        encode_command(&slices, &mut bytes);
        let mut holes = Vec::new();
        let mut at = format!("*{}\r\n", slices.len()).len();
        for (argument, fills) in arguments.iter().zip(fills) {
            at += format!("${}\r\n", argument.len()).len();
            holes.extend(fills.into_iter().map(|(offset, fill)| Hole {
                at: at + offset,
                fill,
            }));
            at += argument.len() + 2;
        }
        assert_eq!(at, bytes.len());
        Ok(Self { name, bytes, holes })
    }

    /// Appends one request.
    #[inline]
    pub(crate) fn write(&self, filler: &mut Filler<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let request = &mut out[start..];
        for hole in &self.holes {
            match hole.fill {
                Fill::Key { width } => {
                    write_decimal(filler.keys.next(), &mut request[hole.at..hole.at + width]);
                }
                Fill::Number => write_decimal(
                    filler.random.below(filler.number_range),
                    &mut request[hole.at..hole.at + NUMBER_WIDTH],
                ),
                Fill::Value { bytes } => {
                    request[hole.at..hole.at + bytes].copy_from_slice(filler.value(bytes));
                }
            }
        }
    }
}

/// What the holes of one connection are filled from.
#[derive(Debug)]
pub(crate) struct Filler<'a> {
    pub(crate) keys: &'a mut KeyStream,
    pub(crate) random: &'a mut Random,
    pub(crate) pool: &'a [u8],
    pub(crate) number_range: u64,
}

impl Filler<'_> {
    #[inline]
    fn value(&mut self, bytes: usize) -> &[u8] {
        let start = self.random.below((self.pool.len() - bytes + 1) as u64) as usize;
        &self.pool[start..start + bytes]
    }
}

/// Bytes that values of `shape` are cut from, each time at another place.
pub(crate) fn value_pool(shape: &Shape, seed: u64) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut random = Random::new(seed, u64::MAX);
    (0..POOL_BYTES + shape.value_bytes)
        .map(|_| match shape.data {
            Data::Random => random.next() as u8,
            Data::Ascii => LETTERS[random.below(64) as usize],
        })
        .collect()
}

/// Writes `value` right-aligned with leading zeros; digits that do not fit are dropped on the left.
#[inline]
fn write_decimal(mut value: u64, field: &mut [u8]) {
    for byte in field.iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn argument(word: &str, shape: &Shape) -> (Vec<u8>, Vec<(usize, Fill)>) {
    let mut bytes = Vec::new();
    let mut fills = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("{key}") {
            bytes.extend_from_slice(shape.key_prefix.as_bytes());
            fills.push((
                bytes.len(),
                Fill::Key {
                    width: shape.key_width,
                },
            ));
            bytes.resize(bytes.len() + shape.key_width, b'0');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{value}") {
            fills.push((
                bytes.len(),
                Fill::Value {
                    bytes: shape.value_bytes,
                },
            ));
            bytes.resize(bytes.len() + shape.value_bytes, b'x');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{number}") {
            fills.push((bytes.len(), Fill::Number));
            bytes.resize(bytes.len() + NUMBER_WIDTH, b'0');
            rest = after;
        } else {
            let brace = rest.bytes().skip(1).position(|byte| byte == b'{');
            let end = brace.map_or(rest.len(), |at| at + 1);
            bytes.extend_from_slice(&rest.as_bytes()[..end]);
            rest = &rest[end..];
        }
    }
    (bytes, fills)
}

/// Splits at blanks outside double quotes; a group in parentheses stays one word.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let (mut quoted, mut grouped) = (false, false);
    for character in line.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' | '\t' if !quoted && !grouped => words.extend(word.take()),
            _ => {
                grouped = !quoted && (character == '(' || (grouped && character != ')'));
                word.get_or_insert_default().push(character);
            }
        }
    }
    if quoted || grouped {
        return Err(format!("unbalanced quote or parenthesis in {line:?}"));
    }
    words.extend(word);
    Ok(words)
}

fn expand(words: &[String]) -> Result<Vec<String>, String> {
    let mut expanded = Vec::new();
    for word in words {
        match word.rsplit_once('*') {
            Some((body, times)) if body.ends_with(['}', ')']) => {
                let times: usize = times
                    .parse()
                    .map_err(|_| format!("bad repetition in {word:?}"))?;
                let inner = body
                    .strip_prefix('(')
                    .and_then(|body| body.strip_suffix(')'));
                let parts = split(inner.unwrap_or(body))?;
                for _ in 0..times {
                    expanded.extend(parts.iter().cloned());
                }
            }
            _ => expanded.push(word.clone()),
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Distribution;

    fn shape() -> Shape {
        Shape {
            key_prefix: "key:".to_owned(),
            key_width: 10,
            value_bytes: 5,
            data: Data::Ascii,
            number_range: 1,
        }
    }

    fn request(line: &str) -> Vec<u8> {
        let shape = shape();
        let template = Template::compile(line, &shape).unwrap();
        let mut keys = KeyStream::new(Distribution::Sequential, 100, 0, 0, (0, 1));
        let mut random = Random::new(0, 0);
        let pool = vec![b'v'; 64];
        let mut filler = Filler {
            keys: &mut keys,
            random: &mut random,
            pool: &pool,
            number_range: 1,
        };
        let mut out = Vec::new();
        template.write(&mut filler, &mut out);
        out
    }

    #[test]
    fn holes_are_filled() {
        assert_eq!(
            request("SET {key} {value}"),
            b"*3\r\n$3\r\nSET\r\n$14\r\nkey:0000000000\r\n$5\r\nvvvvv\r\n"
        );
        assert_eq!(
            request("zadd z {number} m-{key}-x"),
            b"*4\r\n$4\r\nzadd\r\n$1\r\nz\r\n$10\r\n0000000000\r\n$18\r\nm-key:0000000000-x\r\n"
        );
    }

    #[test]
    fn repetition_and_quotes() {
        assert_eq!(
            request("MGET {key}*2"),
            b"*3\r\n$4\r\nMGET\r\n$14\r\nkey:0000000000\r\n$14\r\nkey:0000000001\r\n"
        );
        let pairs = request("MSET ({key} {value})*2");
        assert!(pairs.starts_with(b"*5\r\n"));
        assert_eq!(
            request("EVAL \"return 1\" 0"),
            b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n"
        );
        assert_eq!(
            request("GET {é}"),
            "*2\r\n$3\r\nGET\r\n$4\r\n{é}\r\n".as_bytes()
        );
    }

    #[test]
    fn bad_lines_are_refused() {
        for line in ["", "  ", "GET \"x", "MGET {key}*x", "MSET ({key}"] {
            assert!(Template::compile(line, &shape()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn pool_follows_the_kind_of_data() {
        let mut shape = shape();
        assert!(value_pool(&shape, 1).is_ascii());
        shape.data = Data::Random;
        assert!(!value_pool(&shape, 1).is_ascii());
    }
}
