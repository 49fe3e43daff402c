//! Tests of routers on simulated lanes: four nodes, NICs on two of them.

use std::cell::RefCell;

use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Host, World, seeds};
use lane::layout::{Layout, Wishes};
use lane::net::TcpListener;
use lane::time;
use service::Role;

use super::super::handoff::links_to_silos;
use super::super::placement::Taking;
use super::super::placement::tests::four_nodes_with_cards_on_two;
use super::*;
use crate::config::NodesWithoutNic;

const TO: Destination = Destination { service: 0, role: Role(0) };

fn placement(without_nic: NodesWithoutNic) -> Arc<Placement> {
    let topology = four_nodes_with_cards_on_two();
    let layout = Layout::new(&topology, &Wishes::default()).unwrap();
    let taking = Taking::new(&layout, &[]).unwrap();
    Arc::new(Placement::new(&topology, &layout, &taking, without_nic))
}

/// Host with eight lanes, of which lane 0 accepts eth0's connections; notes which lane serves each.
struct Silos {
    world: World,
    host: Host,
    loads: Loads,
    counters: Arc<SiloCounters>,
    served: Rc<RefCell<Vec<usize>>>,
    connected: std::cell::Cell<usize>,
}

impl Silos {
    fn new(seed: u64, placement: &Arc<Placement>) -> Self {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        (1..8).for_each(|lane| assert_eq!(host.add_lane(), lane));
        let (loads, counters, served) = (Loads::new(8), Arc::default(), Rc::<RefCell<Vec<usize>>>::default());
        for lane in 1..8 {
            let served = Rc::clone(&served);
            host.spawn_on(lane, async move {
                let (_, mut port) = links_to_silos(lane::current().mesh(), lane);
                while let Some(mail) = port.recv().await {
                    let Mail::Cast(from, HandedOver { connection, peer, .. }) = mail else { continue };
                    assert_eq!(from.index(), 0);
                    drop(TcpStream::adopt(connection, peer).unwrap());
                    served.borrow_mut().push(lane);
                }
            });
        }
        let (at_router, noted) = ((loads.clone(), Arc::clone(&counters)), Rc::clone(&served));
        let placement = Arc::clone(placement);
        host.spawn(async move {
            let (outgoing, _port) = links_to_silos(lane::current().mesh(), 0);
            let router = AcceptRouter::new(Some(0), placement, outgoing, at_router.0, at_router.1);
            let listener =
                TcpListener::bind("0.0.0.0:80".parse().unwrap(), &ListenOptions::default()).unwrap();
            loop {
                if let Ok(stream) = listener.accept().await
                    && router.place(stream, TO).is_some()
                {
                    noted.borrow_mut().push(0);
                }
            }
        });
        Self { world, host, loads, counters, served, connected: std::cell::Cell::new(0) }
    }

    /// Connects this many more clients, and returns the lanes that serve them.
    fn connect(&self, count: usize) -> Vec<usize> {
        let client = self.world.host("10.0.0.2");
        self.connected.set(self.connected.get() + count);
        let (all, served) = (self.connected.get(), Rc::clone(&self.served));
        self.world.block_on(&client, async move {
            for _ in 0..count {
                drop(TcpStream::connect("10.0.0.1:80".parse().unwrap()).await.unwrap());
            }
            while served.borrow().len() < all {
                time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let mut lanes = served.borrow()[all - count..].to_vec();
            lanes.sort_unstable();
            lanes
        })
    }

    fn set_full(&self, lanes: &[usize], full: bool) {
        lanes.iter().for_each(|&lane| self.loads.set_full(lane, full));
    }
}

#[test]
fn lanes_without_a_nic_take_connections_only_while_all_lanes_of_the_nics_node_are_full() {
    seeds(10, |seed| {
        let silos = Silos::new(seed, &placement(NodesWithoutNic::Assist));
        assert_eq!(silos.connect(4), [0; 4]);
        silos.set_full(&[0], true);
        assert_eq!(silos.connect(4), [0; 4], "lane 1 has time, and the kernel deals out to it too");
        silos.set_full(&[1], true);
        assert_eq!(silos.connect(4), [2, 2, 3, 3], "the nearest node without a card, in turns");
        silos.set_full(&[2], true);
        assert_eq!(silos.connect(2), [3, 3]);
        silos.set_full(&[3], true);
        assert_eq!(silos.connect(4), [6, 6, 7, 7], "the next, and never a node with a card of its own");
        silos.set_full(&[6, 7], true);
        assert_eq!(silos.connect(2), [0, 0], "nobody has time: it stays where it came");
        silos.set_full(&[1, 2], false);
        assert_eq!(silos.connect(2), [0, 0]);
        let counters = &silos.counters;
        assert_eq!((counters.helped.get(), counters.local.get(), counters.kept.get()), (10, 12, 0));
        assert_eq!(silos.host.counters(0).mail_sent.get(), 10);
    });
}

#[test]
fn idle_means_that_nobody_is_asked_however_full_the_lanes_are() {
    let silos = Silos::new(1, &placement(NodesWithoutNic::Idle));
    silos.set_full(&[0, 1], true);
    assert_eq!(silos.connect(6), [0; 6]);
    assert_eq!(silos.counters.helped.get(), 0);
}

#[test]
fn a_connection_of_another_nodes_card_goes_to_its_lanes_and_to_a_helper_while_they_are_full() {
    seeds(10, |seed| {
        let silos = Silos::new(seed, &placement(NodesWithoutNic::Assist));
        // eth0 has index 2; the third address is on eth2.
        ["10.0.1.1", "10.0.2.1"].iter().for_each(|address| silos.host.add_address(address));
        let client = silos.world.host("10.0.0.2");
        let reach = |all: usize| {
            let served = Rc::clone(&silos.served);
            silos.world.block_on(&client, async move {
                drop(TcpStream::connect("10.0.2.1:80".parse().unwrap()).await.unwrap());
                while served.borrow().len() < all {
                    time::sleep(std::time::Duration::from_millis(1)).await;
                }
                served.borrow()[all - 1]
            })
        };
        assert!([4, 5].contains(&reach(1)));
        silos.set_full(&[4, 5], true);
        assert!([6, 7].contains(&reach(2)), "node 3 is nearest to node 2");
        silos.set_full(&[2, 3, 6, 7], true);
        assert!([4, 5].contains(&reach(3)), "it is theirs all the same");
        assert_eq!((silos.counters.handed_off.get(), silos.counters.helped.get()), (2, 1));
    });
}
