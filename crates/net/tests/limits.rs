//! Running out of descriptors; alone in its process, whose limit it lowers.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use env::sync::Mutex;
use net::{IoBackend, ListenAddress, ListenSpec, NetConfig, Server, StartError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use support::{Lines, ask};

#[test]
fn backs_off_without_descriptors() {
    for backend in [IoBackend::Epoll, IoBackend::IoUring] {
        check(backend);
    }
}

fn check(backend: IoBackend) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let mut config = NetConfig::new(1);
    config.backend = backend;
    let sink = Arc::clone(&said);
    config.messages = Arc::new(move |message| sink.lock().push(message.to_owned()));
    let listeners = [ListenSpec::tcp(([127, 0, 0, 1], 0).into())];
    let server = match Server::start(&config, &listeners, &Lines::new()) {
        Ok(server) => server,
        Err(StartError::Backend(error)) => {
            println!("skipped: io_uring is not available here: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let ListenAddress::Tcp(address) = server.listeners()[0].1 else {
        unreachable!()
    };
    let mut first = TcpStream::connect(address).unwrap();
    assert_eq!(ask(&mut first, "ECHO a"), "a");

    let before = getrlimit(Resource::Nofile);
    // One more descriptor, for the client's end, and none for the server's.
    let probe = first.try_clone().unwrap();
    let next = std::os::fd::AsRawFd::as_raw_fd(&probe) as u64;
    drop(probe);
    let limit = Rlimit {
        current: Some(next + 1),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    // An accept that is under way in io_uring keeps the limit it was started with.
    server.pause_accepting();
    env::thread::sleep_ms(50);
    server.resume_accepting();
    let mut second = TcpStream::connect(address).unwrap();
    support::wait_until("the failure to be told", || !said.lock().is_empty());
    let passes = server.stats()[0].passes;
    env::thread::sleep_ms(500);
    assert!(server.stats()[0].passes - passes < 30, "the loop spins");
    assert_eq!(ask(&mut first, "ECHO b"), "b");
    assert_eq!(said.lock().len(), 1, "told once: {:?}", said.lock());

    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(ask(&mut second, "ECHO c"), "c");
    server.stop(Duration::from_millis(100));
}
