//! Reasons why a connection ends before its time.

use std::io;

use service::memory::Evicted;
use tls::TlsError;

use super::requests::UserGone;

/// Reason why a connection ends in the middle of something.
#[derive(Debug, thiserror::Error)]
pub enum Abort {
    /// The socket failed, or the peer reset it.
    #[error("connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer went away while something was owed to it.
    #[error("the client closed the connection")]
    PeerClosed,
    /// The TLS session failed.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The peer took no byte for too long.
    #[error("the client took no byte for too long")]
    WriteStalled,
    /// The peer takes bytes slower than the configured floor.
    #[error("the client takes bytes too slowly")]
    TooSlow,
    /// The lane's memory for replies was short, and of those that hold it this peer had stalled longest.
    #[error("the client held memory that others needed")]
    Evicted,
    /// A reload brought accounts that lack the user, or have it disabled.
    #[error("the user is gone or disabled")]
    UserGone,
    /// The request body is malformed, too long or too late; the answer is already on its way.
    #[error("the request body cannot be skipped")]
    RequestBody,
    /// The file was written or truncated while it was sent.
    #[error("the file changed while it was sent")]
    FileChanged,
    /// The directory could not be read to its end, or has more entries than a listing may have.
    #[error("the listing was cut: {0}")]
    Listing(#[source] vfs::Error),
    /// The file could not be read.
    #[error("reading the file failed: {0}")]
    Disk(#[source] io::Error),
}

impl Abort {
    /// Returns true if the connection failed because a deadline passed.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

impl From<UserGone> for Abort {
    fn from(UserGone: UserGone) -> Self {
        Self::UserGone
    }
}

impl From<Evicted> for Abort {
    fn from(Evicted: Evicted) -> Self {
        Self::Evicted
    }
}
