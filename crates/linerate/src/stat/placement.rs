//! Share of a silo's memory on other nodes, by the server's latest looks at it.

use std::collections::BTreeMap;

use server::stats::Snapshot;

/// Looks are seconds apart, so most lines show what an earlier one found.
#[derive(Debug, Default)]
pub(super) struct PlacementSamples {
    silos: BTreeMap<u16, [PlacementSample; 3]>,
}

/// Pages looked up, by whether they lie on the node of their user; `None` where nothing was seen yet, or
/// where the server does not look because there is one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Placement {
    buffers: Option<Pages>,
    state: Option<Pages>,
    files: Option<Pages>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
struct Pages {
    local: u64,
    remote: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct PlacementSample {
    counted: Pages,
    latest: Option<Pages>,
}

impl PlacementSamples {
    /// Takes a snapshot in; the first tells of all since the server's start.
    pub(super) fn see(&mut self, now: &Snapshot) {
        let mut counted: BTreeMap<u16, [Pages; 3]> = BTreeMap::new();
        for lane in &now.lanes {
            let silo = counted.entry(lane.silo).or_default();
            for (pages, family) in silo.iter_mut().zip(FAMILIES) {
                let member =
                    |placement| lane.counter("memory", &format!("{family}{{placement={placement}}}"));
                pages.add(Pages { local: member("local"), remote: member("remote") });
            }
        }
        for (silo, counted) in counted {
            let looks = self.silos.entry(silo).or_default();
            looks.iter_mut().zip(counted).for_each(|(look, counted)| look.see(counted));
        }
    }

    /// Returns what the latest looks at a silo found.
    pub(super) fn of(&self, silo: u16) -> Placement {
        let [buffers, state, files] = self.silos.get(&silo).copied().unwrap_or_default();
        Placement { buffers: buffers.latest, state: state.latest, files: files.latest }
    }
}

impl PlacementSample {
    fn see(&mut self, counted: Pages) {
        let since = Pages {
            local: counted.local.saturating_sub(self.counted.local),
            remote: counted.remote.saturating_sub(self.counted.remote),
        };
        if since != Pages::default() {
            self.latest = Some(since);
        }
        self.counted = counted;
    }
}

impl Placement {
    /// Counts another silo's pages in.
    pub(super) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.buffers, other.buffers),
            (&mut self.state, other.state),
            (&mut self.files, other.files),
        ];
        for (sum, more) in pairs {
            if let Some(more) = more {
                sum.get_or_insert_default().add(more);
            }
        }
    }

    /// Formats the remote shares, as wide as [`HEADER`].
    pub(super) fn columns(&self) -> String {
        let share = |pages: Option<Pages>| {
            pages.map_or_else(|| "-".to_owned(), |pages| format!("{:.1}%", pages.remote_percent()))
        };
        format!("{:>12} {:>6} {:>6}", share(self.buffers), share(self.state), share(self.files))
    }
}

impl Pages {
    fn add(&mut self, other: Self) {
        self.local += other.local;
        self.remote += other.remote;
    }

    fn remote_percent(self) -> f64 {
        100.0 * self.remote as f64 / (self.local + self.remote).max(1) as f64
    }
}

/// Head of [`Placement::columns`].
pub(super) const HEADER: &str = "remote: bufs  state  files";
const FAMILIES: [&str; 3] = ["pool_pages", "state_pages", "file_pages"];

#[cfg(test)]
mod tests {
    use server::stats::LaneSnapshot;

    use super::*;

    fn snapshot(lanes: &[(u16, u64, u64)]) -> Snapshot {
        let lane = |&(silo, local, remote): &(u16, u64, u64)| {
            let counters = [("file_pages{placement=local}", local), ("file_pages{placement=remote}", remote)];
            let counters = counters.map(|(name, value)| (name.to_owned(), value)).into();
            LaneSnapshot {
                id: 0,
                silo,
                cpu: 0,
                cpu_seconds: 0.0,
                context_switches: 0,
                counters: [("memory".to_owned(), counters)].into(),
            }
        };
        Snapshot {
            volumes: Vec::new(),
            time_ms: 0,
            uptime_seconds: 0.0,
            cpu_seconds: 0.0,
            context_switches: 0,
            resident_bytes: 0,
            lanes: lanes.iter().map(lane).collect(),
        }
    }

    #[test]
    fn a_look_is_shown_until_the_next_one() {
        let mut looks = PlacementSamples::default();
        looks.see(&snapshot(&[(0, 60, 20), (0, 20, 0), (1, 0, 0)]));
        assert_eq!(looks.of(0).columns(), "           -      -  20.0%");
        assert_eq!(looks.of(1), Placement::default());
        looks.see(&snapshot(&[(0, 60, 20), (0, 20, 0), (1, 0, 0)]));
        assert_eq!(looks.of(0).files, Some(Pages { local: 80, remote: 20 }));
        looks.see(&snapshot(&[(0, 61, 20), (0, 22, 1), (1, 4, 0)]));
        assert_eq!(looks.of(0).files, Some(Pages { local: 3, remote: 1 }));
        let mut all = looks.of(0);
        all.add(&looks.of(1));
        assert_eq!(all.files, Some(Pages { local: 7, remote: 1 }));
    }

    #[test]
    fn columns_stand_under_their_head() {
        assert_eq!(Placement::default().columns().len(), HEADER.len());
    }
}
