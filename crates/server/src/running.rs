//! A running server: its parts put together, and taken apart in the right order.

use crate::host::{Process, Stop};
use crate::housekeeping;
use crate::registry;
use crate::wiring::Front;
use engine::config::Config;
use engine::server::Server;
use net::{IoBackend, ListenAddress, ListenSpec, NetConfig};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{Store, StoreConfig};

/// Shards per loop: few enough that their tables are large (huge pages), enough that two loops seldom
/// meet in one allocator.
const SHARDS_PER_LOOP: usize = 4;
/// Replies that are still on their way get so long at the end.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The parts.
pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) net: net::Handle,
    pub(crate) loops: usize,
    quit: Arc<AtomicBool>,
    housekeeper: Option<env::thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("loops", &self.loops)
            .finish_non_exhaustive()
    }
}

/// Number of loops: the directive, or what this machine lets us run at once.
fn loops(config: &Config) -> usize {
    match config.threads() {
        0 => env::thread::available_cpus().parallel,
        threads => threads,
    }
}

/// Starts everything. Afterwards clients can connect.
///
/// # Errors
/// Why it cannot start, for the log.
pub(crate) fn start(
    config: &Arc<Config>,
    config_file: String,
    stop: &Arc<Stop>,
) -> Result<Running, String> {
    let loops = loops(config);
    let lane_threads = config.slow_lane_threads();
    let store = Store::new(StoreConfig {
        shards: (loops * SHARDS_PER_LOOP).next_power_of_two(),
        databases: config.databases(),
        memory_bytes: env::process::total_memory_bytes(),
        lane_threads,
    })
    .map_err(|error| format!("Failed reserving address space for the data set: {error}"))?;
    let registry = registry::build(config)?;
    let server = Server::new(config.clone(), store, registry, env::clock::Clock::system());
    let io_backend = Arc::new(OnceLock::new());
    server.set_host(Box::new(Process {
        stop: stop.clone(),
        config_file,
        io_backend: io_backend.clone(),
    }));

    let settings = NetConfig {
        loops,
        cpus: cpus(config, loops)?,
        backend: match config.io_backend() {
            "io_uring" => IoBackend::IoUring,
            "epoll" => IoBackend::Epoll,
            _ => IoBackend::Auto,
        },
        tcp_keepalive_s: config.tcp_keepalive_s(),
        messages: Arc::new(|line| tracing::warn!("{line}")),
    };
    let listeners = listeners(config)?;
    let front = Arc::new(Front::new(server.clone()));
    let net =
        net::Server::start(&settings, &listeners, &front).map_err(|error| error.to_string())?;
    let backend = net.stats().first().map_or("unknown", |stats| stats.backend);
    let _ = io_backend.set(backend);
    let memory = server.host().memory().allocated + server.store.memory().used_bytes;
    server.startup_memory.store(memory, Relaxed);
    let quit = Arc::new(AtomicBool::new(false));
    let housekeeper = housekeeping::start(server.clone(), quit.clone())
        .map_err(|error| format!("Failed starting a thread: {error}"))?;
    Ok(Running {
        server,
        net,
        loops,
        quit,
        housekeeper: Some(housekeeper),
    })
}

/// CPUs to pin the loops to: one each if there are enough, none otherwise.
fn cpus(config: &Config, loops: usize) -> Result<Vec<usize>, String> {
    let named = config.cpus()?;
    if !named.is_empty() {
        return Ok(named);
    }
    let available = env::thread::available_cpus();
    Ok(if loops <= available.cpus.len() {
        available.cpus
    } else {
        Vec::new()
    })
}

/// All listeners the configuration asks for.
fn listeners(config: &Config) -> Result<Vec<ListenSpec>, String> {
    let mut all = tcp_listeners(config)?;
    let path = config.unixsocket().to_text();
    if !path.is_empty() {
        let mode = config.unixsocketperm();
        let mut spec = ListenSpec::unix(path, (mode > 0).then_some(mode));
        spec.backlog = config.tcp_backlog();
        all.push(spec);
    }
    Ok(all)
}

/// The TCP listeners that `port` and `bind` ask for.
pub(crate) fn tcp_listeners(config: &Config) -> Result<Vec<ListenSpec>, String> {
    let port = config.port();
    let mut all = Vec::new();
    if port == 0 {
        return Ok(all);
    }
    for name in config.bind() {
        let (name, optional) = match name.strip_prefix('-') {
            Some(name) => (name.to_owned(), true),
            None => (name, false),
        };
        let address = resolve(&name, port);
        let address = match address {
            Ok(address) => address,
            Err(_) if optional => continue,
            Err(reason) => return Err(reason),
        };
        all.push(ListenSpec {
            address: ListenAddress::Tcp(address),
            backlog: config.tcp_backlog(),
            optional,
        });
    }
    Ok(all)
}

fn resolve(name: &str, port: u16) -> Result<SocketAddr, String> {
    let name = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    let mut found = (name, port)
        .to_socket_addrs()
        .map_err(|error| format!("{name}:{port}: {error}"))?;
    found
        .next()
        .ok_or_else(|| format!("{name}:{port}: no such address"))
}

impl Running {
    /// Stops accepting, sends what is pending, ends all threads.
    pub(crate) fn stop(mut self) {
        self.net.stop(FLUSH_MAX);
        self.quit.store(true, Relaxed);
        if let Some(thread) = self.housekeeper.take() {
            let _ = thread.join();
        }
        self.server.store.stop_lanes();
    }
}
