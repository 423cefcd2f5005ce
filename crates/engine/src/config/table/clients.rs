//! Clients, their limits, and memory.

use crate::config::directive::{Chapter, Directive, Effect, Kind};

pub(super) const ROWS: &[Directive] = &[
    Directive::integer("maxclients", 10000, 1, u32::MAX as i64).effect(Effect::ClientsMax).doc(
        Chapter::Clients,
        "Most connections at a time; more are told so and closed. Lowered at start if the process \
         may not open that many files.",
    ),
    Directive::memory("proto-max-bulk-len", 512 << 20, 1 << 20, i64::MAX).doc(
        Chapter::Clients,
        "Longest argument of a command, and longest string that commands may build, in bytes.",
    ),
    Directive::memory("client-query-buffer-limit", 1 << 30, 1 << 20, i64::MAX).doc(
        Chapter::Clients,
        "Most bytes of unfinished input of one client, in bytes; a client beyond it is closed.",
    ),
    Directive::special("client-output-buffer-limit", Kind::OutputLimits).doc(
        Chapter::Clients,
        "Per class of clients (`normal`, `replica`, `pubsub`): bytes of unread replies at which a \
         client is closed at once, bytes at which it is closed if it stays above them, and for how \
         many seconds. 0 is no limit. Classes that are not named keep their limits.",
    ),
    Directive::flag("jemalloc-bg-thread", true).effect(Effect::AllocatorThreads).doc(
        Chapter::Memory,
        "Let threads of the allocator give unused memory back to the system.",
    ),
    Directive::flag("lazyfree-lazy-expire", false).doc(
        Chapter::Memory,
        "Free the memory of expired keys in the background. Large values always are.",
    ),
    Directive::flag("lazyfree-lazy-server-del", false).doc(
        Chapter::Memory,
        "Free the memory of overwritten values in the background. Large values always are.",
    ),
    Directive::flag("lazyfree-lazy-user-del", false).doc(
        Chapter::Memory,
        "Let DEL behave as UNLINK. Large values are freed in the background by both.",
    ),
    Directive::flag("lazyfree-lazy-user-flush", false).doc(
        Chapter::Memory,
        "Let FLUSHALL and FLUSHDB without SYNC or ASYNC behave as with ASYNC.",
    ),
];
