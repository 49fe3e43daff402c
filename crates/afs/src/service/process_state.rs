//! The state of AFS in a process, which outlives reloads.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lane::socket::reuseport::Steering;
use rx_lane::LaneGroup;
use service::{Bound, Role, Transport};
use vfs::Objects;
use xdr::afs::AfsUuid;

use super::tokens::Tokens;
use crate::fileserver::{DirPageVersions, Locks, Totals};
use crate::host::{HostOptions, Hosts};
use crate::roots::SyntheticVolumes;

/// The state of AFS in a process: the server's UUID, and which lanes share which address.
#[derive(Default)]
pub(crate) struct ProcessState {
    uuid: OnceLock<AfsUuid>,
    since: OnceLock<u32>,
    lane_group: Mutex<HashMap<(Role, SocketAddr), LaneGroup>>,
    has_listened: AtomicBool,
    hosts: OnceLock<Hosts>,
    /// Clients' locks, of all lanes.
    pub(super) locks: Locks,
    /// Versions of directories' pages.
    pub(super) dir_page_versions: DirPageVersions,
    /// Statistics of the file servers of all lanes.
    pub(super) totals: Totals,
    /// Volumes that are made up.
    pub(super) synthetic: SyntheticVolumes,
    /// Done once the clients of an earlier run have been notified that their callbacks are void.
    pub(super) reset: Once,
    untold: Mutex<Weak<PendingReset>>,
    /// Done once clients have been notified that the server stops.
    pub(super) released: Once,
    /// Clients with tokens that the log has reported.
    pub(super) tokens: Tokens,
}

/// Work that one lane does for all.
#[derive(Debug, Default)]
pub(super) struct Once(AtomicU8);

impl Once {
    /// Has `work` done, unless another lane does it or has done it; returns when it is done. Begun anew where the lane that had
    /// begun ended before.
    pub(super) async fn done<F: Future>(&self, work: impl FnOnce() -> F) -> Option<F::Output> {
        loop {
            match self.0.compare_exchange(NOT_BEGUN, BEGUN, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(DONE) => return None,
                Err(_) => lane::time::sleep(LOOK_INTERVAL).await,
            }
        }
        let mut begun = Begun { once: self, is_done: false };
        let output = work().await;
        begun.is_done = true;
        Some(output)
    }

    fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }
}

/// Hold on changes until clients of an earlier run have been notified, as long as there is a lane that notifies them.
pub(super) struct PendingReset {
    objects: Objects,
    is_over: AtomicBool,
}

impl PendingReset {
    fn end(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            self.objects.thaw();
        }
    }
}

impl Drop for PendingReset {
    fn drop(&mut self) {
        self.end();
    }
}

struct Begun<'a> {
    once: &'a Once,
    is_done: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.once.0.store(if self.is_done { DONE } else { NOT_BEGUN }, Ordering::Release);
    }
}

const NOT_BEGUN: u8 = 0;
const BEGUN: u8 = 1;
const DONE: u8 = 2;

impl ProcessState {
    /// Returns the server's UUID: the one in `state`, or a new one that is put there. Without a place for it each
    /// process has a new one, which clients take for another server.
    pub(super) fn uuid(&self, state: Option<&Path>) -> io::Result<AfsUuid> {
        if let Some(uuid) = self.uuid.get() {
            return Ok(*uuid);
        }
        let uuid = match state {
            Some(state) => kept_uuid(state)?,
            None => new_uuid()?,
        };
        Ok(*self.uuid.get_or_init(|| uuid))
    }

    /// Returns when this was first asked, in seconds since 1970.
    pub(super) fn since(&self) -> u32 {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        *self.since.get_or_init(|| u32::try_from(now()).unwrap_or(u32::MAX))
    }

    /// Returns the clients of all lanes. They are kept in the index of `objects`, where it has one.
    pub(super) fn hosts(&self, server: AfsUuid, objects: Option<&Objects>) -> Hosts {
        let index = objects.and_then(|objects| objects.persistent_index().cloned());
        self.hosts.get_or_init(|| Hosts::new(HostOptions::default(), server, index)).clone()
    }

    /// Holds changes back until [`ProcessState::let_changes_in`], for a lane that notifies clients of an earlier run;
    /// `None` where they have been notified. Called before any client could ask for a change: so nothing is changed
    /// that a client of that run still relies on.
    pub(super) fn hold_changes(&self, objects: &Objects) -> Option<Arc<PendingReset>> {
        let mut untold = self.untold.lock().expect("nobody panics while holding it");
        if self.reset.is_done() {
            return None;
        }
        if let Some(known) = untold.upgrade() {
            return Some(known);
        }
        objects.freeze();
        let new = Arc::new(PendingReset { objects: objects.clone(), is_over: AtomicBool::new(false) });
        *untold = Arc::downgrade(&new);
        Some(new)
    }

    /// Lets changes in: clients of an earlier run have been notified.
    pub(super) fn let_changes_in(&self) {
        let untold = self.untold.lock().expect("nobody panics while holding it").upgrade();
        untold.iter().for_each(|untold| untold.end());
    }

    /// Lanes listen at these from now on, and at none else.
    pub(super) fn listens(&self, bound: &[Bound], steering: &Steering) {
        self.has_listened.store(true, Ordering::Relaxed);
        let mut lane_group = self.lock();
        // Lanes that still drain an address have their part in it.
        lane_group.retain(|key, lane_group| {
            bound.iter().any(|bound| (bound.role, bound.address) == *key) || lane_group.is_in_use()
        });
        for bound in bound.iter().filter(|bound| bound.transport == Transport::Rx) {
            let made = || LaneGroup::over(steering, HANDOVERS_MAX);
            lane_group.entry((bound.role, bound.address)).or_insert_with(made);
        }
    }

    /// Returns whether addresses may be in use by this process itself.
    pub(crate) fn has_listened(&self) -> bool {
        self.has_listened.load(Ordering::Relaxed)
    }

    /// Returns the lanes that share an address.
    pub(super) fn lane_group(&self, role: Role, address: SocketAddr) -> Option<LaneGroup> {
        self.lock().get(&(role, address)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Role, SocketAddr), LaneGroup>> {
        self.lane_group.lock().expect("nobody panics while holding it")
    }
}

impl std::fmt::Debug for ProcessState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessState").field("uuid", &self.uuid).finish_non_exhaustive()
    }
}

fn kept_uuid(state: &Path) -> io::Result<AfsUuid> {
    let path = state.join(UUID_FILE);
    match fs::read(&path) {
        Ok(bytes) => match <[u8; 16]>::try_from(bytes) {
            Ok(uuid) => return Ok(AfsUuid(uuid)),
            Err(_) => {
                let problem = format!("{} is not 16 bytes long: remove it", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let uuid = new_uuid()?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    // Whole or not at all, and for good.
    let new = state.join(UUID_FILE_NEW);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&uuid.0)?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(state)?.sync_all()?;
    Ok(uuid)
}

/// Creates a random UUID (RFC 9562, version 4).
fn new_uuid() -> io::Result<AfsUuid> {
    let mut uuid = [0; 16];
    lane::random::fill(&mut uuid)?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(AfsUuid(uuid))
}

/// File in the state directory that has the server's UUID, 16 bytes.
const UUID_FILE: &str = "afs-server-uuid";
const UUID_FILE_NEW: &str = "afs-server-uuid.new";
/// Time between two checks that another lane is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Runs of packets that may wait on their way from one lane to another.
const HANDOVERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use lane::backend::sim::{Config, World};

    use super::*;

    #[test]
    fn what_is_done_once_is_awaited_by_all_and_begun_anew_where_it_was_given_up() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let (once, begun, ended) =
                (Rc::new(Once::default()), Rc::<Cell<u32>>::default(), Rc::<Cell<u32>>::default());
            let ask = |takes: Duration| {
                let (once, begun, ended) = (Rc::clone(&once), Rc::clone(&begun), Rc::clone(&ended));
                lane::spawn(async move {
                    let work = || async {
                        begun.set(begun.get() + 1);
                        lane::time::sleep(takes).await;
                        ended.set(ended.get() + 1);
                    };
                    let did = once.done(work).await.is_some();
                    assert_eq!(ended.get(), 1, "nobody goes on before it is done");
                    did
                })
            };
            let given_up = ask(Duration::from_secs(3600));
            lane::time::sleep(Duration::from_secs(1)).await;
            drop(given_up);
            let asked: Vec<_> = (0..3).map(|_| ask(Duration::from_secs(1))).collect();
            let mut did = 0;
            for asked in asked {
                did += u32::from(asked.await);
            }
            assert_eq!((did, begun.get(), ended.get()), (1, 2, 1));
        });
    }

    #[test]
    fn changes_are_held_back_until_clients_have_been_told_or_nobody_is_left_to_tell_them() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        world.block_on(&host, async {
            let objects = Objects::in_memory(vfs::ObjectsOptions::default());
            let cache = vfs::Cache::sharing(vfs::CacheOptions::default(), &objects);
            let spec = vfs::VolumeSpec::new("home".parse().unwrap(), "/srv", vfs::VolumeOptions::default());
            let spec = spec.writable_by(identity::Writable::anyone());
            let volume = vfs::Volume::open(&cache, &spec).unwrap();
            let is_closed = || volume.shared().unwrap().closed().is_some();
            let process = ProcessState::default();
            // Two lanes make ready for settings that come to nothing.
            let lanes = [process.hold_changes(&objects), process.hold_changes(&objects)];
            assert!(is_closed());
            let [first, second] = lanes;
            drop(first);
            assert!(is_closed(), "the other may tell them");
            drop(second);
            assert!(!is_closed());
            let lanes = [process.hold_changes(&objects), process.hold_changes(&objects)];
            assert!(is_closed());
            process.reset.done(|| std::future::ready(())).await;
            assert!(is_closed());
            process.let_changes_in();
            assert!(!is_closed(), "whatever lanes have not come to it yet");
            assert!(process.hold_changes(&objects).is_none(), "a lane that comes late");
            drop(lanes);
            assert!(!is_closed());
        });
    }

    #[test]
    fn the_server_is_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = ProcessState::default().uuid(Some(&state)).unwrap();
        assert_eq!(ProcessState::default().uuid(Some(&state)).unwrap(), first);
        assert_eq!((first.0[6] >> 4, first.0[8] >> 6), (4, 2));
        assert_ne!(ProcessState::default().uuid(None).unwrap(), ProcessState::default().uuid(None).unwrap());
        let one = ProcessState::default();
        assert_eq!(one.uuid(None).unwrap(), one.uuid(Some(&state)).unwrap(), "a process has one");
        fs::write(state.join(UUID_FILE), b"short").unwrap();
        assert!(ProcessState::default().uuid(Some(&state)).unwrap_err().to_string().contains("remove it"));
    }
}
