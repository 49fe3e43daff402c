use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Remains, World};
use lane::net::TcpListener;
use lane::{Ended, time};

use crate::sim::{connect, listen};

/// Accepts connections, and panics at every one but each third.
fn accept_badly(listener: &Rc<TcpListener>, accepted: &Rc<Cell<u32>>) -> impl Future<Output = Ended> + use<> {
    let (listener, accepted) = (Rc::clone(listener), Rc::clone(accepted));
    async move {
        loop {
            let _stream = listener.accept().await;
            accepted.set(accepted.get() + 1);
            assert!(accepted.get().is_multiple_of(3), "expected by the test");
        }
    }
}

#[test]
fn an_essential_task_that_panics_is_begun_again_after_a_pause() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    server.contain_panics(0);
    let accepted = Rc::new(Cell::new(0));
    let counted = Rc::clone(&accepted);
    server.spawn(async move {
        let listener = Rc::new(listen(80));
        lane::spawn_restarting("accept loop", move || accept_badly(&listener, &counted)).await;
    });
    world.block_on(&client, async {
        for n in 0..6 {
            // Waits in the queue while the loop rests.
            connect("10.0.0.1:80").await.unwrap();
            time::sleep(Duration::from_secs(if n == 3 { 70 } else { 1 })).await;
        }
    });
    let counters = server.counters(0);
    assert_eq!(accepted.get(), 6);
    assert_eq!(
        (counters.essential_restarts.get(), counters.task_panics.get(), counters.failed.get()),
        (4, 4, 0)
    );
    assert_eq!(world.end(), Remains::default());
}

#[test]
fn an_essential_task_that_fails_again_and_again_ends_its_lane() {
    for ended in [Some(Ended::Unexpectedly), None] {
        let world = World::new(1, Config::clean());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.contain_panics(0);
        server.spawn(async move {
            let _listener = listen(80);
            let failing = lane::spawn_restarting("change listener", move || async move {
                time::sleep(Duration::from_millis(1)).await;
                ended.expect("panics where nothing is given")
            });
            failing.await;
            std::future::pending::<()>().await;
        });
        world.block_on(&client, async {
            connect("10.0.0.1:80").await.unwrap();
            // 10 ms, doubled six times.
            time::sleep(Duration::from_millis(1000)).await;
            connect("10.0.0.1:80").await.unwrap();
            time::sleep(Duration::from_millis(400)).await;
            let refused = connect("10.0.0.1:80").await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        });
        let counters = server.counters(0);
        assert_eq!((counters.essential_restarts.get(), counters.failed.get()), (7, 1));
        assert_eq!(server.descriptors(), 0);
        assert_eq!(world.end(), Remains::default());
    }
}

#[test]
fn an_essential_task_that_is_done_leaves_its_lane_alone() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    host.contain_panics(0);
    world.block_on(&host, async {
        lane::spawn_restarting("mail", || async { Ended::Done }).await;
        lane::spawn_critical("driver", async { Ended::Done }).await;
        time::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!((host.counters(0).essential_restarts.get(), host.counters(0).failed.get()), (0, 0));
}

#[test]
fn a_task_of_a_client_that_panics_ends_alone() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    host.contain_panics(0);
    world.block_on(&host, async {
        lane::spawn(async { panic!("expected by the test") }).detach();
        time::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!((host.counters(0).task_panics.get(), host.counters(0).failed.get()), (1, 0));
}
