//! The reply buffer of a connection: bytes to be sent, in order.
//!
//! Small replies are appended to one contiguous vector; big values are spliced in by reference.
//! It knows no protocol and no socket. The bytes on the wire are
//!
//! ```text
//! buffer[sent..at_0]  blob_0[blob_sent..]  buffer[at_0..at_1]  blob_1  ...  buffer[at_last..]
//! ```
//!
//! Invariants: `sent <= at_0 <= at_1 <= ... <= buffer.len()`; `blob_sent` is less than the length
//! of the front blob; no empty blob is kept; `blob_bytes` is the unsent sum over all blobs.

use std::collections::VecDeque;
use std::sync::Arc;

/// A big value shared between the keyspace and the replies that carry it.
pub type Blob = Arc<Vec<u8>>;

/// Bytes waiting to be sent to one peer.
#[derive(Debug, Default)]
pub struct Output {
    buffer: Vec<u8>,
    /// Blobs with the buffer offset they precede.
    blobs: VecDeque<(usize, Blob)>,
    sent: usize,
    blob_sent: usize,
    blob_bytes: usize,
}

/// A place in an [`Output`], to which a partly written reply can be undone.
///
/// It is valid until bytes before it are sent, that is, until the next [`Output::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    buffer: usize,
    blobs: usize,
}

impl Output {
    /// An empty output; nothing is allocated until the first byte.
    pub const fn new() -> Self {
        Self {
            buffer: Vec::new(),
            blobs: VecDeque::new(),
            sent: 0,
            blob_sent: 0,
            blob_bytes: 0,
        }
    }

    /// An empty output with room for `bytes` before the first growth.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(bytes),
            ..Self::new()
        }
    }

    /// The vector to append to. The caller only ever appends: bytes already there may be in the
    /// middle of being sent.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Appends a shared value without copying it.
    pub fn push_blob(&mut self, blob: Blob) {
        if blob.is_empty() {
            return;
        }
        self.blob_bytes += blob.len();
        self.blobs.push_back((self.buffer.len(), blob));
    }

    /// Appends what another output has not sent.
    pub fn append(&mut self, other: Output) {
        let shift = self.buffer.len();
        assert!(
            other.sent == 0 && other.blob_sent == 0,
            "nothing of the other was sent"
        );
        self.buffer.extend_from_slice(&other.buffer);
        self.blob_bytes += other.blob_bytes;
        self.blobs
            .extend(other.blobs.into_iter().map(|(at, blob)| (at + shift, blob)));
    }

    /// Unsent bytes, blobs included.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.sent + self.blob_bytes
    }

    /// Whether nothing is left to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held by the contiguous part.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The unsent slices in sending order, at most `max` of them, none empty.
    pub fn segments(&self, max: usize) -> impl Iterator<Item = &[u8]> {
        let blobs = self.blobs.iter().enumerate();
        let mut from = self.sent;
        let pairs = blobs.flat_map(move |(index, (at, blob))| {
            let before = &self.buffer[from..*at];
            from = *at;
            let skip = if index == 0 { self.blob_sent } else { 0 };
            [before, &blob[skip..]]
        });
        let tail_from = self.blobs.back().map_or(self.sent, |(at, _)| *at);
        pairs
            .chain(std::iter::once(&self.buffer[tail_from..]))
            .filter(|slice| !slice.is_empty())
            .take(max)
    }

    /// As [`Output::segments`], but no more than `bytes` in all.
    pub fn segments_within(&self, max: usize, bytes: usize) -> impl Iterator<Item = &[u8]> {
        self.segments(max).scan(bytes, |left, segment| {
            let part = &segment[..segment.len().min(*left)];
            *left -= part.len();
            (!part.is_empty()).then_some(part)
        })
    }

    /// Forgets the first `count` unsent bytes, dropping blobs that are finished.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "advanced past the end of the output");
        let mut left = count;
        while left > 0 {
            let until = self.blobs.front().map_or(self.buffer.len(), |(at, _)| *at);
            let step = left.min(until - self.sent);
            self.sent += step;
            left -= step;
            if left == 0 {
                break;
            }
            let Some((_, blob)) = self.blobs.front() else {
                break;
            };
            let step = left.min(blob.len() - self.blob_sent);
            self.blob_sent += step;
            self.blob_bytes -= step;
            left -= step;
            if self.blob_sent == blob.len() {
                self.blobs.pop_front();
                self.blob_sent = 0;
            }
        }
        self.reclaim();
    }

    /// Drops everything unsent; memory is kept for the next replies.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.blobs.clear();
        self.sent = 0;
        self.blob_sent = 0;
        self.blob_bytes = 0;
    }

    /// Gives memory back until at most `bytes` of spare room is held.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.buffer.shrink_to(bytes);
    }

    /// The current end, for [`Self::truncate_to`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            buffer: self.buffer.len(),
            blobs: self.blobs.len(),
        }
    }

    /// Removes all that was appended since `mark`.
    pub fn truncate_to(&mut self, mark: Mark) {
        assert!(
            mark.buffer <= self.buffer.len()
                && mark.blobs <= self.blobs.len()
                && mark.buffer >= self.sent,
            "the mark is not inside the unsent output"
        );
        while self.blobs.len() > mark.blobs {
            if let Some((_, blob)) = self.blobs.pop_back() {
                let skip = if self.blobs.is_empty() {
                    std::mem::take(&mut self.blob_sent)
                } else {
                    0
                };
                self.blob_bytes -= blob.len() - skip;
            }
        }
        self.buffer.truncate(mark.buffer);
    }

    /// Keeps a long-lived, never quite empty output from growing without end.
    fn reclaim(&mut self) {
        if self.sent == self.buffer.len() && self.blobs.is_empty() {
            self.buffer.clear();
            self.sent = 0;
        } else if self.sent >= RECLAIM_BYTES_MIN && self.sent * 2 >= self.buffer.len() {
            self.buffer.drain(..self.sent);
            for (at, _) in &mut self.blobs {
                *at -= self.sent;
            }
            self.sent = 0;
        }
    }
}

/// Sent bytes below this are left in place: moving the rest would cost more than it frees.
const RECLAIM_BYTES_MIN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(output: &Output) -> Vec<u8> {
        output.segments(usize::MAX).flatten().copied().collect()
    }

    #[test]
    fn splices_blobs_in_order() {
        let mut output = Output::new();
        output.bytes().extend_from_slice(b"ab");
        output.push_blob(Arc::new(b"CD".to_vec()));
        output.push_blob(Arc::new(Vec::new()));
        output.bytes().extend_from_slice(b"ef");
        assert_eq!(joined(&output), b"abCDef");
        assert_eq!(output.segments(2).count(), 2);
        output.advance(3);
        assert_eq!((joined(&output).as_slice(), output.len()), (&b"Def"[..], 3));
        output.advance(3);
        assert!(output.is_empty());
        assert_eq!(output.segments(9).count(), 0);
    }

    #[test]
    fn undoes_to_a_mark() {
        let mut output = Output::new();
        output.bytes().extend_from_slice(b"ab");
        let mark = output.mark();
        output.push_blob(Arc::new(b"CD".to_vec()));
        output.bytes().extend_from_slice(b"ef");
        output.truncate_to(mark);
        assert_eq!((joined(&output).as_slice(), output.len()), (&b"ab"[..], 2));
    }

    proptest! {
        #[test]
        fn behaves_as_one_queue_of_bytes(steps in proptest::collection::vec((0u8..4, 0usize..90_000), 1..40)) {
            let mut output = Output::new();
            let mut model: Vec<u8> = Vec::new();
            for (index, (kind, size)) in steps.into_iter().enumerate() {
                let fill = vec![index as u8; size];
                match kind {
                    0 => { model.extend_from_slice(&fill); output.bytes().extend_from_slice(&fill); }
                    1 => { model.extend_from_slice(&fill); output.push_blob(Arc::new(fill)); }
                    2 => {
                        let mark = output.mark();
                        output.bytes().extend_from_slice(&fill);
                        output.push_blob(Arc::new(fill));
                        output.truncate_to(mark);
                    }
                    _ => {
                        let count = size.min(model.len());
                        model.drain(..count);
                        output.advance(count);
                    }
                }
                prop_assert_eq!(output.len(), model.len());
                prop_assert_eq!(joined(&output), model.clone());
            }
        }
    }
}
