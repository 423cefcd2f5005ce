//! OBJECT: what clients may know about how a value is kept.

use crate::help::help;
use engine::{Arg, Args, Categories, Command, Cx, Error, Flags, Group, KeyFlags, KeySpec, Outcome};
use store::{Encoding, View};

const KEYS: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RO)];
/// The largest number that clients expect to be shared.
const SHARED_NUMBER_MAX: i64 = 9999;
const TIPS: &[&str] = &["nondeterministic_output"];

pub(super) static OBJECT: Command = Command {
    name: "OBJECT",
    group: Group::Generic,
    since: "2.2.3",
    summary: "Container of commands that look at how values are kept.",
    complexity: "Depends on the subcommand.",
    arity: -2,
    subcommands: &[&ENCODING, &FREQ, &HELP, &IDLETIME, &REFCOUNT],
    ..Command::BASE
}
.checked();

static ENCODING: Command = Command {
    name: "ENCODING",
    group: Group::Generic,
    since: "2.2.3",
    summary: "Answers with the name of the representation of a key's value.",
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: TIPS,
    args: &[Arg::key("key")],
    handler: encoding,
    ..Command::BASE
}
.checked();

fn encoding(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, |reply, view| {
        match view {
            None => reply.null(),
            Some(view) => reply.bulk(Encoding::of(view).name().as_bytes()),
        }
        Ok(())
    })
}

static FREQ: Command = Command {
    name: "FREQ",
    group: Group::Generic,
    since: "4.0.0",
    summary: "Answers with the logarithm of how often a key is used, under an LFU policy.",
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: TIPS,
    args: &[Arg::key("key")],
    handler: freq,
    ..Command::BASE
}
.checked();

/// There is no LFU policy to be selected.
fn freq(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, |reply, view| match view {
        None => {
            reply.null();
            Ok(())
        }
        Some(_) => Err(Error::FrequencyNotTracked),
    })
}

static IDLETIME: Command = Command {
    name: "IDLETIME",
    group: Group::Generic,
    since: "2.2.3",
    summary: "Answers in about how many seconds a key was last used.",
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: TIPS,
    args: &[Arg::key("key")],
    handler: idletime,
    ..Command::BASE
}
.checked();

fn idletime(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, |reply, view| {
        match view {
            None => reply.null(),
            Some(view) => reply.integer(idle_s(view.access())),
        }
        Ok(())
    })
}

/// Seconds without use of an idle class: 0 is now, each eight classes double.
pub(crate) fn idle_s(class: u8) -> i64 {
    match class {
        0 => 0,
        class => (f64::from(class - 1) / 8.0).exp2() as i64,
    }
}

static REFCOUNT: Command = Command {
    name: "REFCOUNT",
    group: Group::Generic,
    since: "2.2.3",
    summary: "Answers how many share a key's value: its own key only, but for small numbers.",
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: KEYS,
    tips: TIPS,
    args: &[Arg::key("key")],
    handler: refcount,
    ..Command::BASE
}
.checked();

fn refcount(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    cx.read(0, |reply, view| {
        match view {
            None => reply.null(),
            Some(view) => reply.integer(references(view)),
        }
        Ok(())
    })
}

/// How many share the value of `view`. Values belong to one key each; but a small number needs no
/// value beside its record, and clients know such ones as shared without end.
pub(crate) fn references(view: &View<'_>) -> i64 {
    match view.as_int() {
        Some(0..=SHARED_NUMBER_MAX) => i64::from(i32::MAX),
        _ => 1,
    }
}

static HELP: Command = Command {
    name: "HELP",
    group: Group::Generic,
    since: "6.2.0",
    summary: "Explains the subcommands.",
    arity: 2,
    flags: Flags::LOADING.or(Flags::STALE),
    categories: Categories::KEYSPACE,
    handler: object_help,
    ..Command::BASE
}
.checked();

fn object_help(cx: &mut Cx<'_>, _args: Args<'_>) -> Outcome {
    help(cx);
    Ok(())
}
