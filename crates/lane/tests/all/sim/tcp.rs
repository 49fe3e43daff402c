use std::cell::Cell;
use std::io::{ErrorKind, IoSlice};
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Host, LinkConfig, ReceiveConfig, World, seeds};
use lane::backend::{ListenOptions, SocketOption};
use lane::net::{TcpListener, TcpStream};
use lane::{spawn, time};

use crate::sim::{connect, echo_server, listen, pattern, receive_all, send};

#[test]
fn bytes_arrive_in_order_and_the_end_is_seen_whatever_the_network_does() {
    seeds(100, |seed| {
        let world = World::new(seed, if seed % 2 == 0 { Config::default() } else { Config::rough() });
        let server = world.host("10.0.0.1");
        server.spawn(echo_server(80));
        let client = world.host("10.0.0.2");
        world.block_on(&client, async {
            let stream = Rc::new(connect("10.0.0.1:80").await.unwrap());
            let sender = Rc::clone(&stream);
            let sending = spawn(async move {
                send(&sender, &pattern(100_000)).await.unwrap();
                sender.shutdown(Shutdown::Write).unwrap();
            });
            assert!(receive_all(&stream).await.unwrap() == pattern(100_000));
            sending.await;
            assert!(stream.recv().await.unwrap().is_empty());
        });
        drop(client);
        world.run_for(Duration::from_secs(600));
        assert_eq!(world.net().connections(), 0, "a connection that both ended holds no state");
    });
}

#[test]
fn an_accepted_stream_ends_where_the_peers_host_is_gone_and_stays_where_it_is_silent() {
    /// Returns the end of the stream within half an hour, or `None`.
    fn end(trouble: impl FnOnce(&World, &Host, &Host)) -> Option<ErrorKind> {
        let world = World::new(1, Config::clean());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        let told = Rc::new(Cell::new(None));
        let tell = Rc::clone(&told);
        server.spawn(async move {
            let stream = listen(80).accept().await.unwrap();
            tell.set(Some(stream.recv().await.unwrap_err().kind()));
        });
        client.spawn(async {
            let _stream = connect("10.0.0.1:80").await.unwrap();
            std::future::pending::<()>().await;
        });
        world.run_for(Duration::from_secs(10));
        trouble(&world, &server, &client);
        world.run_for(Duration::from_secs(1800));
        told.get()
    }
    assert_eq!(end(|_, _, _| ()), None, "silent, but there");
    assert_eq!(end(|_, _, client| client.lose_power()), Some(ErrorKind::TimedOut));
    assert_eq!(end(|world, server, client| world.net().partition(server, client)), Some(ErrorKind::TimedOut));
    let comes_back = |world: &World, _: &Host, client: &Host| {
        client.lose_power();
        world.run_for(Duration::from_secs(20));
        client.restart();
    };
    assert_eq!(end(comes_back), Some(ErrorKind::ConnectionReset));
    let cut_for_a_while = |world: &World, server: &Host, client: &Host| {
        world.net().partition(server, client);
        world.run_for(Duration::from_secs(100));
        world.net().heal(server, client);
    };
    assert_eq!(end(cut_for_a_while), None);
}

#[test]
fn a_receiver_that_takes_nothing_stops_the_sender_at_the_buffers() {
    let mut config = Config::clean();
    config.net.tcp.send_buffer = 10_000;
    config.net.tcp.recv_buffer = 20_000;
    let world = World::new(1, config);
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        time::sleep(Duration::from_secs(1000)).await;
        let received = receive_all(&stream).await.unwrap();
        assert!(received == pattern(100_000)[..received.len()]);
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let stream = connect("10.0.0.1:80").await.unwrap();
        let bytes = pattern(100_000);
        let mut sent = 0;
        while let Ok(writable) = time::timeout(Duration::from_secs(10), stream.writable()).await {
            writable.unwrap();
            sent += stream.try_send(&[IoSlice::new(&bytes[sent..])], false).unwrap().unwrap_or(0);
        }
        assert_eq!(sent, 30_000);
        assert_eq!(
            stream.unacknowledged().unwrap(),
            10_000,
            "the receiver's host has acknowledged what it holds"
        );
        stream.writable().await.unwrap();
        send(&stream, &bytes[sent..]).await.unwrap();
    });
    world.run_for(Duration::from_secs(10));
}

#[test]
fn a_stream_takes_no_more_than_may_wait_unsent_and_more_below_half_of_that() {
    let mut config = Config::clean();
    config.net.tcp.send_buffer = 100_000;
    config.net.tcp.recv_buffer = 20_000;
    let world = World::new(1, config);
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        time::sleep(Duration::from_secs(100)).await;
        assert!(receive_all(&stream).await.unwrap() == pattern(100_000));
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let stream = connect("10.0.0.1:80").await.unwrap();
        stream.set_option(SocketOption::UnsentMax(10_000)).unwrap();
        let bytes = pattern(100_000);
        let mut sent = 0;
        while let Ok(writable) = time::timeout(Duration::from_secs(10), stream.writable()).await {
            writable.unwrap();
            sent += stream.try_send(&[IoSlice::new(&bytes[sent..])], false).unwrap().unwrap_or(0);
        }
        assert!((25_000..=30_000).contains(&sent), "what the receiver holds, and what may wait: {sent}");
        stream.writable().await.unwrap();
        send(&stream, &bytes[sent..]).await.unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    world.run_for(Duration::from_secs(200));
}

#[test]
fn clients_that_are_not_heard_keep_nobody_waiting_and_hold_a_bounded_part() {
    seeds(20, |seed| {
        let mut config = Config::default();
        // Bytes that come one by one as well as more than the receive ring at once.
        config.net.receive = ReceiveConfig { buffers: 64, buffer_bytes: 2048, ..ReceiveConfig::default() };
        let world = World::new(seed, config);
        let server = world.host("10.0.0.1");
        server.spawn(async {
            let listener = listen(80);
            loop {
                let stream = crate::sim::accept(&listener).await;
                spawn(async move {
                    let first = stream.recv().await.unwrap();
                    if first[0] == b'g' {
                        send(&stream, &first).await.unwrap();
                        assert!(receive_all(&stream).await.unwrap().is_empty());
                    }
                    // The others' answers take for ever, and their tasks listen no more.
                    time::sleep(Duration::from_secs(3600)).await;
                })
                .detach();
            }
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async {
            let mut bad = Vec::new();
            for _ in 0..160 {
                let stream = connect("10.0.0.1:80").await.unwrap();
                send(&stream, b"bad").await.unwrap();
                bad.push(stream);
            }
            for round in 0..12 {
                for stream in &bad {
                    let bytes = if round < 10 { pattern(1) } else { pattern(5000) };
                    stream.try_send(&[IoSlice::new(&bytes)], false).unwrap();
                }
                time::sleep(Duration::from_millis(50)).await;
                let before = time::now();
                let good = connect("10.0.0.1:80").await.unwrap();
                send(&good, b"g").await.unwrap();
                assert_eq!(*good.recv().await.unwrap(), *b"g");
                assert!(time::now() - before < Duration::from_millis(10));
                good.shutdown(Shutdown::Write).unwrap();
            }
        });
        let counters = server.counters(0);
        assert!(counters.recv_starved.get() <= 2 * 160, "{}", counters.recv_starved.get());
        assert!(counters.recv_copied.get() >= 160, "{}", counters.recv_copied.get());
        let held = counters.recv_held_bytes.get();
        assert!(held > 0 && held <= 5 * 64 * 2048, "{held} bytes");
    });
}

#[test]
fn a_stream_takes_the_time_that_latency_and_bandwidth_give() {
    let mut config = Config::clean();
    config.net.link = LinkConfig {
        latency: Duration::from_millis(10),
        jitter: Duration::ZERO,
        bandwidth: Some(1_000_000),
        ..LinkConfig::default()
    };
    let world = World::new(1, config);
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        send(&stream, &pattern(1_000_000)).await.unwrap();
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let before = time::now();
        let stream = connect("10.0.0.1:80").await.unwrap();
        assert_eq!(time::now() - before, Duration::from_millis(20));
        assert_eq!(receive_all(&stream).await.unwrap().len(), 1_000_000);
        let took = (time::now() - before).as_secs_f64();
        assert!((1.0..1.2).contains(&took), "{took} s");
    });
}

#[test]
fn a_paced_stream_keeps_to_its_rate() {
    let world = World::new(1, Config::default());
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        stream.set_option(SocketOption::PacingRate(100_000)).unwrap();
        send(&stream, &pattern(1_000_000)).await.unwrap();
    });
    let client = world.host("10.0.0.2");
    let took = world.block_on(&client, async {
        let before = time::now();
        let stream = connect("10.0.0.1:80").await.unwrap();
        receive_all(&stream).await.unwrap();
        time::now() - before
    });
    assert!((9.0..11.0).contains(&took.as_secs_f64()), "{took:?}");
}

#[test]
fn a_port_nobody_listens_on_refuses_and_an_address_nobody_has_is_unreachable() {
    let world = World::new(1, Config::default());
    world.host("10.0.0.1");
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let refused = connect("10.0.0.1:80").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let unreachable = connect("10.0.0.9:80").await.unwrap_err();
        assert_eq!(unreachable.kind(), ErrorKind::HostUnreachable);
    });
}

#[test]
fn a_full_accept_queue_puts_clients_off_until_there_is_room() {
    let world = World::new(1, Config::clean());
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
        let listener = TcpListener::bind("10.0.0.1:80".parse().unwrap(), &options).unwrap();
        time::sleep(Duration::from_secs(2)).await;
        let mut accepted = Vec::new();
        loop {
            accepted.push(listener.accept().await.unwrap());
        }
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let before = time::now();
        let connects: Vec<_> = (0..3).map(|_| spawn(connect("10.0.0.1:80"))).collect();
        let mut waits = Vec::new();
        for connected in connects {
            connected.await.unwrap();
            waits.push((time::now() - before).as_secs());
        }
        assert_eq!(waits, [0, 0, 3]);
    });
    assert_eq!(world.net().stats().accept_overflows, 2);
}

#[test]
fn descriptors_run_out_and_the_waiting_connection_is_accepted_later() {
    let world = World::new(1, Config::default());
    let server = world.host("10.0.0.1");
    server.set_descriptors_max(2);
    server.spawn(async {
        let listener = listen(80);
        let first = listener.accept().await.unwrap();
        let refused = listener.accept().await.unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
        drop(first);
        let second = listener.accept().await.unwrap();
        send(&second, b"second").await.unwrap();
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let _first = connect("10.0.0.1:80").await.unwrap();
        let second = connect("10.0.0.1:80").await.unwrap();
        assert_eq!(receive_all(&second).await.unwrap(), b"second");
    });
}

#[test]
fn a_reset_tells_the_peer_that_what_it_has_is_not_the_whole() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let server = world.host("10.0.0.1");
        server.spawn(async {
            let stream = listen(80).accept().await.unwrap();
            send(&stream, &pattern(5000)).await.unwrap();
            stream.reset();
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async {
            let stream = connect("10.0.0.1:80").await.unwrap();
            let reset = receive_all(&stream).await.unwrap_err();
            assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
            assert!(stream.recv().await.unwrap().is_empty());
            let broken = stream.try_send(&[IoSlice::new(b"x")], false).unwrap_err();
            assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
        });
    });
}

#[test]
fn closing_with_bytes_untaken_resets_the_peer() {
    let world = World::new(1, Config::default());
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        time::sleep(Duration::from_secs(1)).await;
        drop(stream);
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let stream = connect("10.0.0.1:80").await.unwrap();
        send(&stream, b"never taken").await.unwrap();
        assert_eq!(stream.recv().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_partition_stalls_a_stream_and_its_end_lets_it_go_on() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.spawn(echo_server(80));
        let net = world.net();
        let server = server.clone();
        let here = client.clone();
        world.block_on(&client, async move {
            let stream = connect("10.0.0.1:80").await.unwrap();
            net.partition(&here, &server);
            send(&stream, b"through the cut").await.unwrap();
            let nothing = time::timeout(Duration::from_secs(30), stream.recv()).await;
            assert!(nothing.is_err());
            net.heal(&here, &server);
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(receive_all(&stream).await.unwrap(), b"through the cut");
        });
    });
}

#[test]
fn a_partition_that_stays_breaks_the_sender_and_the_end_that_asks_and_leaves_another_unaware() {
    let world = World::new(1, Config::default());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        let ended = time::timeout(Duration::from_secs(1000), stream.recv()).await;
        assert_eq!(ended.expect("it asks").unwrap_err().kind(), ErrorKind::TimedOut);
    });
    let (net, far, here) = (world.net(), server.clone(), client.clone());
    world.block_on(&client, async move {
        let stream = connect("10.0.0.1:80").await.unwrap();
        net.partition(&here, &far);
        send(&stream, b"lost").await.unwrap();
        assert_eq!(stream.recv().await.unwrap_err().kind(), ErrorKind::TimedOut);
        net.heal_all();
        let refused = connect("10.0.0.1:81").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        time::sleep(Duration::from_secs(2000)).await;
    });
}

#[test]
fn a_cork_holds_small_parts_back_for_a_fifth_of_a_second_at_most() {
    let world = World::new(1, Config::clean());
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = listen(80).accept().await.unwrap();
        stream.try_send(&[IoSlice::new(b"head")], true).unwrap();
        stream.try_send(&[IoSlice::new(b"body")], false).unwrap();
        time::sleep(Duration::from_secs(1)).await;
        stream.try_send(&[IoSlice::new(b"forgotten")], true).unwrap();
        time::sleep(Duration::from_secs(1)).await;
    });
    let client = world.host("10.0.0.2");
    world.block_on(&client, async {
        let stream = connect("10.0.0.1:80").await.unwrap();
        assert_eq!(&stream.recv().await.unwrap()[..], b"headbody");
        let before = time::now();
        assert_eq!(&stream.recv().await.unwrap()[..], b"forgotten");
        assert!(time::now() - before >= Duration::from_millis(1199));
    });
}

#[test]
fn dropped_operations_never_touch_a_reused_descriptor() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let listener = listen(0);
            let addr = listener.local_addr().unwrap();
            let addr = std::net::SocketAddr::from(([127, 0, 0, 1], addr.port()));
            for _ in 0..10 {
                let _client = TcpStream::connect(addr).await.unwrap();
                let server = listener.accept().await.unwrap();
                let mut buf = lane::current().buffers().get(lane::buffer::BufClass::Small).await;
                buf.append(b"stale");
                let mut send = Box::pin(server.send(buf, false));
                std::future::poll_fn(|cx| {
                    let _ = send.as_mut().poll(cx);
                    std::task::Poll::Ready(())
                })
                .await;
                drop(send);
                drop(server);
                let client2 = TcpStream::connect(addr).await.unwrap();
                let server2 = listener.accept().await.unwrap();
                server2.try_send(&[IoSlice::new(b"fresh")], false).unwrap();
                assert!(b"fresh".starts_with(&client2.recv().await.unwrap()[..]));
            }
        });
    });
}

#[test]
fn steering_chooses_the_listener_and_the_hash_takes_over_where_it_does_not() {
    let world = World::new(1, Config::default());
    let server = world.host("10.0.0.1");
    let second = server.add_lane();
    for lane in [0, second] {
        server.spawn_on(lane, async {
            let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
            let listener = TcpListener::bind("10.0.0.1:80".parse().unwrap(), &options).unwrap();
            loop {
                let stream = listener.accept().await.unwrap();
                send(&stream, &[lane::current().id().0 as u8]).await.unwrap();
            }
        });
    }
    world.run_for(Duration::from_millis(1));
    let client = world.host("10.0.0.2");
    let lanes_reached = |count: usize| {
        world.block_on(&client, async move {
            let mut lanes = Vec::new();
            for _ in 0..count {
                let stream = connect("10.0.0.1:80").await.unwrap();
                lanes.extend(receive_all(&stream).await.unwrap());
            }
            lanes
        })
    };
    let by_hash = lanes_reached(40);
    assert!(by_hash.contains(&0) && by_hash.contains(&1), "{by_hash:?}");
    world.net().steer_tcp(&server, 80, |_| Some(1));
    let steered = lanes_reached(10);
    assert!(steered.iter().all(|&lane| lane == steered[0]), "{steered:?}");
    world.net().steer_tcp(&server, 80, |_| Some(7));
    let fallen_back = lanes_reached(40);
    assert!(fallen_back.contains(&0) && fallen_back.contains(&1), "{fallen_back:?}");
}
