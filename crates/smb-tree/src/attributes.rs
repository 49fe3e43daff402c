//! What a file is to SMB's clients: times, sizes, attributes. What `user.DOSATTRIB` and the file system's time of birth say of it is
//! remembered as long as its time of change stays as it was.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use lane::fs::Timestamp;
use smb_sid::Sids;
use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::time::from_unix;
use vfs::{Attributes, FileId};

use crate::dos::{self, Dos};
use crate::hand::Hand;
use crate::share::Share;

/// What a file is at one moment. Times are 100 ns since 1601.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) attributes: u32,
    pub(crate) created: u64,
    pub(crate) accessed: u64,
    pub(crate) written: u64,
    pub(crate) changed: u64,
    pub(crate) size: u64,
    pub(crate) allocation: u64,
    /// Its number on disk.
    pub(crate) index: u64,
    pub(crate) device: u64,
    pub(crate) links: u32,
    pub(crate) is_directory: bool,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Info {
    /// What the POSIX extensions tell more: links, what kind of link it is, mode, and whose it is, as identifiers that say the POSIX
    /// numbers.
    pub(crate) fn posix(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.links.to_le_bytes());
        out.extend([0; 4]);
        out.extend((self.mode & 0o7777).to_le_bytes());
        Sids::of_uid(self.uid).write(&mut out);
        Sids::of_gid(self.gid).write(&mut out);
        out
    }
}

/// What is remembered of files, by identity and time of change.
pub(crate) struct Known {
    young: RefCell<HashMap<FileId, Seen>>,
    old: RefCell<HashMap<FileId, Seen>>,
}

/// What was found in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    changed: Timestamp,
    dos: Dos,
    born: Option<Timestamp>,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self { young: RefCell::default(), old: RefCell::default() }
    }

    /// What was found when the file had these attributes.
    fn find(&self, now: &Attributes) -> Option<Seen> {
        let holds = |seen: &Seen| seen.changed == now.ctime;
        if let Some(seen) = self.young.borrow().get(&now.id).copied().filter(holds) {
            return Some(seen);
        }
        let seen = self.old.borrow_mut().remove(&now.id).filter(holds)?;
        self.keep(now.id, seen);
        Some(seen)
    }

    fn keep(&self, id: FileId, seen: Seen) {
        let mut young = self.young.borrow_mut();
        if young.len() >= KNOWN_MAX / 2 {
            self.old.replace(std::mem::take(&mut young));
        }
        young.insert(id, seen);
    }
}

impl Share {
    /// What an open file or directory is now.
    pub(crate) async fn info(&self, hand: &Hand, name: Option<&[u8]>) -> Result<Info, Status> {
        let now = hand.attributes()?;
        let seen = self.seen(hand, &now).await?;
        Ok(self.info_of(&now, &seen, name))
    }

    /// What is kept with a file.
    pub(crate) async fn dos_of(&self, hand: &Hand) -> Result<Dos, Status> {
        let now = hand.attributes()?;
        Ok(self.seen(hand, &now).await?.dos)
    }

    async fn seen(&self, hand: &Hand, now: &Attributes) -> Result<Seen, Status> {
        let known = self.side().known();
        if let Some(seen) = known.find(now) {
            return Ok(seen);
        }
        let value = hand.extended(dos::NAME, dos::VALUE_MAX).await?;
        let dos = value.map(|value| Dos::parse(&value)).unwrap_or_default();
        let born = match hand.directory() {
            Some(directory) => directory.born().await.ok(),
            None => hand.file()?.lane_file().born().await.ok(),
        };
        let seen = Seen { changed: now.ctime, dos, born: born.flatten() };
        // A change within the tick of the file system's clock would leave the time as it is.
        if is_settled(now.ctime) {
            known.keep(now.id, seen);
        }
        Ok(seen)
    }

    /// As [`Share::info`] of an entry of a listing, if all is remembered.
    pub(crate) fn try_info_of(&self, now: &Attributes, name: &[u8]) -> Option<Info> {
        let seen = self.side().known().find(now)?;
        Some(self.info_of(now, &seen, Some(name)))
    }

    /// As [`Share::info_of`] of what nothing more is known of.
    pub(crate) fn plain_info_of(&self, now: &Attributes, name: &[u8]) -> Info {
        let seen = Seen { changed: now.ctime, dos: Dos::default(), born: None };
        self.info_of(now, &seen, Some(name))
    }

    fn info_of(&self, now: &Attributes, seen: &Seen, name: Option<&[u8]>) -> Info {
        let (written, changed) = (wire_time(now.mtime), wire_time(now.ctime));
        let born = seen.born.map(wire_time);
        let created = seen.dos.created.or(born).unwrap_or_else(|| written.min(changed));
        let is_directory = now.is_directory();
        let default = if is_directory { 0 } else { attributes::ARCHIVE };
        let mut bits = seen.dos.attributes.unwrap_or(default);
        if is_directory {
            bits |= attributes::DIRECTORY;
        }
        let is_dotted = name.is_some_and(|name| name.starts_with(b".") && name.len() > 1 && name != b"..");
        if is_dotted && self.options().hide_dot_files {
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
            allocation: if is_directory { 0 } else { allocated(now.size) },
            index: now.id.ino,
            device: now.id.dev,
            links: now.nlink.max(1),
            is_directory,
            mode: now.mode,
            uid: now.uid,
            gid: now.gid,
        }
    }
}

/// Bytes that clients are told to be taken by so many: whole units.
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

/// Bytes of an allocation unit, as clients are told.
pub(crate) const UNIT_BYTES: u64 = 4096;
/// Files remembered on a lane: about 80 bytes each.
const KNOWN_MAX: usize = 65_536;
/// Longest tick of the clocks that file systems stamp with, and of those that keep whole seconds.
const TICK_MAX: Duration = Duration::from_millis(20);
const COARSE_TICK_MAX: Duration = Duration::from_millis(2020);
