//! A client that sends what it likes.

use std::net::SocketAddr;
use std::time::Duration;

use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::timeout;
use smb_auth::Initiator;
use smb_proto::keys::{self, Agreed, SessionKey};
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::{Cipher, Nonces, SealingKey};
use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_wire::body::close::CloseRequest;
use smb_wire::body::plain::Empty;
use smb_wire::body::read::ReadRequest;
use smb_wire::body::session_setup::{SessionSetupRequest, SessionSetupRequestFixed};
use smb_wire::body::tree_connect::{TreeConnectRequest, TreeConnectRequestFixed};
use smb_wire::compound::{Compound, ranges};
use smb_wire::create::access::share;
use smb_wire::create::{CreateRequest, CreateRequestFixed, Disposition};
use smb_wire::fixed::Fixed;
use smb_wire::framing::{self, PREFIX_LEN};
use smb_wire::header::{HEADER_LEN, flags};
use smb_wire::message::Body;
use smb_wire::negotiate::context::{NegotiateContext, SHA_512};
use smb_wire::negotiate::{self, NegotiateRequest, capabilities, security_mode};
use smb_wire::transform::{PROTOCOL_ID as SEALED, TRANSFORM_LEN};
use smb_wire::{Command, Dialect, FileId, Guid, Header, Message, Response, Role, Status};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::bed::{PASSWORD, credentials};

/// A client that sends what it likes: 2.1, and nothing is protected, unless it is another one's from the first.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    next: u64,
    pub(crate) session: u64,
    pub(crate) tree: u32,
    /// `ChannelSequence`, in 3.x.
    pub(crate) sequence: u16,
    capabilities: u32,
    agreed: Agreed,
    preauth: PreauthHash,
    signs: bool,
    /// The client tells the server that all has to be signed.
    insists: bool,
    seals: bool,
    signing: Option<SigningKey>,
    /// To the server, and from it.
    sealing: Option<(SealingKey, SealingKey)>,
    nonces: Nonces,
}

/// The share of a test, and that of named pipes.
pub(crate) const SHARE: &str = r"\\10.0.0.1\files";
pub(crate) const PIPES: &str = r"\\10.0.0.1\IPC$";

impl Raw {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let agreed = Agreed { dialect: Dialect::Smb210, signing: SigningAlgorithm::HmacSha256, cipher: None };
        let (preauth, nonces) = (PreauthHash::new(), Nonces::new(0).unwrap());
        Self {
            stream,
            next: 0,
            session: 0,
            tree: 0,
            sequence: 0,
            capabilities: 0,
            agreed,
            preauth,
            signs: false,
            insists: false,
            seals: false,
            signing: None,
            sealing: None,
            nonces,
        }
    }

    /// Makes a client that pays for more than 64 KiB.
    pub(crate) async fn large(address: SocketAddr) -> Self {
        Self { capabilities: capabilities::LARGE_MTU, ..Self::open(address).await }
    }

    /// Makes a client that signs once it has signed in, and pays for more than 64 KiB.
    pub(crate) async fn signed(address: SocketAddr) -> Self {
        Self { signs: true, ..Self::large(address).await }
    }

    /// Makes a client that signs, and all of whose session has to be signed.
    pub(crate) async fn insisting(address: SocketAddr) -> Self {
        Self { insists: true, ..Self::signed(address).await }
    }

    /// Makes a client of 3.0, whose requests tell of lost channels; nothing is protected.
    pub(crate) async fn smb3(address: SocketAddr) -> Self {
        let agreed = Agreed { dialect: Dialect::Smb300, signing: SigningAlgorithm::AesCmac, cipher: None };
        Self { agreed, ..Self::large(address).await }
    }

    /// Makes a client that seals once it has signed in.
    pub(crate) async fn sealed(address: SocketAddr, dialect: Dialect, cipher: Cipher) -> Self {
        let agreed = Agreed { dialect, signing: SigningAlgorithm::AesCmac, cipher: Some(cipher) };
        let capabilities = capabilities::LARGE_MTU | capabilities::ENCRYPTION;
        Self { agreed, capabilities, seals: true, ..Self::open(address).await }
    }

    /// Signs from now on, and seals no more.
    pub(crate) fn signs(&mut self) {
        (self.signs, self.seals) = (true, false);
    }

    pub(crate) fn header(&mut self, command: Command) -> Header {
        let mut header = Header::request(command, self.next);
        header.credits.set(64);
        header.session_id.set(self.session);
        header.tree_id.set(self.tree);
        header.status.set(self.sequence.into());
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
        let mut out = Vec::new();
        fill(&mut Compound::new(&mut out).begin(&header));
        self.sign(&mut out);
        out
    }

    /// Signs each message of a frame, where this client signs and can tell them apart.
    pub(crate) fn sign(&self, frame: &mut [u8]) {
        let Some(key) = self.signing.as_ref().filter(|_| self.signs) else { return };
        let messages: Vec<_> = ranges(frame).map_while(Result::ok).collect();
        for message in messages {
            let message = &mut frame[message];
            let Some(header) = message.first_chunk::<HEADER_LEN>() else { continue };
            let Ok(header) = Header::parse(header).copied() else { continue };
            message[..HEADER_LEN].copy_from_slice(header.with(flags::SIGNED).as_bytes());
            key.sign_in_place(Role::Client, message).unwrap();
        }
    }

    /// A frame with these bytes, sealed with the session's keys.
    pub(crate) fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let mut frame = [&[0; TRANSFORM_LEN][..], message].concat();
        let (to_server, _) = self.sealing.as_ref().expect("it has signed in");
        to_server.seal(self.session, &mut self.nonces, &mut frame).unwrap();
        frame
    }

    /// A frame as this client protects it: sealed, or signed message by message, or as it is.
    pub(crate) fn protect(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        if self.seals && self.sealing.is_some() {
            return self.seal(&frame);
        }
        self.sign(&mut frame);
        frame
    }

    /// Returns whether a reply is signed as it must be.
    pub(crate) fn is_signed(&self, reply: &[u8]) -> bool {
        self.signing.as_ref().is_some_and(|key| key.verify(Role::Server, &[reply]))
    }

    /// The tree of a share.
    pub(crate) async fn connect(&mut self, share: &str) -> u32 {
        let fixed = TreeConnectRequestFixed::blank();
        let asked =
            self.request(Command::TreeConnect, 1, |body| TreeConnectRequest::write(body, fixed, share));
        let reply = self.exchange(asked).await.unwrap();
        assert_eq!(status(&reply), Status::SUCCESS);
        self.tree = Message::new(&reply).unwrap().header().tree_id.get();
        self.tree
    }

    /// CREATE of a file of the tree, or of a pipe.
    pub(crate) fn create_request(&mut self, name: &str, access: u32) -> Vec<u8> {
        let fixed = CreateRequestFixed {
            impersonation_level: 2.into(),
            desired_access: access.into(),
            share_access: (share::READ | share::WRITE | share::DELETE).into(),
            create_disposition: (Disposition::OpenIf as u32).into(),
            ..CreateRequestFixed::blank()
        };
        self.request(Command::Create, 1, |body| CreateRequest::write(body, fixed, name, &[]))
    }

    /// Opens it.
    pub(crate) async fn create(&mut self, name: &str, access: u32) -> FileId {
        let asked = self.create_request(name, access);
        let reply = self.exchange(asked).await.unwrap();
        match Response::parse(&Message::new(&reply).unwrap()) {
            Ok(Response::Create(created)) => created.fixed.file_id,
            _ => panic!("{}", status(&reply)),
        }
    }

    /// Connects to the share and opens a file of it.
    pub(crate) async fn open_file(&mut self, name: &str, access: u32) -> FileId {
        self.connect(SHARE).await;
        self.create(name, access).await
    }

    /// READ of a few bytes.
    pub(crate) fn read(&mut self, file: FileId) -> Vec<u8> {
        let request = ReadRequest { length: 10.into(), file_id: file, ..ReadRequest::blank() };
        self.request(Command::Read, 1, |body| body.push(&request))
    }

    /// CLOSE.
    pub(crate) fn close(&mut self, file: FileId) -> Vec<u8> {
        let request = CloseRequest { file_id: file, ..CloseRequest::blank() };
        self.request(Command::Close, 1, |body| body.push(&request))
    }

    /// A request whose body says nothing.
    pub(crate) fn empty(&mut self, command: Command) -> Vec<u8> {
        self.request(command, 1, |body| body.push(&Empty::blank()))
    }

    pub(crate) async fn send(&self, message: &[u8]) -> bool {
        let prefix = framing::prefix(message.len()).unwrap();
        self.stream.send(Buf::from([&prefix[..], message].concat()), false).await.0.is_ok()
    }

    /// The next frame; `None` at the end, or where nothing comes.
    pub(crate) async fn receive(&self) -> Option<Vec<u8>> {
        let (result, prefix) = timeout(WITHIN, self.stream.recv_exact(Vec::new(), PREFIX_LEN)).await.ok()?;
        result.ok()?;
        let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
        let (result, frame) = timeout(WITHIN, self.stream.recv_exact(Vec::new(), len)).await.ok()?;
        result.ok()?;
        Some(frame)
    }

    /// The next frame, opened; `None` as there, and where it was not sealed for this client, which wants it
    /// so.
    pub(crate) async fn receive_opened(&self) -> Option<Vec<u8>> {
        let mut frame = self.receive().await?;
        if !frame.starts_with(&SEALED) {
            return (!self.seals || self.sealing.is_none()).then_some(frame);
        }
        let (_, from_server) = self.sealing.as_ref()?;
        Some(from_server.open(&mut frame).ok()?.to_vec())
    }

    /// Sends a frame as this client protects it, and gives what comes then.
    pub(crate) async fn exchange(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        let frame = self.protect(frame);
        self.send(&frame).await;
        self.receive_opened().await
    }

    /// Returns whether the server ends the connection, and says nothing any more.
    pub(crate) async fn has_ended(&self) -> bool {
        let received = timeout(WITHIN, self.stream.recv_exact(Vec::new(), 1)).await;
        matches!(received, Ok((Err(_), _)))
    }

    /// Returns whether the server ends the connection within a second.
    pub(crate) async fn has_ended_now(&self) -> bool {
        let received = timeout(Duration::from_secs(1), self.stream.recv_exact(Vec::new(), 1)).await;
        matches!(received, Ok((Err(_), _)))
    }

    /// Sends a request that is neither signed nor sealed.
    pub(crate) async fn ask(
        &mut self,
        command: Command,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Option<Vec<u8>> {
        let asked = self.plain(command, fill);
        self.send(&asked).await;
        self.receive().await
    }

    /// Makes a request that is neither signed nor sealed.
    pub(crate) fn plain(&mut self, command: Command, fill: impl FnOnce(&mut Body<'_>)) -> Vec<u8> {
        let header = self.header(command);
        let mut out = Vec::new();
        fill(&mut Compound::new(&mut out).begin(&header));
        out
    }

    pub(crate) async fn sign_in(&mut self) {
        self.negotiate().await;
        self.set_up("alice").await.unwrap();
    }

    pub(crate) async fn negotiate(&mut self) {
        let fixed = negotiate::request(Guid::new([9; 16]), security_mode::SIGNING_ENABLED, self.capabilities);
        let (hashes, salt) = ([U16::new(SHA_512)], [5; 32]);
        let ciphers = [U16::new(self.agreed.cipher.map_or(0, |cipher| cipher as u16))];
        let mut contexts = Vec::new();
        if self.agreed.dialect == Dialect::Smb311 {
            contexts.push(NegotiateContext::Preauth { hashes: &hashes, salt: &salt });
            contexts.push(NegotiateContext::Encryption(&ciphers));
        }
        let dialects = [self.agreed.dialect];
        let asked = self.plain(Command::Negotiate, |body| {
            NegotiateRequest::write(body, fixed, &dialects, &contexts);
        });
        self.send(&asked).await;
        let reply = self.receive().await.unwrap();
        assert_eq!(status(&reply), Status::SUCCESS);
        self.preauth.update(&asked);
        self.preauth.update(&reply);
    }

    /// Signs a user in, to a new session.
    pub(crate) async fn set_up(&mut self, user: &str) -> Result<(), Status> {
        (self.session, self.tree, self.signing, self.sealing) = (0, 0, None, None);
        let (key, preauth) = self.authenticate(user).await?;
        if let Some(key) = key {
            self.take_keys(&SessionKey::new(&key[..]), &preauth);
        }
        Ok(())
    }

    /// Signs a user in, to the session that there is: it keeps its keys.
    pub(crate) async fn set_up_again(&mut self, user: &str) -> Result<(), Status> {
        self.authenticate(user).await.map(|_| ())
    }

    /// The first message of a sign-in to a new session, and no other.
    pub(crate) async fn begin_sign_in(&mut self) -> u64 {
        self.session = 0;
        let initiator =
            Initiator::new(credentials("alice", PASSWORD), [3; 8], zeroize::Zeroizing::new([4; 16]));
        let (fixed, token) = (SessionSetupRequestFixed::blank(), initiator.first());
        let reply = self
            .ask(Command::SessionSetup, |body| SessionSetupRequest::write(body, fixed, &token))
            .await
            .unwrap();
        assert_eq!(status(&reply), Status::MORE_PROCESSING_REQUIRED);
        Message::new(&reply).unwrap().header().session_id.get()
    }

    async fn authenticate(
        &mut self,
        user: &str,
    ) -> Result<(Option<smb_auth::SessionKey>, PreauthHash), Status> {
        let mut initiator =
            Initiator::new(credentials(user, PASSWORD), [3; 8], zeroize::Zeroizing::new([4; 16]));
        let mut preauth = self.preauth;
        let mut token = initiator.first();
        let mode =
            security_mode::SIGNING_ENABLED | if self.insists { security_mode::SIGNING_REQUIRED } else { 0 };
        loop {
            let fixed =
                SessionSetupRequestFixed { security_mode: mode as u8, ..SessionSetupRequestFixed::blank() };
            let asked =
                self.plain(Command::SessionSetup, |body| SessionSetupRequest::write(body, fixed, &token));
            preauth.update(&asked);
            self.send(&asked).await;
            let reply = self.receive().await.unwrap();
            let message = Message::new(&reply).unwrap();
            let Ok(Response::SessionSetup(answer)) = Response::parse(&message) else {
                return Err(message.header().status());
            };
            self.session = message.header().session_id.get();
            if message.header().status() == Status::SUCCESS {
                return Ok((initiator.finish(answer.security).unwrap(), preauth));
            }
            preauth.update(&reply);
            token = initiator.answer(answer.security, 0).unwrap();
        }
    }

    fn take_keys(&mut self, key: &SessionKey, preauth: &PreauthHash) {
        self.signing = Some(keys::signing_key(key, &self.agreed, preauth));
        self.sealing = keys::sealing_keys(key, &self.agreed, preauth, Role::Client);
    }
}

/// Returns what the first message of a reply says.
pub(crate) fn status(reply: &[u8]) -> Status {
    Message::new(reply).unwrap().header().status()
}

/// Time for which an answer may take.
const WITHIN: Duration = Duration::from_secs(5);
