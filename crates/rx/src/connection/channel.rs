//! Channel of a connection, where calls follow each other, one at a time, with rising numbers.

use std::time::Instant;

use crate::ack::AckReason;
use crate::call::Call;
use crate::config::EndpointConfig;
use crate::congestion::{Controller, INITIAL_WINDOW};
use crate::peer::Peer;
use crate::send_limit::SendLimit;

#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Number of the current or last call.
    pub(crate) number: u32,
    /// Highest call that a connection with the same ids at another address has begun.
    pub(crate) elsewhere: u32,
    pub(crate) call: Option<Box<Call>>,
    /// Receive window in packets that the last call's reader kept up with; 0 before the first.
    pub(crate) receive_window: u32,
    /// Congestion controller, kept from call to call: the path is the same.
    pub(crate) controller: Option<Box<dyn Controller>>,
    /// Answer to a peer that still asks about the last call.
    pub(crate) done: Option<FinishedCall>,
    /// Code by which this side ended the last call, for peers that go on sending.
    pub(crate) aborted: Option<i32>,
}

/// Last call of a channel: over here, but perhaps unknown to the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedCall {
    /// First packet number behind the last of the call.
    pub(crate) next: u32,
    /// Serial to name in the ACK.
    pub(crate) prompt: u32,
    pub(crate) due: Due,
    /// ACKs of a client that have gone out without being asked for.
    pub(crate) sent: u8,
}

/// Time when the next ACK for a finished call goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The timer of the ACK is set in the next pass.
    Later,
    /// The ACK is sent at this time.
    At(Instant),
    /// The ACK is sent in the next pass: the peer asked by a packet, or by a ping that the answer must name.
    Now(AckReason),
    /// The ACK is sent only if the peer asks.
    Implied,
}

impl Channel {
    /// Begins a call, with what other channels of the peer have learnt of the path.
    pub(crate) fn begin(&mut self, now: Instant, call: Call, peer: &Peer, config: &EndpointConfig) {
        self.number = call.handle.number;
        self.aborted = None;
        self.call = Some(Box::new(call));
        if peer.losses_mislead(now) {
            self.controller.get_or_insert_with(|| config.congestion.build()).distrust_losses();
        }
    }

    /// Returns how many packets the call may hold: a congestion window in flight, and as many again, within
    /// bounds, to refill it while ACKs come back.
    pub(crate) fn send_limit(&self, config: &EndpointConfig) -> SendLimit {
        let window = self.controller.as_ref().map_or(INITIAL_WINDOW, |controller| controller.window());
        let ahead = window.clamp(SEND_AHEAD_MIN, SEND_AHEAD_MAX);
        SendLimit { held: config.send_window.min(window.saturating_add(ahead)), ahead }
    }
}

/// Least packets queued beyond the congestion window: a GSO burst, and no more than a lane sends between two
/// looks at its applications.
const SEND_AHEAD_MIN: u32 = 64;
//@ limit: packets under way of a lane
//@ section: Rx
//@ unit: packet
//@ connection: 16 at least
//@ all: lane: {}, and 2 for each microsecond of round trip
//@ empty: a call waits for the ACK that it asked for
//@ counter: rx_packets_in_use
//@ attack: rx-soft-acks
const SEND_AHEAD_MAX: u32 = 1024;
