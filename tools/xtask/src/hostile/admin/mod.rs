//! Attacks by clients of the admin address.

pub(crate) mod places;
