//! `compare`: all servers beside each other, in one run, on one machine.
//!
//! All servers are started and filled first; then each cell (command and depth) is measured on
//! every server in turn, several times round, so that a drift of the machine hits all alike. The
//! figure of a cell is the median. Ratios are formed inside the run only.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::load::{Data, Length, Plan, microseconds};
use crate::process;
use crate::server::{Candidate, Fleet, Program, Server};
use crate::sys;

/// Highest accepted ratio of Pronghorn's CPU per operation to a rival's, by depth.
const TARGETS: [(&str, [(usize, f64); 3]); 4] = [
    ("redis", [(1, 0.62), (16, 1.0 / 6.0), (30, 1.0 / 7.0)]),
    ("valkey", [(1, 0.75), (16, 0.42), (30, 0.36)]),
    ("floor-epoll", [(1, 1.12), (16, 1.6), (30, 1.9)]),
    ("floor-io_uring", [(1, 1.12), (16, 1.6), (30, 1.9)]),
];
/// Highest accepted bytes of resident memory a key of 14 bytes with 100 bytes takes.
const BYTES_PER_KEY_TARGETS: [(Data, f64); 2] = [(Data::Ascii, 114.0), (Data::Random, 130.0)];

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    fleet: Fleet,
    #[arg(long, default_value_t = 1_000_000)]
    keyspace: u64,
    #[arg(long, short = 'd', default_value_t = 100)]
    value_size: usize,
    #[arg(long, short = 'c', default_value_t = 50)]
    connections: usize,
    #[arg(long, value_delimiter = ',', default_value = "1,16,30")]
    pipelines: Vec<usize>,
    /// Command names of the cells.
    #[arg(long, value_delimiter = ',', default_value = "SET,GET")]
    commands: Vec<String>,
    /// Times round.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Measured seconds of a cell.
    #[arg(long, default_value_t = 3.0)]
    duration: f64,
    #[arg(long, default_value_t = 0.5)]
    warm_up: f64,
    /// Leave the CPU cells out.
    #[arg(long)]
    skip_cpu: bool,
    /// Leave the memory cells out.
    #[arg(long)]
    skip_memory: bool,
    /// Keys of the memory cells.
    #[arg(long, default_value_t = 1_000_000)]
    memory_keys: u64,
    /// Also write the results as JSON here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write the tables here.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

/// One server in one cell.
#[derive(Debug, Clone)]
struct Cell {
    server: String,
    command: String,
    depth: usize,
    rounds: Vec<Round>,
}

#[derive(Debug, Clone, Copy)]
struct Round {
    cpu_ns: f64,
    throughput: f64,
    p99_us: f64,
    client_ns: f64,
}

impl Cell {
    fn median(&self, pick: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(pick).collect())
    }

    /// Distance of the extremes from each other, relative to the median.
    fn spread(&self) -> f64 {
        let values = self.rounds.iter().map(|round| round.cpu_ns);
        let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (high - low) / self.median(|round| round.cpu_ns)
    }
}

#[derive(Debug)]
struct Memory {
    server: String,
    data: Data,
    bytes_per_key: f64,
    empty_bytes: u64,
}

/// Measures and prints; files are written as asked.
pub(crate) fn run(args: &CompareArgs) -> Result<(), String> {
    let candidates = args.fleet.candidates(true)?;
    let load_before = process::load_average();
    let cells = if args.skip_cpu {
        Vec::new()
    } else {
        measure_cells(args, &candidates)?
    };
    let memory = if args.skip_memory {
        Vec::new()
    } else {
        measure_memory(args, &candidates)?
    };
    let text = markdown(args, &cells, &memory, load_before);
    print!("{text}");
    if let Some(path) = &args.markdown {
        sys::write_text(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", json_report(args, &cells, &memory, load_before));
        sys::write_text(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn measure_cells(args: &CompareArgs, candidates: &[Candidate]) -> Result<Vec<Cell>, String> {
    let mut servers = Vec::new();
    for (offset, candidate) in candidates.iter().enumerate() {
        let server = args
            .fleet
            .start(candidate, offset as u16, args.value_size)?;
        if !matches!(candidate.program, Program::Floor { .. }) {
            plan(args, &server, args.keyspace, Data::Ascii).preload("SET {key} {value}")?;
        }
        servers.push(server);
    }
    let mut cells = Vec::new();
    for &depth in &args.pipelines {
        for command in &args.commands {
            let line = command_line(command)?;
            let mut row: Vec<Cell> = servers
                .iter()
                .map(|server| Cell {
                    server: server.name.clone(),
                    command: command.clone(),
                    depth,
                    rounds: Vec::new(),
                })
                .collect();
            for _ in 0..args.repeats.max(1) {
                for (server, cell) in servers.iter().zip(&mut row) {
                    let plan = Plan {
                        depth,
                        commands: vec![(line.clone(), 1)],
                        ..plan(args, server, args.keyspace, Data::Ascii)
                    };
                    cell.rounds.push(round(&plan, &server.name)?);
                }
            }
            for cell in &row {
                eprintln!(
                    "{command} P={depth} {}: {:.0} ns/op",
                    cell.server,
                    cell.median(|round| round.cpu_ns)
                );
            }
            cells.extend(row);
        }
    }
    Ok(cells)
}

fn round(plan: &Plan, name: &str) -> Result<Round, String> {
    let measured = plan.run().map_err(|error| format!("{name}: {error}"))?;
    if measured.replies() == 0 {
        return Err(format!(
            "{name}: no reply in the measured time; is the machine overloaded?"
        ));
    }
    if measured.errors() + measured.nulls() > 0 {
        // A miss is cheaper than a hit, an error cheaper still: such a figure means nothing.
        return Err(format!(
            "{name}: {} errors and {} misses ({})",
            measured.errors(),
            measured.nulls(),
            measured.first_error.unwrap_or_default()
        ));
    }
    Ok(Round {
        cpu_ns: measured.server_cpu_per_operation().unwrap_or(f64::NAN),
        throughput: measured.throughput(),
        p99_us: microseconds(measured.latency_ns(0.99)),
        client_ns: measured.client_cpu_per_operation(),
    })
}

/// A command line for a cell's name.
fn command_line(name: &str) -> Result<String, String> {
    match name.to_ascii_uppercase().as_str() {
        "GET" => Ok("GET {key}".to_owned()),
        "SET" => Ok("SET {key} {value}".to_owned()),
        "MGET" => Ok("MGET {key}*10".to_owned()),
        "MSET" => Ok("MSET ({key} {value})*10".to_owned()),
        "PING" => Ok("PING".to_owned()),
        _ => Err(format!(
            "no cell is called {name}; known: GET, SET, MGET, MSET, PING"
        )),
    }
}

fn plan(args: &CompareArgs, server: &Server, keys: u64, data: Data) -> Plan {
    let mut plan = Plan {
        connections: args.connections,
        threads: args
            .fleet
            .client_cpu
            .len()
            .clamp(1, args.connections.max(1)),
        keys,
        length: Length::Time {
            warm_up_ns: (args.warm_up * 1e9) as u64,
            measured_ns: (args.duration * 1e9) as u64,
        },
        client_cpus: args.fleet.client_cpu.clone(),
        server_pid: Some(server.pid()),
        ..Plan::standard(server.address.clone())
    };
    plan.shape.value_bytes = args.value_size;
    plan.shape.data = data;
    plan
}

/// Resident bytes a key: growth over the empty server, each time in a fresh process.
fn measure_memory(args: &CompareArgs, candidates: &[Candidate]) -> Result<Vec<Memory>, String> {
    let mut memory = Vec::new();
    for candidate in candidates {
        if matches!(candidate.program, Program::Floor { .. }) {
            continue;
        }
        for (data, _) in BYTES_PER_KEY_TARGETS {
            let server = args.fleet.start(candidate, 0, args.value_size)?;
            let empty_bytes = server.settled_rss_bytes()?;
            plan(args, &server, args.memory_keys, data).preload("SET {key} {value}")?;
            let full_bytes = server.settled_rss_bytes()?;
            memory.push(Memory {
                server: candidate.name.clone(),
                data,
                bytes_per_key: full_bytes.saturating_sub(empty_bytes) as f64
                    / args.memory_keys as f64,
                empty_bytes,
            });
        }
    }
    Ok(memory)
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// Pronghorn's cost over a rival's, with the target for this rival and depth if there is one.
fn ratio(cells: &[Cell], rival: &Cell) -> Option<(f64, Option<f64>)> {
    let ours = cells.iter().find(|cell| {
        cell.server == "pronghorn" && cell.command == rival.command && cell.depth == rival.depth
    })?;
    let ratio = ours.median(|round| round.cpu_ns) / rival.median(|round| round.cpu_ns);
    let target = (rival.command == "GET" || rival.command == "SET").then(|| {
        let (_, depths) = TARGETS.iter().find(|(name, _)| *name == rival.server)?;
        Some(depths.iter().find(|(depth, _)| *depth == rival.depth)?.1)
    });
    Some((ratio, target.flatten()))
}

fn verdict(value: f64, target: Option<f64>) -> String {
    match target {
        None => "-".to_owned(),
        Some(target) if value <= target => format!("{target:.3} reached"),
        Some(target) => format!("{target:.3} missed"),
    }
}

fn markdown(args: &CompareArgs, cells: &[Cell], memory: &[Memory], load: Option<f64>) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} keys, {} byte values, {} connections, server on CPU {:?}, load on CPU {:?}, {} x {} s, \
         independent keys per connection; load average before: {}\n",
        args.keyspace,
        args.value_size,
        args.connections,
        args.fleet.server_cpu,
        args.fleet.client_cpu,
        args.repeats,
        args.duration,
        load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"))
    );
    if !cells.is_empty() {
        text.push_str(
            "| command | depth | server | CPU ns/op | spread | ops/s | p99 us | client ns/op \
             | pronghorn is | target |\n|---|---|---|---|---|---|---|---|---|---|\n",
        );
    }
    for cell in cells {
        let (ratio_text, target_text) = match ratio(cells, cell) {
            Some((ratio, target)) if cell.server != "pronghorn" => {
                (format!("{ratio:.3}x"), verdict(ratio, target))
            }
            _ => ("-".to_owned(), "-".to_owned()),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.0} | {:.0} % | {:.0} | {:.0} | {:.0} | {ratio_text} | {target_text} |",
            cell.command,
            cell.depth,
            cell.server,
            cell.median(|round| round.cpu_ns),
            cell.spread() * 100.0,
            cell.median(|round| round.throughput),
            cell.median(|round| round.p99_us),
            cell.median(|round| round.client_ns),
        );
    }
    if !memory.is_empty() {
        let _ = writeln!(
            text,
            "\n{} keys of 14 bytes with {} bytes\n\n| server | data | RSS bytes/key | empty MiB \
             | target |\n|---|---|---|---|---|",
            args.memory_keys, args.value_size
        );
    }
    for row in memory {
        let target = BYTES_PER_KEY_TARGETS
            .iter()
            .find(|(data, _)| *data == row.data);
        let target = target.filter(|_| row.server == "pronghorn" && args.value_size == 100);
        let _ = writeln!(
            text,
            "| {} | {:?} | {:.1} | {:.1} | {} |",
            row.server,
            row.data,
            row.bytes_per_key,
            row.empty_bytes as f64 / 1_048_576.0,
            verdict(row.bytes_per_key, target.map(|(_, target)| *target)),
        );
    }
    text
}

fn json_report(args: &CompareArgs, cells: &[Cell], memory: &[Memory], load: Option<f64>) -> Value {
    let cell_rows: Vec<Value> = cells
        .iter()
        .map(|cell| {
            let compared = ratio(cells, cell).filter(|_| cell.server != "pronghorn");
            json!({
                "server": cell.server,
                "command": cell.command,
                "depth": cell.depth,
                "cpu_ns_per_operation": cell.median(|round| round.cpu_ns),
                "cpu_ns_rounds": cell.rounds.iter().map(|round| round.cpu_ns).collect::<Vec<_>>(),
                "operations_per_second": cell.median(|round| round.throughput),
                "p99_us": cell.median(|round| round.p99_us),
                "client_cpu_ns_per_operation": cell.median(|round| round.client_ns),
                "pronghorn_ratio": compared.map(|(ratio, _)| ratio),
                "target_ratio": compared.and_then(|(_, target)| target),
            })
        })
        .collect();
    let memory_rows: Vec<Value> = memory
        .iter()
        .map(|row| {
            json!({
                "server": row.server,
                "data": format!("{:?}", row.data).to_lowercase(),
                "rss_bytes_per_key": row.bytes_per_key,
                "rss_bytes_empty": row.empty_bytes,
            })
        })
        .collect();
    json!({
        "keyspace": args.keyspace,
        "memory_keys": args.memory_keys,
        "value_bytes": args.value_size,
        "connections": args.connections,
        "repeats": args.repeats,
        "seconds": args.duration,
        "load_average_before": load,
        "cells": cell_rows,
        "memory": memory_rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(server: &str, depth: usize, costs: &[f64]) -> Cell {
        let rounds = costs
            .iter()
            .map(|&cpu_ns| Round {
                cpu_ns,
                throughput: 1.0,
                p99_us: 1.0,
                client_ns: 1.0,
            })
            .collect();
        Cell {
            server: server.to_owned(),
            command: "GET".to_owned(),
            depth,
            rounds,
        }
    }

    #[test]
    fn medians_and_spread() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
        assert!((cell("x", 1, &[90.0, 100.0, 110.0]).spread() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn ratios_find_their_target() {
        let cells = [
            cell("pronghorn", 30, &[200.0]),
            cell("redis", 30, &[1000.0]),
            cell("redis", 5, &[1.0]),
            cell("redis8", 30, &[400.0]),
        ];
        let (value, target) = ratio(&cells, &cells[1]).unwrap();
        assert!((value - 0.2).abs() < 1e-9);
        assert!(verdict(value, target).ends_with("missed"));
        assert!(verdict(0.14, target).ends_with("reached"));
        assert!(ratio(&cells, &cells[2]).is_none());
        assert_eq!(ratio(&cells, &cells[3]).unwrap().1, None);
    }
}
