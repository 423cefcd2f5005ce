//! Nanoseconds per call of the functions the data path lives on. Run with `cargo bench -p base`.

use base::hash::SipKeys;
use base::simd::pack7;
use std::hash::Hasher;
use std::hint::black_box;

fn main() {
    let text = [b'x'; 100];
    let key = b"key:0000000042";
    let keys = SipKeys::new(7);
    let mut packed = [0u8; 96];
    let mut plain = [0u8; 128];
    pack7::pack(&text, &mut packed);

    measure("siphash 14 bytes", || {
        black_box(keys.hash(black_box(key)));
    });
    measure("siphash 14 bytes, reference crate", || {
        let mut hasher = siphasher::sip::SipHasher13::new_with_keys(7, 0);
        hasher.write(black_box(key));
        black_box(hasher.finish());
    });
    measure("copy 100 bytes", || {
        plain[..black_box(100)].copy_from_slice(&black_box(&text)[..black_box(100)]);
        black_box(&mut plain);
    });
    measure("is_ascii 100 bytes", || {
        black_box(pack7::is_ascii(black_box(&text)));
    });
    measure("pack 100 characters", || {
        pack7::pack(black_box(&text), &mut packed);
        black_box(&mut packed);
    });
    measure("pack 14 + 86 characters", || {
        pack7::pack_two(black_box(key), black_box(&text[..86]), &mut packed);
        black_box(&mut packed);
    });
    measure("unpack 100 characters", || {
        pack7::unpack(black_box(&packed), 100, &mut plain);
        black_box(&mut plain);
    });
    measure("unpack 86 characters from the 14th", || {
        pack7::unpack_range(black_box(&packed), 14, 86, &mut plain);
        black_box(&mut plain);
    });
    measure("parse_i64 7 digits", || {
        black_box(base::number::parse_i64(black_box(b"1234567")));
    });
    measure("incr_by_float", || {
        black_box(base::number::incr_by_float(
            black_box(b"10.5"),
            black_box(b"0.1"),
        ))
        .ok();
    });
    let mut number = Vec::with_capacity(64);
    measure("push_f64 0.1", || {
        number.clear();
        base::number::push_f64(&mut number, black_box(0.1));
        black_box(&mut number);
    });
}

/// Best of several runs, which is the least disturbed one.
fn measure(name: &str, mut call: impl FnMut()) {
    const CALLS: u64 = 10_000;
    let best = (0..500)
        .map(|_| {
            let start = env::clock::monotonic_ns();
            for _ in 0..CALLS {
                call();
            }
            env::clock::monotonic_ns() - start
        })
        .min()
        .unwrap_or(0);
    println!("{name:40} {:8.2} ns", best as f64 / CALLS as f64);
}
