//! Steps of a run: what is done, by whom, and which looks follow. A step depends on its seed alone, so that a run with some of its
//! steps left out does the others as before.

use std::fmt;

use rand::Rng;
use rand::rngs::SmallRng;

/// Which programs take part beside the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// SMB, AFS and HTTP clients.
    Base,
    /// Local programs as well.
    Local,
    /// Clean restarts and kills as well; no local programs.
    Restart,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Local => "local",
            Self::Restart => "restart",
        }
    }
}

/// One of the names that a run uses, each of which leads to a file, an empty directory or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(pub(super) u8);

/// How an SMB client opens a file that lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    Open,
    Create,
    OpenIf,
    Overwrite,
    OverwriteIf,
}

/// What an upload demands of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Anything,
    /// The content that was last read by this name (`If-Match`).
    AsRead,
    /// Nothing (`If-None-Match: *`).
    Nothing,
}

/// A clean stop, or a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stop,
    Kill,
}

/// What is done. `client` is one of two, `slot` one of the opens of an SMB client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    SmbOpen { client: u8, slot: u8, path: Path, disposition: Disposition, writes: bool, shares: bool },
    SmbWrite { client: u8, slot: u8, offset: u16, len: u16 },
    SmbTruncate { client: u8, slot: u8, len: u16 },
    SmbRename { client: u8, slot: u8, to: Path, replace: bool },
    SmbLink { client: u8, slot: u8, to: Path },
    SmbClose { client: u8, slot: u8 },
    SmbMove { client: u8, from: Path, to: Path, replace: bool },
    SmbLinkName { client: u8, from: Path, to: Path },
    SmbRemove { client: u8, path: Path },
    SmbMakeDirectory { client: u8, path: Path },
    AfsRead { client: u8, path: Path },
    AfsList { client: u8, directory: u8 },
    AfsCreate { client: u8, path: Path },
    AfsStore { client: u8, path: Path, offset: u16, len: u16 },
    AfsTruncate { client: u8, path: Path, len: u16 },
    AfsRename { client: u8, from: Path, to: Path },
    AfsLink { client: u8, from: Path, to: Path },
    AfsRemove { client: u8, path: Path },
    AfsMakeDirectory { client: u8, path: Path },
    AfsRemoveDirectory { client: u8, path: Path },
    AfsGiveUp { client: u8 },
    Put { path: Path, condition: Condition, len: u16 },
    Delete { path: Path },
    LocalCreate { path: Path, len: u16 },
    LocalWrite { path: Path, offset: u16, len: u16 },
    LocalTruncate { path: Path, len: u16 },
    LocalReplace { path: Path, len: u16 },
    LocalChmod { path: Path, mode: u16 },
    LocalRename { from: Path, to: Path },
    LocalLink { from: Path, to: Path },
    LocalRemove { path: Path },
    LocalMakeDirectory { path: Path },
    Restart { end: End },
}

/// A step, and the looks that follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Its place in the whole run.
    pub(super) index: usize,
    pub(super) operation: Operation,
    pub(super) looks: Looks,
}

/// Who looks at everything after a step, apart from the file system, which is always looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    pub(super) afs: bool,
    pub(super) smb: bool,
    pub(super) http: bool,
}

impl Looks {
    pub(super) const ALL: Self = Self { afs: true, smb: true, http: true };
}

impl Path {
    /// Of the directory that it is in: its place in [`DIRECTORIES`].
    pub(super) fn directory(self) -> u8 {
        self.0 / NAMES.len() as u8
    }

    /// Its last name.
    pub(super) fn name(self) -> &'static str {
        NAMES[usize::from(self.0) % NAMES.len()]
    }

    /// From the root, with slashes.
    pub(super) fn text(self) -> String {
        match DIRECTORIES[usize::from(self.directory())] {
            "" => self.name().to_owned(),
            directory => format!("{directory}/{}", self.name()),
        }
    }

    /// From the root, with backslashes.
    pub(super) fn smb(self) -> String {
        self.text().replace('/', "\\")
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..(DIRECTORIES.len() * NAMES.len()) as u8).map(Self)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The steps of a run.
pub(super) fn steps(rng: &mut SmallRng, mode: Mode, count: usize) -> Vec<Step> {
    let step = |index| {
        let operation = draw(rng, mode);
        let looks =
            Looks { afs: rng.random_ratio(1, 2), smb: rng.random_ratio(1, 2), http: rng.random_ratio(1, 2) };
        Step { index, operation, looks }
    };
    (0..count).map(step).collect()
}

fn draw(rng: &mut SmallRng, mode: Mode) -> Operation {
    let kind = rng.random_range(0..100);
    match mode {
        Mode::Local if kind < 40 => local(rng),
        Mode::Restart if kind < 4 => {
            Operation::Restart { end: if rng.random_ratio(1, 2) { End::Stop } else { End::Kill } }
        }
        _ => match rng.random_range(0..100) {
            0..42 => smb(rng),
            42..82 => afs(rng),
            _ => http(rng),
        },
    }
}

fn smb(rng: &mut SmallRng) -> Operation {
    let (client, slot, path) = (rng.random_range(0..2), rng.random_range(0..SLOTS), path(rng));
    match rng.random_range(0..20) {
        0..6 => {
            let disposition = [
                Disposition::Open,
                Disposition::Open,
                Disposition::Create,
                Disposition::OpenIf,
                Disposition::Overwrite,
                Disposition::OverwriteIf,
            ][rng.random_range(0..6)];
            let (writes, shares) = (rng.random_ratio(3, 4), rng.random_ratio(5, 6));
            Operation::SmbOpen { client, slot, path, disposition, writes, shares }
        }
        6..9 => Operation::SmbWrite { client, slot, offset: offset(rng), len: len(rng) },
        9 => Operation::SmbTruncate { client, slot, len: len(rng) },
        10..12 => Operation::SmbRename { client, slot, to: path, replace: rng.random() },
        12 => Operation::SmbLink { client, slot, to: path },
        13..15 => Operation::SmbClose { client, slot },
        15 => Operation::SmbMove { client, from: path, to: self::path(rng), replace: rng.random() },
        16 => Operation::SmbLinkName { client, from: path, to: self::path(rng) },
        17..19 => Operation::SmbRemove { client, path },
        _ => Operation::SmbMakeDirectory { client, path },
    }
}

fn afs(rng: &mut SmallRng) -> Operation {
    let (client, path) = (rng.random_range(0..2), path(rng));
    match rng.random_range(0..24) {
        0..5 => Operation::AfsRead { client, path },
        5..8 => Operation::AfsList { client, directory: path.directory() },
        8..11 => Operation::AfsCreate { client, path },
        11..14 => Operation::AfsStore { client, path, offset: offset(rng), len: len(rng) },
        14 => Operation::AfsTruncate { client, path, len: len(rng) },
        15..17 => Operation::AfsRename { client, from: path, to: self::path(rng) },
        17..19 => {
            let name = rng.random_range(0..NAMES.len() as u8);
            let to = Path(path.directory() * NAMES.len() as u8 + name);
            Operation::AfsLink { client, from: path, to }
        }
        19..21 => Operation::AfsRemove { client, path },
        21 => Operation::AfsMakeDirectory { client, path },
        22 => Operation::AfsRemoveDirectory { client, path },
        _ => Operation::AfsGiveUp { client },
    }
}

fn http(rng: &mut SmallRng) -> Operation {
    let path = path(rng);
    if rng.random_ratio(1, 3) {
        return Operation::Delete { path };
    }
    let condition = match rng.random_range(0..6) {
        0 => Condition::AsRead,
        1 => Condition::Nothing,
        _ => Condition::Anything,
    };
    Operation::Put { path, condition, len: len(rng) }
}

fn local(rng: &mut SmallRng) -> Operation {
    let path = path(rng);
    match rng.random_range(0..16) {
        0..2 => Operation::LocalCreate { path, len: len(rng) },
        2..5 => Operation::LocalWrite { path, offset: offset(rng), len: len(rng) },
        5 => Operation::LocalTruncate { path, len: len(rng) },
        6..8 => Operation::LocalReplace { path, len: len(rng) },
        8 => Operation::LocalChmod { path, mode: [0o644, 0o664, 0o600, 0o755][rng.random_range(0..4)] },
        9..11 => Operation::LocalRename { from: path, to: self::path(rng) },
        11..13 => Operation::LocalLink { from: path, to: self::path(rng) },
        13..15 => Operation::LocalRemove { path },
        _ => Operation::LocalMakeDirectory { path },
    }
}

fn path(rng: &mut SmallRng) -> Path {
    Path(rng.random_range(0..(DIRECTORIES.len() * NAMES.len()) as u8))
}

fn offset(rng: &mut SmallRng) -> u16 {
    if rng.random_ratio(1, 2) { 0 } else { rng.random_range(0..6000) }
}

fn len(rng: &mut SmallRng) -> u16 {
    rng.random_range(1..9000)
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SmbOpen { client, slot, path, disposition, writes, shares } => {
                let access = if writes { "to write" } else { "to read" };
                let share = if shares { "all" } else { "read" };
                write!(f, "SMB {client} opens {path} as {slot}, {access}: {disposition:?}, share {share}")
            }
            Self::SmbWrite { client, slot, offset, len } => {
                write!(f, "SMB {client} writes {len} bytes at {offset} by open {slot}")
            }
            Self::SmbTruncate { client, slot, len } => {
                write!(f, "SMB {client} sets {len} bytes by open {slot}")
            }
            Self::SmbRename { client, slot, to, replace } => {
                write!(f, "SMB {client} renames open {slot} to {to}{}", over(replace))
            }
            Self::SmbLink { client, slot, to } => write!(f, "SMB {client} links open {slot} as {to}"),
            Self::SmbClose { client, slot } => write!(f, "SMB {client} closes open {slot}"),
            Self::SmbMove { client, from, to, replace } => {
                write!(f, "SMB {client} renames {from} to {to}{}", over(replace))
            }
            Self::SmbLinkName { client, from, to } => write!(f, "SMB {client} links {from} as {to}"),
            Self::SmbRemove { client, path } => write!(f, "SMB {client} removes {path}"),
            Self::SmbMakeDirectory { client, path } => write!(f, "SMB {client} makes directory {path}"),
            Self::AfsRead { client, path } => write!(f, "AFS {client} reads {path}"),
            Self::AfsList { client, directory } => {
                write!(f, "AFS {client} lists /{}", DIRECTORIES[usize::from(directory)])
            }
            Self::AfsCreate { client, path } => write!(f, "AFS {client} creates {path}"),
            Self::AfsStore { client, path, offset, len } => {
                write!(f, "AFS {client} stores {len} bytes at {offset} of {path}")
            }
            Self::AfsTruncate { client, path, len } => write!(f, "AFS {client} cuts {path} to {len} bytes"),
            Self::AfsRename { client, from, to } => write!(f, "AFS {client} renames {from} to {to}"),
            Self::AfsLink { client, from, to } => write!(f, "AFS {client} links {from} as {to}"),
            Self::AfsRemove { client, path } => write!(f, "AFS {client} removes {path}"),
            Self::AfsMakeDirectory { client, path } => write!(f, "AFS {client} makes directory {path}"),
            Self::AfsRemoveDirectory { client, path } => write!(f, "AFS {client} removes directory {path}"),
            Self::AfsGiveUp { client } => write!(f, "AFS {client} gives up its callbacks"),
            Self::Put { path, condition, len } => {
                let condition = match condition {
                    Condition::Anything => "",
                    Condition::AsRead => ", If-Match",
                    Condition::Nothing => ", If-None-Match: *",
                };
                write!(f, "HTTP PUT {path}, {len} bytes{condition}")
            }
            Self::Delete { path } => write!(f, "HTTP DELETE {path}"),
            Self::LocalCreate { path, len } => write!(f, "local program makes {path}, {len} bytes"),
            Self::LocalWrite { path, offset, len } => {
                write!(f, "local program writes {len} bytes at {offset} of {path}")
            }
            Self::LocalTruncate { path, len } => write!(f, "local program cuts {path} to {len} bytes"),
            Self::LocalReplace { path, len } => {
                write!(f, "local program replaces {path} by rename, {len} bytes")
            }
            Self::LocalChmod { path, mode } => write!(f, "local program gives {path} mode {mode:o}"),
            Self::LocalRename { from, to } => write!(f, "local program renames {from} to {to}"),
            Self::LocalLink { from, to } => write!(f, "local program links {from} as {to}"),
            Self::LocalRemove { path } => write!(f, "local program removes {path}"),
            Self::LocalMakeDirectory { path } => write!(f, "local program makes directory {path}"),
            Self::Restart { end: End::Stop } => f.write_str("the server stops and starts"),
            Self::Restart { end: End::Kill } => f.write_str("the server is killed and starts"),
        }
    }
}

fn over(replace: bool) -> &'static str {
    if replace { ", replacing" } else { "" }
}

pub(super) const DIRECTORIES: [&str; 3] = ["", "d", "e"];
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Opens that an SMB client may have.
pub(super) const SLOTS: u8 = 3;
