//! Randomness: secrets from the kernel, and a fast generator from a seed.

use rustix::rand::{GetRandomFlags, getrandom};

/// 128 bits nobody can predict, for keyed hashes.
pub fn secret_128() -> u128 {
    let mut bytes = [0u8; 16];
    fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}

/// A seed for [`Rng`] that differs from run to run.
pub fn seed_64() -> u64 {
    let mut bytes = [0u8; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Fills `target` with bytes from the kernel. Panics if the kernel has none to give: no secret
/// would be safe then.
pub fn fill(target: &mut [u8]) {
    let mut done = 0;
    while done < target.len() {
        match getrandom(&mut target[done..], GetRandomFlags::empty()) {
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
}

/// An identifier of a run or a replication history: 40 random hexadecimal digits, lower case.
pub fn run_id() -> String {
    let mut bytes = [0u8; 20];
    fill(&mut bytes);
    bytes
        .iter()
        .fold(String::with_capacity(40), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
            text
        })
}

/// A fast generator, equal for equal seeds; not for secrets. The algorithm is xoshiro256**
/// (Blackman and Vigna, 2018), its state filled by splitmix64.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub const fn seeded(seed: u64) -> Self {
        let mut state = [0; 4];
        let mut counter = seed;
        let mut index = 0;
        while index < 4 {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = counter;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state[index] = word ^ (word >> 31);
            index += 1;
        }
        Self { state }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, without bias (Lemire's method). Panics if `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A double in `0.0..1.0`, in steps of 2^-53.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        // First outputs of the reference generator for the state {1, 2, 3, 4}.
        let mut generator = Rng {
            state: [1, 2, 3, 4],
        };
        let first: Vec<u64> = (0..4).map(|_| generator.next_u64()).collect();
        assert_eq!(first, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
        let mut one = Rng::seeded(7);
        let mut two = Rng::seeded(7);
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
    }

    #[test]
    fn below_reaches_everything_and_no_more() {
        let mut generator = Rng::seeded(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[generator.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 800), "{seen:?}");
        assert!((0.0..1.0).contains(&generator.next_f64()));
    }

    #[test]
    fn identifiers_are_hexadecimal_and_differ() {
        let id = run_id();
        assert_eq!(id.len(), 40);
        assert!(
            id.bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        );
        assert_ne!(id, run_id());
        assert_ne!(secret_128(), secret_128());
        assert_ne!(seed_64(), seed_64());
    }
}
