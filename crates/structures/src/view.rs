//! Reading one record.
//!
//! Without the latch everything a view says may be garbage until the read is confirmed; it is then
//! only guaranteed that no method reads beyond the arena or follows an address.

use crate::arena::class;
use crate::record::{
    Encoding, Header, KEY_INLINE_MAX, Kind, RECORD_BYTES_MAX, Value, int_from_word,
};
use crate::small::unpack_to;
use crate::words::{Words, blob_behind, blob_clone};
use base::Blob;
use base::number::{digits_u64, push_i64};

/// One key with its value and deadline.
#[derive(Clone, Copy)]
pub struct View<'a> {
    words: Words<'a>,
    header: Header,
    is_latched: bool,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut structure = formatter.debug_struct("View");
        structure.field("encoding", &self.header.encoding());
        structure.field("is_latched", &self.is_latched);
        structure.finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    /// A view of a record whose bucket is latched for `'a`.
    #[inline(always)]
    pub(crate) fn latched(words: Words<'a>) -> Self {
        Self {
            words,
            header: Header(words.load(0)),
            is_latched: true,
        }
    }

    /// A view of what may be a record. `None` if it needs the latch or is garbage.
    #[inline(always)]
    pub(crate) fn optimistic(words: Words<'a>, header: Header) -> Option<Self> {
        let encoding = header.encoding()?;
        if encoding == Encoding::Blob || header.key_is_out_of_line() {
            return None;
        }
        Some(Self {
            words,
            header,
            is_latched: false,
        })
    }

    pub fn kind(&self) -> Kind {
        Kind::String
    }

    pub fn encoding(&self) -> Encoding {
        self.header.encoding().unwrap_or(Encoding::Raw)
    }

    /// Whether the value is out of line; see [`View::blob`].
    #[inline]
    pub fn is_blob(&self) -> bool {
        self.encoding() == Encoding::Blob
    }

    /// Bytes of the value as a client sees it.
    #[inline]
    pub fn len(&self) -> usize {
        match self.encoding() {
            Encoding::Int => {
                let number = self.int();
                digits_u64(number.unsigned_abs()) + usize::from(number < 0)
            }
            Encoding::Blob => self.blob_ref().map_or(0, Vec::len),
            _ => self.header.value_len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The deadline in Unix milliseconds.
    #[inline(always)]
    pub fn expire_at(&self) -> Option<i64> {
        self.header.expire_at(self.words)
    }

    #[inline(always)]
    pub fn access(&self) -> u8 {
        self.header.access()
    }

    /// The integer, if the value is kept as one.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        (self.encoding() == Encoding::Int).then(|| self.int())
    }

    /// Appends the value to `target`.
    #[inline]
    pub fn copy_into(&self, target: &mut Vec<u8>) {
        let header = self.header;
        match self.encoding() {
            Encoding::Packed => unpack_to(
                self.words,
                header.body_offset(),
                self.key_characters(),
                header.value_len(),
                target,
            ),
            Encoding::Raw => self
                .words
                .copy_to(header.value_offset(), header.value_len(), target),
            Encoding::Int => push_i64(target, self.int()),
            Encoding::Slack => {
                self.words
                    .copy_to(header.value_offset() + 2, header.value_len(), target);
            }
            Encoding::Blob => target.extend_from_slice(self.blob_ref().map_or(&[], Vec::as_slice)),
        }
    }

    /// Appends `len` bytes of the value from byte `start` on, less where it ends earlier.
    pub fn copy_range_into(&self, start: usize, len: usize, target: &mut Vec<u8>) {
        let header = self.header;
        let end = start.saturating_add(len);
        let clip = |total: usize| (start.min(total), end.min(total) - start.min(total));
        match self.encoding() {
            Encoding::Packed => {
                let (start, len) = clip(header.value_len());
                let first = self.key_characters() + start;
                unpack_to(self.words, header.body_offset(), first, len, target);
            }
            Encoding::Raw | Encoding::Slack => {
                let (start, len) = clip(header.value_len());
                let skip = if self.encoding() == Encoding::Slack {
                    2
                } else {
                    0
                };
                self.words
                    .copy_to(header.value_offset() + skip + start, len, target);
            }
            Encoding::Int => {
                let mut text = Vec::with_capacity(20);
                push_i64(&mut text, self.int());
                let (start, len) = clip(text.len());
                target.extend_from_slice(&text[start..start + len]);
            }
            Encoding::Blob => {
                if let Some(value) = self.blob_ref() {
                    let (start, len) = clip(value.len());
                    target.extend_from_slice(&value[start..start + len]);
                }
            }
        }
    }

    /// A reference to the value if it is out of line. Only with the latch.
    pub fn blob(&self) -> Option<Blob> {
        if !self.is_latched || self.encoding() != Encoding::Blob {
            return None;
        }
        #[expect(unsafe_code, reason = "the record's own reference")]
        // SAFETY: the latch is held for as long as this view lives, so the record keeps its
        // reference, and its word was made by `blob_into_word`.
        Some(unsafe { blob_clone(self.words.load_at(self.header.value_offset())) })
    }

    /// Appends the key to `target`.
    pub fn key_into(&self, target: &mut Vec<u8>) {
        let header = self.header;
        if let Some(key) = self.long_key() {
            target.extend_from_slice(key);
        } else if header.is_packed() {
            let offset = header.body_offset();
            unpack_to(self.words, offset, 0, self.key_characters(), target);
        } else {
            let len = header.key_len().min(KEY_INLINE_MAX);
            self.words.copy_to(header.body_offset(), len, target);
        }
    }

    /// The value in a form that can be stored under another key. `scratch` is overwritten.
    pub fn export<'s>(&self, scratch: &'s mut Vec<u8>) -> Value<'s> {
        if let Some(blob) = self.blob() {
            return Value::Blob(blob);
        }
        if let Some(number) = self.as_int() {
            return Value::Int(number);
        }
        scratch.clear();
        self.copy_into(scratch);
        if self.encoding() == Encoding::Slack {
            Value::Slack(scratch)
        } else {
            Value::Text(scratch)
        }
    }

    /// Memory of the record, its slot's slack and its parts out of line included.
    pub fn memory_bytes(&self) -> usize {
        let bytes = self
            .header
            .record_bytes(self.words)
            .clamp(1, RECORD_BYTES_MAX);
        let slot = class::slot_bytes(class::class_of(bytes));
        slot + self.blob_ref().map_or(0, Vec::capacity) + self.long_key().map_or(0, <[u8]>::len)
    }

    #[inline(always)]
    pub(crate) fn key_equals(&self, key: &[u8]) -> bool {
        if key.len() <= KEY_INLINE_MAX {
            return self.header.key_is(self.words, key);
        }
        self.header.key_len() == key.len() && self.long_key() == Some(key)
    }

    #[inline(always)]
    fn key_characters(&self) -> usize {
        self.header.key_len().min(KEY_INLINE_MAX)
    }

    #[inline(always)]
    fn int(&self) -> i64 {
        let width = self.header.value_len();
        int_from_word(self.words.load_at(self.header.value_offset()), width)
    }

    fn blob_ref(&self) -> Option<&Vec<u8>> {
        if !self.is_latched || self.encoding() != Encoding::Blob {
            return None;
        }
        #[expect(unsafe_code, reason = "the record's own reference")]
        // SAFETY: as in `blob`; the result does not outlive the view.
        Some(unsafe { blob_behind(self.words.load_at(self.header.value_offset())) })
    }

    fn long_key(&self) -> Option<&[u8]> {
        if !self.is_latched || !self.header.key_is_out_of_line() {
            return None;
        }
        #[expect(unsafe_code, reason = "the record's own reference")]
        // SAFETY: as in `blob`; a key out of line is kept by the record in the same way.
        let key = unsafe { blob_behind(self.words.load_at(self.header.body_offset())) };
        Some(key)
    }
}
