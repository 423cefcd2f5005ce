//! The configuration: one table of directives, and the values in force.
//!
//! From the table come CONFIG GET, SET and REWRITE, the parser of configuration files and command
//! lines, the commented example file and the documentation. A directive of a feature this version
//! lacks is known, and accepts its neutral value only.
//!
//! Numbers are read with one relaxed load and no lock. CONFIG SET changes all values it names or
//! none; a value with an effect on something that runs goes through [`Apply`].
//!
//! It knows no sockets, threads or logs, and no process: files are reached through
//! [`Surroundings`].

pub mod directive;
mod documents;
mod load;
mod rewrite;
mod set;
mod split;
mod table;
#[cfg(test)]
mod tests;
mod value;

use directive::Kind;
pub use directive::{Chapter, Directive, Effect};
pub use documents::{example_file, reference};
use env::sync::{Mutex, RwLock};
pub use load::{FatalConfig, Surroundings, system_reason};
pub use resp::inline::split as split_words;
pub use set::Apply;
pub use split::quote;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
pub use table::{ROWS, find};
pub use value::{OutputLimit, Text, Value, fill_title, format_memory, parse_memory};

/// Who may use something dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalAccess {
    /// Nobody.
    No,
    /// Everybody.
    Yes,
    /// Clients of this machine.
    Local,
}

impl LocalAccess {
    /// Does it allow a client that is `local` or not?
    pub fn allows(self, local: bool) -> bool {
        match self {
            LocalAccess::No => false,
            LocalAccess::Yes => true,
            LocalAccess::Local => local,
        }
    }
}

/// The values in force.
pub struct Config {
    /// Values of the numeric kinds, by directive.
    numbers: [AtomicI64; table::COUNT],
    /// Values of the others.
    texts: [RwLock<Text>; table::COUNT],
    /// `client-output-buffer-limit` again, as numbers: hard, soft, seconds per class.
    output_limits: [[AtomicU64; 3]; 3],
    /// `rename-command` lines: old and new name.
    renames: RwLock<Vec<(String, String)>>,
    /// Held by CONFIG SET, so that two do not mix.
    change: Mutex<()>,
    apply: OnceLock<Box<dyn Apply>>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}

impl Config {
    /// All directives at their defaults.
    pub fn new() -> Config {
        let config = Config {
            numbers: std::array::from_fn(|_| AtomicI64::new(0)),
            texts: std::array::from_fn(|_| RwLock::new(Text::default())),
            output_limits: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            renames: RwLock::new(Vec::new()),
            change: Mutex::new(()),
            apply: OnceLock::new(),
        };
        for (index, row) in ROWS.iter().enumerate() {
            config.store(index, &value::default(row.kind));
        }
        config
    }

    /// Sets who carries out live changes, once.
    pub fn set_apply(&self, apply: Box<dyn Apply>) {
        assert!(
            self.apply.set(apply).is_ok(),
            "changes are carried out by one"
        );
    }

    fn is_number(kind: Kind) -> bool {
        matches!(
            kind,
            Kind::Bool(_)
                | Kind::Integer { .. }
                | Kind::Memory { .. }
                | Kind::Octal { .. }
                | Kind::Choice { .. }
        )
    }

    fn value(&self, index: usize) -> Value {
        if Self::is_number(ROWS[index].kind) {
            Value::Number(self.numbers[index].load(Ordering::Relaxed))
        } else {
            Value::Text(self.texts[index].read().clone())
        }
    }

    fn store(&self, index: usize, value: &Value) {
        match value {
            Value::Number(number) => self.numbers[index].store(*number, Ordering::Relaxed),
            Value::Text(text) => {
                if ROWS[index].kind == Kind::OutputLimits {
                    self.store_output_limits(text);
                }
                *self.texts[index].write() = text.clone();
            }
        }
    }

    fn store_output_limits(&self, text: &Text) {
        for (slots, limit) in self.output_limits.iter().zip(value::output_limits(text)) {
            slots[0].store(limit.hard_bytes, Ordering::Relaxed);
            slots[1].store(limit.soft_bytes, Ordering::Relaxed);
            slots[2].store(limit.soft_s, Ordering::Relaxed);
        }
    }

    /// What CONFIG GET shows for the directive at `index` of [`ROWS`].
    pub fn shown(&self, index: usize) -> Text {
        value::format(ROWS[index].kind, &self.value(index))
    }

    /// Names and values of the directives that the patterns match, each name once, in the order of
    /// patterns and table. A pattern without special characters is a name; it also finds hidden
    /// directives, and is given back as it was written.
    pub fn get_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Text)> {
        let mut found: Vec<(String, Text)> = Vec::new();
        let mut add = |name: &str, index: usize| {
            if !found
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
            {
                found.push((name.to_owned(), self.shown(index)));
            }
        };
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
                if let (Some(index), Ok(name)) = (find(pattern), std::str::from_utf8(pattern)) {
                    add(name, index);
                }
                continue;
            }
            let case = base::glob::Case::Insensitive;
            for (index, row) in ROWS.iter().enumerate().filter(|(_, row)| !row.hidden) {
                for name in [row.name, row.alias]
                    .into_iter()
                    .filter(|name| !name.is_empty())
                {
                    if base::glob::matches(pattern, name.as_bytes(), case) {
                        add(name, index);
                    }
                }
            }
        }
        found
    }

    /// Should the value of this directive stay out of logs? Unknown names are no secret.
    pub fn is_sensitive(name: &[u8]) -> bool {
        find(name).is_some_and(|index| ROWS[index].sensitive)
    }

    /// The `rename-command` lines in their order: old name, and new one or nothing.
    pub fn renames(&self) -> Vec<(String, String)> {
        self.renames.read().clone()
    }

    /// Limits on unread replies of a class: 0 normal clients, 1 replicas, 2 subscribers.
    #[inline]
    pub fn output_limit(&self, class: usize) -> OutputLimit {
        let slots = &self.output_limits[class];
        OutputLimit {
            hard_bytes: slots[0].load(Ordering::Relaxed),
            soft_bytes: slots[1].load(Ordering::Relaxed),
            soft_s: slots[2].load(Ordering::Relaxed),
        }
    }

    /// Addresses to listen on, as written.
    pub fn bind(&self) -> Vec<String> {
        let text = self.text(const { table::number_of("bind") }).to_text();
        text.split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The first of `oom-score-adj-values`.
    pub fn oom_score_own(&self) -> i64 {
        let text = self
            .text(const { table::number_of("oom-score-adj-values") })
            .to_text();
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        first.expect("canonical text")
    }

    /// Cores for the I/O threads; empty if threads are not bound.
    ///
    /// # Errors
    /// If the directive is no list of cores.
    pub fn cpus(&self) -> Result<Vec<usize>, String> {
        split::parse_cpus(
            &self
                .text(const { table::number_of("server_cpulist") })
                .to_text(),
        )
    }

    /// Notes the working directory that has been entered.
    pub fn note_directory(&self, path: &[u8]) {
        self.store(const { table::number_of("dir") }, &Value::Text(path.into()));
    }

    /// Notes how many clients the machine allows.
    pub fn note_maxclients(&self, count: u32) {
        self.store(
            const { table::number_of("maxclients") },
            &Value::Number(i64::from(count)),
        );
    }

    #[inline]
    fn number(&self, index: usize) -> i64 {
        self.numbers[index].load(Ordering::Relaxed)
    }

    fn text(&self, index: usize) -> Text {
        self.texts[index].read().clone()
    }

    fn local_access(&self, index: usize) -> LocalAccess {
        match self.number(index) {
            0 => LocalAccess::No,
            1 => LocalAccess::Yes,
            _ => LocalAccess::Local,
        }
    }

    fn choice(&self, index: usize) -> &'static str {
        let Kind::Choice {
            choices,
            many: false,
            ..
        } = ROWS[index].kind
        else {
            unreachable!("accessors of choices are for choices");
        };
        choices[self.number(index) as usize]
    }
}

/// Accessors of numeric directives.
macro_rules! numbers {
    ($($method:ident: $type:ty = $name:literal;)*) => {
        impl Config {
            $(
                #[doc = concat!("The directive `", $name, "`.")]
                #[inline]
                pub fn $method(&self) -> $type {
                    self.number(const { table::number_of($name) }) as $type
                }
            )*
        }
    };
}

/// Accessors of other directives.
macro_rules! others {
    ($($read:ident $method:ident: $type:ty = $name:literal;)*) => {
        impl Config {
            $(
                #[doc = concat!("The directive `", $name, "`.")]
                pub fn $method(&self) -> $type {
                    self.$read(const { table::number_of($name) })
                }
            )*
        }
    };
}

/// Accessors of `yes` and `no`.
macro_rules! flags {
    ($($method:ident = $name:literal;)*) => {
        impl Config {
            $(
                #[doc = concat!("The directive `", $name, "`.")]
                #[inline]
                pub fn $method(&self) -> bool {
                    self.number(const { table::number_of($name) }) != 0
                }
            )*
        }
    };
}

numbers! {
    port: u16 = "port";
    tcp_backlog: i32 = "tcp-backlog";
    tcp_keepalive_s: u32 = "tcp-keepalive";
    unixsocketperm: u32 = "unixsocketperm";
    timeout_s: u64 = "timeout";
    threads: usize = "threads";
    slow_lane_threads: usize = "slow-lane-threads";
    databases: usize = "databases";
    maxclients: usize = "maxclients";
    proto_max_bulk_len: usize = "proto-max-bulk-len";
    client_query_buffer_limit: usize = "client-query-buffer-limit";
    hz: u32 = "hz";
    active_expire_effort: u32 = "active-expire-effort";
    slowlog_log_slower_than: i64 = "slowlog-log-slower-than";
    slowlog_max_len: usize = "slowlog-max-len";
    shutdown_timeout_s: u64 = "shutdown-timeout";
    shutdown_on_sigint_mask: i64 = "shutdown-on-sigint";
    shutdown_on_sigterm_mask: i64 = "shutdown-on-sigterm";
    log_level: u8 = "loglevel";
}

flags! {
    protected_mode = "protected-mode";
    daemonize = "daemonize";
    always_show_logo = "always-show-logo";
    set_proc_title = "set-proc-title";
    jemalloc_bg_thread = "jemalloc-bg-thread";
    lazyfree_lazy_expire = "lazyfree-lazy-expire";
    lazyfree_lazy_server_del = "lazyfree-lazy-server-del";
    lazyfree_lazy_user_del = "lazyfree-lazy-user-del";
    lazyfree_lazy_user_flush = "lazyfree-lazy-user-flush";
}

others! {
    text requirepass: Text = "requirepass";
    text unixsocket: Text = "unixsocket";
    text pidfile: Text = "pidfile";
    text logfile: Text = "logfile";
    text dir: Text = "dir";
    text proc_title_template: Text = "proc-title-template";
    choice io_backend: &'static str = "io-backend";
    choice log_format: &'static str = "log-format";
    choice supervised: &'static str = "supervised";
    choice oom_score_adj: &'static str = "oom-score-adj";
    local_access enable_debug_command: LocalAccess = "enable-debug-command";
    local_access enable_protected_configs: LocalAccess = "enable-protected-configs";
}

/// Bits of [`Config::shutdown_on_sigint_mask`] and [`Config::shutdown_on_sigterm_mask`].
pub mod shutdown_mask {
    /// Save first.
    pub const SAVE: i64 = 1 << 1;
    /// Do not save.
    pub const NOSAVE: i64 = 1 << 2;
    /// Do not wait.
    pub const NOW: i64 = 1 << 3;
    /// Go on after errors.
    pub const FORCE: i64 = 1 << 4;
}
