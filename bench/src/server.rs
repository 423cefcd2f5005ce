//! Servers under test: how each kind is started, and that it is gone afterwards.
//!
//! Invariants: a server listens on 127.0.0.1 only, works in an empty directory of its own, writes
//! nothing to disk, and is killed when its `Server` is dropped or the suite's process ends in
//! whatever way.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::client::Client;
use crate::process;
use crate::sys::{self, Address};

/// Which program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    Pronghorn {
        path: PathBuf,
    },
    /// Redis, or anything that takes its options.
    Peer {
        path: PathBuf,
    },
    Floor {
        backend: &'static str,
    },
}

/// A port in use is looked at again so often, and so long after the last look.
const PORT_WAITS: u32 = 100;
const PORT_WAIT_NS: u64 = 100_000_000;

/// A server that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) program: Program,
}

/// Where the servers are and where they run; shared by all subcommands that start servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Fleet {
    #[arg(long, default_value = "target/release/pronghorn")]
    pronghorn: PathBuf,
    /// Further options for pronghorn, separated by blanks.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pronghorn_options: String,
    /// The reference redis-server; looked for in PATH if it has no slash.
    #[arg(long, default_value = "redis-server")]
    redis: PathBuf,
    #[arg(long)]
    redis8: Option<PathBuf>,
    #[arg(long)]
    valkey: Option<PathBuf>,
    /// Only these servers: pronghorn, redis, redis8, valkey, floor-epoll, floor-io_uring.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Not these servers.
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
    /// I/O threads of pronghorn.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// CPUs the servers run on.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub(crate) server_cpu: Vec<usize>,
    /// CPUs the load runs on.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub(crate) client_cpu: Vec<usize>,
    /// First of the ports used on 127.0.0.1, one a server.
    #[arg(long, default_value_t = 21_100)]
    pub(crate) port: u16,
}

impl Fleet {
    /// The chosen servers that exist, Pronghorn first; a missing program is named on stderr.
    pub(crate) fn candidates(&self, with_floors: bool) -> Result<Vec<Candidate>, String> {
        let peer = |path: &PathBuf| Program::Peer { path: path.clone() };
        let mut all = vec![
            (
                "pronghorn",
                Some(Program::Pronghorn {
                    path: self.pronghorn.clone(),
                }),
            ),
            ("redis", Some(peer(&self.redis))),
            ("redis8", self.redis8.as_ref().map(peer)),
            ("valkey", self.valkey.as_ref().map(peer)),
        ];
        if with_floors {
            all.push(("floor-epoll", Some(Program::Floor { backend: "epoll" })));
            all.push((
                "floor-io_uring",
                Some(Program::Floor {
                    backend: "io_uring",
                }),
            ));
        }
        for name in self.only.iter().chain(&self.skip) {
            let known = [
                "pronghorn",
                "redis",
                "redis8",
                "valkey",
                "floor-epoll",
                "floor-io_uring",
            ];
            if !known.contains(&name.as_str()) {
                return Err(format!("no server is called {name}"));
            }
        }
        let mut chosen = Vec::new();
        for (name, program) in all {
            let wanted = (self.only.is_empty() || self.only.iter().any(|only| only == name))
                && !self.skip.iter().any(|skip| skip == name);
            let Some(program) = program.filter(|_| wanted) else {
                continue;
            };
            if let Program::Pronghorn { path } | Program::Peer { path } = &program
                && !exists(path)
            {
                eprintln!("{name}: {} not found, left out", path.display());
                continue;
            }
            chosen.push(Candidate {
                name: name.to_owned(),
                program,
            });
        }
        if chosen.is_empty() {
            Err("no server to measure".to_owned())
        } else {
            Ok(chosen)
        }
    }

    /// Starts `candidate` on port `self.port + offset` and waits until it answers.
    pub(crate) fn start(
        &self,
        candidate: &Candidate,
        offset: u16,
        value_bytes: usize,
    ) -> Result<Server, String> {
        self.start_with(candidate, offset, value_bytes, self.threads, &[])
    }

    /// As [`Self::start`], with a number of threads and further options.
    pub(crate) fn start_with(
        &self,
        candidate: &Candidate,
        offset: u16,
        value_bytes: usize,
        threads: usize,
        options: &[&str],
    ) -> Result<Server, String> {
        let name = &candidate.name;
        let port = self.port + offset;
        // The kernel closes a killed server's io_uring, and with it the listener, a moment later.
        let mut waits_left = PORT_WAITS;
        while sys::port_in_use(port) {
            if waits_left == 0 {
                return Err(format!("{name}: port {port} is in use"));
            }
            waits_left -= 1;
            sys::sleep_ns(PORT_WAIT_NS);
        }
        let directory =
            std::env::temp_dir().join(format!("pronghorn-bench-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(|error| format!("{name}: {error}"))?;
        let port_text = port.to_string();
        let mut command = match &candidate.program {
            Program::Floor { backend } => {
                let mut command =
                    Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
                command.args(["floor", "--backend", backend, "--port", &port_text]);
                command.args(["--value-size", &value_bytes.to_string()]);
                command
            }
            Program::Pronghorn { path } => {
                let mut command = Command::new(absolute(path));
                command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "no", "--threads", &threads.to_string()]);
                command.args(self.pronghorn_options.split_whitespace());
                command.args(options);
                command
            }
            Program::Peer { path } => {
                let mut command = Command::new(absolute(path));
                command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "no", "--daemonize", "no"]);
                if threads > 1 {
                    command.args(["--io-threads", &threads.to_string()]);
                }
                command.args(options);
                command
            }
        };
        command
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = sys::spawn_child(&mut command, &self.server_cpu)
            .map_err(|error| format!("{name}: {error}"))?;
        let address = Address::local(port);
        let server = Server {
            name: name.clone(),
            address,
            child,
            directory,
        };
        Client::wait_for(&server.address, 10_000).map_err(|error| format!("{name}: {error}"))?;
        Ok(server)
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: Address,
    child: Child,
    directory: PathBuf,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn client(&self) -> Result<Client, String> {
        let mut client = Client::connect(&self.address, &crate::client::Credentials::default())?;
        client.set_patience(Duration::from_mins(5))?;
        Ok(client)
    }

    /// Resident bytes once they have stopped moving, at most 2 s later.
    pub(crate) fn settled_rss_bytes(&self) -> Result<u64, String> {
        let read =
            || process::rss_bytes(self.pid()).map_err(|error| format!("{}: {error}", self.name));
        let mut last = read()?;
        for _ in 0..10 {
            sys::sleep_ns(200_000_000);
            let now = read()?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(last)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either may fail because the process is already gone, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn exists(path: &Path) -> bool {
    if path.components().count() > 1 || path.is_absolute() {
        return path.is_file();
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| directory.join(path).is_file())
}

/// The child works in another directory, so a relative path must be resolved first.
fn absolute(path: &Path) -> PathBuf {
    if path.components().count() > 1 {
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    } else {
        path.to_path_buf()
    }
}
