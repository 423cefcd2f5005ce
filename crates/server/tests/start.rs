//! How the program starts, refuses to start, and ends.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Folder, Served, run};

/// The program ends with code 1 and says `expected` on its standard error.
fn refuses(folder: &Folder, args: &[&str], expected: &str) {
    let output = run(folder, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(expected), "{args:?}: {said}");
}

#[test]
fn bad_configurations_stop_the_start() {
    let folder = Folder::new("refuse");
    let version = env!("CARGO_PKG_VERSION");
    let fatal = |line: usize, text: &str, reason: &str| {
        format!(
            "*** FATAL CONFIG FILE ERROR (Pronghorn {version}) ***\n\
             Reading the configuration file, at line {line}\n>>> '{text}'\n{reason}\n"
        )
    };
    let unknown = "Bad directive or wrong number of arguments";
    refuses(
        &folder,
        &["--nosuch", "1"],
        &fatal(2, "nosuch \"1\"", unknown),
    );
    refuses(
        &folder,
        &["--port", "1", "--timeout", "abc"],
        &fatal(
            3,
            "timeout \"abc\"",
            "argument couldn't be parsed into an integer",
        ),
    );
    refuses(
        &folder,
        &["--appendonly", "yes"],
        &fatal(
            2,
            "appendonly \"yes\"",
            "'appendonly yes' needs persistence, which this version does not have",
        ),
    );
    folder.write("bad.conf", "# fine\nport 6379\n\nmaxclients none\n");
    let reason = "argument couldn't be parsed into an integer";
    refuses(&folder, &["bad.conf"], &fatal(4, "maxclients none", reason));
    let missing = "No such file or directory";
    refuses(
        &folder,
        &["--dir", "/nonexistent"],
        &fatal(2, "dir \"/nonexistent\"", missing),
    );
    let log = "Can't open the log file: No such file or directory";
    refuses(&folder, &["--logfile", "/nonexistent/log"], log);
    refuses(&folder, &["--test-memory", "1"], "not available");
    refuses(&folder, &["--sentinel"], "Sentinel");
}

#[test]
fn what_the_system_refuses_is_logged() {
    let folder = Folder::new("system");
    let logged = |args: &[&str], expected: &str| {
        let output = run(&folder, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(expected), "{args:?}: {said}");
    };
    logged(
        &["/nonexistent.conf"],
        "Fatal error, can't open config file '/nonexistent.conf': No such file or directory",
    );
    logged(
        &["--port", "0"],
        "Configured to not listen anywhere, exiting.",
    );
    logged(
        &["--port", "0", "--unixsocket", "/nonexistent/socket"],
        "/nonexistent/socket",
    );
}

#[test]
fn questions_are_answered() {
    let folder = Folder::new("questions");
    let said = |arg: &str| {
        let output = run(&folder, &[arg]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said("-v").starts_with("Pronghorn server v="));
    assert_eq!(said("-v"), said("--version"));
    assert!(said("--help").contains("--client-output-buffer-limit"));
}

#[test]
fn generated_files_are_up_to_date() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folder = Folder::new("generated");
    for (flag, path) in [
        ("--print-compat", "COMPAT.md"),
        ("--print-conf", "pronghorn.conf"),
        ("--print-config-docs", "docs/configuration.md"),
    ] {
        let printed = run(&folder, &[flag]).stdout;
        let kept = env::fs::read(format!("{root}/{path}")).unwrap();
        assert!(
            printed == kept,
            "{path} is out of step: run `cargo xtask codegen`"
        );
    }
}

#[test]
fn the_example_file_changes_nothing() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folder = Folder::new("example");
    let text = String::from_utf8(env::fs::read(format!("{root}/pronghorn.conf")).unwrap()).unwrap();
    // Also with every default spelt out.
    let mut spelt: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            // Lines of prose that begin with a directive's name are followed by more than a value.
            engine::config::find(name.as_bytes()).is_some()
                && !line.ends_with('.')
                && name != "bind"
                && name == name.to_ascii_lowercase()
        })
        .collect();
    assert!(spelt.len() > 40, "{spelt:?}");
    spelt.push("");
    let spelt = spelt.join("\n");
    let example = folder.write("example.conf", &text);
    let spelt = folder.write("spelt.conf", &spelt);
    for path in [example, spelt] {
        let served = Served::start(
            common::PRONGHORN,
            &folder,
            &[path.to_str().unwrap(), "--threads", "1"],
        );
        let mut client = served.connect();
        assert_eq!(client.get("timeout"), "0");
        assert_eq!(
            client.get("proc-title-template"),
            "{title} {listen-addr} {server-mode}"
        );
    }
}

#[test]
fn options_replace_the_file_and_stdin_is_read() {
    let folder = Folder::new("options");
    folder.write("more.conf", "hz 22\n");
    let file = folder.write("main.conf", "timeout 5\ninclude more.c*\nmaxclients 50\n");
    let args = [
        file.to_str().unwrap(),
        "--timeout",
        "6",
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    let served = Served::start(common::PRONGHORN, &folder, &args);
    let mut client = served.connect();
    assert_eq!(client.get("timeout"), "6");
    assert_eq!(client.get("hz"), "22");
    assert_eq!(client.get("maxclients"), "50");
    assert_eq!(client.get("save"), "");
    assert_eq!(client.get("dir"), folder.0.to_str().unwrap());
}

#[test]
fn signals_and_shutdown_end_it_in_order() {
    for (index, how) in ["TERM", "INT", "SHUTDOWN"].into_iter().enumerate() {
        let folder = Folder::new(&format!("end{index}"));
        let args = ["--pidfile", "pid", "--logfile", "log"];
        let mut served = Served::start(common::PRONGHORN, &folder, &args);
        let pid = served.child.id();
        assert_eq!(served.connect().call(&["ping"]).text(), "+PONG");
        assert_eq!(folder.read("pid"), format!("{pid}\n"));
        if how == "SHUTDOWN" {
            assert_eq!(served.connect().call(&["shutdown"]).text(), "", "no reply");
        } else {
            served.signal("HUP");
            env::thread::sleep_ms(100);
            served.signal(how);
        }
        assert_eq!(served.exit_code(), Some(0), "{how}");
        let log = folder.read("log");
        for expected in [
            "oO0OoO0OoO0Oo Pronghorn is starting oO0OoO0OoO0Oo",
            "# Configuration loaded",
            "# Server initialized",
            "The server is now ready to accept connections at",
            "# User requested shutdown...",
            "# Pronghorn is now ready to exit, bye bye...",
        ] {
            assert!(log.contains(expected), "{expected}: {log}");
        }
        assert!(log.contains(&format!("{pid}:M ")), "{log}");
        if how != "SHUTDOWN" {
            assert!(
                log.contains(&format!("Received SIG{how} scheduling shutdown...")),
                "{log}"
            );
        }
        assert!(!folder.0.join("pid").exists(), "the pid file is removed");
    }
}

#[test]
fn it_goes_to_the_background() {
    let folder = Folder::new("background");
    let socket = folder.0.join("socket");
    let output = run(
        &folder,
        &[
            "--port",
            "0",
            "--unixsocket",
            socket.to_str().unwrap(),
            "--daemonize",
            "yes",
            "--pidfile",
            "pid",
            "--logfile",
            "log",
            "--log-format",
            "json",
        ],
    );
    assert_eq!(output.status.code(), Some(0));
    let mut pid = String::new();
    for _ in 0..500 {
        if folder.0.join("pid").exists() && folder.0.join("log").exists() {
            pid = folder.read("pid").trim().to_owned();
            if !pid.is_empty() && folder.read("log").contains("ready to accept") {
                break;
            }
        }
        env::thread::sleep_ms(20);
    }
    let log = folder.read("log");
    assert!(
        log.lines()
            .all(|line| line.starts_with("{\"time\":\"20") && line.ends_with('}')),
        "{log}"
    );
    let title = env::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let title = String::from_utf8_lossy(&title)
        .trim_end_matches('\0')
        .to_owned();
    assert_eq!(title, format!("pronghorn {}", socket.display()));
    let status = std::process::Command::new("kill")
        .arg(&pid)
        .status()
        .unwrap();
    assert!(status.success());
    for _ in 0..500 {
        if !folder.0.join("pid").exists() {
            return;
        }
        env::thread::sleep_ms(20);
    }
    panic!("it does not end");
}

#[test]
fn the_supervisor_is_told() {
    let folder = Folder::new("supervised");
    let path = folder.0.join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .unwrap();
    let mut child = std::process::Command::new(common::PRONGHORN)
        .args(["--port", "0", "--unixsocket", "s", "--supervised", "auto"])
        .current_dir(&folder.0)
        .env("NOTIFY_SOCKET", &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let receive = || {
        let mut bytes = [0; 256];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    assert!(receive().starts_with("READY=1"));
    let pid = child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .arg(&pid)
            .status()
            .unwrap()
            .success()
    );
    assert!(receive().starts_with("STOPPING=1"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
