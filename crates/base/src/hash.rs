//! Hashes of keys: keyed SipHash-1-3 for the keyspace, CRC16 for cluster slots.
//!
//! The keyspace hash is keyed with a secret of the process, so that a stranger cannot prepare keys
//! that collide. It never knows where the secret comes from.

/// The secret of a keyed hash, and the hash itself.
#[derive(Clone, Copy)]
pub struct SipKeys {
    key0: u64,
    key1: u64,
}

impl std::fmt::Debug for SipKeys {
    /// The secret is not for logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SipKeys(..)")
    }
}

impl SipKeys {
    /// Keys from a 128-bit secret.
    pub const fn new(secret: u128) -> Self {
        Self {
            key0: secret as u64,
            key1: (secret >> 64) as u64,
        }
    }

    /// SipHash-1-3 of `bytes` (Aumasson and Bernstein, "SipHash: a fast short-input PRF", with one
    /// compression and three finalization rounds).
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = [
            self.key0 ^ 0x736f_6d65_7073_6575,
            self.key1 ^ 0x646f_7261_6e64_6f6d,
            self.key0 ^ 0x6c79_6765_6e65_7261,
            self.key1 ^ 0x7465_6462_7974_6573,
        ];
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut state, u64::from_le_bytes(*word));
        }
        absorb(&mut state, last_word(rest) | ((bytes.len() as u64) << 56));
        state[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut state);
        }
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

#[inline(always)]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn round(state: &mut [u64; 4]) {
    let [mut v0, mut v1, mut v2, mut v3] = *state;
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32);
    v2 = v2.wrapping_add(v1);
    v0 = v0.wrapping_add(v3);
    v1 = v1.rotate_left(17) ^ v2;
    v3 = v3.rotate_left(21) ^ v0;
    v2 = v2.rotate_left(32);
    *state = [v0, v1, v2, v3];
}

/// Up to seven bytes, little-endian, by two overlapping reads instead of a loop.
#[inline(always)]
fn last_word(rest: &[u8]) -> u64 {
    debug_assert!(rest.len() < 8);
    let length = rest.len();
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let low = u64::from(u32::from_le_bytes(*head));
        let high = u64::from(u32::from_le_bytes(*tail));
        return low | (high << ((length - 4) * 8));
    }
    if length == 0 {
        return 0;
    }
    u64::from(rest[0])
        | (u64::from(rest[length / 2]) << (length / 2 * 8))
        | (u64::from(rest[length - 1]) << ((length - 1) * 8))
}

/// Number of hash slots of a cluster.
pub const SLOT_COUNT: u16 = 16_384;

/// The cluster slot of a key, `0..SLOT_COUNT`. If the key has a non-empty `{...}` part, only the
/// first such part counts, so that related keys can be kept together.
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOT_COUNT - 1)
}

/// The part of a key that decides its slot.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let after = &key[open + 1..];
    match after.iter().position(|&byte| byte == b'}') {
        Some(close) if close > 0 => &after[..close],
        _ => key,
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection, no final xor.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        (crc << 8) ^ CRC16_TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const CRC16_TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::hash::Hasher;

    #[test]
    fn slots_follow_the_published_rule() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(key_slot(b"foo"), 12_182);
        assert_eq!(hash_tag(b"{user1000}.following"), b"user1000");
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"foo{bar"), b"foo{bar");
    }

    proptest! {
        #[test]
        fn equals_the_reference_implementation(
            secret in any::<u128>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut reference =
                siphasher::sip::SipHasher13::new_with_keys(secret as u64, (secret >> 64) as u64);
            reference.write(&bytes);
            prop_assert_eq!(SipKeys::new(secret).hash(&bytes), reference.finish());
        }
    }
}
