//! Random streams and key distributions.
//!
//! Every connection owns a stream of its own. This matters: if all connections draw the same
//! sequence, each key is warm in the server's caches after the first of them, and a server looks
//! three times as fast as it is.
//!
//! Invariants: a stream is a function of (seed, stream number) only; `KeyStream::next` is below
//! the size of the keyspace.

/// xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators"), seeded
/// through SplitMix64 as its authors advise.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream `stream` of `seed`; different streams are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = seed ^ mix(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d);
        let mut state = [0; 4];
        for word in &mut state {
            mixer = mixer.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *word = mix(mixer);
        }
        Self { state }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`, by multiplication; the bias is below 2^-32 for the sizes used here.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in the open interval (0, 1).
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// The finalizer of SplitMix64.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// How keys are chosen from the keyspace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Distribution {
    Uniform,
    /// Rank r is drawn in proportion to r^-exponent; ranks are scattered over the keyspace.
    Zipf {
        exponent: f64,
    },
    /// Each connection walks its own slice of the keyspace in order.
    Sequential,
    /// One key for everybody.
    Hot,
}

/// The keys of one connection.
#[derive(Debug, Clone)]
pub(crate) struct KeyStream {
    source: Source,
    keys: u64,
}

#[derive(Debug, Clone)]
enum Source {
    Uniform(Random),
    Zipf(Box<Zipf>, Random),
    Sequential { next: u64, start: u64, end: u64 },
    Hot,
}

impl KeyStream {
    /// The keys of connection `index` of `connections`. `stream` selects the random stream: give
    /// each connection its own, or all the same to show what that does.
    pub(crate) fn new(
        distribution: Distribution,
        keys: u64,
        seed: u64,
        stream: u64,
        (index, connections): (u64, u64),
    ) -> Self {
        assert!(keys > 0 && index < connections);
        let random = Random::new(seed, stream);
        let source = match distribution {
            Distribution::Uniform => Source::Uniform(random),
            Distribution::Zipf { exponent } => {
                Source::Zipf(Box::new(Zipf::new(keys, exponent)), random)
            }
            Distribution::Sequential => {
                let (start, end) = slice(keys, index, connections);
                Source::Sequential {
                    next: start,
                    start,
                    end,
                }
            }
            Distribution::Hot => Source::Hot,
        };
        Self { source, keys }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match &mut self.source {
            Source::Uniform(random) => random.below(self.keys),
            Source::Zipf(zipf, random) => scatter(zipf.sample(random) - 1, self.keys),
            Source::Sequential { next, start, end } => {
                let key = *next;
                *next = if key + 1 >= *end { *start } else { key + 1 };
                key
            }
            Source::Hot => 0,
        }
    }
}

/// The part `index` of `parts` of `0..total`, as a half-open range; sizes differ by at most one.
/// If there are more parts than items, the surplus parts share the last item.
pub(crate) fn slice(total: u64, index: u64, parts: u64) -> (u64, u64) {
    let bound = |part: u64| (u128::from(total) * u128::from(part) / u128::from(parts)) as u64;
    let (start, end) = (bound(index), bound(index + 1));
    if start == end {
        (start.min(total - 1), start.min(total - 1) + 1)
    } else {
        (start, end)
    }
}

/// Sends rank 0, 1, 2... to places far apart, so that hot keys are not neighbours.
fn scatter(rank: u64, keys: u64) -> u64 {
    ((u128::from(mix(rank ^ 0x6a09_e667)) * u128::from(keys)) >> 64) as u64
}

/// Zipf ranks by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996): constant time, no table.
#[derive(Debug, Clone)]
struct Zipf {
    exponent: f64,
    keys: f64,
    low: f64,
    high: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Self {
        assert!(exponent > 0.0);
        let mut zipf = Self {
            exponent,
            keys: keys as f64,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(keys as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// Antiderivative of the density.
    fn integral(&self, x: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 {
            x.ln()
        } else {
            (x.powf(rest) - 1.0) / rest
        }
    }

    fn inverse(&self, y: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 {
            y.exp()
        } else {
            (y * rest + 1.0).max(0.0).powf(1.0 / rest)
        }
    }

    /// A rank in `1..=keys`.
    fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.keys);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |stream| {
            let mut keys = KeyStream::new(Distribution::Uniform, 1_000_000, 7, stream, (0, 1));
            (0..100).map(|_| keys.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        let (one, two) = (draw(1), draw(2));
        assert!(one.iter().filter(|key| two.contains(key)).count() < 3);
    }

    #[test]
    fn uniform_covers_evenly() {
        let mut random = Random::new(1, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|&count| (9_500..10_500).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn sequential_slices_cover_each_key_once() {
        for connections in [1, 3, 7, 50] {
            let mut seen = vec![0u32; 1000];
            for index in 0..connections {
                let (start, end) = slice(1000, index, connections);
                let mut keys =
                    KeyStream::new(Distribution::Sequential, 1000, 0, 0, (index, connections));
                for _ in start..end {
                    seen[keys.next() as usize] += 1;
                }
                assert_eq!(keys.next(), start, "wraps");
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
        assert_eq!(slice(2, 3, 10), (0, 1));
        assert_eq!(slice(2, 9, 10), (1, 2));
    }

    #[test]
    fn zipf_frequencies_follow_the_law() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(1000, exponent);
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            let mut random = Random::new(3, 0);
            let mut counts = vec![0u32; 1001];
            let draws = 400_000;
            for _ in 0..draws {
                counts[zipf.sample(&mut random) as usize] += 1;
            }
            for rank in [1usize, 2, 3, 10, 100] {
                let expected = f64::from(draws) * (rank as f64).powf(-exponent) / total;
                let got = f64::from(counts[rank]);
                assert!(
                    (got - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                    "exponent {exponent} rank {rank}: {got} against {expected}"
                );
            }
        }
    }
}
