//! Bytes in, bytes out: order, volume, back-pressure and every answer a service can give.

#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::format_push_string,
    reason = "tests"
)]

mod support;

use net::{Closed, IoBackend};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{Lines, Order, ask, pattern, read_bytes, read_line, rest_of, start, wait_until};

on_both!(
    echoes,
    pipelines,
    streams_ten_megabytes_both_ways,
    stops_reading_when_the_reader_is_slow,
    limits_pending_output,
    sends_blobs_in_order,
    flushes_before_closing,
    keeps_the_farewell_when_input_is_unread,
    aborts_at_once,
    refuses_with_a_word,
    runs_again_without_new_input,
    parks_and_resumes,
    holds_and_resumes,
    notices_a_peer_that_leaves_while_held,
    notices_a_peer_that_leaves_while_parked,
    pushes_from_another_thread,
    closes_from_the_desk,
    answers_before_a_half_close,
    batches_across_connections,
);

fn echoes(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::echo()) else {
        return;
    };
    let mut stream = server.connect();
    for round in 0..100usize {
        let sent = pattern(round * 97 + 1, round as u64);
        stream.write_all(&sent).unwrap();
        assert_eq!(read_bytes(&mut stream, sent.len()), sent);
    }
}

fn pipelines(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::new()) else {
        return;
    };
    let mut stream = server.connect();
    let request: String = (0..5000).map(|n| format!("ECHO {n}\n")).collect();
    let expected: String = (0..5000).map(|n| format!("{n}\n")).collect();
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(read_bytes(&mut stream, expected.len()), expected.as_bytes());
}

fn streams_ten_megabytes_both_ways(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::echo()) else {
        return;
    };
    let sent = pattern(10 << 20, 7);
    let mut reader = server.connect();
    let mut writer = reader.try_clone().unwrap();
    let bytes = sent.clone();
    let thread = env::thread::spawn_named("writer", move || {
        for piece in bytes.chunks(100_003) {
            writer.write_all(piece).unwrap();
        }
    })
    .unwrap();
    assert!(
        read_bytes(&mut reader, sent.len()) == sent,
        "bytes are lost or displaced"
    );
    thread.join().unwrap();
    assert_eq!(server.handle.stats()[0].bytes_in, 10 << 20);
    // A send is counted after the kernel has taken it.
    wait_until("all to be counted", || {
        server.handle.stats()[0].bytes_out == 10 << 20
    });
}

fn stops_reading_when_the_reader_is_slow(backend: IoBackend) {
    let service = Lines::echo();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    writer
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let piece = pattern(64 * 1024, 3);
    let mut sent = 0;
    // Nobody reads: the server must stop reading too, long before 64 MB.
    let stuck = loop {
        match writer.write(&piece[sent % piece.len()..]) {
            Ok(count) => sent += count,
            Err(_) => break true,
        }
        if sent > 64 << 20 {
            break false;
        }
    };
    assert!(stuck, "the server reads without limit");
    assert!(service.pending_seen.load(Ordering::Relaxed) < 4 << 20);
    let back = read_bytes(&mut stream, sent);
    for (at, chunk) in back.chunks(piece.len()).enumerate() {
        assert!(chunk == &piece[..chunk.len()], "piece {at} is damaged");
    }
    stream.write_all(b"end").unwrap();
    assert_eq!(read_bytes(&mut stream, 3), b"end");
}

fn limits_pending_output(backend: IoBackend) {
    let service = Lines::new();
    service.pending_allowed.store(1 << 20, Ordering::Relaxed);
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    stream.write_all(b"BIG 30000000\n").unwrap();
    wait_until("the limit to be enforced", || {
        !service.closed.lock().is_empty()
    });
    assert_eq!(*service.closed.lock(), [Closed::ByService]);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 30_000_000);
}

fn sends_blobs_in_order(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::new()) else {
        return;
    };
    let mut stream = server.connect();
    let sizes = [1usize, 20_000, 300_000, 5, 70_000];
    let mut request = String::new();
    let mut expected = Vec::new();
    for round in 0..40 {
        for size in sizes {
            request += &format!("BLOB {size}\nECHO {round}\n");
            expected.push(b'<');
            expected.resize(expected.len() + size, b'B');
            expected.extend_from_slice(format!(">{round}\n").as_bytes());
        }
    }
    stream.write_all(request.as_bytes()).unwrap();
    assert!(read_bytes(&mut stream, expected.len()) == expected);
}

fn flushes_before_closing(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    stream
        .write_all(b"BIG 3000000\nCLOSE\nECHO never\n")
        .unwrap();
    env::thread::sleep_ms(50);
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 3_000_000 + 4);
    assert!(all.ends_with(b"xbye\n"));
    drop(stream);
    wait_until("the close", || !service.closed.lock().is_empty());
    assert_eq!(*service.closed.lock(), [Closed::ByService]);
}

fn keeps_the_farewell_when_input_is_unread(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::new()) else {
        return;
    };
    for _ in 0..20 {
        let mut stream = server.connect();
        let mut writer = stream.try_clone().unwrap();
        stream.write_all(b"CLOSE\n").unwrap();
        // Much more than the server will look at.
        let _ = writer.write_all(&pattern(200_000, 1));
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"bye\n");
    }
}

fn aborts_at_once(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    stream.write_all(b"ECHO lost\nABORT\n").unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    assert!(all.is_empty());
    assert_eq!(*service.closed.lock(), [Closed::ByService]);
}

fn refuses_with_a_word(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    service.refuse.store(true, Ordering::Relaxed);
    for _ in 0..20 {
        let mut stream = server.connect();
        let _ = stream.write_all(b"ECHO not seen\n");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"-full\n");
    }
    service.refuse.store(false, Ordering::Relaxed);
    assert_eq!(ask(&mut server.connect(), "ECHO in"), "in");
    assert!(
        service
            .closed
            .lock()
            .iter()
            .all(|why| *why == Closed::ByPeer)
    );
}

fn runs_again_without_new_input(backend: IoBackend) {
    let Some(server) = start(backend, 1, &Lines::new()) else {
        return;
    };
    let mut stream = server.connect();
    let before = server.handle.stats()[0].passes;
    stream.write_all(b"ECHO a\nAGAIN 50\n").unwrap();
    // More input while it is not read must neither be lost nor be run early.
    let tail: String = (0..20_000).map(|n| format!("ECHO {n}\n")).collect();
    stream.write_all(tail.as_bytes()).unwrap();
    assert_eq!(read_line(&mut stream), "a");
    assert_eq!(read_line(&mut stream), "again");
    let expected: String = (0..20_000).map(|n| format!("{n}\n")).collect();
    assert!(read_bytes(&mut stream, expected.len()) == expected.as_bytes());
    assert!(server.handle.stats()[0].passes >= before + 50);
}

fn parks_and_resumes(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 2, &service) else {
        return;
    };
    let mut streams: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        stream
            .write_all(format!("PARK\nECHO {n}\n").as_bytes())
            .unwrap();
    }
    for place in service.wait_parked(8) {
        service.order(place, Order::Resume);
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        assert_eq!(read_line(stream), "resumed");
        assert_eq!(read_line(stream), n.to_string());
    }
}

fn holds_and_resumes(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    for round in 0..5 {
        stream.write_all(b"HOLD\n").unwrap();
        let place = service.wait_parked(1)[0];
        let lines = 200_000 / 8;
        let mut writer = stream.try_clone().unwrap();
        let text: String = (0..lines).map(|n| format!("ECHO {n}\n")).collect();
        let thread = env::thread::spawn_named("writer", move || {
            writer.write_all(text.as_bytes()).unwrap();
        })
        .unwrap();
        env::thread::sleep_ms(30);
        service.order(place, Order::Resume);
        assert_eq!(read_line(&mut stream), "resumed", "round {round}");
        let expected: String = (0..lines).map(|n| format!("{n}\n")).collect();
        assert!(read_bytes(&mut stream, expected.len()) == expected.as_bytes());
        thread.join().unwrap();
    }
}

fn notices_a_peer_that_leaves_while_held(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    stream.write_all(b"HOLD\nECHO unread\n").unwrap();
    service.wait_parked(1);
    env::thread::sleep_ms(20);
    assert!(service.closed.lock().is_empty());
    drop(stream);
    wait_until("the end to be noticed", || {
        !service.closed.lock().is_empty()
    });
    assert_eq!(*service.closed.lock(), [Closed::ByPeer]);
}

fn notices_a_peer_that_leaves_while_parked(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    stream.write_all(b"PARK\n").unwrap();
    service.wait_parked(1);
    drop(stream);
    wait_until("the end to be noticed", || {
        !service.closed.lock().is_empty()
    });
    assert_eq!(*service.closed.lock(), [Closed::ByPeer]);
}

fn pushes_from_another_thread(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut stream = server.connect();
    stream.write_all(b"PARK\n").unwrap();
    let place = service.wait_parked(1)[0];
    for round in 0..2000 {
        service.order(place, Order::Push);
        assert_eq!(read_line(&mut stream), "pushed", "round {round}");
    }
    let pushed = service.clone();
    let thread = env::thread::spawn_named("pusher", move || {
        for _ in 0..5000 {
            pushed.order(place, Order::Push);
        }
    })
    .unwrap();
    for _ in 0..5000 {
        assert_eq!(read_line(&mut stream), "pushed");
    }
    thread.join().unwrap();
}

fn closes_from_the_desk(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    for flush in [true, false] {
        let mut stream = server.connect();
        stream.write_all(b"PARK\n").unwrap();
        let place = service.wait_parked(1)[0];
        service.parked.lock().clear();
        service.order(place, Order::Close { flush });
        let lines = rest_of(stream);
        assert_eq!(
            lines,
            if flush {
                vec!["last".to_owned()]
            } else {
                vec![]
            }
        );
    }
    assert_eq!(*service.closed.lock(), [Closed::ByService; 2]);
}

fn answers_before_a_half_close(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    for round in 0..50 {
        let mut stream = server.connect();
        stream.write_all(b"ECHO a\nAGAIN 3\nECHO b\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest_of(stream), ["a", "again", "b"], "round {round}");
    }
    wait_until("all to close", || service.closed.lock().len() == 50);
    assert!(
        service
            .closed
            .lock()
            .iter()
            .all(|why| *why == Closed::ByPeer)
    );
}

fn batches_across_connections(backend: IoBackend) {
    let service = Lines::new();
    let Some(server) = start(backend, 1, &service) else {
        return;
    };
    let mut streams: Vec<_> = (0..150).map(|_| server.connect()).collect();
    let mut busy = server.connect();
    // While the loop is busy with one connection the others become ready together.
    let lines: String = (0..200).map(|n| format!("N {n}\n")).collect();
    busy.write_all(lines.as_bytes()).unwrap();
    for (n, stream) in streams.iter_mut().enumerate() {
        stream.write_all(format!("ECHO {n}\n").as_bytes()).unwrap();
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        assert_eq!(read_line(stream), n.to_string());
    }
    let most = service.batch_max.load(Ordering::Relaxed);
    assert!((2..=64).contains(&most), "batches of at most {most}");
}
