//! The rows: a load over a link, and what Linerate has to reach there beside the stock server.

use super::load::{Mode, Row};
use super::run::Run;

/// One row's JSON line.
#[derive(Debug, serde::Serialize)]
pub(super) struct Line {
    load: String,
    ours: Run,
    peer: Run,
    ratio_throughput: f64,
    ratio_cpu: f64,
    runs: usize,
    /// The client used its CPU up with the stock server already, so more is not to be had.
    client_at_its_end: bool,
    bars: Bars,
    missed: Vec<&'static str>,
    reached: bool,
}

/// Bars that a row has to reach.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Bars {
    throughput_ratio_least: f64,
    cpu_ratio_most: f64,
    acks_per_packet_most: Option<f64>,
    resends_percent_most: Option<f64>,
    needless_percent_most: Option<f64>,
}

impl Bars {
    fn of(row: &Row, peer: &Run, client_at_its_end: bool) -> Self {
        if row.mode == Mode::Small {
            return Self {
                throughput_ratio_least: 2.0,
                cpu_ratio_most: 0.4,
                acks_per_packet_most: None,
                resends_percent_most: None,
                needless_percent_most: None,
            };
        }
        Self {
            throughput_ratio_least: if client_at_its_end { 1.0 } else { 1.2 },
            cpu_ratio_most: if row.mtu == 1500 { 0.5 } else { 0.4 },
            acks_per_packet_most: Some(peer.acks_per_packet),
            resends_percent_most: Some(0.5),
            needless_percent_most: Some(0.1),
        }
    }
}

impl Line {
    /// Makes the line of a row. `our_runs` and `peer_runs` are in pairs; `ours` and `peer` are their medians.
    pub(super) fn new(row: &Row, ours: Run, peer: Run, our_runs: &[Run], peer_runs: &[Run]) -> Self {
        let ratio = |field: fn(&Run) -> f64| {
            let pairs = our_runs.iter().zip(peer_runs).map(|(ours, peer)| field(ours) / field(peer));
            (crate::compare::median(pairs) * 1000.0).round() / 1000.0
        };
        let client_at_its_end = ours.client_cpu_share.max(peer.client_cpu_share) >= CPU_AT_ITS_END;
        let bars = Bars::of(row, &peer, client_at_its_end);
        let (ratio_throughput, ratio_cpu) =
            (ratio(|run| run.calls_per_second), ratio(|run| run.server_cpu_us_per_call));
        let above = |value: f64, most: Option<f64>| most.is_some_and(|most| value > most);
        let misses = [
            ("throughput", ratio_throughput < bars.throughput_ratio_least),
            ("cpu", ratio_cpu > bars.cpu_ratio_most),
            ("acks", above(ours.acks_per_packet, bars.acks_per_packet_most)),
            ("resends", above(ours.resends_percent, bars.resends_percent_most)),
            ("needless", above(ours.needless_percent, bars.needless_percent_most)),
        ];
        let missed: Vec<_> = misses.iter().filter(|(_, missed)| *missed).map(|(what, _)| *what).collect();
        Self {
            load: row.name(),
            ours,
            peer,
            ratio_throughput,
            ratio_cpu,
            runs: our_runs.len(),
            client_at_its_end,
            bars,
            reached: missed.is_empty(),
            missed,
        }
    }
}

/// Formats all lines for people, each cell ours / stock's.
pub(super) fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| load | Gb/s | server CPU s/GiB | ACKs/packet | resent % | needless % | client CPU % | throughput | CPU | missed |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let (ours, peer) = (&line.ours, &line.peer);
        let pair = |field: fn(&Run) -> f64| format!("{:.2} / {:.2}", field(ours), field(peer));
        let cells = [
            line.load.clone(),
            if ours.gbit_per_second >= 0.1 {
                pair(|run| run.gbit_per_second)
            } else {
                format!("{:.0} / {:.0} calls/s", ours.calls_per_second, peer.calls_per_second)
            },
            if ours.gbit_per_second >= 0.1 {
                pair(|run| run.server_cpu_s_per_gib)
            } else {
                format!("{:.1} / {:.1} us/call", ours.server_cpu_us_per_call, peer.server_cpu_us_per_call)
            },
            pair(|run| run.acks_per_packet),
            pair(|run| run.resends_percent),
            pair(|run| run.needless_percent),
            format!("{:.0} / {:.0}", ours.client_cpu_share * 100.0, peer.client_cpu_share * 100.0),
            format!("{:.2}", line.ratio_throughput),
            format!("{:.2}", line.ratio_cpu),
            line.missed.join(", "),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Share of its CPU above which a client is the limit.
const CPU_AT_ITS_END: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::stock::load::all;

    fn gave(calls_per_second: f64, cpu: f64, acks_per_packet: f64, client_cpu_share: f64) -> Run {
        Run {
            gbit_per_second: calls_per_second * 0.008,
            calls_per_second,
            server_cpu_s_per_gib: cpu / 1000.0,
            server_cpu_us_per_call: cpu,
            server_cpu_share: 0.5,
            client_cpu_share,
            client_cpu_s_per_gib: 1.0,
            acks_per_packet,
            resends_percent: 0.0,
            needless_percent: 0.0,
        }
    }

    fn line(row: &Row, ours: Run, peer: Run) -> Line {
        Line::new(row, ours, peer, &[ours], &[peer])
    }

    #[test]
    fn client_at_its_end_lowers_the_bar_of_throughput_alone() {
        let row = Row { mode: Mode::Recv, threads: 4, mtu: 1500, jumbograms: false };
        let free = line(&row, gave(110.0, 40.0, 0.5, 0.6), gave(100.0, 100.0, 0.5, 0.6));
        assert_eq!(free.missed, ["throughput"]);
        let busy = line(&row, gave(110.0, 60.0, 0.6, 0.6), gave(100.0, 100.0, 0.5, 0.95));
        assert_eq!(busy.missed, ["cpu", "acks"]);
        assert!(!busy.reached && line(&row, gave(110.0, 50.0, 0.5, 0.95), busy.peer).reached);
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = all().map(|row| row.name()).collect();
        assert_eq!((names.len(), all().count()), (33, 33));
        assert!(names.contains("send 1 MiB, 1 thread, MTU 9000, jumbograms on"));
    }
}
