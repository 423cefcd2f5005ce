//! Listening sockets: made by the caller's thread, served by loop 0.
//!
//! Invariants:
//! - A socket here is bound and listening, non-blocking and close-on-exec.
//! - [`Listener::shut`] stops it at once, whoever still holds the descriptor; the address can then
//!   be bound again.

use crate::config::{ListenAddress, ListenSpec};
use crate::service::Address;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, listen, socket_with,
    sockopt,
};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

/// An address that could not be listened on, and why.
#[derive(Debug)]
pub struct BindError {
    /// The address asked for.
    pub address: ListenAddress,
    /// What the system said.
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Could not listen on {}: {}", self.address, self.error)
    }
}

impl std::error::Error for BindError {}

/// A bound, listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    address: ListenAddress,
}

impl Listener {
    /// Binds and listens. `Ok(None)`: the address is optional and not available here.
    pub(crate) fn open(spec: &ListenSpec) -> Result<Option<Self>, BindError> {
        let opened = match &spec.address {
            ListenAddress::Tcp(address) => open_tcp(*address, spec.backlog),
            ListenAddress::Unix { path, mode } => open_unix(path, *mode, spec.backlog),
        };
        match opened {
            Ok((socket, address)) => Ok(Some(Self { socket, address })),
            Err(error) if spec.optional && is_unavailable(error) => Ok(None),
            Err(error) => Err(BindError {
                address: spec.address.clone(),
                error: error.into(),
            }),
        }
    }

    /// The address it really has (the port is filled in if 0 was asked for).
    pub(crate) fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Our end of a connection it accepted.
    pub(crate) fn local_address(&self, connection: BorrowedFd<'_>) -> Address {
        match &self.address {
            ListenAddress::Tcp(bound) => {
                let local = getsockname(connection)
                    .ok()
                    .and_then(|a| SocketAddr::try_from(a).ok());
                Address::Tcp(local.unwrap_or(*bound))
            }
            ListenAddress::Unix { path, .. } => Address::Unix(path.display().to_string()),
        }
    }

    /// The other end of a connection it accepted; `None` if the peer is already gone.
    pub(crate) fn remote_address(&self, connection: BorrowedFd<'_>) -> Option<Address> {
        match &self.address {
            ListenAddress::Tcp(_) => {
                let peer = rustix::net::getpeername(connection).ok()??;
                SocketAddr::try_from(peer).ok().map(Address::Tcp)
            }
            ListenAddress::Unix { path, .. } => Some(Address::Unix(path.display().to_string())),
        }
    }

    /// Stops listening and, for a unix socket, removes its file.
    pub(crate) fn shut(&self) {
        // On Linux this takes a listening socket out of the listening state. Failure means that it
        // was not listening any more, which is what is wanted.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        if let ListenAddress::Unix { path, .. } = &self.address {
            let _ = rustix::fs::unlink(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets what every accepted TCP connection gets: no delay, and keepalive probes if `keepalive_s`
/// is not 0. As Redis does, probes come every third of that time and three may stay unanswered.
pub(crate) fn tune_connection(
    connection: BorrowedFd<'_>,
    keepalive_s: u32,
) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(connection, true)?;
    if keepalive_s == 0 {
        return Ok(());
    }
    sockopt::set_socket_keepalive(connection, true)?;
    sockopt::set_tcp_keepidle(connection, Duration::from_secs(keepalive_s.into()))?;
    let interval_s = (keepalive_s / 3).max(1);
    sockopt::set_tcp_keepintvl(connection, Duration::from_secs(interval_s.into()))?;
    sockopt::set_tcp_keepcnt(connection, 3)
}

fn open_tcp(address: SocketAddr, backlog: i32) -> rustix::io::Result<(OwnedFd, ListenAddress)> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, backlog)?;
    let bound = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, ListenAddress::Tcp(bound)))
}

fn open_unix(
    path: &Path,
    mode: Option<u32>,
    backlog: i32,
) -> rustix::io::Result<(OwnedFd, ListenAddress)> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    if let Some(bits) = mode {
        rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(bits))?;
    }
    listen(&socket, backlog)?;
    Ok((
        socket,
        ListenAddress::Unix {
            path: path.to_path_buf(),
            mode,
        },
    ))
}

/// The errors after which Redis goes on without an optional address.
fn is_unavailable(error: Errno) -> bool {
    [
        Errno::ADDRNOTAVAIL,
        Errno::NOPROTOOPT,
        Errno::PROTONOSUPPORT,
        Errno::AFNOSUPPORT,
        Errno::PROTOTYPE,
        Errno::SOCKTNOSUPPORT,
        Errno::PFNOSUPPORT,
    ]
    .contains(&error)
}
