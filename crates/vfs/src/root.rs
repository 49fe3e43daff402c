//! The directory of a volume and the opening of what lies beneath it.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::CString;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use identity::{Owner, VolumePolicy, Writable};
use lane::fs::{Dir, File, OpenHow, OpenKind};

use crate::attributes::{ChangeToken, FileId};
use crate::error::Error;
use crate::links::{Budget, VolumePaths};
use crate::name::RelPath;
use crate::object::{Identity, Object, Objects, SharedVolume};
use crate::rights_storage::RightsStorage;
use crate::searches::Searches;
use crate::spec::VolumeSpec;
use crate::usage::{Allowance, LaneAccount};

/// An open volume directory. It stays the same directory if its own name later names another.
#[derive(Debug)]
pub(crate) struct Root {
    dir: Rc<Dir>,
    /// Directories that absolute links may lead to; `None` where no links are followed.
    places: Option<VolumePaths>,
    /// Set if files can be opened by handle, as far as is known.
    by_handle: Cell<bool>,
    /// Set if files can be made without a name and be given one later; `None` as long as it was not tried.
    unnamed: Cell<Option<bool>>,
    searches: NameSearches,
    /// Set if other programs see what clients lock.
    locks_locally: bool,
    /// State of a volume with objects that lanes share.
    shared: Option<SharedRoot>,
}

/// Searches for a file in a directory; the change token shows whether that has changed.
pub(crate) type NameSearches = Searches<(FileId, Identity), ChangeToken>;

#[derive(Debug)]
struct SharedRoot {
    volume: Arc<SharedVolume>,
    /// Policy of rights in the volume.
    policy: VolumePolicy,
    /// The policy once what lies there cannot be relied on: then it is the administrators'.
    sealed: VolumePolicy,
    /// Object of the directory, once a client relied on it.
    object: OnceCell<Arc<Object>>,
    /// Usage of the volume, by the account that was kept when this lane last looked: of which epoch.
    account: RefCell<(u32, Option<Rc<LaneAccount>>)>,
    /// A task of the lane has it counted.
    is_kept: Cell<bool>,
    /// Allowance of the lane to write of what is free to common users.
    allowance: Allowance,
}

impl Root {
    /// Opens the directory `spec` names, of which lanes share nothing.
    pub(crate) fn open(spec: &VolumeSpec) -> io::Result<Self> {
        let dir = Rc::new(Dir::open_root(&spec.path)?);
        let places = spec.options.follow_symlinks.then(|| VolumePaths::of(&spec.path));
        let (by_handle, unnamed, searches) = (Cell::new(true), Cell::new(None), NameSearches::default());
        Ok(Self { dir, places, by_handle, unnamed, searches, locks_locally: spec.local_locks, shared: None })
    }

    /// Opens the directory `spec` names, whose files lanes share.
    pub(crate) fn open_shared(spec: &VolumeSpec, objects: &Objects) -> Result<Self, Error> {
        let root = Self::open(spec)?;
        let stat = root.dir.stat()?;
        let owner = Owner { uid: Some(stat.uid), recorded: None };
        let privileged = objects.options().privileged;
        let volume = objects.volume(spec, &root.dir, &stat)?;
        let policy = VolumePolicy { privileged, writable: spec.writable.clone(), owner };
        let sealed = VolumePolicy { owner: Owner::default(), ..policy.clone() };
        let (object, account) = (OnceCell::new(), RefCell::default());
        let (is_kept, allowance) = (Cell::new(false), Allowance::default());
        let shared = SharedRoot { volume, policy, sealed, object, account, is_kept, allowance };
        Ok(Self { shared: Some(shared), ..root })
    }

    /// Returns the open directory.
    pub(crate) fn dir(&self) -> &Rc<Dir> {
        &self.dir
    }

    /// Returns whether files can be opened by handle, as far as is known.
    pub(crate) fn opens_by_handle(&self) -> bool {
        self.by_handle.get()
    }

    /// Returns whether files can be made without a name and be given one later, as far as is known.
    pub(crate) fn makes_unnamed(&self) -> Option<bool> {
        self.unnamed.get()
    }

    /// Notes the result of the trial.
    pub(crate) fn set_makes_unnamed(&self, they_can: bool) {
        self.unnamed.set(Some(they_can));
    }

    /// Returns the lane's searches for names in its directories.
    pub(crate) fn searches(&self) -> &NameSearches {
        &self.searches
    }

    /// Notes that handles cannot be opened: the process may not, or the file system has none.
    pub(crate) fn opens_no_handles(&self) {
        self.by_handle.set(false);
    }

    /// Returns what lanes share of it; `None` for a volume without objects.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedVolume>> {
        self.shared.as_ref().map(|shared| &shared.volume)
    }

    /// Returns the account of the volume's usage, for the lane of this number.
    pub(crate) fn account(&self, lane: impl FnOnce() -> Option<usize>) -> Option<Rc<LaneAccount>> {
        let shared = self.shared.as_ref()?;
        let epoch = shared.volume.ledger().epoch();
        if epoch == 0 {
            return None;
        }
        let mut known = shared.account.borrow_mut();
        if known.0 != epoch {
            let account = shared.volume.ledger().account();
            *known = (epoch, account.zip(lane()).map(|(account, lane)| LaneAccount::new(account, lane)));
        }
        known.1.clone()
    }

    /// Returns what the lane may write of what is free to common users, and how many lanes there are; `None`
    /// where the file system keeps what it keeps from the server too.
    pub(crate) fn allowance(&self) -> Option<(&Allowance, usize)> {
        let shared = self.shared.as_ref()?;
        let options = shared.volume.objects().options();
        options.has_reserve.then_some((&shared.allowance, options.lanes_max))
    }

    /// Returns whether no task of the lane has it counted yet.
    pub(crate) fn begin_keeping(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_kept.replace(true))
    }

    /// Notes that no task of the lane has it counted any more.
    pub(crate) fn end_keeping(&self) {
        self.shared.iter().for_each(|shared| shared.is_kept.set(false));
    }

    /// Returns the policy of rights; `None` where every user may read what the server can, and that is all.
    pub(crate) fn policy(&self) -> Option<&VolumePolicy> {
        self.shared
            .as_ref()
            .map(|shared| if shared.volume.is_sealed() { &shared.sealed } else { &shared.policy })
    }

    /// Returns where lists and descriptors lie.
    pub(crate) fn rights_storage(&self) -> RightsStorage {
        self.shared.as_ref().map_or(RightsStorage::new(None, false), |shared| shared.volume.rights_storage())
    }

    /// Returns the part beneath the volume of an absolute path that lies there.
    pub(crate) fn beneath<'t>(&self, target: &'t [u8]) -> Option<&'t [u8]> {
        self.places.as_ref()?.beneath(target)
    }

    /// Reads the own access list of a directory as it is stored, if it has one: `object` at this path. One that is too
    /// long is taken for damaged, and so is one that was there and is lost. Its descriptor is read too.
    ///
    /// # Errors
    /// Those of the file system and of the index: there may be one.
    pub(crate) async fn access_list(
        &self,
        dir: &Dir,
        object: &Object,
        path: RelPath<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let rights_storage = self.rights_storage();
        let list = rights_storage.list_of(dir.as_file()).await?;
        object.read_own(dir.as_file()).await?;
        let Some(shared) = self.shared().filter(|_| !rights_storage.is_sealed()) else { return Ok(list) };
        if list.is_some() || object.own().is_some() {
            shared.remember_list(&self.dir, object, path, Some(dir));
            return Ok(list);
        }
        let is_lost = shared.has_lost_list(&self.dir, dir, object, path).await?;
        Ok(is_lost.then(Vec::new))
    }

    /// Returns where the symbolic link `path` points.
    pub(crate) async fn read_link(&self, path: &CString) -> io::Result<Vec<u8>> {
        self.dir.read_link_at(path).await
    }

    /// Keeps the directory's own object from here on: each way down begins there.
    pub(crate) fn keep_object(&self, object: &Arc<Object>) {
        if let Some(shared) = &self.shared {
            // It is the same each time: the directory stays open.
            let _ = shared.object.set(Arc::clone(object));
        }
    }

    /// Returns whether clients may change what lies beneath.
    pub(crate) fn is_writable(&self) -> bool {
        self.policy().is_some_and(|policy| policy.writable != Writable::Nobody)
    }

    /// Returns whether other programs on this machine see what clients lock.
    pub(crate) fn locks_locally(&self) -> bool {
        self.locks_locally
    }

    /// Opens `path`, to lock ranges of it.
    pub(crate) async fn open_to_lock(&self, path: RelPath<'_>, write: bool) -> io::Result<File> {
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write };
        self.dir.open(&c_path(path), how).await
    }

    /// Opens `path`, a file or directory, for reading.
    pub(crate) async fn open_beneath(&self, path: RelPath<'_>) -> Result<File, Error> {
        self.open_through_links(c_path(path), OpenKind::Any).await
    }

    /// Opens `path`, a file or directory, for reading, if no symbolic link is on the way.
    pub(crate) async fn open_real(&self, path: RelPath<'_>) -> Result<File, Error> {
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        self.attempt(&c_path(path), how).await
    }

    /// Opens what `path` names right now and is a directory, to list it.
    pub(crate) async fn open_directory(&self, path: RelPath<'_>) -> Result<Dir, Error> {
        Ok(self.open_through_links(c_path(path), OpenKind::Directory).await?.into_dir()?)
    }

    /// Opens a directory ([`Root::open_directory`]), but never through a symbolic link: what a watch may
    /// vouch for.
    pub(crate) async fn open_real_directory(&self, path: RelPath<'_>) -> Result<Dir, Error> {
        let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
        Ok(self.attempt(&c_path(path), how).await?.into_dir()?)
    }

    /// Opens what a name leads to, over links that stay inside, absolute ones too.
    async fn open_through_links(&self, mut path: CString, kind: OpenKind) -> Result<File, Error> {
        let how = OpenHow { kind, symlinks: self.places.is_some(), write: false };
        let mut budget = Budget::default();
        loop {
            match (self.attempt(&path, how).await, &self.places) {
                (Err(Error::Escapes), Some(places)) => {
                    path = places.redirected(&self.dir, &path, &mut budget).await?;
                }
                (opened, _) => return opened,
            }
        }
    }

    /// Opens a path once. Both `EAGAIN` and `ESTALE` are worth another try: a rename that crosses the look-up makes
    /// the kernel give up, or a file system fell behind its server.
    async fn attempt(&self, path: &CString, how: OpenHow) -> Result<File, Error> {
        let mut tries = 0;
        loop {
            let error = match self.dir.open(path, how).await {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            tries += 1;
            if tries == OPEN_TRIES_MAX || !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ESTALE)) {
                return Err(error.into());
            }
        }
    }
}

/// Converts a path beneath the volume for the kernel.
pub(crate) fn c_path(path: RelPath<'_>) -> CString {
    let bytes = if path.is_root() { b"." } else { path.as_bytes() };
    CString::new(bytes).expect("a RelPath holds no zero byte")
}

const OPEN_TRIES_MAX: u32 = 4;
