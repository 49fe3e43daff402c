//! OPLOCK_BREAK (MS-SMB2 2.2.23 to 2.2.25): what a server takes back, and what the client answers. Six structures share
//! one command; their sizes tell them apart.

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::{Fixed, body};
use crate::guid::{FileId, Guid};
use crate::malformed::Malformed;
use crate::message::Message;

/// `Flags` of a lease break: the client has to answer.
pub const FLAG_ACK_REQUIRED: u32 = 1;

body! {
    /// Notification, acknowledgment and response of an oplock, MS-SMB2 2.2.23.1, 2.2.24.1, 2.2.25.1.
    pub struct OplockBreak = 24 {
        oplock_level: u8,
        reserved: u8,
        reserved2: U32,
        file_id: FileId,
    }
}

body! {
    /// Notification of a lease, MS-SMB2 2.2.23.2.
    pub struct LeaseBreak = 44 {
        new_epoch: U16,
        flags: U32,
        lease_key: Guid,
        current_lease_state: U32,
        new_lease_state: U32,
        break_reason: U32,
        access_mask_hint: U32,
        share_mask_hint: U32,
    }
}

body! {
    /// Acknowledgment and response of a lease, MS-SMB2 2.2.24.2, 2.2.25.2.
    pub struct LeaseBreakAck = 36 {
        reserved: U16,
        flags: U32,
        lease_key: Guid,
        lease_state: U32,
        lease_duration: U64,
    }
}

/// Break or acknowledgement, of an oplock or a lease.
#[derive(Clone, Copy, Debug)]
pub enum Break<'a> {
    /// Break of an oplock from the server, acknowledgement from the client, or answer to it.
    Oplock(&'a OplockBreak),
    /// Break of a lease, from the server unasked.
    Lease(&'a LeaseBreak),
    /// Acknowledgement of a lease break from the client, or the server's answer to it.
    LeaseAck(&'a LeaseBreakAck),
}

impl<'a> Break<'a> {
    /// Reads whichever it is. A server refuses [`Break::Lease`], which no client sends.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let size = message.body().first_chunk().ok_or(Malformed::Short)?;
        match u16::from_le_bytes(*size) {
            OplockBreak::STRUCTURE_SIZE => message.fixed().map(Self::Oplock),
            LeaseBreak::STRUCTURE_SIZE => message.fixed().map(Self::Lease),
            LeaseBreakAck::STRUCTURE_SIZE => message.fixed().map(Self::LeaseAck),
            _ => Err(Malformed::StructureSize),
        }
    }
}
