//! What is compatible with Redis, for people: made from the tables of commands and directives, and
//! from the list of differences below.

use engine::Command;
use engine::config::ROWS;

/// Where this server answers or behaves otherwise, and why: topic, difference and reason.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "KEYS, SCAN, DBSIZE, RANDOMKEY",
        "are atomic per bucket of the table and not as a whole: other clients' commands run meanwhile. \
         No command waits for a walk through all keys.",
    ),
    (
        "commands with several keys",
        "wait for all their keys, and delay later users of these keys while they wait.",
    ),
    (
        "OBJECT IDLETIME, TOUCH",
        "times of last use are not kept as long as nothing is evicted: OBJECT IDLETIME answers 0 and TOUCH \
         only counts the keys that exist.",
    ),
    (
        "DEBUG SLEEP",
        "keeps its own client waiting and nobody else.",
    ),
    (
        "CLIENT LIST, CLIENT INFO",
        "show `qbuf-free`, `argv-mem`, `rbs`, `rbp` as 0: an idle connection owns no buffers.",
    ),
    (
        "SHUTDOWN SAVE, `shutdown-on-sigint save`",
        "are refused, as there is no persistence; a shutdown without options does not save.",
    ),
    (
        "`save`",
        "is empty by default and takes nothing else, for the same reason.",
    ),
    (
        "directives of missing features",
        "accept the value that means off; others stop the start or fail CONFIG SET, naming what is \
         missing. docs/configuration.md lists them.",
    ),
    (
        "`io-threads`",
        "is `threads` here: each thread executes commands too.",
    ),
    (
        "`loglevel`",
        "also knows `nothing`, as later versions of Redis do.",
    ),
    (
        "`crash-log-enabled`, `crash-memcheck-enabled`",
        "are `no`, as there are no crash reports.",
    ),
    (
        "CONFIG GET",
        "answers in a fixed order; Redis answers in none.",
    ),
    (
        "SIGHUP",
        "is noted in the log and does nothing more, as the log is opened for each line.",
    ),
];

/// The document, in Markdown.
pub(crate) fn document() -> String {
    let redis = commands::REDIS_VERSION;
    let mut text = vec![format!(
        "# Compatibility\n\n\
         Replies, errors and directives are those of Redis {redis}, which the tests ask. Made by\n\
         `pronghorn --print-compat`.\n\n\
         ## Differences\n\n"
    )];
    for (topic, difference) in DIFFERENCES {
        text.push(format!("- **{topic}** {difference}\n"));
    }
    let all: Vec<&Command> = commands::TABLES
        .iter()
        .copied()
        .flatten()
        .copied()
        .collect();
    let missing = ROWS.iter().filter(|row| row.is_missing()).count();
    text.push(format!(
        "\n## Directives\n\n{} of {} have their effect, the others wait for their feature: see\n\
         [docs/configuration.md](docs/configuration.md).\n",
        ROWS.len() - missing,
        ROWS.len()
    ));
    text.push(format!(
        "\n## Commands\n\n{} commands, with their subcommands.\n",
        all.len()
    ));
    let mut group = "";
    for command in all {
        if command.group.name() != group {
            group = command.group.name();
            text.push(format!(
                "\n### {group}\n\n| command | since | |\n|---|---|---|\n"
            ));
        }
        text.push(row("", command));
        for subcommand in command.subcommands {
            text.push(row(command.name, subcommand));
        }
    }
    text.concat()
}

fn row(container: &str, command: &Command) -> String {
    let space = if container.is_empty() { "" } else { " " };
    let (name, since) = (command.name, command.since);
    let summary = command.summary.replace('|', "\\|");
    format!("| {container}{space}{name} | {since} | {summary} |\n")
}
