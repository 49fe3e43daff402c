use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Remains, World, seeds};
use lane::buffer::BufClass;
use lane::net::TcpStream;
use lane::{spawn, time};

use crate::sim::{accept, connect, echo_server, listen, pattern, send};

/// Sends a message over a new connection and returns the echo.
async fn echo(message: &[u8]) -> std::io::Result<Vec<u8>> {
    let stream = connect("10.0.0.1:80").await?;
    echo_over(&stream, message).await
}

async fn echo_over(stream: &TcpStream, message: &[u8]) -> std::io::Result<Vec<u8>> {
    send(stream, message).await?;
    let mut answer = Vec::new();
    while answer.len() < message.len() {
        let bytes = stream.recv().await?;
        if bytes.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&bytes);
    }
    Ok(answer)
}

#[test]
fn a_host_without_power_is_silent_and_resets_what_it_has_forgotten_once_it_is_back() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.spawn(echo_server(80));
        let far = server.clone();
        world.block_on(&client, async move {
            let before = connect("10.0.0.1:80").await.unwrap();
            assert_eq!(echo_over(&before, b"one").await.unwrap(), b"one");
            far.lose_power();
            let silence = time::timeout(Duration::from_secs(20), echo_over(&before, b"two")).await;
            assert!(silence.is_err());
            assert!(time::timeout(Duration::from_secs(5), connect("10.0.0.1:80")).await.is_err());
            far.restart();
            let forgotten = before.recv().await.unwrap_err();
            assert_eq!(forgotten.kind(), ErrorKind::ConnectionReset);
            assert_eq!(echo(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
            far.spawn(echo_server(80));
            time::sleep(Duration::from_millis(1)).await;
            assert_eq!(echo(b"three").await.unwrap(), b"three");
        });
        assert_eq!(world.end(), Remains::default());
    });
}

#[test]
fn a_loss_of_power_drops_tasks_and_leaves_nothing_lent_or_open() {
    seeds(30, |seed| {
        let world = World::new(seed, Config::rough());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.fs().write("/srv/file", pattern(100_000)).unwrap();
        let alive = Rc::new(());
        let held = Rc::clone(&alive);
        server.spawn(async move {
            let _held = held;
            echo_server(80).await;
        });
        for _ in 0..5 {
            client.spawn(async {
                // Cut off wherever it is. A host that only waits for another one that has forgotten never
                // learns of it.
                let _ = time::timeout(Duration::from_secs(300), echo(&pattern(50_000))).await;
            });
        }
        world.run_for(Duration::from_millis(20 * seed));
        let pool = server.buffers(0);
        server.lose_power();
        assert_eq!(Rc::strong_count(&alive), 1);
        assert_eq!(server.descriptors(), 0);
        assert_eq!((pool.usage(BufClass::Small).in_use, pool.usage(BufClass::Large).in_use), (0, 0));
        server.restart();
        world.run_for(Duration::from_secs(1000));
        assert_eq!(client.descriptors(), 0);
        assert_eq!(world.end(), Remains::default());
    });
}

#[test]
fn a_middlebox_that_resets_breaks_both_ends() {
    let world = World::new(1, Config::default());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let server_error = Rc::new(Cell::new(None));
    let told = Rc::clone(&server_error);
    server.spawn(async move {
        let stream = listen(80).accept().await.unwrap();
        told.set(Some(stream.recv().await.unwrap_err().kind()));
    });
    let (net, here) = (world.net(), client.clone());
    world.block_on(&client, async move {
        let stream = connect("10.0.0.1:80").await.unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(net.reset_connections(&here, &server), 1);
        assert_eq!(stream.recv().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
    world.run_for(Duration::from_millis(1));
    assert_eq!(server_error.get(), Some(ErrorKind::ConnectionReset));
}

#[test]
fn random_resets_strike_some_and_nobody_gets_wrong_bytes() {
    let (broken, whole) = (Cell::new(0), Cell::new(0));
    seeds(100, |seed| {
        let mut config = Config::rough();
        config.net.tcp.reset = 0.02;
        let world = World::new(seed, config);
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.spawn(echo_server(80));
        let result = world.block_on(&client, async { echo(&pattern(20_000)).await });
        match result {
            Ok(answer) => {
                assert!(answer == pattern(20_000));
                whole.set(whole.get() + 1);
            }
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
                    "{error}"
                );
                broken.set(broken.get() + 1);
            }
        }
        assert_eq!(world.end(), Remains::default());
    });
    let (broken, whole) = (broken.get(), whole.get());
    assert!(
        broken + whole < 100 || (broken * 10 > whole && whole * 10 > broken),
        "{broken} broke, {whole} not"
    );
}

#[test]
fn accepts_that_fail_lose_no_connection() {
    let mut config = Config::default();
    config.net.tcp.accept_error = 0.5;
    let world = World::new(1, config);
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    server.spawn(async {
        let listener = listen(80);
        loop {
            let stream = accept(&listener).await;
            send(&stream, b"welcome").await.unwrap();
        }
    });
    world.block_on(&client, async {
        for _ in 0..20 {
            let stream = connect("10.0.0.1:80").await.unwrap();
            assert_eq!(crate::sim::receive_all(&stream).await.unwrap(), b"welcome");
        }
    });
    assert!(server.counters(0).accept_errors.get() > 5);
    assert_eq!(server.counters(0).accepted.get(), 20);
}

#[test]
fn faults_come_and_go_while_the_world_runs_and_every_client_is_served_in_the_end() {
    seeds(60, |seed| {
        let world = World::new(seed, Config::rough());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.spawn(echo_server(80));
        let (net, chaos, far, here) = (world.net(), world.host("10.0.0.3"), server.clone(), client.clone());
        chaos.spawn(async move {
            for round in 0..6 {
                time::sleep(Duration::from_millis(500)).await;
                match round % 3 {
                    0 => net.partition(&here, &far),
                    1 => net.heal_all(),
                    _ => {
                        far.lose_power();
                        far.restart();
                        far.spawn(echo_server(80));
                    }
                }
            }
        });
        world.block_on(&client, async {
            let clients: Vec<_> = (1..6)
                .map(|n| {
                    spawn(async move {
                        let message = pattern(5000 * n);
                        let patience = Duration::from_secs(30);
                        loop {
                            match time::timeout(patience, echo(&message)).await {
                                Ok(Ok(answer)) => return assert!(answer == message),
                                Ok(Err(_)) => time::sleep(Duration::from_millis(100)).await,
                                Err(time::Elapsed) => {}
                            }
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await;
            }
        });
        assert_eq!(world.end(), Remains::default());
    });
}
