//! Grants of SMB's clients on objects, joined to lanes and changes: crate `grants` decides, its state hangs
//! in the object, and breaks are told on the lane where the holder's connection lives. No change waits for a
//! holder while it has a change lock.

pub use self::close::CloseOutcome;
pub(crate) use self::grant_wait::GrantWait;
pub use self::intent::Intent;
pub(crate) use self::link::Link;
pub(crate) use self::local::LocalLockFiles;
pub(crate) use self::open::Content;
pub(crate) use self::open::home_of;
pub use self::open::{Open, OpenCaller, OpenHow, RequestedCaching};
pub use self::open_link::LinkWithRights;
pub(crate) use self::requests::{BreaksToSend, LeasePlace, UnsentBreak, WAIT_MAX};
pub use self::requests::{LeaseBreak, OpenError};
pub use self::restore::PersistedOpen;
pub(crate) use self::slot::{GrantSlot, Grants, HeldGrants};

mod close;
mod grant_wait;
mod intent;
mod link;
mod local;
mod lock;
mod open;
mod open_link;
mod requests;
mod restore;
mod settled;
mod slot;
