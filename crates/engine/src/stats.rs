//! Counters. Each thread that executes commands owns one [`ThreadStats`]; it is the only writer,
//! so a count is a plain load and store of a relaxed atomic on a line nobody else writes. Whoever
//! wants a sum (INFO) adds them up.

use crate::registry::CommandId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use env::sync::{Arc, Mutex};

/// Adds to a counter whose only writer is the calling thread.
#[inline]
pub fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// What is counted per command.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Executions.
    pub calls: AtomicU64,
    /// Time in handlers, ns.
    pub time_ns: AtomicU64,
    /// Refused before execution.
    pub rejected: AtomicU64,
    /// Ended with an error.
    pub failed: AtomicU64,
}

/// One thread's counters.
#[derive(Debug)]
#[repr(align(128))]
pub struct ThreadStats {
    /// Per registry index.
    pub commands: Box<[CommandStats]>,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused.
    pub connections_rejected: AtomicU64,
    /// Bytes read.
    pub bytes_in: AtomicU64,
    /// Bytes replied.
    pub bytes_out: AtomicU64,
    /// Keys found by read commands.
    pub hits: AtomicU64,
    /// Keys not found by read commands.
    pub misses: AtomicU64,
    /// Keys removed because their time was over.
    pub expired: AtomicU64,
    /// Changes since start (the sum of all edits).
    pub changes: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
    /// Commands deferred on a busy latch.
    pub deferred: AtomicU64,
    /// Commands parked on key locks.
    pub parked: AtomicU64,
    /// Commands handed to the slow lane.
    pub slow_lane: AtomicU64,
    /// Connections closed for their output buffer.
    pub output_limit_closed: AtomicU64,
    /// Connections closed for their query buffer.
    pub query_limit_closed: AtomicU64,
    /// Accesses refused for wrong credentials.
    pub auth_denied: AtomicU64,
    /// Bytes of input buffers held by connections of this thread.
    pub query_bytes: AtomicU64,
    /// Error replies by code; rare, so behind a lock.
    pub error_codes: Mutex<BTreeMap<String, u64>>,
}

impl ThreadStats {
    /// Zeroed counters for a registry of `commands` entries.
    pub fn new(commands: usize) -> Self {
        ThreadStats {
            commands: (0..commands).map(|_| CommandStats::default()).collect(),
            connections: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            slow_lane: AtomicU64::new(0),
            output_limit_closed: AtomicU64::new(0),
            query_limit_closed: AtomicU64::new(0),
            auth_denied: AtomicU64::new(0),
            query_bytes: AtomicU64::new(0),
            error_codes: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts an error reply.
    pub fn error(&self, code: &str) {
        bump(&self.errors, 1);
        let mut codes = self.error_codes.lock();
        *codes.entry(code.to_owned()).or_insert(0) += 1;
    }

    /// The counters of command `id`.
    #[inline]
    pub fn command(&self, id: CommandId) -> &CommandStats {
        &self.commands[id.0 as usize]
    }
}

/// Sums of one command.
#[derive(Debug, Default, Clone, Copy)]
pub struct CommandTotals {
    /// Executions.
    pub calls: u64,
    /// Time in handlers, ns.
    pub time_ns: u64,
    /// Refused before execution.
    pub rejected: u64,
    /// Ended with an error.
    pub failed: u64,
}

/// All threads' counters, and what CONFIG RESETSTAT subtracts from them.
///
/// A reset must not write into other threads' counters (their owners would overwrite it), so it
/// remembers the sums at that moment instead.
#[derive(Debug, Default)]
pub struct Stats {
    threads: Mutex<Vec<Arc<ThreadStats>>>,
    base: Mutex<Base>,
}

#[derive(Debug, Default)]
struct Base {
    sums: BTreeMap<&'static str, u64>,
    commands: Vec<CommandTotals>,
    codes: BTreeMap<String, u64>,
}

/// Picks one counter.
type Field = fn(&ThreadStats) -> &AtomicU64;

/// Counters that CONFIG RESETSTAT clears, by name.
const RESETTABLE: &[(&str, Field)] = &[
    ("connections", |t| &t.connections),
    ("connections_rejected", |t| &t.connections_rejected),
    ("bytes_in", |t| &t.bytes_in),
    ("bytes_out", |t| &t.bytes_out),
    ("hits", |t| &t.hits),
    ("misses", |t| &t.misses),
    ("expired", |t| &t.expired),
    ("errors", |t| &t.errors),
    ("deferred", |t| &t.deferred),
    ("parked", |t| &t.parked),
    ("slow_lane", |t| &t.slow_lane),
    ("output_limit_closed", |t| &t.output_limit_closed),
    ("query_limit_closed", |t| &t.query_limit_closed),
    ("auth_denied", |t| &t.auth_denied),
    ("changes", |t| &t.changes),
];

impl Stats {
    /// Adds a thread's counters to the sums.
    pub fn register(&self, commands: usize) -> Arc<ThreadStats> {
        let stats = Arc::new(ThreadStats::new(commands));
        self.threads.lock().push(stats.clone());
        stats
    }

    fn raw(&self, field: Field) -> u64 {
        self.threads
            .lock()
            .iter()
            .map(|thread| field(thread).load(Relaxed))
            .sum()
    }

    /// Sum of a counter since start or the last reset. `name` is one of the table's.
    pub fn sum(&self, name: &'static str) -> u64 {
        let field = RESETTABLE
            .iter()
            .find(|(own, _)| *own == name)
            .expect("a counter's name")
            .1;
        let base = self.base.lock().sums.get(name).copied().unwrap_or(0);
        self.raw(field).saturating_sub(base)
    }

    fn raw_commands(&self) -> Vec<CommandTotals> {
        let threads = self.threads.lock();
        let mut sums: Vec<CommandTotals> = Vec::new();
        for thread in threads.iter() {
            sums.resize(
                thread.commands.len().max(sums.len()),
                CommandTotals::default(),
            );
            for (sum, own) in sums.iter_mut().zip(thread.commands.iter()) {
                sum.calls += own.calls.load(Relaxed);
                sum.time_ns += own.time_ns.load(Relaxed);
                sum.rejected += own.rejected.load(Relaxed);
                sum.failed += own.failed.load(Relaxed);
            }
        }
        sums
    }

    /// Sums per registry index since start or the last reset.
    pub fn commands(&self) -> Vec<CommandTotals> {
        let mut sums = self.raw_commands();
        for (sum, base) in sums.iter_mut().zip(&self.base.lock().commands) {
            sum.calls -= base.calls;
            sum.time_ns -= base.time_ns;
            sum.rejected -= base.rejected;
            sum.failed -= base.failed;
        }
        sums
    }

    /// Commands executed since start or the last reset.
    pub fn commands_processed(&self) -> u64 {
        self.commands().iter().map(|command| command.calls).sum()
    }

    fn raw_codes(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for thread in self.threads.lock().iter() {
            for (code, count) in thread.error_codes.lock().iter() {
                *sums.entry(code.clone()).or_insert(0) += count;
            }
        }
        sums
    }

    /// Error replies by code since start or the last reset.
    pub fn error_codes(&self) -> BTreeMap<String, u64> {
        let mut codes = self.raw_codes();
        for (code, count) in &self.base.lock().codes {
            if let Some(own) = codes.get_mut(code) {
                *own -= count;
            }
        }
        codes.retain(|_, count| *count > 0);
        codes
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let sums = RESETTABLE
            .iter()
            .filter(|(name, _)| *name != "changes")
            .map(|(name, field)| (*name, self.raw(*field)))
            .collect();
        let base = Base {
            sums,
            commands: self.raw_commands(),
            codes: self.raw_codes(),
        };
        *self.base.lock() = base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_hides_what_was_and_counts_on() {
        let stats = Stats::default();
        let (a, b) = (stats.register(2), stats.register(2));
        bump(&a.hits, 2);
        bump(&b.hits, 3);
        bump(&b.command(CommandId(1)).calls, 7);
        a.error("ERR");
        assert_eq!(stats.sum("hits"), 5);
        assert_eq!(stats.commands_processed(), 7);
        stats.reset();
        assert_eq!(stats.sum("hits"), 0);
        assert!(stats.error_codes().is_empty());
        bump(&b.hits, 1);
        b.error("ERR");
        bump(&b.command(CommandId(1)).calls, 1);
        assert_eq!(stats.sum("hits"), 1);
        assert_eq!(stats.commands()[1].calls, 1);
        assert_eq!(stats.error_codes()["ERR"], 1);
    }
}
