//! Files found again by what they are, on the kernel of this machine: with the capability to open by handle, and without.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use identity::{Rights, Writable};
use index::{Index, Memory, Options};
use lane::runtime::{RuntimeOptions, run_here};
use rustix::thread::{CapabilitySet, capabilities};
use vfs::{
    Cache, CacheOptions, Caller, Error, Identity, Objects, ObjectsOptions, RelPath, Volume, VolumeOptions,
    VolumeSpec,
};

#[test]
fn what_moved_inside_is_found_and_what_left_or_went_is_not_on_the_disk_and_in_memory() {
    for place in [Path::new("/dev/shm"), Path::new(env!("CARGO_TARGET_TMPDIR"))] {
        let dir = tempfile::tempdir_in(place).unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/deep/er")).unwrap();
        for file in ["a/stays", "a/renamed", "a/deep/er/along", "gone", "left", "again"] {
            fs::write(root.join(file), file).unwrap();
        }
        let at = root.clone();
        let storage = Memory::default();
        let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
        let lane = Arc::clone(&index);
        let known =
            run_here(RuntimeOptions::default(), async move { learn(&open(&at, &lane)).await }).unwrap();
        index.close().unwrap();

        fs::rename(root.join("a/renamed"), root.join("a/new name")).unwrap();
        fs::rename(root.join("a/deep"), root.join("moved")).unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        fs::rename(root.join("left"), dir.path().join("left")).unwrap();
        fs::remove_file(root.join("again")).unwrap();
        fs::write(root.join("again"), "another").unwrap();
        let index = Arc::new(Index::open(storage, Options::default()).unwrap());
        run_here(RuntimeOptions::default(), async move { judge(&open(&root, &index), known).await }).unwrap();
    }
}

fn open(root: &PathBuf, index: &Arc<Index>) -> Volume {
    let objects = Objects::new(ObjectsOptions::default(), Arc::clone(index));
    let cache = Cache::sharing(CacheOptions::default(), &objects);
    let spec = VolumeSpec::new("test".parse().unwrap(), root, VolumeOptions::default());
    Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap()
}

async fn identity(volume: &Volume, path: &str) -> Identity {
    let found = volume.lookup(RelPath::parse(path.as_bytes()).unwrap()).await.unwrap();
    found.object().unwrap().identity().clone()
}

async fn learn(volume: &Volume) -> Vec<(String, Identity)> {
    let mut known = Vec::new();
    for path in
        ["a", "a/deep", "a/deep/er", "a/stays", "a/renamed", "a/deep/er/along", "gone", "left", "again"]
    {
        known.push((path.to_owned(), identity(volume, path).await));
    }
    known
}

async fn judge(volume: &Volume, known: Vec<(String, Identity)>) {
    let by_handle = capabilities(None).unwrap().effective.contains(CapabilitySet::DAC_READ_SEARCH);
    for (path, file) in known {
        let found = volume.reopen(&Caller::anonymous(), &file, Rights::READ).await;
        let wanted = match path.as_str() {
            "a" | "a/stays" => true,
            "a/deep" | "a/deep/er" | "a/deep/er/along" | "a/renamed" => by_handle,
            _ => false,
        };
        match found {
            Ok(found) => {
                assert!(wanted, "{path} is not there any more");
                assert_eq!(*found.object().unwrap().identity(), file);
            }
            Err(error) => assert!(matches!(error, Error::Stale) && !wanted, "{path}: {error}"),
        }
    }
    // Of a directory the handle alone tells.
    let moved = identity(volume, "moved/er").await;
    let found = volume.reopen(&Caller::anonymous(), &moved, Rights::READ).await;
    assert_eq!(*found.unwrap().object().unwrap().identity(), moved);
}
