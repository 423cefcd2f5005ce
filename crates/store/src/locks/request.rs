//! A command's wish for key locks, and the one word that says how far it has come.
//!
//! ```text
//!   word:  | phase (8 bits) | pending (56 bits) |
//!
//!   Enqueuing --seal, pending > 0--> Waiting --last pending entry ready--> Granted --> Released
//!       |  \___________seal, pending = 0____________________________________^   |
//!       |                               |                                       v
//!       +-----------cancel--------------+--> Cancelled              LateWaiting (token holder)
//! ```
//!
//! `pending` counts the request's entries that are not *ready* (see [`super::queue`]). It changes
//! only under the mutex of the entry's shard, but entries of several shards change it at once, so
//! every change is a compare-and-swap on the whole word. Hence "the last entry became ready:
//! granted" and "somebody inserted before me: pending again" exclude each other.

use super::table::Mode;
use env::sync::Mutex;
use env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::fmt;
use std::sync::Arc;

/// Who is told about a request, a gate or a token. Calls come from any thread, never with a table
/// locked, and must be short: post to an inbox, set a flag.
pub trait Wake: Send + Sync {
    /// What was waited for has come. At most once per wait.
    fn wake(&self);

    /// Somebody waits, or will wait, for locks of this owner. At most once per request, possibly
    /// before its grant. A slow-lane command raises its priority.
    fn awaited(&self) {}
}

/// All key locks of one command.
///
/// Cloning gives another handle to the same request. Dropping every handle releases nothing: the
/// owner must end with [`LockTable::release`](super::LockTable::release) or
/// [`LockTable::cancel`](super::LockTable::cancel).
#[derive(Clone)]
pub struct Request(pub(super) Arc<Inner>);

pub(super) struct Inner {
    /// Order among requests that have not been granted; unique, from 1.
    pub(super) ticket: u64,
    word: AtomicU64,
    awaited: AtomicBool,
    owner: Arc<dyn Wake>,
    /// Where the entries are. Touched by the owner only.
    pub(super) keys: Mutex<Vec<KeyAt>>,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyAt {
    pub(super) hash: u64,
    pub(super) db: u32,
    pub(super) shard: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The owner is still adding keys.
    Enqueuing,
    /// All keys added, some entries not ready.
    Waiting,
    /// The owner holds all locks.
    Granted,
    /// The owner holds its locks and waits for one more, under the token.
    LateWaiting,
    /// Given up before the grant.
    Cancelled,
    /// Over; entries may still be on their way out and count as held until they are gone.
    Released,
}

const PHASE_SHIFT: u32 = 56;
const PENDING_MASK: u64 = (1 << PHASE_SHIFT) - 1;

const PHASES: [Phase; 6] = [
    Phase::Enqueuing,
    Phase::Waiting,
    Phase::Granted,
    Phase::LateWaiting,
    Phase::Cancelled,
    Phase::Released,
];

fn pack(phase: Phase, pending: u64) -> u64 {
    debug_assert!(pending <= PENDING_MASK);
    (phase as u64) << PHASE_SHIFT | pending
}

fn unpack(word: u64) -> (Phase, u64) {
    (PHASES[(word >> PHASE_SHIFT) as usize], word & PENDING_MASK)
}

impl Request {
    pub(super) fn new(ticket: u64, owner: Arc<dyn Wake>) -> Self {
        Request(Arc::new(Inner {
            ticket,
            word: AtomicU64::new(pack(Phase::Enqueuing, 0)),
            awaited: AtomicBool::new(false),
            owner,
            keys: Mutex::new(Vec::new()),
        }))
    }

    /// Does the owner hold all its locks? (Also true while it waits for a late key.)
    pub fn is_granted(&self) -> bool {
        matches!(self.0.phase(), Phase::Granted | Phase::LateWaiting)
    }

    /// Has somebody had to wait for this request's locks? Whoever starts a granted command asks,
    /// because [`Wake::awaited`] may have been called before there was anything to raise.
    pub fn is_awaited(&self) -> bool {
        self.0.awaited.load(Ordering::Acquire)
    }

    /// The request's place in the order; unique in the process.
    pub fn ticket(&self) -> u64 {
        self.0.ticket
    }

    /// Number of distinct keys.
    pub fn key_count(&self) -> usize {
        self.0.keys.lock().len()
    }
}

impl Inner {
    pub(super) fn phase(&self) -> Phase {
        unpack(self.word.load(Ordering::Acquire)).0
    }

    /// Are the locks held? They still are while a finished request's entries are taken out.
    pub(super) fn holds(&self) -> bool {
        matches!(
            self.phase(),
            Phase::Granted | Phase::LateWaiting | Phase::Released
        )
    }

    pub(super) fn add_key(&self, shard: usize, db: u32, hash: u64) {
        let shard = u32::try_from(shard).expect("shards are few");
        self.keys.lock().push(KeyAt { hash, db, shard });
    }

    /// Takes back the last late key.
    pub(super) fn forget_key(&self, shard: usize, db: u32, hash: u64) {
        let shard = u32::try_from(shard).expect("shards are few");
        let removed = self.keys.lock().pop();
        assert_eq!(
            removed,
            Some(KeyAt { hash, db, shard }),
            "abandons a key it did not ask for last"
        );
    }

    /// Applies `change` until it sticks; `None` refuses. Returns the word before.
    fn update(
        &self,
        change: impl Fn(Phase, u64) -> Option<(Phase, u64)>,
    ) -> Result<(Phase, u64), (Phase, u64)> {
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let (phase, pending) = unpack(word);
                change(phase, pending).map(|(phase, pending)| pack(phase, pending))
            })
            .map(unpack)
            .map_err(unpack)
    }

    /// One more entry is not ready. False if the request holds its locks: it cannot be overtaken.
    pub(super) fn raise_pending(&self) -> bool {
        self.update(|phase, pending| match phase {
            Phase::Enqueuing | Phase::Waiting => Some((phase, pending + 1)),
            Phase::Cancelled => Some((phase, pending)),
            Phase::Granted | Phase::LateWaiting | Phase::Released => None,
        })
        .is_ok()
    }

    /// One entry less is not ready. True if that was the last one and the owner is to be woken.
    pub(super) fn lower_pending(&self) -> bool {
        let before = self.update(|phase, pending| match phase {
            Phase::Waiting | Phase::LateWaiting if pending == 1 => Some((Phase::Granted, 0)),
            Phase::Enqueuing | Phase::Waiting => Some((phase, pending - 1)),
            Phase::Cancelled => Some((phase, pending)),
            Phase::LateWaiting | Phase::Granted | Phase::Released => None,
        });
        match before {
            Ok((Phase::Waiting | Phase::LateWaiting, 1)) => true,
            Ok(_) => false,
            Err(state) => panic!("an entry of a request in {state:?} was not ready"),
        }
    }

    /// All keys are added. True if granted at once.
    pub(super) fn seal(&self) -> bool {
        let before = self.update(|phase, pending| match (phase, pending) {
            (Phase::Enqueuing, 0) => Some((Phase::Granted, 0)),
            (Phase::Enqueuing, pending) => Some((Phase::Waiting, pending)),
            _ => None,
        });
        match before {
            Ok((_, pending)) => pending == 0,
            Err(state) => panic!("sealed in {state:?}"),
        }
    }

    /// False if the locks were granted first.
    pub(super) fn cancel(&self) -> bool {
        let before = self.update(|phase, pending| match phase {
            Phase::Enqueuing | Phase::Waiting => Some((Phase::Cancelled, pending)),
            _ => None,
        });
        match before {
            Ok(_) => true,
            Err((Phase::Granted | Phase::LateWaiting, _)) => false,
            Err(state) => panic!("cancelled in {state:?}"),
        }
    }

    pub(super) fn release(&self) {
        let before = self.update(|phase, pending| match phase {
            Phase::Granted => Some((Phase::Released, pending)),
            _ => None,
        });
        assert!(before.is_ok(), "released in {before:?}");
    }

    /// The owner, which holds its locks, is about to wait for one more.
    pub(super) fn begin_late_wait(&self) {
        let before = self.update(|phase, pending| match (phase, pending) {
            (Phase::Granted, 0) => Some((Phase::LateWaiting, 1)),
            _ => None,
        });
        assert!(before.is_ok(), "waits for a late key in {before:?}");
    }

    /// The late wait ends without the lock. Called with the entry's shard locked, so no grant
    /// comes between.
    pub(super) fn abandon_late_wait(&self) {
        let before = self.update(|phase, pending| match (phase, pending) {
            (Phase::LateWaiting, 1) => Some((Phase::Granted, 0)),
            _ => None,
        });
        assert!(before.is_ok(), "abandons a late key in {before:?}");
    }

    pub(super) fn wake_owner(&self) {
        self.owner.wake();
    }

    /// True the first time: the owner is to be told by [`Inner::tell_awaited`].
    pub(super) fn mark_awaited(&self) -> bool {
        // The plain load keeps a contended line shared once the mark is there.
        !self.awaited.load(Ordering::Relaxed) && !self.awaited.swap(true, Ordering::AcqRel)
    }

    pub(super) fn tell_awaited(&self) {
        self.owner.awaited();
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (phase, pending) = unpack(self.0.word.load(Ordering::Relaxed));
        f.debug_struct("Request")
            .field("ticket", &self.0.ticket)
            .field("phase", &phase)
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}

/// What must be done once no table is locked any more.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) granted: Vec<Arc<Inner>>,
    pub(super) awaited: Vec<Arc<Inner>>,
}

impl Effects {
    pub(super) fn run(self) {
        for request in self.awaited {
            request.tell_awaited();
        }
        for request in self.granted {
            request.wake_owner();
        }
    }
}

/// An entry of a request in a key's queue.
pub(super) struct Entry {
    pub(super) request: Arc<Inner>,
    pub(super) mode: Mode,
    /// Nothing that conflicts is before it or holds the lock; see [`super::queue`].
    pub(super) ready: bool,
    /// Added after the grant, under the token: goes before everything not granted.
    pub(super) late: bool,
}

impl Entry {
    pub(super) fn rank(&self) -> u64 {
        if self.late { 0 } else { self.request.ticket }
    }
}
