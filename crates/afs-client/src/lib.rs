//! A client of AFS cells on a lane: it finds volumes, walks paths through links and mount points, and moves files over
//! several connections at once. As a cache manager does, it answers its servers on the port it calls from.
//!
//! - [`Address`] is what users name: `afs://HOST[:PORT]/VOLUME/PATH`;
//! - [`Client`]: the socket, the identity, what servers ask and report ([`CacheManager`]);
//! - [`FileServer`]: one server, a method for each procedure; busy volumes are waited for, within bounds;
//! - [`Cell`]: where volumes are, and the way from a volume's root to a file;
//! - [`fetch`], [`store`]: bytes of one file, in ranges over several connections;
//! - [`Get`], [`Put`]: files and trees to local ones and back.
//!
//! It keeps no cache: callbacks serve to notice that a file changed while it was fetched.

mod address;
mod cache_manager;
mod cell;
mod client;
mod code;
mod content;
pub mod directory;
mod error;
pub mod fetch;
mod file_server;
mod get;
mod local;
mod location;
mod mount;
mod oob_connections;
mod out_of_band;
mod path;
mod put;
mod status;
pub mod store;

pub use address::{Address, AddressError, addressed};
pub use cache_manager::{CacheManager, Heard};
pub use cell::{Cell, CellOptions, Found, VOLUMES_MAX};
pub use client::{Client, ClientOptions};
pub use code::{Code, name_of};
pub use error::Error;
pub use file_server::{FileServer, VolumeFacts};
pub use get::Get;
pub use location::{Kind, Listed, Located};
pub use mount::MountPoint;
pub use oob_connections::{OobOptions, OobUse};
pub use path::TEXT_MAX;
pub use put::Put;
pub use status::{FileType, Metadata, of_new};
pub use transfer::{Progress, Tree};
