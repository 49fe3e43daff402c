//! Sealed messages: it is opened whole and is its session's, or its connection ends. And what has to come
//! sealed and does not.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use smb_proto::sealing::Cipher;
use smb_wire::body::tree_connect::{TreeConnectRequest, TreeConnectRequestFixed};
use smb_wire::compound::Compound;
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::transform::{COMPRESSED_ID, TRANSFORM_LEN};
use smb_wire::{Command, Dialect, Message, Status};
use zerocopy::IntoBytes;

use super::bed::{Bed, Clients, rules, run, until};
use super::raw::{Raw, SHARE, status};
use crate::counters::SmbCounters;
use crate::options::Options;
use crate::settings::Encryption;

/// Dialects and ciphers of sealed sessions.
const MANNERS: [(Dialect, Cipher); 4] = [
    (Dialect::Smb300, Cipher::Aes128Ccm),
    (Dialect::Smb302, Cipher::Aes128Ccm),
    (Dialect::Smb311, Cipher::Aes128Gcm),
    (Dialect::Smb311, Cipher::Aes256Ccm),
];

/// A client that has signed in, and whose sealed questions are answered.
async fn signed_in(address: SocketAddr, (dialect, cipher): (Dialect, Cipher)) -> Raw {
    let mut raw = Raw::sealed(address, dialect, cipher).await;
    raw.sign_in().await;
    let asked = raw.empty(Command::Echo);
    assert_eq!(status(&raw.exchange(asked).await.unwrap()), Status::SUCCESS);
    raw
}

/// Description of a frame, and its maker.
type Case = (&'static str, fn(&mut Raw) -> Vec<u8>);

/// Each of these frames ends its connection without another word, and is counted.
fn each_ends_its_connection(frames: &'static [Case], counted: fn(&SmbCounters) -> u64) {
    run(51, rules(), async move |bed: Rc<Bed>, world: Clients| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        let attack = async move {
            let mut ended = 0;
            for manner in MANNERS {
                for (what, frame) in frames {
                    let mut raw = signed_in(address, manner).await;
                    let frame = frame(&mut raw);
                    raw.send(&frame).await;
                    assert!(raw.has_ended().await, "{what}, {manner:?}");
                    ended += 1;
                    assert_eq!(counted(&counters), ended, "{what}, {manner:?}");
                }
            }
        };
        world.on(1, attack).await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

/// A question, sealed and then changed.
fn changed(raw: &mut Raw, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let asked = raw.empty(Command::Echo);
    let mut frame = raw.seal(&asked);
    change(&mut frame);
    frame
}

#[test]
fn a_transform_header_that_lies_ends_its_connection() {
    each_ends_its_connection(
        &[
            ("no flag", |raw| changed(raw, |frame| frame[42] = 0)),
            ("another flag", |raw| changed(raw, |frame| frame[42] = 2)),
            ("one flag more", |raw| changed(raw, |frame| frame[42] = 3)),
            ("a size that is less", |raw| changed(raw, |frame| frame[36] -= 1)),
            ("a size that is more", |raw| changed(raw, |frame| frame[36] += 1)),
            ("a size without end", |raw| changed(raw, |frame| frame[36..40].fill(0xff))),
            ("no size", |raw| changed(raw, |frame| frame[36..40].fill(0))),
            ("a session that there is not", |raw| changed(raw, |frame| frame[44] ^= 0xff)),
            ("no session", |raw| changed(raw, |frame| frame[44..52].fill(0))),
            ("a wrong tag", |raw| changed(raw, |frame| frame[4] ^= 1)),
            ("no tag", |raw| changed(raw, |frame| frame[4..20].fill(0))),
            ("another nonce", |raw| changed(raw, |frame| frame[20] ^= 1)),
            ("something in what is reserved", |raw| changed(raw, |frame| frame[40] ^= 1)),
            ("a byte that is another", |raw| changed(raw, |frame| frame[TRANSFORM_LEN + 3] ^= 1)),
            ("a byte too much", |raw| changed(raw, |frame| frame.push(0))),
            ("a byte too little", |raw| changed(raw, |frame| frame.truncate(frame.len() - 1))),
            ("nothing behind the header", |raw| changed(raw, |frame| frame.truncate(TRANSFORM_LEN))),
            ("a header that is not all there", |raw| changed(raw, |frame| frame.truncate(20))),
        ],
        |counters| counters.ended_sealed.get(),
    );
}

#[test]
fn what_is_no_message_within_a_seal_ends_its_connection() {
    each_ends_its_connection(
        &[
            ("sealed within sealed", |raw| {
                let within = changed(raw, |_| ());
                raw.seal(&within)
            }),
            ("compressed within sealed", |raw| {
                let mut within = raw.empty(Command::Echo);
                within[..4].copy_from_slice(&COMPRESSED_ID);
                raw.seal(&within)
            }),
            ("SMB1 within sealed", |raw| raw.seal(&[&b"\xffSMBr"[..], &[0; 90]].concat())),
            ("noise within sealed", |raw| raw.seal(&[0x5a; 100])),
            ("less than a header within sealed", |raw| raw.seal(b"\xfeSMB")),
            ("nothing within sealed", |raw| raw.seal(&[])),
        ],
        |counters| counters.ended_sealed.get(),
    );
}

/// A body of no request.
fn nothing(body: &mut Body<'_>) {
    body.bytes(&[0; 60]);
}

/// Two questions in one frame, of which one or the other is changed.
fn compound(raw: &mut Raw, change: impl Fn(usize, &mut smb_wire::Header)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compound = Compound::new(&mut out);
    for at in 0..2 {
        let mut header = raw.header(Command::Echo);
        change(at, &mut header);
        compound.begin(&header).bytes(&[4, 0, 0, 0]);
    }
    raw.seal(&out)
}

#[test]
fn what_was_sealed_by_one_session_and_names_another_ends_its_connection() {
    each_ends_its_connection(
        &[
            ("a session that there is not", |raw| {
                compound(raw, |at, header| {
                    header.session_id.set(header.session_id.get() ^ u64::from(at == 0))
                })
            }),
            ("no session", |raw| compound(raw, |_, header| header.session_id.set(0))),
            ("another one in what follows", |raw| {
                compound(raw, |at, header| {
                    header.session_id.set(header.session_id.get() ^ u64::from(at == 1))
                })
            }),
            ("a first one that goes on with nothing", |raw| {
                compound(raw, |_, header| *header = header.with(flags::RELATED_OPERATIONS))
            }),
        ],
        |counters| counters.ended_sealed.get(),
    );
}

#[test]
fn what_lies_within_a_seal_is_looked_at_as_what_lies_open() {
    each_ends_its_connection(
        &[
            ("NextCommand leads to itself", |raw| {
                let mut asked = raw.empty(Command::Echo);
                asked[20] = 8;
                raw.seal(&asked)
            }),
            ("NextCommand leads behind the frame", |raw| {
                let mut asked = raw.empty(Command::Echo);
                asked[20..24].copy_from_slice(&0x7fff_fff8_u32.to_le_bytes());
                raw.seal(&asked)
            }),
            ("a reply", |raw| compound(raw, |_, header| *header = header.with(flags::SERVER_TO_REDIR))),
        ],
        |counters| counters.ended_malformed.get(),
    );
    each_ends_its_connection(
        &[
            ("an id far ahead", |raw| compound(raw, |_, header| header.message_id.set(1 << 40))),
            ("an id that was used", |raw| compound(raw, |_, header| header.message_id.set(0))),
            ("the same id twice", |raw| compound(raw, |_, header| header.message_id.set(9))),
        ],
        |counters| counters.ended_window.get(),
    );
}

#[test]
fn a_sealed_frame_that_comes_twice_ends_its_connection() {
    run(52, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                for manner in MANNERS {
                    let mut raw = signed_in(address, manner).await;
                    let asked = raw.empty(Command::Echo);
                    let frame = raw.seal(&asked);
                    raw.send(&frame).await;
                    assert_eq!(status(&raw.receive_opened().await.unwrap()), Status::SUCCESS);
                    raw.send(&frame).await;
                    assert!(raw.has_ended().await, "{manner:?}");
                }
            })
            .await;
        assert_eq!(bed.counters().ended_window.get(), MANNERS.len() as u64);
    });
}

#[test]
fn what_was_sealed_for_a_session_of_another_connection_ends_this_one() {
    run(53, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                for manner in MANNERS {
                    let mut theirs = signed_in(address, manner).await;
                    let mine = signed_in(address, manner).await;
                    let asked = theirs.empty(Command::Echo);
                    let frame = theirs.seal(&asked);
                    mine.send(&frame).await;
                    assert!(mine.has_ended().await);
                    let asked = theirs.empty(Command::Logoff);
                    assert!(theirs.exchange(asked).await.is_some(), "the other goes on");
                    // No session has these keys any more.
                    let asked = theirs.empty(Command::Echo);
                    let frame = theirs.seal(&asked);
                    theirs.send(&frame).await;
                    assert!(theirs.has_ended().await);
                }
            })
            .await;
        assert_eq!(bed.counters().ended_sealed.get(), 2 * MANNERS.len() as u64);
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn of_two_sessions_of_a_connection_each_is_sealed_by_its_own_keys() {
    run(54, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address, MANNERS[2]).await;
                let first = raw.session;
                raw.set_up("bob").await.unwrap();
                let asked = raw.empty(Command::Echo);
                assert_eq!(status(&raw.exchange(asked).await.unwrap()), Status::SUCCESS);
                let mut frame = raw.empty(Command::Logoff);
                frame[40..48].copy_from_slice(first.as_bytes());
                let frame = raw.seal(&frame);
                raw.send(&frame).await;
                assert!(raw.has_ended().await);
            })
            .await;
        assert_eq!(bed.counters().ended_sealed.get(), 1);
    });
}

#[test]
fn where_everything_is_to_be_sealed_nothing_else_is_served() {
    let rules = Options { encryption: Encryption::Required, ..rules() };
    run(55, rules, async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut raw = signed_in(address, MANNERS[2]).await;
                let file = raw.open_file("sealed", rights::READ_DATA | rights::WRITE_DATA).await;
                let mut refused = 0;
                for command in Command::ALL.into_iter().filter(|command| command.needs_session()) {
                    let reply = raw.ask(command, nothing).await.unwrap();
                    assert_eq!(status(&reply), Status::ACCESS_DENIED, "{command:?}");
                    refused += 1;
                    assert_eq!(counters.unsealed_refused.get(), refused, "{command:?}");
                }
                // Signed is not sealed.
                raw.signs();
                let asked = raw.read(file);
                let reply = raw.exchange(asked).await.unwrap();
                assert_eq!(status(&reply), Status::ACCESS_DENIED);
                assert!(raw.is_signed(&reply));
                assert_eq!(counters.unsealed_refused.get(), refused + 1);
                let asked = raw.close(file);
                let frame = raw.seal(&asked);
                raw.send(&frame).await;
                assert_eq!(status(&raw.receive_opened().await.unwrap()), Status::SUCCESS, "it was open");
                // A client that cannot seal does not get so far.
                let mut old = Raw::open(address).await;
                old.negotiate().await;
                assert_eq!(old.set_up("alice").await, Err(Status::ACCESS_DENIED));
                assert_eq!(counters.unsealed_refused.get(), refused + 2);
                assert_eq!(counters.unsigned_refused.get(), 0);
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn a_tree_connect_of_3_1_1_that_is_neither_signed_nor_sealed_ends_its_connection() {
    run(56, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address, MANNERS[2]).await;
                let fixed = TreeConnectRequestFixed::blank();
                let asked =
                    raw.plain(Command::TreeConnect, |body| TreeConnectRequest::write(body, fixed, SHARE));
                raw.send(&asked).await;
                assert!(raw.has_ended().await);
            })
            .await;
        assert_eq!(bed.counters().unsigned_refused.get(), 1);
    });
}

#[test]
fn an_unknown_command_within_a_seal_is_answered_sealed() {
    run(57, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address, MANNERS[2]).await;
                let mut asked = raw.empty(Command::Echo);
                asked[12] = 0x77;
                let frame = raw.seal(&asked);
                raw.send(&frame).await;
                let reply = raw.receive_opened().await.unwrap();
                let header = *Message::new(&reply).unwrap().header();
                assert_eq!((header.status(), header.command.get()), (Status::INVALID_PARAMETER, 0x77));
            })
            .await;
    });
}
