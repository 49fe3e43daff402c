//! Bursts of DATA to a stock peer, of half a window and at most its socket buffer.
//!
//! A stock peer acknowledges every second packet, so a sender that answers each ACK sends two packets at a time, and each
//! time costs a wake-up, a pass and a system call. While the peer has work left a call waits for more ACKs instead; when
//! it has none, or none came for a while, what may leave leaves.

use std::time::{Duration, Instant};

use super::Call;
use crate::connection::Core;
use crate::shared::Shared;

/// State of a call between two bursts.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    /// Number of packets of the begun burst that are yet to leave.
    left: u32,
    /// Time since which packets that could leave wait for more to leave with them.
    held_since: Option<Instant>,
    /// Packets in flight as the peer's room counts them.
    charged: u32,
}

impl Bursts {
    pub(super) fn on_sent(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.held_since = None;
    }

    /// Returns whether the packet about to leave is the last of the burst.
    pub(super) fn ends_now(&self) -> bool {
        self.left <= 1
    }

    /// Ends the burst, as the call's turn ends.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }
}

impl Call {
    /// Returns whether a packet that has not been sent before may leave now; `window` is the congestion
    /// window.
    pub(super) fn may_leave(&mut self, now: Instant, window: u32, core: &Core, shared: &mut Shared) -> bool {
        let peer = &mut shared.peers[core.peer];
        if !peer.is_stock() || self.bursts.left > 0 {
            return true;
        }
        let (in_flight, unsent) = (self.tx.in_flight(), self.tx.unsent());
        let (by_window, by_edge) = (window.saturating_sub(in_flight), self.edge - self.tx.next());
        let open = by_window.min(by_edge).min(unsent);
        let config = &shared.config;
        let room = peer.room.left(core.index, peer.rtt.min_rtt(), config);
        // Two jumbograms, or what is configured.
        let burst = config.stock_burst.max(2 * u32::from(peer.jumbogram_parts(now, &*core.security)));
        let wanted = burst.min(config.stock_in_flight).min((window.min(peer.window) / 2).max(1)).min(unsent);
        let idle = self.tx.next() - self.tx.base() < FEW;
        let held_for =
            self.bursts.held_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let sendable = open.min(room);
        let starved = in_flight == 0 && held_for >= CROWDED_MAX;
        if sendable >= wanted || sendable > 0 && (idle || held_for >= HELD_MAX) || starved {
            self.bursts.left = sendable.max(open.min(2));
            return true;
        }
        let first = u64::from(self.bursts.held_since.is_none());
        let since = *self.bursts.held_since.get_or_insert(now);
        self.window_limited = by_window < by_edge.min(unsent);
        if room < wanted.min(open) {
            peer.room.wait(core.index, wanted.min(open));
            shared.stats.bursts_crowded += first;
            self.paced_until = Some(now + CROWDED_MAX);
        } else {
            shared.stats.bursts_gathered += first;
            self.paced_until = Some(since + HELD_MAX);
        }
        false
    }

    /// Updates the peer's room with the packets that the call has under way.
    pub(crate) fn settle_room(&mut self, peer: usize, shared: &mut Shared) {
        let peer = &mut shared.peers[peer];
        let in_flight = if peer.is_stock() { self.tx.in_flight() } else { 0 };
        let before = std::mem::replace(&mut self.bursts.charged, in_flight);
        if before == in_flight {
            return;
        }
        peer.room.change(before, in_flight);
        if in_flight < before {
            shared.ready.extend(peer.call_next(&shared.config));
        }
    }

    /// Removes the call's packets from the peer's room, as it ends or goes to another address.
    pub(crate) fn leave_room(&mut self, peer: usize, shared: &mut Shared) {
        let before = std::mem::take(&mut self.bursts.charged);
        if before > 0 {
            let peer = &mut shared.peers[peer];
            peer.room.change(before, 0);
            shared.ready.extend(peer.call_next(&shared.config));
        }
    }
}

/// Unread packets below which a peer has nothing to do, and no ACK is on its way.
const FEW: u32 = 4;
/// Longest time for which packets wait for more ACKs.
const HELD_MAX: Duration = Duration::from_millis(1);
/// Time for which waiting calls let other calls' packets arrive before they check by themselves, unless
/// woken.
const CROWDED_MAX: Duration = Duration::from_millis(20);
