//! Bytes, numbers, patterns and hashes: the ground every other crate stands on.
//!
//! This crate knows no files, sockets, clocks, threads or commands: every function here gives the
//! same answer for the same arguments. `unsafe` exists only in [`simd`].

pub mod glob;
pub mod hash;
pub mod number;
pub mod output;
#[expect(
    unsafe_code,
    reason = "processor-specific bit packing, dispatched at run time"
)]
pub mod simd;

pub use output::{Blob, Output};
