//! Network reports (ICMP) that a connection's peer cannot be reached.
//!
//! Any host can send such a report, and a true one may be of a server that is just being started again. So
//! one report only makes a connection ask: after [`CONFIRM_AFTER`] it sends a PING. A second report, of a
//! packet sent after the first came, ends the calls, if nothing at all was heard from the peer between. A
//! host that is not on the path has to guess the connection's ids and serials, which are random, and cannot
//! keep the server's packets from coming.
//!
//! Where the peer keeps nothing once its socket is closed, as a client that a server calls back, its own word
//! that the port is closed ends the calls at once: no peer is there to be waited for. It has to quote a
//! packet of a call that is in progress.

use std::time::{Duration, Instant};

use super::Connection;
use super::core::UnreachableReport;
use super::server::PROBE_LEN_MIN;
use crate::event::{DeadReason, Side};
use crate::header::{CHANNELS, Header, serial_after};
use crate::shared::Shared;

impl Connection {
    /// Handles a report of the network, or of the peer's own address if `port_closed`, that the packet with
    /// this header did not arrive. Returns false for a report that is not believed.
    pub(crate) fn on_unreachable(
        &mut self,
        now: Instant,
        header: &Header,
        port_closed: bool,
        shared: &mut Shared,
    ) -> bool {
        let serial = header.serial;
        let recent = self.core.serial.wrapping_sub(serial) < SERIALS_RECENT;
        if !self.has_calls() || !recent {
            return false;
        }
        let received = shared.peers[self.core.peer].counters.bytes_received;
        if port_closed && self.is_of_call(header) {
            shared.peers[self.core.peer].on_port_closed();
            if self.ends_at_closed_port(shared) {
                self.kill_calls(DeadReason::PortClosed, shared);
                return true;
            }
        }
        if self.core.side != Side::Client {
            return false;
        }
        let current = |doubt: &UnreachableReport| {
            doubt.received == received && now.saturating_duration_since(doubt.since) < DOUBT_LASTS
        };
        match self.core.doubt.filter(current) {
            None => {
                let doubt =
                    UnreachableReport { since: now, serial: self.core.serial, received, asked: false };
                self.core.doubt = Some(doubt);
                shared.mark_ready(&mut self.core);
            }
            Some(first) if now >= first.since + CONFIRM_AFTER && serial_after(serial, first.serial) => {
                self.core.doubt = None;
                self.kill_calls(DeadReason::Unreachable, shared);
            }
            // The same moment again.
            Some(_) => {}
        }
        true
    }

    /// Returns whether a closed port ends the calls: where [`ConnectOptions`](crate::ConnectOptions) say so,
    /// and at a server that takes no calls any more.
    fn ends_at_closed_port(&self, shared: &Shared) -> bool {
        match self.core.side {
            Side::Client => self.core.ends_at_closed_port,
            Side::Server => shared.refuses.is_some(),
        }
    }

    /// Looks for clients of a server that takes no further calls: calls end at an address that has reported
    /// its port closed.
    ///
    /// The clients of other calls are asked whether they are there. One question to each may be sent whatever
    /// was sent before: without it nothing would tell of a client that went before it acknowledged anything.
    pub(crate) fn look_for_client(&mut self, shared: &mut Shared) {
        if self.end_if_port_closed(shared) {
            return;
        }
        self.core.validation.budget = self.core.validation.budget.max(PROBE_LEN_MIN);
        for call in self.channels.iter_mut().filter_map(|channel| channel.call.as_mut()) {
            call.ping_due = true;
        }
        shared.mark_ready(&mut self.core);
    }

    /// Ends the calls of a client whose address has reported its port closed and sent nothing since, on any
    /// connection.
    pub(crate) fn end_if_port_closed(&mut self, shared: &mut Shared) -> bool {
        let is_closed = shared.peers[self.core.peer].is_port_closed();
        if is_closed {
            self.kill_calls(DeadReason::PortClosed, shared);
        }
        is_closed
    }

    /// Returns whether a packet belongs to a call that is in progress.
    fn is_of_call(&self, header: &Header) -> bool {
        let call = self.channels[header.channel()].call.as_ref();
        call.is_some_and(|call| call.handle.number == header.call)
    }

    fn kill_calls(&mut self, reason: DeadReason, shared: &mut Shared) {
        for channel in 0..CHANNELS {
            self.kill_call(channel, reason, shared);
        }
    }

    /// Returns when to ask whether the peer is there after all.
    pub(super) fn confirm_at(&self) -> Option<Instant> {
        let doubt = self.core.doubt.filter(|doubt| !doubt.asked)?;
        Some(doubt.since + CONFIRM_AFTER)
    }

    /// Asks the peer once when it is time to: an answer ends the doubt, and so does silence.
    pub(super) fn confirm(&mut self, now: Instant) {
        if self.confirm_at().is_some_and(|at| now >= at)
            && let Some(doubt) = &mut self.core.doubt
        {
            doubt.asked = true;
            for call in self.channels.iter_mut().filter_map(|channel| channel.call.as_mut()) {
                call.ping_due = true;
            }
        }
    }
}

/// Time between two reports that end calls: a server may be restarted meanwhile, and routers report the same
/// only so often (Linux: once a second).
const CONFIRM_AFTER: Duration = Duration::from_millis(1500);
/// Time after which a first report is forgotten.
const DOUBT_LASTS: Duration = Duration::from_secs(10);
/// Number of a connection's newest packets that reports are believed of.
const SERIALS_RECENT: u32 = 4096;
