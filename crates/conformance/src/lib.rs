//! Transcripts: Markdown files of commands and expected replies, run against real servers.
//!
//! A transcript is prose with code blocks fenced as `redis`. In a block, `> SET key value` is
//! sent and the lines below it are the expected reply, in the notation of [`notation`]. Each block
//! runs, command by command and again as one pipeline, against this server and against a real
//! redis-server, which proves that the expectations themselves are right. `transcripts/README.md`
//! tells how to write one.
//!
//! Beside them, tests of what transcripts cannot show: concurrent clients ([`history`]) and hostile
//! ones.
//!
//! This crate starts processes and speaks its own RESP; it never uses the server's crates.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test tool that starts other programs: it must not share the server's door to the system"
)]

pub mod coverage;
pub mod run;
pub mod transcript;

pub mod notation;
pub mod quoting;
pub mod value;

pub mod history;
pub mod random;

pub mod connection;
pub mod process;
