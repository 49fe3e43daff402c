//! Objects of volumes, which lanes share: made once in a process. Its index is opened when the first volume
//! is writable or served to clients that cache.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use index::{VolumeId, VolumeRecord};
use rustix::thread::CapabilitySet;
use service::Service;
use service::admin_endpoint::AdminEndpoint;
use service::volumes::VolumeTable;
use tokio::time::Instant;
use vfs::{Closed, Objects, ObjectsOptions, RelPath, SharedVolume, VolumeName, Withheld};

use crate::config::{Config, ConfigError};
use crate::handover;
use crate::index_file::IndexFile;
use crate::lists;
use crate::volume_shown::{UsageShown, VolumeShown};

/// Changes under way in volumes that are no longer written to.
pub(crate) struct Closing {
    volumes: Vec<Arc<SharedVolume>>,
    until: Instant,
}

/// Objects of the process, if it has any, and the index behind them.
#[derive(Debug, Default)]
pub(crate) struct ProcessObjects {
    objects: Option<Objects>,
    /// Set once a volume has needed the index.
    is_numbered: bool,
    index: Option<IndexFile>,
    trouble: Option<String>,
    /// Set once services have the state of the last server: from here on this one may serve.
    is_handed_over: bool,
    /// Files that are withheld from all clients.
    withheld: Arc<Withheld>,
}

/// Purpose of the objects that the lanes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Volumes are served, and their versions kept.
    Serve,
    /// A configuration is only checked: nothing is left behind.
    Try,
}

impl ProcessObjects {
    /// Returns the table for this many lanes, with the objects and the index that its volumes need.
    ///
    /// # Errors
    /// More lanes than can share objects.
    pub(crate) fn give(
        &mut self,
        table: VolumeTable,
        lanes: usize,
        state: Option<PathBuf>,
        why: Use,
    ) -> Result<VolumeTable, ConfigError> {
        let objects = match &self.objects {
            Some(objects) => objects.clone(),
            // Rights count in every volume, also where no client writes and nothing is kept.
            None => self.objects.insert(Objects::unnumbered(options(lanes)?)).clone(),
        };
        if table.is_numbered() && !std::mem::replace(&mut self.is_numbered, true) {
            objects.keep_in(match why {
                Use::Try => Err("this is a trial".to_owned()),
                Use::Serve => match open_index(state.clone()) {
                    Ok(opened) => {
                        record_room(&objects, &state.unwrap_or_default());
                        let index = opened.index();
                        self.index = Some(opened);
                        Ok(index)
                    }
                    Err(problem) => {
                        self.trouble = Some(problem.clone());
                        Err(problem)
                    }
                },
            });
        }
        Ok(table.sharing(&objects))
    }

    /// Returns the files that every lane withholds from all clients.
    pub(crate) fn withheld(&self) -> &Arc<Withheld> {
        &self.withheld
    }

    /// Returns the objects that lanes share, once a volume needs them.
    pub(crate) fn objects(&self) -> Option<&Objects> {
        self.objects.as_ref()
    }

    /// Returns the reason why the index cannot be used by a server that needs one.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns the index, once a volume needs it.
    pub(crate) fn index(&self) -> Option<&IndexFile> {
        self.index.as_ref()
    }

    /// Returns the reasons why volumes of this table cannot be written to, by the volumes' names. A directory that was
    /// at a volume's path before, and that clients may still have open, is none of it.
    pub(crate) fn troubles(&self, table: &VolumeTable) -> Vec<(String, String)> {
        let volumes = self.volumes();
        let troubles = volumes.iter().filter(|volume| table.serves(volume)).filter_map(|volume| {
            let trouble = volume.trouble()?;
            Some((volume.name().to_string(), format!("nothing can be written to it: {trouble}")))
        });
        troubles.collect()
    }

    /// Returns the reasons why volumes of this table are served to administrators alone, by the volumes'
    /// names.
    pub(crate) fn seals(&self, table: &VolumeTable) -> Vec<(String, String)> {
        let all = self.objects.as_ref().map(Objects::all_volumes).unwrap_or_default();
        let is_served = |name: &VolumeName| table.entries().iter().any(|entry| entry.spec.name == *name);
        let sealed = all.iter().filter(|volume| is_served(&volume.name()));
        let mut seals: Vec<_> =
            sealed.filter_map(|volume| Some((volume.name().to_string(), volume.seal()?))).collect();
        seals.dedup();
        seals
    }

    /// Returns the directories of this table's volumes that have lost their access lists, with the volumes'
    /// names.
    pub(crate) fn lost_lists(&self, table: &VolumeTable) -> Vec<(String, PathBuf)> {
        let all = self.objects.as_ref().map(Objects::all_volumes).unwrap_or_default();
        let mut lost = Vec::new();
        for volume in all {
            let served = table.entries().iter().find(|entry| entry.spec.name == volume.name());
            let Some(entry) = served else { continue };
            let paths = volume.lost_lists().into_iter().map(|path| entry.spec.path.join(path));
            // What has come back is known at the next request, which may never come.
            let lacking = paths.filter(|path| !lists::has_rights(path));
            lost.extend(lacking.map(|path| (volume.name().to_string(), path)));
        }
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// Returns the endpoint for commands that have changed rights.
    pub(crate) fn rights_endpoint(&self) -> Option<(&'static str, Arc<dyn AdminEndpoint>)> {
        let objects = self.objects.clone()?;
        Some((RIGHTS, Arc::new(RightsEndpoint(objects)) as Arc<dyn AdminEndpoint>))
    }

    /// Returns messages for the administrator about the state in which the index was found.
    pub(crate) fn news(&self) -> Vec<String> {
        let volumes = self.volumes();
        let of_volumes =
            volumes.iter().filter_map(|volume| Some(format!("volume {}: {}", volume.name(), volume.news()?)));
        self.index.iter().flat_map(IndexFile::news).chain(of_volumes).collect()
    }

    /// Returns all volumes of the index and of `table` as the admin address shows them.
    pub(crate) fn shown(&self, table: &VolumeTable) -> Vec<VolumeShown> {
        let mut open = self.volumes();
        let mut unknown = open.clone();
        open.retain(|volume| table.writes_to(volume));
        let is_served = |name: &str| table.entries().iter().any(|entry| entry.spec.name.as_str() == name);
        let shown = |(id, record): &(VolumeId, VolumeRecord)| {
            let served = open.iter().find(|volume| volume.name().as_str() == record.name);
            let trouble = served.and_then(|volume| volume.trouble().map(str::to_owned));
            let usage = served.and_then(|volume| volume.space()).map(UsageShown::of_served);
            let known = VolumeShown::of(*id, record);
            let usage = usage.or(known.usage.clone());
            let is_writable = served.is_some();
            let served = is_writable || is_served(&record.name);
            VolumeShown { served, writable: is_writable, trouble, usage, ..known }
        };
        let mut all: Vec<_> =
            self.index.iter().flat_map(IndexFile::volumes).map(|volume| shown(&volume)).collect();
        let is_known = |name: &VolumeName| all.iter().any(|known| known.name == name.as_str());
        unknown.retain(|volume| is_served(volume.name().as_str()) && !is_known(&volume.name()));
        let without_number = |volume: &Arc<SharedVolume>| {
            let (name, trouble) = (volume.name().to_string(), Some(volume.trouble()?.to_owned()));
            Some(VolumeShown {
                name,
                served: true,
                writable: true,
                trouble,
                ..VolumeShown::of(VolumeId(0), &volume.record()?)
            })
        };
        all.extend(unknown.iter().filter_map(without_number));
        all
    }

    /// Ends in order, when every lane has ended: syncs what was written, and leaves the state for the next
    /// server.
    pub(crate) fn close(&mut self, config: &Config) {
        let Some(index) = self.index.take() else { return };
        let in_use = self.objects.as_ref().map_or(0, Objects::in_use);
        let paths = config
            .volumes
            .iter()
            .filter(|volume| volume.writable != identity::Writable::Nobody)
            .map(|volume| &*volume.path);
        let leave = || handover::leave(index.state(), &services(config));
        index.close(in_use, paths, leave);
    }

    /// Passes services the state that the last server left for them beside the index.
    pub(crate) fn hand_over(&mut self, config: &Config) {
        self.is_handed_over = true;
        if let Some(index) = &self.index {
            handover::hand_over(index.state(), &services(config));
        }
    }
}

/// Undoes a start that was refused before anything was served, so that it does not count as a killed server.
impl Drop for ProcessObjects {
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.index.iter().for_each(IndexFile::put_back);
        }
    }
}

/// Returns the services that are served.
fn services(config: &Config) -> Vec<Arc<dyn Service>> {
    let wanted = config.wishes.iter().filter(|wish| wish.settings.is_some());
    wanted.map(|wish| Arc::clone(&wish.service)).collect()
}

fn open_index(state: Option<PathBuf>) -> Result<IndexFile, String> {
    let state =
        state.ok_or("no directory to keep the index in: set server.state_dir, XDG_STATE_HOME or HOME")?;
    IndexFile::open(&state)
}

/// Records beside the index which files have room beyond their ends, for the next server that opens this
/// index.
fn record_room(objects: &Objects, state: &Path) {
    let file = state.join(ROOM_FILE);
    if let Err(error) = objects.record_room_in(&file) {
        //@ cause: The file of the state directory in which the server notes the files that have disk space reserved ahead of an upload
        //@ cannot be opened or read.
        //@ remedy: Make the file readable and writable for the server's user, or delete it, and restart the server. Until then large
        //@ uploads over AFS may lie in more pieces on the disk.
        tracing::warn!(
            "file {}: files with disk space reserved ahead of uploads cannot be recorded: {error}; no space is reserved ahead; make the \
             file writable for the server's user, or delete it [room-unrecorded]",
            file.display()
        );
    }
}

impl ProcessObjects {
    /// Opens the volumes that this table has writable to changes, before the lanes serve it.
    pub(crate) fn open_gates(&self, table: &VolumeTable) {
        self.volumes().iter().filter(|volume| table.writes_to(volume)).for_each(|volume| volume.reopen());
    }

    /// Gives volumes of the table `before` the names that their directories have in `table`, before the lanes prepare
    /// that.
    pub(crate) fn rename(&self, table: &VolumeTable, before: &VolumeTable) {
        self.volumes().iter().for_each(|volume| table.rename(volume, before));
    }

    /// Closes other volumes to changes once the lanes serve this table, even on lanes that still have them
    /// open.
    pub(crate) fn close_gates(&self, table: &VolumeTable) -> Closing {
        let mut volumes = self.volumes();
        volumes.retain(|volume| !table.writes_to(volume));
        for volume in &volumes {
            let is_served = table.entries().iter().any(|entry| entry.spec.name == volume.name());
            volume.close(if is_served { Closed::ReadOnly } else { Closed::Offline });
        }
        Closing { volumes, until: Instant::now() + CLOSED_WITHIN }
    }

    pub(crate) fn volumes(&self) -> Vec<Arc<SharedVolume>> {
        self.objects.as_ref().map(Objects::volumes).unwrap_or_default()
    }
}

impl Closing {
    /// Waits until the last change has ended. A disk that does not answer is reported, and not waited for any longer.
    pub(crate) async fn ended(&self) {
        let all = async {
            for volume in &self.volumes {
                volume.emptied().await;
            }
        };
        if tokio::time::timeout_at(self.until, all).await.is_err() {
            for volume in self.volumes.iter().filter(|volume| !volume.is_still()) {
                //@ cause: A reload has taken a volume away, or made it read-only, while a client's change of it was waiting for the disk.
                //@ remedy: Look at the disk. Do not unmount the directory before the change has ended.
                tracing::error!(
                    volume = %volume.name(),
                    "volume {}: a client's change goes on though a reload ended writing to it, as its disk does not answer; look at the \
                     disk [volume-change-hangs]",
                    volume.name()
                );
            }
        }
    }

    /// Returns whether no change is under way.
    pub(crate) fn is_over(&self) -> bool {
        self.volumes.iter().all(|volume| volume.is_still())
    }
}

/// Endpoint that makes lanes read rights again.
struct RightsEndpoint(Objects);

impl AdminEndpoint for RightsEndpoint {
    fn show(&self, _: &str) -> Option<String> {
        None
    }

    /// Makes lanes forget what they know of rights: later look-ups read those of the tree. A directory that
    /// was given a list is named by its path, in hexadecimal digits.
    fn end(&self, path: &str) -> bool {
        let at = path.strip_prefix(GIVEN).and_then(decoded);
        let is_known = path == KNOWN || at.is_some();
        at.iter().for_each(|at| self.remember(at));
        if is_known {
            self.0.revalidate_rights();
        }
        is_known
    }
}

impl RightsEndpoint {
    /// Records in a directory's volume that it has a list, if it has one.
    fn remember(&self, directory: &Path) {
        if !lists::has_one(directory) {
            return;
        }
        for volume in self.0.all_volumes() {
            let root = volume.record().and_then(|record| std::fs::canonicalize(record.path).ok());
            let below = root.as_deref().and_then(|root| directory.strip_prefix(root).ok());
            if let Some(path) = below.and_then(|below| RelPath::parse(below.as_os_str().as_bytes()).ok()) {
                volume.remember_list_at(path);
            }
        }
    }
}

/// Returns the path at which [`RightsEndpoint`] takes a directory that was given a list.
pub(crate) fn given(directory: &Path) -> String {
    let digits: String = directory.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{RIGHTS}/{GIVEN}{digits}")
}

fn decoded(digits: &str) -> Option<PathBuf> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    Some(PathBuf::from(OsString::from_vec(bytes?)))
}

/// Name of the file in the state directory with the files that have room beyond their ends.
const ROOM_FILE: &str = "room-ahead";
/// Names of the endpoint and of its objects.
const RIGHTS: &str = "rights";
const KNOWN: &str = "known";
const GIVEN: &str = "given-";

fn options(lanes: usize) -> Result<ObjectsOptions, ConfigError> {
    let most = ObjectsOptions::default();
    if lanes > most.lanes_max {
        let problem = format!(
            "at most {} lanes can serve the same files, and there are {lanes}: give server.lanes that number",
            most.lanes_max
        );
        return Err(ConfigError::invalid("server.lanes", problem));
    }
    let has = capabilities();
    Ok(ObjectsOptions {
        lanes_max: lanes,
        privileged: reads_every_file(),
        gives_files: has.contains(GIVES_FILES),
        has_reserve: rustix::process::geteuid().is_root() || has.contains(CapabilitySet::SYS_RESOURCE),
        user: rustix::process::geteuid().as_raw(),
        trusted_attributes: writes_trusted_attributes(),
        ..most
    })
}

/// Returns whether this process may read every file, so that it applies mode bits to clients.
pub(crate) fn reads_every_file() -> bool {
    capabilities().intersects(READS_EVERYTHING)
}

/// Returns whether marks and access lists are privileged attributes in a server of this user.
pub fn writes_trusted_attributes() -> bool {
    capabilities().contains(CapabilitySet::SYS_ADMIN)
}

/// Returns the capabilities of this thread, and so of the lanes that it starts.
fn capabilities() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Capabilities of which one lets a process read every file, so that the server has to apply mode bits
/// itself.
const READS_EVERYTHING: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
/// Capabilities that together let a process give files to others, and still change them.
const GIVES_FILES: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER);
//@ limit: a reload that waits for changes of a volume that it ends
//@ section: Writable volumes
//@ unit: time
//@ all: process: {}
//@ empty: the reload is acknowledged and the log names the volume; requests are served meanwhile
//@ counter: none
//@ attack: none, only a reload causes it
//@ reach: server
/// Longest wait for clients' changes to end.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);

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
    fn the_path_of_a_directory_comes_as_it_was_told_and_what_is_none_is_none() {
        for path in ["/srv/a b", "/srv/\u{e4}/%2f", "/"] {
            let told = given(Path::new(path));
            let digits = told.strip_prefix("rights/given-").unwrap();
            assert_eq!(decoded(digits), Some(PathBuf::from(path)));
        }
        for wrong in ["zz", "2fz", "\u{e4}\u{e4}"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_server_that_only_reads_has_no_index() {
        let mut objects = ProcessObjects::default();
        objects.give(VolumeTable::default(), 2, None, Use::Serve).unwrap();
        assert!(objects.objects.is_some() && objects.index.is_none() && objects.trouble.is_none());
    }
}
