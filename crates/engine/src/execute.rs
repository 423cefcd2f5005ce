//! From an admitted command to its reply: keys, locks, handler, commit.

use crate::clients::Client;
use crate::command::{Args, Command, Flags};
use crate::commit::commit;
use crate::cx::Cx;
use crate::error::Error;
use crate::keyset::KeySet;
use crate::lane::OwnedCommand;
use crate::registry::CommandId;
use crate::server::Server;
use crate::session::{ReplyMode, Session};
use crate::stats::{ThreadStats, bump};
use base::output::{Mark, Output};
use env::sync::Arc;
use resp::Reply;
use store::{Busy, Hold, KeyUses, SlowCx};

/// Keys up to which a command holds bucket latches; beyond, it takes key locks and the slow lane.
pub(crate) const LATCHED_KEYS_MAX: usize = 128;

/// Keys hashed between two breaths on the slow lane.
const KEYS_PER_BREATH: usize = 64;

/// What stays the same for all commands of one batch.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) client: &'a Arc<Client>,
    pub(crate) stats: &'a ThreadStats,
    pub(crate) loop_index: usize,
    pub(crate) now_ms: i64,
    pub(crate) breath: Option<&'a SlowCx<'a>>,
}

/// How far a command got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It ran; its reply is in the output.
    Done,
    /// A latch was busy; nothing happened. Try again next pass.
    Deferred,
    /// A key of it is locked for long; park it.
    Locked,
    /// It is slow; give it to the slow lane.
    Slow,
}

/// Runs an admitted command on a loop. `hashes` are those of its keys if they are known already
/// (in the order of its key specification).
#[inline]
pub(crate) fn execute(
    call: &Call<'_>,
    session: &mut Session,
    output: &mut Output,
    id: CommandId,
    args: Args<'_>,
    hashes: &[u64],
) -> Step {
    let entry = call.server.registry.entry(id);
    let command = entry.command;
    if command.at_safepoint {
        return Step::Slow;
    }
    if let Some(slow) = command.slow
        && slow(&|| call.server.store.len_of(session.db), args)
    {
        return Step::Slow;
    }
    let store = &call.server.store;
    let mut keys = KeyUses::new();
    if entry.one_key > 0 {
        let key = args.at(entry.one_key);
        let hash = hashes.first().copied().unwrap_or_else(|| store.hash(key));
        keys.push(session.db, key, hash);
    } else if let Some(spec) = entry.simple_keys
        && command.key_finder.is_none()
    {
        for (index, at) in spec.positions(args.len()).enumerate() {
            if index == LATCHED_KEYS_MAX {
                return Step::Slow;
            }
            let key = args.at(at);
            let hash = hashes
                .get(index)
                .copied()
                .unwrap_or_else(|| store.hash(key));
            keys.push(session.db, key, hash);
        }
    } else if (command.key_finder.is_some() || !command.keys.is_empty())
        && let Err(error) = found_keys(call, session.db, command, args, &mut keys)
    {
        let mark = begin(session, output);
        failed(call, session, output, id, mark, &error);
        end(session, output, mark);
        return Step::Done;
    }
    let hold = if keys.is_empty() {
        store.hold_nothing(call.now_ms)
    } else if command.flags.has(Flags::READONLY) && keys.len() == 1 {
        let hold = store.hold_reading(keys.as_slice(), call.now_ms);
        if attempt(call, session, output, id, args, hold).is_ok() {
            return Step::Done;
        }
        match store.hold_latched(keys.as_slice(), call.now_ms, false) {
            Ok(hold) => hold,
            Err(busy) => return busy_step(busy),
        }
    } else {
        match store.hold_latched(keys.as_slice(), call.now_ms, command.writes()) {
            Ok(hold) => hold,
            Err(busy) => return busy_step(busy),
        }
    };
    let done = attempt(call, session, output, id, args, hold);
    assert!(done.is_ok(), "only an optimistic read may ask to run again");
    Step::Done
}

fn busy_step(busy: Busy) -> Step {
    match busy {
        Busy::Latch => Step::Deferred,
        Busy::Locked => Step::Locked,
    }
}

fn found_keys<'a>(
    call: &Call<'_>,
    db: usize,
    command: &Command,
    args: Args<'a>,
    keys: &mut KeyUses<'a>,
) -> Result<(), Error> {
    let mut found = KeySet::default();
    KeySet::find(command, db, call.server.databases, args, &mut found)?;
    for (index, key) in found.as_slice().iter().enumerate() {
        let bytes = args.at(key.at);
        keys.push(key.db, bytes, call.server.store.hash(bytes));
        if index % KEYS_PER_BREATH == KEYS_PER_BREATH - 1
            && let Some(breath) = call.breath
        {
            // Whether the client is still there is asked when the command runs.
            let _ = breath.breathe();
        }
    }
    Ok(())
}

/// Runs a command whose key locks are granted, on a loop or on the slow lane.
pub(crate) fn granted(
    call: &Call<'_>,
    session: &mut Session,
    output: &mut Output,
    command: &OwnedCommand,
) {
    let args = command.args();
    let entry = call.server.registry.entry(command.id);
    let mut keys = KeyUses::new();
    if let Err(error) = found_keys(call, session.db, entry.command, args, &mut keys) {
        let mark = begin(session, output);
        failed(call, session, output, command.id, mark, &error);
        end(session, output, mark);
        return;
    }
    let hold = if keys.is_empty() {
        call.server.store.hold_nothing(call.now_ms)
    } else {
        call.server.store.hold_granted(keys.as_slice(), call.now_ms)
    };
    let start_ns = env::clock::monotonic_ns();
    let done = attempt(call, session, output, command.id, args, hold);
    assert!(
        done.is_ok(),
        "a granted command does not read optimistically"
    );
    let spent_ns = env::clock::monotonic_ns() - start_ns;
    bump(&call.stats.command(command.id).time_ns, spent_ns);
    call.server
        .note_duration(call.client, command.id, args, spent_ns);
}

/// Optimistic reads met a writer; nothing happened.
struct Rerun;

/// Runs the handler once.
#[inline(always)]
fn attempt(
    call: &Call<'_>,
    session: &mut Session,
    output: &mut Output,
    id: CommandId,
    args: Args<'_>,
    hold: Hold<'_>,
) -> Result<(), Rerun> {
    let mark = begin(session, output);
    let version = session.version;
    let outcome = {
        let mut cx = Cx {
            server: call.server,
            session: &mut *session,
            client: call.client,
            reply: Reply::new(&mut *output, version),
            hold,
            command: id,
            stats: call.stats,
            now_ms: call.now_ms,
            loop_index: call.loop_index,
            breath: call.breath,
        };
        let handler = call.server.registry.entry(id).command.handler;
        let outcome = handler(&mut cx, args);
        commit(&cx.hold, call.stats);
        cx.hold.finish();
        outcome
    };
    match outcome {
        Ok(()) => {}
        Err(Error::Retry) => {
            output.truncate_to(mark);
            return Err(Rerun);
        }
        Err(error) => failed(call, session, output, id, mark, &error),
    }
    bump(&call.stats.command(id).calls, 1);
    end(session, output, mark);
    Ok(())
}

/// Replaces what was written since `mark` by the error and counts it.
fn failed(
    call: &Call<'_>,
    session: &Session,
    output: &mut Output,
    id: CommandId,
    mark: Mark,
    error: &Error,
) {
    output.truncate_to(mark);
    call.stats.error(&error.code());
    bump(&call.stats.command(id).failed, 1);
    Reply::new(output, session.version).error(&error.line());
}

/// Refuses a command before execution.
#[cold]
pub(crate) fn refuse(
    stats: &ThreadStats,
    session: &mut Session,
    output: &mut Output,
    error: &Error,
    id: Option<CommandId>,
) {
    let mark = begin(session, output);
    stats.error(&error.code());
    if let Some(id) = id {
        bump(&stats.command(id).rejected, 1);
    }
    Reply::new(output, session.version).error(&error.line());
    end(session, output, mark);
}

#[inline]
fn begin(session: &mut Session, output: &Output) -> Mark {
    if session.reply_mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::Skipping;
    }
    output.mark()
}

/// CLIENT REPLY OFF and SKIP swallow the reply here.
#[inline]
fn end(session: &mut Session, output: &mut Output, mark: Mark) {
    match session.reply_mode {
        ReplyMode::On | ReplyMode::SkipNext => {}
        ReplyMode::Off => output.truncate_to(mark),
        ReplyMode::Skipping => {
            output.truncate_to(mark);
            session.reply_mode = ReplyMode::On;
        }
    }
}
