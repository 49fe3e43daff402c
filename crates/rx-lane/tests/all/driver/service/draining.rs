//! Tests of servers that end under load.

use super::*;

/// Ends a server while clients call in a loop, with calls that take their time.
#[test]
fn drain_under_load_lets_calls_end_and_says_how_many_it_cut() {
    seeds(30, |seed| {
        let service = async move |mut call: ServerCall| {
            let request = call.read_to_end(100_000).await?;
            let pause = u64::from(request.first().copied().unwrap_or(0)) * 10;
            lane::time::sleep(Duration::from_millis(pause)).await;
            call.write(&request).await?;
            call.finish().await
        };
        let pair = Pair::new(seed, lossy(seed), config(), service);
        let (ended, told) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let clients: Vec<_> = (0..3)
            .map(|n| {
                let (ended, told) = (Rc::clone(&ended), Rc::clone(&told));
                let host = pair.world.host(&format!("10.0.1.{n}"));
                host.start_on(0, async move {
                    let driver = start(([10, 0, 1, n], 0), seed * 10 + u64::from(n), config());
                    let connection = driver.connect(SERVER.into(), SERVICE, &Anonymous).unwrap();
                    let loops = (0..4).map(|at| {
                        let connection = connection.clone();
                        let (ended, told) = (Rc::clone(&ended), Rc::clone(&told));
                        let mut rng = StdRng::seed_from_u64(seed * 100 + u64::from(n) * 10 + at);
                        lane::spawn(async move {
                            loop {
                                let mut request = pattern(rng.random_range(1..60_000));
                                request[0] = rng.random();
                                match ask(&connection, &request).await {
                                    Ok(reply) => assert!(reply == request),
                                    Err(CallError::Aborted(abort::RESTARTING)) => break,
                                    Err(error) => panic!("seed {seed}: {error}"),
                                }
                                ended.set(ended.get() + 1);
                            }
                            told.set(told.get() + 1);
                        })
                    });
                    for task in loops.collect::<Vec<_>>() {
                        task.await;
                    }
                    // And so from now on.
                    let fresh = driver.connect(SERVER.into(), SERVICE, &Anonymous).unwrap();
                    assert_eq!(ask(&fresh, b"more").await, Err(CallError::Aborted(abort::RESTARTING)));
                })
            })
            .collect();
        pair.world.run_for(Duration::from_secs(5));
        assert!(ended.get() > 0 && told.get() == 0);
        let within = Duration::from_millis([0, 300, 20_000][seed as usize % 3]);
        let driver = pair.driver();
        let drained = pair.world.block_on(&pair.server, async move { driver.drain(within).await });
        let counters = pair.counters();
        assert_eq!((drained.cut as u64, drained.shielded), (counters.calls_cut.get(), 0), "seed {seed}");
        if within > Duration::from_secs(10) {
            assert_eq!(drained.cut, 0, "seed {seed}: all had time to end");
        }
        assert!(within > Duration::ZERO || drained.cut > 0, "seed {seed}");
        let waits = pair.world.host("10.0.2.1");
        pair.world.block_on(&waits, async move {
            for client in clients {
                client.await;
            }
        });
        assert_eq!(told.get(), 12, "seed {seed}");
        assert!(counters.calls_refused.get() > 0);
        pair.assert_books_balance();
    });
}

/// Ends a drain in time, with clients that neither send nor read, and a handler that is shielded.
#[test]
fn drain_ends_at_its_deadline_whatever_clients_and_handlers_do() {
    let pair = Pair::new(9, Config::default(), config(), async |mut call: ServerCall| {
        let mut first = [0; 1];
        call.read_exact(&mut first).await?;
        let _shield = (first == *b"s").then(|| call.shield());
        call.write(&pattern(3_000_000))
            .await
            .or_else(|error| if first == *b"s" { Ok(()) } else { Err(error) })?;
        lane::time::sleep(Duration::from_secs(30)).await;
        call.finish().await
    });
    let kept = pair.run(async |driver, connection| {
        let mut calls = Vec::new();
        for first in [b"s", b"x", b"y"] {
            let mut call = connection.call().await.unwrap();
            call.write(first).await.unwrap();
            call.flush().await.unwrap();
            calls.push(call);
        }
        lane::time::sleep(Duration::from_secs(1)).await;
        (driver, calls)
    });
    let driver = pair.driver();
    let began = pair.world.now();
    let drained =
        pair.world.block_on(&pair.server, async move { driver.drain(Duration::from_secs(2)).await });
    assert!(pair.world.now() - began < Duration::from_secs(3));
    assert_eq!((drained.cut, drained.shielded), (3, 1));
    pair.world.run_for(Duration::from_secs(60));
    assert_eq!(pair.counters().handlers.get(), 0);
    pair.world.block_on(&pair.client, async move {
        let (_driver, calls) = kept;
        for mut call in calls {
            assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(abort::RESTARTING)));
        }
    });
}
