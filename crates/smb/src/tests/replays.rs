//! Requests under way when one of several connections is lost: what changes something goes on, its replay by
//! another channel finds it, and it ends with its session.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use lane::time::{sleep, timeout};
use smb_client::{BreakNotification, Open, OpenParams, Options as ClientOptions, OutgoingRequest, Tree};
use smb_wire::create::context::{ContextWriter, DurableRequestV2, tag};
use smb_wire::create::{Disposition, oplock_level};
use smb_wire::header::flags;
use smb_wire::{Guid, Status};
use zerocopy::FromZeros;

use super::bed::{bind, first_ten, rules, run, sign_in, until};

/// A client of two channels, on two lanes.
async fn two_channels(first: SocketAddr, second: SocketAddr, options: ClientOptions) -> (Tree, Tree) {
    let one = sign_in(first, options.clone()).await.unwrap();
    let two = bind(&one, second, options).await.unwrap();
    (one, two)
}

/// A CREATE that its client may send again.
fn durable() -> OpenParams {
    let mut contexts = ContextWriter::new();
    let asked = DurableRequestV2 { create_guid: Guid::new([7; 16]), ..DurableRequestV2::new_zeroed() };
    contexts.push_plain(tag::DURABLE_REQUEST_V2, &asked);
    let how =
        OpenParams { disposition: Disposition::Open, oplock: oplock_level::BATCH, ..OpenParams::overwrite() };
    OpenParams { contexts: contexts.bytes().to_vec(), ..how }
}

fn again<'a>(how: &'a OpenParams, name: &'a str) -> OutgoingRequest<'a> {
    how.request(name).with(flags::REPLAY_OPERATION)
}

async fn status_of(tree: &Tree, ask: OutgoingRequest<'_>) -> Option<Status> {
    let answered = timeout(Duration::from_secs(5), tree.exchange(ask)).await.expect("it is answered");
    answered.and_then(|reply| reply.body().map(drop)).err().and_then(|error| error.status())
}

/// Runs a client that has a file and is asked to give it back.
async fn hold(address: SocketAddr, options: ClientOptions) -> Open {
    let theirs = sign_in(address, options).await.unwrap();
    let how = OpenParams { oplock: oplock_level::BATCH, ..OpenParams::overwrite() };
    Open::create(&theirs, "held", &how).await.unwrap()
}

#[test]
fn a_create_goes_on_without_its_connection_and_its_replay_finds_it() {
    run(41, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second) = (bed.address, other.address);
        let (holder, client) = (bed.client(), bed.client());
        let (lane, theirs) = (Rc::clone(&bed), other.clone());
        world
            .on(0, async move {
                let held = hold(first, holder).await;
                let (one, two) = two_channels(first, second, client).await;
                let (how, asking) = (durable(), two.clone());
                let waiting =
                    lane::spawn(async move { asking.exchange(durable().request("held")).await.map(drop) });
                let broken = held.tree().channel().connection().next_break().await;
                let Ok(BreakNotification::Oplock { file, .. }) = broken else { panic!("{broken:?}") };
                until("it waits", || theirs.counters.waiting.get() == 1).await;
                two.channel().connection().break_off();
                assert!(waiting.await.is_err());
                until("it goes on", || theirs.counters.requests_left.get() == 1).await;
                assert_eq!(status_of(&one, again(&how, "held")).await, Some(Status::FILE_NOT_AVAILABLE));
                assert_eq!(
                    lane.lane.opens().usage().opens,
                    2,
                    "the holder's, and room for the one under way"
                );
                held.tree().acknowledge_oplock(file, oplock_level::II).await.unwrap();
                until("it is done", || theirs.counters.waiting.get() == 0).await;
                let reply = one.exchange(again(&how, "held")).await.unwrap();
                let file = Open::of(&one, &reply).unwrap();
                assert_eq!(lane.lane.opens().usage().opens, 2);
                file.close(0).await.unwrap();
                held.close(0).await.unwrap();
                for tree in [&one, held.tree()] {
                    tree.channel().log_off().await.unwrap();
                }
            })
            .await;
        until("all are gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn what_goes_on_without_its_connection_ends_with_its_session() {
    run(42, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second) = (bed.address, other.address);
        let (holder, client) = (bed.client(), bed.client());
        let (lane, theirs) = (Rc::clone(&bed), other.clone());
        world
            .on(0, async move {
                let held = hold(first, holder).await;
                let (one, two) = two_channels(first, second, client).await;
                let asking = two.clone();
                let waiting =
                    lane::spawn(async move { asking.exchange(durable().request("held")).await.map(drop) });
                until("it waits", || theirs.counters.waiting.get() == 1).await;
                two.channel().connection().break_off();
                assert!(waiting.await.is_err());
                until("it goes on", || theirs.counters.requests_left.get() == 1).await;
                one.channel().log_off().await.unwrap();
                until("it has ended", || theirs.counters.waiting.get() == 0).await;
                until("it has left nothing", || lane.lane.opens().usage().opens == 1).await;
                assert_eq!(theirs.counters.cancelled.get(), 1);
                held.close(0).await.unwrap();
                held.tree().channel().log_off().await.unwrap();
            })
            .await;
        until("all are gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn what_only_waits_ends_with_its_connection_and_is_asked_for_anew() {
    run(43, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second) = (bed.address, other.address);
        let (holder, client) = (bed.client(), bed.client());
        let theirs = other.clone();
        world
            .on(0, async move {
                let exclusive = [first_ten()];
                let tree = sign_in(first, holder).await.unwrap();
                let held = Open::create(&tree, "locked", &OpenParams::overwrite()).await.unwrap();
                held.lock(0, &exclusive).await.unwrap().await.unwrap();
                let (one, two) = two_channels(first, second, client).await;
                let how = OpenParams { disposition: Disposition::Open, ..OpenParams::overwrite() };
                let file = Open::create(&one, "locked", &how).await.unwrap();
                let lost = file.over(&two).lock(0, &exclusive).await.unwrap();
                until("it waits", || theirs.counters.waiting.get() == 1).await;
                two.channel().connection().break_off();
                assert!(lost.await.is_err());
                until("it has ended", || theirs.counters.waiting.get() == 0).await;
                assert_eq!(theirs.counters.requests_left.get(), 0);
                let waiting = file.lock(0, &exclusive).await.unwrap();
                held.close(0).await.unwrap();
                let locked =
                    timeout(Duration::from_secs(5), waiting).await.expect("nobody else waits for it");
                locked.unwrap().body().unwrap();
                sleep(Duration::from_millis(1)).await;
                for tree in [&one, &tree] {
                    tree.channel().log_off().await.unwrap();
                }
            })
            .await;
        until("all are gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}
