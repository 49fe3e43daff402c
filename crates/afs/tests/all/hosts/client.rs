//! A client that caches: it keeps what it read until it is told otherwise, or its promise runs out.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use afs_wire::{Interfaces, code, rxafscb};
use lane::backend::sim;
use lane::net::UdpSocket;
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{AbortCode, Anonymous, CallError, Connection, Driver, LaneGroupLink, ServerCall};
use xdr::afs::AfsUuid;
use xdr::rpc::Failure;

use super::server::{ADDRESS, READ, SERVICE, WRITE, config};

/// Behaviour of a called client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Good,
    /// The client does not know the call.
    Unknown,
    /// The client refuses.
    Refuses,
    /// The client answers something that was not asked for.
    Garbage,
    /// The client never answers.
    Deaf,
}

/// Kind of identity that a client claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Identity of today's clients: TellMeAboutYourself.
    Today,
    /// Identity of Linux's client since 6.8: the same, but InitCallBackState3 voids the volume as one, which
    /// one file's promise makes good again; what it has of the others it drops when a reply tells that they
    /// are of another volume.
    Volumes,
    /// WhoAreYou alone.
    Older,
    /// Nothing: known by its address.
    Nameless,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) content: u8,
    pub(crate) version: u64,
    pub(crate) until: Instant,
    fid: (u32, u32),
}

/// One client; what it has is beside its process, which can be started anew.
pub(crate) struct Client {
    /// The client's machine, where it is simulated.
    host: Option<sim::Host>,
    pub(crate) server: Cell<SocketAddr>,
    pub(crate) kind: Kind,
    pub(crate) uuid: Cell<AfsUuid>,
    pub(crate) mode: Cell<Mode>,
    pub(crate) cache: RefCell<HashMap<&'static str, Kept>>,
    connections: RefCell<Vec<Connection>>,
    driver: RefCell<Option<Driver>>,
    /// Set if it does not believe what it was told while something was on the way to it.
    is_careful: bool,
    told: Cell<u64>,
    told_all: Cell<u64>,
    /// Of [`Kind::Volumes`]: what it has of the volume counts.
    volume_stands: Cell<bool>,
    /// Of [`Kind::Volumes`]: what the last reply said of the volume.
    since: Cell<u32>,
    pub(crate) tally: rxafscb::Tally,
    pub(crate) files_told: Cell<u64>,
}

impl Client {
    pub(crate) fn new(host: Option<sim::Host>, kind: Kind, number: u8, is_careful: bool) -> Rc<Self> {
        Rc::new(Self {
            host,
            server: Cell::new(ADDRESS.into()),
            kind,
            uuid: Cell::new(AfsUuid([number; 16])),
            mode: Cell::new(Mode::Good),
            cache: RefCell::default(),
            connections: RefCell::default(),
            driver: RefCell::default(),
            is_careful,
            told: Cell::new(0),
            told_all: Cell::new(0),
            volume_stands: Cell::new(true),
            since: Cell::new(0),
            tally: rxafscb::Tally::default(),
            files_told: Cell::new(0),
        })
    }

    pub(crate) fn host(&self) -> &sim::Host {
        self.host.as_ref().expect("it is simulated")
    }

    /// Begins the client's process, on its host's lane: with nothing in its cache.
    pub(crate) fn begin(self: &Rc<Self>, port: u16, seed: u64) {
        self.cache.borrow_mut().clear();
        let socket = UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], port)), &config().socket).unwrap();
        let driver = Driver::start_seeded(
            socket,
            LaneGroupLink::alone(),
            config(),
            SmallRng::seed_from_u64(seed).random(),
        );
        let me = Rc::clone(self);
        driver.serve(SERVICE, move |call: ServerCall| {
            let me = Rc::clone(&me);
            async move { me.called(call).await }
        });
        self.driver.replace(Some(driver));
        self.connect();
    }

    /// Ends the client's process, and what it had of the lane goes with it.
    pub(crate) fn end(&self) {
        self.connections.borrow_mut().clear();
        self.driver.replace(None);
        self.cache.borrow_mut().clear();
    }

    /// New connections, some of which are on each lane of the server.
    pub(crate) fn connect(&self) {
        let driver = self.driver.borrow().clone().expect("it has begun");
        let connect = |_| driver.connect(self.server.get(), SERVICE, &Anonymous).unwrap();
        let connections = (0..4).map(connect).collect();
        self.connections.replace(connections);
    }

    pub(crate) async fn call(&self, which: usize, request: &[u8]) -> Result<Vec<u8>, CallError> {
        let connection = self.connections.borrow().get(which).cloned().ok_or(CallError::Gone)?;
        let mut call = connection.call().await?;
        call.write(request).await?;
        call.finish().await?;
        call.read_to_end(1024).await
    }

    /// Reads a file and keeps it.
    pub(crate) async fn read(&self, which: usize, file: &'static str) -> Result<Kept, CallError> {
        let asked = time::now();
        let (told, told_all) = (self.told.get(), self.told_all.get());
        let reply = self.call(which, &[&[READ], file.as_bytes()].concat()).await?;
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        let version = u64::from_be_bytes(reply[8..16].try_into().unwrap());
        // It counts from before it asked.
        let until = asked + Duration::from_secs(word(16).into());
        let kept = Kept { content: reply[20], version, until, fid: (word(0), word(4)) };
        self.hears_of_volume(word(21));
        if self.told_all.get() == told_all {
            self.volume_stands.set(true);
        }
        let is_over = self.told_all.get() != told_all || self.is_careful && self.told.get() != told;
        if is_over {
            self.cache.borrow_mut().remove(file);
        } else {
            self.cache.borrow_mut().insert(file, kept);
        }
        Ok(kept)
    }

    /// Writes a file and gives its version; what it has of the file is as it wrote it.
    pub(crate) async fn write(
        &self,
        which: usize,
        file: &'static str,
        content: u8,
    ) -> Result<u64, CallError> {
        let told = self.told.get() + self.told_all.get();
        let reply = self.call(which, &[&[WRITE, content], file.as_bytes()].concat()).await;
        let version = reply.map(|reply| {
            self.hears_of_volume(u32::from_be_bytes(reply[8..].try_into().unwrap()));
            u64::from_be_bytes(reply[..8].try_into().unwrap())
        });
        let mut cache = self.cache.borrow_mut();
        match (&version, cache.get_mut(file)) {
            (Ok(version), Some(kept)) if told == self.told.get() + self.told_all.get() => {
                (kept.content, kept.version) = (content, *version);
            }
            // It does not know.
            _ => drop(cache.remove(file)),
        }
        version
    }

    /// Answers a call of the server.
    async fn called(&self, mut call: ServerCall) -> Result<(), AbortCode> {
        match self.mode.get() {
            Mode::Good => Ok(rxafscb::serve(self, &mut call, &self.tally).await?),
            Mode::Unknown => Err(AbortCode(xdr::rpc::code::OPCODE)),
            Mode::Refuses => Err(AbortCode(code::VNOVOL)),
            Mode::Garbage => {
                // It has answered, whatever that means: it is taken at its word.
                self.forgets_all();
                call.write(&[0xff; 3]).await?;
                call.finish().await?;
                call.closed().await?;
                Ok(())
            }
            Mode::Deaf => std::future::pending().await,
        }
    }

    fn interfaces(&self) -> Interfaces {
        let mut addresses = [0; 32];
        addresses[0] = 0x0a00_0100;
        // One that counts none is taken for one that does not notice.
        Interfaces {
            count: self.is_careful.into(),
            uuid: self.uuid.get(),
            addresses,
            ..Interfaces::default()
        }
    }

    /// Returns whether it believes what it has.
    pub(crate) fn relies(&self) -> bool {
        self.kind != Kind::Volumes || self.volume_stands.get()
    }

    /// Takes what a reply says of the volume.
    fn hears_of_volume(&self, since: u32) {
        if self.since.replace(since) != since && self.kind == Kind::Volumes {
            self.cache.borrow_mut().clear();
        }
    }

    fn forgets_all(&self) {
        self.told_all.set(self.told_all.get() + 1);
        self.cache.borrow_mut().clear();
    }
}

type Refused = Failure<CallError>;

const UNKNOWN: Refused = Failure::Refused(xdr::rpc::code::OPCODE);

impl rxafscb::Server<ServerCall> for Client {
    async fn call_back(
        &self,
        _: &ServerCall,
        request: rxafscb::CallBack,
    ) -> Result<rxafscb::CallBackReply, Refused> {
        self.told.set(self.told.get() + 1);
        self.files_told.set(self.files_told.get() + request.files.0.len() as u64);
        for fid in request.files.0 {
            let is_it = |kept: &Kept| fid.vnode == 0 || kept.fid == (fid.vnode, fid.uniquifier);
            self.cache.borrow_mut().retain(|_, kept| !is_it(kept));
        }
        Ok(rxafscb::CallBackReply)
    }

    async fn init_call_back_state(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState,
    ) -> Result<rxafscb::InitCallBackStateReply, Refused> {
        self.forgets_all();
        Ok(rxafscb::InitCallBackStateReply)
    }

    async fn probe(&self, _: &ServerCall, _: rxafscb::Probe) -> Result<rxafscb::ProbeReply, Refused> {
        Ok(rxafscb::ProbeReply)
    }

    async fn who_are_you(
        &self,
        _: &ServerCall,
        _: rxafscb::WhoAreYou,
    ) -> Result<rxafscb::WhoAreYouReply, Refused> {
        match self.kind {
            Kind::Nameless => Err(UNKNOWN),
            _ => Ok(rxafscb::WhoAreYouReply { interfaces: self.interfaces() }),
        }
    }

    async fn init_call_back_state3(
        &self,
        _: &ServerCall,
        request: rxafscb::InitCallBackState3,
    ) -> Result<rxafscb::InitCallBackState3Reply, Refused> {
        if self.kind == Kind::Nameless {
            return Err(UNKNOWN);
        }
        assert_eq!(request.server, super::server::UUID);
        if self.kind == Kind::Volumes {
            self.told_all.set(self.told_all.get() + 1);
            self.volume_stands.set(false);
        } else {
            self.forgets_all();
        }
        Ok(rxafscb::InitCallBackState3Reply)
    }

    async fn probe_uuid(
        &self,
        _: &ServerCall,
        request: rxafscb::ProbeUuid,
    ) -> Result<rxafscb::ProbeUuidReply, Refused> {
        match request.client == self.uuid.get() {
            true => Ok(rxafscb::ProbeUuidReply),
            false => Err(Failure::Refused(1)),
        }
    }

    async fn tell_me_about_yourself(
        &self,
        _: &ServerCall,
        _: rxafscb::TellMeAboutYourself,
    ) -> Result<rxafscb::TellMeAboutYourselfReply, Refused> {
        match self.kind {
            Kind::Today | Kind::Volumes => Ok(rxafscb::TellMeAboutYourselfReply {
                interfaces: self.interfaces(),
                capabilities: xdr::List(vec![1]),
            }),
            _ => Err(UNKNOWN),
        }
    }
}
