//! Key locks: isolation for commands that last longer than a bucket latch may be held.
//!
//! A key lock is an entry in its shard's table, made only for slow-lane commands, scripts,
//! commands of very many keys, and whoever has to wait for one of these. Short commands hold
//! latches and never come here unless a bucket's key-locked bit sends them.
//!
//! This module knows no records, no buckets, no sessions and no threads: keys are `(shard,
//! database, hash)`, owners are something that can be woken. Two keys with one hash share a lock,
//! which costs time at worst.
//!
//! Protocol and invariants are in [`table`]; the request's state word in [`request`]; the token
//! for waiting while holding in [`token`].

mod queue;
mod request;
mod table;
mod token;

pub use request::{Request, Wake};
pub use table::{LockTable, Mode};
pub use token::{TokenClaim, TokenHeld, WaitToken};

#[cfg(all(test, not(loom)))]
mod model_tests;

#[cfg(all(test, loom))]
mod loom_tests;
