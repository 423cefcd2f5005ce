//! Commands on keys of any type and on whole databases.

mod copy;
mod expire;
mod find;
mod flush;
mod object;
mod remove;
mod rename;
mod ttl;
mod walk;

pub(crate) use object::{idle_s, references};

use base::number::parse_i64;
use engine::{Command, Error};
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

/// The database that a client names by its number.
///
/// # Errors
/// Not an integer, too large for one, or no database.
pub(crate) fn database(text: &[u8], databases: usize) -> Result<usize, Error> {
    let number = parse_i64(text).ok_or(Error::NotInteger)?;
    let number = i32::try_from(number).map_err(|_| Error::NotInt32)?;
    usize::try_from(number)
        .ok()
        .filter(|db| *db < databases)
        .ok_or(Error::DbOutOfRange)
}

#[cfg(test)]
mod tests {
    use super::database;
    use engine::Error;

    #[test]
    fn database_numbers() {
        assert_eq!(database(b"0", 16), Ok(0));
        assert_eq!(database(b"15", 16), Ok(15));
        assert_eq!(database(b"16", 16), Err(Error::DbOutOfRange));
        assert_eq!(database(b"-1", 16), Err(Error::DbOutOfRange));
        assert_eq!(database(b"2147483648", 16), Err(Error::NotInt32));
        assert_eq!(database(b"1x", 16), Err(Error::NotInteger));
    }
}
