//! The command line, as redis-server 7.0 takes it.
//!
//! ```text
//! pronghorn [/path/to.conf] [--directive word ...]... [-]
//! ```
//!
//! Options become lines of a configuration text behind the file's, so they replace what it says.
//! `-` as the first or last argument reads further lines from the standard input.

use engine::config::{quote, split_words};

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Print the version.
    Version,
    /// Print the usage.
    Help,
    /// Print the example configuration file.
    PrintConf,
    /// Print the reference of directives.
    PrintConfigDocs,
    /// Print the table of commands.
    PrintCompat,
    /// Something that does not exist here; the reason.
    Refused(&'static str),
    /// Serve.
    Serve(Sources),
}

/// Where the configuration comes from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// A file named on the command line.
    pub(crate) file: Option<Vec<u8>>,
    /// Further lines come from the standard input.
    pub(crate) stdin: bool,
    /// Lines made from options.
    pub(crate) options: Vec<u8>,
    /// There was nothing on the command line.
    pub(crate) nothing: bool,
}

/// Reads the arguments, without the program's name.
pub(crate) fn parse(args: &[Vec<u8>]) -> Request {
    if let [only] = args {
        match only.as_slice() {
            b"-v" | b"--version" => return Request::Version,
            b"-h" | b"--help" => return Request::Help,
            b"--print-conf" => return Request::PrintConf,
            b"--print-config-docs" => return Request::PrintConfigDocs,
            b"--print-compat" => return Request::PrintCompat,
            b"--check-system" => {
                return Request::Refused("'--check-system' is not available in this version");
            }
            _ => {}
        }
    }
    for arg in args {
        if arg == b"--test-memory" {
            return Request::Refused("'--test-memory' is not available in this version");
        }
        if arg == b"--sentinel" {
            return Request::Refused(
                "'--sentinel' needs the Sentinel mode, which this version does not have",
            );
        }
    }
    Request::Serve(sources(args))
}

fn sources(args: &[Vec<u8>]) -> Sources {
    let mut sources = Sources {
        nothing: args.is_empty(),
        ..Sources::default()
    };
    let mut at = 0;
    if args.first().is_some_and(|arg| !arg.starts_with(b"-")) {
        sources.file = Some(args[0].clone());
        at = 1;
    }
    // An option's name has been read and it has had no value yet: the next argument is one,
    // whatever it looks like.
    let mut wants_value = false;
    while at < args.len() {
        let arg = args[at].as_slice();
        if arg == b"-" && (at == 0 || at == args.len() - 1) {
            sources.stdin = true;
        } else if arg.starts_with(b"--") && !wants_value {
            let options = &mut sources.options;
            if !options.is_empty() {
                options.push(b'\n');
            }
            options.extend_from_slice(&arg[2..]);
            options.push(b' ');
            wants_value = split_words(arg).is_none_or(|words| words.len() == 1);
            // `--save` alone is `--save ""`.
            let next_is_option = args.get(at + 1).is_none_or(|next| next.starts_with(b"--"));
            if arg.eq_ignore_ascii_case(b"--save") && next_is_option {
                options.extend_from_slice(b"\"\"");
                wants_value = false;
            }
        } else {
            sources.options.extend_from_slice(quote(arg).as_bytes());
            sources.options.push(b' ');
            wants_value = false;
        }
        at += 1;
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Request {
        let words = split_words(line.as_bytes()).expect("balanced quotes");
        parse(&words)
    }

    fn check(line: &str, file: Option<&str>, stdin: bool, options: &str) {
        let Request::Serve(sources) = parsed(line) else {
            panic!("{line} serves");
        };
        assert_eq!(sources.file.as_deref(), file.map(str::as_bytes), "{line}");
        assert_eq!(sources.stdin, stdin, "{line}");
        assert_eq!(String::from_utf8_lossy(&sources.options), options, "{line}");
    }

    #[test]
    fn options_become_lines() {
        check("", None, false, "");
        check("/etc/a.conf", Some("/etc/a.conf"), false, "");
        check(
            "--port 1 --timeout 2",
            None,
            false,
            "port \"1\" \ntimeout \"2\" ",
        );
        check(
            "a.conf --save 60 1 --save \"\"",
            Some("a.conf"),
            false,
            "save \"60\" \"1\" \nsave \"\" ",
        );
        check("--save --port 1", None, false, "save \"\"\nport \"1\" ");
        check("--save", None, false, "save \"\"");
        check("--port --timeout", None, false, "port \"--timeout\" ");
        check("'--port 1' --hz 5", None, false, "port 1 \nhz \"5\" ");
        check("-", None, true, "");
        check("a.conf --port 1 -", Some("a.conf"), true, "port \"1\" ");
        check("- --port 1", None, true, "port \"1\" ");
        check(
            "--requirepass 'a \"b'",
            None,
            false,
            "requirepass \"a \\\"b\" ",
        );
    }

    #[test]
    fn questions_and_refusals() {
        assert_eq!(parsed("-v"), Request::Version);
        assert_eq!(parsed("--help"), Request::Help);
        assert_eq!(parsed("--print-conf"), Request::PrintConf);
        assert!(matches!(parsed("--test-memory 1"), Request::Refused(_)));
        assert!(matches!(parsed("a.conf --sentinel"), Request::Refused(_)));
    }
}
