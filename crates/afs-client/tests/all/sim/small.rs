//! A small cell: a file server and a location service of generated stubs over a tree in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use afs_wire::directory::{Directory, Target};
use afs_wire::{
    Fid, LocationEntry, LocationEntryByUuid, LocationEntryOld, Status, VL_BY_UUID, VL_READ_ONLY_EXISTS,
    VL_READ_WRITE_EXISTS, VL_SITE_READ_ONLY, VL_SITE_READ_WRITE, VL_SITE_UUID, VolumeSync, code, rxafs,
    rxafscb, vl,
};
use rx_lane::{Anonymous, CallError, Driver, ServerCall};
use xdr::afs::AfsUuid;
use xdr::rpc::{Failure, Fault};
use xdr::{Chars, List};

pub(crate) const VOLUME: u32 = 536_870_912;
pub(crate) const READ_ONLY: u32 = VOLUME + 1;
const SERVER: AfsUuid = AfsUuid(*b"the small server");
const VL_NOENT: i32 = 363_524;

/// Behaviour of the cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    /// The server has the procedures of old alone.
    pub(crate) old: bool,
    /// Location procedures that it does not know, newest first: 0, 1 or 2.
    pub(crate) locations_missing: usize,
    /// Number of calls that find the volume busy.
    pub(crate) busy: u32,
    /// A fetch from this offset on finds the file changed.
    pub(crate) changes_at: Option<u64>,
    /// Stores from this offset on are refused: the disk is full.
    pub(crate) full_at: Option<u64>,
    /// Time after a store, and duration, in which nothing comes through.
    pub(crate) away: Option<(Duration, Duration)>,
    /// Hosts that are said to have the volume, before the one that has it.
    pub(crate) dead_hosts: Vec<Ipv4Addr>,
}

pub(crate) struct Small {
    manner: Manner,
    own: Ipv4Addr,
    busy: Cell<u32>,
    nodes: RefCell<BTreeMap<u32, Node>>,
    pub(crate) given_up: Cell<u64>,
    files: rxafs::Tally,
    locations: vl::Tally,
}

#[derive(Clone)]
struct Node {
    content: Content,
    mode: u32,
    version: u64,
}

#[derive(Clone)]
enum Content {
    Bytes(Vec<u8>),
    Link(Vec<u8>),
    Names(Directory),
}

type Refused = Failure<CallError>;

fn refuse<T>(code: i32) -> Result<T, Refused> {
    Err(Failure::Refused(code))
}

fn unknown<T>(opcode: u32) -> Result<T, Refused> {
    Err(Failure::Fault(Fault::UnknownOpcode { opcode }))
}

fn target(vnode: u32) -> Target {
    Target { vnode, uniquifier: 1 }
}

impl Small {
    pub(crate) fn new(own: Ipv4Addr, manner: Manner) -> Self {
        let root =
            Node { content: Content::Names(Directory::new(target(1), target(1))), mode: 0o755, version: 1 };
        Self {
            busy: Cell::new(manner.busy),
            manner,
            own,
            nodes: RefCell::new(BTreeMap::from([(1, root)])),
            given_up: Cell::new(0),
            files: rxafs::Tally::default(),
            locations: vl::Tally::default(),
        }
    }

    pub(crate) fn serve(self: &Rc<Self>, files: &Driver, locations: &Driver) {
        let small = Rc::clone(self);
        files.serve(1, move |mut call: ServerCall| {
            let small = Rc::clone(&small);
            async move { rxafs::serve(&*small, &mut call, &small.files).await }
        });
        let small = Rc::clone(self);
        locations.serve(52, move |mut call: ServerCall| {
            let small = Rc::clone(&small);
            async move { vl::serve(&*small, &mut call, &small.locations).await }
        });
    }

    /// Names of the root.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        let nodes = self.nodes.borrow();
        let Content::Names(directory) = &nodes[&1].content else { unreachable!("the root") };
        directory.entries().map(|(name, _)| name.to_vec()).collect()
    }

    /// Tells the client behind `call` that a file has changed, and asks for its identity; what it answers.
    async fn ask_back(&self, call: &ServerCall, fid: Fid) -> Result<(), Refused> {
        let driver = DRIVER.with(|driver| driver.borrow().clone()).expect("it serves");
        let remote = call.remote().expect("it calls");
        let back = driver.connect(remote, 1, &Anonymous).expect("room for a connection");
        let mut ask = back.call().await?;
        let told = xdr::rpc::call(&mut ask, &rxafscb::TellMeAboutYourself {}).await?;
        let uuid = told.get().interfaces.uuid;
        assert_eq!(told.get().capabilities.0, [1]);
        let mut ask = back.call().await?;
        let known = xdr::rpc::call(&mut ask, &rxafscb::WhoAreYou {}).await?;
        assert_eq!(known.get().interfaces.uuid, uuid);
        let mut ask = back.call().await?;
        xdr::rpc::call(&mut ask, &rxafscb::ProbeUuid { client: uuid }).await?;
        let mut ask = back.call().await?;
        let other = xdr::rpc::call(&mut ask, &rxafscb::ProbeUuid { client: SERVER }).await.map(drop);
        assert_eq!(other, Err(Failure::Stream(CallError::Aborted(1))), "another is not there");
        let mut ask = back.call().await?;
        xdr::rpc::call(&mut ask, &rxafscb::Probe {}).await?;
        let mut ask = back.call().await?;
        xdr::rpc::call(&mut ask, &rxafscb::InitCallBackState {}).await?;
        let mut ask = back.call().await?;
        xdr::rpc::call(&mut ask, &rxafscb::InitCallBackState3 { server: SERVER }).await?;
        let mut ask = back.call().await?;
        let files = List(vec![fid]);
        xdr::rpc::call(&mut ask, &rxafscb::CallBack { files, call_backs: List::default() }).await?;
        Ok(())
    }

    fn ready(&self) -> Result<(), Refused> {
        match self.busy.get() {
            0 => Ok(()),
            left => {
                self.busy.set(left - 1);
                refuse(code::VBUSY)
            }
        }
    }

    fn node(&self, fid: Fid) -> Result<Node, Refused> {
        if fid.volume != VOLUME && fid.volume != READ_ONLY {
            return refuse(code::VNOVOL);
        }
        let found = self.nodes.borrow().get(&fid.vnode).filter(|_| fid.uniquifier == 1).cloned();
        found.ok_or(Failure::Refused(code::VNOVNODE))
    }

    fn status(&self, fid: Fid) -> Result<Status, Refused> {
        Ok(self.node(fid)?.status())
    }

    /// Makes a file of this content and gives it a name.
    fn add(&self, directory: Fid, name: &[u8], content: Content, mode: u32) -> Result<Fid, Refused> {
        if directory.volume == READ_ONLY {
            return refuse(code::EROFS);
        }
        let mut nodes = self.nodes.borrow_mut();
        let odd = u32::from(matches!(content, Content::Names(_)));
        let last = nodes.keys().last().copied().unwrap_or(1);
        let vnode = (last + 2) / 2 * 2 + odd;
        let above = nodes.get_mut(&directory.vnode).ok_or(Failure::Refused(code::VNOVNODE))?;
        above.version += 1;
        let Content::Names(names) = &mut above.content else { return refuse(code::ENOTDIR) };
        if names.add(name, target(vnode)).is_err() {
            return refuse(code::EEXIST);
        }
        nodes.insert(vnode, Node { content, mode, version: 1 });
        Ok(Fid { vnode, uniquifier: 1, ..directory })
    }

    fn with_names<T>(&self, fid: Fid, act: impl FnOnce(&mut Directory) -> T) -> Result<T, Refused> {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.get_mut(&fid.vnode).ok_or(Failure::Refused(code::VNOVNODE))?;
        node.version += 1;
        match &mut node.content {
            Content::Names(names) => Ok(act(names)),
            _ => refuse(code::ENOTDIR),
        }
    }

    fn bytes(&self, fid: Fid, offset: u64, length: u64) -> Result<(Vec<u8>, Status), Refused> {
        let mut node = self.node(fid)?;
        if self.manner.changes_at.is_some_and(|at| offset >= at) {
            node.version += 1;
        }
        let bytes = node.bytes();
        let from = (offset as usize).min(bytes.len());
        let to = (offset + length).min(bytes.len() as u64) as usize;
        Ok((bytes[from..to].to_vec(), node.status()))
    }

    async fn take(
        &self,
        call: &mut ServerCall,
        fid: Fid,
        (offset, length, file_length): (u64, u64, u64),
    ) -> Result<Status, Refused> {
        self.ready()?;
        if self.manner.full_at.is_some_and(|at| offset >= at) {
            return refuse(code::VDISKFULL);
        }
        let mut came = vec![0; length as usize];
        call.read_exact(&mut came).await?;
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.get_mut(&fid.vnode).ok_or(Failure::Refused(code::VNOVNODE))?;
        let Content::Bytes(bytes) = &mut node.content else { return refuse(code::EISDIR) };
        let end = (offset + length) as usize;
        bytes.resize(bytes.len().max(end).max(file_length as usize), 0);
        bytes[offset as usize..end].copy_from_slice(&came);
        bytes.truncate(file_length as usize);
        node.version += 1;
        Ok(node.status())
    }

    fn entry<const N: usize>(&self, name: &[u8]) -> Result<(Chars<65>, i32, [i32; N]), Refused> {
        let known = [&b"vol"[..], b"vol.readonly", b"536870912"];
        if !known.contains(&name) {
            return refuse(VL_NOENT);
        }
        let flags = (VL_READ_WRITE_EXISTS | VL_READ_ONLY_EXISTS).cast_signed();
        let both = (VL_SITE_READ_WRITE | VL_SITE_READ_ONLY).cast_signed();
        Ok((Chars::from_text(b"vol").expect("short"), flags, [both; N]))
    }

    fn hosts(&self) -> Vec<u32> {
        self.manner.dead_hosts.iter().chain([&self.own]).map(|host| host.to_bits()).collect()
    }
}

thread_local! {
    /// Driver by which the server calls its clients back.
    pub(crate) static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

impl Node {
    fn bytes(&self) -> Vec<u8> {
        match &self.content {
            Content::Bytes(bytes) | Content::Link(bytes) => bytes.clone(),
            Content::Names(names) => {
                let mut pages = vec![0; names.size()];
                names.read_at(0, &mut pages);
                pages
            }
        }
    }

    fn status(&self) -> Status {
        let file_type = match self.content {
            Content::Bytes(_) => 1,
            Content::Names(_) => 2,
            Content::Link(_) => 3,
        };
        Status {
            interface_version: 1,
            file_type,
            link_count: 1,
            length_low: self.bytes().len() as u32,
            data_version_low: self.version as u32,
            unix_mode_bits: self.mode,
            ..Status::default()
        }
    }
}

impl rxafs::Server<ServerCall> for Small {
    async fn fetch_status(
        &self,
        call: &ServerCall,
        request: rxafs::FetchStatus,
    ) -> Result<rxafs::FetchStatusReply, Refused> {
        self.ready()?;
        let status = self.status(request.fid)?;
        if request.fid.vnode == 1 {
            self.ask_back(call, request.fid).await?;
        }
        Ok(rxafs::FetchStatusReply { status, ..Default::default() })
    }

    async fn inline_bulk_status(
        &self,
        _: &ServerCall,
        request: rxafs::InlineBulkStatus,
    ) -> Result<rxafs::InlineBulkStatusReply, Refused> {
        if self.manner.old {
            return unknown(65_536);
        }
        let status = |fid: &Fid| {
            self.status(*fid)
                .unwrap_or_else(|_| Status { error_code: code::VNOVNODE as u32, ..Status::default() })
        };
        let statuses = List(request.fids.0.iter().map(status).collect());
        Ok(rxafs::InlineBulkStatusReply { statuses, ..Default::default() })
    }

    async fn fetch_data(
        &self,
        call: &mut ServerCall,
        request: rxafs::FetchData,
    ) -> Result<rxafs::FetchDataReply, Refused> {
        let (bytes, status) = self.bytes(request.fid, request.offset as u64, request.length as u64)?;
        call.write(&(bytes.len() as u32).to_be_bytes()).await?;
        call.write(&bytes).await?;
        Ok(rxafs::FetchDataReply { status, ..Default::default() })
    }

    async fn fetch_data64(
        &self,
        call: &mut ServerCall,
        request: rxafs::FetchData64,
    ) -> Result<rxafs::FetchData64Reply, Refused> {
        if self.manner.old {
            return unknown(65_537);
        }
        self.ready()?;
        let (bytes, status) = self.bytes(request.fid, request.offset as u64, request.length as u64)?;
        call.write(&(bytes.len() as u64).to_be_bytes()).await?;
        call.write(&bytes).await?;
        Ok(rxafs::FetchData64Reply { status, ..Default::default() })
    }

    async fn store_data(
        &self,
        call: &mut ServerCall,
        request: rxafs::StoreData,
    ) -> Result<rxafs::StoreDataReply, Refused> {
        let range = (request.offset.into(), request.length.into(), request.file_length.into());
        let status = self.take(call, request.fid, range).await?;
        Ok(rxafs::StoreDataReply { status, sync: VolumeSync::default() })
    }

    async fn store_data64(
        &self,
        call: &mut ServerCall,
        request: rxafs::StoreData64,
    ) -> Result<rxafs::StoreData64Reply, Refused> {
        if self.manner.old {
            return unknown(65_538);
        }
        let range = (request.offset, request.length, request.file_length);
        let status = self.take(call, request.fid, range).await?;
        Ok(rxafs::StoreData64Reply { status, sync: VolumeSync::default() })
    }

    async fn create_file(
        &self,
        _: &ServerCall,
        request: rxafs::CreateFile<'_>,
    ) -> Result<rxafs::CreateFileReply, Refused> {
        let content = Content::Bytes(Vec::new());
        let fid = self.add(request.directory, &request.name, content, request.change.unix_mode_bits)?;
        Ok(rxafs::CreateFileReply { fid, status: self.status(fid)?, ..Default::default() })
    }

    async fn symlink(
        &self,
        _: &ServerCall,
        request: rxafs::Symlink<'_>,
    ) -> Result<rxafs::SymlinkReply, Refused> {
        let content = Content::Link(request.target.to_vec());
        let fid = self.add(request.directory, &request.name, content, request.change.unix_mode_bits)?;
        Ok(rxafs::SymlinkReply { fid, status: self.status(fid)?, ..Default::default() })
    }

    async fn make_dir(
        &self,
        _: &ServerCall,
        request: rxafs::MakeDir<'_>,
    ) -> Result<rxafs::MakeDirReply, Refused> {
        let content = Content::Names(Directory::new(target(0), target(request.directory.vnode)));
        let fid = self.add(request.directory, &request.name, content, request.change.unix_mode_bits)?;
        Ok(rxafs::MakeDirReply { fid, status: self.status(fid)?, ..Default::default() })
    }

    async fn remove_file(
        &self,
        _: &ServerCall,
        request: rxafs::RemoveFile<'_>,
    ) -> Result<rxafs::RemoveFileReply, Refused> {
        let gone = self.with_names(request.directory, |names| names.remove(&request.name))?;
        match gone {
            Some(gone) => drop(self.nodes.borrow_mut().remove(&gone.vnode)),
            None => return refuse(code::ENOENT),
        }
        Ok(rxafs::RemoveFileReply { status: self.status(request.directory)?, ..Default::default() })
    }

    async fn rename(
        &self,
        _: &ServerCall,
        request: rxafs::Rename<'_>,
    ) -> Result<rxafs::RenameReply, Refused> {
        let Some(moved) = self.with_names(request.from, |names| names.remove(&request.old_name))? else {
            return refuse(code::ENOENT);
        };
        self.with_names(request.to, |names| {
            names.remove(&request.new_name);
            names.add(&request.new_name, moved)
        })?
        .expect("there is room");
        Ok(rxafs::RenameReply::default())
    }

    async fn give_up_all_call_backs(
        &self,
        _: &ServerCall,
        _: rxafs::GiveUpAllCallBacks,
    ) -> Result<rxafs::GiveUpAllCallBacksReply, Refused> {
        self.given_up.set(self.given_up.get() + 1);
        Ok(rxafs::GiveUpAllCallBacksReply {})
    }
}

impl vl::Server<ServerCall> for Small {
    async fn get_entry_by_name_u(
        &self,
        _: &ServerCall,
        request: vl::GetEntryByNameU<'_>,
    ) -> Result<vl::GetEntryByNameUReply, Refused> {
        if self.manner.locations_missing > 0 {
            return unknown(527);
        }
        let (name, flags, both) = self.entry(&request.name)?;
        let mut entry = LocationEntryByUuid { name, flags, site_count: 1, ..Default::default() };
        entry.server[0] = SERVER;
        entry.site_flags = both;
        entry.site_flags[0] |= VL_SITE_UUID.cast_signed();
        entry.volume = [VOLUME, READ_ONLY, 0];
        Ok(vl::GetEntryByNameUReply { entry })
    }

    async fn get_entry_by_name_n(
        &self,
        _: &ServerCall,
        request: vl::GetEntryByNameN<'_>,
    ) -> Result<vl::GetEntryByNameNReply, Refused> {
        if self.manner.locations_missing > 1 {
            return unknown(519);
        }
        let (name, flags, site_flags) = self.entry(&request.name)?;
        let hosts = self.hosts();
        let mut entry =
            LocationEntry { name, flags, site_flags, site_count: hosts.len() as i32, ..Default::default() };
        entry.server[..hosts.len()].copy_from_slice(&hosts);
        entry.volume = [VOLUME, READ_ONLY, 0];
        Ok(vl::GetEntryByNameNReply { entry })
    }

    async fn get_entry_by_name(
        &self,
        _: &ServerCall,
        request: vl::GetEntryByName<'_>,
    ) -> Result<vl::GetEntryByNameReply, Refused> {
        let (name, flags, site_flags) = self.entry(&request.name)?;
        let hosts = self.hosts();
        let mut entry = LocationEntryOld {
            name,
            flags,
            site_flags,
            site_count: hosts.len() as i32,
            ..Default::default()
        };
        entry.server[..hosts.len()].copy_from_slice(&hosts);
        entry.volume = [VOLUME, READ_ONLY, 0];
        Ok(vl::GetEntryByNameReply { entry })
    }

    async fn get_addrs_u(
        &self,
        _: &ServerCall,
        request: vl::GetAddrsU,
    ) -> Result<vl::GetAddrsUReply, Refused> {
        assert_eq!((request.choice.mask, request.choice.uuid), (VL_BY_UUID.cast_signed(), SERVER));
        let addresses = List(self.hosts());
        Ok(vl::GetAddrsUReply { uuid: SERVER, unique: 1, count: addresses.0.len() as i32, addresses })
    }
}
