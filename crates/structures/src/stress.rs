//! Many real threads on one map: no reader ever sees a value that nobody wrote.
//!
//! A value names its key and carries a checksum. Keys `0..STABLE` are never removed, so a reader or
//! a walk that misses one has found a bug; the others come and go, so that the table grows and
//! shrinks and slots change hands.

#![cfg(not(loom))]

use crate::keymap::{Config, Expire, KeyMap, Seen, Value};
use base::hash::SipKeys;
use env::random::Rng;
use env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashSet;

const STABLE: u64 = 500;
const VOLATILE: u64 = 20_000;
const ROUNDS: u64 = if cfg!(debug_assertions) {
    60_000
} else {
    400_000
};

fn key_of(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

fn value_of(number: u64, rng: &mut Rng) -> Vec<u8> {
    let salt = rng.next_u64();
    let check = SipKeys::new(u128::from(number)).hash(&salt.to_le_bytes());
    let text = format!("{number:08} {salt:016x} {check:016x} ");
    let mut value = text.into_bytes();
    let len = value.len() + rng.below(300) as usize;
    value.resize(len, b'.');
    if salt & 1 == 0 {
        // Not text: kept raw.
        value.push(0xff);
    }
    value
}

fn check_value(number: u64, value: &[u8]) {
    let text = std::str::from_utf8(&value[..43]).expect("the head is text");
    assert_eq!(text[..8].parse(), Ok(number), "another key's value");
    let salt = u64::from_str_radix(&text[9..25], 16).unwrap();
    let check = u64::from_str_radix(&text[26..42], 16).unwrap();
    assert_eq!(
        SipKeys::new(u128::from(number)).hash(&salt.to_le_bytes()),
        check,
        "torn"
    );
    let body = if salt & 1 == 0 {
        assert_eq!(value.last(), Some(&0xff), "torn at the end");
        &value[43..value.len() - 1]
    } else {
        &value[43..]
    };
    assert!(body.iter().all(|&byte| byte == b'.'), "torn in the middle");
}

fn write(map: &KeyMap, rng: &mut Rng, growing: bool) {
    let number = if rng.below(4) == 0 {
        rng.below(STABLE)
    } else {
        STABLE + rng.below(VOLATILE)
    };
    let key = key_of(number);
    let probe = map.probe(&key);
    let Some(mut latch) = map.latch(0, probe.hash, 500) else {
        return;
    };
    let value = value_of(number, rng);
    match latch.find(&probe) {
        None if growing || number < STABLE => {
            latch.insert(&probe, Value::Bytes(&value), None).unwrap();
        }
        None => (),
        Some(slot) if number >= STABLE && (!growing || rng.below(8) == 0) => {
            latch.remove(slot);
        }
        Some(slot) => {
            let expire = if rng.below(2) == 0 {
                Expire::At(1 << 40)
            } else {
                Expire::Clear
            };
            latch
                .replace(slot, &probe, Value::Bytes(&value), expire)
                .unwrap();
        }
    }
    drop(latch);
    map.maintain(0);
}

fn read(map: &KeyMap, rng: &mut Rng, output: &mut Vec<u8>) -> bool {
    let number = if rng.below(2) == 0 {
        rng.below(STABLE)
    } else {
        STABLE + rng.below(VOLATILE)
    };
    let key = key_of(number);
    output.clear();
    let seen = map.read(0, &map.probe(&key), &mut |view| {
        output.clear();
        view.copy_into(output);
    });
    match seen {
        Seen::Hit => check_value(number, output),
        Seen::Miss => assert!(number >= STABLE, "a key that is always there was missed"),
        Seen::Busy => return false,
    }
    true
}

fn walk(map: &KeyMap) {
    let (mut cursor, mut found) = (0, HashSet::new());
    loop {
        cursor = map.scan(0, cursor, &mut |view| {
            let mut key = Vec::new();
            view.key_into(&mut key);
            let number: u64 = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
            let mut value = Vec::new();
            view.copy_into(&mut value);
            check_value(number, &value);
            found.insert(number);
        });
        if cursor == 0 {
            break;
        }
    }
    assert!(
        (0..STABLE).all(|number| found.contains(&number)),
        "a walk missed a key"
    );
}

#[test]
fn readers_and_walks_never_see_what_nobody_wrote() {
    let map = KeyMap::new(&Config {
        databases: 1,
        arena_bytes: 256 << 20,
        table_bytes: 4 << 20,
        hash_keys: SipKeys::new(9),
    })
    .unwrap();
    let mut rng = Rng::seeded(1);
    for number in 0..STABLE {
        let key = key_of(number);
        let probe = map.probe(&key);
        let value = value_of(number, &mut rng);
        let mut latch = map.latch(0, probe.hash, 1).unwrap();
        latch.insert(&probe, Value::Bytes(&value), None).unwrap();
        drop(latch);
        map.maintain(0);
    }
    let (stop, reads, busy) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (smallest, largest) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (map, stop) = (&map, &stop);
            let (reads, busy) = (&reads, &busy);
            scope.spawn(move || {
                let (mut rng, mut output) = (Rng::seeded(100 + seed), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let is_seen = read(map, &mut rng, &mut output);
                    reads.fetch_add(1, Ordering::Relaxed);
                    busy.fetch_add(u64::from(!is_seen), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                walk(&map);
                while map.memory_step() {}
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let (map, smallest, largest) = (&map, &smallest, &largest);
                scope.spawn(move || {
                    let mut rng = Rng::seeded(seed);
                    for round in 0..ROUNDS {
                        write(map, &mut rng, (round * 6 / ROUNDS).is_multiple_of(2));
                        smallest.fetch_min(map.buckets(0), Ordering::Relaxed);
                        largest.fetch_max(map.buckets(0), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (reads, busy) = (reads.into_inner(), busy.into_inner());
    assert!(busy * 2 < reads, "{busy} of {reads} reads met a writer");
    assert!(
        largest.into_inner() > 2 * smallest.into_inner(),
        "it grew and shrank"
    );
    walk(&map);
}
