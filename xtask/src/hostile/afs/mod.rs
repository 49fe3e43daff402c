//! What clients of AFS do.

pub(crate) mod announced;
