//! Errors of the client.

use std::net::SocketAddr;

use rx_lane::CallError;
use xdr::rpc::Failure;

use crate::code::Code;
use crate::mount::MountPoint;
use transfer::EndsAll;

/// Error of the client, in words that name it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error("{0}")]
    Refused(Code),
    /// The server cannot be reached, or its call died.
    #[error("{server}: {error}")]
    Call {
        /// The server that was called.
        server: SocketAddr,
        /// End of the call.
        error: CallError,
    },
    /// A request that cannot be said, or a reply that makes no sense.
    #[error("{server}: {fault}")]
    Stub {
        /// The server that was called.
        server: SocketAddr,
        /// Fault in the reply.
        fault: xdr::rpc::Fault,
    },
    /// No more connections can be opened.
    #[error("{server}: {error}")]
    Connect {
        /// The server that was called.
        server: SocketAddr,
        /// Reason why it could not connect.
        error: rx::ConnectError,
    },
    /// The cell knows the volume at no server that can be called.
    #[error("no server that can be called has volume {0}")]
    NoServer(String),
    /// A listing that does not end.
    #[error("{server}: it tells of more than {limit} volumes")]
    TooMany {
        /// The server that was called.
        server: SocketAddr,
        /// Number that is taken.
        limit: usize,
    },
    /// A volume was named without a location service to ask.
    #[error(
        "volume {0} cannot be found, as the location service of its cell does not answer: {2}; see that the address is right and that UDP \
         packets reach {1}"
    )]
    NoLocations(String, SocketAddr, Box<Self>),
    /// A name on the way is not there.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// A name on the way is a file.
    #[error("{0}: not a directory")]
    NotADirectory(String),
    /// A directory where a file was needed.
    #[error("{0}: is a directory")]
    IsADirectory(String),
    /// Something has the name already.
    #[error("{0} is there already; --overwrite replaces it")]
    Taken(String),
    /// Links that lead to links without end.
    #[error("{0}: more than {LINKS_MAX} symbolic links and mount points on the way")]
    TooManyLinks(String),
    /// A link out of the tree of volumes.
    #[error("{0}: the link leads to {1}, which is on this machine and not in AFS")]
    LeavesAfs(String, String),
    /// A mount point into a cell that is not known.
    #[error("{0}: mount point {1} of another cell; --cell NAME says that it is this one")]
    OtherCell(String, MountPoint),
    /// A name that no directory can hold.
    #[error("{0:?} cannot be a name")]
    Name(String),
    /// The server's image of a directory is not valid.
    #[error("{0}: the server sent a broken directory: {1}")]
    Directory(String, String),
    /// The file was changed by another client while it was fetched.
    #[error("the file changed while it was fetched (data version {0}, then {1}); try again")]
    Changed(u64, u64),
    /// Fewer bytes came than the file has.
    #[error("only {got} of {wanted} bytes came")]
    Short {
        /// Number of bytes that came.
        got: u64,
        /// Number of bytes that were asked for.
        wanted: u64,
    },
    /// The server has another number of bytes than were sent.
    #[error("the server says that the file has {0} bytes now, and {1} were sent")]
    Size(u64, u64),
    /// A file holds something else than was stored, or than it held before.
    #[error("the bytes are not those that they should be")]
    Differs,
    /// A file too large for the old procedures, which the server has alone.
    #[error("the server takes no files above 2 GiB")]
    NoLargeFiles,
    /// A local file.
    #[error("{0}: {1}")]
    Local(String, std::io::Error),
    /// A file broke off, and what had come of it could not be removed.
    #[error(
        "{1}; {0} stays in the cell, as the server did not remove it: it holds what had come. The next put of the file replaces it"
    )]
    Left(String, Box<Self>),
    /// The transfer was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns the server's code, if it was refused with one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(code) => Some(*code),
            _ => None,
        }
    }

    /// Returns whether it ended because it was interrupted.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Left(_, error) => error.is_interrupted(),
            _ => false,
        }
    }

    /// Returns whether the same may be answered in a while: no server answered, or the server is starting or
    /// stopping.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Call { .. } => true,
            Self::Refused(code) => code.is_busy() || code.0 == rx::abort::CALL_DEAD,
            _ => false,
        }
    }

    /// Returns whether what was asked for is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_)) || self.code().is_some_and(Code::is_not_found)
    }

    pub(crate) fn of_call(server: SocketAddr, failure: Failure<CallError>) -> Self {
        match failure {
            Failure::Stream(CallError::Aborted(code)) | Failure::Refused(code) => Self::Refused(Code(code)),
            Failure::Stream(error) => Self::Call { server, error },
            Failure::Fault(fault) => Self::Stub { server, fault },
        }
    }
}

impl EndsAll for Error {
    /// Returns whether the whole transfer ends: it was interrupted, or no server answers.
    fn ends_all(&self) -> bool {
        match self {
            Self::Interrupted | Self::Call { .. } | Self::Connect { .. } => true,
            Self::Left(_, error) => error.ends_all(),
            _ => false,
        }
    }
}

//@ limit: links and mount points on one way
//@ section: Clients of AFS
//@ unit: link
//@ all: process: {}
//@ empty: the way is refused
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
/// Symbolic links and mount points on one way.
pub(crate) const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_service_that_does_not_answer_is_named_with_what_to_look_at() {
        let server = SocketAddr::from(([10, 77, 0, 99], 7003));
        let error = Error::Refused(Code(rx::abort::CALL_DEAD));
        let told = Error::NoLocations("pub".to_owned(), server, Box::new(error)).to_string();
        assert!(told.starts_with("volume pub cannot be found, as the location service"), "{told}");
        assert!(told.ends_with("UDP packets reach 10.77.0.99:7003"), "{told}");
    }
}
