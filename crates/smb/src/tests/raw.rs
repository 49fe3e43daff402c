//! A client that sends what it likes.

use std::net::SocketAddr;
use std::time::Duration;

use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::timeout;
use smb_auth::Initiator;
use smb_proto::keys::{self, Agreed, SessionKey};
use smb_proto::preauth::PreauthHash;
use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_wire::body::session_setup::{SessionSetupRequest, SessionSetupRequestFixed};
use smb_wire::body::tree_connect::{TreeConnectRequest, TreeConnectRequestFixed};
use smb_wire::compound::Compound;
use smb_wire::create::access::share;
use smb_wire::create::{CreateRequest, CreateRequestFixed, Disposition};
use smb_wire::fixed::Fixed;
use smb_wire::framing::{self, PREFIX_LEN};
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::negotiate::{self, NegotiateRequest, capabilities, security_mode};
use smb_wire::{Command, Dialect, FileId, Guid, Header, Message, Response, Role, Status};

use super::bed::{PASSWORD, credentials};

/// A client that sends what it likes: 2.1, unsigned unless it is [`Raw::signed`].
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    next: u64,
    session: u64,
    pub(crate) tree: u32,
    capabilities: u32,
    signs: bool,
    signing: Option<SigningKey>,
}

impl Raw {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self { stream, next: 0, session: 0, tree: 0, capabilities: 0, signs: false, signing: None }
    }

    /// One that signs once it has signed in, and pays for more than 64 KiB.
    pub(crate) async fn signed(address: SocketAddr) -> Self {
        Self { capabilities: capabilities::LARGE_MTU, signs: true, ..Self::open(address).await }
    }

    pub(crate) fn header(&mut self, command: Command) -> Header {
        let mut header = Header::request(command, self.next);
        header.credits.set(64);
        header.session_id.set(self.session);
        header.tree_id.set(self.tree);
        self.next += 1;
        header
    }

    /// A request that pays with so many credits and asks for all that there are, signed where this client signs.
    pub(crate) fn request(
        &mut self,
        command: Command,
        charge: u16,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Vec<u8> {
        let mut header = self.header(command);
        header.credit_charge.set(charge);
        header.credits.set(8192);
        self.next += u64::from(charge) - 1;
        if self.signing.is_some() {
            header = header.with(flags::SIGNED);
        }
        let mut out = Vec::new();
        fill(&mut Compound::new(&mut out).begin(&header));
        if let Some(key) = &self.signing {
            key.sign_in_place(Role::Client, &mut out).unwrap();
        }
        out
    }

    /// Whether a reply is signed as it must be.
    pub(crate) fn is_signed(&self, reply: &[u8]) -> bool {
        self.signing.as_ref().is_some_and(|key| key.verify(Role::Server, &[reply]))
    }

    /// Connects to the share and opens a file of it.
    pub(crate) async fn open_file(&mut self, name: &str, access: u32) -> FileId {
        let fixed = TreeConnectRequestFixed::blank();
        let path = r"\\10.0.0.1\files";
        let asked =
            self.request(Command::TreeConnect, 1, |body| TreeConnectRequest::write(body, fixed, path));
        assert!(self.send(&asked).await);
        let reply = self.receive().await.unwrap();
        self.tree = Message::new(&reply).unwrap().header().tree_id.get();
        let fixed = CreateRequestFixed {
            impersonation_level: 2.into(),
            desired_access: access.into(),
            share_access: (share::READ | share::WRITE | share::DELETE).into(),
            create_disposition: (Disposition::OpenIf as u32).into(),
            ..CreateRequestFixed::blank()
        };
        let asked = self.request(Command::Create, 1, |body| CreateRequest::write(body, fixed, name, &[]));
        assert!(self.send(&asked).await);
        let reply = self.receive().await.unwrap();
        match Response::parse(&Message::new(&reply).unwrap()) {
            Ok(Response::Create(created)) => created.fixed.file_id,
            _ => panic!("{}", Message::new(&reply).unwrap().header().status()),
        }
    }

    pub(crate) async fn send(&self, message: &[u8]) -> bool {
        let prefix = framing::prefix(message.len()).unwrap();
        self.stream.send(Buf::from([&prefix[..], message].concat()), false).await.0.is_ok()
    }

    /// The next frame; `None` at the end, or where nothing comes.
    pub(crate) async fn receive(&self) -> Option<Vec<u8>> {
        let within = Duration::from_secs(5);
        let (result, prefix) = timeout(within, self.stream.recv_exact(Vec::new(), PREFIX_LEN)).await.ok()?;
        result.ok()?;
        let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
        let (result, frame) = timeout(within, self.stream.recv_exact(Vec::new(), len)).await.ok()?;
        result.ok()?;
        Some(frame)
    }

    pub(crate) async fn ask(
        &mut self,
        command: Command,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Option<Vec<u8>> {
        let header = self.header(command);
        let mut out = Vec::new();
        fill(&mut Compound::new(&mut out).begin(&header));
        self.send(&out).await;
        self.receive().await
    }

    pub(crate) async fn sign_in(&mut self) {
        let fixed = negotiate::request(Guid::new([9; 16]), security_mode::SIGNING_ENABLED, self.capabilities);
        self.ask(Command::Negotiate, |body| NegotiateRequest::write(body, fixed, &[Dialect::Smb210], &[]))
            .await
            .unwrap();
        let mut initiator =
            Initiator::new(credentials("alice", PASSWORD), [3; 8], zeroize::Zeroizing::new([4; 16]));
        let mut token = initiator.first();
        loop {
            let fixed = SessionSetupRequestFixed::blank();
            let reply = self
                .ask(Command::SessionSetup, |body| SessionSetupRequest::write(body, fixed, &token))
                .await
                .unwrap();
            let message = Message::new(&reply).unwrap();
            self.session = message.header().session_id.get();
            let Ok(Response::SessionSetup(answer)) = Response::parse(&message) else { panic!("no sign-in") };
            if message.header().status() == Status::SUCCESS {
                if self.signs {
                    let key = initiator.finish(answer.security).unwrap().unwrap();
                    let signing = SigningAlgorithm::HmacSha256;
                    let agreed = Agreed { dialect: Dialect::Smb210, signing, cipher: None };
                    let key = SessionKey::new(&key[..]);
                    self.signing = Some(keys::signing_key(&key, &agreed, &PreauthHash::default()));
                }
                return;
            }
            token = initiator.answer(answer.security, 0).unwrap();
        }
    }
}
