//! Network and threads.

use crate::config::directive::{Chapter, Directive, Effect, Kind};

const INT_MAX: i64 = i32::MAX as i64;

pub(super) const ROWS: &[Directive] = &[
    Directive::integer("port", 6379, 0, 65535).effect(Effect::Listen).doc(
        Chapter::Network,
        "TCP port to listen on. 0 means no TCP at all, which makes sense with `unixsocket`.",
    ),
    Directive::special("bind", Kind::Addresses("* -::*")).effect(Effect::Listen).doc(
        Chapter::Network,
        "Addresses of this machine to listen on, up to 16. `*` is every IPv4 address and `::*` \
         every IPv6 address. A leading `-` lets the start go on if the machine does not have that \
         address. Without any address the server takes no TCP connections.",
    ),
    Directive::integer("tcp-backlog", 511, 0, INT_MAX).at_start().doc(
        Chapter::Network,
        "Length of the queue of connections the kernel has accepted and the server has not. The \
         kernel limits it to `net.core.somaxconn`.",
    ),
    Directive::integer("tcp-keepalive", 300, 0, INT_MAX).effect(Effect::Keepalive).doc(
        Chapter::Network,
        "Seconds of silence after which the kernel probes whether the peer is still there; a dead \
         peer is dropped after about twice that time. 0 turns the probes off.",
    ),
    Directive::no_text("unixsocket").at_start().doc(
        Chapter::Network,
        "Path of a unix socket to listen on as well. A stale socket file there is replaced.",
    ),
    Directive::octal("unixsocketperm", 0, 0o777).at_start().doc(
        Chapter::Network,
        "Permissions of the unix socket in octal, such as 700. 0 leaves what the umask gives.",
    ),
    Directive::flag("protected-mode", true).doc(
        Chapter::Network,
        "While no password is set, clients from other machines are turned away with an \
         explanation. Turn it off only where the network itself keeps strangers out.",
    ),
    Directive::integer("timeout", 0, 0, INT_MAX).doc(
        Chapter::Network,
        "Seconds after which an idle client is disconnected. 0 means never.",
    ),
    Directive::integer("threads", 0, 0, 1024).at_start().doc(
        Chapter::Threads,
        "Number of I/O threads; each reads, executes and answers the commands of its own \
         connections, on the same data. 0 takes one for every core the process may use.",
    ),
    Directive::integer("slow-lane-threads", 2, 1, 64).at_start().doc(
        Chapter::Threads,
        "Number of threads for commands that would hold up the others, such as KEYS on a large \
         database. They sleep while there are none.",
    ),
    Directive::choice("io-backend", "auto", &["auto", "io_uring", "epoll"]).at_start().doc(
        Chapter::Threads,
        "Kernel interface of the I/O threads. `auto` takes io_uring if the kernel allows it and \
         epoll otherwise; `io_uring` refuses to start without it.",
    ),
    Directive::no_text("server_cpulist").alias("server-cpulist").at_start().doc(
        Chapter::Threads,
        "Cores for the I/O threads, one after the other, as numbers, ranges and ranges with a \
         step: `0,2`, `0-7`, `0-7:2`. Without it each I/O thread is bound to a core of its own if there are enough, and to none otherwise.",
    ),
];
