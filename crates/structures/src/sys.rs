//! Address space from the kernel, and prefetching.
//!
//! A region is reserved once, readable and writable from end to end, and costs memory only where it
//! has been touched. It is unmapped when its owner is dropped and never before, so a thread that
//! follows an outdated reference finds garbage, not a fault.

use env::sync::atomic::AtomicU64;
use std::io;

/// Reserved address space: zeroes until written.
pub(crate) struct Region {
    base: *const AtomicU64,
    words: usize,
    #[cfg(not(any(loom, miri)))]
    mapping: (*mut libc::c_void, usize),
    #[cfg(any(loom, miri))]
    _memory: Box<[AtomicU64]>,
}

// SAFETY: a region is an array of atomics that nobody owns exclusively; sharing its address is
// sharing atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// What the processor and the kernel can map as one entry.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

#[cfg(not(any(loom, miri)))]
impl Region {
    /// Reserves `bytes`, aligned to a huge page. Huge pages are off until [`Region::collapse`].
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let mapped = bytes
            .checked_add(HUGE_PAGE_BYTES)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let padding = address.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
        let region = Self {
            base: address.wrapping_byte_add(padding).cast_const().cast(),
            words: bytes / 8,
            mapping: (address, mapped),
        };
        #[cfg(target_os = "linux")]
        region.advise(0, bytes, libc::MADV_NOHUGEPAGE);
        Ok(region)
    }

    /// Gives whole pages back; they read as zeroes afterwards. Racing readers are fine with that.
    pub(crate) fn discard(&self, offset: usize, bytes: usize) {
        #[cfg(target_os = "linux")]
        self.advise(offset, bytes, libc::MADV_DONTNEED);
        #[cfg(not(target_os = "linux"))]
        self.advise(offset, bytes, libc::MADV_FREE);
    }

    /// Asks for the range, a multiple of huge pages that is touched in full, to be mapped by huge
    /// pages. Costs a copy of it. False if the kernel will not.
    pub(crate) fn collapse(&self, offset: usize, bytes: usize) -> bool {
        #[cfg(target_os = "linux")]
        {
            self.advise(offset, bytes, libc::MADV_HUGEPAGE)
                && self.advise(offset, bytes, MADV_COLLAPSE)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (offset, bytes);
            false
        }
    }

    fn advise(&self, offset: usize, bytes: usize, advice: libc::c_int) -> bool {
        assert!(offset + bytes <= self.words * 8, "advice beyond the region");
        let address = self.base.wrapping_byte_add(offset).cast_mut().cast();
        // SAFETY: the range lies in our own mapping, whose words are only ever read as atomics that
        // may have any value, so losing the content breaks no reference's promise.
        unsafe { libc::madvise(address, bytes, advice) == 0 }
    }
}

/// Linux 6.1; `libc` does not name it on every target.
#[cfg(all(target_os = "linux", not(any(loom, miri))))]
const MADV_COLLAPSE: libc::c_int = 25;

#[cfg(not(any(loom, miri)))]
impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and references into it borrow the region's owner.
        let result = unsafe { libc::munmap(self.mapping.0, self.mapping.1) };
        assert!(result == 0, "a mapping of ours could not be unmapped");
    }
}

#[cfg(any(loom, miri))]
impl Region {
    #[expect(clippy::unnecessary_wraps, reason = "same interface as the real one")]
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let memory: Box<[AtomicU64]> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            base: memory.as_ptr(),
            words: memory.len(),
            _memory: memory,
        })
    }

    pub(crate) fn discard(&self, _offset: usize, _bytes: usize) {}

    pub(crate) fn collapse(&self, _offset: usize, _bytes: usize) -> bool {
        false
    }
}

impl Region {
    #[inline(always)]
    pub(crate) fn base(&self) -> *const AtomicU64 {
        self.base
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> usize {
        self.words
    }
}

/// Asks for the cache line at `address`; any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: a prefetch has no effect on memory and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly));
    }
    #[cfg(any(loom, miri))]
    let _ = address;
}
