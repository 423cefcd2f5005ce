//! The floor server on epoll: level-triggered, one receive and one send per event.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::Replies;

const LISTENER: u64 = u64::MAX;
const EVENTS_MAX: usize = 256;
const RECEIVE_BYTES: usize = 64 * 1024;

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// A command that is not complete yet.
    partial: Vec<u8>,
    /// Replies the socket did not take; while there are any, nothing is read.
    unsent: Vec<u8>,
}

pub(super) fn serve(listener: &OwnedFd, replies: &Replies) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events = vec![
        Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0)
        };
        EVENTS_MAX
    ];
    let mut input = vec![0; RECEIVE_BYTES];
    let mut out = Vec::with_capacity(RECEIVE_BYTES);
    loop {
        let ready = match epoll::wait(&epoll, &mut events[..], None) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        for event in &events[..ready] {
            let token = event.data.u64();
            if token == LISTENER {
                let socket = rustix::net::accept_with(
                    listener,
                    SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
                )?;
                let index = free.pop().unwrap_or_else(|| {
                    connections.push(None);
                    connections.len() - 1
                });
                epoll::add(
                    &epoll,
                    &socket,
                    EventData::new_u64(index as u64),
                    EventFlags::IN,
                )?;
                connections[index] = Some(Connection {
                    socket,
                    partial: Vec::new(),
                    unsent: Vec::new(),
                });
                continue;
            }
            let index = token as usize;
            let Some(connection) = &mut connections[index] else {
                continue;
            };
            if connection
                .turn(replies, &mut input, &mut out, &epoll, event.data)
                .is_none()
            {
                // Closing the descriptor takes it out of the epoll set.
                connections[index] = None;
                free.push(index);
            }
        }
    }
}

impl Connection {
    /// One event. `None` when the connection is over.
    #[inline]
    fn turn(
        &mut self,
        replies: &Replies,
        input: &mut [u8],
        out: &mut Vec<u8>,
        epoll: &OwnedFd,
        data: EventData,
    ) -> Option<()> {
        if !self.unsent.is_empty() {
            let sent = self.send(&self.unsent)?;
            self.unsent.drain(..sent);
            if self.unsent.is_empty() {
                epoll::modify(epoll, &self.socket, data, EventFlags::IN).ok()?;
            }
            return Some(());
        }
        let (received, _) = match rustix::net::recv(&self.socket, &mut *input, RecvFlags::empty()) {
            Err(Errno::AGAIN | Errno::INTR) => return Some(()),
            Err(_) | Ok((0, _)) => return None,
            Ok(received) => received,
        };
        out.clear();
        replies
            .answer_piece(&mut self.partial, &input[..received], out)
            .ok()?;
        if out.is_empty() {
            return Some(());
        }
        let sent = self.send(out)?;
        if sent < out.len() {
            self.unsent.extend_from_slice(&out[sent..]);
            epoll::modify(epoll, &self.socket, data, EventFlags::OUT).ok()?;
        }
        Some(())
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> Option<usize> {
        match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => Some(sent),
            Err(Errno::AGAIN | Errno::INTR) => Some(0),
            Err(_) => None,
        }
    }
}
