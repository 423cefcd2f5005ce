//! Histories of concurrent clients, and whether some order of their operations explains them.
//!
//! The search is that of Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) with
//! Lowe's memory of configurations already seen. An operation may come next if no other operation
//! that is still missing was answered before it was sent, and if all earlier operations of its own
//! connection have come: pipelined commands keep their order.
//!
//! The model is a keyspace of a few string keys in two databases, so operations on several keys and
//! on whole databases are judged as one step each, not key by key.

use crate::value::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Keys of the model, in each of two databases.
pub const KEYS: usize = 3;

/// A string and whether it has an expiry (none of those given here is ever reached).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text {
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// An expiry is set.
    pub expires: bool,
}

/// Both databases; operations see the first.
pub type Keyspace = [[Option<Text>; KEYS]; 2];

/// What a client asks. Keys are numbers below [`KEYS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Get(usize),
    Set(usize, Arc<[u8]>),
    SetNx(usize, Arc<[u8]>),
    GetSet(usize, Arc<[u8]>),
    Incr(usize),
    Append(usize, Arc<[u8]>),
    /// PEXPIRE by a long time.
    Expire(usize),
    /// PEXPIRE by less than nothing: removes the key.
    ExpireNow(usize),
    Persist(usize),
    Rename(usize, usize),
    /// COPY, with REPLACE if true.
    Copy(usize, usize, bool),
    /// All keys at once; the flag asks for so many other keys that the command is a slow one.
    Mset([Arc<[u8]>; KEYS], bool),
    Mget(bool),
    Exists(bool),
    Del(Vec<usize>, bool),
    FlushDb,
    SwapDb,
}

/// One operation as a client saw it. Times are ns since the beginning of the history.
#[derive(Debug, Clone)]
pub struct Event {
    /// What was asked.
    pub operation: Operation,
    /// Before it was sent.
    pub sent_ns: u64,
    /// After its reply was read.
    pub answered_ns: u64,
    /// The reply, without what concerns keys outside the model.
    pub reply: Value,
}

/// What the search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains the history.
    Explained,
    /// None does: the server was wrong.
    Impossible,
    /// Too many orders to try them all.
    Undecided,
}

/// Configurations looked at before the search gives up; a handful of histories in thousands do.
const CONFIGURATIONS_MAX: usize = 200_000;

/// Does some order explain `clients`, starting from `start`? Each client's events are in the order
/// in which it sent them.
pub fn judge(start: &Keyspace, clients: &[Vec<Event>]) -> Verdict {
    let mut seen = HashSet::new();
    let mut open = vec![(vec![0usize; clients.len()], start.clone())];
    while let Some((done, keyspace)) = open.pop() {
        let next = || {
            clients
                .iter()
                .zip(&done)
                .map(|(events, &at)| events.get(at))
        };
        let Some(deadline_ns) = next().flatten().map(|event| event.answered_ns).min() else {
            return Verdict::Explained;
        };
        if seen.len() > CONFIGURATIONS_MAX {
            return Verdict::Undecided;
        }
        for (client, event) in next().enumerate() {
            let Some(event) = event.filter(|event| event.sent_ns <= deadline_ns) else {
                continue;
            };
            let mut after = keyspace.clone();
            if apply(&event.operation, &mut after) != event.reply {
                continue;
            }
            let mut done = done.clone();
            done[client] += 1;
            if seen.insert((done.clone(), after.clone())) {
                open.push((done, after));
            }
        }
    }
    Verdict::Impossible
}

fn bulk(text: Option<&Text>) -> Value {
    text.map_or(Value::NullBulk, |text| Value::Bulk(text.bytes.to_vec()))
}

fn plain(bytes: &Arc<[u8]>) -> Text {
    Text {
        bytes: bytes.clone(),
        expires: false,
    }
}

/// Does `operation` and returns the reply it must have.
pub fn apply(operation: &Operation, keyspace: &mut Keyspace) -> Value {
    let ok = Value::Simple(b"OK".to_vec());
    let keys = &mut keyspace[0];
    match operation {
        Operation::Get(key) => bulk(keys[*key].as_ref()),
        Operation::Set(key, bytes) => {
            keys[*key] = Some(plain(bytes));
            ok
        }
        Operation::SetNx(key, bytes) => {
            let absent = keys[*key].is_none();
            if absent {
                keys[*key] = Some(plain(bytes));
            }
            Value::Int(absent.into())
        }
        Operation::GetSet(key, bytes) => {
            let old = bulk(keys[*key].as_ref());
            keys[*key] = Some(plain(bytes));
            old
        }
        Operation::Incr(key) => increment(&mut keys[*key]),
        Operation::Append(key, bytes) => append(&mut keys[*key], bytes),
        Operation::Expire(key) => match &mut keys[*key] {
            Some(text) => {
                text.expires = true;
                Value::Int(1)
            }
            None => Value::Int(0),
        },
        Operation::ExpireNow(key) => Value::Int(keys[*key].take().is_some().into()),
        Operation::Persist(key) => match &mut keys[*key] {
            Some(text) => Value::Int(std::mem::take(&mut text.expires).into()),
            None => Value::Int(0),
        },
        Operation::Rename(from, to) => match keys[*from].take() {
            Some(text) => {
                keys[*to] = Some(text);
                ok
            }
            None => Value::Error(b"ERR no such key".to_vec()),
        },
        Operation::Copy(from, to, replace) => {
            let copies = keys[*from].is_some() && (*replace || keys[*to].is_none());
            if copies {
                keys[*to].clone_from(&keys[*from].clone());
            }
            Value::Int(copies.into())
        }
        Operation::Mset(values, _) => {
            *keys = values.each_ref().map(|bytes| Some(plain(bytes)));
            ok
        }
        Operation::Mget(_) => Value::Array(keys.iter().map(|key| bulk(key.as_ref())).collect()),
        Operation::Exists(_) => Value::Int(keys.iter().flatten().count() as i64),
        Operation::Del(chosen, _) => {
            let gone = chosen.iter().filter(|&&key| keys[key].take().is_some());
            Value::Int(gone.count() as i64)
        }
        Operation::FlushDb => {
            *keys = Default::default();
            ok
        }
        Operation::SwapDb => {
            keyspace.swap(0, 1);
            ok
        }
    }
}

fn append(key: &mut Option<Text>, bytes: &[u8]) -> Value {
    let old = key.take();
    let expires = old.as_ref().is_some_and(|text| text.expires);
    let mut joined = old.map_or(Vec::new(), |text| text.bytes.to_vec());
    joined.extend_from_slice(bytes);
    let len = joined.len() as i64;
    *key = Some(Text {
        bytes: joined.into(),
        expires,
    });
    Value::Int(len)
}

fn increment(key: &mut Option<Text>) -> Value {
    let refused = Value::Error(b"ERR value is not an integer or out of range".to_vec());
    let (old, expires) = match key {
        None => (Some(0), false),
        Some(text) => {
            let number = std::str::from_utf8(&text.bytes).ok();
            // Only what the server would write itself is a number: no sign, no leading zero.
            let number = number.and_then(|digits| {
                let number: i64 = digits.parse().ok()?;
                (number.to_string() == digits).then_some(number)
            });
            (number, text.expires)
        }
    };
    let Some(new) = old.and_then(|old| old.checked_add(1)) else {
        return refused;
    };
    *key = Some(Text {
        bytes: new.to_string().into_bytes().into(),
        expires,
    });
    Value::Int(new)
}

/// The operation's command line. `filler` names keys outside the model for slow commands; those
/// given to DEL and EXISTS are never set.
pub fn command(operation: &Operation, fillers: usize) -> Vec<Vec<u8>> {
    let name = |key: &usize| format!("hot:{key}").into_bytes();
    let word = |text: &str| text.as_bytes().to_vec();
    let padded = |mut line: Vec<Vec<u8>>, slow: bool, make: &dyn Fn(usize) -> Vec<Vec<u8>>| {
        for number in 0..if slow { fillers } else { 0 } {
            line.extend(make(number));
        }
        line
    };
    let all = || (0..KEYS).map(|key| name(&key));
    let unset = |number: usize| vec![format!("unset:{number}").into_bytes()];
    let filled = |number: usize| format!("filled:{number}").into_bytes();
    match operation {
        Operation::Get(key) => vec![word("GET"), name(key)],
        Operation::Set(key, value) => vec![word("SET"), name(key), value.to_vec()],
        Operation::SetNx(key, value) => vec![word("SETNX"), name(key), value.to_vec()],
        Operation::GetSet(key, value) => vec![word("GETSET"), name(key), value.to_vec()],
        Operation::Incr(key) => vec![word("INCR"), name(key)],
        Operation::Append(key, value) => vec![word("APPEND"), name(key), value.to_vec()],
        Operation::Expire(key) => vec![word("PEXPIRE"), name(key), word("900000")],
        Operation::ExpireNow(key) => vec![word("PEXPIRE"), name(key), word("-1")],
        Operation::Persist(key) => vec![word("PERSIST"), name(key)],
        Operation::Rename(from, to) => vec![word("RENAME"), name(from), name(to)],
        Operation::Copy(from, to, false) => vec![word("COPY"), name(from), name(to)],
        Operation::Copy(from, to, true) => {
            vec![word("COPY"), name(from), name(to), word("REPLACE")]
        }
        Operation::Mset(values, slow) => {
            let mut line = vec![word("MSET")];
            for (key, value) in values.iter().enumerate() {
                line.extend([name(&key), value.to_vec()]);
            }
            padded(line, *slow, &|number| vec![filled(number), word("1")])
        }
        Operation::Mget(slow) => {
            let line = [word("MGET")].into_iter().chain(all()).collect();
            padded(line, *slow, &|number| vec![filled(number)])
        }
        Operation::Exists(slow) => {
            let line = [word("EXISTS")].into_iter().chain(all()).collect();
            padded(line, *slow, &unset)
        }
        Operation::Del(keys, slow) => {
            let line = [word("DEL")].into_iter().chain(keys.iter().map(name));
            padded(line.collect(), *slow, &unset)
        }
        Operation::FlushDb => vec![word("FLUSHDB")],
        Operation::SwapDb => vec![word("SWAPDB"), word("0"), word("1")],
    }
}

/// Takes out of a reply what concerns keys outside the model.
pub fn reduce(operation: &Operation, reply: Value) -> Value {
    match (operation, reply) {
        (Operation::Mget(_), Value::Array(mut values)) => {
            values.truncate(KEYS);
            Value::Array(values)
        }
        (_, reply) => reply,
    }
}

/// A history for people, in the order in which operations were sent. Long values are cut.
pub fn describe(start: &Keyspace, clients: &[Vec<Event>]) -> String {
    let cut = |text: String| match text.char_indices().nth(160) {
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
        None => text,
    };
    let mut lines = BTreeMap::new();
    for (client, events) in clients.iter().enumerate() {
        for (index, event) in events.iter().enumerate() {
            let line = format!(
                "{:>9} {:>9}  client {client}: {}  ->  {}",
                event.sent_ns / 1000,
                event.answered_ns / 1000,
                cut(show(&event.operation)),
                cut(format!("{}", Shown(&event.reply))),
            );
            lines.insert((event.sent_ns, client, index), line);
        }
    }
    let lines: Vec<String> = lines.into_values().collect();
    format!(
        "at first: {}\nsent us, answered us:\n{}",
        cut(format!("{start:?}")),
        lines.join("\n")
    )
}

fn show(operation: &Operation) -> String {
    let words = command(operation, 0).into_iter();
    let slow = matches!(
        operation,
        Operation::Mset(_, true)
            | Operation::Mget(true)
            | Operation::Exists(true)
            | Operation::Del(_, true)
    );
    let line: Vec<String> = words.map(|word| word.escape_ascii().to_string()).collect();
    format!("{}{}", line.join(" "), if slow { " (slow)" } else { "" })
}

struct Shown<'a>(&'a Value);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Value::Simple(text) | Value::Error(text) | Value::Bulk(text) => {
                write!(f, "{}", text.escape_ascii())
            }
            Value::Int(number) => write!(f, "{number}"),
            Value::NullBulk => write!(f, "nil"),
            Value::Array(values) => values
                .iter()
                .try_for_each(|value| write!(f, "[{}]", Shown(value))),
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_linearizable(start: &Keyspace, clients: &[Vec<Event>]) -> bool {
        judge(start, clients) == Verdict::Explained
    }

    fn event(operation: Operation, sent_ns: u64, answered_ns: u64, reply: Value) -> Event {
        Event {
            operation,
            sent_ns,
            answered_ns,
            reply,
        }
    }

    fn text(bytes: &[u8]) -> Arc<[u8]> {
        bytes.into()
    }

    #[test]
    fn a_lost_increment_is_found() {
        let history = |second| {
            [
                vec![event(Operation::Incr(0), 0, 10, Value::Int(1))],
                vec![event(Operation::Incr(0), 5, 15, Value::Int(second))],
            ]
        };
        assert!(is_linearizable(&Keyspace::default(), &history(2)));
        assert!(!is_linearizable(&Keyspace::default(), &history(1)));
    }

    #[test]
    fn a_stale_read_is_found() {
        let set = || {
            event(
                Operation::Set(0, text(b"a")),
                0,
                10,
                Value::Simple(b"OK".to_vec()),
            )
        };
        let read = |sent| vec![event(Operation::Get(0), sent, 20, Value::NullBulk)];
        assert!(is_linearizable(
            &Keyspace::default(),
            &[vec![set()], read(5)]
        ));
        assert!(!is_linearizable(
            &Keyspace::default(),
            &[vec![set()], read(11)]
        ));
    }

    #[test]
    fn half_a_multi_key_write_is_found() {
        let set = Operation::Mset([text(b"a"), text(b"a"), text(b"a")], false);
        let seen = |last| {
            Value::Array(vec![
                Value::Bulk(b"a".to_vec()),
                Value::Bulk(b"a".to_vec()),
                last,
            ])
        };
        let history = |last| {
            [
                vec![event(set.clone(), 0, 10, Value::Simple(b"OK".to_vec()))],
                vec![event(Operation::Mget(false), 0, 10, seen(last))],
            ]
        };
        assert!(is_linearizable(
            &Keyspace::default(),
            &history(Value::Bulk(b"a".to_vec()))
        ));
        assert!(!is_linearizable(
            &Keyspace::default(),
            &history(Value::NullBulk)
        ));
    }

    #[test]
    fn one_connection_keeps_its_order() {
        let history = [vec![
            event(Operation::Get(0), 0, 10, Value::Bulk(b"a".to_vec())),
            event(
                Operation::Set(0, text(b"a")),
                0,
                10,
                Value::Simple(b"OK".to_vec()),
            ),
        ]];
        assert!(!is_linearizable(&Keyspace::default(), &history));
    }
}
