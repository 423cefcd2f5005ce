//! What all threads share: the store, the configuration, the registry, who is connected.

use crate::clients::{Client, Clients};
use crate::command::{Args, Flags};
use crate::config::Config;
use crate::lane::Finished;
use crate::rates::{RateMeter, Rates};
use crate::registry::{CommandId, Registry};
use crate::session::Session;
use crate::slowlog::{SlowEntry, SlowLog, shorten};
use crate::stats::{Stats, ThreadStats};
use env::sync::{Arc, Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use store::Store;
use store::inbox::{Inbox, Pushed};

/// What reaches a loop from other threads.
#[derive(Debug)]
pub(crate) enum Message {
    /// Key locks of a suspended command are granted.
    Granted(u64),
    /// The slow lane is done with a command.
    Finished(Box<Finished>),
    /// CLIENT KILL.
    Kill(u64),
    /// Something that waited for a safepoint is done; the reply is a simple string.
    Resume(u64),
}

/// One loop's inbox with the means to wake it.
pub(crate) struct Mailbox {
    inbox: Inbox<Message>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl Mailbox {
    pub(crate) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Mailbox {
            inbox: Inbox::new(),
            wake,
        }
    }

    pub(crate) fn drain(&self, take: impl FnMut(Message)) {
        self.inbox.drain(take);
    }
}

/// How SHUTDOWN was called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the command's independent options"
)]
pub struct ShutdownOptions {
    /// NOSAVE.
    pub nosave: bool,
    /// SAVE.
    pub save: bool,
    /// NOW.
    pub now: bool,
    /// FORCE.
    pub force: bool,
}

/// What only the process around the engine can tell or do.
pub trait Host: Send + Sync {
    /// Begins to stop the server; it ends soon after.
    fn shutdown(&self, options: ShutdownOptions);
    /// SHUTDOWN ABORT. False if none is in progress.
    fn abort_shutdown(&self) -> bool;
    /// Name of the I/O backend, `io_uring` or `epoll`.
    fn io_backend(&self) -> &'static str;
    /// Path of the binary.
    fn executable(&self) -> String;
    /// Path of the configuration file, empty if none.
    fn config_file(&self) -> String;
    /// Bytes that the allocator gave out and that it holds, and resident bytes of the process.
    fn memory(&self) -> HostMemory;
    /// Writes a line to the log.
    fn log(&self, line: &str);
}

/// Memory as the process sees it, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostMemory {
    /// Allocated by the general allocator.
    pub allocated: u64,
    /// Pages it uses.
    pub active: u64,
    /// Pages it has mapped and touched.
    pub resident: u64,
    /// Resident set of the process.
    pub rss: u64,
}

/// The engine's shared state.
pub struct Server {
    /// Directives.
    pub config: Arc<Config>,
    /// Data.
    pub store: Arc<Store>,
    /// Commands.
    pub registry: Registry,
    /// Connections.
    pub clients: Clients,
    /// Counters.
    pub stats: Stats,
    /// Slow commands.
    pub slowlog: SlowLog,
    /// Number of databases.
    pub databases: usize,
    /// Random id of this process, 40 hex digits.
    pub run_id: String,
    /// Unix time of the start, ms.
    pub started_ms: i64,
    /// Highest memory use seen, bytes.
    pub peak_memory: std::sync::atomic::AtomicU64,
    /// Memory in use when the server was ready, bytes.
    pub startup_memory: std::sync::atomic::AtomicU64,
    rates: Mutex<RateMeter>,
    clock: env::clock::Clock,
    host: OnceLock<Box<dyn Host>>,
    mailboxes: RwLock<BTreeMap<usize, Arc<Mailbox>>>,
    /// Idle counters of the slow lane.
    lane_stats: Mutex<Vec<Arc<ThreadStats>>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("run_id", &self.run_id)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Puts the parts together. No thread is started.
    pub fn new(
        config: Arc<Config>,
        store: Arc<Store>,
        registry: Registry,
        clock: env::clock::Clock,
    ) -> Arc<Server> {
        Arc::new(Server {
            databases: store.databases(),
            started_ms: clock.now_ms() as i64,
            config,
            store,
            registry,
            clients: Clients::default(),
            stats: Stats::default(),
            slowlog: SlowLog::default(),
            run_id: env::random::run_id(),
            peak_memory: std::sync::atomic::AtomicU64::new(0),
            startup_memory: std::sync::atomic::AtomicU64::new(0),
            rates: Mutex::new(RateMeter::default()),
            clock,
            host: OnceLock::new(),
            mailboxes: RwLock::new(BTreeMap::new()),
            lane_stats: Mutex::new(Vec::new()),
        })
    }

    /// Sets the process around the engine, once, before any loop runs.
    pub fn set_host(&self, host: Box<dyn Host>) {
        assert!(self.host.set(host).is_ok(), "the host is set once");
    }

    /// The process around the engine.
    pub fn host(&self) -> &dyn Host {
        &**self.host.get().expect("the host is set before loops run")
    }

    /// Unix time, ms.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms() as i64
    }

    /// The clock.
    pub fn clock(&self) -> &env::clock::Clock {
        &self.clock
    }

    /// Rates over the last moments.
    pub fn rates(&self) -> Rates {
        self.rates.lock().rates()
    }

    /// Called about every 100 ms by housekeeping: takes samples for rates and peaks.
    pub fn sample(&self) {
        let counts = Rates {
            commands_per_s: self.stats.commands_processed(),
            bytes_in_per_s: self.stats.sum("bytes_in"),
            bytes_out_per_s: self.stats.sum("bytes_out"),
        };
        self.rates.lock().sample(self.clock.monotonic_ns(), counts);
        let used = self.host().memory().allocated + self.store.memory().used_bytes;
        self.peak_memory
            .fetch_max(used, std::sync::atomic::Ordering::Relaxed);
    }

    /// Number of loops.
    pub fn loops(&self) -> usize {
        self.mailboxes.read().len()
    }

    pub(crate) fn add_mailbox(&self, index: usize, mailbox: Arc<Mailbox>) {
        let before = self.mailboxes.write().insert(index, mailbox);
        assert!(before.is_none(), "a loop has one mailbox");
    }

    /// Puts a message into the inbox of loop `index` and wakes it.
    pub(crate) fn post(&self, index: usize, message: Message) {
        let mailbox = self.mailboxes.read()[&index].clone();
        if mailbox.inbox.push(message) == Pushed::Wake {
            (mailbox.wake)();
        }
    }

    /// Closes another connection soon.
    pub fn kill(&self, client: &Client) {
        client
            .closing
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let (index, _) = *client.place.lock();
        self.post(index, Message::Kill(client.id));
    }

    /// Lets a client that waits for a safepoint go on.
    pub fn resume(&self, client: &Client) {
        let (index, _) = *client.place.lock();
        self.post(index, Message::Resume(client.id));
    }

    /// Lends `work` counters that nobody else writes meanwhile. There are as many as there ever were
    /// slow commands at one time, however many threads come and go.
    pub(crate) fn with_lane_stats<R>(&self, work: impl FnOnce(&ThreadStats) -> R) -> R {
        let idle = self.lane_stats.lock().pop();
        let stats = idle.unwrap_or_else(|| self.stats.register(self.registry.len()));
        let result = work(&stats);
        self.lane_stats.lock().push(stats);
        result
    }

    /// May this connection use DEBUG?
    pub(crate) fn debug_enabled(&self, session: &Session) -> bool {
        match self.config.enable_debug_command() {
            crate::config::LocalAccess::Yes => true,
            crate::config::LocalAccess::No => false,
            crate::config::LocalAccess::Local => session.local,
        }
    }

    /// Enters a finished command into the slow log if it was slow.
    pub(crate) fn note_duration(
        &self,
        client: &Client,
        id: CommandId,
        args: Args<'_>,
        spent_ns: u64,
    ) {
        let threshold_us = self.config.slowlog_log_slower_than();
        let spent_us = spent_ns / 1000;
        if threshold_us < 0 || spent_us < threshold_us as u64 {
            return;
        }
        if self
            .registry
            .entry(id)
            .command
            .flags
            .has(Flags::SKIP_SLOWLOG)
        {
            return;
        }
        let all: Vec<&[u8]> = args.iter().collect();
        let entry = SlowEntry {
            id: 0,
            time_s: self.now_ms() / 1000,
            duration_us: spent_us,
            args: shorten(all.into_iter()),
            addr: client.addr.clone(),
            name: client.labels.lock().name.clone(),
        };
        self.slowlog.push(entry, self.config.slowlog_max_len());
    }
}
