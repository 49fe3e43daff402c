//! On whose behalf something is asked for.

use std::net::{IpAddr, Ipv4Addr};

use budget::Consumer;
use coherence::Holder;
use identity::{Accounts, Principal};

use crate::grant::OpenCaller;

/// Caller of an operation: its rights, what it holds, and the client that memory is charged to.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Principal whose rights count.
    pub principal: Principal,
    /// Holder whose callbacks and grants the caller's changes do not break: it knows what it does.
    pub holder: Option<Holder>,
    /// Open by which the caller acts, if it has one: [`Open::caller`](crate::Open::caller).
    pub open: Option<OpenCaller>,
    /// Set if renames of directories are those of POSIX: opens beneath do not conflict, and move with the directory.
    pub moves_opens: bool,
    /// Client to which memory that the operation uses is charged.
    pub consumer: Consumer,
}

impl Caller {
    /// Makes a caller that holds nothing.
    pub fn new(principal: Principal) -> Self {
        Self { principal, holder: None, open: None, moves_opens: false, consumer: SERVER }
    }

    /// Makes a caller that has not authenticated.
    pub fn anonymous() -> Self {
        Self::new(Accounts::none().anonymous())
    }

    /// Makes the operator of this machine, as which the server acts on its own behalf.
    pub fn operator() -> Self {
        Self::new(Accounts::none().local_administrator())
    }

    /// Returns the same caller, whose own leases and callbacks are not broken.
    #[must_use]
    pub fn sparing(self, holder: Holder) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// Returns the same caller, with memory charged to a client.
    #[must_use]
    pub fn charged_to(self, consumer: Consumer) -> Self {
        Self { consumer, ..self }
    }
}

/// The server itself, which comes from no address.
pub(crate) const SERVER: Consumer = Consumer { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), user: None };
