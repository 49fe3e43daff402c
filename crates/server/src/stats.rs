//! Figures behind `linerate stat`: one snapshot as JSON, for our tools and others.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use lane::runtime::LaneInfo;
use serde::{Deserialize, Serialize};

use crate::metrics::Blocks;
use crate::process::{ThreadUsage, Usage};
use crate::volumes::VolumeShown;

/// All figures so far. Rates are the difference of two snapshots.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Snapshot {
    /// Time of the snapshot, in milliseconds since 1970.
    pub time_ms: u64,
    /// Seconds since the server started.
    pub uptime_seconds: f64,
    /// Processor time of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Context switches of all threads.
    pub context_switches: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Figures of the lanes, by id.
    pub lanes: Vec<LaneSnapshot>,
    /// Volumes that the index knows, if the server has one open.
    #[serde(default)]
    pub volumes: Vec<VolumeShown>,
}

/// Figures of one lane.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LaneSnapshot {
    /// Number of the lane.
    pub id: u16,
    /// Number of the lane's silo.
    pub silo: u16,
    /// CPU that the lane is pinned to.
    pub cpu: u32,
    /// Processor time of the lane's thread, in seconds.
    pub cpu_seconds: f64,
    /// Context switches of the lane's thread.
    pub context_switches: u64,
    /// Counters by area (`lane`, `http`, `vfs`) and name; labelled ones as `refused{reason=large}`.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Snapshot {
    /// Takes a snapshot of the present figures.
    pub fn take(blocks: &Blocks, lanes: &[LaneInfo], started: SystemTime) -> Self {
        let now = SystemTime::now();
        let usage = Usage::read().unwrap_or_default();
        let mut snapshot = Self {
            time_ms: u64::try_from(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis())
                .unwrap_or(u64::MAX),
            uptime_seconds: now.duration_since(started).unwrap_or_default().as_secs_f64(),
            cpu_seconds: usage.cpu_seconds,
            context_switches: usage.context_switches,
            resident_bytes: usage.resident_bytes,
            lanes: lanes.iter().map(LaneSnapshot::without_counters).collect(),
            volumes: Vec::new(),
        };
        for sample in blocks.samples() {
            let of_sample =
                |lane: &&mut LaneSnapshot| sample.lane.is_some_and(|labels| labels.lane == lane.id);
            let Some(lane) = snapshot.lanes.iter_mut().find(of_sample) else { continue };
            let reading = sample.reading;
            let name = match reading.label {
                Some((label, value)) => format!("{}{{{label}={value}}}", reading.name),
                None => reading.name.to_owned(),
            };
            lane.counters.entry(sample.area.to_owned()).or_default().insert(name, reading.value);
        }
        snapshot
    }
}

impl LaneSnapshot {
    /// Returns the counter `name` of `area`, 0 for an unknown one. A family's members are summed.
    pub fn counter(&self, area: &str, name: &str) -> u64 {
        let Some(counters) = self.counters.get(area) else { return 0 };
        let member = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        counters.iter().filter(|(key, _)| *key == name || member(key)).map(|(_, value)| value).sum()
    }

    fn without_counters(info: &LaneInfo) -> Self {
        let usage = ThreadUsage::read(info.thread).unwrap_or_default();
        Self {
            id: info.id.0,
            silo: info.silo.0,
            cpu: info.cpu,
            cpu_seconds: usage.cpu_seconds,
            context_switches: usage.context_switches,
            counters: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_the_sum_of_its_members() {
        let counters = BTreeMap::from([
            ("refused{reason=a}".to_owned(), 2),
            ("refused{reason=b}".to_owned(), 3),
            ("refused_other".to_owned(), 100),
        ]);
        let lane = LaneSnapshot {
            id: 0,
            silo: 0,
            cpu: 0,
            cpu_seconds: 0.0,
            context_switches: 0,
            counters: BTreeMap::from([("http".to_owned(), counters)]),
        };
        assert_eq!(lane.counter("http", "refused"), 5);
        assert_eq!(lane.counter("http", "refused_other"), 100);
        assert_eq!(lane.counter("rx", "calls"), 0);
    }
}
