//! SMB as the server knows it: its site, and the service of one lane.

mod breaks;
mod lane_service;
mod site;

pub(crate) use lane_service::LaneSmb;
pub(crate) use site::SmbSite;
