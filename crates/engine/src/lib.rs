//! The engine: from bytes of a connection to replies. Knows commands, sessions, locks and their
//! order; knows no sockets, no record layouts and no particular command.
#![forbid(unsafe_code)]

pub mod clients;
pub mod command;
mod commit;
pub mod config;
pub mod cx;
pub mod error;
mod execute;
mod gates;
pub mod keyset;
mod lane;
mod rates;
pub mod registry;
pub mod server;
pub mod session;
pub mod slowlog;
pub mod stats;
pub mod worker;

pub use command::{
    Arg, ArgKind, Args, Categories, Command, Flags, Group, KeyFlags, KeySpec, Outcome,
};
pub use cx::Cx;
pub use error::Error;
pub use keyset::KeySet;
