//! A client of AFS that caches: what it was promised it believes until it is told otherwise.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use afs_client::{Client, ClientOptions};
use afs_wire::directory::Directory;
use afs_wire::{CALL_BACK_DROPPED, CallBack, Fid, Status, StoreStatus, rxafs};
use anyhow::Context;
use rx_lane::{Anonymous, CallError, Connection};
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Failure, Received};

use crate::model::{Model, Object};
use crate::site::Place;

pub(crate) type Outcome<T> = Result<T, Failure<CallError>>;

/// Cached state of an object in a client: its state was this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) object: Object,
    /// [`Node::changes`](crate::model::Node) as it was.
    pub(crate) changes: u64,
    /// [`Node::contents`](crate::model::Node::contents), the same.
    pub(crate) contents: u64,
    until: Instant,
}

pub(crate) struct CacheManager {
    client: Client,
    connections: Vec<Connection>,
    turn: usize,
    pub(crate) root: Fid,
    kept: HashMap<Fid, Kept>,
    resets: u64,
}

impl CacheManager {
    pub(crate) fn new(place: &Place, number: u8) -> anyhow::Result<Self> {
        let mut options = ClientOptions::new(AfsUuid([number + 1; 16]));
        options.oob.threshold = None;
        let client = Client::bind((place.client, 0).into(), options)?;
        let root = place.root;
        let mut manager =
            Self { client, connections: Vec::new(), turn: 0, root, kept: HashMap::new(), resets: 0 };
        manager.connects(place.afs)?;
        Ok(manager)
    }

    /// Makes new connections, some of which are on each lane of the server.
    pub(crate) fn connects(&mut self, server: SocketAddr) -> anyhow::Result<()> {
        let connect = |_| self.client.driver().connect(server, FILE_SERVICE, &Anonymous);
        self.connections =
            (0..CONNECTIONS).map(connect).collect::<Result<_, _>>().context("AFS connections")?;
        Ok(())
    }

    async fn start(&mut self) -> Outcome<rx_lane::Call> {
        self.turn += 1;
        let connection = self.connections[self.turn % CONNECTIONS].clone();
        connection.call().await.map_err(Failure::Stream)
    }

    pub(crate) async fn call<P: Call>(&mut self, request: &P) -> Outcome<Received<P>> {
        let mut call = self.start().await?;
        xdr::rpc::call(&mut call, request).await
    }

    pub(crate) async fn fetch(&mut self, fid: Fid) -> Outcome<(Vec<u8>, rxafs::FetchData64Reply)> {
        let mut call = self.start().await?;
        let request = rxafs::FetchData64 { fid, offset: 0, length: 1 << 24 };
        xdr::rpc::start(&mut call, &request).await?;
        call.finish().await.map_err(Failure::Stream)?;
        let mut head = [0; 8];
        call.read_exact(&mut head).await.map_err(Failure::Stream)?;
        let mut bytes = vec![0; u64::from_be_bytes(head) as usize];
        call.read_exact(&mut bytes).await.map_err(Failure::Stream)?;
        Ok((bytes, xdr::rpc::end::<rxafs::FetchData64, _>(&mut call).await?.get()))
    }

    pub(crate) async fn store(
        &mut self,
        fid: Fid,
        offset: u64,
        bytes: &[u8],
        file_length: u64,
    ) -> Outcome<Status> {
        let mut call = self.start().await?;
        let (change, length) = (StoreStatus::default(), bytes.len() as u64);
        let request = rxafs::StoreData64 { fid, change, offset, length, file_length };
        xdr::rpc::start(&mut call, &request).await?;
        call.write(bytes).await.map_err(Failure::Stream)?;
        call.finish().await.map_err(Failure::Stream)?;
        Ok(xdr::rpc::end::<rxafs::StoreData64, _>(&mut call).await?.get().status)
    }

    /// Returns the names of a directory.
    pub(crate) async fn list(
        &mut self,
        fid: Fid,
    ) -> anyhow::Result<(BTreeMap<String, Fid>, rxafs::FetchData64Reply)> {
        let (bytes, reply) = self.fetch(fid).await.map_err(failed).context("AFS FetchData of a directory")?;
        let directory = Directory::parse(&bytes).context("a directory's pages")?;
        let volume = self.root.volume;
        let entry = |(name, target): (&[u8], afs_wire::directory::Target)| {
            let fid = Fid { volume, vnode: target.vnode, uniquifier: target.uniquifier };
            (String::from_utf8_lossy(name).into_owned(), fid)
        };
        let mut names: BTreeMap<_, _> = directory.entries().map(entry).collect();
        names.retain(|name, _| name != "." && name != "..");
        Ok((names, reply))
    }

    /// Caches what a reply returned, if that came with a callback.
    pub(crate) fn keeps(&mut self, fid: Fid, object: Object, model: &Model, promised: &CallBack) {
        // What was broken before belongs to what was believed before.
        self.hears();
        if promised.r#type != CALL_BACK_DROPPED && promised.expires > 0 {
            let until = lane::time::now() + Duration::from_secs(promised.expires.into());
            let node = &model.objects[object];
            self.kept.insert(fid, Kept { object, changes: node.changes, contents: node.contents, until });
        } else {
            self.kept.remove(&fid);
        }
    }

    /// Notes that the client's own change was answered with this status: that is what it caches.
    pub(crate) fn has_changed(&mut self, object: Object, model: &Model) {
        let node = &model.objects[object];
        for kept in self.kept.values_mut().filter(|kept| kept.object == object) {
            (kept.changes, kept.contents) = (node.changes, node.contents);
        }
    }

    pub(crate) fn forgets(&mut self, object: Object) {
        self.kept.retain(|_, kept| kept.object != object);
    }

    pub(crate) fn forgets_all(&mut self) {
        self.kept.clear();
    }

    /// Returns what it caches now.
    pub(crate) fn believes(&mut self) -> Vec<Kept> {
        self.hears();
        self.kept.values().copied().collect()
    }

    fn hears(&mut self) {
        let manager = self.client.manager();
        let resets = manager.heard().resets;
        if resets != self.resets {
            self.resets = resets;
            self.kept.clear();
        }
        for fid in manager.take_broken() {
            match fid.vnode {
                0 => self.kept.clear(),
                _ => drop(self.kept.remove(&fid)),
            }
        }
        let now = lane::time::now();
        self.kept.retain(|_, kept| kept.until > now);
    }
}

pub(crate) fn failed(failure: Failure<CallError>) -> anyhow::Error {
    anyhow::anyhow!("{failure:?}")
}

const FILE_SERVICE: u16 = 1;
const CONNECTIONS: usize = 4;
