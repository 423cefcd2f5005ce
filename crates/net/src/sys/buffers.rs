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
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

const RING_ENTRIES: u16 = 2048;
const BUFFER_BYTES: usize = 4096;
const PROVIDED_INITIAL: u16 = 256;
const RING_BYTES: usize = RING_ENTRIES as usize * size_of::<BufRingEntry>();
const SPACE_BYTES: usize = RING_ENTRIES as usize * BUFFER_BYTES;

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
            ring: map(RING_BYTES)?.cast(),
            space: map(SPACE_BYTES)?,
            tail: 0,
            provided: 0,
        };
        let address = made.ring.as_ptr() as u64;
        // SAFETY: the memory is a mapping, so page aligned; it holds RING_ENTRIES entries, and lives until after the
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

    #[expect(
        clippy::needless_pass_by_value,
        reason = "the chunk must be gone afterwards"
    )]
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
        // SAFETY: both were mapped with these sizes, no slice of them is left (slices borrow self),
        // and the kernel has let go of them (module invariant). They cannot fail to be unmapped.
        unsafe {
            let _ = munmap(self.ring.as_ptr().cast(), RING_BYTES);
            let _ = munmap(self.space.as_ptr().cast(), SPACE_BYTES);
        }
    }
}

/// Fresh zero pages, page aligned; resident only when touched.
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address the kernel chooses touches no existing memory.
    let memory =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
    Ok(NonNull::new(memory.cast()).expect("a mapping is never at address zero"))
}
