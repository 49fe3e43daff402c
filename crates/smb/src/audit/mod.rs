//! The audit log of SMB requests: the user, the operation, its files and its status; sign-ins, and why they
//! failed. A line for each request that reads or changes files, locks or sessions, whatever came of it.
//!
//! A lane packs a record into a batch of its own and hands batches over to the log's thread ([`service::log`]): no request waits
//! for a log, and no lane for another.

mod event;
mod line;
mod record;
mod trail;

use self::event::Event;
use self::line::put_line;
use self::record::Record;
pub(crate) use self::trail::{Audit, SignIn, Trail};
