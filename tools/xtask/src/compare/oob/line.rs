//! Report on a row.

use super::row::Row;
use crate::compare::{median, rounded};

/// Result of one run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Run {
    pub(super) gbit_per_second: f64,
    pub(super) server_cpu_s_per_gib: f64,
    pub(super) client_cpu_s_per_gib: Option<f64>,
}

/// One row's JSON line.
#[derive(Debug, serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    ours: Run,
    peer: Run,
    peer_name: &'static str,
    runs: usize,
    /// Medians of the pairs'.
    ratio_throughput: f64,
    ratio_cpu: f64,
    throughput_least: f64,
    cpu_most: Option<f64>,
    reached: bool,
}

impl Line {
    /// Makes the line of a row. `ours` and `peer` are in pairs.
    pub(super) fn new(row: &Row, ours: &[Run], peer: &[Run]) -> Self {
        let ratio = |field: fn(&Run) -> f64| {
            rounded(median(ours.iter().zip(peer).map(|(ours, peer)| field(ours) / field(peer))))
        };
        let ratio_throughput = ratio(|run| run.gbit_per_second);
        let ratio_cpu = ratio(|run| run.server_cpu_s_per_gib);
        Self {
            load: row.name,
            ours: Run::median_of(ours),
            peer: Run::median_of(peer),
            peer_name: row.peer.name(),
            runs: ours.len(),
            ratio_throughput,
            ratio_cpu,
            throughput_least: row.throughput_least,
            cpu_most: row.cpu_most,
            reached: ratio_throughput >= row.throughput_least
                && row.cpu_most.is_none_or(|most| ratio_cpu <= most),
        }
    }
}

impl Run {
    /// Returns the median of each field.
    fn median_of(runs: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| rounded(median(runs.iter().map(field)));
        let client: Vec<f64> = runs.iter().filter_map(|run| run.client_cpu_s_per_gib).collect();
        Self {
            gbit_per_second: of(|run| run.gbit_per_second),
            server_cpu_s_per_gib: of(|run| run.server_cpu_s_per_gib),
            client_cpu_s_per_gib: (!client.is_empty()).then(|| rounded(median(client))),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} Gb/s {:.3} CPU s/GiB", self.gbit_per_second, self.server_cpu_s_per_gib)
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::ROWS;
    use super::*;

    #[test]
    fn a_row_is_reached_by_throughput_and_by_processor_time_where_that_has_a_bar() {
        let run = |gbit_per_second, server_cpu_s_per_gib| Run {
            gbit_per_second,
            server_cpu_s_per_gib,
            client_cpu_s_per_gib: None,
        };
        let peer = [run(10.0, 1.0); 3];
        let reached = |row: usize, ours| Line::new(&ROWS[row], &[ours; 3], &peer).reached;
        assert!(reached(0, run(9.0, 1.1)) && !reached(0, run(8.9, 1.1)) && !reached(0, run(9.0, 1.2)));
        assert!(reached(2, run(8.0, 9.0)) && !reached(2, run(7.9, 0.1)));
    }
}
