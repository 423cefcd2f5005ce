//! The only door to what is not a function of its arguments: time, randomness, threads, locks,
//! files, the process and its signals.
//!
//! It knows no data, no protocol and no sockets. Whoever needs one of these facts takes it from
//! here, so that tests can replace the clock and the seed, and model checkers the locks. `unsafe`
//! exists only in [`sys`], behind safe functions.

pub mod clock;
pub mod fs;
pub mod process;
pub mod random;
pub mod signals;
pub mod sync;
#[expect(unsafe_code, reason = "system calls the safe libraries do not cover")]
mod sys;
pub mod thread;
