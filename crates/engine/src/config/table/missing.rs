//! Directives of features this version lacks. Each accepts the value that means "off" or that says
//! nothing about the feature, which is its default, and nothing else.

use crate::config::directive::{Directive, Kind};

const INT_MAX: i64 = i32::MAX as i64;
const LOCAL: &[&str] = &["no", "yes", "local"];

const PERSISTENCE: &str = "persistence";
const REPLICATION: &str = "replication";
const CLUSTER: &str = "cluster mode";
const TLS: &str = "TLS";
const ACL: &str = "access control lists";
const EVICTION: &str = "a memory limit";
const SCRIPTS: &str = "scripts";
const MODULES: &str = "modules";
const TRACKING: &str = "client-side caching";
const EVENTS: &str = "keyspace notifications";
const DEFRAG: &str = "active defragmentation";
const SYSLOG: &str = "syslog";
const CRASH: &str = "crash reports";
const LISTS: &str = "lists";
const SETS: &str = "sets";
const HASHES: &str = "hashes";
const SORTED_SETS: &str = "sorted sets";
const STREAMS: &str = "streams";
const HYPERLOGLOG: &str = "HyperLogLog";

pub(super) const ROWS: &[Directive] = &[
    // Persistence.
    Directive::special("save", Kind::SavePoints).needs(PERSISTENCE),
    Directive::flag("appendonly", false).needs(PERSISTENCE),
    Directive::text("dbfilename", "dump.rdb")
        .protected()
        .needs(PERSISTENCE),
    Directive::text("appendfilename", "appendonly.aof")
        .at_start()
        .needs(PERSISTENCE),
    Directive::text("appenddirname", "appendonlydir")
        .at_start()
        .needs(PERSISTENCE),
    Directive::choice("appendfsync", "everysec", &["everysec", "always", "no"]).needs(PERSISTENCE),
    Directive::flag("no-appendfsync-on-rewrite", false).needs(PERSISTENCE),
    Directive::integer("auto-aof-rewrite-percentage", 100, 0, INT_MAX).needs(PERSISTENCE),
    Directive::memory("auto-aof-rewrite-min-size", 64 << 20, 0, i64::MAX).needs(PERSISTENCE),
    Directive::flag("aof-load-truncated", true).needs(PERSISTENCE),
    Directive::flag("aof-use-rdb-preamble", true).needs(PERSISTENCE),
    Directive::flag("aof-timestamp-enabled", false).needs(PERSISTENCE),
    Directive::flag("aof-rewrite-incremental-fsync", true).needs(PERSISTENCE),
    Directive::flag("aof-disable-auto-gc", false).needs(PERSISTENCE),
    Directive::flag("rdbcompression", true).needs(PERSISTENCE),
    Directive::flag("rdbchecksum", true)
        .at_start()
        .needs(PERSISTENCE),
    Directive::flag("rdb-save-incremental-fsync", true).needs(PERSISTENCE),
    Directive::flag("rdb-del-sync-files", false).needs(PERSISTENCE),
    Directive::integer("rdb-key-save-delay", 0, -INT_MAX - 1, INT_MAX)
        .hidden()
        .needs(PERSISTENCE),
    Directive::integer("key-load-delay", 0, -INT_MAX - 1, INT_MAX)
        .hidden()
        .needs(PERSISTENCE),
    Directive::flag("stop-writes-on-bgsave-error", true).needs(PERSISTENCE),
    Directive::choice("sanitize-dump-payload", "no", &["no", "yes", "clients"]).needs(PERSISTENCE),
    Directive::memory(
        "loading-process-events-interval-bytes",
        2 << 20,
        1024,
        INT_MAX,
    )
    .hidden()
    .needs(PERSISTENCE),
    Directive::no_text("bgsave_cpulist")
        .alias("bgsave-cpulist")
        .at_start()
        .needs(PERSISTENCE),
    Directive::no_text("aof_rewrite_cpulist")
        .alias("aof-rewrite-cpulist")
        .at_start()
        .needs(PERSISTENCE),
    Directive::no_text("bio_cpulist")
        .alias("bio-cpulist")
        .at_start()
        .needs(PERSISTENCE),
    // Replication.
    Directive::special("replicaof", Kind::Primary)
        .alias("slaveof")
        .at_start()
        .needs(REPLICATION),
    Directive::no_text("masterauth")
        .alias("primaryauth")
        .sensitive()
        .needs(REPLICATION),
    Directive::no_text("masteruser")
        .alias("primaryuser")
        .needs(REPLICATION),
    Directive::flag("replica-serve-stale-data", true)
        .alias("slave-serve-stale-data")
        .needs(REPLICATION),
    Directive::flag("replica-read-only", true)
        .alias("slave-read-only")
        .needs(REPLICATION),
    Directive::flag("replica-ignore-maxmemory", true)
        .alias("slave-ignore-maxmemory")
        .needs(REPLICATION),
    Directive::flag("replica-lazy-flush", false)
        .alias("slave-lazy-flush")
        .needs(REPLICATION),
    Directive::flag("replica-announced", true).needs(REPLICATION),
    Directive::flag("replica-ignore-disk-write-errors", false).needs(REPLICATION),
    Directive::no_text("replica-announce-ip")
        .alias("slave-announce-ip")
        .needs(REPLICATION),
    Directive::integer("replica-announce-port", 0, 0, 65535)
        .alias("slave-announce-port")
        .needs(REPLICATION),
    Directive::integer("replica-priority", 100, 0, INT_MAX)
        .alias("slave-priority")
        .needs(REPLICATION),
    Directive::flag("repl-disable-tcp-nodelay", false).needs(REPLICATION),
    Directive::flag("repl-diskless-sync", true).needs(REPLICATION),
    Directive::integer("repl-diskless-sync-delay", 5, 0, INT_MAX).needs(REPLICATION),
    Directive::integer("repl-diskless-sync-max-replicas", 0, 0, INT_MAX).needs(REPLICATION),
    Directive::choice(
        "repl-diskless-load",
        "disabled",
        &["disabled", "on-empty-db", "swapdb"],
    )
    .needs(REPLICATION),
    Directive::integer("repl-timeout", 60, 1, INT_MAX).needs(REPLICATION),
    Directive::integer("repl-ping-replica-period", 10, 1, INT_MAX)
        .alias("repl-ping-slave-period")
        .needs(REPLICATION),
    Directive::memory("repl-backlog-size", 1 << 20, 1, i64::MAX).needs(REPLICATION),
    Directive::integer("repl-backlog-ttl", 3600, 0, i64::MAX).needs(REPLICATION),
    Directive::integer("min-replicas-to-write", 0, 0, INT_MAX)
        .alias("min-slaves-to-write")
        .needs(REPLICATION),
    Directive::integer("min-replicas-max-lag", 10, 0, INT_MAX)
        .alias("min-slaves-max-lag")
        .needs(REPLICATION),
    Directive::choice(
        "propagation-error-behavior",
        "ignore",
        &["ignore", "panic", "panic-on-replicas"],
    )
    .needs(REPLICATION),
    Directive::flag("dual-channel-replication-enabled", false).needs(REPLICATION),
    // Cluster.
    Directive::flag("cluster-enabled", false)
        .at_start()
        .needs(CLUSTER),
    Directive::text("cluster-config-file", "nodes.conf")
        .at_start()
        .needs(CLUSTER),
    Directive::integer("cluster-node-timeout", 15000, 0, i64::MAX).needs(CLUSTER),
    Directive::integer("cluster-port", 0, 0, 65535)
        .at_start()
        .needs(CLUSTER),
    Directive::no_text("cluster-announce-ip").needs(CLUSTER),
    Directive::no_text("cluster-announce-hostname").needs(CLUSTER),
    Directive::no_text("cluster-announce-human-nodename").needs(CLUSTER),
    Directive::no_text("cluster-announce-client-ipv4").needs(CLUSTER),
    Directive::no_text("cluster-announce-client-ipv6").needs(CLUSTER),
    Directive::integer("cluster-announce-port", 0, 0, 65535).needs(CLUSTER),
    Directive::integer("cluster-announce-bus-port", 0, 0, 65535).needs(CLUSTER),
    Directive::integer("cluster-announce-tls-port", 0, 0, 65535).needs(CLUSTER),
    Directive::choice(
        "cluster-preferred-endpoint-type",
        "ip",
        &["ip", "hostname", "unknown-endpoint"],
    )
    .needs(CLUSTER),
    Directive::flag("cluster-require-full-coverage", true).needs(CLUSTER),
    Directive::flag("cluster-replica-no-failover", false)
        .alias("cluster-slave-no-failover")
        .needs(CLUSTER),
    Directive::integer("cluster-replica-validity-factor", 10, 0, INT_MAX)
        .alias("cluster-slave-validity-factor")
        .needs(CLUSTER),
    Directive::integer("cluster-migration-barrier", 1, 0, INT_MAX).needs(CLUSTER),
    Directive::flag("cluster-allow-replica-migration", true).needs(CLUSTER),
    Directive::flag("cluster-allow-reads-when-down", false).needs(CLUSTER),
    Directive::flag("cluster-allow-pubsubshard-when-down", true).needs(CLUSTER),
    Directive::memory("cluster-link-sendbuf-limit", 0, 0, i64::MAX).needs(CLUSTER),
    Directive::integer("cluster-ping-interval", 1000, 0, INT_MAX)
        .hidden()
        .needs(CLUSTER),
    Directive::integer("cluster-blacklist-ttl", 60, 0, i64::MAX).needs(CLUSTER),
    Directive::flag("cluster-slot-stats-enabled", false).needs(CLUSTER),
    Directive::no_text("availability-zone").needs(CLUSTER),
    // TLS.
    Directive::integer("tls-port", 0, 0, 65535).needs(TLS),
    Directive::no_text("tls-cert-file").needs(TLS),
    Directive::no_text("tls-key-file").needs(TLS),
    Directive::no_text("tls-key-file-pass")
        .sensitive()
        .needs(TLS),
    Directive::no_text("tls-client-cert-file").needs(TLS),
    Directive::no_text("tls-client-key-file").needs(TLS),
    Directive::no_text("tls-client-key-file-pass")
        .sensitive()
        .needs(TLS),
    Directive::no_text("tls-dh-params-file").needs(TLS),
    Directive::no_text("tls-ca-cert-file").needs(TLS),
    Directive::no_text("tls-ca-cert-dir").needs(TLS),
    Directive::choice("tls-auth-clients", "yes", &["no", "yes", "optional"]).needs(TLS),
    Directive::flag("tls-replication", false).needs(TLS),
    Directive::flag("tls-cluster", false).needs(TLS),
    Directive::no_text("tls-protocols").needs(TLS),
    Directive::no_text("tls-ciphers").needs(TLS),
    Directive::no_text("tls-ciphersuites").needs(TLS),
    Directive::flag("tls-prefer-server-ciphers", false).needs(TLS),
    Directive::flag("tls-session-caching", true).needs(TLS),
    Directive::integer("tls-session-cache-size", 20 * 1024, 0, INT_MAX).needs(TLS),
    Directive::integer("tls-session-cache-timeout", 300, 0, INT_MAX).needs(TLS),
    Directive::integer("max-new-tls-connections-per-cycle", 1, 1, 1000).needs(TLS),
    // Access control.
    Directive::text("aclfile", "").at_start().needs(ACL),
    Directive::integer("acllog-max-len", 128, 0, i64::MAX).needs(ACL),
    Directive::choice(
        "acl-pubsub-default",
        "resetchannels",
        &["allchannels", "resetchannels"],
    )
    .needs(ACL),
    // Memory limit.
    Directive::memory("maxmemory", 0, 0, i64::MAX).needs(EVICTION),
    Directive::choice(
        "maxmemory-policy",
        "noeviction",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
    )
    .needs(EVICTION),
    Directive::integer("maxmemory-samples", 5, 1, INT_MAX).needs(EVICTION),
    Directive::integer("maxmemory-eviction-tenacity", 10, 0, 100).needs(EVICTION),
    Directive::memory_or_percent("maxmemory-clients", 0).needs(EVICTION),
    Directive::integer("lfu-log-factor", 10, 0, INT_MAX).needs(EVICTION),
    Directive::integer("lfu-decay-time", 1, 0, INT_MAX).needs(EVICTION),
    Directive::flag("lazyfree-lazy-eviction", false).needs(EVICTION),
    // Scripts and modules.
    Directive::integer("busy-reply-threshold", 5000, 0, i64::MAX)
        .alias("lua-time-limit")
        .needs(SCRIPTS),
    Directive::choice("enable-module-command", "no", LOCAL)
        .at_start()
        .needs(MODULES),
    // Types.
    Directive::integer("list-max-listpack-size", -2, -INT_MAX - 1, INT_MAX)
        .alias("list-max-ziplist-size")
        .needs(LISTS),
    Directive::integer("list-compress-depth", 0, 0, INT_MAX).needs(LISTS),
    Directive::integer("set-max-intset-entries", 512, 0, i64::MAX).needs(SETS),
    Directive::integer("set-max-listpack-entries", 128, 0, i64::MAX).needs(SETS),
    Directive::integer("set-max-listpack-value", 64, 0, i64::MAX).needs(SETS),
    Directive::integer("hash-max-listpack-entries", 512, 0, i64::MAX)
        .alias("hash-max-ziplist-entries")
        .needs(HASHES),
    Directive::memory("hash-max-listpack-value", 64, 0, i64::MAX)
        .alias("hash-max-ziplist-value")
        .needs(HASHES),
    Directive::integer("zset-max-listpack-entries", 128, 0, i64::MAX)
        .alias("zset-max-ziplist-entries")
        .needs(SORTED_SETS),
    Directive::memory("zset-max-listpack-value", 64, 0, i64::MAX)
        .alias("zset-max-ziplist-value")
        .needs(SORTED_SETS),
    Directive::memory("stream-node-max-bytes", 4096, 0, i64::MAX).needs(STREAMS),
    Directive::integer("stream-node-max-entries", 100, 0, i64::MAX).needs(STREAMS),
    Directive::memory("hll-sparse-max-bytes", 3000, 0, i64::MAX).needs(HYPERLOGLOG),
    // Others.
    Directive::special("notify-keyspace-events", Kind::Events).needs(EVENTS),
    Directive::integer("tracking-table-max-keys", 1_000_000, 0, i64::MAX).needs(TRACKING),
    Directive::integer("latency-monitor-threshold", 0, 0, i64::MAX).needs("the latency monitor"),
    Directive::flag("latency-tracking", true).needs("latency statistics of commands"),
    Directive::special(
        "latency-tracking-info-percentiles",
        Kind::Percentiles("50 99 99.9"),
    )
    .needs("latency statistics of commands"),
    Directive::flag("activedefrag", false).needs(DEFRAG),
    Directive::integer("active-defrag-cycle-min", 1, 1, 99).needs(DEFRAG),
    Directive::integer("active-defrag-cycle-max", 25, 1, 99).needs(DEFRAG),
    Directive::integer("active-defrag-threshold-lower", 10, 0, 1000).needs(DEFRAG),
    Directive::integer("active-defrag-threshold-upper", 100, 0, 1000).needs(DEFRAG),
    Directive::integer("active-defrag-max-scan-fields", 1000, 1, i64::MAX).needs(DEFRAG),
    Directive::memory("active-defrag-ignore-bytes", 100 << 20, 1, i64::MAX).needs(DEFRAG),
    Directive::flag("syslog-enabled", false)
        .at_start()
        .needs(SYSLOG),
    Directive::text("syslog-ident", "redis")
        .at_start()
        .needs(SYSLOG),
    Directive::choice(
        "syslog-facility",
        "local0",
        &[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ],
    )
    .at_start()
    .needs(SYSLOG),
    Directive::flag("crash-log-enabled", false).needs(CRASH),
    Directive::flag("crash-memcheck-enabled", false).needs(CRASH),
    Directive::flag("use-exit-on-panic", false)
        .hidden()
        .needs(CRASH),
    Directive::integer("watchdog-period", 0, 0, INT_MAX)
        .hidden()
        .needs("a watchdog"),
    Directive::no_text("bind-source-addr").needs("outgoing connections"),
    Directive::integer("socket-mark-id", 0, 0, u32::MAX as i64)
        .at_start()
        .needs("socket marks"),
    Directive::no_text("unixsocketgroup")
        .at_start()
        .needs("a group for the unix socket"),
    Directive::text("locale-collate", "").needs("SORT"),
    Directive::text("ignore-warnings", "").needs("checks of the kernel"),
    Directive::flag("hide-user-data-from-log", false).needs(CRASH),
    Directive::flag("extended-redis-compatibility", false).needs("the disguise as Redis"),
    // What Pronghorn does otherwise: there is nothing to turn off or to choose.
    Directive::integer("io-threads", 1, 1, 128)
        .at_start()
        .needs("threads that only do I/O (set 'threads' instead)"),
    Directive::flag("io-threads-do-reads", false)
        .at_start()
        .needs("threads that only do I/O (set 'threads' instead)"),
    Directive::flag("activerehashing", true).needs("tables that stop to rehash"),
    Directive::flag("disable-thp", true)
        .at_start()
        .needs("huge pages for other memory than the keyspace"),
    Directive::flag("dynamic-hz", true).needs("a fixed rate of housekeeping"),
];
