//! Memory of the records of one shard: slots of fixed sizes, named by 32-bit references.
//!
//! ```text
//! region   | page 0: never used | block 0 ............. | block 1 | ...   | guard |
//! block    16 pages;  run: 1, 2, 4, 8 or 16 pages of one block, all slots of one class
//! free     a freed slot's first word is the reference of the next free slot of its run
//! ```
//!
//! A reference times eight is a byte offset; 0 is none. The slot's owner knows its class from the
//! record in it, so the arena keeps nothing per slot. Runs of a class grow with the class: the first
//! is one page, and a new one is about an eighth of what the class has.
//!
//! Slots may be read by anybody at any time (see [`crate::words`]): freed slots, reused ones, and
//! pages returned to the kernel read as garbage. `alloc` ends with a release fence, so whoever sees
//! a word of the new record also sees that its former bucket was latched when it was freed.
//!
//! All state is behind one spin lock, the innermost of all locks.

pub(crate) mod class;
mod pages;

use crate::spin::SpinLock;
use crate::sys::{self, HUGE_PAGE_BYTES, Region};
use class::{CLASSES, slot_bytes};
use env::sync::CachePadded;
use env::sync::atomic::{Ordering, fence};
use pages::{BLOCK_BYTES, ORDER_MAX, PAGE_BYTES, Pages};
use std::io;

use crate::words::{READABLE_WORDS, Words};

/// The reserved space, or the memory of the machine, is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// Occupancy of one slot size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassStats {
    pub slot_bytes: usize,
    /// Slots in use.
    pub slots: u64,
    /// Bytes of pages set aside for this size.
    pub reserved_bytes: u64,
}

/// What an arena holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// Bytes of slots in use.
    pub used_bytes: u64,
    /// Bytes of pages that belong to runs.
    pub reserved_bytes: u64,
    /// Bytes of address space that were ever in use.
    pub frontier_bytes: u64,
    /// Sizes in use, ascending.
    pub classes: Vec<ClassStats>,
}

pub(crate) struct Arena {
    region: Region,
    state: CachePadded<SpinLock<State>>,
}

struct State {
    classes: [Class; CLASSES],
    runs: Vec<Run>,
    free_runs: Vec<u32>,
    /// Run of each page.
    page_runs: Vec<u32>,
    pages: Pages,
    used_bytes: u64,
    /// Stretches of a huge page that were mapped by one.
    huge: Vec<bool>,
    /// The stretch to look at next.
    huge_next: usize,
}

#[derive(Clone, Copy)]
struct Class {
    /// Runs with free slots, a list through `Run::next`.
    partial: u32,
    slots: u64,
    pages: u64,
}

#[derive(Clone, Copy)]
struct Run {
    page: u32,
    /// First freed slot.
    free: u32,
    live: u16,
    /// Slots handed out at least once.
    fresh: u16,
    capacity: u16,
    class: u8,
    order: u8,
    next: u32,
    previous: u32,
}

const NONE: u32 = u32::MAX;
/// Pages of a stretch that may be without memory when it is mapped by a huge page, in parts of all.
const UNTOUCHED_SHARE: usize = 50;
/// Stretches looked at in one step.
const STRETCHES_PER_STEP: usize = 16;
/// Free blocks kept for the next growth before memory is returned, in parts of all blocks.
const IDLE_SHARE: usize = 64;

impl Arena {
    /// Reserves `bytes` of address space, at most 32 GiB.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.min(8 << 32).next_multiple_of(BLOCK_BYTES);
        Ok(Self {
            region: Region::reserve(bytes + READABLE_WORDS * 8)?,
            state: CachePadded::new(SpinLock::new(State {
                classes: [Class {
                    partial: NONE,
                    slots: 0,
                    pages: 0,
                }; CLASSES],
                runs: Vec::new(),
                free_runs: Vec::new(),
                page_runs: Vec::new(),
                pages: Pages::new(bytes.min((8 << 32) - BLOCK_BYTES)),
                used_bytes: 0,
                huge: Vec::new(),
                huge_next: 0,
            })),
        })
    }

    /// The memory behind a reference that `alloc` has given out once.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the address of a slot")]
    pub(crate) fn words(&self, reference: u32) -> Words<'_> {
        let first = self.region.base().wrapping_add(reference as usize);
        // SAFETY: 1. every reference ever stored in a bucket came from `alloc` of this arena, which
        // gives out places within the region less the readable guard; 2. buckets hold links to
        // overflow buckets only where a reader is told so by the control word it loaded; a reader
        // that is behind may take one for the other, and `Arena::contains` is asked first; 3. the
        // region lives as long as `self`.
        unsafe { Words::new(first) }
    }

    /// Whether a number read without a latch can be a reference.
    #[inline(always)]
    pub(crate) fn contains(&self, reference: u32) -> bool {
        (reference as usize) < self.region.words() - READABLE_WORDS
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, reference: u32) {
        let first = self.region.base().wrapping_add(reference as usize);
        sys::prefetch(first);
        sys::prefetch(first.wrapping_add(8));
        // Records of a hundred bytes reach into a third line as often as not.
        sys::prefetch(first.wrapping_add(12));
    }

    /// A slot of a class. Its words are garbage.
    #[inline]
    pub(crate) fn alloc(&self, class: usize) -> Result<u32, OutOfMemory> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut index = state.classes[class].partial;
        if index == NONE {
            index = state.new_run(class)?;
        }
        let slot = slot_bytes(class);
        let run = &mut state.runs[index as usize];
        let reference = if run.free != 0 {
            let reference = run.free;
            run.free = self.words(reference).load(0) as u32;
            reference
        } else {
            let byte = run.page as usize * PAGE_BYTES + usize::from(run.fresh) * slot;
            run.fresh += 1;
            (byte / 8) as u32
        };
        run.live += 1;
        if run.live == run.capacity {
            state.unlink(index);
        }
        state.classes[class].slots += 1;
        state.used_bytes += slot as u64;
        // A reader that sees what is about to be written here must also see that the bucket it came
        // by was latched when the slot was freed; the freeing thread had the lock we now hold.
        fence(Ordering::Release);
        Ok(reference)
    }

    /// Gives a slot back. The caller has latched the only bucket that refers to it.
    #[inline]
    pub(crate) fn free(&self, reference: u32, class: usize) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let index = state.page_runs[reference as usize * 8 / PAGE_BYTES];
        let run = &mut state.runs[index as usize];
        assert!(
            usize::from(run.class) == class,
            "a slot freed as another size"
        );
        self.words(reference).store(0, u64::from(run.free));
        run.free = reference;
        let was_full = run.live == run.capacity;
        run.live -= 1;
        let is_empty = run.live == 0;
        state.classes[class].slots -= 1;
        state.used_bytes -= slot_bytes(class) as u64;
        if was_full {
            state.link(index);
        }
        if is_empty {
            state.retire(index);
        }
    }

    /// Bytes of pages that belong to runs.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.state.lock().pages.used * PAGE_BYTES as u64
    }

    pub(crate) fn stats(&self) -> ArenaStats {
        let state = self.state.lock();
        let classes = state.classes.iter().enumerate();
        ArenaStats {
            used_bytes: state.used_bytes,
            reserved_bytes: state.pages.used * PAGE_BYTES as u64,
            frontier_bytes: u64::from(state.pages.frontier()) * BLOCK_BYTES as u64,
            classes: classes
                .filter(|(_, class)| class.pages > 0)
                .map(|(index, class)| ClassStats {
                    slot_bytes: slot_bytes(index),
                    slots: class.slots,
                    reserved_bytes: class.pages * PAGE_BYTES as u64,
                })
                .collect(),
        }
    }

    /// Returns the memory of one empty block to the kernel, if there are more than a few. Gives
    /// whether it did.
    pub(crate) fn trim_step(&self) -> bool {
        let block = {
            let mut state = self.state.lock();
            let keep = state.pages.frontier() as usize / IDLE_SHARE;
            if state.pages.dirty_len() <= keep {
                return false;
            }
            state.pages.take_dirty()
        };
        let Some(block) = block else { return false };
        // The block is in no list, so nobody allocates from it meanwhile.
        self.region
            .discard(block as usize * BLOCK_BYTES, BLOCK_BYTES);
        let mut state = self.state.lock();
        state.pages.returned(block);
        let stretch = block as usize * BLOCK_BYTES / HUGE_PAGE_BYTES;
        if let Some(huge) = state.huge.get_mut(stretch) {
            *huge = false;
        }
        true
    }

    /// Looks at the next stretches, round and round, and maps the first by a huge page whose pages
    /// are all but a few in use already, so that nearly no memory is added. Gives whether it did.
    pub(crate) fn collapse_step(&self) -> bool {
        let Some(stretch) = self.state.lock().stretch_to_collapse() else {
            return false;
        };
        self.region
            .collapse(stretch * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
        true
    }
}

impl State {
    fn new_run(&mut self, class: usize) -> Result<u32, OutOfMemory> {
        let slot = slot_bytes(class);
        let share = (self.classes[class].pages / 8).max(1);
        let order = share.ilog2().clamp(order_min(slot), ORDER_MAX);
        // When large groups are used up, smaller ones may be left.
        let (page, order) = (order_min(slot)..=order)
            .rev()
            .find_map(|order| Some((self.pages.take(order)?, order)))
            .ok_or(OutOfMemory)?;
        let run = Run {
            page,
            free: 0,
            live: 0,
            fresh: 0,
            capacity: ((PAGE_BYTES << order) / slot) as u16,
            class: class as u8,
            order: order as u8,
            next: NONE,
            previous: NONE,
        };
        let index = if let Some(index) = self.free_runs.pop() {
            self.runs[index as usize] = run;
            index
        } else {
            self.runs.push(run);
            (self.runs.len() - 1) as u32
        };
        let pages = page as usize..(page + (1 << order)) as usize;
        if self.page_runs.len() < pages.end {
            self.page_runs.resize(pages.end, NONE);
        }
        self.page_runs[pages].fill(index);
        self.classes[class].pages += 1 << order;
        self.link(index);
        Ok(index)
    }

    /// Gives an empty run's pages back, unless it is the smallest and last of its class.
    #[cold]
    fn retire(&mut self, index: u32) {
        let run = self.runs[index as usize];
        let class = &mut self.classes[usize::from(run.class)];
        if class.pages == 1 << run.order && run.order == 0 {
            return;
        }
        class.pages -= 1 << run.order;
        self.unlink(index);
        let pages = run.page as usize..(run.page + (1 << run.order)) as usize;
        self.page_runs[pages].fill(NONE);
        self.pages.give(run.page, u32::from(run.order));
        self.free_runs.push(index);
    }

    fn link(&mut self, index: u32) {
        let class = usize::from(self.runs[index as usize].class);
        let head = std::mem::replace(&mut self.classes[class].partial, index);
        self.runs[index as usize].next = head;
        self.runs[index as usize].previous = NONE;
        if head != NONE {
            self.runs[head as usize].previous = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Run {
            class,
            next,
            previous,
            ..
        } = self.runs[index as usize];
        if previous == NONE {
            self.classes[usize::from(class)].partial = next;
        } else {
            self.runs[previous as usize].next = next;
        }
        if next != NONE {
            self.runs[next as usize].previous = previous;
        }
    }

    /// A stretch worth a huge page, among the next few.
    fn stretch_to_collapse(&mut self) -> Option<usize> {
        let pages = HUGE_PAGE_BYTES / PAGE_BYTES;
        let stretches = self.pages.frontier() as usize * BLOCK_BYTES / HUGE_PAGE_BYTES;
        self.huge.resize(stretches.max(self.huge.len()), false);
        for _ in 0..stretches.min(STRETCHES_PER_STEP) {
            let stretch = self.huge_next % stretches;
            self.huge_next = stretch + 1;
            if self.huge[stretch] {
                continue;
            }
            let first = stretch * pages;
            let touched = (first..first + pages)
                .filter(|&page| self.is_touched(page))
                .count();
            if touched + pages / UNTOUCHED_SHARE >= pages {
                self.huge[stretch] = true;
                return Some(stretch);
            }
        }
        None
    }

    /// Is there memory behind this page, because a slot in it was handed out?
    fn is_touched(&self, page: usize) -> bool {
        match self.page_runs.get(page) {
            Some(&index) if index != NONE => {
                let run = &self.runs[index as usize];
                let slot = slot_bytes(usize::from(run.class));
                (page - run.page as usize) * PAGE_BYTES < usize::from(run.fresh) * slot
            }
            _ => false,
        }
    }
}

/// The smallest run that loses at most an eighth behind its last slot.
fn order_min(slot: usize) -> u32 {
    (0..ORDER_MAX)
        .find(|order| {
            let bytes = PAGE_BYTES << order;
            bytes >= slot && bytes % slot * 8 <= bytes
        })
        .unwrap_or(ORDER_MAX)
}
