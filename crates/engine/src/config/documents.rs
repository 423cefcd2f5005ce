//! What the table says to people: the commented example file and the reference.

use super::ROWS;
use super::directive::{Change, Chapter, Directive, Kind};
use super::value;

/// Breaks a text into lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn rows(chapter: Chapter) -> impl Iterator<Item = &'static Directive> {
    ROWS.iter()
        .filter(move |row| row.chapter == chapter && !row.hidden)
}

/// The default as a line of a file.
fn default_words(row: &Directive) -> String {
    let shown = value::format(row.kind, &value::default(row.kind)).to_text();
    if shown.is_empty() || matches!(row.kind, Kind::Title(_)) {
        format!("\"{shown}\"")
    } else {
        shown
    }
}

/// What may be written, for people.
fn values(row: &Directive) -> String {
    match row.kind {
        Kind::Bool(_) => "`yes`, `no`".to_owned(),
        Kind::Integer { min, max, .. } => match (min, max) {
            (min, i64::MAX) => format!("integer from {min}"),
            (min, max) => format!("integer from {min} to {max}"),
        },
        Kind::Memory { min, percent, .. } => {
            let percent = if percent { " or a percentage" } else { "" };
            format!("bytes from {}{percent}", value::format_memory(min))
        }
        Kind::Octal { max, .. } => format!("octal up to {max:o}"),
        Kind::Choice { choices, many, .. } => {
            let list: Vec<String> = choices.iter().map(|word| format!("`{word}`")).collect();
            format!("{}{}", if many { "any of " } else { "" }, list.join(", "))
        }
        Kind::Text(_) => "text".to_owned(),
        Kind::Directory => "path".to_owned(),
        Kind::Addresses(_) => "addresses".to_owned(),
        Kind::OutputLimits => "class, bytes, bytes, seconds".to_owned(),
        Kind::Percentiles(_) => "numbers from 0 to 100".to_owned(),
        Kind::OomScores(_) => "three numbers from -2000 to 2000".to_owned(),
        Kind::SavePoints => "seconds and changes".to_owned(),
        Kind::Events => "characters".to_owned(),
        Kind::Title(_) => "template".to_owned(),
        Kind::Primary => "host and port".to_owned(),
    }
}

/// A configuration file that sets nothing and shows everything.
pub fn example_file() -> String {
    let mut text = vec![String::from(
        "# Configuration of Pronghorn.\n\
         #\n\
         # Start with it: pronghorn /path/to/pronghorn.conf\n\
         #\n\
         # Each line is a directive and its value; every default is shown and commented out.\n\
         # Values with spaces stand in quotes. Bytes take units: 1k is 1000, 1kb is 1024, likewise\n\
         # m, mb, g, gb. A later line replaces an earlier one; options of the command line\n\
         # (--port 7777) replace the file.\n\
         #\n\
         # include /etc/pronghorn/conf.d/*.conf\n\
         # rename-command FLUSHALL \"\"\n",
    )];
    for chapter in Chapter::ALL
        .iter()
        .filter(|chapter| **chapter != Chapter::Missing)
    {
        text.push(format!("\n######## {} ########\n", chapter.title()));
        for row in rows(*chapter) {
            text.push("\n".to_owned());
            for line in wrap(row.doc, 96) {
                text.push(format!("# {}\n", line.replace('`', "")));
            }
            if row.kind == Kind::OutputLimits {
                for class in [
                    "normal 0 0 0",
                    "replica 256mb 64mb 60",
                    "pubsub 32mb 8mb 60",
                ] {
                    text.push(format!("# {} {class}\n", row.name));
                }
            } else if row.kind == Kind::Directory {
                text.push("# dir ./\n".to_owned());
            } else {
                text.push(format!("# {} {}\n", row.name, default_words(row)));
            }
        }
    }
    text.concat()
}

/// The reference of all directives, in Markdown.
pub fn reference() -> String {
    let mut text = vec![String::from(
        "# Configuration\n\n\
         Made from the table of directives; `pronghorn --print-config-docs` prints it.\n\n\
         A directive stands on a line of a configuration file (`port 7777`), on the command line\n\
         (`--port 7777`), or in `CONFIG SET port 7777` where it says *at any time*. `CONFIG GET`\n\
         shows it and `CONFIG REWRITE` writes it back into the file. Bytes take units: `1k` is\n\
         1000, `1kb` is 1024, likewise `m`, `mb`, `g`, `gb`.\n\n\
         Files also take `include` with a path or a pattern, and `rename-command` with a command\n\
         and its new name, or `\"\"` to remove it. An unknown directive or a bad value stops the\n\
         start and names the line.\n",
    )];
    for chapter in Chapter::ALL
        .iter()
        .filter(|chapter| **chapter != Chapter::Missing)
    {
        text.push(format!("\n## {}\n", chapter.title()));
        for row in rows(*chapter) {
            let change = match row.change {
                Change::Live => "at any time",
                Change::Protected => "at any time where `enable-protected-configs` allows it",
                Change::Start => "at start only",
            };
            text.push(format!(
                "\n### {}\n\n{}\n\n",
                row.name,
                wrap(row.doc, 100).join("\n")
            ));
            text.push(format!("- Values: {}.\n", values(row)));
            if row.kind != Kind::Directory {
                text.push(format!("- Default: `{}`\n", default_words(row)));
            }
            text.push(format!("- Changes: {change}.\n"));
            if !row.alias.is_empty() {
                text.push(format!("- Also called `{}`.\n", row.alias));
            }
        }
    }
    text.push(format!("\n## {}\n\n", Chapter::Missing.title()));
    text.push(
        "Known, so that files made for Redis work, but only with the value below: it is the one\n\
         that means \"off\" or says nothing. Any other value is refused, naming what is missing.\n\n\
         | directive | accepted | belongs to |\n|---|---|---|\n"
            .to_owned(),
    );
    for row in rows(Chapter::Missing) {
        let alias = if row.alias.is_empty() {
            String::new()
        } else {
            format!(", `{}`", row.alias)
        };
        text.push(format!(
            "| `{}`{alias} | `{}` | {} |\n",
            row.name,
            default_words(row),
            row.needs
        ));
    }
    text.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_reference() {
        let text = reference();
        for row in ROWS.iter().filter(|row| !row.hidden) {
            let heading = format!("### {}\n", row.name);
            let cell = format!("| `{}`", row.name);
            assert!(
                text.contains(&heading) || text.contains(&cell),
                "{}",
                row.name
            );
        }
    }
}
