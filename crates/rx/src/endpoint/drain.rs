//! Drain of an endpoint: new calls are refused, those in progress end, connections are removed.

use std::time::Instant;

use super::Endpoint;
use crate::call::Delivery;
use crate::connection::Connection;
use crate::event::{ConnectionEnd, Side};
use crate::header::CHANNELS;

impl Endpoint {
    /// Refuses further calls of clients: each is aborted with `code`, as are those that services have not
    /// seen yet. [`RESTARTING`](crate::abort::RESTARTING) is what stock clients try again, elsewhere or
    /// later. Calls in progress go on, and calls we make are not concerned. Their clients are asked whether
    /// they are there: one whose address reports the port closed
    /// ([`handle_unreachable`](Self::handle_unreachable)), or has said so last, is waited for no longer.
    pub fn refuse_calls(&mut self, code: i32) {
        self.shared.refuses = Some(code);
        self.abort_calls(code, |delivery| delivery == Delivery::Held);
        for (_, connection) in self.connections.iter_mut().filter(|(_, found)| is_served(found)) {
            connection.look_for_client(&mut self.shared);
        }
    }

    /// Ends calls of clients whose address has reported its port closed on any connection, so that a drain
    /// does not wait for them.
    pub(super) fn end_calls_of_closed_ports(&mut self) {
        for (_, connection) in self.connections.iter_mut().filter(|(_, found)| is_served(found)) {
            connection.end_if_port_closed(&mut self.shared);
        }
    }

    /// Returns the number of clients' calls that services have seen and that have not ended, those whose
    /// reply is on its way included. Looks at every connection: for rare use.
    pub fn calls_in_progress(&self) -> usize {
        let servers = self.connections.iter().filter(|(_, found)| found.core.side == Side::Server);
        let calls = servers.flat_map(|(_, found)| found.channels.iter().flat_map(|channel| &channel.call));
        calls.filter(|call| call.is_delivered()).count()
    }

    /// Aborts all calls of clients with `code`, which their applications get as an event. Returns how many
    /// there were.
    pub fn cut_calls(&mut self, code: i32) -> usize {
        self.abort_calls(code, |_| true)
    }

    fn abort_calls(&mut self, code: i32, concerns: impl Fn(Delivery) -> bool) -> usize {
        let mut count = 0;
        for (_, connection) in
            self.connections.iter_mut().filter(|(_, found)| found.core.side == Side::Server)
        {
            for channel in 0..CHANNELS {
                let call = connection.channels[channel].call.as_ref();
                if call.is_some_and(|call| concerns(call.delivery)) {
                    connection.abort_call(channel, code, true, &mut self.shared);
                    count += 1;
                }
            }
        }
        count
    }

    /// Removes the connections of clients that have no call and whose last calls ended well; the others stay
    /// to repeat their aborts to clients that have not received them. Returns how many were removed.
    pub fn let_go(&mut self, now: Instant) -> usize {
        let done = self.connections.iter().filter(|(_, found)| {
            let heard = found.channels.iter().all(|channel| channel.aborted.is_none());
            found.core.side == Side::Server && !found.has_calls() && found.control.is_empty() && heard
        });
        let done: Vec<_> = done.map(|(index, _)| index as u32).collect();
        done.iter().for_each(|&index| self.remove(now, index, ConnectionEnd::Closed));
        done.len()
    }
}

/// Returns whether a client has calls on the connection.
fn is_served(connection: &Connection) -> bool {
    connection.core.side == Side::Server && connection.has_calls()
}
