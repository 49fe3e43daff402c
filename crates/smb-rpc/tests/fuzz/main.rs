//! Harnesses that take any bytes; corpora beside them are replayed by `cargo test`.

#[path = "../pipes/world.rs"]
#[expect(dead_code, reason = "tests of calls use the rest")]
mod world;

use smb_rpc::pipe::{ANSWER_MAX, WAITING_MAX};
use world::World;

/// A message: what it is like, the number of the call, and bytes.
type Raw = (u8, u16, Vec<u8>);

/// Any messages on any pipe, bound or not, are answered or end it; what waits stays bounded.
#[test]
fn any_bytes_are_answered_or_end_the_pipe() {
    let world = World::new("alice");
    bolero::check!().with_type().for_each(|(which, messages): &(u8, Vec<Raw>)| {
        let name = ["srvsvc", "wkssvc", "lsarpc"][usize::from(which % 3)];
        let mut pipe = world.bound(name);
        for (shape, number, bytes) in messages {
            let message = match shape % 4 {
                // As it comes: seldom a fragment.
                0 => bytes.clone(),
                1 => world::fragment(shape >> 2, *number as u8, &bytes[..bytes.len().min(5000)]),
                // A call with arguments of any bytes; most interfaces have few calls.
                _ => world::request(shape >> 6 | 3, 0, number % 80, &bytes[..bytes.len().min(5000)]),
            };
            let _ = pipe.write(&message, &world.facts());
            if *shape >= 128 {
                while let Some(Ok(answer)) = pipe.read(64) {
                    assert!(answer.data.len() <= 64);
                }
            }
        }
        let mut waiting = 0;
        while let Some(Ok(answer)) = pipe.read(usize::MAX) {
            waiting += answer.data.len();
        }
        assert!(waiting <= WAITING_MAX + ANSWER_MAX + (64 << 10));
    });
}

/// Arguments that are a call's but for some bytes reach deeper than random ones.
#[test]
fn a_call_with_bytes_changed_is_answered_or_faulted() {
    let world = World::new("alice");
    let stub = world::Stub::default().words(&[0, 1, 1, 0x20000, 0, 0, u32::MAX, 0]).0;
    let names = world::Stub::default().words(&[0, 1, 0, 0, 0, 1, 1, 0x0002_0002, 0x20000, 1, 0, 1, 0x41]).0;
    bolero::check!().with_type().for_each(|changes: &Vec<(bool, u8, u8)>| {
        for (name, numbers, stub) in [
            ("srvsvc", &[8u16, 9, 12, 15, 16, 21, 28][..], &stub),
            ("lsarpc", &[0, 7, 14, 15, 57, 58, 68], &names),
        ] {
            let mut stub = stub.clone();
            for (_, at, value) in changes {
                let at = usize::from(*at) % stub.len();
                stub[at] = *value;
            }
            let mut pipe = world.bound(name);
            if name == "lsarpc" {
                let _ = world.call(&mut pipe, 6, &[]);
            }
            for number in numbers {
                let _ = world.call(&mut pipe, *number, &stub);
            }
        }
    });
}
