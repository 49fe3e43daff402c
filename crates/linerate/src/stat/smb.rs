//! Figures of SMB's clients: a line beside that of all else.

use server::stats::{LaneSnapshot, Snapshot};

use super::sum::sum;
use crate::output::{bit_rate, rate};

/// Clients of SMB on all lanes. Sessions, channels, opens and what is cached under them are levels, all else rates.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Smb {
    sessions: u64,
    /// Connections of sessions: one session may have several.
    channels: u64,
    /// Connections that sessions lost and went on without.
    channels_lost_per_second: f64,
    opens: u64,
    /// Opens by which a client holds a lease or an oplock.
    caching: u64,
    bits_read_per_second: f64,
    bits_written_per_second: f64,
    requests_per_second: f64,
    /// Breaks of leases and oplocks.
    breaks_per_second: f64,
    sign_ins_failed_per_second: f64,
    /// Sessions, trees, opens, messages and connections that were not taken, or were ended for what they did.
    refusals_per_second: f64,
}

impl Smb {
    pub(super) fn between(before: &Snapshot, now: &Snapshot, seconds: f64) -> Self {
        let level = |made: &str, gone: &str| {
            sum(now, |lane| lane.counter(AREA, made))
                .saturating_sub(sum(now, |lane| lane.counter(AREA, gone)))
        };
        let per_second = |names: &[&str]| {
            let of = |lane: &LaneSnapshot| names.iter().map(|name| lane.counter(AREA, name)).sum();
            let since = sum(now, of).saturating_sub(sum(before, of));
            since as f64 / seconds
        };
        Self {
            sessions: level("sessions_begun", "sessions_ended"),
            channels: sum(now, |lane| lane.counter(AREA, "sessions")),
            channels_lost_per_second: per_second(&["channels_lost"]),
            opens: level("opens_made", "opens_closed"),
            caching: level("caching_opens_made", "caching_opens_closed"),
            bits_read_per_second: per_second(&["bytes_read"]) * 8.0,
            bits_written_per_second: per_second(&["bytes_written"]) * 8.0,
            requests_per_second: per_second(&["requests"]),
            breaks_per_second: per_second(&["breaks_sent{kind=oplock}", "breaks_sent{kind=lease}"]),
            sign_ins_failed_per_second: per_second(&["sign_in_failed", "sign_in_limited"]),
            refusals_per_second: per_second(REFUSALS),
        }
    }

    /// Formats the figures, as wide as [`HEADER`].
    pub(super) fn line(&self) -> String {
        format!(
            "{:<8} {:>12} {:>12} {:>8} {:>8} {:>6} {:>6} {:>7} {:>9} {:>8} {:>11} {:>9}",
            "smb",
            bit_rate(self.bits_read_per_second),
            bit_rate(self.bits_written_per_second),
            self.sessions,
            self.channels,
            rate(self.channels_lost_per_second),
            self.opens,
            self.caching,
            rate(self.requests_per_second),
            rate(self.breaks_per_second),
            rate(self.sign_ins_failed_per_second),
            rate(self.refusals_per_second),
        )
    }
}

/// Returns whether the server speaks SMB to any client, or has since it started.
pub(super) fn is_there(now: &Snapshot) -> bool {
    sum(now, |lane| lane.counter(AREA, "requests")) > 0
}

/// Head of [`Smb::line`].
pub(super) const HEADER: &str = "                 read      written sessions channels lost/s  opens caching     req/s breaks/s denied in/s refused/s";

const AREA: &str = "smb";
const REFUSALS: &[&str] = &[
    "connections_refused",
    "sessions_refused",
    "channels_refused",
    "trees_refused",
    "signatures_wrong",
    "unsigned_refused",
    "unsealed_refused",
    "requests_refused_async",
    "opens_refused_limit",
    "create_refused{reason=sharing}",
    "create_refused{reason=access}",
    "listings_refused",
    "notify_refused",
    "ended_malformed",
    "ended_window",
    "ended_sealed",
    "ended_smb1",
    "ended_compressed",
    "ended_negotiate",
    "ended_late",
    "ended_unserved",
    "ended_stalled",
    "ended_short",
];

#[cfg(test)]
mod tests {
    use super::super::tests::{ends, snapshot};
    use super::*;

    #[test]
    fn figures_stand_under_their_heads() {
        let busy = [
            (AREA, "requests", 40),
            (AREA, "sessions", 3),
            (AREA, "sessions_begun", 4),
            (AREA, "sessions_ended", 2),
            (AREA, "channels_lost", 12),
            (AREA, "opens_made", 12),
            (AREA, "opens_closed", 5),
            (AREA, "caching_opens_made", 6),
            (AREA, "caching_opens_closed", 1),
            (AREA, "bytes_read", 1 << 20),
            (AREA, "breaks_sent", 9),
            (AREA, "breaks_sent{kind=lease}", 8),
            (AREA, "sign_in_failed", 2),
            (AREA, "sign_in_limited", 4),
            (AREA, "trees_refused", 2),
            (AREA, "create_refused{reason=name}", 100),
        ];
        let (before, now) = (snapshot(&[], Vec::new()), snapshot(&busy, Vec::new()));
        assert!(is_there(&now) && !is_there(&before));
        let smb = Smb::between(&before, &now, 2.0);
        assert_eq!((smb.sessions, smb.channels, smb.opens, smb.caching), (2, 3, 7, 5));
        assert!((smb.bits_read_per_second - f64::from(1 << 22)).abs() < 1.0);
        let line = smb.line();
        assert_eq!(line.len(), HEADER.len(), "\n{HEADER}\n{line}");
        let heads = ends(HEADER);
        assert!(
            ends(&line)[1..].iter().filter(|end| heads.contains(end)).count() >= 11,
            "\n{HEADER}\n{line}"
        );
        let figures: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(figures[5..], ["2", "3", "6", "7", "5", "20", "4", "3", "1"], "{line}");
    }
}
