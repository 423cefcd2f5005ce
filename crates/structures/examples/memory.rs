//! Resident memory per key, for the shapes of data that the design states targets for.
//!
//! `cargo run --profile quick -p structures --example memory [keys] [shards]`

use base::hash::SipKeys;
use env::random::Rng;
use structures::keymap::{Config, KeyMap, Value};

/// Deterministic content of a key.
enum Shape {
    Random(usize),
    Text(usize, usize),
}

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let shards = arguments.get(1).copied().unwrap_or(32) as usize;
    let sizes = match arguments.first() {
        Some(&keys) => vec![keys],
        None => vec![1_000_000, 10_000_000],
    };
    println!("{shards} shards; bytes of resident memory per key");
    for keys in sizes {
        for (name, shape) in [
            ("14 + 100 text", Shape::Text(100, 100)),
            ("14 + 100 random", Shape::Random(100)),
            ("14 + 18..32 text", Shape::Text(18, 32)),
        ] {
            measure(name, &shape, keys, shards);
        }
    }
}

fn measure(name: &str, shape: &Shape, keys: u64, shards: usize) {
    let before = resident_bytes();
    let hash_keys = SipKeys::new(env::random::secret_128());
    let config = Config {
        databases: 16,
        arena_bytes: (24usize << 30) / shards,
        table_bytes: (4usize << 30) / shards,
        hash_keys,
    };
    let maps: Vec<KeyMap> = (0..shards)
        .map(|_| KeyMap::new(&config).expect("address space"))
        .collect();
    let mut rng = Rng::seeded(1);
    let mut value = Vec::new();
    let start = env::clock::monotonic_ns();
    for number in 0..keys {
        let key = format!("key:{number:010}");
        fill(&mut value, shape, &mut rng);
        let hash = hash_keys.hash(key.as_bytes());
        let map = &maps[(hash >> (64 - shards.ilog2())) as usize];
        let probe = map.probe(key.as_bytes());
        let mut latch = map.latch(0, probe.hash, 1).expect("nobody else is here");
        latch
            .insert(&probe, Value::Bytes(&value), None)
            .expect("memory");
        drop(latch);
        map.maintain(0);
    }
    let load_ns = env::clock::monotonic_ns() - start;
    let grown = resident_bytes() - before;
    let start = env::clock::monotonic_ns();
    for map in &maps {
        while map.memory_step() {}
    }
    let step_ns = env::clock::monotonic_ns() - start;
    let collapsed = resident_bytes() - before;
    let (mut slots, mut runs, mut tables, mut overflow) = (0, 0, 0, 0);
    for map in &maps {
        let memory = map.memory();
        slots += memory.records.used_bytes;
        runs += memory.records.reserved_bytes;
        tables += memory.tables_bytes;
        overflow += memory.overflow_bytes;
    }
    let per_key = |bytes: u64| bytes as f64 / keys as f64;
    println!(
        "{keys:>9} x {name:<17} rss {:6.1}  with huge pages {:6.1} ({} ms)  slots {:6.1}  runs {:6.1}  \
         buckets {:.1} + {:.1}  load {:.0} ns",
        per_key(grown),
        per_key(collapsed),
        step_ns / 1_000_000,
        per_key(slots),
        per_key(runs),
        per_key(tables),
        per_key(overflow),
        load_ns as f64 / keys as f64,
    );
}

fn fill(value: &mut Vec<u8>, shape: &Shape, rng: &mut Rng) {
    value.clear();
    match *shape {
        Shape::Random(len) => {
            while value.len() < len {
                value.extend_from_slice(&rng.next_u64().to_le_bytes());
            }
            value.truncate(len);
        }
        Shape::Text(low, high) => {
            let len = low + rng.below((high - low + 1) as u64) as usize;
            value.resize_with(len, || b'a' + rng.below(26) as u8);
        }
    }
}

/// Resident bytes of this process.
#[expect(clippy::disallowed_methods, reason = "an example looks at itself")]
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("the second field is a number");
    pages * 4096
}
