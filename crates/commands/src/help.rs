//! HELP of container commands: made from the subcommands' own entries.

use engine::{Arg, ArgKind, Cx};
use std::fmt::Write as _;

/// Writes the help of the container whose HELP subcommand is running: a heading, then a line of
/// grammar and a line of explanation for each subcommand.
pub(crate) fn help(cx: &mut Cx<'_>) {
    let entry = cx.server.registry.entry(cx.command);
    let container = entry.parent.map_or(cx.command, |parent| parent);
    let container = cx.server.registry.entry(container);
    let name = container.command.name;
    let mut lines = vec![format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    )];
    for child in &container.children {
        let child = cx.server.registry.entry(*child).command;
        if child.name == "HELP" {
            continue;
        }
        let mut line = child.name.to_owned();
        for arg in child.args {
            line.push(' ');
            grammar(&mut line, arg);
        }
        lines.push(line);
        lines.push(format!("    {}", child.summary));
    }
    lines.push("HELP".to_owned());
    lines.push("    Prints this help.".to_owned());
    cx.reply.array(lines.len());
    for line in lines {
        cx.reply.simple(&line);
    }
}

fn grammar(line: &mut String, arg: &Arg) {
    if arg.optional {
        line.push('[');
    }
    if !arg.token.is_empty() && arg.kind != ArgKind::Token {
        let _ = write!(line, "{} ", arg.token);
    }
    match arg.kind {
        ArgKind::Token => line.push_str(arg.token),
        ArgKind::OneOf => {
            for (index, part) in arg.parts.iter().enumerate() {
                if index > 0 {
                    line.push('|');
                }
                grammar(line, part);
            }
        }
        ArgKind::Block => {
            for (index, part) in arg.parts.iter().enumerate() {
                if index > 0 {
                    line.push(' ');
                }
                grammar(line, part);
            }
        }
        _ => {
            let _ = write!(line, "<{}>", arg.name);
        }
    }
    if arg.multiple {
        line.push_str(" ...");
    }
    if arg.optional {
        line.push(']');
    }
}
