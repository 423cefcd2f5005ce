//! placeholder

pub mod inbox;
pub mod locks;
pub mod safepoint;
pub mod slow_lane;
