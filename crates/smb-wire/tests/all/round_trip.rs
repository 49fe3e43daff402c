//! Every request and every response comes back as it was written; cut short or bent, none makes trouble.

use smb_wire::body::change_notify::ChangeNotifyRequest;
use smb_wire::body::close::{CloseRequest, CloseResponse};
use smb_wire::body::error::{ErrorResponse, SymlinkError};
use smb_wire::body::flush::FlushRequest;
use smb_wire::body::ioctl::{IoctlRequest, IoctlRequestFixed, IoctlResponse, IoctlResponseFixed};
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed};
use smb_wire::body::notification::SessionClosed;
use smb_wire::body::oplock_break::{Break, LeaseBreak, LeaseBreakAck, OplockBreak};
use smb_wire::body::plain::Empty;
use smb_wire::body::query_directory::{Output, QueryDirectoryRequest, QueryDirectoryRequestFixed};
use smb_wire::body::query_info::{QueryInfoRequest, QueryInfoRequestFixed};
use smb_wire::body::read::{DATA_OFFSET, ReadRequest, ReadResponse};
use smb_wire::body::session_setup::{
    SessionSetupRequest, SessionSetupRequestFixed, SessionSetupResponse, SessionSetupResponseFixed,
};
use smb_wire::body::set_info::{SetInfoRequest, SetInfoRequestFixed, SetInfoResponse};
use smb_wire::body::tree_connect::{TreeConnectRequest, TreeConnectRequestFixed, TreeConnectResponse};
use smb_wire::body::write::{WriteRequest, WriteRequestFixed, WriteResponse};
use smb_wire::compound::{Compound, Messages};
use smb_wire::create::context::{ContextWriter, CreateContext, tag};
use smb_wire::create::{CreateRequest, CreateRequestFixed, CreateResponse, CreateResponseFixed};
use smb_wire::fixed::Fixed;
use smb_wire::message::Body;
use smb_wire::negotiate::context::{NegotiateContext, POSIX_TAG, SHA_512};
use smb_wire::negotiate::{self, NegotiateRequest, NegotiateResponse, NegotiateResponseFixed};
use smb_wire::text::{Text, encoded};
use smb_wire::{Command, Dialect, FileId, Guid, Header, Malformed, Message, Request, Response, Status};
use zerocopy::little_endian::U16;

const FILE: fn() -> FileId = || FileId::new(7, 9);

fn frame(command: Command, status: Status, write: impl FnOnce(&mut Body<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut header = Header::request(command, 3);
    header.status.set(status.0);
    write(&mut Compound::new(&mut out).begin(&header));
    out
}

fn request(command: Command, write: impl FnOnce(&mut Body<'_>)) -> Vec<u8> {
    frame(command, Status::SUCCESS, write)
}

/// A frame whose every prefix is refused and in which no single byte makes a parser panic.
fn hold(frame: &[u8], is_request: bool) {
    let read = |bytes: &[u8]| {
        let message = Message::new(bytes)?;
        if is_request {
            Request::parse(&message).map(|request| drop(format!("{request:?}")))
        } else {
            Response::parse(&message).map(|response| drop(format!("{response:?}")))
        }
    };
    read(frame).unwrap();
    // A last byte of padding may be missing; nothing else may.
    for end in 0..frame.len() - 8 {
        // What lies in front of the variable part is always needed; what is in it is by its length.
        if end < 66 {
            assert!(read(&frame[..end]).is_err(), "{end} of {}", frame.len());
        } else {
            let _ = read(&frame[..end]);
        }
    }
    for at in 0..frame.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bent = frame.to_vec();
            bent[at] = value;
            let _ = read(&bent);
        }
    }
}

macro_rules! read {
    ($frame:expr, $kind:ident :: $name:ident($view:ident)) => {{
        let frame: &[u8] = $frame;
        hold(frame, stringify!($kind) == "Request");
        let $kind::$name($view) = $kind::parse(&Message::new(frame).unwrap()).unwrap() else {
            panic!("another command")
        };
        $view
    }};
}

fn numbers(list: &[U16]) -> Vec<u16> {
    list.iter().map(|number| number.get()).collect()
}

#[test]
fn negotiate() {
    let [hash, ciphers, signing] = [[1, 9], [2, 1], [2, 1]].map(|list| list.map(U16::new));
    let name = encoded("server");
    let contexts = [
        NegotiateContext::Preauth { hashes: &hash, salt: &[5; 32] },
        NegotiateContext::Encryption(&ciphers),
        NegotiateContext::Compression { algorithms: &ciphers, flags: 1 },
        NegotiateContext::NetName(Text::new(&name).unwrap()),
        NegotiateContext::Transport(1),
        NegotiateContext::RdmaTransform(&signing),
        NegotiateContext::Signing(&signing),
        NegotiateContext::Posix(&POSIX_TAG),
        NegotiateContext::Unknown(0x77, b"odd"),
    ];
    let fixed = negotiate::request(Guid::new([1; 16]), 1, 0x7f);
    let frame = request(Command::Negotiate, |body| {
        NegotiateRequest::write(body, fixed, &Dialect::ALL, &contexts);
    });
    let view = read!(&frame, Request::Negotiate(view));
    assert_eq!(numbers(view.dialects), [0x202, 0x210, 0x300, 0x302, 0x311]);
    assert!(view.offers(Dialect::Smb311));
    assert_eq!(view.contexts.iter().map(Result::unwrap).collect::<Vec<_>>(), contexts);
    assert_eq!(numbers(&hash)[0], SHA_512);

    let fixed = NegotiateResponseFixed { dialect: 0x311.into(), ..NegotiateResponseFixed::blank() };
    let frame = request(Command::Negotiate, |body| {
        NegotiateResponse::write(body, fixed, b"token", &contexts[..2]);
    });
    let view = read!(&frame, Response::Negotiate(view));
    assert_eq!((view.security, view.contexts.len()), (&b"token"[..], 2));

    // Without 3.1.1 the three fields are a time, and no contexts.
    let mut fixed = negotiate::request(Guid::new([1; 16]), 1, 0);
    fixed.context_offset.set(u32::MAX);
    let frame = request(Command::Negotiate, |body| {
        NegotiateRequest::write(body, fixed, &[Dialect::Smb302], &[]);
    });
    assert!(read!(&frame, Request::Negotiate(view)).contexts.is_empty());
}

#[test]
fn a_negotiation_that_lies_of_its_lists_is_refused() {
    let hash = [U16::new(1)];
    let contexts = [NegotiateContext::Preauth { hashes: &hash, salt: &[] }];
    let fixed = negotiate::request(Guid::default(), 1, 0);
    let frame = request(Command::Negotiate, |body| {
        NegotiateRequest::write(body, fixed, &[Dialect::Smb311], &contexts);
    });
    let bent = |at: usize, value: u16| {
        let mut frame = frame.clone();
        frame[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let message = Message::new(&frame)?;
        NegotiateRequest::parse(&message)?.contexts.iter().find_map(Result::err).map_or(Ok(()), Err)
    };
    assert_eq!(bent(66, 0), Err(Malformed::Count), "no dialect");
    assert_eq!(bent(66, 60), Err(Malformed::Count), "more dialects than bytes");
    assert_eq!(bent(92, 100), Err(Malformed::Alignment));
    assert_eq!(bent(92, 96), Err(Malformed::Offset), "contexts over the dialects");
    assert_eq!(bent(92, 1 << 12), Err(Malformed::Offset));
    assert_eq!(bent(96, 65), Err(Malformed::Count));
    assert_eq!(bent(96, 2), Err(Malformed::Count), "one context more than there is");
    assert_eq!(bent(106, 7), Err(Malformed::Count), "data beyond the end");
    assert_eq!(bent(112, 0), Err(Malformed::Count), "no hash");
    assert_eq!(bent(114, 1), Err(Malformed::Count), "a salt that is not there");
}

#[test]
fn a_list_of_no_ciphers_is_one_and_other_lists_name_something() {
    for (kind, expected) in [(1, false), (2, true), (3, false), (8, false)] {
        let parsed = NegotiateContext::parse(kind, &[0; 8]);
        assert_eq!(parsed.is_ok(), expected, "{kind}");
    }
    let parsed = NegotiateContext::parse(2, &[0, 0]);
    assert!(matches!(parsed, Ok(NegotiateContext::Encryption(list)) if list.is_empty()));
    assert!(NegotiateContext::parse(2, &[1, 0]).is_err());
}

#[test]
fn session_and_tree() {
    let frame = request(Command::SessionSetup, |body| {
        let fixed = SessionSetupRequestFixed { flags: 1, ..SessionSetupRequestFixed::blank() };
        SessionSetupRequest::write(body, fixed, b"token of sign-in");
    });
    assert_eq!(read!(&frame, Request::SessionSetup(view)).security, b"token of sign-in");
    for status in [Status::SUCCESS, Status::MORE_PROCESSING_REQUIRED] {
        let frame = frame_of_session_setup(status);
        assert_eq!(read!(&frame, Response::SessionSetup(view)).security, b"more");
    }
    let frame = request(Command::TreeConnect, |body| {
        TreeConnectRequest::write(body, TreeConnectRequestFixed::blank(), r"\\host\share");
    });
    assert_eq!(read!(&frame, Request::TreeConnect(view)).path.lossy(), r"\\host\share");
    let response = TreeConnectResponse { share_type: 1, ..TreeConnectResponse::blank() };
    let frame = request(Command::TreeConnect, |body| body.push(&response));
    assert_eq!(*read!(&frame, Response::TreeConnect(view)), response);
    for command in [Command::Logoff, Command::TreeDisconnect, Command::Echo, Command::Cancel] {
        let frame = request(command, |body| body.push(&Empty::blank()));
        Request::parse(&Message::new(&frame).unwrap()).unwrap();
        assert_eq!(Response::parse(&Message::new(&frame).unwrap()).is_ok(), command != Command::Cancel);
    }
}

fn frame_of_session_setup(status: Status) -> Vec<u8> {
    frame(Command::SessionSetup, status, |body| {
        SessionSetupResponse::write(body, SessionSetupResponseFixed::blank(), b"more");
    })
}

#[test]
fn create_and_close() {
    let mut contexts = ContextWriter::new();
    contexts.push(tag::MAXIMAL_ACCESS, &[]);
    contexts.push(tag::ON_DISK_ID, &[]);
    for (name, contexts) in [("a\\ü", contexts.bytes()), ("", contexts.bytes()), ("x", &[]), ("", &[])] {
        let frame = request(Command::Create, |body| {
            CreateRequest::write(body, CreateRequestFixed::blank(), name, contexts);
        });
        let view = read!(&frame, Request::Create(view));
        assert_eq!(view.name.lossy(), name);
        let read: Vec<_> = view.contexts.iter().map(Result::unwrap).collect();
        let expected = [CreateContext::MaximalAccess(None), CreateContext::OnDiskId];
        assert_eq!(read, expected[..if contexts.is_empty() { 0 } else { 2 }]);
    }
    let fixed = CreateResponseFixed { file_id: FILE(), ..CreateResponseFixed::blank() };
    for contexts in [contexts.bytes(), &[]] {
        let frame = request(Command::Create, |body| CreateResponse::write(body, fixed, contexts));
        let view = read!(&frame, Response::Create(view));
        assert_eq!((view.fixed.file_id, view.contexts.is_empty()), (FILE(), contexts.is_empty()));
    }
    let close = CloseRequest { file_id: FILE(), ..CloseRequest::blank() };
    let frame = request(Command::Close, |body| body.push(&close));
    assert_eq!(*read!(&frame, Request::Close(view)), close);
    let frame = request(Command::Close, |body| body.push(&CloseResponse::blank()));
    assert_eq!(read!(&frame, Response::Close(view)).file_attributes.get(), 0);
    let flush = FlushRequest { file_id: FILE(), ..FlushRequest::blank() };
    let frame = request(Command::Flush, |body| body.push(&flush));
    assert_eq!(*read!(&frame, Request::Flush(view)), flush);
}

#[test]
fn parts_of_a_create_that_overlap_or_leave_it_are_refused() {
    let mut contexts = ContextWriter::new();
    contexts.push(tag::MAXIMAL_ACCESS, &[]);
    let frame = request(Command::Create, |body| {
        CreateRequest::write(body, CreateRequestFixed::blank(), "name", contexts.bytes());
    });
    let bent = |at: usize, value: u32, len: usize| {
        let mut frame = frame.clone();
        frame[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        CreateRequest::parse(&Message::new(&frame).unwrap()).map(|_| ())
    };
    assert_eq!(bent(108, 119, 2), Err(Malformed::Offset), "the name begins in the fixed part");
    assert_eq!(bent(110, 7, 2), Err(Malformed::OddText));
    assert_eq!(bent(110, 10, 2), Err(Malformed::Offset), "the name reaches into the contexts");
    assert_eq!(bent(108, 0xfff0, 2), Err(Malformed::Offset));
    assert_eq!(bent(112, 130, 4), Err(Malformed::Alignment));
    assert_eq!(bent(112, 120, 4), Err(Malformed::Offset), "the contexts lie in the name");
    assert_eq!(bent(112, 0xffff_fff8, 4), Err(Malformed::Offset));
    assert_eq!(bent(116, u32::MAX, 4), Err(Malformed::Offset));
    assert_eq!(bent(116, 19, 4), Err(Malformed::Short), "less than a context");
}

#[test]
fn data() {
    let read = ReadRequest { file_id: FILE(), length: 65536.into(), ..ReadRequest::blank() };
    // What Samba's client sends: one byte of buffer behind the fixed part.
    let frame = request(Command::Read, |body| {
        body.push(&read);
        body.bytes(&[0]);
    });
    assert_eq!(*read!(&frame, Request::Read(view)), read);
    let frame = request(Command::Read, |body| ReadResponse::write(body, b"bytes of a file"));
    let view = read!(&frame, Response::Read(view));
    assert_eq!((view.data, view.fixed.data_offset), (&b"bytes of a file"[..], DATA_OFFSET));
    let frame = request(Command::Write, |body| {
        let fixed = WriteRequestFixed { file_id: FILE(), ..WriteRequestFixed::blank() };
        WriteRequest::write(body, fixed, b"bytes for a file");
    });
    assert_eq!(read!(&frame, Request::Write(view)).data, b"bytes for a file");
    let written = WriteResponse { count: 16.into(), ..WriteResponse::blank() };
    let frame = request(Command::Write, |body| body.push(&written));
    assert_eq!(*read!(&frame, Response::Write(view)), written);
    let lock = LockElement { offset: 1.into(), length: 2.into(), flags: 1.into(), reserved: 0.into() };
    let frame = request(Command::Lock, |body| {
        let fixed = LockRequestFixed { lock_sequence: 0x123.into(), ..LockRequestFixed::blank() };
        LockRequest::write(body, fixed, &[lock; 3]);
    });
    let view = read!(&frame, Request::Lock(view));
    assert_eq!(
        (view.locks, view.fixed.sequence().index, view.fixed.sequence().number),
        (&[lock; 3][..], 0x12, 3)
    );
}

#[test]
fn questions_and_settings() {
    let frame = request(Command::Ioctl, |body| {
        let fixed = IoctlRequestFixed { file_id: FileId::RELATED, ..IoctlRequestFixed::blank() };
        IoctlRequest::write(body, fixed, b"input");
    });
    assert_eq!(read!(&frame, Request::Ioctl(view)).input, b"input");
    // A copy that failed says how far it came; another failure does not.
    for (status, written) in [(Status::SUCCESS, true), (Status::INVALID_PARAMETER, true)] {
        let frame = self::frame(Command::Ioctl, status, |body| {
            IoctlResponse::write(body, IoctlResponseFixed::blank(), b"output");
        });
        assert_eq!(read!(&frame, Response::Ioctl(view)).output == b"output", written);
    }
    let frame = self::frame(Command::Ioctl, Status::INVALID_PARAMETER, |body| {
        ErrorResponse::write(body, Dialect::Smb311, &[]);
    });
    assert!(read!(&frame, Response::Error(view)).data.is_empty());
    let frame = request(Command::QueryDirectory, |body| {
        QueryDirectoryRequest::write(body, QueryDirectoryRequestFixed::blank(), "*");
    });
    assert_eq!(read!(&frame, Request::QueryDirectory(view)).pattern.lossy(), "*");
    for command in [Command::QueryDirectory, Command::ChangeNotify, Command::QueryInfo] {
        let frame = request(command, |body| Output::write(body, |out| out.extend(b"answer")));
        let message = Message::new(&frame).unwrap();
        assert_eq!(Output::parse(&message).unwrap().data, b"answer");
        hold(&frame, false);
    }
    let notify = ChangeNotifyRequest { completion_filter: 3.into(), ..ChangeNotifyRequest::blank() };
    let frame = request(Command::ChangeNotify, |body| body.push(&notify));
    assert_eq!(*read!(&frame, Request::ChangeNotify(view)), notify);
    let frame = request(Command::QueryInfo, |body| {
        QueryInfoRequest::write(body, QueryInfoRequestFixed::blank(), b"names");
    });
    assert_eq!(read!(&frame, Request::QueryInfo(view)).input, b"names");
    let frame = request(Command::SetInfo, |body| {
        SetInfoRequest::write(body, SetInfoRequestFixed::blank(), b"settings");
    });
    assert_eq!(read!(&frame, Request::SetInfo(view)).data, b"settings");
    let frame = request(Command::SetInfo, |body| body.push(&SetInfoResponse::blank()));
    assert!(matches!(Response::parse(&Message::new(&frame).unwrap()), Ok(Response::SetInfo)));
}

#[test]
fn breaks_and_notifications() {
    let oplock = OplockBreak { oplock_level: 1, file_id: FILE(), ..OplockBreak::blank() };
    let frame = request(Command::OplockBreak, |body| body.push(&oplock));
    assert!(matches!(read!(&frame, Request::OplockBreak(view)), Break::Oplock(read) if *read == oplock));
    let ack = LeaseBreakAck { lease_state: 1.into(), ..LeaseBreakAck::blank() };
    let frame = request(Command::OplockBreak, |body| body.push(&ack));
    assert!(matches!(read!(&frame, Request::OplockBreak(view)), Break::LeaseAck(read) if *read == ack));
    let lease = LeaseBreak { new_epoch: 2.into(), ..LeaseBreak::blank() };
    let frame = request(Command::OplockBreak, |body| body.push(&lease));
    assert!(matches!(read!(&frame, Response::OplockBreak(view)), Break::Lease(read) if *read == lease));
    let sent_by_a_client = Request::parse(&Message::new(&frame).unwrap());
    assert_eq!(sent_by_a_client.unwrap_err(), Malformed::StructureSize);
    let frame = request(Command::ServerToClientNotification, |body| body.push(&SessionClosed::blank()));
    assert_eq!(read!(&frame, Response::SessionClosed(view)).notification_type.get(), 0);
    assert!(Request::parse(&Message::new(&frame).unwrap()).unwrap_err().ends_connection());
}

#[test]
fn errors_carry_their_data_in_a_context_from_3_1_1_on() {
    let link = SymlinkError { target: "..\\x".to_owned(), relative: true, unparsed_len: 4 };
    let data = link.to_bytes().unwrap();
    for dialect in Dialect::ALL {
        let frame = frame(Command::Create, Status::STOPPED_ON_SYMLINK, |body| {
            ErrorResponse::write(body, dialect, &data);
        });
        let view = read!(&frame, Response::Error(view));
        assert_eq!(view.fixed.error_context_count, u8::from(dialect == Dialect::Smb311));
        assert_eq!(SymlinkError::parse(view.data), Ok(link.clone()));
    }
    let frame =
        frame(Command::Read, Status::PENDING, |body| ErrorResponse::write(body, Dialect::Smb202, &[]));
    assert_eq!(frame.len(), 64 + 9);
    assert!(matches!(Response::parse(&Message::new(&frame).unwrap()), Ok(Response::Error(_))));
}

#[test]
fn a_compound_of_three_comes_back() {
    let mut out = Vec::new();
    let mut compound = Compound::new(&mut out);
    let header = |command, id| Header::request(command, id);
    CreateRequest::write(
        &mut compound.begin(&header(Command::Create, 1)),
        CreateRequestFixed::blank(),
        "odd",
        &[],
    );
    let info = QueryInfoRequestFixed { file_id: FileId::RELATED, ..QueryInfoRequestFixed::blank() };
    QueryInfoRequest::write(&mut compound.begin(&header(Command::QueryInfo, 2)), info, &[]);
    let close = CloseRequest { file_id: FileId::RELATED, ..CloseRequest::blank() };
    compound.begin(&header(Command::Close, 3)).push(&close);
    let read: Vec<_> =
        Messages::new(&out).map(|message| Request::parse(&message.unwrap()).unwrap()).collect();
    assert!(matches!(
        read[..],
        [Request::Create(create), Request::QueryInfo(_), Request::Close(_)] if create.name.lossy() == "odd"
    ));
}
