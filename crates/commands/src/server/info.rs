//! INFO: which sections, in which order.

use super::info_sections as sections;
use engine::{Arg, ArgKind, Args, Categories, Command, Cx, Flags, Group, Outcome};

pub(super) static INFO: Command = Command {
    name: "INFO",
    group: Group::Server,
    since: "1.0.0",
    summary: "Shows facts and counters of the server, by sections.",
    complexity: "O(1)",
    arity: -1,
    flags: Flags::LOADING.or(Flags::STALE),
    categories: Categories::DANGEROUS,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    history: &[("7.0.0", "Takes several sections.")],
    args: &[Arg::new("section", ArgKind::String).optional().multiple()],
    handler: info,
    ..Command::BASE
}
.checked();

/// Writes one section's fields.
type Writer = fn(&Cx<'_>, &mut String);

struct Section {
    name: &'static str,
    title: &'static str,
    /// Shown if no section is named.
    default: bool,
    write: Writer,
}

const fn section(name: &'static str, title: &'static str, default: bool, write: Writer) -> Section {
    Section {
        name,
        title,
        default,
        write,
    }
}

/// All sections in the order of the reply.
static SECTIONS: &[Section] = &[
    section("server", "Server", true, sections::server),
    section("clients", "Clients", true, sections::clients),
    section("memory", "Memory", true, sections::memory),
    section("persistence", "Persistence", true, sections::persistence),
    section("stats", "Stats", true, sections::stats),
    section("replication", "Replication", true, sections::replication),
    section("cpu", "CPU", true, sections::cpu),
    section("modules", "Modules", true, |_, _| {}),
    section(
        "commandstats",
        "Commandstats",
        false,
        sections::commandstats,
    ),
    section("errorstats", "Errorstats", true, sections::errorstats),
    section("cluster", "Cluster", true, sections::cluster),
    section("keyspace", "Keyspace", true, sections::keyspace),
];

fn info(cx: &mut Cx<'_>, args: Args<'_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = args
        .skip(1)
        .iter()
        .map(<[u8]>::to_ascii_lowercase)
        .collect();
    let named = |name: &str| wanted.iter().any(|own| own == name.as_bytes());
    let all = named("all") || named("everything");
    let default = wanted.is_empty() || named("default");
    let mut text = String::with_capacity(4096);
    for section in SECTIONS {
        if !(all || (default && section.default) || named(section.name)) {
            continue;
        }
        // Modules are no part of "all".
        if section.name == "modules" && !(named("everything") || named("modules") || default) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str("# ");
        text.push_str(section.title);
        text.push_str("\r\n");
        (section.write)(cx, &mut text);
    }
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}
