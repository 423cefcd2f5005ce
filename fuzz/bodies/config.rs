//! A configuration text is refused with a reason, or means the same after it has been rewritten.

use engine::config::{Config, FatalConfig, ROWS, Surroundings, quote, split_words};
use std::io;

/// A machine without files, where every directory exists.
struct Bare;

impl Surroundings for Bare {
    fn read(&mut self, _: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn expand(&mut self, _: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn enter(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(path.to_vec())
    }

    fn is_command(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case("get") || name.eq_ignore_ascii_case("set")
    }
}

/// The bytes are a configuration text.
pub fn run(data: &[u8]) {
    if let Some(words) = split_words(data) {
        let line: Vec<String> = words.iter().map(|word| quote(word)).collect();
        assert_eq!(split_words(line.join(" ").as_bytes()), Some(words));
    }

    let config = Config::new();
    if let Err(error) = config.load(data, &mut Bare) {
        assert!(!error.to_string().is_empty());
        if let FatalConfig::Line { number, .. } = error {
            assert!(number >= 1 && number <= data.split(|byte| *byte == b'\n').count());
        }
        return;
    }
    let old = String::from_utf8_lossy(data);
    let new = config.rewritten(&old);
    let again = Config::new();
    again
        .load(new.as_bytes(), &mut Bare)
        .expect("what was written can be read");
    for (index, row) in ROWS.iter().enumerate() {
        assert_eq!(again.shown(index), config.shown(index), "{}", row.name);
    }
    assert_eq!(again.rewritten(&new), new);

    // CONFIG SET refuses with a reason or leaves what CONFIG GET shows, which it takes again.
    for row in &ROWS {
        if config
            .set_many(&[(row.name.as_bytes(), data)], true)
            .is_ok()
        {
            let [(_, shown)] = &config.get_matching(&[row.name.as_bytes()])[..] else {
                panic!("{} is one directive", row.name);
            };
            assert_eq!(
                config.set_many(&[(row.name.as_bytes(), shown)], true),
                Ok(())
            );
            let after = config.get_matching(&[row.name.as_bytes()]);
            assert_eq!(&after[0].1, shown, "{}", row.name);
        }
    }
}
