//! A directory of a volume: its attributes, its names, its listing.

use std::cell::Cell;
use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;

use budget::Consumer;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{Dir, DirEntry, File, FileKind, OpenHow, OpenKind, Stat, StatxExtra};

use crate::attributes::{Attributes, ChangeToken, FileId};
use crate::cache::Validity;
use crate::caller::{Caller, SERVER};
use crate::change::c_name;
use crate::error::Error;
use crate::file::OpenFile;
use crate::guarded::{LinkBudget, Steps};
use crate::listing::{CachedListing, Entry, Listing, Readers};
use crate::listing_budget::ListingCharge;
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::{At, By, Object, Place as ObjectPlace, SharedVolume, Watch, WatchOptions};
use crate::object_attributes::attributes_of;
use crate::root::c_path;
use crate::sort::order_in_turns;
use crate::volume::{Resolved, Volume};
use crate::which_name::WhichName;

/// A directory of a volume. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Directory {
    volume: Volume,
    node: Rc<OpenDirectory>,
}

/// A directory kept open.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    /// Descriptor for attributes and changes; listings open the name anew.
    dir: Dir,
    id: FileId,
    path: RelPathBuf,
    object: Option<Arc<Object>>,
    readers: Readers,
    /// Number of entries that the directory is known to exceed, with its change token then: it is not read up to there
    /// again.
    exceeds: Cell<Option<(usize, ChangeToken)>>,
}

impl Directory {
    pub(crate) fn new(volume: Volume, node: Rc<OpenDirectory>) -> Self {
        Self { volume, node }
    }

    /// Returns the directory's identity.
    pub fn id(&self) -> FileId {
        self.node.id
    }

    /// Returns the volume that the directory lies in.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns the path by which the directory was found.
    pub fn path(&self) -> RelPath<'_> {
        self.node.path.as_path()
    }

    /// Returns the object that lanes share; `None` on a volume without objects.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.node.object.as_ref()
    }

    /// Reads the attributes as they are now, by one system call.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        self.node.attributes()
    }

    /// Reads the attributes that the file system alone has.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn statx_extra<'a>(&'a self) -> LocalBoxFuture<'a, Result<StatxExtra, Error>> {
        Box::pin(async move { Ok(self.dir().as_file().statx_extra().await?) })
    }

    /// Watches what happens in the directory, whichever lane and service does it. Returns `None` on a volume without
    /// objects, and where the client, its network or its user has its share of the 65,536 watches. Changes of other
    /// programs are reported a tenth of a second later, where the file system reports them to the kernel's watches.
    pub fn watch(&self, how: WatchOptions, consumer: Consumer) -> Option<Watch> {
        let object = self.object()?;
        let watch = object.volume().watch(object, how, consumer)?;
        self.volume.cache().keep_watched(&self.volume, &watch);
        Some(watch)
    }

    /// Makes the directory's names safe on the disk.
    ///
    /// # Errors
    /// Names made, moved or taken away since the last success may be as they were then.
    pub async fn sync(&self) -> Result<(), Error> {
        self.volume.counted(self.dir().sync().await.map_err(Error::of_write))
    }

    /// Looks `name` up in this directory; on a writable volume wherever the directory has moved to.
    ///
    /// # Errors
    /// As [`Volume::lookup`], [`Error::NotFound`] for a directory that has left the volume too; [`Error::Stale`] for
    /// one that was removed.
    pub async fn lookup(&self, name: Name<'_>) -> Result<Resolved, Error> {
        match self.volume.anonymous() {
            Some(anonymous) => self.lookup_as(anonymous, name, Rights::READ).await,
            None => self.lookup_plain(name).await,
        }
    }

    /// Looks `name` up as [`Directory::lookup`] does, for a caller with the rights `need` over what it finds.
    ///
    /// # Errors
    /// As [`Volume::lookup_as`]; [`Error::Stale`].
    pub async fn lookup_as(&self, caller: &Caller, name: Name<'_>, need: Rights) -> Result<Resolved, Error> {
        let Some(object) = self.object() else { return self.lookup_plain(name).await };
        for _ in 0..LOOKUP_TRIES_MAX {
            let here = self.volume.counted(self.volume.path_of(object).ok_or(Error::Stale))?;
            let Some(validity) = self.validity_at(here.as_path(), object).await? else { continue };
            let path = self.volume.counted(here.as_path().join(name).map_err(Error::from))?;
            let resolved = match self.volume.try_guarded(caller, path.as_path(), need) {
                Some(known) => self.volume.counted(known),
                None => {
                    let found = self.volume.lookup_as(caller, path.as_path(), need).await;
                    if matches!(found, Err(Error::NotFound | Error::NotADirectory)) {
                        // The path may not lead here any more, and the kernel not have told of that yet.
                        self.confirm_place().await?;
                        if self.volume.path_of(object).as_ref() != Some(&here) {
                            continue;
                        }
                    }
                    found
                }
            };
            if validity.is_current() {
                return resolved;
            }
        }
        let here = self.volume.path_of(object).unwrap_or_default();
        self.volume.counted(Err(self.volume.unsettled(here.as_path(), "looking into a directory that moves")))
    }

    /// Looks whether the directory is where it was seen last, and finds it where another program has moved it. The
    /// kernel may not have reported that yet. What is looked up in it from here on is looked up there.
    ///
    /// # Errors
    /// [`Error::Stale`] for a directory that was removed, [`Error::NotFound`] for one that has left the volume; those
    /// of the file system.
    pub fn confirm_place(&self) -> LocalBoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Some(object) = self.object() else { return Ok(()) };
            let here = self.volume.counted(self.volume.path_of(object).ok_or(Error::Stale))?;
            let found = match here.as_path().is_root() {
                true => return Ok(()),
                false => self.volume.root().dir().stat_at(&c_path(here.as_path())).await,
            };
            if !found.is_ok_and(|found| Attributes::from(found).id == self.id()) {
                self.find_moved().await?;
            }
            Ok(())
        })
    }

    /// Finds the directory where another program has moved it.
    ///
    /// # Errors
    /// [`Error::Stale`] for one that was removed, [`Error::NotFound`] for one that has left the volume; those of the
    /// file system.
    pub(crate) async fn find_moved(&self) -> Result<RelPathBuf, Error> {
        let object = self.object().ok_or(Error::ReadOnly)?;
        if self.attributes()?.nlink == 0 {
            return self.volume.counted(Err(Error::Stale));
        }
        match self.volume.find_moved(object, Some(self.dir().as_file()), WhichName::Any).await {
            // It has a name, which lies elsewhere.
            Err(Error::Stale) => Err(Error::NotFound),
            found => found,
        }
    }

    /// Returns the identity of the file that has a name in this directory now, whatever is cached; `None` where
    /// nothing has it. Links are not followed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn id_of_name<'a>(&'a self, name: Name<'a>) -> LocalBoxFuture<'a, Result<Option<FileId>, Error>> {
        Box::pin(async move {
            match self.dir().stat_at(&c_name(name)).await {
                Ok(found) => Ok(Some(Attributes::from(found).id)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => self.volume.counted(Err(error.into())),
            }
        })
    }

    /// Returns the open directory as the lane's file.
    pub fn lane_file(&self) -> &File {
        self.dir().as_file()
    }

    /// Makes the validity of looks in this directory where it is at `here`; `None` where it is elsewhere or moves.
    /// While it is held, it shows whether the directory was there all the time: without a cached answer nothing else
    /// would.
    async fn validity_at(&self, here: RelPath<'_>, object: &Arc<Object>) -> Result<Option<Validity>, Error> {
        let (volume, key) = (&self.volume, self.volume.key(here));
        if let Some(promised) = volume.cache().coherent_validity(key, object) {
            return Ok(Some(promised));
        }
        let validity = volume.cache().validity(volume.root(), key).await;
        if validity.object().is_some_and(|found| Arc::ptr_eq(found, object)) {
            return Ok(Some(validity));
        }
        if self.attributes()?.nlink == 0 {
            return volume.counted(Err(Error::Stale));
        }
        match validity.blocking_change() {
            Some(moving) => volume.wait_for(moving).await?,
            // No change of ours moves it: another program has.
            None => drop(self.find_moved().await?),
        }
        Ok(None)
    }

    async fn lookup_plain(&self, name: Name<'_>) -> Result<Resolved, Error> {
        let path = self.volume.counted(self.path().join(name).map_err(Error::from))?;
        self.volume.lookup(path.as_path()).await
    }

    pub(crate) fn node(&self) -> &Rc<OpenDirectory> {
        &self.node
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.node.dir
    }

    /// Makes the lane's record of a file that was just created in the directory.
    pub(crate) async fn made_file(&self, name: Name<'_>, file: File, stat: &Stat) -> Result<OpenFile, Error> {
        let object = self
            .shared()?
            .object_of_new(self.volume.root().dir(), By::Open(&file), stat, self.object())
            .await?;
        self.note_place(Some(&object), name);
        self.file_of(name, file, stat, object)
    }

    /// Makes the lane's record of a file that was just opened in the directory. Nothing kept its name still meanwhile:
    /// the caller notes its place, if it is there yet.
    pub(crate) async fn opened_file(
        &self,
        name: Name<'_>,
        file: File,
        stat: &Stat,
    ) -> Result<OpenFile, Error> {
        let at = self.object().map(|directory| At { directory, name: name.as_bytes() });
        let by = By::Open(&file);
        let object = self.shared()?.object_of(self.volume.root().dir(), by, stat, at).await?;
        self.file_of(name, file, stat, object)
    }

    /// Opens again, to be read alone, what has just been given this name: a program that is open for writing cannot be
    /// run (ETXTBSY). Returns `None` where it cannot be opened so, or where the name leads to another file by now.
    pub(crate) async fn opened_again(&self, name: Name<'_>, made: &OpenFile) -> Option<Rc<OpenFile>> {
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let file = self.dir().open(&c_name(name), how).await.ok()?;
        let stat = file.stat().ok()?;
        let is_it = Attributes::from(stat).id == made.id();
        let object = made.object().filter(|_| is_it)?;
        self.file_of(name, file, &stat, Arc::clone(object)).ok().map(Rc::new)
    }

    fn file_of(
        &self,
        name: Name<'_>,
        file: File,
        stat: &Stat,
        object: Arc<Object>,
    ) -> Result<OpenFile, Error> {
        let path = self.path().join(name)?;
        let place = self.volume.place(path.as_path());
        let counters = Arc::clone(self.volume.counters());
        Ok(OpenFile::new(file, Attributes::from(*stat).id, place, Some(object), counters))
    }

    /// Makes the lane's record of a directory that was just created in this one.
    pub(crate) async fn made_directory(&self, name: Name<'_>, dir: Dir) -> Result<OpenDirectory, Error> {
        let stat = dir.stat()?;
        let by = By::Open(dir.as_file());
        let object = self.shared()?.object_of_new(self.volume.root().dir(), by, &stat, self.object()).await?;
        self.note_place(Some(&object), name);
        let path = self.path().join(name)?;
        Ok(OpenDirectory::new(dir, Attributes::from(stat).id, path, Some(object)))
    }

    /// Notes that an object has this name here.
    pub(crate) fn note_place(&self, object: Option<&Arc<Object>>, name: Name<'_>) {
        if let (Some(object), Some(here)) = (object, self.object()) {
            object.set_place(ObjectPlace { directory: Arc::clone(here), name: name.as_bytes().into() });
        }
    }

    fn shared(&self) -> Result<&Arc<SharedVolume>, Error> {
        self.volume.shared().ok_or(Error::ReadOnly)
    }

    /// Lists every entry that is served, without names that no look-up would find: devices, links that lead nowhere or
    /// out, hidden names. These too count towards `max`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when there are more; as [`Volume::lookup`] otherwise.
    pub async fn entries(&self, max: usize) -> Result<Listing, Error> {
        self.entries_for(SERVER, max).await
    }

    /// Lists the directory as [`Directory::entries`] does, and charges the memory to a client.
    async fn entries_for(&self, consumer: Consumer, max: usize) -> Result<Listing, Error> {
        // Readings of a large directory are dear: a caller that finds one under way waits for it, once.
        for has_waited in [false, true] {
            if let Some(listing) = self.cached_listing().await {
                return self.volume.counted(listing.within(max));
            }
            if self.exceeds(max)? {
                return self.volume.counted(Err(Error::TooLarge { max }));
            }
            if has_waited || !self.node.readers.wait_for_one().await {
                break;
            }
        }
        // Before the reading begins, since others wait for that.
        let charge = self.volume.cache().charge_entries(consumer, max).await?;
        let _reading = self.node.readers.begin();
        let read = self.read_listing(max, charge).await;
        self.volume.report_listing_failure(self.path(), read)
    }

    /// Lists the directory as [`Directory::entries`] does, for a caller that needs [`Rights::LOOKUP`] for it.
    ///
    /// # Errors
    /// [`Error::Denied`]; as [`Directory::entries`].
    pub fn entries_as<'a>(
        &'a self,
        caller: &'a Caller,
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Listing, Error>> {
        Box::pin(async move {
            self.may_list(caller).await?;
            self.entries_for(caller.consumer, max).await
        })
    }

    /// Checks that the caller has [`Rights::LOOKUP`] in this directory.
    pub(crate) async fn may_list(&self, caller: &Caller) -> Result<(), Error> {
        if let Some(object) = self.object() {
            let here = self.volume.counted(self.volume.path_of(object).ok_or(Error::Stale))?;
            match self.volume.lookup_as(caller, here.as_path(), Rights::LOOKUP).await {
                Ok(found) if found.attributes().id == self.id() => {}
                // Another program may have moved it: nobody has met it by its new name yet.
                Ok(_) | Err(Error::NotFound | Error::NotADirectory | Error::Escapes | Error::Denied(_)) => {
                    let here = self.find_moved().await?;
                    self.volume.lookup_as(caller, here.as_path(), Rights::LOOKUP).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the directory's names as the file system has them, at most `max`.
    pub(crate) async fn listed_names(&self, max: usize) -> Result<Vec<Vec<u8>>, Error> {
        let dir = self.dir().open(&c".".to_owned(), LISTED).await?.into_dir()?;
        let listed = dir.entries(max).await.map_err(|error| match error.raw_os_error() {
            Some(libc::EFBIG) => Error::TooLarge { max },
            _ => error.into(),
        })?;
        Ok(listed.into_iter().map(|entry| entry.name).collect())
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.node.readers
    }

    /// Returns the cached listing, if no entry came or went and no entry's attributes have changed, as far as is
    /// known. The directory's own time stamp shows the former without any notification. Files with other names are
    /// looked at: what is done to them by those is reported where those are.
    async fn cached_listing(&self) -> Option<Listing> {
        let cache = self.volume.cache();
        let cached = cache.find_listing(self.volume.key(self.path()))?;
        let now = self.attributes().ok()?;
        if !cached.holds(now.change_token(), cache.options()) {
            return None;
        }
        if cached.linked().len() > 0 && !self.looks_like(cached.linked()).await {
            return None;
        }
        self.volume.counters().listing_hits.increment();
        Some(Listing::new(cached))
    }

    /// Returns whether all of these entries look as they did.
    async fn looks_like(&self, entries: impl ExactSizeIterator<Item = &Entry>) -> bool {
        let is_so = |entry: &Entry, now: Option<Stat>| {
            now.is_some_and(|now| !Attributes::from(now).is_changed_since(&entry.attributes))
        };
        if entries.len() <= LOOKED_AT_ALONE {
            for entry in entries {
                let Ok(name) = CString::new(&entry.name[..]) else { return false };
                if !is_so(entry, self.dir().stat_at(&name).await.ok()) {
                    return false;
                }
            }
            return true;
        }
        let entries: Vec<_> = entries.collect();
        let names = entries.iter().map(|entry| CString::new(&entry.name[..])).collect::<Result<_, _>>();
        let Ok(names) = names else { return false };
        let Ok(found) = self.dir().stat_names(names, &LOOKED_AT_BESIDE.to_owned(), 0).await else {
            return false;
        };
        entries.iter().zip(found).all(|(entry, found)| is_so(entry, found.map(|found| found.stat)))
    }

    /// Returns whether the directory is known to have more than `max` entries: none has come or gone since that was
    /// found.
    fn exceeds(&self, max: usize) -> Result<bool, Error> {
        let Some((known, token)) = self.node.exceeds.get() else { return Ok(false) };
        Ok(max <= known && self.attributes()?.change_token() == token)
    }

    fn read_listing<'a>(
        &'a self,
        max: usize,
        mut charge: ListingCharge,
    ) -> LocalBoxFuture<'a, Result<Listing, Error>> {
        Box::pin(async move {
            let (volume, path) = (&self.volume, self.path());
            let (cache, key) = (volume.cache(), volume.key(path));
            volume.counters().listings.increment();
            let validity = volume.validity_in(path).await;
            let listed = self.object().map(Object::begin_listing);
            let (before, began) = (self.attributes()?, lane::time::now());
            let dir = self.opened_to_list().await?;
            let raw = dir.entries(max).await.map_err(|error| match error.raw_os_error() {
                Some(libc::EFBIG) => {
                    if before.is_settled(lane::time::wall_clock()) {
                        self.node.exceeds.set(Some((max, before.change_token())));
                    }
                    Error::TooLarge { max }
                }
                _ => error.into(),
            })?;
            let found = raw.len();
            let entries = self.served(raw, &LinkBudget::new()).await;
            charge.settle(entries.0.len() + entries.1.len());
            let (took, token) = (lane::time::now() - began, before.change_token());
            let listing =
                Rc::new(CachedListing::new(entries, found, token, (validity, listed), took, charge));
            // Within the tick of the file system's clock a later change would leave the time stamp as it is.
            if before.is_settled(lane::time::wall_clock()) {
                cache.keep_listing(key, Rc::clone(&listing));
            }
            Ok(Listing::new(listing))
        })
    }

    /// Opens the directory once more, with a position of its own.
    pub(crate) async fn opened_to_list(&self) -> Result<Dir, Error> {
        match self.object() {
            // Itself, wherever it is called by now.
            Some(_) => Ok(self.dir().open(&c".".to_owned(), LISTED).await?.into_dir()?),
            None => self.volume.root().open_directory(self.path()).await,
        }
    }

    /// Leaves out what no look-up would give, looks through symbolic links, and sorts; and the links themselves. Each
    /// link adds to the what all of them may cost.
    pub(crate) async fn served(
        &self,
        raw: Vec<DirEntry>,
        budget: &LinkBudget,
    ) -> (Box<[Entry]>, Box<[Entry]>) {
        let mut entries = Vec::with_capacity(raw.len());
        let mut links = Vec::new();
        let is_link = |entry: &&DirEntry| entry.stat.is_some_and(|stat| stat.kind == FileKind::Symlink);
        budget.add_links(raw.iter().filter(is_link).count());
        for entry in raw {
            let Some(stat) = entry.stat else { continue };
            let Ok(path) = Name::parse(&entry.name).and_then(|name| self.path().join(name)) else { continue };
            if self.volume.hides(path.as_path()) || self.withholds(&entry.name, &stat) {
                continue;
            }
            let symlink = stat.kind == FileKind::Symlink;
            let attributes = match stat.kind {
                FileKind::File | FileKind::Directory => Some(stat.into()),
                FileKind::Symlink => {
                    links.push(Entry {
                        name: entry.name.as_slice().into(),
                        attributes: stat.into(),
                        symlink,
                    });
                    if links.len().is_multiple_of(LINKS_PER_TURN) {
                        lane::yield_if_due().await;
                    }
                    self.far_end(path.as_path(), &stat, budget).await
                }
                FileKind::Other => None,
            };
            if let Some(attributes) = attributes {
                entries.push(Entry { name: entry.name.into(), attributes, symlink });
            }
        }
        (sorted(entries).await, sorted(links).await)
    }

    /// Returns whether an entry is withheld from all clients.
    pub(crate) fn withholds(&self, name: &[u8], stat: &Stat) -> bool {
        let withheld = self.volume.cache().withheld();
        withheld.is_some_and(|all| all.has(Attributes::from(*stat).id) || all.has_name(self.id(), name))
    }

    /// Returns the attributes of what a link leads to; those of the link itself where the budget of its listing is
    /// used up before that is known.
    pub(crate) async fn far_end(
        &self,
        link: RelPath<'_>,
        itself: &Stat,
        budget: &LinkBudget,
    ) -> Option<Attributes> {
        if !self.volume.options().follow_symlinks {
            return None;
        }
        if self.object().is_some() {
            if budget.is_used_up() {
                return Some(Attributes::from(*itself));
            }
            return match self.volume.lookup_within(link, &Steps::of_listing(budget)).await {
                Ok(found) => Some(*found.attributes()),
                Err(_) => budget.is_used_up().then(|| Attributes::from(*itself)),
            };
        }
        let file = self.volume.root().open_beneath(link).await.ok()?;
        file.stat().ok().map(Attributes::from)
    }
}

impl OpenDirectory {
    pub(crate) fn new(dir: Dir, id: FileId, path: RelPathBuf, object: Option<Arc<Object>>) -> Self {
        Self { dir, id, path, object, readers: Readers::default(), exceeds: Cell::new(None) }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    pub(crate) fn attributes(&self) -> Result<Attributes, Error> {
        Ok(attributes_of(&self.dir.stat()?, self.object()))
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        if let Some(object) = &self.object {
            object.note_closing(|| self.dir.stat());
        }
    }
}

async fn sorted(entries: Vec<Entry>) -> Box<[Entry]> {
    let order = order_in_turns(&entries, |a: &Entry, b: &Entry| a.name.cmp(&b.name)).await;
    let mut entries: Vec<_> = entries.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| entries[at as usize].take()).collect()
}

/// Number of files with several names that are looked at one by one before a cached listing is used again. A helper
/// looks at more than these.
const LOOKED_AT_ALONE: usize = 8;
/// Attribute that the helper reads with them, as it reads one of each file.
const LOOKED_AT_BESIDE: &std::ffi::CStr = c"user.DOSATTRIB";
/// Options of opening a directory to list it.
pub(crate) const LISTED: OpenHow = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
/// Attempts of a look-up, as the directory may move meanwhile.
const LOOKUP_TRIES_MAX: u32 = 4;
/// Links looked through before other tasks of the lane run.
pub(crate) const LINKS_PER_TURN: usize = 32;
