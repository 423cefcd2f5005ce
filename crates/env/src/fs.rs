//! Files: whole reads, atomic replacement, appending.
//!
//! Every error says what was attempted on which path; its kind and, through `source`, the original
//! error stay available.

pub use std::fs::File;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What was attempted, where, and what the system said.
#[derive(Debug)]
struct PathError {
    attempt: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "cannot {} {}: {}",
            self.attempt,
            self.path.display(),
            self.source
        )
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

fn explain(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |source| {
        io::Error::new(
            source.kind(),
            PathError {
                attempt,
                path: path.to_owned(),
                source,
            },
        )
    }
}

/// The whole file.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    fs::read(path).map_err(explain("read", path))
}

/// Opens for reading.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn open_read(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    File::open(path).map_err(explain("open", path))
}

/// Opens for appending, making the file if it is not there.
pub fn open_append(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(explain("open for appending", path))
}

/// Makes an empty file for writing, emptying it if it is there.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    File::create(path).map_err(explain("create", path))
}

/// Replaces a file as a whole: after a crash at any moment either the old or the new content is
/// there. On return the new one is durable, the directory entry included.
pub fn write_atomic(path: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, content).and_then(|()| rename_durable(&temporary, path));
    if written.is_err() {
        // The first error is the one to report; a leftover temporary file harms nobody.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(explain("write", path))
}

/// A name in the same directory that no other call uses.
pub fn temporary_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!("temp-{}-{number}.tmp", std::process::id()))
}

/// Renames within a file system and makes the new directory entry durable.
pub fn rename_durable(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to).map_err(explain("rename into place", to))?;
    sync_directory_of(to)
}

/// Makes entries of the directory that holds `path` durable.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(explain("sync directory", directory))
}

/// Removes a file; not being there is an error of kind `NotFound`.
pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    fs::remove_file(path).map_err(explain("remove", path))
}

/// Whether something is there. Not being allowed to look is an error, not a no.
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    path.try_exists().map_err(explain("look at", path))
}

/// Size of a file in bytes.
pub fn size(path: impl AsRef<Path>) -> io::Result<u64> {
    let path = path.as_ref();
    fs::metadata(path)
        .map(|data| data.len())
        .map_err(explain("look at", path))
}

/// Makes a directory, and those above it, unless they are there.
pub fn create_directories(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    fs::create_dir_all(path).map_err(explain("create directory", path))
}

/// Names in a directory, in no order.
pub fn list(path: impl AsRef<Path>) -> io::Result<Vec<std::ffi::OsString>> {
    let path = path.as_ref();
    fs::read_dir(path)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect()
        })
        .map_err(explain("list", path))
}

/// Changes the working directory of the process.
pub fn set_current_directory(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    std::env::set_current_dir(path).map_err(explain("change to directory", path))
}

/// The working directory of the process.
pub fn current_directory() -> io::Result<PathBuf> {
    std::env::current_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_appended_and_removed() {
        let directory = std::env::temp_dir().join(format!("env-fs-{}", std::process::id()));
        create_directories(&directory).unwrap();
        let path = directory.join("data");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"two").unwrap();
        open_append(&path).unwrap().write_all(b"+").unwrap();
        assert_eq!(read(&path).unwrap(), b"two+");
        assert_eq!(size(&path).unwrap(), 4);
        assert_eq!(list(&directory).unwrap(), ["data"]);
        remove(&path).unwrap();
        assert!(!exists(&path).unwrap());
        let error = remove(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("data"), "{error}");
        fs::remove_dir(&directory).unwrap();
        assert!(write_atomic(&path, b"x").is_err());
    }
}
