//! Decision whether jumbograms go to a peer, and of how many packets.
//!
//! A stock peer that takes them says how many packets one may have. They are larger than a plain Ethernet frame. Cut into
//! IP fragments, which carry 16 bits of identity, parts of different datagrams can be put together, and UDP's checksum of
//! 16 bits lets one in 65,536 of those through: AuriStor has stopped sending them for that. So by default they go only
//! where a probe with "don't fragment" has shown that the path carries them whole (loopback, links of 9,000 bytes).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::config::{EndpointConfig, Jumbograms};
use crate::jumbo::jumbogram_len;

/// State of jumbograms to one peer.
#[derive(Clone, Debug)]
pub(crate) struct JumboPath {
    policy: Jumbograms,
    /// Set if the operator vouches for the path.
    checked: bool,
    /// Packets of a datagram that the peer states to take.
    stated: u8,
    path: JumboState,
    lost: u8,
    /// Time until which nothing goes as fragments, after timeouts in a row.
    rests_until: Option<Instant>,
}

/// Knowledge whether jumbograms arrive without being cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JumboState {
    Unknown,
    /// The path carries this number of packets until this time; then it is asked again, and used meanwhile.
    Carries(u8, Instant),
    /// The path refuses jumbograms, or has stopped carrying them, until this time.
    Refuses(Instant),
}

impl JumboPath {
    pub(crate) fn new(to: IpAddr, config: &EndpointConfig) -> Self {
        Self {
            policy: config.jumbograms,
            checked: config.checked_paths.iter().any(|range| range.contains(to)),
            stated: 1,
            path: JumboState::Unknown,
            lost: 0,
            rests_until: None,
        }
    }

    /// Notes the number of packets that the peer states to take.
    pub(crate) fn note_stated(&mut self, packets: u32) {
        self.stated = u8::try_from(packets.min(PARTS_MAX.into())).expect("few").max(1);
    }

    /// Returns whether the peer takes jumbograms at all.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.stated > 1
    }

    /// Returns how many packets one datagram may have, 1 for no jumbogram. `is_protected` tells whether a
    /// change on the way would be noticed.
    pub(crate) fn parts(&self, now: Instant, is_protected: impl FnOnce() -> bool) -> u8 {
        self.carried(now, is_protected).min(self.stated)
    }

    /// Returns the number of packets that this endpoint and the path allow, without the peer's limit.
    pub(crate) fn carried(&self, now: Instant, is_protected: impl FnOnce() -> bool) -> u8 {
        let rests = self.rests_until.is_some_and(|until| now < until);
        match (self.policy, self.path) {
            (Jumbograms::Off, _) => 1,
            (_, JumboState::Carries(parts, _)) => parts,
            (Jumbograms::Fragments, _) if !rests && (self.checked || is_protected()) => PARTS_MAX,
            _ => 1,
        }
    }

    /// Returns whether the path carries jumbograms whole.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.path, JumboState::Carries(..))
    }

    /// Returns whether jumbograms are possible once the path has shown that it carries them, so that packets
    /// are made to fit.
    pub(crate) fn is_possible(&self) -> bool {
        self.is_wanted()
            && match self.policy {
                Jumbograms::Off => false,
                Jumbograms::Whole => !matches!(self.path, JumboState::Refuses(_)),
                Jumbograms::Fragments => true,
            }
    }

    /// Returns how many packets' size to probe for now, if a probe is due.
    pub(crate) fn poll_probe(&self, now: Instant) -> Option<u8> {
        let wanted = self.stated.min(WHOLE_PARTS_MAX);
        let due = match self.path {
            JumboState::Unknown => true,
            JumboState::Carries(parts, until) => now >= until || parts < wanted,
            JumboState::Refuses(until) => now >= until,
        };
        (due && self.policy != Jumbograms::Off && wanted > 1).then_some(wanted)
    }

    /// Notes that a probe of the size of several packets was answered.
    pub(crate) fn on_probe_acked(&mut self, now: Instant, parts: u8) {
        (self.path, self.lost) = (JumboState::Carries(parts, now + KNOWN_FOR), 0);
    }

    /// Notes that a probe got no answer. It may have been lost as any packet may: one of three has to come.
    pub(crate) fn on_probe_lost(&mut self, now: Instant) {
        self.lost += 1;
        if self.lost >= PROBES_MAX {
            self.on_probe_refused(now);
        }
    }

    /// Notes that the interface does not carry a probe's size.
    pub(crate) fn on_probe_refused(&mut self, now: Instant) {
        (self.path, self.lost) = (JumboState::Refuses(now + REFUSED_FOR), 0);
    }

    /// Notes timeouts in a row: the path may have stopped carrying large datagrams.
    pub(crate) fn on_black_hole(&mut self, now: Instant) {
        if matches!(self.path, JumboState::Carries(..)) {
            (self.path, self.lost) = (JumboState::Refuses(now + REST), 0);
        }
        self.rests_until = Some(now + REST);
    }
}

/// Returns the size in bytes of the probe for `parts` packets.
pub(crate) fn probe_size(parts: u8) -> usize {
    jumbogram_len(parts)
}

/// Most packets in one jumbogram (OpenAFS `RX_MAX_DGRAM_PACKETS`).
pub(crate) const PARTS_MAX: u8 = 6;
/// Most packets of a jumbogram that arrives whole. Linux keeps a datagram of up to 7.6 kB in 8 KiB of its socket's
/// buffer, and a longer one in 16 KiB. A buffer that has room for 42 packets would overflow at 30 in datagrams of six.
const WHOLE_PARTS_MAX: u8 = 5;
const PROBES_MAX: u8 = 3;
/// Time for which a probe's answer holds.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Time for which a path is left alone that does not carry jumbograms.
const REFUSED_FOR: Duration = Duration::from_secs(600);
/// Time for which a path is left alone that seems to have stopped carrying jumbograms.
const REST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::AddressRange;

    fn path_of(jumbograms: Jumbograms, checked_paths: Vec<AddressRange>) -> JumboPath {
        let config = EndpointConfig { jumbograms, checked_paths, ..EndpointConfig::default() };
        JumboPath::new([192, 0, 2, 7].into(), &config)
    }

    fn plain() -> bool {
        false
    }

    #[test]
    fn path_is_asked_before_it_is_believed_and_now_and_then_after() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut path = path_of(Jumbograms::Whole, Vec::new());
        assert_eq!((path.poll_probe(now), path.parts(now, plain)), (None, 1), "the peer states nothing");
        path.note_stated(60);
        assert_eq!((path.poll_probe(now), path.parts(now, plain)), (Some(5), 1));
        path.on_probe_lost(now);
        path.on_probe_acked(now, 5);
        assert_eq!((path.poll_probe(now), path.parts(now, plain)), (None, 5));
        assert_eq!(path.poll_probe(now + 60 * second), Some(5));
        path.note_stated(4);
        assert_eq!(path.parts(now + 60 * second, plain), 4);
        (0..3).for_each(|_| path.on_probe_lost(now));
        assert_eq!((path.poll_probe(now), path.parts(now, plain)), (None, 1));
        assert_eq!(path.poll_probe(now + 600 * second), Some(4));
    }

    #[test]
    fn fragments_go_only_where_a_wrong_one_would_be_noticed() {
        let now = Instant::now();
        let elsewhere = vec![AddressRange::new([198, 51, 100, 0].into(), 24)];
        let here = vec![AddressRange::new([192, 0, 2, 0].into(), 24)];
        for (policy, checked, protected, parts) in [
            (Jumbograms::Whole, &here, true, 1),
            (Jumbograms::Off, &here, true, 1),
            (Jumbograms::Fragments, &elsewhere, false, 1),
            (Jumbograms::Fragments, &elsewhere, true, 6),
            (Jumbograms::Fragments, &here, false, 6),
        ] {
            let mut path = path_of(policy, checked.clone());
            path.note_stated(6);
            assert_eq!(path.parts(now, || protected), parts, "{policy:?}, {checked:?}, {protected}");
            path.on_probe_refused(now);
            assert_eq!(path.parts(now, || protected), parts, "a path that cuts them up changes nothing");
            path.note_stated(1);
            assert_eq!(path.parts(now, || protected), 1, "the peer does not take any");
        }
    }

    #[test]
    fn black_hole_stops_fragments_for_a_while() {
        let now = Instant::now();
        let mut path = path_of(Jumbograms::Fragments, Vec::new());
        path.note_stated(4);
        path.on_black_hole(now);
        assert_eq!((path.parts(now, || true), path.parts(now + REST, || true)), (1, 4));
        path.on_probe_acked(now, 4);
        assert_eq!(path.parts(now, plain), 4, "what arrives whole needs no check");
        path.on_black_hole(now);
        assert_eq!(
            (path.parts(now, plain), path.poll_probe(now), path.poll_probe(now + REST)),
            (1, None, Some(4))
        );
    }
}
