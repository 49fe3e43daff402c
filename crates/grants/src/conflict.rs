//! What conflicts with what: three tables, and nothing else decides. docs/design/vfs.md shows them; a test goes through every cell.

use crate::caching::{Caching, Held};
use crate::share::{Access, Share};

/// What somebody is about to do, as the rows of [`answer`] have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Opens to see or set attributes alone.
    Look,
    /// Opens to see who may do what, and attributes, alone.
    LookAtRights,
    /// Opens for data or to delete.
    Open,
    /// Opens, and puts an end to the content there is.
    Overwrite,
    /// Opens, or acts without an open, and a share mode refuses it.
    Share,
    /// Reads without an open what its holder may keep back: a file that a range is copied from. AFS and HTTP read what is stored, and ask
    /// nobody.
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
    /// Changes who may do what with it.
    Security,
    /// Changes names in a directory, or what it shows of them.
    Names,
}

/// What becomes of what another holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It stays as it is.
    Keeps,
    /// The holder is told that this is left to him; nobody waits for him.
    Told(Caching),
    /// He is told, and waited for until he says that he has given it back.
    Awaited(Caching),
}

/// What the holder of `held` has to give back when another `asks`.
///
/// Source: MS-FSA 2.1.4.12, with Samba's answers where clients rely on them; the rows `Remove` and, for batch oplocks, `Share`,
/// `Delete` and `Security` are this server's.
pub const fn answer(asks: Asks, held: Held) -> Answer {
    CACHING[asks as usize][held as usize]
}

#[rustfmt::skip]
const CACHING: [[Answer; 7]; 14] = {
    use Answer::Keeps as ____;
    const NONE: Answer = Answer::Told(Caching::NONE);
    const W_NO: Answer = Answer::Awaited(Caching::NONE);
    const W__R: Answer = Answer::Awaited(Caching::R);
    const W_RH: Answer = Answer::Awaited(Caching::RH);
    const W_RW: Answer = Answer::Awaited(Caching::RW);
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

/// Whether who holds `held` himself keeps it when it is he who `asks`. Level II oplocks go by their holder's own writes and
/// locks too (MS-FSA 2.1.4.12).
pub const fn spares(asks: Asks, held: Held) -> bool {
    !matches!((asks, held), (Asks::Write | Asks::Lock, Held::Level2))
}

/// What share modes have to allow to somebody without an open who does this.
pub const fn needs(asks: Asks) -> Access {
    match asks {
        Asks::Read => Access::READ,
        Asks::Write => Access::WRITE,
        Asks::Rename | Asks::Remove => Access::DELETE,
        _ => Access::NONE,
    }
}

/// Whether two opens of one stream can stand beside each other (MS-FSA 2.1.5.1.2.2): each allows what the other may do. One
/// for attributes alone stands beside everything.
pub const fn shares(a: (Access, Share), b: (Access, Share)) -> bool {
    a.0.is_none() || b.0.is_none() || (b.1.allows(a.0) && a.1.allows(b.0))
}

/// What a range of bytes is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A shared lock.
    Shared,
    /// An exclusive lock.
    Exclusive,
    /// To read it.
    Reading,
    /// To write it.
    Writing,
}

/// Whether a range can be had that overlaps one which is locked, exclusively or not, by the same open or by another
/// (MS-FSA 2.1.4.10).
#[rustfmt::skip]
pub const fn overlaps_well(locked_exclusively: bool, is_same_open: bool, wants: Wants) -> bool {
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
    RANGES[by][wants as usize]
}
