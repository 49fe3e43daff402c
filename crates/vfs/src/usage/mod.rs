//! Usage of a volume in bytes and files, and its quota.
//!
//! *Bytes* are the lengths of its regular files, as AFS counts them: what a file takes on the disk changes
//! behind its owner's back (delayed allocation, preallocation, compression), so no two counts of it agree.
//! Extended attributes that clients keep with files and directories count beside them ([`attributes`]).
//! *Files* are files, directories and links. A file with several names counts once; one without counts no
//! more, though it stays while it is open.
//!
//! A change takes room before it is made, and knows from what it changes how much that is: nothing is walked. The first
//! count of a tree is made by a walker while it changes ([`count`]). One [`Account`] is kept from one beginning of a count to
//! the next; where a lane ended in mid-change it is in doubt, and another is begun ([`ledger`]).

mod account;
mod attribute_size;
mod attributes;
mod charge;
mod content;
mod count;
mod keep;
mod ledger;
mod reserve;
mod room;
mod staged_size;
mod tally;
mod walk;

use index::{Quota, Usage};

pub(crate) use self::account::{Account, LaneAccount};
pub(crate) use self::attribute_size::bytes_of;
pub(crate) use self::attributes::{AttributeEdit, attribute_bytes, bytes_of_descriptor};
pub(crate) use self::charge::Charge;
pub(crate) use self::content::{ContentChange, Reach};
pub(crate) use self::count::{CountedFile, MovedUsage};
pub(crate) use self::ledger::{Ledger, UncertainChange};
pub(crate) use self::reserve::Allowance;
pub(crate) use self::staged_size::StagedSize;
pub(crate) use self::tally::UsageTally;
pub use self::walk::CountFailed;

/// Usage and quota of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Counted usage.
    pub used: Usage,
    /// Quota of the volume.
    pub quota: Quota,
    /// State of the count.
    pub state: SpaceState,
}

/// State of counting a volume's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceState {
    /// All of it.
    Counted,
    /// Counting goes on, with these directories so far; what is used is what was seen in them.
    Counting {
        /// Number of directories.
        directories: u64,
    },
    /// A change did not come to its end: it is counted again soon.
    InDoubt,
}

impl Space {
    /// Returns whether all is counted; else `used` is what was seen so far.
    pub fn is_counted(&self) -> bool {
        self.state == SpaceState::Counted
    }

    /// Returns the bytes that there is still room for; `None` without limit.
    pub fn bytes_left(&self) -> Option<u64> {
        self.quota.bytes.map(|quota| quota.saturating_sub(self.used.bytes))
    }

    /// Returns the files that there is still room for; `None` without limit.
    pub fn files_left(&self) -> Option<u64> {
        self.quota.files.map(|quota| quota.saturating_sub(self.used.files))
    }
}
