//! Rates per second for INFO: averages over the last 16 samples of some counters.

use std::collections::VecDeque;

/// Samples averaged over.
const SAMPLES: usize = 16;

/// Counts, or their rates per second.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_field_names, reason = "a unit stands last in a name")]
pub struct Rates {
    /// Commands.
    pub commands_per_s: u64,
    /// Bytes received.
    pub bytes_in_per_s: u64,
    /// Bytes replied.
    pub bytes_out_per_s: u64,
}

/// The samples.
#[derive(Debug, Default)]
pub(crate) struct RateMeter(VecDeque<(u64, Rates)>);

impl RateMeter {
    /// Adds the counters' values at a moment of the monotonic clock.
    pub(crate) fn sample(&mut self, now_ns: u64, counts: Rates) {
        self.0.push_back((now_ns, counts));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
    }

    /// Rates between the oldest and the newest sample.
    pub(crate) fn rates(&self) -> Rates {
        let (Some((start_ns, first)), Some((end_ns, last))) = (self.0.front(), self.0.back())
        else {
            return Rates::default();
        };
        let spent_ns = end_ns - start_ns;
        // Counters fall when they are reset.
        let rate = |first: u64, last: u64| {
            let count = u128::from(last.saturating_sub(first));
            (count * 1_000_000_000)
                .checked_div(u128::from(spent_ns))
                .unwrap_or(0) as u64
        };
        Rates {
            commands_per_s: rate(first.commands_per_s, last.commands_per_s),
            bytes_in_per_s: rate(first.bytes_in_per_s, last.bytes_in_per_s),
            bytes_out_per_s: rate(first.bytes_out_per_s, last.bytes_out_per_s),
        }
    }
}
