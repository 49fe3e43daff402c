//! Who gives way when connections or packet buffers run short: whoever holds most of them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::Endpoint;
use crate::event::Side;
use crate::packet::Account;
use crate::source::may_take_more;

impl Endpoint {
    /// Makes room for a connection of a proved client. A host that has as many as are free replaces its own; where none
    /// are free, the host that has most gives up idle ones; that may be the newcomer's own.
    pub(super) fn make_room_by_share(&mut self, now: Instant, ip: IpAddr) -> bool {
        if self.has_its_share(ip) {
            let Some(own) = self.shared.peers.sources.account_of(ip) else { return false };
            return self.displace(now, own);
        }
        if self.connections.len() < self.shared.config.connections_max {
            return true;
        }
        let has = self.shared.peers.sources.connections_of(ip);
        match self.shared.peers.sources.largest() {
            Some((largest, count)) if count > has => self.displace(now, largest),
            _ => self.shared.peers.sources.account_of(ip).is_some_and(|own| self.displace(now, own)),
        }
    }

    /// Whether a host has as many connections as it may now.
    pub(super) fn has_its_share(&self, ip: IpAddr) -> bool {
        let free = self.shared.config.connections_max.saturating_sub(self.connections.len());
        !may_take_more(self.shared.peers.sources.connections_of(ip), free, CONNECTIONS_MIN)
    }

    /// Removes the connections of a host that have been idle longest: a batch of them, since each walk looks at all.
    /// False if all of them have calls.
    fn displace(&mut self, now: Instant, account: Account) -> bool {
        let peers = &self.shared.peers;
        let idle = self.connections.iter().filter(|(_, connection)| {
            let core = &connection.core;
            core.side == Side::Server && peers[core.peer].account == account && !connection.has_calls()
        });
        let mut oldest: Vec<_> =
            idle.map(|(index, connection)| (connection.core.active_at, index as u32)).collect();
        let count = DISPLACED_AT_ONCE.min(oldest.len().div_ceil(4));
        if count == 0 {
            return false;
        }
        oldest.select_nth_unstable(count - 1);
        for &(_, index) in &oldest[..count] {
            self.shared.stats.connections_displaced += 1;
            self.remove(now, index);
        }
        true
    }

    /// Takes packets ahead of gaps back from the host that holds most buffers, once few are free. They were only
    /// soft-acknowledged, so their senders have them still.
    pub(super) fn reclaim_if_short(&mut self, now: Instant) {
        let pool = &self.shared.pool;
        if pool.free_count() >= pool.allocated() / SHORT || now < self.next_reclaim {
            return;
        }
        let enough = pool.allocated() / SHORT * 2;
        while self.shared.pool.free_count() < enough && self.reclaim_from_largest() {}
        self.next_reclaim = now + RECLAIM_INTERVAL;
    }

    /// False if nobody holds anything ahead of a gap.
    fn reclaim_from_largest(&mut self) -> bool {
        let shared = &self.shared;
        let ahead = self.connections.iter().filter(|(_, connection)| {
            connection.core.side == Side::Server
                && connection.channels.iter().flat_map(|channel| &channel.call).any(|call| call.rx.has_gap())
        });
        let accounts = ahead.map(|(_, connection)| connection.core.account(shared));
        let Some(largest) = accounts.max_by_key(|&account| shared.pool.held_by(account)) else {
            return false;
        };
        let before = self.shared.stats.packets_reclaimed;
        for (_, connection) in &mut self.connections {
            if connection.core.side == Side::Client || connection.core.account(&self.shared) != largest {
                continue;
            }
            for call in connection.channels.iter_mut().filter_map(|channel| channel.call.as_mut()) {
                self.shared.stats.packets_reclaimed += u64::from(call.drop_ahead(&mut self.shared));
            }
            self.shared.mark_ready(&mut connection.core);
        }
        self.shared.stats.packets_reclaimed > before
    }
}

/// Connections that a host may have as long as any are free.
const CONNECTIONS_MIN: usize = 16;
/// Idle connections removed by one look at all of them; at most a quarter of the host's.
const DISPLACED_AT_ONCE: usize = 64;
/// Buffers run short when fewer than one in this many are free.
const SHORT: usize = 8;
/// Time between two looks at all calls for packets to take back.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(5);
