//! Running transcripts against a server and judging its replies.

use crate::connection::{self, Connection, REPLY_WAIT_MAX, Received, SILENCE};
use crate::notation::{self, Bindings, Pattern, Protocol};
use crate::process::{Program, Server};
use crate::transcript::{self, Action, Block, Step, Transcript};
use crate::value::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// After so many failures a run ends: a server that answers nothing would take for ever.
const FAILURES_SHOWN_MAX: usize = 60;

/// Where the transcripts of this crate lie.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// Reads every transcript whose path contains the text of `TRANSCRIPT_ONLY`, sorted by path.
pub fn load_all() -> Result<Vec<Transcript>, String> {
    let only = std::env::var("TRANSCRIPT_ONLY").unwrap_or_default();
    let mut paths = Vec::new();
    collect(&directory(), &mut paths).map_err(|error| error.to_string())?;
    paths.sort();
    let mut transcripts = Vec::new();
    for path in paths {
        let name = path
            .strip_prefix(directory())
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        if name != "README.md" && name.contains(&only) {
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            transcripts.push(transcript::parse(&name, &text)?);
        }
    }
    Ok(transcripts)
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Runs all transcripts against `program`; returns how many blocks ran, or every failure.
pub fn check(program: Program) -> Result<usize, String> {
    program.locate()?;
    let transcripts = load_all()?;
    let mut failures = Vec::new();
    let mut blocks = 0;
    'all: for transcript in &transcripts {
        let mut shared: Option<Server> = None;
        for block in &transcript.blocks {
            if program == Program::Oracle && block.without_oracle.is_some() {
                continue;
            }
            let paces: &[Pace] = if block.can_be_pipelined() {
                &[Pace::OneByOne, Pace::Pipelined]
            } else {
                &[Pace::OneByOne]
            };
            for (&protocol, &pace) in block
                .protocols
                .iter()
                .flat_map(|protocol| paces.iter().map(move |pace| (protocol, pace)))
            {
                blocks += 1;
                if let Err(failure) = check_block(program, &mut shared, block, protocol, pace) {
                    failures.push(format!("{}:{failure}", transcript.path));
                    if failures.len() == FAILURES_SHOWN_MAX {
                        break 'all;
                    }
                }
            }
        }
    }
    if blocks == 0 {
        return Err(
            "no block ran: the transcripts are missing or TRANSCRIPT_ONLY matches none".into(),
        );
    }
    if failures.is_empty() {
        return Ok(blocks);
    }
    let count = failures.len();
    Err(format!(
        "\n{}\n\n{count} of {blocks} blocks failed against {}",
        failures.join("\n\n"),
        program.name()
    ))
}

/// How the commands of a block are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Each after the reply to the one before.
    OneByOne,
    /// All in one packet: what a batch plans ahead must not change what its commands do.
    Pipelined,
}

fn check_block(
    program: Program,
    shared: &mut Option<Server>,
    block: &Block,
    protocol: Protocol,
    pace: Pace,
) -> Result<(), String> {
    let place = |line: usize| format!("{line} [{protocol:?}, {pace:?}, {}]", program.name());
    let at_block = |message: String| format!("{} {message}", place(block.line));
    let at_step =
        |step: &Step, failure: &str| format!("{}\n    {}\n{failure}", place(step.line), step.text);
    with_server(program, shared, block, |server| {
        let mut session = Session::open(server, block, protocol).map_err(at_block)?;
        match pace {
            Pace::OneByOne => {
                for step in &block.steps {
                    let done = session.perform(step).and_then(|()| session.judge(step));
                    done.map_err(|failure| at_step(step, &failure))?;
                }
            }
            Pace::Pipelined => {
                session.send_all(&block.steps).map_err(at_block)?;
                for step in &block.steps {
                    session
                        .judge(step)
                        .map_err(|failure| at_step(step, &failure))?;
                }
            }
        }
        session.expect_silence().map_err(at_block)
    })
}

/// Runs `action` on a server that suits the block: the file's shared one, emptied, or its own.
fn with_server(
    program: Program,
    shared: &mut Option<Server>,
    block: &Block,
    action: impl FnOnce(&Server) -> Result<(), String>,
) -> Result<(), String> {
    let at_block = |error: String| format!("{} {error}", block.line);
    if block.needs_own_server() {
        let mut server = Server::start(program, &block.directives).map_err(at_block)?;
        return action(&server).map_err(|failure| with_log_if_ended(failure, &mut server));
    }
    let mut left = shared.take();
    let running = left.as_mut().is_some_and(Server::is_running);
    let mut server = match left {
        Some(server) if running => server,
        _ => Server::start(program, &[]).map_err(at_block)?,
    };
    let outcome = empty(&server)
        .map_err(at_block)
        .and_then(|()| action(&server));
    match outcome {
        Ok(()) => *shared = Some(server),
        // A failed block may have left anything behind: the next one gets a new server.
        Err(failure) => return Err(with_log_if_ended(failure, &mut server)),
    }
    Ok(())
}

fn with_log_if_ended(failure: String, server: &mut Server) -> String {
    const LINES_SHOWN: usize = 30;
    if server.is_running() {
        return failure;
    }
    let log = server.log();
    let lines: Vec<&str> = log.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    format!(
        "{failure}\n  the server has ended; its last words:\n    {}",
        tail.join("\n    ")
    )
}

fn empty(server: &Server) -> Result<(), String> {
    let mut connection =
        Connection::open(server.port, Protocol::Resp2).map_err(|error| error.to_string())?;
    connection
        .send(&[b"FLUSHALL".to_vec()])
        .map_err(|error| error.to_string())?;
    match connection.receive(REPLY_WAIT_MAX) {
        Ok(Received::Reply(Value::Simple(_))) => Ok(()),
        other => Err(format!("FLUSHALL before the block gave {other:?}")),
    }
}

/// The connections of one block.
struct Session {
    connections: Vec<Connection>,
    /// In which protocol the block runs.
    protocol: Protocol,
    /// What each connection speaks now.
    spoken: Vec<Protocol>,
    bindings: Bindings,
}

impl Session {
    fn open(server: &Server, block: &Block, protocol: Protocol) -> Result<Self, String> {
        let connections: Result<Vec<_>, _> = block
            .connections
            .iter()
            .map(|_| Connection::open(server.port, protocol))
            .collect();
        let connections = connections.map_err(|error| error.to_string())?;
        Ok(Self {
            connections,
            protocol,
            spoken: vec![protocol; block.connections.len()],
            bindings: Bindings::new(),
        })
    }

    fn perform(&mut self, step: &Step) -> Result<(), String> {
        let connection = &mut self.connections[step.connection];
        let sent = match &step.action {
            Action::Command(arguments) => {
                let filled: Vec<_> = arguments
                    .iter()
                    .map(|argument| fill_in(argument, &self.bindings))
                    .collect();
                connection.send(&filled)
            }
            Action::Raw(bytes) => connection.send_raw(bytes),
            Action::Read => Ok(()),
            Action::Wait(time) => {
                thread::sleep(*time);
                Ok(())
            }
        };
        sent.map_err(|error| format!("  cannot send: {error}"))
    }

    /// Sends the commands of all steps in one packet.
    fn send_all(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut bytes = Vec::new();
        for step in steps {
            if let Action::Command(arguments) = &step.action {
                connection::encode(arguments, &mut bytes);
            }
        }
        let sent = self.connections[0].send_raw(&bytes);
        sent.map_err(|error| format!("cannot send: {error}"))
    }

    fn judge(&mut self, step: &Step) -> Result<(), String> {
        let expected = match self.protocol {
            Protocol::Resp3 if !step.expected_resp3.is_empty() => &step.expected_resp3,
            _ => &step.expected,
        };
        if expected.is_empty() && !matches!(step.action, Action::Wait(_)) {
            return Err(
                "  no expected reply is written: fill it in with TRANSCRIPT_BLESS=1".into(),
            );
        }
        for pattern in expected {
            let wait = if *pattern == Pattern::None {
                SILENCE
            } else {
                REPLY_WAIT_MAX
            };
            let received = self.connections[step.connection]
                .receive(wait)
                .map_err(|error| format!("  cannot read: {error}"))?;
            let protocol = self.spoken_after(step, &received);
            let agrees = match (&received, pattern) {
                (Received::Nothing, Pattern::None) | (Received::Closed, Pattern::Closed) => true,
                (Received::Reply(value), pattern) => {
                    pattern.matches(value, protocol, &mut self.bindings)
                }
                _ => false,
            };
            if !agrees {
                return Err(format!(
                    "  expected: {}\n  received: {}",
                    indented(&notation::print(pattern)),
                    indented(&describe(&received))
                ));
            }
        }
        Ok(())
    }

    /// The protocol of a reply to `step`: HELLO and RESET change it for their own reply already.
    fn spoken_after(&mut self, step: &Step, received: &Received) -> Protocol {
        let spoken = &mut self.spoken[step.connection];
        if let (Action::Command(arguments), Received::Reply(value)) = (&step.action, received) {
            match (arguments[0].to_ascii_uppercase().as_slice(), value) {
                (b"HELLO", Value::Map(_)) => *spoken = Protocol::Resp3,
                (b"HELLO", Value::Array(_)) | (b"RESET", Value::Simple(_)) => {
                    *spoken = Protocol::Resp2;
                }
                _ => {}
            }
        }
        *spoken
    }

    /// Replies that no step asked for are failures too.
    fn expect_silence(&mut self) -> Result<(), String> {
        for connection in &mut self.connections {
            match connection
                .receive(Duration::from_millis(1))
                .map_err(|error| error.to_string())?
            {
                Received::Reply(value) => {
                    return Err(format!(
                        "a reply is left over at the end of the block: {}",
                        notation::print(&notation::exact(&value))
                    ));
                }
                Received::Nothing | Received::Closed => {}
            }
        }
        Ok(())
    }
}

/// Replaces an argument `{name}` by what `(let name ...)` remembered.
fn fill_in(argument: &[u8], bindings: &Bindings) -> Vec<u8> {
    let name = argument
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    // Hash tags such as {tag} are ordinary keys: only remembered names are replaced.
    let remembered = name.and_then(|name| bindings.get(name));
    remembered.map_or_else(|| argument.to_vec(), Clone::clone)
}

fn describe(received: &Received) -> String {
    match received {
        Received::Reply(value) => notation::print(&notation::exact(value)),
        Received::Nothing => "(none)".into(),
        Received::Closed => "(closed)".into(),
    }
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n            ")
}

/// Fills in, from redis-server's replies, the expectations that are not written yet, and saves
/// the files. Written expectations are left alone and not judged. Returns how many were filled.
pub fn bless() -> Result<usize, String> {
    let mut filled = 0;
    for transcript in load_all()? {
        let mut insertions: Vec<(usize, String)> = Vec::new();
        let mut shared: Option<Server> = None;
        for block in &transcript.blocks {
            let waiting = block.steps.iter().any(is_waiting);
            if waiting && block.without_oracle.is_none() {
                let replies = bless_block(&mut shared, block)
                    .map_err(|error| format!("{}:{error}", transcript.path))?;
                insertions.extend(replies);
            }
        }
        if !insertions.is_empty() {
            filled += insertions.len();
            let mut lines = transcript.lines.clone();
            for (line, text) in insertions.iter().rev() {
                lines.insert(*line, text.clone());
            }
            fs::write(directory().join(&transcript.path), lines.join("\n") + "\n")
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(filled)
}

fn is_waiting(step: &Step) -> bool {
    step.expected.is_empty()
        && step.expected_resp3.is_empty()
        && !matches!(step.action, Action::Wait(_))
}

/// The lines to insert, each after its line number.
fn bless_block(shared: &mut Option<Server>, block: &Block) -> Result<Vec<(usize, String)>, String> {
    let mut runs: Vec<Vec<Vec<Received>>> = Vec::new();
    for &protocol in &block.protocols {
        let mut run = Vec::new();
        with_server(Program::Oracle, shared, block, |server| {
            let mut session = Session::open(server, block, protocol)?;
            for step in &block.steps {
                session.perform(step)?;
                if is_waiting(step) {
                    let received = receive_what_comes(&mut session.connections[step.connection])?;
                    for reply in &received {
                        session.spoken_after(step, reply);
                    }
                    run.push(received);
                } else {
                    session.judge(step).map_err(|failure| {
                        format!("{} [{protocol:?}]\n    {}\n{failure}", step.line, step.text)
                    })?;
                    run.push(Vec::new());
                }
            }
            Ok(())
        })?;
        runs.push(run);
    }
    let mut insertions = Vec::new();
    for (index, step) in block
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| is_waiting(step))
    {
        let text = match &runs[..] {
            [only] => only[index]
                .iter()
                .map(describe)
                .collect::<Vec<_>>()
                .join("\n"),
            [old, new] => merge_replies(&old[index], &new[index]),
            _ => return Err(format!("{} has no protocol", block.line)),
        };
        insertions.push((step.line, text));
    }
    Ok(insertions)
}

fn receive_what_comes(connection: &mut Connection) -> Result<Vec<Received>, String> {
    let mut all = vec![
        connection
            .receive(Duration::from_millis(300))
            .map_err(|error| error.to_string())?,
    ];
    while let Some(Received::Reply(_)) = all.last() {
        match connection
            .receive(Duration::from_millis(3))
            .map_err(|error| error.to_string())?
        {
            Received::Nothing => break,
            more => all.push(more),
        }
    }
    Ok(all)
}

fn merge_replies(old: &[Received], new: &[Received]) -> String {
    let merged: Option<Vec<String>> = if old.len() == new.len() {
        let pairs = old.iter().zip(new);
        pairs
            .map(|pair| match pair {
                (Received::Reply(old), Received::Reply(new)) => {
                    notation::merge(old, new).map(|pattern| notation::print(&pattern))
                }
                (old, new) => (old == new).then(|| describe(old)),
            })
            .collect()
    } else {
        None
    };
    let lines = merged.unwrap_or_else(|| {
        let newer = new
            .iter()
            .map(|received| format!("3> {}", describe(received)));
        old.iter().map(describe).chain(newer).collect()
    });
    lines.join("\n")
}
