//! The rows: clients and what they ask for, and what Linerate has to reach there beside the stock server.

/// A load, and its bars.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) load: Load,
    pub(super) clients: u32,
    pub(super) ground: Ground,
    pub(super) bars: Bars,
}

/// Arrangement of servers and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ground {
    /// Set if both sides send jumbograms, over a path that carries them whole.
    pub(super) jumbograms: bool,
    /// Set if servers have one CPU and clients another, so that it shows which is at its limit. Else all share all
    /// CPUs.
    pub(super) is_apart: bool,
}

/// All arrangements that rows use.
pub(super) const GROUNDS: [Ground; 3] = [
    Ground { jumbograms: false, is_apart: true },
    Ground { jumbograms: false, is_apart: false },
    Ground { jumbograms: true, is_apart: true },
];

/// Load of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Processes on OpenAFS's libraries fetch a file, 1 MiB a call.
    StockFetch,
    /// `linerate bench afs` does the same.
    Fetch,
    /// The client asks for one file's status.
    Status,
    /// The client stores, 1 MiB a call, a file of each client.
    Store,
    /// The client makes and removes names in one directory of many.
    Names,
}

/// Bars that a row has to reach. Ratios are Linerate's figure by the stock server's.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Bars {
    pub(super) throughput_least: f64,
    pub(super) cpu_most: Option<f64>,
    /// Most CPU time for a GiB, as a multiple of that of a bare UDP blast.
    pub(super) blast_cpu_most: Option<f64>,
}

/// Returns all rows, those with jumbograms last.
pub(super) fn all() -> impl Iterator<Item = Row> {
    let row = |load, clients, bars| {
        let ground = Ground { jumbograms: false, is_apart: load == Load::StockFetch };
        Row { load, clients, ground, bars }
    };
    let bars = |throughput_least, cpu_most| Bars { throughput_least, cpu_most, blast_cpu_most: None };
    let stock = bars(1.5, Some(0.25));
    let jumbo = |row: Row| Row { ground: Ground { jumbograms: true, ..row.ground }, ..row };
    [
        row(Load::StockFetch, 16, stock),
        row(Load::StockFetch, 100, stock),
        row(Load::Fetch, 100, Bars { blast_cpu_most: Some(1.6), ..bars(8.0, Some(0.1)) }),
        row(Load::Status, 100, bars(6.0, Some(0.15))),
        row(Load::Store, 16, bars(4.0, None)),
        row(Load::Names, 16, bars(4.0, None)),
        jumbo(row(Load::StockFetch, 16, stock)),
        jumbo(row(Load::StockFetch, 100, stock)),
    ]
    .into_iter()
}

impl Row {
    /// Returns the name that the filter sees: "stock clients fetch 1 MiB, 16 clients, jumbograms off".
    pub(super) fn name(&self) -> String {
        let load = match self.load {
            Load::StockFetch => "stock clients fetch 1 MiB",
            Load::Fetch => "fetch 1 MiB",
            Load::Status => "FetchStatus",
            Load::Store => "store 1 MiB",
            Load::Names => "create and remove among 10,000 names",
        };
        let jumbograms = if self.ground.jumbograms { "on" } else { "off" };
        format!("{load}, {} clients, jumbograms {jumbograms}", self.clients)
    }

    /// Returns whether each call is a datagram there and one back.
    pub(super) fn is_one_datagram(&self) -> bool {
        self.load == Load::Status
    }

    /// Flags of `linerate bench afs`, and where in the volume it works; `None` for stock clients.
    pub(super) fn bench(&self) -> Option<(&'static [&'static str], &'static str)> {
        match self.load {
            Load::StockFetch => None,
            Load::Fetch => Some((&["--mode", "fetch", "--chunk", "1M"], FILE)),
            Load::Status => Some((&["--mode", "stat"], FILE)),
            Load::Store => Some((&["--mode", "store", "--chunk", "1M", "--file-size", "16M"], STORED)),
            Load::Names => Some((&["--mode", "names"], MANY)),
        }
    }
}

/// File in the volume of either server: a file of so many bytes, an empty directory, and one of so many
/// names.
pub(super) const FILE: &str = "large";
pub(super) const FILE_BYTES: usize = 64 << 20;
pub(super) const STORED: &str = "stored";
pub(super) const MANY: &str = "many";
pub(super) const NAMES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = all().map(|row| row.name()).collect();
        assert_eq!((names.len(), all().count()), (8, 8));
        assert!(all().all(|row| GROUNDS.contains(&row.ground)));
        assert!(names.contains("stock clients fetch 1 MiB, 16 clients, jumbograms on"), "{names:?}");
    }
}
