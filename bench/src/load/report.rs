//! A load's result for people and for programs.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::plan::{Measured, Plan};

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Nanoseconds as microseconds.
pub(crate) fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Quantiles and maximum in microseconds.
fn quantiles_json(latency: &Histogram<u64>) -> Value {
    let mut fields: serde_json::Map<String, Value> = QUANTILES
        .iter()
        .map(|&(name, quantile)| {
            (
                format!("{name}_us"),
                json!(microseconds(latency.value_at_quantile(quantile))),
            )
        })
        .collect();
    fields.insert("max_us".to_owned(), json!(microseconds(latency.max())));
    fields.insert("mean_us".to_owned(), json!(latency.mean() / 1e3));
    Value::Object(fields)
}

pub(super) fn json(plan: &Plan, measured: &Measured) -> Value {
    let commands: Vec<Value> = measured
        .tallies
        .iter()
        .map(|tally| {
            json!({
                "name": tally.name,
                "replies": tally.replies,
                "errors": tally.errors,
                "values": tally.values,
                "nulls": tally.nulls,
                "latency": quantiles_json(&tally.latency),
            })
        })
        .collect();
    json!({
        "address": plan.address.to_string(),
        "connections": plan.connections,
        "threads": plan.threads,
        "pipeline": plan.depth,
        "rate_per_second": plan.rate,
        "keyspace": plan.keys,
        "value_bytes": plan.shape.value_bytes,
        "same_seed": plan.same_stream,
        "seconds": measured.seconds,
        "replies": measured.replies(),
        "replies_per_second": measured.throughput(),
        "server_cpu_ns_per_operation": measured.server_cpu_per_operation(),
        "client_cpu_ns_per_operation": measured.client_cpu_per_operation(),
        "server_rss_bytes": measured.rss_bytes,
        "first_error": measured.first_error,
        "unanswered": measured.unanswered,
        "commands": commands,
    })
}

pub(super) fn table(plan: &Plan, measured: &Measured) -> String {
    let mut text = String::new();
    let mode = match plan.rate {
        Some(rate) => format!("open loop, {rate:.0}/s"),
        None => "closed loop".to_owned(),
    };
    let _ = writeln!(
        text,
        "{}: {} connections, {} threads, depth {}, {mode}, {} keys, {} byte values",
        plan.address, plan.connections, plan.threads, plan.depth, plan.keys, plan.shape.value_bytes
    );
    if plan.same_stream {
        let _ = writeln!(
            text,
            "WARNING: all connections draw the same keys; not comparable"
        );
    }
    let _ = writeln!(
        text,
        "{:<10} {:>12} {:>8} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "command",
        "replies",
        "errors",
        "values",
        "nulls",
        "p50 us",
        "p90 us",
        "p99 us",
        "p99.9 us",
        "max us"
    );
    for tally in &measured.tallies {
        let _ = write!(
            text,
            "{:<10} {:>12} {:>8} {:>12} {:>10}",
            tally.name, tally.replies, tally.errors, tally.values, tally.nulls
        );
        for (_, quantile) in QUANTILES {
            let _ = write!(
                text,
                " {:>9.1}",
                microseconds(tally.latency.value_at_quantile(quantile))
            );
        }
        let _ = writeln!(text, " {:>9.1}", microseconds(tally.latency.max()));
    }
    let _ = writeln!(
        text,
        "{:.0} replies/s over {:.2} s; client CPU {:.0} ns/op",
        measured.throughput(),
        measured.seconds,
        measured.client_cpu_per_operation()
    );
    if let Some(cpu) = measured.server_cpu_per_operation() {
        let _ = writeln!(text, "server CPU {cpu:.0} ns/op");
    }
    if let Some(rss) = measured.rss_bytes {
        let _ = writeln!(text, "server RSS {:.1} MiB", rss as f64 / 1_048_576.0);
    }
    if measured.unanswered > 0 {
        let _ = writeln!(text, "UNANSWERED: {} requests", measured.unanswered);
    }
    if let Some(error) = &measured.first_error {
        let _ = writeln!(text, "first error: {error}");
    }
    text
}
