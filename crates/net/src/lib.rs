//! Loops and connections: moves bytes between sockets and a [`Service`]; knows no RESP.
//!
//! A server is a few loops, each a thread with its own kernel interface, its own connections and
//! its own part of the service's state. Loop 0 accepts and hands connections out.
//!
//! Invariants:
//! - It never looks into the bytes, and never copies input on the way to the service unless it
//!   arrived in pieces or while it was not wanted.
//! - Idle connections own no buffers.
//! - `unsafe` exists only in [`sys`].

mod backend;
mod bell;
mod config;
mod crew;
mod epoll;
mod listener;
mod reactor;
mod server;
mod service;
mod slots;
mod stats;
mod sys;
mod waker;

pub use config::{IoBackend, ListenAddress, ListenSpec, MessageSink, NetConfig};
pub use listener::BindError;
pub use server::{Handle, Server, StartError};
pub use service::{Address, Closed, Desk, Flow, Peer, Ready, Service, Token};
pub use stats::LoopStats;
pub use waker::Waker;
