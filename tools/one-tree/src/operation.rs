//! Steps of a run: what is done, by which party, and which looks follow.

/// A name that a run uses. It leads to a file, an empty directory or nothing; or it is [`DIRECTORIES`]' own, which
/// always leads to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path(pub(crate) u8);

/// Disposition of an SMB client's open of a file that lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Open,
    Create,
    OpenIf,
    Overwrite,
    OverwriteIf,
}

/// Condition of an upload on an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Anything,
    /// The content that was last read by this name (`If-Match`).
    AsRead,
    /// Nothing (`If-None-Match: *`).
    Nothing,
}

/// The lease or oplock that an open asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lease {
    None,
    Read,
    ReadHandle,
    ReadWriteHandle,
    /// These are oplocks.
    LevelTwo,
    Exclusive,
    Batch,
}

/// End of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server stops in order.
    Stop,
    /// The server's process is killed.
    Kill,
    /// The server's machine loses power, and with it what was not synced.
    Power,
}

/// Operation of a step. `client` is one of two, `slot` one of the opens of an SMB client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    SmbOpen {
        client: u8,
        slot: u8,
        path: Path,
        disposition: Disposition,
        writes: bool,
        shares: bool,
        lease: Lease,
    },
    SmbOpenDirectory {
        client: u8,
        slot: u8,
        path: Path,
        shares: bool,
        lease: Lease,
    },
    SmbWrite {
        client: u8,
        slot: u8,
        offset: u16,
        len: u16,
    },
    SmbTruncate {
        client: u8,
        slot: u8,
        len: u16,
    },
    SmbRename {
        client: u8,
        slot: u8,
        to: Path,
        replace: bool,
    },
    SmbLink {
        client: u8,
        slot: u8,
        to: Path,
    },
    /// The file is to go with its last open.
    SmbDispose {
        client: u8,
        slot: u8,
    },
    SmbClose {
        client: u8,
        slot: u8,
    },
    SmbMove {
        client: u8,
        from: Path,
        to: Path,
        replace: bool,
    },
    SmbLinkName {
        client: u8,
        from: Path,
        to: Path,
    },
    SmbRemove {
        client: u8,
        path: Path,
    },
    SmbMakeDirectory {
        client: u8,
        path: Path,
    },
    AfsRead {
        client: u8,
        path: Path,
    },
    AfsList {
        client: u8,
        directory: u8,
    },
    AfsCreate {
        client: u8,
        path: Path,
    },
    AfsStore {
        client: u8,
        path: Path,
        offset: u16,
        len: u16,
    },
    AfsTruncate {
        client: u8,
        path: Path,
        len: u16,
    },
    AfsRename {
        client: u8,
        from: Path,
        to: Path,
    },
    AfsLink {
        client: u8,
        from: Path,
        to: Path,
    },
    AfsRemove {
        client: u8,
        path: Path,
    },
    AfsMakeDirectory {
        client: u8,
        path: Path,
    },
    AfsRemoveDirectory {
        client: u8,
        path: Path,
    },
    AfsGiveUp {
        client: u8,
    },
    Put {
        path: Path,
        condition: Condition,
        len: u16,
    },
    Delete {
        path: Path,
    },
    LocalCreate {
        path: Path,
        len: u16,
    },
    LocalWrite {
        path: Path,
        offset: u16,
        len: u16,
    },
    LocalTruncate {
        path: Path,
        len: u16,
    },
    LocalReplace {
        path: Path,
        len: u16,
    },
    LocalChmod {
        path: Path,
        mode: u16,
    },
    LocalRename {
        from: Path,
        to: Path,
    },
    /// The two directories below the root change places, with all that is in them: three renames.
    LocalSwap,
    /// The same, and so soon after it, before anybody looks, something is done to a name in one of them.
    LocalSwapThen {
        act: Act,
        path: Path,
        offset: u16,
        len: u16,
        after_us: u16,
    },
    LocalLink {
        from: Path,
        to: Path,
    },
    LocalRemove {
        path: Path,
    },
    LocalMakeDirectory {
        path: Path,
    },
    /// All that was changed is on the disk.
    LocalSync,
    Restart {
        end: End,
    },
    /// The server is killed some microseconds after this change was begun: before it, amid it or after it.
    KillAmid {
        change: Amid,
        path: Path,
        offset: u16,
        len: u16,
        after_us: u16,
    },
}

/// Act of a local program in a directory that it has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Create,
    Write,
    Truncate,
    Replace,
    Chmod,
    Rename { to: Path },
    Link { to: Path },
    Remove,
}

/// Operation amid which a server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amid {
    /// An upload by HTTP, which takes the name in one step.
    Put,
    /// A store by AFS in place.
    Store,
}

/// A step, and the looks that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Place of the step in the whole run.
    pub(crate) index: usize,
    pub(crate) operation: Operation,
    pub(crate) looks: Looks,
}

/// Part of the tree that a party looks at after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Nothing,
    /// The objects that the step touched.
    Touched,
    All,
}

/// Looks of each party after a step. The disk is always looked at, all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looks {
    /// AFS asks for the files that the step touched, by their identifiers, before anybody looks at a name.
    pub(crate) by_fid: bool,
    pub(crate) afs: Look,
    pub(crate) smb: Look,
    pub(crate) http: Look,
}

impl Looks {
    pub(crate) const ALL: Self = Self { by_fid: false, afs: Look::All, smb: Look::All, http: Look::All };
}

impl Step {
    /// Returns the step's place in the whole run.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Operation {
    /// Returns the names that it is about, but for those of an open.
    pub(crate) fn paths(&self) -> [Option<Path>; 2] {
        match *self {
            Self::SmbOpen { path, .. }
            | Self::SmbOpenDirectory { path, .. }
            | Self::SmbRemove { path, .. }
            | Self::SmbMakeDirectory { path, .. }
            | Self::AfsRead { path, .. }
            | Self::AfsCreate { path, .. }
            | Self::AfsStore { path, .. }
            | Self::AfsTruncate { path, .. }
            | Self::AfsRemove { path, .. }
            | Self::AfsMakeDirectory { path, .. }
            | Self::AfsRemoveDirectory { path, .. }
            | Self::Put { path, .. }
            | Self::Delete { path }
            | Self::LocalCreate { path, .. }
            | Self::LocalWrite { path, .. }
            | Self::LocalTruncate { path, .. }
            | Self::LocalReplace { path, .. }
            | Self::LocalChmod { path, .. }
            | Self::LocalRemove { path }
            | Self::LocalMakeDirectory { path }
            | Self::LocalSwapThen { path, .. }
            | Self::KillAmid { path, .. } => [Some(path), None],
            Self::SmbMove { from, to, .. }
            | Self::SmbLinkName { from, to, .. }
            | Self::AfsRename { from, to, .. }
            | Self::AfsLink { from, to, .. }
            | Self::LocalRename { from, to }
            | Self::LocalLink { from, to } => [Some(from), Some(to)],
            Self::SmbRename { to, .. } | Self::SmbLink { to, .. } => [Some(to), None],
            Self::LocalSwap => [Some(Path::of_directory(1)), Some(Path::of_directory(2))],
            Self::SmbWrite { .. }
            | Self::SmbTruncate { .. }
            | Self::SmbDispose { .. }
            | Self::SmbClose { .. }
            | Self::AfsList { .. }
            | Self::AfsGiveUp { .. }
            | Self::LocalSync
            | Self::Restart { .. } => [None, None],
        }
    }

    /// Returns the open that it acts by.
    pub(crate) fn slot(&self) -> Option<(u8, u8)> {
        match *self {
            Self::SmbOpen { client, slot, .. }
            | Self::SmbOpenDirectory { client, slot, .. }
            | Self::SmbWrite { client, slot, .. }
            | Self::SmbTruncate { client, slot, .. }
            | Self::SmbRename { client, slot, .. }
            | Self::SmbLink { client, slot, .. }
            | Self::SmbDispose { client, slot }
            | Self::SmbClose { client, slot } => Some((client, slot)),
            _ => None,
        }
    }

    /// Returns what a local program does after it has moved the directories.
    pub(crate) fn after_swap(&self) -> Option<Self> {
        let Self::LocalSwapThen { act, path, offset, len, .. } = *self else { return None };
        Some(match act {
            Act::Create => Self::LocalCreate { path, len },
            Act::Write => Self::LocalWrite { path, offset, len },
            Act::Truncate => Self::LocalTruncate { path, len },
            Act::Replace => Self::LocalReplace { path, len },
            Act::Chmod => Self::LocalChmod { path, mode: MODES[usize::from(len) % MODES.len()] },
            Act::Rename { to } => Self::LocalRename { from: path, to },
            Act::Link { to } => Self::LocalLink { from: path, to },
            Act::Remove => Self::LocalRemove { path },
        })
    }

    /// Returns whether the directories below the root change places.
    pub(crate) fn swaps(&self) -> bool {
        matches!(self, Self::LocalSwap | Self::LocalSwapThen { .. })
    }

    /// Returns whether a local program does it.
    pub(crate) fn is_local(&self) -> bool {
        matches!(
            self,
            Self::LocalCreate { .. }
                | Self::LocalWrite { .. }
                | Self::LocalTruncate { .. }
                | Self::LocalReplace { .. }
                | Self::LocalChmod { .. }
                | Self::LocalRename { .. }
                | Self::LocalSwap
                | Self::LocalSwapThen { .. }
                | Self::LocalLink { .. }
                | Self::LocalRemove { .. }
                | Self::LocalMakeDirectory { .. }
                | Self::LocalSync
        )
    }
}

impl Path {
    /// Returns the path of one of [`DIRECTORIES`] below the root, by its place there.
    pub(crate) fn of_directory(place: u8) -> Self {
        Self(FILES + place - 1)
    }

    /// Returns the place in [`DIRECTORIES`] of the directory whose name it is; `None` for another name.
    pub(crate) fn as_directory(self) -> Option<u8> {
        self.0.checked_sub(FILES).map(|below| below + 1)
    }

    /// Returns the place in [`DIRECTORIES`] of the directory that it is in.
    pub(crate) fn directory(self) -> u8 {
        if self.0 < FILES { self.0 / NAMES.len() as u8 } else { 0 }
    }

    /// Returns the last name of the path.
    pub(crate) fn name(self) -> &'static str {
        match self.as_directory() {
            Some(place) => DIRECTORIES[usize::from(place)],
            None => NAMES[usize::from(self.0) % NAMES.len()],
        }
    }

    /// Returns the path from the root, with slashes.
    pub(crate) fn text(self) -> String {
        match DIRECTORIES[usize::from(self.directory())] {
            "" => self.name().to_owned(),
            directory => format!("{directory}/{}", self.name()),
        }
    }

    /// Returns the path from the root, with backslashes.
    pub(crate) fn smb(self) -> String {
        self.text().replace('/', "\\")
    }

    /// Returns the same name in the other of the two directories below the root, if it is in one of them or the name
    /// of one.
    pub(crate) fn swapped(self) -> Self {
        let names = NAMES.len() as u8;
        match (self.as_directory(), self.directory()) {
            (Some(place), _) => Self::of_directory(3 - place),
            (None, 0) => self,
            (None, 1) => Self(self.0 + names),
            (None, _) => Self(self.0 - names),
        }
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..FILES + DIRECTORIES.len() as u8 - 1).map(Self)
    }
}

/// Directories of the tree, which are always there.
pub const DIRECTORIES: [&str; 3] = ["", "d", "e"];
/// Names that may be in each.
pub const NAMES: [&str; 3] = ["a", "b", "c"];
/// Names that lead to files and empty directories.
pub(crate) const FILES: u8 = (DIRECTORIES.len() * NAMES.len()) as u8;
/// Permission bits that local programs give.
pub(crate) const MODES: [u16; 4] = [0o644, 0o664, 0o600, 0o755];
/// Number of opens that an SMB client may have.
pub(crate) const SLOTS: u8 = 3;
