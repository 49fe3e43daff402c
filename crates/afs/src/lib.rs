//! AFS for stock clients: the file server (RXAFS) over the trees that `vfs` serves.
//!
//! - [`code`]: what a call is aborted with for each error of `vfs`;
//! - [`fid`]: files as AFS names them;
//! - [`attached_volumes`]: the volumes that a lane serves, by number and by name;
//! - [`roots`]: `root.afs` and `root.cell`, where no volume is called so;
//! - [`audit`]: users, operations and their files;
//! - [`fileserver`]: what clients ask of files;
//! - [`host`]: clients that cache, and how their callbacks are broken;
//! - [`oob`]: bytes of large files over TCP beside their call;
//! - [`cell`]: location, protection and volume servers over them;
//! - `settings`, `service`: `[afs]`, and the addresses of the cell on every lane of a server.

pub mod attached_volumes;
pub mod audit;
pub mod cell;
pub mod code;
pub mod fid;
pub mod fileserver;
pub mod host;
pub mod oob;
pub mod roots;
mod served_volume;
pub(crate) mod service;
pub mod settings;

pub use settings::Afs;
