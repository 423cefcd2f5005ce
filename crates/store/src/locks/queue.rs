//! One key's queue: who holds it, who waits, in which order.
//!
//! ```text
//!   rank 0: late keys of running scripts | ticket 3 | ticket 7 | ticket 9 | ...
//!                                          shared     shared     exclusive
//!                                          ready      ready      not ready
//! ```
//!
//! Entries stand in the order of their tickets. An entry is *ready* when nothing that conflicts
//! with it stands before it and no conflicting holder exists anywhere in the queue; a request whose
//! entries are all ready is granted. A *holder* is a ready entry of a granted request.
//!
//! Invariants, with the shard's mutex held:
//! 1. Ready entries are pairwise compatible: one exclusive, or some shared.
//! 2. A ready entry whose request is not granted has nothing conflicting before it. So inserting
//!    before it makes it unready again, unless its request is granted at that moment: then the
//!    newcomer waits for it, as for any holder.
//! 3. In a queue that is not empty, some entry is ready.
//! 4. An unready entry waits only for holders and for requests with earlier tickets.

use super::request::{Effects, Entry, Inner};
use super::table::Mode;
use std::sync::Arc;

/// Queue of one key. Made by the first entry, gone with the last.
#[derive(Default)]
pub(super) struct Queue {
    entries: Vec<Entry>,
    ready: u32,
    exclusive: u32,
    ready_exclusive: bool,
}

/// May a late key of `request` be taken past `other`? Not past holders, earlier tickets, or the
/// owner of the token. (What yields may be granted before it is overtaken: `insert` decides.)
fn yields(other: &Entry, request: &Inner, mode: Mode) -> bool {
    !mode.conflicts(other.mode)
        || (!other.late && !other.request.holds() && other.request.ticket > request.ticket)
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Would a command that is not in the queue have to wait in it?
    pub(super) fn blocks(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => self.exclusive > 0,
            Mode::Exclusive => !self.entries.is_empty(),
        }
    }

    /// Adds an entry of a request that is still enqueuing. False if the request has one already
    /// (then the stronger mode stays).
    pub(super) fn enqueue(
        &mut self,
        request: &Arc<Inner>,
        mode: Mode,
        effects: &mut Effects,
    ) -> bool {
        let present = self.find(request);
        if let Some(at) = present {
            if self.entries[at].mode >= mode {
                return false;
            }
            let weaker = self.take(at);
            if !weaker.ready {
                let granted = request.lower_pending();
                assert!(!granted, "granted while enqueuing");
            }
        }
        let entry = Entry {
            request: Arc::clone(request),
            mode,
            ready: false,
            late: false,
        };
        if !self.insert(entry, effects) {
            let raised = request.raise_pending();
            assert!(raised, "granted while enqueuing");
        }
        present.is_none()
    }

    /// Adds a key to a running command if that overtakes nobody with an earlier ticket and
    /// conflicts with no holder. `None` if it does not; otherwise whether the entry is new.
    pub(super) fn try_add_late(
        &mut self,
        request: &Arc<Inner>,
        mode: Mode,
        effects: &mut Effects,
    ) -> Option<bool> {
        if let Some(at) = self.find(request) {
            if self.entries[at].mode >= mode {
                return Some(false);
            }
            if self.ready != 1 {
                return None;
            }
            // The only ready entry is our own shared one: making it exclusive takes the lock from
            // nobody, since whoever else is here waits for an exclusive entry between us.
            self.entries[at].mode = Mode::Exclusive;
            self.exclusive += 1;
            self.ready_exclusive = true;
            return Some(false);
        }
        if !self
            .entries
            .iter()
            .all(|other| yields(other, request, mode))
        {
            return None;
        }
        let entry = Entry {
            request: Arc::clone(request),
            mode,
            ready: false,
            late: true,
        };
        if self.insert(entry, effects) {
            return Some(true);
        }
        // Somebody was granted between the two looks.
        let at = self.find(request).expect("inserted above");
        self.take(at);
        self.promote(effects);
        None
    }

    /// Adds a key to the running command that owns the token, before everything not granted. The
    /// command waits if the entry is not ready. Returns (ready, new).
    pub(super) fn add_late(
        &mut self,
        request: &Arc<Inner>,
        mode: Mode,
        effects: &mut Effects,
    ) -> (bool, bool) {
        let held = self.find(request).map(|at| self.entries[at].mode);
        if held >= Some(mode) {
            return (true, false);
        }
        let entry = Entry {
            request: Arc::clone(request),
            mode,
            ready: false,
            late: true,
        };
        let ready = self.insert(entry, effects);
        if !ready {
            request.begin_late_wait();
        }
        (ready, held.is_none())
    }

    /// Takes back a late entry that is not ready. `None` if there is none; otherwise whether the
    /// request holds the key nevertheless, in a weaker mode.
    pub(super) fn abandon_late(
        &mut self,
        request: &Arc<Inner>,
        effects: &mut Effects,
    ) -> Option<bool> {
        let waiting =
            |entry: &Entry| entry.late && !entry.ready && Arc::ptr_eq(&entry.request, request);
        let at = self.entries.iter().position(waiting)?;
        self.take(at);
        request.abandon_late_wait();
        self.promote(effects);
        Some(self.find(request).is_some())
    }

    /// Removes the request's entry and lets in whoever waited for it.
    pub(super) fn remove(&mut self, request: &Arc<Inner>, effects: &mut Effects) {
        let at = self.find(request).expect("a request's key is in its queue");
        self.take(at);
        self.promote(effects);
    }

    /// The request's entry that counts: the ready one, if an upgrade waits beside it.
    fn find(&self, request: &Arc<Inner>) -> Option<usize> {
        let own = |entry: &Entry| Arc::ptr_eq(&entry.request, request);
        let at = self
            .entries
            .partition_point(|entry| entry.rank() < request.ticket);
        if self.entries.get(at).is_some_and(own) {
            return Some(at);
        }
        // Late entries are at the front, and few.
        let late = self.entries.iter().take_while(|entry| entry.late);
        late.enumerate()
            .find(|(_, entry)| own(entry))
            .map(|(at, _)| at)
    }

    /// Number of ready entries of the request itself: an upgrade does not wait for its own.
    fn own_ready(&self, request: &Arc<Inner>) -> u32 {
        let at = self.find(request);
        u32::from(at.is_some_and(|at| self.entries[at].ready))
    }

    /// Puts an entry in its place and settles who is ready. True if the entry is.
    fn insert(&mut self, mut entry: Entry, effects: &mut Effects) -> bool {
        let rank = entry.rank();
        let mode = entry.mode;
        let waiting_before = self.waiting();
        let at = self.entries.partition_point(|other| other.rank() <= rank);
        if self.ready_exclusive || (mode == Mode::Exclusive && self.ready > 0) {
            self.overtake(at, mode);
        }
        let own = self.own_ready(&entry.request);
        let free_of_ready = match mode {
            Mode::Shared => !self.ready_exclusive,
            Mode::Exclusive => self.ready == own,
        };
        let free_of_earlier = entry.late
            || match mode {
                Mode::Shared if self.exclusive == 0 => true,
                Mode::Shared => self.entries[..at].iter().all(|e| e.mode == Mode::Shared),
                Mode::Exclusive => at == 0,
            };
        entry.ready = free_of_ready && free_of_earlier;
        let ready = entry.ready;
        let upgrade = ready && own > 0;
        if upgrade {
            // Replaces the request's weaker entry.
            let weaker = self.find(&entry.request).expect("found above");
            self.take(weaker);
        }
        let request = Arc::clone(&entry.request);
        let at = self.entries.partition_point(|other| other.rank() <= rank);
        self.count(&entry);
        self.entries.insert(at, entry);
        self.mark_holders(waiting_before, ready.then_some(&request), effects);
        ready
    }

    /// Makes conflicting entries from `at` on unready, where their requests are not granted.
    fn overtake(&mut self, at: usize, mode: Mode) {
        for entry in &mut self.entries[at..] {
            if entry.ready && mode.conflicts(entry.mode) && entry.request.raise_pending() {
                entry.ready = false;
                self.ready -= 1;
                self.ready_exclusive &= entry.mode != Mode::Exclusive;
            }
        }
    }

    /// Makes ready, from the front, whatever has nothing conflicting before it any more.
    fn promote(&mut self, effects: &mut Effects) {
        if self.waiting() == 0 || self.ready_exclusive {
            return;
        }
        let mut at = 0;
        while at < self.entries.len() {
            let exclusive = self.entries[at].mode == Mode::Exclusive;
            if !self.entries[at].ready {
                let request = Arc::clone(&self.entries[at].request);
                if exclusive {
                    let own = self.own_ready(&request);
                    if self.ready > own {
                        return;
                    }
                    if own > 0 {
                        let weaker = self.find(&request).expect("counted above");
                        self.take(weaker);
                        at -= usize::from(weaker < at);
                    }
                }
                self.entries[at].ready = true;
                self.ready += 1;
                self.ready_exclusive = exclusive;
                if self.waiting() > 0 && request.mark_awaited() {
                    effects.awaited.push(Arc::clone(&request));
                }
                if request.lower_pending() {
                    effects.granted.push(request);
                }
            }
            if exclusive {
                return;
            }
            at += 1;
        }
    }

    /// Tells those who hold the lock, or will first, that somebody waits behind them.
    fn mark_holders(
        &self,
        waiting_before: usize,
        newcomer: Option<&Arc<Inner>>,
        effects: &mut Effects,
    ) {
        if self.waiting() == 0 {
            return;
        }
        if waiting_before == 0 {
            let ready = self.entries.iter().filter(|entry| entry.ready);
            let unaware = ready.filter(|entry| entry.request.mark_awaited());
            effects
                .awaited
                .extend(unaware.map(|entry| Arc::clone(&entry.request)));
        } else if let Some(newcomer) = newcomer
            && newcomer.mark_awaited()
        {
            effects.awaited.push(Arc::clone(newcomer));
        }
    }

    fn waiting(&self) -> usize {
        self.entries.len() - self.ready as usize
    }

    fn count(&mut self, entry: &Entry) {
        let exclusive = entry.mode == Mode::Exclusive;
        self.exclusive += u32::from(exclusive);
        self.ready += u32::from(entry.ready);
        self.ready_exclusive |= exclusive && entry.ready;
    }

    fn take(&mut self, at: usize) -> Entry {
        let entry = self.entries.remove(at);
        let exclusive = entry.mode == Mode::Exclusive;
        self.exclusive -= u32::from(exclusive);
        self.ready -= u32::from(entry.ready);
        self.ready_exclusive &= !(exclusive && entry.ready);
        entry
    }

    /// Checks the invariants of the module header; O(n).
    #[cfg(all(test, not(loom)))]
    pub(super) fn check_invariants(&self) {
        let ready = self.entries.iter().filter(|entry| entry.ready).count();
        let exclusive = |entry: &&Entry| entry.mode == Mode::Exclusive;
        assert_eq!(ready, self.ready as usize);
        assert_eq!(
            self.entries.iter().filter(exclusive).count(),
            self.exclusive as usize
        );
        assert!(self.entries.is_sorted_by_key(Entry::rank));
        assert!(self.entries.is_empty() || ready > 0, "nobody is ready");
        for (at, entry) in self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.ready)
        {
            assert_eq!(
                entry.mode == Mode::Exclusive,
                self.ready_exclusive,
                "ready entries conflict"
            );
            assert!(entry.mode == Mode::Shared || ready == 1);
            let before = &self.entries[..at];
            assert!(
                entry.request.holds()
                    || before.iter().all(|other| !other.mode.conflicts(entry.mode)),
                "overtaken but ready"
            );
        }
    }
}
