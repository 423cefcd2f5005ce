//! A redis-server to ask, on a socket of its own that ends with the test.
#![allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its part"
)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running redis-server without a port.
pub struct Reference {
    child: Child,
    directory: PathBuf,
}

impl Reference {
    /// Starts a server with extra directives. `name` tells tests of one binary apart.
    pub fn start(name: &str, directives: &[&str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("reference-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(directory.join("socket"))
            .arg("--dir")
            .arg(&directory)
            .args(directives)
            .stdout(Stdio::null())
            .spawn()
            .expect("this test compares with redis-server, which must be installed");
        let reference = Self { child, directory };
        for _ in 0..500 {
            if reference.try_connect().is_ok() {
                return reference;
            }
            env::thread::sleep_ms(10);
        }
        panic!("redis-server does not open its socket");
    }

    fn try_connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.directory.join("socket"))
    }

    /// All the server says to these bytes until it closes; it is told that no more will come. For
    /// short answers: what the server cannot send at once is lost.
    pub fn ask(&self, request: &[u8]) -> Vec<u8> {
        self.exchange(request, true, |_| false)
    }

    /// The replies to well-formed commands, however long.
    pub fn ask_all(&self, request: &[u8]) -> Vec<u8> {
        const LAST: &[u8] = b"$14\r\nend-of-answers\r\n";
        let request = [request, &command(&[b"ECHO", b"end-of-answers"])].concat();
        let mut replies = self.exchange(&request, false, |replies| replies.ends_with(LAST));
        assert!(replies.ends_with(LAST), "the server closed early");
        replies.truncate(replies.len() - LAST.len());
        replies
    }

    fn exchange(&self, request: &[u8], close: bool, is_all: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut stream = self.try_connect().unwrap();
        let mut sender = stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The server may have closed already, having seen enough.
                if sender.write_all(request).is_ok() && close {
                    let _ = sender.shutdown(std::net::Shutdown::Write);
                }
            });
            let mut reply = Vec::new();
            let mut piece = [0; 16_384];
            while !is_all(&reply) {
                match stream.read(&mut piece) {
                    Ok(0) => break,
                    Ok(count) => reply.extend_from_slice(&piece[..count]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            reply
        })
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One command as bytes.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Splits replies: one entry for every line or bulk string, headers of arrays included; `-` and
/// `:` kept, bulk strings without their header, a null as `None`.
pub fn split(mut replies: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut parts = Vec::new();
    while let Some(end) = replies.windows(2).position(|pair| pair == b"\r\n") {
        let (line, rest) = (&replies[..end], &replies[end + 2..]);
        replies = rest;
        if line.first() != Some(&b'$') {
            parts.push(Some(line.to_vec()));
        } else if line == b"$-1" {
            parts.push(None);
        } else {
            let size: usize = std::str::from_utf8(&line[1..]).unwrap().parse().unwrap();
            parts.push(Some(replies[..size].to_vec()));
            replies = &replies[size + 2..];
        }
    }
    parts
}
