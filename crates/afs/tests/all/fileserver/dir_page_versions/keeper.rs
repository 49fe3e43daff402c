//! A client that keeps directories as stock ones do, and edits its copies; and what was ever told to any of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use afs_wire::code::{EAGAIN, VBUSY};
use afs_wire::directory::{Directory, Target};
use afs_wire::{Fid, Status, StoreStatus, rxafs};
use rx_lane::CallError;
use xdr::List;
use xdr::rpc::{Call, Failure, Received};

use super::super::bed::Client;
use super::super::lives::Site;

fn target(fid: Fid) -> Target {
    Target { vnode: fid.vnode, uniquifier: fid.uniquifier }
}

/// Record of what was told of directories, for ever.
#[derive(Default)]
pub(super) struct Told {
    lengths: RefCell<HashMap<(Fid, u64), u32>>,
    pages: RefCell<HashMap<(Fid, u64), Directory>>,
}

impl Told {
    pub(super) fn status(&self, fid: Fid, status: &Status) {
        let known =
            *self.lengths.borrow_mut().entry((fid, status.data_version())).or_insert(status.length_low);
        assert_eq!(
            known,
            status.length_low,
            "two lengths of one version: {fid:?}, {:x}",
            status.data_version()
        );
    }

    /// Notes that a client has these pages for this version of it.
    pub(super) fn pages(&self, fid: Fid, version: u64, directory: &Directory) {
        let mut pages = self.pages.borrow_mut();
        let known = pages.entry((fid, version)).or_insert_with(|| directory.clone());
        assert!(known == directory, "two images of one version: {fid:?}, {version:x}");
    }
}

/// A client that keeps directories as stock ones do.
pub(super) struct Keeper {
    connections: RefCell<Vec<Client>>,
    pub(super) copies: RefCell<HashMap<Fid, Kept>>,
    pub(super) told: Rc<Told>,
    /// Copies that it edited, and that it gave up as a reply told of another version than the next.
    pub(super) edited: Cell<u32>,
    pub(super) given_up: Cell<u32>,
}

pub(super) struct Kept {
    version: u64,
    pub(super) directory: Directory,
}

impl Keeper {
    pub(super) fn new(site: &Site, port: u16, told: &Rc<Told>) -> Rc<Self> {
        Rc::new(Self {
            connections: site.client(port).into(),
            copies: RefCell::default(),
            told: Rc::clone(told),
            edited: Cell::default(),
            given_up: Cell::default(),
        })
    }

    /// By new connections, after the server began anew.
    pub(super) fn connect(&self) {
        let mut connections = self.connections.borrow_mut();
        *connections = connections.iter().map(Client::again).collect();
    }

    /// Notes the end of the directory.
    pub(super) fn end(&self) {
        self.connections.borrow_mut().clear();
    }

    pub(super) fn by(&self, which: usize) -> Client {
        let connections = self.connections.borrow();
        connections[which % connections.len()].clone()
    }

    /// Makes a call, and waits while the server is busy, as clients do.
    pub(super) async fn call<P: Call>(&self, which: usize, request: &P) -> Received<P> {
        for _ in 0..200 {
            match self.by(which).call(request).await {
                Err(Failure::Stream(CallError::Aborted(VBUSY | EAGAIN))) => {
                    lane::time::sleep(Duration::from_millis(20)).await;
                }
                outcome => return outcome.unwrap(),
            }
        }
        panic!("it stays busy")
    }

    pub(super) async fn status(&self, which: usize, fid: Fid) -> Status {
        let status = self.call(which, &rxafs::FetchStatus { fid }).await.get().status;
        self.told.status(fid, &status);
        status
    }

    pub(super) async fn statuses(&self, which: usize, fids: &[Fid]) {
        let request = rxafs::InlineBulkStatus { fids: List(fids.to_vec()) };
        let told = self.call(which, &request).await;
        for (fid, status) in fids.iter().zip(&told.get().statuses.0) {
            if status.error_code == 0 {
                self.told.status(*fid, status);
            }
        }
    }

    pub(super) async fn fetch(&self, which: usize, fid: Fid) -> u64 {
        let (bytes, reply) = loop {
            match self.by(which).fetch(fid, 0, 1 << 30).await {
                Err(Failure::Stream(CallError::Aborted(VBUSY | EAGAIN))) => {
                    lane::time::sleep(Duration::from_millis(20)).await;
                }
                outcome => break outcome.unwrap(),
            }
        };
        let (version, directory) = (reply.status.data_version(), Directory::parse(&bytes).unwrap());
        self.told.status(fid, &reply.status);
        assert_eq!(reply.status.length_low as usize, bytes.len());
        self.told.pages(fid, version, &directory);
        self.copies.borrow_mut().insert(fid, Kept { version, directory });
        version
    }

    /// The reply of a change of its own tells that of the directory: it makes the change in its copy where nothing else can have changed.
    pub(super) fn changed(&self, fid: Fid, status: &Status, edit: impl FnOnce(&mut Directory)) {
        self.told.status(fid, status);
        let mut copies = self.copies.borrow_mut();
        let Some(copy) = copies.get_mut(&fid) else { return };
        if status.data_version() != copy.version + 1 {
            copies.remove(&fid);
            return self.given_up.set(self.given_up.get() + 1);
        }
        edit(&mut copy.directory);
        copy.version += 1;
        self.edited.set(self.edited.get() + 1);
        assert_eq!(copy.directory.size(), status.length_low as usize, "{fid:?}, {:x}", copy.version);
        self.told.pages(fid, copy.version, &copy.directory);
    }

    pub(super) async fn create(&self, which: usize, directory: Fid, name: &str) {
        let request = rxafs::CreateFile { directory, name: name.into(), change: StoreStatus::default() };
        let made = self.call(which, &request).await.get();
        let add = |copy: &mut Directory| copy.add(name.as_bytes(), target(made.fid)).unwrap();
        self.changed(directory, &made.directory_status, add);
    }

    pub(super) async fn symlink(&self, which: usize, directory: Fid, name: &str) {
        let change = StoreStatus::default();
        let request = rxafs::Symlink { directory, name: name.into(), target: "there".into(), change };
        let made = self.call(which, &request).await.get();
        let add = |copy: &mut Directory| copy.add(name.as_bytes(), target(made.fid)).unwrap();
        self.changed(directory, &made.directory_status, add);
    }

    pub(super) async fn make_dir(&self, which: usize, directory: Fid, name: &str) -> Fid {
        let request = rxafs::MakeDir { directory, name: name.into(), change: StoreStatus::default() };
        let made = self.call(which, &request).await.get();
        self.told.status(made.fid, &made.status);
        let add = |copy: &mut Directory| copy.add(name.as_bytes(), target(made.fid)).unwrap();
        self.changed(directory, &made.directory_status, add);
        made.fid
    }

    pub(super) async fn remove(&self, which: usize, directory: Fid, name: &str) {
        let request = rxafs::RemoveFile { directory, name: name.into() };
        let status = self.call(which, &request).await.get().status;
        self.changed(directory, &status, |copy| {
            copy.remove(name.as_bytes()).unwrap();
        });
    }

    pub(super) async fn rename(&self, which: usize, (from, old): (Fid, &str), (to, new): (Fid, &str)) {
        let request = rxafs::Rename { from, old_name: old.into(), to, new_name: new.into() };
        let moved = self.call(which, &request).await.get();
        if from == to {
            return self.changed(to, &moved.to_status, |copy| {
                let target = copy.remove(old.as_bytes()).unwrap();
                copy.add(new.as_bytes(), target).unwrap();
            });
        }
        let mut target = None;
        self.changed(from, &moved.from_status, |copy| target = copy.remove(old.as_bytes()));
        // What it does not know the number of it cannot add.
        match target {
            Some(target) => {
                self.changed(to, &moved.to_status, |copy| copy.add(new.as_bytes(), target).unwrap());
            }
            None => {
                self.told.status(to, &moved.to_status);
                self.copies.borrow_mut().remove(&to);
            }
        }
    }

    /// Returns what it lists: its copy if that is of the version that there is, else what it fetches.
    pub(super) async fn names(&self, which: usize, fid: Fid) -> BTreeSet<String> {
        let now = self.status(which, fid).await.data_version();
        if self.copies.borrow().get(&fid).is_none_or(|copy| copy.version != now) {
            self.fetch(which, fid).await;
        }
        let copies = self.copies.borrow();
        let entries = copies[&fid].directory.entries();
        entries.map(|(name, _)| String::from_utf8(name.to_vec()).unwrap()).collect()
    }
}
