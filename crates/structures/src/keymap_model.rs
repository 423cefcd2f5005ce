//! Random operations on a map against one on `HashMap`s: growth, shrinking, every encoding, walks.

#![cfg(not(loom))]

use crate::keymap::{
    Config, Counts, Expire, KEY_INLINE_MAX, KeyMap, Probe, Seen, VALUE_INLINE_MAX, Value,
};
use base::hash::SipKeys;
use env::random::Rng;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const SPINS: u32 = 1_000;

fn map() -> KeyMap {
    KeyMap::new(&Config {
        databases: 3,
        arena_bytes: 256 << 20,
        table_bytes: 4 << 20,
        hash_keys: SipKeys::new(0x1234_5678_9abc_def0_0fed_cba9_8765_4321),
    })
    .unwrap()
}

#[derive(Clone, PartialEq, Debug)]
struct Stored {
    value: Vec<u8>,
    expire: Option<i64>,
}

type Model = HashMap<Vec<u8>, Stored>;

fn random_key(rng: &mut Rng, space: u64) -> Vec<u8> {
    let number = rng.below(space);
    match number % 16 {
        0 => format!("{number}-{}", "k".repeat(number as usize % 400)).into_bytes(),
        1 => [&number.to_le_bytes()[..], &[0xff; 9]].concat(),
        2 if number.is_multiple_of(37) => {
            vec![number as u8; KEY_INLINE_MAX + number as usize % 1000]
        }
        3 => format!("{number}").into_bytes(),
        _ => format!("key:{number:010}").into_bytes(),
    }
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => rng.below(40_000),
        1..4 => rng.below(2_000),
        4 => 0,
        _ => rng.below(120),
    } as usize;
    match rng.below(4) {
        0 => (0..len).map(|_| rng.next_u64() as u8).collect(),
        1 => (rng.next_u64() as i64 >> rng.below(64))
            .to_string()
            .into_bytes(),
        _ => (0..len)
            .map(|_| b'a' + (rng.next_u64() % 26) as u8)
            .collect(),
    }
}

fn random_expire(rng: &mut Rng) -> Option<i64> {
    match rng.below(4) {
        0 => Some(rng.below(1 << 48) as i64),
        1 if rng.below(4) == 0 => Some(rng.next_u64() as i64),
        _ => None,
    }
}

fn read(map: &KeyMap, db: usize, probe: &Probe<'_>) -> Option<Stored> {
    let mut found = None;
    let seen = map.read(db, probe, &mut |view| {
        let mut value = Vec::new();
        view.copy_into(&mut value);
        found = Some(Stored {
            value,
            expire: view.expire_at(),
        });
    });
    match seen {
        Seen::Hit => found,
        Seen::Miss => None,
        Seen::Busy => {
            let latch = map.latch(db, probe.hash, SPINS).unwrap();
            let view = latch.view(latch.find(probe)?);
            assert!(view.is_blob() || probe.key.len() > KEY_INLINE_MAX);
            let mut value = Vec::new();
            view.copy_into(&mut value);
            if let Some(blob) = view.blob() {
                assert_eq!(*blob, value);
            }
            Some(Stored {
                value,
                expire: view.expire_at(),
            })
        }
    }
}

/// One random operation on both.
fn step(map: &KeyMap, db: usize, model: &mut Model, rng: &mut Rng, space: u64, growth: u64) {
    let key = random_key(rng, space);
    let probe = map.probe(&key);
    {
        let mut latch = map.latch(db, probe.hash, SPINS).unwrap();
        assert!(latch.covers(probe.hash));
        let slot = latch.find(&probe);
        assert_eq!(slot.is_some(), model.contains_key(&key));
        if let Some(slot) = slot {
            change(&mut latch, slot, &probe, model, rng, growth);
        } else if rng.below(10) < growth {
            let (value, expire) = (random_value(rng), random_expire(rng));
            let stored = match rng.below(8) {
                0 => Value::Slack(&value),
                1 => Value::Blob(Arc::new(value.clone())),
                _ => Value::Bytes(&value),
            };
            latch.insert(&probe, stored, expire).unwrap();
            assert_eq!(latch.edits(), 1);
            model.insert(key.clone(), Stored { value, expire });
        }
    }
    map.maintain(db);
    assert_eq!(read(map, db, &probe).as_ref(), model.get(&key), "{key:?}");
}

fn change<'a>(
    latch: &mut crate::keymap::Latch<'a>,
    slot: crate::keymap::Slot<'a>,
    probe: &Probe<'_>,
    model: &mut Model,
    rng: &mut Rng,
    growth: u64,
) {
    let entry = model.get_mut(probe.key).unwrap();
    match rng.below(12) {
        0..4 if growth < 5 => {
            latch.remove(slot);
            model.remove(probe.key);
        }
        0 => {
            latch.remove(slot);
            model.remove(probe.key);
        }
        1..4 => {
            let value = random_value(rng);
            let (expire, expected) = match rng.below(3) {
                0 => (Expire::Keep, entry.expire),
                1 => (Expire::Clear, None),
                _ => (Expire::At(77), Some(77)),
            };
            latch
                .replace(slot, probe, Value::Bytes(&value), expire)
                .unwrap();
            *entry = Stored {
                value,
                expire: expected,
            };
        }
        4 => {
            entry.expire = random_expire(rng);
            latch.set_expire(slot, entry.expire).unwrap();
        }
        5 => {
            let number = rng.next_u64() as i64 >> rng.below(64);
            let slot = latch.set_int(slot, number).unwrap();
            assert_eq!(latch.view(slot).as_int(), Some(number));
            entry.value = number.to_string().into_bytes();
        }
        6..8 => {
            let bytes = random_value(rng);
            let (_, len) = latch.append(slot, &bytes).unwrap();
            entry.value.extend_from_slice(&bytes);
            assert_eq!(len, entry.value.len());
        }
        8 => {
            let bytes = random_value(rng);
            let offset = rng.below(entry.value.len() as u64 + 40) as usize;
            let (slot, len) = latch.overwrite(slot, offset, &bytes).unwrap();
            if entry.value.len() < offset + bytes.len() {
                entry.value.resize(offset + bytes.len(), 0);
            }
            entry.value[offset..offset + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(len, entry.value.len());
            assert_eq!(latch.view(slot).len(), len);
        }
        9 => {
            latch.touch(slot, 42);
            assert_eq!(latch.view(slot).access(), 42);
            assert_eq!(latch.edits(), 0);
        }
        10 => {
            let view = latch.view(slot);
            let (start, len) = (rng.below(3_000) as usize, rng.below(3_000) as usize);
            let mut part = Vec::new();
            view.copy_range_into(start, len, &mut part);
            let total = entry.value.len();
            let expected = &entry.value[start.min(total)..(start + len).min(total)];
            assert_eq!(part, expected);
            let mut key = Vec::new();
            view.key_into(&mut key);
            assert_eq!(key, probe.key);
        }
        _ => {
            let mut scratch = Vec::new();
            let value = latch.view(slot).export(&mut scratch);
            latch.replace(slot, probe, value, Expire::Keep).unwrap();
        }
    }
}

fn check_all(map: &KeyMap, db: usize, model: &Model) {
    for (key, stored) in model {
        assert_eq!(read(map, db, &map.probe(key)).as_ref(), Some(stored));
    }
    let expires = model
        .values()
        .filter(|stored| stored.expire.is_some())
        .count();
    let counts = Counts {
        keys: model.len() as u64,
        expires: expires as u64,
    };
    assert_eq!(map.counts(db), counts);
    let (mut cursor, mut seen) = (0, HashSet::new());
    loop {
        cursor = map.scan(db, cursor, &mut |view| {
            let mut key = Vec::new();
            view.key_into(&mut key);
            assert!(seen.insert(key), "a quiet walk repeats nothing");
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, model.keys().cloned().collect());
    let (mut bucket, mut deadlines) = (0, HashMap::new());
    loop {
        bucket = map.walk_expiring(db, bucket, 7, &mut |latch, slot| {
            let mut key = Vec::new();
            latch.view(slot).key_into(&mut key);
            assert!(
                deadlines
                    .insert(key, latch.view(slot).expire_at())
                    .is_none()
            );
        });
        if bucket == 0 {
            break;
        }
    }
    assert_eq!(deadlines.len(), expires);
    for (key, deadline) in deadlines {
        assert_eq!(model[&key].expire, deadline);
    }
}

fn run(seed: u64) {
    let map = map();
    let mut rng = Rng::seeded(seed);
    let mut models = vec![Model::new(); 3];
    for phase in 0..6 {
        let growth = if phase % 2 == 0 { 9 } else { 1 };
        for _ in 0..12_000 {
            let db = if rng.below(10) == 0 { 2 } else { 0 };
            step(&map, db, &mut models[db], &mut rng, 6_000, growth);
        }
        // Catch up, as the next commands would.
        for db in [0, 2] {
            while map.maintain(db) {}
            check_all(&map, db, &models[db]);
            let buckets = map.buckets(db);
            let keys = models[db].len() as u64;
            assert!(keys * 20 <= buckets * 176, "too few buckets");
            assert!(
                buckets == 2 || keys * 20 >= buckets * 77,
                "too many buckets"
            );
        }
        while map.memory_step() {}
    }
    map.swap_tables(0, 1);
    models.swap(0, 1);
    for (db, model) in models.iter().enumerate() {
        check_all(&map, db, model);
    }
    for (db, model) in models.iter().enumerate() {
        let mut detached = map.take_table(db);
        assert_eq!(detached.keys(), model.len() as u64);
        assert_eq!(map.counts(db), Counts::default());
        step(&map, db, &mut Model::new(), &mut rng, 6_000, 10);
        while map.drain_step(&mut detached, 5) {}
        let mut detached = map.take_table(db);
        while map.drain_step(&mut detached, usize::MAX) {}
    }
    let memory = map.memory();
    assert_eq!(memory.records.used_bytes, 0, "every slot was freed");
    assert_eq!(
        memory.overflow_used_bytes, 0,
        "every overflow bucket was freed"
    );
    assert_eq!(memory.blobs_bytes, 0, "every value out of line was let go");
}

#[test]
fn equals_the_model() {
    for seed in 1..4 {
        run(seed);
    }
}

#[test]
fn long_values_are_out_of_line_and_shared() {
    let map = map();
    let key = b"big".as_slice();
    let probe = map.probe(key);
    let value = vec![b'x'; VALUE_INLINE_MAX + 1];
    let mut latch = map.latch(0, probe.hash, SPINS).unwrap();
    let slot = latch.insert(&probe, Value::Bytes(&value), None).unwrap();
    let shared = latch.view(slot).blob().unwrap();
    latch.append(slot, b"y").unwrap();
    assert_eq!(*shared, value, "a reply keeps what it was given");
    assert_eq!(latch.view(slot).len(), value.len() + 1);
    assert_eq!(latch.remove(slot).unwrap().len(), value.len() + 1);
}

#[test]
fn sampling_reaches_every_key_about_equally() {
    let map = map();
    let keys: Vec<Vec<u8>> = (0..1_000)
        .map(|number| format!("key:{number}").into_bytes())
        .collect();
    for key in &keys {
        let probe = map.probe(key);
        let mut latch = map.latch(0, probe.hash, SPINS).unwrap();
        latch.insert(&probe, Value::Int(1), None).unwrap();
        drop(latch);
        map.maintain(0);
    }
    let mut rng = Rng::seeded(3);
    let mut drawn: HashMap<Vec<u8>, u32> = HashMap::new();
    for _ in 0..100_000 {
        assert!(map.sample(0, &mut rng, &mut |view| {
            let mut key = Vec::new();
            view.key_into(&mut key);
            *drawn.entry(key).or_default() += 1;
        }));
    }
    assert_eq!(drawn.len(), keys.len());
    assert!(drawn.values().all(|&count| (50..170).contains(&count)));
    assert!(!map.sample(1, &mut rng, &mut |_| ()));
}

#[test]
#[should_panic(expected = "a slot used after")]
fn a_stale_slot_is_noticed() {
    let map = map();
    let probe = map.probe(b"a");
    let mut latch = map.latch(0, probe.hash, SPINS).unwrap();
    let slot = latch.insert(&probe, Value::Int(1), None).unwrap();
    latch.remove(slot);
    latch.view(slot);
}
