//! Who is connected: what CLIENT LIST shows and CLIENT KILL selects, readable from any thread.
//!
//! A connection's own loop is the only writer of its [`Client`]'s counters; they are relaxed
//! atomics on the connection's own memory, so nothing here is shared on the data path.

use env::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

/// Number of independently locked parts of the directory.
const PARTS: usize = 16;

/// Texts a client sets about itself.
#[derive(Debug, Default, Clone)]
pub struct Labels {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
}

/// What is known of one connection.
#[derive(Debug)]
pub struct Client {
    /// CLIENT ID.
    pub id: u64,
    /// Peer's address, as CLIENT LIST prints it.
    pub addr: String,
    /// Our address.
    pub laddr: String,
    /// File descriptor.
    pub fd: i32,
    /// Connected over a unix socket.
    pub unix_socket: bool,
    /// Unix time of the connection, ms.
    pub created_ms: i64,
    /// Texts.
    pub labels: Mutex<Labels>,
    /// Loop and token under which it can be reached.
    pub place: Mutex<(usize, u64)>,
    /// Unix time of the last command, ms.
    pub active_ms: AtomicI64,
    /// Selected database.
    pub db: AtomicU32,
    /// Last command, an index into the registry; `u16::MAX` before the first.
    pub last_command: AtomicU16,
    /// 2 or 3.
    pub resp: AtomicU16,
    /// Bytes of incomplete or unexecuted input.
    pub query_bytes: AtomicUsize,
    /// Unsent reply bytes.
    pub output_bytes: AtomicUsize,
    /// Bytes received in all.
    pub bytes_in: AtomicU64,
    /// Bytes replied in all.
    pub bytes_out: AtomicU64,
    /// Commands executed in all.
    pub commands: AtomicU64,
    /// Waiting for a key.
    pub blocked: AtomicBool,
    /// To be closed after its current reply.
    pub closing: AtomicBool,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
}

impl Client {
    /// One line of CLIENT LIST, without the newline.
    pub fn line(&self, now_ms: i64, command_name: &dyn Fn(u16) -> String) -> String {
        let labels = self.labels.lock().clone();
        let mut line = String::with_capacity(320);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let query = self.query_bytes.load(Relaxed);
        let output = self.output_bytes.load(Relaxed);
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 \
             multi=-1 qbuf={query} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll={} \
             omem={output} tot-mem={} events=r cmd={} user=default redir=-1 resp={} lib-name={} \
             lib-ver={}",
            self.id,
            self.addr,
            self.laddr,
            self.fd,
            text(&labels.name),
            (now_ms - self.created_ms).max(0) / 1000,
            (now_ms - self.active_ms.load(Relaxed)).max(0) / 1000,
            self.flags(),
            self.db.load(Relaxed),
            u8::from(output > 0),
            query + output + std::mem::size_of::<Client>(),
            command_name(self.last_command.load(Relaxed)),
            self.resp.load(Relaxed),
            text(&labels.lib_name),
            text(&labels.lib_ver),
        );
        line
    }

    fn flags(&self) -> String {
        let mut flags = String::new();
        for (set, letter) in [
            (self.blocked.load(Relaxed), 'b'),
            (self.closing.load(Relaxed), 'c'),
            (self.unix_socket, 'U'),
            (self.no_evict.load(Relaxed), 'e'),
            (self.no_touch.load(Relaxed), 'T'),
        ] {
            if set {
                flags.push(letter);
            }
        }
        if flags.is_empty() {
            flags.push('N');
        }
        flags
    }
}

/// All connections by id.
#[derive(Debug)]
pub struct Clients {
    parts: [Mutex<BTreeMap<u64, Arc<Client>>>; PARTS],
    next_id: AtomicU64,
    count: AtomicUsize,
}

impl Default for Clients {
    fn default() -> Self {
        Clients {
            parts: std::array::from_fn(|_| Mutex::new(BTreeMap::new())),
            next_id: AtomicU64::new(1),
            count: AtomicUsize::new(0),
        }
    }
}

impl Clients {
    /// The next id; never given twice.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// True if nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn part(&self, id: u64) -> &Mutex<BTreeMap<u64, Arc<Client>>> {
        &self.parts[(id % PARTS as u64) as usize]
    }

    /// Adds a connection.
    pub fn insert(&self, client: Arc<Client>) {
        self.count.fetch_add(1, Relaxed);
        self.part(client.id).lock().insert(client.id, client);
    }

    /// Removes a connection.
    pub fn remove(&self, id: u64) {
        if self.part(id).lock().remove(&id).is_some() {
            self.count.fetch_sub(1, Relaxed);
        }
    }

    /// The connection with this id.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.part(id).lock().get(&id).cloned()
    }

    /// Everybody, ordered by id.
    pub fn all(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> = self
            .parts
            .iter()
            .flat_map(|part| part.lock().values().cloned().collect::<Vec<_>>())
            .collect();
        all.sort_by_key(|client| client.id);
        all
    }
}
