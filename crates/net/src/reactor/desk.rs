//! What a service may do to this loop's connections outside a batch.

use super::Reactor;
use crate::backend::{Backend, Key};
use crate::service::{Closed, Desk, Service, Token};
use crate::slots::{Mode, Slots};
use base::output::Output;
use std::collections::VecDeque;

/// A view of a loop that leaves out the service's own state. Its effects on sockets happen in
/// `after_desk`.
struct LoopDesk<'a, C, L> {
    slots: &'a mut Slots<C, L>,
    queue: &'a mut VecDeque<Key>,
    touched: &'a mut Vec<Key>,
    aborted: &'a mut Vec<Key>,
    pool: &'a mut Vec<Output>,
}

impl<C, L> Desk<C> for LoopDesk<'_, C, L> {
    fn resume(&mut self, token: Token) -> bool {
        let key = Key::of(token);
        let Some(connection) = self.slots.get_mut(key).filter(|c| c.is_served()) else {
            return false;
        };
        if !connection.queued {
            connection.queued = true;
            self.queue.push_back(key);
        }
        true
    }

    fn close(&mut self, token: Token, flush: bool) -> bool {
        let key = Key::of(token);
        let Some(connection) = self.slots.get_mut(key).filter(|c| c.is_served()) else {
            return false;
        };
        connection.mode = Mode::Closing(Closed::ByService);
        if flush {
            connection.touched = true;
            self.touched.push(key);
        } else {
            self.aborted.push(key);
        }
        true
    }

    fn with(&mut self, token: Token) -> Option<(&mut C, &mut Output)> {
        let key = Key::of(token);
        let connection = self.slots.get_mut(key).filter(|c| c.is_served())?;
        if !connection.touched {
            connection.touched = true;
            self.touched.push(key);
        }
        if connection.output.capacity() == 0 && connection.output.is_empty() {
            connection.output = self.pool.pop().unwrap_or_default();
        }
        let session = connection.session.as_deref_mut()?;
        Some((session, &mut connection.output))
    }

    fn tokens(&self) -> Vec<Token> {
        let served = self
            .slots
            .iter()
            .filter(|(_, connection)| connection.is_served());
        served.map(|(key, _)| key.token()).collect()
    }
}

impl<S: Service, B: Backend> Reactor<S, B> {
    /// Lets the service work at the desk, then does what it asked for there.
    pub(super) fn at_desk(
        &mut self,
        work: impl FnOnce(&S, &mut S::Worker, &mut dyn Desk<S::Conn>),
    ) {
        let mut desk = LoopDesk {
            slots: &mut self.slots,
            queue: &mut self.queue,
            touched: &mut self.touched,
            aborted: &mut self.aborted,
            pool: &mut self.pool,
        };
        work(&self.service, &mut self.worker, &mut desk);
        self.after_desk();
    }

    /// Does what was asked for at the desk.
    fn after_desk(&mut self) {
        let mut aborted = std::mem::take(&mut self.aborted);
        for key in aborted.drain(..) {
            self.end_session(key, Closed::ByService);
        }
        self.aborted = aborted;
        let mut touched = std::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            if let Some(connection) = self.slots.get_mut(key) {
                connection.touched = false;
                self.step(key);
            }
        }
        self.touched = touched;
    }
}
