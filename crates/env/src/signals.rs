//! Signals as values to wait for, instead of handlers that interrupt.
//!
//! [`install`] blocks the wanted signals in the calling thread; threads started later inherit that,
//! so it is called in `main` before any thread exists. Then one thread waits for them.

use crate::sys::{self, SignalSet};
use std::io;

/// The signals a server is told things by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGTERM: end in order.
    Terminate,
    /// SIGINT: end in order, from a terminal.
    Interrupt,
    /// SIGHUP.
    HangUp,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
}

impl Signal {
    const ALL: [Self; 5] = [
        Self::Terminate,
        Self::Interrupt,
        Self::HangUp,
        Self::User1,
        Self::User2,
    ];

    fn number(self) -> libc::c_int {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
            Self::HangUp => libc::SIGHUP,
            Self::User1 => libc::SIGUSR1,
            Self::User2 => libc::SIGUSR2,
        }
    }

    /// The name, as in `SIGTERM`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::HangUp => "SIGHUP",
            Self::User1 => "SIGUSR1",
            Self::User2 => "SIGUSR2",
        }
    }
}

/// The signals taken over by [`install`], to be waited for by one thread.
#[derive(Debug)]
pub struct Signals {
    set: SignalSet,
}

/// Takes over `signals` for the whole process and ignores SIGPIPE, so that writing to a closed
/// connection is an error and not the end. Must be called before threads are started.
pub fn install(signals: &[Signal]) -> io::Result<Signals> {
    let set = SignalSet::of(signals.iter().map(|signal| signal.number()));
    set.block()?;
    sys::ignore_signal(libc::SIGPIPE)?;
    Ok(Signals { set })
}

/// Ignores a signal for the whole process.
pub fn ignore(signal: Signal) -> io::Result<()> {
    sys::ignore_signal(signal.number())
}

impl Signals {
    /// The next signal, waiting for it up to `limit_ms` milliseconds; `None` if none came.
    pub fn wait_ms(&self, limit_ms: u64) -> io::Result<Option<Signal>> {
        Ok(self.set.wait(Some(limit_ms))?.and_then(named))
    }
}

impl Iterator for Signals {
    type Item = Signal;

    /// Waits for the next signal; the sequence ends only if the kernel refuses to wait.
    fn next(&mut self) -> Option<Signal> {
        loop {
            if let Some(number) = self.set.wait(None).ok()? {
                return named(number);
            }
        }
    }
}

fn named(number: libc::c_int) -> Option<Signal> {
    Signal::ALL
        .into_iter()
        .find(|signal| signal.number() == number)
}
