//! On whose behalf something is asked for.

use std::net::{IpAddr, Ipv4Addr};

use budget::Consumer;
use coherence::Holder;
use identity::{Accounts, Principal};

use crate::grant::OpenCaller;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose rights count.
    pub principal: Principal,
    /// Whose promises and grants are spared by what he changes: he knows what he does.
    pub holder: Option<Holder>,
    /// By which open, if he has one: [`Open::caller`](crate::Open::caller).
    pub open: Option<OpenCaller>,
    /// Renames directories as POSIX has it: what is open beneath is in nobody's way, and is where the directory is from then on.
    pub moves_opens: bool,
    /// The client that memory is charged to which is used meanwhile.
    pub consumer: Consumer,
}

impl Caller {
    /// A caller that holds nothing.
    pub fn new(principal: Principal) -> Self {
        Self { principal, holder: None, open: None, moves_opens: false, consumer: SERVER }
    }

    /// A caller that has not said who it is.
    pub fn anonymous() -> Self {
        Self::new(Accounts::none().anonymous())
    }

    /// The operator of this machine, as whom the server acts on its own behalf.
    pub fn operator() -> Self {
        Self::new(Accounts::none().local_administrator())
    }

    /// The same caller, whose own leases and callbacks are spared.
    #[must_use]
    pub fn sparing(self, holder: Holder) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// The same caller, with memory charged to a client.
    #[must_use]
    pub fn charged_to(self, consumer: Consumer) -> Self {
        Self { consumer, ..self }
    }
}

/// The server itself, which comes from no address.
pub(crate) const SERVER: Consumer = Consumer { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), user: None };
