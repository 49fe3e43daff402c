//! Directories as servers send them.

use afs_wire::Fid;
use afs_wire::directory::{Directory, PAGE_SIZE, PAGES_MAX, Target};

use crate::code::Code;
use crate::error::Error;
use crate::fetch;
use crate::file_server::FileServer;
use crate::status::Metadata;

/// A name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: neither empty, `.` or `..`, nor with a slash.
    pub name: Vec<u8>,
    /// Identifier of the entry's target.
    pub fid: Fid,
}

/// Returns what a directory holds, sorted by name.
///
/// # Errors
/// [`Error::Directory`] for pages that break the format, a name that comes twice, and one that would lead elsewhere on a local disk.
pub async fn list(server: &FileServer, fid: Fid) -> Result<Vec<Entry>, Error> {
    let directory = fetched(server, fid).await?;
    let entry = |(name, target): (&[u8], Target)| Entry { name: name.to_vec(), fid: of(fid, target) };
    let mut entries: Vec<Entry> = directory.entries().map(entry).collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let broken = |what: &str| Err(Error::Directory(fid.to_string(), what.to_owned()));
    if entries.iter().any(|entry| !is_plain(&entry.name)) {
        return broken("a name has a slash in it");
    }
    if entries.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return broken("a name comes twice");
    }
    Ok(entries)
}

/// Returns what a directory holds, sorted by name, each with its status or why it cannot be had.
///
/// # Errors
/// As [`list`], and those of the server.
pub async fn list_status(
    server: &FileServer,
    fid: Fid,
) -> Result<Vec<(Entry, Result<Metadata, Code>)>, Error> {
    let entries = list(server, fid).await?;
    let fids: Vec<Fid> = entries.iter().map(|entry| entry.fid).collect();
    let statuses = server.statuses(&fids).await?;
    Ok(entries.into_iter().zip(statuses).collect())
}

/// Returns what a name leads to, if it is there.
///
/// # Errors
/// As [`list`].
pub async fn look_up(server: &FileServer, fid: Fid, name: &[u8]) -> Result<Option<Fid>, Error> {
    let directory = fetched(server, fid).await?;
    Ok(directory.lookup(name).map(|target| of(fid, target)))
}

/// Returns whether it is a name, and of this directory.
pub fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

async fn fetched(server: &FileServer, fid: Fid) -> Result<Directory, Error> {
    let bytes = fetch::small(server, fid, (PAGE_SIZE * PAGES_MAX) as u64).await?;
    Directory::parse(&bytes).map_err(|bad| Error::Directory(fid.to_string(), bad.to_string()))
}

fn of(directory: Fid, target: Target) -> Fid {
    Fid { volume: directory.volume, vnode: target.vnode, uniquifier: target.uniquifier }
}
