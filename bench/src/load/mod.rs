//! `load`: drives a running server and reports what it cost.
//!
//! What it never knows: which server it is talking to.

mod args;
mod plan;
mod report;
mod template;
mod worker;

pub(crate) use args::{LoadArgs, run};
pub(crate) use plan::{Arrivals, Length, Measured, Plan};
pub(crate) use report::{microseconds, quantiles_json};
pub(crate) use template::{Data, Shape};
pub(crate) use worker::Sample;
