//! Every error text a client can read, once. Texts and codes are those of redis-server 7.0.

use std::borrow::Cow;

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The key holds another type.
    WrongType,
    /// Grammar of the options.
    Syntax,
    /// Not a 64-bit integer.
    NotInteger,
    /// Not a number.
    NotFloat,
    /// An integer beyond the allowed range.
    OutOfRange,
    /// An increment or decrement would overflow.
    Overflow,
    /// DECRBY by the smallest integer, which has no opposite.
    DecrementOverflow,
    /// An integer outside what a C `int` holds where one is wanted.
    NotInt32,
    /// EXPIRE with NX beside another condition.
    ExpireNxConflict,
    /// EXPIRE with both GT and LT.
    ExpireGtLtConflict,
    /// EXPIRE with a word it does not know.
    UnsupportedOption(String),
    /// OBJECT FREQ without an LFU policy.
    FrequencyNotTracked,
    /// INCRBYFLOAT would give NaN or infinity.
    NanOrInfinity,
    /// SETRANGE, GETRANGE offsets.
    OffsetOutOfRange,
    /// A string would exceed `proto-max-bulk-len`.
    StringTooLong,
    /// The key does not exist.
    NoSuchKey,
    /// Source and destination are the same.
    SameObject,
    /// A database number that is none.
    DbOutOfRange,
    /// SELECT with something that is no number.
    InvalidDbIndex,
    /// SWAPDB's first number.
    InvalidFirstDbIndex,
    /// SWAPDB's second number.
    InvalidSecondDbIndex,
    /// A cursor that is none.
    InvalidCursor,
    /// An expiry that is none; the command's name in small letters.
    InvalidExpire(&'static str),
    /// Wrong number of arguments; the full name in small letters.
    Arity(Cow<'static, str>),
    /// No such command: name and the first arguments.
    UnknownCommand(String),
    /// No such subcommand: container (capitals) and what was given.
    UnknownSubcommand(&'static str, String),
    /// Memory cannot be had.
    OutOfMemory,
    /// Not authenticated.
    NoAuth,
    /// Wrong user or password.
    WrongPass,
    /// Too many slow commands wait already.
    SlowLaneFull,
    /// Anything else; with its code (`ERR ...`).
    Text(Cow<'static, str>),
    /// Not for clients: the optimistic reads of this command met a writer; it runs again under
    /// latches.
    Retry,
}

/// What a client sent, at most `bytes_max` of it, for quoting in an error: up to the first zero byte,
/// and what is not UTF-8 replaced.
pub fn quoted(sent: &[u8], bytes_max: usize) -> String {
    let sent = sent.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(&sent[..sent.len().min(bytes_max)]).into_owned()
}

impl Error {
    /// A fixed text, code included.
    pub const fn text(text: &'static str) -> Error {
        Error::Text(Cow::Borrowed(text))
    }

    /// A text made at run time, code included.
    pub fn owned(text: String) -> Error {
        Error::Text(Cow::Owned(text))
    }

    /// The line a client reads, without the leading `-`.
    pub fn line(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Error::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::Syntax => "ERR syntax error",
            Error::NotInteger => "ERR value is not an integer or out of range",
            Error::NotFloat => "ERR value is not a valid float",
            Error::OutOfRange => "ERR value is out of range",
            Error::Overflow => "ERR increment or decrement would overflow",
            Error::DecrementOverflow => "ERR decrement would overflow",
            Error::NotInt32 => {
                "ERR value is out of range, value must between -2147483648 and 2147483647"
            }
            Error::ExpireNxConflict => {
                "ERR NX and XX, GT or LT options at the same time are not compatible"
            }
            Error::ExpireGtLtConflict => {
                "ERR GT and LT options at the same time are not compatible"
            }
            Error::UnsupportedOption(given) => {
                return Cow::Owned(format!("ERR Unsupported option {given}"));
            }
            Error::FrequencyNotTracked => {
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data \
                 will take some time to adjust."
            }
            Error::NanOrInfinity => "ERR increment would produce NaN or Infinity",
            Error::OffsetOutOfRange => "ERR offset is out of range",
            Error::StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Error::NoSuchKey => "ERR no such key",
            Error::SameObject => "ERR source and destination objects are the same",
            Error::DbOutOfRange => "ERR DB index is out of range",
            Error::InvalidDbIndex => "ERR invalid DB index",
            Error::InvalidFirstDbIndex => "ERR invalid first DB index",
            Error::InvalidSecondDbIndex => "ERR invalid second DB index",
            Error::InvalidCursor => "ERR invalid cursor",
            Error::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Error::SlowLaneFull => "BUSY too many slow commands are waiting; try again later",
            Error::NoAuth => "NOAUTH Authentication required.",
            Error::WrongPass => "WRONGPASS invalid username-password pair or user is disabled.",
            Error::InvalidExpire(name) => {
                return Cow::Owned(format!("ERR invalid expire time in '{name}' command"));
            }
            Error::Arity(name) => {
                return Cow::Owned(format!(
                    "ERR wrong number of arguments for '{name}' command"
                ));
            }
            Error::UnknownCommand(what) => {
                return Cow::Owned(format!("ERR unknown command {what}"));
            }
            Error::UnknownSubcommand(container, given) => {
                return Cow::Owned(format!(
                    "ERR unknown subcommand '{given}'. Try {container} HELP."
                ));
            }
            Error::Text(text) => text,
            Error::Retry => unreachable!("a retry is handled before any reply is written"),
        })
    }

    /// The code clients and error statistics see: the first word.
    pub fn code(&self) -> String {
        let line = self.line();
        line.split(' ').next().unwrap_or("ERR").to_owned()
    }
}
