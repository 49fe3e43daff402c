//! Access log: lanes append compact records to a batch, a thread off the lanes turns them into lines.
//!
//! A lane copies a few hundred bytes per request and hands over a batch at a time through a bounded
//! queue. When the thread cannot keep up, batches are dropped and counted; a lane never waits for a log.

mod line;
mod queue;
mod record;

pub use line::{Format, put_line};
pub use queue::{BATCH_BYTES, LaneLog, LogReader, channel};
pub use record::{Protocol, Record};
