//! Figures of trees that can be changed, and of the clients that cache what is in them: a line beside that of
//! all else, and one for each volume whenever its figures are others.

use std::collections::BTreeMap;

use server::stats::{LaneSnapshot, Snapshot};
use server::volumes::{UsageShown, UsageState, VolumeShown};

use super::sum::sum;
use crate::output::{bit_rate, bytes, counted, rate};

/// Changes and clients of all lanes. Uploads, callbacks and hosts are levels, all else rates.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Trees {
    uploads: u64,
    /// Bits of HTTP's uploads and AFS's stores, as they are written.
    bits_written_per_second: f64,
    changes_per_second: f64,
    locks_per_second: f64,
    callbacks: u64,
    afs_hosts: u64,
    /// Clients notified that what they hold a callback of has changed.
    callbacks_per_second: f64,
    /// Refusals of changes, readings and look-ups, but for names that there are not; and of AFS's clients and locks.
    refusals_per_second: f64,
}

/// Volumes as they were shown last.
#[derive(Debug, Default)]
pub(super) struct Shown(BTreeMap<String, String>);

impl Trees {
    pub(super) fn between(before: &Snapshot, now: &Snapshot, seconds: f64) -> Self {
        let mut all = Self::default();
        for lane in &now.lanes {
            if let Some(earlier) = before.lanes.iter().find(|earlier| earlier.id == lane.id) {
                all.add(earlier, lane, seconds);
            }
        }
        all.afs_hosts = sum(now, |lane| lane.counter("afs", "hosts_met{how=made}"))
            .saturating_sub(sum(now, |lane| lane.counter("afs", "hosts_left")));
        all
    }

    fn add(&mut self, before: &LaneSnapshot, now: &LaneSnapshot, seconds: f64) {
        let per_second =
            |of: &dyn Fn(&LaneSnapshot) -> u64| of(now).saturating_sub(of(before)) as f64 / seconds;
        let counted = |area: &'static str, name: &'static str| per_second(&|lane| lane.counter(area, name));
        self.uploads += now.counter("http", "uploads_open");
        self.bits_written_per_second +=
            (counted("http", "upload_bytes") + counted("afs", "stored_bytes")) * 8.0;
        self.changes_per_second += counted("vfs", "changes");
        self.locks_per_second += counted("afs", "locks_taken");
        self.callbacks += now.counter("vfs", "callbacks_held");
        self.callbacks_per_second += counted("vfs", "clients_told");
        self.refusals_per_second += per_second(&|lane| {
            let absent = ["refused{reason=not_found}", "refused{reason=hidden}"];
            let absent: u64 = absent.iter().map(|name| lane.counter("vfs", name)).sum();
            lane.counter("vfs", "refused") - absent
                + lane.counter("vfs", "grants_refused")
                + lane.counter("afs", "locks_refused")
                + lane.counter("afs", "hosts_refused")
        });
    }

    /// Formats the figures, as wide as [`HEADER`].
    pub(super) fn line(&self) -> String {
        format!(
            "{:<8} {:>12} {:>12} {:>9} {:>9} {:>10} {:>9} {:>8} {:>9}",
            "trees",
            self.uploads,
            bit_rate(self.bits_written_per_second),
            rate(self.changes_per_second),
            rate(self.locks_per_second),
            self.callbacks,
            self.afs_hosts,
            rate(self.callbacks_per_second),
            rate(self.refusals_per_second),
        )
    }
}

/// Returns whether the server has trees that can be changed, or clients that cache.
pub(super) fn are_there(now: &Snapshot) -> bool {
    !now.volumes.is_empty() || sum(now, |lane| lane.counter("vfs", "callbacks_held")) > 0
}

impl Shown {
    /// Returns a line for each volume that has another one than was shown last.
    pub(super) fn news(&mut self, now: &Snapshot) -> Vec<String> {
        let mut news = Vec::new();
        for volume in now.volumes.iter().filter(|volume| volume.writable) {
            let line = line_of(volume);
            if self.0.get(&volume.name) != Some(&line) {
                news.push(line.clone());
                self.0.insert(volume.name.clone(), line);
            }
        }
        news
    }

    /// Begins anew, as under a new head.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

fn line_of(volume: &VolumeShown) -> String {
    let mut told = Vec::new();
    if let Some(usage) = &volume.usage {
        told.extend(of_usage(usage));
    }
    if let Some(trouble) = &volume.trouble {
        told.push(format!("nothing can be written to it, and AFS does not attach it: {trouble}"));
    }
    let told = if told.is_empty() { "not counted".to_owned() } else { told.join(", ") };
    format!("  volume {}: {told}", volume.name)
}

fn of_usage(usage: &UsageShown) -> Vec<String> {
    let of = |used: String, quota: Option<String>| match quota {
        Some(quota) => format!("{used} of {quota}"),
        None => used,
    };
    let mut told = vec![
        of(bytes(usage.bytes), usage.quota_bytes.map(bytes)),
        match usage.quota_files {
            Some(quota) => format!("{} of {}", usage.files, counted(quota, "file", "files")),
            None => counted(usage.files, "file", "files"),
        },
    ];
    match usage.state {
        UsageState::Counted => {}
        UsageState::Earlier => told.push("as counted earlier".to_owned()),
        UsageState::Counting { directories } => {
            told.push(format!("{} counted so far", counted(directories, "directory", "directories")))
        }
        UsageState::InDoubt => told.push("counted anew soon".to_owned()),
    }
    told
}

/// Head of [`Trees::line`].
pub(super) const HEADER: &str =
    "              uploads      written changes/s   locks/s  callbacks AFS hosts   told/s refused/s";

#[cfg(test)]
mod tests {
    use super::super::tests::{ends, snapshot};
    use super::*;

    #[test]
    fn figures_stand_under_their_heads() {
        let busy = [
            ("http", "uploads_open", 3),
            ("http", "upload_bytes", 1 << 20),
            ("afs", "stored_bytes", 1 << 20),
            ("afs", "hosts_met{how=made}", 5),
            ("afs", "hosts_met{how=known}", 99),
            ("afs", "hosts_left{why=idle}", 1),
            ("afs", "locks_taken", 4),
            ("vfs", "changes", 20),
            ("vfs", "callbacks_held", 1_000_000),
            ("vfs", "clients_told", 6),
            ("vfs", "refused{reason=quota}", 8),
            ("vfs", "refused{reason=not_found}", 1_000),
        ];
        let trees = Trees::between(&snapshot(&[], Vec::new()), &snapshot(&busy, Vec::new()), 2.0);
        assert_eq!((trees.uploads, trees.afs_hosts, trees.callbacks), (3, 4, 1_000_000));
        assert!((trees.bits_written_per_second - f64::from(1 << 23)).abs() < 1.0);
        let line = trees.line();
        assert_eq!(line.len(), HEADER.len());
        let heads = ends(HEADER);
        assert!(ends(&line)[1..].iter().filter(|end| heads.contains(end)).count() >= 8, "\n{HEADER}\n{line}");
        assert!(line.contains(" 10 ") && line.ends_with(" 4"), "{line}");
    }

    #[test]
    fn a_volume_is_told_of_when_something_about_it_is_new() {
        let usage = UsageShown {
            bytes: 3 << 20,
            files: 12,
            quota_bytes: Some(1 << 30),
            quota_files: None,
            state: UsageState::Counted,
        };
        let volume = |usage: Option<UsageShown>, trouble: Option<&str>| VolumeShown {
            name: "pub".to_owned(),
            id: 536_870_913,
            path: "/srv/pub".into(),
            created: 0,
            generation: 1,
            served: true,
            writable: true,
            trouble: trouble.map(str::to_owned),
            usage,
        };
        let mut shown = Shown::default();
        let counted = snapshot(&[], vec![volume(Some(usage.clone()), None)]);
        assert!(are_there(&counted) && !are_there(&snapshot(&[], Vec::new())));
        assert_eq!(shown.news(&counted), ["  volume pub: 3.0 MiB of 1.0 GiB, 12 files"]);
        assert!(shown.news(&counted).is_empty());
        let state = UsageState::Counting { directories: 7 };
        let counting = snapshot(&[], vec![volume(Some(UsageShown { state, ..usage }), None)]);
        assert!(shown.news(&counting)[0].ends_with("12 files, 7 directories counted so far"));
        let troubled = shown.news(&snapshot(&[], vec![volume(None, Some("no mark"))]));
        assert!(troubled[0].ends_with("and AFS does not attach it: no mark"), "{troubled:?}");
        shown.forget();
        assert_eq!(shown.news(&snapshot(&[], vec![volume(None, None)])), ["  volume pub: not counted"]);
    }
}
