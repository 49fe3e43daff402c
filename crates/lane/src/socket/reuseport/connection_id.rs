//! Steering of packets of connections that the server opened (callbacks; they lack CLIENT_INITIATED) to the
//! lane that opened them. It also decides which connection ids a lane may give to such connections.
//!
//! An Rx packet starts with the epoch and the connection id, 32 bits each, big-endian; the id's low two bits are
//! the channel (rx-spec, "packet header"). The lane is a residue of both, so that every channel of a connection
//! leads to one lane:
//!
//! ```text
//! selector = (cid >> 2) XOR epoch
//! owner    = selector mod lanes                     lanes: all lanes of the server, running or not
//! ```
//!
//! They go to `owner`, whatever NIC they come by. The rule a driver must follow: a connection that lane k opens gets an
//! id whose owner is k. Connections that clients open are steered by the client's address.

/// Returns the lane that a connection's ids lead to. `lanes` counts all lanes of the server, and is not 0.
pub fn owner_lane(epoch: u32, cid: u32, lanes: usize) -> usize {
    (selector(epoch, cid) % lanes as u32) as usize
}

/// Connection ids, channel bits zero, that lead to one lane under one epoch. They come in ascending order from
/// the start and begin again after the last; a server with n lanes has about 2^30 / n for each.
#[derive(Clone, Debug)]
pub struct LaneConnectionIds {
    epoch: u32,
    lane: u32,
    lanes: u32,
    /// Position in the lane's series.
    position: u32,
}

impl LaneConnectionIds {
    /// Makes the ids of `lane` among `lanes`, starting at a place chosen by `start`. `start` is a random
    /// number, so that a server that was restarted within one epoch does not repeat the ids it gave before.
    ///
    /// # Panics
    /// When `lane` is not below `lanes`, or `lanes` is above 2^20.
    pub fn new(epoch: u32, lane: usize, lanes: usize, start: u32) -> Self {
        assert!(lane < lanes && lanes <= 1 << 20, "lane {lane} is not one of {lanes}");
        let mut ids = Self { epoch, lane: lane as u32, lanes: lanes as u32, position: 0 };
        ids.position = start % ids.series();
        ids
    }

    /// Returns the next id, with channel bits of zero.
    pub fn next_id(&mut self) -> u32 {
        let selector = self.first() + self.position * self.lanes;
        self.position = (self.position + 1) % self.series();
        // Both have the epoch's two top bits, so the shift loses nothing.
        (selector ^ self.epoch) << 2
    }

    /// Returns the lane's lowest selector: ids have 30 bits, so a selector's top two bits are the epoch's.
    fn first(&self) -> u32 {
        let base = self.epoch & 0xc000_0000;
        base + (self.lane + self.lanes - base % self.lanes) % self.lanes
    }

    fn series(&self) -> u32 {
        let offset = self.first() & 0x3fff_ffff;
        ((1 << 30) - offset).div_ceil(self.lanes)
    }
}

fn selector(epoch: u32, cid: u32) -> u32 {
    (cid >> 2) ^ epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_lane_lead_to_it_on_every_channel() {
        for epoch in [0, 1, 0x8000_0001, 0xbfff_ffff, 0xffff_ffff, 0x1234_5678] {
            for lanes in [1, 2, 3, 7, 8, 64, 255] {
                for lane in 0..lanes {
                    let mut ids = LaneConnectionIds::new(epoch, lane, lanes, epoch ^ 77);
                    for cid in (0..20).map(|_| ids.next_id()) {
                        assert_eq!(cid & 3, 0);
                        assert!((0..4).all(|channel| owner_lane(epoch, cid | channel, lanes) == lane));
                    }
                }
            }
        }
    }

    #[test]
    fn ids_do_not_repeat_before_the_series_ends() {
        let mut ids = LaneConnectionIds::new(0x8765_4321, 3, 1 << 20, 5);
        let series = ids.series() as usize;
        assert_eq!(series, 1 << 10);
        let mut seen: Vec<u32> = (0..series).map(|_| ids.next_id()).collect();
        assert_eq!(ids.next_id(), seen[0], "the series begins again");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), series);
    }

    #[test]
    fn last_id_of_a_series_keeps_the_top_bits_of_the_epoch() {
        for lane in 0..3 {
            let mut ids = LaneConnectionIds::new(0xffff_ffff, lane, 3, 0);
            ids.position = ids.series() - 1;
            let last = ids.next_id();
            assert_eq!(owner_lane(0xffff_ffff, last, 3), lane);
        }
    }
}
