//! Pattern matching never fails, and obeys laws that hold for all patterns.

use base::glob::{Case, matches};

/// The first byte says how many of the others are the pattern; the rest is text.
pub fn run(data: &[u8]) {
    let Some((size, rest)) = data.split_first() else {
        return;
    };
    let (pattern, text) = rest.split_at(usize::from(*size).min(rest.len()));
    let found = matches(pattern, text, Case::Sensitive);
    let _ = matches(pattern, text, Case::Insensitive);

    // A text with every byte escaped matches itself and nothing longer.
    let escaped: Vec<u8> = text.iter().flat_map(|byte| [b'\\', *byte]).collect();
    assert!(matches(&escaped, text, Case::Sensitive));
    assert!(!matches(&escaped, &[text, b"x"].concat(), Case::Sensitive));

    // A star in front allows any prefix.
    if found && !text.is_empty() {
        let starred = [b"*", pattern].concat();
        assert!(matches(&starred, text, Case::Sensitive));
        assert!(matches(
            &starred,
            &[pattern, text].concat(),
            Case::Sensitive
        ));
    }
}
