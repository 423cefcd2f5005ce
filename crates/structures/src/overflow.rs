//! Overflow buckets of one shard, named by 32-bit numbers; 0 is none.
//!
//! Their memory is only ever reused as overflow buckets and never returned while the pool lives, so
//! a reader that follows an outdated link finds a bucket, if perhaps somebody else's. A free bucket's
//! second word is the number of the next free one; its tags are of no meaning then.

use crate::arena::OutOfMemory;
use crate::bucket::{BUCKET_BYTES, Bucket};
use crate::spin::SpinLock;
use crate::sys::Region;
use env::sync::CachePadded;
use env::sync::atomic::{Ordering, fence};
use std::io;

pub(crate) struct Overflow {
    region: Region,
    buckets: u32,
    state: CachePadded<SpinLock<State>>,
}

struct State {
    free: u32,
    /// The first number never used.
    fresh: u32,
    live: u32,
}

impl Overflow {
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let buckets = u32::try_from(bytes / BUCKET_BYTES)
            .unwrap_or(u32::MAX)
            .max(2);
        Ok(Self {
            region: Region::reserve(buckets as usize * BUCKET_BYTES)?,
            buckets,
            state: CachePadded::new(SpinLock::new(State {
                free: 0,
                fresh: 1,
                live: 0,
            })),
        })
    }

    /// The bucket of a number, which may be outdated. `None` if no bucket ever had it.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the address of a bucket")]
    pub(crate) fn bucket(&self, number: u32) -> Option<Bucket<'_>> {
        if number >= self.buckets {
            return None;
        }
        let first = self.region.base().wrapping_add(number as usize * 8);
        // SAFETY: the number is within the region, which lives as long as `self`.
        Some(unsafe { Bucket::new(first) })
    }

    /// An empty bucket.
    pub(crate) fn take(&self) -> Result<(u32, Bucket<'_>), OutOfMemory> {
        let mut state = self.state.lock();
        let number = if state.free != 0 {
            let number = state.free;
            let bucket = self.bucket(number).ok_or(OutOfMemory)?.owned();
            state.free = bucket.reference(0);
            number
        } else if state.fresh < self.buckets {
            state.fresh += 1;
            state.fresh - 1
        } else {
            return Err(OutOfMemory);
        };
        state.live += 1;
        drop(state);
        // As for slots: see `Arena::alloc`.
        fence(Ordering::Release);
        let bucket = self.bucket(number).ok_or(OutOfMemory)?.owned();
        bucket.control().store(0, Ordering::Relaxed);
        bucket.wipe();
        Ok((number, bucket))
    }

    /// Gives a bucket back. The caller has latched the chain it was in.
    pub(crate) fn give(&self, number: u32) {
        let bucket = self
            .bucket(number)
            .expect("the number of a bucket in use")
            .owned();
        let mut state = self.state.lock();
        bucket.set_reference(0, state.free);
        state.free = number;
        state.live -= 1;
    }

    /// Bytes of buckets in use, and of buckets that were ever used.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let state = self.state.lock();
        let bytes = BUCKET_BYTES as u64;
        (
            u64::from(state.live) * bytes,
            u64::from(state.fresh) * bytes,
        )
    }
}
