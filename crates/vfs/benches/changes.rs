//! Cost of a change beside the bare system calls: `cargo bench -p vfs --bench changes`, in turns, on tmpfs,
//! in processor time. The best of several rounds counts, so that the machine's other work shows least. `cargo
//! xtask compare write` asks for `--json`.

use std::path::Path;
use std::time::Duration;

use identity::Writable;
use lane::runtime::{RuntimeOptions, run_here};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Directory, Name, Objects, ObjectsOptions, RelPath, Volume,
    VolumeOptions, VolumeSpec,
};

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    // Each its own: nothing watches what the bare calls change.
    let [bare_path, path] = ["bare", "volume"].map(|name| dir.path().join(name));
    for path in [&bare_path, &path] {
        std::fs::create_dir(path).unwrap();
    }
    run_here(RuntimeOptions::default(), async move {
        let objects = Objects::in_memory(ObjectsOptions::default());
        let cache = Cache::sharing(CacheOptions::default(), &objects);
        let spec = VolumeSpec::new("bench".parse().unwrap(), &path, VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
        let [mut bare, mut ours] = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            bare = bare.min(by_calls(&bare_path));
            ours = ours.min(by_volume(&root).await);
        }
        let [bare, ours] = [bare, ours].map(|spent| spent.as_nanos() as f64 / f64::from(FILES));
        if std::env::args().any(|arg| arg == "--json") {
            println!("{{\"bare_ns\":{bare:.0},\"volume_ns\":{ours:.0}}}");
        } else {
            println!("openat, close and unlinkat alone  {bare:>8.0} ns");
            println!("create and remove by a volume     {ours:>8.0} ns");
            println!("of the bare rate                  {:>8.2}", bare / ours);
        }
    })
    .unwrap();
}

fn by_calls(path: &Path) -> Duration {
    let dir = sys::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let started = spent();
    for n in 0..FILES {
        let name = format!("file-{n}");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        drop(sys::openat(&dir, &name, flags, Mode::from_raw_mode(0o644)).unwrap());
        sys::unlinkat(&dir, &name, AtFlags::empty()).unwrap();
    }
    spent() - started
}

async fn by_volume(root: &Directory) -> Duration {
    let (anyone, how) = (Caller::anonymous(), CreateOptions { exclusive: true, mode: 0o644 });
    let started = spent();
    for n in 0..FILES {
        let text = format!("file-{n}");
        let name = Name::parse(text.as_bytes()).unwrap();
        drop(root.create(&anyone, name, how).await.unwrap());
        root.remove(&anyone, name).await.unwrap();
    }
    // What the lane has put off, its closes and the notices of its changes, is part of it.
    lane::time::sleep(Duration::from_millis(20)).await;
    spent() - started
}

/// Returns the processor time of this thread, which is all that either takes: the lane's, and the kernel's on its
/// behalf.
fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.cast_unsigned(), spent.tv_nsec as u32)
}

const FILES: u32 = 5_000;
const ROUNDS: u32 = 10;
