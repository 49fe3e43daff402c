//! Tests of operations with dropped futures: their memory stays until the kernel is done, and their results
//! go.

use std::path::Path;
use std::time::Duration;

use futures_util::poll;
use lane::buffer::BufClass;
use lane::fs::{CreateHow, OpenHow, RenameHow};
use lane::time;

use super::{create, everywhere, name, path_of, read};

#[test]
fn a_write_that_is_given_up_keeps_its_memory_until_the_kernel_is_done() {
    everywhere(|_, root| async move {
        let file = create(&root, "file").await;
        let in_use = || lane::current().buffers().usage(BufClass::Large).in_use;
        for _ in 0..50 {
            let mut buf = lane::current().buffers().get(BufClass::Large).await;
            buf.append(&[9; 200_000]);
            let mut write = Box::pin(file.write_vectored_at(0, vec![buf]));
            let _ = poll!(&mut write);
        }
        while in_use() > 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        assert!(read(&file).await.iter().all(|&byte| byte == 9));
    });
}

#[test]
fn what_is_made_and_nobody_waits_for_is_closed_and_nothing_is_made_elsewhere() {
    everywhere(|_, root| async move {
        root.mkdir(&name("dir"), 0o755).await.unwrap();
        root.mkdir(&name("other"), 0o755).await.unwrap();
        let open = async |text: &str| {
            root.open(&name(text), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap()
        };
        let path = path_of(root.as_file());
        let descriptors = || open_beneath(&path);
        let before = descriptors();
        for n in 0..100 {
            let dir = open("dir").await;
            let how = CreateHow { mode: 0o600, exclusive: true };
            let names = [name(&format!("{n}")), name(&format!("moved {n}"))];
            if n % 2 == 0 {
                let mut create = Box::pin(dir.create(&names[0], how));
                let _ = poll!(&mut create);
            } else {
                let mut rename = Box::pin(dir.rename(&names[0], &dir, &names[1], RenameHow::Replace));
                let _ = poll!(&mut rename);
            }
            drop(dir);
            // Its number is soon another directory's, in which nothing may happen.
            drop(open("other").await);
        }
        let settled = async {
            while descriptors() > before {
                time::sleep(Duration::from_millis(1)).await;
            }
        };
        time::timeout(Duration::from_secs(10), settled).await.unwrap();
        assert!(open("other").await.entries(10).await.unwrap().is_empty());
    });
}

/// Returns the number of this process's descriptors beneath a directory: other tests have their own.
fn open_beneath(path: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        // It may be closed meanwhile.
        std::fs::read_link(entry.ok()?.path()).ok()
    });
    open.filter(|open| open.starts_with(path)).count()
}
