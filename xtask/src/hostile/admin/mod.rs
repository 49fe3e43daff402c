//! What clients of the admin address do.

pub(crate) mod places;
