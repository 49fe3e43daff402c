//! On whose behalf a command is done.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use grants::Client;
use smb_wire::{Dialect, Guid};
use vfs::Caller;

use crate::open::Open;

/// A session's user in one tree connect, by one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Whose rights count.
    pub caller: Caller,
    /// SessionId.
    pub session: u64,
    /// TreeId.
    pub tree: u32,
    /// ClientGuid of the connection; zero for dialect 2.0.2.
    pub client: Guid,
    /// Where the connection comes from.
    pub address: IpAddr,
    /// What was negotiated.
    pub dialect: Dialect,
    /// The POSIX extensions were negotiated.
    pub posix: bool,
}

impl Asker {
    /// In whose share of what one object may have it counts: the client's, whatever its connections; without a GUID the
    /// address's.
    pub(crate) fn grants_client(&self) -> Client {
        let mut hasher = DefaultHasher::new();
        match self.client.is_zero() {
            true => self.address.hash(&mut hasher),
            false => self.client.hash(&mut hasher),
        }
        Client(hasher.finish())
    }

    /// The caller as who has this open: what is his is spared.
    pub(crate) fn by(&self, open: &Open) -> Caller {
        open.grants().caller(&self.caller)
    }
}
