//! SMB's operations on a tree (MS-SMB2 3.3.5.9 to 3.3.5.22, MS-FSA), above `vfs`, below connections: opens,
//! information, directories, named streams, locks, leases and oplocks, notifications, control codes.
//!
//! Nothing here knows a connection, a key or a frame. A service has one [`Opens`] in its process and one
//! [`Tree`] on each lane; a [`Share`] is a volume there, and has one `async fn` for each command, in a file
//! of its own. It takes the view that `smb-wire` has made of the request and gives what the response is made
//! of, or the [`Status`](smb_wire::Status) of an error. Dropping a command's future cancels it.
//!
//! ```text
//!   process            Opens: FileId -> Open (Arc, any lane)         vfs objects, grants
//!                            ^                                         ^
//!   lane     Tree -----------+-- files of opens as this lane has them -+
//!              |-- Share (volume)   create, close, read, write, ...
//!              '-- Breaks           the server's: queues breaks to its clients
//! ```
//!
//! A volume is opened [with objects](vfs::VolumeSpec::with_objects) to be a share, also a read-only one.

pub use apple::Apple;
pub use breaks::{Breaks, LeaseBroken};
pub use counters::TreeCounters;
pub use create::{CreateError, Created};
pub use open::{Open, OpenKind};
pub use opens::{Opens, OpensLimits, OpensUsage};
pub use persisted::{DamagedPage, RestoredOpens, SavedOpens};
pub use read::ReadSource;
pub use request_context::{RequestContext, consumer_of};
pub use root::{Root, RootSpec};
pub use share::{Share, ShareOptions};
pub use tree::Tree;

mod access;
mod access_based_enumeration;
mod acknowledge;
mod admin;
mod app_instances;
mod apple;
mod attributes;
mod break_timeouts;
mod breaks;
mod by_name;
mod cached_names;
mod close;
mod counters;
mod create;
mod disconnected;
mod ea;
mod flush;
mod ioctl;
mod lane_handle;
mod lock;
mod lock_sequences;
mod names;
mod notify;
mod open;
mod opens;
mod persisted;
mod query_directory;
mod query_info;
mod read;
mod replays;
mod request_context;
mod root;
mod security;
mod set_info;
mod share;
mod short_names;
mod status;
mod streams;
mod tree;
mod tunnel;
mod write;
mod write_time;

/// Longest output of a command, whatever room its client has: what is longer comes in several answers, or cut.
pub const ANSWER_MAX: u32 = 1 << 20;

/// Answer of a command, in the class that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `STATUS_SUCCESS`, `STATUS_BUFFER_OVERFLOW` or `STATUS_NOTIFY_ENUM_DIR`.
    pub status: smb_wire::Status,
    /// The output.
    pub output: Vec<u8>,
}
