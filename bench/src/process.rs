//! What the kernel knows about a server process: CPU time and memory, from `/proc`.

use std::io;
use std::path::PathBuf;

use crate::sys;

/// Nanoseconds of CPU time all threads of `pid` have used: the sum of the first field of
/// `/proc/PID/task/*/schedstat`, kernel and user mode together.
pub(crate) fn cpu_ns(pid: u32) -> io::Result<u64> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between listing and reading; its time is lost to us.
        if let Ok(text) = sys::read_text(&task?.path().join("schedstat")) {
            total += first_number(&text).ok_or(io::ErrorKind::InvalidData)?;
        }
    }
    Ok(total)
}

/// Bytes of resident memory of `pid` (`VmRSS`).
pub(crate) fn rss_bytes(pid: u32) -> io::Result<u64> {
    let text = sys::read_text(&PathBuf::from(format!("/proc/{pid}/status")))?;
    status_kib(&text, "VmRSS:")
        .map(|kib| kib * 1024)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The one-minute load average, to say beside a result how quiet the machine was.
pub(crate) fn load_average() -> Option<f64> {
    let text = sys::read_text(&PathBuf::from("/proc/loadavg")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

fn status_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    first_number(&line[field.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let status = "Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t  1234 kB\nThreads:\t1\n";
        assert_eq!(status_kib(status, "VmRSS:"), Some(1234));
        assert_eq!(status_kib(status, "VmSwap:"), None);
        assert_eq!(first_number("41 7 2\n"), Some(41));
        assert_eq!(first_number("x"), None);
    }

    #[test]
    fn our_own_process_is_readable() {
        let pid = std::process::id();
        assert!(rss_bytes(pid).unwrap() > 4096);
        let before = cpu_ns(pid).unwrap();
        let mut random = crate::random::Random::new(0, 0);
        let start = sys::now_ns();
        while sys::now_ns() - start < 30_000_000 {
            std::hint::black_box(random.next());
        }
        assert!(cpu_ns(pid).unwrap() > before);
    }
}
