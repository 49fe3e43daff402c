//! Attributes of a file for SMB's clients: times, sizes, attributes. What `user.DOSATTRIB` and the file
//! system's time of birth say of it is remembered as long as its time of change stays as it was.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use lane::fs::{StatxExtra, Timestamp};
use smb_sid::Sids;
use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::fsctl::{compression, reparse};
use smb_wire::info::posix::{Posix, kind};
use smb_wire::time::from_unix;
use vfs::{Attributes, EntryExtended, FileId, FileKind};

use crate::apple;
use crate::lane_handle::{HandleKind, LaneHandle};
use crate::open::Open;
use crate::share::Share;
use smb_wire::dos::{self, Dos};

/// Attributes of a file at one moment. Times are 100 ns since 1601.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) attributes: u32,
    pub(crate) created: u64,
    pub(crate) accessed: u64,
    pub(crate) written: u64,
    pub(crate) changed: u64,
    pub(crate) size: u64,
    pub(crate) allocation: u64,
    /// The file's number on disk.
    pub(crate) index: u64,
    pub(crate) device: u64,
    pub(crate) links: u32,
    pub(crate) is_directory: bool,
    /// Reparse tag of a link; 0 if none.
    pub(crate) reparse_tag: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Info {
    /// Returns the format that it is compressed in (MS-FSCC 2.3.18).
    pub(crate) fn compression(&self) -> u16 {
        if self.attributes & attributes::COMPRESSED == 0 { compression::NONE } else { compression::LZNT1 }
    }

    /// Returns what the POSIX extensions tell more; whose it is by identifiers that say the POSIX numbers.
    pub(crate) fn posix(&self) -> Posix {
        Posix {
            links: self.links,
            reparse_tag: self.reparse_tag,
            mode: (if self.reparse_tag == 0 { kind::PLAIN } else { kind::SYMLINK }) | self.mode & 0o7777,
            owner: Sids::of_uid(self.uid),
            group: Sids::of_gid(self.gid),
        }
    }
}

/// One lane's cache of DOS attributes and birth times, by file identity and time of change.
pub(crate) struct AttributeCache {
    young: RefCell<HashMap<FileId, CachedAttributes>>,
    old: RefCell<HashMap<FileId, CachedAttributes>>,
}

/// The attributes that were read from a file, valid while its time of change stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedAttributes {
    changed: Timestamp,
    dos: Dos,
    born: Option<Timestamp>,
    is_compressed: bool,
    /// Finder's data, where a Mac has asked for it.
    apple: Option<apple::FinderInfo>,
}

impl CachedAttributes {
    /// Makes the information from a look at an entry.
    pub(crate) fn of(looked: &EntryExtended) -> Self {
        let EntryExtended { attributes: now, statx_extra: StatxExtra { born, is_compressed }, value } =
            looked;
        let dos = value.as_deref().map(Dos::parse).unwrap_or_default();
        Self { changed: now.ctime, dos, born: *born, is_compressed: *is_compressed, apple: None }
    }

    /// Notes for a writer that the attribute "archive" is off.
    fn note_in(&self, handle: &LaneHandle) {
        if let (HandleKind::File(file), true) = (&handle.what, self.dos.is_backed_up())
            && let Some(object) = file.object()
        {
            object.note_backed_up(true);
        }
    }
}

impl AttributeCache {
    pub(crate) fn new() -> Self {
        Self { young: RefCell::default(), old: RefCell::default() }
    }

    /// Returns what was found when the file had these attributes.
    fn find(&self, now: &Attributes) -> Option<CachedAttributes> {
        let holds = |seen: &CachedAttributes| seen.changed == now.ctime;
        if let Some(seen) = self.young.borrow().get(&now.id).copied().filter(holds) {
            return Some(seen);
        }
        let seen = self.old.borrow_mut().remove(&now.id).filter(holds)?;
        self.keep(now.id, seen);
        Some(seen)
    }

    fn keep(&self, id: FileId, seen: CachedAttributes) {
        let mut young = self.young.borrow_mut();
        if young.len() >= KNOWN_MAX / 2 {
            self.old.replace(std::mem::take(&mut young));
        }
        young.insert(id, seen);
    }
}

impl Share {
    /// Returns what an open file or directory is now.
    pub(crate) async fn info(&self, handle: &LaneHandle, name: Option<&[u8]>) -> Result<Info, Status> {
        let now = handle.attributes()?;
        let seen = self.seen(handle, &now).await?;
        Ok(self.info_of(&now, &seen, name))
    }

    /// Returns the information for the open that has renamed the file ([`Share::info`]).
    pub(crate) async fn info_by(
        &self,
        open: &Open,
        handle: &LaneHandle,
        name: Option<&[u8]>,
    ) -> Result<Info, Status> {
        let mut now = handle.attributes()?;
        let renamed = open.state().renamed.filter(|renamed| renamed.holds(&now));
        now.ctime = renamed.map_or(now.ctime, |renamed| renamed.before);
        let seen = self.seen(handle, &now).await?;
        Ok(self.info_of(&now, &seen, name))
    }

    /// Returns what is kept with a file.
    pub(crate) async fn dos_of(&self, handle: &LaneHandle) -> Result<Dos, Status> {
        let now = handle.attributes()?;
        Ok(self.seen(handle, &now).await?.dos)
    }

    /// Returns Finder's metadata of a file, from its streams or the cache.
    pub(crate) async fn finder_info(&self, handle: &LaneHandle) -> Result<apple::FinderInfo, Status> {
        let now = handle.attributes()?;
        let seen = self.seen(handle, &now).await?;
        if let Some(kept) = seen.apple {
            return Ok(kept);
        }
        let kept = apple::FinderInfo::of(handle).await?;
        if is_settled(now.ctime) {
            self.lane_state().attribute_cache().keep(now.id, CachedAttributes { apple: Some(kept), ..seen });
        }
        Ok(kept)
    }

    async fn seen(&self, handle: &LaneHandle, now: &Attributes) -> Result<CachedAttributes, Status> {
        let known = self.lane_state().attribute_cache();
        if let Some(seen) = known.find(now) {
            seen.note_in(handle);
            return Ok(seen);
        }
        let value = handle.extended(dos::NAME, dos::VALUE_MAX).await?;
        let dos = value.map(|value| Dos::parse(&value)).unwrap_or_default();
        let statx_extra = match &handle.what {
            HandleKind::Directory(directory) => directory.statx_extra().await.ok(),
            HandleKind::File(file) => file.lane_file().statx_extra().await.ok(),
            HandleKind::Link(_) => None,
        };
        let StatxExtra { born, is_compressed } = statx_extra.unwrap_or_default();
        let seen = CachedAttributes { changed: now.ctime, dos, born, is_compressed, apple: None };
        seen.note_in(handle);
        // A change within the tick of the file system's clock would leave the time as it is.
        if is_settled(now.ctime) {
            known.keep(now.id, seen);
        }
        Ok(seen)
    }

    /// Returns whether all is remembered of a file that has these attributes.
    pub(crate) fn remembers(&self, now: &Attributes) -> bool {
        self.lane_state().attribute_cache().find(now).is_some()
    }

    /// Returns what a look at a name found in its file, remembered.
    pub(crate) fn saw(&self, looked: &EntryExtended) -> CachedAttributes {
        let (now, seen) = (&looked.attributes, CachedAttributes::of(looked));
        if is_settled(now.ctime) {
            self.lane_state().attribute_cache().keep(now.id, seen);
        }
        seen
    }

    /// Returns the information of a listed entry, if all is remembered ([`Share::info`]).
    pub(crate) fn try_info_of(&self, now: &Attributes, name: &[u8]) -> Option<Info> {
        let seen = self.lane_state().attribute_cache().find(now)?;
        Some(self.info_of(now, &seen, Some(name)))
    }

    /// Returns the information of a file of which nothing more is known ([`Share::info_of`]).
    pub(crate) fn plain_info_of(&self, now: &Attributes, name: &[u8]) -> Info {
        let (dos, born) = (Dos::default(), None);
        let seen = CachedAttributes { changed: now.ctime, dos, born, is_compressed: false, apple: None };
        self.info_of(now, &seen, Some(name))
    }

    pub(crate) fn info_of(&self, now: &Attributes, seen: &CachedAttributes, name: Option<&[u8]>) -> Info {
        let (written, kernels) = (wire_time(now.mtime), wire_time(now.ctime));
        let set = seen.dos.changed.filter(|set| set.holds(written, kernels));
        let changed = set.map_or(kernels, |set| set.told);
        let born = seen.born.map(wire_time);
        let created = seen.dos.created.or(born).unwrap_or_else(|| written.min(kernels));
        let is_directory = now.is_directory();
        let default = if is_directory { 0 } else { attributes::ARCHIVE };
        let mut bits = seen.dos.attributes.unwrap_or(default);
        if is_directory {
            bits |= attributes::DIRECTORY;
        }
        //= MS-FSCC 2.6
        //# FILE_ATTRIBUTE_COMPRESSED: what is written to it, or to what is made in it, is compressed. The file system keeps that.
        if seen.is_compressed {
            bits |= attributes::COMPRESSED;
        }
        let is_link = now.kind == FileKind::Symlink;
        if is_link {
            bits |= attributes::REPARSE_POINT;
        }
        if name.is_some_and(|name| self.options().hides(name)) {
            bits |= attributes::HIDDEN;
        }
        Info {
            //= MS-FSCC 2.6
            //# FILE_ATTRIBUTE_NORMAL stands alone, where there is no other.
            attributes: if bits == 0 { attributes::NORMAL } else { bits },
            created,
            accessed: wire_time(now.atime),
            written,
            changed,
            size: if is_directory { 0 } else { now.size },
            allocation: if is_directory { 0 } else { now.allocated },
            index: now.id.ino,
            device: now.id.dev,
            links: now.nlink,
            is_directory,
            reparse_tag: if is_link { reparse::SYMLINK } else { 0 },
            mode: now.mode,
            uid: now.uid,
            gid: now.gid,
        }
    }
}

/// Returns the allocation size that clients see for so many bytes of a stream, or set aside: whole units. What a file
/// takes its file system says ([`Attributes::allocated`]).
pub(crate) fn allocated(size: u64) -> u64 {
    size.checked_next_multiple_of(UNIT_BYTES).unwrap_or(!(UNIT_BYTES - 1))
}

pub(crate) fn wire_time(at: Timestamp) -> u64 {
    from_unix(at.secs, at.nanos)
}

fn is_settled(changed: Timestamp) -> bool {
    let tick = if changed.nanos == 0 { COARSE_TICK_MAX } else { TICK_MAX };
    lane::time::wall_clock().duration_since(changed.to_system_time()).is_ok_and(|age| age >= tick)
}

/// Bytes of an allocation unit, as clients see it.
pub(crate) const UNIT_BYTES: u64 = 4096;
//@ limit: DOS attributes and times of birth remembered
//@ section: SMB
//@ unit: file, about 80 bytes
//@ all: lane: {}
//@ empty: the oldest half is forgotten; others feel one look more at a file
//@ counter: none
//@ attack: smb-patterns
/// Files remembered on a lane: about 160 bytes each.
const KNOWN_MAX: usize = 65_536;
/// Longest tick of the clocks that file systems stamp with, and of those that keep whole seconds.
const TICK_MAX: Duration = Duration::from_millis(20);
const COARSE_TICK_MAX: Duration = Duration::from_millis(2020);
