//! Words of a line with quotes: inline commands, configuration lines.
//!
//! `"..."` knows `\n \r \t \b \a \xHH` and `\` before any other character; `'...'` knows `\'` only.
//! A closing quote is followed by white space or the end. A zero byte is the end, and inside quotes
//! it makes them unbalanced.

use crate::request::{ends_word, is_space};

/// Splits a line into words. `None` if quotes are unbalanced.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if matches!(line.get(at), None | Some(0)) {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match line.get(at) {
                None => break,
                Some(byte) if ends_word(*byte) => break,
                // A closing quote ends the word.
                Some(b'"') => {
                    at = double_quoted(line, at + 1, &mut word)?;
                    break;
                }
                Some(b'\'') => {
                    at = single_quoted(line, at + 1, &mut word)?;
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

/// The words as a multibulk request; an empty line as an empty one.
pub fn to_multibulk(words: &[Vec<u8>]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

fn closed(line: &[u8], at: usize) -> Option<usize> {
    line.get(at)
        .is_none_or(|byte| is_space(*byte) || *byte == 0)
        .then_some(at)
}

fn double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'"' => return closed(line, at + 1),
            b'\\' => {
                let hex = |at: usize| line.get(at).and_then(|byte| (*byte as char).to_digit(16));
                if line.get(at + 1) == Some(&b'x')
                    && let (Some(high), Some(low)) = (hex(at + 2), hex(at + 3))
                {
                    word.push((high * 16 + low) as u8);
                    at += 4;
                    continue;
                }
                word.push(match *line.get(at + 1)? {
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

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_and_quotes() {
        let words = |line: &str| {
            split(line.as_bytes()).map(|words| {
                words
                    .iter()
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(words("a  b\tc").unwrap(), ["a", "b", "c"]);
        assert_eq!(words(r#"set "a b" 'c d'"#).unwrap(), ["set", "a b", "c d"]);
        assert_eq!(words(r#""\x41\n\q" '\'\n'"#).unwrap(), ["A\nq", "'\\n"]);
        assert_eq!(words(r#""" ''"#).unwrap(), ["", ""]);
        assert_eq!(words(r#"a"b c""#).unwrap(), ["ab c"]);
        assert_eq!(words(r#""a"b"#), None);
        assert_eq!(words(r#""a"#), None);
        assert_eq!(words("'a"), None);
        assert_eq!(words("").unwrap(), Vec::<String>::new());
    }
}
