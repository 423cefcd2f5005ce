//! Numbers and patterns compared with a real redis-server on random input.

mod reference;

use base::glob::{Case, matches};
use base::number::{FloatError, incr_by_float, parse_f64, push_f64};
use env::random::Rng;
use reference::{Reference, command, split};

/// Text that is a float more often than not, and odd when it is not.
fn float_text(rng: &mut Rng) -> Vec<u8> {
    let digits = |rng: &mut Rng, max: u64| -> String {
        (0..=rng.below(max))
            .map(|_| char::from(b'0' + rng.below(10) as u8))
            .collect()
    };
    let sign = ["", "", "", "-", "+"][rng.below(5) as usize];
    let text = match rng.below(12) {
        0 => format!("{sign}{}", digits(rng, 20)),
        1..=4 => format!("{sign}{}.{}", digits(rng, 6), digits(rng, 18)),
        5 => format!(
            "{sign}{}.{}e{}",
            digits(rng, 3),
            digits(rng, 30),
            rng.below(60)
        ),
        6 => format!(
            "{sign}{}.{}E-{}",
            digits(rng, 3),
            digits(rng, 30),
            rng.below(40)
        ),
        7 => format!(
            "{sign}{}e{}",
            digits(rng, 4),
            rng.below(10_000) as i64 - 5_000
        ),
        8 => format!(
            "{sign}0x{:x}.{:x}p{}",
            rng.next_u64() >> rng.below(64),
            rng.below(99),
            rng.below(80) as i64 - 40
        ),
        9 => format!("{sign}0X{:X}", rng.next_u64() >> rng.below(64)),
        10 => format!("{}", f64::from_bits(rng.next_u64())),
        _ => {
            let odd = [
                "inf",
                "Infinity",
                "nan",
                "-nan",
                "infinit",
                ".",
                "-",
                "e5",
                ".e5",
                "5.",
                ".5",
                "1e",
                "1e+",
                "0x",
                "0x.p1",
                "0x1p",
                "1 ",
                " 1",
                "",
                "1\0",
                "0e99999999999999999999",
                "00",
                "-0",
                "-0.0",
                "1_0",
                "1,5",
                "0x1p99999999999",
                "1e-4951",
                "1.5e-4951",
                "1e4932",
                "2e4932",
            ];
            format!("{sign}{}", odd[rng.below(odd.len() as u64) as usize])
        }
    };
    text.into_bytes()
}

#[test]
fn floats_are_incremented_alike() {
    let reference = Reference::start("increment", &[]);
    let mut rng = Rng::seeded(1);
    let pairs: Vec<_> = (0..20_000)
        .map(|_| (float_text(&mut rng), float_text(&mut rng)))
        .collect();
    let request: Vec<u8> = pairs
        .iter()
        .flat_map(|(current, increment)| {
            let mut both = command(&[b"SET", b"k", current]);
            both.extend(command(&[b"INCRBYFLOAT", b"k", increment]));
            both
        })
        .collect();
    let replies = split(&reference.ask_all(&request));
    assert_eq!(replies.len(), pairs.len() * 2);
    for ((current, increment), replies) in pairs.iter().zip(replies.chunks(2)) {
        let expected = match incr_by_float(current, increment) {
            Ok(sum) => sum,
            Err(FloatError::NotFinite) => b"-ERR increment would produce NaN or Infinity".to_vec(),
            Err(FloatError::Current | FloatError::Increment) => {
                b"-ERR value is not a valid float".to_vec()
            }
        };
        let context = (
            String::from_utf8_lossy(current),
            String::from_utf8_lossy(increment),
        );
        assert_eq!(
            String::from_utf8_lossy(&expected),
            String::from_utf8_lossy(replies[1].as_deref().unwrap()),
            "{context:?}"
        );
    }
}

#[test]
fn doubles_are_read_and_printed_alike() {
    let reference = Reference::start("double", &["--zset-max-listpack-entries", "0"]);
    let mut rng = Rng::seeded(2);
    let texts: Vec<_> = (0..20_000).map(|_| float_text(&mut rng)).collect();
    let request: Vec<u8> = texts
        .iter()
        .flat_map(|text| {
            let mut both = command(&[b"DEL", b"k"]);
            both.extend(command(&[b"ZADD", b"k", text, b"m"]));
            both.extend(command(&[b"ZSCORE", b"k", b"m"]));
            both
        })
        .collect();
    let replies = split(&reference.ask_all(&request));
    assert_eq!(replies.len(), texts.len() * 3);
    for (text, replies) in texts.iter().zip(replies.chunks(3)) {
        let ours = parse_f64(text).map(|value| {
            let mut printed = Vec::new();
            push_f64(&mut printed, value);
            String::from_utf8(printed).unwrap()
        });
        let theirs = replies[2]
            .clone()
            .map(|text| String::from_utf8(text).unwrap());
        assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(text));
    }
}

fn random_text(rng: &mut Rng, alphabet: &[u8], size_max: u64) -> Vec<u8> {
    (0..rng.below(size_max + 1))
        .map(|_| alphabet[rng.below(alphabet.len() as u64) as usize])
        .collect()
}

#[test]
fn patterns_match_alike() {
    let reference = Reference::start("glob", &[]);
    let mut rng = Rng::seeded(3);
    let mut keys: Vec<_> = (0..300)
        .map(|_| random_text(&mut rng, b"abcB]-^[\\*?", 5))
        .collect();
    keys.sort();
    keys.dedup();
    let patterns: Vec<_> = (0..3_000)
        .map(|_| random_text(&mut rng, b"abcB[[]]-^\\**??", 8))
        .collect();
    let mut request = Vec::new();
    for key in &keys {
        request.extend(command(&[b"SET", key, b"1"]));
    }
    for pattern in &patterns {
        request.extend(command(&[b"KEYS", pattern]));
    }
    let replies = split(&reference.ask_all(&request));
    let mut replies = replies.into_iter().skip(keys.len());
    for pattern in &patterns {
        let header = replies.next().unwrap().unwrap();
        let count: usize = std::str::from_utf8(&header[1..]).unwrap().parse().unwrap();
        let mut theirs: Vec<_> = replies.by_ref().take(count).map(Option::unwrap).collect();
        theirs.sort();
        let mut ours = keys.clone();
        // A lone star is everything without being matched.
        ours.retain(|key| pattern == b"*" || matches(pattern, key, Case::Sensitive));
        assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(pattern));
    }
}

#[test]
fn patterns_without_case_match_alike() {
    let reference = Reference::start("nocase", &[]);
    let mut rng = Rng::seeded(4);
    let all = split(&reference.ask_all(&command(&[b"CONFIG", b"GET", b"*"])));
    let names: Vec<_> = all
        .into_iter()
        .skip(1)
        .step_by(2)
        .map(Option::unwrap)
        .collect();
    let patterns: Vec<_> = (0..500)
        .map(|_| {
            let inner = random_text(&mut rng, b"aAeElLmMxX[[]]^--??*", 5);
            [b"*".as_slice(), &inner, b"*"].concat()
        })
        .collect();
    for pattern in &patterns {
        let theirs = split(&reference.ask_all(&command(&[b"CONFIG", b"GET", pattern])));
        let mut theirs: Vec<_> = theirs
            .into_iter()
            .skip(1)
            .step_by(2)
            .map(Option::unwrap)
            .collect();
        theirs.sort();
        let mut ours = names.clone();
        ours.retain(|name| matches(pattern, name, Case::Insensitive));
        ours.sort();
        assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(pattern));
    }
}
