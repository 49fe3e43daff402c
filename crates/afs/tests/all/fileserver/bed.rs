//! A file server of one lane in a simulated world, and clients of it that note what they are told.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::audit::Audit;
use afs::fileserver::{DirPageVersions, FileServer, Locks, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs_wire::{Capabilities, Fid, Interfaces, Status, StoreStatus, rxafs, rxafscb};
use identity::Writable;
use lane::backend::sim::{Config, Fs, Host, World};
use lane::net::UdpSocket;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{AbortCode, Anonymous, CallError, Connection, Driver, DriverConfig, LaneGroupLink, ServerCall};
use service::log::{Format, LogReader};
use vfs::{
    Cache, CacheOptions, Number, Objects, ObjectsOptions, Quota, Volume, VolumeName, VolumeOptions,
    VolumeSpec,
};
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Failure, Received};

/// The server of a test, on the lane that the test runs on.
pub(crate) struct Bed {
    pub(crate) host: Host,
    pub(crate) fs: Fs,
    pub(crate) server: FileServer,
    pub(crate) volume: Volume,
    audited: LogReader,
    address: SocketAddr,
    seed: RefCell<SmallRng>,
    port: Cell<u16>,
}

/// A client with a callback service of its own.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) connection: Connection,
    notes: Rc<Notes>,
    driver: Driver,
    server: SocketAddr,
}

/// Notes of what a client was told.
#[derive(Default)]
struct Notes {
    broken: RefCell<Vec<Fid>>,
    uuid: u8,
    /// Number of times that it heard that it relies on nothing.
    voided: Cell<u32>,
    /// The client never answers when it is called.
    is_deaf: Cell<bool>,
    tally: rxafscb::Tally,
}

/// Runs `test` in a world of this configuration.
pub(crate) fn with(config: Config, test: impl AsyncFnOnce(Bed) + 'static) {
    with_quota(config, Quota::default(), true, test);
}

fn with_quota(config: Config, quota: Quota, serve_hidden: bool, test: impl AsyncFnOnce(Bed) + 'static) {
    let world = World::new(7, config);
    let host = world.host("10.0.0.1");
    host.fs().create_dir_all("/srv").unwrap();
    let here = host.clone();
    world.block_on(&host, async move { test(Bed::new(&here, quota, serve_hidden)).await });
}

/// Runs a test ([`run`]) with bounds of what the volume may hold.
pub(crate) fn within(quota: Quota, test: impl AsyncFnOnce(Bed) + 'static) {
    with_quota(Config::clean(), quota, true, async move |bed| {
        while bed.volume.space().is_some_and(|space| !space.is_counted()) {
            lane::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        test(bed).await;
    });
}

/// Runs a test ([`run`]) with a volume that does not serve hidden names.
pub(crate) fn without_hidden(test: impl AsyncFnOnce(Bed) + 'static) {
    with_quota(Config::clean(), Quota::default(), false, test);
}

/// Runs a test ([`with`]) in a world where nothing goes wrong by itself.
pub(crate) fn run(test: impl AsyncFnOnce(Bed) + 'static) {
    with(Config::clean(), test);
}

pub(crate) fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 2048;
    config
}

impl Bed {
    fn new(host: &Host, quota: Quota, serve_hidden: bool) -> Self {
        let objects = Objects::in_memory(ObjectsOptions::default());
        let cache = Cache::sharing(CacheOptions::default(), &objects);
        let name: VolumeName = "files".parse().unwrap();
        let options = VolumeOptions { serve_hidden, ..VolumeOptions::default() };
        let spec = VolumeSpec::new(name.clone(), "/srv", options).with_objects();
        let spec = VolumeSpec { quota, ..spec.writable_by(Writable::anyone()) };
        let volume = Volume::open(&cache, &spec).unwrap();
        if spec.is_counted() {
            lane::spawn(volume.keep_counted(&spec)).detach();
        }
        let attachment =
            Attachment { volume: name, name: "files".parse().unwrap(), kind: VolumeType::ReadWrite };
        let attached = Rc::new(AttachedVolumes::of([(attachment, volume.clone())]).unwrap());
        let mut seed = SmallRng::seed_from_u64(1);
        let driver = driver(([10, 0, 0, 1], 7000).into(), &mut seed);
        let hosts = Hosts::new(HostOptions::default(), AfsUuid([0xfe; 16]), None);
        let lane_hosts = LaneHosts::new(&hosts, &cache, &driver);
        let (log, audited) = service::log::channel(64);
        let audit = Audit::new(Some(log));
        let (locks, dir_page_versions, totals) =
            (Locks::default(), DirPageVersions::default(), Totals::default());
        let server = FileServer::new(attached, lane_hosts, &locks, &dir_page_versions, &totals, audit);
        driver.serve(afs::fileserver::SERVICE, server.clone());
        let address = ([10, 0, 0, 1], 7000).into();
        let (seed, port) = (RefCell::new(seed), 7001.into());
        Self { host: host.clone(), fs: host.fs(), server, volume, audited, address, seed, port }
    }

    /// Returns what the audit log has of calls since it was last looked at, as OpenAFS writes it, from the
    /// event on.
    pub(crate) fn audited(&self) -> Vec<String> {
        self.server.flush_audit();
        let mut lines = Vec::new();
        while self.audited.read(Format::Text, &mut lines) {}
        let lines = String::from_utf8(lines).unwrap();
        lines.lines().map(|line| line.split_once("AFS_SRX_").unwrap().1.trim_end().to_owned()).collect()
    }

    pub(crate) fn client(&self) -> Client {
        let port = self.port.get();
        self.port.set(port + 1);
        Client::start(([10, 0, 0, 1], port).into(), self.address, &mut self.seed.borrow_mut())
    }

    /// A file of the volume, by its own number.
    pub(crate) fn fid(&self, number: Number) -> Fid {
        afs::fid::of(self.volume.shared().unwrap().id(), number)
    }

    pub(crate) fn root(&self) -> Fid {
        self.fid(Number::ROOT)
    }
}

fn driver(at: SocketAddr, seed: &mut SmallRng) -> Driver {
    let socket = UdpSocket::bind(at, &config().socket).unwrap();
    Driver::start_seeded(socket, LaneGroupLink::alone(), config(), seed.random())
}

/// Returns what a call was aborted with.
pub(crate) fn code<T>(outcome: Result<T, Failure<CallError>>) -> i32 {
    match outcome {
        Ok(_) => 0,
        Err(Failure::Stream(CallError::Aborted(code))) => code,
        Err(other) => panic!("the call failed in another way: {other:?}"),
    }
}

impl Client {
    /// Starts a client of this server, on the current lane.
    pub(crate) fn start(at: SocketAddr, server: SocketAddr, seed: &mut SmallRng) -> Self {
        let driver = driver(at, seed);
        let notes = Rc::new(Notes { uuid: at.port() as u8, ..Notes::default() });
        let called = Rc::clone(&notes);
        driver.serve(1, move |mut call: ServerCall| {
            let notes = Rc::clone(&called);
            async move {
                if notes.is_deaf.get() {
                    std::future::pending::<()>().await;
                }
                Ok::<(), AbortCode>(rxafscb::serve(&*notes, &mut call, &notes.tally).await?)
            }
        });
        let connection = driver.connect(server, afs::fileserver::SERVICE, &Anonymous).unwrap();
        Self { connection, notes, driver, server }
    }

    /// Returns the same client by another connection.
    pub(crate) fn again(&self) -> Self {
        let connection = self.driver.connect(self.server, afs::fileserver::SERVICE, &Anonymous).unwrap();
        Self { connection, notes: Rc::clone(&self.notes), driver: self.driver.clone(), server: self.server }
    }

    pub(crate) async fn call<P: Call>(&self, request: &P) -> Result<Received<P>, Failure<CallError>> {
        let mut call = self.connection.call().await.map_err(Failure::Stream)?;
        xdr::rpc::call(&mut call, request).await
    }

    pub(crate) async fn status(&self, fid: Fid) -> Result<Status, Failure<CallError>> {
        Ok(self.call(&rxafs::FetchStatus { fid }).await?.get().status)
    }

    pub(crate) async fn fetch(
        &self,
        fid: Fid,
        offset: i64,
        length: i64,
    ) -> Result<(Vec<u8>, rxafs::FetchData64Reply), Failure<CallError>> {
        let mut call = self.connection.call().await.map_err(Failure::Stream)?;
        let request = rxafs::FetchData64 { fid, offset, length };
        xdr::rpc::start(&mut call, &request).await?;
        call.finish().await.map_err(Failure::Stream)?;
        let mut head = [0; 8];
        call.read_exact(&mut head).await.map_err(Failure::Stream)?;
        let mut bytes = vec![0; u64::from_be_bytes(head) as usize];
        call.read_exact(&mut bytes).await.map_err(Failure::Stream)?;
        let reply = xdr::rpc::end::<rxafs::FetchData64, _>(&mut call).await?;
        Ok((bytes, reply.get()))
    }

    pub(crate) async fn store(
        &self,
        fid: Fid,
        offset: u64,
        bytes: &[u8],
        file_length: u64,
    ) -> Result<Status, Failure<CallError>> {
        self.store_with(fid, offset, bytes, file_length, StoreStatus::default()).await
    }

    /// Stores ([`Client::store`]) with the time that the client knows of the change.
    pub(crate) async fn store_at(
        &self,
        fid: Fid,
        offset: u64,
        bytes: &[u8],
        file_length: u64,
        time: u32,
    ) -> Result<Status, Failure<CallError>> {
        let change =
            StoreStatus { mask: afs_wire::SET_MOD_TIME, client_mod_time: time, ..StoreStatus::default() };
        self.store_with(fid, offset, bytes, file_length, change).await
    }

    async fn store_with(
        &self,
        fid: Fid,
        offset: u64,
        bytes: &[u8],
        file_length: u64,
        change: StoreStatus,
    ) -> Result<Status, Failure<CallError>> {
        let mut call = self.connection.call().await.map_err(Failure::Stream)?;
        let length = bytes.len() as u64;
        let request = rxafs::StoreData64 { fid, change, offset, length, file_length };
        xdr::rpc::start(&mut call, &request).await?;
        call.write(bytes).await.map_err(Failure::Stream)?;
        call.finish().await.map_err(Failure::Stream)?;
        Ok(xdr::rpc::end::<rxafs::StoreData64, _>(&mut call).await?.get().status)
    }

    pub(crate) async fn create(
        &self,
        directory: Fid,
        name: &str,
    ) -> Result<rxafs::CreateFileReply, Failure<CallError>> {
        let request = rxafs::CreateFile { directory, name: name.into(), change: StoreStatus::default() };
        Ok(self.call(&request).await?.get())
    }

    pub(crate) async fn make_dir(
        &self,
        directory: Fid,
        name: &str,
    ) -> Result<rxafs::MakeDirReply, Failure<CallError>> {
        let request = rxafs::MakeDir { directory, name: name.into(), change: StoreStatus::default() };
        Ok(self.call(&request).await?.get())
    }

    /// Returns what it was told since it was last asked.
    pub(crate) fn broken(&self) -> Vec<Fid> {
        self.notes.broken.take()
    }

    /// Returns how often it was told that it relies on nothing.
    pub(crate) fn voided(&self) -> u32 {
        self.notes.voided.get()
    }

    /// From now on it does not answer when it is called.
    pub(crate) fn be_deaf(&self) {
        self.notes.is_deaf.set(true);
    }
}

type Outcome<T> = Result<T, Failure<CallError>>;

impl rxafscb::Server<ServerCall> for Notes {
    async fn call_back(&self, _: &ServerCall, request: rxafscb::CallBack) -> Outcome<rxafscb::CallBackReply> {
        self.broken.borrow_mut().extend(request.files.0);
        Ok(rxafscb::CallBackReply)
    }

    async fn init_call_back_state3(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState3,
    ) -> Outcome<rxafscb::InitCallBackState3Reply> {
        self.voided.set(self.voided.get() + 1);
        Ok(rxafscb::InitCallBackState3Reply)
    }

    async fn probe(&self, _: &ServerCall, _: rxafscb::Probe) -> Outcome<rxafscb::ProbeReply> {
        Ok(rxafscb::ProbeReply)
    }

    async fn tell_me_about_yourself(
        &self,
        _: &ServerCall,
        _: rxafscb::TellMeAboutYourself,
    ) -> Outcome<rxafscb::TellMeAboutYourselfReply> {
        let interfaces = Interfaces { count: 1, uuid: AfsUuid([self.uuid; 16]), ..Interfaces::default() };
        Ok(rxafscb::TellMeAboutYourselfReply { interfaces, capabilities: Capabilities::default() })
    }
}
