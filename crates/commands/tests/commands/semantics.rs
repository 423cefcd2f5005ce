//! What a transcript cannot see or wait for: exact times, counters, the slow lane.

use super::inside::{Inside, START_MS};

#[test]
fn times_are_exact_to_the_millisecond() {
    let mut inside = Inside::new();
    assert_eq!(inside.say("SET k v PX 1500"), "+OK");
    assert_eq!(inside.say("PTTL k"), ":1500");
    assert_eq!(inside.say("TTL k"), ":2");
    inside.advance_ms(1);
    assert_eq!(inside.say("TTL k"), ":1");
    assert_eq!(inside.say("PEXPIRETIME k"), format!(":{}", START_MS + 1500));
    inside.advance_ms(1498);
    assert_eq!(inside.say("PTTL k"), ":1");
    assert_eq!(inside.say("GET k"), "$1 v");
    inside.advance_ms(1);
    assert_eq!(inside.say("GET k"), "$-1");
    assert_eq!(inside.say("SET k v EX 10"), "+OK");
    assert_eq!(inside.say("SET k w KEEPTTL"), "+OK");
    assert_eq!(inside.say("PTTL k"), ":10000");
    assert_eq!(inside.say("INCRBYFLOAT n 1.5"), "$3 1.5");
    assert_eq!(inside.say("PEXPIRE n 7"), ":1");
    assert_eq!(inside.say("INCRBYFLOAT n 1.5"), "$1 3");
    assert_eq!(inside.say("PTTL n"), ":7");
}

#[test]
fn a_time_that_is_now_is_over() {
    let mut inside = Inside::new();
    inside.say("SET k v");
    assert_eq!(inside.say(&format!("PEXPIREAT k {START_MS}")), ":1");
    assert_eq!(inside.say("EXISTS k"), ":0");
    inside.say("SET k v");
    assert_eq!(inside.say(&format!("GETEX k PXAT {START_MS}")), "$1 v");
    assert_eq!(inside.say("EXISTS k"), ":0");
    assert_eq!(inside.say(&format!("SET k v PXAT {}", START_MS + 1)), "+OK");
    assert_eq!(inside.say("EXISTS k"), ":1");
    inside.advance_ms(1);
    assert_eq!(inside.say("EXISTS k"), ":0");
}

#[test]
fn an_expired_key_is_missing_to_every_command() {
    let commands = [
        ("GET k", "$-1"),
        ("GETDEL k", "$-1"),
        ("GETEX k PERSIST", "$-1"),
        ("GETSET k w", "$-1"),
        ("SET k w XX", "$-1"),
        ("SET k w NX", "+OK"),
        ("SET k w KEEPTTL GET", "$-1"),
        ("SETNX k w", ":1"),
        ("MSETNX k w", ":1"),
        ("MGET k k", "*2 $-1 $-1"),
        ("INCR k", ":1"),
        ("INCRBYFLOAT k 1", "$1 1"),
        ("APPEND k w", ":1"),
        ("SETRANGE k 1 w", ":2"),
        ("STRLEN k", ":0"),
        ("GETRANGE k 0 -1", "$0 "),
        ("DEL k", ":0"),
        ("EXISTS k", ":0"),
        ("TYPE k", "+none"),
        ("EXPIRE k 10", ":0"),
        ("PERSIST k", ":0"),
        ("TTL k", ":-2"),
        ("RENAME k l", "-ERR no such key"),
        ("RENAMENX o k", ":1"),
        ("COPY k l", ":0"),
        ("COPY o k", ":1"),
        ("MOVE k 1", ":0"),
        ("KEYS k", "*0"),
        ("KEYS k*", "*0"),
        ("SCAN 0 MATCH k COUNT 1000", "*2 $1 0 *0"),
        ("OBJECT ENCODING k", "$-1"),
    ];
    for (command, reply) in commands {
        let mut inside = Inside::new();
        inside.say("SET o other");
        inside.say("SET k value PX 5");
        inside.advance_ms(5);
        assert_eq!(inside.say(command), reply, "{command}");
        let ttl = inside.say("PTTL k");
        assert!(ttl == ":-1" || ttl == ":-2", "{command} leaves an expiry");
    }
}

#[test]
fn changes_are_counted_when_something_changed() {
    let mut inside = Inside::new();
    let commands = [
        ("SET k 1", true),
        ("SET k 1 NX", false),
        ("SETNX k 1", false),
        ("GET k", false),
        ("INCR k", true),
        ("INCRBY k abc", false),
        ("GETEX k", false),
        ("GETEX k EX 10", true),
        ("PERSIST k", true),
        ("PERSIST k", false),
        ("EXPIRE k 10 XX", false),
        ("EXPIRE k 10", true),
        ("SETRANGE k 0 x", true),
        ("MSETNX k 1 l 1", false),
        ("RENAMENX k k", false),
        ("RENAME k l", true),
        ("COPY l k", true),
        ("COPY l k", false),
        ("MOVE l 1", true),
        ("DEL missing", false),
        ("GETDEL missing", false),
        ("DEL k", true),
        ("EXPIRE missing 10", false),
        ("SET past 1 PXAT 1", false),
    ];
    for (command, changes) in commands {
        let before = inside.changes();
        inside.say(command);
        assert_eq!(inside.changes() > before, changes, "{command}");
    }
}

#[test]
fn reads_count_hits_and_misses() {
    let mut inside = Inside::new();
    inside.say("SET k v");
    for (command, hits, misses) in [
        ("GET k", 1, 0),
        ("GET x", 0, 1),
        ("MGET k x k", 2, 1),
        ("EXISTS k x", 1, 1),
        ("TTL k", 1, 0),
        ("TYPE x", 0, 1),
        ("SET k w GET", 1, 0),
        ("GETSET k v", 1, 0),
        ("COPY k l", 1, 0),
        ("SET k v XX", 0, 0),
        ("DEL x", 0, 0),
        ("INCR n", 0, 0),
        ("KEYS k", 0, 0),
        ("OBJECT ENCODING k", 1, 0),
    ] {
        let before = inside.hits_and_misses();
        inside.say(command);
        let after = inside.hits_and_misses();
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (hits, misses),
            "{command}"
        );
    }
}

#[test]
fn many_keys_go_through_the_slow_lane() {
    let mut inside = Inside::new();
    let keys: Vec<String> = (0..3_000).map(|n| format!("key:{n}")).collect();
    let mut mset: Vec<&[u8]> = vec![b"MSETNX"];
    for key in &keys {
        mset.extend([key.as_bytes(), key.as_bytes()]);
    }
    assert_eq!(inside.run(&mset), b":1\r\n");
    assert_eq!(inside.say("DBSIZE"), ":3000");
    let with = |command: &'static [u8]| {
        let mut all: Vec<&[u8]> = vec![command];
        all.extend(keys.iter().map(String::as_bytes));
        all.push(b"missing");
        all.push(keys[0].as_bytes());
        all
    };
    assert_eq!(inside.run(&with(b"EXISTS")), b":3001\r\n");
    let values = String::from_utf8(inside.run(&with(b"MGET"))).unwrap();
    assert!(values.starts_with("*3002\r\n$5\r\nkey:0\r\n$5\r\nkey:1\r\n"));
    assert!(values.ends_with("$8\r\nkey:2999\r\n$-1\r\n$5\r\nkey:0\r\n"));
    assert_eq!(inside.say("KEYS key:17"), "*1 $6 key:17");
    let found = inside.say("KEYS key:1?");
    assert!(found.starts_with("*10 "), "{found}");
    let all = inside.say("KEYS *");
    assert!(all.starts_with("*3000 "), "{all}");
    let some = inside.say("SCAN 0 COUNT 100000");
    assert!(some.starts_with("*2 $1 0 *3000 "), "{some}");
    assert_eq!(inside.run(&with(b"UNLINK")), b":3000\r\n");
    assert_eq!(inside.say("DBSIZE"), ":0");
}

#[test]
fn scan_shows_every_key_once() {
    let mut inside = Inside::new();
    for n in 0..1_000 {
        inside.say(&format!("SET key:{n} {n}"));
    }
    let mut cursor = "0".to_owned();
    let mut seen = Vec::new();
    loop {
        let reply = inside.say(&format!("SCAN {cursor} COUNT 7"));
        let mut words = reply.split(' ');
        cursor = words.nth(2).expect("a cursor").to_owned();
        let keys = words.filter(|word| word.starts_with("key:"));
        seen.extend(keys.map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    seen.sort();
    let shown = seen.len();
    seen.dedup();
    assert_eq!((shown, seen.len()), (1_000, 1_000));
    for cursor in ["18446744073709551615", "-1", "12345678901234567"] {
        let reply = inside.say(&format!("SCAN {cursor}"));
        assert!(reply.starts_with("*2 "), "{reply}");
    }
}

#[test]
fn whole_databases() {
    let mut inside = Inside::new();
    inside.say("MSET a 1 b 2");
    inside.say("SELECT 1");
    inside.say("SET c 3");
    assert_eq!(inside.say("SWAPDB 0 1"), "+OK");
    assert_eq!(inside.say("DBSIZE"), ":2");
    let before = inside.changes();
    assert_eq!(inside.say("FLUSHDB"), "+OK");
    assert_eq!(inside.changes() - before, 2);
    assert_eq!(inside.say("DBSIZE"), ":0");
    inside.say("SELECT 0");
    assert_eq!(inside.say("KEYS *"), "*1 $1 c");
    assert_eq!(inside.say("COPY c d DB 3"), ":1");
    assert_eq!(inside.say("FLUSHALL ASYNC"), "+OK");
    assert_eq!(inside.say("DBSIZE"), ":0");
    inside.say("SELECT 3");
    assert_eq!(inside.say("DBSIZE"), ":0");
    assert_eq!(inside.say("RANDOMKEY"), "$-1");
}

#[test]
fn values_out_of_line() {
    let mut inside = Inside::new();
    let big = vec![b'x'; 100_000];
    let mut whole = b"$100000\r\n".to_vec();
    whole.extend_from_slice(&big);
    whole.extend_from_slice(b"\r\n");
    assert_eq!(inside.run(&[b"SET", b"big", &big]), b"+OK\r\n");
    assert_eq!(inside.run(&[b"GET", b"big"]), whole);
    assert_eq!(inside.run(&[b"GETRANGE", b"big", b"0", b"-1"]), whole);
    assert_eq!(inside.say("GETRANGE big -3 -2"), "$2 xx");
    assert_eq!(inside.say("STRLEN big"), ":100000");
    assert_eq!(inside.say("OBJECT ENCODING big"), "$3 raw");
    assert_eq!(inside.say("COPY big copy"), ":1");
    assert_eq!(inside.say("APPEND big end"), ":100003");
    assert_eq!(inside.say("SETRANGE big 1 y"), ":100003");
    assert_eq!(inside.say("GETRANGE big 0 2"), "$3 xyx");
    assert_eq!(inside.say("GETRANGE big 99999 -1"), "$4 xend");
    assert_eq!(inside.run(&[b"GETDEL", b"copy"]), whole);
    assert_eq!(inside.say("RENAME big other"), "+OK");
    assert_eq!(inside.say("STRLEN other"), ":100003");
    // Far beyond the end: the slow lane fills the gap.
    assert_eq!(inside.say("SETRANGE other 1000000 z"), ":1000001");
    assert_eq!(inside.say("GETRANGE other 999999 -1"), "$2 \0z");
    assert_eq!(inside.run(&[b"SET", b"big", b""]), b"+OK\r\n");
    assert_eq!(inside.say("STRLEN big"), ":0");
}
