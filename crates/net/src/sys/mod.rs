//! The only unsafe code of this crate: io_uring.
//!
//! # Protocol
//!
//! The kernel reads and writes memory of ours at times of its choosing. Two kinds of memory are
//! concerned, and each has one owner at any time:
//!
//! - **Outputs being sent.** [`uring::Uring::send`](crate::backend::Backend::send) moves the
//!   `Output` into a flight that nobody else can reach, and only then takes pointers to its bytes.
//!   Moving an `Output` does not move its bytes (they are in a `Vec` and in `Arc<Vec>`s). The flight
//!   gives the output up when the send's completion has been seen, not before, also if the send
//!   was cancelled.
//! - **Receive buffers** ([`buffers`]). A buffer belongs to the kernel from the moment it is put
//!   into the ring until a completion names it; then to us, as a chunk that cannot be copied, until
//!   it is put back. Bytes are read only through a chunk.
//!
//! The ring counts the operations that refer to such memory. When it is dropped it cancels them
//! and waits until all have completed; if that fails the memory is leaked rather than freed.
//!
//! Descriptors need no such care: an operation holds a reference to the open file.

#![expect(unsafe_code, reason = "the kernel shares memory with us")]

pub(crate) mod buffers;
pub(crate) mod uring;
