//! Abort codes: how a client is told why a call failed.
//!
//! Two tables, both of AFS: what a volume or vnode is short of (101 to 112), and what a system call would have said. The
//! latter is not sent as a server's own `errno` but as the number that every system's client translates into its own
//! (`unified_afs.et`, base 0x2f6df00): all clients since 2005 say that they take these
//! ([`CAPABILITY_ERROR_TRANSLATION`](crate::CAPABILITY_ERROR_TRANSLATION)), and Linux's takes no others above 32.

/// The volume has to be repaired.
pub const VSALVAGE: i32 = 101;
/// No such file in the volume: its vnode is free, or another file's by now.
pub const VNOVNODE: i32 = 102;
/// No such volume here.
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
/// The disk failed.
pub const VIO: i32 = 112;

/// Operation not permitted.
pub const EPERM: i32 = UAE;
/// No such name.
pub const ENOENT: i32 = UAE + 1;
/// The disk failed.
pub const EIO: i32 = UAE + 4;
/// Try again.
pub const EAGAIN: i32 = UAE + 10;
/// The caller has not the rights.
pub const EACCES: i32 = UAE + 12;
/// The file is in use.
pub const EBUSY: i32 = UAE + 15;
/// The name is taken.
pub const EEXIST: i32 = UAE + 16;
/// Over the border of a directory, where links may not go, or of a volume.
pub const EXDEV: i32 = UAE + 17;
/// A directory was needed.
pub const ENOTDIR: i32 = UAE + 19;
/// A file was needed.
pub const EISDIR: i32 = UAE + 20;
/// A parameter that cannot be.
pub const EINVAL: i32 = UAE + 21;
/// Longer than files, or directories, can be.
pub const EFBIG: i32 = UAE + 26;
/// The volume is read-only.
pub const EROFS: i32 = UAE + 29;
/// As many names as a file can have.
pub const EMLINK: i32 = UAE + 30;
/// The name is too long.
pub const ENAMETOOLONG: i32 = UAE + 35;
/// The directory has names in it.
pub const ENOTEMPTY: i32 = UAE + 38;
/// A lock that another holds (`EWOULDBLOCK`, which is what `SetLock` answers).
pub const EWOULDBLOCK: i32 = UAE + 40;
/// EOPNOTSUPP: the operation is not supported.
pub const EOPNOTSUPP: i32 = UAE + 93;

pub mod cell;
pub mod oob;

/// Base of the table of system errors: `ERROR_TABLE_BASE_uae`.
const UAE: i32 = 0x02f6_df00;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from Linux's `fs/afs/protocol_uae.h`.
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
