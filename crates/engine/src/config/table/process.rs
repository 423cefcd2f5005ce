//! The process, its log, and who may do what.

use crate::config::directive::{Chapter, Directive, Effect, Kind};

const LOCAL: &[&str] = &["no", "yes", "local"];

pub(super) const ROWS: &[Directive] = &[
    Directive::flag("daemonize", false).at_start().doc(
        Chapter::Process,
        "Go to the background. A `pidfile` is then written, `/var/run/pronghorn.pid` by default.",
    ),
    Directive::choice("supervised", "no", &["upstart", "systemd", "auto", "no"])
        .at_start()
        .doc(
            Chapter::Process,
            "Tell a supervisor when the server is ready and when it stops. `systemd` speaks to the \
         socket in NOTIFY_SOCKET, for units of `Type=notify`; `auto` does so if that variable is \
         set. `upstart` is refused.",
        ),
    Directive::no_text("pidfile").at_start().doc(
        Chapter::Process,
        "File to write the process id to; removed at a clean exit.",
    ),
    Directive::special("dir", Kind::Directory)
        .protected()
        .effect(Effect::Directory)
        .doc(
            Chapter::Process,
            "Working directory. Relative paths of other directives start there.",
        ),
    Directive::integer("databases", 16, 1, i32::MAX as i64)
        .at_start()
        .doc(
            Chapter::Process,
            "Number of databases that SELECT can choose from, numbered from 0.",
        ),
    Directive::flag("always-show-logo", false).at_start().doc(
        Chapter::Process,
        "Show the logo at start also when the log is not a terminal.",
    ),
    Directive::flag("set-proc-title", true).at_start().doc(
        Chapter::Process,
        "Show address and mode of the server in the list of processes.",
    ),
    Directive::special(
        "proc-title-template",
        Kind::Title("{title} {listen-addr} {server-mode}"),
    )
    .effect(Effect::ProcessTitle)
    .doc(
        Chapter::Process,
        "What `set-proc-title` shows. Variables: {title}, {listen-addr}, {server-mode}, \
             {port}, {tls-port}, {unixsocket}, {config-file}.",
    ),
    Directive::choice(
        "oom-score-adj",
        "no",
        &["no", "yes", "relative", "absolute"],
    )
    .effect(Effect::OomScore)
    .doc(
        Chapter::Process,
        "Set the kernel's out-of-memory score of the process. `relative` (or `yes`) adds the \
             first of `oom-score-adj-values` to what the process started with, `absolute` sets it.",
    ),
    Directive::special("oom-score-adj-values", Kind::OomScores("0 200 800"))
        .effect(Effect::OomScore)
        .doc(
            Chapter::Process,
            "Scores for a primary, a replica and a background child. The first one is used.",
        ),
    Directive::choice(
        "loglevel",
        "notice",
        &["debug", "verbose", "notice", "warning", "nothing"],
    )
    .effect(Effect::LogLevel)
    .doc(
        Chapter::Log,
        "Least important lines to log: `debug`, `verbose`, `notice`, `warning`, `nothing`.",
    ),
    Directive::text("logfile", "").at_start().doc(
        Chapter::Log,
        "File to log to; the standard output if empty. It is opened anew for each line, so that it can be \
         rotated by renaming it.",
    ),
    Directive::choice("log-format", "redis", &["redis", "json"])
        .at_start()
        .doc(
            Chapter::Log,
            "`redis` writes the lines that tools for Redis expect, `json` one object per line.",
        ),
    Directive::no_text("requirepass").sensitive().doc(
        Chapter::Security,
        "Password of the default user. Clients that have not given it with AUTH or HELLO can do \
         nothing else. Empty: no password.",
    ),
    Directive::choice("enable-debug-command", "no", LOCAL)
        .at_start()
        .doc(
            Chapter::Security,
            "Who may call DEBUG: nobody, everybody, or clients of this machine only.",
        ),
    Directive::choice("enable-protected-configs", "no", LOCAL)
        .at_start()
        .doc(
            Chapter::Security,
            "Who may change protected directives, such as `dir`, with CONFIG SET.",
        ),
];
