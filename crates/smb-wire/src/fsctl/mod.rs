//! What the control codes of IOCTL carry (MS-SMB2 2.2.31, 2.2.32, MS-FSCC 2.3).

pub mod compression;
pub mod copy;
pub mod interfaces;
pub mod negotiate_info;
pub mod pipe_wait;
pub mod ranges;
pub mod reparse;

/// Zeros that Samba's tests have stand between the fixed part of a response and its data.
pub const TEST_PADDING: [u8; 8] = [0; 8];

/// `CtlCode`.
pub mod code {
    /// Where a path of DFS leads.
    pub const DFS_GET_REFERRALS: u32 = 0x0006_0194;
    /// And to which site.
    pub const DFS_GET_REFERRALS_EX: u32 = 0x0006_01b0;
    /// How a file is compressed.
    pub const GET_COMPRESSION: u32 = 0x0009_003c;
    /// Sets it.
    pub const SET_COMPRESSION: u32 = 0x0009_c040;
    /// Makes a link of a file.
    pub const SET_REPARSE_POINT: u32 = 0x0009_00a4;
    /// What link it is.
    pub const GET_REPARSE_POINT: u32 = 0x0009_00a8;
    /// Makes it none.
    pub const DELETE_REPARSE_POINT: u32 = 0x0009_00ac;
    /// An id that stays with the file.
    pub const CREATE_OR_GET_OBJECT_ID: u32 = 0x0009_00c0;
    /// The file may have holes.
    pub const SET_SPARSE: u32 = 0x0009_00c4;
    /// Makes one.
    pub const SET_ZERO_DATA: u32 = 0x0009_80c8;
    /// Where there is none.
    pub const QUERY_ALLOCATED_RANGES: u32 = 0x0009_40cf;
    /// Shares another file's bytes.
    pub const DUPLICATE_EXTENTS_TO_FILE: u32 = 0x0009_8344;
    /// The same, wholly or not at all if that is asked for.
    pub const DUPLICATE_EXTENTS_TO_FILE_EX: u32 = 0x0009_83e8;
    /// What data can be copied by a token.
    pub const OFFLOAD_READ: u32 = 0x0009_4264;
    /// Copies it.
    pub const OFFLOAD_WRITE: u32 = 0x0009_8268;
    /// Gives ranges back to the disk.
    pub const FILE_LEVEL_TRIM: u32 = 0x0009_8208;
    /// What a pipe holds.
    pub const PIPE_PEEK: u32 = 0x0011_400c;
    /// Waits for a pipe.
    pub const PIPE_WAIT: u32 = 0x0011_0018;
    /// Writes to a pipe and reads its answer.
    pub const PIPE_TRANSCEIVE: u32 = 0x0011_c017;
    /// Snapshots of a file.
    pub const SRV_ENUMERATE_SNAPSHOTS: u32 = 0x0014_4064;
    /// A key that names a file to copy from.
    pub const SRV_REQUEST_RESUME_KEY: u32 = 0x0014_0078;
    /// Copies from a file that may only be written.
    pub const SRV_COPYCHUNK: u32 = 0x0014_40f2;
    /// The same, without reading rights.
    pub const SRV_COPYCHUNK_WRITE: u32 = 0x0014_80f2;
    /// A handle that outlives its connection.
    pub const LMR_REQUEST_RESILIENCY: u32 = 0x0014_01d4;
    /// The server's addresses.
    pub const QUERY_NETWORK_INTERFACE_INFO: u32 = 0x0014_01fc;
    /// Whether somebody changed the negotiation on its way.
    pub const VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
    /// Of Samba's tests: what the connection was sent counts as never acknowledged from now on.
    pub const TEST_FORCE_UNACKED: u32 = 0x8384_8003;
    /// Of Samba's tests: is answered with [`TEST_PADDING`](super::TEST_PADDING) zeros before its output, which is so many bytes of 8 as
    /// there is room for.
    pub const TEST_PAD_IOCTL: u32 = 0x8384_8013;
    /// Of Samba's tests: the same zeros stand before the data of each READ of the connection from now on.
    pub const TEST_PAD_READS: u32 = 0x8384_8023;
    /// Of Samba's tests: is answered after so many milliseconds, as its one byte of input says.
    pub const TEST_ASYNC_SLEEP: u32 = 0x8384_8043;
}
