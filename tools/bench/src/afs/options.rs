//! Options of a load.

use std::sync::Arc;
use std::time::Duration;

use afs_wire::Fid;
use lane::fs::File;
use serde::Serialize;

use super::clients::Clients;

/// Work of every client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Fetches one file, a chunk a call, over and over.
    Fetch,
    /// Stores a file of its own, a chunk a call, over and over.
    Store,
    /// Asks for one file's status.
    Stat,
    /// Mixes calls: of ten, seven ask for the status of a file of its own, two fetch a chunk of it and one stores one.
    Mixed,
    /// Makes a file in one directory and removes it again.
    Names,
}

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clients of the load, and their files: a file to fetch or ask for, or a directory to store or make
    /// names in.
    pub clients: Clients,
    /// Work of every client.
    pub work: Work,
    /// Calls at once of each client.
    pub calls: usize,
    /// Bytes of a call.
    pub chunk: u64,
    /// Bytes that a client stores before it begins at the start again.
    pub file_size: u64,
    /// Time for which to make calls.
    pub duration: Duration,
    /// Set to compare all bytes with what they were at first, or with what was stored.
    pub verify: bool,
}

/// State that all actors of a lane share.
#[derive(Debug)]
pub struct Load {
    pub(super) work: Work,
    pub(super) fid: Fid,
    pub(super) length: u64,
    pub(super) chunk: u64,
    pub(super) file_size: u64,
    pub(super) verify: bool,
    /// SHA-256 of each chunk as it was at first.
    pub(super) sums: Option<Arc<Vec<Vec<u8>>>>,
    /// Text that tells the names of one load from those of another.
    pub(super) run: String,
    /// File that is stored, where it goes over TCP.
    pub(super) file: Option<File>,
}
