//! The embedded cell: what a cell's database and volume servers tell, answered from what this server serves.
//!
//! - [`Location`] (VL, 7003): where volumes are. All are here;
//! - [`Protection`] (PR, 7002): users and groups, from the accounts;
//! - [`Volumes`] (AFSVol, 7005): what the volumes are like, for `vos`.
//!
//! Nothing can be changed through them: accounts, volumes and the configuration have commands of their own. Stock servers
//! of a cell tell anonymous callers all that these do but lists of users and of groups' members, which `pts` could not
//! show without signing in.

mod counters;
mod current;
mod location;
mod principals;
mod protection;
mod server_addresses;
mod volumes;

use std::rc::Rc;
use std::sync::Arc;

use rx_lane::CallError;
use xdr::rpc::Failure;

use crate::attached_volumes::AttachedVolumes;

pub use self::counters::CellCounters;
pub use self::current::Current;
pub use self::location::Location;
pub use self::principals::Principals;
pub use self::protection::Protection;
pub use self::server_addresses::ServerAddresses;
pub use self::volumes::Volumes;

/// State that one lane's servers answer from. Replaced whole at a reload.
pub struct Cell {
    /// The volumes.
    pub attached: Rc<AttachedVolumes>,
    /// The server.
    pub server_addresses: Arc<ServerAddresses>,
    /// Users and groups.
    pub principals: Arc<Principals>,
}

/// Reason why a procedure has no reply.
type Refusal = Failure<CallError>;

/// Procedures that are refused to every caller: what they would change is changed by other means.
macro_rules! refused {
    ($code:expr, $($name:ident($request:ty) -> $reply:ty;)+) => { $(
        async fn $name(&self, _: &ServerCall, _: $request) -> Result<$reply, Refusal> {
            self.counters.changes_refused.increment();
            Err(Failure::Refused($code))
        }
    )+ };
}
use refused;
