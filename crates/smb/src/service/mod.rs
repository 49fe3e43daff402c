//! SMB as the server knows it: its site, and the service of one lane.

mod admin_replies;
mod breaks;
mod lane_mailbox;
mod lane_service;
mod notification;
mod session_teardown;
mod site;
mod undelivered;

pub(crate) use breaks::{Break, Clients};
pub(crate) use lane_service::LaneSmb;
pub(crate) use site::SmbSite;
pub(crate) use undelivered::Undelivered;
