//! One session by several connections, on several lanes: what one channel opens all use, what one ends is
//! over for all, and a client hears of breaks wherever it is left.

use std::rc::Rc;
use std::time::Duration;

use lane::buffer::Buf;
use lane::time::timeout;
use smb_client::{
    BreakNotification, Channel, Connection, Error, Open, OpenParams, Options as ClientOptions, Sealing,
    Signing, Tree,
};
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::create::oplock_level;
use smb_wire::fsctl::code;
use smb_wire::negotiate::capabilities;
use smb_wire::{Dialect, Status};

use super::bed::{Bed, bind, credentials, first_ten, rules, run, sign_in, until};
use crate::options::Options;

fn status(result: Result<Tree, Error>) -> Option<Status> {
    result.err().and_then(|error| error.status())
}

/// Returns options of a client with several channels.
fn manners(bed: &Bed) -> Vec<ClientOptions> {
    let mut all = Vec::new();
    for dialect in [Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        for signing in [Signing::IfRequired, Signing::Required] {
            let mut options = bed.client();
            (options.dialects, options.signing) = (vec![dialect], signing);
            all.push(options);
        }
        let mut options = bed.client();
        (options.dialects, options.sealing) = (vec![dialect], Sealing::Required);
        all.push(options);
    }
    let mut options = bed.client();
    (options.signing, options.signing_algorithms) = (Signing::Required, vec![SigningAlgorithm::AesCmac]);
    all.push(options);
    all
}

#[test]
fn what_one_channel_opens_all_use_and_its_end_ends_them_on_every_lane() {
    run(21, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        for options in manners(&bed) {
            let (first, second) = (bed.address, other.address);
            let sessions = bed.server_state.sessions.len();
            assert_eq!(sessions, 0);
            world
                .on(0, async move {
                    let one = sign_in(first, options.clone()).await.unwrap();
                    let two = bind(&one, second, options.clone()).await.unwrap();
                    let three = bind(&one, first, options.clone()).await.unwrap();
                    let file = Open::create(&one, "shared", &OpenParams::overwrite()).await.unwrap();
                    let data: Vec<u8> = (0..200_000).map(|at| (at % 251) as u8).collect();
                    let (written, _) = file.over(&two).write(0, vec![Buf::from(data.clone())]).await;
                    assert_eq!(written.unwrap(), 200_000);
                    for tree in [&three, &one, &two] {
                        assert_eq!(file.over(tree).read(0, 200_000).await.unwrap()[..], data);
                    }
                    // What one closes none has.
                    let again = Open::create(&two, "shared", &OpenParams::read()).await.unwrap();
                    again.over(&three).close(0).await.unwrap();
                    let closed = again.read(0, 10).await.err().and_then(|error| error.status());
                    assert_eq!(closed, Some(Status::FILE_CLOSED));
                    two.channel().log_off().await.unwrap();
                    for tree in [&one, &two, &three] {
                        // There is no key to sign it with any more.
                        let gone = file.over(tree).read(0, 10).await.expect_err("it is over");
                        let is_right = matches!(gone.status(), None | Some(Status::USER_SESSION_DELETED));
                        assert!(is_right, "{gone} of {options:?}");
                    }
                })
                .await;
            let counters = Rc::clone(&bed);
            until("all connections have gone", || counters.lane.connections().is_empty()).await;
            bed.expect_empty();
        }
    });
}

#[test]
fn a_connection_that_is_lost_takes_nothing_along_until_it_is_the_last() {
    run(22, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second, options) = (bed.address, other.address, bed.client());
        let watch = Rc::clone(&bed);
        world
            .on(0, async move {
                let one = sign_in(first, options.clone()).await.unwrap();
                let two = bind(&one, second, options.clone()).await.unwrap();
                let file = Open::create(&one, "kept", &OpenParams::overwrite()).await.unwrap();
                one.channel().connection().break_off();
                until("one is lost", || watch.lane.counters.sessions.get() == 0).await;
                let (written, _) = file.over(&two).write(0, vec![Buf::from(vec![7; 10])]).await;
                assert_eq!(written.unwrap(), 10);
                // There is room for it again.
                let three = bind(&two, first, options).await.unwrap();
                assert_eq!(file.over(&three).read(0, 10).await.unwrap()[..], [7; 10]);
                three.channel().connection().break_off();
                two.channel().connection().break_off();
            })
            .await;
        let watch = Rc::clone(&bed);
        until("nothing is open", || watch.lane.opens().usage().opens == 0).await;
        until("no session is left", || bed.server_state.sessions.len() == 0).await;
    });
}

#[test]
fn a_break_finds_its_client_on_whatever_lane_he_is_left() {
    run(23, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second) = (bed.address, other.address);
        let (holder, writer) = (bed.client(), bed.client());
        let watch = Rc::clone(&bed);
        let adopted = other.counters.clone();
        world
            .on(0, async move {
                let one = sign_in(first, holder.clone()).await.unwrap();
                let two = bind(&one, second, holder).await.unwrap();
                let how = OpenParams { oplock: oplock_level::BATCH, ..OpenParams::overwrite() };
                let file = Open::create(&one, "held", &how).await.unwrap();
                assert_eq!(file.created().oplock_level, oplock_level::BATCH);
                one.channel().connection().break_off();
                until("the other lane has it", || adopted.sessions_adopted.get() == 1).await;
                assert_eq!(watch.lane.counters.sessions.get(), 0);
                let theirs = sign_in(first, writer).await.unwrap();
                let opening =
                    lane::spawn(
                        async move { Open::create(&theirs, "held", &OpenParams::read()).await.map(drop) },
                    );
                let broken = timeout(Duration::from_secs(5), two.channel().connection().next_break()).await;
                let Ok(Ok(BreakNotification::Oplock { file: id, level })) = broken else {
                    panic!("{broken:?}")
                };
                assert_eq!(id, file.id());
                file.over(&two).tree().acknowledge_oplock(id, level).await.unwrap();
                opening.await.unwrap();
            })
            .await;
        assert_eq!(bed.counters().breaks_undelivered.get() + other.counters.breaks_undelivered.get(), 0);
    });
}

#[test]
fn a_break_that_is_not_acknowledged_goes_to_the_next_channel_and_its_connection_ends() {
    let options = Options { test_switches: true, ..rules() };
    run(27, options, async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second) = (bed.address, other.address);
        let (holder, writer) = (bed.client(), bed.client());
        let watch = Rc::clone(&bed);
        world
            .on(0, async move {
                let one = sign_in(first, holder.clone()).await.unwrap();
                let two = bind(&one, second, holder).await.unwrap();
                let how = OpenParams { oplock: oplock_level::BATCH, ..OpenParams::overwrite() };
                let file = Open::create(&one, "held", &how).await.unwrap();
                // From here on the first connection takes nothing, as far as the server knows.
                file.control(code::TEST_FORCE_UNACKED, &[], 0).await.unwrap();
                let theirs = sign_in(first, writer).await.unwrap();
                let opening =
                    lane::spawn(
                        async move { Open::create(&theirs, "held", &OpenParams::read()).await.map(drop) },
                    );
                let broken = timeout(Duration::from_secs(1), one.channel().connection().next_break()).await;
                assert!(matches!(broken, Ok(Ok(BreakNotification::Oplock { .. }))), "{broken:?}");
                let broken = timeout(Duration::from_secs(10), two.channel().connection().next_break()).await;
                let Ok(Ok(BreakNotification::Oplock { file: id, level })) = broken else {
                    panic!("{broken:?}")
                };
                assert_eq!(id, file.id());
                timeout(Duration::from_secs(1), one.channel().connection().wait_ended()).await.unwrap();
                two.acknowledge_oplock(id, level).await.unwrap();
                opening.await.unwrap();
                file.over(&two).close(0).await.unwrap();
                assert_eq!(watch.lane.counters.ended_unacknowledged.get(), 1);
                assert_eq!(watch.lane.counters.breaks_sent_again.get(), 1);
            })
            .await;
    });
}

#[test]
fn codes_of_tests_are_refused_unless_they_are_switched_on() {
    run(28, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        world
            .on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let file = Open::create(&tree, "file", &OpenParams::overwrite()).await.unwrap();
                let codes = [
                    (code::TEST_FORCE_UNACKED, &[][..]),
                    (code::TEST_ASYNC_SLEEP, &[1]),
                    (code::TEST_PAD_IOCTL, &[]),
                    (code::TEST_PAD_READS, &[]),
                ];
                for (code, input) in codes {
                    let refused = file.control(code, input, 0).await.err().and_then(|error| error.status());
                    assert_eq!(refused, Some(Status::INVALID_DEVICE_REQUEST));
                }
            })
            .await;
    });
}

#[test]
fn what_waits_on_one_lane_is_cancelled_by_a_log_off_on_another() {
    run(24, rules(), async |bed, world| {
        let other = bed.add_lane().await;
        let (first, second) = (bed.address, other.address);
        let (holder, waiter) = (bed.client(), bed.client());
        let watch = Rc::clone(&bed);
        world
            .on(0, async move {
                let exclusive = [first_ten()];
                let theirs = sign_in(first, holder).await.unwrap();
                let held = Open::create(&theirs, "locked", &OpenParams::overwrite()).await.unwrap();
                held.lock(0, &exclusive).await.unwrap().await.unwrap();
                let one = sign_in(first, waiter.clone()).await.unwrap();
                let two = bind(&one, second, waiter).await.unwrap();
                let how = OpenParams {
                    disposition: smb_wire::create::Disposition::Open,
                    ..OpenParams::overwrite()
                };
                let file = Open::create(&one, "locked", &how).await.unwrap();
                let waiting = file.lock(0, &exclusive).await.unwrap();
                until("it waits", || watch.lane.counters.waiting.get() == 1).await;
                two.channel().log_off().await.unwrap();
                let ended = timeout(Duration::from_secs(5), waiting).await.expect("it ends");
                let status =
                    ended.and_then(|reply| reply.body().map(drop)).err().and_then(|error| error.status());
                assert!(status.is_some(), "{status:?}");
                until("none waits", || watch.lane.counters.waiting.get() == 0).await;
                until("the lane has forgotten", || watch.lane.counters.sessions.get() == 1).await;
                held.close(0).await.unwrap();
                theirs.channel().log_off().await.unwrap();
                until("nothing is open", || watch.lane.opens().usage().opens == 0).await;
            })
            .await;
    });
}

#[test]
fn who_may_not_be_bound_is_told_why() {
    run(25, rules(), async |bed, world| {
        let (address, base) = (bed.address, bed.client());
        let with = |change: &dyn Fn(&mut ClientOptions)| {
            let mut options = base.clone();
            change(&mut options);
            options
        };
        let gmac = with(&|options| options.signing_algorithms = vec![SigningAlgorithm::AesGmac]);
        let cmac = with(&|options| options.signing_algorithms = vec![SigningAlgorithm::AesCmac]);
        let old = with(&|options| options.dialects = vec![Dialect::Smb210]);
        let middle = with(&|options| {
            options.dialects = vec![Dialect::Smb302];
            options.signing_algorithms = vec![SigningAlgorithm::AesCmac];
        });
        let cipher = with(&|options| {
            options.ciphers = vec![Cipher::Aes256Ccm];
            options.signing_algorithms = vec![SigningAlgorithm::AesCmac];
        });
        let elsewhere = ClientOptions { client_guid: bed.client().client_guid, ..cmac.clone() };
        let refused = bed.lane.counters.clone();
        world
            .on(0, async move {
                let of_gmac = sign_in(address, gmac.clone()).await.unwrap();
                let of_cmac = sign_in(address, cmac.clone()).await.unwrap();
                let of_old = sign_in(address, old.clone()).await.unwrap();
                let cases = [
                    (&of_gmac, &cmac, Status::REQUEST_OUT_OF_SEQUENCE),
                    (&of_cmac, &gmac, Status::NOT_SUPPORTED),
                    (&of_cmac, &old, Status::REQUEST_NOT_ACCEPTED),
                    (&of_old, &cmac, Status::INVALID_PARAMETER),
                    (&of_cmac, &middle, Status::INVALID_PARAMETER),
                    (&of_cmac, &cipher, Status::INVALID_PARAMETER),
                ];
                for (at, (session, options, why)) in cases.into_iter().enumerate() {
                    let result = bind(session, address, options.clone()).await;
                    assert_eq!(status(result), Some(why), "case {at}");
                }
                assert_eq!(refused.channels_refused.get(), 6);
                // Twice by one connection, and by one too many.
                let connection = Connection::open(address, cmac.clone()).await.unwrap();
                let ticket = of_cmac.channel().ticket();
                let bound = Channel::bind(&connection, &ticket).await.unwrap();
                let again = Channel::bind(&connection, &ticket).await.err().and_then(|error| error.status());
                assert_eq!(again, Some(Status::ACCESS_DENIED));
                bound.echo().await.unwrap();
                let mut more = vec![bound];
                // What a client calls itself is not looked at: it has the session's key.
                let connection = Connection::open(address, elsewhere).await.unwrap();
                more.push(Channel::bind(&connection, &ticket).await.unwrap());
                for _ in 3..32 {
                    let connection = Connection::open(address, cmac.clone()).await.unwrap();
                    more.push(Channel::bind(&connection, &ticket).await.unwrap());
                }
                let result = bind(&of_cmac, address, cmac.clone()).await;
                assert_eq!(status(result), Some(Status::INSUFFICIENT_RESOURCES));
                for channel in &more {
                    channel.echo().await.unwrap();
                }
                // A session that is over has no more channels.
                more[3].log_off().await.unwrap();
                let result = bind(&of_cmac, address, cmac).await;
                assert_eq!(status(result), Some(Status::USER_SESSION_DELETED));
            })
            .await;
        assert_eq!(bed.counters().channels_bound.get(), 31);
        assert_eq!(bed.counters().sign_in_failed.get(), 0);
    });
}

#[test]
fn who_may_have_many_channels_signs_by_gmac_only_where_it_can_do_nothing_else_and_binds_one_then() {
    use SigningAlgorithm::{AesCmac, AesGmac};
    run(27, rules(), async |bed, world| {
        let (address, base) = (bed.address, bed.client());
        world
            .on(0, async move {
                for (offered, many, expected) in [
                    (vec![AesGmac, AesCmac], true, AesCmac),
                    (vec![AesGmac, AesCmac], false, AesGmac),
                    (vec![AesGmac], true, AesGmac),
                ] {
                    let mut options = base.clone();
                    options.signing = Signing::Required;
                    (options.signing_algorithms, options.multichannel) = (offered, many);
                    let connection = Connection::open(address, options.clone()).await.unwrap();
                    let agreed = connection.negotiated();
                    let is_many = agreed.capabilities & capabilities::MULTI_CHANNEL != 0;
                    assert_eq!((agreed.signing, is_many), (expected, many), "{options:?}");
                    let tree = sign_in(address, options.clone()).await.unwrap();
                    let first = bind(&tree, address, options.clone()).await;
                    assert!(first.is_ok(), "{options:?}");
                    let second = bind(&tree, address, options).await;
                    assert_eq!(second.is_ok(), expected == AesCmac, "the nonce of its reply is taken");
                }
            })
            .await;
    });
}

#[test]
fn gmac_over_channels_is_for_those_who_ask_for_it() {
    let rules = Options { gmac_over_channels: true, ..rules() };
    run(28, rules, async |bed, world| {
        let (address, mut options) = (bed.address, bed.client());
        options.signing = Signing::Required;
        world
            .on(0, async move {
                let tree = sign_in(address, options.clone()).await.unwrap();
                let signing = tree.channel().connection().negotiated().signing;
                assert_eq!(signing, SigningAlgorithm::AesGmac);
                for _ in 0..3 {
                    bind(&tree, address, options.clone()).await.unwrap();
                }
            })
            .await;
    });
}

#[test]
fn another_user_and_a_wrong_password_are_refused_and_the_session_goes_on() {
    run(26, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        let counters = bed.lane.counters.clone();
        world
            .on(0, async move {
                let tree = sign_in(address, options.clone()).await.unwrap();
                let file = Open::create(&tree, "mine", &OpenParams::overwrite()).await.unwrap();
                for (user, why) in [("bob", Status::ACCESS_DENIED), ("nobody", Status::LOGON_FAILURE)] {
                    let connection = Connection::open(address, options.clone()).await.unwrap();
                    let ticket = tree.channel().ticket().of(credentials(user, super::bed::PASSWORD));
                    let refused =
                        Channel::bind(&connection, &ticket).await.err().and_then(|error| error.status());
                    assert_eq!(refused, Some(why), "{user}");
                }
                let (written, _) = file.write(0, vec![Buf::from(vec![1; 3])]).await;
                assert_eq!(written.unwrap(), 3);
                file.close(0).await.unwrap();
            })
            .await;
        assert_eq!(counters.channels_refused.get(), 2);
        assert_eq!(counters.sign_in_failed.get(), 1);
    });
}
