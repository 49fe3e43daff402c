//! A client hears that an administrator has ended its session: once, by one of its channels, and not by
//! forged messages.

use std::rc::Rc;
use std::time::Duration;

use lane::time::timeout;
use smb_client::{
    BreakNotification, Channel, Connection, Open, OpenParams, Options as ClientOptions, Sealing, Signing,
    Tree,
};
use smb_proto::signing::SigningAlgorithm;
use smb_wire::negotiate::capabilities;
use smb_wire::{Dialect, Status};

use super::bed::{Bed, PASSWORD, bind, credentials, rules, run, sign_in, until};
use crate::options::Options;
use crate::settings::Encryption;

/// Returns what a client hears by its connections within a second, in their order.
async fn heard(trees: &[&Tree]) -> Vec<Option<u64>> {
    let mut heard = Vec::new();
    for tree in trees {
        let broken = timeout(Duration::from_secs(1), tree.channel().connection().next_break()).await;
        heard.push(match broken {
            Ok(Ok(BreakNotification::SessionClosed { session_id })) => Some(session_id),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        });
    }
    heard
}

/// Answers that the client has refused.
fn refused(tree: &Tree) -> u64 {
    let counters = tree.channel().connection().counters();
    counters.wrong_signatures.get() + counters.unsigned.get() + counters.unsealed.get()
}

/// Ends the only session, as an administrator does, when `story` has signed in; says what it heard.
async fn end_the_session(bed: &Rc<Bed>) {
    until("the session is ready", || bed.lane.opens().usage().opens == 1).await;
    let session = bed.server_state.sessions.all()[0].id;
    assert!(bed.lane.expel(session).await);
    assert!(!bed.lane.expel(session).await, "it is over");
}

fn client(bed: &Bed, change: impl FnOnce(&mut ClientOptions)) -> ClientOptions {
    let mut options = bed.client();
    change(&mut options);
    options
}

fn is_told(rules: Options, manner: impl Fn(&mut ClientOptions) + Clone + 'static) {
    run(31, rules, async move |bed, world| {
        let other = bed.add_lane().await;
        let (first, second, options) = (bed.address, other.address, client(&bed, manner));
        let story = world.hosts[0].start_on(0, async move {
            let one = sign_in(first, options.clone()).await.unwrap();
            let two = bind(&one, second, options.clone()).await.unwrap();
            let offers = one.channel().connection().negotiated().capabilities;
            assert!(offers & capabilities::NOTIFICATIONS != 0);
            let file = Open::create(&one, "open", &OpenParams::overwrite()).await.unwrap();
            let id = one.channel().ticket().session_id();
            let heard = heard(&[&one, &two]).await;
            assert_eq!(heard.iter().flatten().collect::<Vec<_>>(), [&id], "once, by one of them");
            assert_eq!(refused(&one) + refused(&two), 0);
            let gone = file.read(0, 10).await.expect_err("it is over");
            assert!(matches!(gone.status(), None | Some(Status::USER_SESSION_DELETED)), "{gone}");
            // The connection is as good as before.
            if gone.status().is_some() {
                let channel = Channel::sign_in(one.channel().connection(), credentials("alice", PASSWORD));
                channel.await.unwrap().log_off().await.unwrap();
            }
        });
        end_the_session(&bed).await;
        story.await;
        let sent = bed.counters().notifications_sent.get() + other.counters.notifications_sent.get();
        assert_eq!(sent, 1);
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn a_client_hears_once_that_an_administrator_has_ended_its_session() {
    is_told(rules(), |_| ());
}

#[test]
fn where_signatures_are_required_it_is_signed() {
    for algorithm in [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac] {
        is_told(rules(), move |options| {
            (options.signing, options.signing_algorithms) = (Signing::Required, vec![algorithm]);
        });
    }
}

#[test]
fn where_everything_is_encrypted_so_is_it() {
    let rules = Options { encryption: Encryption::Required, ..rules() };
    is_told(rules, |options| options.sealing = Sealing::Required);
}

#[test]
fn a_channel_that_is_lost_leaves_it_to_another() {
    run(32, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second, options) = (bed.address, other.address, bed.client());
        let counters = other.counters.clone();
        let story = world.hosts[0].start_on(0, async move {
            let one = sign_in(first, options.clone()).await.unwrap();
            let two = bind(&one, second, options.clone()).await.unwrap();
            one.channel().connection().break_off();
            until("the other lane has it", || counters.sessions_adopted.get() == 1).await;
            Open::create(&two, "open", &OpenParams::overwrite()).await.unwrap();
            assert_eq!(heard(&[&two]).await, [Some(two.channel().ticket().session_id())]);
        });
        end_the_session(&bed).await;
        story.await;
        assert_eq!(
            (bed.counters().notifications_sent.get(), other.counters.notifications_sent.get()),
            (0, 1)
        );
    });
}

#[test]
fn who_does_not_understand_it_or_has_logged_off_himself_is_not_told() {
    run(33, rules(), async |bed, world| {
        let address = bed.address;
        for change in
            [(|options| options.dialects = vec![Dialect::Smb302]) as fn(&mut ClientOptions), |options| {
                options.notifications = false
            }]
        {
            let options = client(&bed, change);
            let story = world.hosts[0].start_on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let offers = tree.channel().connection().negotiated().capabilities;
                assert_eq!(offers & capabilities::NOTIFICATIONS, 0);
                Open::create(&tree, "open", &OpenParams::overwrite()).await.unwrap();
                assert_eq!(heard(&[&tree]).await, [None]);
            });
            end_the_session(&bed).await;
            story.await;
        }
        let options = bed.client();
        world
            .on(0, async move {
                let one = sign_in(address, options.clone()).await.unwrap();
                let two = bind(&one, address, options).await.unwrap();
                one.channel().log_off().await.unwrap();
                assert_eq!(heard(&[&one, &two]).await, [None, None]);
            })
            .await;
        assert_eq!(bed.counters().notifications_sent.get(), 0);
    });
}

#[test]
fn a_connection_that_does_not_understand_it_is_no_channel_of_a_session_that_does() {
    run(34, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        let without = ClientOptions { notifications: false, ..options.clone() };
        world
            .on(0, async move {
                for [first, second] in [[&options, &without], [&without, &options]] {
                    let tree = sign_in(address, first.clone()).await.unwrap();
                    let connection = Connection::open(address, second.clone()).await.unwrap();
                    let bound = Channel::bind(&connection, &tree.channel().ticket()).await;
                    let status = bound.err().and_then(|error| error.status());
                    assert_eq!(status, Some(Status::INVALID_PARAMETER));
                    bind(&tree, address, first.clone()).await.unwrap();
                }
            })
            .await;
    });
}
