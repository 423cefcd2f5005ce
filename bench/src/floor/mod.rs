//! The floor server: what the kernel alone costs.
//!
//! It answers every command with fixed bytes and keeps no data, so its CPU time per operation is
//! the price of moving requests and replies through sockets, and a real server is judged by how
//! little it adds. One thread; one receive and one send per connection and turn of the loop.
//!
//! What it never knows: keys, values, command semantics beyond telling GET and PING apart.

mod epoll;
mod uring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use clap::{Args, ValueEnum};

use crate::sys;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Epoll,
    #[value(name = "io_uring", alias = "io-uring")]
    IoUring,
}

#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// How the kernel is asked for events.
    #[arg(long, value_enum, default_value = "epoll")]
    backend: Backend,
    /// Port on 127.0.0.1.
    #[arg(long)]
    port: u16,
    /// Bytes of the fixed reply to GET.
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Pin the server to this CPU.
    #[arg(long)]
    cpu: Option<usize>,
}

/// Serves until killed.
pub(crate) fn run(args: &FloorArgs) -> io::Result<()> {
    if let Some(cpu) = args.cpu {
        sys::pin(cpu)?;
    }
    sys::raise_open_files(110_000);
    let listener = sys::listen(SocketAddr::from(([127, 0, 0, 1], args.port)))?;
    serve(args.backend, &listener, args.value_size)
}

/// Serves connections of `listener` on the calling thread; returns only on an error.
fn serve(backend: Backend, listener: &OwnedFd, value_size: usize) -> io::Result<()> {
    let replies = Replies::new(value_size);
    match backend {
        Backend::Epoll => epoll::serve(listener, &replies),
        Backend::IoUring => uring::serve(listener, &replies),
    }
}

/// A connection with more unfinished command bytes than this is closed.
const PARTIAL_BYTES_MAX: usize = 64 << 20;

/// The fixed replies.
#[derive(Debug)]
struct Replies {
    get: Vec<u8>,
}

impl Replies {
    fn new(value_size: usize) -> Self {
        let mut get = format!("${value_size}\r\n").into_bytes();
        get.resize(get.len() + value_size, b'x');
        get.extend_from_slice(b"\r\n");
        Self { get }
    }

    /// Answers every whole command of `input` into `out`; returns the bytes those commands took.
    #[inline]
    fn answer(&self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, NotACommand> {
        let mut taken = 0;
        while let Some((kind, length)) = frame(&input[taken..])? {
            taken += length;
            out.extend_from_slice(match kind {
                Kind::Get => &self.get,
                Kind::Ping => b"+PONG\r\n",
                Kind::Other => b"+OK\r\n",
            });
        }
        Ok(taken)
    }

    /// As [`Self::answer`] for a stream in pieces: `partial` keeps the unfinished command.
    #[inline]
    fn answer_piece(
        &self,
        partial: &mut Vec<u8>,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotACommand> {
        if partial.is_empty() {
            let taken = self.answer(piece, out)?;
            partial.extend_from_slice(&piece[taken..]);
        } else {
            partial.extend_from_slice(piece);
            let taken = self.answer(partial, out)?;
            partial.drain(..taken);
        }
        if partial.len() > PARTIAL_BYTES_MAX {
            Err(NotACommand)
        } else {
            Ok(())
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    Ping,
    Other,
}

/// Bytes that do not begin an array of bulk strings.
#[derive(Debug, PartialEq, Eq)]
struct NotACommand;

/// The kind and length in bytes of the command `input` begins with; `None` if it is cut.
#[inline]
fn frame(input: &[u8]) -> Result<Option<(Kind, usize)>, NotACommand> {
    let Some((arguments, mut at)) = count(input, 0, b'*')? else {
        return Ok(None);
    };
    let mut kind = Kind::Other;
    for index in 0..arguments {
        let Some((length, start)) = count(input, at, b'$')? else {
            return Ok(None);
        };
        at = start + length + 2;
        if at > input.len() {
            return Ok(None);
        }
        if index == 0 {
            kind = match &input[start..start + length] {
                name if name.eq_ignore_ascii_case(b"GET") => Kind::Get,
                name if name.eq_ignore_ascii_case(b"PING") => Kind::Ping,
                _ => Kind::Other,
            };
        }
    }
    Ok(Some((kind, at)))
}

/// Reads `<mark><digits>\r\n` at `at`: the number and the place behind the line.
#[inline]
fn count(input: &[u8], mut at: usize, mark: u8) -> Result<Option<(usize, usize)>, NotACommand> {
    match input.get(at) {
        None => return Ok(None),
        Some(&byte) if byte != mark => return Err(NotACommand),
        Some(_) => at += 1,
    }
    let mut number = 0usize;
    loop {
        match input.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') if number < PARTIAL_BYTES_MAX => {
                number = number * 10 + usize::from(digit - b'0');
                at += 1;
            }
            // The LF is taken on trust; this server judges nobody.
            Some(b'\r') => return Ok(Some((number, at + 2))),
            Some(_) => return Err(NotACommand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    const SET: &[u8] = b"*3\r\n$3\r\nset\r\n$3\r\nkey\r\n$5\r\na\r\nbc\r\n";
    const PING: &[u8] = b"*1\r\n$4\r\nping\r\n";

    #[test]
    fn whole_commands_are_framed() {
        assert_eq!(frame(GET), Ok(Some((Kind::Get, GET.len()))));
        assert_eq!(frame(SET), Ok(Some((Kind::Other, SET.len()))));
        assert_eq!(frame(PING), Ok(Some((Kind::Ping, PING.len()))));
        assert_eq!(frame(b"GET key\r\n"), Err(NotACommand));
        assert_eq!(frame(b"*1\r\n+x\r\n"), Err(NotACommand));
    }

    #[test]
    fn every_cut_gives_the_same_answers() {
        let replies = Replies::new(4);
        let stream = [GET, SET, PING, GET].concat();
        let expected = b"$4\r\nxxxx\r\n+OK\r\n+PONG\r\n$4\r\nxxxx\r\n";
        for cut in 0..=stream.len() {
            let (mut partial, mut out) = (Vec::new(), Vec::new());
            replies
                .answer_piece(&mut partial, &stream[..cut], &mut out)
                .unwrap();
            replies
                .answer_piece(&mut partial, &stream[cut..], &mut out)
                .unwrap();
            assert_eq!(out, expected, "cut at {cut}");
            assert!(partial.is_empty());
        }
    }
}
