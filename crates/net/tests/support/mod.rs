//! A service with a line protocol whose commands exercise each answer a service can give, and
//! servers over either backend.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::format_push_string,
    reason = "tests; each file uses its part"
)]

use env::sync::Mutex;
use net::{
    Closed, Desk, Flow, Handle, IoBackend, ListenAddress, ListenSpec, NetConfig, Peer, Ready,
    Server, Service, StartError, Token, Waker,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Lines executed per connection and batch.
const LINES_MAX: usize = 256;
const OUTPUT_MAX: usize = 256 * 1024;

/// What another thread asks a loop to do with a connection.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    Resume,
    Push,
    Close { flush: bool },
}

/// A connection as the test names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub index: usize,
    pub token: Token,
}

#[derive(Debug, Default)]
pub struct Lines {
    wakers: Mutex<Vec<Option<Waker>>>,
    orders: Mutex<Vec<(Place, Order)>>,
    /// Connections that said PARK or HOLD and were not resumed.
    pub parked: Mutex<Vec<Place>>,
    pub closed: Mutex<Vec<Closed>>,
    pub peers: Mutex<Vec<Peer>>,
    pub opened: AtomicUsize,
    pub adopted: AtomicUsize,
    pub ticks: AtomicU64,
    pub batch_max: AtomicUsize,
    pub pending_seen: AtomicUsize,
    pub pending_allowed: AtomicUsize,
    pub refuse: AtomicBool,
    /// Echo bytes instead of reading lines.
    pub echo: bool,
}

#[derive(Debug)]
pub struct Worker {
    index: usize,
    asleep: bool,
}

#[derive(Debug, Default)]
pub struct Session {
    buffer: Vec<u8>,
    parked: bool,
    resumed: bool,
    again_left: usize,
    next: u64,
}

impl Lines {
    pub fn new() -> Arc<Self> {
        let lines = Self::default();
        lines.pending_allowed.store(usize::MAX, Ordering::Relaxed);
        Arc::new(lines)
    }

    pub fn echo() -> Arc<Self> {
        let lines = Self {
            echo: true,
            ..Self::default()
        };
        lines.pending_allowed.store(usize::MAX, Ordering::Relaxed);
        Arc::new(lines)
    }

    /// Gives an order from the calling thread.
    pub fn order(&self, place: Place, order: Order) {
        self.orders.lock().push((place, order));
        let waker = self.wakers.lock()[place.index].clone().unwrap();
        waker.wake();
    }

    /// Waits until so many connections are parked and returns them.
    pub fn wait_parked(&self, count: usize) -> Vec<Place> {
        wait_until("connections to park", || self.parked.lock().len() >= count);
        self.parked.lock().clone()
    }

    fn run_one(&self, worker: &Worker, ready: &mut Ready<'_, Session>) -> Flow {
        let token = ready.token;
        let session = &mut *ready.conn;
        if session.parked && !session.resumed {
            // New input while parked: kept.
            return if session.buffer.len() > 1000 {
                Flow::Hold
            } else {
                Flow::Read
            };
        }
        if std::mem::take(&mut session.resumed) {
            session.parked = false;
            self.parked.lock().retain(|place| place.token != token);
            ready.output.bytes().extend_from_slice(b"resumed\n");
        }
        for _ in 0..LINES_MAX {
            if ready.output.len() > OUTPUT_MAX {
                return Flow::Drain;
            }
            let Some(end) = session.buffer.iter().position(|&b| b == b'\n') else {
                return Flow::Read;
            };
            let line = String::from_utf8(session.buffer[..end].to_vec()).unwrap();
            let (name, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let number = || argument.parse::<usize>().unwrap();
            let output = ready.output.bytes();
            match name {
                "ECHO" => output.extend_from_slice(format!("{argument}\n").as_bytes()),
                "LOOP" => output.extend_from_slice(format!("{}\n", worker.index).as_bytes()),
                "BIG" => output.resize(output.len() + number(), b'x'),
                "BLOB" => {
                    output.push(b'<');
                    ready.output.push_blob(Arc::new(vec![b'B'; number()]));
                    ready.output.bytes().push(b'>');
                }
                "N" => {
                    assert_eq!(session.next, number() as u64, "lines arrive in order");
                    session.next += 1;
                    output.extend_from_slice(format!("{argument}\n").as_bytes());
                    spin(Duration::from_micros(100));
                }
                "AGAIN" => {
                    if session.again_left == 0 {
                        session.again_left = number() + 1;
                    }
                    session.again_left -= 1;
                    if session.again_left > 0 {
                        return Flow::Again;
                    }
                    output.extend_from_slice(b"again\n");
                }
                "CLOSE" => {
                    output.extend_from_slice(b"bye\n");
                    return Flow::Close;
                }
                "ABORT" => return Flow::Abort,
                "PARK" | "HOLD" => {
                    session.parked = true;
                    session.buffer.drain(..=end);
                    self.parked.lock().push(Place {
                        index: worker.index,
                        token,
                    });
                    return if name == "HOLD" {
                        Flow::Hold
                    } else {
                        Flow::Read
                    };
                }
                other => panic!("unknown line {other:?}"),
            }
            session.buffer.drain(..=end);
        }
        Flow::Again
    }
}

impl Service for Lines {
    type Worker = Worker;
    type Conn = Session;

    fn start(&self, index: usize, waker: Waker) -> Worker {
        let mut wakers = self.wakers.lock();
        if wakers.len() <= index {
            wakers.resize(index + 1, None);
        }
        wakers[index] = Some(waker);
        Worker {
            index,
            asleep: false,
        }
    }

    fn open(
        &self,
        worker: &mut Worker,
        _token: Token,
        peer: Peer,
    ) -> Result<Box<Session>, Vec<u8>> {
        assert!(!worker.asleep);
        if self.refuse.load(Ordering::Relaxed) {
            return Err(b"-full\n".to_vec());
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.peers.lock().push(peer);
        Ok(Box::default())
    }

    fn adopt(&self, worker: &mut Worker, _token: Token, conn: &mut Session) {
        assert!(!worker.asleep && !conn.parked);
        self.adopted.fetch_add(1, Ordering::Relaxed);
    }

    fn movable(&self, conn: &Session) -> bool {
        !conn.parked
    }

    fn prepare(&self, worker: &mut Worker, batch: &mut [Ready<'_, Session>]) {
        assert!(!worker.asleep && !batch.is_empty());
        self.batch_max.fetch_max(batch.len(), Ordering::Relaxed);
    }

    fn run(&self, worker: &mut Worker, batch: &mut [Ready<'_, Session>]) {
        for ready in batch {
            if self.echo {
                ready.output.bytes().extend_from_slice(ready.input);
                let full = ready.output.len() > OUTPUT_MAX;
                ready.flow = if full { Flow::Drain } else { Flow::Read };
            } else {
                ready.conn.buffer.extend_from_slice(ready.input);
                ready.flow = self.run_one(worker, ready);
            }
        }
    }

    fn inbox(&self, worker: &mut Worker, desk: &mut dyn Desk<Session>) {
        assert!(!worker.asleep);
        let mut orders = self.orders.lock();
        let (mine, others) = orders.drain(..).partition(|(p, _)| p.index == worker.index);
        *orders = others;
        drop(orders);
        let mine: Vec<(Place, Order)> = mine;
        for (Place { token, .. }, order) in mine {
            match order {
                Order::Resume => {
                    let (session, _) = desk.with(token).expect("parked connections do not move");
                    session.resumed = true;
                    assert!(desk.resume(token));
                }
                Order::Push => {
                    let (_, output) = desk.with(token).expect("it is open");
                    output.bytes().extend_from_slice(b"pushed\n");
                }
                Order::Close { flush } => {
                    let (_, output) = desk.with(token).expect("it is open");
                    output.bytes().extend_from_slice(b"last\n");
                    assert!(desk.close(token, flush));
                    assert!(!desk.close(token, flush) && desk.with(token).is_none());
                }
            }
        }
    }

    fn pending(&self, worker: &mut Worker, _conn: &mut Session, pending: usize) -> bool {
        assert!(!worker.asleep && pending > 0);
        self.pending_seen.fetch_max(pending, Ordering::Relaxed);
        pending <= self.pending_allowed.load(Ordering::Relaxed)
    }

    fn tick(&self, worker: &mut Worker, desk: &mut dyn Desk<Session>) {
        assert!(!worker.asleep);
        assert!(desk.tokens().len() <= self.opened.load(Ordering::Relaxed));
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    fn sleeping(&self, worker: &mut Worker, asleep: bool) {
        assert_ne!(worker.asleep, asleep);
        worker.asleep = asleep;
    }

    fn close(&self, worker: &mut Worker, conn: Box<Session>, why: Closed) {
        assert!(!worker.asleep);
        drop(conn);
        self.closed.lock().push(why);
    }
}

/// A running server that is stopped when dropped.
pub struct Running {
    pub handle: Handle,
    pub address: SocketAddr,
}

impl Running {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
            .set_write_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub fn open_sessions(&self) -> u64 {
        self.handle
            .stats()
            .iter()
            .map(|stats| stats.connections)
            .sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop(Duration::from_millis(200));
    }
}

/// Starts a server on a free port; `None` (with the reason printed) if this machine lacks io_uring.
pub fn start(backend: IoBackend, loops: usize, service: &Arc<Lines>) -> Option<Running> {
    let mut config = NetConfig::new(loops);
    config.backend = backend;
    let listeners = [ListenSpec::tcp(([127, 0, 0, 1], 0).into())];
    let handle = match Server::start(&config, &listeners, service) {
        Ok(handle) => handle,
        Err(StartError::Backend(error)) if backend == IoBackend::IoUring => {
            println!("skipped: io_uring is not available here: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let name = if backend == IoBackend::Epoll {
        "epoll"
    } else {
        "io_uring"
    };
    assert!(handle.stats().iter().all(|stats| stats.backend == name));
    let ListenAddress::Tcp(address) = handle.listeners()[0].1 else {
        unreachable!()
    };
    Some(Running { handle, address })
}

/// Waits up to 20 s for something to become true.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if done() {
            return;
        }
        env::thread::sleep_ms(5);
    }
    panic!("waited in vain for {what}");
}

pub fn spin(time: Duration) {
    let until = env::clock::monotonic_ns() + time.as_nanos() as u64;
    while env::clock::monotonic_ns() < until {
        std::hint::spin_loop();
    }
}

/// Reads exactly so many bytes.
pub fn read_bytes(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Sends a line and returns the line that comes back, without its end.
pub fn ask(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    read_line(stream)
}

/// Reads one line byte by byte, so that nothing after it is taken.
pub fn read_line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).unwrap();
        if byte[0] == b'\n' {
            return String::from_utf8(line).unwrap();
        }
        line.push(byte[0]);
    }
}

/// Lines until the peer closes.
pub fn rest_of(stream: TcpStream) -> Vec<String> {
    BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .collect()
}

/// Bytes that repeat only after a long time, so that displaced ones are noticed.
pub fn pattern(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// Makes a test for each backend out of a function of the backend.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $name() { super::$name(net::IoBackend::Epoll); })*
        }
        mod io_uring {
            $(#[test] fn $name() { super::$name(net::IoBackend::IoUring); })*
        }
    };
}
