//! What the engine asks of the process around it.

use engine::server::{Host, HostMemory, ShutdownOptions};
use env::sync::{Condvar, Mutex};
use std::sync::{Arc, OnceLock};

/// A request to stop, handed to the main thread.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: Mutex<Option<ShutdownOptions>>,
    changed: Condvar,
}

impl Stop {
    /// Asks for it. The first request counts.
    pub(crate) fn ask(&self, options: ShutdownOptions) {
        self.asked.lock().get_or_insert(options);
        self.changed.notify_all();
    }

    /// Waits until somebody asks.
    pub(crate) fn wait(&self) -> ShutdownOptions {
        let mut asked = self.asked.lock();
        loop {
            if let Some(options) = *asked {
                return options;
            }
            self.changed.wait(&mut asked);
        }
    }
}

/// The process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Where requests to stop go.
    pub(crate) stop: Arc<Stop>,
    /// Absolute path of the configuration file, or empty.
    pub(crate) config_file: String,
    /// Set once the loops run.
    pub(crate) io_backend: Arc<OnceLock<&'static str>>,
}

impl Host for Process {
    fn shutdown(&self, options: ShutdownOptions) {
        self.stop.ask(options);
    }

    fn abort_shutdown(&self) -> bool {
        // Without replicas or persistence there is nothing that a shutdown waits for.
        false
    }

    fn io_backend(&self) -> &'static str {
        self.io_backend.get().copied().unwrap_or("starting")
    }

    fn executable(&self) -> String {
        std::env::current_exe()
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }

    fn config_file(&self) -> String {
        self.config_file.clone()
    }

    fn memory(&self) -> HostMemory {
        use tikv_jemalloc_ctl::{epoch, stats};
        // A statistic that cannot be read shows as 0, which INFO's readers take for unknown.
        let _ = epoch::advance();
        let bytes = |read: Result<usize, _>| read.map_or(0, |bytes: usize| bytes as u64);
        HostMemory {
            allocated: bytes(stats::allocated::read()),
            active: bytes(stats::active::read()),
            resident: bytes(stats::resident::read()),
            rss: env::process::rss_bytes(),
        }
    }

    fn log(&self, line: &str) {
        tracing::info!("{line}");
    }
}
