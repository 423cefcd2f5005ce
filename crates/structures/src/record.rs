//! The bytes of one key with its value and deadline.
//!
//! ```text
//! short   flags  access  key_len:u8     value_len:u8                 [ttl]  body
//! long    flags  access  value_len:u16  key_len:u32                  [ttl]  body
//!
//! flags   bits 0..5  format      bit 5  ttl of 6 bytes     bit 6  ttl of 8 bytes     bit 7  long
//! ttl     deadline in Unix milliseconds, little-endian
//! body    Raw     key, value
//!         Packed  key and value as one stream of 7-bit characters
//!         Int     key, the number in 1, 2, 4 or 8 bytes
//!         Slack   key, capacity:u16, value, unused bytes up to the capacity (always long)
//!         Blob    key, address of a shared value
//!         a key over `KEY_INLINE_MAX` is replaced by the address of a shared copy
//! ```
//!
//! `value_len` counts characters when packed, bytes otherwise. The body does not depend on where it
//! begins, so a deadline can come and go by moving it. A record starts at a multiple of eight bytes
//! and its header is read as one word. This module knows no buckets and no allocator: it turns a
//! value into words and headers into lengths.
//!
//! Headers may be garbage when read without the latch; lengths are clamped so that no access goes
//! more than `READABLE_WORDS` beyond the record's start.

use crate::words::{READABLE_WORDS, Words, blob_into_word, bytes_mut};
use base::Blob;
use base::simd::pack7;
use std::sync::Arc;

/// A value to be stored.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// Bytes; the smallest encoding is chosen, canonical decimal integers among them.
    Bytes(&'a [u8]),
    /// Bytes that stay text even if they spell an integer: what INCRBYFLOAT makes.
    Text(&'a [u8]),
    /// An integer.
    Int(i64),
    /// Bytes that stay as they are, with room to grow: what APPEND and SETRANGE make.
    Slack(&'a [u8]),
    /// A value that is kept out of line, whatever its size.
    Blob(Blob),
}

/// How a value is laid out. Numbers from 8 on are for collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    Raw = 0,
    Packed = 1,
    Int = 2,
    Slack = 3,
    Blob = 4,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    String,
}

/// Longer keys are kept out of line.
pub const KEY_INLINE_MAX: usize = if cfg!(loom) { 24 } else { 8 << 10 };
/// Longer values are kept out of line.
pub const VALUE_INLINE_MAX: usize = if cfg!(loom) { 24 } else { 16 << 10 };
/// Bytes of the largest record.
pub(crate) const RECORD_BYTES_MAX: usize = if cfg!(loom) { 64 } else { 18 << 10 };

/// Any header, however wrong, leads to loads within the readable words.
const _LIMITS_FIT: () =
    assert!((16 + KEY_INLINE_MAX + 2 + VALUE_INLINE_MAX) / 8 + 2 <= READABLE_WORDS);

const FORMAT_MASK: u8 = 0x1f;
const TTL_NARROW: u8 = 0x20;
const TTL_WIDE: u8 = 0x40;
const LONG: u8 = 0x80;
/// Packing starts to pay here.
pub(crate) const PACK_CHARACTERS_MIN: usize = 12;
/// Bytes of the short form's header.
pub(crate) const HEADER_SHORT: usize = 4;
const TTL_NARROW_MAX: i64 = (1 << 48) - 1;

/// The first word of a record.
#[derive(Clone, Copy)]
pub(crate) struct Header(pub(crate) u64);

impl Header {
    #[inline(always)]
    fn flags(self) -> u8 {
        self.0 as u8
    }

    /// `None` is garbage.
    #[inline(always)]
    pub(crate) fn encoding(self) -> Option<Encoding> {
        Some(match self.flags() & FORMAT_MASK {
            0 => Encoding::Raw,
            1 => Encoding::Packed,
            2 => Encoding::Int,
            3 => Encoding::Slack,
            4 => Encoding::Blob,
            _ => return None,
        })
    }

    #[inline(always)]
    pub(crate) fn is_packed(self) -> bool {
        self.flags() & FORMAT_MASK == Encoding::Packed as u8
    }

    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        self.flags() & LONG != 0
    }

    #[inline(always)]
    pub(crate) fn access(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline(always)]
    pub(crate) fn with_access(self, access: u8) -> Self {
        Self((self.0 & !0xff00) | (u64::from(access) << 8))
    }

    #[inline(always)]
    pub(crate) fn key_len(self) -> usize {
        if self.is_long() {
            (self.0 >> 32) as usize
        } else {
            (self.0 >> 16) as usize & 0xff
        }
    }

    #[inline(always)]
    pub(crate) fn key_is_out_of_line(self) -> bool {
        self.key_len() > KEY_INLINE_MAX
    }

    /// Bytes of the key's part of an unpacked body.
    #[inline(always)]
    pub(crate) fn key_field(self) -> usize {
        if self.key_is_out_of_line() {
            8
        } else {
            self.key_len()
        }
    }

    #[inline(always)]
    pub(crate) fn value_len(self) -> usize {
        let len = if self.is_long() {
            (self.0 >> 16) as usize & 0xffff
        } else {
            (self.0 >> 24) as usize & 0xff
        };
        len.min(VALUE_INLINE_MAX)
    }

    #[inline(always)]
    pub(crate) fn with_value_len(self, len: usize) -> Self {
        debug_assert!(self.is_long() && len <= VALUE_INLINE_MAX);
        Self((self.0 & !(0xffff << 16)) | ((len as u64) << 16))
    }

    #[inline(always)]
    pub(crate) fn ttl_bytes(self) -> usize {
        match self.flags() & (TTL_NARROW | TTL_WIDE) {
            0 => 0,
            TTL_NARROW => 6,
            _ => 8,
        }
    }

    #[inline(always)]
    pub(crate) fn ttl_offset(self) -> usize {
        if self.is_long() { 8 } else { 4 }
    }

    #[inline(always)]
    pub(crate) fn body_offset(self) -> usize {
        /// By the flags for a narrow deadline, a wide one, and the long form.
        const OFFSETS: [u8; 8] = [4, 10, 12, 12, 8, 14, 16, 16];
        usize::from(OFFSETS[usize::from(self.flags() >> 5)])
    }

    /// Where an unpacked value (or its capacity, or its address) begins.
    #[inline(always)]
    pub(crate) fn value_offset(self) -> usize {
        self.body_offset() + self.key_field()
    }

    #[inline(always)]
    pub(crate) fn expire_at(self, words: Words<'_>) -> Option<i64> {
        match self.ttl_bytes() {
            0 => None,
            6 => Some((words.load_at(self.ttl_offset()) as i64) & TTL_NARROW_MAX),
            _ => Some(words.load_at(self.ttl_offset()) as i64),
        }
    }

    pub(crate) fn slack_capacity(self, words: Words<'_>) -> usize {
        (words.load_at(self.value_offset()) & 0xffff) as usize
    }

    /// Bytes of the whole record. For the owner: a record that is being written has no size.
    pub(crate) fn record_bytes(self, words: Words<'_>) -> usize {
        match self.encoding().expect("a record has a known format") {
            Encoding::Raw | Encoding::Int => self.value_offset() + self.value_len(),
            Encoding::Packed => {
                self.body_offset() + pack7::packed_len(self.key_len() + self.value_len())
            }
            Encoding::Slack => self.value_offset() + 2 + self.slack_capacity(words),
            Encoding::Blob => self.value_offset() + 8,
        }
    }

    /// Whether the record's key is `key`. A key out of line never is: ask its owner.
    #[inline(always)]
    pub(crate) fn key_is(self, words: Words<'_>, key: &[u8]) -> bool {
        if self.key_len() != key.len() || key.len() > KEY_INLINE_MAX {
            return false;
        }
        if self.is_packed() {
            packed_equal(words, self.body_offset(), key)
        } else {
            words.equal(self.body_offset(), key)
        }
    }
}

/// Whether the characters from byte `offset` on are `text`, compared as they lie, eight at a time.
#[inline(always)]
fn packed_equal(words: Words<'_>, offset: usize, text: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let (chunks, rest) = text.as_chunks::<8>();
    let mut at = offset;
    for chunk in chunks {
        let wanted = u64::from_le_bytes(*chunk);
        if wanted & HIGH_BITS != 0 || words.load_at(at) & ((1 << 56) - 1) != squeeze(wanted) {
            return false;
        }
        at += 7;
    }
    if rest.is_empty() {
        return true;
    }
    let wanted = crate::words::small_word(rest);
    let mask = (1u64 << (rest.len() * 7)) - 1;
    wanted & HIGH_BITS == 0 && words.load_at(at) & mask == squeeze(wanted)
}

/// Eight characters to 56 bits.
#[inline(always)]
pub(crate) fn squeeze(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// 56 bits to eight characters; higher bits are ignored.
#[inline(always)]
pub(crate) fn spread(bits: u64) -> u64 {
    let word = (bits & 0x0fff_ffff) | ((bits & 0x00ff_ffff_f000_0000) << 4);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x0fff_c000_0fff_c000) << 2);
    (word & 0x007f_007f_007f_007f) | ((word & 0x3f80_3f80_3f80_3f80) << 1)
}

/// A record about to be written: encoding chosen, size known.
pub(crate) struct Plan<'a> {
    key: &'a [u8],
    body: Body<'a>,
    expire: Option<i64>,
    bytes: usize,
}

enum Body<'a> {
    Raw(&'a [u8]),
    Packed(&'a [u8]),
    Int(i64),
    Slack { value: &'a [u8], capacity: usize },
    Blob(Blob),
}

impl<'a> Plan<'a> {
    /// Chooses the encoding. `slot_bytes` gives the size of the slot for a record size, so that a
    /// value with slack fills its slot.
    pub(crate) fn new(
        key: &'a [u8],
        value: Value<'a>,
        expire: Option<i64>,
        slot_bytes: impl Fn(usize) -> usize,
    ) -> Self {
        let ttl = ttl_field(expire).map_or(0, |(_, bytes)| bytes);
        let key_field = if key.len() > KEY_INLINE_MAX {
            8
        } else {
            key.len()
        };
        let head = |value_len: usize| if key.len() > 255 || value_len > 255 { 8 } else { 4 } + ttl;
        let (body, bytes) = match value {
            Value::Int(number) => int_body(number, head(8) + key_field),
            Value::Blob(blob) => (Body::Blob(blob), head(8) + key_field + 8),
            Value::Bytes(value) if fits(head(256) + key_field, value.len()) => {
                bytes_body(key, value, head(value.len()), key_field)
            }
            Value::Text(value) if fits(head(256) + key_field, value.len()) => {
                text_body(key, value, head(value.len()), key_field)
            }
            Value::Slack(value) if fits(head(256) + key_field + 2, value.len()) => {
                let fixed = 8 + ttl + key_field + 2;
                let slot =
                    slot_bytes((fixed + value.len() + value.len() / 4).min(RECORD_BYTES_MAX));
                let capacity = (slot - fixed).min(VALUE_INLINE_MAX);
                (Body::Slack { value, capacity }, fixed + capacity)
            }
            Value::Bytes(value) | Value::Text(value) | Value::Slack(value) => (
                Body::Blob(Arc::new(value.to_vec())),
                head(8) + key_field + 8,
            ),
        };
        Self {
            key,
            body,
            expire,
            bytes,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has_ttl(&self) -> bool {
        self.expire.is_some()
    }

    /// Bytes of the value if it is out of line.
    pub(crate) fn blob_bytes(&self) -> usize {
        let value = match &self.body {
            Body::Blob(blob) => blob.capacity(),
            _ => 0,
        };
        if self.key.len() > KEY_INLINE_MAX {
            value + self.key.len()
        } else {
            value
        }
    }

    /// Builds the record and stores it at `target`, which has room for its bytes.
    #[inline]
    pub(crate) fn write(self, target: Words<'_>, access: u8) {
        const SMALL_WORDS: usize = 33;
        let words = self.bytes.div_ceil(8);
        if words <= SMALL_WORDS {
            let mut buffer = [0u64; SMALL_WORDS];
            self.build(&mut buffer[..words], access);
            target.store_record(&buffer[..words]);
        } else {
            let mut buffer = vec![0u64; words];
            self.build(&mut buffer, access);
            target.store_record(&buffer);
        }
    }

    #[inline]
    fn build(self, words: &mut [u64], access: u8) {
        let (format, value_len) = match &self.body {
            Body::Raw(value) => (Encoding::Raw, value.len()),
            Body::Packed(value) => (Encoding::Packed, value.len()),
            Body::Int(number) => (Encoding::Int, int_bytes(*number)),
            Body::Slack { value, .. } => (Encoding::Slack, value.len()),
            Body::Blob(_) => (Encoding::Blob, 8),
        };
        let is_long =
            self.key.len() > 255 || value_len > 255 || matches!(self.body, Body::Slack { .. });
        let ttl = ttl_field(self.expire);
        let key_len = u32::try_from(self.key.len()).expect("keys are below 4 GiB");
        let flags = format as u8 | ttl_flag(ttl) | if is_long { LONG } else { 0 };
        let header = if is_long {
            (u64::from(key_len) << 32) | ((value_len as u64) << 16)
        } else {
            (u64::from(key_len) << 16) | ((value_len as u64) << 24)
        };
        let header = header | (u64::from(access) << 8) | u64::from(flags);
        let bytes = bytes_mut(words);
        let mut at = if is_long {
            bytes[..8].copy_from_slice(&header.to_le_bytes());
            8
        } else {
            bytes[..4].copy_from_slice(&(header as u32).to_le_bytes());
            4
        };
        if let Some((deadline, size)) = ttl {
            bytes[at..at + size].copy_from_slice(&deadline.to_le_bytes()[..size]);
            at += size;
        }
        if let Body::Packed(value) = self.body {
            pack7::pack_two(self.key, value, &mut bytes[at..self.bytes]);
            return;
        }
        if self.key.len() > KEY_INLINE_MAX {
            let address = blob_into_word(Arc::new(self.key.to_vec()));
            bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            at += 8;
        } else {
            bytes[at..at + self.key.len()].copy_from_slice(self.key);
            at += self.key.len();
        }
        match self.body {
            Body::Raw(value) => bytes[at..at + value.len()].copy_from_slice(value),
            Body::Int(number) => {
                bytes[at..at + value_len].copy_from_slice(&number.to_le_bytes()[..value_len]);
            }
            Body::Slack { value, capacity } => {
                bytes[at..at + 2].copy_from_slice(&(capacity as u16).to_le_bytes());
                bytes[at + 2..at + 2 + value.len()].copy_from_slice(value);
            }
            Body::Blob(blob) => {
                bytes[at..at + 8].copy_from_slice(&blob_into_word(blob).to_le_bytes());
            }
            Body::Packed(_) => unreachable!("returned above"),
        }
    }
}

/// Whether a value can be kept in a record that has `fixed` bytes of other things.
fn fits(fixed: usize, value_len: usize) -> bool {
    value_len <= VALUE_INLINE_MAX && fixed + value_len <= RECORD_BYTES_MAX
}

fn bytes_body<'a>(key: &[u8], value: &'a [u8], head: usize, key_field: usize) -> (Body<'a>, usize) {
    if value.len() <= 20
        && let Some(number) = base::number::parse_i64(value)
    {
        return int_body(number, head + key_field);
    }
    text_body(key, value, head, key_field)
}

fn text_body<'a>(key: &[u8], value: &'a [u8], head: usize, key_field: usize) -> (Body<'a>, usize) {
    let raw = head + key_field + value.len();
    let characters = key.len() + value.len();
    if characters >= PACK_CHARACTERS_MIN && key.len() <= KEY_INLINE_MAX {
        let packed = head + pack7::packed_len(characters);
        if packed.div_ceil(8) < raw.div_ceil(8) && pack7::is_ascii(value) && pack7::is_ascii(key) {
            return (Body::Packed(value), packed);
        }
    }
    (Body::Raw(value), raw)
}

fn int_body<'a>(number: i64, fixed: usize) -> (Body<'a>, usize) {
    (Body::Int(number), fixed + int_bytes(number))
}

/// Bytes an integer takes.
pub(crate) fn int_bytes(number: i64) -> usize {
    if i8::try_from(number).is_ok() {
        1
    } else if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

/// The integer in the low `bytes` bytes of `word`.
#[inline(always)]
pub(crate) fn int_from_word(word: u64, bytes: usize) -> i64 {
    let shift = 64 - 8 * bytes.clamp(1, 8) as u32;
    ((word << shift) as i64) >> shift
}

/// The deadline as stored, and its size.
pub(crate) fn ttl_field(expire: Option<i64>) -> Option<(i64, usize)> {
    expire.map(|deadline| {
        let is_narrow = (0..=TTL_NARROW_MAX).contains(&deadline);
        (deadline, if is_narrow { 6 } else { 8 })
    })
}

/// The flags of a deadline field.
pub(crate) fn ttl_flag(ttl: Option<(i64, usize)>) -> u8 {
    match ttl {
        None => 0,
        Some((_, 6)) => TTL_NARROW,
        Some(_) => TTL_WIDE,
    }
}

/// The same record with another deadline. `record` is the old one; gives the new one.
pub(crate) fn with_expire(words: Words<'_>, header: Header, expire: Option<i64>) -> Vec<u64> {
    let body_bytes = header.record_bytes(words) - header.body_offset();
    let ttl = ttl_field(expire);
    let body = header.ttl_offset() + ttl.map_or(0, |(_, size)| size);
    let flag = ttl_flag(ttl);
    let header_word = (header.0 & !u64::from(TTL_NARROW | TTL_WIDE)) | u64::from(flag);
    let mut record = vec![0u64; (body + body_bytes).div_ceil(8)];
    let bytes = bytes_mut(&mut record);
    let head = header.ttl_offset();
    bytes[..head].copy_from_slice(&header_word.to_le_bytes()[..head]);
    if let Some((deadline, size)) = ttl {
        bytes[head..head + size].copy_from_slice(&deadline.to_le_bytes()[..size]);
    }
    words.fill(header.body_offset(), &mut bytes[body..body + body_bytes]);
    record
}

/// Bytes of the same record with a deadline field of another size.
pub(crate) fn bytes_with_ttl(words: Words<'_>, header: Header, ttl_bytes: usize) -> usize {
    header.record_bytes(words) - header.ttl_bytes() + ttl_bytes
}
