//! Knowledge about one remote address: round trips, sizes, abilities, and whether it is really there.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::ack::Trailer;
use crate::config::EndpointConfig;
use crate::header::HEADER_LEN;
use crate::jumbo::JUMBO_PAYLOAD;
use crate::jumbo_path::JumboPath;
use crate::packet::BufferAccount;
use crate::pmtud::{MtuConfig, MtuDiscovery, SAFE_SIZE};
use crate::rtt::RttEstimator;
use crate::security::Security;
use crate::socket_room::SocketRoom;
use crate::source::Sources;

/// Remote address and port, with what is known about it.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    pub(crate) rtt: RttEstimator,
    pub(crate) mtu: MtuDiscovery,
    pub(crate) probe: Option<MtuProbe>,
    /// Set if the peer speaks our ACK extension.
    pub(crate) extended: bool,
    /// Set if the peer has answered a ping of ours, so it knows that we speak the extension.
    pub(crate) introduced: bool,
    /// Set if the peer does path-MTU discovery, so ACKs are not needed for every second packet (AuriStor,
    /// Linux, ours).
    pub(crate) modern: bool,
    pub(crate) jumbo: JumboPath,
    /// Time until which a peer that looks stock and yet was silent is asked for its ACKs.
    pub(crate) ask_until: Option<Instant>,
    /// Room in the peer's socket buffer, if it is stock.
    pub(crate) room: SocketRoom,
    /// Last window in packets that the peer stated at the start of a call.
    pub(crate) window: u32,
    /// Largest packet that the peer takes, in bytes with Rx header; unknown before its first ACK.
    pub(crate) packet_max: Option<u32>,
    /// Reordering that the peer's calls have seen, in quarters of the smallest round trip, and when.
    reordering: Option<(u32, Instant)>,
    /// Time when a call last found losses here that mislead (`Controller::losses_mislead`).
    misled_at: Option<Instant>,
    /// Largest packet that our buffers and configuration allow, in bytes.
    own_max: u16,
    /// Time when the next DATA packet asks for an ACK, whatever else, for the round trip's sake.
    pub(crate) ask_rtt_at: Option<Instant>,
    pub(crate) proved_at: Option<Instant>,
    /// Time when the peer last acknowledged something sent here; `None` also once it was silent for too long
    /// after that.
    pub(crate) acknowledged_at: Option<Instant>,
    /// Bytes that had been received from the peer when its address reported the port closed.
    closed_when: Option<u64>,
    pub(crate) connections: u32,
    /// Account that the packets of the peer's connections are charged to.
    pub(crate) account: BufferAccount,
    pub(crate) idle_since: Instant,
    pub(crate) abort_tokens: TokenBucket,
    /// Bytes that calls may send to the peer before the client has shown that it knows of them.
    pub(crate) credit: u32,
    /// Time up to which the credit has come back by itself; `None` while it is whole.
    credited_at: Option<Instant>,
    /// Datagrams and bytes each way, and resends.
    pub(crate) counters: PeerCounters,
}

/// Counters of one peer's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Packets sent to the peer.
    pub packets_sent: u64,
    /// DATA packets sent again.
    pub resends: u64,
    /// Bytes sent to the peer, headers included.
    pub bytes_sent: u64,
    /// Bytes received from the peer, headers included.
    pub bytes_received: u64,
}

/// Probe of the path's MTU that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuProbe {
    pub(crate) connection: u32,
    pub(crate) serial: u32,
    pub(crate) sent_at: Instant,
    /// Packets of the jumbogram that the probe is for; 0 for single packets.
    pub(crate) parts: u8,
}

impl Peer {
    fn new(address: SocketAddr, account: BufferAccount, now: Instant, config: &EndpointConfig) -> Self {
        let mtu = MtuConfig {
            initial: config.packet_size_initial.min(config.packet_size_max),
            max: config.packet_size_max,
            ..MtuConfig::default()
        };
        Self {
            address,
            rtt: RttEstimator::new(),
            mtu: MtuDiscovery::new(mtu),
            probe: None,
            extended: false,
            introduced: false,
            modern: false,
            jumbo: JumboPath::new(address.ip(), config),
            ask_until: None,
            room: SocketRoom::default(),
            window: STOCK_WINDOW,
            packet_max: None,
            reordering: None,
            misled_at: None,
            own_max: config.packet_size_max,
            ask_rtt_at: None,
            proved_at: None,
            acknowledged_at: None,
            closed_when: None,
            connections: 0,
            account,
            idle_since: now,
            abort_tokens: TokenBucket::new(now, config.aborts_per_second),
            credit: CREDIT_MAX,
            credited_at: None,
            counters: PeerCounters::default(),
        }
    }

    /// Notes a packet that came from the peer.
    #[inline]
    pub(crate) fn on_received(&mut self, now: Instant, len: usize) {
        self.counters.bytes_received += len as u64;
        if self.credit < CREDIT_MAX {
            self.earn_credit(now);
        }
    }

    #[cold]
    fn earn_credit(&mut self, now: Instant) {
        let since = *self.credited_at.get_or_insert(now);
        let elapsed = now.saturating_duration_since(since).min(CREDIT_TIME).as_millis() as u32;
        let earned = elapsed * (CREDIT_MAX / CREDIT_TIME.as_millis() as u32);
        if earned > 0 {
            self.credited_at = Some(now);
            self.give_credit(earned);
        }
    }

    /// Gives back credit for bytes that turn out to be wanted.
    pub(crate) fn give_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes).min(CREDIT_MAX);
        if self.credit == CREDIT_MAX {
            self.credited_at = None;
        }
    }

    /// Returns whether it is time to ask the client whether it knows of what is sent to it.
    pub(crate) fn is_credit_low(&self) -> bool {
        self.credit < CREDIT_MAX / 2
    }

    /// Returns whether calls may draw on the credit: only while the address acknowledges what comes.
    pub(crate) fn has_credit(&self, now: Instant) -> bool {
        self.acknowledged_at.is_some_and(|at| now.saturating_duration_since(at) < CREDIT_AGE_MAX)
    }

    /// Returns whether the credit ends soon unless the address acknowledges something.
    pub(crate) fn is_credit_ageing(&self, now: Instant) -> bool {
        self.acknowledged_at.is_none_or(|at| now.saturating_duration_since(at) >= CREDIT_AGE_MAX / 2)
    }

    /// Notes that a new call's packets were not acknowledged in time: unless others were meanwhile, the
    /// credit is over until some are.
    pub(crate) fn on_unanswered(&mut self, now: Instant) {
        let rto = self.rtt.rto();
        self.acknowledged_at = self.acknowledged_at.filter(|at| now.saturating_duration_since(*at) < rto);
    }

    /// Notes that the address has reported its port closed, for a packet of a call in progress.
    pub(crate) fn on_port_closed(&mut self) {
        self.closed_when = Some(self.counters.bytes_received);
    }

    /// Returns whether the report of a closed port was the last that came from the peer.
    pub(crate) fn is_port_closed(&self) -> bool {
        self.closed_when == Some(self.counters.bytes_received)
    }

    /// Returns the remote address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the round-trip estimate.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns the datagram payload that new packets to this peer are cut to, in bytes with Rx header. Sent
    /// packets cannot be cut smaller, so the first packets, before the peer has stated what it takes, have a
    /// size that every path carries.
    pub fn packet_size(&self) -> usize {
        // What is to be part of a jumbogram has a size of its own.
        let may_join = self.jumbo.is_possible() && !self.modern;
        let limit = match self.packet_max {
            Some(stated) if may_join => stated.min(JUMBO_PART),
            None => u32::from(SAFE_SIZE),
            Some(stated) if self.modern => stated,
            Some(stated) => stated.min(STOCK_PACKET),
        };
        usize::from(self.mtu.current()).min(limit as usize)
    }

    /// Returns whether the peer is known to be OpenAFS, or as old.
    pub(crate) fn is_stock(&self) -> bool {
        !self.modern && self.packet_max.is_some()
    }

    /// Returns how many packets one datagram of a connection with this class may have now, 1 for no
    /// jumbogram.
    pub(crate) fn jumbogram_parts(&self, now: Instant, security: &dyn Security) -> u8 {
        if self.is_stock() { self.jumbo.parts(now, || security.protects_data()) } else { 1 }
    }

    /// Returns which of the peer's connections is to send now, if there is room again.
    pub(crate) fn call_next(&mut self, config: &EndpointConfig) -> Option<u32> {
        self.room.call(self.rtt.min_rtt(), config)
    }

    /// Returns whether the peer's socket has room for `packets` packets more.
    pub(crate) fn has_room(&self, packets: u32, config: &EndpointConfig) -> bool {
        self.room.free(self.rtt.min_rtt(), config) >= packets
    }

    /// Begins a probe. One for jumbograms takes room as a jumbogram does.
    pub(crate) fn begin_probe(&mut self, probe: MtuProbe) {
        self.room.change(0, probe.parts.into());
        self.probe = Some(probe);
    }

    fn end_probe(&mut self) -> Option<MtuProbe> {
        let probe = self.probe.take()?;
        self.room.change(probe.parts.into(), 0);
        Some(probe)
    }

    /// Notes that the probe under way was answered.
    pub(crate) fn probe_acked(&mut self, now: Instant) {
        match self.end_probe() {
            Some(MtuProbe { parts: 0, .. }) => self.mtu.on_probe_acked(),
            Some(MtuProbe { parts, .. }) => self.jumbo.on_probe_acked(now, parts),
            None => {}
        }
    }

    /// Notes that the probe got no answer.
    pub(crate) fn probe_lost(&mut self, now: Instant) {
        match self.end_probe() {
            Some(MtuProbe { parts: 0, .. }) => self.mtu.on_probe_lost(),
            Some(_) => self.jumbo.on_probe_lost(now),
            None => {}
        }
    }

    /// Notes that the system would not send the probe: not even the interface carries it.
    pub(crate) fn probe_refused(&mut self, now: Instant) -> bool {
        let probe = self.end_probe();
        match probe {
            Some(MtuProbe { parts: 0, .. }) => self.mtu.on_probe_refused(),
            Some(_) => self.jumbo.on_probe_refused(now),
            None => {}
        }
        probe.is_some()
    }

    /// Returns whether the peer acknowledges every second packet without being asked.
    pub(crate) fn acks_unasked(&self, now: Instant) -> bool {
        self.is_stock() && self.ask_until.is_none_or(|until| now >= until)
    }

    /// Returns how much reordering a new call should expect. The figure is forgotten by halves, as routes
    /// change.
    pub(crate) fn reordering(&self, now: Instant) -> Option<u32> {
        let (quarters, at) = self.reordering?;
        let halvings = now.saturating_duration_since(at).as_secs() / REORDERING_HALVED.as_secs();
        Some(quarters.checked_shr(u32::try_from(halvings).ok()?)?).filter(|&quarters| quarters > 0)
    }

    pub(crate) fn note_reordering(&mut self, now: Instant, quarters: u32) {
        let known = self.reordering(now).unwrap_or(0);
        self.reordering = Some((known.max(quarters), now));
    }

    /// Returns whether a call has lately found that losses here are no sign of congestion. It is of the path
    /// and not of the call (RFC 9040); a congestion window is not, and every channel finds its own.
    pub(crate) fn losses_mislead(&self, now: Instant) -> bool {
        self.misled_at.is_some_and(|at| now.saturating_duration_since(at) < MISLED_FOR)
    }

    pub(crate) fn note_losses(&mut self, now: Instant, mislead: bool) {
        self.misled_at = mislead.then_some(now);
    }

    /// Returns the number of connections that use this peer.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Returns when the peer's last connection ended, meaningful while [`connections`](Self::connections) is
    /// 0.
    pub fn idle_since(&self) -> Instant {
        self.idle_since
    }

    /// Returns the counters of the peer's traffic.
    pub fn counters(&self) -> PeerCounters {
        self.counters
    }

    /// Returns whether the peer speaks our ACK extension.
    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// Returns the last receive window that the peer stated, in packets.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Returns whether packets sent to this address are known to arrive, as of `now`.
    pub fn is_proved(&self, now: Instant, reach_time: Duration) -> bool {
        self.proved_at.is_some_and(|at| now.saturating_duration_since(at) < reach_time)
    }

    /// Returns whether windows over 255 packets, hard-acknowledged on receipt, suit this peer.
    pub(crate) fn takes_large_windows(&self) -> bool {
        self.extended || self.window > 255
    }

    pub(crate) fn note_trailer(&mut self, trailer: Option<&Trailer>, extended: bool) {
        self.extended |= extended;
        let Some(trailer) = trailer else {
            self.modern = false;
            self.window = crate::ack::WINDOW_WITHOUT_TRAILER;
            self.packet_max.get_or_insert(STOCK_PACKET);
            return;
        };
        self.modern = trailer.jumbo_max == 0;
        self.jumbo.note_stated(trailer.jumbo_max);
        self.window = trailer.window;
        let packet_max = trailer.max_mtu.min(trailer.if_mtu).max(PACKET_MIN);
        if self.packet_max != Some(packet_max) {
            self.packet_max = Some(packet_max);
            self.mtu.set_max(u16::try_from(packet_max).unwrap_or(u16::MAX).min(self.own_max));
        }
    }
}

/// Peers of an endpoint, by address.
#[derive(Debug)]
pub(crate) struct Peers {
    slab: slab::Slab<Peer>,
    by_address: HashMap<SocketAddr, usize>,
    pub(crate) sources: Sources,
}

impl Peers {
    /// Makes an empty table of peers, which may have `connections_max` connections together.
    pub(crate) fn new(connections_max: usize) -> Self {
        Self { slab: slab::Slab::new(), by_address: HashMap::new(), sources: Sources::new(connections_max) }
    }

    /// Returns the peer at `address`, made if new.
    pub(crate) fn find_or_add(
        &mut self,
        address: SocketAddr,
        now: Instant,
        config: &EndpointConfig,
    ) -> usize {
        if let Some(&index) = self.by_address.get(&address) {
            return index;
        }
        let account = self.sources.enter(address.ip());
        let index = self.slab.insert(Peer::new(address, account, now, config));
        self.by_address.insert(address, index);
        index
    }

    /// Counts a connection that begins at a peer.
    pub(crate) fn add_connection(&mut self, index: usize) {
        let peer = &mut self.slab[index];
        peer.connections += 1;
        self.sources.add_connection(peer.account);
    }

    /// Removes a connection that ends at a peer, or leaves it.
    pub(crate) fn remove_connection(&mut self, index: usize, now: Instant) {
        let peer = &mut self.slab[index];
        assert!(peer.connections > 0, "a connection leaves a peer once");
        peer.connections -= 1;
        peer.idle_since = now;
        self.sources.remove_connection(peer.account);
    }

    /// Copies a client's state from its old address to its new one, where it holds until the new one has
    /// measurements of its own.
    pub(crate) fn inherit(&mut self, from: usize, to: usize) {
        let Some((old, new)) = self.slab.get2_mut(from, to) else { return };
        new.extended |= old.extended;
        new.introduced |= old.introduced;
        new.modern |= old.modern;
        if !new.rtt.has_sample() {
            new.rtt = old.rtt.clone();
            new.window = old.window;
            new.packet_max = old.packet_max;
            new.reordering = old.reordering;
            new.misled_at = old.misled_at;
        }
    }

    pub(crate) fn find(&self, address: SocketAddr) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// Forgets peers that have had no connection since `oldest_idle` and whose host `holds` nothing: its
    /// account is given to another then.
    pub(crate) fn retain_since(&mut self, oldest_idle: Instant, holds: impl Fn(BufferAccount) -> bool) {
        let Self { slab, by_address, sources } = self;
        slab.retain(|_, peer| {
            let keep = peer.connections > 0 || peer.idle_since >= oldest_idle || holds(peer.account);
            if !keep {
                by_address.remove(&peer.address);
                sources.leave(peer.account);
            }
            keep
        });
    }

    /// Forgets a peer without connections at once, if it has proved nothing or there are more than `max`
    /// peers.
    ///
    /// Clients that come and go must not leave more behind than those that stay. The last one of a host that
    /// `holds` something stays.
    pub(crate) fn drop_if_idle(&mut self, index: usize, max: usize, holds: bool) {
        let peer = &self.slab[index];
        if holds && self.sources.is_last_peer(peer.account) {
            return;
        }
        if peer.connections == 0 && (peer.proved_at.is_none() || self.slab.len() > max) {
            let peer = self.slab.remove(index);
            self.by_address.remove(&peer.address);
            self.sources.leave(peer.account);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.slab.iter().map(|(_, peer)| peer)
    }
}

impl std::ops::Index<usize> for Peers {
    type Output = Peer;

    fn index(&self, index: usize) -> &Peer {
        &self.slab[index]
    }
}

impl std::ops::IndexMut<usize> for Peers {
    fn index_mut(&mut self, index: usize) -> &mut Peer {
        &mut self.slab[index]
    }
}

/// Limit of events a second, with a burst of one second's worth.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    tokens: f32,
    per_second: f32,
    filled_at: Instant,
}

impl TokenBucket {
    /// Makes a full bucket.
    pub fn new(now: Instant, per_second: u32) -> Self {
        Self { tokens: per_second as f32, per_second: per_second as f32, filled_at: now }
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.filled_at).as_secs_f32();
        self.filled_at = now;
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.per_second);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

//@ limit: bytes sent for calls that their client has not confirmed
//@ section: Rx
//@ unit: byte
//@ connection: three times what it sent, and what is left of its address's credit
//@ address: {:b} for an address and port, back within {CREDIT_TIME}
//@ empty: held back, and a PING asks for the confirmation; others feel nothing
//@ counter: rx_amplification_limited
//@ attack: rx-reflection
/// Most bytes that all new calls of one address together may send there before an ACK confirms them.
///
/// They come beyond what the client's own packets pay for, and are regained in [`CREDIT_TIME`] otherwise.
/// Bytes sent to an address in another host's name are bounded by this, and by
/// [`crate::connection::AMPLIFICATION_MAX`].
const CREDIT_MAX: u32 = 256 * 1024;
const CREDIT_TIME: Duration = Duration::from_secs(60);
/// Time after an acknowledgement for which the credit may be drawn on. It costs a client that comes back
/// after a pause one round trip where a reply is larger than its request pays for.
const CREDIT_AGE_MAX: Duration = Duration::from_secs(1);
/// Send window in packets before the peer has stated its own (OpenAFS `rx_initSendWindow`).
const STOCK_WINDOW: u32 = 16;
/// Time for which a peer that was silent is asked for its ACKs.
pub(crate) const ASKED_AFTER_SILENCE: Duration = Duration::from_secs(10);
/// Size of the packets that jumbograms are made of, in bytes with Rx header.
const JUMBO_PART: u32 = (HEADER_LEN + JUMBO_PAYLOAD) as u32;
/// Packet size that every Rx takes, in bytes with Rx header.
const STOCK_PACKET: u32 = 1444;
/// Time in which what was learnt of reordering loses half its weight.
const REORDERING_HALVED: Duration = Duration::from_secs(120);
/// Time for which misleading losses are remembered, as without losses nothing tells of them.
const MISLED_FOR: Duration = Duration::from_secs(60);
/// Smallest packet limit believed of a peer, in bytes (OpenAFS `RX_MIN_PACKET_SIZE`).
const PACKET_MIN: u32 = 520;

#[cfg(test)]
mod tests {
    use super::*;

    fn stating(max_mtu: u32, if_mtu: u32, jumbo_max: u32) -> Peer {
        let mut peer = Peer::new(
            ([10, 0, 0, 1], 7001).into(),
            BufferAccount::OWN,
            Instant::now(),
            &EndpointConfig::default(),
        );
        assert_eq!(peer.packet_size(), usize::from(SAFE_SIZE), "nothing is known yet");
        peer.note_trailer(Some(&Trailer { max_mtu, if_mtu, window: 32, jumbo_max }), false);
        peer
    }

    #[test]
    fn packets_are_no_larger_than_the_peer_states() {
        for (max_mtu, if_mtu, jumbo_max, size) in [
            (1300, 1300, 1, 1300),
            (5800, 1300, 4, 1300),
            (1300, 5800, 0, 1300),
            (5800, 1444, 4, 1440),
            (9000, 9000, 1, 1444),
            (600, 600, 0, 600),
            (0, 0, 1, PACKET_MIN as usize),
        ] {
            assert_eq!(stating(max_mtu, if_mtu, jumbo_max).packet_size(), size, "{max_mtu}, {if_mtu}");
        }
    }

    #[test]
    fn reordering_is_forgotten_by_halves() {
        let (mut peer, start) = (stating(1444, 1444, 1), Instant::now());
        assert_eq!(peer.reordering(start), None);
        peer.note_reordering(start, 5);
        peer.note_reordering(start, 3);
        let after = |seconds| peer.reordering(start + Duration::from_secs(seconds));
        assert_eq!([0, 130, 250, 370, 100_000].map(after), [Some(5), Some(2), Some(1), None, None]);
    }

    #[test]
    fn bucket_lets_its_rate_through_and_no_more() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start, 3);
        assert_eq!((0..10).filter(|_| bucket.take(start)).count(), 3);
        let later = start + Duration::from_millis(700);
        assert_eq!((0..10).filter(|_| bucket.take(later)).count(), 2);
    }
}
