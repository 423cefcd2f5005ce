//! Events in, batches out.
//!
//! Invariant: what a connection sent is seen by the service in order. Events of a connection that
//! is already in the batch wait, and events that have waited go before newer ones.

use super::Reactor;
use crate::backend::{Backend, Event, Key, Received};
use crate::service::{Closed, Flow, Ready, Service};
use crate::slots::{Mode, NOT_IN_BATCH};
use base::output::Output;
use std::os::fd::AsFd;

/// Connections in a batch, at most.
const BATCH_MAX: usize = 64;
/// Input of one connection in a batch, at most, when it came in several pieces.
const JOINED_BYTES_MAX: usize = 64 * 1024;
/// Outputs kept for reuse.
const POOL_MAX: usize = 256;
/// An output that has grown beyond this is not kept.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A connection chosen for the batch.
#[derive(Debug)]
pub(super) struct Item<C> {
    key: Key,
    input: Input<C>,
}

#[derive(Debug)]
enum Input<C> {
    None,
    /// Where the backend put it.
    Chunk(C),
    /// Several pieces joined, or what was kept while it was not wanted.
    Owned(Vec<u8>),
}

impl<S: Service, B: Backend> Reactor<S, B> {
    /// Uses up the events of the last wait and the queue as it is now.
    pub(super) fn serve(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        let mut queued = self.queue.len();
        {
            let mut fresh = events.drain(..);
            loop {
                self.backend.begin_batch();
                for _ in 0..self.deferred.len() {
                    let event = self.deferred.pop_front().expect("counted");
                    self.take_event(event);
                }
                while self.has_room() {
                    let Some(event) = fresh.next() else { break };
                    self.take_event(event);
                }
                while self.has_room() && queued > 0 {
                    queued -= 1;
                    self.take_queued();
                }
                if self.items.is_empty() && self.deferred.is_empty() && fresh.len() == 0 {
                    break;
                }
                self.run_batch();
                if fresh.len() > 0 {
                    self.flush_backend();
                }
            }
        }
        self.events = events;
    }

    fn has_room(&self) -> bool {
        self.items.len() < BATCH_MAX && self.backend.has_room()
    }

    fn flush_backend(&mut self) {
        if let Err(error) = self.backend.flush() {
            panic!("the {} backend cannot submit: {error}", B::NAME);
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "an event is used up")]
    fn take_event(&mut self, event: Event<B::Pending>) {
        match event {
            Event::Readable { key, pending } => self.take_readable(key, pending),
            Event::Acceptable { listener, pending } => self.take_acceptable(listener, pending),
            Event::Sent { key, result } => {
                if self.is_in_batch(key) {
                    self.deferred.push_back(Event::Sent { key, result });
                } else {
                    self.take_sent(key, result);
                }
            }
            Event::Writable { key } => self.step(key),
            Event::Hangup { key } => {
                if self.is_in_batch(key) {
                    self.deferred.push_back(Event::Hangup { key });
                } else {
                    self.hung_up(key);
                }
            }
        }
    }

    fn is_in_batch(&self, key: Key) -> bool {
        self.slots
            .get(key)
            .is_some_and(|connection| connection.in_batch != NOT_IN_BATCH)
    }

    #[inline]
    fn take_readable(&mut self, key: Key, pending: B::Pending) {
        let has_room = self.has_room();
        let Some(connection) = self.slots.get_mut(key) else {
            return self.backend.discard(pending);
        };
        if connection.in_batch != NOT_IN_BATCH {
            let item = &mut self.items[connection.in_batch as usize];
            if !B::COMPLETES || item.joined_len(&self.backend) >= JOINED_BYTES_MAX {
                self.deferred.push_back(Event::Readable { key, pending });
                return;
            }
            let fd = connection.socket.as_fd();
            match self.backend.receive(fd, &mut connection.link, pending) {
                Received::Bytes(chunk) => {
                    let spare = self.scratch.pop().unwrap_or_default();
                    item.join(&mut self.backend, chunk, spare);
                }
                Received::Nothing => {}
                // Nothing comes after it, so it may wait in the connection itself.
                Received::End | Received::Failed(_) => connection.ended = true,
            }
            return;
        }
        if !has_room {
            self.deferred.push_back(Event::Readable { key, pending });
            return;
        }
        let reads = connection.mode == Mode::Read && !connection.ended;
        if !reads && !B::COMPLETES && connection.mode != Mode::Linger {
            return;
        }
        let fd = connection.socket.as_fd();
        match self.backend.receive(fd, &mut connection.link, pending) {
            Received::Bytes(chunk) if reads && connection.backlog.is_empty() => {
                self.push_item(key, Input::Chunk(chunk));
            }
            Received::Bytes(chunk) => {
                if connection.session.is_some() {
                    connection
                        .backlog
                        .extend_from_slice(self.backend.bytes(&chunk));
                }
                self.backend.release(chunk);
                self.kept_input(key);
            }
            Received::Nothing => self.settled(key),
            Received::End => self.input_ended(key),
            Received::Failed(error) => self.broken(key, error),
        }
    }

    fn take_queued(&mut self) {
        let Some(key) = self.queue.pop_front() else {
            return;
        };
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        // An entry that is no longer marked was served together with new input.
        if !connection.queued || !connection.is_served() {
            return;
        }
        let input = if connection.backlog.is_empty() {
            Input::None
        } else {
            Input::Owned(std::mem::take(&mut connection.backlog))
        };
        self.push_item(key, input);
    }

    #[inline]
    fn push_item(&mut self, key: Key, input: Input<B::Chunk>) {
        let connection = self.slots.get_mut(key).expect("the caller has seen it");
        connection.in_batch = self.items.len() as u16;
        connection.queued = false;
        connection.activity = connection.activity.wrapping_add(1);
        self.items.push(Item { key, input });
    }

    fn run_batch(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let mut batch: Vec<Ready<'_, S::Conn>> = std::mem::take(&mut self.batch);
        let mut bytes_in = 0;
        for item in &self.items {
            let connection = self.slots.get_mut(item.key).expect("it is in the batch");
            let input = match &item.input {
                Input::None => &[],
                Input::Chunk(chunk) => self.backend.bytes(chunk),
                Input::Owned(bytes) => bytes.as_slice(),
            };
            bytes_in += input.len();
            if connection.output.capacity() == 0 && connection.output.is_empty() {
                connection.output = self.pool.pop().unwrap_or_default();
            }
            batch.push(Ready {
                token: item.key.token(),
                conn: connection
                    .session
                    .take()
                    .expect("it is served and in no other batch"),
                input,
                output: std::mem::take(&mut connection.output),
                flow: Flow::Read,
            });
        }
        let counters = &*self.crew.berths[self.index].gauge.counters;
        counters.batches.add(1);
        counters.batched_connections.add(batch.len() as u64);
        counters.bytes_in.add(bytes_in as u64);
        self.service.prepare(&mut self.worker, &mut batch);
        self.service.run(&mut self.worker, &mut batch);
        // The same memory, without the borrowed input: collecting in place moves nothing.
        let mut answers: Vec<Ready<'static, S::Conn>> = batch
            .into_iter()
            .map(|ready| Ready {
                input: &[],
                ..ready
            })
            .collect();
        for item in self.items.drain(..) {
            match item.input {
                Input::None => {}
                Input::Chunk(chunk) => self.backend.release(chunk),
                Input::Owned(mut bytes) => {
                    if bytes.capacity() <= 2 * JOINED_BYTES_MAX && self.scratch.len() < 4 {
                        bytes.clear();
                        self.scratch.push(bytes);
                    }
                }
            }
        }
        for answer in answers.drain(..) {
            self.settle(answer);
        }
        self.batch = answers;
    }

    /// Puts a connection back after a batch and does what the service answered.
    #[inline]
    fn settle(&mut self, ready: Ready<'static, S::Conn>) {
        let key = Key::of(ready.token);
        let connection = self
            .slots
            .get_mut(key)
            .expect("a connection stays while in a batch");
        connection.in_batch = NOT_IN_BATCH;
        connection.session = Some(ready.conn);
        connection.output = ready.output;
        connection.mode = match ready.flow {
            Flow::Read => Mode::Read,
            Flow::Again => Mode::Again,
            Flow::Drain => Mode::Drain,
            Flow::Hold => Mode::Hold,
            Flow::Close => Mode::Closing(Closed::ByService),
            Flow::Abort => return self.end_session(key, Closed::ByService),
        };
        let wants_run = match connection.mode {
            Mode::Again => true,
            Mode::Read => !connection.backlog.is_empty(),
            _ => false,
        };
        if wants_run && !connection.queued {
            connection.queued = true;
            self.queue.push_back(key);
        }
        self.step(key);
    }

    /// Takes back an output that is not needed.
    #[inline]
    pub(super) fn recycle(&mut self, mut output: Output) {
        let capacity = output.capacity();
        if capacity > 0 && capacity <= OUTPUT_BYTES_MAX && self.pool.len() < POOL_MAX {
            output.clear();
            self.pool.push(output);
        }
    }
}

impl<C> Item<C> {
    fn joined_len<B: Backend<Chunk = C>>(&self, backend: &B) -> usize {
        match &self.input {
            Input::None => 0,
            Input::Chunk(chunk) => backend.bytes(chunk).len(),
            Input::Owned(bytes) => bytes.len(),
        }
    }

    /// Appends a further piece of input.
    fn join<B: Backend<Chunk = C>>(&mut self, backend: &mut B, chunk: C, spare: Vec<u8>) {
        let mut joined = match std::mem::replace(&mut self.input, Input::None) {
            Input::Owned(bytes) => bytes,
            Input::None => spare,
            Input::Chunk(first) => {
                let mut bytes = spare;
                bytes.extend_from_slice(backend.bytes(&first));
                backend.release(first);
                bytes
            }
        };
        joined.extend_from_slice(backend.bytes(&chunk));
        backend.release(chunk);
        self.input = Input::Owned(joined);
    }
}
