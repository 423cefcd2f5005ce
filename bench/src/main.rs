//! `pronghorn-bench`: measures a server that speaks RESP, beside its peers and beside the floor.
//!
//! What it never knows: the internals of the server. It speaks raw RESP over sockets and reads
//! `/proc`; it depends on no other crate of the workspace.

mod client;
mod compare;
mod connections;
mod floor;
mod isolation;
mod load;
mod process;
mod random;
mod resp;
mod server;
mod sys;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures a RESP server: load, comparison with peers, isolation, memory, idle connections.
#[derive(Debug, Parser)]
#[command(name = "pronghorn-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A server with fixed replies: what the kernel alone costs.
    Floor(floor::FloorArgs),
    /// Drive a running server and report throughput, latency and server CPU per operation.
    Load(load::LoadArgs),
    /// Start all servers, measure them in turn, print ratios and targets.
    Compare(compare::CompareArgs),
    /// Latency of innocent clients while a long command runs.
    Isolation(isolation::IsolationArgs),
    /// Memory of idle connections.
    Idle(connections::IdleArgs),
    /// One key read by all, from one server thread and from two.
    Hotkey(connections::HotkeyArgs),
    /// Latency of well-behaved clients while others misbehave.
    Hostile(connections::HostileArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Floor(args) => floor::run(&args).map_err(|error| error.to_string()),
        Command::Load(args) => load::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Isolation(args) => isolation::run(&args),
        Command::Idle(args) => connections::run_idle(&args),
        Command::Hotkey(args) => connections::run_hotkey(&args),
        Command::Hostile(args) => connections::run_hostile(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("pronghorn-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
