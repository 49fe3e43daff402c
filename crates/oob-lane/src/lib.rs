//! Out-of-band TCP on a lane: moves the bytes that `oob` says are to leave or to come, page cache to socket and socket to the
//! owner's hands. Both ends use it.
//!
//! - [`send_part`], [`receive_part`], [`discard`];
//! - [`Stop`]: the word that a transfer is over, to the task that moves its bytes;
//! - [`Patience`]: how long the other end may take.

mod memory;
mod patience;
mod receive;
mod send;
mod stop;

use std::io;

pub use memory::Memory;
pub use patience::Patience;
pub use receive::{Received, discard, receive_part};
pub use send::{NoPace, Pace, Sent, send_part};
pub use stop::Stop;

/// Reason why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The stream failed or ended.
    #[error("{0}")]
    Stream(#[from] io::Error),
    /// The received bytes are no frame of the transfer.
    #[error(transparent)]
    Frame(#[from] oob::FrameError),
    /// The other end took or sent too little for too long.
    #[error("the other end does not go on")]
    Stalled,
}
