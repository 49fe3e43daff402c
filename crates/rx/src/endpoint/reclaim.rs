//! Eviction when connections or packet buffers run short, of the source that holds most.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use budget::Claimant;

use super::Endpoint;
use crate::event::{ConnectionEnd, Side};
use crate::packet::BufferAccount;

impl Endpoint {
    /// Makes room for a connection of a proved client. A host or network that has its share, as many as are free or a
    /// few times that, replaces its own. Where none are free, the one that has most for its share gives up idle ones;
    /// that may be the newcomer's own.
    pub(super) fn make_room_by_share(&mut self, now: Instant, ip: IpAddr) -> bool {
        let books = self.shared.peers.sources.connections();
        debug_assert_eq!(books.held(), self.connections.len());
        if let Some(own) = books.over_share(ip.into(), 1) {
            return self.displace(now, own);
        }
        if books.free() > 0 {
            return true;
        }
        let (own, has) = books.heaviest_of(ip.into());
        match books.heaviest() {
            Some((heaviest, weight)) if weight > has => self.displace(now, heaviest),
            _ => self.displace(now, own),
        }
    }

    /// Returns whether a host, or one of its networks, has as many connections as it may now.
    pub(super) fn has_its_share(&self, ip: IpAddr) -> bool {
        self.shared.peers.sources.connections().over_share(ip.into(), 1).is_some()
    }

    /// Removes the connections of a host or network that have been idle longest: a batch of them, since each
    /// walk looks at all. Returns false if all of them have calls.
    fn displace(&mut self, now: Instant, of: Claimant) -> bool {
        let Claimant::Network(network) = of else { return false };
        let peers = &self.shared.peers;
        let idle = self.connections.iter().filter(|(_, connection)| {
            let core = &connection.core;
            let is_idle = core.side == Side::Server && !connection.has_calls();
            is_idle && network.contains(peers[core.peer].address().ip())
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
            self.remove(now, index, ConnectionEnd::Displaced);
        }
        true
    }

    /// Takes packets ahead of gaps back from the hosts that hold most buffers, once few are free. They were
    /// only soft-acknowledged, so their senders have them still.
    pub(super) fn reclaim_if_short(&mut self, now: Instant) {
        let pool = &self.shared.pool;
        if pool.free_count() >= pool.allocated() / SHORT || now < self.next_reclaim {
            return;
        }
        let wanted = (pool.allocated() / SHORT * 2).saturating_sub(pool.free_count());
        let givers = self.holders_ahead_of_gaps(wanted);
        self.next_reclaim = now + if givers.is_empty() { RECLAIM_RETRY } else { RECLAIM_INTERVAL };
        if givers.is_empty() {
            return;
        }
        for (_, connection) in &mut self.connections {
            let account = connection.core.account();
            if connection.core.side == Side::Client || !givers.contains(&account) {
                continue;
            }
            for call in connection.channels.iter_mut().filter_map(|channel| channel.call.as_mut()) {
                self.shared.stats.packets_reclaimed += u64::from(call.drop_ahead(&mut self.shared));
            }
            self.shared.mark_ready(&mut connection.core);
        }
    }

    /// Returns the hosts that hold most buffers, as many as it takes for `wanted` packets ahead of gaps.
    fn holders_ahead_of_gaps(&self, wanted: usize) -> HashSet<BufferAccount> {
        let mut ahead: HashMap<BufferAccount, usize> = HashMap::new();
        for (_, connection) in self.connections.iter().filter(|(_, found)| found.core.side == Side::Server) {
            let calls = connection.channels.iter().flat_map(|channel| &channel.call);
            let count: u32 = calls.map(|call| call.rx.ahead()).sum();
            if count > 0 {
                *ahead.entry(connection.core.account()).or_default() += count as usize;
            }
        }
        let mut holders: Vec<_> = ahead.into_iter().collect();
        holders.sort_unstable_by_key(|&(account, _)| Reverse(self.shared.pool.held_by(account)));
        let mut found = 0;
        let needed = holders.into_iter().take_while(|&(_, count)| {
            let more = found < wanted;
            found += count;
            more
        });
        needed.map(|(account, _)| account).collect()
    }
}

/// Idle connections removed by one look at all of them; at most a quarter of the host's or network's.
const DISPLACED_AT_ONCE: usize = 64;
/// Divisor of the buffers below which the free ones count as short.
const SHORT: usize = 8;
/// Time between two looks at all calls for packets to take back, where the last one found none.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(5);
const RECLAIM_RETRY: Duration = Duration::from_millis(100);
