//! A server of one file that answers in any order, as slowly, sparingly and wrongly as it is told to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lane::buffer::Buf;
use lane::net::{TcpListener, TcpStream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_auth::{Acceptor, Accounts, Policy, Reply, Target};
use smb_proto::keys::{Agreed, SessionKey, sealing_keys, signing_key};
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::{Cipher, Nonces, SealingKey};
use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_proto::window::Window;
use smb_wire::body::close::CloseResponse;
use smb_wire::body::error::ErrorResponse;
use smb_wire::body::plain::Empty;
use smb_wire::body::read::ReadResponse;
use smb_wire::body::session_setup::{SessionSetupResponse, SessionSetupResponseFixed};
use smb_wire::body::tree_connect::TreeConnectResponse;
use smb_wire::compound::{Compound, Messages};
use smb_wire::create::{CreateResponse, CreateResponseFixed};
use smb_wire::fixed::Fixed;
use smb_wire::framing;
use smb_wire::header::{UNSOLICITED, flags};
use smb_wire::message::Body;
use smb_wire::negotiate::context::{NegotiateContext, SHA_512};
use smb_wire::negotiate::{NegotiateResponse, NegotiateResponseFixed, capabilities};
use smb_wire::transform::TRANSFORM_LEN;
use smb_wire::{Command, Dialect, FileId, FrameKind, Guid, Header, Message, Request, Role, Status};
use zerocopy::little_endian::U16;
use zeroize::Zeroizing;

/// Fault of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Good,
    /// One of several answers to READ is changed behind its signature.
    Changes,
    /// One of several answers to READ is not signed.
    Unsigned,
    /// An encrypted request is answered in the clear.
    Unsealed,
    /// The server ends the connection after so many reads.
    Ends(u32),
    /// The server answers what was not asked.
    Unasked,
}

pub(crate) struct Peer {
    pub(crate) manner: Manner,
    pub(crate) seed: u64,
    /// Ids that a client may have.
    pub(crate) window: u16,
    /// Requests that came with an id that was not given: the client counted wrong.
    pub(crate) out_of_window: Cell<u32>,
    pub(crate) reads: Cell<u32>,
    pub(crate) cancelled: Cell<u32>,
}

/// One connection.
struct Session {
    peer: Rc<Peer>,
    stream: Rc<TcpStream>,
    rng: RefCell<StdRng>,
    window: RefCell<Window>,
    preauth: Cell<PreauthHash>,
    acceptor: RefCell<Acceptor>,
    signing: RefCell<Option<Rc<SigningKey>>>,
    sealing: RefCell<Option<Rc<(SealingKey, SealingKey)>>>,
    nonces: RefCell<Nonces>,
    queue: RefCell<Vec<Vec<u8>>>,
    waiting: RefCell<Vec<Header>>,
}

struct OneUser;

impl Accounts for OneUser {
    fn nt_hash(&self, _: &str, _: &str) -> Zeroizing<[u8; 16]> {
        Zeroizing::new(NT_HASH)
    }

    fn is_known(&self, _: &str, _: &str) -> bool {
        true
    }
}

pub(crate) const NT_HASH: [u8; 16] = *b"sixteen byte key";
pub(crate) const SESSION: u64 = 0x1234;
pub(crate) const FILE_BYTES: u64 = 3 << 20;

/// A file's byte.
pub(crate) fn byte(at: u64) -> u8 {
    (at * 31 + at / 253 + at / 65_537) as u8
}

pub(crate) async fn serve(peer: Rc<Peer>, listener: TcpListener) {
    loop {
        let Ok(stream) = listener.accept().await else { continue };
        let peer = Rc::clone(&peer);
        lane::spawn(async move {
            let session = Rc::new(Session::new(peer, stream));
            let sends = Rc::clone(&session);
            let sender = lane::spawn(async move { sends.send().await });
            session.receive().await;
            drop(sender);
        })
        .detach();
    }
}

impl Session {
    fn new(peer: Rc<Peer>, stream: TcpStream) -> Self {
        Self {
            stream: Rc::new(stream),
            rng: RefCell::new(StdRng::seed_from_u64(peer.seed)),
            window: RefCell::new(Window::new(peer.window)),
            preauth: Cell::default(),
            acceptor: RefCell::new(Acceptor::new(Policy::default(), [9; 8])),
            signing: RefCell::default(),
            sealing: RefCell::default(),
            nonces: RefCell::new(Nonces::new(0).unwrap()),
            queue: RefCell::default(),
            waiting: RefCell::default(),
            peer,
        }
    }

    async fn receive(self: &Rc<Self>) {
        loop {
            let (result, prefix) = self.stream.recv_exact(Vec::new(), 4).await;
            if result.is_err() {
                return;
            }
            let Ok(framing::Frame::Message(len)) = framing::parse(prefix[..].try_into().unwrap(), 0xff_ffff)
            else {
                return;
            };
            let (result, mut frame) = self.stream.recv_exact(Vec::new(), len).await;
            if result.is_err() {
                return;
            }
            let sealed = FrameKind::of(&frame).unwrap() == FrameKind::Sealed;
            let keys = self.sealing.borrow().clone();
            let plain: &[u8] =
                if sealed { keys.as_ref().unwrap().1.open(&mut frame).unwrap() } else { &frame };
            for message in Messages::new(plain) {
                if !self.take(&message.unwrap(), sealed) {
                    return;
                }
            }
        }
    }

    /// Takes a request; `false` ends the connection.
    fn take(self: &Rc<Self>, message: &Message<'_>, sealed: bool) -> bool {
        let header = *message.header();
        if header.command() == Ok(Command::Cancel) {
            self.peer.cancelled.set(self.peer.cancelled.get() + 1);
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            for request in waiting {
                let blank = |body: &mut Body<'_>| ErrorResponse::write(body, Dialect::Smb311, &[]);
                let answer = request.response(Status::CANCELLED).with_async_id(7);
                self.reply_as(answer, sealed, blank);
            }
            return true;
        }
        if self.window.borrow_mut().take(header.message_id.get(), header.credit_charge.get()).is_err() {
            self.peer.out_of_window.set(self.peer.out_of_window.get() + 1);
            return false;
        }
        if let Some(key) = self.signing.borrow().as_ref()
            && header.has(flags::SIGNED)
        {
            assert!(key.verify(Role::Client, &[message.bytes()]), "a wrong signature of {header:?}");
        }
        match Request::parse(message).unwrap() {
            Request::Negotiate(_) => {
                let mut preauth = PreauthHash::new();
                preauth.update(message.bytes());
                let answer = self.frame(&header, Status::SUCCESS, negotiated);
                preauth.update(&answer[4..]);
                self.preauth.set(preauth);
                self.queue.borrow_mut().push(answer);
            }
            Request::SessionSetup(setup) => self.sign_in(message, &header, setup.security),
            Request::TreeConnect(_) => {
                let answer = TreeConnectResponse { share_type: 1, ..TreeConnectResponse::blank() };
                self.reply(&header, sealed, |body| body.push(&answer));
            }
            Request::Create(_) => {
                let fixed = CreateResponseFixed {
                    file_id: FileId::new(1, 2),
                    end_of_file: FILE_BYTES.into(),
                    ..CreateResponseFixed::blank()
                };
                self.reply(&header, sealed, |body| CreateResponse::write(body, fixed, &[]));
            }
            Request::Read(read) => {
                self.peer.reads.set(self.peer.reads.get() + 1);
                if let Manner::Ends(after) = self.peer.manner
                    && self.peer.reads.get() > after
                {
                    return false;
                }
                self.read(header, read.offset.get(), read.length.get(), sealed);
            }
            // It waits until it is cancelled.
            Request::ChangeNotify(_) => {
                self.waiting.borrow_mut().push(header);
                self.interim(&header, sealed);
            }
            Request::Close(_) => self.reply(&header, sealed, |body| body.push(&CloseResponse::blank())),
            _ => self.reply(&header, sealed, |body| body.push(&Empty::blank())),
        }
        true
    }

    fn sign_in(&self, message: &Message<'_>, header: &Header, token: &[u8]) {
        let mut preauth = self.preauth.get();
        preauth.update(message.bytes());
        let target = Target {
            netbios_name: "PEER".to_owned(),
            netbios_domain: "SIM".to_owned(),
            dns_name: "peer.sim".to_owned(),
            dns_domain: String::new(),
        };
        let accepted = self.acceptor.borrow_mut().accept(token, &target, 1, &OneUser);
        let (status, token, key) = match accepted.unwrap() {
            Reply::More(token) => (Status::MORE_PROCESSING_REQUIRED, token, None),
            Reply::Done(token, signed_in) => (Status::SUCCESS, token, signed_in.session_key),
        };
        let mut header = *header;
        header.session_id.set(SESSION);
        let mut answer = self.frame(&header, status, |body| {
            SessionSetupResponse::write(body, SessionSetupResponseFixed::blank(), &token);
        });
        match key {
            None => preauth.update(&answer[4..]),
            Some(key) => {
                let agreed = Agreed {
                    dialect: Dialect::Smb311,
                    signing: SigningAlgorithm::AesGmac,
                    cipher: Some(Cipher::Aes128Gcm),
                };
                let key = SessionKey::new(&*key);
                let signing = signing_key(&key, &agreed, &preauth);
                answer[4 + 16] |= flags::SIGNED as u8;
                signing.sign_in_place(Role::Server, &mut answer[4..]).unwrap();
                *self.signing.borrow_mut() = Some(Rc::new(signing));
                *self.sealing.borrow_mut() = sealing_keys(&key, &agreed, &preauth, Role::Server).map(Rc::new);
            }
        }
        self.preauth.set(preauth);
        self.queue.borrow_mut().push(answer);
    }

    /// Answers after a while, and first with an interim response at times.
    fn read(self: &Rc<Self>, header: Header, offset: u64, len: u32, sealed: bool) {
        let (wait, is_async) = {
            let mut rng = self.rng.borrow_mut();
            (Duration::from_micros(rng.random_range(0..20_000)), rng.random_bool(0.2))
        };
        let session = Rc::clone(self);
        if is_async {
            self.interim(&header, sealed);
        }
        lane::spawn(async move {
            lane::time::sleep(wait).await;
            let end = (offset + u64::from(len)).min(FILE_BYTES);
            let bytes: Vec<u8> = (offset..end).map(byte).collect();
            let status = if bytes.is_empty() { Status::END_OF_FILE } else { Status::SUCCESS };
            let mut answer = header.response(status);
            if is_async {
                answer = answer.with_async_id(7);
            } else {
                answer.credits.set(session.grant(&header));
            }
            session.reply_as(answer, sealed, |body| match status {
                Status::SUCCESS => ReadResponse::write(body, &bytes),
                _ => ErrorResponse::write(body, Dialect::Smb311, &[]),
            });
        })
        .detach();
    }

    fn interim(&self, header: &Header, sealed: bool) {
        let mut answer = header.response(Status::PENDING).with_async_id(7);
        answer.credits.set(self.grant(header));
        self.reply_as(answer, sealed, |body| ErrorResponse::write(body, Dialect::Smb311, &[]));
    }

    fn grant(&self, header: &Header) -> u16 {
        // A sparing server gives no more than was paid.
        let extra = self.rng.borrow_mut().random_bool(0.5);
        self.window.borrow_mut().grant(header.credits.get(), header.credit_charge.get(), extra)
    }

    fn frame(&self, header: &Header, status: Status, write: impl FnOnce(&mut Body<'_>)) -> Vec<u8> {
        let mut answer = header.response(status);
        answer.credits.set(self.grant(header));
        framed(&answer, write)
    }

    fn reply(&self, header: &Header, sealed: bool, write: impl FnOnce(&mut Body<'_>)) {
        let mut answer = header.response(Status::SUCCESS);
        answer.credits.set(self.grant(header));
        self.reply_as(answer, sealed, write);
    }

    fn reply_as(&self, answer: Header, sealed: bool, write: impl FnOnce(&mut Body<'_>)) {
        let is_read = answer.command() == Ok(Command::Read) && answer.status() == Status::SUCCESS;
        let wrong = is_read && self.rng.borrow_mut().random_bool(0.2);
        let manner = self.peer.manner;
        let mut answer = answer;
        if wrong && manner == Manner::Unasked {
            answer.message_id.set(UNSOLICITED - 1);
        }
        if sealed && !(wrong && manner == Manner::Unsealed) {
            let mut frame = vec![0; 4 + TRANSFORM_LEN];
            write(&mut Compound::new(&mut frame).begin(&answer));
            let keys = self.sealing.borrow().clone().unwrap();
            keys.0.seal(SESSION, &mut self.nonces.borrow_mut(), &mut frame[4..]).unwrap();
            self.queue.borrow_mut().push(prefixed(frame));
            return;
        }
        let signs = !(wrong && manner == Manner::Unsigned);
        let mut frame = framed(&if signs { answer.with(flags::SIGNED) } else { answer }, write);
        if let Some(key) = self.signing.borrow().as_ref().filter(|_| signs) {
            key.sign_in_place(Role::Server, &mut frame[4..]).unwrap();
        }
        if wrong && manner == Manner::Changes {
            *frame.last_mut().unwrap() ^= 1;
        }
        self.queue.borrow_mut().push(frame);
    }

    async fn send(&self) {
        loop {
            let frames = std::mem::take(&mut *self.queue.borrow_mut());
            for frame in frames {
                if self.stream.send(Buf::from(frame), false).await.0.is_err() {
                    return;
                }
            }
            lane::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

fn negotiated(body: &mut Body<'_>) {
    let fixed = NegotiateResponseFixed {
        security_mode: 1.into(),
        dialect: (Dialect::Smb311 as u16).into(),
        server_guid: Guid::new([3; 16]),
        capabilities: capabilities::LARGE_MTU.into(),
        max_transact_size: (1 << 20).into(),
        max_read_size: (1 << 20).into(),
        max_write_size: (1 << 20).into(),
        ..NegotiateResponseFixed::blank()
    };
    let one = |value: u16| [U16::new(value)];
    let (hash, cipher, signing) =
        (one(SHA_512), one(Cipher::Aes128Gcm as u16), one(SigningAlgorithm::AesGmac as u16));
    let contexts = [
        NegotiateContext::Preauth { hashes: &hash, salt: &[5; 32] },
        NegotiateContext::Encryption(&cipher),
        NegotiateContext::Signing(&signing),
    ];
    NegotiateResponse::write(body, fixed, &smb_auth::hint(), &contexts);
}

fn framed(header: &Header, write: impl FnOnce(&mut Body<'_>)) -> Vec<u8> {
    let mut frame = vec![0; 4];
    write(&mut Compound::new(&mut frame).begin(header));
    prefixed(frame)
}

fn prefixed(mut frame: Vec<u8>) -> Vec<u8> {
    let prefix = framing::prefix(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&prefix);
    frame
}
