//! Keys by which connections are found.

use std::hash::Hasher;
use std::net::SocketAddr;

use crate::connection::Core;
use crate::event::Side;
use crate::header::EPOCH_ANY_ADDRESS;

/// Key of a connection: epoch, id and side in one word, and the address where it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    id: u64,
    address: Option<SocketAddr>,
}

impl ConnectionKey {
    pub(super) fn client(epoch: u32, cid: u32) -> Self {
        Self { id: word(epoch, cid, Side::Client), address: None }
    }

    pub(super) fn server(epoch: u32, cid: u32, remote: SocketAddr) -> Self {
        let any = epoch & EPOCH_ANY_ADDRESS != 0;
        Self { id: word(epoch, cid, Side::Server), address: (!any).then_some(remote) }
    }

    /// Makes the key of a server connection that is found by its client's address too, whatever its epoch
    /// says.
    pub(super) fn at(epoch: u32, cid: u32, remote: SocketAddr) -> Self {
        Self { id: word(epoch, cid, Side::Server), address: Some(remote) }
    }

    pub(super) fn has_address(&self) -> bool {
        self.address.is_some()
    }

    pub(super) fn of(core: &Core) -> Self {
        match core.side {
            Side::Client => Self::client(core.epoch, core.cid),
            Side::Server if core.by_address => Self::at(core.epoch, core.cid, core.remote),
            Side::Server => Self::server(core.epoch, core.cid, core.remote),
        }
    }
}

fn word(epoch: u32, cid: u32, side: Side) -> u64 {
    u64::from(epoch) << 32 | u64::from(cid & !3) | u64::from(side == Side::Server)
}

impl std::hash::Hash for ConnectionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.id);
        if let Some(address) = &self.address {
            address.hash(state);
        }
    }
}
