//! The one place where a change becomes visible to others.
//!
//! Called while the command's locks are still held, after its handler, with the number of edits the
//! hold counted: whether something changed is never taken from what a handler claims. What watches
//! changes (journal, transactions, notifications, tracking) hooks in here and nowhere else.

use crate::stats::{ThreadStats, bump};
use store::Hold;

/// Publishes what the command did under `hold`.
#[inline]
pub(crate) fn commit(hold: &Hold<'_>, stats: &ThreadStats) {
    let edits = hold.edits();
    if edits > 0 {
        bump(&stats.changes, edits);
    }
    let expired = hold.expired();
    if expired > 0 {
        bump(&stats.expired, expired);
    }
}
