//! Giving connections to less busy loops.
//!
//! Each loop measures the share of a window (one tick) it did not spend waiting. The busiest loop
//! that stays ahead of the least busy one by more than a fifth gives it one connection per window:
//! the most active one whose share of the work is at most about half the difference, so that the
//! two do not just change places. Only the loop itself gives away, and only when nothing of the
//! connection is with the kernel or the service: so no byte is lost or overtaken.

use super::Reactor;
use crate::backend::{Backend, Key};
use crate::crew::Mail;
use crate::service::Service;
use crate::slots::{Mode, NOT_IN_BATCH};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Loads closer than this (thousandths of a window) are left alone, however they compare.
const DIFFERENCE_PERMILLE_MIN: u64 = 100;

/// What the last windows have shown.
#[derive(Debug)]
pub(super) struct Balance {
    window_began: u64,
    busy_ns: u64,
    /// Activities have been counted from zero since the last window, which was out of balance.
    counting: bool,
    /// A connection is on its way out.
    departing: Option<Key>,
}

impl Balance {
    pub(super) fn new(now: u64) -> Self {
        Self {
            window_began: now,
            busy_ns: 0,
            counting: false,
            departing: None,
        }
    }
}

impl<S: Service, B: Backend> Reactor<S, B> {
    /// Closes a window: publishes the load and, if this loop is too busy, gives one away.
    pub(super) fn rebalance(&mut self) {
        let window_ns = self.now - self.balance.window_began;
        if window_ns == 0 {
            return;
        }
        let counters = &*self.crew.berths[self.index].gauge.counters;
        let busy_ns = counters.busy_ns.get();
        let busy = ((busy_ns - self.balance.busy_ns) * 1000 / window_ns).min(1000);
        counters.busy_permille.set(busy);
        self.balance.window_began = self.now;
        self.balance.busy_ns = busy_ns;
        if let Some(key) = self.balance.departing.take() {
            self.stay(key);
        }
        let Some((target, difference)) = self.lighter_loop(busy) else {
            self.balance.counting = false;
            return;
        };
        let chosen = if self.balance.counting {
            self.choose(busy, difference)
        } else {
            None
        };
        for (_, connection) in self.slots.iter_mut() {
            connection.activity = 0;
        }
        self.balance.counting = true;
        if let Some(key) = chosen {
            self.balance.departing = Some(key);
            let connection = self.slots.get_mut(key).expect("just chosen");
            connection.moving = Some(target);
            self.watch(key);
        }
    }

    /// The least busy loop and how far it is behind, if this one is the busiest and out of balance.
    fn lighter_loop(&self, busy: u64) -> Option<(u16, u64)> {
        if self.stop_at.is_some() || self.slots.len() < 2 {
            return None;
        }
        let others = self
            .crew
            .berths
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != self.index);
        let loads = others.map(|(index, berth)| (berth.gauge.counters.busy_permille.get(), index));
        if loads.clone().any(|(load, _)| load > busy) {
            return None;
        }
        let (least, index) = loads.min()?;
        let difference = busy - least;
        let out_of_balance = difference >= DIFFERENCE_PERMILLE_MIN && busy * 5 > least * 6;
        out_of_balance.then_some((index as u16, difference))
    }

    fn choose(&self, busy: u64, difference: u64) -> Option<Key> {
        let total: u64 = self.slots.iter().map(|(_, c)| u64::from(c.activity)).sum();
        let fits = |activity: u32| u64::from(activity) * busy * 5 <= total * difference * 3;
        self.slots
            .iter()
            .filter(|(_, c)| c.activity > 0 && fits(c.activity) && c.mode == Mode::Read)
            .filter(|(_, c)| {
                c.session
                    .as_deref()
                    .is_some_and(|s| self.service.movable(s))
            })
            .max_by_key(|(_, c)| c.activity)
            .map(|(key, _)| key)
    }

    /// Gives the connection away if nothing of it is anywhere else; else it is tried again at the
    /// next step.
    pub(super) fn try_depart(&mut self, key: Key) {
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        let Some(target) = connection.moving else {
            return;
        };
        let quiet = connection.mode == Mode::Read
            && connection.in_batch == NOT_IN_BATCH
            && !connection.queued
            && !connection.touched
            && !connection.ended
            && connection.output.is_empty()
            && self.backend.is_idle(&connection.link);
        if !quiet {
            return;
        }
        let session = connection
            .session
            .as_deref()
            .expect("a connection that reads has a session");
        if !self.service.movable(session) {
            return self.stay(key);
        }
        self.backend
            .cancel(key, connection.socket.as_fd(), &mut connection.link);
        let left = self.slots.remove(key).expect("just seen");
        let letter = Mail::Adopt {
            socket: left.socket,
            session: left.session.expect("just seen"),
            output: left.output,
            backlog: left.backlog,
        };
        let own = &self.crew.berths[self.index].gauge;
        let other = &self.crew.berths[usize::from(target)];
        other.gauge.assigned.fetch_add(1, Ordering::Relaxed);
        own.assigned.fetch_sub(1, Ordering::Relaxed);
        own.counters
            .connections
            .set(own.counters.connections.get().saturating_sub(1));
        own.counters.migrated.add(1);
        if let Err(letter) = other.post(letter) {
            // That loop has ended, so all are ending.
            other.gauge.assigned.fetch_sub(1, Ordering::Relaxed);
            self.refuse_letter(letter);
        }
    }

    /// The connection does not move after all.
    fn stay(&mut self, key: Key) {
        if let Some(connection) = self.slots.get_mut(key)
            && connection.moving.take().is_some()
        {
            self.step(key);
        }
    }
}
