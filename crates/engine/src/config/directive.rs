//! The shape of a row of the directive table.
//!
//! A row is built by a chain of `const` functions, so that a broken row does not compile. Rows know
//! no values: those are in [`Config`](super::Config).

/// What a directive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `yes` or `no`.
    Bool(bool),
    /// A decimal number within bounds, both included.
    Integer { default: i64, min: i64, max: i64 },
    /// A number of bytes with an optional unit; with `percent` also `50%`, held as -50.
    Memory {
        default: i64,
        min: i64,
        max: i64,
        percent: bool,
    },
    /// File permissions, in octal.
    Octal { default: i64, min: i64, max: i64 },
    /// One of several words, or with `many` any set of them; the value is the index or a bit mask
    /// over the choices, where choice 0 is the empty mask.
    Choice {
        default: &'static str,
        choices: &'static [&'static str],
        many: bool,
    },
    /// Any bytes. Without a default it has no value, which reads as empty.
    Text(Option<&'static str>),
    /// The working directory.
    Directory,
    /// Addresses, at most [`super::value::ADDRESSES_MAX`].
    Addresses(&'static str),
    /// Output buffer limits of the client classes.
    OutputLimits,
    /// Percentiles, each 0 to 100.
    Percentiles(&'static str),
    /// Three numbers from -2000 to 2000.
    OomScores(&'static str),
    /// Pairs of seconds and changes.
    SavePoints,
    /// Classes of keyspace events.
    Events,
    /// A template for the process title.
    Title(&'static str),
    /// Host and port of a primary, or `no one`.
    Primary,
}

/// Part of the server a row speaks about; a chapter of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chapter {
    Network,
    Threads,
    Process,
    Log,
    Security,
    Clients,
    Memory,
    Timing,
    Observation,
    Shutdown,
    /// Rows of features this version does not have.
    Missing,
}

impl Chapter {
    /// All, in the order of the documentation.
    pub const ALL: &'static [Chapter] = &[
        Chapter::Network,
        Chapter::Threads,
        Chapter::Process,
        Chapter::Log,
        Chapter::Security,
        Chapter::Clients,
        Chapter::Memory,
        Chapter::Timing,
        Chapter::Observation,
        Chapter::Shutdown,
        Chapter::Missing,
    ];

    /// Its heading.
    pub const fn title(self) -> &'static str {
        match self {
            Chapter::Network => "Network",
            Chapter::Threads => "Threads",
            Chapter::Process => "Process",
            Chapter::Log => "Log",
            Chapter::Security => "Security",
            Chapter::Clients => "Clients and limits",
            Chapter::Memory => "Memory",
            Chapter::Timing => "Housekeeping",
            Chapter::Observation => "Slow log",
            Chapter::Shutdown => "Shutdown",
            Chapter::Missing => "Directives of features that are not there yet",
        }
    }
}

/// What has to happen when the value changes while the server runs. Rows without one are read where
/// they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Listening sockets are opened and closed.
    Listen,
    /// The number of file descriptors must allow so many clients.
    ClientsMax,
    /// Lines of other levels are logged.
    LogLevel,
    /// Housekeeping runs at another rate.
    Frequency,
    /// Keepalive of new connections.
    Keepalive,
    /// Another working directory.
    Directory,
    /// The allocator's background threads.
    AllocatorThreads,
    /// Another process title.
    ProcessTitle,
    /// Another score for the kernel's out-of-memory killer.
    OomScore,
}

/// When and by whom a value may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// By CONFIG SET.
    Live,
    /// By CONFIG SET where `enable-protected-configs` allows it.
    Protected,
    /// Only at start.
    Start,
}

/// One directive.
#[derive(Debug, Clone, Copy)]
pub struct Directive {
    /// Name in small letters.
    pub name: &'static str,
    /// An older name, or empty.
    pub alias: &'static str,
    /// What it takes, with its default.
    pub kind: Kind,
    /// When it may change.
    pub change: Change,
    /// Not shown for patterns, only by its full name.
    pub hidden: bool,
    /// Its value stays out of logs and the slow log.
    pub sensitive: bool,
    /// Takes several words on its line.
    pub several_words: bool,
    /// The feature it belongs to, if this version lacks it: only the default is accepted then.
    pub needs: &'static str,
    /// What must happen on a change.
    pub effect: Option<Effect>,
    /// Where it is documented.
    pub chapter: Chapter,
    /// A paragraph for operators. Empty for missing features.
    pub doc: &'static str,
}

impl Directive {
    const fn new(name: &'static str, kind: Kind) -> Directive {
        let several_words = match kind {
            Kind::Choice { many, .. } => many,
            Kind::Addresses(_)
            | Kind::OutputLimits
            | Kind::Percentiles(_)
            | Kind::OomScores(_)
            | Kind::SavePoints
            | Kind::Primary => true,
            _ => false,
        };
        Directive {
            name,
            alias: "",
            kind,
            change: Change::Live,
            hidden: false,
            sensitive: false,
            several_words,
            needs: "",
            effect: None,
            chapter: Chapter::Missing,
            doc: "",
        }
    }

    /// `yes` or `no`.
    pub(super) const fn flag(name: &'static str, default: bool) -> Directive {
        Directive::new(name, Kind::Bool(default))
    }

    /// A number from `min` to `max`.
    pub(super) const fn integer(name: &'static str, default: i64, min: i64, max: i64) -> Directive {
        assert!(
            min <= default && default <= max,
            "the default is within bounds"
        );
        Directive::new(name, Kind::Integer { default, min, max })
    }

    /// A number of bytes from `min` to `max`.
    pub(super) const fn memory(name: &'static str, default: i64, min: i64, max: i64) -> Directive {
        assert!(
            min <= default && default <= max,
            "the default is within bounds"
        );
        Directive::new(
            name,
            Kind::Memory {
                default,
                min,
                max,
                percent: false,
            },
        )
    }

    /// A number of bytes or a percentage of the memory limit.
    pub(super) const fn memory_or_percent(name: &'static str, default: i64) -> Directive {
        let kind = Kind::Memory {
            default,
            min: 0,
            max: i64::MAX,
            percent: true,
        };
        Directive::new(name, kind)
    }

    /// Permissions in octal.
    pub(super) const fn octal(name: &'static str, default: i64, max: i64) -> Directive {
        Directive::new(
            name,
            Kind::Octal {
                default,
                min: 0,
                max,
            },
        )
    }

    /// One of several words.
    pub(super) const fn choice(
        name: &'static str,
        default: &'static str,
        choices: &'static [&'static str],
    ) -> Directive {
        Directive::new(
            name,
            Kind::Choice {
                default,
                choices,
                many: false,
            },
        )
    }

    /// A set of words.
    pub(super) const fn choices(
        name: &'static str,
        default: &'static str,
        choices: &'static [&'static str],
    ) -> Directive {
        Directive::new(
            name,
            Kind::Choice {
                default,
                choices,
                many: true,
            },
        )
    }

    /// Any bytes.
    pub(super) const fn text(name: &'static str, default: &'static str) -> Directive {
        Directive::new(name, Kind::Text(Some(default)))
    }

    /// Any bytes, nothing by default.
    pub(super) const fn no_text(name: &'static str) -> Directive {
        Directive::new(name, Kind::Text(None))
    }

    /// A kind of its own.
    pub(super) const fn special(name: &'static str, kind: Kind) -> Directive {
        Directive::new(name, kind)
    }

    pub(super) const fn alias(self, alias: &'static str) -> Directive {
        Directive { alias, ..self }
    }

    pub(super) const fn at_start(self) -> Directive {
        Directive {
            change: Change::Start,
            ..self
        }
    }

    pub(super) const fn protected(self) -> Directive {
        Directive {
            change: Change::Protected,
            ..self
        }
    }

    pub(super) const fn hidden(self) -> Directive {
        Directive {
            hidden: true,
            ..self
        }
    }

    pub(super) const fn sensitive(self) -> Directive {
        Directive {
            sensitive: true,
            ..self
        }
    }

    pub(super) const fn needs(self, needs: &'static str) -> Directive {
        Directive { needs, ..self }
    }

    pub(super) const fn effect(self, effect: Effect) -> Directive {
        Directive {
            effect: Some(effect),
            ..self
        }
    }

    pub(super) const fn doc(self, chapter: Chapter, doc: &'static str) -> Directive {
        Directive {
            chapter,
            doc,
            ..self
        }
    }

    /// Is it only there to accept the value that means "off"?
    pub const fn is_missing(&self) -> bool {
        !self.needs.is_empty()
    }
}
