//! What a command costs from its bytes to its reply's bytes, without sockets. Run with
//! `cargo bench -p commands` for nanoseconds; `cargo xtask instructions` counts instructions.
//!
//! `hot_path --list` names the cases and how many operations a round of each has; `hot_path CASE
//! ROUNDS` sets everything up and runs so many rounds, not measuring anything itself: whoever counts
//! takes the difference of two runs. What is set up does not depend on the number of rounds.

#[allow(dead_code, reason = "the tests look more closely")]
#[path = "../tests/commands/inside.rs"]
mod inside;

use inside::{Inside, STORE, encoded};
use resp::{Limits, Parsed, Progress};
use std::hint::black_box;
use std::process::ExitCode;
use store::{Expire, KeyUse, Store, StoreConfig, Value};

/// Keys that exist before the first round, and rounds at most: SET insert meets each key once.
const KEYS: usize = 4096;
/// Keys are placed alike in each run.
const SECRET: u128 = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
/// Commands of the pipelines.
const PIPELINE: usize = 30;
/// Connections of the batches.
const CONNECTIONS: usize = 50;
/// Keys of one MGET.
const MGET_KEYS: usize = 10;
/// Runs of which the fastest counts, when nanoseconds are measured.
const RUNS: usize = 20;

/// Runs the round of this number.
type Rounds = Box<dyn FnMut(usize)>;

/// Something to be measured: its name, the operations in a round, and what sets it up.
type Case = (&'static str, usize, fn() -> Rounds);

const CASES: &[Case] = &[
    ("get-hit", 1, || commands(1, 1, get)),
    ("get-miss", 1, || commands(1, 1, |n| get(n + KEYS))),
    ("set-in-place", 1, || commands(1, 1, set)),
    ("set-insert", 1, || commands(1, 1, |n| set(n + KEYS))),
    ("incr", 1, || {
        commands(1, 1, |n| vec![b"INCR".into(), counter(n)])
    }),
    ("mget-10", 1, || commands(1, 1, mget)),
    ("pipeline-30-get", PIPELINE, || commands(1, PIPELINE, get)),
    ("pipeline-30-set", PIPELINE, || commands(1, PIPELINE, set)),
    ("connections-50-get", CONNECTIONS, || {
        commands(CONNECTIONS, 1, get)
    }),
    ("connections-50-set", CONNECTIONS, || {
        commands(CONNECTIONS, 1, set)
    }),
    ("parse-get", 1, || parse(&get(0))),
    ("parse-set", 1, || parse(&set(0))),
    ("store-read", 1, store_read),
    ("store-replace", 1, store_replace),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => CASES.iter().for_each(measure),
        ["--list"] => {
            for (name, operations, _) in CASES {
                println!("{name} {operations}");
            }
        }
        [name, rounds] => {
            let case = CASES.iter().find(|(own, ..)| own == name);
            let rounds = rounds.parse().ok().filter(|rounds| *rounds <= KEYS);
            let (Some((_, _, prepare)), Some(rounds)) = (case, rounds) else {
                eprintln!("there is no such case, or it has not so many rounds");
                return ExitCode::FAILURE;
            };
            let mut round = prepare();
            (0..rounds).for_each(&mut round);
        }
        _ => {
            eprintln!("usage: hot_path [--list | CASE ROUNDS]");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints the best of several runs in nanoseconds per operation.
fn measure((name, operations, prepare): &Case) {
    let spent_ns = (0..RUNS).map(|_| {
        let mut round = prepare();
        let started_ns = env::clock::monotonic_ns();
        (0..KEYS).for_each(&mut round);
        env::clock::monotonic_ns() - started_ns
    });
    let best_ns = spent_ns.min().unwrap_or(0) as f64;
    println!("{name:20} {:8.1} ns", best_ns / (KEYS * operations) as f64);
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number:010}").into_bytes()
}

fn counter(number: usize) -> Vec<u8> {
    format!("counter:{number:06}").into_bytes()
}

/// 100 bytes of text.
fn value() -> Vec<u8> {
    b"All work and no play. ".repeat(5)[..100].to_vec()
}

fn get(number: usize) -> Vec<Vec<u8>> {
    vec![b"GET".into(), key(number)]
}

fn set(number: usize) -> Vec<Vec<u8>> {
    vec![b"SET".into(), key(number), value()]
}

fn mget(number: usize) -> Vec<Vec<u8>> {
    let keys = (0..MGET_KEYS).map(|index| key((number * MGET_KEYS + index) % KEYS));
    std::iter::once(b"MGET".to_vec()).chain(keys).collect()
}

fn encode(command: &[Vec<u8>]) -> Vec<u8> {
    encoded(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn store() -> std::io::Result<env::sync::Arc<Store>> {
    let config = StoreConfig {
        lane_threads: 1,
        ..STORE
    };
    Store::with_secret(config, SECRET)
}

/// Rounds of `connections` that send `pipeline` commands each. `command` makes the command for a
/// number below [`KEYS`].
fn commands(connections: usize, pipeline: usize, command: fn(usize) -> Vec<Vec<u8>>) -> Rounds {
    let mut inside = Inside::with(store(), connections as u64);
    for number in 0..KEYS {
        for (key, value) in [(key(number), value()), (counter(number), b"100".to_vec())] {
            inside.batch(&[&encode(&[b"SET".to_vec(), key, value])]);
            assert_eq!(inside.replies(), b"+OK\r\n");
        }
    }
    // All rounds' inputs, so that making them is no part of a round.
    let encoded: Vec<Vec<u8>> = (0..KEYS).map(|number| encode(&command(number))).collect();
    let inputs: Vec<Vec<u8>> = (0..KEYS)
        .map(|first| {
            let numbers = (first..first + pipeline).map(|number| number % KEYS);
            numbers.flat_map(|number| encoded[number].clone()).collect()
        })
        .collect();
    Box::new(move |round| {
        let mut own: [&[u8]; CONNECTIONS] = [&[]; CONNECTIONS];
        for (index, input) in own[..connections].iter_mut().enumerate() {
            *input = &inputs[(round + index) % KEYS];
        }
        inside.batch(&own[..connections]);
        inside.discard();
    })
}

/// The parser alone.
fn parse(command: &[Vec<u8>]) -> Rounds {
    let input = encode(command);
    let limits = Limits {
        bulk_bytes_max: 512 << 20,
        authenticated: true,
    };
    let mut progress = Progress::default();
    let mut refs = Vec::new();
    Box::new(move |_| {
        refs.clear();
        let parsed = resp::parse_command(black_box(&input), 0, &limits, &mut progress, &mut refs);
        assert_eq!(parsed, Ok(Parsed::Complete { end: input.len() }));
    })
}

/// The store with all keys, and the keys with their hashes.
fn filled() -> (env::sync::Arc<Store>, Vec<(Vec<u8>, u64)>) {
    let store = store().expect("there is address space");
    let keys: Vec<(Vec<u8>, u64)> = (0..KEYS)
        .map(|number| (key(number), store.hash(&key(number))))
        .collect();
    for (key, hash) in &keys {
        replace(&store, key, *hash, &value());
    }
    (store, keys)
}

fn replace(store: &Store, key: &[u8], hash: u64, value: &[u8]) {
    let keys = [KeyUse { db: 0, key, hash }];
    let mut hold = store
        .hold_latched(&keys, 0, true)
        .expect("there is nobody else");
    hold.edit(0)
        .set(Value::Bytes(value), Expire::Clear)
        .expect("there is memory");
    hold.finish();
}

/// The hold and the table alone, key hashed before: a hit, its value copied.
fn store_read() -> Rounds {
    let (store, keys) = filled();
    let mut target = Vec::with_capacity(value().len());
    Box::new(move |round| {
        let (key, hash) = &keys[round];
        let keys = [KeyUse {
            db: 0,
            key,
            hash: *hash,
        }];
        let mut hold = store.hold_reading(&keys, 0);
        hold.view(0, |view| {
            target.clear();
            view.expect("it was put there").copy_into(&mut target);
        })
        .expect("there is nobody else");
        hold.finish();
        black_box(&target);
    })
}

/// The same for replacing the value by one as long.
fn store_replace() -> Rounds {
    let (store, keys) = filled();
    let value = value();
    Box::new(move |round| {
        let (key, hash) = &keys[round];
        replace(&store, key, *hash, black_box(&value));
    })
}
