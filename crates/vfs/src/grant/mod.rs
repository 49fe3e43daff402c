//! What SMB's clients hold of objects, joined to lanes and changes: crate `grants` decides, its state hangs in the object, and
//! breaks are told on the lane where the holder's connection lives. Nobody waits for a holder while he has a permit.

pub use self::asked::{ByLease, OpenError};
pub(crate) use self::asked::{LeasePlace, Told, Untold, WAIT_MAX};
pub use self::close::Ended;
pub use self::intent::Intent;
pub(crate) use self::link::Link;
pub(crate) use self::local::LocalPlaces;
pub(crate) use self::open::Content;
pub(crate) use self::open::home_of;
pub use self::open::{Open, OpenCaller, OpenHow, Wanted};
pub use self::open_link::FoundLink;
pub(crate) use self::pause::Pause;
pub use self::restore::KeptOpen;
pub(crate) use self::slot::{Grants, Held, Slot};

mod asked;
mod close;
mod intent;
mod link;
mod local;
mod lock;
mod open;
mod open_link;
mod pause;
mod restore;
mod settled;
mod slot;
