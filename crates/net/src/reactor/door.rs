//! New connections: accepting (loop 0), placing, opening; and letters from the rest of the crew.

use super::{Reactor, TICK_NS};
use crate::backend::{Accepted, Backend};
use crate::config::ListenAddress;
use crate::crew::Mail;
use crate::listener::{Listener, tune_connection};
use crate::service::{Closed, Peer, Service};
use crate::slots::{Connection, Mode};
use base::output::Output;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Connections accepted for one event, so that a storm does not starve the others.
const ACCEPTS_MAX: usize = 1000;

/// A listener served by this loop.
#[derive(Debug)]
pub(super) struct Door {
    listener: Arc<Listener>,
    /// After an accept failed for want of something: when to try again.
    retry_at: Option<u64>,
    /// Nothing was accepted since the last failure was reported.
    complained: bool,
}

impl<S: Service, B: Backend> Reactor<S, B> {
    pub(super) fn read_mail(&mut self) {
        for letter in self.berth().collect() {
            match letter {
                Mail::Open { socket, peer } => self.open(socket, peer),
                Mail::Adopt {
                    socket,
                    session,
                    output,
                    backlog,
                } => {
                    self.adopt(socket, session, output, backlog);
                }
                Mail::Listen { index, listener } => self.add_door(index, listener),
                Mail::Unlisten { index } => self.remove_door(index),
                Mail::Accepting(accepting) => self.set_accepting(accepting),
                Mail::Stop { flush_ns_max } => self.begin_stop(flush_ns_max),
            }
        }
    }

    /// A letter that came too late.
    pub(super) fn refuse_letter(&mut self, letter: Mail<S::Conn>) {
        if let Mail::Adopt { session, .. } = letter {
            self.service
                .close(&mut self.worker, session, Closed::Shutdown);
        }
    }

    pub(super) fn take_acceptable(&mut self, index: u32, pending: B::Pending) {
        for _ in 0..ACCEPTS_MAX {
            let Some(door) = self.doors.get_mut(index as usize).and_then(Option::as_mut) else {
                return self.drop_stray(index, pending);
            };
            match self.backend.accept(index, door.listener.as_fd(), pending) {
                Accepted::One(socket) => {
                    door.complained = false;
                    let listener = Arc::clone(&door.listener);
                    self.place(index, &listener, socket);
                    if B::COMPLETES {
                        break;
                    }
                }
                Accepted::Nothing => break,
                Accepted::Failed(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {
                    if B::COMPLETES {
                        break;
                    }
                }
                Accepted::Failed(error) => return self.accept_failed(index, error),
            }
        }
        self.arm_door(index);
    }

    /// A connection accepted after its listener was taken away is closed again.
    fn drop_stray(&mut self, index: u32, pending: B::Pending) {
        if B::COMPLETES {
            // Only the event's own content is used there; any descriptor of ours will do.
            let signal = self.crew.berths[self.index].waker.signal();
            let _ = self.backend.accept(index, signal, pending);
        }
    }

    fn accept_failed(&mut self, index: u32, error: Errno) {
        let Some(door) = self.doors.get_mut(index as usize).and_then(Option::as_mut) else {
            return;
        };
        self.backend.disarm_accept(index, door.listener.as_fd());
        if error == Errno::INVAL {
            // It was shut; the letter that says so is on its way.
            return;
        }
        door.retry_at = Some(self.now + TICK_NS);
        if !std::mem::replace(&mut door.complained, true) {
            self.crew
                .say(&format!("Error accepting a client connection: {error}"));
        }
    }

    pub(super) fn retry_doors(&mut self) {
        for index in 0..self.doors.len() {
            if let Some(door) = &mut self.doors[index]
                && door.retry_at.is_some_and(|at| at <= self.now)
            {
                door.retry_at = None;
                self.arm_door(index as u32);
            }
        }
    }

    fn arm_door(&mut self, index: u32) {
        let Some(door) = self.doors.get_mut(index as usize).and_then(Option::as_mut) else {
            return;
        };
        if !self.accepting || door.retry_at.is_some() {
            return;
        }
        if let Err(error) = self.backend.arm_accept(index, door.listener.as_fd()) {
            door.retry_at = Some(self.now + TICK_NS);
            let address = door.listener.address();
            self.crew
                .say(&format!("Cannot accept connections on {address}: {error}"));
        }
    }

    fn add_door(&mut self, index: u32, listener: Arc<Listener>) {
        let slot = index as usize;
        if self.doors.len() <= slot {
            self.doors.resize_with(slot + 1, || None);
        }
        self.doors[slot] = Some(Door {
            listener,
            retry_at: None,
            complained: false,
        });
        self.arm_door(index);
    }

    fn remove_door(&mut self, index: u32) {
        if let Some(door) = self.doors.get_mut(index as usize).and_then(Option::take) {
            self.backend.disarm_accept(index, door.listener.as_fd());
        }
    }

    fn set_accepting(&mut self, accepting: bool) {
        self.accepting = accepting;
        for index in 0..self.doors.len() as u32 {
            if accepting {
                self.arm_door(index);
            } else if let Some(door) = &self.doors[index as usize] {
                self.backend.disarm_accept(index, door.listener.as_fd());
            }
        }
    }

    /// Chooses a loop for a new connection and brings it there.
    fn place(&mut self, index: u32, listener: &Listener, socket: OwnedFd) {
        self.berth().gauge.counters.accepted.add(1);
        // No address: the peer has already gone again.
        let Some(remote) = listener.remote_address(socket.as_fd()) else {
            return;
        };
        if matches!(listener.address(), ListenAddress::Tcp(_)) {
            let keepalive_s = self.crew.tcp_keepalive_s.load(Ordering::Relaxed);
            // A connection that is dying may refuse; reading from it will tell.
            let _ = tune_connection(socket.as_fd(), keepalive_s);
        }
        let peer = Peer {
            remote,
            local: listener.local_address(socket.as_fd()),
            fd: socket.as_raw_fd(),
            listener: index as usize,
        };
        let target = self.crew.assign();
        if target == self.index {
            self.open(socket, peer);
        } else if self.crew.berths[target]
            .post(Mail::Open { socket, peer })
            .is_err()
        {
            self.crew.berths[target]
                .gauge
                .assigned
                .fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Starts serving a connection that is already counted as assigned to this loop.
    fn open(&mut self, socket: OwnedFd, peer: Peer) {
        let key = self.slots.insert(Connection::new(socket));
        let opened = self.service.open(&mut self.worker, key.token(), peer);
        let connection = self.slots.get_mut(key).expect("just inserted");
        match opened {
            Ok(session) => {
                connection.session = Some(session);
                self.count_connection();
            }
            Err(farewell) => {
                connection.mode = Mode::Closing(Closed::ByService);
                connection.output.bytes().extend_from_slice(&farewell);
            }
        }
        self.begin_serving(key);
    }

    fn adopt(&mut self, socket: OwnedFd, session: Box<S::Conn>, output: Output, backlog: Vec<u8>) {
        let mut connection = Connection::new(socket);
        connection.session = Some(session);
        connection.output = output;
        connection.queued = !backlog.is_empty();
        connection.backlog = backlog;
        let queued = connection.queued;
        let key = self.slots.insert(connection);
        if queued {
            self.queue.push_back(key);
        }
        let connection = self.slots.get_mut(key).expect("just inserted");
        let session = connection.session.as_deref_mut().expect("just set");
        self.service.adopt(&mut self.worker, key.token(), session);
        self.count_connection();
        self.berth().gauge.counters.adopted.add(1);
        self.begin_serving(key);
    }

    fn begin_serving(&mut self, key: crate::backend::Key) {
        if self.stop_at.is_some() {
            let connection = self.slots.get_mut(key).expect("just inserted");
            connection.mode = Mode::Closing(Closed::Shutdown);
        }
        self.step(key);
    }

    fn count_connection(&self) {
        let counters = &self.berth().gauge.counters;
        counters.connections.add(1);
    }

    fn begin_stop(&mut self, flush_ns_max: u64) {
        if self.stop_at.is_some() {
            return;
        }
        self.stop_at = Some(self.now + flush_ns_max);
        self.tick_at = self.tick_at.min(self.now + flush_ns_max);
        for index in 0..self.doors.len() as u32 {
            self.remove_door(index);
        }
        let keys: Vec<_> = self.slots.iter().map(|(key, _)| key).collect();
        for key in keys {
            let connection = self.slots.get_mut(key).expect("just listed");
            connection.moving = None;
            match connection.mode {
                Mode::Closing(_) | Mode::Flush | Mode::Dead => {}
                Mode::Linger => self.give_up(key),
                _ => {
                    connection.mode = Mode::Closing(Closed::Shutdown);
                    self.step(key);
                }
            }
        }
    }
}
