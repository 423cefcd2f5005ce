//! What a load is, apart from the command line: the plan, and carrying it out on threads.

use std::os::fd::OwnedFd;

use super::template::{Data, Shape, Template, value_pool};
use super::worker::{self, Pace, Sample, Tally, Task, Yield};
use crate::client::{Client, Credentials};
use crate::process;
use crate::random::{Distribution, KeyStream, Random};
use crate::sys::{self, Address};

/// How requests of an open loop are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arrivals {
    /// Evenly.
    Constant,
    /// At random, exponentially distributed gaps.
    Poisson,
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// After a time; the warm-up before it is not measured.
    Time { warm_up_ns: u64, measured_ns: u64 },
    /// After so many requests, all of them measured. Closed loop only.
    Requests(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) address: Address,
    pub(crate) credentials: Credentials,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// Requests in flight on a connection at most.
    pub(crate) depth: usize,
    /// Requests a second of all connections together: open loop. `None`: closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) arrivals: Arrivals,
    /// Command lines with their weights, see `Template::compile`.
    pub(crate) commands: Vec<(String, u32)>,
    pub(crate) shape: Shape,
    pub(crate) keys: u64,
    pub(crate) distribution: Distribution,
    pub(crate) seed: u64,
    /// All connections draw the same keys. Only to show what that does to a result.
    pub(crate) same_stream: bool,
    pub(crate) length: Length,
    /// Worker i runs on CPU i modulo the length; not pinned if empty.
    pub(crate) client_cpus: Vec<usize>,
    pub(crate) server_pid: Option<u32>,
    pub(crate) keep_samples: bool,
}

/// What a load measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) tallies: Vec<Tally>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) seconds: f64,
    pub(crate) client_cpu_ns: u64,
    /// CPU time of the server in the measured window.
    pub(crate) server_cpu_ns: Option<u64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) first_error: Option<String>,
    pub(crate) unanswered: u64,
}

impl Measured {
    pub(crate) fn replies(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.replies).sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.errors).sum()
    }

    pub(crate) fn nulls(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.nulls).sum()
    }

    pub(crate) fn throughput(&self) -> f64 {
        self.replies() as f64 / self.seconds
    }

    /// Server CPU nanoseconds per operation.
    pub(crate) fn server_cpu_per_operation(&self) -> Option<f64> {
        self.server_cpu_ns.map(|cpu| per(cpu, self.replies()))
    }

    pub(crate) fn client_cpu_per_operation(&self) -> f64 {
        per(self.client_cpu_ns, self.replies())
    }

    /// Latency in nanoseconds at a quantile, all commands together.
    pub(crate) fn latency_ns(&self, quantile: f64) -> u64 {
        let mut all = self.tallies[0].latency.clone();
        for tally in &self.tallies[1..] {
            all.add(&tally.latency)
                .expect("all histograms have the same bounds");
        }
        all.value_at_quantile(quantile)
    }
}

fn per(total: u64, count: u64) -> f64 {
    if count == 0 {
        f64::NAN
    } else {
        total as f64 / count as f64
    }
}

impl Plan {
    /// One thread that reads uniformly chosen keys of 14 bytes at depth 1; callers change what
    /// they need.
    pub(crate) fn standard(address: Address) -> Self {
        Self {
            address,
            credentials: Credentials::default(),
            connections: 1,
            threads: 1,
            depth: 1,
            rate: None,
            arrivals: Arrivals::Constant,
            commands: vec![("GET {key}".to_owned(), 1)],
            shape: Shape {
                key_prefix: "key:".to_owned(),
                key_width: 10,
                value_bytes: 100,
                data: Data::Ascii,
                number_range: 1,
            },
            keys: 1,
            distribution: Distribution::Uniform,
            seed: 1,
            same_stream: false,
            length: Length::Requests(1),
            client_cpus: Vec::new(),
            server_pid: None,
            keep_samples: false,
        }
    }

    /// Opens the connections, runs the load and returns when it is over.
    pub(crate) fn run(&self) -> Result<Measured, String> {
        self.check()?;
        let mut templates = Vec::new();
        for (line, weight) in &self.commands {
            templates.push((Template::compile(line, &self.shape)?, *weight));
        }
        let mut sockets = Vec::new();
        for _ in 0..self.connections {
            sockets.push(Client::connect(&self.address, &self.credentials)?.into_socket());
        }
        let now = sys::now_ns();
        let (begin_ns, end_ns) = match self.length {
            Length::Time {
                warm_up_ns,
                measured_ns,
            } => (now + warm_up_ns, now + warm_up_ns + measured_ns),
            Length::Requests(_) => (now, u64::MAX),
        };
        let server_cpu = || self.server_pid.map(process::cpu_ns).transpose();
        let mut cpu_begin = server_cpu().map_err(|error| format!("server CPU: {error}"))?;
        let mut workers = Vec::new();
        for task in self.tasks(sockets, &templates, now, (begin_ns, end_ns)) {
            let cpu = (!self.client_cpus.is_empty())
                .then(|| self.client_cpus[workers.len() % self.client_cpus.len()]);
            let worker = sys::spawn("load", cpu, move || worker::run(task));
            workers.push(worker.map_err(|error| format!("thread: {error}"))?);
        }
        let mut cpu_end = None;
        if end_ns != u64::MAX {
            sys::sleep_until_ns(begin_ns);
            cpu_begin = server_cpu().map_err(|error| format!("server CPU: {error}"))?;
            sys::sleep_until_ns(end_ns);
            // The server may have died; the workers know better why.
            cpu_end = server_cpu().ok().flatten();
        }
        let mut yields = Vec::new();
        for worker in workers {
            yields.push(worker.join().map_err(|_| "a load thread panicked")??);
        }
        if end_ns == u64::MAX {
            cpu_end = server_cpu().map_err(|error| format!("server CPU: {error}"))?;
        }
        let end_ns = if end_ns == u64::MAX {
            yields
                .iter()
                .map(|part| part.end_ns)
                .max()
                .unwrap_or(begin_ns)
        } else {
            end_ns
        };
        let mut measured = merge(yields);
        measured.seconds = (end_ns - begin_ns) as f64 / 1e9;
        measured.server_cpu_ns = cpu_begin
            .zip(cpu_end)
            .map(|(begin, end)| end.saturating_sub(begin));
        measured.rss_bytes = self.server_pid.and_then(|pid| process::rss_bytes(pid).ok());
        Ok(measured)
    }

    fn check(&self) -> Result<(), String> {
        let wrong = if self.connections == 0 || self.threads == 0 || self.depth == 0 {
            "connections, threads and depth must be at least 1"
        } else if self.threads > self.connections {
            "more threads than connections"
        } else if self.keys == 0 || self.shape.number_range == 0 {
            "the keyspace and the number range must not be empty"
        } else if self.commands.iter().all(|(_, weight)| *weight == 0) {
            "no command to send"
        } else if self.shape.key_width < 20 && self.keys > 10u64.pow(self.shape.key_width as u32) {
            "the keyspace does not fit the key width"
        } else if self.rate.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            "the rate must be positive"
        } else if self.rate.is_some() && matches!(self.length, Length::Requests(_)) {
            "an open loop needs a duration, not a number of requests"
        } else if matches!(self.distribution, Distribution::Zipf { exponent } if exponent.is_nan() || exponent <= 0.0)
        {
            "the zipf exponent must be positive"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }

    /// Deals connections, keys and requests out to threads.
    fn tasks(
        &self,
        sockets: Vec<OwnedFd>,
        templates: &[(Template, u32)],
        start_ns: u64,
        (begin_ns, end_ns): (u64, u64),
    ) -> Vec<Task> {
        let connections = self.connections as u64;
        let pool = value_pool(&self.shape, self.seed);
        let mut tasks: Vec<Task> = (0..self.threads)
            .map(|thread| Task {
                sockets: Vec::new(),
                keys: Vec::new(),
                randoms: Vec::new(),
                budgets: Vec::new(),
                templates: templates.to_vec(),
                pool: pool.clone(),
                number_range: self.shape.number_range,
                depth: self.depth,
                pace: self.rate.map(|rate| {
                    let interval_ns = 1e9 * self.threads as f64 / rate;
                    let offset = interval_ns * thread as f64 / self.threads as f64;
                    Pace {
                        interval_ns,
                        next_ns: start_ns as f64 + offset,
                        arrivals: self.arrivals,
                        random: Random::new(self.seed, u64::MAX - 1 - thread as u64),
                    }
                }),
                begin_ns,
                end_ns,
                keep_samples: self.keep_samples,
            })
            .collect();
        for (index, socket) in sockets.into_iter().enumerate() {
            let index = index as u64;
            let stream = if self.same_stream { 0 } else { index };
            let task = &mut tasks[index as usize % self.threads];
            task.sockets.push(socket);
            task.keys.push(KeyStream::new(
                self.distribution,
                self.keys,
                self.seed,
                2 * stream,
                (index, connections),
            ));
            task.randoms.push(Random::new(self.seed, 2 * stream + 1));
            task.budgets.push(match self.length {
                Length::Time { .. } => u64::MAX,
                Length::Requests(total) => {
                    let share = |part: u64| {
                        (u128::from(total) * u128::from(part) / u128::from(connections)) as u64
                    };
                    share(index + 1) - share(index)
                }
            });
        }
        tasks
    }

    /// Fills the keyspace: every key once, in order, with `command` (`SET {key} {value}` or the
    /// like), and checks a sample by reading it back if the command is SET. Does not rely on
    /// what the server says about its size.
    pub(crate) fn preload(&self, command: &str) -> Result<Measured, String> {
        let connections = 8.min(self.keys) as usize;
        let fill = Self {
            connections,
            threads: 1,
            depth: 64,
            rate: None,
            commands: vec![(command.to_owned(), 1)],
            distribution: Distribution::Sequential,
            length: Length::Requests(self.keys),
            keep_samples: false,
            ..self.clone()
        };
        let measured = fill.run()?;
        if measured.errors() > 0 {
            return Err(format!(
                "preload: {}",
                measured.first_error.unwrap_or_default()
            ));
        }
        if measured.replies() != self.keys {
            return Err(format!(
                "preload: {} of {} keys",
                measured.replies(),
                self.keys
            ));
        }
        if command.starts_with("SET {key} ") {
            let sample = Self {
                commands: vec![("GET {key}".to_owned(), 1)],
                distribution: Distribution::Uniform,
                length: Length::Requests(1000),
                ..fill
            }
            .run()?;
            if sample.nulls() + sample.errors() > 0 {
                return Err(format!(
                    "preload: {} of 1000 sampled keys are missing",
                    sample.nulls() + sample.errors()
                ));
            }
        }
        Ok(measured)
    }
}

fn merge(yields: Vec<Yield>) -> Measured {
    let mut parts = yields.into_iter();
    let first = parts.next().expect("a plan has at least one thread");
    let mut measured = Measured {
        tallies: first.tallies,
        samples: first.samples,
        seconds: 0.0,
        client_cpu_ns: first.client_cpu_ns,
        server_cpu_ns: None,
        rss_bytes: None,
        first_error: first.first_error,
        unanswered: first.unanswered,
    };
    for part in parts {
        for (total, tally) in measured.tallies.iter_mut().zip(part.tallies) {
            total.replies += tally.replies;
            total.errors += tally.errors;
            total.values += tally.values;
            total.nulls += tally.nulls;
            total
                .latency
                .add(&tally.latency)
                .expect("all histograms have the same bounds");
        }
        measured.samples.extend(part.samples);
        measured.client_cpu_ns += part.client_cpu_ns;
        measured.first_error = measured.first_error.or(part.first_error);
        measured.unanswered += part.unanswered;
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::slice;

    fn plan() -> Plan {
        let length = Length::Requests(10);
        Plan {
            connections: 3,
            threads: 2,
            keys: 1000,
            length,
            ..Plan::standard(Address::local(1))
        }
    }

    #[test]
    fn impossible_plans_are_refused() {
        assert!(plan().check().is_ok());
        assert!(
            Plan {
                threads: 4,
                ..plan()
            }
            .check()
            .is_err()
        );
        assert!(Plan { depth: 0, ..plan() }.check().is_err());
        assert!(
            Plan {
                keys: 10u64.pow(11),
                ..plan()
            }
            .check()
            .is_err()
        );
        assert!(
            Plan {
                rate: Some(5.0),
                ..plan()
            }
            .check()
            .is_err()
        );
        assert!(
            Plan {
                commands: Vec::new(),
                ..plan()
            }
            .check()
            .is_err()
        );
    }

    #[test]
    fn slices_used_by_a_preload_match_its_budgets() {
        for (keys, connections) in [(1000, 8), (7, 7), (1_000_003, 8)] {
            for index in 0..connections {
                let (start, end) = slice(keys, index, connections);
                let share = |part: u64| keys * part / connections;
                assert_eq!(end - start, share(index + 1) - share(index));
            }
        }
    }
}
