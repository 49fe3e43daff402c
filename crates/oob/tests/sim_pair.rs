//! Sends parts over a seeded stream that cuts anywhere, from one end to the other.

use oob::{Expected, FrameError, HEADER_BYTES, Part, Receiving, Sending, Step};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A stream between two ends, which takes and gives as much as it likes.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    taken: usize,
}

/// Returns the byte that the file has at an offset.
fn byte_at(offset: u64) -> u8 {
    (offset ^ offset >> 8 ^ offset >> 16) as u8
}

/// Lets the sender put one step's worth, or some of it, into the stream; `false` when it has nothing left.
fn send(sending: &mut Sending, pipe: &mut Pipe, rng: &mut SmallRng) -> bool {
    let count = match sending.step() {
        Step::Header { bytes, from, .. } => {
            let count = rng.random_range(1..=HEADER_BYTES - from);
            pipe.bytes.extend_from_slice(&bytes[from..from + count]);
            count
        }
        Step::Bytes { offset, len } => {
            let count = rng.random_range(1..=len);
            pipe.bytes.extend((offset..offset + u64::from(count)).map(byte_at));
            count as usize
        }
        Step::Ended | Step::Stopped(_) => return false,
    };
    sending.sent(count);
    true
}

/// Lets the receiver take what is there for it; `false` when there is too little.
fn receive(
    receiving: &mut Receiving,
    pipe: &mut Pipe,
    into: &mut Vec<u8>,
    rng: &mut SmallRng,
) -> Result<bool, FrameError> {
    let there = &pipe.bytes[pipe.taken..];
    match receiving.expected() {
        Expected::Header if there.len() >= HEADER_BYTES => {
            let header = there[..HEADER_BYTES].try_into().unwrap();
            receiving.handle_header(&header)?;
            pipe.taken += HEADER_BYTES;
        }
        Expected::Bytes { len, .. } if !there.is_empty() => {
            let count = rng.random_range(1..=there.len().min(len as usize));
            if receiving.is_followed_by_header(count as u32) {
                assert!(receiving.left() > count as u64);
            }
            into.extend_from_slice(&there[..count]);
            receiving.handle_bytes(count as u32);
            pipe.taken += count;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn part(rng: &mut SmallRng) -> Part {
    Part { offset: rng.random_range(0..1 << 40), len: rng.random_range(1..5000) }
}

#[test]
fn what_is_sent_is_received_however_the_stream_cuts_it_and_whenever_it_is_stopped() {
    for seed in 0..2000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (part, transfer) = (part(&mut rng), rng.random());
        let mut sending = Sending::new(transfer, part, rng.random_range(1..2000));
        let mut receiving = Receiving::new(transfer, part);
        let (mut pipe, mut got) = (Pipe::default(), Vec::new());
        let mut stop_in = rng.random_bool(0.5).then(|| rng.random_range(0..30));
        loop {
            match &mut stop_in {
                Some(0) => {
                    sending.stop(-455);
                    sending.stop(1);
                    stop_in = None;
                }
                Some(steps) => *steps -= 1,
                None => {}
            }
            let sent = rng.random_bool(0.6) && send(&mut sending, &mut pipe, &mut rng);
            let received = receive(&mut receiving, &mut pipe, &mut got, &mut rng).unwrap();
            if !sent && !received && matches!(sending.step(), Step::Ended | Step::Stopped(_)) {
                break;
            }
        }
        let outcome = match sending.step() {
            Step::Ended => Expected::Ended,
            Step::Stopped(code) => Expected::Stopped(code),
            step => panic!("seed {seed}: {step:?}"),
        };
        assert_eq!(receiving.expected(), outcome, "seed {seed}");
        assert_eq!(
            pipe.taken,
            pipe.bytes.len(),
            "seed {seed}: the connection is idle, with nothing left in it"
        );
        assert_eq!(got.len() as u64, part.len - receiving.left(), "seed {seed}");
        assert_eq!(receiving.left(), sending.left(), "seed {seed}");
        let right = got.iter().zip(part.offset..).all(|(byte, offset)| *byte == byte_at(offset));
        assert!(right, "seed {seed}");
        match outcome {
            Expected::Ended => assert_eq!(got.len() as u64, part.len),
            outcome => assert_eq!(outcome, Expected::Stopped(-455), "the first word counts"),
        }
    }
}

#[test]
fn a_frame_that_was_meddled_with_ends_the_part_or_brings_no_byte_beyond_it() {
    for seed in 0..2000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let part = part(&mut rng);
        let mut sending = Sending::new(7, part, 500);
        let (mut pipe, mut got) = (Pipe::default(), Vec::new());
        while send(&mut sending, &mut pipe, &mut rng) {}
        let at = rng.random_range(0..pipe.bytes.len());
        pipe.bytes[at] ^= 1 << rng.random_range(0..8);
        let mut receiving = Receiving::new(7, part);
        while matches!(receive(&mut receiving, &mut pipe, &mut got, &mut rng), Ok(true)) {}
        assert!(got.len() as u64 <= part.len, "seed {seed}");
        assert_eq!(got.len() as u64, part.len - receiving.left(), "seed {seed}");
    }
}

#[test]
fn a_frame_of_another_transfer_or_out_of_its_place_is_refused() {
    let part = Part { offset: 100, len: 50 };
    let header = |sending: &Sending| match sending.step() {
        Step::Header { bytes, .. } => bytes,
        step => panic!("{step:?}"),
    };
    let refused = |other: Part, transfer| {
        Receiving::new(7, part).handle_header(&header(&Sending::new(transfer, other, 1000))).unwrap_err()
    };
    assert_eq!(refused(part, 8), FrameError::Transfer(8));
    let place = |offset, len| FrameError::Place { offset, len, at: 100, end: 150 };
    assert_eq!(refused(Part { offset: 101, len: 5 }, 7), place(101, 5));
    assert_eq!(refused(Part { offset: 99, len: 5 }, 7), place(99, 5));
    assert_eq!(refused(Part { offset: 100, len: 51 }, 7), place(100, 51));
}
