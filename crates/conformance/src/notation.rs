//! The notation of expected replies: parsing, printing and matching.
//!
//! | written | matches in RESP3 | matches in RESP2 |
//! |---|---|---|
//! | `+OK`, `-ERR text` | simple string, error | the same |
//! | `:1`, `$"bytes"` | integer, bulk string | the same |
//! | `(nil)`, `(nil array)` | null | null bulk, null array |
//! | `[a b]` | array | array |
//! | `~[a b]`, `(push) [a b]` | set, push | array |
//! | `%{k => v}` | map | flat array |
//! | `,1.5` `(big 12)` `=txt:"a"` | double, big number, verbatim | bulk string |
//! | `#t` `#f` | boolean | `:1` `:0` |
//!
//! Wildcards: `(any)`, `(any int)`, `(any bulk)`, `(any array)`, `(any error)`, `(int 1..9)`,
//! `(match "glob")` on any text, `(unordered) [..]`, `(contains) [..]` or `%{..}`, `(rest)` as the
//! last item of an array or map, `(let name pattern)` which also remembers the text for `{name}`
//! in later commands. `(none)` and `(closed)` stand alone: no reply yet, and end of connection.
//!
//! Items are separated by white space. Inside brackets `+` and `-` text with blanks is quoted.
//! One expectation serves both protocols because the older form follows from the newer one;
//! where it does not, a line beginning with `3>` gives the RESP3 reply.

use crate::quoting;
use crate::value::Value;
use std::collections::HashMap;

/// Texts remembered by `(let ...)`.
pub type Bindings = HashMap<String, Vec<u8>>;

/// An expected reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the table in the module header says what each stands for"
)]
pub enum Pattern {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    NilArray,
    Array(Vec<Pattern>),
    Set(Vec<Pattern>),
    Push(Vec<Pattern>),
    Map(Vec<(Pattern, Pattern)>, bool),
    Double(Vec<u8>),
    Big(Vec<u8>),
    Bool(bool),
    Verbatim(Vec<u8>, Vec<u8>),
    Any(Kind),
    Range(i64, i64),
    Glob(Vec<u8>),
    Unordered(Box<Pattern>),
    Contains(Box<Pattern>),
    Rest,
    Let(String, Box<Pattern>),
    None,
    Closed,
}

/// What `(any kind)` admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Kind {
    Anything,
    Int,
    Bulk,
    Array,
    Error,
}

/// RESP version in which a reply is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Protocol {
    Resp2,
    Resp3,
}

/// Parses one whole expectation.
pub fn parse(text: &str) -> Result<Pattern, String> {
    let trimmed = text.trim();
    // Outside brackets a simple string or an error runs to the end of the line, unquoted.
    match trimmed.as_bytes() {
        [b'+', rest @ ..] if rest.first() != Some(&b'"') => {
            return Ok(Pattern::Simple(rest.to_vec()));
        }
        [b'-', rest @ ..] if rest.first() != Some(&b'"') => {
            return Ok(Pattern::Error(rest.to_vec()));
        }
        _ => {}
    }
    let mut parser = Parser {
        text: trimmed.as_bytes(),
        at: 0,
    };
    let pattern = parser.pattern()?;
    parser.blanks();
    if parser.at == parser.text.len() {
        Ok(pattern)
    } else {
        Err(format!("text after the reply: {}", parser.remainder()))
    }
}

/// Whether the brackets opened in `text` are closed again, so that the expectation is whole.
pub fn balanced(text: &str) -> bool {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['+', '-']) {
        return true;
    }
    let (mut depth, mut quoted, mut escaped) = (0i32, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' | b'(' if !quoted => depth += 1,
            b']' | b'}' | b')' if !quoted => depth -= 1,
            _ => {}
        }
    }
    depth <= 0 && !trimmed.ends_with("(unordered)") && !trimmed.ends_with("(contains)")
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn pattern(&mut self) -> Result<Pattern, String> {
        self.blanks();
        let Some(&first) = self.text.get(self.at) else {
            return Err("expected a reply, found the end".into());
        };
        self.at += 1;
        Ok(match first {
            b'+' => Pattern::Simple(self.text_or_word()?),
            b'-' => Pattern::Error(self.text_or_word()?),
            b':' => Pattern::Int(self.integer()?),
            b',' => Pattern::Double(self.word().into_bytes()),
            b'$' => Pattern::Bulk(self.quoted()?),
            b'#' => match self.word().as_str() {
                "t" => Pattern::Bool(true),
                "f" => Pattern::Bool(false),
                other => return Err(format!("#{other} is no boolean")),
            },
            b'=' => {
                let format = self.until(b':')?;
                Pattern::Verbatim(format, self.quoted()?)
            }
            b'[' => Pattern::Array(self.items()?),
            b'~' => {
                self.expect(b'[')?;
                Pattern::Set(self.items()?)
            }
            b'%' => {
                self.expect(b'{')?;
                self.pairs()?
            }
            b'(' => self.parenthesised()?,
            _ => {
                self.at -= 1;
                return Err(format!("not a reply: {}", self.remainder()));
            }
        })
    }

    fn parenthesised(&mut self) -> Result<Pattern, String> {
        let name = self.word();
        self.blanks();
        let pattern = match name.as_str() {
            "nil" if self.peek() == Some(b')') => Pattern::Nil,
            "nil" => match self.word().as_str() {
                "array" => Pattern::NilArray,
                other => return Err(format!("(nil {other}) is unknown")),
            },
            "none" => Pattern::None,
            "closed" => Pattern::Closed,
            "rest" => Pattern::Rest,
            "big" => Pattern::Big(self.word().into_bytes()),
            "any" => Pattern::Any(match self.word().as_str() {
                "" => Kind::Anything,
                "int" => Kind::Int,
                "bulk" => Kind::Bulk,
                "array" => Kind::Array,
                "error" => Kind::Error,
                other => return Err(format!("(any {other}) is unknown")),
            }),
            "int" => {
                let range = self.word();
                let bounds = range.split_once("..").and_then(|(low, high)| {
                    Some(Pattern::Range(low.parse().ok()?, high.parse().ok()?))
                });
                bounds.ok_or_else(|| format!("{range} is no range low..high"))?
            }
            "match" => Pattern::Glob(self.quoted()?),
            "let" => {
                let variable = self.word();
                Pattern::Let(variable, Box::new(self.pattern()?))
            }
            "push" | "unordered" | "contains" => {
                self.expect(b')')?;
                let inner = self.pattern()?;
                return match (name.as_str(), inner) {
                    ("push", Pattern::Array(items)) => Ok(Pattern::Push(items)),
                    ("unordered", inner) => Ok(Pattern::Unordered(Box::new(inner))),
                    ("contains", inner) => Ok(Pattern::Contains(Box::new(inner))),
                    _ => Err(format!("({name}) must be followed by an array")),
                };
            }
            other => return Err(format!("({other}) is unknown")),
        };
        self.blanks();
        self.expect(b')')?;
        Ok(pattern)
    }

    fn items(&mut self) -> Result<Vec<Pattern>, String> {
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(items);
            }
            items.push(self.pattern()?);
        }
    }

    fn pairs(&mut self) -> Result<Pattern, String> {
        let mut pairs = Vec::new();
        let mut open = false;
        loop {
            self.blanks();
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(Pattern::Map(pairs, open));
            }
            let key = self.pattern()?;
            if key == Pattern::Rest {
                open = true;
                continue;
            }
            self.blanks();
            self.expect(b'=')?;
            self.expect(b'>')?;
            pairs.push((key, self.pattern()?));
        }
    }

    fn text_or_word(&mut self) -> Result<Vec<u8>, String> {
        if self.peek() == Some(b'"') {
            self.quoted()
        } else {
            Ok(self.word().into_bytes())
        }
    }

    fn quoted(&mut self) -> Result<Vec<u8>, String> {
        if self.peek() != Some(b'"') {
            return Err(format!("expected a quoted text at: {}", self.remainder()));
        }
        let (text, used) = quoting::unquote(&self.text[self.at..])?;
        self.at += used;
        Ok(text)
    }

    fn integer(&mut self) -> Result<i64, String> {
        let word = self.word();
        word.parse().map_err(|_| format!(":{word} is no integer"))
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while let Some(byte) = self.peek() {
            if byte.is_ascii_whitespace() || b"[]{}()\"".contains(&byte) {
                break;
            }
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn until(&mut self, stop: u8) -> Result<Vec<u8>, String> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte != stop) {
            self.at += 1;
        }
        let text = self.text[start..self.at].to_vec();
        self.expect(stop)?;
        Ok(text)
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(format!(
                "expected {:?} at: {}",
                byte as char,
                self.remainder()
            ))
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn remainder(&self) -> String {
        String::from_utf8_lossy(&self.text[self.at..]).into_owned()
    }
}

impl Pattern {
    /// Whether `value`, received in `protocol`, is what this pattern expects.
    pub fn matches(&self, value: &Value, protocol: Protocol, bindings: &mut Bindings) -> bool {
        let old = protocol == Protocol::Resp2;
        match (self, value) {
            (Self::Simple(a), Value::Simple(b))
            | (Self::Error(a), Value::Error(b))
            | (Self::Bulk(a), Value::Bulk(b)) => a == b,
            (Self::Int(a), Value::Int(b)) => a == b,
            (Self::Nil, Value::NullBulk) | (Self::NilArray, Value::NullArray) => old,
            (Self::Nil | Self::NilArray, Value::Null) => !old,
            (Self::Double(a), Value::Double(b)) | (Self::Big(a), Value::Big(b)) => !old && a == b,
            (Self::Double(a) | Self::Big(a) | Self::Verbatim(_, a), Value::Bulk(b)) => {
                old && a == b
            }
            (Self::Bool(a), Value::Bool(b)) => !old && a == b,
            (Self::Bool(a), Value::Int(b)) => old && i64::from(*a) == *b,
            (Self::Verbatim(format, a), Value::Verbatim(other, b)) => {
                !old && format == other && a == b
            }
            (Self::Array(a), Value::Array(b)) => match_in_order(a, b, protocol, bindings),
            (Self::Set(a), Value::Set(b)) | (Self::Push(a), Value::Push(b)) => {
                !old && match_in_order(a, b, protocol, bindings)
            }
            (Self::Set(a) | Self::Push(a), Value::Array(b)) => {
                old && match_in_order(a, b, protocol, bindings)
            }
            (Self::Map(..), Value::Map(_) | Value::Array(_)) => {
                self.matches_map(value, protocol, bindings)
            }
            (Self::Any(kind), _) => kind.admits(value),
            (Self::Range(low, high), Value::Int(n)) => (low..=high).contains(&n),
            (Self::Glob(glob), _) => text_of(value).is_some_and(|text| glob_matches(glob, text)),
            (Self::Unordered(inner), _) => inner.matches_loosely(value, protocol, bindings, true),
            (Self::Contains(inner), _) => inner.matches_loosely(value, protocol, bindings, false),
            (Self::Let(name, inner), _) => {
                let matched = inner.matches(value, protocol, bindings);
                if matched {
                    let text = match value {
                        Value::Int(n) => n.to_string().into_bytes(),
                        other => text_of(other).unwrap_or_default().to_vec(),
                    };
                    bindings.insert(name.clone(), text);
                }
                matched
            }
            _ => false,
        }
    }

    fn matches_map(&self, value: &Value, protocol: Protocol, bindings: &mut Bindings) -> bool {
        let (Self::Map(expected, open), Some(actual)) = (self, pairs_of(value, protocol)) else {
            return false;
        };
        let enough = if *open {
            actual.len() >= expected.len()
        } else {
            actual.len() == expected.len()
        };
        enough
            && expected
                .iter()
                .zip(&actual)
                .all(|((key, value), (actual_key, actual_value))| {
                    key.matches(actual_key, protocol, bindings)
                        && value.matches(actual_value, protocol, bindings)
                })
    }

    /// Items in any order; `whole` says that there must be no others.
    fn matches_loosely(
        &self,
        value: &Value,
        protocol: Protocol,
        bindings: &mut Bindings,
        whole: bool,
    ) -> bool {
        match (self, value) {
            (Self::Map(expected, open), _) => {
                let Some(mut actual) = pairs_of(value, protocol) else {
                    return false;
                };
                if whole && !open && actual.len() != expected.len() {
                    return false;
                }
                expected.iter().all(|(key, pattern)| {
                    let found = actual.iter().position(|(actual_key, actual_value)| {
                        key.matches(actual_key, protocol, bindings)
                            && pattern.matches(actual_value, protocol, bindings)
                    });
                    found.map(|index| actual.swap_remove(index)).is_some()
                })
            }
            (Self::Array(expected), Value::Array(actual))
            | (Self::Set(expected), Value::Set(actual) | Value::Array(actual)) => {
                if let (Self::Set(_), Value::Array(_), Protocol::Resp3) = (self, value, protocol) {
                    return false;
                }
                if whole && actual.len() != expected.len() {
                    return false;
                }
                let mut left: Vec<&Value> = actual.iter().collect();
                expected.iter().all(|pattern| {
                    let found = left
                        .iter()
                        .position(|item| pattern.matches(item, protocol, bindings));
                    found.map(|index| left.swap_remove(index)).is_some()
                })
            }
            _ => false,
        }
    }
}

impl Kind {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Anything => true,
            Self::Int => matches!(value, Value::Int(_)),
            Self::Bulk => matches!(value, Value::Bulk(_)),
            Self::Array => matches!(value, Value::Array(_)),
            Self::Error => matches!(value, Value::Error(_)),
        }
    }
}

fn match_in_order(
    expected: &[Pattern],
    actual: &[Value],
    protocol: Protocol,
    bindings: &mut Bindings,
) -> bool {
    let (expected, open) = match expected {
        [head @ .., Pattern::Rest] => (head, true),
        all => (all, false),
    };
    let enough = if open {
        actual.len() >= expected.len()
    } else {
        actual.len() == expected.len()
    };
    enough
        && expected
            .iter()
            .zip(actual)
            .all(|(pattern, value)| pattern.matches(value, protocol, bindings))
}

fn pairs_of(value: &Value, protocol: Protocol) -> Option<Vec<(&Value, &Value)>> {
    match (value, protocol) {
        (Value::Map(pairs), Protocol::Resp3) => Some(pairs.iter().map(|(k, v)| (k, v)).collect()),
        (Value::Array(items), Protocol::Resp2) if items.len() % 2 == 0 => Some(
            items
                .chunks_exact(2)
                .map(|pair| (&pair[0], &pair[1]))
                .collect(),
        ),
        _ => None,
    }
}

fn text_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Simple(text)
        | Value::Error(text)
        | Value::Bulk(text)
        | Value::Double(text)
        | Value::Big(text)
        | Value::Verbatim(_, text) => Some(text),
        _ => None,
    }
}

/// `*` and `?` only: an expectation that needs more is too clever.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut g, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                retry = Some((g, t));
                g += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                g += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    g = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|&byte| byte == b'*')
}

/// The pattern that expects exactly `old` in RESP2 and `new` in RESP3, if one notation says both.
pub fn merge(old: &Value, new: &Value) -> Option<Pattern> {
    let all = |old: &[Value], new: &[Value]| -> Option<Vec<Pattern>> {
        if old.len() != new.len() {
            return None;
        }
        old.iter()
            .zip(new)
            .map(|(old, new)| merge(old, new))
            .collect()
    };
    match (old, new) {
        (Value::NullBulk, Value::Null) => Some(Pattern::Nil),
        (Value::NullArray, Value::Null) => Some(Pattern::NilArray),
        (Value::Array(a), Value::Array(b)) => Some(Pattern::Array(all(a, b)?)),
        (Value::Array(a), Value::Set(b)) => Some(Pattern::Set(all(a, b)?)),
        (Value::Array(a), Value::Push(b)) => Some(Pattern::Push(all(a, b)?)),
        (Value::Array(a), Value::Map(b)) if a.len() == b.len() * 2 => {
            let pairs = a.chunks_exact(2).zip(b);
            let merged: Option<Vec<_>> = pairs
                .map(|(a, b)| Some((merge(&a[0], &b.0)?, merge(&a[1], &b.1)?)))
                .collect();
            Some(Pattern::Map(merged?, false))
        }
        _ => {
            let pattern = exact(new);
            let mut bindings = Bindings::new();
            (pattern.matches(old, Protocol::Resp2, &mut bindings)
                && pattern.matches(new, Protocol::Resp3, &mut bindings))
            .then_some(pattern)
        }
    }
}

/// The pattern that expects exactly `value`.
pub fn exact(value: &Value) -> Pattern {
    let all = |items: &[Value]| items.iter().map(exact).collect();
    match value {
        Value::Simple(text) => Pattern::Simple(text.clone()),
        Value::Error(text) => Pattern::Error(text.clone()),
        Value::Int(n) => Pattern::Int(*n),
        Value::Bulk(text) => Pattern::Bulk(text.clone()),
        Value::NullBulk | Value::Null => Pattern::Nil,
        Value::NullArray => Pattern::NilArray,
        Value::Array(items) => Pattern::Array(all(items)),
        Value::Set(items) => Pattern::Set(all(items)),
        Value::Push(items) => Pattern::Push(all(items)),
        Value::Map(pairs) => Pattern::Map(
            pairs
                .iter()
                .map(|(key, value)| (exact(key), exact(value)))
                .collect(),
            false,
        ),
        Value::Double(text) => Pattern::Double(text.clone()),
        Value::Big(text) => Pattern::Big(text.clone()),
        Value::Bool(truth) => Pattern::Bool(*truth),
        Value::Verbatim(format, text) => Pattern::Verbatim(format.clone(), text.clone()),
    }
}

const LINE_WIDTH: usize = 96;

/// Prints a pattern as `parse` reads it, over several lines when it is long.
pub fn print(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Simple(text) if is_plain_line(text) => {
            format!("+{}", String::from_utf8_lossy(text))
        }
        Pattern::Error(text) if is_plain_line(text) => {
            format!("-{}", String::from_utf8_lossy(text))
        }
        _ => print_nested(pattern, 0),
    }
}

fn is_plain_line(text: &[u8]) -> bool {
    text.iter().all(|byte| (b' '..=b'~').contains(byte))
        && text
            .first()
            .is_some_and(|&byte| byte != b' ' && byte != b'"')
        && text.last() != Some(&b' ')
}

fn print_nested(pattern: &Pattern, indent: usize) -> String {
    let word = |text: &[u8]| {
        let plain = !text.is_empty()
            && text
                .iter()
                .all(|byte| byte.is_ascii_graphic() && !b"[]{}()\"".contains(byte));
        if plain {
            String::from_utf8_lossy(text).into_owned()
        } else {
            quoting::quote(text)
        }
    };
    match pattern {
        Pattern::Simple(text) => format!("+{}", word(text)),
        Pattern::Error(text) => format!("-{}", word(text)),
        Pattern::Int(n) => format!(":{n}"),
        Pattern::Bulk(text) => format!("${}", quoting::quote(text)),
        Pattern::Nil => "(nil)".into(),
        Pattern::NilArray => "(nil array)".into(),
        Pattern::Array(items) => print_list("[", items, "]", indent),
        Pattern::Set(items) => print_list("~[", items, "]", indent),
        Pattern::Push(items) => print_list("(push) [", items, "]", indent),
        Pattern::Map(pairs, open) => {
            let mut lines: Vec<String> = pairs
                .iter()
                .map(|(key, value)| {
                    format!(
                        "{} => {}",
                        print_nested(key, indent + 2),
                        print_nested(value, indent + 2)
                    )
                })
                .collect();
            if *open {
                lines.push("(rest)".into());
            }
            lay_out("%{", &lines, "}", indent)
        }
        Pattern::Double(text) => format!(",{}", String::from_utf8_lossy(text)),
        Pattern::Big(text) => format!("(big {})", String::from_utf8_lossy(text)),
        Pattern::Bool(true) => "#t".into(),
        Pattern::Bool(false) => "#f".into(),
        Pattern::Verbatim(format, text) => {
            format!(
                "={}:{}",
                String::from_utf8_lossy(format),
                quoting::quote(text)
            )
        }
        Pattern::Any(Kind::Anything) => "(any)".into(),
        Pattern::Any(kind) => format!("(any {})", format!("{kind:?}").to_lowercase()),
        Pattern::Range(low, high) => format!("(int {low}..{high})"),
        Pattern::Glob(glob) => format!("(match {})", quoting::quote(glob)),
        Pattern::Unordered(inner) => format!("(unordered) {}", print_nested(inner, indent)),
        Pattern::Contains(inner) => format!("(contains) {}", print_nested(inner, indent)),
        Pattern::Rest => "(rest)".into(),
        Pattern::Let(name, inner) => format!("(let {name} {})", print_nested(inner, indent)),
        Pattern::None => "(none)".into(),
        Pattern::Closed => "(closed)".into(),
    }
}

fn print_list(open: &str, items: &[Pattern], close: &str, indent: usize) -> String {
    let lines: Vec<String> = items
        .iter()
        .map(|item| print_nested(item, indent + 2))
        .collect();
    lay_out(open, &lines, close, indent)
}

fn lay_out(open: &str, items: &[String], close: &str, indent: usize) -> String {
    let width: usize = items.iter().map(|item| item.len() + 1).sum();
    if indent + width + open.len() + close.len() <= LINE_WIDTH
        && !items.iter().any(|item| item.contains('\n'))
    {
        return format!("{open}{}{close}", items.join(" "));
    }
    let margin = " ".repeat(indent + 2);
    let body: Vec<String> = items.iter().map(|item| format!("{margin}{item}")).collect();
    format!("{open}\n{}\n{}{close}", body.join("\n"), " ".repeat(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, value: &Value, protocol: Protocol, expected: bool) {
        let pattern = parse(text).unwrap();
        assert_eq!(
            pattern.matches(value, protocol, &mut Bindings::new()),
            expected,
            "{text} {value:?}"
        );
        assert_eq!(parse(&print(&pattern)).unwrap(), pattern, "{text}");
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn older_form_follows_from_the_newer() {
        let flat = Value::Array(vec![bulk("a"), Value::Int(1)]);
        let map = Value::Map(vec![(bulk("a"), Value::Int(1))]);
        check(r#"%{$"a" => :1}"#, &flat, Protocol::Resp2, true);
        check(r#"%{$"a" => :1}"#, &map, Protocol::Resp3, true);
        check(r#"%{$"a" => :1}"#, &flat, Protocol::Resp3, false);
        check(r"%{(rest)}", &map, Protocol::Resp3, true);
        check("(nil)", &Value::NullBulk, Protocol::Resp2, true);
        check("(nil)", &Value::NullArray, Protocol::Resp2, false);
        check("(nil array)", &Value::Null, Protocol::Resp3, true);
        check(",1.5", &bulk("1.5"), Protocol::Resp2, true);
        check(",1.5", &bulk("1.5"), Protocol::Resp3, false);
        check("#t", &Value::Int(1), Protocol::Resp2, true);
        assert_eq!(merge(&flat, &map), Some(parse(r#"%{$"a" => :1}"#).unwrap()));
        assert_eq!(merge(&flat, &flat), Some(parse(r#"[$"a" :1]"#).unwrap()));
        assert_eq!(merge(&Value::Int(1), &Value::Int(2)), None);
    }

    #[test]
    fn wildcards() {
        let items = Value::Array(vec![bulk("b"), bulk("a")]);
        check(r#"(unordered) [$"a" $"b"]"#, &items, Protocol::Resp2, true);
        check(r#"(unordered) [$"a"]"#, &items, Protocol::Resp2, false);
        check(r#"(contains) [$"a"]"#, &items, Protocol::Resp2, true);
        check(r#"[$"b" (rest)]"#, &items, Protocol::Resp2, true);
        check(r#"[$"b"]"#, &items, Protocol::Resp2, false);
        check("(int 1..3)", &Value::Int(3), Protocol::Resp2, true);
        check("(int 1..3)", &Value::Int(4), Protocol::Resp2, false);
        check("(any int)", &bulk("1"), Protocol::Resp2, false);
        check(r#"(match "a*c?")"#, &bulk("abbcd"), Protocol::Resp2, true);
        check(r#"(match "a*c?")"#, &bulk("abbc"), Protocol::Resp2, false);
        check(
            r#"[+OK -"ERR no" $"\x00\n"]"#,
            &Value::NullArray,
            Protocol::Resp2,
            false,
        );
    }

    #[test]
    fn parse_failures_are_errors() {
        for text in [
            "",
            "OK",
            ":x",
            "$abc",
            "[:1",
            "(int 1)",
            "(any thing)",
            ":1 :2",
            "%{:1}",
            "#x",
            "(nil x)",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
