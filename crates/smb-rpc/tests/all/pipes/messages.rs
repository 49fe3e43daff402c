//! Fragments, binds, and reads that take less than there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smb_rpc::{Pipe, Tally, pipe};
use smb_wire::Status;

use crate::pipes::world::{
    Context, LSARPC, NDR, NDR64, SRVSVC, Stub, World, bind, fragment, holds, request, returned, u16_at,
    u32_at,
};

/// `NetrShareEnum` of level 1.
fn share_enum() -> Vec<u8> {
    Stub::default().words(&[0, 1, 1, 0x20000, 0, 0, u32::MAX, 0]).0
}

#[test]
fn a_pipe_that_there_is_not_is_not_found() {
    assert_eq!(Pipe::open("spoolss").unwrap_err(), Status::OBJECT_NAME_NOT_FOUND);
    assert!(Pipe::open("\\SRVSVC").is_ok());
}

#[test]
fn ndr64_is_refused_in_its_context_and_ndr_taken_in_its_own() {
    let world = World::new("alice");
    let mut pipe = Pipe::open("lsarpc").unwrap();
    let contexts: [Context<'_>; 3] = [(0, LSARPC, &[NDR64]), (1, LSARPC, &[NDR64, NDR]), (2, SRVSVC, &[NDR])];
    let answer = world.exchange(&mut pipe, &bind(11, &contexts));
    assert_eq!((answer[2], u16_at(&answer, 16), u16_at(&answer, 18)), (12, 4280, 4280));
    assert_ne!(u32_at(&answer, 20), 0, "an association has a number");
    assert_eq!(&answer[26..39], b"\\PIPE\\lsarpc\0");
    let results = &answer[answer.len() - 3 * 24..];
    let verdict = |index: usize| (u16_at(results, 24 * index), u16_at(results, 24 * index + 2));
    assert_eq!([verdict(0), verdict(1), verdict(2)], [(2, 2), (0, 0), (2, 1)]);
    assert_eq!(results[28..48], NDR);
    let faulted = |context| {
        u32_at(&world.exchange(&mut World::new("alice").bound("lsarpc"), &request(3, context, 6, &[])), 24)
    };
    assert_eq!(faulted(9), 0x1c01_0003, "a context that was not agreed on");
    let opened = world.exchange(&mut pipe, &request(3, 1, 6, &[]));
    assert_eq!((opened[2], returned(&opened)), (2, 0));
    for context in [0, 2] {
        assert_eq!(u32_at(&world.exchange(&mut pipe, &request(3, context, 6, &[])), 24), 0x1c01_0003);
    }
}

#[test]
fn a_context_may_be_added_and_contexts_are_bounded() {
    let world = World::new("alice");
    let mut pipe = world.bound("lsarpc");
    for number in 1..16 {
        let answer = world.exchange(&mut pipe, &bind(14, &[(number, LSARPC, &[NDR])]));
        assert_eq!((answer[2], u16_at(&answer, answer.len() - 24)), (15, 0), "{number}");
    }
    let answer = world.exchange(&mut pipe, &bind(14, &[(16, LSARPC, &[NDR])]));
    assert_eq!((u16_at(&answer, answer.len() - 24), u16_at(&answer, answer.len() - 22)), (2, 3));
    assert_eq!(returned(&world.exchange(&mut pipe, &request(3, 15, 6, &[]))), 0);
}

#[test]
fn security_below_the_session_is_refused_and_the_pipe_goes_on() {
    let world = World::new("alice");
    let mut pipe = Pipe::open("srvsvc").unwrap();
    let mut with_auth = bind(11, &[(0, SRVSVC, &[NDR])]);
    with_auth.extend([10, 6, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4]);
    let len = with_auth.len() as u16;
    with_auth[8..10].copy_from_slice(&len.to_le_bytes());
    with_auth[10] = 4;
    let answer = world.exchange(&mut pipe, &with_auth);
    assert_eq!((answer[2], u16_at(&answer, 16)), (13, 8));
    assert_eq!(world.exchange(&mut pipe, &bind(11, &[(0, SRVSVC, &[NDR])]))[2], 12);
}

#[test]
fn a_read_never_takes_of_two_messages_and_says_when_there_is_more() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    let whole = world.exchange(&mut pipe, &request(3, 0, 15, &share_enum()));
    let part = pipe.transact(&request(3, 0, 15, &share_enum()), 24, &world.facts()).unwrap().unwrap();
    assert_eq!((part.status, &part.data[..]), (Status::BUFFER_OVERFLOW, &whole[..24]));
    assert_eq!(pipe.available(), whole.len() - 24);
    let busy = pipe.transact(&request(3, 0, 15, &share_enum()), 24, &world.facts());
    assert_eq!(busy, Some(Err(Status::PIPE_BUSY)));
    pipe.write(&request(3, 0, 15, &share_enum()), &world.facts()).unwrap();
    let rest = pipe.read(1 << 20).unwrap().unwrap();
    assert_eq!((rest.status, &rest.data[..]), (Status::SUCCESS, &whole[24..]));
    assert_eq!(pipe.read(0).unwrap().unwrap().status, Status::BUFFER_OVERFLOW);
    assert_eq!(pipe.read(whole.len()).unwrap().unwrap().data, whole);
    assert_eq!((pipe.read(1), pipe.available()), (None, 0));
}

#[test]
fn a_fragment_may_come_in_pieces_and_several_at_once() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    let message = request(3, 0, 15, &share_enum());
    for byte in &message {
        assert_eq!(pipe.read(9), None);
        pipe.write(&[*byte], &world.facts()).unwrap();
    }
    let whole = pipe.read(1 << 20).unwrap().unwrap().data;
    for cut in 1..message.len() {
        let twice = [&message[..], &message].concat();
        let (first, second) = twice.split_at(message.len() + cut);
        pipe.write(first, &world.facts()).unwrap();
        assert_eq!(pipe.read(1 << 20).unwrap().unwrap().data, whole);
        assert_eq!(pipe.read(1), None);
        pipe.write(second, &world.facts()).unwrap();
        assert_eq!(pipe.read(1 << 20).unwrap().unwrap().data, whole);
    }
}

#[test]
fn a_call_in_fragments_is_put_together() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    let whole = world.exchange(&mut pipe, &request(3, 0, 15, &share_enum()));
    let stub = share_enum();
    for (flags, part) in [(1, &stub[..5]), (0, &stub[5..5]), (0, &stub[5..20])] {
        assert_eq!(pipe.transact(&request(flags, 0, 15, part), 9999, &world.facts()), None);
    }
    assert_eq!(world.exchange(&mut pipe, &request(2, 0, 15, &stub[20..])), whole);
}

#[test]
fn a_long_answer_comes_in_fragments_of_the_length_agreed_on() {
    let mut world = World::new("alice");
    world.shares = (0..300).map(|_| world.shares[0]).collect();
    let mut pipe = world.bound("srvsvc");
    let first = world.exchange(&mut pipe, &request(3, 0, 15, &share_enum()));
    assert_eq!((first.len() <= 4280, first.len() > 4200, first[3]), (true, true, 1));
    let mut count = 1;
    while let Some(read) = pipe.read(4280) {
        let fragment = read.unwrap();
        assert_eq!(fragment.status, Status::SUCCESS, "a fragment fits what was agreed on");
        count += 1;
        assert_eq!(fragment.data[3] & 2 != 0, pipe.available() == 0);
    }
    assert!(count > 3);
    let all = world.call(&mut pipe, 15, &share_enum()).unwrap();
    assert_eq!((returned(&all), u32_at(&all, 12)), (0, 300));
}

#[test]
fn what_is_no_fragment_or_out_of_order_ends_the_pipe() {
    let first = request(1, 0, 15, &share_enum()[..8]);
    let mut other_call = request(2, 0, 15, &[]);
    other_call[12] = 8;
    let of_version = |version| {
        let mut message = request(3, 0, 15, &share_enum());
        message[0] = version;
        message
    };
    let of_len = |len: u16| {
        let mut message = request(3, 0, 15, &share_enum());
        message[8..10].copy_from_slice(&len.to_le_bytes());
        message
    };
    let mut big_endian = of_version(5);
    big_endian[4] = 0;
    let mut with_auth = of_version(5);
    with_auth[10] = 16;
    for (why, messages) in [
        ("version 4", vec![of_version(4)]),
        ("big-endian", vec![big_endian]),
        ("a length of nothing", vec![of_len(15)]),
        ("a length beyond what is taken", vec![of_len(5841)]),
        ("a request shorter than its head", vec![fragment(0, 3, &[0; 7])]),
        ("a verifier that nobody agreed on", vec![with_auth]),
        ("a fragment without its first", vec![request(2, 0, 15, &[])]),
        ("a first amid a call", vec![first.clone(), first.clone()]),
        ("another call's fragment", vec![first.clone(), other_call]),
        ("a bind amid a call", vec![first.clone(), bind(14, &[(1, SRVSVC, &[NDR])])]),
        ("a second bind", vec![bind(11, &[(0, SRVSVC, &[NDR])])]),
        ("a response", vec![fragment(2, 3, &[0; 8])]),
        ("contexts that are not there", vec![fragment(14, 3, &[0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0])]),
    ] {
        let world = World::new("alice");
        let mut pipe = world.bound("srvsvc");
        let (last, before) = messages.split_last().unwrap();
        for message in before {
            pipe.write(message, &world.facts()).unwrap();
        }
        assert_eq!(pipe.write(last, &world.facts()), Err(Status::PIPE_DISCONNECTED), "{why}");
        assert_eq!(pipe.read(9), Some(Err(Status::PIPE_DISCONNECTED)), "{why}");
        assert_eq!(pipe.write(&first, &world.facts()), Err(Status::PIPE_DISCONNECTED), "{why}");
        assert_eq!(pipe.tally().broken, 1, "{why}");
    }
    let mut pipe = Pipe::open("srvsvc").unwrap();
    let world = World::new("alice");
    assert_eq!(pipe.write(&bind(14, &[(0, SRVSVC, &[NDR])]), &world.facts()), Err(Status::PIPE_DISCONNECTED));
}

/// Sends one fragment of a call after another until one is refused. Returns why, and how many bytes of arguments were taken; `look` is told
/// after each.
fn goes_on(pipe: &mut Pipe, world: &World, stub: &[u8], look: impl Fn(usize)) -> (Status, usize) {
    let mut sent = 0;
    loop {
        match pipe.write(&request(u8::from(sent == 0), 0, 15, stub), &world.facts()) {
            Ok(()) => sent += stub.len(),
            Err(status) => return (status, sent),
        }
        look(sent);
    }
}

#[test]
fn arguments_without_end_are_refused_and_so_are_calls_whose_answers_nobody_reads() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    let stub = vec![0; 4000];
    let (status, sent) = goes_on(&mut pipe, &world, &stub, |_| {});
    assert_eq!(status, Status::PIPE_DISCONNECTED);
    assert!(sent <= pipe::CALL_MAX && sent + stub.len() > pipe::CALL_MAX);
    assert_eq!(u32_at(&pipe.read(99).unwrap().unwrap().data, 24), 0x1c00_001d, "with a reason");

    let mut pipe = world.bound("srvsvc");
    let message = request(3, 0, 15, &share_enum());
    let refused = (0..).find_map(|_| pipe.write(&message, &world.facts()).err());
    assert_eq!(refused, Some(Status::PIPE_BUSY));
    assert!(pipe.read(9999).unwrap().is_ok());
    pipe.write(&message, &world.facts()).unwrap();

    // The same in one write.
    let mut pipe = world.bound("srvsvc");
    let many = message.repeat(10_000);
    assert_eq!(pipe.write(&many, &world.facts()), Err(Status::PIPE_DISCONNECTED));
    let read: usize =
        std::iter::from_fn(|| pipe.read(9999).and_then(Result::ok)).map(|answer| answer.data.len()).sum();
    assert!(read < pipe::WAITING_MAX + 9999, "{read}");
}

#[test]
fn what_happens_is_counted() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    assert!(holds(&world.call(&mut pipe, 15, &share_enum()).unwrap(), "data"));
    assert_eq!(world.call(&mut pipe, 60, &[]), Err(0x1c01_0002));
    assert_eq!(world.call(&mut pipe, 15, &[]), Err(0x6f7));
    assert_eq!(pipe.tally(), Tally { calls: 1, faults: 2, ..Tally::default() });
    assert_eq!(pipe.tally(), Tally::default());
    let mut pipe = Pipe::open("srvsvc").unwrap();
    world.exchange(&mut pipe, &bind(11, &[(0, LSARPC, &[NDR])]));
    assert_eq!(pipe.tally().refused, 1);
}

/// An account with a limit, which shows what is charged.
#[derive(Debug)]
struct Limited(Arc<AtomicUsize>, usize);

impl smb_rpc::Memory for Limited {
    fn resize(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.1 || bytes <= self.0.load(Ordering::Relaxed);
        if fits {
            self.0.store(bytes, Ordering::Relaxed);
        }
        fits
    }
}

#[test]
fn what_a_pipe_keeps_is_charged_before_and_given_back() {
    let world = World::new("alice");
    let charged = Arc::new(AtomicUsize::new(0));
    let now = || charged.load(Ordering::Relaxed);
    let limited = |name, limit| {
        let mut pipe = Pipe::open(name).unwrap().charged_to(Limited(Arc::clone(&charged), limit));
        world.exchange(&mut pipe, &bind(11, &[(0, SRVSVC, &[NDR])]));
        pipe
    };
    let mut pipe = limited("srvsvc", 20_000);
    assert_eq!(now(), 0, "nothing is kept between calls");
    let stub = vec![0; 4000];
    let (status, sent) = goes_on(&mut pipe, &world, &stub, |sent| {
        assert!(now() >= sent && now() < sent + 2048, "{} for {sent}", now());
    });
    assert_eq!((status, sent), (Status::INSUFFICIENT_RESOURCES, 16_000));
    assert_eq!(pipe.tally().short, 1);
    // Nothing was taken of what was refused, and less goes on.
    pipe.write(&request(2, 0, 15, &stub[..100]), &world.facts()).unwrap();
    assert!(pipe.read(9999).unwrap().is_ok());
    assert_eq!(now(), 0);
    // Part of a fragment.
    pipe.write(&request(3, 0, 15, &stub)[..2000], &world.facts()).unwrap();
    assert!(now() >= 2000, "{}", now());
    pipe.end();
    assert_eq!(now(), 0);

    // Answers that are not read.
    let mut pipe = limited("srvsvc", 5000);
    let message = request(3, 0, 15, &share_enum());
    let answers = (0..100).take_while(|_| pipe.write(&message, &world.facts()).is_ok()).count();
    assert!((2..100).contains(&answers) && now() <= 5000, "{answers} {}", now());
    while pipe.read(9999).is_some() {}
    assert_eq!(now(), 0);
    // One answer for which there is no memory is a fault.
    let mut many = World::new("alice");
    many.shares = vec![many.shares[0]; 100];
    let mut pipe = limited("srvsvc", 2300);
    assert_eq!(many.call(&mut pipe, 15, &share_enum()), Err(0x1c00_001d));
    assert_eq!((pipe.tally().short, now()), (1, 0));
}

#[test]
fn a_pipe_that_answers_many_binds_in_one_write_is_at_its_end() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    let many = bind(14, &[]).repeat(100_000);
    assert_eq!(pipe.write(&many, &world.facts()), Err(Status::PIPE_DISCONNECTED));
    let read: usize =
        std::iter::from_fn(|| pipe.read(9999).and_then(Result::ok)).map(|answer| answer.data.len()).sum();
    assert!(read < pipe::WAITING_MAX + 9999, "{read}");
}
