//! Signals: SIGTERM and SIGINT stop the server in order, a second SIGINT at once.

use crate::host::Stop;
use engine::config::{Config, shutdown_mask};
use engine::server::ShutdownOptions;
use env::signals::{Signal, Signals};
use std::sync::Arc;

/// Takes the signals over. Before any thread is started.
///
/// # Errors
/// What the system says.
pub(crate) fn take() -> std::io::Result<Signals> {
    env::signals::install(&[Signal::Terminate, Signal::Interrupt, Signal::HangUp])
}

fn options(mask: i64) -> ShutdownOptions {
    ShutdownOptions {
        nosave: mask & shutdown_mask::NOSAVE != 0,
        save: mask & shutdown_mask::SAVE != 0,
        now: mask & shutdown_mask::NOW != 0,
        force: mask & shutdown_mask::FORCE != 0,
    }
}

/// Starts the thread that waits for them.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn watch(signals: Signals, config: Arc<Config>, stop: Arc<Stop>) -> std::io::Result<()> {
    env::thread::spawn_named("signals", move || {
        let mut interrupted = false;
        for signal in signals {
            let mask = match signal {
                Signal::Interrupt if interrupted => {
                    // As a user who presses the key again wants: without any order.
                    tracing::warn!("You insist... exiting now.");
                    std::process::exit(1);
                }
                Signal::Interrupt => {
                    interrupted = true;
                    config.shutdown_on_sigint_mask()
                }
                Signal::Terminate => config.shutdown_on_sigterm_mask(),
                _ => {
                    tracing::info!(
                        "Received {}; the log is opened for each line.",
                        signal.name()
                    );
                    continue;
                }
            };
            tracing::warn!("Received {} scheduling shutdown...", signal.name());
            stop.ask(options(mask));
        }
    })?;
    Ok(())
}
