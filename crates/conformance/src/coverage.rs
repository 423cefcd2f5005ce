//! Which commands of a server no transcript uses.

use crate::connection::{Connection, REPLY_WAIT_MAX, Received};
use crate::notation::Protocol;
use crate::process::{Program, Server};
use crate::run;
use crate::transcript::Action;
use crate::value::Value;
use std::collections::BTreeSet;

/// Commands and subcommands (`client|id`) of `program` that no transcript sends.
pub fn unused_commands(program: Program) -> Result<Vec<String>, String> {
    let used = used_names(&run::load_all()?);
    let server = Server::start(program, &[])?;
    let known = known_names(&server)?;
    Ok(known
        .into_iter()
        .filter(|name| !used.contains(name))
        .collect())
}

fn used_names(transcripts: &[crate::transcript::Transcript]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let steps = transcripts
        .iter()
        .flat_map(|file| &file.blocks)
        .flat_map(|block| &block.steps);
    for step in steps {
        if let Action::Command(arguments) = &step.action {
            let word = |index: usize| {
                let argument = arguments.get(index)?;
                Some(String::from_utf8_lossy(argument).to_lowercase())
            };
            let Some(first) = word(0) else { continue };
            if let Some(second) = word(1) {
                names.insert(format!("{first}|{second}"));
            }
            names.insert(first);
        }
    }
    names
}

fn known_names(server: &Server) -> Result<BTreeSet<String>, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut connection = Connection::open(server.port, Protocol::Resp2).map_err(text)?;
    connection.send(&[b"COMMAND".to_vec()]).map_err(text)?;
    let Received::Reply(Value::Array(rows)) = connection.receive(REPLY_WAIT_MAX).map_err(text)?
    else {
        return Err("COMMAND did not answer with an array".into());
    };
    let mut names = BTreeSet::new();
    for row in &rows {
        collect_row(row, &mut names)?;
    }
    Ok(names)
}

/// A row begins with the name; its tenth item holds the rows of the subcommands.
fn collect_row(row: &Value, names: &mut BTreeSet<String>) -> Result<(), String> {
    let Value::Array(items) = row else {
        return Err("a row of COMMAND is no array".into());
    };
    let Some(Value::Bulk(name)) = items.first() else {
        return Err("a row of COMMAND has no name".into());
    };
    names.insert(String::from_utf8_lossy(name).to_lowercase());
    if let Some(Value::Array(subcommands)) = items.get(9) {
        for subcommand in subcommands {
            collect_row(subcommand, names)?;
        }
    }
    Ok(())
}
