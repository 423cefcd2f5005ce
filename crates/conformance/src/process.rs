//! Server processes: finding the program, starting it on a free port, stopping it.

use crate::connection::{Connection, REPLY_WAIT_MAX, Received};
use crate::notation::Protocol;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Which server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The server of this project.
    Pronghorn,
    /// redis-server 7.0, which says what is right.
    Oracle,
}

impl Program {
    /// The name used in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pronghorn => "pronghorn",
            Self::Oracle => "redis-server",
        }
    }

    /// Finds the program, or says how to get it.
    pub fn locate(self) -> Result<PathBuf, String> {
        match self {
            Self::Pronghorn => locate_pronghorn(),
            Self::Oracle => locate_oracle(),
        }
    }

    fn arguments(self, port: u16, directory: &Path) -> Vec<String> {
        let port = port.to_string();
        let directory = directory.to_string_lossy().into_owned();
        let mut arguments = vec![
            "--port".to_owned(),
            port,
            "--bind".to_owned(),
            "127.0.0.1".to_owned(),
            "--dir".to_owned(),
            directory,
            "--enable-debug-command".to_owned(),
            "yes".to_owned(),
        ];
        if self == Self::Oracle {
            for argument in ["--save", "", "--appendonly", "no"] {
                arguments.push(argument.to_owned());
            }
        }
        arguments
    }
}

fn locate_pronghorn() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("PRONGHORN_BIN") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("PRONGHORN_BIN={} is not a file", path.display()))
        };
    }
    // This test runs as target/<profile>/deps/name; the server lies one level up.
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = own
        .parent()
        .and_then(Path::parent)
        .map(|directory| directory.join("pronghorn"))
        .ok_or("the test program has no parent directory")?;
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!(
            "{} does not exist: build it with `cargo build -p server` in the same profile, or set PRONGHORN_BIN",
            path.display()
        ))
    }
}

fn locate_oracle() -> Result<PathBuf, String> {
    let output = Command::new("redis-server")
        .arg("--version")
        .output()
        .map_err(|error| {
            format!("redis-server cannot be run ({error}): install Debian's package redis-server")
        })?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    if version.contains("v=7.0.") {
        Ok(PathBuf::from("redis-server"))
    } else {
        Err(format!(
            "the transcripts follow redis-server 7.0, found: {}",
            version.trim()
        ))
    }
}

/// A running server; dropped, it is killed and its directory removed.
#[derive(Debug)]
pub struct Server {
    child: Child,
    directory: PathBuf,
    /// Which program it is.
    pub program: Program,
    /// TCP port on the loopback interface.
    pub port: u16,
}

impl Server {
    /// Starts `program` with further directives and waits until it answers.
    pub fn start(program: Program, directives: &[String]) -> Result<Self, String> {
        let path = program.locate()?;
        let port = free_port()?;
        let directory =
            std::env::temp_dir().join(format!("transcripts-{}-{port}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let log = File::create(directory.join("log")).map_err(|error| error.to_string())?;
        let log_too = log.try_clone().map_err(|error| error.to_string())?;
        let child = Command::new(&path)
            .args(program.arguments(port, &directory))
            .args(directives)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", path.display()))?;
        let mut server = Self {
            child,
            directory,
            program,
            port,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < REPLY_WAIT_MAX {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!(
                    "{} ended at start with {status}:\n{}",
                    self.program.name(),
                    self.log()
                ));
            }
            if let Ok(mut connection) = Connection::open(self.port, Protocol::Resp2) {
                let asked = connection.send(&[b"PING".to_vec()]);
                if asked.is_ok()
                    && matches!(connection.receive(REPLY_WAIT_MAX), Ok(Received::Reply(_)))
                {
                    return Ok(());
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(format!(
            "{} does not answer:\n{}",
            self.program.name(),
            self.log()
        ))
    }

    /// What the server has written to its output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Memory of the process that is in RAM, MiB.
    pub fn rss_mib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("the kernel tells a process's memory") / 1024
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("kill -TERM {pid}: {other:?}")),
        }
    }

    /// Waits for the process to end by itself; `None` if it is still there after `wait_max`.
    pub fn wait_for_exit(&mut self, wait_max: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if started.elapsed() > wait_max {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process is still there.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both can fail only because the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A port nobody listens on, below the range from which the system gives ports to clients. Test
/// processes that run side by side look in different hundreds.
fn free_port() -> Result<u16, String> {
    const FIRST: u16 = 22_000;
    const PER_PROCESS: u16 = 100;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = FIRST + (std::process::id() % 9) as u16 * PER_PROCESS;
    for _ in 0..PER_PROCESS {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % PER_PROCESS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!(
        "no free port between {first} and {}",
        first + PER_PROCESS - 1
    ))
}
