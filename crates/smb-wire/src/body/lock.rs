//! LOCK (MS-SMB2 2.2.26, 2.2.27); its response is [`crate::body::plain::Empty`].

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::{body, prefix_of, wire};
use crate::guid::FileId;
use crate::header::HEADER_LEN;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

/// Most ranges of one request that are taken.
pub const LOCKS_MAX: u16 = 4096;

/// Bits of an element's `Flags`.
pub mod flags {
    /// SMB2_LOCKFLAG_SHARED_LOCK: others may read the range and lock it likewise.
    pub const SHARED: u32 = 1;
    /// SMB2_LOCKFLAG_EXCLUSIVE_LOCK: no other open may use the range.
    pub const EXCLUSIVE: u32 = 2;
    /// SMB2_LOCKFLAG_UNLOCK: the range is unlocked.
    pub const UNLOCK: u32 = 4;
    /// SMB2_LOCKFLAG_FAIL_IMMEDIATELY: a lock that is not free is refused at once.
    pub const FAIL_IMMEDIATELY: u32 = 0x10;
}

body! {
    /// Fixed part of the request, MS-SMB2 2.2.26: without the first element, which `StructureSize` counts.
    pub struct LockRequestFixed = 48 {
        lock_count: U16,
        /// Number in the low 4 bits, index above; see [`LockRequestFixed::sequence`].
        lock_sequence: U32,
        file_id: FileId,
    }
}

wire! {
    /// MS-SMB2 2.2.26.1
    pub struct LockElement {
        offset: U64,
        length: U64,
        flags: U32,
        reserved: U32,
    }
}

/// Number by which a repeated lock request is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSequence {
    /// Entry of the open's table, 1 to 64; others are not kept.
    pub index: u32,
    /// 0 to 15.
    pub number: u8,
}

impl LockRequestFixed {
    /// Returns the sequence, taken apart.
    pub fn sequence(&self) -> LockSequence {
        let word = self.lock_sequence.get();
        LockSequence { index: word >> 4, number: (word & 0xf) as u8 }
    }
}

/// Ranges to lock or unlock.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest<'a> {
    /// The fixed part.
    pub fixed: &'a LockRequestFixed,
    /// The ranges: at least one.
    pub locks: &'a [LockElement],
}

impl<'a> LockRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<LockRequestFixed>()?;
        let count = fixed.lock_count.get();
        //= MS-SMB2 3.3.5.14
        //# LockCount of zero fails with STATUS_INVALID_PARAMETER.
        if count == 0 || count > LOCKS_MAX {
            return Err(Malformed::Count);
        }
        Ok(Self { fixed, locks: prefix_of(message.after::<LockRequestFixed>(), count.into())? })
    }

    /// Returns the length of the message up to the end of the last range.
    pub fn end(&self) -> usize {
        HEADER_LEN + size_of::<LockRequestFixed>() + size_of_val(self.locks)
    }

    /// Appends a request for at least one range.
    pub fn write(body: &mut Body<'_>, mut fixed: LockRequestFixed, locks: &[LockElement]) {
        fixed.lock_count.set(u16::try_from(locks.len()).expect("few ranges"));
        body.push(&fixed);
        for lock in locks {
            body.push(lock);
        }
    }
}
