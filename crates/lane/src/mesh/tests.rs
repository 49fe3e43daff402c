use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const A: usize = 0;
const B: usize = 1;

fn member(index: usize) -> Member {
    Member::from(index)
}

fn exchange<M: Send + 'static, R: Send + 'static>(messages: usize, calls: usize) -> Exchange<M, R> {
    Exchange::new(3, Limits { messages, calls })
}

fn open<M: Send + 'static, R: Send + 'static>(exchange: &Exchange<M, R>, index: usize) -> Port<M, R> {
    exchange.open(member(index)).unwrap()
}

fn poll_now<T>(future: impl Future<Output = T> + Unpin) -> Poll<T> {
    let mut future = future;
    std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
}

fn message<M: Send + 'static, R: Send + 'static>(port: &mut Port<M, R>) -> Option<(usize, M)> {
    match port.try_recv()? {
        Mail::Cast(from, message) | Mail::Call(from, message, _) => Some((from.index(), message)),
        Mail::Rung => None,
    }
}

#[test]
fn a_full_box_gives_the_message_back_and_takes_no_other_members_room() {
    let exchange = exchange::<u32, ()>(2, 1);
    let mut port = open(&exchange, B);
    let (one, other) = (exchange.sender(member(A)), exchange.sender(member(2)));
    assert_eq!(one.cast(member(B), 1), Ok(()));
    assert_eq!(one.cast(member(B), 2), Ok(()));
    assert_eq!(one.cast(member(B), 3), Err(Refused::Full(3)));
    assert_eq!(other.cast(member(B), 4), Ok(()));
    assert_eq!(message(&mut port), Some((A, 1)));
    assert_eq!(one.cast(member(B), 5), Ok(()), "what was taken makes room");
    assert_eq!([(); 3].map(|()| message(&mut port).unwrap()), [(2, 4), (A, 2), (A, 5)]);
    assert!(port.try_recv().is_none());
}

#[test]
fn a_flood_of_one_member_keeps_no_other_waiting() {
    let exchange = exchange::<u32, ()>(100, 1);
    let mut port = open(&exchange, B);
    let flood = exchange.sender(member(A));
    (0..100).for_each(|n| flood.cast(member(B), n).unwrap());
    exchange.sender(member(2)).cast(member(B), 7).unwrap();
    exchange.sender(member(B)).cast(member(B), 8).unwrap();
    let first: Vec<_> = (0..4).map(|_| message(&mut port).unwrap()).collect();
    assert_eq!(first, [(A, 0), (B, 8), (2, 7), (A, 1)]);
}

#[test]
fn a_bell_reaches_a_port_whose_boxes_are_full_and_many_rings_are_one() {
    let exchange = exchange::<u32, ()>(1, 1);
    let mut port = open(&exchange, B);
    let sender = exchange.sender(member(A));
    sender.cast(member(B), 1).unwrap();
    assert!(sender.cast(member(B), 2).is_err());
    assert!(sender.ring(member(B)) && sender.ring(member(B)));
    assert!(matches!(port.try_recv(), Some(Mail::Rung)));
    assert_eq!(message(&mut port), Some((A, 1)));
    assert!(port.try_recv().is_none());
    assert!(sender.ring(member(B)), "it can be rung again");
    assert!(matches!(port.try_recv(), Some(Mail::Rung)));
    assert!(!sender.ring(member(2)), "nobody hears it");
}

#[test]
fn who_rings_all_the_time_holds_up_no_message() {
    let exchange = exchange::<u32, ()>(8, 1);
    let mut port = open(&exchange, B);
    let sender = exchange.sender(member(A));
    for n in 0..4 {
        sender.cast(member(B), n).unwrap();
    }
    let mut taken = Vec::new();
    for _ in 0..8 {
        sender.ring(member(B));
        if let Some(Mail::Cast(_, n)) = port.try_recv() {
            taken.push(n);
        }
    }
    assert_eq!(taken, [0, 1, 2, 3]);
}

#[test]
fn an_answer_needs_no_room_and_reaches_its_call() {
    let exchange = exchange::<u32, u32>(1, 4);
    let (mut at_b, _at_a) = (open(&exchange, B), open(&exchange, A));
    let call = exchange.sender(member(A)).call(member(B), 20).unwrap();
    // The way back is full; the answer takes another.
    exchange.sender(member(B)).cast(member(A), 0).unwrap();
    let Some(Mail::Call(from, 20, ticket)) = at_b.try_recv() else { panic!("no call") };
    assert_eq!(from, member(A));
    assert!(ticket.is_wanted());
    ticket.answer(21);
    assert_eq!(poll_now(call), Poll::Ready(Ok(21)));
}

#[test]
fn a_call_that_is_given_up_counts_until_the_other_side_lets_go() {
    let exchange = exchange::<u32, u32>(8, 1);
    let mut port = open(&exchange, B);
    let sender = exchange.sender(member(A));
    drop(sender.call(member(B), 1).unwrap());
    assert!(matches!(sender.call(member(B), 2), Err(Refused::Full(2))));
    let Some(Mail::Call(_, 1, ticket)) = port.try_recv() else { panic!("no call") };
    assert!(!ticket.is_wanted());
    ticket.answer(0);
    assert!(sender.call(member(B), 3).is_ok());
}

#[test]
fn a_dropped_ticket_and_a_dropped_port_end_their_calls() {
    let exchange = exchange::<u32, u32>(8, 8);
    let mut port = open(&exchange, B);
    let sender = exchange.sender(member(A));
    let (taken, unread) = (sender.call(member(B), 1).unwrap(), sender.call(member(B), 2).unwrap());
    drop(port.try_recv());
    assert_eq!(poll_now(taken), Poll::Ready(Err(Unanswered)));
    drop(port);
    assert_eq!(poll_now(unread), Poll::Ready(Err(Unanswered)));
    assert!(matches!(sender.call(member(B), 3), Err(Refused::Gone(3))));
    assert!(matches!(sender.cast(member(2), 4), Err(Refused::Gone(4))));
}

#[test]
fn a_port_that_closes_gives_out_what_it_has_and_may_be_opened_again() {
    let exchange = exchange::<u32, ()>(8, 8);
    let mut port = open(&exchange, B);
    assert_eq!(exchange.open(member(B)).unwrap_err(), AlreadyOpen(member(B)));
    let sender = exchange.sender(member(A));
    sender.cast(member(B), 1).unwrap();
    sender.cast(member(B), 2).unwrap();
    port.close();
    assert_eq!(sender.cast(member(B), 3), Err(Refused::Gone(3)));
    let mut cx = Context::from_waker(Waker::noop());
    for expected in [1, 2] {
        assert!(matches!(port.poll_recv(&mut cx), Poll::Ready(Some(Mail::Cast(_, n))) if n == expected));
    }
    assert!(matches!(port.poll_recv(&mut cx), Poll::Ready(None)));
    drop(port);
    let mut port = open(&exchange, B);
    assert!(port.try_recv().is_none());
    sender.cast(member(B), 4).unwrap();
    assert_eq!(message(&mut port), Some((A, 4)));
}

#[test]
fn a_broadcast_tells_of_each_member_what_became_of_it() {
    let exchange = Exchange::<u32, u32>::new(5, Limits { messages: 1, calls: 1 });
    let mut ports: Vec<_> = [1, 2, 3].map(|index| open(&exchange, index)).into();
    let sender = exchange.sender(member(0));
    assert_eq!(sender.others().iter().map(Member::index).collect::<Vec<_>>(), [1, 2, 3]);
    sender.cast(member(3), 0).unwrap();
    let all = (0..5).map(member).filter(|&m| m != member(0)).collect();
    let mut gather = sender.broadcast(&all, &7);
    assert!(poll_now(&mut gather).is_pending());
    let Some(Mail::Call(_, 7, ticket)) = ports[0].try_recv() else { panic!("no call") };
    ticket.answer(1);
    assert!(poll_now(&mut gather).is_pending());
    drop(ports.remove(1));
    let outcome =
        [(1, Ok(1)), (2, Err(CallError::Unanswered)), (3, Err(CallError::Full)), (4, Err(CallError::Gone))];
    assert_eq!(poll_now(gather), Poll::Ready(outcome.map(|(m, what)| (member(m), what)).into()));
    assert_eq!(sender.ring_all(&all), [2, 4].map(member).into_iter().collect());
    assert_eq!(sender.cast_all(&all, &8), [2, 3, 4].map(member).into_iter().collect());
}

#[test]
fn protocols_find_their_exchange_by_name_and_no_others() {
    let mesh = Mesh::new(2, 1);
    let limits = Limits { messages: 1, calls: 1 };
    let one = mesh.exchange::<u32, ()>("one", limits).unwrap();
    let same = mesh.exchange::<u32, ()>("one", limits).unwrap();
    let other = mesh.exchange::<u32, ()>("other", limits).unwrap();
    let mut port = open(&one, B);
    assert!(same.sender(member(A)).cast(member(B), 1).is_ok());
    assert!(other.sender(member(A)).cast(member(B), 1).is_err());
    assert_eq!(message(&mut port), Some((A, 1)));
    assert_eq!(mesh.exchange::<u64, ()>("one", limits).unwrap_err(), OtherType("one"));
    assert_eq!(mesh.outsider(), Some(member(2)));
    assert_eq!(mesh.outsider(), None);
    assert_eq!(one.members(), 3);
}

/// Tests that threads beside the lanes, which all send numbers in order, call, take and answer, lose nothing
/// and end.
#[test]
fn threads_that_all_send_and_call_each_other_lose_nothing_and_end() {
    const EACH: u32 = 2_000;
    const THREADS: usize = 4;
    let exchange = Exchange::<u32, u32>::new(THREADS, Limits { messages: 16, calls: 4 });
    let ready = Arc::new(Barrier::new(THREADS));
    let over = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|me| {
            let (exchange, ready, over) = (exchange.clone(), Arc::clone(&ready), Arc::clone(&over));
            thread::spawn(move || {
                let mut port = open(&exchange, me);
                let sender = port.sender();
                ready.wait();
                let mut expected = [0; THREADS];
                let mut next = [0; THREADS];
                let mut calls = Vec::new();
                let mut told = false;
                while !told || over.load(Ordering::SeqCst) < THREADS {
                    for to in (0..THREADS).filter(|&to| to != me) {
                        if next[to] < EACH && sender.cast(member(to), next[to]).is_ok() {
                            next[to] += 1;
                        }
                        calls.extend(sender.call(member(to), EACH).ok());
                    }
                    calls.retain_mut(|call| match poll_now(&mut *call) {
                        Poll::Pending => true,
                        Poll::Ready(Ok(answer)) => {
                            assert_eq!(answer, EACH + 1);
                            false
                        }
                        // A thread that has what it wanted takes no more.
                        Poll::Ready(Err(Unanswered)) => false,
                    });
                    let soon = Some(Instant::now() + Duration::from_millis(1));
                    while let Some(Some(mail)) = wait(soon, port.recv()) {
                        match mail {
                            Mail::Cast(from, n) => {
                                assert_eq!(n, expected[from.index()]);
                                expected[from.index()] += 1;
                            }
                            Mail::Call(_, n, ticket) => ticket.answer(n + 1),
                            Mail::Rung => panic!("nobody rings"),
                        }
                    }
                    let all = (0..THREADS)
                        .all(|other| other == me || (expected[other] == EACH && next[other] == EACH));
                    if all && !told {
                        told = true;
                        over.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn no_message_is_left_behind_by_a_port_that_closes_under_a_storm() {
    let live = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let exchange = exchange::<Counted, ()>(64, 1);
    let stop = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = [A, 2]
        .map(|index| {
            let (sender, live, stop) = (exchange.sender(member(index)), Arc::clone(&live), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    live.fetch_add(1, Ordering::SeqCst);
                    let _ = sender.cast(member(B), Counted(Arc::clone(&live)));
                }
            })
        })
        .into();
    for round in 0..300 {
        let mut port = open(&exchange, B);
        for _ in 0..round % 7 {
            drop(port.try_recv());
        }
        if round % 2 == 0 {
            port.close();
            while wait(None, port.recv()).unwrap().is_some() {}
        }
    }
    stop.store(true, Ordering::SeqCst);
    senders.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(live.load(Ordering::SeqCst), 0, "what was sent and not taken was dropped");
}
