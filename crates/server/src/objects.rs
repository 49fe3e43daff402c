//! What lanes share of writable volumes: made once in a process, when the first volume is writable. A server that only
//! reads has none.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::thread::CapabilitySet;
use service::volumes::VolumeTable;
use tokio::time::Instant;
use vfs::{Closed, MemoryVersions, Objects, ObjectsOptions, SharedVolume};

use crate::config::ConfigError;

/// Changes that were under way in volumes that are written to no longer.
pub(crate) struct Closing {
    volumes: Vec<Arc<SharedVolume>>,
    until: Instant,
}

/// The objects of the process, if it has any.
#[derive(Debug, Default)]
pub(crate) struct ProcessObjects(Option<Objects>);

impl ProcessObjects {
    /// The table for this many lanes, with what it takes to write to its volumes.
    ///
    /// # Errors
    /// More lanes than can share objects.
    pub(crate) fn give(&mut self, table: VolumeTable, lanes: usize) -> Result<VolumeTable, ConfigError> {
        if self.0.is_none() && table.is_writable() {
            let options = options(lanes)?;
            let versions = MemoryVersions::new(VERSIONS_MAX, SystemTime::now());
            self.0 = Some(Objects::new(options, Arc::new(versions)));
        }
        Ok(match &self.0 {
            Some(objects) => table.sharing(objects),
            None => table,
        })
    }
}

impl ProcessObjects {
    /// The lanes are about to serve this: what it has writable can be changed.
    pub(crate) fn open_gates(&self, table: &VolumeTable) {
        self.volumes().iter().filter(|volume| table.writes_to(volume)).for_each(|volume| volume.reopen());
    }

    /// The lanes serve this: what else they had open is not changed any more, whoever still has it open.
    pub(crate) fn close_gates(&self, table: &VolumeTable) -> Closing {
        let mut volumes = self.volumes();
        volumes.retain(|volume| !table.writes_to(volume));
        for volume in &volumes {
            let is_served = table.entries().iter().any(|entry| entry.spec.name == *volume.name());
            volume.close(if is_served { Closed::ReadOnly } else { Closed::Offline });
        }
        Closing { volumes, until: Instant::now() + CLOSED_WITHIN }
    }

    pub(crate) fn volumes(&self) -> Vec<Arc<SharedVolume>> {
        self.0.as_ref().map(Objects::volumes).unwrap_or_default()
    }
}

impl Closing {
    /// Waits until the last change has ended. A disk that does not answer is told of, and not waited for any longer.
    pub(crate) async fn ended(&self) {
        let all = async {
            for volume in &self.volumes {
                volume.emptied().await;
            }
        };
        if tokio::time::timeout_at(self.until, all).await.is_err() {
            for volume in self.volumes.iter().filter(|volume| !volume.is_still()) {
                tracing::error!(volume = %volume.name(), "a change that was under way does not end");
            }
        }
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.volumes.iter().all(|volume| volume.is_still())
    }
}

fn options(lanes: usize) -> Result<ObjectsOptions, ConfigError> {
    let most = ObjectsOptions::default();
    if lanes > most.lanes_max {
        let problem = format!(
            "at most {} lanes can write to the same files, and there are {lanes}: give server.lanes that number, or no \
             volume a writable",
            most.lanes_max
        );
        return Err(ConfigError::invalid("server.lanes", problem));
    }
    let has = capabilities();
    Ok(ObjectsOptions {
        lanes_max: lanes,
        privileged: has.intersects(READS_EVERYTHING),
        trusted_attributes: has.contains(CapabilitySet::SYS_ADMIN),
        ..most
    })
}

/// Those that count for this thread, and so for the lanes that it starts.
fn capabilities() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Who has one of these reads every file, so that mode bits are for him to keep.
const READS_EVERYTHING: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
/// Longer than clients are waited for.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// Files whose versions are remembered; beyond it all begin a new generation.
const VERSIONS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_lanes_than_can_share_are_refused_by_the_key() {
        assert!(options(256).is_ok());
        let problem = options(257).unwrap_err().to_string();
        assert!(problem.starts_with("server.lanes: at most 256 lanes"), "{problem}");
    }

    #[test]
    fn a_server_that_only_reads_has_no_objects() {
        let mut objects = ProcessObjects::default();
        objects.give(VolumeTable::default(), 300).unwrap();
        assert!(objects.0.is_none());
    }
}
