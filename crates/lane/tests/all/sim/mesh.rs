//! Tests of mail between the lanes of a simulated host: the seed decides how long a message is on its way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Host, World, seeds};
use lane::mesh::{CallError, Exchange, Limits, Mail, Member, Members, Port, Refused, Sender};
use lane::{spawn, time};

fn host_of(world: &World, lanes: usize) -> Host {
    let host = world.host("10.0.0.1");
    for number in 1..lanes {
        assert_eq!(host.add_lane(), number);
    }
    host
}

/// Returns the exchange of the tests, as every lane finds it.
fn exchange(limits: Limits) -> Exchange<u64, u64> {
    lane::current().mesh().exchange("test", limits).unwrap()
}

fn open(limits: Limits) -> Port<u64, u64> {
    exchange(limits).open(lane::current().id().into()).unwrap()
}

fn sender(limits: Limits) -> Sender<u64, u64> {
    exchange(limits).sender(lane::current().id().into())
}

fn lane(index: usize) -> Member {
    Member::from(index)
}

/// Answers each call with the next number for as long as there is a lane.
async fn answer_all(mut port: Port<u64, u64>) {
    while let Some(mail) = port.recv().await {
        if let Mail::Call(_, n, ticket) = mail {
            ticket.answer(n + 1);
        }
    }
}

const ROOMY: Limits = Limits { messages: 64, calls: 64 };

#[test]
fn calls_between_lanes_are_answered_and_the_seed_repeats_them() {
    let run = |seed| {
        let world = World::new(seed, Config::rough());
        let host = host_of(&world, 4);
        (1..4).for_each(|at| host.spawn_on(at, async { answer_all(open(ROOMY)).await }));
        let answers = world.block_on(&host, async {
            time::sleep(Duration::from_millis(1)).await;
            let sender = sender(ROOMY);
            let mut answers = Vec::new();
            for n in 0..20 {
                let call = sender.call(lane(1 + n as usize % 3), n).unwrap();
                answers.push(call.await.unwrap());
            }
            answers
        });
        assert_eq!(answers, (1..=20).collect::<Vec<_>>());
        assert_eq!(host.counters(0).mail_sent.get(), 20);
        assert_eq!((1..4).map(|at| host.counters(at).mail_received.get()).sum::<u64>(), 20);
        world.trace_hash()
    };
    seeds(10, |seed| assert_eq!(run(seed), run(seed)));
}

#[test]
fn the_seed_decides_whose_word_comes_first_but_each_member_is_heard_in_order() {
    let orders = RefCell::new(BTreeSet::new());
    let all = seeds(30, |seed| {
        let world = World::new(seed, Config::default());
        let host = host_of(&world, 3);
        for at in 1..3 {
            host.spawn_on(at, async move {
                time::sleep(Duration::from_millis(1)).await;
                let sender = sender(ROOMY);
                (0..3).for_each(|n| sender.cast(lane(0), n).unwrap());
            });
        }
        let heard = world.block_on(&host, async {
            let mut port = open(ROOMY);
            let mut heard = Vec::new();
            while heard.len() < 6 {
                if let Some(Mail::Cast(from, n)) = port.recv().await {
                    heard.push((from.index(), n));
                }
            }
            heard
        });
        for at in 1..3 {
            let of_one: Vec<u64> = heard.iter().filter(|(from, _)| *from == at).map(|(_, n)| *n).collect();
            assert_eq!(of_one, [0, 1, 2]);
        }
        orders.borrow_mut().insert(heard);
    });
    assert!(!all || orders.borrow().len() > 1, "thirty seeds, one order");
}

#[test]
fn two_lanes_that_storm_each_other_with_calls_both_end() {
    const CALLS: u64 = 200;
    seeds(10, |seed| {
        let limits = Limits { messages: 4, calls: 3 };
        let world = World::new(seed, Config::rough());
        let host = host_of(&world, 2);
        let left = Rc::new(Cell::new(2));
        for at in 0..2 {
            let left = Rc::clone(&left);
            host.spawn_on(at, async move {
                spawn(answer_all(open(limits))).detach();
                let (sender, to) = (sender(limits), lane(1 - at));
                time::sleep(Duration::from_millis(1)).await;
                let mut answered = 0;
                let mut under_way = Vec::new();
                while answered < CALLS {
                    match sender.call(to, answered) {
                        Ok(call) => under_way.push(call),
                        Err(Refused::Gone(_)) => panic!("the other lane is there"),
                        // As many as may be: none queues, so wait for the own ones.
                        Err(Refused::Full(_)) => {
                            assert!(under_way.len() >= limits.calls);
                            for call in under_way.drain(..) {
                                call.await.unwrap();
                                answered += 1;
                            }
                        }
                    }
                }
                left.set(left.get() - 1);
            });
        }
        world.block_on(&host, async move {
            while left.get() > 0 {
                time::sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(host.counters(0).mail_refused_full.get() > 0, "the bound was met");
    });
}

/// Tests calls that make the other side call back before the answer, ever deeper: the circle runs out of
/// calls and unwinds.
#[test]
fn lanes_that_call_each_other_in_circles_run_out_of_calls_and_unwind() {
    async fn serve(mut port: Port<u64, u64>) {
        let sender = port.sender();
        while let Some(mail) = port.recv().await {
            let Mail::Call(from, depth, ticket) = mail else { continue };
            let sender = sender.clone();
            spawn(async move {
                let deepest = match sender.call(from, depth + 1) {
                    Ok(call) => call.await.unwrap_or(depth),
                    Err(_) => depth,
                };
                ticket.answer(deepest);
            })
            .detach();
        }
    }
    seeds(10, |seed| {
        let limits = Limits { messages: 64, calls: 5 };
        let world = World::new(seed, Config::default());
        let host = host_of(&world, 2);
        host.spawn_on(1, async move { serve(open(limits)).await });
        let deepest = world.block_on(&host, async move {
            spawn(serve(open(limits))).detach();
            time::sleep(Duration::from_millis(1)).await;
            sender(limits).call(lane(1), 1).unwrap().await
        });
        assert_eq!(deepest, Ok(10), "five calls each way");
    });
}

#[test]
fn a_lane_that_dies_mid_call_leaves_nobody_waiting() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let host = host_of(&world, 2);
        let dying = host.start_on(1, async {
            let mut port = open(ROOMY);
            let mut held = Vec::new();
            // Takes some, leaves others in the box, and keeps all tickets.
            for _ in 0..3 {
                held.extend(port.recv().await);
            }
            std::future::pending::<()>().await;
        });
        let outcome = world.block_on(&host, async move {
            let sender = sender(ROOMY);
            time::sleep(Duration::from_millis(1)).await;
            let calls: Vec<_> = (0..6).map(|n| sender.call(lane(1), n).unwrap()).collect();
            spawn(async move {
                time::sleep(Duration::from_micros(30)).await;
                drop(dying);
            })
            .detach();
            let mut unanswered = 0;
            for call in calls {
                unanswered += usize::from(call.await.is_err());
            }
            (unanswered, CallError::from(sender.call(lane(1), 0).map(drop).unwrap_err()))
        });
        assert_eq!(outcome, (6, CallError::Gone));
    });
}

#[test]
fn a_broadcast_hears_of_all_while_one_of_them_drains() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::rough());
        let host = host_of(&world, 4);
        for at in 1..3 {
            host.spawn_on(at, async { answer_all(open(ROOMY)).await });
        }
        host.spawn_on(3, async {
            let mut port = open(ROOMY);
            time::sleep(Duration::from_millis(3)).await;
            port.close();
            answer_all(port).await;
        });
        world.block_on(&host, async {
            time::sleep(Duration::from_millis(1)).await;
            let sender = sender(ROOMY);
            for round in 0..10 {
                let all: Members = (1..4).map(lane).collect();
                let answers = sender.broadcast(&all, &round).await;
                assert_eq!(answers.iter().map(|(who, _)| who.index()).collect::<Vec<_>>(), [1, 2, 3]);
                for (who, answer) in answers {
                    // What was sent before it closed is answered; later ones are refused at once.
                    let drained = who.index() == 3 && answer == Err(CallError::Gone);
                    assert!(answer == Ok(round + 1) || drained, "{who:?} {answer:?}");
                }
                time::sleep(Duration::from_micros(500)).await;
            }
            assert_eq!(sender.others(), [1, 2].map(lane).into_iter().collect());
        });
    });
}

#[test]
fn what_a_bell_stands_for_is_seen_though_every_box_is_full() {
    seeds(20, |seed| {
        let limits = Limits { messages: 1, calls: 1 };
        let world = World::new(seed, Config::rough());
        let host = host_of(&world, 2);
        let shared = Rc::new(Cell::new(0));
        let seen = Rc::new(Cell::new(0));
        let (writes, reads) = (Rc::clone(&shared), Rc::clone(&seen));
        host.spawn_on(1, async move {
            let mut port = open(limits);
            loop {
                // Too slow for every message, but not for what they are about.
                if let Some(Mail::Rung) = port.recv().await {
                    reads.set(writes.get());
                }
                time::sleep(Duration::from_millis(2)).await;
            }
        });
        world.block_on(&host, async move {
            time::sleep(Duration::from_millis(1)).await;
            let sender = sender(limits);
            for n in 1..=50 {
                shared.set(n);
                let _ = sender.cast(lane(1), n);
                assert!(sender.ring(lane(1)));
                time::sleep(Duration::from_micros(300)).await;
            }
            time::timeout(Duration::from_secs(1), async {
                while seen.get() != 50 {
                    time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await
            .expect("the last change is seen");
        });
        assert!(host.counters(0).mail_refused_full.get() > 0);
    });
}

#[test]
fn power_that_comes_back_finds_an_empty_mesh() {
    let world = World::new(1, Config::default());
    let host = host_of(&world, 2);
    host.spawn_on(1, async { answer_all(open(ROOMY)).await });
    world.run_for(Duration::from_millis(1));
    host.lose_power();
    host.restart();
    let outcome = world.block_on(&host, async { sender(ROOMY).cast(lane(1), 1) });
    assert_eq!(outcome, Err(Refused::Gone(1)), "its process is another one");
}
