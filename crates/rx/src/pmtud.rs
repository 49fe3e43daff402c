//! Path-MTU discovery for one peer: how large a datagram the path carries.
//!
//! A probe is a PING ACK padded with zeros to the size under test and sent with DF set, so losing it costs no
//! data. Sizes are whole UDP payloads: Rx header included, IP and UDP headers not.

use std::time::{Duration, Instant};

/// Limits and timers of [`MtuDiscovery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuConfig {
    /// Size in bytes that is believed to pass before anything is known. Clamped to `min..=max`.
    pub initial: u16,
    /// Size in bytes taken to pass on every path, to which a black hole falls back.
    pub min: u16,
    /// Largest size in bytes worth a probe: the smaller of the interface's and the peer's advertised limit.
    pub max: u16,
    /// Time for which a finished search stands before larger sizes are tried again (paths change).
    pub interval: Duration,
    /// Time after a black hole before searching again.
    pub black_hole_cooldown: Duration,
}

impl Default for MtuConfig {
    /// Returns limits from one plain packet up to what an Ethernet path carries over IPv4.
    fn default() -> Self {
        Self {
            initial: PLAIN_PACKET_SIZE,
            min: SAFE_SIZE,
            max: ETHERNET_SIZE,
            interval: Duration::from_secs(600),
            black_hole_cooldown: Duration::from_secs(60),
        }
    }
}

/// Search for the largest datagram that reaches a peer.
///
/// The owner asks [`poll_probe`](Self::poll_probe) when it may send and reports the probe's fate. At most one is
/// outstanding. Data packets that arrive are not followed one by one: they may be fragmented, so a path that became
/// narrower still carries them. One that carries nothing large at all shows as timeouts, after which the owner calls
/// [`on_black_hole`](Self::on_black_hole).
#[derive(Clone, Debug)]
pub struct MtuDiscovery {
    config: MtuConfig,
    current: u16,
    phase: SearchPhase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SearchPhase {
    Searching(Search),
    /// The search rests until this time.
    Resting(Instant),
}

/// Binary search, where `current` passes and sizes above `upper` are not known to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Search {
    upper: u16,
    probe: Option<u16>,
    lost: u32,
    /// True to probe the whole range first: most paths carry the interface's MTU.
    first: bool,
}

impl MtuDiscovery {
    /// Starts to search at once.
    pub fn new(config: MtuConfig) -> Self {
        let config = MtuConfig { max: config.max.max(config.min), ..config };
        let current = config.initial.clamp(config.min, config.max);
        Self { config, current, phase: SearchPhase::Searching(Search::new(config.max)) }
    }

    /// Returns the largest datagram that may be sent, in bytes of UDP payload.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// Returns whether a probe is outstanding.
    pub fn probe_in_flight(&self) -> bool {
        matches!(&self.phase, SearchPhase::Searching(Search { probe: Some(_), .. }))
    }

    /// Returns the size of the probe to send now, if one is due. The caller sends it and reports its fate.
    pub fn poll_probe(&mut self, now: Instant) -> Option<u16> {
        if let SearchPhase::Resting(until) = self.phase {
            if now < until {
                return None;
            }
            self.phase = SearchPhase::Searching(Search::new(self.config.max));
        }
        let SearchPhase::Searching(search) = &mut self.phase else { return None };
        if search.probe.is_some() {
            return None;
        }
        let size = search.next_size(self.current);
        if size.is_none() {
            self.phase = SearchPhase::Resting(now + self.config.interval);
        }
        size
    }

    /// Notes that the outstanding probe was answered: its size passes.
    pub fn on_probe_acked(&mut self) {
        let SearchPhase::Searching(search) = &mut self.phase else { return };
        if let Some(size) = search.probe.take() {
            self.current = size;
            search.lost = 0;
        }
    }

    /// Notes that the outstanding probe was not answered in time. One size is tried [`PROBE_LOSSES_MAX`]
    /// times before it counts as too large.
    pub fn on_probe_lost(&mut self) {
        let SearchPhase::Searching(search) = &mut self.phase else { return };
        if let Some(size) = search.probe.take() {
            search.lost += 1;
            if search.lost >= PROBE_LOSSES_MAX {
                search.give_up(size);
            }
        }
    }

    /// Notes that the system would not send the outstanding probe: its size does not even leave the host.
    pub fn on_probe_refused(&mut self) {
        let SearchPhase::Searching(search) = &mut self.phase else { return };
        if let Some(size) = search.probe.take() {
            search.give_up(size);
        }
    }

    /// Falls back to the minimum, as timeouts show that the path no longer carries `current`, and searches
    /// again after a rest.
    pub fn on_black_hole(&mut self, now: Instant) {
        self.current = self.config.min;
        self.phase = SearchPhase::Resting(now + self.config.black_hole_cooldown);
    }

    /// Sets the limit of the peer or the interface: larger sizes are not used from now on, and the search
    /// starts again below.
    pub fn set_max(&mut self, max: u16) {
        let max = max.max(self.config.min);
        if max != self.config.max {
            self.config.max = max;
            self.current = self.current.min(max);
            self.phase = SearchPhase::Searching(Search::new(max));
        }
    }
}

impl Search {
    fn new(upper: u16) -> Self {
        Self { upper, probe: None, lost: 0, first: true }
    }

    fn give_up(&mut self, size: u16) {
        self.upper = size - 1;
        self.lost = 0;
        self.first = false;
    }

    fn next_size(&mut self, current: u16) -> Option<u16> {
        let gap = self.upper.saturating_sub(current);
        if gap == 0 || (!self.first && gap < RESOLUTION) {
            return None;
        }
        let size = if self.first || gap == 1 { self.upper } else { current + gap.div_ceil(2) };
        self.probe = Some(size);
        Some(size)
    }
}

/// Size of a plain Rx packet that fits an IPv6 Ethernet path with a fragment header: 28 bytes of header, 1416
/// of data.
pub const PLAIN_PACKET_SIZE: u16 = 1444;

/// Size that every path carries in practice: IPv6's minimum of 1280 less IP and UDP headers and a tunnel's
/// share.
pub const SAFE_SIZE: u16 = 1200;

/// Size of a 1500-byte IPv4 packet less IP and UDP headers.
pub const ETHERNET_SIZE: u16 = 1472;

/// Probes of one size that may be lost before the size is given up.
pub const PROBE_LOSSES_MAX: u32 = 3;

/// Number of undecided bytes below which the search stops.
const RESOLUTION: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(initial: u16, max: u16) -> MtuConfig {
        MtuConfig { initial, max, ..MtuConfig::default() }
    }

    /// Answers probes as a path of the given size would, and returns how many were sent.
    fn search(mtud: &mut MtuDiscovery, now: Instant, path: u16) -> u32 {
        let mut probes = 0;
        while let Some(size) = mtud.poll_probe(now) {
            probes += 1;
            if size <= path {
                mtud.on_probe_acked()
            } else {
                mtud.on_probe_lost()
            }
            assert!(probes < 100, "search does not end");
        }
        probes
    }

    #[test]
    fn path_that_carries_the_limit_takes_one_probe() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        assert_eq!(search(&mut mtud, Instant::now(), 9000), 1);
        assert_eq!(mtud.current(), 8972);
    }

    #[test]
    fn search_ends_within_its_resolution_below_any_path_size() {
        for path in (1444..=16_000).step_by(37) {
            let mut mtud = MtuDiscovery::new(config(1444, 16_384));
            search(&mut mtud, Instant::now(), path);
            assert!(
                mtud.current() <= path && mtud.current() + RESOLUTION > path,
                "{path}: {}",
                mtud.current()
            );
        }
    }

    #[test]
    fn one_probe_is_outstanding_at_a_time() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        let now = Instant::now();
        assert!(mtud.poll_probe(now).is_some());
        assert!(mtud.probe_in_flight());
        assert_eq!(mtud.poll_probe(now), None);
    }

    #[test]
    fn probe_lost_by_chance_is_tried_again() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        let now = Instant::now();
        for _ in 1..PROBE_LOSSES_MAX {
            assert_eq!(mtud.poll_probe(now), Some(8972));
            mtud.on_probe_lost();
        }
        assert_eq!(mtud.poll_probe(now), Some(8972));
        mtud.on_probe_acked();
        assert_eq!(mtud.current(), 8972);
    }

    #[test]
    fn finished_search_runs_again_after_the_interval() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        let now = Instant::now();
        search(&mut mtud, now, 3000);
        let found = mtud.current();
        assert_eq!(mtud.poll_probe(now + Duration::from_secs(599)), None);
        search(&mut mtud, now + Duration::from_secs(601), 9000);
        assert!(found <= 3000);
        assert_eq!(mtud.current(), 8972);
    }

    #[test]
    fn black_hole_takes_the_minimum_and_rests_before_the_next_search() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        let now = Instant::now();
        search(&mut mtud, now, 9000);
        mtud.on_black_hole(now);
        assert_eq!(mtud.current(), SAFE_SIZE);
        assert_eq!(mtud.poll_probe(now), None, "rests first");
        search(&mut mtud, now + Duration::from_secs(61), 1472);
        assert!((1472 - RESOLUTION..=1472).contains(&mtud.current()));
    }

    #[test]
    fn probe_that_the_system_refuses_is_not_tried_again() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        let now = Instant::now();
        assert_eq!(mtud.poll_probe(now), Some(8972));
        mtud.on_probe_refused();
        assert!(mtud.poll_probe(now).is_some_and(|size| size < 8972));
    }

    #[test]
    fn lowered_limit_takes_effect_at_once_and_a_raised_one_is_explored() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        let now = Instant::now();
        search(&mut mtud, now, 9000);
        mtud.set_max(1472);
        assert_eq!(mtud.current(), 1472);
        assert_eq!(mtud.poll_probe(now), None);
        mtud.set_max(4000);
        search(&mut mtud, now, 9000);
        assert_eq!(mtud.current(), 4000);
    }

    #[test]
    fn answers_without_a_probe_change_nothing() {
        let mut mtud = MtuDiscovery::new(config(1444, 8972));
        mtud.on_probe_acked();
        mtud.on_probe_lost();
        assert_eq!(mtud.current(), 1444);
        assert_eq!(mtud.poll_probe(Instant::now()), Some(8972));
    }
}
