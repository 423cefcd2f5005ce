//! A blocking connection for single commands: waiting for a server, preparing it, asking it.
//!
//! What it never knows: measuring. The load has connections of its own.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};

use crate::resp::{Reply, ReplyScanner, encode_command};
use crate::sys::{self, Address};

#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// How to authenticate; nothing is sent without a password.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl Credentials {
    /// The AUTH command, if one is needed.
    pub(crate) fn command(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_ref()?;
        let mut command: Vec<&[u8]> = vec![b"AUTH"];
        command.extend(self.user.as_ref().map(String::as_bytes));
        command.push(password.as_bytes());
        Some(command)
    }
}

impl Client {
    pub(crate) fn connect(address: &Address, credentials: &Credentials) -> Result<Self, String> {
        let socket =
            sys::connect(address, None).map_err(|error| format!("connect {address}: {error}"))?;
        let mut client = Self {
            socket,
            buffer: vec![0; 64 * 1024],
        };
        if let Some(command) = credentials.command() {
            client.call(&command)?;
        }
        Ok(client)
    }

    /// Connects and pings until the server answers +PONG or `limit_ms` have passed.
    pub(crate) fn wait_for(address: &Address, limit_ms: u64) -> Result<Self, String> {
        let end = sys::now_ns() + limit_ms * 1_000_000;
        loop {
            let attempt = Self::connect(address, &Credentials::default()).and_then(|mut client| {
                client.call(&[b"PING"])?;
                Ok(client)
            });
            match attempt {
                Ok(client) => return Ok(client),
                Err(message) if sys::now_ns() > end => return Err(message),
                Err(_) => sys::sleep_ns(20_000_000),
            }
        }
    }

    /// Sends one command and returns the reply's text: of a one-line reply the line without its
    /// mark, of a bulk string its bytes, of anything else the raw bytes. An error reply is an
    /// error.
    pub(crate) fn call(&mut self, command: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut raw = Vec::new();
        self.exchange(command, |piece| raw.extend_from_slice(piece))?;
        let line = raw
            .iter()
            .position(|&byte| byte == b'\r')
            .unwrap_or(raw.len());
        Ok(match raw.first() {
            Some(b'+' | b':') => raw[1..line].to_vec(),
            Some(b'$') if raw.len() >= line + 4 => raw[line + 2..raw.len() - 2].to_vec(),
            _ => raw,
        })
    }

    /// Sends one command and counts what its reply holds without keeping it.
    pub(crate) fn call_counted(&mut self, command: &[&[u8]]) -> Result<Reply, String> {
        self.exchange(command, |_| ())
    }

    /// Sends raw bytes, whatever they mean.
    pub(crate) fn send_raw(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let sent = rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
                .map_err(|error| format!("send: {error}"))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Limits how long one receive waits for bytes.
    pub(crate) fn set_patience(&mut self, limit: Duration) -> Result<(), String> {
        sys::set_receive_timeout(&self.socket, Some(limit)).map_err(|error| error.to_string())
    }

    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    fn exchange(
        &mut self,
        command: &[&[u8]],
        mut keep: impl FnMut(&[u8]),
    ) -> Result<Reply, String> {
        let name = String::from_utf8_lossy(command[0]).into_owned();
        let mut request = Vec::new();
        encode_command(command, &mut request);
        self.send_raw(&request)?;
        let mut scanner = ReplyScanner::default();
        let mut result = None;
        while result.is_none() {
            let (received, _) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())
                    .map_err(|error| format!("{name}: {error}"))?;
            if received == 0 {
                return Err(format!("{name}: the server closed the connection"));
            }
            let piece = &self.buffer[..received];
            keep(piece);
            let complete = |reply, text: &[u8]| {
                result = Some((reply, String::from_utf8_lossy(text).into_owned()));
            };
            scanner
                .feed(piece, complete)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        match result {
            Some((reply, text)) if reply.error => Err(format!("{name}: {text} ({reply:?})")),
            Some((reply, _)) => Ok(reply),
            None => unreachable!("the loop ends with a result"),
        }
    }
}
