use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use lane::backend::sim::{Config, LinkConfig, World, seeds};
use lane::backend::{Datagram, DatagramBatch, UdpOptions};
use lane::net::UdpSocket;
use lane::time;

use crate::sim::pattern;

const SERVER: &str = "10.0.0.1:7001";

fn bind(addr: &str) -> UdpSocket {
    UdpSocket::bind(addr.parse().unwrap(), &UdpOptions::default()).unwrap()
}

/// Sends `payload` cut into datagrams of `segment` bytes, in as many calls as needed.
async fn send(socket: &UdpSocket, to: &str, segment: u16, payload: &[u8]) {
    let mut sent = 0;
    while sent < payload.len() {
        let parts = [IoSlice::new(&payload[sent..])];
        let batch = DatagramBatch::new(to.parse().unwrap(), segment, &parts);
        match socket.try_send(&batch).unwrap() {
            Some(n) => sent += n,
            None => socket.writable().await.unwrap(),
        }
    }
}

/// Receives everything that arrives until nothing has for a second.
async fn receive(socket: &UdpSocket) -> Vec<Datagram> {
    let mut received = Vec::new();
    while time::timeout(Duration::from_secs(1), socket.recv(&mut received, 16)).await.is_ok() {}
    received
}

fn payloads(received: &[Datagram]) -> Vec<Vec<u8>> {
    received.iter().flat_map(|datagram| datagram.segments().map(<[u8]>::to_vec)).collect()
}

/// Sends `count` numbered datagrams from 10.0.0.2 to 10.0.0.1 and returns the numbers that arrive.
fn numbers_through(world: &World, count: u32) -> Vec<u32> {
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    client.spawn(async move {
        let socket = bind("0.0.0.0:0");
        for number in 0..count {
            send(&socket, SERVER, 100, &number.to_be_bytes()).await;
            time::sleep(Duration::from_micros(100)).await;
        }
    });
    world.block_on(&server, async {
        let socket = bind("0.0.0.0:7001");
        let received = receive(&socket).await;
        let number = |payload: &Vec<u8>| u32::from_be_bytes(payload[..].try_into().unwrap());
        payloads(&received).iter().map(number).collect()
    })
}

#[test]
fn a_burst_arrives_as_its_datagrams_joined_or_not() {
    let mut joined = 0;
    for seed in 0..20 {
        let world = World::new(seed, Config::default());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        client.spawn(async {
            let socket = bind("10.0.0.2:5000");
            send(&socket, SERVER, 1444, &pattern(20 * 1444 + 7)).await;
        });
        let received = world.block_on(&server, async { receive(&bind("0.0.0.0:7001")).await });
        joined += received.iter().filter(|datagram| datagram.segments().count() > 1).count();
        for datagram in &received {
            assert_eq!(datagram.from, "10.0.0.2:5000".parse::<SocketAddr>().unwrap());
            assert_eq!(datagram.local, Some("10.0.0.1".parse().unwrap()));
        }
        let payloads = payloads(&received);
        assert_eq!(payloads.iter().map(Vec::len).collect::<Vec<_>>(), [vec![1444; 20], vec![7]].concat());
        assert_eq!(payloads.concat(), pattern(20 * 1444 + 7));
    }
    assert!(joined > 20, "{joined} buffers held more than one datagram");
}

#[test]
fn without_gro_every_datagram_comes_alone() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    client.spawn(async { send(&bind("0.0.0.0:0"), SERVER, 100, &pattern(1000)).await });
    let received = world.block_on(&server, async {
        let options = UdpOptions { gro: false, ..UdpOptions::default() };
        let socket = UdpSocket::bind(SERVER.parse().unwrap(), &options).unwrap();
        receive(&socket).await
    });
    assert_eq!(received.len(), 10);
}

#[test]
fn a_call_takes_sixty_four_datagrams_and_says_how_much_that_was() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    world.block_on(&host, async {
        let socket = bind("0.0.0.0:0");
        let bytes = pattern(10_000);
        let parts = [IoSlice::new(&bytes[..3]), IoSlice::new(&bytes[3..])];
        let to = SERVER.parse().unwrap();
        let batch = |segment| DatagramBatch::new(to, segment, &parts);
        assert_eq!(socket.try_send(&batch(100)).unwrap(), Some(6400));
        assert_eq!(socket.try_send(&batch(5000)).unwrap(), Some(10_000));
        assert!(socket.try_send(&batch(0)).is_err());
        let foreign = DatagramBatch { from: Some("10.0.0.9".parse().unwrap()), ..batch(1000) };
        assert_eq!(socket.try_send(&foreign).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    });
}

#[test]
fn a_clean_network_loses_and_reorders_nothing() {
    seeds(10, |seed| {
        let world = World::new(seed, Config::default());
        assert_eq!(numbers_through(&world, 500), (0..500).collect::<Vec<_>>());
    });
}

#[test]
fn loss_duplication_and_reordering_strike_at_their_rates_and_are_counted() {
    let mut config = Config::default();
    config.net.link.loss = 0.1;
    config.net.link.duplicate = 0.1;
    config.net.link.reorder = 0.1;
    let world = World::new(1, config);
    let numbers = numbers_through(&world, 5000);
    let stats = world.net().stats();
    let mut copies = BTreeMap::new();
    numbers.iter().for_each(|&number| *copies.entry(number).or_insert(0) += 1);
    let twice = copies.values().filter(|&&count| count == 2).count() as u64;
    let overtaken = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!(stats.datagrams_sent, 5000);
    assert_eq!(5000 - copies.len() as u64, stats.lost);
    assert_eq!(twice, stats.duplicated);
    assert_eq!(stats.datagrams_delivered, numbers.len() as u64);
    for strikes in [stats.lost, stats.duplicated, stats.reordered] {
        assert!((350..650).contains(&strikes), "{stats:?}");
    }
    assert!(overtaken > 200, "{overtaken} came out of order");
}

#[test]
fn a_datagram_above_the_mtu_is_fragmented_and_vanishes_if_it_must_not_be() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    world.net().set_link(&server, &client, LinkConfig { mtu: 1400, ..LinkConfig::default() });
    client.spawn(async {
        let socket = bind("0.0.0.0:0");
        for (dont_fragment, length) in [(true, 1372), (true, 1373), (false, 1373)] {
            let bytes = pattern(length);
            let parts = [IoSlice::new(&bytes)];
            let (to, segment) = (SERVER.parse().unwrap(), length as u16);
            let batch = DatagramBatch { dont_fragment, ..DatagramBatch::new(to, segment, &parts) };
            assert_eq!(socket.try_send(&batch).unwrap(), Some(length));
        }
    });
    let received = world.block_on(&server, async { receive(&bind(SERVER)).await });
    assert_eq!(payloads(&received), [pattern(1372), pattern(1373)]);
    assert_eq!((world.net().stats().too_big, world.net().stats().fragmented), (1, 1));
}

#[test]
fn a_partition_loses_datagrams_one_way_or_both() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let net = world.net();
    net.partition_oneway(&client, &server);
    assert_eq!(numbers_through(&world, 5), []);
    net.heal(&client, &server);
    net.partition_oneway(&server, &client);
    assert_eq!(numbers_through(&world, 5), [0, 1, 2, 3, 4]);
    net.partition(&server, &client);
    assert_eq!(numbers_through(&world, 5), []);
    assert_eq!(net.stats().cut, 10);
}

#[test]
fn a_receiver_that_takes_nothing_loses_what_its_buffer_does_not_hold() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    client.spawn(async { send(&bind("0.0.0.0:0"), SERVER, 1000, &pattern(10_000)).await });
    let received = world.block_on(&server, async {
        let options = UdpOptions { recv_buffer: 4500, ..UdpOptions::default() };
        let socket = UdpSocket::bind(SERVER.parse().unwrap(), &options).unwrap();
        time::sleep(Duration::from_secs(1)).await;
        receive(&socket).await
    });
    assert_eq!(payloads(&received).concat(), pattern(10_000)[..4000]);
    assert_eq!(world.net().stats().receive_overflows, 6);
}

#[test]
fn a_narrow_link_spaces_datagrams_and_drops_what_its_queue_does_not_hold() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let link = LinkConfig {
        latency: Duration::from_millis(10),
        jitter: Duration::ZERO,
        bandwidth: Some(100_000),
        queue_bytes: 10_280,
        ..LinkConfig::default()
    };
    world.net().set_link(&server, &client, link);
    client.spawn(async { send(&bind("0.0.0.0:0"), SERVER, 1000, &pattern(20_000)).await });
    let took = world.block_on(&server, async {
        let socket = bind(SERVER);
        let mut received = Vec::new();
        let before = time::now();
        while payloads(&received).len() < 10 {
            socket.recv(&mut received, 16).await.unwrap();
        }
        time::now() - before
    });
    assert_eq!(world.net().stats().queue_overflows, 10);
    assert_eq!(took.as_millis(), 10 + 102);
}

#[test]
fn steering_sees_the_payload_and_a_socket_that_leaves_gives_its_place_to_the_last() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    world.net().steer_udp(&server, 7001, |packet| packet.payload.first().map(|&lane| lane.into()));
    let through = |place: u8| {
        world.block_on(&client, async move {
            let socket = bind("0.0.0.0:0");
            send(&socket, SERVER, 100, &[place]).await;
            let mut answer = Vec::new();
            socket.recv(&mut answer, 1).await.unwrap();
            answer[0].buf[0]
        })
    };
    let serve = |name: u8| async move {
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(SERVER.parse().unwrap(), &options).unwrap();
        loop {
            let mut received = Vec::new();
            socket.recv(&mut received, 16).await.unwrap();
            for question in received {
                send(&socket, &question.from.to_string(), 100, &[name]).await;
            }
        }
    };
    let mut tasks: Vec<_> = (0..3).map(|name| server.start_on(0, serve(name))).collect();
    world.run_for(Duration::from_millis(1));
    assert_eq!([through(0), through(1), through(2)], [0, 1, 2]);
    drop(tasks.remove(0));
    world.run_for(Duration::from_millis(1));
    assert_eq!([through(0), through(1)], [2, 1]);
}

#[test]
fn a_nat_that_forgets_shows_the_same_socket_at_another_port() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("192.168.1.2"));
    let net = world.net();
    net.put_behind_nat(&client, "203.0.113.1");
    server.spawn(async {
        let socket = bind(SERVER);
        loop {
            let mut received = Vec::new();
            socket.recv(&mut received, 16).await.unwrap();
            for question in received {
                let from = question.from.to_string();
                send(&socket, &from, 100, from.as_bytes()).await;
            }
        }
    });
    let here = client.clone();
    world.block_on(&client, async move {
        let socket = bind("192.168.1.2:5000");
        let seen_at = async || {
            send(&socket, SERVER, 100, b"where am I?").await;
            let mut answer = Vec::new();
            socket.recv(&mut answer, 1).await.unwrap();
            String::from_utf8(answer[0].buf.to_vec()).unwrap()
        };
        let first = seen_at().await;
        assert!(first.starts_with("203.0.113.1:"), "{first}");
        assert_eq!(seen_at().await, first);
        net.rebind_nat(&here);
        let second = seen_at().await;
        assert!(second.starts_with("203.0.113.1:") && second != first, "{second}");
    });
}
