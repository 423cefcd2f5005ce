//! A command's hold on its keys: all of them or none, from before its handler until after its
//! commit.
//!
//! Four kinds: *nothing* (no keys); *reading* (one key, optimistic, writes nothing); *latched* (the
//! latches of all keys, for short commands); *granted* (the keys are locked in the lock table, each
//! bucket is latched only while it is touched).
//!
//! Invariants:
//! - Latches are taken with a bounded spin and given back whole if one is busy, so their order
//!   cannot deadlock and no thread waits.
//! - A latched hold exists only if no key of it is locked in a conflicting way by somebody else.
//! - Splits and shrinks run after the latches are gone.
//! - What is to be dropped and may be large (values out of line) is dropped last.

use crate::edit::Edit;
use crate::keys::KeyUse;
use crate::locks::Mode;
use crate::store::Store;
use base::output::Blob;
use smallvec::SmallVec;
use structures::keymap::{Latch, Probe, Seen, View};

/// Keys looked after between two yields at the end of a slow command.
const KEYS_PER_YIELD: usize = 256;
/// Spins for one latch before a command is deferred.
const LATCH_SPINS: u32 = 200;

/// An optimistic read met a writer too often: run again under latches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry;

/// Why keys could not be latched now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// A latch is held by another thread, for microseconds.
    Latch,
    /// A key is locked by a command that takes long, or others wait for it already.
    Locked,
}

#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Nothing,
    Reading,
    One(Latch<'a>),
    /// `of_key[k]` is the latch of key `k`; keys of one bucket share it.
    Many {
        latches: Vec<Latch<'a>>,
        of_key: Vec<u16>,
    },
    Granted,
}

/// The first and the last key met whose time is over.
#[derive(Debug, Clone, Copy)]
struct Stale {
    first: u32,
    last: u32,
}

impl Stale {
    #[cold]
    fn note(stale: &mut Option<Stale>, index: usize) {
        let index = index as u32;
        *stale = Some(match *stale {
            None => Stale {
                first: index,
                last: index,
            },
            Some(Stale { first, last }) => Stale {
                first: first.min(index),
                last: last.max(index),
            },
        });
    }
}

/// The hold. Numbered keys are those of the command, in order.
#[derive(Debug)]
pub struct Hold<'a> {
    pub(crate) store: &'a Store,
    pub(crate) keys: &'a [KeyUse<'a>],
    pub(crate) kind: Kind<'a>,
    pub(crate) now_ms: i64,
    pub(crate) edits: u32,
    pub(crate) expired: u32,
    /// Reads met keys whose time is over; they are removed once the hold ends, if it was not
    /// granted.
    stale: Option<Stale>,
    pub(crate) grew: bool,
    /// Made with the first value that is dropped.
    #[expect(
        clippy::box_collection,
        reason = "a hold is made for every command and is kept small"
    )]
    pub(crate) dropped: Option<Box<Vec<Blob>>>,
}

impl Store {
    fn hold<'a>(&'a self, keys: &'a [KeyUse<'a>], kind: Kind<'a>, now_ms: i64) -> Hold<'a> {
        Hold {
            store: self,
            keys,
            kind,
            now_ms,
            edits: 0,
            expired: 0,
            stale: None,
            grew: false,
            dropped: None,
        }
    }

    /// A hold on no keys.
    pub fn hold_nothing(&self, now_ms: i64) -> Hold<'_> {
        self.hold(&[], Kind::Nothing, now_ms)
    }

    /// A hold for reading optimistically; nothing is taken.
    #[inline]
    pub fn hold_reading<'a>(&'a self, keys: &'a [KeyUse<'a>], now_ms: i64) -> Hold<'a> {
        self.hold(keys, Kind::Reading, now_ms)
    }

    /// A hold for a command whose key locks are granted.
    pub fn hold_granted<'a>(&'a self, keys: &'a [KeyUse<'a>], now_ms: i64) -> Hold<'a> {
        self.hold(keys, Kind::Granted, now_ms)
    }

    /// Takes the latches of all keys.
    ///
    /// # Errors
    /// [`Busy`]; then nothing is held.
    #[inline]
    pub fn hold_latched<'a>(
        &'a self,
        keys: &'a [KeyUse<'a>],
        now_ms: i64,
        write: bool,
    ) -> Result<Hold<'a>, Busy> {
        let mode = if write { Mode::Exclusive } else { Mode::Shared };
        let kind = if let [key] = keys {
            Kind::One(self.latch_one(key, mode)?)
        } else {
            self.latch_many(keys, mode)?
        };
        Ok(self.hold(keys, kind, now_ms))
    }

    #[inline]
    fn latch_one(&self, key: &KeyUse<'_>, mode: Mode) -> Result<Latch<'_>, Busy> {
        let mut latch = self
            .map(key.hash)
            .latch(key.db, key.hash, LATCH_SPINS)
            .ok_or(Busy::Latch)?;
        self.check_unlocked(&mut latch, key, mode)?;
        Ok(latch)
    }

    /// Sends the command to the lock table if its bucket says that a key in it is locked.
    #[inline]
    fn check_unlocked(
        &self,
        latch: &mut Latch<'_>,
        key: &KeyUse<'_>,
        mode: Mode,
    ) -> Result<(), Busy> {
        if !latch.key_locked() {
            return Ok(());
        }
        self.look_into_lock_table(latch, key, mode)
    }

    #[cold]
    fn look_into_lock_table(
        &self,
        latch: &mut Latch<'_>,
        key: &KeyUse<'_>,
        mode: Mode,
    ) -> Result<(), Busy> {
        let shard = self.shard(key.hash);
        if self.locks.blocks(shard, key.db as u32, key.hash, mode) {
            return Err(Busy::Locked);
        }
        if !self
            .locks
            .any_entry_matching(shard, key.db as u32, |hash| latch.covers(hash))
        {
            latch.set_key_locked(false);
        }
        Ok(())
    }

    fn latch_many<'a>(&'a self, keys: &[KeyUse<'a>], mode: Mode) -> Result<Kind<'a>, Busy> {
        // Each key's place is worked out once, not for every comparison.
        let mut order: SmallVec<[_; 16]> = keys
            .iter()
            .zip(0u16..)
            .map(|(key, index)| {
                let bucket = self.map(key.hash).bucket_id(key.db, key.hash);
                (self.shard(key.hash), bucket, index)
            })
            .collect();
        order.sort_unstable();
        let mut latches: Vec<Latch<'a>> = Vec::with_capacity(keys.len());
        let mut of_key = vec![0; keys.len()];
        let mut last: Option<(usize, usize)> = None;
        for (_, _, index) in order {
            let key = &keys[index as usize];
            let place = (self.shard(key.hash), key.db);
            let shared = last == Some(place)
                && latches
                    .last()
                    .is_some_and(|latch: &Latch<'_>| latch.covers(key.hash));
            if !shared {
                let map = self.map(key.hash);
                latches.push(
                    map.latch(key.db, key.hash, LATCH_SPINS)
                        .ok_or(Busy::Latch)?,
                );
                last = Some(place);
            }
            let own = latches.len() - 1;
            of_key[index as usize] = own as u16;
            self.check_unlocked(&mut latches[own], key, mode)?;
        }
        Ok(Kind::Many { latches, of_key })
    }

    /// Latches a bucket for somebody who may not give up: key locks are granted, the command has
    /// begun. Latches are held for microseconds, so this ends.
    pub(crate) fn latch_surely<'a>(&'a self, key: &KeyUse<'_>) -> Latch<'a> {
        loop {
            if let Some(latch) = self.map(key.hash).latch(key.db, key.hash, LATCH_SPINS) {
                return latch;
            }
            env::thread::yield_now();
        }
    }
}

impl<'a> Hold<'a> {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Changes made so far.
    #[inline]
    pub fn edits(&self) -> u64 {
        u64::from(self.edits)
    }

    /// Keys removed because their time was over.
    #[inline]
    pub fn expired(&self) -> u64 {
        u64::from(self.expired)
    }

    /// Lets `look` see key `index`, `None` if it does not exist or its time is over. On an
    /// optimistic hold `look` may be called several times.
    ///
    /// # Errors
    /// [`Retry`]: run the command again under latches.
    #[inline]
    pub fn view<R>(
        &mut self,
        index: usize,
        mut look: impl FnMut(Option<&View<'_>>) -> R,
    ) -> Result<R, Retry> {
        let key = self.keys[index];
        let now_ms = self.now_ms;
        let probe = Probe {
            key: key.key,
            hash: key.hash,
        };
        let over = |view: &View<'_>| view.expire_at().is_some_and(|at| at <= now_ms);
        match &self.kind {
            Kind::Nothing => unreachable!("a command without keys looks at a key"),
            Kind::Reading => {
                let mut result = None;
                let mut stale = false;
                let map = self.store.map(key.hash);
                let seen = map.read(key.db, &probe, &mut |view: &View<'_>| {
                    stale = over(view);
                    result = Some(look(if stale { None } else { Some(view) }));
                });
                match seen {
                    Seen::Hit => {
                        if stale {
                            Stale::note(&mut self.stale, index);
                        }
                        Ok(result.expect("a hit shows its record"))
                    }
                    Seen::Miss => Ok(look(None)),
                    Seen::Busy => Err(Retry),
                }
            }
            Kind::One(latch) => Ok(view_latched(
                latch,
                &probe,
                over,
                look,
                &mut self.stale,
                index,
            )),
            Kind::Many { latches, of_key } => {
                let latch = &latches[of_key[index] as usize];
                Ok(view_latched(
                    latch,
                    &probe,
                    over,
                    look,
                    &mut self.stale,
                    index,
                ))
            }
            Kind::Granted => {
                let latch = self.store.latch_surely(&key);
                Ok(view_latched(
                    &latch,
                    &probe,
                    over,
                    look,
                    &mut self.stale,
                    index,
                ))
            }
        }
    }

    /// Opens key `index` for changing; an expired key is removed first.
    #[inline]
    pub fn edit(&mut self, index: usize) -> Edit<'_, 'a> {
        Edit::open(self, index)
    }

    /// Ends the hold: latches go, then growth and shrinking of the tables, then what is dropped.
    #[inline]
    pub fn finish(&mut self) {
        // The command's own locks keep its keys where they are; the sweep takes them later.
        if matches!(self.kind, Kind::Granted) {
            self.stale = None;
        }
        if !matches!(self.kind, Kind::Nothing | Kind::Reading) {
            self.kind = Kind::Nothing;
        }
        if self.grew {
            for (index, key) in self.keys.iter().enumerate() {
                self.store.map(key.hash).maintain(key.db);
                // So many keys are a slow command's; others run in between.
                if index % KEYS_PER_YIELD == KEYS_PER_YIELD - 1 {
                    env::thread::yield_now();
                }
            }
        }
        if let Some(Stale { first, last }) = self.stale.take() {
            for key in &self.keys[first as usize..=last as usize] {
                self.store.expire_if_due(key, self.now_ms);
            }
        }
        if let Some(dropped) = self.dropped.take() {
            self.store.drop_later(*dropped);
        }
    }
}

fn view_latched<R>(
    latch: &Latch<'_>,
    probe: &Probe<'_>,
    over: impl Fn(&View<'_>) -> bool,
    mut look: impl FnMut(Option<&View<'_>>) -> R,
    stale: &mut Option<Stale>,
    index: usize,
) -> R {
    let Some(slot) = latch.find(probe) else {
        return look(None);
    };
    let view = latch.view(slot);
    if over(&view) {
        Stale::note(stale, index);
        look(None)
    } else {
        look(Some(&view))
    }
}
