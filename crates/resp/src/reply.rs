//! Replies, in RESP2 or RESP3 as the connection speaks.

use base::number::{push_f64, push_i64, push_u64};
use base::output::{Blob, Mark, Output};

/// Protocol version of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// The protocol of old, what every connection starts with.
    #[default]
    Resp2,
    /// With maps, sets, doubles, nulls and pushes.
    Resp3,
}

impl Version {
    /// 2 or 3.
    pub fn number(self) -> u8 {
        match self {
            Version::Resp2 => 2,
            Version::Resp3 => 3,
        }
    }
}

/// Writes one connection's replies.
#[derive(Debug)]
pub struct Reply<'a> {
    output: &'a mut Output,
    version: Version,
}

impl<'a> Reply<'a> {
    /// Appends to `output` in the given version.
    #[inline]
    pub fn new(output: &'a mut Output, version: Version) -> Self {
        Reply { output, version }
    }

    /// The version in use.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What follows is in this version (HELLO, RESET).
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Where the next reply begins.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.output.mark()
    }

    /// Undoes everything written since `mark`.
    #[inline]
    pub fn truncate_to(&mut self, mark: Mark) {
        self.output.truncate_to(mark);
    }

    /// Raw access for a value written straight into the reply; see [`Reply::bulk_header`].
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        self.output.bytes()
    }

    #[inline]
    fn header(&mut self, kind: u8, count: usize) {
        let bytes = self.output.bytes();
        bytes.push(kind);
        push_u64(bytes, count as u64);
        bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        let bytes = self.output.bytes();
        bytes.reserve(text.len() + 3);
        bytes.push(kind);
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(b"\r\n");
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.output.bytes().extend_from_slice(b"+OK\r\n");
    }

    /// A simple string; without line ends.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a simple string is one line");
        self.line(b'+', text.as_bytes());
    }

    /// An error; `text` begins with its code. Line ends become spaces.
    #[cold]
    pub fn error(&mut self, text: &str) {
        if text.contains(['\r', '\n']) {
            self.line(b'-', text.replace(['\r', '\n'], " ").as_bytes());
        } else {
            self.line(b'-', text.as_bytes());
        }
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        let bytes = self.output.bytes();
        bytes.push(b':');
        push_i64(bytes, value);
        bytes.extend_from_slice(b"\r\n");
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.bulk_header(value.len());
        let bytes = self.output.bytes();
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }

    /// The header of a bulk string of `len` bytes; the caller appends exactly those through
    /// [`Reply::bytes`] and calls [`Reply::bulk_end`].
    #[inline]
    pub fn bulk_header(&mut self, len: usize) {
        let bytes = self.output.bytes();
        bytes.reserve(len + 16);
        bytes.push(b'$');
        push_u64(bytes, len as u64);
        bytes.extend_from_slice(b"\r\n");
    }

    /// Ends a bulk string begun by [`Reply::bulk_header`].
    #[inline]
    pub fn bulk_end(&mut self) {
        self.output.bytes().extend_from_slice(b"\r\n");
    }

    /// A bulk string that is sent without being copied.
    pub fn blob(&mut self, blob: Blob) {
        self.header(b'$', blob.len());
        self.output.push_blob(blob);
        self.bulk_end();
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        let text: &[u8] = match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        };
        self.output.bytes().extend_from_slice(text);
    }

    /// No array.
    pub fn null_array(&mut self) {
        let text: &[u8] = match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        };
        self.output.bytes().extend_from_slice(text);
    }

    /// Header of an array of `count` elements.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// Header of a map of `count` pairs.
    pub fn map(&mut self, count: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', count * 2),
            Version::Resp3 => self.header(b'%', count),
        }
    }

    /// Header of a set of `count` elements.
    pub fn set(&mut self, count: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', count),
            Version::Resp3 => self.header(b'~', count),
        }
    }

    /// Header of an out-of-band message of `count` elements.
    pub fn push(&mut self, count: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', count),
            Version::Resp3 => self.header(b'>', count),
        }
    }

    /// Header of an attribute of `count` pairs, put before the reply it is about. RESP3 only.
    pub fn attribute(&mut self, count: usize) {
        assert!(self.version == Version::Resp3, "RESP2 has no attributes");
        self.header(b'|', count);
    }

    /// A double; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        push_f64(&mut text, value);
        match self.version {
            Version::Resp2 => self.bulk(&text),
            Version::Resp3 => self.line(b',', &text),
        }
    }

    /// A truth value; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match self.version {
            Version::Resp2 => self.integer(i64::from(value)),
            Version::Resp3 => self.line(b'#', if value { b"t" } else { b"f" }),
        }
    }

    /// An integer of any size; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            Version::Resp2 => self.bulk(digits.as_bytes()),
            Version::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Text with a format of three letters; a bulk string in RESP2.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert!(format.len() == 3, "a format has three letters");
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                self.header(b'=', text.len() + 4);
                let bytes = self.output.bytes();
                bytes.extend_from_slice(format.as_bytes());
                bytes.push(b':');
                bytes.extend_from_slice(text);
                bytes.extend_from_slice(b"\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut output = Output::new();
        write(&mut Reply::new(&mut output, version));
        output
            .segments(64)
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect()
    }

    #[test]
    fn both_versions() {
        for (write, two, three) in [
            ((|r| r.null()) as fn(&mut Reply<'_>), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
            (
                |r| r.verbatim("txt", b"ab"),
                "$2\r\nab\r\n",
                "=6\r\ntxt:ab\r\n",
            ),
            (|r| r.big_number("12"), "$2\r\n12\r\n", "(12\r\n"),
            (|r| r.integer(-7), ":-7\r\n", ":-7\r\n"),
            (|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|r| r.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (
                |r| r.blob(Blob::new(b"xyz".to_vec())),
                "$3\r\nxyz\r\n",
                "$3\r\nxyz\r\n",
            ),
        ] {
            assert_eq!(written(Version::Resp2, write), two);
            assert_eq!(written(Version::Resp3, write), three);
        }
    }
}
