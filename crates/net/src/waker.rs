//! Waking a loop from any thread.

use crate::bell::Bell;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// Wakes one loop from any thread: it will soon call [`Service::inbox`](crate::Service::inbox).
///
/// Cheap while the loop is awake (one atomic exchange); a system call if it sleeps. What is to be
/// found in the inbox must be put there before.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bell: Bell,
    signal: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Self> {
        let signal = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Shared {
            bell: Bell::new(),
            signal,
        })))
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        if self.0.bell.ring() {
            match rustix::io::write(&self.0.signal, &1u64.to_ne_bytes()) {
                // The counter is full: it has been readable for long, which is all we want.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => panic!("an eventfd of ours cannot be written: {error}"),
            }
        }
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.0.bell
    }

    /// The descriptor that becomes readable (an edge) for a signal. It is never read: 2^64 - 2
    /// signals would be needed to fill it.
    pub(crate) fn signal(&self) -> BorrowedFd<'_> {
        self.0.signal.as_fd()
    }
}
