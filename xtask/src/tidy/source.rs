//! A Rust file prepared for scanning: comments and texts blanked, test items left out.
//!
//! This is a scanner, not a parser: it knows enough of the language to tell code from comments,
//! strings and characters, and to match braces. Offsets and lines stay what they were.

/// A Rust file.
#[derive(Debug)]
pub(super) struct Source {
    /// Path from the root.
    pub path: String,
    /// The file as it is.
    pub text: String,
    /// The same length, with comments, strings and items under `cfg(test)` as blanks.
    pub code: String,
    /// Lines of items under `cfg(test)`.
    test_lines: usize,
    /// Whether all of it is test code.
    pub is_test: bool,
}

/// A function and its size.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let is_test = ["/tests/", "/benches/", "/examples/"]
            .iter()
            .any(|part| path.contains(part))
            || [
                "tests.rs",
                "_test.rs",
                "_tests.rs",
                "_model.rs",
                "stress.rs",
            ]
            .iter()
            .any(|end| path.ends_with(end));
        let mut code = blank_texts(text.as_bytes());
        let test_lines = blank_test_items(&mut code);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: String::from_utf8(code).unwrap_or_default(),
            test_lines,
            is_test,
        }
    }

    /// Line number, from 1, of a byte offset.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.code.as_bytes()[..offset]
            .split(|&byte| byte == b'\n')
            .count()
    }

    /// How many lines are not under `cfg(test)`, comments included.
    pub(super) fn lines_outside_tests(&self) -> usize {
        self.text.lines().count() - self.test_lines
    }

    /// Offsets at which `word` stands alone in the code.
    pub(super) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let bytes = self.code.as_bytes();
        let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        self.code
            .match_indices(word)
            .map(|(offset, _)| offset)
            .filter(move |&offset| {
                let before = offset.checked_sub(1).map(|index| bytes[index]);
                let after = bytes.get(offset + word.len()).copied();
                !before.is_some_and(part) && !after.is_some_and(part)
            })
    }

    /// Functions with a body, outside tests.
    pub(super) fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut functions = Vec::new();
        for offset in self.words("fn") {
            let rest = self.code[offset + 2..].trim_start();
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if name.is_empty() {
                continue;
            }
            // The body opens at the first brace outside brackets; a semicolon means there is none.
            let mut depth = 0;
            let open = bytes[offset..].iter().position(|&byte| {
                match byte {
                    b'(' | b'[' => depth += 1,
                    b')' | b']' => depth -= 1,
                    _ => {}
                }
                depth == 0 && (byte == b'{' || byte == b';')
            });
            let Some(open) = open
                .map(|open| offset + open)
                .filter(|&open| bytes[open] == b'{')
            else {
                continue;
            };
            let line = self.line_of(offset);
            let lines = self.line_of(closing_brace(bytes, open)) - line + 1;
            functions.push(Function { name, line, lines });
        }
        functions
    }
}

/// Offset of the brace that closes the one at `open`, or of the last byte.
fn closing_brace(code: &[u8], open: usize) -> usize {
    let mut depth = 0;
    for (offset, &byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return offset;
        }
    }
    code.len().saturating_sub(1)
}

fn blank(code: &mut [u8]) {
    for byte in code {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn blank_texts(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let end = match text[at] {
            b'/' if text[at..].starts_with(b"//") => end_of_line(text, at),
            b'/' if text[at..].starts_with(b"/*") => end_of_block_comment(text, at),
            b'"' => end_of_string(text, at),
            b'r' if starts_raw_string(text, at) => end_of_raw_string(text, at),
            b'\'' => end_of_character(text, at),
            _ => at,
        };
        if end == at {
            at += 1;
        } else {
            blank(&mut code[at..end]);
            at = end;
        }
    }
    code
}

fn end_of_line(text: &[u8], at: usize) -> usize {
    text[at..]
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(text.len(), |length| at + length)
}

fn end_of_block_comment(text: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn starts_raw_string(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|index| text[index]);
    let part_of_word = before.is_some_and(|byte| {
        (byte.is_ascii_alphanumeric() && byte != b'b' && byte != b'c') || byte == b'_'
    });
    let hashes = text[at + 1..]
        .iter()
        .take_while(|&&byte| byte == b'#')
        .count();
    !part_of_word && text.get(at + 1 + hashes) == Some(&b'"')
}

fn end_of_raw_string(text: &[u8], at: usize) -> usize {
    let hashes = text[at + 1..]
        .iter()
        .take_while(|&&byte| byte == b'#')
        .count();
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = at + hashes + 2;
    let found = text[body..]
        .windows(close.len())
        .position(|window| window == close);
    found.map_or(text.len(), |length| body + length + close.len())
}

/// A character literal ends at its quote; a lifetime is no literal and ends where it starts.
fn end_of_character(text: &[u8], at: usize) -> usize {
    if text.get(at + 1) == Some(&b'\\') {
        let close = text[at + 3..].iter().position(|&byte| byte == b'\'');
        return close.map_or(text.len(), |length| at + 4 + length);
    }
    // One character of up to four bytes, then the quote.
    let close = (2..=5).find(|&length| text.get(at + length) == Some(&b'\''));
    match close {
        Some(length) if length == 2 || text[at + 1] >= 0x80 => at + length + 1,
        _ => at,
    }
}

/// End of the item, or of the field with its comma, that begins at `start`.
fn end_of_item(code: &[u8], start: usize) -> usize {
    let mut depth = 0;
    for at in start..code.len() {
        match code[at] {
            b'(' | b'[' | b'<' => depth += 1,
            b'>' if code[at - 1] == b'-' || code[at - 1] == b'=' => {}
            b')' | b']' | b'>' => depth -= 1,
            b'{' => return closing_brace(code, at) + 1,
            b';' => return at + 1,
            b',' if depth <= 0 => return at + 1,
            b'}' => return at,
            _ => {}
        }
    }
    code.len()
}

/// Returns the lines they took.
fn blank_test_items(code: &mut [u8]) -> usize {
    let mut lines = 0;
    let marks = [
        "#[cfg(test)]",
        "#[cfg(all(test",
        "#[cfg(loom)]",
        "#[cfg(all(loom",
    ];
    for mark in marks {
        let mut from = 0;
        while let Some(found) = code[from..]
            .windows(mark.len())
            .position(|w| w == mark.as_bytes())
        {
            let start = from + found;
            let end = end_of_item(code, start + mark.len());
            lines += code[start..end].split(|&byte| byte == b'\n').count();
            blank(&mut code[start..end]);
            from = end;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"//! Header with unsafe { } in it.

fn first<'a>(x: &'a str) -> char {
    let _ = "} unsafe {";
    let _ = r#"" } "#;
    /* { /* nested */ { */
    '{'
}

fn declared();

fn second(array: [u8; 2]) {
    let _ = ('\'', '\u{7f}', 'é', b'}');
}

#[cfg(test)]
mod tests {
    fn hidden() { unsafe {} }
}
"##;

    #[test]
    fn code_is_told_from_texts() {
        let source = Source::new("crates/x/src/y.rs", TEXT);
        assert_eq!(source.code.len(), TEXT.len());
        assert_eq!(source.words("unsafe").count(), 0);
        let functions = source.functions();
        let sizes: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.lines))
            .collect();
        assert_eq!(sizes, [("first", 3, 6), ("second", 12, 3)]);
        assert_eq!(source.lines_outside_tests(), 15);
    }

    #[test]
    fn a_field_ends_at_its_comma() {
        let text =
            "fn new() -> Self {\n Self {\n #[cfg(loom)]\n a: 1,\n b: 2,\n }\n}\n\nfn other() {}\n";
        let functions = Source::new("x.rs", text).functions();
        let sizes: Vec<_> = functions.iter().map(|f| f.lines).collect();
        assert_eq!(sizes, [7, 1]);
    }

    #[test]
    fn words_stand_alone() {
        let source = Source::new("x.rs", "unsafe_code; my_unsafe; unsafe {}");
        assert_eq!(source.words("unsafe").collect::<Vec<_>>(), [24]);
    }
}
