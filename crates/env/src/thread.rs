//! Threads: starting, placing, ranking.

pub use std::thread::{JoinHandle, ThreadId};

#[cfg(loom)]
pub use loom::thread::yield_now;
#[cfg(not(loom))]
pub use std::thread::yield_now;

use crate::sys;
use rustix::thread::CpuSet;
use std::io;
use std::time::Duration;

/// Starts a thread with a name for debuggers and `top`; the kernel shows its first 15 bytes.
pub fn spawn_named<F, T>(name: &str, body: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
}

/// Puts the calling thread to sleep.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn sleep_ms(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Puts the calling thread to sleep.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn sleep_us(microseconds: u64) {
    std::thread::sleep(Duration::from_micros(microseconds));
}

/// Binds the calling thread to one processor.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no such processor",
        ));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Processors this process may use, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuBudget {
    /// Numbers of the processors in the affinity mask, ascending.
    pub cpus: Vec<usize>,
    /// How many threads can run at once: the mask's size, or less if a cgroup's quota says so,
    /// rounded up; at least 1.
    pub parallel: usize,
}

/// What the affinity mask and the cgroup (versions 1 and 2) allow.
pub fn available_cpus() -> CpuBudget {
    let cpus: Vec<usize> = match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
        // More processors than the set can name: the quota below still bounds it.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    };
    let quota = crate::process::cgroup_cpu_quota().map_or(usize::MAX, |quota| {
        // The float is a small positive number of processors.
        quota.ceil() as usize
    });
    let parallel = cpus.len().min(quota).max(1);
    CpuBudget { cpus, parallel }
}

/// Lets the calling thread yield to interactive ones (`SCHED_BATCH`): longer turns, no wake-up
/// preemption. An unprivileged thread can return by [`set_normal_priority`].
pub fn set_batch_priority() -> io::Result<()> {
    sys::set_scheduler(libc::SCHED_BATCH)
}

/// Returns the calling thread to ordinary scheduling.
pub fn set_normal_priority() -> io::Result<()> {
    sys::set_scheduler(libc::SCHED_OTHER)
}

/// Identifier of the calling thread within the process, never used again.
pub fn current_id() -> ThreadId {
    std::thread::current().id()
}

/// Kernel identifier of the calling thread.
pub fn current_tid() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_can_be_placed_and_ranked() {
        let budget = available_cpus();
        assert!(budget.parallel >= 1 && budget.parallel <= budget.cpus.len());
        let cpu = budget.cpus[0];
        let tid = spawn_named("placed", move || {
            pin_to_cpu(cpu).unwrap();
            assert_eq!(available_cpus().cpus, [cpu]);
            assert!(pin_to_cpu(1 << 20).is_err());
            set_batch_priority().unwrap();
            set_normal_priority().unwrap();
            set_batch_priority().unwrap();
            sleep_ms(1);
            current_tid()
        })
        .unwrap()
        .join()
        .unwrap();
        assert_ne!(tid, current_tid());
    }
}
