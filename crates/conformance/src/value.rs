//! A reply as it stood on the wire, RESP2 or RESP3, and its reader.
//!
//! Written a second time here, apart from the server's own protocol crate, so that a bug there
//! cannot hide itself. It keeps every distinction the wire makes: a null bulk is not a null array,
//! a double keeps its text.

use std::io::{self, BufRead};

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `+text`
    Simple(Vec<u8>),
    /// `-text`, and RESP3's `!` blob errors.
    Error(Vec<u8>),
    /// `:1`
    Int(i64),
    /// `$3 abc`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*`
    Array(Vec<Value>),
    /// `~`
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `%`
    Map(Vec<(Value, Value)>),
    /// `,` with the text it carried.
    Double(Vec<u8>),
    /// `(` with its digits.
    Big(Vec<u8>),
    /// `#`
    Bool(bool),
    /// `=` with its three-letter format.
    Verbatim(Vec<u8>, Vec<u8>),
}

const DEPTH_MAX: usize = 64;

/// Reads one reply. `UnexpectedEof` means that the server closed the connection.
pub fn read(input: &mut impl BufRead) -> io::Result<Value> {
    read_nested(input, 0)
}

fn read_nested(input: &mut impl BufRead, depth: usize) -> io::Result<Value> {
    if depth > DEPTH_MAX {
        return Err(malformed("reply nested too deeply", b""));
    }
    let line = read_line(input)?;
    let Some((&kind, rest)) = line.split_first() else {
        return Err(malformed("empty reply line", &line));
    };
    Ok(match kind {
        b'+' => Value::Simple(rest.to_vec()),
        b'-' => Value::Error(rest.to_vec()),
        b':' => Value::Int(number(rest)?),
        b',' => Value::Double(rest.to_vec()),
        b'(' => Value::Big(rest.to_vec()),
        b'_' if rest.is_empty() => Value::Null,
        b'#' if rest == b"t" => Value::Bool(true),
        b'#' if rest == b"f" => Value::Bool(false),
        b'$' => match length(rest)? {
            None => Value::NullBulk,
            Some(size) => Value::Bulk(read_blob(input, size)?),
        },
        b'!' => Value::Error(read_blob(input, required_length(rest)?)?),
        b'=' => {
            let blob = read_blob(input, required_length(rest)?)?;
            if blob.len() < 4 || blob[3] != b':' {
                return Err(malformed("verbatim string without its format", &blob));
            }
            Value::Verbatim(blob[..3].to_vec(), blob[4..].to_vec())
        }
        b'*' => match length(rest)? {
            None => Value::NullArray,
            Some(count) => Value::Array(read_items(input, count, depth)?),
        },
        b'~' => Value::Set(read_items(input, required_length(rest)?, depth)?),
        b'>' => Value::Push(read_items(input, required_length(rest)?, depth)?),
        b'%' => {
            let count = required_length(rest)?;
            let mut pairs = Vec::new();
            for _ in 0..count {
                let key = read_nested(input, depth + 1)?;
                pairs.push((key, read_nested(input, depth + 1)?));
            }
            Value::Map(pairs)
        }
        _ => return Err(malformed("unknown reply type", &line)),
    })
}

fn read_items(input: &mut impl BufRead, count: usize, depth: usize) -> io::Result<Vec<Value>> {
    (0..count).map(|_| read_nested(input, depth + 1)).collect()
}

fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !line.ends_with(b"\r\n") {
        return Err(malformed("line does not end in CRLF", &line));
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

fn read_blob(input: &mut impl BufRead, size: usize) -> io::Result<Vec<u8>> {
    let mut blob = vec![0; size + 2];
    input.read_exact(&mut blob)?;
    if !blob.ends_with(b"\r\n") {
        return Err(malformed("blob does not end in CRLF", &blob[size..]));
    }
    blob.truncate(size);
    Ok(blob)
}

fn number(text: &[u8]) -> io::Result<i64> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed("not an integer", text))
}

fn length(text: &[u8]) -> io::Result<Option<usize>> {
    match number(text)? {
        -1 => Ok(None),
        n => usize::try_from(n)
            .map(Some)
            .map_err(|_| malformed("negative length", text)),
    }
}

fn required_length(text: &[u8]) -> io::Result<usize> {
    length(text)?.ok_or_else(|| malformed("null where RESP3 has no null form", text))
}

fn malformed(what: &str, bytes: &[u8]) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("malformed reply: {what}: {}", bytes.escape_ascii()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut wire: &[u8], expected: &Value) {
        assert_eq!(&read(&mut wire).unwrap(), expected);
        assert!(wire.is_empty());
    }

    #[test]
    fn reads_every_type() {
        check(b"+OK\r\n", &Value::Simple(b"OK".to_vec()));
        check(b"-ERR no\r\n", &Value::Error(b"ERR no".to_vec()));
        check(b"!5\r\nERR a\r\n", &Value::Error(b"ERR a".to_vec()));
        check(b":-3\r\n", &Value::Int(-3));
        check(b"$0\r\n\r\n", &Value::Bulk(vec![]));
        check(b"$-1\r\n", &Value::NullBulk);
        check(b"*-1\r\n", &Value::NullArray);
        check(b"_\r\n", &Value::Null);
        check(b",1.5\r\n", &Value::Double(b"1.5".to_vec()));
        check(b"#t\r\n", &Value::Bool(true));
        check(
            b"=5\r\ntxt:a\r\n",
            &Value::Verbatim(b"txt".to_vec(), b"a".to_vec()),
        );
        check(
            b"%1\r\n+a\r\n:1\r\n",
            &Value::Map(vec![(Value::Simple(b"a".to_vec()), Value::Int(1))]),
        );
        check(
            b"*2\r\n:1\r\n*0\r\n",
            &Value::Array(vec![Value::Int(1), Value::Array(vec![])]),
        );
    }

    #[test]
    fn refuses_what_is_no_reply() {
        for wire in [
            &b"?\r\n"[..],
            b"+OK\n",
            b"$-2\r\n",
            b":x\r\n",
            b"$1\r\nabc",
            b"~-1\r\n",
            b"#x\r\n",
        ] {
            assert!(read(&mut &wire[..]).is_err(), "{}", wire.escape_ascii());
        }
    }
}
