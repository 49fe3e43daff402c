//! Tests of mail between real lanes, on threads of their own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lane::layout::{LaneCount, Layout, Wishes};
use lane::mesh::{Exchange, Limits, Mail, Member, Members, wait};
use lane::runtime::{Runtime, RuntimeOptions};
use lane::topology::Topology;
use lane::{spawn, yield_now};

const LIMITS: Limits = Limits { messages: 256, calls: 32 };

/// Returns a layout of two lanes, if this machine has CPUs for them.
fn two_lanes() -> Option<Layout> {
    let topology = Topology::of_this_machine().unwrap();
    let layout = Layout::new(&topology, &Wishes { lanes: LaneCount::Total(2), ..Wishes::default() });
    layout.inspect_err(|error| testkit::skip(error.to_string())).ok()
}

#[test]
fn lanes_call_each_other_at_once_and_all_calls_are_answered() {
    const CALLS: u64 = 5_000;
    let Some(layout) = two_lanes() else { return };
    let left = Arc::new(AtomicU64::new(2));
    let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |spec| {
        let left = Arc::clone(&left);
        async move {
            let lane = lane::current();
            let exchange = lane.mesh().exchange::<u64, u64>("test", LIMITS).unwrap();
            let mut port = exchange.open(lane.id().into()).unwrap();
            let (sender, other) = (port.sender(), Member::from(1 - spec.id));
            let answering = spawn(async move {
                while let Some(mail) = port.recv().await {
                    match mail {
                        Mail::Call(_, n, ticket) => ticket.answer(n * 2),
                        Mail::Rung => return,
                        Mail::Cast(..) => panic!("nobody casts"),
                    }
                }
            });
            while !sender.is_open(other) {
                yield_now().await;
            }
            let callers: Vec<_> = (0..4)
                .map(|_| {
                    let sender = sender.clone();
                    spawn(async move {
                        for n in 0..CALLS / 4 {
                            assert_eq!(sender.call(other, n).unwrap().await, Ok(n * 2));
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await;
            }
            // The other lane may still call: the last one rings for both.
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                sender.ring(other);
                sender.ring(lane.id().into());
            }
            answering.await;
        }
    })
    .unwrap();
    let counters: Vec<_> = runtime.lanes().map(|lane| Arc::clone(&lane.counters)).collect();
    runtime.join().unwrap();
    for lane in &counters {
        assert_eq!(lane.mail_sent.get(), CALLS);
        assert_eq!(lane.mail_received.get(), CALLS);
        assert_eq!(lane.mail_refused_full.get() + lane.mail_lost.get(), 0);
    }
}

/// Tests the system calls for mail. While one lane never parks and the other sends, not one system call is
/// made for that. Then it parks, and one wakes it for all that is sent meanwhile.
#[test]
fn a_lane_that_is_awake_is_told_without_a_system_call_and_one_that_waits_by_one() {
    const MANY: u64 = 100;
    let Some(layout) = two_lanes() else { return };
    let taken = Arc::new(AtomicU64::new(0));
    let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |spec| {
        let taken = Arc::clone(&taken);
        async move {
            let lane = lane::current();
            let exchange = lane.mesh().exchange::<u64, ()>("test", LIMITS).unwrap();
            if spec.id == 1 {
                let mut port = exchange.open(lane.id().into()).unwrap();
                let awake = spawn(async {
                    loop {
                        yield_now().await;
                    }
                });
                while taken.load(Ordering::SeqCst) < MANY {
                    if let Some(Mail::Cast(..)) = port.recv().await {
                        taken.fetch_add(1, Ordering::SeqCst);
                    }
                }
                awake.cancel().await;
                while let Some(Mail::Cast(..)) = port.recv().await {}
                return;
            }
            let (sender, other) = (exchange.sender(lane.id().into()), Member::from(1));
            while !sender.is_open(other) {
                yield_now().await;
            }
            let counters = Arc::clone(lane.counters());
            (0..MANY).for_each(|n| sender.cast(other, n).unwrap());
            while taken.load(Ordering::SeqCst) < MANY {
                yield_now().await;
            }
            assert_eq!(counters.wakes.get(), 0, "it was awake all the time");
            // It is about to park.
            while counters.wakes.get() == 0 {
                sender.cast_all(&[other].into_iter().collect(), &0);
                lane::time::sleep(Duration::from_millis(1)).await;
            }
            while !sender.ring(other) {}
        }
    })
    .unwrap();
    let counters: Vec<_> = runtime.lanes().map(|lane| Arc::clone(&lane.counters)).collect();
    runtime.join().unwrap();
    let (wakes, parks) = (counters[0].wakes.get(), counters[1].parks.get());
    assert!(wakes <= parks, "{wakes} system calls woke a lane that waited {parks} times");
}

#[test]
fn a_thread_that_is_no_lane_calls_lanes_and_hears_from_them() {
    let Some(layout) = two_lanes() else { return };
    let runtime = Runtime::start(&layout, RuntimeOptions::default(), |_| async {
        let lane = lane::current();
        let exchange = lane.mesh().exchange::<u64, u64>("control", LIMITS).unwrap();
        let mut port = exchange.open(lane.id().into()).unwrap();
        while let Some(mail) = port.recv().await {
            match mail {
                Mail::Call(_, n, ticket) => ticket.answer(n + u64::from(lane.id().0)),
                Mail::Cast(from, n) => port.sender().cast(from, n).unwrap(),
                Mail::Rung => return,
            }
        }
    })
    .unwrap();
    let exchange: Exchange<u64, u64> = runtime.mesh().exchange("control", LIMITS).unwrap();
    let me = runtime.mesh().outsider().unwrap();
    let mut port = exchange.open(me).unwrap();
    let sender = port.sender();
    let lanes: Members = (0..2).map(Member::from).collect();
    while sender.others() != lanes {
        std::thread::yield_now();
    }
    let answers = wait(soon(), sender.broadcast(&lanes, &10)).expect("lanes answer");
    assert_eq!(answers, [(Member::from(0), Ok(10)), (Member::from(1), Ok(11))]);
    assert!(sender.cast_all(&lanes, &7).is_empty());
    for _ in 0..2 {
        assert!(matches!(wait(soon(), port.recv()), Some(Some(Mail::Cast(_, 7)))));
    }
    let nothing = Some(Instant::now() + Duration::from_millis(1));
    assert!(wait(nothing, port.recv()).is_none());
    assert!(sender.ring_all(&lanes).is_empty());
    runtime.join().unwrap();
    assert!(sender.others().is_empty());
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(30))
}

/// Tests that helpers' work for operations on files is on the account of the waiting client, as for offloaded
/// work.
#[test]
fn an_operation_on_files_waits_behind_its_own_clients_slow_work_alone() {
    use lane::backend::uring::{FileOperations, RingOptions};
    use lane::fs::Dir;
    use lane::offload::{Client, offload};
    let Some(mut layout) = two_lanes() else { return };
    layout.silos.iter_mut().for_each(|silo| silo.helper_threads = 2);
    let ring = RingOptions { file_operations: FileOperations::Helpers, ..RingOptions::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    let runtime = Runtime::start(&layout, options, |_| async {
        let (slow, quick) = (Client::of(&"slow"), Client::of(&"quick"));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let first = lane::spawn_for(slow, async move { offload(None, move || wait.recv().is_ok()).await });
        let list = async || {
            // A task that a client's task begins is on its account too.
            let listed = spawn(async { Dir::open_root(Path::new("/proc/self/task"))?.entries(1000).await });
            listed.await.unwrap().len()
        };
        let second = lane::spawn_for(slow, list());
        for _ in 0..20 {
            assert!(lane::spawn_for(quick, list()).await > 0);
        }
        assert!(!first.is_finished() && !second.is_finished());
        release.send(()).unwrap();
        assert_eq!(first.await, Ok(true));
        assert!(second.await > 0);
    })
    .unwrap();
    runtime.join().unwrap();
}

/// Tests blocking work on real helpers: a client that blocks one of two threads does not keep another client
/// waiting.
#[test]
fn work_that_blocks_is_done_beside_the_lane_and_a_slow_client_blocks_only_itself() {
    use lane::offload::{Client, OffloadError, offload};
    let Some(mut layout) = two_lanes() else { return };
    layout.silos.iter_mut().for_each(|silo| silo.helper_threads = 2);
    let runtime = Runtime::start(&layout, RuntimeOptions::default(), |_| async {
        let lane_thread = std::thread::current().id();
        let (slow, quick) = (Some(Client::of(&"slow")), Some(Client::of(&"quick")));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let first = spawn(offload(slow, move || wait.recv().is_ok()));
        let second = spawn(offload(slow, || true));
        for n in 0..20 {
            let (sum, thread) = offload(quick, move || (n + 1, std::thread::current().id())).await.unwrap();
            assert_eq!(sum, n + 1);
            assert_ne!(thread, lane_thread);
        }
        assert!(!first.is_finished());
        assert_eq!(
            offload(quick, || panic!("expected by the test")).await,
            Err::<(), _>(OffloadError::Panicked)
        );
        release.send(()).unwrap();
        assert_eq!((first.await, second.await), (Ok(true), Ok(true)));
    })
    .unwrap();
    runtime.join().unwrap();
}
