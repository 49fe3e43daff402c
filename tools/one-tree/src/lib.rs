//! One tree, changed at random by SMB, AFS and HTTP clients and by local programs, over stops, kills and losses of power; after each step
//! all of them and the disk must show the same.
//!
//! One model knows files, names, versions, opens, leases, callbacks and tags. Operations come one after the other, so that
//! there is one truth at each moment. Where the server runs is a [`Site`]: a simulated world (`linerate`'s tests) or the real program
//! (`cargo xtask one-tree`). A run is made of [steps](draw::steps) that depend on a seed alone, and one that fails is
//! [reduced](play::reduced) and [told](play::explain) as a sequence.

mod afs;
mod by_afs;
mod by_http;
mod by_program;
mod by_smb;
mod check;
mod display;
pub mod draw;
mod expected;
mod http;
mod known;
mod look_afs;
mod look_smb;
mod model;
mod operation;
pub mod play;
mod reduce;
mod restart;
mod run;
mod site;
mod smb;

pub use known::Known;
pub use operation::{DIRECTORIES, End, NAMES, Step};
pub use site::{BoxFuture, Disk, Place, Seen, Site, root};
