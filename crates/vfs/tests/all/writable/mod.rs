//! Writable volumes in a simulated world, on several lanes: changes in any mix equal some order of one after the other,
//! and each shows to the next look on every lane.

use std::net::{IpAddr, Ipv4Addr};

use budget::Consumer;
use identity::Writable;
use lane::backend::sim::{Config, Fs, Host, Remains, World};
use vfs::{
    Cache, CacheOptions, Caller, Directory, Error, Name, Objects, ObjectsOptions, Quota, RelPath, Resolved,
    Volume, VolumeOptions, VolumeSpec,
};

mod access;
mod by_number;
mod callbacks;
mod changes;
mod check;
mod clients;
mod coherence;
mod descriptors;
mod gate;
mod grants;
mod hard_links;
mod history;
mod keeper;
mod kinds;
mod lanes;
mod leases;
mod leases_external;
mod listed;
mod local_locks;
mod lost_lists;
mod lost_power;
mod made;
mod moved_directories;
mod names;
mod order;
mod owners;
mod persistence;
mod places;
mod read_only;
mod reopen;
mod restarts;
mod several_directories;
mod snoop_filter;
mod stage;
mod store;
mod suspended_watches;
mod sweep;
mod symbolic_links;
mod unchanged;
mod usage;
mod watches;

/// One process on one host: a volume at `/srv`, open on several lanes.
#[derive(Clone)]
struct Process {
    host: Host,
    objects: Objects,
    lanes: Vec<usize>,
    writable: Writable,
    quota: Quota,
    /// Set if usage is counted though nothing limits it.
    is_counted: bool,
}

impl Process {
    fn new(world: &World, lanes: usize) -> Self {
        Self::with(world, lanes, |_| {})
    }

    fn with(world: &World, lanes: usize, change: impl FnOnce(&mut ObjectsOptions)) -> Self {
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        let objects = Self::objects_with(lanes, change);
        let lanes = std::iter::once(0).chain((1..lanes).map(|_| host.add_lane())).collect();
        Self {
            host,
            objects,
            lanes,
            writable: Writable::anyone(),
            quota: Quota::default(),
            is_counted: false,
        }
    }

    fn objects_with(lanes: usize, change: impl FnOnce(&mut ObjectsOptions)) -> Objects {
        let mut options = ObjectsOptions { lanes_max: lanes, ..Default::default() };
        change(&mut options);
        Objects::in_memory(options)
    }

    /// Opens the volume on the current lane.
    fn volume(&self) -> Volume {
        // Nothing but promises keeps these caches honest.
        let day = std::time::Duration::from_secs(86_400);
        self.volume_with(CacheOptions { ttl: day, listing_ttl: day, watches_max: 0, ..Default::default() })
    }

    /// Opens the volume on the current lane, with a cache that the kernel tells of changes.
    fn watching(&self) -> Volume {
        self.volume_with(CacheOptions::default())
    }

    fn volume_with(&self, cache: CacheOptions) -> Volume {
        let options = VolumeOptions { serve_hidden: true, ..Default::default() };
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", options);
        let spec = spec.with_objects().writable_by(self.writable.clone()).limited_to(self.quota);
        let spec = VolumeSpec { counted: self.is_counted, ..spec };
        Volume::open(&Cache::sharing(cache, &self.objects), &spec).unwrap()
    }
}

/// Runs `each` on every lane of a process at once, with the lane's number and its volume, until all have ended.
fn on_lanes<F, T>(
    seed: u64,
    config: Config,
    lanes: usize,
    each: impl Fn(usize, Process, Volume) -> F,
) -> Vec<T>
where
    F: Future<Output = T> + 'static,
    T: 'static,
{
    let world = World::new(seed, config);
    let process = Process::new(&world, lanes);
    let each = |(n, &lane): (usize, &usize)| {
        let (opening, work) = (process.clone(), &each);
        let opened = process.host.start_on(lane, async move { opening.volume() });
        process.host.start_on(lane, work(n, process.clone(), world.block_on(&process.host, opened)))
    };
    let tasks: Vec<_> = process.lanes.iter().enumerate().map(each).collect();
    let results = world.block_on(&process.host, async move {
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await);
        }
        results
    });
    assert_eq!(world.end(), Remains::default());
    assert_eq!(process.objects.in_use(), 0, "an object outlived its users");
    results
}

/// Runs a test on a lane whose cache watches, as in production, on a volume that these may change.
fn watched<F: Future<Output = ()> + 'static>(
    writable: Writable,
    test: impl FnOnce(Volume, Fs) -> F + 'static,
) {
    watched_in(World::new(1, Config::clean()), writable, test);
}

/// Runs a test ([`watched`]) in this world.
fn watched_in<F: Future<Output = ()> + 'static>(
    world: World,
    writable: Writable,
    test: impl FnOnce(Volume, Fs) -> F + 'static,
) {
    let process = Process::new(&world, 1);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
        let cache = Cache::sharing(CacheOptions::default(), &process.objects);
        let volume = Volume::open(&cache, &spec.with_objects().writable_by(writable)).unwrap();
        test(volume, process.host.fs()).await;
    });
}

/// Consumer of opens and locks in tests with one client.
const CLIENT: Consumer = Consumer { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), user: None };

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).unwrap()
}

fn path(text: &str) -> RelPath<'_> {
    RelPath::parse(text.as_bytes()).unwrap()
}

async fn root(volume: &Volume) -> Directory {
    volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0
}

async fn directory(volume: &Volume, at: &str) -> Directory {
    volume.lookup(path(at)).await.unwrap().into_directory().unwrap().0
}

fn nobody() -> Caller {
    Caller::anonymous()
}

/// The inode that a name leads to.
async fn inode(volume: &Volume, at: &str) -> Option<u64> {
    match volume.lookup(path(at)).await {
        Ok(Resolved::File(_, attributes) | Resolved::Directory(_, attributes)) => Some(attributes.id.ino),
        Err(Error::NotFound | Error::NotADirectory) => None,
        Err(other) => panic!("{at}: {other}"),
    }
}
