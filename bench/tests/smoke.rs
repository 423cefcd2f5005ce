//! The load against the floor, both as users run them: as processes.

use std::process::{Child, Command, Stdio};

struct Floor(Child);

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(backend: &str, port: &str, load: &[&str]) -> serde_json::Value {
    let binary = env!("CARGO_BIN_EXE_pronghorn-bench");
    let mut floor = Floor(
        Command::new(binary)
            .args(["floor", "--backend", backend, "--port", port])
            .stderr(Stdio::null())
            .spawn()
            .expect("the floor starts"),
    );
    let pid = floor.0.id().to_string();
    for _ in 0..100 {
        let output = Command::new(binary)
            .args([
                "load",
                "--port",
                port,
                "--json",
                "--server-pid",
                &pid,
                "--warm-up",
                "0.1",
            ])
            .args(load)
            .output()
            .expect("the load starts");
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).expect("the load prints JSON");
        }
        if let Some(status) = floor.0.try_wait().expect("the floor is our child") {
            // Containers often forbid io_uring; there is nothing to test then.
            assert_eq!(backend, "io_uring", "the floor ended: {status}");
            return serde_json::Value::Null;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    panic!("the floor never answered");
}

#[test]
fn load_on_epoll_floor() {
    let result = check(
        "epoll",
        "21871",
        &["--duration", "1", "-P", "16", "--ratio", "1:1"],
    );
    assert!(result["replies"].as_u64().unwrap() > 1000, "{result}");
    assert!(result["server_cpu_ns_per_operation"].as_f64().unwrap() > 0.0);
    assert_eq!(result["commands"][0]["errors"], 0);
    assert_eq!(result["commands"][1]["nulls"], 0);
}

#[test]
fn load_on_io_uring_floor() {
    let result = check(
        "io_uring",
        "21872",
        &["--requests", "20011", "-P", "7", "--op", "set"],
    );
    if !result.is_null() {
        assert_eq!(result["replies"], 20011);
    }
}

#[test]
fn open_loop_keeps_its_rate() {
    let result = check("epoll", "21873", &["--duration", "1", "--rate", "2000"]);
    let replies = result["replies"].as_u64().unwrap();
    assert!((1900..=2100).contains(&replies), "{result}");
    assert_eq!(result["unanswered"], 0);
}
