//! The lock protocols of a map under every interleaving of two threads, on tiny maps.
//!
//! Values are two words that belong together, so a torn read shows.
//!
//! loom remembers one last access per location. If a thread loads a word and then stores it, the load
//! hides an earlier load of another thread, and the order in which the store comes first is never
//! tried. So whoever owns a bucket or a record, and therefore sees the newest value anyhow, loads by
//! a read-modify-write that changes nothing when built for loom (`newest`).

#![cfg(loom)]

use crate::keymap::{Config, Expire, KeyMap, Probe, Seen, Value};
use base::hash::SipKeys;
use env::sync::Arc;
use loom::model::Builder;
use loom::thread;

/// Switches away from a runnable thread that are explored in one execution.
const PREEMPTIONS: usize = 2;

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    // Only the model of three threads comes near.
    builder.max_duration = Some(std::time::Duration::from_secs(60));
    let executions = std::sync::atomic::AtomicU64::new(0);
    let executions = std::sync::Arc::new(executions);
    let counter = std::sync::Arc::clone(&executions);
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let executions = executions.load(std::sync::atomic::Ordering::Relaxed);
    println!("{executions} executions");
    assert!(executions > 10, "the model explored next to nothing");
}

fn map() -> KeyMap {
    KeyMap::new(&Config {
        databases: 1,
        arena_bytes: 1024,
        table_bytes: 256,
        hash_keys: SipKeys::new(1),
    })
    .unwrap()
}

/// The first `count` keys whose hash has these low bits.
fn keys(map: &KeyMap, low_bits: u64, bits: u32, count: usize) -> Vec<Vec<u8>> {
    (0u32..)
        .map(|number| number.to_le_bytes().to_vec())
        .filter(|key| map.hash(key) & ((1 << bits) - 1) == low_bits)
        .take(count)
        .collect()
}

/// Sixteen bytes that say the same thing twice and are not text.
fn value(mark: u8) -> [u8; 16] {
    [mark | 0x80; 16]
}

fn insert(map: &KeyMap, key: &[u8], mark: u8) {
    let probe = map.probe(key);
    let mut latch = map.latch(0, probe.hash, 10).unwrap();
    latch
        .insert(&probe, Value::Bytes(&value(mark)), None)
        .unwrap();
}

fn remove(map: &KeyMap, key: &[u8]) {
    let probe = map.probe(key);
    let mut latch = map.latch(0, probe.hash, 10).unwrap();
    let slot = latch.find(&probe).unwrap();
    latch.remove(slot);
}

/// Reads a key; the value seen, if any, must be whole.
fn read(map: &KeyMap, probe: &Probe<'_>) -> (Seen, Option<u8>) {
    let mut bytes = Vec::new();
    let seen = map.read(0, probe, &mut |view| {
        bytes.clear();
        view.copy_into(&mut bytes);
    });
    if seen != Seen::Hit {
        return (seen, None);
    }
    assert_eq!(bytes, value(bytes[0]), "torn or foreign");
    (seen, Some(bytes[0] & 0x7f))
}

#[test]
fn loom_latches_exclude_each_other() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        let key = keys(&map, 0, 1, 1).remove(0);
        let probe = map.probe(&key);
        map.latch(0, probe.hash, 0)
            .unwrap()
            .insert(&probe, Value::Int(0), None)
            .unwrap();
        let add = move |map: &KeyMap| {
            let probe = map.probe(&key);
            let Some(mut latch) = map.latch(0, probe.hash, 2) else {
                return 0;
            };
            let slot = latch.find(&probe).unwrap();
            let number = latch.view(slot).as_int().unwrap();
            latch.set_int(slot, number + 1).unwrap();
            1
        };
        let other = {
            let (map, add) = (Arc::clone(&map), add.clone());
            thread::spawn(move || add(&map))
        };
        let sum = add(&map) + other.join().unwrap();
        let key = keys(&map, 0, 1, 1).remove(0);
        let probe = map.probe(&key);
        let latch = map.latch(0, probe.hash, 0).unwrap();
        let slot = latch.find(&probe).unwrap();
        assert_eq!(latch.view(slot).as_int(), Some(sum));
        assert!(sum > 0, "somebody always gets it");
    });
}

#[test]
fn loom_read_against_replace() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        let key = keys(&map, 0, 1, 1).remove(0);
        insert(&map, &key, 1);
        let writer = {
            let (map, key) = (Arc::clone(&map), key.clone());
            thread::spawn(move || {
                let probe = map.probe(&key);
                let mut latch = map.latch(0, probe.hash, 10).unwrap();
                let slot = latch.find(&probe).unwrap();
                latch
                    .replace(slot, &probe, Value::Bytes(&value(2)), Expire::Keep)
                    .unwrap();
            })
        };
        let (seen, mark) = read(&map, &map.probe(&key));
        assert!(seen == Seen::Busy || matches!(mark, Some(1 | 2)));
        writer.join().unwrap();
        assert_eq!(read(&map, &map.probe(&key)), (Seen::Hit, Some(2)));
    });
}

#[test]
fn loom_read_against_split() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        // One key that stays in bucket 0 and one that moves to bucket 2.
        let stay = keys(&map, 0b00, 2, 1).remove(0);
        let leave = keys(&map, 0b10, 2, 1).remove(0);
        insert(&map, &stay, 1);
        insert(&map, &leave, 2);
        let grower = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                let table = map.table(0);
                map.split(table, &mut table.maintenance.lock())
            })
        };
        let (seen, mark) = read(&map, &map.probe(&leave));
        assert!(seen == Seen::Busy || mark == Some(2), "{seen:?}");
        let is_split = grower.join().unwrap();
        assert!(is_split && map.buckets(0) == 3);
        assert_eq!(read(&map, &map.probe(&stay)), (Seen::Hit, Some(1)));
        assert_eq!(read(&map, &map.probe(&leave)), (Seen::Hit, Some(2)));
    });
}

#[test]
fn loom_read_against_merge() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        let stay = keys(&map, 0b00, 2, 1).remove(0);
        let leave = keys(&map, 0b10, 2, 1).remove(0);
        insert(&map, &stay, 1);
        insert(&map, &leave, 2);
        let table = map.table(0);
        assert!(map.split(table, &mut table.maintenance.lock()));
        let shrinker = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                let table = map.table(0);
                map.merge(table, &mut table.maintenance.lock())
            })
        };
        let (seen, mark) = read(&map, &map.probe(&leave));
        assert!(seen == Seen::Busy || mark == Some(2), "{seen:?}");
        assert!(shrinker.join().unwrap() && map.buckets(0) == 2);
        assert_eq!(read(&map, &map.probe(&leave)), (Seen::Hit, Some(2)));
    });
}

#[test]
fn loom_write_against_split() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        let old = keys(&map, 0b10, 2, 2);
        insert(&map, &old[0], 1);
        let grower = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                let table = map.table(0);
                map.split(table, &mut table.maintenance.lock())
            })
        };
        let is_written = map.latch(0, map.hash(&old[1]), 3).is_some_and(|mut latch| {
            let probe = map.probe(&old[1]);
            assert!(latch.covers(probe.hash));
            latch.insert(&probe, Value::Bytes(&value(2)), None).is_ok()
        });
        grower.join().unwrap();
        assert_eq!(read(&map, &map.probe(&old[0])), (Seen::Hit, Some(1)));
        let expected = if is_written {
            (Seen::Hit, Some(2))
        } else {
            (Seen::Miss, None)
        };
        assert_eq!(read(&map, &map.probe(&old[1])), expected);
    });
}

#[test]
fn loom_read_against_slab_reuse() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        // Different buckets, same size: the second key gets the slot the first one leaves.
        let first = keys(&map, 0, 1, 1).remove(0);
        let second = keys(&map, 1, 1, 1).remove(0);
        insert(&map, &first, 1);
        let writer = {
            let (map, first, second) = (Arc::clone(&map), first.clone(), second.clone());
            thread::spawn(move || {
                remove(&map, &first);
                insert(&map, &second, 2);
            })
        };
        match read(&map, &map.probe(&first)) {
            (Seen::Hit, mark) => assert_eq!(mark, Some(1), "another key's value"),
            (Seen::Miss | Seen::Busy, _) => (),
        }
        writer.join().unwrap();
        assert_eq!(read(&map, &map.probe(&first)).0, Seen::Miss);
        assert_eq!(read(&map, &map.probe(&second)), (Seen::Hit, Some(2)));
    });
}

/// As above, but the slot goes from thread to thread: the one that reuses it latched its bucket before
/// the other freed the slot, so only the allocator's fence orders the two.
#[test]
fn loom_read_against_slab_handed_over() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        let first = keys(&map, 0, 1, 1).remove(0);
        let second = keys(&map, 1, 1, 1).remove(0);
        insert(&map, &first, 1);
        let remover = {
            let (map, first) = (Arc::clone(&map), first.clone());
            thread::spawn(move || remove(&map, &first))
        };
        let inserter = {
            let map = Arc::clone(&map);
            thread::spawn(move || insert(&map, &second, 2))
        };
        match read(&map, &map.probe(&first)) {
            (Seen::Hit, mark) => assert_eq!(mark, Some(1), "another key's value"),
            (Seen::Miss | Seen::Busy, _) => (),
        }
        remover.join().unwrap();
        inserter.join().unwrap();
    });
}

#[test]
fn loom_read_against_chain_tidied() {
    explore(PREEMPTIONS, || {
        let map = Arc::new(map());
        // Twelve keys: ten in the head, two behind the link. Removing one brings all into the head.
        let crowd = keys(&map, 0, 1, 12);
        for key in &crowd {
            insert(&map, key, 3);
        }
        let writer = {
            let (map, key) = (Arc::clone(&map), crowd[0].clone());
            thread::spawn(move || remove(&map, &key))
        };
        let (seen, _) = read(&map, &map.probe(&crowd[11]));
        assert_ne!(seen, Seen::Miss);
        writer.join().unwrap();
        assert_eq!(map.memory().overflow_used_bytes, 0);
        assert_eq!(read(&map, &map.probe(&crowd[11])), (Seen::Hit, Some(3)));
    });
}
