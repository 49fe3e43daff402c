//! Abort codes: the reason why a call failed, for the client.
//!
//! Two tables, both of AFS: what a volume or vnode is short of (101 to 112), and what a system call would have said. The
//! latter is not sent as a server's own `errno` but as the number that every system's client translates into its own
//! (`unified_afs.et`, base 0x2f6df00): all clients since 2005 say that they take these
//! ([`CAPABILITY_ERROR_TRANSLATION`](crate::CAPABILITY_ERROR_TRANSLATION)), and Linux's takes no others above 32.

/// The volume has to be repaired.
pub const VSALVAGE: i32 = 101;
/// VNOVNODE: the volume has no such file; its vnode is free, or another file's by now.
pub const VNOVNODE: i32 = 102;
/// VNOVOL: the server has no volume of this number.
pub const VNOVOL: i32 = 103;
/// The volume exists already.
pub const VVOLEXISTS: i32 = 104;
/// The volume is not in service.
pub const VNOSERVICE: i32 = 105;
/// The volume is offline.
pub const VOFFLINE: i32 = 106;
/// The volume is online already.
pub const VONLINE: i32 = 107;
/// The disk is full.
pub const VDISKFULL: i32 = 108;
/// The volume's quota is used up.
pub const VOVERQUOTA: i32 = 109;
/// The volume is busy for a while: clients wait, and ask again.
pub const VBUSY: i32 = 110;
/// The volume is on another server now.
pub const VMOVED: i32 = 111;
/// VIO: an input or output error of the disk.
pub const VIO: i32 = 112;

/// EPERM: the operation is not permitted.
pub const EPERM: i32 = UAE;
/// ENOENT: the name does not exist.
pub const ENOENT: i32 = UAE + 1;
/// EIO: an input or output error of the disk.
pub const EIO: i32 = UAE + 4;
/// EAGAIN: the operation cannot be done now and may be tried again.
pub const EAGAIN: i32 = UAE + 10;
/// EACCES: the caller lacks the rights.
pub const EACCES: i32 = UAE + 12;
/// The file is in use.
pub const EBUSY: i32 = UAE + 15;
/// The name is taken.
pub const EEXIST: i32 = UAE + 16;
/// EXDEV: the rename or link would cross a volume, or a directory that links may not leave.
pub const EXDEV: i32 = UAE + 17;
/// ENOTDIR: the operation needs a directory.
pub const ENOTDIR: i32 = UAE + 19;
/// EISDIR: the operation needs a file, not a directory.
pub const EISDIR: i32 = UAE + 20;
/// EINVAL: a parameter has no valid value.
pub const EINVAL: i32 = UAE + 21;
/// EFBIG: the file or directory would exceed the largest size.
pub const EFBIG: i32 = UAE + 26;
/// The volume is read-only.
pub const EROFS: i32 = UAE + 29;
/// EMLINK: the file has as many names as it can have.
pub const EMLINK: i32 = UAE + 30;
/// The name is too long.
pub const ENAMETOOLONG: i32 = UAE + 35;
/// ENOTEMPTY: the directory has names in it.
pub const ENOTEMPTY: i32 = UAE + 38;
/// EWOULDBLOCK: another client holds a lock; the answer of `SetLock`.
pub const EWOULDBLOCK: i32 = UAE + 40;
/// EOPNOTSUPP: the operation is not supported.
pub const EOPNOTSUPP: i32 = UAE + 93;

pub mod cell;
pub mod oob;

/// Base of the system error codes: `ERROR_TABLE_BASE_uae`.
const UAE: i32 = 0x02f6_df00;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks numbers from Linux's `fs/afs/protocol_uae.h`.
    #[test]
    fn system_errors_have_the_numbers_of_every_system() {
        for (code, number) in [
            (EACCES, 0x2f6_df0c),
            (EEXIST, 0x2f6_df10),
            (EFBIG, 0x2f6_df1a),
            (EROFS, 0x2f6_df1d),
            (ENAMETOOLONG, 0x2f6_df23),
            (ENOTEMPTY, 0x2f6_df26),
            (EWOULDBLOCK, 0x2f6_df28),
            (EOPNOTSUPP, 0x2f6_df5d),
        ] {
            assert_eq!(code, number);
        }
    }
}
