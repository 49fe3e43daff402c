//! Names of a directory, by number, and their changes: for a client that makes an image of it, as AFS's
//! clients are given.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use index::{Kind, Listed, ListedAs, Number, PlaceRef, Version};
use lane::fs::{DirEntry, FileKind};
use lane::offload::offload;

use crate::change::{NotifiedNames, c_name};
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::{By, Edit, Identity, Log, Object, Recorded, SharedVolume, identity_of};

/// The names of a directory at one version of it, and how to stay up to date.
pub struct Names {
    /// All of them, in the file system's order: files, directories and symbolic links themselves, those too that begin
    /// with a dot.
    pub entries: Vec<NumberedName>,
    /// Keeps account of what changes from here on. Keep it with what is made of the names.
    pub history: History,
}

/// A name and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedName {
    /// The name.
    pub name: Box<[u8]>,
    /// Number of the file with the name: a symbolic link itself.
    pub number: Number,
}

/// Returns whether a directory has such a version as long as none of its names has changed since
/// [`Directory::reread_names`], or since a generation of versions began. No change of a name brings one, over any stop
/// of the server. An image of the names alone is then what it was.
pub fn is_unchanged_since_read(version: Version) -> bool {
    version.count.is_multiple_of(VERSIONS_OF_A_READING)
}

/// Changes of names until a version is left out.
pub(crate) const VERSIONS_OF_A_READING: u32 = 4096;

/// Returns how many changes lead from one version of a directory to a later one; where it was read anew in
/// between, since that.
pub(crate) fn changes_between(from: Version, to: Version) -> u64 {
    debug_assert!(from <= to, "versions rise");
    let reading = |version: Version| (version.generation, version.count / VERSIONS_OF_A_READING);
    match reading(from) == reading(to) {
        true => to.count.saturating_sub(from.count).into(),
        false => (to.count % VERSIONS_OF_A_READING).into(),
    }
}

/// Version of a directory's image, and the changes since.
pub struct History {
    object: Arc<Object>,
    log: Arc<Log>,
    version: Version,
}

impl History {
    /// Returns which version of the directory the image is of, once what [`History::catch_up`] gave has been
    /// applied.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns what leads from the image to the directory as it is now, but for a change that is under way. The edits
    /// are in the order of the changes, so that a client that makes them one after another has the same image. Returns
    /// `None` where that is not known, as after changes behind the server's back: the names have to be read anew.
    /// Never waits.
    pub fn catch_up(&mut self) -> Option<Vec<Edit>> {
        self.log.catch_up(&self.object, &mut self.version)
    }

    /// Returns whether an earlier image, on whatever lane, may have come to this version by edits: then it
    /// need not look like one that is made of the names now.
    pub fn may_be_another(&self) -> bool {
        self.log.has_led_to(self.version)
    }

    pub(crate) fn new(object: &Arc<Object>, log: Arc<Log>) -> Self {
        Self { object: Arc::clone(object), log, version: object.version() }
    }
}

impl Directory {
    /// Returns the directory's names with their numbers, at most `max` of them: read and looked up by helpers, all at
    /// once. The caller has looked the directory up, with [`Rights::LOOKUP`](identity::Rights::LOOKUP).
    ///
    /// # Errors
    /// [`Error::TooLarge`] when there are more; [`Error::Unsettled`] when it changes again and again;
    /// [`Error::ReadOnly`] on a volume [without objects](crate::VolumeSpec::with_objects); those of the file system.
    pub fn names<'a>(&'a self, max: usize) -> LocalBoxFuture<'a, Result<Names, Error>> {
        Box::pin(async move {
            let names = self.read_names(max).await;
            self.volume().report_listing_failure(self.path(), names)
        })
    }

    async fn read_names(&self, max: usize) -> Result<Names, Error> {
        let object = self.object().ok_or(Error::ReadOnly)?;
        let log = object.keep_log();
        for _ in 0..ATTEMPTS_MAX {
            // A change that is under way may have begun before there was a log.
            self.volume().wait_until_unchanging(object).await?;
            let (mark, before) = (object.look_mark(), self.attributes()?);
            // A client that was told of this version has other names.
            if self.volume().looked_at(object, mark, &before, || self.attributes()).await? {
                continue;
            }
            let version = mark.version;
            let listed = self.listed(max).await?;
            // Else the numbers of what is just being made would be asked for before it has one.
            let is_still = || object.version() == version && !object.is_changing();
            if !is_still() || self.attributes()?.is_changed_since(&before) {
                continue;
            }
            let entries = self.numbered(listed).await?;
            // Within the tick of the clock for stamps others may have changed what the log says.
            let names = log.unlike(&entries);
            let doubted = NotifiedNames { names, is_any: false };
            if self.volume().look_at_names(self, object, &log, &doubted).await? {
                continue;
            }
            if is_still() {
                let history = History { object: Arc::clone(object), log, version };
                return Ok(Names { entries, history });
            }
        }
        Err(self.volume().unsettled(self.path(), "reading the names of a directory"))
    }

    /// Reads the names as they are, of a directory whose names cannot change meanwhile.
    pub(crate) async fn names_now(&self, max: usize) -> Result<Vec<NumberedName>, Error> {
        let listed = self.listed(max).await?;
        self.numbered(listed).await
    }

    async fn listed(&self, max: usize) -> Result<Vec<DirEntry>, Error> {
        self.volume().counters().names_read.increment();
        let dir = self.dir().open(&c".".to_owned(), crate::directory::LISTED).await?.into_dir()?;
        let listed = dir.entries_with_handles(max).await;
        listed.map_err(|error| match error.raw_os_error() {
            Some(libc::EFBIG) => Error::TooLarge { max },
            _ => error.into(),
        })
    }

    async fn numbered(&self, listed: Vec<DirEntry>) -> Result<Vec<NumberedName>, Error> {
        let (shared, object) = self.volume().shared().zip(self.object()).ok_or(Error::ReadOnly)?;
        let mut named = Vec::with_capacity(listed.len());
        for (at, DirEntry { name, stat, handle }) in listed.into_iter().enumerate() {
            if at % NAMES_PER_TURN == NAMES_PER_TURN - 1 {
                lane::yield_if_due().await;
            }
            let stat = stat.filter(|stat| stat.kind != FileKind::Other);
            let (Some(stat), Ok(parsed)) = (stat, Name::parse(&name)) else { continue };
            if parsed.is_reserved() || self.withholds(&name, &stat) {
                continue;
            }
            let identity = match handle {
                Some(handle) => Identity::of_handle(stat.dev, handle.kind, &handle.bytes),
                None => match identity_of(By::Name(self.dir(), &c_name(parsed)), &stat).await {
                    Err(Error::NotFound) => continue,
                    identity => identity?,
                },
            };
            let kind = if stat.kind == FileKind::Directory { Kind::Directory } else { Kind::File };
            named.push((name, identity, kind));
        }
        let named: Arc<[_]> = named.into();
        for attempt in 0..ATTEMPTS_MAX {
            let (shared_there, named_there) = (Arc::clone(shared), Arc::clone(&named));
            let parent = Arc::clone(object);
            let numbers = offload(None, move || shared_there.numbers_of(&parent, &named_there)).await;
            match numbers.map_err(|_| Error::Overloaded)? {
                Ok(numbers) => {
                    shared.reserve_numbers(self.volume().root().dir());
                    let entries = named.iter().zip(numbers);
                    let numbered = |((name, ..), number): (&FoundEntry, Number)| NumberedName {
                        name: name.as_slice().into(),
                        number,
                    };
                    return Ok(entries.map(numbered).collect());
                }
                Err(index::Error::Full) => shared.make_room(self.volume().root().dir(), attempt).await?,
                Err(error) => return Err(shared.report_failure(&error)),
            }
        }
        Err(Error::Busy)
    }
}

/// A name, which file has it, and of what kind that is.
type FoundEntry = (Vec<u8>, Identity, Kind);

impl SharedVolume {
    /// Returns the numbers of what is listed in the directory: the object's where it is in use, else the index's. What
    /// another program has moved there is found there from then on.
    fn numbers_of(&self, directory: &Arc<Object>, found: &[FoundEntry]) -> Result<Vec<Number>, index::Error> {
        let parent = directory.number().vnode;
        let in_use: Vec<_> =
            found.iter().map(|(name, identity, _)| self.in_use_in(directory, name, identity)).collect();
        let others = found.iter().zip(&in_use).filter(|(_, number)| number.is_none());
        let words: Vec<_> = others
            .map(|((name, identity, kind), _)| {
                (identity.words(self.device()), *kind, PlaceRef { parent, name })
            })
            .collect();
        let listed: Vec<_> = words
            .iter()
            .map(|(words, kind, place)| Listed { identity: words, kind: *kind, place: *place })
            .collect();
        let mut known = self.index().numbers(self.id(), &listed)?.into_iter();
        let listed_as =
            in_use.into_iter().map(|one| one.unwrap_or_else(|| known.next().expect("one for each")));
        let number = |(listed_as, (name, identity, _)): (ListedAs, &FoundEntry)| {
            if listed_as.is_elsewhere {
                self.note_other_name_of(identity, Recorded::named(directory, name));
            }
            listed_as.number
        };
        Ok(listed_as.zip(found).map(number).collect())
    }

    /// Returns a file that is in use, as the directory lists it.
    fn in_use_in(&self, directory: &Arc<Object>, name: &[u8], identity: &Identity) -> Option<ListedAs> {
        let object = self.objects().in_use_in(self, identity)?;
        // Another first use of it is just under way; where that asks the disk, so do we.
        for _ in 0..YIELDS_MAX {
            if object.is_loaded() {
                break;
            }
            std::thread::yield_now();
        }
        let is_elsewhere = || !object.is_last_found_at(directory, name);
        object.is_loaded().then(|| ListedAs { number: object.number(), is_elsewhere: is_elsewhere() })
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("version", &self.version).finish_non_exhaustive()
    }
}

//@ limit: names of a directory read with their numbers
//@ section: Writable volumes
//@ unit: reading
//@ connection: its own requests, {} readings while it changes
//@ empty: refused as too large, or as unsettled where it changes all the time
//@ counter: vfs_names_read
//@ attack: afs-pools
/// Readings of a directory that changes meanwhile.
const ATTEMPTS_MAX: u32 = 16;
const NAMES_PER_TURN: usize = 1024;
const YIELDS_MAX: usize = 100;
