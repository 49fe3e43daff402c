//! Site of a server of all three services, and the disk beneath it, as a run needs them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use afs_wire::Fid;

use crate::operation::End;

/// Future of a site; boxed, as a run is compiled once for all kinds of them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Addresses where clients find the server, and their users.
#[derive(Clone, Debug)]
pub struct Place {
    /// Address of the SMB server.
    pub smb: SocketAddr,
    /// Address of the AFS file server.
    pub afs: SocketAddr,
    /// Address of the HTTP server, without TLS.
    pub http: SocketAddr,
    /// Address that AFS clients bind their sockets to.
    pub client: IpAddr,
    /// Name of the share, as `\\server\share`.
    pub share: String,
    /// Name of the SMB user.
    pub user: String,
    /// Password of the SMB user.
    pub password: String,
    /// Identifier of the volume's root in AFS.
    pub root: Fid,
}

/// A server that runs, over a tree that holds the empty [`DIRECTORIES`](crate::DIRECTORIES) and nothing else.
pub trait Site {
    /// Returns where it is reached.
    fn place(&self) -> Place;

    /// Returns the tree beneath it.
    fn disk(&self) -> &dyn Disk;

    /// Returns the removed files of the tree that the server still has open.
    fn removed_files(&self) -> anyhow::Result<Vec<String>>;

    /// Ends the server. A clean stop is quick, and clients go on meanwhile.
    fn ends(&mut self, how: End) -> BoxFuture<'_, anyhow::Result<()>>;

    /// Holds index and tree against each other after a clean stop. They must agree, if `mends` after what a repair has
    /// mended.
    fn checks(&mut self, mends: bool) -> BoxFuture<'_, anyhow::Result<()>>;

    /// Starts the server anew.
    fn starts(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// Returns what the server has said since it last started.
    fn said(&self) -> String;
}

/// File beneath a name, as the file system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Set for a directory; else it is a file.
    pub is_directory: bool,
    /// Inode that tells it from others of the tree, if possible from those that are gone too.
    pub inode: u64,
    /// Number of its names; of a directory that counts for nothing.
    pub links: u64,
    /// Permission bits.
    pub mode: u32,
    /// Content of a file.
    pub content: Vec<u8>,
}

/// The tree's file system, as local programs see it. Paths begin at the tree's root.
pub trait Disk {
    /// Returns all files and directories, by path.
    fn tree(&self) -> anyhow::Result<BTreeMap<String, Seen>>;
    /// Returns whether the time of change is of whole seconds, which says nothing over a stop: a coarse file
    /// system has no others.
    fn is_of_whole_second(&self, path: &str) -> anyhow::Result<bool>;
    /// Makes a file of this content, where there was none.
    fn make(&self, path: &str, content: &[u8]) -> anyhow::Result<()>;
    /// Writes in place.
    fn write_at(&self, path: &str, offset: usize, bytes: &[u8]) -> anyhow::Result<()>;
    /// Sets the length.
    fn cut(&self, path: &str, len: usize) -> anyhow::Result<()>;
    /// Sets permission bits.
    fn set_mode(&self, path: &str, mode: u32) -> anyhow::Result<()>;
    /// Renames, over what there is.
    fn rename(&self, from: &str, to: &str) -> anyhow::Result<()>;
    /// Gives a file one more name.
    fn link(&self, from: &str, to: &str) -> anyhow::Result<()>;
    /// Removes a file or an empty directory.
    fn remove(&self, path: &str) -> anyhow::Result<()>;
    /// Makes an empty directory.
    fn make_directory(&self, path: &str) -> anyhow::Result<()>;
    /// Makes all that was changed survive a loss of power.
    fn sync(&self) -> anyhow::Result<()>;
}

/// Returns a volume's root, as AFS calls it.
pub fn root(volume: u32) -> Fid {
    Fid { volume, vnode: 1, uniquifier: 1 }
}
