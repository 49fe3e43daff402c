//! Socket features of the kernel, one file per feature.

pub mod ktls;
pub(crate) mod options;
pub mod pacing;
