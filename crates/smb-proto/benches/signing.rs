//! Cost of a signature when header and data lie apart, and when they are gathered first: CPU time of this
//! thread.

use std::hint::black_box;

use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_wire::{Command, Header, Role};
use zerocopy::IntoBytes;

/// Bytes that each figure is made of, at least.
const BYTES_MIN: usize = 64 << 20;

fn main() {
    let head = [Header::request(Command::Read, 7).as_bytes(), &[0; 16]].concat();
    println!("{:<12}{:>10}{:>16}{:>16}", "", "bytes", "parts, GB/s", "gathered, GB/s");
    for algorithm in SigningAlgorithm::PREFERRED {
        let key = SigningKey::new(algorithm, &[1; 16]);
        for len in [512, 4 << 10, 64 << 10, 1 << 20] {
            let data = vec![7; len];
            let mut gathered = Vec::with_capacity(head.len() + len);
            let parts = speed(len, || black_box(key.sign(Role::Server, &[&head, black_box(&data)])).is_ok());
            let whole = speed(len, || {
                gathered.clear();
                gathered.extend_from_slice(&head);
                gathered.extend_from_slice(black_box(&data));
                key.sign(Role::Server, &[&gathered]).is_ok()
            });
            println!("{:<12}{len:>10}{parts:>16.1}{whole:>16.1}", format!("{algorithm:?}"));
        }
    }
}

/// Gigabytes per second of CPU, once everything is warm.
fn speed(len: usize, mut sign: impl FnMut() -> bool) -> f64 {
    let rounds = (BYTES_MIN / len).min(100_000);
    let mut signed = (0..rounds / 4).all(|_| sign());
    let begin = cpu_s();
    signed &= (0..rounds).all(|_| sign());
    assert!(signed, "a message with a header");
    (rounds * len) as f64 / (cpu_s() - begin) / 1e9
}

/// Seconds that this process has run for.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    let ns: f64 = text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds come first");
    ns / 1e9
}
