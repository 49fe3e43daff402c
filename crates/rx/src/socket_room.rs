//! Room in a stock peer's socket buffer, which all calls of its address share.
//!
//! OpenAFS receives by one thread from a socket of 64 KB (`rx_UdpBufSize`). Linux grants twice that, charges 2,304 bytes
//! for a packet of 1,444, and gives back what was read only once it is a quarter of all: 42 packets fit before one is
//! dropped. A call's window is 32, so two calls at once overrun it, and each overrun costs the client its round trips and
//! both sides the resends.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::EndpointConfig;

/// What is under way to one address, and who waits for some of it to arrive.
#[derive(Debug, Default)]
pub(crate) struct SocketRoom {
    under_way: u32,
    /// Connections that have something to send, first come first served.
    waiting: VecDeque<u32>,
    /// The one whose turn it is.
    called: Option<u32>,
}

impl SocketRoom {
    /// Packets that a connection may send on top of what is under way, where the smallest round trip is `min_rtt`. What a
    /// long path holds is in no buffer: it may be as much as the fastest clients take in that time.
    pub(crate) fn left(&self, connection: u32, min_rtt: Duration, config: &EndpointConfig) -> u32 {
        if self.is_crowded() && self.called != Some(connection) {
            return 0;
        }
        let on_path = PACKETS_PER_MS * u32::try_from(min_rtt.as_millis()).unwrap_or(u32::MAX).min(MS_MAX);
        (config.stock_in_flight + on_path).saturating_sub(self.under_way)
    }

    /// What one call has under way has changed.
    pub(crate) fn change(&mut self, before: u32, now: u32) {
        self.under_way = self.under_way.saturating_sub(before) + now;
    }

    /// Whether connections wait for one another.
    pub(crate) fn is_crowded(&self) -> bool {
        self.called.is_some() || !self.waiting.is_empty()
    }

    /// Calls the connection once there is room for a burst.
    pub(crate) fn wait(&mut self, connection: u32) {
        if !self.waiting.contains(&connection) && self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(connection);
        }
    }

    /// Who is to send now, if somebody waits and there is room again.
    pub(crate) fn call(&mut self, config: &EndpointConfig) -> Option<u32> {
        let full = self.under_way + config.stock_burst > config.stock_in_flight;
        if self.called.is_some() || full && self.under_way > 0 {
            return None;
        }
        self.called = self.waiting.pop_front();
        self.called
    }

    /// The connection has had its turn, or is gone: the next may be called.
    pub(crate) fn pass_on(&mut self, connection: u32) {
        if self.called == Some(connection) {
            self.called = None;
        }
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, connection: u32) {
        self.pass_on(connection);
        self.waiting.retain(|&waiting| waiting != connection);
    }

    #[cfg(test)]
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }
}

/// Packets for each millisecond of the path: 1 Gb/s.
const PACKETS_PER_MS: u32 = 85;
const MS_MAX: u32 = 10_000;
/// Connections that may wait for one address. Others look again when their own ACKs come, or by their timers.
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
        room.change(0, 40);
        room.wait(3);
        room.wait(3);
        room.wait(5);
        room.change(40, 40 - config.stock_burst + 1);
        assert_eq!(room.call(&config), None);
        room.change(1, 0);
        assert_eq!(room.call(&config), Some(3));
        assert_eq!((room.call(&config), room.left(7, MS / 10, &config)), (None, 0));
        assert!(room.left(3, MS / 10, &config) >= config.stock_burst);
        room.pass_on(7);
        assert_eq!(room.call(&config), None, "it is not for others to pass on");
        room.pass_on(3);
        assert_eq!(room.call(&config), Some(5));
        room.forget(5);
        assert_eq!(room.left(7, MS / 10, &config), config.stock_burst);
    }
}
