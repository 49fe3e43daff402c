//! Exported directory trees, for every protocol alike: names that cannot leave the tree,
//! attributes, open files, listings, caches that change notification keeps honest, and changes that every lane sees.
//!
//! One [`Cache`] per lane remembers what the [`Volume`]s of that lane have opened; a [`VolumeSpec`] is what
//! the configuration says of a volume and travels between threads. A service asks a volume for a
//! [`RelPath`] and gets a [`Resolved`]: an [`OpenFile`] to read or send, or a [`Directory`] to list.
//!
//! ```no_run
//! # async fn serve() -> Result<(), vfs::Error> {
//! use vfs::{Cache, CacheOptions, RelPath, Resolved, Volume, VolumeOptions, VolumeSpec};
//!
//! let cache = Cache::new(CacheOptions::default());
//! let spec = VolumeSpec::new("demo".parse()?, "/srv/demo", VolumeOptions::default());
//! let volume = Volume::open(&cache, &spec)?;
//! match volume.lookup(RelPath::parse(b"music/one.flac")?).await? {
//!     Resolved::File(file, attributes) => println!("{} bytes, {:?}", attributes.size, file.id()),
//!     Resolved::Directory(directory, _) => println!("{} names", directory.entries(10_000).await?.len()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a caller may rely on
//! - **Beneath.** A name resolves beneath the volume's directory or not at all (openat2 `RESOLVE_BENEATH`);
//!   no `..`, no link that leads out, relative or absolute, no magic link, no device, pipe or socket.
//! - **Exact attributes.** Every look-up and every [`OpenFile::attributes`] asks the kernel about the open
//!   file, so size and times are those of this moment, whatever program changed them.
//! - **Names are at most [`CacheOptions::ttl`] old.** Change notification makes most changes show at once;
//!   what it cannot tell (a watch limit, a network file system) the next use after the time to live finds
//!   out, because it opens the name anew. What is reached through symbolic links shows a link that was
//!   switched as soon.
//! - **Everything is bounded and counted**: open files, absent names, listings and watches, per lane.

pub use attributes::{Attributes, ChangeToken, FileId, VersionCertainty, VersionName};
pub use by_number::{FileWithParent, FoundWithRights, Ownership};
pub use cache::{Cache, CacheOptions, ClientNotification, InvalidationListener};
pub use callback::{
    CallbackNotifier, Client, Confirmed, GoneFuture, Invalidation, LinkWithCallback, LookupWithCallback,
    Notice, NotifyFuture, NotifyOutcome,
};
pub use caller::Caller;
pub use change::{
    CreateOptions, Created, EntryExtended, Expect, Published, Replace, Staged, Store, SymbolicLink, Writer,
};
pub use check::{CheckError, CheckOptions, CheckProgress, CheckReport, Problem, ProblemKind, check};
pub use coherence::{CallbackOptions, ChangeKind, Closed, Holder, InFlightReply};
pub use counters::VfsCounters;
pub use directory::Directory;
pub use error::Error;
pub use file::OpenFile;
pub use grant::{
    CloseOutcome, Intent, LeaseBreak, LinkWithRights, Open, OpenCaller, OpenError, OpenHow, PersistedOpen,
    RequestedCaching,
};
pub use index::{Number, Quota, SETTLES_IN, Usage, Version, VolumeId, VolumeRecord};
pub use lane::fs::{FileKind, SystemStat, Timestamp};
pub use listing::{Entry, Listing};
pub use name::{Name, NameError, RelPath, RelPathBuf};
pub use names::{History, Names, NumberedName, is_unchanged_since_read};
pub use object::{
    ACCEPTED_TRUSTED, ACCEPTED_USER, Accepted, Edit, Event, EventKind, EventMask, Identity, MARK_ATTRIBUTES,
    Object, Objects, ObjectsOptions, SharedVolume, Watch, WatchOptions, WatchReport,
};
pub use page::{NamePage, PageEntry, PageLimits};
pub use parts::DirectoryParts;
pub use rights_storage::{DESCRIPTOR_TRUSTED, DESCRIPTOR_USER};
pub use sort::order_in_turns;
pub use spec::{VolumeName, VolumeNameError, VolumeOptions, VolumeSpec};
pub use usage::{CountFailed, Space, SpaceState};
pub use volume::{Resolved, Volume};
pub use withheld::{NameFamily, Withheld};

mod access;
mod attributes;
mod by_number;
mod cache;
mod callback;
mod caller;
mod change;
mod check;
mod counters;
mod descriptor;
mod directory;
mod error;
mod file;
mod fold;
mod fold_image;
mod grant;
mod guarded;
mod io_faults;
mod links;
mod listing;
mod listing_budget;
mod maker;
mod name;
mod names;
mod object;
mod object_attributes;
mod page;
mod partial_uploads;
mod parts;
mod posix_acl;
mod reopen;
mod rights_storage;
mod root;
mod routes;
mod searches;
mod sort;
mod spec;
mod sweep;
mod usage;
mod volume;
mod which_name;
mod withheld;
