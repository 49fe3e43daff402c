//! Room in a stock peer's socket buffer, which all calls of its address share.
//!
//! OpenAFS receives by one thread from a socket of 64 KB (`rx_UdpBufSize`). Linux grants twice that, charges 2,304 bytes
//! for a packet of 1,444, and gives back what was read only once it is a quarter of all: 42 packets fit before one is
//! dropped. A call's window is 32, so two calls at once overrun it, and each overrun costs the client its round trips and
//! both sides the resends.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::EndpointConfig;

/// Bytes under way to one address, and the connections that wait for room.
#[derive(Debug, Default)]
pub(crate) struct SocketRoom {
    under_way: u32,
    /// Connections that have something to send, first come first served.
    waiting: VecDeque<Waiter>,
    /// Connection whose turn it is.
    called: Option<u32>,
}

/// Connection that waits, with its burst.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    connection: u32,
    /// Least packets of the connection's next burst: with less room it would only wait again.
    burst: u32,
}

impl SocketRoom {
    /// Returns how many packets a connection may send on top of those under way, where the smallest round
    /// trip is `min_rtt`. What a long path holds is in no buffer: it may be as much as the fastest clients
    /// take in that time.
    pub(crate) fn left(&self, connection: u32, min_rtt: Duration, config: &EndpointConfig) -> u32 {
        if self.is_crowded() && self.called != Some(connection) {
            return 0;
        }
        self.free(min_rtt, config)
    }

    /// Returns how many packets there is room for, whichever connection has the turn.
    pub(crate) fn free(&self, min_rtt: Duration, config: &EndpointConfig) -> u32 {
        let on_path = PACKETS_PER_MS * u32::try_from(min_rtt.as_millis()).unwrap_or(u32::MAX).min(MS_MAX);
        (config.stock_in_flight + on_path).saturating_sub(self.under_way)
    }

    /// Notes that the bytes that one call has under way have changed.
    pub(crate) fn change(&mut self, before: u32, now: u32) {
        self.under_way = self.under_way.saturating_sub(before) + now;
    }

    /// Returns whether connections wait for one another.
    pub(crate) fn is_crowded(&self) -> bool {
        self.called.is_some() || !self.waiting.is_empty()
    }

    /// Queues the connection until there is room for a burst of several packets. Of several of its calls the
    /// one with the shortest burst counts.
    pub(crate) fn wait(&mut self, connection: u32, burst: u32) {
        if let Some(waiter) = self.waiting.iter_mut().find(|waiter| waiter.connection == connection) {
            waiter.burst = waiter.burst.min(burst);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Waiter { connection, burst });
        }
    }

    /// Returns the connection that is to send now, if one waits and its burst has room again.
    pub(crate) fn call(&mut self, min_rtt: Duration, config: &EndpointConfig) -> Option<u32> {
        let next = self.waiting.front()?;
        if self.called.is_some() || self.under_way > 0 && self.free(min_rtt, config) < next.burst {
            return None;
        }
        self.called = self.waiting.pop_front().map(|waiter| waiter.connection);
        self.called
    }

    /// Ends the turn of a connection that has had it, or is gone: the next may be called.
    pub(crate) fn pass_on(&mut self, connection: u32) {
        if self.called == Some(connection) {
            self.called = None;
        }
    }

    /// Removes a connection that is gone.
    pub(crate) fn forget(&mut self, connection: u32) {
        self.pass_on(connection);
        self.waiting.retain(|waiter| waiter.connection != connection);
    }

    #[cfg(test)]
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }
}

//@ limit: room in a stock client's socket
//@ section: Rx
//@ unit: packet under way
//@ connection: a burst of 8 while others wait
//@ address: 40 (`stock_in_flight`), and {} for each millisecond of the path
//@ all: lane: {WAITING_MAX} connections wait in line, others look every 20 ms
//@ empty: held back, first come first served; calls of the same client take turns
//@ counter: rx_bursts_held{why="socket_full"}
//@ attack: rx-soft-acks
/// Packets for each millisecond of the path: 1 Gb/s.
const PACKETS_PER_MS: u32 = 85;
const MS_MAX: u32 = 10_000;
/// Most connections that wait for one address. Others look again when their own ACKs come, or by their
/// timers.
const WAITING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_path_has_what_the_socket_holds_and_a_long_one_what_is_on_the_way_too() {
        let (mut room, config) = (SocketRoom::default(), EndpointConfig::default());
        assert_eq!((room.left(1, MS / 10, &config), room.left(1, 10 * MS, &config)), (40, 890));
        room.change(0, 32);
        room.change(0, 20);
        assert_eq!((room.left(1, MS / 10, &config), room.left(1, MS, &config)), (0, 73));
        room.change(32, 0);
        assert_eq!((room.left(1, MS / 10, &config), room.under_way()), (20, 20));
    }

    #[test]
    fn who_waits_is_called_in_turn_and_nobody_goes_before() {
        let (mut room, config) = (SocketRoom::default(), EndpointConfig::default());
        let left = |room: &SocketRoom, connection| room.left(connection, MS / 10, &config);
        let call = |room: &mut SocketRoom| room.call(MS / 10, &config);
        room.change(0, 40);
        room.wait(3, 8);
        room.wait(3, 8);
        room.wait(5, 8);
        room.change(40, 33);
        assert_eq!(call(&mut room), None);
        room.change(1, 0);
        assert_eq!(call(&mut room), Some(3));
        assert_eq!((call(&mut room), left(&room, 7)), (None, 0));
        assert_eq!(left(&room, 3), 8);
        room.pass_on(7);
        assert_eq!(call(&mut room), None, "it is not for others to pass on");
        room.pass_on(3);
        assert_eq!(call(&mut room), Some(5));
        room.forget(5);
        assert_eq!(left(&room, 7), 8);
    }

    #[test]
    fn nobody_is_called_for_less_than_he_waits_to_send() {
        let (mut room, config) = (SocketRoom::default(), EndpointConfig::default());
        room.change(0, 32);
        room.wait(3, 12);
        assert_eq!(room.call(MS / 10, &config), None, "room for 8");
        assert_eq!(room.call(MS, &config), Some(3), "the path holds more");
        room.pass_on(3);
        room.wait(3, 12);
        room.wait(3, 6);
        assert_eq!(room.call(MS / 10, &config), Some(3), "another call of it has less to send");
        room.pass_on(3);
        room.wait(3, 100);
        room.change(32, 0);
        assert_eq!(room.call(MS / 10, &config), Some(3), "more room than all there is will not come");
    }
}
