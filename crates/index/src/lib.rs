//! Index of what POSIX cannot hold of the served trees: AFS numbers of files, versions of contents, volumes,
//! and hosts that hold callbacks. One redb file, one committer, a change never waits to be recorded.
//!
//! `docs/design/index.md` has the layout byte by byte, and what each kind of stop means.

pub use check::{Finding, Findings};
pub use clean_shutdown::{CleanShutdownMarker, MapWords};
pub use committer::{BEAT, Committer};
pub use error::Error;
pub use host::{HostRecord, HostState};
pub use index::{Health, Index, Options, PreviousShutdown};
pub use journal::{Changing, RecoveredJournal, Slot, Words};
pub use lists::{ListRecord, RecordedList};
pub use looking::Looking;
pub use mark::{MARK_LEN, Mark, RightsIn, checksum};
pub use memory::Memory;
pub use number::{Kind, Number};
pub use object::{
    FileStamp, FirstUse, Known, Listed, ListedAs, Loaded, ObjectRecord, Place, PlaceRef, SETTLES_IN,
    Timestamp,
};
pub use pending::Backlog;
pub use storage::{FileStorage, Storage, boot};
pub use version::Version;
pub use volume::{OpenedVolume, Quota, Standing, Tree, Usage, VolumeId, VolumeRecord};

mod check;
mod clean_shutdown;
mod codec;
mod committer;
mod error;
mod host;
mod index;
mod journal;
mod lists;
mod looking;
mod mark;
mod memory;
mod number;
mod object;
mod pending;
mod range;
mod storage;
mod tables;
mod version;
mod volume;
