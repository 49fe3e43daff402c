//! Index of what POSIX cannot hold of the served trees: AFS numbers of files, versions of contents, volumes,
//! and hosts that hold callbacks. One redb file, one committer, a change never waits to be recorded.
//!
//! `docs/design/index.md` has the layout byte by byte, and what each kind of stop means. The index knows neither lanes nor
//! files: its caller says what it [sees](FileStamp) of the tree, and keeps the [`Mark`] on each volume's root.
//!
//! ```
//! use std::time::SystemTime;
//! use index::{Changing, FileStamp, FirstUse, Index, Kind, Memory, Options, Timestamp, Tree};
//!
//! # fn run() -> Result<(), index::Error> {
//! let options = Options { boot: [7; 16], ..Options::default() };
//! let index = Index::open(Memory::default(), options)?;
//! let tree = Tree { name: "home", path: "/srv/home", mark: None, uuid_if_new: [9; 16] };
//! let opened = index.open_volume(tree, SystemTime::now())?;
//! // … the caller writes `opened.mark` to the root and syncs it. Then it may serve.
//! index.marked(opened.volume, &opened.mark);
//! let seen = FileStamp { changed: Timestamp { secs: 1, nanos: 0 }, size: 5 };
//! let now = SystemTime::now();
//! let first = FirstUse { identity: b"handle", kind: Kind::File, seen, place: None, is_to_change: true, now };
//! let file = index.load(opened.volume, first)?;
//! // … before the file changes:
//! let changing = Changing { identity: b"handle", number: file.object.number, version: file.object.version, place: None };
//! let slot = index.reserve(opened.volume, changing);
//! let mut object = file.object;
//! object.version = object.version.next();
//! index.changing(slot, object.version, now);
//! // … it changes.
//! index.changed(slot, SystemTime::now());
//! index.record(opened.volume, b"handle", object, seen.is_settled(SystemTime::now()), slot)?;
//! index.close()
//! # }
//! # run().unwrap();
//! ```

pub use check::{Finding, Findings};
pub use clean_shutdown::MapWords;
pub use committer::{BEAT, Committer};
pub use error::Error;
pub use host::{HostRecord, HostState};
pub use index::{Health, Index, Options, PreviousShutdown};
pub use journal::RecoveredJournal;
pub use journal_layout::{Slot, Words};
pub use lists::{ListRecord, RecordedList};
pub use looking::Looking;
pub use mark::{MARK_LEN, Mark, RightsIn, checksum};
pub use marker::CleanShutdownMarker;
pub use memory::Memory;
pub use number::{Kind, Number};
pub use object::{
    Changing, FileStamp, FirstUse, Known, Listed, ListedAs, Loaded, ObjectRecord, Place, PlaceRef,
    SETTLES_IN, Timestamp,
};
pub use pending::Backlog;
pub use storage::{FileStorage, Storage, boot};
pub use version::Version;
pub use volume::{OpenedVolume, Quota, Standing, Tree, Usage, VolumeRecord};
pub use volume_id::VolumeId;

mod boot_time;
mod check;
mod clean_shutdown;
mod codec;
mod committer;
mod error;
mod host;
mod index;
mod journal;
mod journal_layout;
mod lists;
mod looking;
mod mark;
mod marker;
mod memory;
mod number;
mod object;
mod pending;
mod range;
mod run_state;
mod storage;
mod tables;
mod version;
mod volume;
mod volume_id;
