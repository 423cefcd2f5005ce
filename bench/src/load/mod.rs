//! `load`: drives a running server and reports what it cost.
//!
//! What it never knows: which server it is talking to.

mod args;
mod plan;
mod report;
mod template;
mod worker;

pub(crate) use args::{LoadArgs, run};
pub(crate) use plan::{Length, Measured, Plan};
pub(crate) use report::microseconds;
pub(crate) use template::Data;
pub(crate) use worker::Sample;
