//! The server in a simulated world, spoken to by our own client and by senders of arbitrary bytes.

mod audit;
pub(crate) mod bed;
mod breaks;
mod channels;
mod compounds;
mod data;
mod floods;
mod fuzz;
mod hostile;
mod kills;
mod locks;
mod lost;
mod notifications;
mod pipes;
mod raw;
mod refusals;
mod replays;
mod restarts;
mod sealed;
mod sequences;
mod sign_ins;
mod storms;
mod turns;
mod unread;
