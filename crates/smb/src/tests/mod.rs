//! The server in a simulated world, spoken to by our own client and by whoever sends bytes.

mod audit;
pub(crate) mod bed;
mod channels;
mod compounds;
mod data;
mod floods;
mod fuzz;
mod hostile;
mod kills;
mod locks;
mod notifications;
mod raw;
mod replays;
mod sign_ins;
mod storms;
mod turns;
mod unread;
