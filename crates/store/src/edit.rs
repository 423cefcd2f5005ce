//! Changing one key under a hold. Every change is counted here, so that whether a command changed
//! something never depends on what its handler says.

use crate::hold::{Hold, Kind};
use crate::keys::KeyUse;
use base::output::Blob;
use structures::keymap::{Expire as Deadline, Latch, OutOfMemory, Probe, Slot, Value, View};

/// What happens to a key's expiry when its value is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expire {
    /// Stays as it is.
    Keep,
    /// Is removed.
    Clear,
    /// Unix time, ms.
    At(i64),
}

/// One key open for changing.
#[derive(Debug)]
pub struct Edit<'h, 'a> {
    latch: LatchRef<'h, 'a>,
    probe: Probe<'a>,
    slot: Option<Slot<'a>>,
    edits: &'h mut u32,
    #[expect(clippy::box_collection, reason = "the hold's own field")]
    dropped: &'h mut Option<Box<Vec<Blob>>>,
    grew: &'h mut bool,
}

#[derive(Debug)]
enum LatchRef<'h, 'a> {
    Borrowed(&'h mut Latch<'a>),
    Owned(Latch<'a>),
}

impl<'h, 'a> Edit<'h, 'a> {
    pub(crate) fn open(hold: &'h mut Hold<'a>, index: usize) -> Edit<'h, 'a> {
        let key: KeyUse<'a> = hold.keys[index];
        let latch = match &mut hold.kind {
            Kind::One(latch) => LatchRef::Borrowed(latch),
            Kind::Many { latches, of_key } => {
                LatchRef::Borrowed(&mut latches[of_key[index] as usize])
            }
            Kind::Granted => {
                // Nothing is latched now: a table grows while a command of very many keys fills it.
                if hold.grew {
                    hold.store.map(key.hash).maintain(key.db);
                }
                LatchRef::Owned(hold.store.latch_surely(&key))
            }
            Kind::Nothing | Kind::Reading => {
                unreachable!("a command that only reads opens a key for changing")
            }
        };
        let probe = Probe {
            key: key.key,
            hash: key.hash,
        };
        let mut edit = Edit {
            slot: None,
            latch,
            probe,
            edits: &mut hold.edits,
            dropped: &mut hold.dropped,
            grew: &mut hold.grew,
        };
        edit.slot = edit.latch().find(&edit.probe);
        if let Some(slot) = edit.slot
            && edit
                .latch()
                .view(slot)
                .expire_at()
                .is_some_and(|at| at <= hold.now_ms)
        {
            edit.take_out(slot);
            hold.expired += 1;
        }
        edit
    }

    fn latch(&self) -> &Latch<'a> {
        match &self.latch {
            LatchRef::Borrowed(latch) => latch,
            LatchRef::Owned(latch) => latch,
        }
    }

    fn latch_mut(&mut self) -> &mut Latch<'a> {
        match &mut self.latch {
            LatchRef::Borrowed(latch) => latch,
            LatchRef::Owned(latch) => latch,
        }
    }

    fn drop_later(&mut self, blob: Option<Blob>) {
        if let Some(blob) = blob {
            self.dropped.get_or_insert_default().push(blob);
        }
    }

    fn take_out(&mut self, slot: Slot<'a>) {
        let blob = self.latch_mut().remove(slot);
        self.drop_later(blob);
        self.slot = None;
        *self.grew = true;
    }

    /// Does the key exist?
    #[inline]
    pub fn exists(&self) -> bool {
        self.slot.is_some()
    }

    /// The record, if the key exists.
    #[inline]
    pub fn view(&self) -> Option<View<'_>> {
        self.slot.map(|slot| self.latch().view(slot))
    }

    /// Sets the value, creating the key if need be.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then the key is unchanged.
    #[inline]
    pub fn set(&mut self, value: Value<'_>, expire: Expire) -> Result<(), OutOfMemory> {
        if let Some(slot) = self.slot {
            let expiry = match expire {
                Expire::Keep => Deadline::Keep,
                Expire::Clear => Deadline::Clear,
                Expire::At(at) => Deadline::At(at),
            };
            let probe = self.probe;
            let (slot, blob) = self.latch_mut().replace(slot, &probe, value, expiry)?;
            self.slot = Some(slot);
            self.drop_later(blob);
        } else {
            let at = match expire {
                Expire::Keep | Expire::Clear => None,
                Expire::At(at) => Some(at),
            };
            let probe = self.probe;
            self.slot = Some(self.latch_mut().insert(&probe, value, at)?);
            *self.grew = true;
        }
        *self.edits += 1;
        Ok(())
    }

    /// Removes the key. True if it existed.
    pub fn remove(&mut self) -> bool {
        let Some(slot) = self.slot else { return false };
        self.take_out(slot);
        *self.edits += 1;
        true
    }

    /// Sets or removes the expiry of an existing key.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then the key is unchanged.
    pub fn set_expire(&mut self, at_ms: Option<i64>) -> Result<(), OutOfMemory> {
        let slot = self.slot.expect("the key exists");
        self.slot = Some(self.latch_mut().set_expire(slot, at_ms)?);
        *self.edits += 1;
        Ok(())
    }

    /// Appends to the string. Returns its new length in bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then the key is unchanged.
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, OutOfMemory> {
        let Some(slot) = self.slot else {
            self.set(Value::Bytes(bytes), Expire::Clear)?;
            return Ok(bytes.len());
        };
        let (slot, len) = self.latch_mut().append(slot, bytes)?;
        self.slot = Some(slot);
        *self.edits += 1;
        Ok(len)
    }

    /// Overwrites part of the string from `offset`, filling a gap with zero bytes. Returns its
    /// length in bytes afterwards.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then the key is unchanged.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) -> Result<usize, OutOfMemory> {
        let slot = if let Some(slot) = self.slot {
            slot
        } else {
            let probe = self.probe;
            let slot = self.latch_mut().insert(&probe, Value::Slack(&[]), None)?;
            *self.grew = true;
            slot
        };
        let (slot, len) = self.latch_mut().overwrite(slot, offset, bytes)?;
        self.slot = Some(slot);
        *self.edits += 1;
        Ok(len)
    }

    /// Sets the value to an integer; the expiry stays.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then the key is unchanged.
    pub fn set_int(&mut self, value: i64) -> Result<(), OutOfMemory> {
        let Some(slot) = self.slot else {
            return self.set(Value::Int(value), Expire::Clear);
        };
        self.slot = Some(self.latch_mut().set_int(slot, value)?);
        *self.edits += 1;
        Ok(())
    }

    /// Marks the key as just used.
    pub fn touch(&mut self, access: u8) {
        if let Some(slot) = self.slot {
            self.latch_mut().touch(slot, access);
        }
    }
}

impl Hold<'_> {
    /// Puts a copy of key `from`, value and expiry, in the place of key `to`; `keep` leaves the
    /// source where it is.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then both keys are unchanged.
    pub fn transfer(&mut self, from: usize, to: usize, keep: bool) -> Result<(), OutOfMemory> {
        let mut scratch = Vec::new();
        let source = self.edit(from);
        let view = source.view().expect("the source exists");
        let expire = view.expire_at().map_or(Expire::Clear, Expire::At);
        let value = view.export(&mut scratch);
        drop(source);
        self.edit(to).set(value, expire)?;
        if !keep {
            self.edit(from).remove();
        }
        Ok(())
    }
}
