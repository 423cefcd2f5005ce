//! Random commands, run by this engine and by redis-server: every reply must be the same, byte for
//! byte. Times that pass are left out; times that are set are compared.
//!
//! `DIFFERENTIAL_SEED` repeats a failure, `DIFFERENTIAL_COMMANDS` runs longer.

use super::inside::Inside;
use super::oracle::Oracle;
use env::random::Rng;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const COMMANDS: u64 = 30_000;

type Words = Vec<Vec<u8>>;

/// A connection to redis-server.
struct Real(UnixStream);

impl Real {
    fn run(&mut self, command: &Words) -> Vec<u8> {
        const END: &[u8] = b"$14\r\n\x01end-of-reply\x01\r\n";
        let mut request = encode(command);
        request.extend(encode(&vec![b"ECHO".to_vec(), END[5..19].to_vec()]));
        self.0.write_all(&request).expect("redis-server listens");
        let mut reply = Vec::new();
        let mut buffer = vec![0; 65_536];
        while !reply.ends_with(END) {
            let read = self.0.read(&mut buffer).expect("redis-server answers");
            assert!(read > 0, "redis-server closed the connection");
            reply.extend_from_slice(&buffer[..read]);
        }
        reply.truncate(reply.len() - END.len());
        reply
    }
}

fn encode(command: &Words) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Makes commands that are mostly right.
struct Generator {
    rng: Rng,
}

impl Generator {
    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.rng.below(choices.len() as u64) as usize]
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    fn key(&mut self) -> Vec<u8> {
        let key = self.one_of(&[
            "a",
            "b",
            "c",
            "key:1",
            "key:2",
            "a-key-that-is-longer-than-others",
            "",
            "k\u{e9}y",
        ]);
        key.as_bytes().to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.below(10) {
            0..4 => self.number(),
            4 => b"3.0e3".to_vec(),
            5 => vec![self.rng.next_u64() as u8; self.rng.below(70) as usize],
            6 => (0..self.rng.below(30))
                .map(|_| self.rng.next_u64() as u8)
                .collect(),
            7 => vec![b'v'; self.rng.below(20_000) as usize],
            _ => b"some text of an ordinary length"[..self.rng.below(31) as usize].to_vec(),
        }
    }

    fn number(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0 => b"9223372036854775807".to_vec(),
            1 => b"-9223372036854775808".to_vec(),
            2 => self
                .one_of(&[
                    "",
                    "x",
                    "1.5",
                    "+1",
                    "01",
                    " 1",
                    "-0",
                    "9223372036854775808",
                ])
                .as_bytes()
                .to_vec(),
            3 => (self.rng.next_u64() as i64).to_string().into_bytes(),
            _ => (self.rng.below(2_000) as i64 - 1_000)
                .to_string()
                .into_bytes(),
        }
    }

    fn offset(&mut self) -> Vec<u8> {
        if self.chance(8) {
            return self.number();
        }
        (self.rng.below(100) as i64 - 40).to_string().into_bytes()
    }

    fn float(&mut self) -> Vec<u8> {
        if self.chance(4) {
            return self.number();
        }
        let text = self.one_of(&[
            "0.1", "-0.25", "1e3", "3.14159", "1e-5", "inf", "nan", "0x1p3", "5e-324", "1e400",
        ]);
        text.as_bytes().to_vec()
    }

    /// A time far from now, in either direction, in seconds or milliseconds.
    fn time(&mut self, ms: bool) -> Vec<u8> {
        if self.chance(10) {
            return self.number();
        }
        let seconds = 9_999_990_000 + self.rng.below(10_000);
        let time = if self.chance(6) { 1 } else { seconds };
        (if ms { time * 1_000 + 7 } else { time })
            .to_string()
            .into_bytes()
    }

    fn lifetime(&mut self, words: &mut Words) {
        let word = self.one_of(&["EXAT", "PXAT", "exat"]);
        words.push(word.into());
        let time = self.time(word == "PXAT");
        words.push(time);
    }

    fn command(&mut self) -> Words {
        let name = self.one_of(&[
            "SET",
            "SET",
            "SET",
            "GET",
            "GET",
            "SETNX",
            "GETSET",
            "GETDEL",
            "GETEX",
            "MGET",
            "MSET",
            "MSETNX",
            "INCR",
            "DECR",
            "INCRBY",
            "DECRBY",
            "INCRBYFLOAT",
            "APPEND",
            "APPEND",
            "STRLEN",
            "GETRANGE",
            "SUBSTR",
            "SETRANGE",
            "DEL",
            "UNLINK",
            "EXISTS",
            "TYPE",
            "TOUCH",
            "EXPIREAT",
            "PEXPIREAT",
            "EXPIRETIME",
            "PEXPIRETIME",
            "PERSIST",
            "KEYS",
            "SCAN",
            "RENAME",
            "RENAMENX",
            "COPY",
            "MOVE",
            "DBSIZE",
            "SELECT",
            "SWAPDB",
            "FLUSHDB",
            "FLUSHALL",
            "SETEX",
            "PSETEX",
            "EXPIRE",
            "PEXPIRE",
            "OBJECT",
            "TTL",
        ]);
        let mut words: Words = vec![name.into()];
        self.arguments(name, &mut words);
        if self.chance(60) {
            // Text: bytes that are none are shown differently in an error.
            words.push(self.number());
        }
        if self.chance(60) && words.len() > 1 {
            words.pop();
        }
        words
    }

    fn arguments(&mut self, name: &str, words: &mut Words) {
        match name {
            "SET" => {
                words.extend([self.key(), self.value()]);
                while self.chance(2) {
                    match self.rng.below(6) {
                        // Never over: redis-server counts such a key until somebody asks for it.
                        0 => {
                            let time = 9_999_990_000 + self.rng.below(10_000);
                            words.extend([b"EXAT".to_vec(), time.to_string().into()]);
                        }
                        1 => words.push(b"KEEPTTL".to_vec()),
                        2 => words.push(b"get".to_vec()),
                        3 => words.push(b"NX".to_vec()),
                        4 => words.push(b"xx".to_vec()),
                        _ => {}
                    }
                }
            }
            "GETEX" => {
                words.push(self.key());
                while self.chance(2) {
                    match self.rng.below(3) {
                        0 => words.push(b"PERSIST".to_vec()),
                        _ => self.lifetime(words),
                    }
                }
            }
            "SETNX" | "GETSET" | "APPEND" => words.extend([self.key(), self.value()]),
            // Refused, whatever the server's time.
            "SETEX" | "PSETEX" => words.extend([self.key(), b"0".to_vec(), self.value()]),
            "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => {
                for _ in 0..=self.rng.below(4) {
                    words.push(self.key());
                }
            }
            "MSET" | "MSETNX" => {
                for _ in 0..=self.rng.below(3) {
                    words.extend([self.key(), self.value()]);
                }
            }
            "INCRBY" | "DECRBY" => words.extend([self.key(), self.number()]),
            "INCRBYFLOAT" => words.extend([self.key(), self.float()]),
            "GETRANGE" | "SUBSTR" => words.extend([self.key(), self.offset(), self.offset()]),
            "SETRANGE" => words.extend([self.key(), self.offset(), self.value()]),
            _ => self.generic_arguments(name, words),
        }
    }

    fn generic_arguments(&mut self, name: &str, words: &mut Words) {
        match name {
            "EXPIREAT" | "PEXPIREAT" => {
                words.extend([self.key(), self.time(name == "PEXPIREAT")]);
                while self.chance(2) {
                    let word = self.one_of(&["NX", "XX", "GT", "LT", "gt", "EX"]);
                    words.push(word.into());
                }
            }
            // Only times that are over.
            "EXPIRE" | "PEXPIRE" => {
                words.extend([self.key(), b"-1".to_vec()]);
                if self.chance(2) {
                    let word = self.one_of(&["NX", "XX", "GT", "LT"]);
                    words.push(word.into());
                }
            }
            "RENAME" | "RENAMENX" => words.extend([self.key(), self.key()]),
            "COPY" => {
                words.extend([self.key(), self.key()]);
                while self.chance(2) {
                    if self.chance(2) {
                        words.push(b"REPLACE".to_vec());
                    } else {
                        words.push(b"DB".to_vec());
                        words.push(self.database());
                    }
                }
            }
            "MOVE" => words.extend([self.key(), self.database()]),
            "SELECT" => words.push(self.database()),
            "SWAPDB" => words.extend([self.database(), self.database()]),
            "KEYS" => words.push(self.pattern()),
            "SCAN" => {
                words.extend([b"0".to_vec(), b"COUNT".to_vec(), b"1000".to_vec()]);
                if self.chance(2) {
                    words.extend([b"MATCH".to_vec(), self.pattern()]);
                }
                if self.chance(3) {
                    let kind = self.one_of(&["string", "STRING", "list", "x"]);
                    words.extend([b"TYPE".to_vec(), kind.into()]);
                }
            }
            "OBJECT" => {
                let sub = self.one_of(&["FREQ", "ENCODING", "ENCODING", "encoding"]);
                words.extend([sub.into(), self.key()]);
            }
            "FLUSHDB" | "FLUSHALL" => {
                // Rarely without an error, or the databases stay empty.
                if !self.chance(8) {
                    words.push(b"NOW".to_vec());
                } else if self.chance(2) {
                    words.push(b"ASYNC".to_vec());
                }
            }
            "DBSIZE" => {}
            // Time passes: only a missing key's answer can be compared.
            "TTL" => words.push(b"never set".to_vec()),
            _ => words.push(self.key()),
        }
    }

    fn database(&mut self) -> Vec<u8> {
        let database = self.one_of(&[
            "0",
            "0",
            "0",
            "1",
            "1",
            "2",
            "16",
            "-1",
            "x",
            "99999999999",
            "1.5",
        ]);
        database.into()
    }

    fn pattern(&mut self) -> Vec<u8> {
        let pattern = self.one_of(&[
            "*", "*", "a", "a*", "key:?", "key:[12]", "k*", "[^a]*", "\\a", "", "k[", "**", "?",
        ]);
        pattern.into()
    }
}

/// Replies in no particular order are compared line by line.
fn comparable(name: &[u8], reply: &[u8]) -> Vec<u8> {
    if name != b"KEYS" && name != b"SCAN" {
        return reply.to_vec();
    }
    let mut lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.join(&b'\n')
}

fn shown(command: &Words) -> String {
    let words = command.iter().map(|word| {
        let word = &word[..word.len().min(80)];
        format!("\"{}\"", word.escape_ascii())
    });
    words.collect::<Vec<_>>().join(" ")
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn replies_are_those_of_redis() {
    let seed = from_environment("DIFFERENTIAL_SEED").unwrap_or_else(env::random::seed_64);
    let commands = from_environment("DIFFERENTIAL_COMMANDS").unwrap_or(COMMANDS);
    println!("DIFFERENTIAL_SEED={seed}");
    let oracle = Oracle::start();
    let mut real = Real(UnixStream::connect(oracle.socket()).expect("it listens"));
    let mut inside = Inside::new();
    inside.clock.set_us(env::clock::now_us());
    let mut generator = Generator {
        rng: Rng::seeded(seed),
    };
    let mut past: Vec<Words> = Vec::new();
    for number in 0..commands {
        let command = generator.command();
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let ours = inside.run(&words);
        let theirs = real.run(&command);
        let name = command[0].clone();
        past.push(command);
        if comparable(&name, &ours) != comparable(&name, &theirs) {
            let tail: Vec<String> = past.iter().rev().take(12).rev().map(shown).collect();
            panic!(
                "seed {seed}, command {number}:\n{}\nours:   {}\ntheirs: {}",
                tail.join("\n"),
                ours.escape_ascii(),
                theirs.escape_ascii()
            );
        }
    }
}
