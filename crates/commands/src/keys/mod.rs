//! Commands on keys of any type and on whole databases.
#![allow(
    clippy::unnecessary_wraps,
    reason = "handlers have one type, whether they can fail or not"
)]

mod copy;
mod expire;
mod find;
mod flush;
mod object;
mod remove;
mod rename;
mod ttl;
mod walk;



pub(crate) use object::idle_s;

use engine::Command;
use store::Kind;

/// The group's commands.
pub static COMMANDS: &[&Command] = &[
    &copy::COPY,
    &walk::DBSIZE,
    &remove::DEL,
    &find::EXISTS,
    &expire::EXPIRE,
    &expire::EXPIREAT,
    &ttl::EXPIRETIME,
    &flush::FLUSHALL,
    &flush::FLUSHDB,
    &walk::KEYS,
    &copy::MOVE,
    &object::OBJECT,
    &ttl::PERSIST,
    &expire::PEXPIRE,
    &expire::PEXPIREAT,
    &ttl::PEXPIRETIME,
    &ttl::PTTL,
    &walk::RANDOMKEY,
    &rename::RENAME,
    &rename::RENAMENX,
    &walk::SCAN,
    &flush::SWAPDB,
    &find::TOUCH,
    &ttl::TTL,
    &find::TYPE,
    &remove::UNLINK,
];

/// Keys handled between two breaths on the slow lane.
const KEYS_PER_BREATH: usize = 64;

/// The name of a type, as TYPE answers and SCAN filters.
const fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
    }
}
