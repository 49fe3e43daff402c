//! States of a flow, and phases of its probes.

/// Phase of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BbrMode {
    /// STARTUP: the rate doubles each round until the path delivers no more.
    Startup,
    /// DRAIN: the queue of STARTUP runs empty.
    Drain,
    /// PROBE_BW: the flow leaves its queue, and room for others.
    Down,
    /// PROBE_BW: the flow sends at the path's delivery rate.
    Cruise,
    /// PROBE_BW: the flow fills the path before more is tried.
    Refill,
    /// PROBE_BW: the flow tries a quarter more.
    Up,
    /// PROBE_RTT: the flow sends so little that the round trip shows without a queue of its own.
    ProbeRtt,
}

/// Phase of a probe that incoming ACKs belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    /// ACKs belong to no probe.
    Init,
    /// ACKs are of the round before the probe.
    Refilling,
    /// The probe has begun; ACKs are still of packets from before.
    Starting,
    /// ACKs show the outcome of the probe.
    Feedback,
    /// The probe is over; ACKs are of its last packets.
    Stopping,
}

impl BbrMode {
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => 2.0,
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
        }
    }

    /// Returns whether losses are asked for.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}
