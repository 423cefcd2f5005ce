//! The commands, one folder per group. Each command is one function and one static in the file of
//! its verb family; a group's `COMMANDS` slice lists its statics.
//!
//! Knows nothing of sockets, loops and record layouts.
#![forbid(unsafe_code)]
#![allow(
    clippy::unnecessary_wraps,
    reason = "handlers have one type, whether they can fail or not"
)]

pub mod connection;
mod help;
pub mod keys;
pub mod server;
pub mod string;

use engine::Command;

/// Version of Redis whose behaviour and replies these are; clients that look at a version see it.
pub const REDIS_VERSION: &str = "7.0.15";

/// All tables, in the order of the COMMAND reply.
pub static TABLES: &[&[&Command]] = &[
    string::COMMANDS,
    keys::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
];
