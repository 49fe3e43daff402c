//! Records of hosts that hold callbacks, to notify after an unclean stop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::Error;
use crate::codec::Fields;

/// Record of an AFS host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRecord {
    /// Epoch of the host, which rises when all its callbacks become void at once.
    pub epoch: u64,
    /// State of the host when last contacted.
    pub state: HostState,
    /// Time of the last contact, in seconds since 1970.
    pub seen: i64,
    /// Addresses that may reach the host, at most 32.
    pub addresses: Vec<SocketAddr>,
}

/// Reachability of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// The host answers calls.
    Up,
    /// The host did not answer, and gets its missed breaks before its next call.
    Down,
}

impl HostRecord {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let count = u8::try_from(self.addresses.len()).ok().filter(|count| *count <= ADDRESSES_MAX);
        let count = count.ok_or(Error::TooLong { what: "a host's addresses", max: ADDRESSES_MAX.into() })?;
        let mut value = Vec::with_capacity(24 + self.addresses.len() * 19);
        value.extend(self.epoch.to_le_bytes());
        value.push(matches!(self.state, HostState::Down).into());
        value.extend(self.seen.to_le_bytes());
        value.push(count);
        for address in &self.addresses {
            match address.ip() {
                IpAddr::V4(ip) => {
                    value.push(4);
                    value.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    value.push(6);
                    value.extend(ip.octets());
                }
            }
            value.extend(address.port().to_le_bytes());
        }
        Ok(value)
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of(value, "a host's record");
        let epoch = fields.u64()?;
        let state = match fields.u8()? {
            0 => HostState::Up,
            1 => HostState::Down,
            _ => return Err(fields.damaged("its state is none")),
        };
        let seen = fields.i64()?;
        let count = fields.u8()?;
        let mut addresses = Vec::with_capacity(count.into());
        for _ in 0..count {
            let ip = match fields.u8()? {
                4 => IpAddr::from(Ipv4Addr::from(fields.array::<4>()?)),
                6 => IpAddr::from(Ipv6Addr::from(fields.array::<16>()?)),
                _ => return Err(fields.damaged("an address is of no family")),
            };
            addresses.push(SocketAddr::new(ip, fields.u16()?));
        }
        Ok(Self { epoch, state, seen, addresses })
    }
}

/// Most addresses of a host, as many as AFS's interface lists carry (AFS_MAX_INTERFACE_ADDR).
const ADDRESSES_MAX: u8 = 32;
