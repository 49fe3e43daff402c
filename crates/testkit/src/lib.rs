//! What tests of several crates share, and nothing that is shipped: a skip that is told, and network namespaces.

pub mod netns;
mod skip;

pub use skip::{LIST_VARIABLE, skip};
