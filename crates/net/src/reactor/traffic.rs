//! Sending, draining, ending: what happens to a connection outside a batch.

use super::{LINGER_NS, Reactor};
use crate::backend::{Backend, Key, Sent};
use crate::service::{Closed, Service};
use crate::slots::{Mode, NOT_IN_BATCH};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// A send larger than this is reported as pending when it starts, as it may take long.
const PENDING_BYTES_MIN: usize = 64 * 1024;

impl<S: Service, B: Backend> Reactor<S, B> {
    /// Brings a connection that is not in a batch to what its state asks for: sends what can be
    /// sent, acts on drained output, and tells the kernel what to report.
    #[inline]
    pub(super) fn step(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        if connection.in_batch != NOT_IN_BATCH {
            return;
        }
        let mut under_way = self.backend.sending(&connection.link);
        if under_way == 0 && !connection.output.is_empty() {
            let output = std::mem::take(&mut connection.output);
            let fd = connection.socket.as_fd();
            match self.backend.send(key, fd, &mut connection.link, output) {
                Sent::Now(output, count) => {
                    self.crew.berths[self.index]
                        .gauge
                        .counters
                        .bytes_out
                        .add(count as u64);
                    if output.is_empty() {
                        self.recycle(output);
                    } else {
                        connection.output = output;
                    }
                }
                Sent::Later => {
                    under_way = self.backend.sending(&connection.link);
                    if under_way >= PENDING_BYTES_MIN && !self.may_pend(key, under_way) {
                        return;
                    }
                }
                Sent::Failed(output, error) => {
                    self.recycle(output);
                    return self.broken(key, error);
                }
            }
        } else if connection.output.capacity() > 0 && connection.output.is_empty() {
            let output = std::mem::take(&mut connection.output);
            self.recycle(output);
        }
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        let unsent = connection.output.len();
        if unsent > 0 {
            if !self.may_pend(key, unsent + under_way) {
                return;
            }
        } else if under_way == 0 && !self.drained(key) {
            return;
        }
        self.watch(key);
    }

    /// Asks the service whether so much may stay unsent; ends the connection if not.
    fn may_pend(&mut self, key: Key, pending: usize) -> bool {
        let Some(connection) = self.slots.get_mut(key) else {
            return false;
        };
        let Some(session) = connection.session.as_deref_mut() else {
            return true;
        };
        let allowed = self.service.pending(&mut self.worker, session, pending);
        if !allowed {
            self.end_session(key, Closed::ByService);
        }
        allowed
    }

    /// All output has gone. False if the connection needs no further attention.
    #[inline]
    fn drained(&mut self, key: Key) -> bool {
        let Some(connection) = self.slots.get_mut(key) else {
            return false;
        };
        match connection.mode {
            Mode::Drain => {
                connection.mode = Mode::Again;
                if !connection.queued {
                    connection.queued = true;
                    self.queue.push_back(key);
                }
            }
            Mode::Closing(why) => {
                self.close_session(key, why);
                self.linger(key);
                return false;
            }
            Mode::Flush => {
                self.kill(key);
                return false;
            }
            Mode::Read | Mode::Hold if connection.ended && !connection.queued => {
                self.hang_up(key);
                return false;
            }
            _ => {}
        }
        true
    }

    /// Tells the kernel what to report, and lets a connection go that is to move.
    pub(super) fn watch(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        if connection.ended
            && !connection.queued
            && matches!(connection.mode, Mode::Read | Mode::Hold)
        {
            return self.hang_up(key);
        }
        if connection.mode == Mode::Dead {
            return;
        }
        let want = connection.interest();
        let fd = connection.socket.as_fd();
        if self
            .backend
            .watch(key, fd, &mut connection.link, want)
            .is_err()
        {
            return self.end_session(key, Closed::Failed);
        }
        if connection.moving.is_some() {
            self.try_depart(key);
        }
    }

    /// A send is over (completion backends). The connection is not in the batch.
    pub(super) fn take_sent(&mut self, key: Key, result: i32) {
        let connection = self
            .slots
            .get_mut(key)
            .expect("a slot stays while a send is under way");
        match self.backend.sent(&mut connection.link, result) {
            Sent::Now(rest, count) => {
                self.crew.berths[self.index]
                    .gauge
                    .counters
                    .bytes_out
                    .add(count as u64);
                if rest.is_empty() || connection.mode == Mode::Dead {
                    self.recycle(rest);
                } else {
                    connection.put_back(rest);
                }
            }
            Sent::Failed(output, error) => {
                self.recycle(output);
                return self.broken(key, error);
            }
            Sent::Later => {}
        }
        self.settled(key);
    }

    /// Something the kernel had of this connection is over.
    pub(super) fn settled(&mut self, key: Key) {
        let Some(connection) = self.slots.get(key) else {
            return;
        };
        if connection.mode == Mode::Dead {
            if self.backend.is_idle(&connection.link) {
                self.remove(key);
            }
        } else {
            self.step(key);
        }
    }

    /// Input came that was not wanted now.
    pub(super) fn kept_input(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        if connection.mode == Mode::Read && !connection.queued && connection.is_served() {
            connection.queued = true;
            self.queue.push_back(key);
        }
        self.settled(key);
    }

    /// The peer closed its end. What it sent before is run first.
    pub(super) fn input_ended(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        connection.ended = true;
        match connection.mode {
            Mode::Linger => self.kill(key),
            _ => self.settled(key),
        }
    }

    /// The peer closed while its input was not wanted, or the connection broke.
    pub(super) fn hung_up(&mut self, key: Key) {
        let Some(connection) = self.slots.get(key) else {
            return;
        };
        match connection.mode {
            Mode::Dead => self.settled(key),
            Mode::Hold => self.hang_up(key),
            _ => self.end_session(key, Closed::ByPeer),
        }
    }

    /// A receive or send failed.
    pub(super) fn broken(&mut self, key: Key, error: Errno) {
        let why = match error {
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Closed::ByPeer,
            _ => Closed::Failed,
        };
        self.end_session(key, why);
    }

    /// Ends the session because the peer closed; a peer that only shut its sending side still gets
    /// what it is owed.
    fn hang_up(&mut self, key: Key) {
        self.close_session(key, Closed::ByPeer);
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        if connection.output.is_empty() && self.backend.sending(&connection.link) == 0 {
            return self.kill(key);
        }
        connection.mode = Mode::Flush;
        self.deadlines.push_back((self.now + LINGER_NS, key));
        self.step(key);
    }

    /// Ends the session and the connection at once; unsent output is dropped.
    pub(super) fn end_session(&mut self, key: Key, why: Closed) {
        self.close_session(key, why);
        self.kill(key);
    }

    fn close_session(&mut self, key: Key, why: Closed) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        if let Some(session) = connection.session.take() {
            let counters = &*self.crew.berths[self.index].gauge.counters;
            counters
                .connections
                .set(counters.connections.get().saturating_sub(1));
            self.service.close(&mut self.worker, session, why);
        }
    }

    /// Our end is done: shuts it and waits a little for the peer, since closing with input unread
    /// would reset the connection and could take the last reply from the peer.
    fn linger(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        let shut = rustix::net::shutdown(&connection.socket, Shutdown::Write);
        let stopping = self.stop_at.is_some();
        if shut.is_err() || connection.ended || stopping || self.deadlines.len() >= LINGERING_MAX {
            return self.kill(key);
        }
        connection.mode = Mode::Linger;
        connection.backlog = Vec::new();
        self.deadlines.push_back((self.now + LINGER_NS, key));
        self.watch(key);
    }

    /// The time to flush or linger is over.
    pub(super) fn give_up(&mut self, key: Key) {
        let mode = self.slots.get(key).map(|connection| connection.mode);
        if matches!(mode, Some(Mode::Flush | Mode::Linger)) {
            self.kill(key);
        }
    }

    /// Lets go of a connection whose session is gone.
    fn kill(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        assert!(
            connection.session.is_none(),
            "a session must be closed before its connection"
        );
        connection.mode = Mode::Dead;
        connection.moving = None;
        connection.backlog = Vec::new();
        let output = std::mem::take(&mut connection.output);
        self.backend
            .cancel(key, connection.socket.as_fd(), &mut connection.link);
        let idle = self.backend.is_idle(&connection.link);
        self.recycle(output);
        if idle {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) {
        if self.slots.remove(key).is_some() {
            self.berth().gauge.assigned.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Connections that may linger at once in one loop; more are closed without it.
const LINGERING_MAX: usize = 1024;
