//! AFS as a service of a server: four addresses of one cell, on every lane.
//!
//! Each address has a driver of its own on each lane, as stock clients know the servers of a cell by their ports. Only the
//! file server's is sized for load.

mod lane_service;
mod plug;
mod process_state;
mod site;
mod tokens;

pub(crate) use self::process_state::ProcessState;

/// Roles of the sockets.
pub(crate) mod roles {
    use service::Role;

    /// The file server: 7000.
    pub(crate) const FILES: Role = Role(0);
    /// Users and groups: 7002.
    pub(crate) const PROTECTION: Role = Role(1);
    /// Location service: 7003.
    pub(crate) const LOCATION: Role = Role(2);
    /// Volume server: 7005.
    pub(crate) const VOLUMES: Role = Role(3);
    /// Bytes of large files, by TCP: 7000.
    pub(crate) const BULK: Role = Role(4);
}
