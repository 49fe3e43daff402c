//! Running out of descriptors. A process of its own: the limit is the whole process's.

use std::fs::{self, File};

use lane::runtime::{RuntimeOptions, run_here};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vfs::{Cache, CacheOptions, Error, RelPath, Volume, VolumeOptions, VolumeSpec};

#[test]
fn kept_files_make_room_for_new_ones_and_files_in_use_are_never_taken() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..64 {
        fs::write(dir.path().join(format!("f{n}")), "x").unwrap();
    }
    let path = dir.path().to_owned();
    run_here(RuntimeOptions::default(), async move {
        let spec = VolumeSpec::new("test".parse().unwrap(), path, VolumeOptions::default());
        let volume = Volume::open(&Cache::new(CacheOptions::default()), &spec).unwrap();
        let lookup = async |n: u32| volume.lookup(RelPath::parse(format!("f{n}").as_bytes()).unwrap()).await;
        let mut in_use = Vec::new();
        for n in 0..32 {
            let found = lookup(n).await.unwrap();
            if n % 2 == 0 {
                in_use.push(found.into_file().unwrap().0);
            }
        }
        let hoard = hoard_descriptors();
        let counters = volume.counters();
        lookup(40).await.unwrap();
        assert_eq!(counters.invalidated_shed.get(), 32);
        // What is left is in use: now the caller is told.
        in_use.push(lookup(40).await.unwrap().into_file().unwrap().0);
        let mut refused = None;
        for n in 41..64 {
            match lookup(n).await {
                Ok(found) => in_use.push(found.into_file().unwrap().0),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        assert!(matches!(refused, Some(Error::TooManyOpen)), "{refused:?}");
        assert!(counters.refused_descriptors.get() > 0);
        assert!(in_use.iter().all(|file| file.attributes().unwrap().size == 1));
        drop(hoard);
        lookup(63).await.unwrap();
    })
    .unwrap();
}

/// Every descriptor the process may still have.
fn hoard_descriptors() -> Vec<File> {
    let now = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 64), ..now }).unwrap();
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}
