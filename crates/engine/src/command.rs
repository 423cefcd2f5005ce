//! What a command is: one static per command, from which everything else is derived: lookup, arity
//! check, key extraction, the lock set, ACL categories, gates, COMMAND and its subcommands,
//! COMPAT.md and the documentation.
//!
//! A mistake that can be seen in the table stops the build: [`Command::checked`] is evaluated at
//! compile time.

use crate::{cx::Cx, error::Error, keyset::KeySet};
use resp::ArgRef;

/// What a handler gives back. What it changed is counted by the hold on its keys, not claimed here.
pub type Outcome = Result<(), Error>;

/// Executes a command whose locks are held.
pub type Handler = fn(&mut Cx<'_>, Args<'_>) -> Outcome;

/// Names the keys of commands whose keys lie in other databases than the selected one.
pub type KeyFinder =
    fn(selected: usize, databases: usize, args: Args<'_>, keys: &mut KeySet) -> Outcome;

/// Says whether this invocation is slow (over about 100 µs) and belongs on the slow lane.
/// Asks for the number of keys in the selected database only if the answer depends on it.
pub type CostEstimate = fn(keys_in_database: &dyn Fn() -> u64, args: Args<'_>) -> bool;

/// The arguments of one command, name included, borrowed from the input buffer.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    source: &'a [u8],
    refs: &'a [ArgRef],
}

impl<'a> Args<'a> {
    /// Arguments that lie at `refs` within `source`.
    pub fn new(source: &'a [u8], refs: &'a [ArgRef]) -> Self {
        Self { source, refs }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    /// True if there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// Argument `index`; panics if there are fewer (arity is checked before any handler runs).
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let arg = self.refs[index];
        &self.source[arg.range()]
    }

    /// Argument `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.refs.get(index).map(|arg| &self.source[arg.range()])
    }

    /// The arguments from `first` on.
    #[must_use]
    pub fn skip(&self, first: usize) -> Args<'a> {
        Args {
            source: self.source,
            refs: &self.refs[first.min(self.refs.len())..],
        }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let source = self.source;
        self.refs.iter().map(move |arg| &source[arg.range()])
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        &self.source[self.refs[index].range()]
    }
}

/// Command groups, as COMMAND DOCS names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// The connection itself.
    Connection,
    /// The server itself.
    Server,
}

impl Group {
    /// The name clients see.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::Connection => "connection",
            Group::Server => "server",
        }
    }
}

/// Set of command flags. Names and meanings as in COMMAND INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u32);

macro_rules! flag_set {
    ($type:ident { $($(#[$doc:meta])* $name:ident = $bit:expr, $text:expr;)* }) => {
        impl $type {
            $($(#[$doc])* pub const $name: $type = $type(1 << $bit);)*
            /// Nothing.
            pub const NONE: $type = $type(0);
            /// Every member with its name for clients, in the order in which they are listed.
            pub const NAMES: &'static [($type, &'static str)] = &[$(($type::$name, $text)),*];
            /// Union.
            #[must_use]
            pub const fn or(self, other: $type) -> $type {
                $type(self.0 | other.0)
            }
            /// True if all of `other` is in here.
            #[inline]
            pub const fn has(self, other: $type) -> bool {
                self.0 & other.0 == other.0
            }
            /// Names of the members.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| *name)
            }
        }
    };
}

flag_set!(Flags {
    /// May change data.
    WRITE = 0, "write";
    /// Only reads data.
    READONLY = 1, "readonly";
    /// Refused when memory is over the limit.
    DENY_OOM = 2, "denyoom";
    /// Administrative.
    ADMIN = 3, "admin";
    /// Publish/subscribe.
    PUBSUB = 4, "pubsub";
    /// Not from scripts.
    NO_SCRIPT = 5, "noscript";
    /// May block its client.
    BLOCKING = 6, "blocking";
    /// Allowed while loading.
    LOADING = 7, "loading";
    /// Allowed on a stale replica.
    STALE = 8, "stale";
    /// Not shown to MONITOR.
    SKIP_MONITOR = 9, "skip_monitor";
    /// Not in the slow log.
    SKIP_SLOWLOG = 10, "skip_slowlog";
    /// Implicit ASKING.
    ASKING = 11, "asking";
    /// Constant or logarithmic time.
    FAST = 12, "fast";
    /// Allowed before authentication.
    NO_AUTH = 13, "no_auth";
    /// May replicate even if it only reads.
    MAY_REPLICATE = 14, "may_replicate";
    /// Sentinel mode.
    SENTINEL = 15, "sentinel";
    /// Only in sentinel mode.
    ONLY_SENTINEL = 16, "only_sentinel";
    /// Keys depend on arguments.
    MOVABLE_KEYS = 17, "movablekeys";
    /// Not inside MULTI.
    NO_MULTI = 18, "no_multi";
    /// Asynchronous by nature, refused while busy.
    ALLOW_BUSY = 19, "allow_busy";
    /// Keys may be missing without harm to a transaction's slot check.
    NO_ASYNC_LOADING = 20, "no_async_loading";
    /// Keys are mandatory for COMMAND GETKEYS.
    NO_MANDATORY_KEYS = 21, "no_mandatory_keys";
});

/// ACL categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Categories(pub u32);

flag_set!(Categories {
    /// Keys of any type.
    KEYSPACE = 0, "keyspace";
    /// Reads.
    READ = 1, "read";
    /// Writes.
    WRITE = 2, "write";
    /// Sets.
    SET = 3, "set";
    /// Sorted sets.
    SORTED_SET = 4, "sortedset";
    /// Lists.
    LIST = 5, "list";
    /// Hashes.
    HASH = 6, "hash";
    /// Strings.
    STRING = 7, "string";
    /// Bitmaps.
    BITMAP = 8, "bitmap";
    /// HyperLogLogs.
    HYPERLOGLOG = 9, "hyperloglog";
    /// Geo.
    GEO = 10, "geo";
    /// Streams.
    STREAM = 11, "stream";
    /// Publish/subscribe.
    PUBSUB = 12, "pubsub";
    /// Administration.
    ADMIN = 13, "admin";
    /// Fast commands.
    FAST = 14, "fast";
    /// All others.
    SLOW = 15, "slow";
    /// May block.
    BLOCKING = 16, "blocking";
    /// Can do harm.
    DANGEROUS = 17, "dangerous";
    /// The connection itself.
    CONNECTION = 18, "connection";
    /// Transactions.
    TRANSACTION = 19, "transaction";
    /// Scripts.
    SCRIPTING = 20, "scripting";
});

/// What a command does with the keys of one specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFlags(pub u32);

flag_set!(KeyFlags {
    /// Reads only.
    RO = 0, "RO";
    /// Reads and writes.
    RW = 1, "RW";
    /// Overwrites without reading.
    OW = 2, "OW";
    /// Removes.
    RM = 3, "RM";
    /// Returns or copies user data.
    ACCESS = 4, "access";
    /// Changes user data depending on what was there.
    UPDATE = 5, "update";
    /// Adds user data only.
    INSERT = 6, "insert";
    /// Deletes user data.
    DELETE = 7, "delete";
    /// Not really a key.
    NOT_KEY = 8, "not_key";
    /// The specification does not find all keys.
    INCOMPLETE = 9, "incomplete";
    /// Flags depend on the arguments.
    VARIABLE_FLAGS = 10, "variable_flags";
});

/// Where keys are among the arguments.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    /// What happens to them.
    pub flags: KeyFlags,
    /// First key's position.
    pub first: usize,
    /// Last key's position relative to the first; negative counts from the end (-1 is the last).
    pub last: i32,
    /// Distance between keys.
    pub step: usize,
    /// Remark shown by COMMAND DOCS/INFO, or empty.
    pub notes: &'static str,
    /// The key is not at a fixed place: these keys follow a count at position `first`.
    pub counted: bool,
}

impl KeySpec {
    /// One key at position 1.
    pub const fn one(flags: KeyFlags) -> KeySpec {
        KeySpec {
            flags,
            first: 1,
            last: 0,
            step: 1,
            notes: "",
            counted: false,
        }
    }
    /// One key at position `first`.
    pub const fn at(first: usize, flags: KeyFlags) -> KeySpec {
        KeySpec {
            flags,
            first,
            last: 0,
            step: 1,
            notes: "",
            counted: false,
        }
    }
    /// All arguments from position 1.
    pub const fn all(flags: KeyFlags) -> KeySpec {
        KeySpec {
            flags,
            first: 1,
            last: -1,
            step: 1,
            notes: "",
            counted: false,
        }
    }
    /// Every `step`-th argument from position 1.
    pub const fn every(step: usize, flags: KeyFlags) -> KeySpec {
        KeySpec {
            flags,
            first: 1,
            last: -1,
            step,
            notes: "",
            counted: false,
        }
    }
    /// The same with a remark.
    #[must_use]
    pub const fn noted(self, notes: &'static str) -> KeySpec {
        KeySpec { notes, ..self }
    }

    /// Positions of the keys in a command of `count` arguments.
    #[inline]
    pub fn positions(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let last = if self.last >= 0 {
            self.first + self.last as usize
        } else {
            count.saturating_sub(self.last.unsigned_abs() as usize)
        };
        (self.first..(last + 1).min(count)).step_by(self.step)
    }
}

/// Type of an argument in the documentation's grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgKind {
    /// A key; the number of its key specification.
    Key(usize),
    /// Any text.
    String,
    /// 64-bit integer.
    Integer,
    /// Floating point.
    Double,
    /// Glob pattern.
    Pattern,
    /// Unix time.
    UnixTime,
    /// A bare word.
    Token,
    /// One of the parts.
    OneOf,
    /// All of the parts together.
    Block,
}

/// One argument of a command's grammar, as COMMAND DOCS shows it.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: ArgKind,
    /// Word in front of it, or the word itself; empty if none.
    pub token: &'static str,
    /// May be left out.
    pub optional: bool,
    /// May be repeated.
    pub multiple: bool,
    /// The token is repeated as well.
    pub multiple_token: bool,
    /// Version since which it exists, or empty.
    pub since: &'static str,
    /// Version since which it is deprecated, or empty.
    pub deprecated_since: &'static str,
    /// Name shown to humans if it differs, or empty.
    pub display: &'static str,
    /// Parts of `OneOf` and `Block`.
    pub parts: &'static [Arg],
}

impl Arg {
    /// An argument of this name and type.
    pub const fn new(name: &'static str, kind: ArgKind) -> Arg {
        Arg {
            name,
            kind,
            token: "",
            optional: false,
            multiple: false,
            multiple_token: false,
            since: "",
            deprecated_since: "",
            display: "",
            parts: &[],
        }
    }
    /// A key of specification 0.
    pub const fn key(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::Key(0))
    }
    /// A bare word.
    pub const fn word(name: &'static str, token: &'static str) -> Arg {
        Arg {
            token,
            ..Arg::new(name, ArgKind::Token)
        }
    }
    /// One of several.
    pub const fn one_of(name: &'static str, parts: &'static [Arg]) -> Arg {
        Arg {
            parts,
            ..Arg::new(name, ArgKind::OneOf)
        }
    }
    /// Several together.
    pub const fn block(name: &'static str, parts: &'static [Arg]) -> Arg {
        Arg {
            parts,
            ..Arg::new(name, ArgKind::Block)
        }
    }
    /// Preceded by this word.
    #[must_use]
    pub const fn token(self, token: &'static str) -> Arg {
        Arg { token, ..self }
    }
    /// May be left out.
    #[must_use]
    pub const fn optional(self) -> Arg {
        Arg {
            optional: true,
            ..self
        }
    }
    /// May be repeated.
    #[must_use]
    pub const fn multiple(self) -> Arg {
        Arg {
            multiple: true,
            ..self
        }
    }
    /// Exists since this version.
    #[must_use]
    pub const fn since(self, since: &'static str) -> Arg {
        Arg { since, ..self }
    }
    /// Deprecated since this version.
    #[must_use]
    pub const fn deprecated(self, since: &'static str) -> Arg {
        Arg {
            deprecated_since: since,
            ..self
        }
    }
}

/// One command or subcommand.
#[derive(Debug)]
pub struct Command {
    /// Name in capitals; a subcommand's own name only.
    pub name: &'static str,
    /// Group.
    pub group: Group,
    /// First version of Redis (or of Pronghorn, `pronghorn 0.1`) that has it.
    pub since: &'static str,
    /// One line, our own words.
    pub summary: &'static str,
    /// Cost.
    pub complexity: &'static str,
    /// Number of arguments with the name; negative: at least that many.
    pub arity: i32,
    /// Flags.
    pub flags: Flags,
    /// ACL categories beyond those that follow from the flags.
    pub categories: Categories,
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// Changes: version and what changed.
    pub history: &'static [(&'static str, &'static str)],
    /// Deprecated since this version, and what replaces it.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Grammar.
    pub args: &'static [Arg],
    /// Subcommands; the container's own handler is then never run with a known one.
    pub subcommands: &'static [&'static Command],
    /// Executes it.
    pub handler: Handler,
    /// Overrides `keys` where the keys' databases differ from the selected one.
    pub key_finder: Option<KeyFinder>,
    /// Says when it is slow.
    pub slow: Option<CostEstimate>,
    /// Does its work while all loops stand still; it runs on the slow lane and calls for that.
    pub at_safepoint: bool,
}

fn unreachable_handler(_cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    Err(Error::Syntax)
}

impl Command {
    /// Every field's neutral value, for `..Command::BASE`.
    pub const BASE: Command = Command {
        name: "",
        group: Group::Generic,
        since: "1.0.0",
        summary: "",
        complexity: "O(1)",
        arity: -1,
        flags: Flags::NONE,
        categories: Categories::NONE,
        keys: &[],
        tips: &[],
        history: &[],
        deprecated: None,
        args: &[],
        subcommands: &[],
        handler: unreachable_handler,
        key_finder: None,
        slow: None,
        at_safepoint: false,
    };

    /// Compile-time check of what the table alone can tell.
    #[must_use]
    pub const fn checked(self) -> Command {
        assert!(!self.name.is_empty(), "a command has a name");
        assert!(!self.summary.is_empty(), "a command has a summary");
        assert!(self.arity != 0, "arity counts the name");
        assert!(
            !(self.flags.has(Flags::WRITE) && self.flags.has(Flags::READONLY)),
            "a command writes or only reads"
        );
        let mut i = 0;
        while i < self.keys.len() {
            let flags = self.keys[i].flags;
            assert!(
                self.keys[i].step > 0 && self.keys[i].first > 0,
                "key positions start at 1"
            );
            if self.flags.has(Flags::READONLY) {
                assert!(
                    flags.has(KeyFlags::RO),
                    "a read-only command has read-only keys"
                );
            }
            i += 1;
        }
        self
    }

    /// All ACL categories, the ones implied by flags included.
    pub const fn all_categories(&self) -> Categories {
        let mut all = self.categories;
        if self.flags.has(Flags::WRITE) {
            all = all.or(Categories::WRITE);
        }
        if self.flags.has(Flags::READONLY) && !all.has(Categories::SCRIPTING) {
            all = all.or(Categories::READ);
        }
        if self.flags.has(Flags::ADMIN) {
            all = all.or(Categories::ADMIN).or(Categories::DANGEROUS);
        }
        if self.flags.has(Flags::PUBSUB) {
            all = all.or(Categories::PUBSUB);
        }
        if self.flags.has(Flags::BLOCKING) {
            all = all.or(Categories::BLOCKING);
        }
        all.or(if self.flags.has(Flags::FAST) {
            Categories::FAST
        } else {
            Categories::SLOW
        })
    }

    /// True if `count` arguments (name included) are acceptable.
    #[inline]
    pub fn arity_allows(&self, count: usize) -> bool {
        if self.arity > 0 {
            count == self.arity as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }

    /// True if it locks keys for writing.
    #[inline]
    pub fn writes(&self) -> bool {
        self.flags.has(Flags::WRITE)
    }
}
