//! System calls that no safe library covers, as safe functions.
//!
//! Nothing here keeps state. Every block states why its arguments are good for the whole call.

use crate::clock::LocalTime;
use std::io;
use std::mem::MaybeUninit;

/// Turns the C convention "-1 and errno" into a result.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Sets the scheduling policy of the calling thread, with the one priority these policies have.
pub(crate) fn set_scheduler(policy: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live, initialised structure; thread 0 means the calling one.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })?;
    Ok(())
}

pub(crate) fn local_time(unix_s: i64) -> LocalTime {
    let moment: libc::time_t = unix_s;
    let mut date = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live memory of the right types; `localtime_r` keeps neither.
    unsafe { libc::localtime_r(&raw const moment, date.as_mut_ptr()) };
    // SAFETY: all-zero is a valid `tm` (integers and a nullable pointer), written by us above, and
    // `localtime_r` writes only valid values.
    let date = unsafe { date.assume_init() };
    LocalTime {
        year: date.tm_year + 1900,
        month: date.tm_mon.unsigned_abs() + 1,
        day: date.tm_mday.unsigned_abs(),
        hour: date.tm_hour.unsigned_abs(),
        minute: date.tm_min.unsigned_abs(),
        second: date.tm_sec.unsigned_abs(),
        utc_offset_s: date.tm_gmtoff,
    }
}

/// Resource usage as the kernel counts it.
pub(crate) fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to live memory of the right type. The call fails only for an unknown
    // `who`, and then the zeroes stand.
    unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // SAFETY: the structure is integers only, all initialised to zero above.
    unsafe { usage.assume_init() }
}

/// A set of signals, for blocking and waiting.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(libc::sigset_t);

impl SignalSet {
    pub(crate) fn of(signals: impl IntoIterator<Item = libc::c_int>) -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the pointer is to live memory of the right type, which the call initialises.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialised by the call above (and plain zeroed integers before it).
        let mut set = unsafe { set.assume_init() };
        for signal in signals {
            // SAFETY: the pointer is to an initialised set.
            let result = unsafe { libc::sigaddset(&raw mut set, signal) };
            assert_eq!(result, 0, "signal {signal} does not exist");
        }
        Self(set)
    }

    /// Blocks the set in the calling thread and in those it will start.
    pub(crate) fn block(&self) -> io::Result<()> {
        // SAFETY: the first pointer is to an initialised set, null asks for no old set.
        let error = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, std::ptr::null_mut())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(())
    }

    /// Takes one pending signal of the set, waiting up to `limit_ms`; `None` if none came.
    pub(crate) fn wait(&self, limit_ms: Option<u64>) -> io::Result<Option<libc::c_int>> {
        let limit = limit_ms.map(|milliseconds| libc::timespec {
            tv_sec: (milliseconds / 1_000) as libc::time_t,
            tv_nsec: (milliseconds % 1_000 * 1_000_000) as libc::c_long,
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the set is initialised, null asks for no details, and the limit is null or points
        // to a live structure.
        let result = unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), limit) };
        match check(result) {
            Ok(signal) => Ok(Some(signal)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                _ => Err(error),
            },
        }
    }
}

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SignalSet(..)")
    }
}

/// Ignores a signal for the whole process.
pub(crate) fn ignore_signal(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: `SIG_IGN` is a valid disposition and runs no code of ours.
    let previous = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if previous == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Continues as a child, in a session of its own, while the parent ends with success.
///
/// The caller has made sure that this is the process's only thread.
pub(crate) fn continue_in_child() -> io::Result<()> {
    // SAFETY: there is one thread, so the child finds no lock held by a thread that is gone.
    let child = check(unsafe { libc::fork() })?;
    if child != 0 {
        // SAFETY: ends the parent at once; exit handlers belong to the child.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: no memory is involved.
    check(unsafe { libc::setsid() })?;
    Ok(())
}

/// Makes `file` the standard input, output and error of the process.
pub(crate) fn replace_standard_streams(file: &std::fs::File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    for target in 0..=2 {
        // SAFETY: the source is an open descriptor for the whole call; the standard streams belong
        // to the process as a whole and nobody here owns them as a unique value.
        check(unsafe { libc::dup2(file.as_raw_fd(), target) })?;
    }
    Ok(())
}

/// The memory the kernel put this process's arguments and environment into, after the environment
/// has been moved elsewhere.
#[derive(Debug)]
pub(crate) struct ArgumentArea {
    start: usize,
    len: usize,
}

impl ArgumentArea {
    /// Takes over the area from `start`, the first argument's first byte, to `env_end`, behind the
    /// last variable; `None` if they do not lie as expected.
    ///
    /// The caller has made sure that this is the process's only thread, and calls once.
    pub(crate) fn take(start: usize, end: usize, env_start: usize, env_end: usize) -> Option<Self> {
        unsafe extern "C" {
            static mut environ: *mut *mut libc::c_char;
        }
        if start == 0 || start >= end || end > env_start || env_start > env_end {
            return None;
        }
        let mut at = 0;
        loop {
            // SAFETY: the C library keeps `environ` null or pointing to an array of pointers that
            // ends with null; there is no other thread that could change it.
            let slot = unsafe {
                if environ.is_null() {
                    break;
                }
                environ.add(at)
            };
            // SAFETY: not behind the null that ends the array: the loop stops there.
            let variable = unsafe { *slot };
            if variable.is_null() {
                break;
            }
            if (env_start..env_end).contains(&(variable as usize)) {
                // SAFETY: each entry is a C string; the copy is never freed, so it stays valid for
                // whoever reads the environment later. With no memory the old string is kept and
                // the area is not taken.
                let copy = unsafe { libc::strdup(variable) };
                if copy.is_null() {
                    return None;
                }
                // SAFETY: as for reading the slot.
                unsafe { *slot = copy };
            }
            at += 1;
        }
        let end = if env_start <= end + 1 { env_end } else { end };
        Some(Self {
            start,
            len: end - start,
        })
    }

    /// Writes `text`, cut to the room, and zeroes behind it.
    pub(crate) fn write(&mut self, text: &[u8]) {
        let kept = text.len().min(self.len - 1);
        let area = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
        // SAFETY: the area is mapped, writable memory of this process, put there by the kernel and
        // never unmapped. The environment no longer lies in it; the arguments do, and readers of
        // them find strings that end within it, as the last byte stays zero.
        unsafe {
            std::ptr::write_bytes(area, 0, self.len);
            std::ptr::copy_nonoverlapping(text.as_ptr(), area, kept);
        }
    }
}

/// Replaces a value by a function of it. A panic in between aborts: the place would be empty.
#[cfg(loom)]
pub(crate) fn replace_with<T>(place: &mut T, change: impl FnOnce(T) -> T) {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let guard = Abort;
    // SAFETY: the value is moved out once and another is written before anybody can look; if
    // `change` unwinds, the guard aborts before the stale value can be seen or dropped.
    unsafe {
        let value = std::ptr::read(place);
        std::ptr::write(place, change(value));
    }
    std::mem::forget(guard);
}
