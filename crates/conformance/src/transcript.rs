//! Reading transcripts: Markdown in, blocks of steps out.

use crate::notation::{self, Pattern, Protocol};
use crate::quoting;
use std::time::Duration;

/// A transcript file.
#[derive(Debug)]
pub struct Transcript {
    /// Where it lies, for messages.
    pub path: String,
    /// Its lines, so that expectations can be filled in.
    pub lines: Vec<String>,
    /// Its blocks in order.
    pub blocks: Vec<Block>,
}

/// One fenced block: it begins with empty databases and fresh connections.
#[derive(Debug, Default)]
pub struct Block {
    /// Line number of the fence, from 1.
    pub line: usize,
    /// In which versions of the protocol it runs.
    pub protocols: Vec<Protocol>,
    /// Why redis-server 7.0 cannot judge it, if so.
    pub without_oracle: Option<String>,
    /// Connections opened at the start; the first is used where none is named.
    pub connections: Vec<String>,
    /// Further directives for the server.
    pub directives: Vec<String>,
    /// Needs a server of its own although it has no directives.
    pub fresh: bool,
    /// What is done.
    pub steps: Vec<Step>,
}

/// One exchange.
#[derive(Debug)]
pub struct Step {
    /// Line number, from 1.
    pub line: usize,
    /// The line as written, for messages.
    pub text: String,
    /// Index into the block's connections.
    pub connection: usize,
    /// What is done.
    pub action: Action,
    /// Expected replies; none yet if the step waits to be filled in.
    pub expected: Vec<Pattern>,
    /// Expected replies in RESP3 where they are not what RESP2's imply.
    pub expected_resp3: Vec<Pattern>,
}

/// What a step does before it looks at replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `> CMD args`
    Command(Vec<Vec<u8>>),
    /// `>> "bytes"`
    Raw(Vec<u8>),
    /// `<`
    Read,
    /// `wait 20ms`
    Wait(Duration),
}

impl Block {
    /// Whether the block changes a server in ways that FLUSHALL does not undo.
    pub fn needs_own_server(&self) -> bool {
        self.fresh || !self.directives.is_empty()
    }

    /// Whether all its commands can be sent at once: one connection, nothing to wait for, every
    /// command answered, and none that needs an earlier reply.
    pub fn can_be_pipelined(&self) -> bool {
        let plain = |pattern: &Pattern| {
            !matches!(pattern, Pattern::None | Pattern::Closed | Pattern::Let(..))
        };
        self.connections.len() == 1
            && self.steps.iter().all(|step| {
                matches!(step.action, Action::Command(_))
                    && step.expected.iter().chain(&step.expected_resp3).all(plain)
            })
    }
}

/// Parses a transcript. Errors name file and line.
pub fn parse(path: &str, text: &str) -> Result<Transcript, String> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut index = 0;
    let mut foreign = false;
    while index < lines.len() {
        let line = lines[index].as_str();
        let fail = |message: String| format!("{path}:{}: {message}", index + 1);
        if let Some(info) = line.strip_prefix("```") {
            if foreign {
                foreign = false;
            } else if let Some(block) = open.take() {
                blocks.push(block);
            } else if let Some(info) = info.strip_prefix("redis") {
                open = Some(parse_info(info, index + 1).map_err(fail)?);
            } else {
                foreign = true;
            }
            index += 1;
        } else if let Some(block) = open.as_mut() {
            let used = parse_line(block, &lines[index..], index + 1).map_err(fail)?;
            index += used;
        } else {
            index += 1;
        }
    }
    if let Some(block) = open {
        return Err(format!("{path}:{}: block is not closed", block.line));
    }
    Ok(Transcript {
        path: path.to_owned(),
        lines,
        blocks,
    })
}

fn parse_info(info: &str, line: usize) -> Result<Block, String> {
    let mut block = Block {
        line,
        protocols: vec![Protocol::Resp2, Protocol::Resp3],
        connections: vec![String::new()],
        ..Block::default()
    };
    let mut oracle_is_none = false;
    for word in split_info(info)? {
        match word.split_once('=').unwrap_or((word.as_str(), "")) {
            ("both", "") | ("oracle", "7.0") => {}
            ("resp2", "") => block.protocols = vec![Protocol::Resp2],
            ("resp3", "") => block.protocols = vec![Protocol::Resp3],
            ("fresh", "") => block.fresh = true,
            ("oracle", "none") => oracle_is_none = true,
            ("reason", reason) if !reason.is_empty() => {
                block.without_oracle = Some(reason.to_owned());
            }
            ("conns", names) if !names.is_empty() => {
                block.connections = names.split(',').map(str::to_owned).collect();
            }
            _ => return Err(format!("unknown word in the block's header: {word}")),
        }
    }
    if oracle_is_none != block.without_oracle.is_some() {
        return Err("oracle=none and reason=\"...\" belong together".into());
    }
    Ok(block)
}

/// Words separated by blanks, where `name="several words"` is one.
fn split_info(info: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for character in info.chars() {
        match character {
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    if quoted {
        return Err("missing closing quote in the block's header".into());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

/// Parses what begins at the first of `lines`; returns how many lines it took.
fn parse_line(block: &mut Block, lines: &[String], number: usize) -> Result<usize, String> {
    let line = lines[0].trim_end();
    if line.is_empty() || line == "#" || line.starts_with("# ") {
        return Ok(1);
    }
    if let Some(directives) = line.strip_prefix("config:") {
        if !block.steps.is_empty() {
            return Err("config: must come before the first command".into());
        }
        for argument in quoting::split(directives)? {
            let text = String::from_utf8(argument).map_err(|error| error.to_string())?;
            block.directives.push(text);
        }
        return Ok(1);
    }
    if let Some((connection, action)) = parse_action(block, line)? {
        block.steps.push(Step {
            line: number,
            text: line.to_owned(),
            connection,
            action,
            expected: Vec::new(),
            expected_resp3: Vec::new(),
        });
        return Ok(1);
    }
    let (first, newer) = match line.strip_prefix("3>") {
        Some(rest) => (rest.trim_start(), true),
        None => (line, false),
    };
    let mut text = first.to_owned();
    let mut used = 1;
    while !notation::balanced(&text) {
        match lines.get(used) {
            Some(next) if !next.starts_with("```") => {
                text.push('\n');
                text.push_str(next);
                used += 1;
            }
            _ => return Err("the reply's brackets do not close".into()),
        }
    }
    let pattern = notation::parse(&text)?;
    let step = block
        .steps
        .last_mut()
        .ok_or("a reply before the first command")?;
    if newer {
        step.expected_resp3.push(pattern);
    } else {
        step.expected.push(pattern);
    }
    Ok(used)
}

fn parse_action(block: &Block, line: &str) -> Result<Option<(usize, Action)>, String> {
    if let Some(time) = line.strip_prefix("wait ") {
        let ms = time.strip_suffix("ms").and_then(|ms| ms.parse().ok());
        let ms = ms.ok_or_else(|| format!("wait needs a number of milliseconds: {time}"))?;
        return Ok(Some((0, Action::Wait(Duration::from_millis(ms)))));
    }
    let Some(position) = line.find(['>', '<']) else {
        return Ok(None);
    };
    let (name, rest) = line.split_at(position);
    if name == "3" || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    let connection = if name.is_empty() {
        0
    } else {
        let found = block.connections.iter().position(|known| known == name);
        found.ok_or_else(|| format!("connection {name} is not in the block's conns="))?
    };
    let action = if let Some(raw) = rest.strip_prefix(">>") {
        let mut bytes = Vec::new();
        for part in quoting::split(raw)? {
            bytes.extend_from_slice(&part);
        }
        Action::Raw(bytes)
    } else if let Some(command) = rest.strip_prefix('>') {
        let arguments = quoting::split(command)?;
        if arguments.is_empty() {
            return Err("a command without a name".into());
        }
        Action::Command(arguments)
    } else if rest == "<" {
        Action::Read
    } else {
        return Err(format!("text after < : {line}"));
    };
    Ok(Some((connection, action)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_blocks_and_steps() {
        let text = "# Title\n\n```redis resp3 conns=a,b oracle=none reason=\"ours only\"\nconfig: --hz 20\na> SET k \"v w\"\n+OK\nb> HGETALL k\n[$\"a\"\n  :1]\n3> %{$\"a\" => :1}\nwait 5ms\na<\n(none)\n```\n\n```text\n> not a step\n```\n";
        let transcript = parse("t.md", text).unwrap();
        assert_eq!(transcript.blocks.len(), 1);
        let block = &transcript.blocks[0];
        assert_eq!(block.protocols, [Protocol::Resp3]);
        assert_eq!(block.without_oracle.as_deref(), Some("ours only"));
        assert_eq!(block.directives, ["--hz", "20"]);
        assert_eq!(block.steps.len(), 4);
        assert_eq!(block.steps[1].connection, 1);
        assert_eq!(
            (
                block.steps[1].expected.len(),
                block.steps[1].expected_resp3.len()
            ),
            (1, 1)
        );
        assert_eq!(
            block.steps[2].action,
            Action::Wait(Duration::from_millis(5))
        );
        assert_eq!(block.steps[3].expected, [Pattern::None]);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line) in [
            ("```redis\n+OK\n```\n", 2),
            ("```redis nonsense\n```\n", 1),
            ("\n```redis\n> GET \"a\n```\n", 3),
            ("```redis oracle=none\n```\n", 1),
            ("```redis\n> GET a\n[:1\n```\n", 3),
            ("```redis\nc> GET a\n```\n", 2),
            ("```redis\n> GET a\n", 1),
        ] {
            let error = parse("t.md", text).unwrap_err();
            assert!(error.starts_with(&format!("t.md:{line}: ")), "{error}");
        }
    }
}
