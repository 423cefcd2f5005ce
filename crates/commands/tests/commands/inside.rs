//! The engine with all commands in this process, without sockets: one loop, one connection (or a few
//! that are served together), and a clock that stands still until it is moved.

use base::output::Output;
use engine::clients::Client;
use engine::config::Config;
use engine::registry::Registry;
use engine::server::Server;
use engine::session::{Conn, Flow, Item, Items, Session};
use engine::worker::{Desk, Worker};
use env::clock::Clock;
use env::sync::{Arc, Mutex};
use resp::Version;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
use store::{Store, StoreConfig};

/// The first connection's token; the others' follow.
const TOKEN: u64 = 1;
/// How long a command on the slow lane may take, ms.
const WAIT_MS_MAX: u64 = 20_000;

/// Where the clock stands at the beginning: some day in 2023, ms.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// Sizes of the store.
pub(crate) const STORE: StoreConfig = StoreConfig {
    shards: 4,
    databases: 16,
    memory_bytes: 1 << 30,
    lane_threads: 2,
};

/// The process.
pub(crate) struct Inside {
    pub(crate) server: Arc<Server>,
    pub(crate) clock: Clock,
    worker: Worker,
    seats: Seats,
}

/// The connections.
struct Seats(Vec<Seat>);

/// A connection and what belongs to it.
struct Seat {
    conn: Box<Conn>,
    output: Output,
    flow: Flow,
    resumed: bool,
}

/// Connections that are served together; the first ones have input.
struct Batch<'a> {
    seats: &'a mut [Seat],
    inputs: &'a [&'a [u8]],
}

impl Items for Batch<'_> {
    fn len(&self) -> usize {
        self.seats.len()
    }

    fn item(&mut self, index: usize) -> Item<'_> {
        let seat = &mut self.seats[index];
        Item {
            conn: &mut seat.conn,
            input: self.inputs.get(index).copied().unwrap_or_default(),
            output: &mut seat.output,
            flow: &mut seat.flow,
        }
    }
}

impl Desk for Seats {
    fn resume(&mut self, token: u64) {
        self.0[(token - TOKEN) as usize].resumed = true;
    }

    fn close(&mut self, _token: u64) {
        panic!("nobody closes the connection");
    }

    fn with(&mut self, token: u64) -> Option<(&mut Conn, &mut Output)> {
        let seat = self.0.get_mut(token.checked_sub(TOKEN)? as usize)?;
        Some((&mut seat.conn, &mut seat.output))
    }
}

impl Inside {
    pub(crate) fn new() -> Inside {
        Inside::with(Store::new(STORE), 1)
    }

    /// Over a store of [`STORE`]'s sizes, with so many connections.
    pub(crate) fn with(store: std::io::Result<Arc<Store>>, connections: u64) -> Inside {
        let store = store.expect("there is address space");
        let registry = Registry::new(commands::TABLES, &[]).expect("no renames, no error");
        let clock = Clock::manual(START_MS as u64 * 1_000);
        let server = Server::new(Arc::new(Config::new()), store, registry, clock.clone());
        let mut worker = Worker::new(&server, 0, Box::new(|| {}));
        let seats = (0..connections)
            .map(|index| seat(&server, &mut worker, TOKEN + index))
            .collect();
        Inside {
            server,
            clock,
            worker,
            seats: Seats(seats),
        }
    }

    /// Executes one command; gives the reply as it would stand on the wire.
    pub(crate) fn run(&mut self, command: &[&[u8]]) -> Vec<u8> {
        self.batch(&[&encoded(command)]);
        let deadline_ms = env::clock::now_ms() + WAIT_MS_MAX;
        while self.seats.0[0].output.is_empty() {
            assert!(
                env::clock::now_ms() < deadline_ms,
                "no reply to {command:?}"
            );
            env::thread::sleep_us(50);
            self.worker.inbox(&mut self.seats);
            if std::mem::take(&mut self.seats.0[0].resumed) {
                self.batch(&[]);
            }
        }
        self.replies()
    }

    /// What the first connection would be sent; nothing is sent to the others either.
    pub(crate) fn replies(&mut self) -> Vec<u8> {
        let first = &self.seats.0[0].output;
        let replies = first.segments(usize::MAX).flatten().copied().collect();
        self.discard();
        replies
    }

    /// Forgets what would be sent.
    pub(crate) fn discard(&mut self) {
        for seat in &mut self.seats.0 {
            seat.output.clear();
        }
    }

    /// Serves all connections once, the first ones with these inputs.
    pub(crate) fn batch(&mut self, inputs: &[&[u8]]) {
        let mut inputs = inputs;
        loop {
            let mut batch = Batch {
                seats: &mut self.seats.0,
                inputs,
            };
            self.worker.prepare(&mut batch);
            self.worker.run(&mut batch);
            if self.seats.0.iter().all(|seat| seat.flow != Flow::Again) {
                return;
            }
            inputs = &[];
        }
    }

    /// Executes a command written with spaces; gives the reply without its last line end.
    pub(crate) fn say(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = String::from_utf8(self.run(&words)).expect("text was asked for");
        reply
            .strip_suffix("\r\n")
            .expect("a reply ends its line")
            .replace("\r\n", " ")
    }

    pub(crate) fn advance_ms(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    /// Changes to data so far.
    pub(crate) fn changes(&self) -> u64 {
        self.server.stats.sum("changes")
    }

    /// Keys found and not found by reads so far.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (
            self.server.stats.sum("hits"),
            self.server.stats.sum("misses"),
        )
    }
}

/// A command as a multibulk.
pub(crate) fn encoded(command: &[&[u8]]) -> Vec<u8> {
    let mut input = format!("*{}\r\n", command.len()).into_bytes();
    for arg in command {
        input.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        input.extend_from_slice(arg);
        input.extend_from_slice(b"\r\n");
    }
    input
}

fn seat(server: &Server, worker: &mut Worker, token: u64) -> Seat {
    let id = server.clients.next_id();
    let session = Session {
        id,
        db: 0,
        version: Version::Resp2,
        authenticated: true,
        local: true,
        reply_mode: engine::session::ReplyMode::On,
        close_after_reply: false,
    };
    Seat {
        conn: worker.open(client(id, token), session),
        output: Output::new(),
        flow: Flow::Read,
        resumed: false,
    }
}

fn client(id: u64, token: u64) -> Client {
    Client {
        id,
        addr: String::new(),
        laddr: String::new(),
        fd: -1,
        unix_socket: false,
        created_ms: START_MS,
        labels: Mutex::default(),
        place: Mutex::new((0, token)),
        active_ms: AtomicI64::new(START_MS),
        db: AtomicU32::new(0),
        last_command: AtomicU16::new(u16::MAX),
        resp: AtomicU16::new(2),
        query_bytes: AtomicUsize::new(0),
        output_bytes: AtomicUsize::new(0),
        bytes_in: AtomicU64::new(0),
        bytes_out: AtomicU64::new(0),
        commands: AtomicU64::new(0),
        blocked: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        no_evict: AtomicBool::new(false),
        no_touch: AtomicBool::new(false),
    }
}
