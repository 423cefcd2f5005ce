//! Loops and connections: moves bytes between sockets and a [`Service`]; knows no RESP.

mod service;

pub use service::{Address, Closed, Desk, Flow, Peer, Ready, Service, Token};

/// Wakes one loop from any thread.
#[derive(Debug, Clone)]
pub struct Waker(());
