//! The keyspace: databases, shards, locks, expiry, walks, and the threads for slow commands.
//!
//! Safe code over `structures`. Knows no commands, no sessions and no protocol.
#![forbid(unsafe_code)]

mod edit;
mod expiry;
mod hold;
pub mod inbox;
mod keys;
pub mod locks;
mod object;
pub mod safepoint;
pub mod slow_lane;
mod store;
mod walk;

pub use edit::{Edit, Expire};
pub use expiry::{SweepCursor, Swept};
pub use hold::{Busy, Hold, Retry};
pub use keys::{KeyUse, KeyUses};
pub use locks::{Mode as LockMode, Request as LockRequest, Wake};
pub use object::Encoding;
pub use safepoint::Participant;
pub use slow_lane::SlowCx;
pub use store::{Store, StoreConfig, StoreMemory};
pub use structures::keymap::{Kind, OutOfMemory, Value, View};
