//! One client connection: sends bytes, reads replies, and can tell silence from slowness.

use crate::notation::Protocol;
use crate::value::{self, Value};
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a reply may take before the server counts as hung.
pub const REPLY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a connection must stay silent to be believed.
pub const SILENCE: Duration = Duration::from_millis(30);

/// A connection to a server on this machine.
#[derive(Debug)]
pub struct Connection {
    input: BufReader<TcpStream>,
}

/// What a connection gave when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A whole reply.
    Reply(Value),
    /// Nothing within the time allowed.
    Nothing,
    /// The server closed the connection.
    Closed,
}

impl Connection {
    /// Connects; for RESP3 also switches with HELLO.
    pub fn open(port: u16, protocol: Protocol) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            input: BufReader::new(stream),
        };
        if protocol == Protocol::Resp3 {
            connection.send(&[b"HELLO".to_vec(), b"3".to_vec()])?;
            match connection.receive(REPLY_WAIT_MAX)? {
                Received::Reply(Value::Map(_)) => {}
                other => return Err(io::Error::other(format!("HELLO 3 answered {other:?}"))),
            }
        }
        Ok(connection)
    }

    /// Sends a command as an array of bulk strings.
    pub fn send(&mut self, arguments: &[Vec<u8>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode(arguments, &mut bytes);
        self.send_raw(&bytes)
    }

    /// Sends bytes as they are. A server may have closed meanwhile: that shows when reading.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.input.get_mut().write_all(bytes) {
            Err(error) if is_close(&error) => Ok(()),
            other => other,
        }
    }

    /// Reads one reply, waiting at most `wait` for its beginning.
    pub fn receive(&mut self, wait: Duration) -> io::Result<Received> {
        if self.input.buffer().is_empty() {
            self.input.get_ref().set_read_timeout(Some(wait))?;
            let started = Instant::now();
            loop {
                match self.input.get_ref().peek(&mut [0]) {
                    Ok(0) => return Ok(Received::Closed),
                    Ok(_) => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if is_timeout(&error) && started.elapsed() >= wait => {
                        return Ok(Received::Nothing);
                    }
                    Err(error) if is_timeout(&error) => {}
                    Err(error) if is_close(&error) => return Ok(Received::Closed),
                    Err(error) => return Err(error),
                }
            }
        }
        self.input
            .get_ref()
            .set_read_timeout(Some(REPLY_WAIT_MAX))?;
        match value::read(&mut self.input) {
            Ok(value) => Ok(Received::Reply(value)),
            Err(error) if is_close(&error) => Ok(Received::Closed),
            Err(error) => Err(error),
        }
    }
}

/// Appends a command as an array of bulk strings.
pub fn encode(arguments: &[Vec<u8>], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn is_close(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}
