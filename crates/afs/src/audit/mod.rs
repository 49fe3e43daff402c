//! The audit log of AFS calls: the user, the procedure, its files and its result. A line for each call that
//! reads or changes files, access lists, locks or volumes, whatever came of it.
//!
//! A lane packs a record into a batch of its own and hands batches over to the log's thread ([`service::log`]): no call waits for a
//! log, and no lane for another.

mod event;
mod line;
mod record;
mod trail;

pub use event::Event;
pub use line::put_line;
pub use record::{Files, Record};
pub use trail::{Audit, AuditIdentity, Trail};
