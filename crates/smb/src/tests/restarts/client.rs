//! A client of several channels, each on a machine of its own, that works on over the loss of channels, sessions and servers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::Host;
use lane::time::{sleep, timeout};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_client::{
    BreakNotification, Channel, Connection, Data, Error, OpenParams, Options as ClientOptions,
    OutgoingRequest, Reply, SessionTicket, Tree,
};
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed, flags as lock_flags};
use smb_wire::body::read::ReadRequest;
use smb_wire::body::write::WriteRequestFixed;
use smb_wire::create::context::{ContextWriter, DurableReconnectV2, DurableRequestV2, tag};
use smb_wire::create::lease::{LeaseV2, state};
use smb_wire::create::{CreateRequest, CreateRequestFixed, Disposition, oplock_level};
use smb_wire::fixed::Fixed;
use smb_wire::header::{HEADER_LEN, flags};
use smb_wire::{Command, FileId, Guid, Status};
use zerocopy::FromZeros;

use super::super::bed::{PASSWORD, credentials};
use super::site::Site;
use super::{BLOCK, BLOCKS, VERSIONS};

/// State of a client's file.
#[derive(Clone, Copy, Debug)]
struct File {
    id: FileId,
    create_guid: Guid,
    /// Number of the open: what was locked by another is not locked by this.
    serial: u32,
}

/// A session, and the channels that are there, with the machines that they are on.
struct Session {
    ticket: SessionTicket,
    trees: Vec<(usize, Tree)>,
}

/// Reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Refused(Status),
    /// No channel is left, or the session is over.
    Lost,
}

/// A client with several NICs, each of which is a machine here, so that one can be cut off.
pub(super) struct Client {
    pub(super) number: usize,
    channels: usize,
    hosts: Vec<Host>,
    servers: Vec<SocketAddr>,
    options: ClientOptions,
    session: RefCell<Option<Session>>,
    /// Channels that did not answer are there still: what waits in them comes late.
    given_up: RefCell<Vec<(usize, Tree)>>,
    file: Cell<Option<File>>,
    /// Number of times that it has begun anew.
    lives: Cell<u32>,
    is_recovering: Cell<bool>,
    locks: Cell<u32>,
    serials: Cell<u32>,
    working: Cell<usize>,
    rng: RefCell<SmallRng>,
    tally: Rc<Tally>,
}

#[derive(Default)]
pub(super) struct Tally(pub(super) RefCell<BTreeMap<&'static str, u64>>);

impl Tally {
    pub(super) fn count(&self, what: &'static str) {
        *self.0.borrow_mut().entry(what).or_default() += 1;
    }
}

impl Client {
    fn draw(&self, below: usize) -> usize {
        self.rng.borrow_mut().random_range(0..below)
    }

    pub(super) fn name(&self) -> String {
        format!("file-{}", self.number)
    }

    fn lease_key(&self) -> Guid {
        Guid::new([self.number as u8 + 1; 16])
    }

    /// A connection from one of its machines, and what `sign_in` makes of it there.
    async fn connects(
        &self,
        host: usize,
        sign_in: impl AsyncFnOnce(Connection) -> Result<Tree, Error> + 'static,
    ) -> Option<Tree> {
        let (server, options) = (self.servers[self.draw(self.servers.len())], self.options.clone());
        let connecting = self.hosts[host].start_on(0, async move {
            let connecting = async { sign_in(Connection::open(server, options).await?).await };
            timeout(PATIENCE, connecting).await.ok()?.ok()
        });
        connecting.await
    }

    /// Binds one more channel to the session that it has.
    async fn binds(self: &Rc<Self>) {
        let host = self.draw(self.hosts.len());
        let life = self.lives.get();
        let of = |session: &Session| {
            let (_, tree) = session.trees.first()?;
            Some((session.ticket.clone(), tree.shared()))
        };
        let found = self.session.borrow().as_ref().and_then(of);
        let Some((ticket, shared)) = found else { return };
        let bound = self.connects(host, async move |connection| {
            Ok(shared.over(&Channel::bind(&connection, &ticket).await?))
        });
        let Some(tree) = bound.await else { return };
        if self.lives.get() == life {
            self.has(host, tree);
        } else {
            self.given_up.borrow_mut().push((host, tree));
        }
    }

    /// A channel is there: breaks may come by it.
    fn has(self: &Rc<Self>, host: usize, tree: Tree) {
        let (me, connection) = (Rc::clone(self), tree.channel().connection().clone());
        self.hosts[host].spawn(async move {
            while let Ok(broken) = connection.next_break().await {
                if let BreakNotification::Lease { key, new, acknowledge, .. } = broken {
                    me.tally.count("broken");
                    if acknowledge {
                        me.acknowledges(key, new).await;
                    }
                }
            }
        });
        if let Some(session) = &mut *self.session.borrow_mut() {
            session.trees.push((host, tree));
        }
    }

    /// Answers by one channel after another.
    async fn acknowledges(&self, key: Guid, new: u32) {
        let life = self.lives.get();
        while self.lives.get() == life {
            let Some((host, tree)) = self.picks() else { return };
            let asked = self.hosts[host]
                .start_on(0, async move { timeout(ANSWERED_IN, tree.acknowledge_lease(key, new)).await });
            match asked.await {
                Ok(Err(error)) if error.status().is_none() => {}
                Err(_) => {}
                Ok(_) => return,
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn picks(&self) -> Option<(usize, Tree)> {
        let session = self.session.borrow();
        let there = |tree: &Tree| tree.channel().connection().ended().is_none();
        let trees: Vec<_> =
            session.iter().flat_map(|session| &session.trees).filter(|(_, tree)| there(tree)).collect();
        (!trees.is_empty()).then(|| trees[self.draw(trees.len())].clone())
    }

    /// A channel does not answer. What is sent from now on says so.
    fn gives_up(&self, tree: &Tree) {
        let mut session = self.session.borrow_mut();
        let Some(session) = &mut *session else { return };
        if session.ticket.session_id() != tree.channel().ticket().session_id() {
            return;
        }
        let connection = tree.channel().connection().negotiated();
        let is_it = |other: &Tree| Rc::ptr_eq(&other.channel().connection().negotiated(), &connection);
        let gone = session.trees.extract_if(.., |(_, other)| is_it(other));
        self.given_up.borrow_mut().extend(gone);
        // Also where another has given it up before: this request may have been sent since.
        session.ticket.advance_sequence();
    }

    /// Asks by one channel after another, until there is an answer.
    async fn asks<T: 'static>(
        &self,
        make: impl Fn(u32) -> OutgoingRequest<'static>,
        take: fn(Reply) -> Result<T, Error>,
    ) -> Result<T, Why> {
        let (life, mut header_flags) = (self.lives.get(), 0);
        loop {
            if self.lives.get() != life {
                return Err(Why::Lost);
            }
            let (host, tree) = self.picks().ok_or(Why::Lost)?;
            let (ask, given) = (make(header_flags), tree.clone());
            let asked = self.hosts[host].start_on(0, async move {
                match timeout(ANSWERED_IN, tree.exchange(ask)).await {
                    Ok(reply) => reply.and_then(take).map_err(|error| error.status()),
                    Err(_) => Err(None),
                }
            });
            match asked.await {
                Ok(value) => return Ok(value),
                // What it repeats is not over yet, or the sequence has moved on meanwhile.
                Err(Some(Status::FILE_NOT_AVAILABLE)) => sleep(Duration::from_millis(3)).await,
                Err(Some(Status::USER_SESSION_DELETED)) => return Err(Why::Lost),
                Err(Some(status)) => return Err(Why::Refused(status)),
                Err(None) => {
                    self.gives_up(&given);
                    self.tally.count("replayed");
                }
            }
            header_flags = flags::REPLAY_OPERATION;
        }
    }

    /// Has a session again, and the file. Of several that find that out one does it.
    async fn recovers(self: &Rc<Self>, life: u32) {
        while self.is_recovering.replace(true) {
            sleep(Duration::from_millis(5)).await;
        }
        if self.lives.get() == life {
            let previous = self.session.take().map_or(0, |session| {
                self.given_up.borrow_mut().extend(session.trees);
                session.ticket.session_id()
            });
            self.signs_in(previous).await;
            self.lives.set(life + 1);
            self.opens().await;
        }
        self.is_recovering.set(false);
    }

    async fn signs_in(self: &Rc<Self>, previous: u64) {
        loop {
            let host = self.draw(self.hosts.len());
            let signed_in = self.connects(host, async move |connection| {
                let who = credentials("alice", PASSWORD);
                let channel = Channel::sign_in_after(&connection, who, previous).await?;
                Tree::connect(&channel, r"\\10.0.0.1\files").await
            });
            if let Some(tree) = signed_in.await {
                let session = Session { ticket: tree.channel().ticket(), trees: Vec::new() };
                self.session.replace(Some(session));
                self.has(host, tree);
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has its file again as it had it, or opens it anew.
    async fn opens(&self) {
        if let Some(file) = self.file.get() {
            let reconnect = DurableReconnectV2 {
                file_id: file.id,
                create_guid: file.create_guid,
                ..DurableReconnectV2::new_zeroed()
            };
            let how =
                self.how(Disposition::Open, |out| out.push_plain(tag::DURABLE_RECONNECT_V2, &reconnect));
            match self.creates(how).await {
                Ok(id) => {
                    assert_eq!(id, file.id, "it is the same open");
                    self.tally.count("had again");
                    return;
                }
                // Sought once more by a task that finds the session lost.
                Err(Why::Lost) => return,
                Err(Why::Refused(_)) => self.tally.count("lost"),
            }
            self.file.set(None);
        }
        let serial = self.serials.replace(self.serials.get() + 1);
        let mut guid = [self.number as u8 + 1; 16];
        guid[..4].copy_from_slice(&serial.to_le_bytes());
        let create_guid = Guid::new(guid);
        let asked = DurableRequestV2 { create_guid, ..DurableRequestV2::new_zeroed() };
        let how = self.how(Disposition::OpenIf, |out| out.push_plain(tag::DURABLE_REQUEST_V2, &asked));
        if let Ok(id) = self.creates(how).await {
            self.file.set(Some(File { id, create_guid, serial }));
        }
    }

    fn how(&self, disposition: Disposition, durable: impl FnOnce(&mut ContextWriter)) -> OpenParams {
        let mut contexts = ContextWriter::new();
        let lease = LeaseV2 {
            lease_key: self.lease_key(),
            lease_state: (state::READ | state::HANDLE | state::WRITE).into(),
            ..LeaseV2::new_zeroed()
        };
        contexts.push_plain(tag::LEASE, &lease);
        durable(&mut contexts);
        let contexts = contexts.bytes().to_vec();
        OpenParams { disposition, oplock: oplock_level::LEASE, contexts, ..OpenParams::overwrite() }
    }

    async fn creates(&self, how: OpenParams) -> Result<FileId, Why> {
        let name = self.name();
        self.asks(|header_flags| create(&how, &name).with(header_flags), |reply| created(&reply)).await
    }

    /// Does something with its file until that is answered, whatever becomes of sessions; `None` where another open took its place.
    async fn does<T: 'static>(
        self: &Rc<Self>,
        of: Option<u32>,
        make: impl Fn(FileId) -> OutgoingRequest<'static>,
        take: fn(Reply) -> Result<T, Error>,
    ) -> Option<Result<T, Status>> {
        loop {
            let life = self.lives.get();
            let Some(file) = self.file.get().filter(|_| !self.is_recovering.get()) else {
                if !self.is_recovering.get() {
                    self.recovers(life).await;
                }
                sleep(Duration::from_millis(5)).await;
                continue;
            };
            if of.is_some_and(|serial| serial != file.serial) {
                return None;
            }
            match self.asks(|header_flags| make(file.id).with(header_flags), take).await {
                Ok(value) => return Some(Ok(value)),
                // Another client was let in while its client was away.
                Err(Why::Refused(Status::FILE_CLOSED)) => self.file.set(None),
                Err(Why::Refused(status)) => return Some(Err(status)),
                Err(Why::Lost) => self.recovers(life).await,
            }
        }
    }

    /// Writes each version of a block, and sees that it is there.
    pub(super) async fn writes(self: Rc<Self>, block: usize) {
        for version in 1..=VERSIONS {
            let written = self.does(None, |file| write(file, block, version), |reply| reply.body().map(drop));
            assert_eq!(written.await, Some(Ok(())), "block {block}");
            let read = self.does(
                None,
                |file| read(file, block),
                |reply| Data::of(reply, BLOCK as u32).map(|data| data.to_vec()),
            );
            assert_eq!(read.await, Some(Ok(vec![version; BLOCK])), "block {block}: no other comes late");
            sleep(Duration::from_millis(self.draw(250) as u64)).await;
        }
        self.working.update(|working| working - 1);
    }

    /// Locks a range again and again, and sees that it is locked once.
    pub(super) async fn locks(self: Rc<Self>) {
        for _ in 0..ROUNDS {
            sleep(Duration::from_millis(self.draw(300) as u64)).await;
            let Some(File { serial, .. }) = self.file.get() else { continue };
            let at = (BLOCKS * BLOCK) as u64;
            let locks = |flags: u32| {
                let number = self.locks.replace(self.locks.get() + 1);
                // Each bucket is used in turn, with its next number.
                let sequence = ((1 + number % 64) << 4) | (number / 64 % 16);
                self.does(
                    Some(serial),
                    move |file| lock(file, sequence, at, flags),
                    |reply| reply.body().map(drop),
                )
            };
            let locked = locks(lock_flags::EXCLUSIVE | lock_flags::FAIL_IMMEDIATELY).await;
            let Some(locked) = locked else { continue };
            assert_eq!(locked, Ok(()), "nobody else locks it");
            sleep(Duration::from_millis(self.draw(100) as u64)).await;
            let Some(unlocked) = locks(lock_flags::UNLOCK).await else { continue };
            assert_eq!(unlocked, Ok(()), "it was locked");
            let Some(again) = locks(lock_flags::UNLOCK).await else { continue };
            assert_eq!(again, Err(Status::RANGE_NOT_LOCKED), "it was locked once");
            self.tally.count("locked");
        }
        self.working.update(|working| working - 1);
    }

    /// Keeps its channels.
    pub(super) async fn lives(self: Rc<Self>) {
        while self.working.get() > 0 {
            let there = self.session.borrow().as_ref().map_or(0, |session| session.trees.len());
            if there < self.channels {
                self.binds().await;
            }
            sleep(Duration::from_millis(self.draw(60) as u64)).await;
        }
        if let Some((host, tree)) = self.picks() {
            let _ = self.hosts[host].start_on(0, async move { tree.channel().log_off().await }).await;
        }
        let left = self.session.take().map(|session| session.trees).unwrap_or_default();
        for (host, tree) in left.into_iter().chain(self.given_up.take()) {
            self.hosts[host].start_on(0, async move { tree.channel().connection().break_off() }).await;
        }
    }
}

fn created(reply: &Reply) -> Result<FileId, Error> {
    match reply.body()? {
        smb_wire::Response::Create(answer) => Ok(answer.fixed.file_id),
        _ => Err(Error::Unexpected("something else than an open")),
    }
}

/// Makes a request ([`OpenParams::request`]) of what lives as long as it takes.
fn create(how: &OpenParams, name: &str) -> OutgoingRequest<'static> {
    let (name, contexts) = (name.to_owned(), how.contexts.clone());
    let fixed = CreateRequestFixed {
        requested_oplock_level: how.oplock,
        impersonation_level: 2.into(),
        desired_access: how.access.into(),
        share_access: how.share.into(),
        create_disposition: (how.disposition as u32).into(),
        create_options: how.options.into(),
        ..CreateRequestFixed::blank()
    };
    OutgoingRequest::new(Command::Create, move |body| CreateRequest::write(body, fixed, &name, &contexts))
}

/// A block is full of its version.
fn write(file: FileId, block: usize, version: u8) -> OutgoingRequest<'static> {
    let fixed = WriteRequestFixed {
        data_offset: ((HEADER_LEN + size_of::<WriteRequestFixed>()) as u16).into(),
        length: (BLOCK as u32).into(),
        offset: ((block * BLOCK) as u64).into(),
        file_id: file,
        ..WriteRequestFixed::blank()
    };
    let ask = OutgoingRequest::new(Command::Write, move |body| {
        body.push(&fixed);
        body.bytes(&[version; BLOCK]);
    });
    ask.carrying(BLOCK as u32, 0)
}

fn read(file: FileId, block: usize) -> OutgoingRequest<'static> {
    let fixed = ReadRequest {
        length: (BLOCK as u32).into(),
        offset: ((block * BLOCK) as u64).into(),
        file_id: file,
        ..ReadRequest::blank()
    };
    let ask = OutgoingRequest::new(Command::Read, move |body| {
        body.push(&fixed);
        body.bytes(&[0]);
    });
    ask.carrying(0, BLOCK as u32)
}

fn lock(file: FileId, sequence: u32, at: u64, flags: u32) -> OutgoingRequest<'static> {
    let fixed =
        LockRequestFixed { lock_sequence: sequence.into(), file_id: file, ..LockRequestFixed::blank() };
    let element =
        LockElement { offset: at.into(), length: 10.into(), flags: flags.into(), reserved: 0.into() };
    OutgoingRequest::new(Command::Lock, move |body| LockRequest::write(body, fixed, &[element]))
}

pub(super) fn options(number: u8) -> ClientOptions {
    let state = Cell::new(u64::from(number));
    let random = move |bytes: &mut [u8]| {
        for byte in bytes {
            state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            *byte = (state.get() >> 33) as u8;
        }
    };
    ClientOptions::new(Guid::new([number + 100; 16]), Rc::new(random))
}

pub(super) fn client(
    site: &Site,
    number: usize,
    hosts: &[Host],
    rng: &mut SmallRng,
    tally: &Rc<Tally>,
) -> Rc<Client> {
    Rc::new(Client {
        number,
        channels: rng.random_range(1..=8),
        hosts: hosts.to_vec(),
        servers: site.servers(),
        options: options(number as u8),
        session: RefCell::default(),
        given_up: RefCell::default(),
        file: Cell::default(),
        lives: Cell::default(),
        is_recovering: Cell::default(),
        locks: Cell::default(),
        serials: Cell::default(),
        working: Cell::new(BLOCKS + 1),
        rng: RefCell::new(SmallRng::seed_from_u64(rng.random())),
        tally: Rc::clone(tally),
    })
}

const ROUNDS: usize = 12;
/// After which a channel is given up.
const ANSWERED_IN: Duration = Duration::from_secs(1);
/// Time for which it may take to connect.
const PATIENCE: Duration = Duration::from_secs(4);
