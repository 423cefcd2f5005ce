//! All directives, one row each.

mod clients;
mod missing;
mod network;
mod observation;
mod process;

use super::directive::Directive;

/// The tables; a directive's number is its position in all of them together.
const TABLES: [&[Directive]; 5] = [
    network::ROWS,
    process::ROWS,
    clients::ROWS,
    observation::ROWS,
    missing::ROWS,
];

/// Number of directives.
pub(super) const COUNT: usize = {
    let mut count = 0;
    let mut table = 0;
    while table < TABLES.len() {
        count += TABLES[table].len();
        table += 1;
    }
    count
};

/// The rows.
pub static ROWS: [Directive; COUNT] = {
    let mut rows = [TABLES[0][0]; COUNT];
    let mut at = 0;
    let mut table = 0;
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            rows[at] = TABLES[table][row];
            at += 1;
            row += 1;
        }
        table += 1;
    }
    rows
};

const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Number of the directive called `name`, for constants: does not compile if there is none.
pub(super) const fn number_of(name: &str) -> usize {
    let mut at = 0;
    let mut table = 0;
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            if same(TABLES[table][row].name, name) {
                return at;
            }
            at += 1;
            row += 1;
        }
        table += 1;
    }
    panic!("no directive of this name")
}

/// Position of a directive by any of its names, in any case.
pub fn find(name: &[u8]) -> Option<usize> {
    ROWS.iter().position(|row| {
        name.eq_ignore_ascii_case(row.name.as_bytes())
            || (!row.alias.is_empty() && name.eq_ignore_ascii_case(row.alias.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::directive::Chapter;

    #[test]
    fn rows_are_well_formed() {
        let mut names = std::collections::HashSet::new();
        for row in &ROWS {
            for name in [row.name, row.alias] {
                assert!(name.is_empty() || names.insert(name), "{name} stands twice");
                assert_eq!(name, name.to_ascii_lowercase());
            }
            assert_eq!(
                row.is_missing(),
                row.doc.is_empty(),
                "{}: documented",
                row.name
            );
            assert_eq!(
                row.is_missing(),
                row.chapter == Chapter::Missing,
                "{}",
                row.name
            );
            assert!(
                row.doc.is_empty() || row.doc.ends_with('.'),
                "{}: a sentence",
                row.name
            );
        }
    }

    #[test]
    fn rows_are_found_by_each_name() {
        assert_eq!(find(b"PORT"), Some(number_of("port")));
        assert_eq!(find(b"slaveof"), find(b"replicaof"));
        assert_eq!(find(b"rename-command"), None);
        assert_eq!(find(b""), None);
    }
}
