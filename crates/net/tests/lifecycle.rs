//! Servers and connections over their lives: listeners, storms, migration, stopping.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::format_collect, reason = "tests")]

mod support;

use net::{Address, Closed, IoBackend, ListenAddress, ListenSpec, NetConfig, Server, StartError};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Lines, ask, pattern, read_bytes, read_line, rest_of, start, wait_until};

on_both!(
    survives_storms_of_connections,
    spreads_connections,
    migrates_under_load_in_order,
    stops_gracefully,
    stops_in_time,
    listens_on_unix_sockets,
    listens_on_ipv6,
    changes_listeners_while_running,
    pauses_accepting,
    ticks_when_idle,
    keeps_many_idle_connections,
    streams_over_many_connections,
);

fn survives_storms_of_connections(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 2, &service) else {
        return;
    };
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let address = server.address;
            env::thread::spawn_named("storm", move || {
                for round in 0..250 {
                    let mut stream = TcpStream::connect(address).unwrap();
                    if (round + thread) % 3 != 0 {
                        assert_eq!(ask(&mut stream, "ECHO hi"), "hi");
                    }
                    if round % 5 == 0 {
                        let _ = stream.write_all(b"BIG 100000\n");
                    }
                }
            })
            .unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    wait_until("all to close", || server.open_sessions() == 0);
    let opened = service.opened.load(Ordering::Relaxed);
    wait_until("every session to be closed once", || {
        service.closed.lock().len() == opened
    });
}

fn spreads_connections(backend: IoBackend) {
    let Some(server) = start(backend, 2, &Lines::new()) else {
        return;
    };
    let mut streams: Vec<_> = (0..40).map(|_| server.connect()).collect();
    let mut counts = [0usize; 2];
    for stream in &mut streams {
        counts[ask(stream, "LOOP").parse::<usize>().unwrap()] += 1;
    }
    assert!(counts[0] >= 12 && counts[1] >= 12, "{counts:?}");
}

fn migrates_under_load_in_order(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 2, &service) else {
        return;
    };
    let mut streams: Vec<_> = (0..16).map(|_| server.connect()).collect();
    streams.retain_mut(|stream| ask(stream, "LOOP") == "0");
    assert!(streams.len() >= 4, "connections are spread");
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            let done = Arc::clone(&done);
            env::thread::spawn_named("load", move || {
                let mut next = 0;
                while !done.load(Ordering::Relaxed) {
                    let lines: String = (next..next + 10).map(|n| format!("N {n}\n")).collect();
                    stream.write_all(lines.as_bytes()).unwrap();
                    let expected: String = (next..next + 10).map(|n| format!("{n}\n")).collect();
                    let back = read_bytes(&mut stream, expected.len());
                    assert_eq!(back, expected.as_bytes());
                    next += 10;
                }
                ask(&mut stream, "LOOP")
            })
            .unwrap()
        })
        .collect();
    wait_until("connections to move", || {
        server
            .handle
            .stats()
            .iter()
            .map(|stats| stats.adopted)
            .sum::<u64>()
            >= 1
    });
    env::thread::sleep_ms(300);
    done.store(true, Ordering::Relaxed);
    let loops: Vec<String> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(loops.iter().any(|index| index == "1"));
    let stats = server.handle.stats();
    let moved: u64 = stats.iter().map(|stats| stats.migrated).sum();
    assert_eq!(moved, stats.iter().map(|stats| stats.adopted).sum::<u64>());
    assert_eq!(moved as usize, service.adopted.load(Ordering::Relaxed));
}

fn stops_gracefully(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 2, &service) else {
        return;
    };
    let mut streams: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for stream in &mut streams {
        assert_eq!(ask(stream, "ECHO a"), "a");
    }
    // One has much to receive, and gets it all.
    let mut slow = server.connect();
    slow.write_all(b"BIG 5000000\n").unwrap();
    read_bytes(&mut slow, 1);
    let handle = server.handle.clone();
    let stopper =
        env::thread::spawn_named("stopper", move || handle.stop(Duration::from_secs(10))).unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 4_999_999);
    stopper.join().unwrap();
    for stream in streams {
        assert!(rest_of(stream).is_empty());
    }
    assert_eq!(service.closed.lock().len(), 11);
    assert!(
        service
            .closed
            .lock()
            .iter()
            .all(|why| *why == Closed::Shutdown)
    );
    assert!(TcpStream::connect(server.address).is_err());
}

fn stops_in_time(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stuck = server.connect();
    stuck.write_all(b"BIG 50000000\n").unwrap();
    read_bytes(&mut stuck, 1);
    let before = env::clock::monotonic_ns();
    server.handle.stop(Duration::from_millis(200));
    assert!(env::clock::monotonic_ns() - before < 5_000_000_000);
    assert_eq!(*service.closed.lock(), [Closed::Shutdown]);
}

fn listens_on_unix_sockets(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let name = format!("net-test-{}-{backend:?}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    // What an earlier run may have left behind.
    std::fs::File::create(&path).unwrap();
    let spec = ListenSpec::unix(&path, Some(0o700));
    let index = server.handle.add_listener(&spec).unwrap().unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let mut stream = UnixStream::connect(&path).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(b"ECHO over unix\nBIG 1000000\n").unwrap();
    let mut back = vec![0; 10 + 1_000_000];
    stream.read_exact(&mut back).unwrap();
    assert!(back.starts_with(b"over unix\nx"));
    let peer = service.peers.lock().pop().unwrap();
    assert!(matches!(peer.remote, Address::Unix(ref p) if *p == path.display().to_string()));
    assert_eq!(peer.listener, index);
    assert!(server.handle.remove_listener(index));
    assert!(!path.exists());
    assert!(UnixStream::connect(&path).is_err());
    stream.write_all(b"ECHO still here\n").unwrap();
    let mut back = [0; 11];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"still here\n");
}

fn listens_on_ipv6(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let spec = ListenSpec::tcp("[::1]:0".parse().unwrap());
    let optional = ListenSpec {
        optional: true,
        ..spec
    };
    let Some(index) = server.handle.add_listener(&optional).unwrap() else {
        println!("skipped: ::1 is not available here");
        return;
    };
    let (_, ListenAddress::Tcp(address)) = server.handle.listeners()[index].clone() else {
        unreachable!()
    };
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(ask(&mut stream, "ECHO six"), "six");
    let peer = service.peers.lock().pop().unwrap();
    let Address::Tcp(remote) = peer.remote else {
        unreachable!()
    };
    assert_eq!(remote, stream.local_addr().unwrap());
    // IPv6 only: the same port of IPv4 is free.
    let four = ListenSpec::tcp(SocketAddr::from(([127, 0, 0, 1], address.port())));
    assert!(server.handle.add_listener(&four).is_ok());
}

fn changes_listeners_while_running(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 2, &service) else {
        return;
    };
    let mut old = server.connect();
    assert_eq!(ask(&mut old, "ECHO a"), "a");
    let spec = ListenSpec::tcp(server.address);
    let taken = server.handle.add_listener(&spec).unwrap_err();
    assert!(taken.to_string().contains(&server.address.to_string()));
    assert_eq!(taken.error.kind(), std::io::ErrorKind::AddrInUse);
    for _ in 0..20 {
        let index = server.handle.listeners()[0].0;
        assert!(server.handle.remove_listener(index));
        assert!(!server.handle.remove_listener(index));
        assert!(TcpStream::connect(server.address).is_err());
        let index = server.handle.add_listener(&spec).unwrap().unwrap();
        assert_eq!(ask(&mut server.connect(), "ECHO b"), "b");
        assert_eq!(service.peers.lock().last().unwrap().listener, index);
    }
    assert_eq!(ask(&mut old, "ECHO c"), "c");
    // An address that no machine has: an error, or nothing if it is optional.
    let mut nowhere = ListenSpec::tcp("203.0.113.77:1".parse().unwrap());
    assert!(server.handle.add_listener(&nowhere).is_err());
    nowhere.optional = true;
    assert_eq!(server.handle.add_listener(&nowhere).unwrap(), None);
}

fn pauses_accepting(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::new()) else {
        return;
    };
    assert_eq!(ask(&mut server.connect(), "ECHO a"), "a");
    for _ in 0..3 {
        server.handle.pause_accepting();
        env::thread::sleep_ms(200);
        let mut waiting = server.connect();
        waiting.write_all(b"ECHO b\n").unwrap();
        waiting
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        assert!(waiting.read(&mut [0]).is_err());
        waiting
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        server.handle.resume_accepting();
        assert_eq!(read_line(&mut waiting), "b");
    }
}

fn ticks_when_idle(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let started = env::clock::monotonic_ns();
    env::thread::sleep_ms(1050);
    let ticks = service.ticks.load(Ordering::Relaxed);
    // On a busy machine the second is a long one.
    let tenths = (env::clock::monotonic_ns() - started) / 100_000_000;
    assert!(
        (3..=tenths + 5).contains(&ticks),
        "{ticks} ticks in {tenths} tenths of a second"
    );
    let passes = server.handle.stats()[0].passes;
    assert!(
        passes < 6 * tenths,
        "{passes} passes of an idle loop in about a second"
    );
    server.handle.wake_all();
}

fn keeps_many_idle_connections(backend: IoBackend) {
    let Some(server) = start(backend, 2, &Lines::new()) else {
        return;
    };
    let mut streams: Vec<_> = (0..400).map(|_| server.connect()).collect();
    for round in 0..3 {
        for (n, stream) in streams.iter_mut().enumerate() {
            stream
                .write_all(format!("ECHO {round}-{n}\n").as_bytes())
                .unwrap();
        }
        for (n, stream) in streams.iter_mut().enumerate() {
            assert_eq!(read_line(stream), format!("{round}-{n}"));
        }
    }
    assert_eq!(server.open_sessions(), 400);
    drop(streams);
    wait_until("all to close", || server.open_sessions() == 0);
}

/// More input at once than the shared receive buffers of a loop hold.
fn streams_over_many_connections(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::echo()) else {
        return;
    };
    let threads: Vec<_> = (0..24)
        .map(|seed| {
            let mut reader = server.connect();
            let mut writer = reader.try_clone().unwrap();
            let sent = pattern(600_000, seed);
            let bytes = sent.clone();
            let writing = env::thread::spawn_named("writer", move || {
                writer.write_all(&bytes).unwrap();
            })
            .unwrap();
            let reading = env::thread::spawn_named("reader", move || {
                assert!(read_bytes(&mut reader, sent.len()) == sent);
            })
            .unwrap();
            [writing, reading]
        })
        .collect();
    for thread in threads.into_iter().flatten() {
        thread.join().unwrap();
    }
}

#[test]
fn automatic_choice_always_starts() {
    let said = Arc::new(env::sync::Mutex::new(Vec::new()));
    let mut config = NetConfig::new(1);
    let sink = Arc::clone(&said);
    config.messages = Arc::new(move |message| sink.lock().push(message.to_owned()));
    let listeners = [ListenSpec::tcp(([127, 0, 0, 1], 0).into())];
    let server = Server::start(&config, &listeners, &Lines::new()).unwrap();
    let fell_back = server.stats()[0].backend == "epoll";
    assert_eq!(said.lock().len(), usize::from(fell_back));
    server.stop(Duration::ZERO);
    server.stop(Duration::ZERO);
}

#[test]
fn a_taken_address_stops_the_start() {
    let listeners = [ListenSpec::tcp(([127, 0, 0, 1], 0).into())];
    let config = NetConfig::new(1);
    let first = Server::start(&config, &listeners, &Lines::new()).unwrap();
    let ListenAddress::Tcp(address) = first.listeners()[0].1 else {
        unreachable!()
    };
    let again = Server::start(&config, &[ListenSpec::tcp(address)], &Lines::new());
    assert!(matches!(again, Err(StartError::Bind(_))));
    first.stop(Duration::ZERO);
}
