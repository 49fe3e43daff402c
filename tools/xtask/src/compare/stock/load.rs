//! Loads over links.

/// A load over a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) threads: u32,
    /// MTU of the link, bytes.
    pub(super) mtu: u32,
    /// Set if both sides send jumbograms.
    pub(super) jumbograms: bool,
}

/// Mode of the client's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each call receives 1 MiB.
    Recv,
    /// Each call sends 1 MiB.
    Send,
    /// Each call sends and receives 32 bytes.
    Small,
}

/// Returns all rows.
pub(super) fn all() -> impl Iterator<Item = Row> {
    let links = [(1500, false), (1500, true), (9000, false), (9000, true)];
    let loads = [Mode::Recv, Mode::Send].into_iter().flat_map(|mode| THREADS.map(|threads| (mode, threads)));
    let bulk = links.into_iter().flat_map(move |(mtu, jumbograms)| {
        loads.clone().map(move |(mode, threads)| Row { mode, threads, mtu, jumbograms })
    });
    bulk.chain([Row { mode: Mode::Small, threads: 16, mtu: 1500, jumbograms: false }])
}

impl Row {
    /// Returns the name that the filter sees: "recv 1 MiB, 4 threads, MTU 1500, jumbograms off".
    pub(super) fn name(&self) -> String {
        let mode = match self.mode {
            Mode::Recv => "recv 1 MiB",
            Mode::Send => "send 1 MiB",
            Mode::Small => "rpc of 32 bytes",
        };
        let (plural, jumbograms) =
            (if self.threads == 1 { "" } else { "s" }, if self.jumbograms { "on" } else { "off" });
        format!("{mode}, {} thread{plural}, MTU {}, jumbograms {jumbograms}", self.threads, self.mtu)
    }

    pub(super) fn bytes_per_call(&self) -> u32 {
        match self.mode {
            Mode::Recv | Mode::Send => 1 << 20,
            Mode::Small => 2 * SMALL,
        }
    }

    /// Returns the flags of the stock client.
    pub(super) fn client_flags(&self) -> Vec<String> {
        let mut flags = self.stock_flags();
        let (size, small) = ((1 << 20).to_string(), SMALL.to_string());
        let load: &[&str] = match self.mode {
            Mode::Recv => &["-c", "recv", "-b", &size],
            Mode::Send => &["-c", "send", "-b", &size],
            Mode::Small => &["-c", "rpc", "-S", &small, "-R", &small],
        };
        flags.extend(load.iter().map(|&flag| flag.to_owned()));
        flags
    }

    /// Returns the flags that either stock side takes.
    pub(super) fn stock_flags(&self) -> Vec<String> {
        if self.jumbograms { Vec::new() } else { vec!["-j".to_owned()] }
    }

    /// Returns the flags of Linerate's server.
    pub(super) fn linerate_flags(&self) -> Vec<String> {
        let fragments = self.jumbograms && self.mtu == 1500;
        if fragments { vec!["--jumbograms".to_owned(), "fragments".to_owned()] } else { Vec::new() }
    }
}

const THREADS: [u32; 4] = [1, 4, 16, 64];
/// Bytes of a small call in each direction.
const SMALL: u32 = 32;
