//! Delivery of signals, in a process where no other thread can take them (no test harness).

use env::signals::{Signal, install};

fn main() {
    let mut signals = install(&[Signal::Terminate, Signal::User1]).expect("signals are ours");
    let kill = |name: &str| {
        let status = std::process::Command::new("kill")
            .args([name, &env::process::id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    };
    kill("-USR1");
    assert_eq!(signals.next(), Some(Signal::User1));
    let waiter = env::thread::spawn_named("waiter", move || signals.wait_ms(10_000))
        .expect("a thread starts");
    kill("-TERM");
    let signal = waiter
        .join()
        .expect("the waiter ends")
        .expect("waiting works");
    assert_eq!(signal, Some(Signal::Terminate));
}
