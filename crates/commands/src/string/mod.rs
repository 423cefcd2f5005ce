//! Commands on strings.
//!
//! A string is any sequence of bytes. How it is stored (number, packed text, bytes, out of line) is
//! the store's business; here only what clients can see of it counts.

mod count;
mod deadline;
mod get;
mod many;
mod range;
mod set;

use base::number::parse_i64;
use engine::{Command, Error};
use resp::Reply;
use store::{Kind, View};

/// The group's commands.
pub static COMMANDS: &[&Command] = &[
    &range::APPEND,
    &count::DECR,
    &count::DECRBY,
    &get::GET,
    &get::GETDEL,
    &get::GETEX,
    &range::GETRANGE,
    &get::GETSET,
    &count::INCR,
    &count::INCRBY,
    &count::INCRBYFLOAT,
    &many::MGET,
    &many::MSET,
    &many::MSETNX,
    &set::PSETEX,
    &set::SET,
    &set::SETEX,
    &set::SETNX,
    &range::SETRANGE,
    &range::STRLEN,
    &range::SUBSTR,
];

/// Digits and sign of the longest 64-bit integer.
const INTEGER_BYTES_MAX: usize = 20;

/// The record, if it is a string.
#[inline]
fn string<'r, 'v>(view: &'r View<'v>) -> Result<&'r View<'v>, Error> {
    if view.kind() == Kind::String {
        Ok(view)
    } else {
        Err(Error::WrongType)
    }
}

/// Writes a string as a bulk; a value out of line is shared, not copied.
#[inline]
fn write_string(reply: &mut Reply<'_>, view: &View<'_>) -> Result<(), Error> {
    let view = string(view)?;
    if let Some(blob) = view.blob() {
        reply.blob(blob);
    } else {
        reply.bulk_header(view.len());
        view.copy_into(reply.bytes());
        reply.bulk_end();
    }
    Ok(())
}

/// Writes a string, or null if there is none.
#[inline]
fn write_string_or_null(reply: &mut Reply<'_>, view: Option<&View<'_>>) -> Result<(), Error> {
    if let Some(view) = view {
        return write_string(reply, view);
    }
    reply.null();
    Ok(())
}

/// The string as a 64-bit integer; one that has grown byte by byte may spell one, too.
fn integer(view: &View<'_>) -> Result<i64, Error> {
    let view = string(view)?;
    if let Some(value) = view.as_int() {
        return Ok(value);
    }
    if view.len() > INTEGER_BYTES_MAX {
        return Err(Error::NotInteger);
    }
    let mut text = Vec::with_capacity(INTEGER_BYTES_MAX);
    view.copy_into(&mut text);
    parse_i64(&text).ok_or(Error::NotInteger)
}
