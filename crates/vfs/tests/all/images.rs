//! Images of directories on the kernel of this machine: what this server changes leads from one to the next, on every file system.

use std::fs;
use std::time::Duration;

use identity::{Rights, Writable};
use lane::runtime::{RuntimeOptions, run_here};
use lane::time;
use vfs::{
    Cache, CacheOptions, Caller, Edit, Holder, Name, Objects, ObjectsOptions, RelPath, Volume, VolumeOptions,
    VolumeSpec,
};

#[test]
fn names_that_the_server_takes_away_are_edits_of_an_image_though_nobody_had_their_files_open() {
    for parent in ["/dev/shm", "/tmp"] {
        let tree = tempfile::tempdir_in(parent).unwrap();
        for number in 0..COUNT {
            fs::write(tree.path().join(format!("file {number}")), "").unwrap();
        }
        let served = tree.path().to_owned();
        run_here(RuntimeOptions::default(), async move {
            let cache =
                Cache::sharing(CacheOptions::default(), &Objects::in_memory(ObjectsOptions::default()));
            let spec = VolumeSpec::new("test".parse().unwrap(), served, VolumeOptions::default());
            let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
            let client = cache.client(Holder(7)).unwrap();
            let caller = Caller::anonymous().sparing(client.holder());
            let until = time::now() + Duration::from_secs(3600);
            let look = async || {
                let look = volume
                    .lookup_with_callback(&caller, &client, RelPath::ROOT, Rights::NONE, until)
                    .await
                    .unwrap();
                look.confirm().unwrap().version
            };
            let directory = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
            let mut names = directory.names(1000).await.unwrap();
            assert_eq!(names.entries.len(), COUNT);
            for number in 0..COUNT {
                let before = look().await;
                let gone = format!("file {number}");
                let name = Name::parse(gone.as_bytes()).unwrap();
                directory.remove(&caller, name).await.unwrap();
                assert_eq!(look().await, before.next(), "{parent}, {gone}");
                let edits = names.history.catch_up();
                let expected = vec![Edit::Removed { name: gone.as_bytes().into() }];
                assert_eq!(edits, Some(expected), "{parent}, {gone}");
                if number % 10 == 0 {
                    time::sleep(Duration::from_millis(30)).await;
                }
            }
            assert_eq!(volume.counters().external_changes.get(), 0);
        })
        .unwrap();
    }
}

const COUNT: usize = 60;
