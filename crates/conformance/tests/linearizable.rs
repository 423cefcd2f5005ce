//! Many clients at once, beside slow commands, flushes and connections that come and go: every
//! history has an order that explains it.
//!
//! Not deterministic, but LINEARIZABLE_SEED repeats the commands of a run, and
//! LINEARIZABLE_SECONDS makes it longer.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that plays clients"
)]

use conformance::connection::{Connection, REPLY_WAIT_MAX, Received, encode};
use conformance::history::{self, Event, KEYS, Keyspace, Operation, Text, Verdict};
use conformance::notation::Protocol;
use conformance::process::{Program, Server};
use conformance::random::Random;
use conformance::value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
/// Keys beside the model's in a slow command.
const FILLERS: usize = 300;

fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn text(random: &mut Random, next: u64) -> Arc<[u8]> {
    match random.below(32) {
        0..18 => random.below(100).to_string().into_bytes().into(),
        18..31 => format!("value-{next}").into_bytes().into(),
        // Out of line.
        _ => format!("{next:<17000}").into_bytes().into(),
    }
}

fn operation(random: &mut Random, next: u64) -> Operation {
    let key = random.below(KEYS as u64) as usize;
    let other = random.below(KEYS as u64) as usize;
    let slow = random.below(3) == 0;
    match random.below(100) {
        0..20 => Operation::Get(key),
        20..30 => Operation::Set(key, text(random, next)),
        30..42 => Operation::Incr(key),
        42..48 => Operation::Append(key, format!("+{next}").into_bytes().into()),
        48..52 => Operation::SetNx(key, text(random, next)),
        52..56 => Operation::GetSet(key, text(random, next)),
        56..59 => Operation::Expire(key),
        59..61 => Operation::ExpireNow(key),
        61..63 => Operation::Persist(key),
        63..68 if key != other => Operation::Rename(key, other),
        68..73 if key != other => Operation::Copy(key, other, random.below(2) == 0),
        73..82 => Operation::Mset([(); KEYS].map(|()| text(random, next)), slow),
        82..90 => Operation::Mget(slow),
        90..92 => Operation::Exists(slow),
        92..96 => Operation::Del((0..=key).collect(), slow),
        96 => Operation::FlushDb,
        97 => Operation::SwapDb,
        _ => Operation::Get(other),
    }
}

fn reply(connection: &mut Connection) -> Value {
    match connection
        .receive(REPLY_WAIT_MAX)
        .expect("a readable reply")
    {
        Received::Reply(value) => value,
        other => panic!("expected a reply, got {other:?}"),
    }
}

fn call(connection: &mut Connection, words: &[&str]) -> Value {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    connection.send(&words).expect("sent");
    reply(connection)
}

/// One client's part of a history: a few pipelines of one to four commands.
fn play(port: u16, connection: &mut Connection, seed: u64, began: Instant) -> Vec<Event> {
    let mut random = Random::new(seed);
    if random.below(8) == 0 {
        *connection = Connection::open(port, Protocol::Resp2).expect("connected");
    }
    let now_ns = || began.elapsed().as_nanos() as u64;
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..2 {
        let batch: Vec<Operation> = (0..=random.below(4))
            .map(|number| operation(&mut random, seed % 1_000_000 * 10 + number))
            .collect();
        let mut bytes = Vec::new();
        for operation in &batch {
            encode(&history::command(operation, FILLERS), &mut bytes);
        }
        let sent_ns = now_ns();
        connection.send_raw(&bytes).expect("sent");
        for operation in batch {
            let reply = history::reduce(&operation, reply(connection));
            events.push(Event {
                operation,
                sent_ns,
                answered_ns: now_ns(),
                reply,
            });
        }
    }
    events
}

/// Both databases, when nobody else is there.
fn keyspace(connection: &mut Connection) -> Keyspace {
    let mut keyspace = Keyspace::default();
    for (db, keys) in keyspace.iter_mut().enumerate() {
        call(connection, &["SELECT", &db.to_string()]);
        for (number, key) in keys.iter_mut().enumerate() {
            let name = format!("hot:{number}");
            if let Value::Bulk(bytes) = call(connection, &["GET", &name]) {
                let expires = call(connection, &["PTTL", &name]) != Value::Int(-1);
                *key = Some(Text {
                    bytes: bytes.into(),
                    expires,
                });
            }
        }
    }
    call(connection, &["SELECT", "0"]);
    keyspace
}

/// Slow commands on other keys and other databases, and clients that leave in the middle.
fn disturb(port: u16, seed: u64, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut connection = Connection::open(port, Protocol::Resp2).expect("connected");
    let filled = |number: u64| format!("filled:{number}").into_bytes();
    while !stop.load(Relaxed) {
        match random.below(6) {
            0 => drop(call(&mut connection, &["KEYS", "hot:*"])),
            1 => drop(call(&mut connection, &["SWAPDB", "2", "3"])),
            2 => {
                call(&mut connection, &["SELECT", "4"]);
                call(&mut connection, &["SET", "key", "value"]);
                call(&mut connection, &["FLUSHDB"]);
                call(&mut connection, &["SELECT", "0"]);
            }
            3 => {
                let mut line = vec![b"DEL".to_vec()];
                line.extend((0..5000).map(filled));
                connection.send(&line).expect("sent");
                reply(&mut connection);
            }
            4 => {
                let mut line = vec![b"MSET".to_vec()];
                line.extend((0..5000).flat_map(|number| [filled(number), b"2".to_vec()]));
                connection.send(&line).expect("sent");
                reply(&mut connection);
            }
            _ => {
                let mut leaver = Connection::open(port, Protocol::Resp2).expect("connected");
                let mut line = vec![b"MGET".to_vec()];
                line.extend((0..KEYS).map(|key| format!("hot:{key}").into_bytes()));
                line.extend((0..1000).map(filled));
                leaver.send(&line).expect("sent");
                leaver.send(&line).expect("sent");
            }
        }
    }
}

fn check(threads: usize, backend: &str) {
    let seed = number_from_environment("LINEARIZABLE_SEED", u64::from(std::process::id()));
    let duration = Duration::from_secs(number_from_environment("LINEARIZABLE_SECONDS", 3));
    println!("threads {threads}, {backend}: LINEARIZABLE_SEED={seed}");
    let directives = ["--threads", &threads.to_string(), "--io-backend", backend]
        .map(str::to_owned)
        .to_vec();
    let server = Server::start(Program::Pronghorn, &directives).expect("started");
    let port = server.port;
    let stop = AtomicBool::new(false);
    let mut random = Random::new(seed);
    let (began, mut histories, mut operations) = (Instant::now(), 0, 0);
    let mut undecided = 0;
    thread::scope(|scope| {
        // Ends the disturber also when a check fails.
        let _stopper = Stopper(&stop);
        scope.spawn(|| disturb(port, seed, &stop));
        let open = || Connection::open(port, Protocol::Resp2).expect("connected");
        let mut connections: Vec<Connection> = (0..CLIENTS).map(|_| open()).collect();
        let mut judge = open();
        let mut start = keyspace(&mut judge);
        while began.elapsed() < duration {
            let mut clients: Vec<Vec<Event>> = thread::scope(|scope| {
                let players: Vec<_> = connections
                    .iter_mut()
                    .map(|connection| {
                        let seed = random.draw();
                        scope.spawn(move || play(port, connection, seed, began))
                    })
                    .collect();
                players
                    .into_iter()
                    .map(|player| player.join().expect("a client that got its replies"))
                    .collect()
            });
            operations += clients.iter().map(Vec::len).sum::<usize>();
            let end = keyspace(&mut judge);
            // What is there at the end must follow from the same order.
            let values = end[0].iter().map(|key| match key {
                Some(text) => Value::Bulk(text.bytes.to_vec()),
                None => Value::NullBulk,
            });
            let now_ns = began.elapsed().as_nanos() as u64;
            clients.push(vec![Event {
                operation: Operation::Mget(false),
                sent_ns: now_ns,
                answered_ns: now_ns,
                reply: Value::Array(values.collect()),
            }]);
            let verdict = history::judge(&start, &clients);
            undecided += usize::from(verdict == Verdict::Undecided);
            assert!(
                verdict != Verdict::Impossible,
                "seed {seed}, history {histories}: no order explains\n{}",
                history::describe(&start, &clients)
            );
            histories += 1;
            start = end;
        }
    });
    println!("{histories} histories, {undecided} undecided, {operations} operations");
    assert!(undecided * 20 <= histories, "hardly anything was decided");
}

struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn one_thread_epoll() {
    check(1, "epoll");
}

#[test]
fn one_thread_io_uring() {
    check(1, "io_uring");
}

#[test]
fn two_threads_epoll() {
    check(2, "epoll");
}

#[test]
fn two_threads_io_uring() {
    check(2, "io_uring");
}

/// Increments of eight clients, one of which pipelines, add up.
#[test]
fn no_increment_is_lost() {
    const CLIENTS: i64 = 8;
    const EACH: i64 = 2000;
    let directives = ["--threads", "2"].map(str::to_owned);
    let server = Server::start(Program::Pronghorn, &directives).expect("started");
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let port = server.port;
            scope.spawn(move || {
                let mut connection = Connection::open(port, Protocol::Resp2).expect("connected");
                let depth = if client == 0 { 100 } else { 1 };
                let mut last = 0;
                for _ in 0..EACH / depth {
                    let mut bytes = Vec::new();
                    for _ in 0..depth {
                        encode(&[b"INCR".to_vec(), b"counter".to_vec()], &mut bytes);
                    }
                    connection.send_raw(&bytes).expect("sent");
                    for _ in 0..depth {
                        let Value::Int(seen) = reply(&mut connection) else {
                            panic!("INCR answers with a number")
                        };
                        assert!(seen > last, "{seen} after {last}");
                        last = seen;
                    }
                }
            });
        }
    });
    let mut connection = Connection::open(server.port, Protocol::Resp2).expect("connected");
    let sum = Value::Bulk((CLIENTS * EACH).to_string().into_bytes());
    assert_eq!(call(&mut connection, &["GET", "counter"]), sum);
}
