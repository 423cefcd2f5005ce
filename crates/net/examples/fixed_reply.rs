//! Answers `+OK` to every request without looking at it: what the loop itself costs.
//!
//! A request is one RESP array (`*` at the start of a line, as clients and redis-benchmark send
//! them) or one line. Usage: `fixed_reply PORT [auto|io_uring|epoll] [LOOPS] [CPU,CPU...]`; ends
//! when its input is closed, and prints the counters.

use net::{
    Closed, Desk, Flow, IoBackend, ListenSpec, NetConfig, Peer, Ready, Server, Service, Token,
    Waker,
};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
struct Fixed;

/// Where a connection is in its requests.
#[derive(Debug, Default)]
struct Place {
    /// Lines left of the current array; 0 between requests.
    lines_left: usize,
    /// Start of a line that is not complete yet.
    line: Vec<u8>,
}

impl Place {
    fn line_ended(&mut self, line: &[u8]) -> bool {
        if self.lines_left > 0 {
            self.lines_left -= 1;
            return self.lines_left == 0;
        }
        if line.first() == Some(&b'*') {
            let digits = line[1..].iter().take_while(|byte| byte.is_ascii_digit());
            let count = digits.fold(0, |n, byte| n * 10 + usize::from(byte - b'0'));
            self.lines_left = count * 2;
            return count == 0;
        }
        true
    }

    fn requests(&mut self, input: &[u8]) -> usize {
        let mut count = 0;
        let mut rest = input;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            let ended = if self.line.is_empty() {
                self.line_ended(line)
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.line_ended(&whole)
            };
            count += usize::from(ended);
        }
        self.line.extend_from_slice(rest);
        count
    }
}

impl Service for Fixed {
    type Worker = ();
    type Conn = Place;

    fn start(&self, _index: usize, _waker: Waker) {}

    fn open(&self, (): &mut (), _token: Token, _peer: Peer) -> Result<Box<Place>, Vec<u8>> {
        Ok(Box::default())
    }

    fn adopt(&self, (): &mut (), _token: Token, _conn: &mut Place) {}

    fn movable(&self, _conn: &Place) -> bool {
        true
    }

    fn prepare(&self, (): &mut (), _batch: &mut [Ready<'_, Place>]) {}

    fn run(&self, (): &mut (), batch: &mut [Ready<'_, Place>]) {
        for ready in batch {
            for _ in 0..ready.conn.requests(ready.input) {
                ready.output.bytes().extend_from_slice(b"+OK\r\n");
            }
            ready.flow = if ready.output.len() > 1 << 20 {
                Flow::Drain
            } else {
                Flow::Read
            };
        }
    }

    fn inbox(&self, (): &mut (), _desk: &mut dyn Desk<Place>) {}

    fn pending(&self, (): &mut (), _conn: &mut Place, _pending: usize) -> bool {
        true
    }

    fn tick(&self, (): &mut (), _desk: &mut dyn Desk<Place>) {}

    fn sleeping(&self, (): &mut (), _asleep: bool) {}

    fn close(&self, (): &mut (), _conn: Box<Place>, _why: Closed) {}
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let port: u16 = arguments
        .get(1)
        .map_or(24000, |text| text.parse().expect("a port"));
    let mut config = NetConfig::new(arguments.get(3).map_or(1, |t| t.parse().expect("a number")));
    config.backend = match arguments.get(2).map(String::as_str) {
        None | Some("auto") => IoBackend::Auto,
        Some("io_uring") => IoBackend::IoUring,
        Some("epoll") => IoBackend::Epoll,
        Some(other) => panic!("no backend is called {other}"),
    };
    if let Some(cpus) = arguments.get(4) {
        config.cpus = cpus
            .split(',')
            .map(|cpu| cpu.parse().expect("a CPU number"))
            .collect();
    }
    config.messages = Arc::new(|message| eprintln!("{message}"));
    let listeners = [ListenSpec::tcp(([127, 0, 0, 1], port).into())];
    let server = Server::start(&config, &listeners, &Arc::new(Fixed)).expect("a server");
    let mut byte = [0];
    while std::io::stdin()
        .read(&mut byte)
        .is_ok_and(|count| count > 0)
    {}
    for stats in server.stats() {
        println!("{stats:?}");
    }
    server.stop(Duration::from_secs(1));
}
