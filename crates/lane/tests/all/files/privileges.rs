//! Tests of the kernel's rules for a server that has given up capabilities that it does not need.

use lane::fs::{Allocate, AttributeChange, OpenHow, OpenKind};
use lane::privileges;
use rustix::thread::{CapabilitySet, capabilities};

use super::{create, everywhere, name, write};

#[test]
fn whoever_writes_takes_set_user_id_and_set_group_id_from_a_file_whatever_the_way() {
    // For this thread and those that it starts, and for good.
    let unprivileged = std::thread::spawn(|| {
        let before = capabilities(None).unwrap();
        privileges::give_up_the_rest().unwrap();
        let after = capabilities(None).unwrap();
        let spares = CapabilitySet::FSETID | CapabilitySet::SYS_RESOURCE;
        for (before, after) in [(before.effective, after.effective), (before.permitted, after.permitted)] {
            assert_eq!(after, privileges::kept_of(before));
            assert!(!after.intersects(spares));
        }
        assert!(privileges::give_up_the_rest().unwrap().is_empty(), "once is enough");
        everywhere(|place, root| async move {
            let source = create(&root, "source").await;
            write(&source, 0, &[7; 8192]).await;
            for way in ["write", "cut", "lengthen", "extend", "keep size", "punch", "zero", "copy", "share"] {
                let file = create(&root, way).await;
                write(&file, 0, &[1; 8192]).await;
                let mode = AttributeChange { mode: Some(0o6755), ..AttributeChange::NONE };
                file.set_attributes(mode).await.unwrap();
                let set = file.stat().unwrap().mode;
                let done = match way {
                    "write" => file.write_at(0, b"other".to_vec().into()).await.0.map(drop),
                    "cut" => file.truncate(1).await,
                    "lengthen" => file.truncate(10_000).await,
                    "extend" => file.allocate(Allocate::Extend, 0, 65_536).await,
                    "keep size" => file.allocate(Allocate::KeepSize, 0, 65_536).await,
                    "punch" => file.allocate(Allocate::Punch, 0, 4096).await,
                    "zero" => file.allocate(Allocate::Zero, 0, 4096).await,
                    "copy" => source.copy_range(0, &file, 0, 4096).await.map(drop),
                    _ => file.reflink_from(&source).await,
                };
                match done.map_err(|error| error.raw_os_error()) {
                    Ok(()) => {}
                    Err(Some(libc::EOPNOTSUPP)) => continue,
                    Err(error) => panic!("{place:?}: {way}: {error:?}"),
                }
                let left = file.stat().unwrap().mode;
                assert_eq!((set, left), (0o6755, 0o755), "{place:?}: {way}");
                root.unlink(&name(way)).await.unwrap();
            }
        });
    });
    unprivileged.join().unwrap();
}

#[test]
fn what_is_made_where_the_set_group_id_bit_is_set_belongs_to_the_group_of_the_directory() {
    everywhere(|place, root| async move {
        root.mkdir(&name("shared"), 0o755).await.unwrap();
        let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
        let shared = root.open(&name("shared"), how).await.unwrap().into_dir().unwrap();
        let given = AttributeChange { gid: Some(4321), mode: Some(0o2775), ..AttributeChange::NONE };
        shared.as_file().set_attributes(given).await.unwrap();
        create(&shared, "file").await;
        shared.mkdir(&name("directory"), 0o755).await.unwrap();
        for (at, bit) in [("file", 0), ("directory", 0o2000)] {
            let stat = shared.stat_at(&name(at)).await.unwrap();
            assert_eq!((stat.gid, stat.mode & 0o2000), (4321, bit), "{place:?}: {at}");
        }
    });
}
