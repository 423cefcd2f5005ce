//! Quoting of arguments and texts as redis-cli does it: `"\x00\n"` and `'plain'`.

use std::fmt::Write;

/// Splits a command line into arguments.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let bytes = line.as_bytes();
    let mut arguments = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if at == bytes.len() {
            return Ok(arguments);
        }
        let (argument, used) = match bytes[at] {
            b'"' => unquote(&bytes[at..])?,
            b'\'' => unquote_plain(&bytes[at..])?,
            _ => {
                let end = bytes[at..].iter().position(u8::is_ascii_whitespace);
                let used = end.unwrap_or(bytes.len() - at);
                (bytes[at..at + used].to_vec(), used)
            }
        };
        at += used;
        if bytes
            .get(at)
            .is_some_and(|byte| !byte.is_ascii_whitespace())
        {
            return Err(format!("no blank after a closing quote: {line}"));
        }
        arguments.push(argument);
    }
}

/// Reads a text in double quotes from the start of `bytes`; returns it and the bytes used.
pub fn unquote(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let mut text = Vec::new();
    let mut at = 1;
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'"'), _) => return Ok((text, at + 1)),
            (Some(b'\\'), Some(b'x')) => {
                let digits = bytes
                    .get(at + 2..at + 4)
                    .and_then(|hex| std::str::from_utf8(hex).ok());
                let byte = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                text.push(byte.ok_or("\\x needs two hexadecimal digits")?);
                at += 4;
            }
            (Some(b'\\'), Some(&escaped)) => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    other => other,
                });
                at += 2;
            }
            (Some(&byte), _) => {
                text.push(byte);
                at += 1;
            }
            (None, _) => return Err("missing closing quote".into()),
        }
    }
}

fn unquote_plain(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let mut text = Vec::new();
    let mut at = 1;
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'\\'), Some(b'\'')) => {
                text.push(b'\'');
                at += 2;
            }
            (Some(b'\''), _) => return Ok((text, at + 1)),
            (Some(&byte), _) => {
                text.push(byte);
                at += 1;
            }
            (None, _) => return Err("missing closing quote".into()),
        }
    }
}

/// Writes `text` in double quotes, everything but printable ASCII escaped.
pub fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for &byte in text {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            b' '..=b'~' => quoted.push(byte as char),
            _ => {
                // A String takes whatever is written to it.
                let _ = write!(quoted, "\\x{byte:02x}");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_redis_cli_does() {
        let arguments = split(r#"SET "a\x00\n\"" 'b c\'d' plain"#).unwrap();
        assert_eq!(arguments, [&b"SET"[..], b"a\0\n\"", b"b c'd", b"plain"]);
        assert_eq!(split(r#"SET a """#).unwrap()[2], b"");
        assert!(split(r#"SET "a"b"#).is_err());
        assert!(split(r#"SET "a"#).is_err());
        assert!(split("SET 'a").is_err());
    }

    #[test]
    fn quoting_round_trips() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unquote(quote(&all).as_bytes()).unwrap().0, all);
    }
}
