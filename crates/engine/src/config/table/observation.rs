//! Housekeeping, slow log, shutdown.

use crate::config::directive::{Chapter, Directive, Effect};

const INT_MAX: i64 = i32::MAX as i64;
const SHUTDOWN: &[&str] = &["default", "save", "nosave", "now", "force"];

pub(super) const ROWS: &[Directive] = &[
    Directive::integer("hz", 10, 0, INT_MAX)
        .effect(Effect::Frequency)
        .doc(
            Chapter::Timing,
            "Rounds of housekeeping per second: idle clients, expired keys, statistics. Values are \
         brought into 1 to 500.",
        ),
    Directive::integer("active-expire-effort", 1, 1, 10).doc(
        Chapter::Timing,
        "How much work, from 1 to 10, goes into finding expired keys that nobody asks for.",
    ),
    Directive::integer("slowlog-log-slower-than", 10000, -1, i64::MAX).doc(
        Chapter::Observation,
        "Microseconds of execution from which a command enters the slow log. 0 logs every command, \
         -1 none.",
    ),
    Directive::integer("slowlog-max-len", 128, 0, i64::MAX).doc(
        Chapter::Observation,
        "Most entries of the slow log; the oldest go first.",
    ),
    Directive::integer("shutdown-timeout", 10, 0, INT_MAX).doc(
        Chapter::Shutdown,
        "Seconds that a shutdown waits at most for replicas that lag behind. Without replicas nothing is \
         waited for.",
    ),
    Directive::choices("shutdown-on-sigint", "default", SHUTDOWN).doc(
        Chapter::Shutdown,
        "How SIGINT stops the server, as the options of SHUTDOWN do: `default`, or some of \
         `nosave`, `now` and `force`. `save` needs persistence.",
    ),
    Directive::choices("shutdown-on-sigterm", "default", SHUTDOWN).doc(
        Chapter::Shutdown,
        "How SIGTERM stops the server; see `shutdown-on-sigint`.",
    ),
];
