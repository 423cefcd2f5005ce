//! The command line of `load`, and how it becomes a plan.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::plan::{Arrivals, Length, Plan};
use super::report;
use super::template::{Data, Shape};
use crate::client::Credentials;
use crate::random::Distribution;
use crate::sys::Address;

/// Commands that need no spelling out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    Get,
    Set,
    Mget,
    Mset,
    Incr,
    Ping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DistributionName {
    Uniform,
    Zipf,
    Sequential,
    /// One key for all connections.
    Hot,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Unix socket instead of host and port.
    #[arg(long)]
    socket: Option<PathBuf>,
    #[arg(long)]
    user: Option<String>,
    #[arg(long)]
    password: Option<String>,

    #[arg(long, short = 'c', default_value_t = 50)]
    connections: usize,
    #[arg(long, short = 't', default_value_t = 1)]
    threads: usize,
    /// Requests in flight on one connection at most.
    #[arg(long, short = 'P', default_value_t = 1)]
    pipeline: usize,
    /// Open loop: so many requests a second in all, latency from the time each was due.
    #[arg(long)]
    rate: Option<f64>,
    #[arg(long, value_enum, default_value = "constant")]
    arrivals: Arrivals,

    #[arg(long, value_enum, default_value = "get", conflicts_with_all = ["ratio", "command"])]
    op: Operation,
    /// Mix of SET and GET, such as 1:10.
    #[arg(long, conflicts_with = "command", value_parser = parse_ratio)]
    ratio: Option<(u32, u32)>,
    /// Any command, with {key}, {value} and {number}; `{key}*10` and `({key} {value})*10` repeat;
    /// a trailing @N is its weight. May be given several times.
    #[arg(long)]
    command: Vec<String>,
    /// Keys of one MGET or MSET.
    #[arg(long, default_value_t = 10)]
    multi_keys: usize,

    /// How many keys there are.
    #[arg(long, default_value_t = 1_000_000)]
    keyspace: u64,
    #[arg(long, value_enum, default_value = "uniform")]
    distribution: DistributionName,
    #[arg(long, default_value_t = 0.99)]
    zipf_exponent: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let all connections draw the same keys; only to show how far that distorts a result.
    #[arg(long)]
    same_seed: bool,
    #[arg(long, default_value = "key:")]
    key_prefix: String,
    /// Decimal digits after the prefix.
    #[arg(long, default_value_t = 10)]
    key_width: usize,
    #[arg(long, short = 'd', default_value_t = 100)]
    value_size: usize,
    #[arg(long, value_enum, default_value = "ascii")]
    data: Data,
    /// {number} is uniform below this, in 10 digits.
    #[arg(long, default_value_t = 1_000_000)]
    number_range: u64,

    /// First write every key once.
    #[arg(long)]
    preload: bool,
    /// The command that writes a key.
    #[arg(long, default_value = "SET {key} {value}")]
    preload_command: String,
    /// Measured seconds.
    #[arg(long, default_value_t = 10.0, conflicts_with = "requests")]
    duration: f64,
    /// Measure so many requests instead of a time.
    #[arg(long, short = 'n')]
    requests: Option<u64>,
    /// Seconds before the measured time.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,

    /// Report CPU time and memory of this process.
    #[arg(long)]
    server_pid: Option<u32>,
    /// CPUs for the load threads, such as 1 or 2,3.
    #[arg(long, value_delimiter = ',')]
    client_cpu: Vec<usize>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the load the command line asks for and prints the result.
pub(crate) fn run(args: &LoadArgs) -> Result<(), String> {
    let plan = args.plan()?;
    if args.preload {
        let filled = plan.preload(&args.preload_command)?;
        eprintln!(
            "preloaded {} keys in {:.2} s",
            filled.replies(),
            filled.seconds
        );
    }
    let measured = plan.run()?;
    if args.json {
        println!("{:#}", report::json(&plan, &measured));
    } else {
        print!("{}", report::table(&plan, &measured));
    }
    Ok(())
}

impl LoadArgs {
    fn plan(&self) -> Result<Plan, String> {
        let seconds = |seconds: f64, what: &str| {
            if seconds.is_finite() && (0.0..1e6).contains(&seconds) {
                Ok((seconds * 1e9) as u64)
            } else {
                Err(format!("{what} is not a number of seconds"))
            }
        };
        let length = match self.requests {
            Some(requests) => Length::Requests(requests),
            None => Length::Time {
                warm_up_ns: seconds(self.warm_up, "warm-up")?,
                measured_ns: seconds(self.duration, "duration")?,
            },
        };
        Ok(Plan {
            address: self.address()?,
            credentials: Credentials {
                user: self.user.clone(),
                password: self.password.clone(),
            },
            connections: self.connections,
            threads: self.threads,
            depth: self.pipeline,
            rate: self.rate,
            arrivals: self.arrivals,
            commands: self.commands()?,
            shape: Shape {
                key_prefix: self.key_prefix.clone(),
                key_width: self.key_width,
                value_bytes: self.value_size,
                data: self.data,
                number_range: self.number_range,
            },
            keys: self.keyspace,
            distribution: match self.distribution {
                DistributionName::Uniform => Distribution::Uniform,
                DistributionName::Zipf => Distribution::Zipf {
                    exponent: self.zipf_exponent,
                },
                DistributionName::Sequential => Distribution::Sequential,
                DistributionName::Hot => Distribution::Hot,
            },
            seed: self.seed,
            same_stream: self.same_seed,
            length,
            client_cpus: self.client_cpu.clone(),
            server_pid: self.server_pid,
            keep_samples: false,
        })
    }

    fn address(&self) -> Result<Address, String> {
        if let Some(path) = &self.socket {
            return Ok(Address::Unix(path.clone()));
        }
        let mut found: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| format!("{}: {error}", self.host))?
            .collect();
        found.sort_by_key(|address| !address.is_ipv4());
        let first = found
            .first()
            .ok_or_else(|| format!("{} has no address", self.host))?;
        Ok(Address::Tcp(*first))
    }

    fn commands(&self) -> Result<Vec<(String, u32)>, String> {
        if !self.command.is_empty() {
            return self.command.iter().map(|line| weighted(line)).collect();
        }
        if let Some((sets, gets)) = self.ratio {
            return Ok(vec![
                ("SET {key} {value}".to_owned(), sets),
                ("GET {key}".to_owned(), gets),
            ]);
        }
        let keys = self.multi_keys;
        let line = match self.op {
            Operation::Get => "GET {key}".to_owned(),
            Operation::Set => "SET {key} {value}".to_owned(),
            Operation::Mget => format!("MGET {{key}}*{keys}"),
            Operation::Mset => format!("MSET ({{key}} {{value}})*{keys}"),
            Operation::Incr => "INCR {key}".to_owned(),
            Operation::Ping => "PING".to_owned(),
        };
        Ok(vec![(line, 1)])
    }
}

/// Splits a trailing `@N` off a command line.
fn weighted(line: &str) -> Result<(String, u32), String> {
    match line.rsplit_once('@') {
        Some((command, weight)) if weight.bytes().all(|byte| byte.is_ascii_digit()) => {
            let weight = weight
                .parse()
                .map_err(|_| format!("bad weight in {line:?}"))?;
            Ok((command.trim_end().to_owned(), weight))
        }
        _ => Ok((line.to_owned(), 1)),
    }
}

fn parse_ratio(text: &str) -> Result<(u32, u32), String> {
    let (sets, gets) = text
        .split_once(':')
        .ok_or("a ratio is SETS:GETS, such as 1:10")?;
    let number = |part: &str| part.parse::<u32>().map_err(|error| error.to_string());
    let ratio = (number(sets)?, number(gets)?);
    if ratio == (0, 0) {
        Err("the ratio is 0:0".to_owned())
    } else {
        Ok(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_ratios() {
        assert_eq!(
            weighted("GET {key}@3").unwrap(),
            ("GET {key}".to_owned(), 3)
        );
        assert_eq!(weighted("GET a@b").unwrap(), ("GET a@b".to_owned(), 1));
        assert_eq!(weighted("GET a").unwrap(), ("GET a".to_owned(), 1));
        assert!(weighted("GET a@").is_err());
        assert_eq!(parse_ratio("1:10"), Ok((1, 10)));
        assert!(parse_ratio("0:0").is_err());
        assert!(parse_ratio("1").is_err());
    }
}
