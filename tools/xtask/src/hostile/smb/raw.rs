//! A client of SMB 2.1 over a socket that blocks: it sends what it is told, be that a request or not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use identity::{NtHash, Secret};
use smb_auth::{Credentials, Initiator};
use smb_proto::keys::{self, Agreed, SessionKey};
use smb_proto::preauth::PreauthHash;
use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_wire::body::close::CloseRequest;
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed};
use smb_wire::body::read::ReadRequest;
use smb_wire::body::session_setup::{FLAG_BINDING, SessionSetupRequest, SessionSetupRequestFixed};
use smb_wire::body::tree_connect::{TreeConnectRequest, TreeConnectRequestFixed};
use smb_wire::compound::Compound;
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::lease::{Lease, LeaseV1};
use smb_wire::create::{CreateRequest, CreateRequestFixed, CreateResponse, Disposition, oplock_level};
use smb_wire::fixed::Fixed;
use smb_wire::framing::{self, PREFIX_LEN};
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::negotiate::{self, NegotiateRequest, capabilities, security_mode};
use smb_wire::{Command, Dialect, FileId, Guid, Header, Message, Response, Role, Status};
use zeroize::Zeroizing;

use crate::hostile::arena::SERVER;

/// A connection, and what it has reached.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    next: u64,
    session: u64,
    tree: u32,
    /// Requests are signed from the end of a sign-in on, where that is wanted.
    signing: Option<SigningKey>,
    /// Credits that the server has granted.
    pub(crate) credits: u64,
}

/// Options of an open.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) access: u32,
    pub(crate) share: u32,
    pub(crate) disposition: Disposition,
}

/// Caching of a file by a client until it is asked to give it back.
#[derive(Clone, Copy)]
pub(crate) enum Keeps {
    Nothing,
    BatchOplock,
    /// A batch oplock, and the open itself when its connection is lost.
    Durable,
    /// Reads, writes and the handle: the lease of this key.
    Lease([u8; 16]),
}

impl Keeps {
    /// Returns what the request says.
    fn asked(self) -> (u8, Vec<u8>) {
        match self {
            Self::Nothing => (oplock_level::NONE, Vec::new()),
            Self::BatchOplock => (oplock_level::BATCH, Vec::new()),
            Self::Durable => {
                let mut contexts = ContextWriter::new();
                contexts.push(tag::DURABLE_REQUEST, &[0; 16]);
                (oplock_level::BATCH, contexts.bytes().to_vec())
            }
            Self::Lease(key) => {
                let lease = LeaseV1 {
                    lease_key: Guid::new(key),
                    lease_state: ALL_OF_A_LEASE.into(),
                    lease_flags: 0.into(),
                    lease_duration: 0.into(),
                };
                let mut contexts = ContextWriter::new();
                contexts.push_plain(tag::LEASE, &lease);
                (oplock_level::LEASE, contexts.bytes().to_vec())
            }
        }
    }

    /// Returns whether the answer gives all of it.
    fn is_granted(self, answer: &CreateResponse<'_>) -> bool {
        let lease = || Lease::parse(answer.contexts.find(tag::LEASE)?).ok();
        let has_lease = || lease().is_some_and(|lease| lease.state() == ALL_OF_A_LEASE);
        answer.fixed.oplock_level == self.asked().0 && (!matches!(self, Self::Lease(_)) || has_lease())
    }
}

impl Raw {
    /// Makes a connection that has said nothing yet. It waits as long as the stream does, 3 s if that has no limit.
    pub(crate) fn over(stream: TcpStream) -> anyhow::Result<Self> {
        if stream.read_timeout()?.is_none() {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
        }
        Ok(Self { stream, next: 0, session: 0, tree: 0, signing: None, credits: 1 })
    }

    /// Signs in and connects to the share.
    pub(crate) fn arrive(stream: TcpStream, user: &str, is_signed: bool) -> anyhow::Result<Self> {
        let mut raw = Self::over(stream)?;
        raw.negotiate()?;
        let status = raw.sign_in(user, super::PASSWORD, is_signed)?;
        ensure!(status == Status::SUCCESS, "sign-in: {status}");
        raw.connect_tree()?;
        Ok(raw)
    }

    /// Connects to the share; what is asked for from then on is of this tree.
    pub(crate) fn connect_tree(&mut self) -> anyhow::Result<()> {
        self.connect_tree_of("files")
    }

    /// Connects to another share.
    pub(crate) fn connect_tree_of(&mut self, share: &str) -> anyhow::Result<()> {
        let fixed = TreeConnectRequestFixed::blank();
        let path = format!(r"\\{SERVER}\{share}");
        let reply =
            self.ask(Command::TreeConnect, 1, |body| TreeConnectRequest::write(body, fixed, &path))?;
        let header = *Message::new(&reply)?.header();
        ensure!(header.status() == Status::SUCCESS, "tree connect: {}", header.status());
        self.tree = header.tree_id.get();
        Ok(())
    }

    /// Begins a sign-in to a new session, and does not go on with it.
    pub(crate) fn begin_sign_in(&mut self, user: &str) -> anyhow::Result<Status> {
        self.session = 0;
        let token = initiator(user, super::PASSWORD)?.first();
        let fixed = SessionSetupRequestFixed::blank();
        let reply =
            self.ask(Command::SessionSetup, 1, |body| SessionSetupRequest::write(body, fixed, &token))?;
        Ok(Message::new(&reply)?.header().status())
    }

    /// Signs in to one more session; what is asked for from then on is of it.
    pub(crate) fn sign_in_anew(&mut self, user: &str) -> anyhow::Result<Status> {
        self.session = 0;
        self.sign_in(user, super::PASSWORD, false)
    }

    /// Asks to be bound to the session of another connection; what the server says of it.
    pub(crate) fn bind(&mut self, other: &Self, user: &str) -> anyhow::Result<Status> {
        self.session = other.session;
        let token = initiator(user, super::PASSWORD)?.first();
        let fixed = SessionSetupRequestFixed { flags: FLAG_BINDING, ..SessionSetupRequestFixed::blank() };
        let reply =
            self.ask(Command::SessionSetup, 1, |body| SessionSetupRequest::write(body, fixed, &token))?;
        Ok(Message::new(&reply)?.header().status())
    }

    pub(crate) fn negotiate(&mut self) -> anyhow::Result<()> {
        let fixed =
            negotiate::request(Guid::new(random()), security_mode::SIGNING_ENABLED, capabilities::LARGE_MTU);
        let dialects = [Dialect::Smb210];
        let reply =
            self.ask(Command::Negotiate, 1, |body| NegotiateRequest::write(body, fixed, &dialects, &[]))?;
        let status = Message::new(&reply)?.header().status();
        ensure!(status == Status::SUCCESS, "negotiate: {status}");
        Ok(())
    }

    /// Returns what a sign-in comes to.
    pub(crate) fn sign_in(&mut self, user: &str, password: &str, is_signed: bool) -> anyhow::Result<Status> {
        let mut initiator = initiator(user, password)?;
        let mut token = initiator.first();
        loop {
            let fixed = SessionSetupRequestFixed::blank();
            let reply =
                self.ask(Command::SessionSetup, 1, |body| SessionSetupRequest::write(body, fixed, &token))?;
            let message = Message::new(&reply)?;
            let status = message.header().status();
            self.session = message.header().session_id.get();
            match (status, Response::parse(&message)?) {
                (Status::MORE_PROCESSING_REQUIRED, Response::SessionSetup(answer)) => {
                    token = initiator.answer(answer.security, 0)?;
                }
                (Status::SUCCESS, Response::SessionSetup(answer)) => {
                    let key = initiator.finish(answer.security)?.context("a key of the session")?;
                    let agreed = Agreed {
                        dialect: Dialect::Smb210,
                        signing: SigningAlgorithm::HmacSha256,
                        cipher: None,
                    };
                    let key = keys::signing_key(&SessionKey::new(&key[..]), &agreed, &PreauthHash::default());
                    self.signing = is_signed.then_some(key);
                    return Ok(status);
                }
                _ => return Ok(status),
            }
        }
    }

    /// Opens a name below the share.
    pub(crate) fn create(&mut self, name: &str, how: How) -> anyhow::Result<Result<FileId, Status>> {
        self.create_keeping(name, how, Keeps::Nothing).map(|opened| opened.map(|(file, _)| file))
    }

    /// Creates a file ([`Raw::create`]), to keep something of it; says whether that was granted.
    pub(crate) fn create_keeping(
        &mut self,
        name: &str,
        how: How,
        keeps: Keeps,
    ) -> anyhow::Result<Result<(FileId, bool), Status>> {
        let (level, contexts) = keeps.asked();
        let fixed = create_request(how, level);
        let reply =
            self.ask(Command::Create, 1, |body| CreateRequest::write(body, fixed, name, &contexts))?;
        match Response::parse(&Message::new(&reply)?)? {
            Response::Create(created) => Ok(Ok((created.fixed.file_id, keeps.is_granted(&created)))),
            _ => Ok(Err(Message::new(&reply)?.header().status())),
        }
    }

    /// Asks to open a name, and waits for no answer.
    pub(crate) fn send_create(&mut self, name: &str, how: How) -> anyhow::Result<()> {
        let fixed = create_request(how, oplock_level::NONE);
        self.send(Command::Create, 1, |body| CreateRequest::write(body, fixed, name, &[]))
    }

    pub(crate) fn close(&mut self, file: FileId) -> anyhow::Result<()> {
        let request = CloseRequest { file_id: file, ..CloseRequest::blank() };
        self.done(Command::Close, |body| body.push(&request))
    }

    /// Reads bytes of a file; none at its end.
    pub(crate) fn read(&mut self, file: FileId, offset: u64, length: u32) -> anyhow::Result<Vec<u8>> {
        let request = read_request(file, offset, length);
        let reply = self.ask(Command::Read, charge(length), |body| body.push(&request))?;
        let message = Message::new(&reply)?;
        match Response::parse(&message)? {
            Response::Read(read) => Ok(read.data.to_vec()),
            _ if message.header().status() == Status::END_OF_FILE => Ok(Vec::new()),
            _ => bail!("READ: {}", message.header().status()),
        }
    }

    /// Locks the first byte, waiting for it if another client has it; or gives it back.
    pub(crate) fn lock(&mut self, file: FileId, how: u32) -> anyhow::Result<()> {
        self.done(Command::Lock, |body| lock_request(body, file, how))
    }

    /// Asks for what has no answer but that it is done.
    pub(crate) fn done(&mut self, command: Command, fill: impl FnOnce(&mut Body<'_>)) -> anyhow::Result<()> {
        let reply = self.ask(command, 1, fill)?;
        let status = Message::new(&reply)?.header().status();
        ensure!(status == Status::SUCCESS, "{command:?}: {status}");
        Ok(())
    }

    /// Sends a request, and returns its final answer.
    pub(crate) fn ask(
        &mut self,
        command: Command,
        charge: u16,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> anyhow::Result<Vec<u8>> {
        self.send(command, charge, fill)?;
        self.answer()
    }

    /// Receives the next final answer.
    pub(crate) fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            let reply = self.receive()?;
            if Message::new(&reply)?.header().status() != Status::PENDING {
                return Ok(reply);
            }
        }
    }

    /// Sends a request that pays with so many credits, and asks for as many as there can be.
    pub(crate) fn send(
        &mut self,
        command: Command,
        charge: u16,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> anyhow::Result<()> {
        let mut header = Header::request(command, self.next);
        header.credit_charge.set(charge);
        header.credits.set(CREDITS);
        header.session_id.set(self.session);
        header.tree_id.set(self.tree);
        if self.signing.is_some() {
            header = header.with(flags::SIGNED);
        }
        self.next += u64::from(charge.max(1));
        self.credits = self.credits.saturating_sub(charge.max(1).into());
        let mut out = Vec::new();
        fill(&mut Compound::new(&mut out).begin(&header));
        if let Some(key) = &self.signing {
            key.sign_in_place(Role::Client, &mut out)?;
        }
        self.send_frame(&out)
    }

    /// Sends a frame of whatever bytes.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let prefix = framing::prefix(frame.len()).context("too long for a frame")?;
        self.stream.write_all(&[&prefix[..], frame].concat())?;
        Ok(())
    }

    /// Sends the first bytes of a frame that is to be so long.
    pub(crate) fn begin_frame(&mut self, length: usize, first: &[u8]) -> anyhow::Result<()> {
        let prefix = framing::prefix(length).context("too long for a frame")?;
        self.stream.write_all(&[&prefix[..], first].concat())?;
        Ok(())
    }

    /// Receives the next frame: one message, for this client sends no compounds that are answered so.
    pub(crate) fn receive(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut prefix = [0; PREFIX_LEN];
        self.stream.read_exact(&mut prefix)?;
        let mut frame = vec![0; u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize];
        self.stream.read_exact(&mut frame)?;
        self.credits += u64::from(Message::new(&frame)?.header().credits.get());
        Ok(frame)
    }
}

fn create_request(how: How, oplock_level: u8) -> CreateRequestFixed {
    CreateRequestFixed {
        requested_oplock_level: oplock_level,
        impersonation_level: 2.into(),
        desired_access: how.access.into(),
        share_access: how.share.into(),
        create_disposition: (how.disposition as u32).into(),
        ..CreateRequestFixed::blank()
    }
}

fn initiator(user: &str, password: &str) -> anyhow::Result<Initiator> {
    let nt = NtHash::new(&Secret::from(password)).context("the password is text")?;
    let credentials = Credentials {
        domain: String::new(),
        user: user.to_owned(),
        nt_hash: Zeroizing::new(*nt.expose()),
        workstation: "HOST".to_owned(),
    };
    Ok(Initiator::new(credentials, random(), Zeroizing::new(random())))
}

/// Makes a READ of so many bytes.
pub(crate) fn read_request(file: FileId, offset: u64, length: u32) -> ReadRequest {
    ReadRequest { length: length.into(), offset: offset.into(), file_id: file, ..ReadRequest::blank() }
}

/// Writes a LOCK of the first byte, with `how` of [`smb_wire::body::lock::flags`].
pub(crate) fn lock_request(body: &mut Body<'_>, file: FileId, how: u32) {
    let fixed = LockRequestFixed { file_id: file, ..LockRequestFixed::blank() };
    let first = LockElement { offset: 0.into(), length: 1.into(), flags: how.into(), reserved: 0.into() };
    LockRequest::write(body, fixed, &[first]);
}

/// Credits that so many bytes cost.
pub(crate) fn charge(length: u32) -> u16 {
    u16::try_from(length.div_ceil(64 << 10).max(1)).expect("less than 4 GiB")
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("a Linux machine has randomness");
    bytes
}

/// A client that waits longer is not being served.
const PATIENCE: Duration = Duration::from_secs(3);
const CREDITS: u16 = 8192;
/// Read, handle and write.
const ALL_OF_A_LEASE: u32 = 7;
