//! Glob patterns as KEYS, SCAN, PSUBSCRIBE and CONFIG GET understand them.
//!
//! `*` any run of bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` classes, `\x` the byte itself. Bytes,
//! not characters. The corner cases are those of the original server: a class that is never closed
//! ends with the pattern, a reversed range is turned round, and a lone backslash at the end stands
//! for itself. No pattern but the empty one matches the empty text; commands for which a lone `*` means
//! everything (KEYS, SCAN) must test for that before they come here.
//!
//! Complexity: only the last `*` seen is ever retried (an earlier one could not match more), so
//! time is at most `pattern.len() * text.len()` whatever the pattern.

/// Whether letters differ by case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Sensitive,
    Insensitive,
}

/// Whether all of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let mut at = 0;
    let mut position = 0;
    // Where to resume after the last star: the pattern behind it, the text it has not yet eaten.
    let mut retry: Option<(usize, usize)> = None;
    while position < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            retry = Some((at, position));
            continue;
        }
        if let Some(next) = step(pattern, at, text[position], case) {
            at = next;
            position += 1;
            continue;
        }
        let Some((resume_at, eaten)) = retry else {
            return false;
        };
        at = resume_at;
        position = eaten + 1;
        retry = Some((resume_at, position));
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Matches one byte against the pattern element at `at`, which is not a star; gives where the next
/// element begins.
#[inline]
fn step(pattern: &[u8], at: usize, byte: u8, case: Case) -> Option<usize> {
    let literal = match *pattern.get(at)? {
        b'?' => return Some(at + 1),
        b'[' => return class(pattern, at + 1, byte, case),
        b'\\' if at + 1 < pattern.len() => at + 1,
        _ => at,
    };
    (fold(pattern[literal], case) == fold(byte, case)).then_some(literal + 1)
}

/// Matches one byte against the class whose first byte after `[` is at `at`.
fn class(pattern: &[u8], mut at: usize, byte: u8, case: Case) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let wanted = fold(byte, case);
    let mut found = false;
    while at < pattern.len() {
        match &pattern[at..] {
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                return (found != negated).then_some(at);
            }
            [first, b'-', last, ..] => {
                let low = fold(*first.min(last), case);
                let high = fold(*first.max(last), case);
                found |= (low..=high).contains(&wanted);
                at += 3;
            }
            [single, ..] => {
                found |= fold(*single, case) == wanted;
                at += 1;
            }
            [] => break,
        }
    }
    (found != negated).then_some(at)
}

#[inline]
fn fold(byte: u8, case: Case) -> u8 {
    match case {
        Case::Sensitive => byte,
        Case::Insensitive => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_from_a_table() {
        let table: &[(&[u8], &[u8], bool)] = &[
            (b"*", b"", false),
            (b"**", b"", false),
            (b"", b"", true),
            (b"", b"a", false),
            (b"h?llo", b"hello", true),
            (b"h?llo", b"hllo", false),
            (b"h[ae]llo", b"hallo", true),
            (b"h[^e]llo", b"hello", false),
            (b"h[a-b]llo", b"hbllo", true),
            (b"h[b-a]llo", b"hallo", true),
            (b"h[a", b"ha", true),
            (b"[", b"[", false),
            (b"[^", b"x", true),
            (b"[a-]", b"]", true),
            (b"[a-]x]", b"x", true),
            (b"[\\]]", b"]", true),
            (b"a\\*", b"a*", true),
            (b"a\\*", b"ab", false),
            (b"a\\", b"a\\", true),
            (b"*?", b"", false),
            (b"a**b", b"ab", true),
            (b"*a*b", b"xaxxb", true),
            (b"*ab", b"aab", true),
        ];
        for &(pattern, text, expected) in table {
            assert_eq!(
                matches(pattern, text, Case::Sensitive),
                expected,
                "{:?} against {:?}",
                String::from_utf8_lossy(pattern),
                String::from_utf8_lossy(text)
            );
        }
        assert!(matches(b"MAX[M-P]*", b"maxmemory", Case::Insensitive));
        assert!(!matches(b"MAX*", b"maxmemory", Case::Sensitive));
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = b"*a".repeat(2_000);
        let text = vec![b'a'; 1_999];
        assert!(!matches(&pattern, &text, Case::Sensitive));
        let mut hard = b"a*".repeat(2_000);
        hard.push(b'b');
        assert!(!matches(&hard, &vec![b'a'; 10_000], Case::Sensitive));
    }
}
