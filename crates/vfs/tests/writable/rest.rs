//! Directories in which this server changes something again and again: they stay relied on, and their watches rest.

use std::time::Duration;

use identity::Writable;
use lane::time;
use vfs::{CacheOptions, Directory, How};

use super::{inode, name, nobody, root, watched};

#[test]
fn a_directory_is_relied_on_after_its_last_name_has_gone() {
    watched(Writable::anyone(), |volume, _| async move {
        let root = root(&volume).await;
        come_and_go(&root, 1).await;
        assert_eq!(volume.counters().watches.get(), 1);
        time::sleep(CacheOptions::default().idle_max * 3).await;
        assert_eq!(volume.counters().watches.get(), 0, "until nothing is changed there any more");
    });
}

#[test]
fn a_watch_rests_while_the_server_itself_changes_much_and_no_change_of_others_is_missed_for_long() {
    watched(Writable::anyone(), |volume, fs| async move {
        let root = root(&volume).await;
        fs.write("/srv/page", "first").unwrap();
        let first = inode(&volume, "page").await.unwrap();
        come_and_go(&root, 100).await;
        let counters = volume.counters();
        assert_eq!((counters.watches.get(), counters.watches_rested.get()), (0, 1));
        // Nothing tells of this but the end of the time to live.
        fs.replace("/srv/page", "second").unwrap();
        time::sleep(CacheOptions::default().ttl).await;
        let second = inode(&volume, "page").await.unwrap();
        assert_ne!(first, second);
        come_and_go(&root, 100).await;
        assert_eq!(counters.watches.get(), 0, "it rests for as long as there is much");
        for _ in 0..3 {
            time::sleep(CacheOptions::default().ttl).await;
            assert_eq!(inode(&volume, "page").await, Some(second));
        }
        assert_eq!((counters.watches.get(), counters.watches_rested.get()), (1, 1));
        // From here on changes are told again.
        fs.replace("/srv/page", "third").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_ne!(inode(&volume, "page").await, Some(second));
    });
}

async fn come_and_go(root: &Directory, times: usize) {
    for _ in 0..times {
        root.create(&nobody(), name("lock"), How { exclusive: true, mode: 0o644 }).await.unwrap();
        root.remove(&nobody(), name("lock")).await.unwrap();
    }
}
