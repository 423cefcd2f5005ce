//! The fuzzers' checks on their seeds, and on every prefix of these, without a fuzzer.

#[path = "../../../fuzz/bodies/resp_request.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzzer")]
mod resp_request;

/// Runs a check on all seeds of a fuzzer.
#[expect(clippy::unwrap_used, reason = "a test")]
fn replay(target: &str, run: fn(&[u8])) {
    let directory = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let names = env::fs::list(&directory).unwrap();
    assert!(!names.is_empty());
    for name in names {
        let seed = env::fs::read(std::path::Path::new(&directory).join(name)).unwrap();
        for size in 0..=seed.len() {
            run(&seed[..size]);
        }
    }
}

#[test]
fn resp_request_holds_on_its_seeds() {
    replay("resp_request", resp_request::run);
}
