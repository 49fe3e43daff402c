//! Harnesses that take any bytes; corpora beside them are replayed by `cargo test`.

use smb_rpc::pipe::{ANSWER_MAX, WAITING_MAX};

use crate::pipes::world::{self, World};

/// Script of a client: the first byte says which pipe (% 3), and behind that there are messages, each of a
/// shape (one byte), a number and a length (two each, little-endian) and its bytes:
///
/// | shape % 4 | message |
/// |---|---|
/// | 0 | the bytes as they are |
/// | 1 | a fragment of kind shape / 4, with the number as its flags |
/// | 2, 3 | a call of that number, most interfaces having few; the bytes are its arguments |
///
/// From a shape of 128 on all that waits is read.
struct Script<'a>(&'a [u8]);

impl<'a> Iterator for Script<'a> {
    type Item = (u8, u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([shape, number @ .., low, high], rest) = self.0.split_first_chunk::<5>()?;
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, rest) = rest.split_at(len);
        self.0 = rest;
        Some((*shape, u16::from_le_bytes(*number), bytes))
    }
}

/// Any messages on any pipe, bound or not, are answered or end it; what waits stays bounded.
#[test]
fn any_bytes_are_answered_or_end_the_pipe() {
    let world = World::new("alice");
    bolero::check!().for_each(|input: &[u8]| {
        let Some((which, script)) = input.split_first() else { return };
        let name = ["srvsvc", "wkssvc", "lsarpc"][usize::from(which % 3)];
        let mut pipe = world.bound(name);
        for (shape, number, bytes) in Script(script) {
            let bytes = &bytes[..bytes.len().min(5000)];
            let message = match shape % 4 {
                0 => bytes.to_vec(),
                1 => world::fragment(shape >> 2, number as u8, bytes),
                _ => world::request(shape >> 6 | 3, 0, number % 80, bytes),
            };
            let _ = pipe.write(&message, &world.facts());
            if shape >= 128 {
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

/// Arguments that are a call's but for some bytes reach deeper than random ones: each pair of the input is a place and what stands there.
#[test]
fn a_call_with_bytes_changed_is_answered_or_faulted() {
    let world = World::new("alice");
    let stub = world::Stub::default().words(&[0, 1, 1, 0x20000, 0, 0, u32::MAX, 0]).0;
    let names = world::Stub::default().words(&[0, 1, 0, 0, 0, 1, 1, 0x0002_0002, 0x20000, 1, 0, 1, 0x41]).0;
    bolero::check!().for_each(|changes: &[u8]| {
        for (name, numbers, stub) in [
            ("srvsvc", &[8u16, 9, 12, 15, 16, 21, 28][..], &stub),
            ("lsarpc", &[0, 7, 14, 15, 57, 58, 68], &names),
        ] {
            let mut stub = stub.clone();
            for [at, value] in changes.as_chunks::<2>().0 {
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
