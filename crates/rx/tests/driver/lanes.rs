//! Several lanes on one address: every packet is served by the lane that owns its connection.

use std::collections::HashSet;
use std::net::UdpSocket as StdSocket;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lane::layout::{LaneCount, Layout, Wishes};
use lane::net::UdpSocket;
use lane::runtime::{Runtime, RuntimeOptions};
use lane::socket::reuseport::{Steering, owner_lane};
use lane::topology::Topology;
use rx::driver::{Anonymous, Driver, Links, RxCounters, open_group};

use super::{SERVICE, bind, config, echo, pattern, run};

/// Two server lanes that echo until told to stop.
struct TwoLanes {
    address: std::net::SocketAddr,
    counters: Vec<Arc<RxCounters>>,
    stop: Arc<std::sync::atomic::AtomicBool>,
    runtime: Option<Runtime>,
}

fn two_lanes() -> Option<TwoLanes> {
    let topology = Topology::read(Path::new("/")).unwrap();
    let wishes = Wishes { lanes: LaneCount::Total(2), ..Wishes::default() };
    let Ok(layout) = Layout::new(&topology, &wishes) else {
        eprintln!("skipped: this machine has no two CPUs for two lanes");
        return None;
    };
    let steering = Steering::single_silo(2).unwrap();
    let group = open_group(([127, 0, 0, 1], 0).into(), &config().socket, steering).unwrap();
    let address = group.address();
    let parts: Vec<_> = Links::between(2, 64)
        .into_iter()
        .enumerate()
        .map(|(lane, links)| Some((group.descriptor(lane).unwrap(), links)))
        .collect();
    let parts = Arc::new(Mutex::new(parts));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (report, started) = mpsc::channel();
    let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |spec| {
        let (descriptor, links) = parts.lock().unwrap()[spec.id].take().unwrap();
        let (report, stop) = (report.clone(), Arc::clone(&stopped));
        async move {
            let socket = UdpSocket::adopt(descriptor).unwrap();
            let driver = Driver::start(socket, links, config()).unwrap();
            driver.serve(SERVICE, echo);
            report.send((spec.id, driver.counters())).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                lane::time::sleep(Duration::from_millis(20)).await;
            }
        }
    })
    .unwrap();
    let mut counters: Vec<_> = started.iter().take(2).collect();
    counters.sort_by_key(|(lane, _)| *lane);
    let counters = counters.into_iter().map(|(_, counters)| counters).collect();
    drop(group);
    Some(TwoLanes { address, counters, stop, runtime: Some(runtime) })
}

impl Drop for TwoLanes {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.runtime.take().unwrap().join().unwrap();
    }
}

#[test]
fn packets_that_land_on_another_lane_are_handed_to_their_owner() {
    let Some(server) = two_lanes() else { return };
    let address = server.address;
    // Bursts of several connections share a coalesced buffer, which the kernel steers by its first packet.
    run(async move {
        let client = bind(config());
        let connections: Vec<_> =
            (0..8).map(|_| client.connect(address, SERVICE, &Anonymous).unwrap()).collect();
        let owners: HashSet<usize> =
            client.endpoint().connections().map(|known| owner_lane(known.id().0, known.id().1, 2)).collect();
        assert_eq!(owners.len(), 2, "connections of both lanes");
        for round in 0..20 {
            let tasks: Vec<_> = connections
                .iter()
                .map(|connection| {
                    let connection = connection.clone();
                    lane::spawn(async move {
                        let request = pattern(100 + round);
                        let mut call = connection.call().await.unwrap();
                        call.write(&request).await.unwrap();
                        call.finish().await.unwrap();
                        assert!(call.read_to_end(1000).await.unwrap() == request);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        }
    });
    let [zero, one] = &server.counters[..] else { panic!("two lanes") };
    let sum = |of: fn(&RxCounters) -> u64| of(zero) + of(one);
    assert_eq!(sum(|lane| lane.calls_accepted.get()), 160);
    assert_eq!((zero.connections_made.get(), one.connections_made.get()), (4, 4), "each served by its owner");
    assert_eq!(sum(|lane| lane.handed_over.get()), sum(|lane| lane.handed_in.get()));
    assert!(sum(|lane| lane.handed_over.get()) > 0, "mixed bursts make strays");
    assert_eq!(sum(|lane| lane.handover_full.get()), 0);
}

#[test]
fn version_questions_are_answered_on_any_lane() {
    let Some(server) = two_lanes() else { return };
    let socket = StdSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for cid in [0u32, 4, 8, 12] {
        let mut question = [0; 28 + 65];
        question[4..8].copy_from_slice(&cid.to_be_bytes());
        question[20] = 13;
        question[21] = 1;
        socket.send_to(&question, server.address).unwrap();
        let mut answer = [0; 1500];
        let (len, from) = socket.recv_from(&mut answer).unwrap();
        assert_eq!(from, server.address);
        assert!(answer[28..len].starts_with(b"linerate"), "{:?}", &answer[28..len]);
    }
}
