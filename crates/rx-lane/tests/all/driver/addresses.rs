//! Tests of connections back to a client, from the address at which it reached us, and of connections that
//! ask for a newer service.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use rx::{ConnectOptions, Service};
use rx_lane::{Anonymous, Driver, ServerCall};

use super::{SERVICE, bind, config, echo, run};

const CALLBACK: u16 = 1;

#[test]
fn callback_leaves_from_the_address_that_the_client_used() {
    run(async {
        let server = Driver::bind((Ipv4Addr::UNSPECIFIED, 0).into(), config()).expect("a free port");
        let port = server.local_addr().expect("bound").port();
        let client = bind(config());
        let seen: Rc<Cell<Option<SocketAddr>>> = Rc::default();
        let note = Rc::clone(&seen);
        client.serve(CALLBACK, move |mut call: ServerCall| {
            note.set(call.remote());
            async move {
                call.read_to_end(16).await?;
                call.finish().await
            }
        });
        let caller = server.clone();
        server.serve(SERVICE, move |mut call: ServerCall| {
            let caller = caller.clone();
            async move {
                let from_there = call.read_to_end(1).await?[0] == 1;
                let (back, local_ip) = (call.remote().expect("lives"), call.local_ip());
                let options =
                    ConnectOptions { local_ip: local_ip.filter(|_| from_there), ..Default::default() };
                let connection = caller.connect_with(back, CALLBACK, &Anonymous, options).expect("room");
                let mut callback = connection.call().await?;
                callback.finish().await?;
                callback.read_to_end(1).await?;
                call.finish().await
            }
        });
        for (from_there, expected) in [(1, Ipv4Addr::new(127, 0, 0, 2)), (0, Ipv4Addr::LOCALHOST)] {
            let connection =
                client.connect((Ipv4Addr::new(127, 0, 0, 2), port).into(), SERVICE, &Anonymous).unwrap();
            let mut call = connection.call().await.expect("a channel");
            call.write(&[from_there]).await.expect("lives");
            call.finish().await.expect("lives");
            call.read_to_end(1).await.expect("the callback was answered");
            let remote = seen.take().expect("called back");
            assert_eq!((remote.ip(), remote.port()), (IpAddr::V4(expected), port));
        }
    });
}

#[test]
fn connection_that_asks_for_it_is_moved_to_the_newer_service() {
    run(async {
        let server = bind(config());
        server.serve_as(SERVICE, Service { upgrade_to: Some(SERVICE + 1), ..Service::default() }, echo);
        server.serve(SERVICE + 1, async |mut call: ServerCall| {
            call.write(b"newer").await?;
            call.finish().await
        });
        let client = bind(config());
        for (upgrade, service, reply) in [(true, SERVICE + 1, &b"newer"[..]), (false, SERVICE, &b"?"[..])] {
            let options = ConnectOptions { upgrade, ..ConnectOptions::default() };
            let to = server.local_addr().expect("bound");
            let connection = client.connect_with(to, SERVICE, &Anonymous, options).expect("room");
            let mut call = connection.call().await.expect("a channel");
            call.write(b"?").await.expect("lives");
            call.finish().await.expect("lives");
            assert_eq!(call.read_to_end(16).await.expect("answered"), reply);
            assert_eq!(connection.service(), Some(service));
        }
    });
}
