//! Options of the commands for AFS cells: where to find a cell, and their identity to it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use afs_client::{Address, CellOptions};
use anyhow::Context;
use xdr::afs::AfsUuid;

/// Where a cell is.
#[derive(Clone, Debug, clap::Args)]
pub struct Where {
    /// Who knows where volumes are, such as 10.0.0.1:7003; without it the address's host, at a port 3 higher
    #[arg(long, value_name = "HOST[:PORT]")]
    location: Option<String>,
    /// The cell's name, where its mount points say it
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
    /// How long a busy volume or a server that restarts is waited for, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=3600))]
    patience: u32,
}

impl Where {
    /// Returns where the cell of an address is.
    pub fn options(&self, address: &Address) -> anyhow::Result<CellOptions> {
        let options = CellOptions::of(address).with_context(|| format!("cannot find {}", address.host))?;
        let locations = match &self.location {
            Some(host) => resolve(host, LOCATION_PORT)?,
            None => options.locations,
        };
        Ok(CellOptions { locations, name: self.cell.clone(), ..options })
    }

    /// Returns how long a busy volume is waited for.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience.into())
    }
}

/// Creates a random identity (RFC 9562 version 4).
pub fn new_uuid() -> AfsUuid {
    let mut bytes = [0; 16];
    // Without random numbers two clients may be taken for one; what they get is right all the same.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    AfsUuid(bytes)
}

/// Finds the address of `HOST:PORT`, or of `HOST` with `port`.
///
/// # Errors
/// It is neither, or has no address.
pub fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let found = host.to_socket_addrs().or_else(|_| (host, port).to_socket_addrs());
    let mut found = found.with_context(|| format!("{host} is not HOST[:PORT]"))?;
    found.next().with_context(|| format!("{host} has no address"))
}

/// Port of the location service.
const LOCATION_PORT: u16 = 7003;
