//! The way from one host to another: delay, width, loss, and cuts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::HostId;
use crate::backend::sim::config::LinkConfig;
use crate::backend::sim::engine::Engine;

/// Every directed pair of hosts.
pub(in crate::backend::sim) struct Links {
    usual: LinkConfig,
    links: BTreeMap<(HostId, HostId), Link>,
    down: Vec<HostId>,
}

struct Link {
    /// Link settings of this way; `None` follows the usual settings.
    own: Option<LinkConfig>,
    cut: bool,
    busy_until: Duration,
    last_arrival: Duration,
}

/// Outcome of a datagram that was sent.
pub(super) enum Fate {
    Arrives(Duration),
    ArrivesTwice(Duration, Duration),
    Overtaken(Duration),
    Lost,
    Cut,
    QueueFull,
}

impl Links {
    pub(super) fn new(usual: LinkConfig) -> Self {
        Self { usual, links: BTreeMap::new(), down: Vec::new() }
    }

    pub(super) fn set(&mut self, from: HostId, to: HostId, config: LinkConfig) {
        self.link(from, to).own = Some(config);
    }

    pub(super) fn config(&mut self, from: HostId, to: HostId) -> LinkConfig {
        let usual = self.usual.clone();
        self.link(from, to).own.clone().unwrap_or(usual)
    }

    pub(super) fn set_cut(&mut self, from: HostId, to: HostId, cut: bool) {
        self.link(from, to).cut = cut;
    }

    pub(super) fn heal_all(&mut self) {
        self.links.values_mut().for_each(|link| link.cut = false);
    }

    /// Marks a host as without power, or as powered again.
    pub(super) fn set_down(&mut self, host: HostId, down: bool) {
        self.down.retain(|&other| other != host);
        if down {
            self.down.push(host);
        }
    }

    pub(super) fn is_cut(&mut self, from: HostId, to: HostId) -> bool {
        self.down.contains(&from) || self.down.contains(&to) || self.link(from, to).cut
    }

    /// Returns the time on the way of a small packet, or of a stream's burst; a lost packet takes longer.
    pub(super) fn stream_delay(&mut self, from: HostId, to: HostId, engine: &mut Engine) -> Duration {
        let config = self.config(from, to);
        let mut delay = config.latency + engine.up_to(config.jitter);
        let mut resend = RESEND_AFTER;
        while engine.chance(config.loss.min(LOSS_OF_STREAMS_MAX)) {
            delay += resend;
            resend *= 2;
        }
        delay
    }

    pub(super) fn loses(&mut self, from: HostId, to: HostId, engine: &mut Engine) -> bool {
        let loss = self.config(from, to).loss;
        engine.chance(loss)
    }

    /// Returns the time when the last bit of `bytes`, sent no earlier than `start`, has left a link of
    /// limited width.
    pub(super) fn depart(&mut self, from: HostId, to: HostId, bytes: usize, start: Duration) -> Duration {
        let Some(bandwidth) = self.config(from, to).bandwidth else { return start };
        let link = self.link(from, to);
        link.busy_until = link.busy_until.max(start) + time_for(bytes, bandwidth);
        link.busy_until
    }

    /// Returns the number of IP packets that a datagram takes on this link.
    pub(super) fn fragments(&mut self, from: HostId, to: HostId, payload: usize, headers: usize) -> usize {
        let room = self.config(from, to).mtu.saturating_sub(headers).max(1);
        payload.div_ceil(room).max(1)
    }

    /// Puts a datagram of `bytes`, headers included, on the way in `fragments` fragments. A datagram that
    /// loses a fragment is lost. `jitter` is shared by a batch.
    pub(super) fn send_datagram(
        &mut self,
        from: HostId,
        to: HostId,
        bytes: usize,
        fragments: usize,
        jitter: Duration,
        engine: &mut Engine,
    ) -> Fate {
        let config = self.config(from, to);
        if self.is_cut(from, to) {
            return Fate::Cut;
        }
        let now = engine.now();
        if self.queued(from, to, &config, now) + bytes > config.queue_bytes.max(bytes) {
            return Fate::QueueFull;
        }
        let left = self.depart(from, to, bytes, now);
        if (0..fragments).any(|_| engine.chance(config.loss)) {
            return Fate::Lost;
        }
        let arrival = left + config.latency + jitter;
        if engine.chance(config.reorder) {
            return Fate::Overtaken(arrival + engine.up_to(config.reorder_delay));
        }
        let link = self.link(from, to);
        link.last_arrival = link.last_arrival.max(arrival);
        let arrival = link.last_arrival;
        if engine.chance(config.duplicate) {
            return Fate::ArrivesTwice(arrival, arrival + engine.up_to(config.reorder_delay));
        }
        Fate::Arrives(arrival)
    }

    fn queued(&mut self, from: HostId, to: HostId, config: &LinkConfig, now: Duration) -> usize {
        let Some(bandwidth) = config.bandwidth else { return 0 };
        let waiting = self.link(from, to).busy_until.saturating_sub(now);
        (waiting.as_secs_f64() * bandwidth as f64) as usize
    }

    fn link(&mut self, from: HostId, to: HostId) -> &mut Link {
        self.links.entry((from, to)).or_insert_with(|| Link {
            own: (from == to).then(LinkConfig::loopback),
            cut: false,
            busy_until: Duration::ZERO,
            last_arrival: Duration::ZERO,
        })
    }
}

/// Returns the time that `bytes` take at a rate in bytes per second.
pub(super) fn time_for(bytes: usize, rate: u64) -> Duration {
    let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// First wait before a stream sends a lost segment again.
const RESEND_AFTER: Duration = Duration::from_millis(200);
/// Highest loss of a stream's link: a link that loses everything is a partition, which `cut` stands for.
const LOSS_OF_STREAMS_MAX: f64 = 0.9;
