//! Control codes of IOCTL and their data (MS-SMB2 2.2.31, 2.2.32, MS-FSCC 2.3).

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
    /// FSCTL_DFS_GET_REFERRALS: resolves a DFS path.
    pub const DFS_GET_REFERRALS: u32 = 0x0006_0194;
    /// FSCTL_DFS_GET_REFERRALS_EX: resolves a DFS path for a client of a named site.
    pub const DFS_GET_REFERRALS_EX: u32 = 0x0006_01b0;
    /// FSCTL_GET_COMPRESSION: returns a file's compression format.
    pub const GET_COMPRESSION: u32 = 0x0009_003c;
    /// FSCTL_SET_COMPRESSION: sets a file's compression format.
    pub const SET_COMPRESSION: u32 = 0x0009_c040;
    /// FSCTL_SET_REPARSE_POINT: makes a file a reparse point, such as a symbolic link.
    pub const SET_REPARSE_POINT: u32 = 0x0009_00a4;
    /// FSCTL_GET_REPARSE_POINT: returns a reparse point's data.
    pub const GET_REPARSE_POINT: u32 = 0x0009_00a8;
    /// FSCTL_DELETE_REPARSE_POINT: removes the reparse point of a file (MS-FSCC 2.3.5).
    pub const DELETE_REPARSE_POINT: u32 = 0x0009_00ac;
    /// FSCTL_CREATE_OR_GET_OBJECT_ID: returns an id that stays with the file.
    pub const CREATE_OR_GET_OBJECT_ID: u32 = 0x0009_00c0;
    /// FSCTL_SET_SPARSE: lets a file have holes, or not.
    pub const SET_SPARSE: u32 = 0x0009_00c4;
    /// FSCTL_SET_ZERO_DATA: zeroes a byte range, and deallocates it in a sparse file.
    pub const SET_ZERO_DATA: u32 = 0x0009_80c8;
    /// FSCTL_QUERY_ALLOCATED_RANGES: lists the allocated ranges of a file.
    pub const QUERY_ALLOCATED_RANGES: u32 = 0x0009_40cf;
    /// FSCTL_DUPLICATE_EXTENTS_TO_FILE: shares a byte range of another file.
    pub const DUPLICATE_EXTENTS_TO_FILE: u32 = 0x0009_8344;
    /// FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX: shares a byte range of another file, atomically if that is asked
    /// for.
    pub const DUPLICATE_EXTENTS_TO_FILE_EX: u32 = 0x0009_83e8;
    /// FSCTL_OFFLOAD_READ: returns a token for a byte range.
    pub const OFFLOAD_READ: u32 = 0x0009_4264;
    /// FSCTL_OFFLOAD_WRITE: copies the data that a token stands for.
    pub const OFFLOAD_WRITE: u32 = 0x0009_8268;
    /// FSCTL_FILE_LEVEL_TRIM: gives byte ranges back to the disk.
    pub const FILE_LEVEL_TRIM: u32 = 0x0009_8208;
    /// FSCTL_PIPE_PEEK: reads a pipe's data without consuming it.
    pub const PIPE_PEEK: u32 = 0x0011_400c;
    /// FSCTL_PIPE_WAIT: waits until a pipe can be opened.
    pub const PIPE_WAIT: u32 = 0x0011_0018;
    /// FSCTL_PIPE_TRANSCEIVE: writes to a pipe and reads its answer.
    pub const PIPE_TRANSCEIVE: u32 = 0x0011_c017;
    /// FSCTL_SRV_ENUMERATE_SNAPSHOTS: lists the snapshots of a file.
    pub const SRV_ENUMERATE_SNAPSHOTS: u32 = 0x0014_4064;
    /// FSCTL_SRV_REQUEST_RESUME_KEY: returns a key that names a file to copy from.
    pub const SRV_REQUEST_RESUME_KEY: u32 = 0x0014_0078;
    /// FSCTL_SRV_COPYCHUNK: copies ranges on the server; the target must be open for reading too.
    pub const SRV_COPYCHUNK: u32 = 0x0014_40f2;
    /// FSCTL_SRV_COPYCHUNK_WRITE: copies ranges on the server; the target need be open for writing alone.
    pub const SRV_COPYCHUNK_WRITE: u32 = 0x0014_80f2;
    /// FSCTL_LMR_REQUEST_RESILIENCY: asks that an open outlive its connection.
    pub const LMR_REQUEST_RESILIENCY: u32 = 0x0014_01d4;
    /// FSCTL_QUERY_NETWORK_INTERFACE_INFO: lists the server's network interfaces.
    pub const QUERY_NETWORK_INTERFACE_INFO: u32 = 0x0014_01fc;
    /// FSCTL_VALIDATE_NEGOTIATE_INFO: checks that the negotiation was not changed on its way.
    pub const VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
    /// Code of Samba's tests: what the connection was sent counts as never acknowledged from now on.
    pub const TEST_FORCE_UNACKED: u32 = 0x8384_8003;
    /// Code of Samba's tests: is answered with [`TEST_PADDING`](super::TEST_PADDING) zeros before its output, which is
    /// so many bytes of 8 as there is room for.
    pub const TEST_PAD_IOCTL: u32 = 0x8384_8013;
    /// Code of Samba's tests: the same zeros stand before the data of each READ of the connection from now on.
    pub const TEST_PAD_READS: u32 = 0x8384_8023;
    /// Code of Samba's tests: is answered after so many milliseconds, as its one byte of input says.
    pub const TEST_ASYNC_SLEEP: u32 = 0x8384_8043;
}
