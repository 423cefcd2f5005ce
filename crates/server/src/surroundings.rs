//! Files, patterns and directories for the configuration, from the real system.

use engine::config::Surroundings;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The system as it is, and the commands of this build.
#[derive(Debug)]
pub(crate) struct RealSurroundings;

impl Surroundings for RealSurroundings {
    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        env::fs::read(OsStr::from_bytes(path))
    }

    fn expand(&mut self, pattern: &[u8]) -> Vec<Vec<u8>> {
        if !is_pattern(pattern) {
            return vec![pattern.to_vec()];
        }
        let mut paths = Vec::new();
        let start = if pattern.starts_with(b"/") {
            PathBuf::from("/")
        } else {
            PathBuf::new()
        };
        let parts: Vec<&[u8]> = pattern
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
            .collect();
        expand_from(&start, &parts, &mut paths);
        paths
            .into_iter()
            .map(|path| path.into_os_string().into_vec())
            .collect()
    }

    fn enter(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        env::fs::set_current_directory(OsStr::from_bytes(path))?;
        Ok(env::fs::current_directory()?.into_os_string().into_vec())
    }

    fn is_command(&self, name: &str) -> bool {
        commands::TABLES
            .iter()
            .copied()
            .flatten()
            .any(|command| command.name.eq_ignore_ascii_case(name))
    }
}

fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[".contains(byte))
}

/// Adds the existing paths below `base` that match the parts, in alphabetical order. Names that
/// start with a dot match only patterns that do.
fn expand_from(base: &Path, parts: &[&[u8]], paths: &mut Vec<PathBuf>) {
    let [part, rest @ ..] = parts else {
        paths.push(base.to_owned());
        return;
    };
    if !is_pattern(part) {
        let next = base.join(OsStr::from_bytes(part));
        if env::fs::exists(&next).unwrap_or(false) {
            expand_from(&next, rest, paths);
        }
        return;
    }
    let directory = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    // A directory that cannot be listed has no matches, as for the shell.
    let mut names = env::fs::list(directory).unwrap_or_default();
    names.sort();
    for name in names {
        let bytes = name.as_bytes();
        let hidden = bytes.starts_with(b".") && !part.starts_with(b".");
        if !hidden && base::glob::matches(part, bytes, base::glob::Case::Sensitive) {
            expand_from(&base.join(&name), rest, paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_find_files_in_order() {
        let directory = std::env::temp_dir().join(format!("pronghorn-glob-{}", env::process::id()));
        env::fs::create_directories(directory.join("x")).unwrap();
        for name in ["b.conf", "a.conf", ".c.conf", "d.txt", "x/e.conf"] {
            env::fs::write_atomic(directory.join(name), b"").unwrap();
        }
        let expand = |pattern: &str| -> Vec<String> {
            let pattern = format!("{}/{pattern}", directory.display());
            let found = RealSurroundings.expand(pattern.as_bytes());
            let prefix = directory.display().to_string().len() + 1;
            found
                .iter()
                .map(|path| String::from_utf8_lossy(&path[prefix..]).into_owned())
                .collect()
        };
        assert_eq!(expand("*.conf"), ["a.conf", "b.conf"]);
        assert_eq!(expand("*/e.conf"), ["x/e.conf"]);
        assert_eq!(expand("nothing*"), Vec::<String>::new());
        assert_eq!(expand("missing.conf"), ["missing.conf"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
