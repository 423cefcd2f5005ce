//! Clients that stop in the middle, do not read, are killed, or leave while their command waits:
//! the others go on, nothing stays locked, memory stays bounded, and the server ends when told.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that plays clients"
)]

use conformance::connection::{Connection, Received, encode};
use conformance::notation::Protocol;
use conformance::process::{Program, Server};
use conformance::random::Random;
use conformance::value::Value;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// Keys of a slow command.
const MANY: usize = 5000;

type Line = Vec<Vec<u8>>;

/// Runs `body` against servers of both backends.
fn with_servers(directives: &[&str], body: impl Fn(&mut Server)) {
    for backend in ["epoll", "io_uring"] {
        println!("{backend}");
        let mut all = vec!["--threads", "2", "--io-backend", backend];
        all.extend(directives);
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let mut server = Server::start(Program::Pronghorn, &all).expect("started");
        body(&mut server);
        assert!(server.is_running(), "{}", server.log());
    }
}

fn open(server: &Server) -> Connection {
    Connection::open(server.port, Protocol::Resp2).expect("connected")
}

fn line(words: &[&str]) -> Line {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn key(number: usize) -> Vec<u8> {
    format!("many:{number}").into_bytes()
}

fn mset_many() -> Line {
    let pairs = (0..MANY).flat_map(|number| [key(number), b"value".to_vec()]);
    line(&["MSET"]).into_iter().chain(pairs).collect()
}

fn many(command: &str) -> Line {
    line(&[command])
        .into_iter()
        .chain((0..MANY).map(key))
        .collect()
}

fn pipeline(lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        encode(line, &mut bytes);
    }
    bytes
}

/// The next reply; fails if there is none.
fn reply(connection: &mut Connection) -> Value {
    match connection.receive(WAIT_MAX) {
        Ok(Received::Reply(value)) => value,
        other => panic!("expected a reply, got {other:?}"),
    }
}

fn ask(connection: &mut Connection, line: &Line) -> Value {
    connection.send(line).expect("sent");
    reply(connection)
}

fn call(connection: &mut Connection, words: &[&str]) -> Value {
    ask(connection, &line(words))
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Nothing is locked, nobody is forgotten: slow and short commands on the same keys succeed.
fn assert_serves(server: &Server) {
    let mut connection = open(server);
    assert_eq!(ask(&mut connection, &mset_many()), ok());
    assert_eq!(call(&mut connection, &["SET", "many:1", "other"]), ok());
    assert_eq!(call(&mut connection, &["RENAME", "many:1", "many:2"]), ok());
    assert_eq!(call(&mut connection, &["GET", "many:2"]), bulk("other"));
    assert_eq!(
        ask(&mut connection, &many("DEL")),
        Value::Int(MANY as i64 - 1)
    );
    assert_eq!(call(&mut connection, &["FLUSHALL"]), ok());
    assert_eq!(call(&mut connection, &["DBSIZE"]), Value::Int(0));
}

/// Longest of some short commands.
fn slowest_get(server: &Server) -> Duration {
    let mut connection = open(server);
    let measure = |_| {
        let started = Instant::now();
        call(&mut connection, &["GET", "some key"]);
        started.elapsed()
    };
    (0..200).map(measure).max().expect("some")
}

#[test]
fn what_follows_a_parked_command_runs() {
    with_servers(&[], |server| {
        let (mut slow, mut short) = (open(server), open(server));
        let all = line(&["MSET"])
            .into_iter()
            .chain((0..40_000).flat_map(|number| [key(number), b"value".to_vec()]))
            .collect::<Line>();
        let follow = pipeline(&[
            line(&["SET", "many:7", "1"]),
            line(&["INCR", "many:7"]),
            line(&["MGET", "many:7", "many:8"]),
            line(&["PING"]),
        ]);
        for round in 0..30 {
            slow.send(&all).expect("sent");
            thread::sleep(Duration::from_micros(round * 500));
            short.send_raw(&follow).expect("sent");
            let replies: Vec<Value> = (0..4).map(|_| reply(&mut short)).collect();
            assert_eq!(replies[0], ok());
            assert_eq!(replies[3], Value::Simple(b"PONG".to_vec()));
            reply(&mut slow);
        }
    });
}

#[test]
fn slow_commands_keep_their_place_in_a_pipeline() {
    with_servers(&[], |server| {
        let mut connection = open(server);
        let lines = [
            mset_many(),
            line(&["GET", "many:1"]),
            line(&["CLIENT", "REPLY", "SKIP"]),
            many("EXISTS"),
            many("DEL"),
            line(&["GET", "many:1"]),
            line(&["CLIENT", "REPLY", "OFF"]),
            mset_many(),
            line(&["KEYS", "many:1*"]),
            line(&["CLIENT", "REPLY", "ON"]),
            line(&["GET", "many:1"]),
            line(&["FLUSHDB"]),
            line(&["GET", "many:1"]),
            mset_many(),
            line(&["QUIT"]),
            line(&["SET", "many:1", "after the end"]),
        ];
        connection.send_raw(&pipeline(&lines)).expect("sent");
        let expected = [
            ok(),
            bulk("value"),
            Value::Int(MANY as i64),
            Value::NullBulk,
            ok(),
            bulk("value"),
            ok(),
            Value::NullBulk,
            ok(),
            ok(),
        ];
        for (number, expected) in expected.iter().enumerate() {
            assert_eq!(&reply(&mut connection), expected, "reply {number}");
        }
        assert_eq!(
            connection.receive(WAIT_MAX).expect("read"),
            Received::Closed
        );
        assert_eq!(call(&mut open(server), &["GET", "many:1"]), bulk("value"));
    });
}

/// Clients are killed, or leave, while their command is parked, on the slow lane, or queued for a
/// safepoint.
#[test]
fn the_end_of_a_client_frees_its_keys() {
    with_servers(&[], |server| {
        let stop = AtomicBool::new(false);
        let server = &*server;
        thread::scope(|scope| {
            for seed in 0..8 {
                let stop = &stop;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    while !stop.load(Relaxed) {
                        let Ok(mut victim) = Connection::open(server.port, Protocol::Resp2) else {
                            continue;
                        };
                        let lines = match random.below(6) {
                            0 => vec![mset_many(), many("MGET")],
                            1 => vec![many("DEL"), line(&["GET", "many:1"])],
                            2 => vec![line(&["KEYS", "*"]), line(&["FLUSHDB"])],
                            3 => vec![line(&["MSET", "many:1", "1", "many:2", "2"])],
                            4 => vec![line(&["GET", "many:1"]), line(&["SWAPDB", "0", "1"])],
                            _ => vec![line(&["RENAME", "many:1", "many:2"]), many("EXISTS")],
                        };
                        // Killed meanwhile, any of this may fail.
                        if victim.send_raw(&pipeline(&lines)).is_err() || random.below(3) == 0 {
                            continue;
                        }
                        for _ in 0..lines.len() {
                            match victim.receive(WAIT_MAX) {
                                Ok(Received::Reply(_)) => {}
                                Ok(Received::Nothing) => panic!("no reply to {lines:?}"),
                                Ok(Received::Closed) | Err(_) => break,
                            }
                        }
                    }
                });
            }
            let mut killer = open(server);
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(1500) {
                call(&mut killer, &["CLIENT", "KILL", "TYPE", "normal"]);
                thread::sleep(Duration::from_millis(3));
            }
            stop.store(true, Relaxed);
        });
        assert_serves(server);
    });
}

/// Many safepoints at once, while slow commands wait for each other's keys: all threads for slow
/// commands together must not wait for one that has none.
#[test]
fn flushes_and_slow_commands_do_not_wait_for_each_other() {
    with_servers(&[], |server| {
        let mut clients: Vec<Connection> = (0..32).map(|_| open(server)).collect();
        for round in 0..20 {
            let lines = |client: usize| match (client + round) % 4 {
                0 => vec![line(&["FLUSHALL"])],
                1 => vec![mset_many(), line(&["MSET", "many:1", "1", "many:2", "2"])],
                2 => vec![line(&["SWAPDB", "0", "1"]), line(&["FLUSHDB"])],
                _ => vec![many("DEL"), line(&["INCR", "many:1"])],
            };
            for (number, client) in clients.iter_mut().enumerate() {
                client.send_raw(&pipeline(&lines(number))).expect("sent");
            }
            for (number, client) in clients.iter_mut().enumerate() {
                for _ in lines(number) {
                    reply(client);
                }
            }
        }
        assert_serves(server);
    });
}

/// A table grows while one command fills it, so the time follows the number of keys.
#[test]
fn a_command_of_very_many_keys_does_not_slow_down() {
    with_servers(&[], |server| {
        let mut connection = open(server);
        let pairs = (0..200_000).flat_map(|number| [key(number), b"value".to_vec()]);
        let set: Line = line(&["MSET"]).into_iter().chain(pairs).collect();
        let mut timed = || {
            let started = Instant::now();
            assert_eq!(ask(&mut connection, &set), ok());
            started.elapsed()
        };
        let (new, present) = (timed(), timed());
        let bound = present * 5 + Duration::from_secs(1);
        assert!(new < bound, "new keys {new:?}, present keys {present:?}");
    });
}

/// Words in quotes cost the same however much input waits behind them.
#[test]
fn inline_commands_that_pile_up_hold_up_nobody() {
    with_servers(&[], |server| {
        const COUNT: usize = 80_000;
        let mut connection = open(server);
        let mut bytes = pipeline(&[line(&["DEBUG", "SLEEP", "0.2"])]);
        bytes.extend(b"PING \"a\"\r\n".repeat(COUNT));
        connection.send_raw(&bytes).expect("sent");
        assert_eq!(reply(&mut connection), ok());
        let slowest = slowest_get(server);
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
        for _ in 0..COUNT {
            assert_eq!(reply(&mut connection), bulk("a"));
        }
    });
}

#[test]
fn half_a_command_costs_nothing() {
    with_servers(&[], |server| {
        let before_mib = server.rss_mib();
        let halves = [
            &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nabc"[..],
            b"*1000000\r\n$",
            b"*2\r\n$3\r\nGET\r\n$5\r\nab",
            b"GET",
        ];
        let mut waiting: Vec<Connection> = Vec::new();
        for number in 0..200 {
            let mut connection = open(server);
            connection
                .send_raw(halves[number % halves.len()])
                .expect("sent");
            waiting.push(connection);
        }
        for (bytes, complaint) in [
            (
                &b"*2\r\n$3\r\nSET\r\n$600000000\r\n"[..],
                "invalid bulk length",
            ),
            (b"*2147483648\r\n", "invalid multibulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
        ] {
            let mut connection = open(server);
            connection.send_raw(bytes).expect("sent");
            let complaint = format!("ERR Protocol error: {complaint}");
            assert_eq!(reply(&mut connection), Value::Error(complaint.into_bytes()));
            assert_eq!(
                connection.receive(WAIT_MAX).expect("read"),
                Received::Closed
            );
        }
        assert!(slowest_get(server) < Duration::from_secs(1));
        assert!(
            server.rss_mib() < before_mib + 64,
            "{} MiB",
            server.rss_mib()
        );
    });
}

#[test]
fn who_does_not_read_holds_up_nobody() {
    with_servers(&[], |server| {
        let mut connection = open(server);
        let value = "x".repeat(1 << 20);
        assert_eq!(call(&mut connection, &["SET", "large", &value]), ok());
        let before_mib = server.rss_mib();
        let lines = vec![line(&["GET", "large"]); 2000];
        let mut deaf: Vec<Connection> = (0..4).map(|_| open(server)).collect();
        for connection in &mut deaf {
            connection.send_raw(&pipeline(&lines)).expect("sent");
        }
        assert!(slowest_get(server) < Duration::from_secs(1));
        assert!(
            server.rss_mib() < before_mib + 64,
            "{} MiB",
            server.rss_mib()
        );
        // Who reads after all gets everything.
        for _ in 0..200 {
            assert_eq!(reply(&mut deaf[0]), bulk(&value));
        }
        drop(deaf);
        assert_serves(server);
    });
}

#[test]
fn connections_come_and_go() {
    with_servers(&[], |server| {
        let before_mib = server.rss_mib();
        for number in 0..2000 {
            let mut connection = open(server);
            match number % 4 {
                0 => {}
                1 => connection.send_raw(b"*2\r\n$3\r\nGE").expect("sent"),
                2 => connection.send(&many("MGET")).expect("sent"),
                _ => drop(call(&mut connection, &["PING"])),
            }
        }
        let mut connection = open(server);
        let started = Instant::now();
        let alone = |connection: &mut Connection| {
            let Value::Bulk(text) = call(connection, &["INFO", "clients"]) else {
                panic!("INFO answers with a string")
            };
            String::from_utf8_lossy(&text).contains("connected_clients:1\r\n")
        };
        while !alone(&mut connection) {
            assert!(started.elapsed() < WAIT_MAX, "connections are forgotten");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(
            server.rss_mib() < before_mib + 64,
            "{} MiB",
            server.rss_mib()
        );
    });
}

#[test]
fn too_many_clients_are_told() {
    with_servers(&["--maxclients", "10"], |server| {
        // The server's own start was watched by a connection that may be just going.
        thread::sleep(Duration::from_millis(50));
        let mut clients: Vec<Connection> = (0..10).map(|_| open(server)).collect();
        for client in &mut clients {
            call(client, &["PING"]);
        }
        let mut refused = open(server);
        let complaint = Value::Error(b"ERR max number of clients reached".to_vec());
        assert_eq!(reply(&mut refused), complaint);
        assert_eq!(refused.receive(WAIT_MAX).expect("read"), Received::Closed);
        drop(clients.pop());
        thread::sleep(Duration::from_millis(50));
        call(&mut open(server), &["PING"]);
    });
}

#[test]
fn values_at_the_limits_are_whole() {
    with_servers(&[], |server| {
        let mut connection = open(server);
        for len in [16_383, 16_384, 16_385, 43, 44, 45, 0] {
            let text = |len: usize| "0123456789".repeat(len / 10 + 1)[..len].to_owned();
            call(&mut connection, &["SET", "value", &text(len)]);
            assert_eq!(
                call(&mut connection, &["GET", "value"]),
                bulk(&text(len)),
                "{len}"
            );
            call(&mut connection, &["APPEND", "value", "zz"]);
            let longer = text(len) + "zz";
            call(&mut connection, &["COPY", "value", "copy", "REPLACE"]);
            call(
                &mut connection,
                &["SETRANGE", "value", &(len + 4).to_string(), "q"],
            );
            call(&mut connection, &["RENAME", "value", "renamed"]);
            assert_eq!(
                call(&mut connection, &["GETDEL", "copy"]),
                bulk(&longer),
                "{len}"
            );
            let ranged = longer + "\0\0q";
            assert_eq!(
                call(&mut connection, &["GET", "renamed"]),
                bulk(&ranged),
                "{len}"
            );
        }
        for len in [255, 256, 8191, 8192, 8193, 1_000_000] {
            let (name, other) = ("k".repeat(len), "o".repeat(len));
            call(&mut connection, &["SET", &name, "1", "EX", "100"]);
            assert_eq!(
                call(&mut connection, &["INCR", &name]),
                Value::Int(2),
                "{len}"
            );
            assert_eq!(call(&mut connection, &["RENAME", &name, &other]), ok());
            assert_eq!(call(&mut connection, &["GET", &name]), Value::NullBulk);
            assert_eq!(call(&mut connection, &["TTL", &other]), Value::Int(100));
            let keys = call(&mut connection, &["KEYS", "o*"]);
            assert_eq!(keys, Value::Array(vec![bulk(&other)]), "{len}");
            assert_eq!(call(&mut connection, &["DEL", &other]), Value::Int(1));
        }
    });
}

/// Values of one repeated letter, short and long, in and out of line, are never seen mixed.
#[test]
fn no_value_is_torn() {
    with_servers(&[], |server| {
        let stop = AtomicBool::new(false);
        let server = &*server;
        thread::scope(|scope| {
            for seed in 0..3 {
                let stop = &stop;
                scope.spawn(move || {
                    let (mut random, mut connection) = (Random::new(seed), open(server));
                    while !stop.load(Relaxed) {
                        let letter = ["a", "b", "c", "d"][random.below(4) as usize];
                        let len = [10, 8000, 16_380, 16_384, 16_390, 100_000];
                        let value = letter.repeat(len[random.below(6) as usize]);
                        match random.below(4) {
                            0 => drop(call(&mut connection, &["SET", "torn", &value, "PX", "2"])),
                            1 => drop(call(&mut connection, &["GETSET", "torn", &value])),
                            _ => drop(call(&mut connection, &["SET", "torn", &value])),
                        }
                        let tail = "0123456789".repeat(random.below(1000) as usize + 1);
                        call(&mut connection, &["APPEND", "grown", &tail]);
                        if random.below(8) == 0 {
                            call(&mut connection, &["DEL", "grown"]);
                        }
                    }
                });
                scope.spawn(move || {
                    let mut connection = open(server);
                    while !stop.load(Relaxed) {
                        if let Value::Bulk(bytes) = call(&mut connection, &["GET", "torn"]) {
                            let first = bytes[0];
                            assert!(bytes.iter().all(|&byte| byte == first), "torn");
                        }
                        if let Value::Bulk(bytes) = call(&mut connection, &["GET", "grown"]) {
                            assert!(bytes.chunks(10).all(|digits| digits == b"0123456789"));
                        }
                    }
                });
            }
            thread::sleep(Duration::from_millis(1500));
            stop.store(true, Relaxed);
        });
    });
}

/// Who waited past a key's time does not see it, and who looks in time does not miss it.
#[test]
fn expiry_is_seen_by_all() {
    with_servers(&[], |server| {
        let server = &*server;
        thread::scope(|scope| {
            for client in 0..16 {
                scope.spawn(move || {
                    let (mut own, mut other) = (open(server), open(server));
                    let name = format!("short:{client}");
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(1500) {
                        let set = Instant::now();
                        call(&mut own, &["SET", &name, "1", "PX", "4"]);
                        let seen = call(&mut other, &["GET", &name]);
                        if set.elapsed() < Duration::from_millis(3) {
                            assert_eq!(seen, bulk("1"));
                        }
                        thread::sleep(Duration::from_millis(6));
                        assert_eq!(call(&mut other, &["GET", &name]), Value::NullBulk);
                        assert_eq!(call(&mut own, &["EXISTS", &name]), Value::Int(0));
                        assert_eq!(call(&mut other, &["INCR", &name]), Value::Int(1));
                        assert_eq!(call(&mut own, &["PTTL", &name]), Value::Int(-1));
                    }
                });
            }
        });
    });
}

/// SCAN shows what is there all the time while the table grows a thousandfold and shrinks again.
#[test]
fn scan_is_complete_while_the_table_changes() {
    with_servers(&[], |server| {
        let mut connection = open(server);
        for number in 0..50 {
            call(&mut connection, &["SET", &format!("stays:{number}"), "1"]);
        }
        let (changing, server) = (AtomicBool::new(true), &*server);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut connection = open(server);
                let chunks = || (0..50_000usize).step_by(100).map(|from| from..from + 100);
                for chunk in chunks() {
                    let pairs = chunk.flat_map(|number| [key(number), b"1".to_vec()]);
                    let set: Line = line(&["MSET"]).into_iter().chain(pairs).collect();
                    ask(&mut connection, &set);
                }
                for chunk in chunks() {
                    let gone: Line = line(&["DEL"]).into_iter().chain(chunk.map(key)).collect();
                    ask(&mut connection, &gone);
                }
                changing.store(false, Relaxed);
            });
            while changing.load(Relaxed) {
                let mut stays = std::collections::HashSet::new();
                let mut cursor = "0".to_owned();
                loop {
                    let scan = call(&mut connection, &["SCAN", &cursor, "COUNT", "50"]);
                    let Value::Array(parts) = scan else {
                        panic!("{scan:?}")
                    };
                    let [Value::Bulk(next), Value::Array(keys)] = &parts[..] else {
                        panic!("{parts:?}")
                    };
                    stays.extend(keys.iter().filter_map(|key| match key {
                        Value::Bulk(key) if key.starts_with(b"stays:") => Some(key.clone()),
                        _ => None,
                    }));
                    cursor = String::from_utf8_lossy(next).into_owned();
                    if cursor == "0" {
                        break;
                    }
                }
                assert_eq!(stays.len(), 50);
            }
        });
    });
}

#[test]
fn any_number_of_databases() {
    with_servers(&["--databases", "1"], |server| {
        let mut connection = open(server);
        let complaint = Value::Error(b"ERR DB index is out of range".to_vec());
        assert_eq!(call(&mut connection, &["SELECT", "1"]), complaint);
        assert_serves(server);
    });
    with_servers(&["--databases", "100"], |server| {
        let mut connection = open(server);
        for db in 0..100 {
            assert_eq!(call(&mut connection, &["SELECT", &db.to_string()]), ok());
            assert_eq!(call(&mut connection, &["SET", "db", &db.to_string()]), ok());
        }
        assert_eq!(call(&mut connection, &["SWAPDB", "3", "98"]), ok());
        call(&mut connection, &["SELECT", "3"]);
        assert_eq!(call(&mut connection, &["GET", "db"]), bulk("98"));
        assert_eq!(call(&mut connection, &["FLUSHALL"]), ok());
        assert_eq!(call(&mut connection, &["GET", "db"]), Value::NullBulk);
    });
}

/// Clients that keep a server busy in every way, until their connections end.
fn load(port: u16, seed: u64) {
    let mut random = Random::new(seed);
    while let Ok(mut connection) = Connection::open(port, Protocol::Resp2) {
        let lines = [
            mset_many(),
            line(&["GET", "many:1"]),
            line(&["KEYS", "*"]),
            line(&["FLUSHDB"]),
            many("DEL"),
            line(&["MSET", "many:1", "1", "many:2", "2"]),
        ];
        let deaf = random.below(4) == 0;
        loop {
            if connection.send(&lines[random.below(6) as usize]).is_err() {
                break;
            }
            if deaf && random.below(100) > 0 {
                continue;
            }
            if !matches!(connection.receive(WAIT_MAX), Ok(Received::Reply(_))) {
                break;
            }
        }
    }
}

#[test]
fn it_ends_under_load() {
    for command in [None, Some(line(&["SHUTDOWN", "NOSAVE"]))] {
        with_servers_that_end(|server| {
            let port = server.port;
            thread::scope(|scope| {
                let loads: Vec<_> = (0..6)
                    .map(|seed| scope.spawn(move || load(port, seed)))
                    .collect();
                thread::sleep(Duration::from_millis(700));
                match &command {
                    None => server.terminate().expect("a signal sent"),
                    Some(line) => {
                        let mut connection = open(server);
                        connection.send(line).expect("sent");
                        let end = connection.receive(WAIT_MAX).expect("read");
                        assert_eq!(end, Received::Closed);
                    }
                }
                let status = server.wait_for_exit(WAIT_MAX);
                let status = status.unwrap_or_else(|| panic!("it runs on:\n{}", server.log()));
                assert_eq!(status.code(), Some(0), "{}", server.log());
                for load in loads {
                    load.join().expect("a client that ended");
                }
            });
            TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        });
    }
}

/// A command whose client is gone ends, and with it the server.
#[test]
fn it_ends_beside_a_command_that_takes_long() {
    with_servers_that_end(|server| {
        let mut connection = open(server);
        connection
            .send(&line(&["DEBUG", "SLEEP", "600"]))
            .expect("sent");
        thread::sleep(Duration::from_millis(100));
        server.terminate().expect("a signal sent");
        let status = server.wait_for_exit(Duration::from_secs(10));
        let status = status.unwrap_or_else(|| panic!("it runs on:\n{}", server.log()));
        assert_eq!(status.code(), Some(0), "{}", server.log());
    });
}

fn with_servers_that_end(body: impl Fn(&mut Server)) {
    for backend in ["epoll", "io_uring"] {
        let directives = ["--threads", "2", "--io-backend", backend].map(str::to_owned);
        let mut server = Server::start(Program::Pronghorn, &directives).expect("started");
        body(&mut server);
    }
}
