//! Time, from the system or from a test.

use crate::sync::Arc;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// Wall-clock time, in milliseconds since 1970.
#[inline]
pub fn now_ms() -> u64 {
    now_us() / 1_000
}

/// Wall-clock time, in microseconds since 1970. Zero if the machine's clock is before that.
#[inline]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    u64::try_from(now.tv_sec).map_or(0, |seconds| {
        seconds * 1_000_000 + now.tv_nsec as u64 / 1_000
    })
}

/// Nanoseconds since some fixed moment, never going back: for measuring durations.
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A source of time that can be the machine's or one set by hand.
///
/// Clones of a manual clock show the same time.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    manual: Option<Arc<AtomicU64>>,
}

impl Clock {
    /// The machine's clocks.
    pub const fn system() -> Self {
        Self { manual: None }
    }

    /// A clock that stands at `now_us` (microseconds since 1970) until it is moved.
    pub fn manual(now_us: u64) -> Self {
        Self {
            manual: Some(Arc::new(AtomicU64::new(now_us))),
        }
    }

    /// Wall-clock time in milliseconds since 1970.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1_000
    }

    /// Wall-clock time in microseconds since 1970.
    #[inline]
    pub fn now_us(&self) -> u64 {
        match &self.manual {
            None => now_us(),
            Some(time) => time.load(Ordering::Relaxed),
        }
    }

    /// Nanoseconds for measuring durations. A manual clock derives them from its one time.
    #[inline]
    pub fn monotonic_ns(&self) -> u64 {
        match &self.manual {
            None => monotonic_ns(),
            Some(time) => time.load(Ordering::Relaxed).wrapping_mul(1_000),
        }
    }

    /// Sets a manual clock, in microseconds since 1970. Panics on the system's clock.
    pub fn set_us(&self, now_us: u64) {
        self.time().store(now_us, Ordering::Relaxed);
    }

    /// Moves a manual clock forward. Panics on the system's clock.
    pub fn advance_ms(&self, milliseconds: u64) {
        self.time()
            .fetch_add(milliseconds * 1_000, Ordering::Relaxed);
    }

    fn time(&self) -> &AtomicU64 {
        self.manual
            .as_ref()
            .expect("only a manual clock can be set")
    }
}

/// A wall-clock time as a calendar date in the machine's time zone, for log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// Seconds to add to UTC to get this time.
    pub utc_offset_s: i64,
}

/// The calendar date of a moment in seconds since 1970, in the machine's time zone.
pub fn local_time(unix_s: i64) -> LocalTime {
    crate::sys::local_time(unix_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = Clock::manual(5_000_000);
        let twin = clock.clone();
        assert_eq!(twin.now_ms(), 5_000);
        clock.advance_ms(7);
        assert_eq!((twin.now_ms(), twin.monotonic_ns()), (5_007, 5_007_000_000));
        clock.set_us(1);
        assert_eq!(twin.now_us(), 1);
    }

    #[test]
    fn the_system_clocks_run() {
        let clock = Clock::system();
        assert!(clock.now_ms() > 1_600_000_000_000);
        let before = clock.monotonic_ns();
        assert!(monotonic_ns() >= before);
        let date = local_time(clock.now_ms() as i64 / 1_000);
        assert!(date.year > 2020 && (1..=12).contains(&date.month));
    }
}
