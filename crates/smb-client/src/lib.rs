//! A client of SMB 2.0.2 to 3.1.1 on a lane (MS-SMB2 3.2), over sockets or in the simulator.
//!
//! [`Connection::open`] negotiates, [`Channel::sign_in`] makes a session and [`Channel::bind`] gives it one more connection,
//! on this lane or another; [`Tree::connect`] opens a share and [`Open::create`] a file. Any number of requests may be under way
//! on a connection: a request waits for credits, its answer comes in whatever order the server likes. What comes back is checked:
//! a signature that is wrong or missing where one must be is an error of its request, and counted ([`Counters`]).
//!
//! [`Channels`] are those of one session on a lane: a [`Handle`] is asked over whichever is there, and what was under way on one
//! that is lost goes again by another.
//!
//! [`Get`] and [`Put`] move files and trees.
//!
//! The client waits for as long as the connection stands; a caller that wants less puts a time limit around a
//! request. A request that is given up keeps its credits until the server answers it: [`Pending::cancel`]
//! asks for that.

mod address;
mod break_queue;
mod breaks;
mod channel;
mod channels;
mod connection;
mod counters;
mod credits;
mod directory;
mod error;
mod exchange;
mod file;
mod frame;
mod get;
mod handle;
mod keys;
mod local;
mod lock_sequences;
mod options;
mod put;
mod tree;

pub use address::{Address, AddressError};
pub use break_queue::BreakNotification;
pub use channel::{Channel, SessionTicket};
pub use channels::Channels;
pub use connection::{Connection, Negotiated};
pub use counters::Counters;
pub use credits::{Credits, OutOfCredits};
pub use directory::ListEntry;
pub use error::Error;
pub use exchange::{OutgoingRequest, Pending, Reply};
pub use file::{Data, Open, OpenParams};
pub use get::Get;
pub use handle::Handle;
pub use local::{TransferError, joined, local_name, remote_name};
pub use options::{Options, Random, Sealing, Signing};
pub use put::Put;
pub use tree::{SharedTree, Tree};
