//! Tests of connections that one lane of a host accepts and another serves.

use std::cell::Cell;
use std::io::IoSlice;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::backend::{ListenOptions, Released};
use lane::fs::{Dir, OpenHow};
use lane::mesh::{Limits, Mail, Member};
use lane::net::{TcpListener, TcpStream};
use lane::{spawn, time};

use super::{accept, connect, listen};

type Given = (Released, std::net::SocketAddr);

const LIMITS: Limits = Limits { messages: 4, calls: 0 };

fn shared(port: u16) -> TcpListener {
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    TcpListener::bind(([0, 0, 0, 0], port).into(), &options).unwrap()
}

/// Sends the number of the lane that runs here, and closes.
async fn say_which_lane(stream: TcpStream) {
    let number = [u8::try_from(lane::current().id().0).unwrap()];
    while stream.try_send(&[IoSlice::new(&number)], false).unwrap().is_none() {
        time::sleep(Duration::from_millis(1)).await;
    }
}

async fn which_lane(to: &str) -> u8 {
    let stream = connect(to).await.unwrap();
    stream.recv().await.unwrap()[0]
}

#[test]
fn a_connection_that_one_lane_accepted_is_served_by_another() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let server = world.host("10.0.0.1");
        assert_eq!(server.add_lane(), 1);
        server.spawn_on(1, async {
            let lane = lane::current();
            let mut port = lane
                .mesh()
                .exchange::<Given, ()>("connections", LIMITS)
                .unwrap()
                .open(lane.id().into())
                .unwrap();
            while let Some(mail) = port.recv().await {
                let Mail::Cast(_, (connection, peer)) = mail else { continue };
                say_which_lane(TcpStream::adopt(connection, peer).unwrap()).await;
            }
        });
        server.spawn(async {
            let lane = lane::current();
            let sender =
                lane.mesh().exchange::<Given, ()>("connections", LIMITS).unwrap().sender(lane.id().into());
            let listener = listen(80);
            loop {
                let stream = accept(&listener).await;
                let peer = stream.peer_addr();
                sender.cast(Member::from(1), (stream.release().unwrap(), peer)).unwrap();
            }
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async {
            for _ in 0..5 {
                assert_eq!(which_lane("10.0.0.1:80").await, 1);
            }
        });
        assert_eq!(server.counters(0).accepted.get(), 5);
    });
}

#[test]
fn a_stream_that_something_was_received_from_stays_and_one_that_is_lost_on_its_way_closes() {
    let world = World::new(1, Config::clean());
    let server = world.host("10.0.0.1");
    let lost = Rc::new(Cell::new(None));
    let kept = Rc::clone(&lost);
    server.spawn(async move {
        let listener = listen(80);
        let first = accept(&listener).await;
        assert_eq!(first.recv().await.unwrap().len(), 1);
        let first = first.release().expect_err("bytes were taken from it");
        kept.set(Some(accept(&listener).await.release().expect("nothing was asked of it")));
        drop(first);
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async move {
        let first = connect("10.0.0.1:80").await.unwrap();
        first.try_send(&[IoSlice::new(b"x")], false).unwrap();
        let second = connect("10.0.0.1:80").await.unwrap();
        assert!(first.recv().await.unwrap().is_empty(), "the lane that kept it closed it");
        drop(lost.take().expect("given away before"));
        assert!(second.recv().await.unwrap().is_empty(), "nobody serves it");
    });
    assert_eq!(server.descriptors(), 0, "all are closed, the one on its way too");
}

/// Tests a connection that first names its lane. What follows waits for the lane that gets it.
#[test]
fn a_stream_whose_first_bytes_were_received_alone_can_be_given_away() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::rough());
        let server = world.host("10.0.0.1");
        server.spawn(async move {
            let listener = listen(80);
            let stream = accept(&listener).await;
            let (result, head) = stream.recv_alone(Vec::new(), 40).await;
            result.unwrap();
            assert_eq!(head, [1; 40]);
            let peer = stream.peer_addr();
            let given = stream.release().expect("no more was asked for than has come");
            let stream = TcpStream::adopt(given, peer).unwrap();
            let (result, rest) = stream.recv_alone(Vec::new(), 100).await;
            result.unwrap();
            assert_eq!(rest, [2; 100]);
            assert_eq!(&*stream.recv().await.unwrap(), b"3", "and then as ever");
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async move {
            let stream = connect("10.0.0.1:80").await.unwrap();
            let bytes = [&[1; 40][..], &[2; 100], b"3"].concat();
            let mut sent = 0;
            while sent < bytes.len() {
                match stream.try_send(&[IoSlice::new(&bytes[sent..])], false).unwrap() {
                    Some(count) => sent += count,
                    None => stream.writable().await.unwrap(),
                }
            }
            assert!(stream.recv().await.unwrap().is_empty());
        });
    });
}

/// Tests lanes of one host that listen at one address. The group's rule says which accepts, and one that
/// leaves is passed over.
#[test]
fn lanes_share_one_port_and_steering_chooses_among_them() {
    seeds(10, |seed| {
        let world = World::new(seed, Config::default());
        let server = world.host("10.0.0.1");
        assert_eq!([server.add_lane(), server.add_lane()], [1, 2]);
        let listeners: Vec<_> = (0..3)
            .map(|at| {
                server.start_on(at, async move {
                    // Their places in the group are the order in which they bind.
                    time::sleep(Duration::from_millis(at as u64)).await;
                    let listener = shared(80);
                    loop {
                        let stream = accept(&listener).await;
                        spawn(say_which_lane(stream)).detach();
                    }
                })
            })
            .collect();
        world.run_for(Duration::from_millis(10));
        let client = world.host("10.0.0.2");
        client.add_address("10.0.0.3");
        let mut turn = 0;
        world.net().steer_tcp(&server, 80, move |_| {
            turn += 1;
            Some(turn % 3)
        });
        let served = world.block_on(&client, async {
            let mut served = Vec::new();
            for _ in 0..6 {
                served.push(which_lane("10.0.0.1:80").await);
            }
            served
        });
        assert_eq!(served, [1, 2, 0, 1, 2, 0]);
        drop(listeners);
    });
}

#[test]
fn lanes_of_one_host_have_one_port_space_one_file_system_and_one_clock() {
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    assert_eq!(host.add_lane(), 1);
    host.fs().create_dir_all("/srv").unwrap();
    host.fs().write("/srv/file", "content").unwrap();
    let other = host.start_on(1, async {
        let _listener = listen(80);
        time::sleep(Duration::from_secs(1)).await;
        time::now()
    });
    world.block_on(&host, async move {
        time::sleep(Duration::from_millis(1)).await;
        let second = TcpListener::bind(([0, 0, 0, 0], 80).into(), &ListenOptions::default());
        assert_eq!(second.err().map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        root.open(&c"file".into(), OpenHow::FOLLOW).await.unwrap();
        assert_eq!(other.await, time::now());
    });
}
