//! `isolation`: what a long command costs the clients that have nothing to do with it.
//!
//! An open loop of GETs on other keys runs all the time. Its 99th percentile while the long command
//! runs is set beside the quiet one before it. Latency counts from the time a request was due, so
//! a server that stands still for a second shows a second.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use crate::client::Client;
use crate::load::{Length, Plan, Sample, microseconds};
use crate::server::{Fleet, Server};
use crate::sys;

/// p99 during the long command may be at most so many times the quiet p99.
const TARGET: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// KEYS * over the whole keyspace.
    Keys,
    /// DEL of many keys in one command.
    Del,
    /// UNLINK of many keys in one command.
    Unlink,
    /// MGET of many keys in one command.
    Mget,
    /// DEL of one large set.
    DelSet,
    /// SUNION of two large sets.
    Sunion,
}

#[derive(Debug, Args)]
pub(crate) struct IsolationArgs {
    #[command(flatten)]
    fleet: Fleet,
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "keys,del,unlink,mget,del-set,sunion"
    )]
    scenarios: Vec<Scenario>,
    /// Keys of 100 bytes that KEYS walks; the GETs read them too.
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    /// Keys of the multi-key commands and members of the sets.
    #[arg(long, default_value_t = 1_000_000)]
    items: u64,
    /// GETs a second.
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    #[arg(long, short = 'c', default_value_t = 20)]
    connections: usize,
    /// Seconds of quiet before the long command.
    #[arg(long, default_value_t = 4)]
    quiet: u64,
    /// Seconds in which the long command is started again and again, if it can be.
    #[arg(long, default_value_t = 6)]
    busy: u64,
}

#[derive(Debug)]
struct Outcome {
    quiet_p99_ns: u64,
    busy_p99_ns: u64,
    busy_max_ns: u64,
    busy_samples: usize,
    command_seconds: Vec<f64>,
}

pub(crate) fn run(args: &IsolationArgs) -> Result<(), String> {
    let mut text = String::from(
        "| server | scenario | command s | quiet p99 us | busy p99 us | busy max us | samples \
         | ratio | target |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for candidate in args.fleet.candidates(false)? {
        let server = args.fleet.start(&candidate, 0, 100)?;
        background(args, &server, args.keys).preload("SET {key} {value}")?;
        for &scenario in &args.scenarios {
            let outcome = measure(args, &server, scenario)?;
            let ratio = outcome.busy_p99_ns as f64 / outcome.quiet_p99_ns as f64;
            let times = &outcome.command_seconds;
            let _ = writeln!(
                text,
                "| {} | {scenario:?} | {:.2} x {} | {:.0} | {:.0} | {:.0} | {} | {ratio:.1}x | {} |",
                server.name,
                times.iter().sum::<f64>() / times.len() as f64,
                times.len(),
                microseconds(outcome.quiet_p99_ns),
                microseconds(outcome.busy_p99_ns),
                microseconds(outcome.busy_max_ns),
                outcome.busy_samples,
                if ratio <= TARGET {
                    "2x reached"
                } else {
                    "2x missed"
                },
            );
        }
    }
    print!("{text}");
    Ok(())
}

/// The clients that have nothing to do with the long command.
fn background(args: &IsolationArgs, server: &Server, keys: u64) -> Plan {
    Plan {
        connections: args.connections,
        keys,
        client_cpus: args.fleet.client_cpu.clone(),
        ..Plan::standard(server.address.clone())
    }
}

fn measure(args: &IsolationArgs, server: &Server, scenario: Scenario) -> Result<Outcome, String> {
    let (command, repeatable) = prepare(args, server, scenario)?;
    let plan = Plan {
        depth: 4,
        rate: Some(args.rate),
        length: Length::Time {
            warm_up_ns: 500_000_000,
            measured_ns: (args.quiet + args.busy) * 1_000_000_000,
        },
        keep_samples: true,
        ..background(args, server, args.keys)
    };
    let start_ns = sys::now_ns();
    let load = sys::spawn("background", None, move || plan.run())
        .map_err(|error| format!("thread: {error}"))?;
    let quiet_end_ns = start_ns + args.quiet * 1_000_000_000;
    sys::sleep_until_ns(quiet_end_ns);
    let busy_end_ns = quiet_end_ns + args.busy * 1_000_000_000;
    let mut client = server.client()?;
    let busy = sys::spawn("busy", None, move || {
        // The reader of a huge reply must not take the CPU from those who are measured.
        sys::yield_to_others();
        repeat(&mut client, &command, repeatable.then_some(busy_end_ns))
    });
    let windows = busy
        .map_err(|error| format!("thread: {error}"))?
        .join()
        .map_err(|_| "the long command's thread panicked")??;
    let measured = load.join().map_err(|_| "the background load panicked")??;
    if measured.errors() + measured.nulls() + measured.unanswered > 0 {
        return Err(format!(
            "{}: background: {} errors, {} misses, {} unanswered ({})",
            server.name,
            measured.errors(),
            measured.nulls(),
            measured.unanswered,
            measured.first_error.unwrap_or_default()
        ));
    }
    outcome(&measured.samples, &windows)
}

/// Runs the command once, or again and again as long as it is likely to end by `until_ns`; returns
/// begin and end of each.
fn repeat(
    client: &mut Client,
    command: &[Vec<u8>],
    until_ns: Option<u64>,
) -> Result<Vec<(u64, u64)>, String> {
    let slices: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let mut windows = Vec::new();
    loop {
        let begin = sys::now_ns();
        client.call_counted(&slices)?;
        let end = sys::now_ns();
        windows.push((begin, end));
        if until_ns.is_none_or(|until| end + (end - begin) > until) {
            return Ok(windows);
        }
    }
}

fn outcome(samples: &[Sample], windows: &[(u64, u64)]) -> Result<Outcome, String> {
    let first = windows.first().map_or(u64::MAX, |window| window.0);
    let mut quiet: Vec<u64> = samples
        .iter()
        .filter(|sample| sample.start_ns < first.saturating_sub(100_000_000))
        .map(|sample| sample.latency_ns)
        .collect();
    let mut busy: Vec<u64> = samples
        .iter()
        .filter(|sample| {
            windows
                .iter()
                .any(|&(begin, end)| (begin..end).contains(&sample.start_ns))
        })
        .map(|sample| sample.latency_ns)
        .collect();
    if quiet.is_empty() || busy.is_empty() {
        return Err("too few requests to compare: raise the rate or the size".to_owned());
    }
    Ok(Outcome {
        quiet_p99_ns: quantile(&mut quiet, 0.99),
        busy_p99_ns: quantile(&mut busy, 0.99),
        busy_max_ns: busy.last().copied().unwrap_or_default(),
        busy_samples: busy.len(),
        command_seconds: windows
            .iter()
            .map(|&(begin, end)| (end - begin) as f64 / 1e9)
            .collect(),
    })
}

/// Sorts `values`; the smallest value that at least `quantile` of them do not exceed.
fn quantile(values: &mut [u64], quantile: f64) -> u64 {
    values.sort_unstable();
    let rank = (quantile * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// Makes the data the long command needs; returns the command and whether it leaves them alone.
fn prepare(
    args: &IsolationArgs,
    server: &Server,
    scenario: Scenario,
) -> Result<(Vec<Vec<u8>>, bool), String> {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut many = background(args, server, args.items);
    "big:".clone_into(&mut many.shape.key_prefix);
    let names = || (0..args.items).map(|item| format!("big:{item:010}").into_bytes());
    match scenario {
        Scenario::Keys => Ok((words(&["KEYS", "*"]), true)),
        Scenario::Del | Scenario::Unlink | Scenario::Mget => {
            many.preload("SET {key} {value}")?;
            let name = match scenario {
                Scenario::Del => "DEL",
                Scenario::Unlink => "UNLINK",
                _ => "MGET",
            };
            let mut command: Vec<Vec<u8>> = words(&[name]);
            command.extend(names());
            Ok((command, scenario == Scenario::Mget))
        }
        Scenario::DelSet => {
            many.preload("SADD set:del {key}")?;
            Ok((words(&["DEL", "set:del"]), false))
        }
        Scenario::Sunion => {
            many.preload("SADD set:one {key}")?;
            many.preload("SADD set:two x{key}")?;
            Ok((words(&["SUNION", "set:one", "set:two"]), true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_samples() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&mut values, 0.99), 99);
        assert_eq!(quantile(&mut values, 1.0), 100);
        assert_eq!(quantile(&mut values, 0.0), 1);
        assert_eq!(quantile(&mut [7], 0.99), 7);
    }

    #[test]
    fn samples_are_sorted_into_quiet_and_busy() {
        let sample = |start_ms: u64, latency_ns| Sample {
            start_ns: start_ms * 1_000_000,
            latency_ns,
        };
        let samples = [
            sample(500, 10),
            sample(950, 77),
            sample(1500, 1000),
            sample(2500, 99),
            sample(3500, 2000),
        ];
        let windows = [
            (1_000_000_000, 2_000_000_000),
            (3_000_000_000, 4_000_000_000),
        ];
        let outcome = outcome(&samples, &windows).unwrap();
        assert_eq!(outcome.quiet_p99_ns, 10);
        assert_eq!(outcome.busy_p99_ns, 2000);
        assert_eq!(outcome.busy_samples, 2);
    }
}
