//! Fragments: what a protocol data unit of connection-oriented DCE/RPC says (C706 12.6, MS-RPCE 2.2.2).

use smb_wire::Guid;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Longest fragment that is sent, and that clients are asked to send, bytes: as with Windows.
pub(crate) const FRAGMENT_MAX: usize = 4280;
/// Longest fragment that is taken: first ones may be of Ethernet's size (C706 12.6.3.4).
pub(crate) const FRAGMENT_TAKEN_MAX: usize = 5840;
/// Shortest fragment that a side must take (C706 12.6.3.1, MustRecvFragSize).
pub(crate) const FRAGMENT_MIN: usize = 1432;

/// `PTYPE`.
pub(crate) mod kind {
    pub(crate) const REQUEST: u8 = 0;
    pub(crate) const RESPONSE: u8 = 2;
    pub(crate) const FAULT: u8 = 3;
    pub(crate) const BIND: u8 = 11;
    pub(crate) const BIND_ACK: u8 = 12;
    pub(crate) const BIND_NAK: u8 = 13;
    pub(crate) const ALTER_CONTEXT: u8 = 14;
    pub(crate) const ALTER_CONTEXT_RESPONSE: u8 = 15;
    pub(crate) const CO_CANCEL: u8 = 18;
    pub(crate) const ORPHANED: u8 = 19;
}

/// `pfc_flags`.
pub(crate) mod flags {
    pub(crate) const FIRST: u8 = 0x01;
    pub(crate) const LAST: u8 = 0x02;
    pub(crate) const DID_NOT_EXECUTE: u8 = 0x20;
    pub(crate) const OBJECT: u8 = 0x80;
}

/// Reason why a call failed before its interface could say so (C706 appendix E, MS-RPCE 2.2.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) u32);

impl Fault {
    /// `ERROR_ACCESS_DENIED`.
    pub(crate) const ACCESS_DENIED: Self = Self(5);
    /// `RPC_X_BAD_STUB_DATA`: the arguments are not those of the call.
    pub(crate) const BAD_STUB: Self = Self(0x6f7);
    /// `nca_op_rng_error`: the interface has no such call here.
    pub(crate) const NO_SUCH_CALL: Self = Self(0x1c01_0002);
    /// `nca_unk_if`: no such interface was agreed on.
    pub(crate) const UNKNOWN_INTERFACE: Self = Self(0x1c01_0003);
    /// `nca_s_fault_remote_no_memory`: more than is taken.
    pub(crate) const TOO_MUCH: Self = Self(0x1c00_001d);
    /// `nca_s_fault_context_mismatch`: an unknown handle.
    pub(crate) const NO_SUCH_HANDLE: Self = Self(0x1c00_001a);
}

/// Head of every fragment.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    version: u8,
    version_minor: u8,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    representation: [u8; 4],
    pub(crate) fragment_len: U16,
    pub(crate) auth_len: U16,
    pub(crate) call: U32,
}

/// Length of [`Head`].
pub(crate) const HEAD_LEN: usize = size_of::<Head>();

/// Nothing that follows can be understood: the pipe is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Head {
    /// Parses the head of the fragment that `bytes` begin with; `None` if it is not all there yet.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<&Self>, Broken> {
        let Ok((head, _)) = Self::ref_from_prefix(bytes) else { return Ok(None) };
        let is_known = head.version == 5 && head.version_minor <= 1;
        // Little-endian, ASCII, IEEE: what every SMB client says.
        let is_readable = head.representation[..2] == [0x10, 0];
        let len = usize::from(head.fragment_len.get());
        if !is_known || !is_readable || !(HEAD_LEN..=FRAGMENT_TAKEN_MAX).contains(&len) {
            return Err(Broken);
        }
        Ok(Some(head))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a fragment: a head, what `fill` writes, and the length of both.
pub(crate) fn write(kind: u8, flags: u8, call: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let head = Head {
        version: 5,
        version_minor: 0,
        kind,
        flags,
        representation: [0x10, 0, 0, 0],
        fragment_len: U16::ZERO,
        auth_len: U16::ZERO,
        call: call.into(),
    };
    let mut out = head.as_bytes().to_vec();
    fill(&mut out);
    let len = u16::try_from(out.len()).expect("fragments are short");
    out[8..10].copy_from_slice(&len.to_le_bytes());
    out
}

/// Encodes a fault, which is the whole answer.
pub(crate) fn fault(call: u32, context: u16, fault: Fault) -> Vec<u8> {
    write(kind::FAULT, flags::FIRST | flags::LAST | flags::DID_NOT_EXECUTE, call, |out| {
        out.extend(0u32.to_le_bytes());
        out.extend(context.to_le_bytes());
        out.extend([0, 0]);
        out.extend(fault.0.to_le_bytes());
        out.extend([0; 4]);
    })
}

/// Encodes an answer, in fragments of at most `fragment_max` bytes.
pub(crate) fn responses(call: u32, context: u16, stub: &[u8], fragment_max: usize) -> Vec<Vec<u8>> {
    let room = (fragment_max - HEAD_LEN - 8) / 8 * 8;
    let count = stub.len().div_ceil(room).max(1);
    let fragment = |index: usize| {
        let part = &stub[index * room..stub.len().min((index + 1) * room)];
        let first = if index == 0 { flags::FIRST } else { 0 };
        let last = if index + 1 == count { flags::LAST } else { 0 };
        write(kind::RESPONSE, first | last, call, |out| {
            out.extend((stub.len() as u32 - (index * room) as u32).to_le_bytes());
            out.extend(context.to_le_bytes());
            out.extend([0, 0]);
            out.extend(part);
        })
    };
    (0..count).map(fragment).collect()
}

/// Identifier of an interface or a syntax: an identifier and a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Syntax {
    pub(crate) id: Guid,
    /// Major in the low half, minor in the high one.
    pub(crate) version: U32,
}

impl Syntax {
    /// NDR 2.0 (C706 14).
    pub(crate) const NDR: Self = Self::new(
        [0x04, 0x5d, 0x88, 0x8a, 0xeb, 0x1c, 0xc9, 0x11, 0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60],
        2,
    );

    pub(crate) const fn new(id: [u8; 16], version: u32) -> Self {
        Self { id: Guid::new(id), version: U32::from_bytes(version.to_le_bytes()) }
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Broken> {
        Self::read_from_prefix(bytes).map_err(|_| Broken)
    }
}
