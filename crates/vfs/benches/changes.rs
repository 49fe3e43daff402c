//! What a change costs beside the bare system calls: `cargo bench -p vfs --bench changes`, in turns, on tmpfs. The best of
//! several rounds counts, so that the machine's other work shows least.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use identity::Writable;
use lane::runtime::{RuntimeOptions, run_here};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags};
use vfs::{
    Cache, CacheOptions, Caller, Directory, How, MemoryVersions, Name, Objects, ObjectsOptions, RelPath,
    Volume, VolumeOptions, VolumeSpec,
};

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().to_owned();
    run_here(RuntimeOptions::default(), async move {
        let versions = Arc::new(MemoryVersions::new(1 << 16, SystemTime::now()));
        let objects = Objects::new(ObjectsOptions::default(), versions);
        let cache = Cache::sharing(CacheOptions::default(), &objects);
        let spec = VolumeSpec::new("bench".parse().unwrap(), &path, VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
        let [mut bare, mut ours] = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            bare = bare.min(by_calls(&path));
            ours = ours.min(by_volume(&root).await);
        }
        report("create and remove, openat, close and unlinkat alone", bare);
        report("create and remove, by a volume", ours);
        println!("{:<55} {:>8.2}", "of the bare rate", bare.as_secs_f64() / ours.as_secs_f64());
    })
    .unwrap();
}

fn by_calls(path: &Path) -> Duration {
    let dir = sys::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let started = Instant::now();
    for n in 0..FILES {
        let name = format!("file-{n}");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        drop(sys::openat(&dir, &name, flags, Mode::from_raw_mode(0o644)).unwrap());
        sys::unlinkat(&dir, &name, AtFlags::empty()).unwrap();
    }
    started.elapsed()
}

async fn by_volume(root: &Directory) -> Duration {
    let (anyone, how) = (Caller::anonymous(), How { exclusive: true, mode: 0o644 });
    let started = Instant::now();
    for n in 0..FILES {
        let text = format!("file-{n}");
        let name = Name::parse(text.as_bytes()).unwrap();
        drop(root.create(&anyone, name, how).await.unwrap());
        root.remove(&anyone, name).await.unwrap();
    }
    started.elapsed()
}

fn report(what: &str, elapsed: Duration) {
    println!("{what:<55} {:>8.0} ns", elapsed.as_nanos() as f64 / f64::from(FILES));
}

const FILES: u32 = 5_000;
const ROUNDS: u32 = 10;
