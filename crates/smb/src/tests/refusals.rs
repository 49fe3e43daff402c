//! Messages that a client may not send: each ends in the status that the specification has for it, or ends
//! the connection, and moves the counter that tells of it. Others are not harmed.

use std::net::SocketAddr;
use std::sync::Arc;

use smb_proto::sealing::Cipher;
use smb_wire::body::change_notify::{ChangeNotifyRequest, filter};
use smb_wire::body::ioctl::{FLAG_IS_FSCTL, IoctlRequest, IoctlRequestFixed};
use smb_wire::body::oplock_break::OplockBreak;
use smb_wire::body::write::{WriteRequest, WriteRequestFixed};
use smb_wire::compound::{Compound, MESSAGES_MAX, Messages};
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::fsctl::negotiate_info::{ValidateRequest, ValidateRequestFixed};
use smb_wire::fsctl::{code, pipe_wait};
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::negotiate::context::{NegotiateContext, SHA_512};
use smb_wire::negotiate::{self, NegotiateRequest, NegotiateResponseFixed, capabilities, security_mode};
use smb_wire::transform::COMPRESSED_ID;
use smb_wire::{Command, Dialect, FileId, Guid, Header, Message, Response, Status};
use zerocopy::little_endian::U16;

use super::bed::{rules, run, until};
use super::raw::{PIPES, Raw, SHARE, status};
use crate::counters::SmbCounters;
use crate::options::Options;
use crate::settings::Signing;

/// A client that has signed in.
async fn signed_in(address: SocketAddr) -> Raw {
    let mut raw = Raw::large(address).await;
    raw.sign_in().await;
    raw
}

async fn status_of(raw: &mut Raw, asked: Vec<u8>) -> Status {
    status(&raw.exchange(asked).await.expect("it is answered"))
}

/// Description of a frame, and its maker.
type Case = (&'static str, fn(&mut Raw) -> Vec<u8>);

/// Each of these frames, after a sign-in or before, ends its connection without an answer and is counted once.
fn each_ends_its_connection(cases: &'static [Case], signs_in: bool, counted: fn(&SmbCounters) -> u64) {
    run(71, rules(), async move |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut others = signed_in(address).await;
                for (ended, (what, frame)) in (1..).zip(cases) {
                    let mut raw = if signs_in { signed_in(address).await } else { Raw::open(address).await };
                    let frame = frame(&mut raw);
                    raw.send(&frame).await;
                    assert!(raw.has_ended().await, "{what}");
                    assert_eq!(counted(&counters), ended, "{what}");
                }
                let asked = others.empty(Command::Echo);
                assert_eq!(status_of(&mut others, asked).await, Status::SUCCESS);
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

/// Questions in one frame, whose headers are changed.
fn frame(raw: &mut Raw, count: usize, change: impl Fn(usize, &mut Header)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compound = Compound::new(&mut out);
    for at in 0..count {
        let mut header = raw.header(Command::Echo);
        change(at, &mut header);
        compound.begin(&header).bytes(&[4, 0, 0, 0]);
    }
    out
}

/// Two questions, of which the first says that the second is so many bytes away.
fn next_is(raw: &mut Raw, next: u32) -> Vec<u8> {
    let mut out = frame(raw, 2, |_, _| ());
    out[20..24].copy_from_slice(&next.to_le_bytes());
    out
}

#[test]
fn message_ids_that_are_not_a_clients_end_its_connection() {
    each_ends_its_connection(
        &[
            ("far ahead", |raw| frame(raw, 1, |_, header| header.message_id.set(1 << 40))),
            ("the last that there is", |raw| frame(raw, 1, |_, header| header.message_id.set(u64::MAX))),
            ("one behind those that were given", |raw| {
                frame(raw, 1, |_, header| header.message_id.set(header.message_id.get() + 512))
            }),
            ("used before", |raw| frame(raw, 1, |_, header| header.message_id.set(0))),
            ("one that is paid with more than there is", |raw| {
                frame(raw, 1, |_, header| header.credit_charge.set(u16::MAX))
            }),
            ("twice in one frame", |raw| frame(raw, 2, |_, header| header.message_id.set(9))),
            ("far ahead behind one that is right", |raw| {
                frame(raw, 2, |at, header| header.message_id.set(header.message_id.get() + (at as u64) * 999))
            }),
        ],
        true,
        |counters| counters.ended_window.get(),
    );
}

#[test]
fn compounds_that_loop_overrun_or_lie_unaligned_end_their_connection() {
    each_ends_its_connection(
        &[
            ("it leads into its own header", |raw| next_is(raw, 8)),
            ("it is its own next", |raw| next_is(raw, 1)),
            ("right behind the header", |raw| next_is(raw, 64)),
            ("unaligned", |raw| next_is(raw, 71)),
            ("unaligned by one", |raw| next_is(raw, 73)),
            ("where less than a header is left", |raw| next_is(raw, 80)),
            ("close to the end of the frame", |raw| next_is(raw, 136)),
            ("behind the frame", |raw| next_is(raw, 0x7fff_fff8)),
            ("round the numbers", |raw| next_is(raw, 0xffff_fff8)),
            ("the last number that there is", |raw| next_is(raw, u32::MAX)),
            ("more than are taken", |raw| {
                frame(raw, MESSAGES_MAX + 1, |at, header| {
                    header.message_id.set(3 + (at % 4) as u64);
                    *header = header.with(flags::RELATED_OPERATIONS);
                    header.command.set(Command::Cancel as u16);
                })
            }),
            ("what a server says", |raw| {
                frame(raw, 1, |_, header| *header = header.with(flags::SERVER_TO_REDIR))
            }),
            ("less than a header", |_| b"\xfeSMB".to_vec()),
            ("no protocol that is known", |_| b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            ("less than a protocol", |_| vec![0xfe]),
        ],
        true,
        |counters| counters.ended_malformed.get(),
    );
}

#[test]
fn compressed_messages_end_their_connection() {
    each_ends_its_connection(
        &[("with a whole message behind it", |raw| [&COMPRESSED_ID[..], &raw.empty(Command::Echo)].concat())],
        true,
        |counters| counters.ended_compressed.get(),
    );
}

#[test]
fn smb1_is_spoken_by_who_asks_for_smb2_alone_and_once() {
    const ALONE: &[u8] = include_bytes!(
        "__fuzz__/tests__fuzz__any_script_of_a_connection_is_answered_or_ends_it/corpus/smb1_alone"
    );
    const ASKS: &[u8] = include_bytes!(
        "__fuzz__/tests__fuzz__any_script_of_a_connection_is_answered_or_ends_it/corpus/smb1_that_offers_smb2"
    );
    // Behind what a script says of them.
    each_ends_its_connection(&[("it offers nothing else", |_| ALONE[4..].to_vec())], false, |counters| {
        counters.ended_smb1.get()
    });
    each_ends_its_connection(&[("after SMB2 was agreed on", |_| ASKS[4..50].to_vec())], true, |counters| {
        counters.ended_smb1.get()
    });
    run(72, rules(), async move |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let raw = Raw::open(address).await;
                raw.send(&ASKS[4..50]).await;
                assert_eq!(status(&raw.receive().await.unwrap()), Status::SUCCESS);
                raw.send(&ASKS[4..50]).await;
                assert!(raw.has_ended().await, "twice");
            })
            .await;
        assert_eq!((bed.counters().smb1_negotiations.get(), bed.counters().ended_smb1.get()), (1, 1));
    });
}

/// A question of the control code that confirms the negotiation, changed.
fn validate(raw: &mut Raw, change: impl FnOnce(&mut ValidateRequestFixed)) -> Vec<u8> {
    let mut fixed = ValidateRequestFixed {
        capabilities: 4.into(),
        guid: Guid::new([9; 16]),
        security_mode: 1.into(),
        dialect_count: 1.into(),
    };
    change(&mut fixed);
    let dialects = [U16::new(Dialect::Smb210 as u16)];
    let input = ValidateRequest { fixed: &fixed, dialects: &dialects }.to_bytes();
    control(raw, code::VALIDATE_NEGOTIATE_INFO, FileId::RELATED, &input)
}

fn control(raw: &mut Raw, code: u32, file: FileId, input: &[u8]) -> Vec<u8> {
    let fixed = IoctlRequestFixed {
        ctl_code: code.into(),
        file_id: file,
        max_output_response: 1000.into(),
        flags: FLAG_IS_FSCTL.into(),
        ..IoctlRequestFixed::blank()
    };
    raw.request(Command::Ioctl, 1, |body| IoctlRequest::write(body, fixed, input))
}

#[test]
fn a_negotiation_that_does_not_come_first_once_and_unchanged_ends_its_connection() {
    each_ends_its_connection(
        &[
            ("a question before it", |raw| frame(raw, 1, |_, _| ())),
            ("a sign-in before it", |raw| raw.plain(Command::SessionSetup, nothing)),
            ("a cancellation before it", |raw| raw.plain(Command::Cancel, nothing)),
        ],
        false,
        |counters| counters.ended_negotiate.get(),
    );
    each_ends_its_connection(
        &[
            ("other capabilities", |raw| validate(raw, |fixed| fixed.capabilities.set(5))),
            ("another client", |raw| validate(raw, |fixed| fixed.guid = Guid::new([8; 16]))),
            ("another mode", |raw| validate(raw, |fixed| fixed.security_mode.set(3))),
        ],
        true,
        |counters| counters.ended_negotiate.get(),
    );
    run(73, rules(), async move |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address).await;
                let asked = validate(&mut raw, |_| ());
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                // A second negotiation is not answered, whatever it says.
                let asked = negotiation(&mut raw);
                raw.send(&asked).await;
                assert!(raw.has_ended().await);
                // And one that claims to be signed is refused, as no session has a key yet.
                let mut raw = Raw::open(address).await;
                let mut asked = negotiation(&mut raw);
                asked[16] |= flags::SIGNED as u8;
                assert_eq!(status_of(&mut raw, asked).await, Status::INVALID_PARAMETER);
            })
            .await;
        assert_eq!(bed.counters().ended_negotiate.get(), 1);
    });
}

fn negotiation(raw: &mut Raw) -> Vec<u8> {
    let fixed = negotiate::request(Guid::new([9; 16]), 1, 0);
    raw.plain(Command::Negotiate, |body| NegotiateRequest::write(body, fixed, &[Dialect::Smb210], &[]))
}

/// Returns what a server answers these with, and where 3.1.1 is spoken the cipher and the number of contexts.
async fn agreed(
    address: SocketAddr,
    dialect: Dialect,
    offered: u32,
    ciphers: Option<&[Cipher]>,
) -> (NegotiateResponseFixed, Option<u16>, usize) {
    let mut raw = Raw::open(address).await;
    let fixed = negotiate::request(Guid::new([9; 16]), 1, offered);
    let ciphers = ciphers.map(|ciphers| ciphers.iter().map(|one| U16::new(*one as u16)).collect::<Vec<_>>());
    let hashes = [U16::new(SHA_512)];
    let mut contexts = Vec::new();
    if dialect == Dialect::Smb311 {
        contexts.push(NegotiateContext::Preauth { hashes: &hashes, salt: &[5; 32] });
        contexts.extend(ciphers.as_ref().map(|list| NegotiateContext::Encryption(list)));
    }
    let fill = |body: &mut Body<'_>| NegotiateRequest::write(body, fixed, &[dialect], &contexts);
    let reply = raw.ask(Command::Negotiate, fill).await.unwrap();
    let message = Message::new(&reply).unwrap();
    let Ok(Response::Negotiate(answer)) = Response::parse(&message) else { panic!("{}", status(&reply)) };
    let cipher = answer.contexts.iter().find_map(|context| match context.unwrap() {
        NegotiateContext::Encryption([one]) => Some(one.get()),
        _ => None,
    });
    (*answer.fixed, cipher, answer.contexts.len())
}

#[test]
fn a_client_is_told_of_those_capabilities_alone_that_it_announces() {
    use capabilities::{
        DIRECTORY_LEASING, ENCRYPTION, LARGE_MTU, LEASING, MULTI_CHANNEL, NOTIFICATIONS, PERSISTENT_HANDLES,
    };
    run(84, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                for dialect in Dialect::ALL {
                    // Both of them are the server's to say, by its dialect alone (MS-SMB2 3.3.5.4).
                    let own = if dialect >= Dialect::Smb210 { LEASING | LARGE_MTU } else { 0 };
                    let mutual = match dialect {
                        Dialect::Smb202 | Dialect::Smb210 => 0,
                        Dialect::Smb300 | Dialect::Smb302 => MULTI_CHANNEL | DIRECTORY_LEASING | ENCRYPTION,
                        Dialect::Smb311 => MULTI_CHANNEL | DIRECTORY_LEASING | NOTIFICATIONS,
                    };
                    let each = (0..32).map(|bit| 1 << bit);
                    for offered in each.chain([0, u32::MAX, !DIRECTORY_LEASING, LEASING | PERSISTENT_HANDLES])
                    {
                        let (told, ..) = agreed(address, dialect, offered, None).await;
                        assert_eq!(
                            told.capabilities.get(),
                            own | (mutual & offered),
                            "{dialect} {offered:#x}"
                        );
                    }
                }
            })
            .await;
    });
}

#[test]
fn a_client_that_offers_no_cipher_is_answered_with_none() {
    run(85, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let gcm = Cipher::Aes128Gcm;
                for (ciphers, expected, contexts) in
                    [(None, None, 1), (Some(&[][..]), Some(0), 2), (Some(&[gcm][..]), Some(gcm as u16), 2)]
                {
                    let (_, cipher, count) = agreed(address, Dialect::Smb311, 0x7f, ciphers).await;
                    assert_eq!((cipher, count), (expected, contexts), "{ciphers:?}");
                }
            })
            .await;
    });
}

/// A body of no request.
fn nothing(body: &mut Body<'_>) {
    body.bytes(&[0; 60]);
}

#[test]
fn where_signatures_are_required_nothing_unsigned_is_done() {
    run(74, rules(), async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut raw = Raw::insisting(address).await;
                raw.sign_in().await;
                let file = raw.open_file("kept", rights::READ_DATA | rights::WRITE_DATA).await;
                let mut refused = 0;
                let needs_one =
                    |command: &Command| command.needs_session() || *command == Command::SessionSetup;
                for command in Command::ALL.into_iter().filter(needs_one) {
                    let reply = raw.ask(command, nothing).await.unwrap();
                    assert_eq!(status(&reply), Status::ACCESS_DENIED, "{command:?}");
                    assert!(raw.is_signed(&reply), "{command:?}");
                    refused += 1;
                    assert_eq!(counters.unsigned_refused.get(), refused, "{command:?}");
                }
                // A WRITE that is looked at before its data is taken is counted once too.
                let fixed = WriteRequestFixed { file_id: file, ..WriteRequestFixed::blank() };
                let written = |body: &mut Body<'_>| WriteRequest::write(body, fixed, b"not mine");
                let reply = raw.ask(Command::Write, written).await.unwrap();
                assert_eq!(status(&reply), Status::ACCESS_DENIED);
                assert_eq!(counters.unsigned_refused.get(), refused + 1);
                // Another session's signature is none.
                let mut asked = raw.request(Command::Write, 1, written);
                asked[50] ^= 1;
                raw.send(&asked).await;
                assert_eq!(status(&raw.receive().await.unwrap()), Status::ACCESS_DENIED);
                assert_eq!(counters.signatures_wrong.get(), 1);
                let asked = raw.close(file);
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS, "it is open as it was");
            })
            .await;
        assert_eq!(bed.fs.read("/srv/kept").unwrap(), b"");
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn where_the_server_requires_signatures_who_has_a_key_signs_in_every_dialect_and_guests_need_not() {
    let mut rules = Options { signing: Signing::Required, ..rules() };
    (rules.policy.guest, rules.policy.anonymous) = (true, true);
    run(86, rules, async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                for dialect in Dialect::ALL {
                    let (told, ..) = agreed(address, dialect, 0, None).await;
                    assert_eq!(told.security_mode.get(), MODE_REQUIRED, "{dialect}");
                }
                let needs_one = |command: &&Command| command.needs_session();
                for is_smb3 in [false, true] {
                    let open = || async move {
                        if is_smb3 { Raw::smb3(address).await } else { Raw::large(address).await }
                    };
                    let before = counters.unsigned_refused.get();
                    let mut user = open().await;
                    user.sign_in().await;
                    let mut refused = 0;
                    for command in Command::ALL.iter().filter(needs_one) {
                        let reply = user.ask(*command, nothing).await.unwrap();
                        assert_eq!(status(&reply), Status::ACCESS_DENIED, "{command:?}");
                        refused += 1;
                        assert_eq!(counters.unsigned_refused.get() - before, refused, "{command:?}");
                    }
                    user.signs();
                    user.open_file("kept", rights::READ_DATA | rights::WRITE_DATA).await;
                    let mut guest = open().await;
                    guest.negotiate().await;
                    guest.set_up("a stranger").await.unwrap();
                    guest.open_file("kept", rights::READ_DATA | rights::WRITE_DATA).await;
                    assert_eq!(counters.unsigned_refused.get() - before, refused);
                }
            })
            .await;
    });
}

#[test]
fn clients_are_told_to_sign_where_somebody_can() {
    for (has_users, guest, signing, expected) in [
        (true, false, Signing::Required, MODE_REQUIRED),
        (true, true, Signing::Required, MODE_REQUIRED),
        (false, false, Signing::Required, MODE_REQUIRED),
        (false, true, Signing::Required, security_mode::SIGNING_ENABLED),
        (true, false, Signing::Allowed, security_mode::SIGNING_ENABLED),
    ] {
        let mut rules = Options { signing, has_users, ..rules() };
        rules.policy.guest = guest;
        run(87, rules, async move |bed, world| {
            let address = bed.address;
            world
                .on(1, async move {
                    let (told, ..) = agreed(address, Dialect::Smb210, 0, None).await;
                    assert_eq!(told.security_mode.get(), expected, "{has_users} {guest} {signing:?}");
                })
                .await;
        });
    }
}

const MODE_REQUIRED: u16 = security_mode::SIGNING_ENABLED | security_mode::SIGNING_REQUIRED;

#[test]
fn a_request_that_waits_keeps_what_it_needs_and_is_charged_for_it() {
    let rules = Options { credits: 2048, ..rules() };
    run(82, rules, async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        let connections = bed.lane.connections().counters().clone();
        world
            .on(1, async move {
                for is_signed in [false, true] {
                    let mut raw = match is_signed {
                        true => Raw::signed(address).await,
                        false => Raw::open(address).await,
                    };
                    raw.sign_in().await;
                    raw.connect(SHARE).await;
                    let before = connections.reply_memory_bytes.get();
                    let mut directory = FileId::RELATED;
                    for at in 0..256 {
                        if at % 32 == 0 {
                            directory = raw.create("", rights::READ_DATA).await;
                        }
                        let mut asked = watch(&mut raw, directory);
                        asked.resize(60_000, 7);
                        assert_eq!(status_of(&mut raw, asked).await, Status::PENDING, "{at}");
                    }
                    let held = connections.reply_memory_bytes.get() - before;
                    assert!((256 * 96..256 * 200).contains(&held), "{held}");
                }
                // A frame of several messages is kept whole and charged whole: there are few of them.
                let mut raw = signed_in(address).await;
                raw.connect(SHARE).await;
                let (mut pending, mut refused) = (0, 0);
                for _ in 0..200 {
                    let directory = raw.create("", rights::READ_DATA).await;
                    let mut asked = raw.empty(Command::Echo);
                    asked.resize(56_000, 0);
                    asked[20..24].copy_from_slice(&56_000u32.to_le_bytes());
                    asked.extend(watch(&mut raw, directory));
                    raw.send(&asked).await;
                    let mut answers = Vec::new();
                    while answers.len() < 2 {
                        let reply = raw.receive().await.unwrap();
                        let messages = Messages::new(&reply).map(|message| message.unwrap());
                        answers.extend(messages.map(|message| message.header().status()));
                    }
                    match answers[1] {
                        Status::PENDING => pending += 1,
                        Status::INSUFFICIENT_RESOURCES => refused += 1,
                        status => panic!("{status}"),
                    }
                }
                assert!(pending < 40, "{pending}");
                assert_eq!(counters.requests_refused_async.get(), refused);
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

fn watch(raw: &mut Raw, directory: FileId) -> Vec<u8> {
    let fixed = ChangeNotifyRequest {
        output_buffer_length: 100.into(),
        file_id: directory,
        completion_filter: filter::FILE_NAME.into(),
        ..ChangeNotifyRequest::blank()
    };
    raw.request(Command::ChangeNotify, 1, |body| body.push(&fixed))
}

#[test]
fn an_oplock_is_acknowledged_by_the_tree_that_its_open_is_of() {
    run(83, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address).await;
                let file = raw.open_file("held", rights::FILE_READ | rights::FILE_WRITE).await;
                let own = raw.tree;
                let other = raw.connect(SHARE).await;
                for (tree, expected) in [
                    (0x7777, Status::NETWORK_NAME_DELETED),
                    (other, Status::FILE_CLOSED),
                    (own, Status::INVALID_DEVICE_STATE),
                ] {
                    raw.tree = tree;
                    let answer = OplockBreak { file_id: file, ..OplockBreak::blank() };
                    let asked = raw.request(Command::OplockBreak, 1, |body| body.push(&answer));
                    assert_eq!(status_of(&mut raw, asked).await, expected, "{tree}");
                }
            })
            .await;
    });
}

/// CANCEL of the request of this id, which is no message of its own.
fn cancel(raw: &mut Raw, id: u64, signs: bool) -> Vec<u8> {
    let mut header = Header::request(Command::Cancel, id);
    header.session_id.set(raw.session);
    let mut out = Vec::new();
    Compound::new(&mut out).begin(&header).bytes(&[4, 0, 0, 0]);
    if signs {
        raw.sign(&mut out);
    }
    out
}

#[test]
fn a_cancellation_is_obeyed_where_it_is_signed_as_it_has_to_be() {
    run(75, rules(), async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut raw = Raw::insisting(address).await;
                raw.sign_in().await;
                raw.connect(SHARE).await;
                let directory = raw.create("", rights::READ_DATA).await;
                let asked = watch(&mut raw, directory);
                let id = Header::parse(&asked).unwrap().message_id.get();
                assert_eq!(status_of(&mut raw, asked).await, Status::PENDING);
                let unsigned = cancel(&mut raw, id, false);
                let mut changed = cancel(&mut raw, id, true);
                changed[60] ^= 1;
                let mut of_nobody = cancel(&mut raw, id, true);
                of_nobody[40] ^= 0xff;
                for frame in [unsigned, changed, of_nobody] {
                    raw.send(&frame).await;
                }
                let asked = raw.empty(Command::Echo);
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS, "nothing else was answered");
                assert_eq!((counters.cancelled.get(), counters.waiting.get()), (0, 1));
                assert_eq!((counters.unsigned_refused.get(), counters.signatures_wrong.get()), (1, 1));
                let frame = cancel(&mut raw, id, true);
                raw.send(&frame).await;
                let reply = raw.receive().await.unwrap();
                let header = *Message::new(&reply).unwrap().header();
                assert_eq!((header.status(), header.message_id.get()), (Status::CANCELLED, id));
                assert!(raw.is_signed(&reply));
                assert_eq!((counters.cancelled.get(), counters.waiting.get()), (1, 0));
            })
            .await;
    });
}

#[test]
fn trees_opens_and_sessions_are_those_of_who_has_them() {
    run(76, rules(), async |bed, world| {
        bed.fs.write("/srv/mine", b"0123456789".to_vec()).unwrap();
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address).await;
                let file = raw.open_file("mine", rights::READ_DATA).await;
                let (session, tree) = (raw.session, raw.tree);
                let pipes = raw.connect(PIPES).await;
                let pipe = raw.create("srvsvc", rights::READ_DATA | rights::WRITE_DATA).await;
                let second = raw.connect(SHARE).await;
                let ask = async |raw: &mut Raw, tree: u32, file: FileId| {
                    raw.tree = tree;
                    let asked = raw.read(file);
                    status_of(raw, asked).await
                };
                assert_eq!(ask(&mut raw, tree, file).await, Status::SUCCESS);
                assert_eq!(ask(&mut raw, second, file).await, Status::FILE_CLOSED, "of another tree");
                assert_eq!(ask(&mut raw, pipes, file).await, Status::FILE_CLOSED, "no pipe");
                assert_eq!(ask(&mut raw, second, pipe).await, Status::FILE_CLOSED, "no file");
                assert_eq!(ask(&mut raw, 77, file).await, Status::NETWORK_NAME_DELETED);
                assert_eq!(ask(&mut raw, 0, file).await, Status::NETWORK_NAME_DELETED);
                let swapped = FileId { persistent: file.volatile, volatile: file.persistent };
                for other in [FileId::RELATED, FileId::new(0, 0), swapped] {
                    assert_eq!(ask(&mut raw, tree, other).await, Status::FILE_CLOSED, "{other:?}");
                }
                // Another user's session of the same connection.
                raw.set_up("bob").await.unwrap();
                let theirs = raw.session;
                assert_eq!(ask(&mut raw, tree, file).await, Status::NETWORK_NAME_DELETED, "bob has no tree");
                let of_bob = raw.connect(SHARE).await;
                assert_eq!(of_bob, tree, "each session counts its own");
                assert_eq!(ask(&mut raw, of_bob, file).await, Status::FILE_CLOSED, "of another session");
                let of_bob = raw.connect(PIPES).await;
                assert_eq!(ask(&mut raw, of_bob, pipe).await, Status::FILE_CLOSED, "of another session");
                // Sessions of one connection are none of another's.
                let mut other = signed_in(address).await;
                for id in [session, theirs, session ^ 1 << 20, u64::MAX] {
                    other.session = id;
                    assert_eq!(ask(&mut other, tree, file).await, Status::USER_SESSION_DELETED);
                    for command in [Command::Logoff, Command::TreeDisconnect, Command::Echo] {
                        let asked = other.empty(command);
                        assert_eq!(status_of(&mut other, asked).await, Status::USER_SESSION_DELETED);
                    }
                }
                raw.session = session;
                assert_eq!(ask(&mut raw, tree, file).await, Status::SUCCESS, "it is open as it was");
                let asked = raw.empty(Command::Logoff);
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                for command in [Command::Logoff, Command::Echo] {
                    let asked = raw.empty(command);
                    assert_eq!(status_of(&mut raw, asked).await, Status::USER_SESSION_DELETED);
                }
                raw.session = 0;
                let asked = raw.empty(Command::Echo);
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS, "it names none");
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn who_waits_for_a_pipe_names_it_and_no_open() {
    run(77, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = signed_in(address).await;
                let wait = async |raw: &mut Raw, file: FileId, input: &[u8]| {
                    let asked = control(raw, code::PIPE_WAIT, file, input);
                    status_of(raw, asked).await
                };
                raw.connect(SHARE).await;
                let input = pipe_wait::to_bytes("srvsvc");
                assert_eq!(wait(&mut raw, FileId::RELATED, &input).await, Status::INVALID_DEVICE_REQUEST);
                raw.connect(PIPES).await;
                for name in ["srvsvc", "wkssvc", "LSARPC"] {
                    let input = pipe_wait::to_bytes(name);
                    assert_eq!(wait(&mut raw, FileId::RELATED, &input).await, Status::SUCCESS, "{name}");
                }
                let mut long = input.clone();
                long[8] += 2;
                let cut = input[..13].to_vec();
                for input in [pipe_wait::to_bytes("spoolss"), pipe_wait::to_bytes(""), long, cut] {
                    let status = wait(&mut raw, FileId::RELATED, &input).await;
                    assert_eq!(status, Status::OBJECT_NAME_NOT_FOUND, "{input:?}");
                }
                let pipe = raw.create("srvsvc", rights::READ_DATA | rights::WRITE_DATA).await;
                assert_eq!(wait(&mut raw, pipe, &input).await, Status::INVALID_PARAMETER);
            })
            .await;
    });
}

#[test]
fn a_pipe_that_is_given_no_fragment_is_at_its_end() {
    run(78, rules(), async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut raw = signed_in(address).await;
                raw.connect(PIPES).await;
                let pipe = raw.create("srvsvc", rights::READ_DATA | rights::WRITE_DATA).await;
                let other = raw.create("srvsvc", rights::READ_DATA | rights::WRITE_DATA).await;
                let fixed = WriteRequestFixed { file_id: pipe, ..WriteRequestFixed::blank() };
                for _ in 0..2 {
                    let asked =
                        raw.request(Command::Write, 1, |body| WriteRequest::write(body, fixed, &[0x5a; 40]));
                    assert_eq!(status_of(&mut raw, asked).await, Status::PIPE_DISCONNECTED);
                    assert_eq!(counters.pipe_broken.get(), 1, "it breaks once");
                }
                let asked = raw.read(pipe);
                assert_eq!(status_of(&mut raw, asked).await, Status::PIPE_DISCONNECTED);
                let asked = control(&mut raw, code::PIPE_TRANSCEIVE, other, &[0x5a; 40]);
                assert_eq!(status_of(&mut raw, asked).await, Status::PIPE_DISCONNECTED);
                assert_eq!(counters.pipe_broken.get(), 2);
            })
            .await;
    });
}

#[test]
fn of_requests_that_wait_a_connection_has_511_and_the_next_is_refused() {
    let rules = Options { credits: 2048, ..rules() };
    run(79, rules, async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut raw = signed_in(address).await;
                raw.connect(SHARE).await;
                let mut directory = FileId::RELATED;
                for at in 0..514 {
                    // An open has its own bound.
                    if at % 32 == 0 {
                        directory = raw.create("", rights::READ_DATA).await;
                    }
                    let asked = watch(&mut raw, directory);
                    let expected = if at < 511 { Status::PENDING } else { Status::INSUFFICIENT_RESOURCES };
                    assert_eq!(status_of(&mut raw, asked).await, expected, "{at}");
                }
                assert_eq!((counters.requests_refused_async.get(), counters.waiting.get()), (3, 511));
                let asked = raw.empty(Command::Echo);
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS, "what does not wait goes on");
                // Others have their own.
                let mut other = signed_in(address).await;
                other.connect(SHARE).await;
                let directory = other.create("", rights::READ_DATA).await;
                let asked = watch(&mut other, directory);
                assert_eq!(status_of(&mut other, asked).await, Status::PENDING);
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn sessions_beyond_those_of_the_server_or_of_a_connection_are_refused() {
    let few = Options { sessions_max: 3, ..rules() };
    run(80, few, async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        world
            .on(1, async move {
                let mut raw = Raw::open(address).await;
                raw.negotiate().await;
                for _ in 0..3 {
                    raw.set_up("alice").await.unwrap();
                }
                let last = raw.session;
                assert_eq!(raw.set_up("alice").await, Err(Status::INSUFFICIENT_RESOURCES));
                let mut other = Raw::open(address).await;
                other.negotiate().await;
                assert_eq!(other.set_up("bob").await, Err(Status::INSUFFICIENT_RESOURCES));
                assert_eq!(counters.sessions_refused.get(), 2);
                raw.session = last;
                let asked = raw.empty(Command::Logoff);
                assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                other.set_up("bob").await.unwrap();
            })
            .await;
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
    run(81, rules(), async |bed, world| {
        let address = bed.address;
        world
            .on(1, async move {
                let mut raw = Raw::open(address).await;
                raw.negotiate().await;
                for _ in 0..256 {
                    raw.set_up("alice").await.unwrap();
                }
                assert_eq!(raw.set_up("alice").await, Err(Status::INSUFFICIENT_RESOURCES));
                signed_in(address).await;
            })
            .await;
        assert_eq!(bed.counters().sessions_refused.get(), 1);
        until("all connections have gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}
