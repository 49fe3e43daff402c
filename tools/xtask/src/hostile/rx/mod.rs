//! Attacks by clients of Rx.

pub(crate) mod acks;
pub(crate) mod connections;
pub(crate) mod flood;
pub(crate) mod gap;
pub(crate) mod owed;
pub(crate) mod questions;
pub(crate) mod reflection;
pub(crate) mod stores;
pub(crate) mod theft;
mod wire;
