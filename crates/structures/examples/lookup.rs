//! Nanoseconds per read and write: table sizes, one and two threads, with and without prefetching a
//! batch, and one hot key read by two threads.
//!
//! `cargo run --profile quick -p structures --example lookup [keys]`

use base::hash::SipKeys;
use env::random::Rng;
use env::sync::atomic::{AtomicU64, Ordering};
use structures::keymap::{Config, Expire, KeyMap, Probe, Seen, Value};

const SHARDS: usize = 32;
const BATCH: usize = 64;
const OPERATIONS: u64 = 4_000_000;

struct Maps {
    shards: Vec<KeyMap>,
    hash_keys: SipKeys,
    keys: u64,
}

impl Maps {
    fn of(&self, hash: u64) -> &KeyMap {
        &self.shards[(hash >> (64 - SHARDS.ilog2())) as usize]
    }
}

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let sizes = if arguments.is_empty() {
        vec![1_000_000, 10_000_000]
    } else {
        arguments
    };
    for keys in sizes {
        let maps = load(keys);
        report("small pages", &maps);
        for map in &maps.shards {
            while map.memory_step() {}
        }
        report("huge pages", &maps);
        hot(&maps);
    }
}

fn report(title: &str, maps: &Maps) {
    println!("{} keys, {title}; ns per operation and thread", maps.keys);
    for threads in [1, 2] {
        for (name, body) in [
            ("get", get_plain as fn(&Maps, u64)),
            ("get, batch prefetched", get_batch),
            ("set", set_plain),
            ("set, batch prefetched", set_batch),
        ] {
            println!(
                "  {threads} thread(s)  {name:<22} {:6.1}",
                time(threads, |seed| body(maps, seed))
            );
        }
    }
}

/// Processor nanoseconds per operation of one thread while all run.
fn time(threads: u64, body: impl Fn(u64) + Sync) -> f64 {
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let (body, total) = (&body, &total);
            scope.spawn(move || {
                let start = thread_cpu_ns();
                body(seed + 1);
                total.fetch_add(thread_cpu_ns() - start, Ordering::Relaxed);
            });
        }
    });
    total.into_inner() as f64 / threads as f64 / OPERATIONS as f64
}

/// Processor time of the calling thread, so that a busy machine disturbs less.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn load(keys: u64) -> Maps {
    let hash_keys = SipKeys::new(env::random::secret_128());
    let config = Config {
        databases: 1,
        arena_bytes: 1 << 30,
        table_bytes: 64 << 20,
        hash_keys,
    };
    let maps = Maps {
        shards: (0..SHARDS)
            .map(|_| KeyMap::new(&config).expect("address space"))
            .collect(),
        hash_keys,
        keys,
    };
    let value = [b'x'; 100];
    for number in 0..keys {
        let key = key_of(number);
        let hash = hash_keys.hash(&key);
        let map = maps.of(hash);
        let mut latch = map.latch(0, hash, 1).expect("nobody else is here");
        let probe = Probe { key: &key, hash };
        latch
            .insert(&probe, Value::Bytes(&value), None)
            .expect("memory");
        drop(latch);
        map.maintain(0);
    }
    maps
}

/// "key:" and ten digits.
fn key_of(number: u64) -> [u8; 14] {
    let mut key = *b"key:0000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn get(maps: &Maps, key: &[u8], hash: u64, output: &mut Vec<u8>) {
    output.clear();
    let seen = maps.of(hash).read(0, &Probe { key, hash }, &mut |view| {
        output.clear();
        view.copy_into(output);
    });
    assert!(seen == Seen::Hit || seen == Seen::Busy);
}

fn set(maps: &Maps, key: &[u8], hash: u64, value: &[u8]) {
    let map = maps.of(hash);
    let probe = Probe { key, hash };
    let mut latch = loop {
        if let Some(latch) = map.latch(0, hash, 200) {
            break latch;
        }
        env::thread::yield_now();
    };
    let slot = latch.find(&probe).expect("all keys are there");
    latch
        .replace(slot, &probe, Value::Bytes(value), Expire::Clear)
        .expect("memory");
    drop(latch);
    map.maintain(0);
}

fn get_plain(maps: &Maps, seed: u64) {
    let (mut rng, mut output) = (Rng::seeded(seed), Vec::new());
    for _ in 0..OPERATIONS {
        let key = key_of(rng.below(maps.keys));
        get(maps, &key, maps.hash_keys.hash(&key), &mut output);
    }
}

fn set_plain(maps: &Maps, seed: u64) {
    let (mut rng, value) = (Rng::seeded(seed), [b'y'; 100]);
    for _ in 0..OPERATIONS {
        let key = key_of(rng.below(maps.keys));
        set(maps, &key, maps.hash_keys.hash(&key), &value);
    }
}

fn get_batch(maps: &Maps, seed: u64) {
    let mut output = Vec::new();
    batches(maps, seed, |key, hash| get(maps, key, hash, &mut output));
}

fn set_batch(maps: &Maps, seed: u64) {
    let value = [b'y'; 100];
    batches(maps, seed, |key, hash| set(maps, key, hash, &value));
}

fn batches(maps: &Maps, seed: u64, mut run: impl FnMut(&[u8], u64)) {
    let mut rng = Rng::seeded(seed);
    for _ in 0..OPERATIONS / BATCH as u64 {
        let keys: [_; BATCH] = std::array::from_fn(|_| key_of(rng.below(maps.keys)));
        let hashes = keys.map(|key| maps.hash_keys.hash(&key));
        for &hash in &hashes {
            maps.of(hash).prefetch_bucket(0, hash);
        }
        for &hash in &hashes {
            maps.of(hash).prefetch_record(0, hash);
        }
        for (key, &hash) in keys.iter().zip(&hashes) {
            run(key, hash);
        }
    }
}

fn hot(maps: &Maps) {
    let key = key_of(1);
    let hash = maps.hash_keys.hash(&key);
    let body = |_| {
        let mut output = Vec::new();
        for _ in 0..OPERATIONS {
            get(maps, &key, hash, &mut output);
        }
    };
    let (one, two) = (time(1, body), time(2, body));
    println!(
        "  hot key: one thread {one:.1} ns, two {two:.1} ns each: {:.2}x",
        2.0 * one / two
    );
}
