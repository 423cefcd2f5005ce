//! Commands that cannot finish in a batch: parked on key locks, or run by the slow lane.
//!
//! Such a command owns a copy of its arguments and takes the connection's session with it. It has
//! not begun until all its key locks are granted. A short one then runs on its own loop again; a
//! slow one runs on the slow lane, its key locks queued from there as well, so that naming a
//! million keys holds up nobody.
//!
//! The way of a slow command:
//!
//! ```text
//!   submit > start: hold of the safepoint > queue for key locks > run > locks, then hold, given up
//!                     | gate shut: claim      | busy: wait
//!                     ` wake > submit >       ` wake > submit >
//! ```
//!
//! Invariants:
//! - A place in a lock queue of the slow lane implies a hold of the safepoint, so no table changes
//!   its place under it.
//! - A thread of the lane never waits for a hold or a lock: the command is put aside until woken.
//! - What calls for a safepoint has no hold and runs on a lane of its own: while it waits for all
//!   holds to end, the commands that have them find threads.

use crate::command::Args;
use crate::error::Error;
use crate::execute::{self, Call};
use crate::registry::CommandId;
use crate::server::{Message, Server};
use crate::session::Session;
use base::output::Output;
use env::sync::{Arc, Mutex};
use resp::ArgRef;
use store::safepoint::{GateClaim, SlowHold};
use store::slow_lane::SlowJob;
use store::{KeyUse, LockMode, LockRequest, SlowCx, Wake};

/// A command with arguments of its own.
#[derive(Debug)]
pub(crate) struct OwnedCommand {
    pub(crate) id: CommandId,
    bytes: Vec<u8>,
    /// Where in `bytes` the references count from.
    start: usize,
    refs: Vec<ArgRef>,
}

impl OwnedCommand {
    /// A command whose arguments lie at `refs` within `bytes[start..]`.
    pub(crate) fn new(id: CommandId, bytes: Vec<u8>, start: usize, refs: &[ArgRef]) -> Self {
        OwnedCommand {
            id,
            bytes,
            start,
            refs: refs.to_vec(),
        }
    }

    /// The arguments.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes[self.start..], &self.refs)
    }
}

/// What a suspended command consists of; taken out by whoever runs or abandons it.
#[derive(Debug)]
pub(crate) struct Suspended {
    pub(crate) command: OwnedCommand,
    pub(crate) session: Box<Session>,
    pub(crate) request: Option<LockRequest>,
    /// Slow lane: permission to hold key locks, or a place at the safepoint's shut gate.
    hold: Option<SlowHold>,
    claim: Option<GateClaim>,
}

impl Suspended {
    fn new(command: OwnedCommand, session: Box<Session>, request: Option<LockRequest>) -> Self {
        Suspended {
            command,
            session,
            request,
            hold: None,
            claim: None,
        }
    }
}

/// One suspended command, shared between its connection, its lock request and the slow lane.
pub(crate) struct Parked {
    server: Arc<Server>,
    client: Arc<crate::clients::Client>,
    /// The loop the connection is on; it does not move while suspended.
    pub(crate) loop_index: usize,
    /// Set for a command of the slow lane.
    job: Option<Arc<SlowJob>>,
    /// It calls for a safepoint.
    at_safepoint: bool,
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
        let parked = Parked::new(server, client, loop_index, None, false);
        let request = server.store.lock_begin(parked.clone());
        let granted = {
            let mut inner = parked.inner.lock();
            let granted = queue_keys(server, &command, session.db, &request, &|| {});
            *inner = Some(Suspended::new(command, session, Some(request)));
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
        let at_safepoint = server.registry.entry(command.id).command.at_safepoint;
        let job = Some(SlowJob::new());
        let parked = Parked::new(server, client, loop_index, job, at_safepoint);
        *parked.inner.lock() = Some(Suspended::new(command, session, None));
        parked
    }

    fn new(
        server: &Arc<Server>,
        client: &Arc<crate::clients::Client>,
        loop_index: usize,
        job: Option<Arc<SlowJob>>,
        at_safepoint: bool,
    ) -> Arc<Parked> {
        Arc::new(Parked {
            server: server.clone(),
            client: client.clone(),
            loop_index,
            job,
            at_safepoint,
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
        let store = &self.server.store;
        let lane = if self.at_safepoint {
            store.safepoint_lane()
        } else {
            store.lane()
        };
        let refused = lane.submit(job, Box::new(move |cx| step(&own, cx)));
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
        let mut session = suspended.session;
        let mut output = Output::new();
        let (error, id) = (Error::SlowLaneFull, Some(suspended.command.id));
        self.server
            .with_lane_stats(|stats| execute::refuse(stats, &mut session, &mut output, &error, id));
        self.finish(session, output);
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

    /// First step on the slow lane: through the gate of the safepoint.
    pub(crate) fn start_on_lane(self: &Arc<Self>, breath: &SlowCx<'_>) {
        let mut inner = self.inner.lock();
        let Some(mut suspended) = inner.take() else {
            return;
        };
        if self.at_safepoint {
            drop(inner);
            self.run_on_lane(suspended, breath);
            return;
        }
        let safepoint = self.server.store.safepoint();
        match safepoint.slow_begin_or_queue(self.clone()) {
            Ok(hold) => {
                drop(inner);
                suspended.hold = Some(hold);
                self.queue_on_lane(suspended, breath);
            }
            Err(claim) => {
                suspended.claim = Some(claim);
                *inner = Some(suspended);
            }
        }
    }

    /// Second step: queue for the key locks, and run if they are free. Nothing is locked meanwhile
    /// that the loop wants when the connection ends.
    fn queue_on_lane(self: &Arc<Self>, mut suspended: Suspended, breath: &SlowCx<'_>) {
        let command = self.server.registry.entry(suspended.command.id).command;
        if command.keys.is_empty() && command.key_finder.is_none() {
            self.run_on_lane(suspended, breath);
            return;
        }
        let request = self.server.store.lock_begin(self.clone());
        let db = suspended.session.db;
        let granted = queue_keys(&self.server, &suspended.command, db, &request, &|| {
            let _ = breath.breathe();
        });
        suspended.request = Some(request);
        if granted {
            self.run_on_lane(suspended, breath);
            return;
        }
        *self.inner.lock() = Some(suspended);
        // The end of the connection, or the grant, may have come while there was nothing to take.
        if self.job.as_ref().is_some_and(|job| job.is_cancelled()) {
            self.abandon();
        } else if let Some(suspended) = self.take_granted() {
            self.run_on_lane(suspended, breath);
        }
    }

    /// After a wake-up: there is a hold to collect, or the locks are granted.
    pub(crate) fn resume_on_lane(self: &Arc<Self>, breath: &SlowCx<'_>) {
        let mut inner = self.inner.lock();
        let Some(claim) = inner.as_mut().and_then(|suspended| suspended.claim.take()) else {
            drop(inner);
            if let Some(suspended) = self.take_granted() {
                self.run_on_lane(suspended, breath);
            }
            return;
        };
        let mut suspended = inner.take().expect("it had a claim");
        match claim.collect() {
            Ok(hold) => {
                drop(inner);
                suspended.hold = Some(hold);
                self.queue_on_lane(suspended, breath);
            }
            Err(claim) => {
                suspended.claim = Some(claim);
                *inner = Some(suspended);
            }
        }
    }

    fn run_on_lane(&self, suspended: Suspended, breath: &SlowCx<'_>) {
        let Suspended {
            command,
            mut session,
            request,
            hold,
            claim: _,
        } = suspended;
        let mut output = Output::new();
        self.server.with_lane_stats(|stats| {
            let call = Call {
                server: &self.server,
                client: &self.client,
                stats,
                loop_index: self.loop_index,
                now_ms: self.server.now_ms(),
                breath: Some(breath),
            };
            execute::granted(&call, &mut session, &mut output, &command);
        });
        if let Some(request) = request {
            self.server.store.lock_end(&request);
        }
        drop(hold);
        self.finish(session, output);
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
