//! The slow log: the last commands that took longer than `slowlog-log-slower-than`.

use env::sync::Mutex;
use std::collections::VecDeque;

/// Arguments kept of one command.
const ARGS_MAX: usize = 32;
/// Bytes kept of one argument.
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Debug, Clone)]
pub struct SlowEntry {
    /// Number of the entry, growing.
    pub id: u64,
    /// Unix time of its end, seconds.
    pub time_s: i64,
    /// How long it took, µs.
    pub duration_us: u64,
    /// Arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Client's address.
    pub addr: String,
    /// Client's name.
    pub name: Vec<u8>,
}

#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<SlowEntry>,
    next_id: u64,
}

/// The log; newest entry first. Entered by slow commands only.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<Log>);

/// Arguments as the log keeps them: at most 32, each at most 128 bytes, with remarks on the rest.
pub fn shorten<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        count
    };
    let mut out: Vec<Vec<u8>> = args
        .take(kept)
        .map(|arg| {
            if arg.len() <= ARG_BYTES_MAX {
                return arg.to_vec();
            }
            let mut short = arg[..ARG_BYTES_MAX].to_vec();
            short.extend_from_slice(
                format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes(),
            );
            short
        })
        .collect();
    if kept < count {
        out.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    out
}

impl SlowLog {
    /// Adds an entry and drops the oldest beyond `max`. The entry's id is set here.
    pub fn push(&self, mut entry: SlowEntry, max: usize) {
        let mut log = self.0.lock();
        entry.id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(entry);
        log.entries.truncate(max);
    }

    /// The newest `count` entries.
    pub fn latest(&self, count: usize) -> Vec<SlowEntry> {
        self.0.lock().entries.iter().take(count).cloned().collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SLOWLOG RESET; numbering goes on.
    pub fn clear(&self) {
        self.0.lock().entries.clear();
    }
}
