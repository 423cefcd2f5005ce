//! The log.
//!
//! ```text
//! 4711:M 01 Dec 2026 02:03:04.567 * Ready to accept connections
//! pid:role date                level message
//! ```
//!
//! Lines are written by the thread that logs until [`Log::start_writer`], and by a thread of its own
//! from then on, so that nobody waits for a disk or a terminal. At most [`QUEUE_MAX`] lines wait;
//! further ones are counted, and the count is logged. The file is opened for each line, so that it
//! can be rotated by renaming it.

use env::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Most lines waiting for the writer.
const QUEUE_MAX: usize = 10_000;

/// Importance of lines, the numbers of `loglevel`: 0 debug, 1 verbose, 2 notice, 3 warning,
/// 4 nothing.
const LEVEL_MARKS: [char; 4] = ['.', '-', '*', '#'];
const LEVEL_NAMES: [&str; 4] = ["debug", "verbose", "notice", "warning"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// As Redis writes them.
    Redis,
    /// One JSON object each.
    Json,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<String>,
    dropped: u64,
    writing: bool,
}

/// The process's log.
#[derive(Debug)]
pub(crate) struct Log {
    level: AtomicU8,
    serving: AtomicBool,
    format: OnceLock<Format>,
    /// Where to; not set or `None` is the standard output.
    file: OnceLock<Option<PathBuf>>,
    has_writer: AtomicBool,
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
}

impl Log {
    /// Makes the log and directs all `tracing` events of the process into it. Call once.
    pub(crate) fn install() -> Arc<Log> {
        let log = Arc::new(Log {
            level: AtomicU8::new(2),
            serving: AtomicBool::new(false),
            format: OnceLock::new(),
            file: OnceLock::new(),
            has_writer: AtomicBool::new(false),
            queue: Mutex::new(Queue::default()),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        });
        let subscriber = tracing_subscriber::registry().with(LogLayer(Arc::clone(&log)));
        // Somebody else's subscriber is there only in tests.
        let _ = tracing::subscriber::set_global_default(subscriber);
        let panics = Arc::clone(&log);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            panics.write(&panics.line(3, &format!("Internal error: {info}")));
            before(info);
        }));
        log
    }

    /// Says how and where to log. Call once.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn configure(&self, format: Format, file: Option<PathBuf>) -> std::io::Result<()> {
        if let Some(path) = &file {
            env::fs::open_append(path)?;
        }
        assert!(
            self.format.set(format).is_ok() && self.file.set(file).is_ok(),
            "configured once"
        );
        Ok(())
    }

    /// Least important lines to write, as `loglevel` numbers them.
    pub(crate) fn set_level(&self, level: u8) {
        self.level.store(level, Ordering::Relaxed);
    }

    /// Lines say from now on that the process serves.
    pub(crate) fn set_serving(&self) {
        self.serving.store(true, Ordering::Relaxed);
    }

    /// Does the log go to a terminal?
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.file.get(), None | Some(None)) && env::process::is_tty()
    }

    /// Starts the thread that writes from now on.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start_writer(self: &Arc<Self>) -> std::io::Result<()> {
        let log = Arc::clone(self);
        env::thread::spawn_named("log", move || log.write_queue())?;
        self.has_writer.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits until all lines are written.
    pub(crate) fn flush(&self) {
        if !self.has_writer.load(Ordering::Acquire) {
            return;
        }
        let mut queue = self.queue.lock();
        while queue.writing || !queue.lines.is_empty() {
            self.emptied.wait(&mut queue);
        }
    }

    /// Writes text as it is, without date and level, after all earlier lines.
    pub(crate) fn raw(&self, text: &str) {
        self.flush();
        self.write(text);
    }

    fn write_queue(&self) {
        loop {
            let mut queue = self.queue.lock();
            while queue.lines.is_empty() {
                queue.writing = false;
                self.emptied.notify_all();
                self.filled.wait(&mut queue);
            }
            queue.writing = true;
            let mut lines: Vec<String> = queue.lines.drain(..).collect();
            let dropped = std::mem::take(&mut queue.dropped);
            drop(queue);
            if dropped > 0 {
                lines.push(self.line(3, &format!("{dropped} log lines were dropped")));
            }
            self.write(&lines.concat());
        }
    }

    fn take(&self, level: usize, message: &str) {
        if (level as u8) < self.level.load(Ordering::Relaxed) {
            return;
        }
        let line = self.line(level, message);
        if !self.has_writer.load(Ordering::Acquire) {
            self.write(&line);
            return;
        }
        let mut queue = self.queue.lock();
        if queue.lines.len() >= QUEUE_MAX {
            queue.dropped += 1;
            return;
        }
        queue.lines.push_back(line);
        drop(queue);
        self.filled.notify_one();
    }

    fn line(&self, level: usize, message: &str) -> String {
        let now_ms = env::clock::now_ms();
        let date = env::clock::local_time((now_ms / 1000) as i64);
        let pid = env::process::id();
        let role = if self.serving.load(Ordering::Relaxed) {
            'M'
        } else {
            'C'
        };
        let milliseconds = now_ms % 1000;
        if self.format.get() == Some(&Format::Json) {
            let offset_minutes = date.utc_offset_s / 60;
            let (sign, offset) = (
                if offset_minutes < 0 { '-' } else { '+' },
                offset_minutes.abs(),
            );
            return format!(
                "{{\"time\":\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{milliseconds:03}{sign}{:02}:{:02}\",\
                 \"pid\":{pid},\"role\":\"{role}\",\"level\":\"{}\",\"message\":{}}}\n",
                date.year,
                date.month,
                date.day,
                date.hour,
                date.minute,
                date.second,
                offset / 60,
                offset % 60,
                LEVEL_NAMES[level],
                json_string(message),
            );
        }
        format!(
            "{pid}:{role} {:02} {} {:04} {:02}:{:02}:{:02}.{milliseconds:03} {} {message}\n",
            date.day,
            MONTHS[date.month as usize - 1],
            date.year,
            date.hour,
            date.minute,
            date.second,
            LEVEL_MARKS[level],
        )
    }

    /// Writes text at once. A log that cannot be written stops nobody.
    fn write(&self, text: &str) {
        let _ = match self.file.get() {
            Some(Some(path)) => {
                env::fs::open_append(path).and_then(|mut file| file.write_all(text.as_bytes()))
            }
            _ => std::io::stdout()
                .write_all(text.as_bytes())
                .and_then(|()| std::io::stdout().flush()),
        };
    }
}

fn json_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Directs `tracing` events into the log.
struct LogLayer(Arc<Log>);

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string cannot fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR | Level::WARN => 3,
            Level::INFO => 2,
            Level::DEBUG => 1,
            Level::TRACE => 0,
        };
        let mut message = Message::default();
        event.record(&mut message);
        self.0.take(level, &message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        Log {
            level: AtomicU8::new(2),
            serving: AtomicBool::new(true),
            format: OnceLock::new(),
            file: OnceLock::new(),
            has_writer: AtomicBool::new(false),
            queue: Mutex::new(Queue::default()),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    #[test]
    fn a_line_looks_like_those_of_redis() {
        let line = log().line(2, "Ready to accept connections");
        let (head, rest) = line.split_once(' ').unwrap();
        assert_eq!(head, format!("{}:M", env::process::id()));
        let words: Vec<&str> = rest.trim_end().splitn(6, ' ').collect();
        assert_eq!(words.len(), 6);
        assert!(words[0].len() == 2 && MONTHS.contains(&words[1]) && words[2].len() == 4);
        assert_eq!(words[3].len(), "02:03:04.567".len());
        assert_eq!(&words[4..], ["*", "Ready to accept connections"]);
    }

    #[test]
    fn json_lines() {
        let log = log();
        log.format.set(Format::Json).unwrap();
        let line = log.line(3, "a \"b\"\n\u{1}");
        assert!(
            line.ends_with("\"level\":\"warning\",\"message\":\"a \\\"b\\\"\\n\\u0001\"}\n"),
            "{line}"
        );
    }

    #[test]
    fn a_queue_is_written_in_order() {
        let path = std::env::temp_dir().join(format!("pronghorn-log-{}", env::process::id()));
        let _ = env::fs::remove(&path);
        let log = Arc::new(log());
        log.configure(Format::Redis, Some(path.clone())).unwrap();
        log.take(2, "one");
        log.start_writer().unwrap();
        log.take(1, "too little");
        for number in 0..100 {
            log.take(3, &number.to_string());
        }
        log.flush();
        let text = String::from_utf8(env::fs::read(&path).unwrap()).unwrap();
        let messages: Vec<&str> = text
            .lines()
            .filter_map(|l| l.split(' ').next_back())
            .collect();
        let mut expected = vec!["one".to_owned()];
        expected.extend((0..100).map(|number: i32| number.to_string()));
        assert_eq!(messages, expected);
        env::fs::remove(&path).unwrap();
    }
}
