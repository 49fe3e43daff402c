//! Reasons why a server did not start, or ended without being told to.

use lane::layout::LayoutError;
use lane::topology::TopologyError;
use service::config::ConfigError;

use crate::listeners::ListenError;

/// Reason why a server did not start, or ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The accounts cannot be read.
    #[error("identity.accounts: {0}")]
    Accounts(#[from] identity::AccountsError),
    /// A service lacks something that it needs beside the configuration.
    #[error(transparent)]
    Service(service::Problem),
    /// An address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The topology of the machine cannot be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The lanes cannot be laid out on the machine, though no key says how.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The kernel refuses a call.
    #[error(transparent)]
    Lacking(#[from] lane::probe::Lacking),
    /// A lane's ring or memory cannot be made.
    #[error(transparent)]
    Lane(#[from] lane::runtime::StartError),
    /// A lane could not serve its sites.
    #[error("a lane cannot serve: {0}")]
    Serve(String),
    /// A lane ended by itself: a defect, reported on standard error.
    #[error("a lane has ended by itself; the server stops rather than serve a part of its clients")]
    LaneEnded,
    /// A log, the admin address or the signals failed.
    #[error("{what}: {source}")]
    Io {
        /// Operation that was attempted.
        what: String,
        /// Error of the operation.
        source: std::io::Error,
    },
}
