//! Leases as they are asked for and granted (MS-SMB2 2.2.13.2.8, 2.2.13.2.10).

use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::wire;
use crate::guid::Guid;
use crate::malformed::Malformed;

/// Bits of `LeaseState`.
pub mod state {
    /// SMB2_LEASE_READ_CACHING: reads may be cached.
    pub const READ: u32 = 1;
    /// The handle may outlive its application.
    pub const HANDLE: u32 = 2;
    /// SMB2_LEASE_WRITE_CACHING: writes may be cached.
    pub const WRITE: u32 = 4;
}

/// Bits of `LeaseFlags`.
pub mod flags {
    /// A break is on its way.
    pub const BREAK_IN_PROGRESS: u32 = 2;
    /// The parent's key is set (v2).
    pub const PARENT_LEASE_KEY_SET: u32 = 4;
}

wire! {
    /// MS-SMB2 2.2.13.2.8 and 2.2.14.2.10
    pub struct LeaseV1 {
        lease_key: Guid,
        lease_state: U32,
        lease_flags: U32,
        lease_duration: U64,
    }
}

wire! {
    /// MS-SMB2 2.2.13.2.10 and 2.2.14.2.11
    pub struct LeaseV2 {
        lease_key: Guid,
        lease_state: U32,
        lease_flags: U32,
        lease_duration: U64,
        parent_lease_key: Guid,
        epoch: U16,
        reserved: U16,
    }
}

/// Request or grant of a lease, of either version: their lengths tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease<'a> {
    /// Version 1, of dialect 2.1 and newer.
    V1(&'a LeaseV1),
    /// Version 2, of dialect 3.0 and newer.
    V2(&'a LeaseV2),
}

impl<'a> Lease<'a> {
    /// Parses a context's data.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        const V1: usize = size_of::<LeaseV1>();
        const V2: usize = size_of::<LeaseV2>();
        match data.len() {
            V1 => LeaseV1::ref_from_bytes(data).map(Self::V1).map_err(|_| Malformed::Short),
            V2 => LeaseV2::ref_from_bytes(data).map(Self::V2).map_err(|_| Malformed::Short),
            _ => Err(Malformed::Value),
        }
    }

    /// Returns the lease key.
    pub fn key(&self) -> Guid {
        match self {
            Self::V1(lease) => lease.lease_key,
            Self::V2(lease) => lease.lease_key,
        }
    }

    /// Returns the bits of [`state`].
    pub fn state(&self) -> u32 {
        match self {
            Self::V1(lease) => lease.lease_state.get(),
            Self::V2(lease) => lease.lease_state.get(),
        }
    }

    /// Returns the key of the directory's lease, where one is given.
    pub fn parent(&self) -> Option<Guid> {
        match self {
            Self::V2(lease) if lease.lease_flags.get() & flags::PARENT_LEASE_KEY_SET != 0 => {
                Some(lease.parent_lease_key)
            }
            _ => None,
        }
    }
}
