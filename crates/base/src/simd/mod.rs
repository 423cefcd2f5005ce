//! Kernels that use processor-specific instructions, each with a portable twin of equal results.

pub mod pack7;
