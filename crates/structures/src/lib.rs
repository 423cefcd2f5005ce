//! Concurrent data structures over memory that is reused while others may still be reading it.
//!
//! [`keymap`] is one shard of the keyspace: keys, values, deadlines and the locks on their buckets.
//! This crate knows no commands, no clients, no clock and no files; it never decides whether a key
//! has expired, only what its deadline is. It is one of the few places where `unsafe` is allowed,
//! and everything it offers is safe to call.

#[cfg(target_endian = "big")]
compile_error!("record layouts are little-endian");

pub mod keymap;

mod arena;
#[expect(unsafe_code, reason = "buckets live in reserved address space")]
mod bucket;
mod latch;
mod overflow;
mod record;
mod scan;
#[expect(unsafe_code, reason = "buffers on the stack that are not zeroed first")]
mod small;
#[expect(
    unsafe_code,
    reason = "a lock's owner reaches its value through a shared reference"
)]
mod spin;
#[expect(
    unsafe_code,
    reason = "address space comes from the kernel; prefetch instructions"
)]
mod sys;
mod table;
mod view;
#[expect(unsafe_code, reason = "record memory is read while it may be written")]
mod words;

#[cfg(test)]
mod keymap_model;
#[cfg(test)]
mod loom_model;
#[cfg(test)]
mod stress;

pub use keymap::{Config, KeyMap};
