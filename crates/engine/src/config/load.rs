//! Reading configuration files and the command line's options, which are lines of the same kind.
//!
//! ```text
//! # comment
//! include /etc/pronghorn/*.conf
//! port 6379
//! client-output-buffer-limit pubsub 32mb 8mb 60
//! ```
//!
//! A later line replaces an earlier one, except where lines add up: client classes, renames.

use super::directive::Kind;
use super::value::{self, Value};
use super::{Config, ROWS, find, split_words};
use std::fmt;
use std::io;

/// Deepest nesting of `include`.
const INCLUDE_DEPTH_MAX: usize = 16;

/// What a configuration file can reach outside itself.
pub trait Surroundings {
    /// The bytes of a file.
    ///
    /// # Errors
    /// What the system says.
    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// Paths that match a pattern, in order. A path without special characters stands for itself.
    fn expand(&mut self, pattern: &[u8]) -> Vec<Vec<u8>>;
    /// Makes `path` the working directory; gives its absolute path.
    ///
    /// # Errors
    /// What the system says.
    fn enter(&mut self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// Is there a command of this name?
    fn is_command(&self, name: &str) -> bool;
}

/// A configuration that cannot be used; the start ends.
#[derive(Debug, PartialEq, Eq)]
pub enum FatalConfig {
    /// A line is wrong.
    Line {
        /// Counted from 1.
        number: usize,
        /// As read, without spaces around it.
        line: String,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read.
    File {
        /// Its path.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// Something else.
    Whole(String),
}

impl fmt::Display for FatalConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        let header = format!("\n*** FATAL CONFIG FILE ERROR (Pronghorn {version}) ***");
        match self {
            FatalConfig::Line {
                number,
                line,
                reason,
            } => write!(
                f,
                "{header}\nReading the configuration file, at line {number}\n>>> '{line}'\n{reason}"
            ),
            FatalConfig::File { path, reason } => {
                write!(f, "Fatal error, can't open config file '{path}': {reason}")
            }
            FatalConfig::Whole(reason) => write!(f, "{header}\n{reason}"),
        }
    }
}

impl std::error::Error for FatalConfig {}

/// The system's words for an error, without the path and the number.
pub fn system_reason(error: &io::Error) -> String {
    let mut innermost = error.to_string();
    let mut source: Option<&(dyn std::error::Error + 'static)> =
        error.get_ref().map(|inner| inner as _);
    while let Some(inner) = source {
        innermost = inner.to_string();
        source = inner.source();
    }
    match innermost.find(" (os error") {
        Some(end) => innermost[..end].to_owned(),
        None => innermost,
    }
}

impl Config {
    /// Reads the lines of `text`, and of files it includes.
    ///
    /// # Errors
    /// The first line that cannot be used. The configuration is then of no use either.
    pub fn load(
        &self,
        text: &[u8],
        surroundings: &mut dyn Surroundings,
    ) -> Result<(), FatalConfig> {
        self.load_nested(text, surroundings, 0)
    }

    fn load_nested(
        &self,
        text: &[u8],
        surroundings: &mut dyn Surroundings,
        depth: usize,
    ) -> Result<(), FatalConfig> {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let fatal = |reason: String| FatalConfig::Line {
                number: index + 1,
                line: String::from_utf8_lossy(line).into_owned(),
                reason,
            };
            let words = split_words(line)
                .ok_or_else(|| fatal("Unbalanced quotes in configuration line".to_owned()))?;
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            if words.is_empty() {
                continue;
            }
            if words[0].eq_ignore_ascii_case(b"include") && words.len() == 2 {
                if depth == INCLUDE_DEPTH_MAX {
                    return Err(fatal("Files include each other without end".to_owned()));
                }
                self.include(words[1], surroundings, depth)?;
            } else {
                self.load_line(&words, surroundings).map_err(fatal)?;
            }
        }
        Ok(())
    }

    fn include(
        &self,
        pattern: &[u8],
        surroundings: &mut dyn Surroundings,
        depth: usize,
    ) -> Result<(), FatalConfig> {
        for path in surroundings.expand(pattern) {
            let text = surroundings
                .read(&path)
                .map_err(|error| FatalConfig::File {
                    path: String::from_utf8_lossy(&path).into_owned(),
                    reason: system_reason(&error),
                })?;
            self.load_nested(&text, surroundings, depth + 1)?;
        }
        Ok(())
    }

    fn load_line(
        &self,
        words: &[&[u8]],
        surroundings: &mut dyn Surroundings,
    ) -> Result<(), String> {
        let name = words[0].to_ascii_lowercase();
        let Some(index) = find(&name) else {
            return self.load_special(&name, &words[1..], surroundings);
        };
        let row = &ROWS[index];
        if words.len() < 2 || (words.len() > 2 && !row.several_words) {
            return Err("wrong number of arguments".to_owned());
        }
        let value = self.checked(index, &words[1..])?;
        if row.kind == Kind::Directory {
            let path = surroundings
                .enter(words[1])
                .map_err(|error| system_reason(&error))?;
            self.note_directory(&path);
        } else {
            self.store(index, &value);
        }
        Ok(())
    }

    /// Lines that are not directives of the table.
    fn load_special(
        &self,
        name: &[u8],
        words: &[&[u8]],
        surroundings: &dyn Surroundings,
    ) -> Result<(), String> {
        let needs = |feature: &str| {
            let line = String::from_utf8_lossy(name).into_owned();
            Err(format!(
                "'{line}' needs {feature}, which this version does not have"
            ))
        };
        match (name, words) {
            (b"rename-command", [from, to]) => {
                let from = String::from_utf8_lossy(from).into_owned();
                let to = String::from_utf8_lossy(to).into_owned();
                let mut renames = self.renames.write();
                let renamed = |name: &str| {
                    renames.iter().rev().find_map(|(old, new)| {
                        if new.eq_ignore_ascii_case(name) {
                            Some(true)
                        } else {
                            old.eq_ignore_ascii_case(name).then_some(false)
                        }
                    })
                };
                let exists =
                    |name: &str| renamed(name).unwrap_or_else(|| surroundings.is_command(name));
                if !exists(&from) {
                    return Err("No such command in rename-command".to_owned());
                }
                if !to.is_empty() && exists(&to) {
                    return Err("Target command name already exists".to_owned());
                }
                renames.push((from, to));
                Ok(())
            }
            (b"user", [_, ..]) => needs("access control lists"),
            (b"loadmodule", [_, ..]) => needs("modules"),
            (b"sentinel", _) => needs("the Sentinel mode"),
            _ => Err("Bad directive or wrong number of arguments".to_owned()),
        }
    }

    /// Parses a value of the directive at `index` and refuses what this version cannot do.
    pub(super) fn checked(&self, index: usize, words: &[&[u8]]) -> Result<Value, String> {
        let row = &ROWS[index];
        let mut value = value::parse(row.kind, words, &self.value(index))?;
        if row.is_missing() && value != value::default(row.kind) {
            let given = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
            let given = if row.sensitive { "..." } else { &given };
            let (name, needs) = (row.name, row.needs);
            return Err(format!(
                "'{name} {given}' needs {needs}, which this version does not have"
            ));
        }
        refine(row.name, &mut value)?;
        Ok(value)
    }
}

/// What single directives refuse or change beyond their kind.
fn refine(name: &str, value: &mut Value) -> Result<(), String> {
    use super::shutdown_mask::{NOSAVE, SAVE};
    match (name, value) {
        ("hz", Value::Number(hz)) => *hz = (*hz).clamp(1, 500),
        ("shutdown-on-sigint" | "shutdown-on-sigterm", Value::Number(mask)) => {
            if *mask & SAVE != 0 && *mask & NOSAVE != 0 {
                let text = "shutdown options SAVE and NOSAVE can't be used simultaneously";
                return Err(text.to_owned());
            }
            if *mask & SAVE != 0 {
                return Err(format!(
                    "'{name} save' needs persistence, which this version does not have"
                ));
            }
        }
        ("supervised", Value::Number(0)) => {
            return Err("'supervised upstart' is not available: use 'systemd'".to_owned());
        }
        ("server_cpulist", Value::Text(text)) => {
            super::split::parse_cpus(&text.to_text())?;
        }
        _ => {}
    }
    Ok(())
}
