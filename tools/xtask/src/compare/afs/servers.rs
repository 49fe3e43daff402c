//! What both file servers have in common.

use std::net::{Ipv4Addr, SocketAddr};

use testkit::netns::ip;

/// One of the two servers.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) process: u32,
}

/// Gives a device its address and takes it up.
pub(super) fn plug(device: &str, address: Ipv4Addr, mtu: u32) -> anyhow::Result<()> {
    ip(&format!("link set {device} mtu {mtu}"))?;
    ip(&format!("addr add {address}/24 dev {device}"))?;
    Ok(ip(&format!("link set {device} up"))?)
}

/// Served by both, writable by every user.
pub(super) const VOLUME: &str = "pub";
pub(super) const FILE_SERVER_PORT: u16 = 7000;
