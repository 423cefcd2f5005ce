//! Commands that cannot finish in a batch: parked on key locks, or run by the slow lane.
//!
//! Such a command owns a copy of its arguments and takes the connection's session with it. It has
//! not begun until all its key locks are granted. A short one then runs on its own loop again; a
//! slow one runs on the slow lane, its key locks queued from there as well, so that naming a
//! million keys holds up nobody.

use crate::command::Args;
use crate::execute::{self, Call};
use crate::registry::CommandId;
use crate::server::{Message, Server};
use crate::session::Session;
use base::output::Output;
use env::sync::{Arc, Mutex};
use resp::ArgRef;
use store::slow_lane::SlowJob;
use store::{KeyUse, LockMode, LockRequest, SlowCx, Wake};

/// A command with arguments of its own.
#[derive(Debug)]
pub(crate) struct OwnedCommand {
    pub(crate) id: CommandId,
    bytes: Vec<u8>,
    refs: Vec<ArgRef>,
}

impl OwnedCommand {
    /// Copies `args`.
    pub(crate) fn new(id: CommandId, args: Args<'_>) -> Self {
        let (mut bytes, mut refs) = (Vec::new(), Vec::with_capacity(args.len()));
        for arg in args.iter() {
            refs.push(ArgRef::new(bytes.len(), arg.len()));
            bytes.extend_from_slice(arg);
        }
        OwnedCommand { id, bytes, refs }
    }

    /// The arguments.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.refs)
    }
}

/// What a suspended command consists of; taken out by whoever runs or abandons it.
#[derive(Debug)]
pub(crate) struct Suspended {
    pub(crate) command: OwnedCommand,
    pub(crate) session: Box<Session>,
    pub(crate) request: Option<LockRequest>,
}

/// One suspended command, shared between its connection, its lock request and the slow lane.
pub(crate) struct Parked {
    server: Arc<Server>,
    client: Arc<crate::clients::Client>,
    /// The loop the connection is on; it does not move while suspended.
    pub(crate) loop_index: usize,
    /// Set for a command of the slow lane.
    job: Option<Arc<SlowJob>>,
    inner: Mutex<Option<Suspended>>,
}

impl std::fmt::Debug for Parked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parked")
            .field("client", &self.client.id)
            .finish_non_exhaustive()
    }
}

impl Wake for Parked {
    fn wake(&self) {
        // The request's owner is this very value, so the session is still inside.
        self.server
            .post(self.loop_index, Message::Granted(self.client.id));
    }
    fn awaited(&self) {
        if let Some(job) = &self.job {
            job.raise();
        }
    }
}

/// A slow command's result, on its way back to its loop.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) client_id: u64,
    pub(crate) session: Box<Session>,
    pub(crate) output: Output,
}

impl Parked {
    /// Parks a short command on its key locks. The second value says whether they were free after
    /// all; if so it can run at once.
    pub(crate) fn short(
        server: &Arc<Server>,
        client: &Arc<crate::clients::Client>,
        loop_index: usize,
        command: OwnedCommand,
        session: Box<Session>,
    ) -> (Arc<Parked>, bool) {
        let parked = Parked::new(server, client, loop_index, None);
        let request = server.store.lock_begin(parked.clone());
        let granted = {
            let mut inner = parked.inner.lock();
            let granted = queue_keys(server, &command, session.db, &request, &|| {});
            *inner = Some(Suspended {
                command,
                session,
                request: Some(request),
            });
            granted
        };
        (parked, granted)
    }

    /// Hands a slow command to the slow lane.
    pub(crate) fn slow(
        server: &Arc<Server>,
        client: &Arc<crate::clients::Client>,
        loop_index: usize,
        command: OwnedCommand,
        session: Box<Session>,
    ) -> Arc<Parked> {
        let parked = Parked::new(server, client, loop_index, Some(SlowJob::new()));
        *parked.inner.lock() = Some(Suspended {
            command,
            session,
            request: None,
        });
        parked
    }

    fn new(
        server: &Arc<Server>,
        client: &Arc<crate::clients::Client>,
        loop_index: usize,
        job: Option<Arc<SlowJob>>,
    ) -> Arc<Parked> {
        Arc::new(Parked {
            server: server.clone(),
            client: client.clone(),
            loop_index,
            job,
            inner: Mutex::new(None),
        })
    }

    /// True if it runs on the slow lane once its locks are granted.
    pub(crate) fn on_lane(&self) -> bool {
        self.job.is_some()
    }

    /// Takes the command out to run it on its loop. `None` if its locks are not granted yet.
    pub(crate) fn take_granted(&self) -> Option<Suspended> {
        let mut inner = self.inner.lock();
        let granted = inner
            .as_ref()?
            .request
            .as_ref()
            .is_some_and(LockRequest::is_granted);
        if granted { inner.take() } else { None }
    }

    /// Queues a step on the slow lane. If the lane is full the client is told so.
    pub(crate) fn submit(self: &Arc<Self>, step: fn(&Arc<Self>, &SlowCx<'_>)) {
        let job = self.job.clone().expect("only slow commands are submitted");
        let own = self.clone();
        let refused = self
            .server
            .store
            .lane()
            .submit(job, Box::new(move |cx| step(&own, cx)));
        if refused.is_err() {
            self.refuse();
        }
    }

    /// Ends the command with an error instead of running it.
    fn refuse(&self) {
        let Some(suspended) = self.inner.lock().take() else {
            return;
        };
        if let Some(request) = &suspended.request {
            self.server.store.lock_end(request);
        }
        let mut output = Output::new();
        let error = crate::error::Error::SlowLaneFull;
        resp::Reply::new(&mut output, suspended.session.version).error(&error.line());
        self.finish(suspended.session, output);
    }

    fn finish(&self, session: Box<Session>, output: Output) {
        let finished = Finished {
            client_id: self.client.id,
            session,
            output,
        };
        self.server
            .post(self.loop_index, Message::Finished(Box::new(finished)));
    }

    /// The connection is gone: gives up a command that has not begun.
    pub(crate) fn abandon(&self) {
        if let Some(job) = &self.job {
            job.cancel();
        }
        if let Some(suspended) = self.inner.lock().take()
            && let Some(request) = suspended.request
        {
            self.server.store.lock_end(&request);
        }
    }

    /// First step on the slow lane: queue for the key locks, and run if they are free.
    pub(crate) fn start_on_lane(self: &Arc<Self>, breath: &SlowCx<'_>) {
        let Some(mut suspended) = self.inner.lock().take() else {
            return;
        };
        let has_keys = {
            let command = self.server.registry.entry(suspended.command.id).command;
            !command.keys.is_empty() || command.key_finder.is_some()
        };
        if !has_keys {
            self.run_on_lane(suspended, breath);
            return;
        }
        let request = self.server.store.lock_begin(self.clone());
        // Whoever is granted while we are still queueing finds `inner` empty and the grant is seen
        // by `seal` below: a wake-up before that cannot happen.
        let db = suspended.session.db;
        let mut inner = self.inner.lock();
        let granted = queue_keys(&self.server, &suspended.command, db, &request, &|| {
            { let _ = breath.breathe(); }
        });
        suspended.request = Some(request);
        if granted {
            drop(inner);
            self.run_on_lane(suspended, breath);
        } else {
            *inner = Some(suspended);
        }
    }

    /// Second step on the slow lane, after the grant.
    pub(crate) fn resume_on_lane(self: &Arc<Self>, breath: &SlowCx<'_>) {
        if let Some(suspended) = self.take_granted() {
            self.run_on_lane(suspended, breath);
        }
    }

    fn run_on_lane(&self, suspended: Suspended, breath: &SlowCx<'_>) {
        let Suspended {
            command,
            mut session,
            request,
        } = suspended;
        let stats = self.server.lane_stats();
        let mut output = Output::new();
        {
            // What calls for a safepoint must not be waited for by it.
            let at_safepoint = self.server.registry.entry(command.id).command.at_safepoint;
            let _holder = (!at_safepoint).then(|| self.server.store.safepoint().slow_begin());
            let call = Call {
                server: &self.server,
                client: &self.client,
                stats: &stats,
                loop_index: self.loop_index,
                now_ms: self.server.now_ms(),
                breath: Some(breath),
            };
            execute::granted(&call, &mut session, &mut output, &command);
        }
        if let Some(request) = request {
            self.server.store.lock_end(&request);
        }
        let finished = Finished {
            client_id: self.client.id,
            session,
            output,
        };
        self.server
            .post(self.loop_index, Message::Finished(Box::new(finished)));
    }
}

/// Queues `request` on every key of `command`. True if all locks were granted at once.
fn queue_keys(
    server: &Server,
    command: &OwnedCommand,
    db: usize,
    request: &LockRequest,
    breathe: &dyn Fn(),
) -> bool {
    let entry = server.registry.entry(command.id);
    let args = command.args();
    let mode = if entry.command.writes() {
        LockMode::Exclusive
    } else {
        LockMode::Shared
    };
    let mut keys = crate::keyset::KeySet::default();
    // A key finder's complaint is reported when the command runs; it locks nothing meanwhile.
    if crate::keyset::KeySet::find(entry.command, db, server.databases, args, &mut keys).is_err() {
        return server.store.lock_seal(request);
    }
    for (index, key) in keys.as_slice().iter().enumerate() {
        let bytes = args.at(key.at);
        let key = KeyUse {
            db: key.db,
            key: bytes,
            hash: server.store.hash(bytes),
        };
        server.store.lock_key(request, &key, mode);
        if index % 64 == 63 {
            breathe();
        }
    }
    server.store.lock_seal(request)
}
