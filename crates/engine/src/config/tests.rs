//! Tests of the configuration as a whole.

use super::directive::{Change, Kind};
use super::*;
use std::collections::HashMap;
use std::io;

/// Files in memory, and two directories.
#[derive(Default)]
struct Pretended {
    files: HashMap<&'static str, &'static str>,
}

impl Surroundings for Pretended {
    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        let path = std::str::from_utf8(path).unwrap();
        let text = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.as_bytes().to_vec())
    }

    fn expand(&mut self, pattern: &[u8]) -> Vec<Vec<u8>> {
        if !pattern.contains(&b'*') {
            return vec![pattern.to_vec()];
        }
        let case = base::glob::Case::Sensitive;
        let mut found: Vec<Vec<u8>> = self
            .files
            .keys()
            .map(|path| path.as_bytes().to_vec())
            .filter(|path| base::glob::matches(pattern, path, case))
            .collect();
        found.sort();
        found
    }

    fn enter(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        if path == b"/there" {
            Ok(path.to_vec())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn is_command(&self, name: &str) -> bool {
        ["get", "set"].contains(&name.to_ascii_lowercase().as_str())
    }
}

fn load(text: &str) -> Result<Config, FatalConfig> {
    let config = Config::new();
    let mut surroundings = Pretended::default();
    surroundings.files.insert("a.conf", "timeout 7\n");
    surroundings
        .files
        .insert("b.conf", "include a.conf\nhz 11\n");
    surroundings
        .files
        .insert("loop.conf", "include loop.conf\n");
    config.load(text.as_bytes(), &mut surroundings)?;
    Ok(config)
}

fn shown(config: &Config, name: &str) -> String {
    config.shown(find(name.as_bytes()).unwrap()).to_text()
}

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<(), String> {
    let pairs: Vec<(&[u8], &[u8])> = pairs
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect();
    config.set_many(&pairs, false)
}

#[test]
fn what_get_shows_set_takes() {
    let config = Config::new();
    for (index, row) in ROWS.iter().enumerate() {
        let before = config.shown(index);
        let result = config.set_many(&[(row.name.as_bytes(), &before)], true);
        match row.change {
            Change::Live => assert_eq!(result, Ok(()), "{}", row.name),
            _ => assert!(result.unwrap_err().contains("can't set"), "{}", row.name),
        }
        assert_eq!(config.shown(index), before, "{}", row.name);
    }
}

#[test]
fn what_get_shows_a_file_takes() {
    let config = Config::new();
    for (index, row) in ROWS
        .iter()
        .enumerate()
        .filter(|(_, row)| row.kind != Kind::Directory)
    {
        let before = config.shown(index);
        let nobody = row.kind == Kind::Primary;
        let words = if nobody {
            "no one".to_owned()
        } else {
            quote(&before)
        };
        let line = format!("{} {words}", row.name);
        let result = config.load(line.as_bytes(), &mut Pretended::default());
        assert_eq!(result, Ok(()), "{line}");
        assert_eq!(config.shown(index), before, "{line}");
    }
}

#[test]
fn other_values_than_the_default_need_the_feature() {
    for row in ROWS.iter().filter(|row| row.is_missing()) {
        let other = match row.kind {
            Kind::Bool(default) => if default { "no" } else { "yes" }.to_owned(),
            Kind::Integer { default, min, .. } | Kind::Memory { default, min, .. } => {
                (if default == min { default + 1 } else { min }).to_string()
            }
            Kind::Choice {
                default, choices, ..
            } => (*choices.iter().find(|choice| **choice != default).unwrap()).to_owned(),
            Kind::SavePoints => "60 1".to_owned(),
            Kind::Events => "KEA".to_owned(),
            Kind::Primary => "host 6379".to_owned(),
            Kind::Percentiles(_) => "1 2".to_owned(),
            _ => "something".to_owned(),
        };
        let error = load(&format!("{} {other}", row.name))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("which this version does not have"),
            "{}: {error}",
            row.name
        );
        assert_eq!(
            error.contains(&format!("{other}' needs")),
            !row.sensitive,
            "{error}"
        );
    }
}

#[test]
fn patterns_find_directives() {
    let config = Config::new();
    let names = |patterns: &[&str]| -> Vec<String> {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        config
            .get_matching(&patterns)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(names(&["PORT", "p?rt", "port"]), ["PORT"]);
    assert_eq!(
        names(&["slowlog-*"]),
        ["slowlog-log-slower-than", "slowlog-max-len"]
    );
    assert_eq!(names(&["slaveof"]), ["slaveof"]);
    assert_eq!(names(&["*of"]), ["replicaof", "slaveof"]);
    assert_eq!(names(&["key-load-delay"]), ["key-load-delay"]);
    assert_eq!(names(&["key-load-dela[y]"]), Vec::<String>::new());
    assert_eq!(names(&["nothing"]), Vec::<String>::new());
}

#[test]
fn lines_of_files() {
    let config = load(
        "# comment\n\n  TIMEOUT 5 \r\ninclude *.nothing\nrequirepass \"a b\\x00\"\n\
         client-output-buffer-limit pubsub 1mb 1kb 3\nclient-output-buffer-limit replica 0 0 0\n\
         bind 127.0.0.1 -::1\nrename-command GET \"\"\nrename-command set put\n\
         unixsocketperm 750\nproto-max-bulk-len 1gb\ndir /there\nsave \"\"\n",
    )
    .unwrap();
    assert_eq!(config.timeout_s(), 5);
    assert_eq!(config.requirepass().as_bytes(), b"a b\0");
    let limit = OutputLimit {
        hard_bytes: 1 << 20,
        soft_bytes: 1024,
        soft_s: 3,
    };
    assert_eq!(config.output_limit(2), limit);
    assert_eq!(config.output_limit(1), OutputLimit::default());
    let limits = shown(&config, "client-output-buffer-limit");
    assert_eq!(limits, "normal 0 0 0 slave 0 0 0 pubsub 1048576 1024 3");
    assert_eq!(config.bind(), ["127.0.0.1", "-::1"]);
    assert_eq!(config.unixsocketperm(), 0o750);
    assert_eq!(shown(&config, "unixsocketperm"), "750");
    assert_eq!(config.proto_max_bulk_len(), 1 << 30);
    assert_eq!(config.dir().as_bytes(), b"/there");
    let renames = config.renames();
    assert_eq!(renames[0], ("GET".to_owned(), String::new()));
    assert_eq!(renames[1], ("set".to_owned(), "put".to_owned()));
}

#[test]
fn later_lines_and_includes_replace() {
    let config = load("timeout 1\ninclude *.conf\nhz 3").unwrap_err();
    assert!(config.to_string().contains("without end"), "{config}");
    let config = load("timeout 1\ninclude b.conf\nhz 3").unwrap();
    assert_eq!((config.timeout_s(), config.hz()), (7, 3));
}

#[test]
fn a_bad_line_is_named() {
    let check = |text: &str, number: usize, reason: &str| {
        let error = load(text).unwrap_err();
        let FatalConfig::Line {
            number: at,
            reason: why,
            ..
        } = &error
        else {
            panic!("{text}: {error}");
        };
        assert_eq!((*at, why.as_str()), (number, reason), "{text}");
    };
    check(
        "port 1\nnosuch 1",
        2,
        "Bad directive or wrong number of arguments",
    );
    check("port", 1, "wrong number of arguments");
    check("port 1 2", 1, "wrong number of arguments");
    check(
        "\n\nport abc",
        3,
        "argument couldn't be parsed into an integer",
    );
    check(
        "port 70000",
        1,
        "argument must be between 0 and 65535 inclusive",
    );
    check(
        "requirepass \"abc",
        1,
        "Unbalanced quotes in configuration line",
    );
    check(
        "unixsocketperm 999",
        1,
        "argument couldn't be parsed as an octal number",
    );
    check(
        "unixsocketperm 1000",
        1,
        "argument must be between 0 and 777 inclusive",
    );
    check(
        "rename-command nosuch x",
        1,
        "No such command in rename-command",
    );
    check(
        "rename-command get set",
        1,
        "Target command name already exists",
    );
    check(
        "rename-command get",
        1,
        "Bad directive or wrong number of arguments",
    );
    check("client-output-buffer-limit normal 0 0", 1, {
        "Wrong number of arguments in buffer limit configuration."
    });
    check(
        "databases 0",
        1,
        "argument must be between 1 and 2147483647 inclusive",
    );
    check(
        "user x",
        1,
        "'user' needs access control lists, which this version does not have",
    );
    check(
        "save 60 1",
        1,
        "'save 60 1' needs persistence, which this version does not have",
    );
    check(
        "server_cpulist 3-1",
        1,
        "'3-1' is no core or range of cores",
    );
    check(
        "supervised upstart",
        1,
        "'supervised upstart' is not available: use 'systemd'",
    );
    let file = load("include missing.conf").unwrap_err();
    assert!(matches!(file, FatalConfig::File { .. }), "{file}");
}

#[test]
fn all_pairs_are_set_or_none() {
    let config = Config::new();
    let related = |name: &str, reason: &str| {
        Err(format!(
            "CONFIG SET failed (possibly related to argument '{name}') - {reason}"
        ))
    };
    assert_eq!(set(&config, &[("timeout", "5"), ("HZ", "1000")]), Ok(()));
    assert_eq!((config.timeout_s(), config.hz()), (5, 500));
    let result = set(&config, &[("timeout", "6"), ("hz", "x")]);
    assert_eq!(
        result,
        related("hz", "argument couldn't be parsed into an integer")
    );
    assert_eq!(config.timeout_s(), 5);
    let result = set(&config, &[("port", "99999"), ("nosuch", "1")]);
    let unknown = "Unknown option or number of arguments for CONFIG SET - 'nosuch'";
    assert_eq!(result, Err(unknown.to_owned()));
    let result = set(&config, &[("timeout", "1"), ("TIMEOUT", "2")]);
    assert_eq!(result, related("TIMEOUT", "duplicate parameter"));
    assert_eq!(
        set(&config, &[("threads", "1")]),
        related("threads", "can't set immutable config")
    );
    assert_eq!(
        set(&config, &[("dir", "/")]),
        related("dir", "can't set protected config")
    );
    let result = set(&config, &[("appendonly", "yes")]);
    let reason = "'appendonly yes' needs persistence, which this version does not have";
    assert_eq!(result, related("appendonly", reason));
}

/// Refuses ports above 1000, and counts.
#[derive(Default)]
struct Picky(std::sync::Arc<AtomicI64>);

impl Apply for Picky {
    fn listen(&self, config: &Config) -> Result<(), String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if config.port() > 1000 {
            Err("too high".to_owned())
        } else {
            Ok(())
        }
    }
    fn clients_max(&self, config: &Config) -> Result<(), String> {
        if config.maxclients() > 1000 {
            Err("too many".to_owned())
        } else {
            Ok(())
        }
    }
    fn log_level(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
    fn frequency(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
    fn keepalive(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
    fn directory(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
    fn allocator_threads(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
    fn process_title(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
    fn oom_score(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_change_that_cannot_be_carried_out_is_undone() {
    let config = load("port 80\nmaxclients 100").unwrap();
    let calls = std::sync::Arc::default();
    config.set_apply(Box::new(Picky(std::sync::Arc::clone(&calls))));
    assert_eq!(
        set(&config, &[("port", "81"), ("bind", "127.0.0.1")]),
        Ok(())
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1, "once for both");
    let error = set(
        &config,
        &[("hz", "7"), ("port", "82"), ("maxclients", "2000")],
    )
    .unwrap_err();
    assert!(error.contains("'maxclients') - too many"), "{error}");
    assert_eq!(
        (config.hz(), config.port(), config.maxclients()),
        (10, 81, 100)
    );
    assert_eq!(calls.load(Ordering::Relaxed), 3, "to 82 and back");
    assert_eq!(set(&config, &[("port", "81")]), Ok(()));
    assert_eq!(calls.load(Ordering::Relaxed), 3, "no change, nothing to do");
}

#[test]
fn a_rewritten_file_keeps_what_people_wrote() {
    let old = "# Mine\nport 80\ninclude a.conf\n\n# times\ntimeout 5\ntimeout 6\n\n\n\
               LOGLEVEL verbose\nslave-read-only yes\nclient-output-buffer-limit normal 1mb 0 0\n\
               rename-command get \"\"\nrequirepass \"x y\"\n";
    let config = load(old).unwrap();
    assert_eq!(
        set(
            &config,
            &[
                ("timeout", "9"),
                ("requirepass", ""),
                ("slowlog-max-len", "5")
            ]
        ),
        Ok(())
    );
    let expected = "# Mine\nport 80\ninclude a.conf\n\n# times\ntimeout 9\n\n\
                    loglevel verbose\nreplica-read-only yes\n\
                    client-output-buffer-limit normal 1mb 0 0\nrename-command get \"\"\n\n\n\
                    # Generated by CONFIG REWRITE\nslowlog-max-len 5\n";
    let rewritten = config.rewritten(old);
    assert_eq!(rewritten, expected.replace("\n\n\n", "\n\n"));
    assert_eq!(
        config.rewritten(&rewritten),
        rewritten,
        "a second time changes nothing"
    );
    let again = load(&rewritten).unwrap();
    for (index, row) in ROWS.iter().enumerate() {
        assert_eq!(again.shown(index), config.shown(index), "{}", row.name);
    }
}

#[test]
fn a_rewritten_file_quotes_and_comments_out() {
    let config = load("requirepass \"a\\\"b \\xff\"\nmaxclients 5").unwrap();
    let rewritten = config.rewritten("nosuch 1\nport \"80\n");
    assert_eq!(
        rewritten,
        "# ??? nosuch 1\n# ??? port \"80\n\n# Generated by CONFIG REWRITE\n\
         requirepass \"a\\\"b \\xff\"\nmaxclients 5\n"
    );
}
