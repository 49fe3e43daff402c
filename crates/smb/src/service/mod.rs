//! SMB as the server knows it: its site, and the service of one lane.

mod answers;
mod breaks;
mod endings;
mod lane_service;
mod notification;
mod post;
mod site;
mod undelivered;

pub(crate) use breaks::{Break, Clients};
pub(crate) use lane_service::LaneSmb;
pub(crate) use site::SmbSite;
pub(crate) use undelivered::Undelivered;
