//! Facts about this process and its machine, and what a process does to itself.

use crate::sys;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::path::Path;

/// Identifier of this process.
pub fn id() -> u32 {
    std::process::id()
}

/// Memory this process has in RAM now, in bytes. Zero if the kernel does not say.
pub fn rss_bytes() -> u64 {
    let pages = read_proc("/proc/self/statm")
        .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The most memory this process ever had in RAM, in bytes. Zero if the kernel does not say.
pub fn rss_peak_bytes() -> u64 {
    read_proc("/proc/self/status")
        .and_then(|text| kilobytes_of(&text, "VmHWM:"))
        .unwrap_or(0)
}

/// RAM of the machine, in bytes; a cgroup may allow less, see [`cgroup_memory_limit_bytes`].
pub fn total_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit.max(1))
}

/// Processor time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user_us: u64,
    pub system_us: u64,
}

/// Whose resources are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Process,
    /// Children that have ended and were waited for.
    Children,
    /// The calling thread.
    Thread,
}

impl Who {
    fn number(self) -> libc::c_int {
        match self {
            Self::Process => libc::RUSAGE_SELF,
            Self::Children => libc::RUSAGE_CHILDREN,
            Self::Thread => libc::RUSAGE_THREAD,
        }
    }
}

/// Processor time used so far.
pub fn cpu_time(who: Who) -> CpuTime {
    let usage = sys::usage(who.number());
    let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    CpuTime {
        user_us: microseconds(usage.ru_utime),
        system_us: microseconds(usage.ru_stime),
    }
}

/// Processor time this process has used so far.
pub fn cpu_times() -> CpuTime {
    cpu_time(Who::Process)
}

/// Page faults so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageFaults {
    /// Served without reading from disk.
    pub minor: u64,
    pub major: u64,
}

/// Page faults of this process, a thread or ended children.
pub fn page_faults(who: Who) -> PageFaults {
    let usage = sys::usage(who.number());
    PageFaults {
        minor: usage.ru_minflt as u64,
        major: usage.ru_majflt as u64,
    }
}

/// Name, release and machine of the operating system: `("Linux", "6.1.0", "x86_64")`.
pub fn uname() -> (String, String, String) {
    let name = rustix::system::uname();
    (
        name.sysname().to_string_lossy().into_owned(),
        name.release().to_string_lossy().into_owned(),
        name.machine().to_string_lossy().into_owned(),
    )
}

/// The operating system as one line: `Linux 6.1.0 x86_64`.
pub fn os_name() -> String {
    let (name, release, machine) = uname();
    format!("{name} {release} {machine}")
}

/// The machine's name on the network.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Raises the limit of open files to at least `wanted` and gives the limit reached, which is less
/// if the hard limit is and this process may not raise it.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    // `None` is no limit.
    let current = limit.current.unwrap_or(u64::MAX);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(current);
    }
    let set = |current: u64, maximum: Option<u64>| {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(current),
                maximum,
            },
        )
    };
    if wanted > hard && set(wanted, Some(wanted)).is_ok() {
        return Ok(wanted);
    }
    let reached = wanted.min(hard);
    set(reached, limit.maximum)?;
    Ok(reached)
}

/// The soft limit of open files; `u64::MAX` if there is none.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Continues in the background: a child in a session of its own, with the standard streams on
/// `/dev/null`; the calling process ends with success. Must be called before threads are started.
pub fn daemonize() -> io::Result<()> {
    if thread_count()? != 1 {
        return Err(io::Error::other(
            "a process with several threads cannot go to the background",
        ));
    }
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    sys::continue_in_child()?;
    sys::replace_standard_streams(&null)
}

fn thread_count() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Sets the permission bits that new files do not get, and gives the previous ones.
pub fn set_umask(bits: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(bits)).as_raw_mode()
}

/// What the out-of-memory killer adds to this process's score, -1000 to 1000.
pub fn oom_score() -> io::Result<i64> {
    let path = "/proc/self/oom_score_adj";
    let score = read_proc(path).and_then(|text| text.trim().parse().ok());
    score.ok_or_else(|| io::Error::other("the kernel does not say"))
}

/// Sets what [`oom_score`] tells. To lower it takes a privilege.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn set_oom_score(score: i64) -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", score.to_string())
}

/// The place where the kernel shows this process's arguments, free to show something else.
#[derive(Debug)]
pub struct Title(sys::ArgumentArea);

impl Title {
    /// Takes the place over, moving the environment away. `None` if the kernel does not say where
    /// it is, if several threads run, which might be reading the environment, or the second time.
    pub fn take() -> Option<Title> {
        static TAKEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        if thread_count().ok()? != 1 || TAKEN.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return None;
        }
        let stat = read_proc("/proc/self/stat")?;
        // The name, in parentheses, may contain anything; the fields behind it start with the third.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
        let area = (field(48)?, field(49)?, field(50)?, field(51)?);
        sys::ArgumentArea::take(area.0, area.1, area.2, area.3).map(Title)
    }

    /// Shows `title`, cut to the room there is.
    pub fn set(&mut self, title: &str) {
        self.0.write(title.as_bytes());
    }
}

/// Whether standard output is a terminal.
pub fn is_tty() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Processors' worth of time the cgroup allows, the smallest on the way up; `None` for no limit.
pub fn cgroup_cpu_quota() -> Option<f64> {
    let membership = read_proc("/proc/self/cgroup")?;
    let unified = smallest_in_ancestors(&membership, "", &["/sys/fs/cgroup"], |directory| {
        parse_cpu_max(&read_text(&directory.join("cpu.max"))?)
    });
    let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let legacy = smallest_in_ancestors(&membership, "cpu", &roots, |directory| {
        let quota: f64 = read_number(&directory.join("cpu.cfs_quota_us"))?;
        let period: f64 = read_number(&directory.join("cpu.cfs_period_us"))?;
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    });
    [unified, legacy].into_iter().flatten().reduce(f64::min)
}

/// Bytes of memory the cgroup allows, the smallest on the way up; `None` for no limit.
pub fn cgroup_memory_limit_bytes() -> Option<u64> {
    let membership = read_proc("/proc/self/cgroup")?;
    let unified = smallest_in_ancestors(&membership, "", &["/sys/fs/cgroup"], |directory| {
        read_number(&directory.join("memory.max"))
    });
    let roots = ["/sys/fs/cgroup/memory"];
    let legacy = smallest_in_ancestors(&membership, "memory", &roots, |directory| {
        read_number(&directory.join("memory.limit_in_bytes"))
    });
    let limit = [unified, legacy].into_iter().flatten().reduce(f64::min)?;
    // Version 1 says "no limit" as a number near 2^63.
    (limit < total_memory_bytes() as f64).then_some(limit as u64)
}

/// The smallest value `read` finds in this process's group of one hierarchy and in those above it.
///
/// A line of `membership` is `number:controllers:/path`; version 2 has no controllers. Inside a
/// container the path may not exist under the mount, and then only its existing ancestors count.
fn smallest_in_ancestors(
    membership: &str,
    controller: &str,
    roots: &[&str],
    read: impl Fn(&Path) -> Option<f64>,
) -> Option<f64> {
    let group = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers
            .split(',')
            .any(|name| name == controller)
            .then_some(path)
    })?;
    roots
        .iter()
        .flat_map(|root| {
            let directory = Path::new(root).join(group.trim_start_matches('/'));
            directory
                .ancestors()
                .take_while(|ancestor| ancestor.starts_with(root))
                .filter_map(&read)
                .collect::<Vec<_>>()
        })
        .reduce(f64::min)
}

/// `quota period` in microseconds, or `max period` for no limit.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut fields = text.split_ascii_whitespace();
    let quota: f64 = fields.next()?.parse().ok()?;
    let period: f64 = fields.next()?.parse().ok()?;
    (period > 0.0).then(|| quota / period)
}

fn kilobytes_of(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let size: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(size * 1024)
}

fn read_number(path: &Path) -> Option<f64> {
    read_text(path)?.trim().parse().ok()
}

fn read_proc(path: &str) -> Option<String> {
    read_text(Path::new(path))
}

#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn read_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        assert!(rss_bytes() > 100_000);
        assert!(rss_peak_bytes() > 100_000);
        assert!(total_memory_bytes() > rss_bytes());
        assert!(page_faults(Who::Process).minor > 0);
        assert_eq!(uname().0, "Linux");
        let reached = raise_open_files(64).unwrap();
        assert!(reached >= 64 && open_files_max() >= 64);
        let _ = (cpu_time(Who::Process), cpu_time(Who::Thread), is_tty());
        let _ = (cgroup_cpu_quota(), cgroup_memory_limit_bytes(), host_name());
    }

    #[test]
    fn quotas_are_read_in_both_formats() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        let group = |controller, text| {
            smallest_in_ancestors(text, controller, &["/nowhere"], |path| {
                (path == Path::new("/nowhere/a")).then_some(2.0)
            })
        };
        assert_eq!(group("", "0::/a/b\n"), Some(2.0));
        assert_eq!(group("cpu", "3:cpuacct,cpu:/a\n0::/c\n"), Some(2.0));
        assert_eq!(group("cpu", "0::/a\n"), None);
        assert_eq!(
            kilobytes_of("A: 1 kB\nVmHWM:\t  7 kB\n", "VmHWM:"),
            Some(7_168)
        );
    }

    #[test]
    fn several_threads_cannot_go_to_the_background() {
        // The test harness runs this on a thread of its own.
        assert!(daemonize().is_err());
    }
}
