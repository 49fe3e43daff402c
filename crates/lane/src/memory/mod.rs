//! Memory of a lane: mappings that first touch places, the policy of placement, and, for an observer, the
//! nodes of pages.

mod counting;
mod file_pages;
mod lane_memory;
mod mapping;
mod pages;
mod policy;
mod word_file;

pub use counting::{Counting, Taken};
pub use file_pages::Unsampled;
pub use lane_memory::{LaneMemory, Sample, Samples};
pub(crate) use mapping::Mapping;
pub(crate) use policy::allocate_where_running;
pub use word_file::WordFile;
