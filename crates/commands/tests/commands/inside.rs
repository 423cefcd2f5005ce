//! The engine with all commands in this process, without sockets: one loop, one connection, and a
//! clock that stands still until it is moved.

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

const TOKEN: u64 = 1;
/// How long a command on the slow lane may take, ms.
const WAIT_MS_MAX: u64 = 20_000;

/// Where the clock stands at the beginning: some day in 2023, ms.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// The process.
pub(crate) struct Inside {
    pub(crate) server: Arc<Server>,
    pub(crate) clock: Clock,
    worker: Worker,
    seat: Seat,
}

/// The connection and what belongs to it.
struct Seat {
    conn: Box<Conn>,
    output: Output,
    resumed: bool,
}

struct Batch<'a> {
    seat: &'a mut Seat,
    input: &'a [u8],
    flow: Flow,
}

impl Items for Batch<'_> {
    fn len(&self) -> usize {
        1
    }

    fn item(&mut self, _index: usize) -> Item<'_> {
        Item {
            conn: &mut self.seat.conn,
            input: self.input,
            output: &mut self.seat.output,
            flow: &mut self.flow,
        }
    }
}

impl Desk for Seat {
    fn resume(&mut self, token: u64) {
        assert_eq!(token, TOKEN);
        self.resumed = true;
    }

    fn close(&mut self, _token: u64) {
        panic!("nobody closes the connection");
    }

    fn with(&mut self, token: u64) -> Option<(&mut Conn, &mut Output)> {
        (token == TOKEN).then_some((&mut self.conn, &mut self.output))
    }
}

impl Inside {
    pub(crate) fn new() -> Inside {
        let store = Store::new(StoreConfig {
            shards: 4,
            databases: 16,
            memory_bytes: 1 << 30,
            lane_threads: 2,
        })
        .expect("there is address space");
        let registry = Registry::new(commands::TABLES, &[]).expect("no renames, no error");
        let clock = Clock::manual(START_MS as u64 * 1_000);
        let server = Server::new(Arc::new(Config::new()), store, registry, clock.clone());
        let mut worker = Worker::new(&server, 0, Box::new(|| {}));
        let id = server.clients.next_id();
        let client = client(id);
        let session = Session {
            id,
            db: 0,
            version: Version::Resp2,
            authenticated: true,
            local: true,
            reply_mode: engine::session::ReplyMode::On,
            close_after_reply: false,
        };
        let conn = worker.open(client, session);
        let seat = Seat {
            conn,
            output: Output::new(),
            resumed: false,
        };
        Inside {
            server,
            clock,
            worker,
            seat,
        }
    }

    /// Executes one command; gives the reply as it would stand on the wire.
    pub(crate) fn run(&mut self, command: &[&[u8]]) -> Vec<u8> {
        let mut input = format!("*{}\r\n", command.len()).into_bytes();
        for arg in command {
            input.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            input.extend_from_slice(arg);
            input.extend_from_slice(b"\r\n");
        }
        self.batch(&input);
        let deadline_ms = env::clock::now_ms() + WAIT_MS_MAX;
        while self.seat.output.is_empty() {
            assert!(
                env::clock::now_ms() < deadline_ms,
                "no reply to {command:?}"
            );
            env::thread::sleep_us(50);
            self.worker.inbox(&mut self.seat);
            if std::mem::take(&mut self.seat.resumed) {
                self.batch(b"");
            }
        }
        let reply: Vec<u8> = self
            .seat
            .output
            .segments(usize::MAX)
            .flatten()
            .copied()
            .collect();
        self.seat.output.clear();
        reply
    }

    fn batch(&mut self, input: &[u8]) {
        let mut input = input;
        loop {
            let mut batch = Batch {
                seat: &mut self.seat,
                input,
                flow: Flow::Read,
            };
            self.worker.prepare(&mut batch);
            self.worker.run(&mut batch);
            if batch.flow != Flow::Again {
                return;
            }
            input = b"";
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

fn client(id: u64) -> Client {
    Client {
        id,
        addr: String::new(),
        laddr: String::new(),
        fd: -1,
        unix_socket: false,
        created_ms: START_MS,
        labels: Mutex::default(),
        place: Mutex::new((0, TOKEN)),
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
