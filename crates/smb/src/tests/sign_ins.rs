//! Time limits of connections without a session, before the first and after the last.

use std::time::Duration;

use identity::{Acl, Rights, Side};
use lane::time::{now, sleep};
use smb_auth::Policy;
use smb_client::{Channel, Connection};
use smb_wire::body::query_info::info_type;
use smb_wire::body::set_info::{SetInfoRequest, SetInfoRequestFixed};
use smb_wire::body::write::{WriteRequest, WriteRequestFixed};
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::info::file::class;
use smb_wire::{Command, Status};

use super::bed::{PASSWORD, credentials, rules, run, until};
use super::raw::{Raw, status};
use crate::options::Options;

/// Time for which a client has to sign in.
const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn a_log_off_on_an_old_connection_is_answered_and_another_sign_in_has_its_time() {
    run(21, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        let (lived, connection) = world
            .on(0, async move {
                let connection = Connection::open(address, options).await.unwrap();
                let mut ended = now();
                for _ in 0..3 {
                    let channel =
                        Channel::sign_in(&connection, credentials("alice", PASSWORD)).await.unwrap();
                    sleep(WITHIN * 2).await;
                    channel.log_off().await.unwrap();
                    ended = now();
                    sleep(WITHIN / 2).await;
                }
                (now() - ended, connection)
            })
            .await;
        assert!(lived < WITHIN);
        assert_eq!(bed.counters().ended_late.get(), 0);
        // A name that signs in no more is forgotten.
        sleep(WITHIN - lived + Duration::from_secs(1)).await;
        assert_eq!(bed.counters().ended_late.get(), 1);
        drop(connection);
    });
}

#[test]
fn a_session_is_signed_in_to_again_by_its_own_user_alone() {
    let guests = Options { policy: Policy { guest: true, anonymous: false }, ..rules() };
    run(22, guests, async |bed, world| {
        let (address, counters) = (bed.address, bed.lane.counters.clone());
        world
            .on(1, async move {
                for (user, others) in [("alice", ["bob", "stranger"]), ("stranger", ["alice", "stranger"])] {
                    let mut raw = Raw::open(address).await;
                    raw.negotiate().await;
                    raw.set_up(user).await.unwrap();
                    let file = raw.open_file(user, rights::FILE_READ | rights::FILE_WRITE).await;
                    let is_proved = user == "alice";
                    for _ in 0..usize::from(is_proved) {
                        raw.set_up_again(user).await.unwrap();
                    }
                    for other in others {
                        let refused = raw.set_up_again(other).await;
                        assert_eq!(refused, Err(Status::ACCESS_DENIED), "{other} in {user}'s");
                    }
                    // It goes on as it was.
                    let asked = raw.close(file);
                    assert_eq!(status(&raw.exchange(asked).await.unwrap()), Status::SUCCESS);
                }
                assert_eq!((counters.signed_in_again.get(), counters.sign_in_again_refused.get()), (1, 4));
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn an_anonymous_sign_in_takes_rights_away_until_the_owner_signs_in_again() {
    let open = Options { policy: Policy { guest: true, anonymous: true }, ..rules() };
    run(24, open, async |bed, world| {
        let (address, server_state) = (bed.address, bed.server_state.clone());
        world
            .on(1, async move {
                let mut raw = Raw::open(address).await;
                raw.negotiate().await;
                raw.set_up("alice").await.unwrap();
                let session = server_state.sessions.get(raw.session).unwrap();
                let name = || session.principal().unwrap().name().to_owned();
                assert_eq!(name(), "alice");
                for _ in 0..2 {
                    raw.set_up_again("").await.unwrap();
                    assert_ne!(name(), "alice");
                    for other in ["bob", "stranger"] {
                        assert_eq!(raw.set_up_again(other).await, Err(Status::ACCESS_DENIED), "{other}");
                    }
                    raw.set_up_again("alice").await.unwrap();
                    assert_eq!(name(), "alice");
                }
                // No user has authenticated in a session that begins so.
                let mut raw = Raw::open(address).await;
                raw.negotiate().await;
                raw.set_up("").await.unwrap();
                for other in ["alice", "stranger", ""] {
                    assert_eq!(raw.set_up_again(other).await, Err(Status::ACCESS_DENIED), "{other:?}");
                }
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

/// An open keeps what it was granted at its CREATE (MS-SMB2 3.3.1.10, Open.GrantedAccess), as with Windows
/// and Samba.
#[test]
fn an_open_keeps_what_it_was_granted_when_nobody_in_particular_signs_in_again_and_nothing_new_is_opened() {
    let open = Options { policy: Policy { guest: true, anonymous: true }, ..rules() };
    run(25, open, async |bed, world| {
        let (address, fs) = (bed.address, bed.fs.clone());
        fs.create_dir_all("/srv/private").unwrap();
        let mut list = Acl::new();
        list.set(Side::Given, "alice".parse().unwrap(), Rights::ALL).unwrap();
        fs.set_xattr("/srv/private", "user.linerate.acl", &list.encode()).unwrap();
        world
            .on(1, async move {
                let mut raw = Raw::open(address).await;
                raw.negotiate().await;
                raw.set_up("alice").await.unwrap();
                let (path, access) =
                    ("private\\page", rights::FILE_READ | rights::FILE_WRITE | rights::DELETE);
                let file = raw.open_file(path, access).await;
                let reading = raw.create(path, rights::FILE_READ).await;
                let written = async |raw: &mut Raw, file| {
                    let fixed = WriteRequestFixed { file_id: file, ..WriteRequestFixed::blank() };
                    let asked =
                        raw.request(Command::Write, 1, |body| WriteRequest::write(body, fixed, b"text"));
                    status(&raw.exchange(asked).await.unwrap())
                };
                let created = async |raw: &mut Raw, name: &str| {
                    let asked = raw.create_request(name, rights::FILE_READ);
                    status(&raw.exchange(asked).await.unwrap())
                };
                let renamed = async |raw: &mut Raw, file, to: &str| {
                    let name: Vec<u8> = to.encode_utf16().flat_map(u16::to_le_bytes).collect();
                    let what = [&[0; 16][..], &(name.len() as u32).to_le_bytes(), &name].concat();
                    let fixed = SetInfoRequestFixed {
                        info_type: info_type::FILE,
                        file_info_class: class::RENAME,
                        file_id: file,
                        ..SetInfoRequestFixed::blank()
                    };
                    let asked =
                        raw.request(Command::SetInfo, 1, |body| SetInfoRequest::write(body, fixed, &what));
                    status(&raw.exchange(asked).await.unwrap())
                };
                for _ in 0..2 {
                    raw.set_up_again("").await.unwrap();
                    // No more than it was granted, and no less.
                    assert_eq!(written(&mut raw, file).await, Status::SUCCESS);
                    assert_eq!(written(&mut raw, reading).await, Status::ACCESS_DENIED);
                    // Nothing that goes by a name.
                    for name in [path, "private\\new"] {
                        assert_eq!(created(&mut raw, name).await, Status::ACCESS_DENIED, "{name}");
                    }
                    assert_eq!(renamed(&mut raw, file, "private\\moved").await, Status::ACCESS_DENIED);
                    raw.set_up_again("alice").await.unwrap();
                    assert_eq!(created(&mut raw, path).await, Status::SUCCESS);
                }
                assert_eq!(renamed(&mut raw, file, "private\\moved").await, Status::SUCCESS);
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn begun_sign_ins_take_no_sessions_room_and_displace_the_oldest_of_their_connection() {
    let few = Options { sessions_max: 4, ..rules() };
    run(23, few, async |bed, world| {
        let (address, counters, server_state) =
            (bed.address, bed.lane.counters.clone(), bed.server_state.clone());
        world
            .on(1, async move {
                let mut others = Vec::new();
                for _ in 0..20 {
                    let mut raw = Raw::open(address).await;
                    raw.negotiate().await;
                    for _ in 0..20 {
                        raw.begin_sign_in().await;
                    }
                    others.push(raw);
                }
                assert_eq!(server_state.sessions.len(), 0);
                assert!(
                    server_state.pending_sign_ins.len() <= 20 * 8,
                    "{}",
                    server_state.pending_sign_ins.len()
                );
                assert!(counters.sign_ins_displaced.get() >= 20 * 12);
                // A sign-in that goes on at once succeeds, also by such a connection.
                let first = others[0].begin_sign_in().await;
                others[0].set_up("alice").await.unwrap();
                let mut good = Raw::open(address).await;
                good.negotiate().await;
                good.set_up("bob").await.unwrap();
                assert_eq!((server_state.sessions.len(), counters.sessions_refused.get()), (2, 0));
                for _ in 0..8 {
                    others[0].begin_sign_in().await;
                }
                // A displaced sign-in is no session.
                others[0].session = first;
                let asked = others[0].empty(Command::Logoff);
                let gone = others[0].exchange(asked).await.unwrap();
                assert_eq!(status(&gone), Status::USER_SESSION_DELETED);
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}
