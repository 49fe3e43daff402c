use std::cell::Cell;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::backend::sim::{Config, Remains, World, seeds};
use lane::backend::{DatagramBatch, UdpOptions};
use lane::buffer::BufClass;
use lane::fs::Dir;
use lane::net::UdpSocket;
use lane::{spawn, time};

use crate::sim::{connect, echo_server, listen, pattern, receive_all, send};

#[test]
fn time_passes_only_when_every_lane_is_idle() {
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    let began = Instant::now();
    let slept = world.block_on(&host, async {
        let before = time::now();
        for _ in 0..1000 {
            lane::yield_now().await;
        }
        assert_eq!(time::now(), before);
        time::sleep(Duration::from_secs(3600)).await;
        time::now() - before
    });
    assert_eq!(slept, Duration::from_secs(3600));
    assert_eq!(world.now(), slept);
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let run = |seed| {
        let world = World::new(seed, Config::rough());
        let server = world.host("10.0.0.1");
        server.fs().write("/srv/a", pattern(10_000)).unwrap();
        server.spawn(echo_server(80));
        let client = world.host("10.0.0.2");
        world.block_on(&client, async {
            let stream = connect("10.0.0.1:80").await.unwrap();
            send(&stream, &pattern(50_000)).await.unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(receive_all(&stream).await.unwrap(), pattern(50_000));
        });
        (world.trace_hash(), world.now())
    };
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
        assert_ne!(run(seed), run(seed + 1), "seed {seed}");
    }
}

#[test]
fn the_same_seed_repeats_lost_datagrams_failing_disks_and_power_cuts() {
    let run = |seed| {
        let mut config = Config::rough();
        config.net.tcp.reset = 0.01;
        config.fs.read_error = 0.1;
        let world = World::new(seed, config);
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        let writer = server.fs().writer("/srv/file").unwrap();
        writer.write_at(0, &pattern(20_000)).unwrap();
        let serve = || async {
            lane::spawn(echo_server(80)).detach();
            let udp = UdpSocket::bind("0.0.0.0:7".parse().unwrap(), &UdpOptions::default()).unwrap();
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            loop {
                let mut received = Vec::new();
                udp.recv(&mut received, 4).await.unwrap();
                let Ok(entries) = root.entries(10).await else { continue };
                let parts = [IoSlice::new(&entries[0].name)];
                let batch = DatagramBatch::new(received[0].from, 2, &parts);
                let _ = udp.try_send(&batch);
            }
        };
        server.spawn(serve());
        client.spawn(async {
            let udp = UdpSocket::bind("0.0.0.0:0".parse().unwrap(), &UdpOptions::default()).unwrap();
            let to = "10.0.0.1:7".parse().unwrap();
            loop {
                let parts = [IoSlice::new(b"what is there?")];
                let _ = udp.try_send(&DatagramBatch::new(to, 3, &parts));
                let mut received = Vec::new();
                let _ = time::timeout(Duration::from_millis(50), udp.recv(&mut received, 4)).await;
            }
        });
        client.spawn(async {
            loop {
                let Ok(stream) = connect("10.0.0.1:80").await else { continue };
                let _ = send(&stream, &pattern(5000)).await;
                let _ = time::timeout(Duration::from_millis(500), stream.recv()).await;
            }
        });
        world.run_for(Duration::from_secs(2));
        server.lose_power();
        let torn = server.fs().read("/srv/file").unwrap();
        world.run_for(Duration::from_secs(1));
        server.restart();
        server.spawn(serve());
        world.run_for(Duration::from_secs(2));
        (world.trace_hash(), world.net().stats(), torn)
    };
    for seed in 0..5 {
        let (first, second) = (run(seed), run(seed));
        assert!(first == second, "seed {seed}: {:?} and {:?}", first.1, second.1);
        let stats = first.1;
        assert!(stats.lost > 0 && stats.cut > 0 && stats.refused + stats.resets > 0, "{stats:?}");
        assert!(stats.datagrams_delivered > 20 && stats.connections > 5, "{stats:?}");
    }
}

#[test]
fn nothing_is_lent_and_nothing_is_open_once_the_tasks_are_gone() {
    seeds(30, |seed| {
        let world = World::new(seed, Config::rough());
        let server = world.host("10.0.0.1");
        server.fs().write("/srv/a", pattern(100_000)).unwrap();
        server.spawn(echo_server(80));
        let client = world.host("10.0.0.2");
        world.block_on(&client, async move {
            for _ in 0..3 {
                // Left in the middle of whatever they do.
                spawn(async {
                    let stream = connect("10.0.0.1:80").await.unwrap();
                    let mut buf = lane::current().buffers().get(BufClass::Large).await;
                    buf.append(&pattern(200_000));
                    let _ = stream.send(buf, false).await;
                    time::sleep(Duration::from_secs(3600)).await;
                })
                .detach();
            }
            time::sleep(Duration::from_millis(seed % 30)).await;
        });
        let pools = [server.buffers(0), client.buffers(0)];
        assert_eq!(world.end(), Remains::default());
        for pool in pools {
            for class in [BufClass::Small, BufClass::Large] {
                let usage = pool.usage(class);
                assert_eq!((usage.free, usage.in_use), (usage.allocated, 0));
            }
        }
    });
}

#[test]
fn a_descriptor_that_lost_its_owner_fails_the_test() {
    let panic = catch_unwind(|| {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async { std::mem::forget(listen(80)) });
    })
    .unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("1 descriptors leaked"), "{message}");
}

#[test]
fn dropping_the_world_drops_what_its_tasks_own() {
    let alive = Rc::new(());
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    let held = (Rc::clone(&alive), host.clone());
    host.spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    world.run_for(Duration::from_secs(1));
    assert_eq!(Rc::strong_count(&alive), 2);
    drop(world);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn a_world_where_nothing_can_happen_any_more_panics_with_its_seed_and_state() {
    let panic = catch_unwind(|| {
        let world = World::new(4711, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let listener = listen(80);
            listener.accept().await.unwrap();
        });
    })
    .unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("deadlock"), "{message}");
    assert!(message.contains("10.0.0.1 lane 0: 1 tasks, 0 timers"), "{message}");
    assert!(message.contains("LANE_SIM_SEED=4711 cargo test -p lane sim::world::a_world"), "{message}");
}

#[test]
fn a_world_that_never_ends_panics_at_its_limit() {
    let panic = catch_unwind(|| {
        let config = Config { time_limit: Duration::from_secs(60), ..Config::default() };
        let world = World::new(1, config);
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            loop {
                time::sleep(Duration::from_secs(1)).await;
            }
        });
    })
    .unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().starts_with("nothing has ended within 60s"));
}

#[test]
fn seeds_stop_at_the_first_that_fails() {
    if std::env::var_os("LANE_SIM_SEED").is_some() || std::env::var_os("LANE_SIM_SEEDS").is_some() {
        return testkit::skip("LANE_SIM_SEED or LANE_SIM_SEEDS chooses other seeds");
    }
    let ran = Cell::new(0);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        seeds(10, |_| {
            ran.set(ran.get() + 1);
            assert!(ran.get() < 3);
        });
    }));
    assert!(failed.is_err());
    assert_eq!(ran.get(), 3);
}
