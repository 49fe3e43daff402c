//! Common parts of tests and tasks, not shipped: skips, network namespaces, disks in image files, a reader of
//! metrics, stock programs as peers.

mod disk;
pub mod metrics;
pub mod netns;
mod ports;
mod skip;
pub mod stock_cell;
pub mod stock_directory;
pub mod stock_files;
pub mod stock_rx;
pub mod stock_smbd;
mod wait;

pub use disk::Disk;
pub use ports::free_address;
pub use skip::{LIST_VARIABLE, skip};
pub use wait::wait_for;
