//! Tests of listener groups: which lane gets which connection and packet, before and after listeners come and
//! go.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use lane::socket::cbpf::Assembler;
use lane::socket::options::{KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_PROBES};
use lane::socket::reuseport::{
    Group, GroupConfig, GroupError, LaneConnectionIds, SteeredSilo, Steering, Transport, owner_lane,
    silo_lane,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::sockets::netns::TwoNics;

const TCP: Transport = Transport::Tcp { backlog: 256 };
const EPOCH: u32 = 0x9000_0007;
const CLIENT_INITIATED: u8 = 1;

fn open(transport: Transport, ip: Ipv4Addr, port: u16, steering: Steering) -> Result<Group, GroupError> {
    let config = GroupConfig { address: (ip, port).into(), transport, prepare: Box::new(|_| Ok(())) };
    Group::open(config, steering)
}

/// Returns a steering of lanes 0 and 1 for the first NIC, 2 and 3 for the second.
fn two_silos(ifindexes: [u32; 2]) -> Steering {
    let silo = |n: usize| SteeredSilo { ifindexes: vec![ifindexes[n]], lanes: 2 * n..2 * n + 2 };
    Steering::new(vec![silo(0), silo(1)]).unwrap()
}

/// A group over two NICs with the lanes' own descriptors.
struct Server {
    nics: TwoNics,
    group: Group,
    lanes: Vec<Option<Lane>>,
}

enum Lane {
    Tcp(TcpListener),
    Rx(UdpSocket),
}

impl Server {
    fn new(transport: Transport) -> Option<Self> {
        let nics = TwoNics::new()?;
        let group = open(transport, Ipv4Addr::UNSPECIFIED, 0, two_silos(nics.ifindexes)).unwrap();
        let mut server = Self { nics, group, lanes: vec![None, None, None, None] };
        (0..4).for_each(|lane| server.take_descriptor(transport, lane));
        Some(server)
    }

    fn take_descriptor(&mut self, transport: Transport, lane: usize) {
        let descriptor = self.group.descriptor(lane).unwrap();
        self.lanes[lane] = Some(match transport {
            Transport::Tcp { .. } => Lane::Tcp(descriptor.into()),
            Transport::Rx => Lane::Rx(descriptor.into()),
        });
    }

    /// Removes a lane that dies: its descriptor goes, and the group is told.
    fn remove(&mut self, lane: usize) {
        self.lanes[lane] = None;
        self.group.remove(lane).unwrap();
    }

    fn restore(&mut self, transport: Transport, lane: usize) {
        self.group.restore(lane).unwrap();
        self.take_descriptor(transport, lane);
    }

    /// Makes 40 connections through a NIC, of which none may be refused; returns how many each lane was
    /// given.
    fn connect_40(&self, nic: usize) -> [usize; 4] {
        let address = (TwoNics::server_address(nic), self.group.address().port());
        let clients: Vec<TcpStream> =
            self.nics.as_client(|| (0..40).map(|_| TcpStream::connect(address).unwrap()).collect());
        let mut taken = [0; 4];
        let deadline = Instant::now() + Duration::from_secs(5);
        while taken.iter().sum::<usize>() < clients.len() && Instant::now() < deadline {
            for (lane, count) in taken.iter_mut().enumerate() {
                if let Some(Lane::Tcp(listener)) = &self.lanes[lane] {
                    *count += std::iter::from_fn(|| listener.accept().ok()).count();
                }
            }
        }
        assert_eq!(taken.iter().sum::<usize>(), clients.len());
        taken
    }

    /// Sends a packet for each connection id through a NIC, each from another client; returns the lane of
    /// each.
    fn send_rx(&self, nic: usize, cids: &[u32]) -> Vec<usize> {
        self.send_flagged(nic, cids, CLIENT_INITIATED)
    }

    fn send_flagged(&self, nic: usize, cids: &[u32], flags: u8) -> Vec<usize> {
        let address = (TwoNics::server_address(nic), self.group.address().port());
        cids.iter()
            .enumerate()
            .map(|(n, cid)| {
                let client = self.nics.as_client(|| bind_client(n));
                client.send_to(&rx_packet(EPOCH, *cid, flags), address).unwrap();
                let mut buffer = [0; 64];
                let deadline = Instant::now() + Duration::from_secs(5);
                while Instant::now() < deadline {
                    let came = self.lanes.iter().position(
                        |lane| matches!(lane, Some(Lane::Rx(socket)) if socket.recv(&mut buffer).is_ok()),
                    );
                    if let Some(lane) = came {
                        assert_eq!(buffer[4..8], cid.to_be_bytes());
                        return lane;
                    }
                }
                panic!("the packet of connection {cid:#x} came to no lane");
            })
            .collect()
    }
}

/// Binds the socket of the `n`th client. A child process that another test has just started may still hold
/// the last one of that port.
fn bind_client(n: usize) -> UdpSocket {
    let mut bound = None;
    eventually(|| {
        bound = UdpSocket::bind(("0.0.0.0", client_port(n))).ok();
        bound.is_some()
    });
    bound.expect("waited for")
}

fn client_port(n: usize) -> u16 {
    20_000 + n as u16
}

fn rx_packet(epoch: u32, cid: u32, flags: u8) -> Vec<u8> {
    let mut packet = [epoch.to_be_bytes(), cid.to_be_bytes()].concat();
    packet.resize(28, 0);
    packet[20..22].copy_from_slice(&[1, flags]);
    packet
}

fn cids(count: u32) -> Vec<u32> {
    (0..count).map(|n| 0x0100_0000 + (n << 2)).collect()
}

#[test]
fn tcp_connections_reach_only_lanes_of_their_nics_silo() {
    let Some(server) = Server::new(TCP) else { return };
    let first = server.connect_40(0);
    assert_eq!(first[2] + first[3], 0, "{first:?}");
    assert!(first[0] > 0 && first[1] > 0, "both lanes of the silo get some: {first:?}");
    let second = server.connect_40(1);
    assert_eq!(second[0] + second[1], 0, "{second:?}");
    assert!(second[2] > 0 && second[3] > 0, "{second:?}");
}

#[test]
fn tcp_nic_without_listeners_is_served_by_the_others_and_comes_back() {
    let Some(mut server) = Server::new(TCP) else { return };
    server.remove(0);
    server.remove(1);
    let orphans = server.connect_40(0);
    assert!(orphans[2] > 0 && orphans[3] > 0, "the kernel's hash spreads them: {orphans:?}");
    let others = server.connect_40(1);
    assert_eq!(others[2] + others[3], 40);
    server.restore(TCP, 1);
    server.restore(TCP, 0);
    let returned = server.connect_40(0);
    assert_eq!(returned[0] + returned[1], 40, "{returned:?}");
    assert!(returned[0] > 0 && returned[1] > 0);
    let others = server.connect_40(1);
    assert_eq!(others[2] + others[3], 40, "{others:?}");
}

#[test]
fn tcp_listener_that_closes_does_not_shift_the_others() {
    for dead in 0..4 {
        let Some(mut server) = Server::new(TCP) else { return };
        server.remove(dead);
        let (first, second) = (server.connect_40(0), server.connect_40(1));
        assert_eq!(first[0] + first[1], 40, "without lane {dead}: {first:?}");
        assert_eq!(second[2] + second[3], 40, "without lane {dead}: {second:?}");
        assert_eq!(first[dead] + second[dead], 0);
    }
}

#[test]
fn tcp_listener_stops_even_while_its_lane_holds_a_descriptor() {
    let Some(mut server) = Server::new(TCP) else { return };
    server.group.remove(0).unwrap();
    let (first, second) = (server.connect_40(0), server.connect_40(1));
    assert_eq!((first[1], second[2] + second[3]), (40, 40));
}

#[test]
fn tcp_draining_lane_keeps_what_waits_and_gets_nothing_new() {
    let Some(mut server) = Server::new(TCP) else { return };
    let address = (TwoNics::server_address(0), server.group.address().port());
    let waiting: Vec<TcpStream> =
        server.nics.as_client(|| (0..20).map(|_| TcpStream::connect(address).unwrap()).collect());
    server.group.drain(0).unwrap();
    let mut taken = 0;
    for lane in [0, 1] {
        let Some(Lane::Tcp(listener)) = &server.lanes[lane] else { panic!() };
        taken += std::iter::from_fn(|| listener.accept().ok()).count();
    }
    assert_eq!(taken, waiting.len());
    assert_eq!(server.connect_40(0)[1], 40);
    server.group.restore(0).unwrap();
    assert!(server.connect_40(0)[0] > 0);
}

/// Kills a listener as `ss --kill` or a defect would.
fn kill(server: &Server, lane: usize) {
    let Some(Lane::Tcp(listener)) = &server.lanes[lane] else { panic!() };
    SockRef::from(listener).shutdown(Shutdown::Both).unwrap();
}

#[test]
fn tcp_listener_killed_from_outside_is_replaced_and_the_others_keep_their_connections() {
    for dead in 0..4 {
        let Some(mut server) = Server::new(TCP) else { return };
        assert_eq!(server.group.repair().unwrap(), []);
        kill(&server, dead);
        assert_eq!(server.group.repair().unwrap(), [dead]);
        server.take_descriptor(TCP, dead);
        let (first, second) = (server.connect_40(0), server.connect_40(1));
        assert_eq!(
            (first[0] + first[1], second[2] + second[3]),
            (40, 40),
            "lane {dead}: {first:?} {second:?}"
        );
        assert!(first[dead] + second[dead] > 0, "lane {dead} takes again");
    }
}

#[test]
fn tcp_listeners_killed_together_are_replaced_and_steered_right() {
    for dead in [vec![0, 2], vec![3, 0, 1], vec![0, 1, 2, 3]] {
        let Some(mut server) = Server::new(TCP) else { return };
        dead.iter().for_each(|&lane| kill(&server, lane));
        let replaced = server.group.repair().unwrap();
        assert!(dead.iter().all(|lane| replaced.contains(lane)), "{dead:?} died, {replaced:?} were replaced");
        replaced.iter().for_each(|&lane| server.take_descriptor(TCP, lane));
        let (first, second) = (server.connect_40(0), server.connect_40(1));
        assert_eq!((first[0] + first[1], second[2] + second[3]), (40, 40), "{dead:?}: {first:?} {second:?}");
        assert!(
            first[..2].iter().chain(&second[2..]).all(|&taken| taken > 0),
            "{dead:?}: {first:?} {second:?}"
        );
    }
}

#[test]
fn tcp_group_opened_for_some_lanes_is_joined_by_the_rest_later() {
    let Some(nics) = TwoNics::new() else { return };
    let address = (Ipv4Addr::UNSPECIFIED, 0).into();
    let config = GroupConfig { address, transport: TCP, prepare: Box::new(|_| Ok(())) };
    let group = Group::open_for(config, two_silos(nics.ifindexes), |lane| lane >= 2).unwrap();
    assert_eq!((group.takes(1), group.takes(2)), (false, true));
    let mut server = Server { nics, group, lanes: vec![None, None, None, None] };
    (2..4).for_each(|lane| server.take_descriptor(TCP, lane));
    assert_eq!(server.connect_40(0)[2..].iter().sum::<usize>(), 40);
    (0..2).for_each(|lane| server.restore(TCP, lane));
    let (first, second) = (server.connect_40(0), server.connect_40(1));
    assert_eq!((first[0] + first[1], second[2] + second[3]), (40, 40), "{first:?} {second:?}");
}

#[test]
fn rx_packets_of_clients_reach_a_fixed_lane_of_their_nics_silo() {
    let Some(server) = Server::new(Transport::Rx) else { return };
    for nic in 0..2 {
        let came = server.send_rx(nic, &cids(64));
        for (n, lane) in came.iter().enumerate() {
            let client = (TwoNics::client_address(nic), client_port(n)).into();
            assert_eq!(*lane, silo_lane(client, &(2 * nic..2 * nic + 2), 4));
        }
        let others: Vec<u32> = cids(64).iter().map(|cid| cid.wrapping_mul(4 * 77 + 1)).collect();
        assert_eq!(came, server.send_rx(nic, &others), "a client keeps its lane, whatever the connection");
    }
}

#[test]
fn rx_packets_of_connections_the_server_opened_reach_the_lane_their_ids_lead_to() {
    let Some(server) = Server::new(Transport::Rx) else { return };
    let cids = cids(64);
    for nic in 0..2 {
        for (cid, lane) in cids.iter().zip(server.send_flagged(nic, &cids, 0)) {
            assert_eq!(lane, owner_lane(EPOCH, *cid, 4));
        }
    }
}

#[test]
fn rx_lanes_that_die_and_return_leave_the_other_connections_alone() {
    let Some(mut server) = Server::new(Transport::Rx) else { return };
    let cids = cids(32);
    let before = server.send_rx(1, &cids);
    server.remove(0);
    assert_eq!(server.send_rx(1, &cids), before, "order after the first of the array is gone");
    server.remove(1);
    assert_eq!(server.send_rx(1, &cids), before);
    assert!(server.send_rx(0, &cids).iter().all(|lane| *lane >= 2), "no lane of the silo is left");
    server.restore(Transport::Rx, 0);
    assert!(server.send_rx(0, &cids).iter().all(|lane| *lane == 0));
    server.restore(Transport::Rx, 1);
    assert_eq!(server.send_rx(1, &cids), before);
}

#[test]
fn rx_socket_that_is_still_held_open_is_told_and_gets_nothing() {
    let Some(mut server) = Server::new(Transport::Rx) else { return };
    let cids = cids(32);
    assert!(matches!(server.group.remove(0), Err(GroupError::StillOpen(0))));
    assert!(server.send_rx(0, &cids).iter().all(|lane| *lane == 1));
    assert!(matches!(server.group.descriptor(0), Err(GroupError::NoSuchLane(0))));
    server.remove(0);
    let before = server.send_rx(1, &cids);
    assert!(before.contains(&2) && before.contains(&3));
    server.restore(Transport::Rx, 0);
    assert!(server.send_rx(0, &cids).contains(&0));
    assert_eq!(server.send_rx(1, &cids), before);
}

#[test]
fn answer_to_a_connection_opened_by_a_lane_comes_back_to_it() {
    let lanes = 4;
    let group = open(Transport::Rx, Ipv4Addr::LOCALHOST, 0, Steering::single_silo(lanes).unwrap()).unwrap();
    let sockets: Vec<UdpSocket> = (0..lanes).map(|lane| group.descriptor(lane).unwrap().into()).collect();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for (lane, socket) in sockets.iter().enumerate() {
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut ids = LaneConnectionIds::new(EPOCH, lane, lanes, 99);
        for _ in 0..20 {
            let call = rx_packet(EPOCH, ids.next_id() | 2, 0);
            socket.send_to(&call, client.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 64];
            let (length, server) = client.recv_from(&mut buffer).unwrap();
            client.send_to(&buffer[..length], server).unwrap();
            assert_eq!(socket.recv(&mut buffer).unwrap(), call.len(), "it would have gone to another lane");
            assert_eq!(buffer[..call.len()], call);
        }
    }
}

#[test]
fn group_of_one_lane_works_for_both_transports() {
    let mut rx = open(Transport::Rx, Ipv4Addr::LOCALHOST, 0, Steering::single_silo(1).unwrap()).unwrap();
    rx.drain(0).unwrap();
    rx.restore(0).unwrap();
    let lane: UdpSocket = rx.descriptor(0).unwrap().into();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(&rx_packet(EPOCH, 4, CLIENT_INITIATED), rx.address()).unwrap();
    eventually(|| lane.recv(&mut [0; 100]).is_ok());
    let mut tcp = open(TCP, Ipv4Addr::LOCALHOST, 0, Steering::single_silo(1).unwrap()).unwrap();
    tcp.listen().unwrap();
    let lane: TcpListener = tcp.descriptor(0).unwrap().into();
    lane.set_nonblocking(false).unwrap();
    let _client = TcpStream::connect(tcp.address()).unwrap();
    let (stream, _) = lane.accept().unwrap();
    let stream = SockRef::from(&stream);
    assert!(stream.keepalive().unwrap(), "a peer whose host is gone is not kept for ever");
    let asks = [stream.tcp_keepalive_time().unwrap(), stream.tcp_keepalive_interval().unwrap()];
    assert_eq!(asks, [KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL]);
    assert_eq!(stream.tcp_keepalive_retries().unwrap(), KEEP_ALIVE_PROBES);
}

#[test]
fn address_held_by_another_group_is_refused() {
    for transport in [TCP, Transport::Rx] {
        let steering = Steering::single_silo(2).unwrap();
        let group = open(transport, Ipv4Addr::LOCALHOST, 0, steering.clone()).unwrap();
        let port = group.address().port();
        assert_ne!(port, 0);
        let second = open(transport, Ipv4Addr::LOCALHOST, port, steering.clone());
        assert!(matches!(second, Err(GroupError::InUse(_))), "{second:?}");
        drop(group);
        // Children that other tests fork hold a copy of every descriptor until they execute.
        eventually(|| open(transport, Ipv4Addr::LOCALHOST, port, steering.clone()).is_ok());
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let steering = Steering::single_silo(1).unwrap();
    let foreign = open(TCP, Ipv4Addr::new(192, 0, 2, 1), 8080, steering.clone());
    assert!(matches!(foreign, Err(GroupError::NotLocal(_))));
    let mut group = open(TCP, Ipv4Addr::LOCALHOST, 0, steering).unwrap();
    assert!(matches!(group.remove(1), Err(GroupError::NoSuchLane(1))));
    assert!(matches!(group.restore(1), Err(GroupError::NoSuchLane(1))));
    assert!(matches!(group.restore(0), Err(GroupError::AlreadyThere(0))));
    group.remove(0).unwrap();
    assert!(matches!(group.descriptor(0), Err(GroupError::NoSuchLane(0))));
    group.restore(0).unwrap();
    TcpStream::connect(group.address()).unwrap();
}

#[test]
fn group_works_over_ipv6() {
    let config = GroupConfig {
        address: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)),
        transport: TCP,
        prepare: Box::new(|socket| socket.set_tcp_nodelay(true)),
    };
    let group = match Group::open(config, Steering::single_silo(2).unwrap()) {
        Err(GroupError::NotLocal(_) | GroupError::Socket { .. }) => {
            return testkit::skip("no IPv6 here");
        }
        group => group.unwrap(),
    };
    TcpStream::connect(group.address()).unwrap();
}

/// Tests behaviour of the kernel that [`Group`] relies on, without a group.
#[test]
fn kernel_moves_the_last_socket_of_a_group_into_the_place_of_a_closed_one() {
    let join = |port: u16| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
        UdpSocket::from(socket)
    };
    let first = join(0);
    let address = first.local_addr().unwrap();
    let rest: Vec<UdpSocket> = (1..4).map(|_| join(address.port())).collect();
    let mut asm = Assembler::new();
    asm.return_constant(0);
    asm.assemble().unwrap().attach_to_reuseport_group(&first).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let receives = |socket: &UdpSocket| {
        client.send_to(b"?", address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket.recv(&mut [0; 8]).is_ok()
    };
    eventually(|| receives(&first));
    drop(first);
    eventually(|| receives(&rest[2]));
    assert!(!receives(&rest[0]) && !receives(&rest[1]));
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < deadline, "not within five seconds");
    }
}

#[test]
fn a_bound_group_refuses_connections_until_it_listens() {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let config = GroupConfig { address, transport: TCP, prepare: Box::new(|_| Ok(())) };
    let mut group = Group::bind_for(config, Steering::single_silo(3).unwrap(), |_| true).unwrap();
    let address = group.address();
    let lanes: Vec<TcpListener> = (0..3).map(|lane| group.descriptor(lane).unwrap().into()).collect();
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    let other = TcpListener::bind(address).expect("an address that nobody listens at is not held");
    assert!(matches!(group.listen(), Err(GroupError::InUse(_))), "but it is not shared either");
    drop(other);

    group.listen().unwrap();
    group.listen().expect("a second time changes nothing");
    let clients: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
    let taken = lanes.iter().map(|lane| {
        lane.set_nonblocking(true).unwrap();
        std::iter::from_fn(|| lane.accept().ok()).count()
    });
    let taken: Vec<usize> = taken.collect();
    assert_eq!(taken.iter().sum::<usize>(), clients.len());
    assert!(taken.iter().all(|&taken| taken > 0), "every lane has its part: {taken:?}");
}
