//! A redis-server behind a unix socket, in a directory of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How long a start may take, ms.
const WAIT_MS_MAX: u64 = 20_000;

static STARTED: AtomicU32 = AtomicU32::new(0);

/// The process; dropped, it is killed and its directory removed.
pub(crate) struct Oracle {
    child: Child,
    directory: PathBuf,
}

impl Oracle {
    pub(crate) fn start() -> Oracle {
        let number = STARTED.fetch_add(1, Relaxed);
        let directory =
            std::env::temp_dir().join(format!("oracle-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(directory.join("socket"))
            .arg("--dir")
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server runs: install Debian's package redis-server");
        let oracle = Oracle { child, directory };
        let deadline_ms = env::clock::now_ms() + WAIT_MS_MAX;
        while std::os::unix::net::UnixStream::connect(oracle.socket()).is_err() {
            assert!(
                env::clock::now_ms() < deadline_ms,
                "redis-server does not listen"
            );
            env::thread::sleep_ms(2);
        }
        oracle
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // These fail only if the process or the directory is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
