//! The facts of every command's entry, against those of a real redis-server 7.0.
//!
//! Compared: arity, flags, categories, key specifications, tips, version, group, grammar. Not
//! compared: texts, which are our own. A command that redis-server does not know is passed over.

use super::oracle::Oracle;
use commands::TABLES;
use engine::{Arg, ArgKind, Command, Flags, KeySpec};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command as Process;

/// Where an entry says something else on purpose: command, fact, reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("auth", "flags", "secrets stay out of the slow log"),
    ("hello", "flags", "secrets stay out of the slow log"),
    (
        "client|kill",
        "grammar",
        "takes MAXAGE as later versions do",
    ),
    ("command|getkeys", "grammar", "7.0 says nothing"),
    ("command|getkeysandflags", "grammar", "7.0 says nothing"),
];

/// The server's answer to a command.
fn ask(oracle: &Oracle, command: &[&str]) -> Value {
    let output = Process::new("redis-cli")
        .arg("-s")
        .arg(oracle.socket())
        .arg("--json")
        .args(command)
        .output()
        .expect("redis-cli runs: install Debian's package redis-tools");
    serde_json::from_slice(&output.stdout).expect("an answer in JSON")
}

/// Collects what differs.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, name: &str, fact: &str, ours: &Value, theirs: &Value) {
        let on_purpose = DIFFERENT
            .iter()
            .any(|different| (different.0, different.1) == (name, fact));
        assert!(
            !(on_purpose && ours == theirs),
            "{name}: {fact} differs no longer"
        );
        if ours != theirs && !on_purpose {
            self.0
                .push(format!("{name}: {fact} is {ours}, should be {theirs}"));
        }
    }
}

#[test]
fn entries_state_the_facts_of_redis_7() {
    let oracle = Oracle::start();
    let names: Vec<&str> = TABLES
        .iter()
        .flat_map(|table| table.iter())
        .map(|c| c.name)
        .collect();
    let mut words = vec!["COMMAND", "INFO"];
    words.extend(&names);
    let infos = ask(&oracle, &words);
    words[1] = "DOCS";
    let docs = ask(&oracle, &words);
    let mut differences = Differences::default();
    let mut compared = 0;
    let commands = TABLES.iter().flat_map(|table| table.iter());
    for (command, info) in commands.zip(infos.as_array().expect("an array")) {
        let name = command.name.to_ascii_lowercase();
        if !info.is_null() {
            compared += 1;
            compare_info(&mut differences, &name, command, info);
            compare_docs(&mut differences, &name, command, &docs[&name]);
        }
    }
    assert!(compared > 0, "no command is known to both");
    assert!(differences.0.is_empty(), "\n{}", differences.0.join("\n"));
}

/// A set of words, whatever their order.
fn words<'a>(words: impl Iterator<Item = &'a str>) -> Value {
    json!(words.collect::<BTreeSet<_>>())
}

fn sorted(value: &Value) -> Value {
    words(
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    )
}

fn compare_info(differences: &mut Differences, name: &str, command: &Command, info: &Value) {
    differences.compare(name, "arity", &json!(command.arity), &info[1]);
    let movable = command.flags.has(Flags::MOVABLE_KEYS) || command.keys.iter().any(|k| k.counted);
    let flags = command
        .flags
        .names()
        .chain(movable.then_some("movablekeys"));
    differences.compare(name, "flags", &words(flags), &sorted(&info[2]));
    let categories: Vec<String> = command
        .all_categories()
        .names()
        .map(|category| format!("@{category}"))
        .collect();
    let categories = words(categories.iter().map(String::as_str));
    differences.compare(name, "categories", &categories, &sorted(&info[6]));
    differences.compare(
        name,
        "tips",
        &words(command.tips.iter().copied()),
        &sorted(&info[7]),
    );
    let theirs = info[8].as_array().map_or(&[][..], Vec::as_slice);
    differences.compare(
        name,
        "number of key specifications",
        &json!(command.keys.len()),
        &json!(theirs.len()),
    );
    for (spec, theirs) in command.keys.iter().zip(theirs) {
        compare_keys(differences, name, spec, theirs);
    }
    for theirs in info[9].as_array().into_iter().flatten() {
        let full_name = theirs[0].as_str().unwrap_or_default();
        // Subcommands that do not exist here yet are no matter of facts.
        if let Some(child) = child(command, full_name) {
            compare_info(differences, full_name, child, theirs);
        }
    }
}

fn child(command: &Command, full_name: &str) -> Option<&'static Command> {
    let own = full_name.split('|').nth(1)?;
    let mut children = command.subcommands.iter();
    children
        .find(|child| child.name.eq_ignore_ascii_case(own))
        .copied()
}

fn compare_keys(differences: &mut Differences, name: &str, spec: &KeySpec, theirs: &Value) {
    let flags = words(spec.flags.names());
    differences.compare(name, "key flags", &flags, &sorted(&theirs["flags"]));
    let first = &theirs["begin_search"]["spec"]["index"];
    differences.compare(name, "first key", &json!(spec.first), first);
    let find = &theirs["find_keys"];
    if spec.counted {
        differences.compare(name, "key search", &json!("keynum"), &find["type"]);
    } else {
        differences.compare(
            name,
            "last key",
            &json!(spec.last),
            &find["spec"]["lastkey"],
        );
        differences.compare(
            name,
            "key step",
            &json!(spec.step),
            &find["spec"]["keystep"],
        );
    }
}

/// A version after 7.0, of which a server of that version can know nothing.
fn is_later(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) > (7, 0)
}

fn compare_docs(differences: &mut Differences, name: &str, command: &Command, docs: &Value) {
    differences.compare(name, "since", &json!(command.since), &docs["since"]);
    differences.compare(name, "group", &json!(command.group.name()), &docs["group"]);
    let deprecated = command.deprecated.map(|(since, _)| since);
    let deprecated = json!(deprecated.filter(|since| !is_later(since)));
    differences.compare(name, "deprecation", &deprecated, &docs["deprecated_since"]);
    let history = command.history.iter().map(|(version, _)| *version);
    let history = words(history.filter(|version| !is_later(version)));
    let theirs = docs["history"].as_array();
    let theirs = theirs
        .into_iter()
        .flatten()
        .filter_map(|entry| entry[0].as_str());
    differences.compare(name, "history's versions", &history, &words(theirs));
    if command.subcommands.is_empty() {
        let grammar: Vec<Value> = command.args.iter().map(grammar).collect();
        let theirs = docs["arguments"].as_array().cloned().unwrap_or_default();
        differences.compare(name, "grammar", &json!(grammar), &json!(theirs));
    }
    for (full_name, theirs) in docs["subcommands"].as_object().into_iter().flatten() {
        if let Some(child) = child(command, full_name) {
            compare_docs(differences, full_name, child, theirs);
        }
    }
}

/// An argument as COMMAND DOCS shows it.
fn grammar(arg: &Arg) -> Value {
    let kind = match arg.kind {
        ArgKind::Key(_) => "key",
        ArgKind::String => "string",
        ArgKind::Integer => "integer",
        ArgKind::Double => "double",
        ArgKind::Pattern => "pattern",
        ArgKind::UnixTime => "unix-time",
        ArgKind::Token => "pure-token",
        ArgKind::OneOf => "oneof",
        ArgKind::Block => "block",
    };
    let mut value = json!({"name": arg.name, "type": kind});
    let mut set = |field: &str, content: Value| value[field] = content;
    if let ArgKind::Key(index) = arg.kind {
        set("key_spec_index", json!(index));
    }
    for (field, text) in [
        ("token", arg.token),
        ("since", arg.since),
        ("deprecated_since", arg.deprecated_since),
    ] {
        if !text.is_empty() {
            set(field, json!(text));
        }
    }
    let flags: Vec<&str> = [
        (arg.optional, "optional"),
        (arg.multiple, "multiple"),
        (arg.multiple_token, "multiple_token"),
    ]
    .into_iter()
    .filter_map(|(is_set, name)| is_set.then_some(name))
    .collect();
    if !flags.is_empty() {
        set("flags", json!(flags));
    }
    if !arg.parts.is_empty() {
        set("arguments", arg.parts.iter().map(grammar).collect());
    }
    value
}
