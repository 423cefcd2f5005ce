//! Words of a configuration line: quoting them, and lists of processors. They are split as those of
//! inline commands are.

/// Writes a word in double quotes such that [`split_words`](super::split_words) reads it back.
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
    use crate::config::split_words;

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
