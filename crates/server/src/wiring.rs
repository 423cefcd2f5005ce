//! Where the loops meet the engine: the only place that knows both.

use base::output::Output;
use engine::clients::Client;
use engine::config::Config;
use engine::server::Server;
use engine::session::{Conn, Flow, Item, Items, Session};
use engine::stats::bump;
use engine::worker::{Desk, Worker};
use net::{Address, Closed, Peer, Ready, Service, Token, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

/// What a connection from outside is told in protected mode.
const PROTECTED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled \
and no password is set for the default user. In this mode connections are only accepted from the \
loopback interface. To accept connections from elsewhere, set a password for the default user \
(requirepass), or, if nobody else can reach this server, turn protected mode off with CONFIG SET \
protected-mode no from a connection on the same machine and keep it with CONFIG REWRITE.\r\n";
/// What a connection beyond `maxclients` is told.
const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

/// The engine as the loops see it.
#[derive(Debug)]
pub(crate) struct Front {
    server: Arc<Server>,
}

impl Front {
    /// Serves `server`.
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Front { server }
    }

    /// Why a connection is not let in.
    fn refusal(&self, worker: &Worker, local: bool) -> Option<&'static str> {
        let config: &Config = &self.server.config;
        let refusal = if self.server.clients.len() >= config.maxclients() {
            TOO_MANY
        } else if config.protected_mode() && config.requirepass().as_bytes().is_empty() && !local {
            PROTECTED
        } else {
            return None;
        };
        bump(&worker.stats().connections_rejected, 1);
        Some(refusal)
    }
}

fn text(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("{path}:0"),
    }
}

fn is_local(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
        Address::Unix(_) => true,
    }
}

/// A loop's batch in the engine's terms.
struct Batch<'b, 'a>(&'b mut [Ready<'a, Conn>], Vec<Flow>);

impl Items for Batch<'_, '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn item(&mut self, index: usize) -> Item<'_> {
        let ready = &mut self.0[index];
        Item {
            conn: &mut ready.conn,
            input: ready.input,
            output: &mut ready.output,
            flow: &mut self.1[index],
        }
    }
}

/// A loop's connections in the engine's terms.
struct Connections<'d>(&'d mut dyn net::Desk<Conn>);

impl Desk for Connections<'_> {
    fn resume(&mut self, token: u64) {
        self.0.resume(Token(token));
    }
    fn close(&mut self, token: u64) {
        self.0.close(Token(token), false);
    }
    fn with(&mut self, token: u64) -> Option<(&mut Conn, &mut Output)> {
        self.0.with(Token(token))
    }
}

impl Service for Front {
    type Worker = Worker;
    type Conn = Conn;

    fn start(&self, index: usize, waker: Waker) -> Worker {
        Worker::new(&self.server, index, Box::new(move || waker.wake()))
    }

    fn open(&self, worker: &mut Worker, token: Token, peer: Peer) -> Result<Box<Conn>, Vec<u8>> {
        let local = is_local(&peer.remote);
        if let Some(refusal) = self.refusal(worker, local) {
            return Err(refusal.into());
        }
        let id = self.server.clients.next_id();
        let now_ms = self.server.now_ms();
        let client = Client {
            id,
            addr: text(&peer.remote),
            laddr: text(&peer.local),
            fd: peer.fd,
            unix_socket: matches!(peer.remote, Address::Unix(_)),
            created_ms: now_ms,
            labels: env::sync::Mutex::default(),
            place: env::sync::Mutex::new((worker.index, token.0)),
            active_ms: AtomicI64::new(now_ms),
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
        };
        let session = Session {
            id,
            db: 0,
            version: resp::Version::Resp2,
            authenticated: self.server.config.requirepass().as_bytes().is_empty(),
            local,
            reply_mode: engine::session::ReplyMode::On,
            close_after_reply: false,
        };
        Ok(worker.open(client, session))
    }

    fn adopt(&self, worker: &mut Worker, token: Token, conn: &mut Conn) {
        worker.adopt(conn, token.0);
    }

    fn movable(&self, conn: &Conn) -> bool {
        conn.movable()
    }

    fn prepare(&self, worker: &mut Worker, batch: &mut [Ready<'_, Conn>]) {
        let flows = vec![Flow::Read; batch.len()];
        worker.prepare(&mut Batch(batch, flows));
    }

    fn run(&self, worker: &mut Worker, batch: &mut [Ready<'_, Conn>]) {
        let flows = vec![Flow::Read; batch.len()];
        let mut items = Batch(batch, flows);
        worker.run(&mut items);
        let Batch(batch, flows) = items;
        for (ready, flow) in batch.iter_mut().zip(flows) {
            ready.flow = match flow {
                Flow::Read => net::Flow::Read,
                Flow::Again => net::Flow::Again,
                Flow::Drain => net::Flow::Drain,
                Flow::Hold => net::Flow::Hold,
                Flow::Close => net::Flow::Close,
                Flow::Abort => net::Flow::Abort,
            };
        }
    }

    fn inbox(&self, worker: &mut Worker, desk: &mut dyn net::Desk<Conn>) {
        worker.inbox(&mut Connections(desk));
    }

    fn pending(&self, worker: &mut Worker, conn: &mut Conn, pending: usize) -> bool {
        worker.output_pending(conn, pending)
    }

    fn tick(&self, worker: &mut Worker, desk: &mut dyn net::Desk<Conn>) {
        if self.server.config.timeout_s() == 0 {
            return;
        }
        for token in desk.tokens() {
            if let Some((conn, _)) = desk.with(token)
                && worker.timed_out(conn)
            {
                desk.close(token, false);
            }
        }
    }

    fn sleeping(&self, _worker: &mut Worker, _asleep: bool) {
        // The engine is inside its critical region only from prepare to run.
    }

    fn close(&self, worker: &mut Worker, mut conn: Box<Conn>, _why: Closed) {
        worker.close(&mut conn);
    }
}
