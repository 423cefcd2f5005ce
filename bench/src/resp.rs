//! RESP as a client sees it: encoding commands, and finding where replies end.
//!
//! What it never knows: sockets, what a command means.
//!
//! The scanner walks replies without storing them: a reply may be cut anywhere by the network, and
//! only an unfinished header line is kept between two feeds.
//!
//! ```text
//! +OK\r\n   -ERR ...\r\n   :1\r\n          one line, complete at its end
//! $3\r\nabc\r\n                            line, then 3 + 2 bytes that are skipped unread
//! *2\r\n ... ...                           line, then 2 more elements
//! ```

use std::fmt;

/// What one complete reply consisted of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The reply itself, or one inside it, was an error.
    pub(crate) error: bool,
    /// Leaves that carried a value (strings, integers, statuses).
    pub(crate) values: u32,
    /// Leaves that were null.
    pub(crate) nulls: u32,
}

/// Bytes that are no RESP reply. The connection is of no further use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed reply: {}", self.0)
    }
}

/// A header line longer than this is taken for garbage.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Finds the ends of replies in a stream that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct ReplyScanner {
    /// Bytes of a bulk string, its CRLF included, that are still to come.
    skip: usize,
    /// Elements of the current reply that are still to come; 0 between replies.
    elements: u64,
    current: Reply,
    /// The beginning of a header line that was cut.
    line: Vec<u8>,
}

impl ReplyScanner {
    /// Takes the next bytes; calls `complete` for each reply that ends in them, with the text of
    /// its last error line (empty if there was none in this piece).
    pub(crate) fn feed(
        &mut self,
        mut input: &[u8],
        mut complete: impl FnMut(Reply, &[u8]),
    ) -> Result<(), Malformed> {
        let mut error: &[u8] = b"";
        loop {
            if self.skip > 0 {
                let taken = self.skip.min(input.len());
                self.skip -= taken;
                input = &input[taken..];
                if self.skip > 0 {
                    return Ok(());
                }
                self.end_element(error, &mut complete);
            }
            let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
                self.line.extend_from_slice(input);
                if self.line.len() > LINE_BYTES_MAX {
                    return Err(Malformed("header line without end".to_owned()));
                }
                return Ok(());
            };
            if self.line.is_empty() {
                let line = &input[..end];
                if line.first() == Some(&b'-') {
                    error = &line[1..line.len().max(2) - 1];
                }
                self.header(line)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&input[..end]);
                self.header(&line)?;
                // Keep the allocation for the next cut line.
                line.clear();
                self.line = line;
            }
            input = &input[end + 1..];
            if self.skip == 0 {
                self.end_element(error, &mut complete);
            }
        }
    }

    /// Takes a header line without its LF. Afterwards the element is complete unless `skip` is set.
    #[inline]
    fn header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let malformed = || Malformed(String::from_utf8_lossy(line).into_owned());
        let [kind, rest @ .., b'\r'] = line else {
            return Err(malformed());
        };
        if self.elements == 0 {
            self.elements = 1;
            self.current = Reply::default();
        }
        match kind {
            b'+' | b':' | b'#' | b',' | b'(' => self.current.values += 1,
            b'-' => self.current.error = true,
            b'_' => self.current.nulls += 1,
            b'$' | b'=' | b'!' => match integer(rest).ok_or_else(malformed)? {
                -1 => self.current.nulls += 1,
                length if length >= 0 => {
                    self.current.values += 1;
                    self.current.error |= *kind == b'!';
                    self.skip = length as usize + 2;
                }
                _ => return Err(malformed()),
            },
            b'*' | b'~' | b'>' | b'%' => match integer(rest).ok_or_else(malformed)? {
                -1 => self.current.nulls += 1,
                count if count >= 0 => {
                    self.elements += if *kind == b'%' { 2 * count } else { count } as u64;
                }
                _ => return Err(malformed()),
            },
            _ => return Err(malformed()),
        }
        Ok(())
    }

    #[inline]
    fn end_element(&mut self, error: &[u8], complete: &mut impl FnMut(Reply, &[u8])) {
        self.elements -= 1;
        if self.elements == 0 {
            complete(self.current, error);
        }
    }
}

#[inline]
fn integer(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}

/// Appends a command as an array of bulk strings.
pub(crate) fn encode_command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pieces: &[&[u8]]) -> Result<Vec<Reply>, Malformed> {
        let mut scanner = ReplyScanner::default();
        let mut replies = Vec::new();
        for piece in pieces {
            scanner.feed(piece, |reply, _| replies.push(reply))?;
        }
        Ok(replies)
    }

    const STREAM: &[u8] = b"+OK\r\n$3\r\nabc\r\n$-1\r\n:12\r\n*3\r\n$1\r\nx\r\n*2\r\n:1\r\n$-1\r\n\
        $0\r\n\r\n*0\r\n-ERR no\r\n*-1\r\n$5\r\n\r\n\r\n\n\r\n";

    fn reply(values: u32, nulls: u32) -> Reply {
        Reply {
            error: false,
            values,
            nulls,
        }
    }

    #[test]
    fn every_cut_gives_the_same_replies() {
        let error = Reply {
            error: true,
            values: 0,
            nulls: 0,
        };
        let expected = [
            reply(1, 0),
            reply(1, 0),
            reply(0, 1),
            reply(1, 0),
            reply(3, 1),
            reply(0, 0),
            error,
            reply(0, 1),
            reply(1, 0),
        ];
        for cut in 0..STREAM.len() {
            let (left, right) = STREAM.split_at(cut);
            assert_eq!(scan(&[left, right]).unwrap(), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(scan(&bytes).unwrap(), expected);
    }

    #[test]
    fn garbage_is_refused() {
        for bad in [
            &b"hello\r\n"[..],
            b"$x\r\n",
            b"$-2\r\n",
            b"*\r\n",
            b"+OK\n",
            b"\r\n",
            b"\n",
        ] {
            assert!(scan(&[bad]).is_err(), "{bad:?}");
        }
        let endless = vec![b'+'; LINE_BYTES_MAX + 1];
        assert!(scan(&[&endless]).is_err());
    }

    #[test]
    fn error_text_is_handed_over() {
        let mut scanner = ReplyScanner::default();
        let mut texts = Vec::new();
        scanner
            .feed(b"-ERR one\r\n-\r\n+OK\r\n", |reply, text| {
                texts.push((reply.error, text.to_vec()));
            })
            .unwrap();
        assert_eq!(texts[0], (true, b"ERR one".to_vec()));
        assert!(texts[1].0);
        assert!(!texts[2].0);
    }

    #[test]
    fn command_encoding() {
        let mut out = Vec::new();
        encode_command(&[b"GET", b"key"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }
}
