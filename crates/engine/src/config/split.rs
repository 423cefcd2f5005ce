//! Words of a configuration line: splitting with quotes, and quoting.

/// Splits a line into words. `"..."` knows `\n \r \t \b \a \xHH` and `\` before any other byte;
/// `'...'` knows only `\'`. A closing quote must be followed by a space or the end. None if the
/// quotes are not balanced.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if at == line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match line.get(at) {
                None => break,
                Some(b'"') => {
                    at = double_quoted(line, at + 1, &mut word)?;
                    break;
                }
                Some(b'\'') => {
                    at = single_quoted(line, at + 1, &mut word)?;
                    break;
                }
                Some(byte) if is_space(*byte) || *byte == 0 => {
                    at += 1;
                    break;
                }
                Some(byte) => {
                    word.push(*byte);
                    at += 1;
                }
            }
        }
        words.push(word);
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Reads up to the closing quote; gives the position behind it.
fn double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'"' => return closed(line, at + 1),
            b'\\' => {
                let escaped = *line.get(at + 1)?;
                let hex = line.get(at + 2..at + 4).and_then(|digits| {
                    let text = std::str::from_utf8(digits).ok()?;
                    let plain = digits.iter().all(u8::is_ascii_hexdigit);
                    plain.then(|| u8::from_str_radix(text, 16).ok())?
                });
                if let (b'x', Some(byte)) = (escaped, hex) {
                    word.push(byte);
                    at += 4;
                    continue;
                }
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'\'' => return closed(line, at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn closed(line: &[u8], at: usize) -> Option<usize> {
    line.get(at)
        .is_none_or(|byte| is_space(*byte))
        .then_some(at)
}

/// Writes a word in double quotes such that [`split_words`] reads it back.
pub fn quote(word: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for &byte in word {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            7 => quoted.push_str("\\a"),
            8 => quoted.push_str("\\b"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => {
                quoted.push_str("\\x");
                for digit in [byte >> 4, byte & 15] {
                    quoted.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Cores from a list such as `0,2-5,8-14:2`. Empty text is an empty list.
pub(super) fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
    const CPU_MAX: usize = 4096;
    let mut cpus = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let refusal = || format!("'{part}' is no core or range of cores");
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |word: &str| word.parse::<usize>().map_err(|_| refusal());
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        if first > last || last >= CPU_MAX || step == 0 {
            return Err(refusal());
        }
        cpus.extend((first..=last).step_by(step));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let words = split_words(line.as_bytes());
        let expected =
            expected.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
        assert_eq!(words, expected, "{line}");
    }

    #[test]
    fn words_and_quotes() {
        check("", Some(&[]));
        check("  port\t6379 ", Some(&["port", "6379"]));
        check(r#"save """#, Some(&["save", ""]));
        check(r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"]));
        check(r#"a "\x41\n\"\q""#, Some(&["a", "A\n\"q"]));
        check(r"a '\n\''", Some(&["a", r"\n'"]));
        check(r#"a "b"#, None);
        check(r#"a "b"c"#, None);
        check(r#"ab"c d" e"#, Some(&["abc d", "e"]));
        check(r#"a "\"#, None);
    }

    #[test]
    fn a_quoted_word_is_read_back() {
        let word: Vec<u8> = (0..=255).collect();
        assert_eq!(split_words(quote(&word).as_bytes()), Some(vec![word]));
    }

    #[test]
    fn cores() {
        assert_eq!(parse_cpus(""), Ok(vec![]));
        assert_eq!(parse_cpus("0,2-4,8-14:3"), Ok(vec![0, 2, 3, 4, 8, 11, 14]));
        for bad in ["a", "3-1", "1-", "0-4:0", "99999"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }
}
