use std::net::{IpAddr, Ipv6Addr};

use budget::{Consumer, UserNumber};
use smb_proto::signing::SigningAlgorithm;
use smb_wire::Dialect;

use super::*;

const LANE: usize = 0;

fn session(id: u64) -> Session {
    let agreed = Agreed { dialect: Dialect::Smb311, signing: SigningAlgorithm::AesGmac, cipher: None };
    Session::new(id, Guid::default(), agreed, false)
}

#[test]
fn an_address_leaves_a_quarter_of_the_sessions_to_others() {
    let sessions = Sessions::default();
    let add_to = |sessions: &Sessions, address: &str, max| {
        let session = Arc::new(session(sessions.next_id()));
        sessions.add(address.parse::<IpAddr>().unwrap().into(), max, &session).map(|()| session)
    };
    let add = |address: &str| add_to(&sessions, address, 100);
    let mine: Vec<_> = (0..100).map_while(|_| add("192.0.2.1").ok()).collect();
    assert_eq!(mine.len(), 75);
    assert_eq!(add("192.0.2.1").unwrap_err(), Status::INSUFFICIENT_RESOURCES);
    let other = add("192.0.2.2").unwrap();
    assert_eq!(sessions.get(other.id).unwrap().id, other.id);
    assert!(sessions.remove(mine[3].id).is_some() && sessions.remove(mine[3].id).is_none());
    assert_eq!(sessions.len(), 75);
    assert!(sessions.get(mine[3].id).is_none());
    // One of an IPv6 network counts with all of it.
    let fresh = Sessions::default();
    let add = |address: &str| add_to(&fresh, address, 4);
    assert!((1..=3).all(|host| add(&format!("2001:db8::{host}")).is_ok()));
    assert!(add("2001:db8::9").is_err() && add("2001:db8:1::9").is_ok());
}

#[test]
fn networks_and_users_leave_sessions_to_others_from_however_many_addresses() {
    let v6 = |high: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1));
    let user = Some(UserNumber(7));
    let crowds: [(Vec<Consumer>, usize); 3] = [
        ((0..100).map(|high| v6(high).into()).collect(), 80),
        ((0..100).map(|high| v6(high << 8).into()).collect(), 86),
        ((0..100).map(|last| Consumer { address: [192, 0, 2, last].into(), user }).collect(), 75),
    ];
    for (crowd, share) in crowds {
        let sessions = Sessions::default();
        let add = |consumer| {
            let session = Arc::new(session(sessions.next_id()));
            sessions.add(consumer, 100, &session).map(|()| session.id)
        };
        let ids: Vec<_> = crowd.into_iter().filter_map(|consumer| add(consumer).ok()).collect();
        assert_eq!(ids.len(), share);
        assert!(add(Consumer { address: [198, 51, 100, 7].into(), user: Some(UserNumber(8)) }).is_ok());
        assert!(ids.into_iter().all(|id| sessions.remove(id).is_some()));
        assert_eq!(sessions.len(), 1);
    }
}

#[test]
fn channels_have_numbers_of_their_own_and_the_last_one_ends_it() {
    let session = session(7);
    let numbers: Vec<_> = (0..33).map(|connection| session.add_channel(connection, LANE.into())).collect();
    assert_eq!(numbers[..32], (0..32).map(Ok).collect::<Vec<_>>());
    assert_eq!(numbers[32], Err(Status::INSUFFICIENT_RESOURCES));
    assert!(!session.remove_channel(3));
    assert_eq!(session.add_channel(40, LANE.into()), Ok(32), "a number is never given twice");
    assert_eq!(session.channels().len(), 32);
    assert!((0..32).map(|connection| session.remove_channel(connection)).filter(|last| *last).count() == 0);
    assert!(session.remove_channel(40));
}

#[test]
fn requests_go_on_without_their_connections_while_there_are_few_of_them() {
    let session = session(7);
    (0..4).for_each(|connection| assert!(session.add_channel(connection, LANE.into()).is_ok()));
    assert_eq!(session.lose_channel(1, LEFT_MAX - 1), Loss::Continues { keeps_requests: true });
    assert_eq!(session.lose_channel(2, 2), Loss::Continues { keeps_requests: false });
    session.has_left(1);
    assert_eq!(session.lose_channel(3, 2), Loss::Continues { keeps_requests: true });
    assert_eq!(session.close().channels.len(), 2, "who ends it tells the lost one too");
    assert_eq!(session.lose_channel(0, 0), Loss::Over);
}

#[test]
fn a_tree_that_is_disconnected_by_one_channel_is_gone_for_all() {
    let session = Arc::new(session(7));
    let [one, other] = [(); 2].map(|()| Channel::new(Arc::clone(&session), None, None));
    let rooms = TreeConnectSlots::default();
    let add = || {
        let room = rooms.take(1, IpAddr::from([192, 0, 2, 1]).into()).unwrap();
        session.add_tree(|id| TreeConnect::new(id, "files", None, room)).unwrap()
    };
    let tree = add();
    let find_of = |channel: &Channel, id| {
        channel
            .tree(id, 1, |connect| {
                let (kind, renewals) = (TreeKind::Pipes, session.renewals());
                Ok(LaneTree { connect, kind, generation: 1, renewals, test_delay: None })
            })
            .map(|tree| tree.connect.id)
    };
    let find = |channel: &Channel| find_of(channel, tree.id);
    assert_eq!((find(&one), find(&other)), (Ok(tree.id), Ok(tree.id)));
    assert!(session.remove_tree(tree.id).is_some() && session.remove_tree(tree.id).is_none());
    assert_eq!(
        (find(&one), find(&other)),
        (Err(Status::NETWORK_NAME_DELETED), Err(Status::NETWORK_NAME_DELETED))
    );
    // A channel that uses many of them in turn keeps those that are left.
    let id = tree.id;
    drop(tree);
    for _ in 0..100 {
        let next = add();
        assert_eq!(find_of(&other, next.id), Ok(next.id));
        assert!(session.remove_tree(next.id).is_some() && next.id != id);
    }
    assert!(rooms.len() <= 1, "{}", rooms.len());
    assert_eq!(session.state(), SessionState::InProgress);
    assert_eq!(session.add_channel(1, LANE.into()), Ok(0));
    let ended = session.close();
    assert_eq!((ended.trees.len(), ended.channels.len()), (0, 1));
    assert_eq!(session.state(), SessionState::Closed);
    assert_eq!(session.add_channel(2, LANE.into()), Err(Status::USER_SESSION_DELETED));
}
