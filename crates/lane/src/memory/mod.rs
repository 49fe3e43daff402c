//! The memory of a lane: mappings that first touch places, the policy it goes by, and, for an observer of
//! placement, on which node pages lie.

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
