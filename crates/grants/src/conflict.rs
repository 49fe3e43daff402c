//! Tables of conflicts: three tables, and nothing else decides. docs/design/vfs.md shows them; a test goes
//! through every cell.

use crate::caching::{Caching, HeldCaching};
use crate::share::{Access, Share};

/// An operation that may conflict with what others cache: the rows of [`break_action`] (MS-FSA 2.1.4.12, Operation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Opens to see or set attributes alone.
    Look,
    /// Opens to read the access list, and attributes, alone.
    LookAtRights,
    /// Opens for data or to delete.
    Open,
    /// Opens, and puts an end to the content there is.
    Overwrite,
    /// Opens, or acts without an open, and a share mode refuses it.
    Share,
    /// Reads without an open what its holder may keep back: a file that a range is copied from. AFS and HTTP
    /// read what is stored, and break nothing.
    Read,
    /// Changes the content: writes, truncates, punches.
    Write,
    /// Has changed it behind the server's back, whatever share modes say: another program of the machine.
    Behind,
    /// Locks a range of bytes.
    Lock,
    /// Gives the object another name.
    Rename,
    /// Has it deleted when it is closed.
    Delete,
    /// Takes its name away, or gives it to another.
    Remove,
    /// Changes the access list.
    Security,
    /// Changes names in a directory, or what it shows of them.
    Names,
}

/// The effect of an operation on the caching of another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakAction {
    /// The holder keeps its caching.
    Keep,
    /// The holder is sent a break to this; the operation does not wait.
    Notify(Caching),
    /// The holder is sent a break to this, and the operation waits for its acknowledgement.
    AwaitAck(Caching),
}

/// The break that an `operation` of another causes to the holder of `held`.
///
/// Source: MS-FSA 2.1.4.12, with Samba's answers where clients rely on them; the rows `Remove` and, for batch oplocks, `Share`,
/// `Delete` and `Security` are this server's.
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

/// Returns what share modes have to allow to a caller without an open that does this.
pub const fn needs(operation: FileOperation) -> Access {
    match operation {
        FileOperation::Read => Access::READ,
        FileOperation::Write => Access::WRITE,
        FileOperation::Rename | FileOperation::Remove => Access::DELETE,
        _ => Access::NONE,
    }
}

/// Returns whether two opens of one stream can stand beside each other (MS-FSA 2.1.5.1.2.2): each allows what
/// the other may do. One for attributes alone stands beside everything.
pub const fn shares(a: (Access, Share), b: (Access, Share)) -> bool {
    a.0.is_none() || b.0.is_none() || (b.1.allows(a.0) && a.1.allows(b.0))
}

/// The use of a byte range: a lock, a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUse {
    /// A shared lock.
    Shared,
    /// An exclusive lock.
    Exclusive,
    /// To read it.
    Reading,
    /// To write it.
    Writing,
}

/// Returns whether a range can be had that overlaps one which is locked, exclusively or not, by the same open
/// or by another (MS-FSA 2.1.4.10).
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
