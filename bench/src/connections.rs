//! `idle`, `hotkey` and `hostile`: connections rather than commands.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use clap::Args;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::load::{Length, Measured, Plan, microseconds};
use crate::random::Distribution;
use crate::server::{Candidate, Fleet, Program, Server};
use crate::sys::{self, Address};

/// Connections from one source address; below the size of the usual range of local ports.
const CONNECTIONS_PER_SOURCE: usize = 20_000;
const IDLE_BYTES_TARGET: f64 = 2048.0;
const HOT_KEY_TARGET: f64 = 1.8;

#[derive(Debug, Args)]
pub(crate) struct IdleArgs {
    #[command(flatten)]
    fleet: Fleet,
    #[arg(long, short = 'c', default_value_t = 100_000)]
    connections: usize,
}

/// Opens idle connections and reports what each costs the server's resident memory, first
/// untouched, then after one PING each.
pub(crate) fn run_idle(args: &IdleArgs) -> Result<(), String> {
    let limit = sys::raise_open_files(args.connections as u64 + 1000);
    let connections = args.connections.min(limit.saturating_sub(500) as usize);
    if connections < args.connections {
        eprintln!("the limit of open files ({limit}) allows {connections} connections");
    }
    let maximum = (connections + 100).to_string();
    let mut text = String::from(
        "| server | connections | empty MiB | bytes/connection | after a PING each | target |\n\
         |---|---|---|---|---|---|\n",
    );
    for candidate in args.fleet.candidates(false)? {
        let threads = args.fleet.threads;
        // Protected mode takes 127.0.0.2 for a stranger.
        let options = ["--maxclients", &maximum, "--protected-mode", "no"];
        let server = args
            .fleet
            .start_with(&candidate, 0, 100, threads, &options)?;
        let empty = server.settled_rss_bytes()?;
        let sockets = open_many(&server, connections)?;
        let opened = server.settled_rss_bytes()?;
        for socket in &sockets {
            ping(socket).map_err(|error| format!("{}: PING: {error}", server.name))?;
        }
        let used = server.settled_rss_bytes()?;
        let each = |bytes: u64| bytes.saturating_sub(empty) as f64 / connections as f64;
        let _ = writeln!(
            text,
            "| {} | {connections} | {:.1} | {:.0} | {:.0} | {IDLE_BYTES_TARGET:.0} {} |",
            server.name,
            empty as f64 / 1_048_576.0,
            each(opened),
            each(used),
            if each(used) <= IDLE_BYTES_TARGET {
                "reached"
            } else {
                "missed"
            },
        );
    }
    print!("{text}");
    Ok(())
}

fn open_many(server: &Server, count: usize) -> Result<Vec<OwnedFd>, String> {
    let mut control = server.client()?;
    let mut sockets = Vec::with_capacity(count);
    for index in 0..count {
        let source = SocketAddr::from(([127, 0, 0, 2 + (index / CONNECTIONS_PER_SOURCE) as u8], 0));
        let socket = sys::connect(&server.address, Some(source))
            .map_err(|error| format!("{}: connection {index}: {error}", server.name))?;
        sockets.push(socket);
        if index % 200 == 199 {
            // Lets the server empty its queue of connections not yet accepted.
            control.call(&[b"PING"])?;
        }
    }
    control.call(&[b"PING"])?;
    Ok(sockets)
}

fn ping(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::send(socket, b"*1\r\n$4\r\nPING\r\n", SendFlags::NOSIGNAL)?;
    let mut reply = [0; 64];
    match rustix::net::recv(socket, &mut reply[..], RecvFlags::empty())? {
        (received, _) if reply[..received].starts_with(b"+PONG") => Ok(()),
        _ => Err(Errno::CONNRESET),
    }
}

#[derive(Debug, Args)]
pub(crate) struct HotkeyArgs {
    #[command(flatten)]
    fleet: Fleet,
    /// CPUs of the server with two threads.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    two_thread_cpu: Vec<usize>,
    #[arg(long, short = 'c', default_value_t = 50)]
    connections: usize,
    #[arg(long, short = 'P', default_value_t = 30)]
    pipeline: usize,
    #[arg(long, default_value_t = 3)]
    duration: u64,
}

/// All connections read one key, from a server with one thread and from one with two.
pub(crate) fn run_hotkey(args: &HotkeyArgs) -> Result<(), String> {
    let mut text = String::from(
        "| server | threads | ops/s | server CPU ns/op | against one thread | target |\n\
         |---|---|---|---|---|---|\n",
    );
    for candidate in args.fleet.candidates(false)? {
        let mut single = None;
        for threads in [1, 2] {
            let mut fleet = args.fleet.clone();
            if threads == 2 {
                fleet.server_cpu.clone_from(&args.two_thread_cpu);
            }
            let measured = hot_reads(args, &fleet, &candidate, threads)?;
            let throughput = measured.throughput();
            let base = *single.get_or_insert(throughput);
            let ratio = throughput / base;
            let verdict = match threads {
                1 => "-".to_owned(),
                _ if ratio >= HOT_KEY_TARGET => format!("{HOT_KEY_TARGET}x reached"),
                _ => format!("{HOT_KEY_TARGET}x missed"),
            };
            let _ = writeln!(
                text,
                "| {} | {threads} | {throughput:.0} | {:.0} | {ratio:.2}x | {verdict} |",
                candidate.name,
                measured.server_cpu_per_operation().unwrap_or(f64::NAN),
            );
        }
    }
    text.push_str(
        "\nWhere the load shares a CPU with the second thread, judge by CPU per operation: it must \
         not rise.\n",
    );
    print!("{text}");
    Ok(())
}

fn hot_reads(
    args: &HotkeyArgs,
    fleet: &Fleet,
    candidate: &Candidate,
    threads: usize,
) -> Result<Measured, String> {
    let server = fleet.start_with(candidate, 0, 100, threads, &[])?;
    let plan = Plan {
        connections: args.connections,
        threads: fleet.client_cpu.len().clamp(1, args.connections.max(1)),
        depth: args.pipeline,
        distribution: Distribution::Hot,
        keys: 1,
        length: Length::Time {
            warm_up_ns: 500_000_000,
            measured_ns: args.duration * 1_000_000_000,
        },
        client_cpus: fleet.client_cpu.clone(),
        server_pid: Some(server.pid()),
        ..Plan::standard(server.address.clone())
    };
    plan.preload("SET {key} {value}")?;
    plan.run()
        .map_err(|error| format!("{}: {error}", server.name))
}

#[derive(Debug, Args)]
pub(crate) struct HostileArgs {
    #[command(flatten)]
    fleet: Fleet,
    /// Hostile connections of each kind.
    #[arg(long, default_value_t = 50)]
    attackers: usize,
    /// GETs a second of the well-behaved clients.
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    #[arg(long, default_value_t = 3)]
    duration: u64,
}

/// A kind of ill behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    None,
    HalfCommand,
    HugeHeader,
    NeverReads,
}

/// Request bytes one client that never reads sends at most.
const UNREAD_REQUEST_BYTES: usize = 2 << 20;

/// Measures well-behaved clients while others misbehave.
pub(crate) fn run_hostile(args: &HostileArgs) -> Result<(), String> {
    let mut text = String::from(
        "| server | attack | p50 us | p99 us | max us | RSS growth MiB | MiB after they left |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for candidate in args.fleet.candidates(false)? {
        assert!(!matches!(candidate.program, Program::Floor { .. }));
        let server = args.fleet.start(&candidate, 0, 100)?;
        let plan = Plan {
            connections: 20,
            keys: 10_000,
            rate: Some(args.rate),
            depth: 4,
            length: Length::Time {
                warm_up_ns: 300_000_000,
                measured_ns: args.duration * 1_000_000_000,
            },
            client_cpus: args.fleet.client_cpu.clone(),
            ..Plan::standard(server.address.clone())
        };
        plan.preload("SET {key} {value}")?;
        for attack in [
            Attack::None,
            Attack::HalfCommand,
            Attack::HugeHeader,
            Attack::NeverReads,
        ] {
            let before = server.settled_rss_bytes()?;
            let attackers = misbehave(&server.address, attack, args.attackers)?;
            let measured = plan
                .run()
                .map_err(|error| format!("{}: {error}", server.name))?;
            if measured.errors() + measured.unanswered > 0 {
                return Err(format!(
                    "{}: well-behaved clients were refused",
                    server.name
                ));
            }
            let during = server.settled_rss_bytes()?;
            drop(attackers);
            let after = server.settled_rss_bytes()?;
            let growth = |bytes: u64| bytes.saturating_sub(before) as f64 / 1_048_576.0;
            let _ = writeln!(
                text,
                "| {} | {attack:?} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} |",
                server.name,
                microseconds(measured.latency_ns(0.5)),
                microseconds(measured.latency_ns(0.99)),
                microseconds(measured.latency_ns(1.0)),
                growth(during),
                growth(after),
            );
        }
    }
    print!("{text}");
    Ok(())
}

/// Opens `count` connections that misbehave and stay open as long as the result lives.
fn misbehave(address: &Address, attack: Attack, count: usize) -> Result<Vec<OwnedFd>, String> {
    let request: Vec<u8> = match attack {
        Attack::None => return Ok(Vec::new()),
        Attack::HalfCommand => b"*2\r\n$3\r\nGE".to_vec(),
        // Above the usual limit of 512 MB: to be refused, not made room for.
        Attack::HugeHeader => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$629145600\r\n".to_vec(),
        Attack::NeverReads => {
            b"*2\r\n$3\r\nGET\r\n$14\r\nkey:0000000001\r\n".repeat(UNREAD_REQUEST_BYTES / 36)
        }
    };
    let mut sockets = Vec::new();
    for _ in 0..count {
        let fail = |error: std::io::Error| format!("attacker: {error}");
        let socket = sys::connect(address, None).map_err(fail)?;
        sys::set_nonblocking(&socket).map_err(fail)?;
        let mut rest = &request[..];
        let mut refusals = 0;
        while !rest.is_empty() && refusals < 50 {
            match rustix::net::send(&socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                // A server that stops reading a client that does not read is right.
                Err(Errno::AGAIN) => {
                    refusals += 1;
                    sys::sleep_ns(1_000_000);
                }
                // As is one that hangs up.
                Err(_) => break,
            }
        }
        sockets.push(socket);
    }
    Ok(sockets)
}
