//! The one door of the bench suite to the machine: clock, threads, files, sockets, processes.
//!
//! What it is: thin wrappers, so that every use of time, network and processes in the suite is
//! found in one place. The suite depends on no other crate of the workspace, so it has this door
//! of its own.
//!
//! What it never knows: the protocol, what is being measured.
//!
//! Invariants: times are nanoseconds of the monotonic clock; a child process dies with the thread
//! that started it (parent death signal), so a panic leaves no server behind.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::CpuSet;
use rustix::time::ClockId;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// The address of a server on this machine.
    pub(crate) fn local(port: u16) -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Nanoseconds of the monotonic clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// Nanoseconds of CPU time the calling thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

#[inline]
fn clock_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[expect(clippy::disallowed_methods, reason = "the suite's own door to time")]
pub(crate) fn sleep_ns(duration_ns: u64) {
    std::thread::sleep(Duration::from_nanos(duration_ns));
}

/// Sleeps until the monotonic clock reads `until_ns`; returns at once if it already does.
pub(crate) fn sleep_until_ns(until_ns: u64) {
    let now = now_ns();
    if until_ns > now {
        sleep_ns(until_ns - now);
    }
}

/// Starts a thread, pinned to `cpu` if one is given.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    cpu: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            if let Some(cpu) = cpu
                && let Err(error) = pin(cpu)
            {
                eprintln!("warning: cannot pin a thread to CPU {cpu}: {error}");
            }
            body()
        })
}

/// Pins the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Gives the calling thread the lowest priority, for work that must not disturb a measurement.
pub(crate) fn yield_to_others() {
    // Lowering one's own priority is always allowed; if it were not, nothing would break.
    let _ = rustix::process::nice(19);
}

#[expect(clippy::disallowed_methods, reason = "the suite's own door to files")]
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

#[expect(clippy::disallowed_methods, reason = "the suite's own door to files")]
pub(crate) fn write_text(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
}

/// Raises the limit of open files to at least `wanted` if the system lets us; returns the limit
/// in force afterwards.
pub(crate) fn raise_open_files(wanted: u64) -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let enough = |value: Option<u64>| value.is_none_or(|value| value >= wanted);
    if enough(limit.current) {
        return limit.current.unwrap_or(u64::MAX);
    }
    let maximum = if enough(limit.maximum) {
        limit.maximum
    } else {
        Some(wanted)
    };
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    if rustix::process::setrlimit(Resource::Nofile, raised).is_err() {
        // Not privileged: go as far as the hard limit lets us.
        let fallback = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        let _ = rustix::process::setrlimit(Resource::Nofile, fallback);
    }
    rustix::process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX)
}

/// Opens a blocking connection. `source` is the local address to bind for TCP (used to get more
/// connections than one address has ports).
pub(crate) fn connect(address: &Address, source: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let socket = match address {
        Address::Tcp(peer) => {
            let family = if peer.is_ipv4() {
                AddressFamily::INET
            } else {
                AddressFamily::INET6
            };
            let socket = stream_socket(family)?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            if let Some(source) = source {
                bind_without_port(&socket)?;
                rustix::net::bind(&socket, &source)?;
            }
            rustix::net::connect(&socket, peer)?;
            socket
        }
        Address::Unix(path) => {
            let socket = stream_socket(AddressFamily::UNIX)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            socket
        }
    };
    Ok(socket)
}

/// Leaves the choice of the local port to `connect`, which knows the peer: a bind alone would search
/// for a port that nobody uses with any peer, slowly.
fn bind_without_port(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    #[expect(unsafe_code, reason = "rustix has no call for this option")]
    // SAFETY: the pointer and the length describe `on`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A listening TCP socket whose accepted connections have TCP_NODELAY set (Linux copies the
/// option from the listener).
pub(crate) fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = stream_socket(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 4096)?;
    Ok(socket)
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Makes reads and writes of `socket` return at once.
pub(crate) fn set_nonblocking(socket: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(socket)?;
    Ok(rustix::fs::fcntl_setfl(socket, flags | OFlags::NONBLOCK)?)
}

/// Limits how long a blocking receive waits; `None` waits for ever.
pub(crate) fn set_receive_timeout(socket: &OwnedFd, limit: Option<Duration>) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(socket, Timeout::Recv, limit)?)
}

/// Whether something listens on a TCP port of this machine.
pub(crate) fn port_in_use(port: u16) -> bool {
    connect(&Address::local(port), None).is_ok()
}

/// Starts `command` with its threads confined to `cpus` (all if empty); the child is killed when
/// the calling thread ends, however it ends.
pub(crate) fn spawn_child(
    command: &mut Command,
    cpus: &[usize],
) -> io::Result<std::process::Child> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    let confined = !cpus.is_empty();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if confined {
            rustix::thread::sched_setaffinity(None, &set)?;
        }
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "pre_exec is the only way to set these between fork and exec"
    )]
    // SAFETY: the closure makes two system calls on values it owns; it allocates nothing and takes
    // no lock, so it may run in the child of a multi-threaded process.
    unsafe {
        command.pre_exec(prepare);
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let start = now_ns();
        sleep_ns(2_000_000);
        assert!(now_ns() - start >= 2_000_000);
    }

    #[test]
    fn child_dies_with_its_thread() {
        let pid = spawn("parent", None, || {
            spawn_child(Command::new("sleep").arg("60"), &[])
                .unwrap()
                .id()
        })
        .unwrap()
        .join()
        .unwrap();
        let stat = format!("/proc/{pid}/stat");
        for _ in 0..200 {
            match read_text(Path::new(&stat)) {
                Ok(text) if !text.contains(") Z ") => sleep_ns(10_000_000),
                _ => return,
            }
        }
        panic!("the child outlived the thread that started it");
    }
}
