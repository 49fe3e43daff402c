//! Abort codes by the names that AFS's tools give them.

use std::fmt;

use afs_wire::code as wire;

/// Reason why a call was refused: an abort code, shown with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// Returns whether waiting may help: the volume is busy, or its server is starting or stopping.
    pub fn is_busy(self) -> bool {
        matches!(self.0, wire::VBUSY | wire::VOFFLINE | rx::abort::RESTARTING)
    }

    /// Returns whether the volume may be elsewhere by now.
    pub fn is_moved(self) -> bool {
        matches!(self.0, wire::VMOVED | wire::VNOVOL)
    }

    /// Returns whether the server does not know the procedure: an older one may do.
    pub fn is_unknown_procedure(self) -> bool {
        matches!(self.0, xdr::rpc::code::OPCODE | rx::abort::INVALID_OPERATION)
    }

    /// Returns whether the name, or the file, is not there.
    pub fn is_not_found(self) -> bool {
        matches!(self.0, wire::ENOENT | ENOENT | wire::VNOVNODE)
    }

    /// Returns whether the name is taken.
    pub fn is_taken(self) -> bool {
        matches!(self.0, wire::EEXIST | EEXIST)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name_of(self.0) {
            Some((name, meaning)) => write!(f, "{name} ({}): {meaning}", self.0),
            None => write!(f, "code {}", self.0),
        }
    }
}

/// Returns the name and meaning of an abort code, where it has one. Known are those of volumes, of Rx and its stubs, of
/// volume locations and of system calls: as each system numbers them in `unified_afs.et`, and as servers of Linux do.
pub fn name_of(code: i32) -> Option<(&'static str, &'static str)> {
    NAMES.iter().find(|(known, ..)| *known == code).map(|&(_, name, meaning)| (name, meaning))
}

/// Linux's own numbers, which servers send to clients that do not say that they take others.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const EXDEV: i32 = 18;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EMLINK: i32 = 31;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;

/// Base of the codes of volume locations (`vl_errors.et`).
const VL: i32 = 363_520;
/// No such entry.
pub(crate) const VL_NOENT: i32 = VL + 4;

const NAMES: &[(i32, &str, &str)] = &[
    (wire::VSALVAGE, "VSALVAGE", "the volume has to be repaired"),
    (wire::VNOVNODE, "VNOVNODE", "no such file in the volume, or not any more"),
    (wire::VNOVOL, "VNOVOL", "no such volume on this server"),
    (wire::VVOLEXISTS, "VVOLEXISTS", "the volume exists already"),
    (wire::VNOSERVICE, "VNOSERVICE", "the volume is not in service"),
    (wire::VOFFLINE, "VOFFLINE", "the volume is offline"),
    (wire::VONLINE, "VONLINE", "the volume is online already"),
    (wire::VDISKFULL, "VDISKFULL", "the server's disk is full"),
    (wire::VOVERQUOTA, "VOVERQUOTA", "the volume's quota is used up"),
    (wire::VBUSY, "VBUSY", "the volume is busy"),
    (wire::VMOVED, "VMOVED", "the volume is on another server"),
    (wire::VIO, "VIO", "the server's disk failed"),
    (rx::abort::CALL_DEAD, "RX_CALL_DEAD", "the call died"),
    (rx::abort::INVALID_OPERATION, "RX_INVALID_OPERATION", "no such service"),
    (rx::abort::EOF, "RX_EOF", "the call ended early"),
    (rx::abort::PROTOCOL_ERROR, "RX_PROTOCOL_ERROR", "a packet breaks the protocol"),
    (rx::abort::USER_ABORT, "RX_USER_ABORT", "given up"),
    (rx::abort::RESTARTING, "VRESTARTING", "the server starts or stops"),
    (xdr::rpc::code::OPCODE, "RXGEN_OPCODE", "the server has no such procedure"),
    (xdr::rpc::code::SS_UNMARSHAL, "RXGEN_SS_UNMARSHAL", "the server cannot read the request"),
    (xdr::rpc::code::CC_UNMARSHAL, "RXGEN_CC_UNMARSHAL", "the reply cannot be read"),
    (wire::EPERM, "EPERM", "not permitted"),
    (wire::ENOENT, "ENOENT", "no such name"),
    (wire::EIO, "EIO", "the server failed"),
    (wire::EAGAIN, "EAGAIN", "try again"),
    (wire::EACCES, "EACCES", "access denied"),
    (wire::EBUSY, "EBUSY", "in use"),
    (wire::EEXIST, "EEXIST", "the name is taken"),
    (wire::EXDEV, "EXDEV", "over the border of a directory or volume"),
    (wire::ENOTDIR, "ENOTDIR", "not a directory"),
    (wire::EISDIR, "EISDIR", "a directory"),
    (wire::EINVAL, "EINVAL", "a parameter that cannot be"),
    (wire::EFBIG, "EFBIG", "too large"),
    (wire::EROFS, "EROFS", "the volume is read-only"),
    (wire::EMLINK, "EMLINK", "too many names"),
    (wire::ENAMETOOLONG, "ENAMETOOLONG", "the name is too long"),
    (wire::ENOTEMPTY, "ENOTEMPTY", "the directory is not empty"),
    (wire::EWOULDBLOCK, "EWOULDBLOCK", "locked by another"),
    (wire::EOPNOTSUPP, "EOPNOTSUPP", "not done here"),
    (EPERM, "EPERM", "not permitted"),
    (ENOENT, "ENOENT", "no such name"),
    (EIO, "EIO", "the server failed"),
    (EACCES, "EACCES", "access denied"),
    (EEXIST, "EEXIST", "the name is taken"),
    (EXDEV, "EXDEV", "over the border of a directory or volume"),
    (ENOTDIR, "ENOTDIR", "not a directory"),
    (EISDIR, "EISDIR", "a directory"),
    (EINVAL, "EINVAL", "a parameter that cannot be"),
    (EFBIG, "EFBIG", "too large"),
    (ENOSPC, "ENOSPC", "the server's disk is full"),
    (EROFS, "EROFS", "the volume is read-only"),
    (EMLINK, "EMLINK", "too many names"),
    (ENAMETOOLONG, "ENAMETOOLONG", "the name is too long"),
    (ENOTEMPTY, "ENOTEMPTY", "the directory is not empty"),
    (VL_NOENT, "VL_NOENT", "the cell has no such volume"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_with_their_names() {
        assert_eq!(
            Code(wire::VNOVNODE).to_string(),
            "VNOVNODE (102): no such file in the volume, or not any more"
        );
        assert_eq!(Code(VL_NOENT).to_string(), "VL_NOENT (363524): the cell has no such volume");
        assert_eq!(Code(77_777).to_string(), "code 77777");
    }

    #[test]
    fn no_code_has_two_names() {
        for (at, (code, ..)) in NAMES.iter().enumerate() {
            assert!(!NAMES[at + 1..].iter().any(|(other, ..)| other == code), "{code}");
        }
    }

    #[test]
    fn what_may_be_waited_for_is_told_from_what_is_elsewhere() {
        assert!(Code(wire::VBUSY).is_busy() && Code(-100).is_busy() && !Code(wire::VNOVOL).is_busy());
        assert!(Code(wire::VMOVED).is_moved() && !Code(wire::VNOVNODE).is_moved());
    }
}
