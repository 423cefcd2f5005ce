//! CONFIG against redis-server 7.0: names, shown values, errors, the rewritten file.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Client, Folder, PRONGHORN, Served, original};
use std::collections::BTreeMap;

/// Directives whose value cannot be the same.
const DIFFERENT: [&str; 4] = [
    "unixsocket",
    "crash-log-enabled",
    "crash-memcheck-enabled",
    "pidfile",
];
/// Directives that are not set to arbitrary values here: they would cut the connection, or check
/// what belongs to a feature that is missing.
const NOT_SET: [&str; 8] = [
    "bind",
    "port",
    "tls-port",
    "tls-cluster",
    "tls-replication",
    "maxclients",
    "requirepass",
    "cluster-announce-hostname",
];
/// Values that tell kinds apart.
const VALUES: [&str; 36] = [
    "",
    "abc",
    "-1",
    "0",
    "1",
    "2",
    "99999999999999999999",
    "yes",
    "YES",
    "no",
    "10%",
    "1kb",
    "1.5",
    "5 ",
    "700",
    "999",
    "a b c",
    "normal 1 2 3",
    "normal 1 2",
    "slave 1kb 1mb 5 pubsub 0 0 0",
    "3600 1",
    "-5",
    "+5",
    "05",
    "101%",
    "2gb",
    "kb",
    "1b",
    "{title} {port}",
    "{title}",
    "1 2 3",
    "nosave now",
    "save nosave",
    "5000000000",
    "-0",
    "local",
];

fn both(name: &str) -> Option<(Folder, Served, Served)> {
    let Some(original) = original() else {
        println!("redis-server 7.0 is not installed: nothing to compare with");
        return None;
    };
    let folder = Folder::new(name);
    let theirs = Served::start(original, &folder, &["--save", ""]);
    let ours = Served::start(PRONGHORN, &folder, &["--save", "", "--threads", "1"]);
    Some((folder, theirs, ours))
}

fn all(client: &mut Client) -> BTreeMap<String, String> {
    let list = client.call(&["config", "get", "*"]).list();
    list.chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

#[test]
fn directives_and_defaults_are_the_same() {
    let Some((_folder, theirs, ours)) = both("names") else {
        return;
    };
    let (mut theirs, mut ours) = (theirs.connect(), ours.connect());
    let shown = all(&mut ours);
    for (name, value) in all(&mut theirs) {
        let Some(own) = shown.get(&name) else {
            panic!("{name} is not known");
        };
        if !DIFFERENT.contains(&name.as_str()) {
            assert_eq!(own, &value, "{name}");
        }
    }
    for patterns in [
        &["port"][..],
        &["PORT", "po[r]t", "p?rt"],
        &["nothing"],
        &["slowlog*", "slowlog-max-len"],
        &["slaveof"],
        &["key-load-delay"],
        &["*load-delay"],
    ] {
        let call = [&["config", "get"], patterns].concat();
        let sorted = |client: &mut Client| {
            let list = client.call(&call).list();
            list.chunks_exact(2)
                .map(<[String]>::to_vec)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(sorted(&mut ours), sorted(&mut theirs), "{patterns:?}");
    }
}

#[test]
fn setting_has_the_same_outcome() {
    let Some((_folder, theirs, ours)) = both("sets") else {
        return;
    };
    let (mut theirs, mut ours) = (theirs.connect(), ours.connect());
    let mut compared = 0;
    for (name, default) in all(&mut theirs) {
        if NOT_SET.contains(&name.as_str()) || DIFFERENT.contains(&name.as_str()) {
            continue;
        }
        for value in VALUES {
            let call = ["config", "set", &name, value];
            let (their, our) = (theirs.call(&call).text(), ours.call(&call).text());
            if our.contains("which this version does not have") {
                // What is missing takes its default only; the original took the value or not.
                assert_eq!(
                    theirs.call(&["config", "set", &name, &default]).text(),
                    "+OK"
                );
                continue;
            }
            let range = value == "99999999999999999999" && their == "+OK";
            if !range && !is_known_difference(&name, value) {
                assert_eq!(our, their, "{name} {value:?}");
                assert_eq!(ours.get(&name), theirs.get(&name), "{name} {value:?}");
                compared += 1;
            } else if their == "+OK" {
                theirs.call(&["config", "set", &name, &default]);
            }
        }
    }
    assert!(compared > 3000, "{compared}");
}

/// Ours knows one level more; theirs overlooks a space at the end of `save`.
fn is_known_difference(name: &str, value: &str) -> bool {
    (name == "loglevel") || (name == "save" && value == "5 ")
}

#[test]
fn errors_are_the_same() {
    let Some((_folder, theirs, ours)) = both("errors") else {
        return;
    };
    let (mut theirs, mut ours) = (theirs.connect(), ours.connect());
    for words in [
        &["config", "set"][..],
        &["config", "set", "timeout"],
        &["config", "set", "timeout", "1", "hz"],
        &["config", "set", "nosuch", "1"],
        &["config", "set", "nosuch", "1", "port", "99999"],
        &["config", "set", "port", "99999", "nosuch", "1"],
        &["config", "set", "databases", "1", "nosuch", "1"],
        &["config", "set", "timeout", "5", "timeout", "6"],
        &["config", "set", "timeout", "5", "TIMEOUT", "6"],
        &["config", "set", "timeout", "5", "hz", "x"],
        &["config", "set", "rename-command", "a b"],
        &["config", "set", "include", "x"],
        &["config", "set", "dir", "/tmp"],
        &["config", "set", "maxclients", "0"],
        &["config", "set", "client-output-buffer-limit", "foo 1 2 3"],
        &[
            "config",
            "set",
            "bind",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
        ],
        &["config", "rewrite"],
    ] {
        assert_eq!(ours.call(words), theirs.call(words), "{words:?}");
    }
    assert_eq!(ours.get("timeout"), "0", "nothing was set");
}

#[test]
fn a_rewritten_file_is_the_same() {
    let Some(original) = original() else { return };
    let text = "# My file\nport 0\ninclude  extra.conf\n\n# timeouts\ntimeout 5\ntimeout 6\n\n\n\
                LOGLEVEL verbose\nsave \"\"\nclient-output-buffer-limit normal 1mb 0 0\n\
                client-output-buffer-limit pubsub 0 0 0\nrename-command FLUSHALL \"\"\n\
                proto-max-bulk-len 512mb\nbind 127.0.0.1\nslave-read-only yes\n\
                pidfile my.pid\n# end\nlogfile \"\"\n";
    let mut files = Vec::new();
    for program in [original, PRONGHORN] {
        let folder = Folder::new("rewrite");
        folder.write("extra.conf", "maxclients 400\n");
        let path = folder.write("main.conf", text);
        let served = Served::start(program, &folder, &[path.to_str().unwrap(), "--hz", "20"]);
        let mut client = served.connect();
        let set = [
            "config",
            "set",
            "slowlog-max-len",
            "5",
            "timeout",
            "0",
            "proto-max-bulk-len",
            "2mb",
        ];
        assert_eq!(client.call(&set).text(), "+OK");
        assert_eq!(client.call(&["config", "rewrite"]).text(), "+OK");
        let rewritten = folder.read("main.conf");
        let (kept, added) = rewritten
            .split_once("# Generated by CONFIG REWRITE\n")
            .unwrap();
        // The order of what is added is open, and the original always writes its users and
        // percentiles.
        let mut added: Vec<String> = added
            .lines()
            .filter(|line| {
                !["user ", "unixsocket ", "latency-tracking-info-"]
                    .iter()
                    .any(|start| line.starts_with(start))
            })
            .map(str::to_owned)
            .collect();
        added.sort();
        files.push((kept.to_owned(), added));
    }
    assert_eq!(files[1], files[0]);
}

#[test]
fn live_changes_take_effect() {
    let folder = Folder::new("live");
    let args = ["--threads", "1", "--enable-protected-configs", "local"];
    let served = Served::start(PRONGHORN, &folder, &args);
    let mut client = served.connect();
    let set = |client: &mut Client, name: &str, value: &str| {
        client.call(&["config", "set", name, value]).text()
    };
    assert_eq!(set(&mut client, "dir", "/"), "+OK");
    assert_eq!(client.get("dir"), "/");
    assert!(set(&mut client, "dir", "/nonexistent").ends_with("No such file or directory"));
    assert_eq!(client.get("dir"), "/");
    assert!(
        set(&mut client, "maxclients", "4000000000").contains("not able to handle the specified")
    );
    assert_eq!(client.get("maxclients"), "10000");
    assert_eq!(set(&mut client, "jemalloc-bg-thread", "no"), "+OK");
    let pid = served.child.id();
    assert_eq!(
        set(&mut client, "proc-title-template", "{title} changed {port}"),
        "+OK"
    );
    let title = env::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(title.starts_with(b"pronghorn changed 0\0"), "{title:?}");
    assert_eq!(set(&mut client, "oom-score-adj-values", "11 22 33"), "+OK");
    assert_eq!(set(&mut client, "oom-score-adj", "absolute"), "+OK");
    let score = env::fs::read(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim_ascii(), b"11");
}
