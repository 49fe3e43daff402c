//! Operations as sentences, for a sequence that is printed.

use std::fmt;

use crate::operation::{Amid, Condition, DIRECTORIES, End, Lease, Operation, Path};

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SmbOpen { client, slot, path, disposition, writes, shares, lease } => {
                let access = if writes { "to write" } else { "to read" };
                let (share, lease) = (share(shares), asked(lease));
                write!(
                    f,
                    "SMB {client} opens {path} as {slot}, {access}: {disposition:?}, share {share}{lease}"
                )
            }
            Self::SmbOpenDirectory { client, slot, path, shares, lease } => {
                let (share, lease) = (share(shares), asked(lease));
                write!(f, "SMB {client} opens directory {path} as {slot}, share {share}{lease}")
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
            Self::SmbDispose { client, slot } => {
                write!(f, "SMB {client} has open {slot} deleted with its last open")
            }
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
            Self::LocalSwap => f.write_str("local program swaps d and e"),
            Self::LocalSwapThen { after_us, .. } => {
                write!(f, "local program swaps d and e, then after {after_us} us ")?;
                self.after_swap().map_or(Ok(()), |after| write!(f, "{after}"))
            }
            Self::LocalLink { from, to } => write!(f, "local program links {from} as {to}"),
            Self::LocalRemove { path } => write!(f, "local program removes {path}"),
            Self::LocalMakeDirectory { path } => write!(f, "local program makes directory {path}"),
            Self::LocalSync => f.write_str("local program syncs"),
            Self::Restart { end: End::Stop } => f.write_str("the server stops and starts"),
            Self::Restart { end: End::Kill } => f.write_str("the server is killed and starts"),
            Self::KillAmid { change: Amid::Put, path, len, after_us, .. } => {
                write!(f, "the server is killed {after_us} us into HTTP PUT {path}, {len} bytes, and starts")
            }
            Self::KillAmid { change: Amid::Store, path, offset, len, after_us } => write!(
                f,
                "the server is killed {after_us} us into a store by AFS 0, {len} bytes at {offset} of {path}, and starts"
            ),
            Self::Restart { end: End::Power } => f.write_str("the power goes, and the server starts"),
        }
    }
}

fn share(shares: bool) -> &'static str {
    if shares { "all" } else { "read" }
}

fn asked(lease: Lease) -> &'static str {
    match lease {
        Lease::None => "",
        Lease::Read => ", R lease",
        Lease::ReadHandle => ", RH lease",
        Lease::ReadWriteHandle => ", RWH lease",
        Lease::LevelTwo => ", level II oplock",
        Lease::Exclusive => ", exclusive oplock",
        Lease::Batch => ", batch oplock",
    }
}

fn over(replace: bool) -> &'static str {
    if replace { ", replacing" } else { "" }
}
