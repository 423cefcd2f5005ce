//! What the caller may choose about the loops.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Which kernel interface the loops use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoBackend {
    /// io_uring if a probe at start succeeds, else epoll with one message.
    #[default]
    Auto,
    /// io_uring; the start fails if it cannot be had.
    IoUring,
    /// epoll.
    Epoll,
}

/// Bytes given to the kernel in one send. A fast reader takes all it is given, and the copying is
/// done on the loop's time: a reply of a hundred megabytes must not hold up the others.
pub(crate) const SEND_BYTES_MAX: usize = 256 << 10;

/// Receives lines meant for the log. Called from loop threads; must not block.
pub type MessageSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of a [`Server`](crate::Server).
#[derive(Clone)]
pub struct NetConfig {
    /// Number of loops, each a thread. At least 1.
    pub loops: usize,
    /// CPU numbers; loop `i` is pinned to `cpus[i % len]`. Empty: not pinned.
    pub cpus: Vec<usize>,
    /// Kernel interface.
    pub backend: IoBackend,
    /// Seconds before keepalive probes start on an idle TCP connection; 0 turns them off.
    pub tcp_keepalive_s: u32,
    /// Where messages for the log go.
    pub messages: MessageSink,
}

impl NetConfig {
    /// `loops` unpinned loops, automatic backend, keepalive of 300 s, messages dropped.
    #[must_use]
    pub fn new(loops: usize) -> Self {
        Self {
            loops,
            cpus: Vec::new(),
            backend: IoBackend::Auto,
            tcp_keepalive_s: 300,
            messages: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for NetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetConfig")
            .field("loops", &self.loops)
            .field("cpus", &self.cpus)
            .field("backend", &self.backend)
            .field("tcp_keepalive_s", &self.tcp_keepalive_s)
            .finish_non_exhaustive()
    }
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP; IPv6 sockets accept IPv6 only.
    Tcp(SocketAddr),
    /// Unix socket at a path; a stale file there is removed first.
    Unix {
        /// Path of the socket file.
        path: PathBuf,
        /// Permission bits set on the file; `None` leaves what the umask gives.
        mode: Option<u32>,
    },
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => path.display().fmt(f),
        }
    }
}

/// One listener asked for.
#[derive(Debug, Clone)]
pub struct ListenSpec {
    /// Where.
    pub address: ListenAddress,
    /// Length of the accept queue.
    pub backlog: i32,
    /// If the address is not available on this machine, go on without it (Redis's `-` prefix).
    pub optional: bool,
}

impl ListenSpec {
    /// A TCP listener that must succeed, with a queue of 511.
    #[must_use]
    pub fn tcp(address: SocketAddr) -> Self {
        Self {
            address: ListenAddress::Tcp(address),
            backlog: 511,
            optional: false,
        }
    }

    /// A unix listener that must succeed, with a queue of 511.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>, mode: Option<u32>) -> Self {
        let address = ListenAddress::Unix {
            path: path.into(),
            mode,
        };
        Self {
            address,
            backlog: 511,
            optional: false,
        }
    }
}
