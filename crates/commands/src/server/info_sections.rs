//! The fields of INFO's sections, named, ordered and in the units of redis-server 7.0.

use engine::Cx;
use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering::Relaxed;

fn line(text: &mut String, name: &str, value: impl Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

/// Bytes for humans: `1.20M`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

pub(super) fn server(cx: &Cx<'_>, text: &mut String) {
    let server = cx.server;
    let config = &server.config;
    let uptime_s = (cx.now_ms - server.started_ms).max(0) / 1000;
    line(text, "redis_version", crate::REDIS_VERSION);
    line(text, "redis_git_sha1", "00000000");
    line(text, "redis_git_dirty", 0);
    line(
        text,
        "redis_build_id",
        format_args!("pronghorn-{}", env!("CARGO_PKG_VERSION")),
    );
    line(text, "redis_mode", "standalone");
    line(text, "pronghorn_version", env!("CARGO_PKG_VERSION"));
    line(text, "os", {
        let (system, release, machine) = env::process::uname();
        format!("{system} {release} {machine}")
    });
    line(text, "arch_bits", usize::BITS);
    line(text, "monotonic_clock", "POSIX clock_gettime");
    line(text, "multiplexing_api", server.host().io_backend());
    line(text, "threads", server.loops());
    line(text, "io_backend", server.host().io_backend());
    line(text, "process_id", std::process::id());
    line(text, "process_supervised", config.supervised());
    line(text, "run_id", &server.run_id);
    line(text, "tcp_port", config.port());
    line(text, "server_time_usec", server.clock().now_us());
    line(text, "uptime_in_seconds", uptime_s);
    line(text, "uptime_in_days", uptime_s / 86_400);
    line(text, "hz", config.hz());
    line(text, "configured_hz", config.hz());
    line(text, "lru_clock", (cx.now_ms / 1000) & 0xff_ffff);
    line(text, "executable", server.host().executable());
    line(text, "config_file", server.host().config_file());
    line(text, "io_threads_active", u8::from(server.loops() > 1));
}

pub(super) fn clients(cx: &Cx<'_>, text: &mut String) {
    let all = cx.server.clients.all();
    let largest = |field: fn(&engine::clients::Client) -> usize| {
        all.iter().map(|client| field(client)).max().unwrap_or(0)
    };
    line(text, "connected_clients", all.len());
    line(text, "cluster_connections", 0);
    line(text, "maxclients", cx.server.config.maxclients());
    line(
        text,
        "client_recent_max_input_buffer",
        largest(|c| c.query_bytes.load(Relaxed)),
    );
    line(
        text,
        "client_recent_max_output_buffer",
        largest(|c| c.output_bytes.load(Relaxed)),
    );
    line(text, "blocked_clients", 0);
    line(text, "tracking_clients", 0);
    line(text, "clients_in_timeout_table", 0);
    line(
        text,
        "lock_waiting_clients",
        all.iter().filter(|c| c.blocked.load(Relaxed)).count(),
    );
}

pub(super) fn memory(cx: &Cx<'_>, text: &mut String) {
    let server = cx.server;
    let host = server.host().memory();
    let store = server.store.memory();
    let used = host.allocated + store.used_bytes;
    let peak = server.peak_memory.fetch_max(used, Relaxed).max(used);
    let overhead = host.allocated + store.index_bytes;
    let dataset = used.saturating_sub(overhead);
    let active = host.active + store.touched_bytes;
    let resident = host.resident + store.touched_bytes;
    let total = env::process::total_memory_bytes();
    let mut sized = |name: &str, bytes: u64| {
        line(text, name, bytes);
        line(text, &format!("{name}_human"), human(bytes));
    };
    sized("used_memory", used);
    sized("used_memory_rss", host.rss);
    sized("used_memory_peak", peak);
    line(
        text,
        "used_memory_peak_perc",
        format_args!("{:.2}%", 100.0 * ratio(used, peak)),
    );
    line(text, "used_memory_overhead", overhead);
    line(
        text,
        "used_memory_startup",
        server.startup_memory.load(Relaxed),
    );
    line(text, "used_memory_dataset", dataset);
    line(
        text,
        "used_memory_dataset_perc",
        format_args!("{:.2}%", 100.0 * ratio(dataset, used)),
    );
    line(
        text,
        "used_memory_records",
        store.used_bytes - store.index_bytes,
    );
    line(text, "used_memory_index", store.index_bytes);
    line(text, "allocator_allocated", used);
    line(text, "allocator_active", active);
    line(text, "allocator_resident", resident);
    line(text, "total_system_memory", total);
    line(text, "total_system_memory_human", human(total));
    for (name, value) in [("maxmemory", "0"), ("maxmemory_human", "0B")] {
        line(text, name, value);
    }
    line(text, "maxmemory_policy", "noeviction");
    fragmentation(text, used, active, resident, host.rss);
    line(text, "mem_not_counted_for_evict", 0);
    line(text, "mem_clients_normal", client_bytes(cx));
    line(text, "mem_allocator", "jemalloc-5.3.1, own slabs for keys");
    line(
        text,
        "lazyfree_pending_objects",
        server.store.lazyfree_pending(),
    );
    line(text, "lazyfreed_objects", server.store.lazyfreed());
}

/// How much more the allocator and the process take than what is `used`; all in bytes.
fn fragmentation(text: &mut String, used: u64, active: u64, resident: u64, rss: u64) {
    line(
        text,
        "allocator_frag_ratio",
        format_args!("{:.2}", ratio(active, used)),
    );
    line(text, "allocator_frag_bytes", active.saturating_sub(used));
    line(
        text,
        "allocator_rss_ratio",
        format_args!("{:.2}", ratio(resident, active)),
    );
    line(text, "allocator_rss_bytes", resident.saturating_sub(active));
    line(
        text,
        "rss_overhead_ratio",
        format_args!("{:.2}", ratio(rss, resident)),
    );
    line(text, "rss_overhead_bytes", rss as i64 - resident as i64);
    line(
        text,
        "mem_fragmentation_ratio",
        format_args!("{:.2}", ratio(rss, used)),
    );
    line(text, "mem_fragmentation_bytes", rss as i64 - used as i64);
}

fn client_bytes(cx: &Cx<'_>) -> usize {
    let all = cx.server.clients.all();
    all.iter()
        .map(|c| c.query_bytes.load(Relaxed) + c.output_bytes.load(Relaxed))
        .sum()
}

pub(super) fn persistence(cx: &Cx<'_>, text: &mut String) {
    line(text, "loading", 0);
    line(text, "async_loading", 0);
    line(
        text,
        "rdb_changes_since_last_save",
        cx.server.stats.sum("changes"),
    );
    line(text, "rdb_bgsave_in_progress", 0);
    line(text, "rdb_last_save_time", cx.server.started_ms / 1000);
    line(text, "rdb_last_bgsave_status", "ok");
    line(text, "rdb_last_bgsave_time_sec", -1);
    line(text, "rdb_current_bgsave_time_sec", -1);
    line(text, "rdb_saves", 0);
    line(text, "aof_enabled", 0);
    line(text, "aof_rewrite_in_progress", 0);
    line(text, "aof_rewrite_scheduled", 0);
    line(text, "aof_last_bgrewrite_status", "ok");
    line(text, "aof_last_write_status", "ok");
}

pub(super) fn stats(cx: &Cx<'_>, text: &mut String) {
    let server = cx.server;
    let stats = &server.stats;
    let rates = server.rates();
    line(text, "total_connections_received", stats.sum("connections"));
    line(text, "total_commands_processed", stats.commands_processed());
    line(text, "instantaneous_ops_per_sec", rates.commands_per_s);
    line(text, "total_net_input_bytes", stats.sum("bytes_in"));
    line(text, "total_net_output_bytes", stats.sum("bytes_out"));
    let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    line(text, "instantaneous_input_kbps", kib(rates.bytes_in_per_s));
    line(
        text,
        "instantaneous_output_kbps",
        kib(rates.bytes_out_per_s),
    );
    line(
        text,
        "rejected_connections",
        stats.sum("connections_rejected"),
    );
    line(text, "sync_full", 0);
    line(text, "sync_partial_ok", 0);
    line(text, "sync_partial_err", 0);
    line(
        text,
        "expired_keys",
        stats.sum("expired") + server.store.expired_outside_commands(),
    );
    line(text, "expired_stale_perc", "0.00");
    line(
        text,
        "expired_time_cap_reached_count",
        server.store.sweep_caps(),
    );
    line(
        text,
        "expire_cycle_cpu_milliseconds",
        server.store.sweep_ms(),
    );
    line(text, "evicted_keys", 0);
    line(text, "evicted_clients", 0);
    line(text, "total_eviction_exceeded_time", 0);
    line(text, "current_eviction_exceeded_time", 0);
    line(text, "keyspace_hits", stats.sum("hits"));
    line(text, "keyspace_misses", stats.sum("misses"));
    line(text, "pubsub_channels", 0);
    line(text, "pubsub_patterns", 0);
    line(text, "pubsubshard_channels", 0);
    line(text, "latest_fork_usec", 0);
    line(text, "total_forks", 0);
    line(text, "tracking_total_keys", 0);
    line(text, "unexpected_error_replies", 0);
    line(text, "total_error_replies", stats.sum("errors"));
    line(text, "acl_access_denied_auth", stats.sum("auth_denied"));
    line(
        text,
        "client_query_buffer_limit_disconnections",
        stats.sum("query_limit_closed"),
    );
    line(
        text,
        "client_output_buffer_limit_disconnections",
        stats.sum("output_limit_closed"),
    );
    line(text, "deferred_commands", stats.sum("deferred"));
    line(text, "parked_commands", stats.sum("parked"));
    line(text, "slow_lane_commands", stats.sum("slow_lane"));
}

pub(super) fn replication(cx: &Cx<'_>, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
    line(text, "master_failover_state", "no-failover");
    line(text, "master_replid", &cx.server.run_id);
    line(text, "master_replid2", "0".repeat(40));
    line(text, "master_repl_offset", 0);
    line(text, "second_repl_offset", -1);
    line(text, "repl_backlog_active", 0);
    line(text, "repl_backlog_size", 0);
    line(text, "repl_backlog_first_byte_offset", 0);
    line(text, "repl_backlog_histlen", 0);
}

pub(super) fn cpu(_cx: &Cx<'_>, text: &mut String) {
    let usage = env::process::cpu_time(env::process::Who::Process);
    let children = env::process::cpu_time(env::process::Who::Children);
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    line(text, "used_cpu_sys", seconds(usage.system_us));
    line(text, "used_cpu_user", seconds(usage.user_us));
    line(text, "used_cpu_sys_children", seconds(children.system_us));
    line(text, "used_cpu_user_children", seconds(children.user_us));
}

pub(super) fn commandstats(cx: &Cx<'_>, text: &mut String) {
    let totals = cx.server.stats.commands();
    for id in cx.server.registry.ids() {
        let Some(own) = totals.get(id.0 as usize) else {
            continue;
        };
        if own.calls + own.rejected + own.failed == 0 {
            continue;
        }
        let us = own.time_ns / 1000;
        let each = if own.calls == 0 {
            0.0
        } else {
            own.time_ns as f64 / 1000.0 / own.calls as f64
        };
        line(
            text,
            &format!("cmdstat_{}", cx.server.registry.entry(id).full_name),
            format_args!(
                "calls={},usec={us},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
                own.calls, own.rejected, own.failed
            ),
        );
    }
}

pub(super) fn errorstats(cx: &Cx<'_>, text: &mut String) {
    for (code, count) in cx.server.stats.error_codes() {
        line(
            text,
            &format!("errorstat_{code}"),
            format_args!("count={count}"),
        );
    }
}

pub(super) fn cluster(_cx: &Cx<'_>, text: &mut String) {
    line(text, "cluster_enabled", 0);
}

pub(super) fn keyspace(cx: &Cx<'_>, text: &mut String) {
    for db in 0..cx.server.databases {
        let keys = cx.server.store.len_of(db);
        if keys > 0 {
            let expires = cx.server.store.expires_of(db);
            line(
                text,
                &format!("db{db}"),
                format_args!("keys={keys},expires={expires},avg_ttl=0"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_for_humans() {
        assert_eq!(human(200), "200B");
        assert_eq!(human(1_261_952), "1.20M");
        assert_eq!(human(25_276_502_016), "23.54G");
    }
}
