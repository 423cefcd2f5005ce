//! The housekeeping thread: expiry, freeing what was dropped, order in memory, samples for INFO.
//!
//! It holds nothing that a command waits for longer than a bucket's latch, and takes part in
//! safepoints.

use engine::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::SweepCursor;

/// Share of the time that the sweep may take at the lowest effort, percent.
const SWEEP_PERCENT: u64 = 25;
/// More of it per step of `active-expire-effort`, percent.
const SWEEP_PERCENT_PER_EFFORT: u64 = 2;
/// Longest turn before the safepoint is passed, ns.
const TURN_NS: u64 = 1_000_000;

/// Starts the thread; it ends soon after `stop` is set.
pub(crate) fn start(
    server: Arc<Server>,
    stop: Arc<AtomicBool>,
) -> std::io::Result<env::thread::JoinHandle<()>> {
    env::thread::spawn_named("housekeeping", move || {
        let participant = server.store.safepoint().register();
        let mut cursor = SweepCursor::default();
        while !stop.load(Relaxed) {
            let period_ms = 1000 / u64::from(server.config.hz().max(1));
            let started_ns = env::clock::monotonic_ns();
            round(&server, &participant, &mut cursor, period_ms);
            let spent_ms = (env::clock::monotonic_ns() - started_ns) / 1_000_000;
            env::thread::sleep_ms(period_ms.saturating_sub(spent_ms).clamp(1, 100));
        }
    })
}

fn round(
    server: &Server,
    participant: &store::Participant,
    cursor: &mut SweepCursor,
    period_ms: u64,
) {
    let effort = u64::from(server.config.active_expire_effort().saturating_sub(1));
    let percent = SWEEP_PERCENT + SWEEP_PERCENT_PER_EFFORT * effort;
    let start_ns = env::clock::monotonic_ns();
    let end_ns = start_ns + period_ms * 10_000 * percent;
    participant.enter();
    if server.store.is_sweeping() {
        sweep(server, participant, cursor, end_ns);
        let spent_ns = env::clock::monotonic_ns() - start_ns;
        server
            .store
            .note_sweep(spent_ns, spent_ns >= end_ns - start_ns);
    }
    let end_ns = env::clock::monotonic_ns() + period_ms * 500_000;
    while server.store.take_out_trash() && env::clock::monotonic_ns() < end_ns {
        participant.pass();
    }
    while env::clock::monotonic_ns() < end_ns && server.store.memory_step() {
        participant.pass();
    }
    participant.leave();
    server.sample();
}

fn sweep(server: &Server, participant: &store::Participant, cursor: &mut SweepCursor, end_ns: u64) {
    loop {
        let now_ns = env::clock::monotonic_ns();
        if now_ns >= end_ns {
            return;
        }
        let turn_ns = end_ns.min(now_ns + TURN_NS);
        if server
            .store
            .sweep(cursor, server.now_ms(), turn_ns)
            .complete
        {
            return;
        }
        participant.pass();
    }
}
