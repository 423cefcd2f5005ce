//! Real threads against the safepoint, its gate and its queue of requests.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;

struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(&self) {
        self.0.send(()).expect("the test listens");
    }
}

fn bell() -> (Arc<dyn Wake>, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Bell(sender)), receiver)
}

/// Loops pass batch boundaries, slow commands come and go, and the work finds nobody inside.
#[test]
fn nobody_is_inside_while_work_runs() {
    const ROUNDS: usize = 200;
    let safepoint = Safepoint::new();
    let inside = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for number in 0..4 {
        let (safepoint, inside, stop) = (safepoint.clone(), Arc::clone(&inside), Arc::clone(&stop));
        let slow = number >= 2;
        let body = move || {
            let participant = safepoint.register();
            while !stop.load(Ordering::Relaxed) {
                let hold = slow.then(|| safepoint.slow_begin());
                participant.enter();
                for _ in 0..50 {
                    inside.fetch_add(1, SeqCst);
                    std::hint::black_box(&inside);
                    inside.fetch_sub(1, SeqCst);
                    participant.pass();
                }
                participant.leave();
                drop(hold);
            }
        };
        threads.push(env::thread::spawn_named("worker", body).unwrap());
    }
    for _ in 0..ROUNDS {
        let seen = safepoint.run(|| (0..100).map(|_| inside.load(SeqCst)).sum::<usize>());
        assert_eq!(seen, 0);
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(safepoint.0.pause.lock().is_empty());
}

#[test]
fn requests_run_in_order_and_asynchronously() {
    let safepoint = Safepoint::new();
    let server = safepoint.spawn_server().unwrap();
    let participant = safepoint.register();
    participant.enter();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (done, rings) = bell();
    for number in 0..5 {
        let log = Arc::clone(&log);
        safepoint
            .request(
                Box::new(move || log.lock().push(number)),
                Some(Arc::clone(&done)),
            )
            .unwrap();
    }
    // The requester is inside and not blocked; nothing has run.
    env::thread::sleep_ms(5);
    assert!(log.lock().is_empty());
    while log.lock().len() < 5 {
        participant.pass();
    }
    for _ in 0..5 {
        rings.recv().unwrap();
    }
    assert_eq!(*log.lock(), [0, 1, 2, 3, 4]);
    safepoint.stop();
    server.join().unwrap();
    assert_eq!(safepoint.request(Box::new(|| ()), None), Err(Stopped));
}

#[test]
fn a_hold_delays_the_safepoint_but_not_the_loops() {
    let safepoint = Safepoint::new();
    let server = safepoint.spawn_server().unwrap();
    let participant = safepoint.register();
    let hold = safepoint.slow_begin();
    let (done, rings) = bell();
    safepoint.request(Box::new(|| ()), Some(done)).unwrap();
    while !safepoint.0.gate.lock().shut {
        env::thread::yield_now();
    }
    // Loops go on; a slow command queues at the gate.
    participant.enter();
    participant.pass();
    participant.leave();
    let (admitted, admissions) = bell();
    let claim = safepoint
        .slow_begin_or_queue(Arc::clone(&admitted))
        .unwrap_err();
    let given_up = safepoint
        .slow_begin_or_queue(Arc::clone(&admitted))
        .unwrap_err();
    let unwanted = safepoint.slow_begin_or_queue(admitted).unwrap_err();
    drop(given_up);
    let claim = claim.collect().unwrap_err();
    assert!(rings.try_recv().is_err());
    drop(hold);
    rings.recv().unwrap();
    admissions.recv().unwrap();
    admissions.recv().unwrap();
    assert_eq!(safepoint.0.gate.lock().holds, 2);
    drop(unwanted);
    let hold = claim.collect().unwrap();
    assert_eq!(safepoint.0.gate.lock().holds, 1);
    drop(hold);
    assert_eq!(safepoint.0.gate.lock().holds, 0);
    safepoint.stop();
    server.join().unwrap();
}
