//! RESP, both directions, without any input or output: bytes to requests, replies to bytes.
//!
//! Knows no commands, no connections and no sockets.
#![forbid(unsafe_code)]

pub mod inline;
mod reply;
mod request;

pub use reply::{Reply, Version};
pub use request::{ArgRef, Limits, Parsed, Progress, ProtocolError, parse_command};
