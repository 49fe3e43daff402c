//! Tests of packets' code points: the lane's mark, and code points of connections.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;

use lane::backend::sim::{Config, World};
use lane::backend::{Datagram, DatagramBatch, UdpOptions};
use lane::net::UdpSocket;
use rx::Dscp;
use rx_lane::{Anonymous, Connection, Driver, LaneGroupLink, ServerCall};

use super::{SERVICE, config, echo, pattern, run};

const EXPEDITED: Dscp = Dscp::new(46).expect("six bits");
const LOWER_EFFORT: Dscp = Dscp::new(1).expect("six bits");

/// Traffic classes of the packets that went through a relay, and the number of packets.
#[derive(Debug, Default)]
struct Seen {
    to_server: BTreeSet<u8>,
    to_client: BTreeSet<u8>,
    packets: usize,
}

impl Seen {
    fn note(&mut self, datagram: &Datagram, server: SocketAddr) {
        self.packets += datagram.segments().count();
        let side = if datagram.from == server { &mut self.to_client } else { &mut self.to_server };
        side.insert(datagram.class);
    }
}

/// Relays packets between `server` and the sender to the returned address, and notes their traffic classes.
fn relay(at: SocketAddr, server: SocketAddr) -> (SocketAddr, Rc<RefCell<Seen>>) {
    let options = UdpOptions { traffic_class: true, ..UdpOptions::default() };
    let socket = UdpSocket::bind(at, &options).expect("a free port");
    let (address, seen) = (socket.local_addr().expect("bound"), Rc::new(RefCell::<Seen>::default()));
    let notes = Rc::clone(&seen);
    lane::spawn(async move {
        let (mut received, mut client) = (Vec::new(), None);
        while socket.recv(&mut received, 64).await.is_ok() {
            for datagram in received.drain(..) {
                if datagram.from != server {
                    client = Some(datagram.from);
                }
                notes.borrow_mut().note(&datagram, server);
                let to = if datagram.from == server { client.expect("it asked first") } else { server };
                for segment in datagram.segments() {
                    let parts = [IoSlice::new(segment)];
                    let batch = DatagramBatch::new(to, segment.len() as u16, &parts);
                    while socket.try_send(&batch).expect("it leads somewhere").is_none() {
                        socket.writable().await.expect("it is open");
                    }
                }
            }
        }
    })
    .detach();
    (address, seen)
}

async fn exchange(connection: &Connection) {
    let mut call = connection.call().await.expect("a channel");
    call.write(&pattern(200_000)).await.expect("lives");
    call.finish().await.expect("lives");
    assert!(call.read_to_end(200_000).await.expect("answered") == pattern(200_000), "bytes differ");
}

/// Sets a code point on both sides, and checks that every later packet of the connection has it, and no
/// packet of another connection.
async fn connections_have_code_points(driver: impl Fn() -> Driver, at: SocketAddr) {
    let (server, client) = (driver(), driver());
    server.serve(SERVICE, async |call: ServerCall| {
        assert!(call.connection().set_dscp(LOWER_EFFORT), "it has a call");
        echo(call).await
    });
    let (address, seen) = relay(at, server.local_addr().unwrap());
    let connection = client.connect(address, SERVICE, &Anonymous).unwrap();
    connection.set_dscp(EXPEDITED);
    exchange(&connection).await;
    {
        let mut seen = seen.borrow_mut();
        assert_eq!(seen.to_server, [EXPEDITED.traffic_class()].into(), "data and acknowledgements");
        // Before the service had the call the connection was as any other.
        assert!(seen.to_client.remove(&LOWER_EFFORT.traffic_class()) && seen.packets > 250, "{seen:?}");
        seen.to_client.remove(&0);
        assert_eq!(seen.to_client, [].into());
    }
    exchange(&connection).await;
    assert_eq!(seen.borrow().to_client, [LOWER_EFFORT.traffic_class()].into(), "from its first packet on");
    // Another connection to the same address has none of it, though it sends at the same time.
    let plain = client.connect(address, SERVICE, &Anonymous).unwrap();
    let both = lane::spawn(async move { exchange(&connection).await });
    exchange(&plain).await;
    both.await;
    assert_eq!(seen.borrow().to_server, [0, EXPEDITED.traffic_class()].into());
}

#[test]
fn connections_packets_have_its_code_point_over_both_protocols() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        if std::net::UdpSocket::bind(at).is_err() {
            testkit::skip("there is no IPv6 here");
            continue;
        }
        let at: SocketAddr = at.parse().expect("an address");
        run(connections_have_code_points(
            move || Driver::bind(at, config()).expect("loopback has free ports"),
            at,
        ));
    }
}

#[test]
fn simulated_packets_have_their_connections_code_point_too() {
    lane::backend::sim::seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        let at: SocketAddr = "10.0.0.1:0".parse().expect("an address");
        let driver = move || {
            let socket = UdpSocket::bind(at, &config().socket).expect("a free port");
            Driver::start_seeded(socket, LaneGroupLink::alone(), config(), [seed as u8; 32])
        };
        world.block_on(&host, connections_have_code_points(driver, at));
    });
}

#[test]
fn mark_is_that_of_the_lanes_socket() {
    if lane::socket::options::can_mark().is_err() {
        testkit::skip("marks need CAP_NET_ADMIN");
        return;
    }
    run(async {
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
        let seen = socket2::Socket::from(socket.try_clone().expect("a descriptor"));
        let adopted = UdpSocket::adopt(socket.into()).expect("a UDP socket");
        let driver = Driver::start(adopted, LaneGroupLink::alone(), config()).expect("random numbers");
        driver.set_mark(17).expect("may mark");
        assert_eq!(seen.mark().expect("an option"), 17);
        driver.set_mark(0).expect("may mark");
        assert_eq!(seen.mark().expect("an option"), 0);
    });
}
