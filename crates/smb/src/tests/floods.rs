//! Clients that come to harm: each has its share and no more, and others go on.

use std::time::Duration;

use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::sleep;
use smb_client::{Channel, Connection, Error};
use smb_wire::Status;
use smb_wire::framing;

use super::bed::{PASSWORD, credentials, rules, run, sign_in, until};
use super::raw::Raw;
use crate::options::Options;

#[test]
fn connections_that_never_negotiate_end_and_others_sign_in_meanwhile() {
    run(2, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        world.hosts[1].set_descriptors_max(4096);
        bed.host.set_descriptors_max(4096);
        world
            .on(1, async move {
                let mut all = Vec::new();
                for _ in 0..2000 {
                    all.push(TcpStream::connect(address).await.unwrap());
                }
                lane::spawn(async move {
                    sleep(Duration::from_secs(70)).await;
                    drop(all);
                })
                .detach();
            })
            .await;
        let tree = world.on(0, async move { sign_in(address, options).await.unwrap() }).await;
        assert_eq!(bed.lane.connections().len(), 2001);
        sleep(Duration::from_secs(61)).await;
        assert_eq!(bed.lane.connections().len(), 1, "who has signed in may say nothing");
        assert_eq!(bed.counters().ended_late.get(), 2000);
        world.on(0, async move { tree.channel().echo().await.unwrap() }).await;
        sleep(Duration::from_secs(10)).await;
    });
}

#[test]
fn a_name_whose_sign_ins_fail_is_held_off_and_others_of_its_address_are_not() {
    run(3, rules(), async |bed, world| {
        let address = bed.address;
        let options: Vec<_> = (0..30).map(|_| bed.client()).collect();
        let refused = world
            .on(1, async move {
                let mut refused = Vec::new();
                for options in options {
                    let connection = Connection::open(address, options).await.unwrap();
                    let outcome = Channel::sign_in(&connection, credentials("alice", "wrong")).await;
                    refused.push(outcome.err().and_then(|error: Error| error.status()));
                }
                refused
            })
            .await;
        assert_eq!(refused[..20], [Some(Status::LOGON_FAILURE); 20]);
        assert_eq!(refused[20..], [Some(Status::ACCOUNT_LOCKED_OUT); 10]);
        assert_eq!(bed.counters().sign_in_failed.get(), 20);
        assert_eq!(bed.counters().sign_in_limited.get(), 10);
        let (options, again) = (bed.client(), bed.client());
        world.on(0, async move { sign_in(address, options).await.map(drop).unwrap() }).await;
        let of_bob = async move {
            let connection = Connection::open(address, again).await?;
            Channel::sign_in(&connection, credentials("bob", PASSWORD)).await.map(drop)
        };
        world.on(1, of_bob).await.unwrap();
        let told = bed.audited();
        let of = |words: &str| told.iter().filter(|line| line.contains(words)).count();
        assert_eq!(of("\"status\":\"STATUS_LOGON_FAILURE\""), 20, "{told:#?}");
        assert_eq!(of("\"reason\":\"too many failed sign-ins with this name\""), 10, "{told:#?}");
        assert_eq!(of("\"user\":\"bob\""), 1, "{told:#?}");
    });
}

#[test]
fn frames_of_clients_that_have_not_signed_in_are_short() {
    run(4, rules(), async |bed, world| {
        let address = bed.address;
        for (negotiates, most) in [(false, 4 << 10), (true, 65 << 10)] {
            world
                .on(1, async move {
                    for (len, ends) in [(most, false), (most + 1, true)] {
                        let raw = begun(address, negotiates, len).await;
                        assert_eq!(raw.has_ended_now().await, ends, "{negotiates} {len}");
                    }
                })
                .await;
        }
        until("everybody has gone", || bed.lane.connections().is_empty()).await;
        assert_eq!(bed.counters().ended_malformed.get(), 2);
        bed.expect_empty();
    });
}

#[test]
fn frames_that_strangers_begin_are_on_the_books_and_give_way_where_memory_is_short() {
    const MEMORY: usize = 4 << 20;
    let options = Options { memory: MEMORY, ..rules() };
    run(5, options, async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        world.hosts[1].set_descriptors_max(4096);
        bed.host.set_descriptors_max(4096);
        let (lane, counters) = (std::rc::Rc::clone(&bed.lane), bed.lane.connections().counters());
        let held = || lane.connections().counters().reply_memory_bytes.get() as usize;
        world
            .on(1, async move {
                let mut all = Vec::new();
                for _ in 0..200 {
                    all.push(begun(address, true, 60 << 10).await);
                }
                lane::spawn(async move {
                    sleep(Duration::from_secs(60)).await;
                    drop(all);
                })
                .detach();
            })
            .await;
        until("they are charged", || held() > MEMORY / 2).await;
        assert!(held() <= MEMORY / 4 * 3, "{}", held());
        // Somebody else signs in meanwhile, and the flood is over in time.
        world.on(0, async move { sign_in(address, options).await.map(drop).unwrap() }).await;
        // Who is left has its time to go on: 30 s, and 1 ms for each 8 bytes.
        sleep(Duration::from_secs(40)).await;
        until("the flood is over", || bed.lane.connections().is_empty()).await;
        sleep(Duration::from_secs(30)).await;
        assert!(bed.counters().ended_unserved.get() > 0, "who is in the way gives way");
        assert_eq!(counters.reply_memory_bytes.get(), 0);
        bed.expect_empty();
    });
}

/// A client that has begun a frame of `len` bytes, and does not go on.
async fn begun(address: std::net::SocketAddr, negotiates: bool, len: usize) -> Raw {
    let mut raw = Raw::open(address).await;
    if negotiates {
        raw.negotiate().await;
    }
    let first = [&framing::prefix(len).unwrap()[..], b"\xfeSMB", &vec![0; (len - 4).min(3000)]].concat();
    let (sent, _) = raw.stream.send(Buf::from(first), false).await;
    sent.unwrap();
    raw
}
