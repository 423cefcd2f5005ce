//! One thread of the load: its connections, its event loop, its statistics.
//!
//! What it never knows: the command line, other threads.
//!
//! Closed loop: each connection keeps `depth` requests in flight; a reply is answered by the next
//! request at once. Open loop: requests fall due at times fixed beforehand, whether or not earlier
//! ones were answered; one that finds its connection full waits in `backlog`, and its latency counts
//! from the time it fell due, so a stalled server cannot hide its stall by slowing the client.
//!
//! Invariant: `pending` holds exactly the requests written (to the socket or to `out`) and not yet
//! answered, oldest first.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use hdrhistogram::Histogram;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::Timespec;

use super::plan::Arrivals;
use super::template::{Filler, Template};
use crate::random::{KeyStream, Random};
use crate::resp::{Reply, ReplyScanner};
use crate::sys;

const EVENTS_MAX: usize = 256;
const RECEIVE_BYTES: usize = 256 * 1024;
/// How long a closed loop sleeps at most before it looks at the clock again.
const WAIT_MS_MAX: i64 = 5;
/// An open loop stops sleeping this long before a request falls due, and polls.
const POLL_NS: u64 = 80_000;
/// How long after the window an open loop waits for answers still outstanding.
const DRAIN_NS_MAX: u64 = 120_000_000_000;
/// Latencies above this are recorded as this.
const LATENCY_NS_MAX: u64 = 200_000_000_000;

/// What a worker is to do.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) keys: Vec<KeyStream>,
    pub(super) randoms: Vec<Random>,
    /// Requests each connection may send; `u64::MAX` for no limit.
    pub(super) budgets: Vec<u64>,
    pub(super) templates: Vec<(Template, u32)>,
    pub(super) pool: Vec<u8>,
    pub(super) number_range: u64,
    pub(super) depth: usize,
    pub(super) pace: Option<Pace>,
    /// Measured window on the monotonic clock; `end_ns` is `u64::MAX` when budgets end the run.
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) keep_samples: bool,
}

/// The open loop's clockwork: a request falls due every `interval_ns`, the first at `next_ns`.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    pub(super) interval_ns: f64,
    pub(super) next_ns: f64,
    pub(super) arrivals: Arrivals,
    pub(super) random: Random,
}

impl Pace {
    fn advance(&mut self) {
        self.next_ns += match self.arrivals {
            Arrivals::Constant => self.interval_ns,
            Arrivals::Poisson => -self.random.unit().ln() * self.interval_ns,
        };
    }
}

/// One kind of request in the measured window.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) replies: u64,
    pub(crate) errors: u64,
    /// Values and nulls in the replies: hits and misses for GET and MGET.
    pub(crate) values: u64,
    pub(crate) nulls: u64,
    /// Nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

impl Tally {
    pub(super) fn new(name: &str) -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("the bounds are constants and valid");
        Self {
            name: name.to_owned(),
            replies: 0,
            errors: 0,
            values: 0,
            nulls: 0,
            latency,
        }
    }
}

/// A request with its times, kept when asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) start_ns: u64,
    pub(crate) latency_ns: u64,
}

#[derive(Debug)]
pub(super) struct Yield {
    pub(super) tallies: Vec<Tally>,
    pub(super) samples: Vec<Sample>,
    pub(super) client_cpu_ns: u64,
    pub(super) end_ns: u64,
    pub(super) first_error: Option<String>,
    /// Requests that fell due in the window and were never answered.
    pub(super) unanswered: u64,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    keys: KeyStream,
    random: Random,
    budget: u64,
    scanner: ReplyScanner,
    pending: VecDeque<Pending>,
    backlog: VecDeque<u64>,
    out: Vec<u8>,
    waits_to_write: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pending {
    start_ns: u64,
    template: u32,
}

#[derive(Debug)]
struct Worker {
    connections: Vec<Connection>,
    epoll: OwnedFd,
    writer: Writer,
    ledger: Ledger,
    depth: usize,
    pace: Option<Pace>,
    end_ns: u64,
    input: Vec<u8>,
    /// Open loop: connections with requests written but not sent.
    touched: Vec<usize>,
    /// Open loop: the connection that takes the next request.
    turn: usize,
}

/// Writes requests.
#[derive(Debug)]
struct Writer {
    templates: Vec<(Template, u32)>,
    weights: u64,
    pool: Vec<u8>,
    number_range: u64,
}

/// Counts replies.
#[derive(Debug)]
struct Ledger {
    tallies: Vec<Tally>,
    samples: Vec<Sample>,
    keep_samples: bool,
    by_start: bool,
    begin_ns: u64,
    end_ns: u64,
    first_error: Option<String>,
    /// Replies of one template sent at one time and arriving together are recorded at once.
    run: Option<(Pending, u64)>,
}

/// Does the task on the calling thread.
pub(super) fn run(task: Task) -> Result<Yield, String> {
    let mut worker = Worker::new(task).map_err(|error| error.to_string())?;
    let end = worker.drive()?;
    Ok(worker.finish(&end))
}

/// When the measured part ended and what the thread had used at its beginning.
struct End {
    end_ns: u64,
    client_cpu_ns: u64,
}

impl Worker {
    fn new(task: Task) -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        let parts = task
            .sockets
            .into_iter()
            .zip(task.keys)
            .zip(task.randoms)
            .zip(task.budgets);
        for (index, (((socket, keys), random), budget)) in parts.enumerate() {
            sys::set_nonblocking(&socket)?;
            epoll::add(
                &epoll,
                &socket,
                EventData::new_u64(index as u64),
                EventFlags::IN,
            )?;
            connections.push(Connection {
                socket,
                keys,
                random,
                budget,
                scanner: ReplyScanner::default(),
                pending: VecDeque::with_capacity(task.depth.min(1024)),
                backlog: VecDeque::new(),
                out: Vec::new(),
                waits_to_write: false,
            });
        }
        let ledger = Ledger {
            tallies: task
                .templates
                .iter()
                .map(|(template, _)| Tally::new(&template.name))
                .collect(),
            samples: Vec::new(),
            keep_samples: task.keep_samples,
            by_start: task.pace.is_some(),
            begin_ns: task.begin_ns,
            end_ns: task.end_ns,
            first_error: None,
            run: None,
        };
        let writer = Writer {
            weights: task
                .templates
                .iter()
                .map(|(_, weight)| u64::from(*weight))
                .sum(),
            templates: task.templates,
            pool: task.pool,
            number_range: task.number_range,
        };
        Ok(Self {
            connections,
            epoll,
            writer,
            ledger,
            depth: task.depth,
            pace: task.pace,
            end_ns: task.end_ns,
            input: vec![0; RECEIVE_BYTES],
            touched: Vec::new(),
            turn: 0,
        })
    }

    fn drive(&mut self) -> Result<End, String> {
        let mut events = vec![
            Event {
                flags: EventFlags::empty(),
                data: EventData::new_u64(0)
            };
            EVENTS_MAX
        ];
        if self.pace.is_none() {
            let now = sys::now_ns();
            for index in 0..self.connections.len() {
                let depth = self.depth;
                self.connections[index].request(&self.writer, depth, now);
                self.send(index)?;
            }
        }
        let mut cpu_begin = None;
        loop {
            let now = sys::now_ns();
            if cpu_begin.is_none() && now >= self.ledger.begin_ns {
                cpu_begin = Some(sys::thread_cpu_ns());
            }
            if self.finished(now) {
                return Ok(End {
                    end_ns: now,
                    client_cpu_ns: sys::thread_cpu_ns() - cpu_begin.unwrap_or_default(),
                });
            }
            self.issue_due(now)?;
            let timeout = self.timeout(now);
            let ready = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
                Err(Errno::INTR) => continue,
                ready => ready.map_err(|error| format!("epoll: {error}"))?,
            };
            for event in &events[..ready] {
                let index = event.data.u64() as usize;
                let flags = event.flags;
                if flags.contains(EventFlags::OUT) {
                    self.send(index)?;
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.receive(index)?;
                }
            }
        }
    }

    fn finished(&self, now: u64) -> bool {
        let idle = |connection: &Connection| {
            connection.pending.is_empty() && connection.backlog.is_empty()
        };
        if self.end_ns == u64::MAX {
            return self
                .connections
                .iter()
                .all(|connection| connection.budget == 0 && idle(connection));
        }
        if self.pace.is_none() || now < self.end_ns {
            return now >= self.end_ns;
        }
        now >= self.end_ns.saturating_add(DRAIN_NS_MAX) || self.connections.iter().all(idle)
    }

    fn timeout(&self, now: u64) -> Timespec {
        let nanoseconds = match &self.pace {
            Some(pace) if now < self.end_ns => {
                let wait = (pace.next_ns as u64).saturating_sub(now);
                if wait < POLL_NS {
                    0
                } else {
                    (wait - POLL_NS).min(50_000_000) as i64
                }
            }
            _ => WAIT_MS_MAX * 1_000_000,
        };
        Timespec {
            tv_sec: 0,
            tv_nsec: nanoseconds,
        }
    }

    /// Open loop: writes and sends every request that has fallen due.
    fn issue_due(&mut self, now: u64) -> Result<(), String> {
        let Some(pace) = &mut self.pace else {
            return Ok(());
        };
        while pace.next_ns as u64 <= now && (pace.next_ns as u64) < self.end_ns {
            let due = pace.next_ns as u64;
            pace.advance();
            // Round robin keeps the spacing on each connection even, too.
            let index = self.turn;
            self.turn = (self.turn + 1) % self.connections.len();
            let connection = &mut self.connections[index];
            if connection.pending.len() < self.depth {
                if connection.out.is_empty() {
                    self.touched.push(index);
                }
                connection.request(&self.writer, 1, due);
            } else {
                connection.backlog.push_back(due);
            }
        }
        while let Some(index) = self.touched.pop() {
            self.send(index)?;
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.connections[index];
        let received =
            match rustix::net::recv(&connection.socket, &mut self.input[..], RecvFlags::empty()) {
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => return Err(format!("receive: {error}")),
                Ok((0, _)) => return Err("the server closed a connection".to_owned()),
                Ok((received, _)) => received,
            };
        let now = sys::now_ns();
        let ledger = &mut self.ledger;
        let pending = &mut connection.pending;
        let mut completed = 0;
        let mut surplus = false;
        connection
            .scanner
            .feed(&self.input[..received], |reply, error| {
                completed += 1;
                match pending.pop_front() {
                    Some(request) => ledger.enter(request, reply, error, now),
                    None => surplus = true,
                }
            })
            .map_err(|error| error.to_string())?;
        if surplus {
            return Err("more replies than requests".to_owned());
        }
        self.ledger.close_run(now);
        if self.pace.is_none() {
            if now < self.end_ns {
                connection.request(&self.writer, completed, now);
            }
        } else {
            for _ in 0..completed {
                let Some(due) = connection.backlog.pop_front() else {
                    break;
                };
                connection.request(&self.writer, 1, due);
            }
        }
        self.send(index)
    }

    /// Sends what a connection has written; waits for writability when the socket is full.
    #[inline]
    fn send(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.connections[index];
        if connection.out.is_empty() {
            return Ok(());
        }
        match rustix::net::send(&connection.socket, &connection.out, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == connection.out.len() => connection.out.clear(),
            Ok(sent) => drop(connection.out.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(format!("send: {error}")),
        }
        let waits = !connection.out.is_empty();
        if waits != connection.waits_to_write {
            connection.waits_to_write = waits;
            let flags = if waits {
                EventFlags::IN | EventFlags::OUT
            } else {
                EventFlags::IN
            };
            epoll::modify(
                &self.epoll,
                &connection.socket,
                EventData::new_u64(index as u64),
                flags,
            )
            .map_err(|error| format!("epoll: {error}"))?;
        }
        Ok(())
    }

    fn finish(self, end: &End) -> Yield {
        let outstanding = |connection: &Connection| {
            connection.backlog.len() as u64 + connection.pending.len() as u64
        };
        let unanswered = if self.pace.is_some() {
            self.connections.iter().map(outstanding).sum()
        } else {
            0
        };
        Yield {
            tallies: self.ledger.tallies,
            samples: self.ledger.samples,
            client_cpu_ns: end.client_cpu_ns,
            end_ns: end.end_ns,
            first_error: self.ledger.first_error,
            unanswered,
        }
    }
}

impl Connection {
    /// Writes up to `count` requests that start at `start_ns`, as the budget allows.
    #[inline]
    fn request(&mut self, writer: &Writer, count: usize, start_ns: u64) {
        let count = (count as u64).min(self.budget);
        if self.budget != u64::MAX {
            self.budget -= count;
        }
        let mut filler = Filler {
            keys: &mut self.keys,
            random: &mut self.random,
            pool: &writer.pool,
            number_range: writer.number_range,
        };
        for _ in 0..count {
            let template = writer.choose(&mut *filler.random);
            writer.templates[template]
                .0
                .write(&mut filler, &mut self.out);
            self.pending.push_back(Pending {
                start_ns,
                template: template as u32,
            });
        }
    }
}

impl Writer {
    #[inline]
    fn choose(&self, random: &mut Random) -> usize {
        if self.templates.len() == 1 {
            return 0;
        }
        let mut ticket = random.below(self.weights);
        for (index, (_, weight)) in self.templates.iter().enumerate() {
            match ticket.checked_sub(u64::from(*weight)) {
                Some(rest) => ticket = rest,
                None => return index,
            }
        }
        unreachable!("the ticket is below the sum of the weights")
    }
}

impl Ledger {
    #[inline]
    fn enter(&mut self, request: Pending, reply: Reply, error: &[u8], now: u64) {
        if reply.error && self.first_error.is_none() {
            self.first_error = Some(String::from_utf8_lossy(error).into_owned());
        }
        let at = if self.by_start { request.start_ns } else { now };
        if at < self.begin_ns || at >= self.end_ns {
            return;
        }
        let tally = &mut self.tallies[request.template as usize];
        tally.replies += 1;
        tally.errors += u64::from(reply.error);
        tally.values += u64::from(reply.values);
        tally.nulls += u64::from(reply.nulls);
        match &mut self.run {
            Some((same, count)) if *same == request => *count += 1,
            _ => {
                self.close_run(now);
                self.run = Some((request, 1));
            }
        }
    }

    #[inline]
    fn close_run(&mut self, now: u64) {
        if let Some((request, count)) = self.run.take() {
            let latency_ns = now.saturating_sub(request.start_ns);
            self.tallies[request.template as usize]
                .latency
                .saturating_record_n(latency_ns, count);
            if self.keep_samples {
                let sample = Sample {
                    start_ns: request.start_ns,
                    latency_ns,
                };
                self.samples
                    .extend(std::iter::repeat_n(sample, count as usize));
            }
        }
    }
}
