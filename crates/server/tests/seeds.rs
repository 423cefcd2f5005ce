//! The fuzzer's checks of configuration texts on its seeds, and on every prefix of these.

#[path = "../../../fuzz/bodies/config.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzzer")]
mod config;

#[test]
fn config_holds_on_its_seeds() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/config");
    let names = env::fs::list(directory).unwrap();
    assert!(!names.is_empty());
    for name in names {
        let seed = env::fs::read(std::path::Path::new(directory).join(name)).unwrap();
        for size in 0..=seed.len() {
            config::run(&seed[..size]);
        }
    }
}
