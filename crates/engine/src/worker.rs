//! One loop's part of the engine: turns batches of input into batches of replies.
//!
//! A batch is worked off in chunks of at most [`CHUNK_COMMANDS`] commands. Each chunk is *planned*
//! (parsed, keys hashed, buckets prefetched, then records prefetched) and then *run* in order.
//! Planning is a hint only: what a command does is decided when it runs.

use crate::clients::Client;
use crate::command::Args;
use crate::config::Config;
use crate::execute::{self, Call, Step};
use crate::gates;
use crate::lane::{OwnedCommand, Parked};
use crate::registry::CommandId;
use crate::server::{Mailbox, Message, Server};
use crate::session::{Conn, Flow, Item, Items, Session, State};
use crate::stats::{ThreadStats, bump};
use env::sync::Arc;
use resp::{ArgRef, Limits, Parsed};
use std::sync::atomic::Ordering::Relaxed;

/// Commands planned before they are run.
const CHUNK_COMMANDS: usize = 128;
/// Records are asked for so many commands before they are needed: memory answers while those run.
const PREFETCH_AHEAD: usize = 8;
/// Unsent output at which a connection's next commands wait for it to drain, bytes.
const OUTPUT_PAUSE_BYTES: usize = 4 << 20;
/// Input kept for a suspended connection before reading stops, bytes.
const SUSPENDED_INPUT_BYTES_MAX: usize = 1 << 20;
/// Inline commands longer than this are rewritten by themselves, if the parser takes them, bytes.
const INLINE_REWRITTEN_BYTES_MAX: usize = 4096;
/// Under this slow-log threshold every command is timed by itself.
const EXACT_TIMING_BELOW_US: i64 = 1000;

/// A parsed command of the current chunk.
#[derive(Debug, Clone, Copy)]
struct Planned {
    item: u32,
    /// Database selected when it was planned; for prefetching only.
    db: u32,
    /// Registry index, `UNKNOWN` if there is no such command.
    id: u16,
    first_arg: u32,
    args: u32,
    first_hash: u32,
    hashes: u32,
    /// Where the next command of this input begins.
    end: usize,
}

const UNKNOWN: u16 = u16::MAX;

/// Progress through one connection's input within a batch.
#[derive(Debug, Clone, Default)]
struct Progress {
    from_pending: bool,
    /// Planned up to here.
    planned: usize,
    /// Executed up to here.
    consumed: usize,
    /// Nothing more to plan in this batch.
    planned_all: bool,
    /// Run nothing more in this batch.
    stopped: Option<Flow>,
    /// A parked command ran in this batch, too late for what follows it to be planned.
    resumed: bool,
    /// A complete command could not be parsed; reported once what is before it has run.
    protocol_error: Option<resp::ProtocolError>,
    output_before: usize,
    commands: u64,
    last_command: u16,
}

/// Per-loop state of the engine.
#[derive(Debug)]
pub struct Worker {
    /// Which loop.
    pub index: usize,
    server: Arc<Server>,
    mailbox: Arc<Mailbox>,
    stats: Arc<ThreadStats>,
    seat: store::Participant,
    planned: Vec<Planned>,
    refs: Vec<ArgRef>,
    hashes: Vec<u64>,
    progress: Vec<Progress>,
    next_item: usize,
    timer: Timer,
}

/// How far parsing one connection's input went.
enum Scan {
    /// To the end of what is there, of the chunk, or of what may be parsed before it runs.
    Stopped,
    /// Up to an inline command with quotes, which ends at `end`.
    Quoted { end: usize },
}

/// Attributes time to commands. Fast ones share one clock reading per run of them.
#[derive(Debug, Default)]
struct Timer {
    /// Every command is timed by itself.
    exact: bool,
    run: Vec<u16>,
    started_ns: u64,
}

impl Timer {
    fn settle(&mut self, stats: &ThreadStats) {
        if self.run.is_empty() {
            return;
        }
        let each = (env::clock::monotonic_ns() - self.started_ns) / self.run.len() as u64;
        for id in self.run.drain(..) {
            bump(&stats.command(CommandId(id)).time_ns, each);
        }
    }
}

impl Worker {
    /// Called on the loop's own thread. `wake` makes the loop call [`Worker::inbox`] soon.
    pub fn new(server: &Arc<Server>, index: usize, wake: Box<dyn Fn() + Send + Sync>) -> Worker {
        let mailbox = Arc::new(Mailbox::new(wake));
        server.add_mailbox(index, mailbox.clone());
        Worker {
            index,
            stats: server.stats.register(server.registry.len()),
            seat: server.store.safepoint().register(),
            server: server.clone(),
            mailbox,
            planned: Vec::new(),
            refs: Vec::new(),
            hashes: Vec::new(),
            progress: Vec::new(),
            next_item: 0,
            timer: Timer::default(),
        }
    }

    /// This loop's counters.
    pub fn stats(&self) -> &ThreadStats {
        &self.stats
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// A connection with this description and token begins.
    pub fn open(&mut self, client: Client, session: Session) -> Box<Conn> {
        let client = Arc::new(client);
        self.server.clients.insert(client.clone());
        bump(&self.stats.connections, 1);
        Box::new(Conn {
            client,
            pending: Vec::new(),
            pending_start: 0,
            progress: resp::Progress::default(),
            session: Some(Box::new(session)),
            state: State::Ready,
            soft_limit_since_ms: 0,
        })
    }

    /// A connection came from another loop.
    pub fn adopt(&mut self, conn: &mut Conn, token: u64) {
        *conn.client.place.lock() = (self.index, token);
    }

    /// A connection ended.
    pub fn close(&mut self, conn: &mut Conn) {
        if let State::Suspended(parked) = &conn.state {
            parked.abandon();
        }
        self.server.clients.remove(conn.client.id);
    }

    /// First step: takes the input in and plans the first chunk. [`Worker::run`] follows: between the
    /// two the loop is inside the safepoint's critical region.
    pub fn prepare(&mut self, items: &mut impl Items) {
        self.progress.clear();
        self.next_item = 0;
        for index in 0..items.len() {
            let item = items.item(index);
            *item.flow = Flow::Read;
            let mut progress = Progress {
                output_before: item.output.len(),
                last_command: UNKNOWN,
                ..Progress::default()
            };
            if !item.input.is_empty() {
                bump(&self.stats.bytes_in, item.input.len() as u64);
                bump(&item.conn.client.bytes_in, item.input.len() as u64);
            }
            if !item.conn.pending.is_empty() {
                item.conn.pending.extend_from_slice(item.input);
                progress.from_pending = true;
            } else if !matches!(item.conn.state, State::Ready) {
                item.conn.keep(item.input);
                progress.from_pending = true;
            }
            self.progress.push(progress);
        }
        self.seat.enter();
        self.plan(items);
    }

    /// Plans the next chunk.
    fn plan(&mut self, items: &mut impl Items) {
        self.planned.clear();
        self.refs.clear();
        self.hashes.clear();
        let count = items.len();
        while self.next_item < count && self.planned.len() < CHUNK_COMMANDS {
            let item = items.item(self.next_item);
            if self.progress[self.next_item].stopped.is_some()
                || !matches!(item.conn.state, State::Ready)
            {
                self.progress[self.next_item].planned_all = true;
            } else {
                self.plan_item(self.next_item, item.conn, item.input);
            }
            if self.progress[self.next_item].planned_all {
                self.next_item += 1;
            } else if self
                .planned
                .last()
                .is_some_and(|last| last.item as usize == self.next_item)
            {
                // A session that may change how the rest is parsed: run what is planned first.
                break;
            }
        }
    }

    fn plan_item(&mut self, index: usize, conn: &mut Conn, input: &[u8]) {
        loop {
            match self.scan(index, conn, input) {
                Scan::Stopped => return,
                Scan::Quoted { end } => {
                    // What is planned refers to the input as it is and runs first.
                    let progress = &self.progress[index];
                    if progress.planned > progress.consumed
                        || !self.rewrite_inline(index, conn, input, end)
                    {
                        return;
                    }
                }
            }
        }
    }

    /// Parses commands of one connection into the chunk.
    fn scan(&mut self, index: usize, conn: &mut Conn, input: &[u8]) -> Scan {
        let progress = &mut self.progress[index];
        let Conn {
            pending,
            pending_start,
            progress: parser,
            session,
            ..
        } = conn;
        let session = session
            .as_deref()
            .expect("a ready connection has its session");
        let source = if progress.from_pending {
            &pending[*pending_start..]
        } else {
            input
        };
        let limits = Limits {
            bulk_bytes_max: self.server.config.proto_max_bulk_len(),
            authenticated: session.authenticated,
        };
        let db = session.db;
        while self.planned.len() < CHUNK_COMMANDS {
            let first_arg = self.refs.len();
            let progress = &mut self.progress[index];
            match resp::parse_command(source, progress.planned, &limits, parser, &mut self.refs) {
                Ok(Parsed::Complete { end }) => {
                    progress.planned = end;
                    self.plan_command(index, source, first_arg, db, end);
                    if !session.authenticated {
                        return Scan::Stopped;
                    }
                }
                Ok(Parsed::Empty { end }) => {
                    progress.planned = end;
                    self.refs.truncate(first_arg);
                }
                Ok(Parsed::Quoted { end }) => return Scan::Quoted { end },
                Ok(Parsed::Incomplete { .. }) => {
                    self.refs.truncate(first_arg);
                    progress.planned_all = true;
                    return Scan::Stopped;
                }
                Err(error) => {
                    self.refs.truncate(first_arg);
                    progress.protocol_error = Some(error);
                    progress.planned_all = true;
                    return Scan::Stopped;
                }
            }
        }
        Scan::Stopped
    }

    #[inline]
    fn plan_command(
        &mut self,
        index: usize,
        source: &[u8],
        first_arg: usize,
        db: usize,
        end: usize,
    ) {
        let name = self
            .server
            .registry
            .find(&source[self.refs[first_arg].range()]);
        let first_hash = self.hashes.len();
        if let Some(id) = name {
            self.hash_keys(id, source, first_arg, db);
        }
        self.planned.push(Planned {
            item: index as u32,
            db: db as u32,
            id: name.map_or(UNKNOWN, |id| id.0),
            first_arg: first_arg as u32,
            args: (self.refs.len() - first_arg) as u32,
            first_hash: first_hash as u32,
            hashes: (self.hashes.len() - first_hash) as u32,
            end,
        });
    }

    /// The words of an inline command with quotes do not lie in the input as they are: the input is
    /// written anew with that command as a multibulk. The inline commands that follow are written
    /// anew with it, or each in its turn would move all the rest again. False if the quotes are
    /// unbalanced.
    #[cold]
    fn rewrite_inline(&mut self, index: usize, conn: &mut Conn, input: &[u8], end: usize) -> bool {
        let progress = &mut self.progress[index];
        let source = if progress.from_pending {
            conn.pending()
        } else {
            input
        };
        let Some(words) = resp::inline::split(&source[progress.planned..end]) else {
            progress.protocol_error = Some(resp::ProtocolError::unbalanced_quotes());
            progress.planned_all = true;
            return false;
        };
        let mut rewritten = resp::inline::to_multibulk(&words);
        let mut at = end;
        // Who is not authenticated meets other limits in a multibulk: one command at a time.
        if conn.session.as_ref().is_some_and(|s| s.authenticated) {
            while let Some((words, end)) = following_inline(source, at) {
                if !words.is_empty() {
                    rewritten.extend_from_slice(&resp::inline::to_multibulk(&words));
                }
                at = end;
            }
        }
        rewritten.extend_from_slice(&source[at..]);
        conn.pending = rewritten;
        conn.pending_start = 0;
        progress.from_pending = true;
        progress.planned = 0;
        progress.consumed = 0;
        true
    }

    #[inline]
    fn hash_keys(&mut self, id: CommandId, source: &[u8], first_arg: usize, db: usize) {
        let entry = self.server.registry.entry(id);
        if entry.one_key > 0 {
            if let Some(arg) = self.refs.get(first_arg + entry.one_key) {
                let hash = self.server.store.hash(&source[arg.range()]);
                self.server.store.prefetch_bucket(db, hash);
                self.hashes.push(hash);
            }
            return;
        }
        let Some(spec) = entry.simple_keys else {
            return;
        };
        let count = self.refs.len() - first_arg;
        for at in spec.positions(count).take(execute::LATCHED_KEYS_MAX) {
            let hash = self
                .server
                .store
                .hash(&source[self.refs[first_arg + at].range()]);
            self.server.store.prefetch_bucket(db, hash);
            self.hashes.push(hash);
        }
    }

    /// Second step: runs everything, chunk by chunk.
    pub fn run(&mut self, items: &mut impl Items) {
        let now_ms = self.server.now_ms();
        self.resume_suspended(items, now_ms);
        loop {
            self.run_chunk(items, now_ms);
            if self.next_item >= items.len() {
                break;
            }
            self.plan(items);
        }
        self.seat.leave();
        for index in 0..items.len() {
            self.finish(index, items.item(index), now_ms);
        }
    }

    /// Connections whose parked command may run now.
    fn resume_suspended(&mut self, items: &mut impl Items, now_ms: i64) {
        for index in 0..items.len() {
            let item = items.item(index);
            let State::Suspended(parked) = &item.conn.state else {
                continue;
            };
            if parked.on_lane() {
                continue;
            }
            if let Some(suspended) = parked.take_granted() {
                let mut session = suspended.session;
                let client = item.conn.client.clone();
                let call = self.call(&client, now_ms);
                execute::granted(&call, &mut session, item.output, &suspended.command);
                if let Some(request) = suspended.request {
                    self.server.store.lock_end(&request);
                }
                Self::restore(item.conn, session);
                self.progress[index].resumed = true;
            }
        }
    }

    /// A suspended connection has its session back.
    fn restore(conn: &mut Conn, session: Box<Session>) {
        conn.client.blocked.store(false, Relaxed);
        conn.state = if session.close_after_reply {
            State::Closing
        } else {
            State::Ready
        };
        conn.session = Some(session);
    }

    fn run_chunk(&mut self, items: &mut impl Items, now_ms: i64) {
        let planned = std::mem::take(&mut self.planned);
        let refs = std::mem::take(&mut self.refs);
        let hashes = std::mem::take(&mut self.hashes);
        self.timer.exact = exact_timing(&self.server.config);
        self.timer.started_ns = env::clock::monotonic_ns();
        for plan in planned.iter().take(PREFETCH_AHEAD) {
            self.prefetch_records(plan, &hashes);
        }
        for (at, plan) in planned.iter().enumerate() {
            if let Some(ahead) = planned.get(at + PREFETCH_AHEAD) {
                self.prefetch_records(ahead, &hashes);
            }
            let index = plan.item as usize;
            if self.progress[index].stopped.is_some() {
                continue;
            }
            let args = &refs[plan.first_arg as usize..(plan.first_arg + plan.args) as usize];
            let hashes =
                &hashes[plan.first_hash as usize..(plan.first_hash + plan.hashes) as usize];
            self.run_one(&mut items.item(index), plan, args, hashes, now_ms);
        }
        self.timer.settle(&self.stats);
        self.planned = planned;
        self.refs = refs;
        self.hashes = hashes;
    }

    /// Their buckets were asked for when the command was planned.
    #[inline]
    fn prefetch_records(&self, plan: &Planned, hashes: &[u64]) {
        let own = plan.first_hash as usize..(plan.first_hash + plan.hashes) as usize;
        for hash in &hashes[own] {
            self.server.store.prefetch_record(plan.db as usize, *hash);
        }
    }

    #[inline]
    fn run_one(
        &mut self,
        item: &mut Item<'_>,
        plan: &Planned,
        refs: &[ArgRef],
        hashes: &[u64],
        now_ms: i64,
    ) {
        let index = plan.item as usize;
        let progress = &mut self.progress[index];
        let Conn {
            client,
            pending,
            pending_start,
            session,
            state,
            ..
        } = &mut *item.conn;
        let source = if progress.from_pending {
            &pending[*pending_start..]
        } else {
            item.input
        };
        let session = session
            .as_deref_mut()
            .expect("a ready connection has its session");
        let args = Args::new(source, refs);
        let name = (plan.id != UNKNOWN).then_some(CommandId(plan.id));
        let id = match gates::admit(&self.server, session, name, args) {
            Ok(id) => id,
            Err((error, id)) => {
                execute::refuse(&self.stats, session, item.output, &error, id);
                progress.consumed = plan.end;
                return;
            }
        };
        let fast = !self.timer.exact && self.server.registry.entry(id).quick;
        let started_ns = if fast { 0 } else { self.start_timing() };
        let call = self.call(client, now_ms);
        let step = execute::execute(&call, session, item.output, id, args, hashes);
        let progress = &mut self.progress[index];
        match step {
            Step::Done => {
                progress.consumed = plan.end;
                progress.commands += 1;
                progress.last_command = id.0;
                if fast {
                    self.timer.run.push(id.0);
                } else {
                    self.note_duration(client, id, args, started_ns);
                }
                self.progress[index].stopped = if session.close_after_reply {
                    *state = State::Closing;
                    Some(Flow::Close)
                } else if client.closing.load(Relaxed) {
                    Some(Flow::Abort)
                } else {
                    (item.output.len() > OUTPUT_PAUSE_BYTES).then_some(Flow::Drain)
                };
            }
            Step::Deferred => {
                bump(&self.stats.deferred, 1);
                progress.stopped = Some(Flow::Again);
            }
            Step::Locked | Step::Slow => self.set_aside(item, plan, refs, id, step),
        }
    }

    #[inline]
    fn call<'a>(&'a self, client: &'a Arc<Client>, now_ms: i64) -> Call<'a> {
        Call {
            server: &self.server,
            client,
            stats: &self.stats,
            loop_index: self.index,
            now_ms,
            breath: None,
        }
    }

    /// Ends the run of quick commands before a command that is timed by itself.
    #[inline]
    fn start_timing(&mut self) -> u64 {
        self.timer.settle(&self.stats);
        env::clock::monotonic_ns()
    }

    /// Counts the time since `started_ns` for a command that is timed by itself.
    #[inline]
    fn note_duration(&mut self, client: &Client, id: CommandId, args: Args<'_>, started_ns: u64) {
        let ended_ns = env::clock::monotonic_ns();
        bump(&self.stats.command(id).time_ns, ended_ns - started_ns);
        self.server
            .note_duration(client, id, args, ended_ns - started_ns);
        self.timer.started_ns = ended_ns;
        // It may have been a CONFIG SET.
        self.timer.exact = exact_timing(&self.server.config);
    }

    /// Takes a command that cannot run here and now out of the input.
    #[cold]
    fn set_aside(
        &mut self,
        item: &mut Item<'_>,
        plan: &Planned,
        refs: &[ArgRef],
        id: CommandId,
        step: Step,
    ) {
        let conn = &mut *item.conn;
        let progress = &mut self.progress[plan.item as usize];
        progress.commands += 1;
        progress.last_command = id.0;
        let owned = if progress.from_pending {
            // The buffer goes with the command, which may be most of it; what follows the command
            // is what stays.
            let rest = conn.pending[conn.pending_start + plan.end..].to_vec();
            let bytes = std::mem::replace(&mut conn.pending, rest);
            progress.consumed = 0;
            progress.planned = 0;
            OwnedCommand::new(id, bytes, std::mem::take(&mut conn.pending_start), refs)
        } else {
            progress.consumed = plan.end;
            OwnedCommand::new(id, item.input[..plan.end].to_vec(), 0, refs)
        };
        let session = conn.session.take().expect("it has just run with it");
        let flow = self.suspend(&conn.client, &mut conn.state, owned, session, step);
        self.progress[plan.item as usize].stopped = Some(flow);
    }

    /// Parks a command or hands it to the slow lane.
    fn suspend(
        &self,
        client: &Arc<Client>,
        state: &mut State,
        command: OwnedCommand,
        session: Box<Session>,
        step: Step,
    ) -> Flow {
        client.blocked.store(step == Step::Locked, Relaxed);
        if step == Step::Slow {
            bump(&self.stats.slow_lane, 1);
            let parked = Parked::slow(&self.server, client, self.index, command, session);
            *state = State::Suspended(parked.clone());
            parked.submit(Parked::start_on_lane);
            return Flow::Read;
        }
        bump(&self.stats.parked, 1);
        let (parked, granted) = Parked::short(&self.server, client, self.index, command, session);
        *state = State::Suspended(parked);
        if granted { Flow::Again } else { Flow::Read }
    }

    /// Puts unconsumed input aside and says what the loop does next.
    fn finish(&mut self, index: usize, item: Item<'_>, now_ms: i64) {
        let progress = std::mem::take(&mut self.progress[index]);
        let conn = item.conn;
        // What was parsed but not executed is parsed again.
        if progress.stopped.is_some() {
            conn.progress = resp::Progress::default();
        }
        let upto = if progress.stopped.is_some() {
            progress.consumed
        } else {
            progress.planned
        };
        if progress.from_pending {
            conn.consume(upto);
        } else if upto < item.input.len() {
            conn.keep(&item.input[upto..]);
        }
        let written = item.output.len().saturating_sub(progress.output_before);
        bump(&self.stats.bytes_out, written as u64);
        let client = &conn.client;
        if progress.commands > 0 {
            bump(&client.bytes_out, written as u64);
            bump(&client.commands, progress.commands);
            client.active_ms.store(now_ms, Relaxed);
            client.last_command.store(progress.last_command, Relaxed);
            if let Some(session) = &conn.session {
                client.db.store(session.db as u32, Relaxed);
                client.resp.store(session.version.number().into(), Relaxed);
            }
        }
        client.query_bytes.store(conn.pending().len(), Relaxed);
        *item.flow = self.next_flow(conn, item.output, progress);
    }

    fn next_flow(
        &self,
        conn: &mut Conn,
        output: &mut base::output::Output,
        progress: Progress,
    ) -> Flow {
        if conn.client.closing.load(Relaxed) && !matches!(progress.stopped, Some(Flow::Close)) {
            return Flow::Abort;
        }
        if let Some(flow) = progress.stopped
            && flow != Flow::Read
        {
            return flow;
        }
        if let Some(error) = progress.protocol_error {
            let line = error.to_string();
            self.stats.error("ERR");
            let version = conn
                .session
                .as_ref()
                .map_or(resp::Version::Resp2, |s| s.version);
            resp::Reply::new(output, version).error(&format!("ERR {line}"));
            conn.state = State::Closing;
            return Flow::Close;
        }
        let waiting = conn.pending().len();
        if waiting > self.server.config.client_query_buffer_limit() {
            bump(&self.stats.query_limit_closed, 1);
            self.server.host().log(&format!(
                "Closing client that reached max query buffer length: {}",
                conn.client
                    .line(self.server.now_ms(), &|_| "NULL".to_owned())
            ));
            return Flow::Abort;
        }
        match &conn.state {
            State::Suspended(_) if waiting > SUSPENDED_INPUT_BYTES_MAX => Flow::Hold,
            State::Closing => Flow::Close,
            State::Ready if progress.resumed && waiting > 0 => Flow::Again,
            _ => Flow::Read,
        }
    }

    /// Takes messages from other threads. `deliver` hands the connection with this token, if it is
    /// still here, to the given closure.
    pub fn inbox(&mut self, desk: &mut dyn Desk) {
        let mut messages = Vec::new();
        self.mailbox.drain(|message| messages.push(message));
        for message in messages {
            let id = match &message {
                Message::Granted(id) | Message::Kill(id) | Message::Resume(id) => *id,
                Message::Finished(finished) => finished.client_id,
            };
            // Who is gone needs nothing any more; who moved is told on the loop it is on now.
            let Some(client) = self.server.clients.get(id) else {
                continue;
            };
            let (index, token) = *client.place.lock();
            if index != self.index {
                self.server.post(index, message);
                continue;
            }
            match message {
                Message::Kill(_) => desk.close(token),
                Message::Resume(_) => desk.resume(token),
                Message::Granted(_) => Self::granted(desk, token),
                Message::Finished(finished) => {
                    if let Some((conn, output)) = desk.with(token) {
                        output.append(finished.output);
                        Self::restore(conn, finished.session);
                        desk.resume(token);
                    }
                }
            }
        }
    }

    fn granted(desk: &mut dyn Desk, token: u64) {
        let Some((conn, _)) = desk.with(token) else {
            return;
        };
        let State::Suspended(parked) = &conn.state else {
            return;
        };
        if parked.on_lane() {
            parked.submit(Parked::resume_on_lane);
        } else {
            desk.resume(token);
        }
    }

    /// Output is still unsent after a send. False if the connection is over a limit of
    /// `client-output-buffer-limit` and is to be closed.
    pub fn output_pending(&mut self, conn: &mut Conn, pending: usize) -> bool {
        conn.client.output_bytes.store(pending, Relaxed);
        let limit = self.server.config.output_limit(0);
        let over = |bytes: u64| bytes > 0 && pending as u64 >= bytes;
        if !over(limit.soft_bytes) {
            conn.soft_limit_since_ms = 0;
        } else if conn.soft_limit_since_ms == 0 {
            conn.soft_limit_since_ms = self.server.now_ms();
        }
        let too_long = conn.soft_limit_since_ms > 0
            && self.server.now_ms() - conn.soft_limit_since_ms > limit.soft_s as i64 * 1000;
        if over(limit.hard_bytes) || too_long {
            bump(&self.stats.output_limit_closed, 1);
            self.server.host().log(&format!(
                "Client {} scheduled to be closed ASAP for overcoming of output buffer limits.",
                conn.client
                    .line(self.server.now_ms(), &|_| "NULL".to_owned())
            ));
            return false;
        }
        true
    }

    /// True if the connection has been idle for longer than `timeout` allows.
    pub fn timed_out(&self, conn: &Conn) -> bool {
        let timeout_s = self.server.config.timeout_s();
        timeout_s > 0
            && !conn.suspended()
            && self.server.now_ms() - conn.client.active_ms.load(Relaxed) > timeout_s as i64 * 1000
    }
}

/// Is the slow log's threshold so low that shared clock readings would not do?
fn exact_timing(config: &Config) -> bool {
    (0..EXACT_TIMING_BELOW_US).contains(&config.slowlog_log_slower_than())
}

/// Words and end of a whole inline command at `at`; `None` if there is something else, or if it is
/// for the parser to complain about.
fn following_inline(source: &[u8], at: usize) -> Option<(Vec<Vec<u8>>, usize)> {
    let rest = &source[at..];
    if matches!(rest.first(), None | Some(b'*')) {
        return None;
    }
    let mut line = rest.iter().take(INLINE_REWRITTEN_BYTES_MAX);
    let end = at + line.position(|byte| *byte == b'\n')? + 1;
    Some((resp::inline::split(&source[at..end])?, end))
}

/// What the inbox may do to connections.
pub trait Desk {
    /// Runs the connection again without new input.
    fn resume(&mut self, token: u64);
    /// Closes it at once.
    fn close(&mut self, token: u64);
    /// Session and output of the connection.
    fn with(&mut self, token: u64) -> Option<(&mut Conn, &mut base::output::Output)>;
}
