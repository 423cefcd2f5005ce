//! Nanoseconds per command of the request parser. Run with `cargo bench -p resp`.

use resp::{Limits, Parsed, Progress, parse_command};
use std::hint::black_box;

fn main() {
    let value = "v".repeat(100);
    measure("GET", "*2\r\n$3\r\nGET\r\n$14\r\nkey:0000000042\r\n");
    measure(
        "SET of 100 bytes",
        &format!("*3\r\n$3\r\nSET\r\n$14\r\nkey:0000000042\r\n$100\r\n{value}\r\n"),
    );
    measure("PING inline", "PING\r\n");
}

/// Parses a buffer of many equal commands; prints the best of several runs.
fn measure(name: &str, command: &str) {
    const COMMANDS: usize = 100;
    const RUNS: usize = 2_000;
    let input = command.repeat(COMMANDS).into_bytes();
    let limits = Limits {
        bulk_bytes_max: 512 << 20,
        authenticated: true,
    };
    let mut args = Vec::new();
    let best = (0..RUNS)
        .map(|_| {
            args.clear();
            let mut progress = Progress::default();
            let start = env::clock::monotonic_ns();
            let mut at = 0;
            while let Ok(Parsed::Complete { end }) =
                parse_command(black_box(&input), at, &limits, &mut progress, &mut args)
            {
                at = end;
            }
            let spent = env::clock::monotonic_ns() - start;
            assert_eq!(at, input.len());
            spent
        })
        .min()
        .unwrap_or(0);
    println!("{name:30} {:8.2} ns", best as f64 / COMMANDS as f64);
}
