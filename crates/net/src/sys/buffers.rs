//! The ring of receive buffers shared with the kernel.
//!
//! ```text
//! ring, page aligned, 16 bytes an entry; the tail lies in the reserved field of entry 0
//!   | addr u64 | len u32 | id u16 | tail/- u16 |  x RING_ENTRIES
//! space: RING_ENTRIES buffers of BUFFER_BYTES, of which the first `provided` are in use
//! ```
//!
//! Few buffers are in use at first, so that their lines stay in the cache; each time the kernel runs
//! out of them, their number doubles.
//!
//! Invariants:
//! - A buffer is either in the ring (the kernel's) or a [`Chunk`] (ours), never both.
//! - The memory outlives the registration: it is freed only after the ring's descriptor is closed
//!   and all receives have completed (see the parent module).

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

const RING_ENTRIES: u16 = 2048;
const BUFFER_BYTES: usize = 4096;
const PROVIDED_INITIAL: u16 = 256;
const PAGE_BYTES: usize = 65536;

/// The group number under which the buffers are registered.
pub(crate) const GROUP: u16 = 0;

/// A received piece: a buffer that belongs to us, and how much of it is filled.
#[derive(Debug)]
pub(crate) struct Chunk {
    id: u16,
    len: u32,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct BufferRing {
    ring: NonNull<BufRingEntry>,
    space: NonNull<u8>,
    tail: u16,
    provided: u16,
}

impl BufferRing {
    /// Allocates and registers the buffers.
    pub(crate) fn register(ring: &IoUring) -> io::Result<Self> {
        let mut made = Self {
            ring: allocate(ring_layout()).cast(),
            space: allocate(space_layout()),
            tail: 0,
            provided: 0,
        };
        let address = made.ring.as_ptr() as u64;
        // SAFETY: the memory is page aligned, holds RING_ENTRIES entries, and lives until after the
        // ring is closed: the owner drops the ring first (module invariant).
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(address, RING_ENTRIES, GROUP, 0)?;
        }
        made.provide(PROVIDED_INITIAL);
        Ok(made)
    }

    /// The kernel found no free buffer: offers more if there are more.
    pub(crate) fn grow(&mut self) {
        let more = self.provided.min(RING_ENTRIES - self.provided);
        self.provide(more);
    }

    fn provide(&mut self, count: u16) {
        for id in self.provided..self.provided + count {
            self.put(id);
        }
        self.provided += count;
    }

    /// Takes over the buffer that a completion names.
    pub(crate) fn claim(&self, result: i32, flags: u32) -> Option<Chunk> {
        let id = cqueue::buffer_select(flags)?;
        assert!(
            id < self.provided,
            "the kernel names a buffer it was not given"
        );
        let len = result.max(0) as u32;
        assert!(
            len as usize <= BUFFER_BYTES,
            "the kernel filled more than a buffer"
        );
        Some(Chunk { id, len })
    }

    pub(crate) fn bytes<'a>(&'a self, chunk: &'a Chunk) -> &'a [u8] {
        // SAFETY: 1. `claim` checked that id and length lie within the space. 2. The chunk is the
        // proof that the buffer is ours: it came from a completion, cannot be copied, and putting
        // the buffer back consumes it, which this borrow forbids. 3. The kernel filled `len` bytes;
        // the rest was zeroed when allocated.
        unsafe {
            let start = self
                .space
                .as_ptr()
                .add(usize::from(chunk.id) * BUFFER_BYTES);
            std::slice::from_raw_parts(start, chunk.len as usize)
        }
    }

    pub(crate) fn release(&mut self, chunk: Chunk) {
        self.put(chunk.id);
    }

    /// Gives a buffer to the kernel. It must be ours and no slice of it may exist; callers hold
    /// `&mut self` and the chunk, or a number never offered before.
    fn put(&mut self, id: u16) {
        let index = self.tail & (RING_ENTRIES - 1);
        // SAFETY: 1. `index` is below RING_ENTRIES. 2. At most RING_ENTRIES buffers exist and each
        // is in the ring at most once, so the kernel has consumed what was at `index` and does not
        // read that entry before the tail moves. 3. Only this thread writes entries and the tail;
        // the setters leave the reserved field, which is the tail in entry 0, alone.
        unsafe {
            let entry = &mut *self.ring.as_ptr().add(usize::from(index));
            let buffer = self.space.as_ptr().add(usize::from(id) * BUFFER_BYTES);
            entry.set_addr(buffer as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `tail` gives the address of a u16 within entry 0, valid as long as the ring; the
        // kernel reads it concurrently, so it is written atomically, after the entry (release).
        unsafe {
            let tail = BufRingEntry::tail(self.ring.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        // SAFETY: both were allocated with these layouts, and the kernel has let go of them
        // (module invariant).
        unsafe {
            dealloc(self.ring.as_ptr().cast(), ring_layout());
            dealloc(self.space.as_ptr(), space_layout());
        }
    }
}

fn ring_layout() -> Layout {
    let bytes = usize::from(RING_ENTRIES) * size_of::<BufRingEntry>();
    Layout::from_size_align(bytes, PAGE_BYTES).expect("a constant, valid layout")
}

fn space_layout() -> Layout {
    let bytes = usize::from(RING_ENTRIES) * BUFFER_BYTES;
    Layout::from_size_align(bytes, 4096).expect("a constant, valid layout")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layouts above are not of size zero.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
