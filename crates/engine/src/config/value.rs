//! Values: from words to numbers and canonical text, and back.
//!
//! Knows kinds, no directive. The texts of errors are those of redis-server 7.0.

use super::directive::Kind;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Most addresses `bind` takes.
pub(super) const ADDRESSES_MAX: usize = 16;

/// Names of the client classes in `client-output-buffer-limit`.
pub(super) const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Default output limits: bytes, bytes, seconds per class.
pub(super) const OUTPUT_LIMITS: [OutputLimit; 3] = [
    OutputLimit {
        hard_bytes: 0,
        soft_bytes: 0,
        soft_s: 0,
    },
    OutputLimit {
        hard_bytes: 256 << 20,
        soft_bytes: 64 << 20,
        soft_s: 60,
    },
    OutputLimit {
        hard_bytes: 32 << 20,
        soft_bytes: 8 << 20,
        soft_s: 60,
    },
];

/// Characters of keyspace event classes, `A` and the two channels among them.
const EVENTS: &[u8] = b"Ag$lshzxeKEtmdn";

/// The text of a directive: any bytes, cheap to clone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As characters; bytes that are none are replaced.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Deref for Text {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Text(bytes.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text(text.into_bytes().into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

/// When a client of a class is closed because it does not read its replies. Zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputLimit {
    /// Bytes beyond which it is closed at once.
    pub hard_bytes: u64,
    /// Bytes beyond which it is closed after `soft_s`.
    pub soft_bytes: u64,
    /// Seconds.
    pub soft_s: u64,
}

/// A parsed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of the numeric kinds: flag, number, bytes, permissions, index or mask of choices.
    Number(i64),
    /// Canonical text of the others.
    Text(Text),
}

/// Why a value was refused; the text a client or operator reads.
pub(super) type Refusal = String;

fn refuse<T>(text: &str) -> Result<T, Refusal> {
    Err(text.to_owned())
}

/// The value a directive has before anything is said.
pub(super) fn default(kind: Kind) -> Value {
    match kind {
        Kind::Bool(on) => Value::Number(i64::from(on)),
        Kind::Integer { default, .. }
        | Kind::Memory { default, .. }
        | Kind::Octal { default, .. } => Value::Number(default),
        Kind::Choice {
            default,
            choices,
            many,
        } => {
            let words: Vec<&[u8]> = vec![default.as_bytes()];
            let number = parse_choice(&words, choices, many);
            Value::Number(number.expect("a default is one of the choices"))
        }
        Kind::Text(default) => Value::Text(default.unwrap_or("").into()),
        Kind::Directory | Kind::SavePoints | Kind::Events | Kind::Primary => {
            Value::Text(Text::default())
        }
        Kind::Addresses(default)
        | Kind::Percentiles(default)
        | Kind::OomScores(default)
        | Kind::Title(default) => Value::Text(default.into()),
        Kind::OutputLimits => Value::Text(format_output_limits(&OUTPUT_LIMITS).into()),
    }
}

/// Parses the words of a line. `now` is the value in force: some kinds change only a part of it.
pub(super) fn parse(kind: Kind, words: &[&[u8]], now: &Value) -> Result<Value, Refusal> {
    let first = words.first().copied().unwrap_or_default();
    Ok(match kind {
        Kind::Bool(_) => Value::Number(i64::from(parse_bool(first)?)),
        Kind::Integer { min, max, .. } => {
            let Some(number) = base::number::parse_i64(first) else {
                return refuse("argument couldn't be parsed into an integer");
            };
            Value::Number(bounded(number, min, max)?)
        }
        Kind::Memory {
            min, max, percent, ..
        } => Value::Number(parse_memory_value(first, min, max, percent)?),
        Kind::Octal { min, max, .. } => {
            let number = std::str::from_utf8(first)
                .ok()
                .and_then(|text| i64::from_str_radix(text, 8).ok());
            let Some(number) = number else {
                return refuse("argument couldn't be parsed as an octal number");
            };
            if number < min || number > max {
                return Err(format!(
                    "argument must be between {min:o} and {max:o} inclusive"
                ));
            }
            Value::Number(number)
        }
        Kind::Choice { choices, many, .. } => Value::Number(parse_choice(words, choices, many)?),
        Kind::Text(_) | Kind::Directory => Value::Text(first.into()),
        Kind::Addresses(_) => Value::Text(parse_addresses(words)?),
        Kind::OutputLimits => Value::Text(parse_output_limits(words, now)?),
        Kind::Percentiles(_) => Value::Text(parse_percentiles(words)?),
        Kind::OomScores(_) => Value::Text(parse_oom_scores(words)?),
        Kind::SavePoints => Value::Text(parse_save_points(words)?),
        Kind::Events => Value::Text(parse_events(first)?),
        Kind::Title(_) => {
            if !title_is_valid(first) {
                return refuse("template format is invalid or contains unknown variables");
            }
            Value::Text(first.into())
        }
        Kind::Primary => Value::Text(parse_primary(words)?),
    })
}

/// What CONFIG GET shows.
pub(super) fn format(kind: Kind, value: &Value) -> Text {
    match (kind, value) {
        (_, Value::Text(text)) => text.clone(),
        (Kind::Bool(_), Value::Number(number)) => if *number == 0 { "no" } else { "yes" }.into(),
        (Kind::Octal { .. }, Value::Number(number)) => format!("{number:o}").into(),
        (Kind::Memory { percent: true, .. }, Value::Number(number)) if *number < 0 => {
            format!("{}%", -number).into()
        }
        (Kind::Choice { choices, many, .. }, Value::Number(number)) => {
            format_choice(*number, choices, many).into()
        }
        (_, Value::Number(number)) => number.to_string().into(),
    }
}

fn parse_bool(word: &[u8]) -> Result<bool, Refusal> {
    if word.eq_ignore_ascii_case(b"yes") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"no") {
        Ok(false)
    } else {
        refuse("argument must be 'yes' or 'no'")
    }
}

fn bounded(number: i64, min: i64, max: i64) -> Result<i64, Refusal> {
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(format!(
            "argument must be between {min} and {max} inclusive"
        ))
    }
}

fn parse_memory_value(word: &[u8], min: i64, max: i64, percent: bool) -> Result<i64, Refusal> {
    if percent && let Some(digits) = word.strip_suffix(b"%") {
        match base::number::parse_i64(digits) {
            Some(number) if number > 100 => {
                return refuse("percentage argument must be less or equal to 100");
            }
            Some(number) if number >= 0 => return Ok(-number),
            _ => {}
        }
    } else if let Some(bytes) = parse_memory(word) {
        return match i64::try_from(bytes) {
            Ok(bytes) => bounded(bytes, min, max),
            Err(_) => Err(format!(
                "argument must be between {min} and {max} inclusive"
            )),
        };
    }
    refuse(if percent {
        "argument must be a memory or percent value"
    } else {
        "argument must be a memory value"
    })
}

/// Bytes from `10`, `10k` (1000), `10kb` (1024), `m`, `mb`, `g`, `gb`, any case. A number that 64
/// bits cannot hold gives the highest one, a unit alone and nothing at all give 0, as they always did.
/// None if it is none of these.
pub fn parse_memory(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = match word[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = word[..digits].iter().fold(0u64, |number, byte| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(byte - b'0'))
    });
    Some(number.saturating_mul(unit))
}

/// Bytes with the largest unit that divides them, as configuration files show them.
pub fn format_memory(bytes: i64) -> String {
    const UNITS: [(&str, i64); 3] = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)];
    if bytes > 0 {
        for (name, unit) in UNITS {
            if bytes % unit == 0 {
                return format!("{}{name}", bytes / unit);
            }
        }
    }
    bytes.to_string()
}

fn parse_choice(words: &[&[u8]], choices: &[&str], many: bool) -> Result<i64, Refusal> {
    let refusal = || {
        Err(format!(
            "argument(s) must be one of the following: {}",
            choices.join(", ")
        ))
    };
    let split: Vec<&[u8]> = if many {
        split_words(words)
    } else {
        words.to_vec()
    };
    if split.is_empty() || (!many && split.len() > 1) {
        return refusal();
    }
    let mut mask = 0;
    for word in split {
        let Some(index) = choices
            .iter()
            .position(|c| word.eq_ignore_ascii_case(c.as_bytes()))
        else {
            return refusal();
        };
        if !many {
            return Ok(index as i64);
        }
        if index > 0 {
            mask |= 1 << index;
        }
    }
    Ok(mask)
}

fn format_choice(number: i64, choices: &[&'static str], many: bool) -> String {
    if !many || number == 0 {
        return choices[number as usize].to_owned();
    }
    let chosen: Vec<&str> = (1..choices.len())
        .filter(|index| number & (1 << index) != 0)
        .map(|index| choices[index])
        .collect();
    chosen.join(" ")
}

/// The words of a value. One word, as from CONFIG SET, is split at each space; an empty one is none.
fn split_words<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    match words {
        [[]] => Vec::new(),
        [one] => one.split(|byte| *byte == b' ').collect(),
        several => several.to_vec(),
    }
}

fn parse_addresses(words: &[&[u8]]) -> Result<Text, Refusal> {
    let addresses = split_words(words);
    if addresses.len() > ADDRESSES_MAX {
        return refuse("Too many bind addresses specified.");
    }
    Ok(addresses.join(&b' ').as_slice().into())
}

fn class(word: &[u8]) -> Option<usize> {
    CLASSES
        .iter()
        .position(|name| word.eq_ignore_ascii_case(name.as_bytes()))
        .or_else(|| word.eq_ignore_ascii_case(b"replica").then_some(1))
}

fn parse_output_limits(words: &[&[u8]], now: &Value) -> Result<Text, Refusal> {
    let words = split_words(words);
    if !words.len().is_multiple_of(4) {
        return refuse("Wrong number of arguments in buffer limit configuration.");
    }
    let mut limits = match now {
        Value::Text(text) => output_limits(text),
        Value::Number(_) => OUTPUT_LIMITS,
    };
    for four in words.chunks_exact(4) {
        let Some(class) = class(four[0]) else {
            return refuse("Invalid client class specified in buffer limit configuration.");
        };
        let seconds = base::number::parse_i64(four[3]).and_then(|s| u64::try_from(s).ok());
        let (Some(hard_bytes), Some(soft_bytes), Some(soft_s)) =
            (parse_memory(four[1]), parse_memory(four[2]), seconds)
        else {
            return refuse(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            );
        };
        limits[class] = OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_s,
        };
    }
    Ok(format_output_limits(&limits).into())
}

fn format_output_limits(limits: &[OutputLimit; 3]) -> String {
    let parts: Vec<String> = CLASSES
        .iter()
        .zip(limits)
        .map(|(name, l)| format!("{name} {} {} {}", l.hard_bytes, l.soft_bytes, l.soft_s))
        .collect();
    parts.join(" ")
}

/// The limits that a canonical text says, by class. Panics on any other text.
pub(super) fn output_limits(canonical: &[u8]) -> [OutputLimit; 3] {
    let words = split_words(&[canonical]);
    let number = |at: usize| parse_memory(words[at]).expect("canonical text");
    std::array::from_fn(|index| OutputLimit {
        hard_bytes: number(index * 4 + 1),
        soft_bytes: number(index * 4 + 2),
        soft_s: number(index * 4 + 3),
    })
}

fn parse_percentiles(words: &[&[u8]]) -> Result<Text, Refusal> {
    let mut shown = Vec::new();
    for word in split_words(words) {
        let number = std::str::from_utf8(word)
            .ok()
            .and_then(|w| w.parse::<f64>().ok());
        let Some(number) = number else {
            return refuse("Invalid latency-tracking-info-percentiles parameters");
        };
        if !(0.0..=100.0).contains(&number) {
            return refuse(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            );
        }
        let text = format!("{number:.6}");
        shown.push(text.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(shown.join(" ").into())
}

fn parse_oom_scores(words: &[&[u8]]) -> Result<Text, Refusal> {
    let words = split_words(words);
    if words.len() != 3 {
        return refuse("wrong number of arguments");
    }
    let mut shown = Vec::new();
    for word in words {
        match base::number::parse_i64(word) {
            Some(number) if (-2000..=2000).contains(&number) => shown.push(number.to_string()),
            _ => {
                return refuse(
                    "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
                );
            }
        }
    }
    Ok(shown.join(" ").into())
}

fn parse_save_points(words: &[&[u8]]) -> Result<Text, Refusal> {
    let words = split_words(words);
    let mut shown = Vec::new();
    for pair in words.chunks(2) {
        let numbers: Vec<i64> = pair
            .iter()
            .filter_map(|word| base::number::parse_i64(word))
            .collect();
        match numbers[..] {
            [seconds, changes] if seconds >= 1 && changes >= 0 => {
                shown.push(format!("{seconds} {changes}"));
            }
            _ => return refuse("Invalid save parameters"),
        }
    }
    Ok(shown.join(" ").into())
}

fn parse_events(word: &[u8]) -> Result<Text, Refusal> {
    if word.iter().any(|byte| !EVENTS.contains(byte)) {
        return refuse("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    }
    Ok(word.into())
}

fn parse_primary(words: &[&[u8]]) -> Result<Text, Refusal> {
    let words = split_words(words);
    let [host, port] = words[..] else {
        return refuse("wrong number of arguments");
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Text::default());
    }
    match base::number::parse_i64(port) {
        Some(0..=65535) => Ok([host, b" ", port].concat().as_slice().into()),
        _ => refuse("Invalid master port"),
    }
}

/// Variables a process title may contain.
pub(super) const TITLE_VARIABLES: [&str; 7] = [
    "title",
    "listen-addr",
    "server-mode",
    "port",
    "tls-port",
    "unixsocket",
    "config-file",
];

fn title_is_valid(template: &[u8]) -> bool {
    let Ok(template) = std::str::from_utf8(template) else {
        return false;
    };
    // The title itself does not count: something must tell this server from others.
    let filled = fill_title(template, |variable| {
        if variable == "title" {
            String::new()
        } else {
            "x".to_owned()
        }
    });
    filled.is_some_and(|title| !title.trim().is_empty())
}

/// Replaces `{variable}` by what `value` says. None if a brace is not closed or a variable unknown.
pub fn fill_title(template: &str, value: impl Fn(&str) -> String) -> Option<String> {
    let mut title = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        title.push_str(&rest[..open]);
        let close = rest[open..].find('}')? + open;
        let name = &rest[open + 1..close];
        if !TITLE_VARIABLES.contains(&name) {
            return None;
        }
        title.push_str(&value(name));
        rest = &rest[close + 1..];
    }
    title.push_str(rest);
    Some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_units() {
        let check = |text: &str, bytes| assert_eq!(parse_memory(text.as_bytes()), bytes, "{text}");
        check("0", Some(0));
        check("10", Some(10));
        check("10b", Some(10));
        check("1k", Some(1000));
        check("1KB", Some(1024));
        check("2mB", Some(2 << 20));
        check("3g", Some(3_000_000_000));
        check("3gb", Some(3 << 30));
        check("99999999999999999999", Some(u64::MAX));
        check("-1", None);
        check("", Some(0));
        check("kb", Some(0));
        check("1.5gb", None);
        check("1tb", None);
        assert_eq!(format_memory(1 << 30), "1gb");
        assert_eq!(format_memory(1536), "1536");
        assert_eq!(format_memory(2048), "2kb");
        assert_eq!(format_memory(0), "0");
    }

    #[test]
    fn titles() {
        assert!(title_is_valid(b"{title} {listen-addr} {server-mode}"));
        assert!(!title_is_valid(b"{foo}"));
        assert!(!title_is_valid(b"{title"));
        assert!(!title_is_valid(b""));
    }
}
