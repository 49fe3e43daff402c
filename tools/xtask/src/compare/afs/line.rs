//! Report on a row.

use super::bare::Bare;
use super::row::{Bars, Row};
use super::run::{Blast, Run};
use crate::compare::{median, rounded};

/// One row's JSON line.
#[derive(Debug, serde::Serialize)]
pub(super) struct Line {
    load: String,
    ours: Run,
    peer: Run,
    /// Medians of the pairs'.
    ratio_throughput: f64,
    ratio_cpu: f64,
    /// Result of a bare blast over the same path, where the row is held against it.
    blast: Option<Blast>,
    ratio_blast_cpu: Option<f64>,
    /// Result of a blast whose bytes come from a file, as they must where files are served.
    pub(super) blast_reading: Option<Blast>,
    /// Cost of the kernel alone for such calls, where each is a datagram either way.
    bare: Option<Bare>,
    runs: usize,
    /// The clients used up the CPU that they have for themselves with Linerate, so more is not to be had.
    clients_at_their_end: bool,
    bars: Bars,
    missed: Vec<&'static str>,
    reached: bool,
}

impl Line {
    /// Makes the line of a row. `ours` and `peer` are in pairs, and `blasts` beside them where there are any.
    pub(super) fn new(row: &Row, ours: &[Run], peer: &[Run], blasts: &[Blast]) -> Self {
        let ratio = |field: fn(&Run) -> f64| {
            rounded(median(ours.iter().zip(peer).map(|(ours, peer)| field(ours) / field(peer))))
        };
        let (ratio_throughput, ratio_cpu) =
            (ratio(|run| run.calls_per_second), ratio(|run| run.server_cpu_us_per_call));
        let beside = ours.iter().zip(blasts);
        let beside = beside.map(|(ours, blast)| ours.server_cpu_s_per_gib / blast.sender_cpu_s_per_gib);
        let ratio_blast_cpu = (!blasts.is_empty()).then(|| rounded(median(beside)));
        let (bars, middle) = (row.bars, Run::median_of(ours));
        let clients_at_their_end = row.ground.is_apart && middle.client_cpu_share >= CPU_AT_ITS_END;
        let above = |value: Option<f64>, most: Option<f64>| {
            most.is_some_and(|most| value.is_none_or(|value| value > most))
        };
        let misses = [
            ("throughput", ratio_throughput < bars.throughput_least && !clients_at_their_end),
            ("cpu", above(Some(ratio_cpu), bars.cpu_most)),
            ("cpu beside bare UDP", above(ratio_blast_cpu, bars.blast_cpu_most)),
        ];
        let missed: Vec<_> = misses.iter().filter(|(_, missed)| *missed).map(|(what, _)| *what).collect();
        Self {
            load: row.name(),
            ours: middle,
            peer: Run::median_of(peer),
            ratio_throughput,
            ratio_cpu,
            blast: Blast::median_of(blasts),
            ratio_blast_cpu,
            blast_reading: None,
            bare: None,
            runs: ours.len(),
            clients_at_their_end,
            bars,
            reached: missed.is_empty(),
            missed,
        }
    }

    /// Adds the floors that no server can go below, where that was measured beside it.
    pub(super) fn with_floors(self, blast_reading: Option<Blast>, bare: Option<Bare>) -> Self {
        Self { blast_reading, bare, ..self }
    }
}

/// Formats all lines for people, each cell ours / stock's.
pub(super) fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| load | Gb/s or calls/s | server CPU s/GiB or us/call | server CPU % | clients' CPU % | throughput | CPU | missed |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let (ours, peer) = (&line.ours, &line.peer);
        let moves_bytes = ours.gbit_per_second > 0.0;
        let (rate, cost) = if moves_bytes {
            (
                format!("{:.2} / {:.2}", ours.gbit_per_second, peer.gbit_per_second),
                format!("{:.3} / {:.3}", ours.server_cpu_s_per_gib, peer.server_cpu_s_per_gib),
            )
        } else {
            (
                format!("{:.0} / {:.0}", ours.calls_per_second, peer.calls_per_second),
                format!("{:.1} / {:.1}", ours.server_cpu_us_per_call, peer.server_cpu_us_per_call),
            )
        };
        let shares =
            |field: fn(&Run) -> f64| format!("{:.0} / {:.0}", field(ours) * 100.0, field(peer) * 100.0);
        let cells = [
            line.load.clone(),
            rate,
            cost,
            shares(|run| run.server_cpu_share),
            shares(|run| run.client_cpu_share),
            format!("{:.2}", line.ratio_throughput),
            format!("{:.3}", line.ratio_cpu),
            line.missed.join(", "),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Share of their CPU above which clients are the limit.
const CPU_AT_ITS_END: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;

    fn gave(calls_per_second: f64, cpu: f64, client_cpu_share: f64) -> Run {
        Run {
            gbit_per_second: calls_per_second * 0.008,
            calls_per_second,
            server_cpu_s_per_gib: cpu / 1000.0,
            server_cpu_us_per_call: cpu,
            server_cpu_share: 0.5,
            client_cpu_share,
            resent: 0.0,
        }
    }

    #[test]
    fn clients_at_their_end_lower_the_bar_of_throughput_alone() {
        let row = row::all().next().expect("there are rows");
        let line = |ours, peer| Line::new(&row, &[ours], &[peer], &[]);
        let peer = gave(100.0, 100.0, 0.5);
        assert_eq!(line(gave(140.0, 24.0, 0.6), peer).missed, ["throughput"]);
        assert_eq!(line(gave(140.0, 26.0, 0.95), peer).missed, ["cpu"]);
        assert!(line(gave(140.0, 25.0, 0.95), peer).reached && line(gave(150.0, 25.0, 0.5), peer).reached);
    }

    #[test]
    fn a_row_that_is_held_against_bare_udp_misses_without_it() {
        let row = row::all().find(|row| row.bars.blast_cpu_most.is_some()).expect("there is one");
        let (ours, peer) = (gave(1000.0, 8.0, 0.5), gave(100.0, 100.0, 0.5));
        let blast = |sender_cpu_s_per_gib| Blast { gbit_per_second: 20.0, sender_cpu_s_per_gib };
        assert_eq!(Line::new(&row, &[ours], &[peer], &[]).missed, ["cpu beside bare UDP"]);
        assert!(Line::new(&row, &[ours], &[peer], &[blast(0.005)]).reached);
        assert_eq!(Line::new(&row, &[ours], &[peer], &[blast(0.004)]).missed, ["cpu beside bare UDP"]);
    }
}
