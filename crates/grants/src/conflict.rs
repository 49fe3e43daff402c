//! Tables of conflicts: three tables decide, and nothing else.

use crate::caching::{Caching, HeldCaching};
use crate::share::{Access, Share};

/// Operation that may conflict with the caching of other holders: the rows of [`break_action`] (MS-FSA
/// 2.1.4.12, Operation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Open to read or set attributes only.
    Look,
    /// Open to read the access list and attributes only.
    LookAtRights,
    /// Open for data or to delete.
    Open,
    /// Open that replaces the content.
    Overwrite,
    /// Open, or act without an open, that a share mode refuses.
    Share,
    /// Read without an open of data that a holder may not have written back: a file that a range is copied
    /// from. AFS and HTTP read what is stored, and break nothing.
    Read,
    /// Change of the content: write, truncate, punch.
    Write,
    /// Change of the content by another program of the machine, whatever share modes say.
    Behind,
    /// Lock of a byte range.
    Lock,
    /// Rename of the object.
    Rename,
    /// Request to delete the object when it is closed.
    Delete,
    /// Removal of the object's name, or replacement by another object.
    Remove,
    /// Change of the access list.
    Security,
    /// Change of names in a directory, or of the attributes that it lists.
    Names,
}

/// Effect of an operation on the caching of another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakAction {
    /// The holder keeps its caching.
    Keep,
    /// The holder is sent a break to this caching; the operation does not wait.
    Notify(Caching),
    /// The holder is sent a break to this caching, and the operation waits for the acknowledgement.
    AwaitAck(Caching),
}

/// Returns the break that an `operation` of another client causes to the holder of `held`.
///
/// Source: MS-FSA 2.1.4.12, with Samba's answers where clients rely on them; the rows `Remove` and, for batch oplocks,
/// `Share`, `Delete` and `Security` are this server's.
pub const fn break_action(operation: FileOperation, held: HeldCaching) -> BreakAction {
    CACHING[operation as usize][held as usize]
}

#[rustfmt::skip]
const CACHING: [[BreakAction; 7]; 14] = {
    use BreakAction::Keep as ____;
    const NONE: BreakAction = BreakAction::Notify(Caching::NONE);
    const W_NO: BreakAction = BreakAction::AwaitAck(Caching::NONE);
    const W__R: BreakAction = BreakAction::AwaitAck(Caching::R);
    const W_RH: BreakAction = BreakAction::AwaitAck(Caching::RH);
    const W_RW: BreakAction = BreakAction::AwaitAck(Caching::RW);
    [
        // Level2 Exclus. Batch   R     RH    RW    RWH
        [   ____,  ____,  ____,  ____, ____, ____, ____ ], // Look
        [   ____,  W__R,  W__R,  ____, ____, ____, ____ ], // LookAtRights
        [   ____,  W__R,  W__R,  ____, ____, W__R, W_RH ], // Open
        [   NONE,  W_NO,  W_NO,  NONE, NONE, W_NO, W_NO ], // Overwrite
        [   ____,  ____,  W__R,  ____, W__R, ____, W_RW ], // Share
        [   ____,  W__R,  W__R,  ____, ____, W__R, W_RH ], // Read
        [   NONE,  W_NO,  W_NO,  NONE, NONE, W_NO, W_NO ], // Write
        [   NONE,  W_NO,  W_NO,  NONE, NONE, W_NO, W_NO ], // Behind
        [   NONE,  W_NO,  W_NO,  NONE, NONE, W_NO, W_NO ], // Lock
        [   ____,  ____,  W_NO,  ____, W__R, ____, W_RW ], // Rename
        [   ____,  ____,  W__R,  ____, W__R, ____, W_RW ], // Delete
        [   NONE,  W_NO,  W_NO,  NONE, W_NO, W_NO, W_NO ], // Remove
        [   ____,  ____,  W__R,  ____, W__R, ____, W_RW ], // Security
        [   ____,  ____,  ____,  NONE, NONE, NONE, NONE ], // Names
    ]
};

/// Returns whether a holder keeps its own `held` when it makes the `operation` itself. Level II oplocks go by
/// their holder's own writes and locks too (MS-FSA 2.1.4.12).
pub const fn spares(operation: FileOperation, held: HeldCaching) -> bool {
    !matches!((operation, held), (FileOperation::Write | FileOperation::Lock, HeldCaching::Level2))
}

/// Returns the access that share modes have to allow to a caller that makes `operation` without an open.
pub const fn needs(operation: FileOperation) -> Access {
    match operation {
        FileOperation::Read => Access::READ,
        FileOperation::Write => Access::WRITE,
        FileOperation::Rename | FileOperation::Remove => Access::DELETE,
        _ => Access::NONE,
    }
}

/// Returns whether two opens of one stream are compatible: each allows what the other may do (MS-FSA
/// 2.1.5.1.2.2). One for attributes alone stands beside everything.
pub const fn shares(a: (Access, Share), b: (Access, Share)) -> bool {
    a.0.is_none() || b.0.is_none() || (b.1.allows(a.0) && a.1.allows(b.0))
}

/// Use of a byte range: a lock, a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUse {
    /// Shared lock of the range.
    Shared,
    /// Exclusive lock of the range.
    Exclusive,
    /// Read of the range.
    Reading,
    /// Write of the range.
    Writing,
}

/// Returns whether a range may be used that overlaps a locked one (MS-FSA 2.1.4.10).
#[rustfmt::skip]
pub const fn overlaps_well(locked_exclusively: bool, is_same_open: bool, range_use: RangeUse) -> bool {
    let by = match (locked_exclusively, is_same_open) {
        (false, _)    => 0,
        (true, true)  => 1,
        (true, false) => 2,
    };
    const RANGES: [[bool; 4]; 3] = [
        // Shared  Exclusive Reading Writing
        [  true,   false,    true,   false ], // shared, whosever
        [  true,   false,    true,   true  ], // exclusive, the same open's
        [  false,  false,    false,  false ], // exclusive, another's
    ];
    RANGES[by][range_use as usize]
}
