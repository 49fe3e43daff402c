//! Tests of limits of file systems.

use lane::backend::uring::FileOperations;
use lane::fs::{AttributeChange, Dir, FileKind, OpenHow, RenameHow, SetTime, Timestamp, XattrHow};
use testkit::Disk;

use super::{Place, create, errno, everywhere, name, on, write};

#[test]
fn names_are_refused_as_the_kernel_does() {
    everywhere(|_, root| async move {
        root.mkdir(&name("full"), 0o755).await.unwrap();
        root.mkdir(&name("empty"), 0o755).await.unwrap();
        let full = root.open(&name("full"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        create(&full, "file").await;
        create(&root, "file").await;
        let long = "n".repeat(256);
        assert_eq!(errno(root.mkdir(&name(&long), 0o755).await), Err(libc::ENAMETOOLONG));
        assert_eq!(errno(root.rmdir(&name("full")).await), Err(libc::ENOTEMPTY));
        assert_eq!(errno(root.rmdir(&name("file")).await), Err(libc::ENOTDIR));
        assert_eq!(errno(root.unlink(&name("full")).await), Err(libc::EISDIR));
        let rename =
            async |from: &str, to: &str, how| errno(root.rename(&name(from), &root, &name(to), how).await);
        let over_full = rename("empty", "full", RenameHow::Replace).await.unwrap_err();
        assert!([libc::ENOTEMPTY, libc::EEXIST].contains(&over_full), "{over_full}");
        assert_eq!(rename("empty", "file", RenameHow::NoReplace).await, Err(libc::EEXIST));
        assert_eq!(rename("empty", "absent", RenameHow::Exchange).await, Err(libc::ENOENT));
        assert_eq!(rename("file", "empty", RenameHow::Replace).await, Err(libc::EISDIR));
        assert_eq!(rename("empty", "file", RenameHow::Replace).await, Err(libc::ENOTDIR));
        let into_itself = root.rename(&name("full"), &full, &name("itself"), RenameHow::Replace).await;
        assert_eq!(errno(into_itself), Err(libc::EINVAL));
        assert_eq!(rename("full", "file", RenameHow::Exchange).await, Ok(()));
        assert_eq!(root.stat_at(&name("full")).await.unwrap().kind, FileKind::File);
        assert_eq!(root.stat_at(&name("file/file")).await.unwrap().kind, FileKind::File);
        assert_eq!(rename("empty", "new", RenameHow::Replace).await, Ok(()));
        // The handle is open, its directory gone.
        let gone = root.open(&name("new"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        root.rmdir(&name("new")).await.unwrap();
        assert_eq!(errno(gone.mkdir(&name("x"), 0o755).await), Err(libc::ENOENT));
        assert_eq!(
            errno(root.rename(&name("full"), &gone, &name("x"), RenameHow::Replace).await),
            Err(libc::ENOENT)
        );
        root.sync().await.unwrap();
    });
}

#[test]
fn file_systems_are_not_left() {
    on(Place::Ext4, |_, root| async move {
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let elsewhere = Dir::open_root(elsewhere.path()).unwrap();
        let file = create(&root, "file").await;
        let moved = root.rename(&name("file"), &elsewhere, &name("file"), RenameHow::Replace).await;
        assert_eq!(errno(moved), Err(libc::EXDEV));
        assert_eq!(errno(elsewhere.link(&file, &name("file")).await), Err(libc::EXDEV));
        write(&file, 0, b"content").await;
        let other = create(&elsewhere, "file").await;
        assert_eq!(errno(other.reflink_from(&file).await), Err(libc::EXDEV));
        assert_eq!(errno(file.copy_range(0, &other, 0, 7).await), Err(libc::EXDEV));
        let (here, there) = (file.stat_system().await.unwrap(), other.stat_system().await.unwrap());
        assert!(here.blocks * here.block_bytes <= 64 << 20, "{here:?}");
        assert!(here != there && here.name_max == 255 && here.blocks_free > 0 && here.files_free > 0);
    });
}

#[test]
fn a_file_has_so_many_names_and_no_more() {
    on(Place::Ext4, |_, root| async move {
        let file = create(&root, "file").await;
        let mut names = 1;
        let refused = loop {
            match errno(root.link(&file, &name(&format!("{names}"))).await) {
                Ok(()) => names += 1,
                Err(number) => break number,
            }
        };
        assert_eq!((refused, names), (libc::EMLINK, 65_000));
        assert_eq!(file.stat().unwrap().nlink, names);
    });
}

#[test]
fn a_full_disk_says_so_and_is_whole() {
    let Some(disk) = Disk::new_or_skip("ext4", 8, &[]) else { return };
    let root = disk.path();
    super::run(FileOperations::Ring, async move {
        let root = Dir::open_root(&root).unwrap();
        let file = create(&root, "file").await;
        let refused = loop {
            let size = file.stat().unwrap().size;
            let (written, _) = file.write_at(size, vec![7; 1 << 20].into()).await;
            if let Err(number) = errno(written) {
                break number;
            }
        };
        assert_eq!(refused, libc::ENOSPC);
        assert_eq!(
            errno(file.allocate(lane::fs::Allocate::KeepSize, 1 << 30, 1 << 20).await),
            Err(libc::ENOSPC)
        );
        file.truncate(0).await.unwrap();
        write(&file, 0, b"room again").await;
        file.sync_system().await.unwrap();
    });
}

#[test]
fn extended_attributes_have_limits() {
    everywhere(|place, root| async move {
        let file = create(&root, "file").await;
        let (a, b) = (name("user.a"), name("user.b"));
        assert_eq!(errno(file.xattr(&a, 10).await), Err(libc::ENODATA));
        assert_eq!(errno(file.remove_xattr(&a).await), Err(libc::ENODATA));
        assert_eq!(errno(file.set_xattr(&a, b"x".to_vec(), XattrHow::Replace).await), Err(libc::ENODATA));
        file.set_xattr(&a, b"ten bytes.".to_vec(), XattrHow::Create).await.unwrap();
        assert_eq!(errno(file.set_xattr(&a, b"x".to_vec(), XattrHow::Create).await), Err(libc::EEXIST));
        assert_eq!(errno(file.xattr(&a, 9).await), Err(libc::ERANGE));
        assert_eq!(errno(file.xattr(&a, 0).await), Err(libc::ERANGE));
        assert_eq!(file.xattr(&a, 10).await.unwrap(), b"ten bytes.");
        file.set_xattr(&b, Vec::new(), XattrHow::Any).await.unwrap();
        assert_eq!(file.xattr(&b, 0).await.unwrap(), b"");
        let too_long = name(&format!("user.{}", "n".repeat(251)));
        assert_eq!(errno(file.set_xattr(&too_long, vec![], XattrHow::Any).await), Err(libc::ERANGE));
        assert_eq!(errno(file.set_xattr(&a, vec![0; 65_537], XattrHow::Any).await), Err(libc::E2BIG));
        assert_eq!(
            errno(file.set_xattr(&name("nobodys.a"), vec![], XattrHow::Any).await),
            Err(libc::EOPNOTSUPP)
        );
        let large = errno(file.set_xattr(&b, vec![1; 65_536], XattrHow::Any).await);
        match place {
            Place::Tmpfs | Place::Xfs => assert_eq!(large, Ok(())),
            Place::Ext4 => assert_eq!(large, Err(libc::ENOSPC)),
        }
        assert_eq!(file.xattr(&b, 1 << 20).await.unwrap().len(), if large.is_ok() { 65_536 } else { 0 });
        let mut names = file.xattrs().await.unwrap();
        names.retain(|name| name.as_bytes().starts_with(b"user."));
        names.sort();
        assert_eq!(names, [a.clone(), b]);
        // They are the file's, and a directory has its own.
        root.link(&file, &name("second")).await.unwrap();
        let second = root.open(&name("second"), OpenHow::FOLLOW).await.unwrap();
        assert_eq!(second.xattr(&a, 10).await.unwrap(), b"ten bytes.");
        root.as_file().set_xattr(&name("trusted.t"), b"root's".to_vec(), XattrHow::Any).await.unwrap();
        assert_eq!(root.as_file().xattr(&name("trusted.t"), 100).await.unwrap(), b"root's");
    });
}

#[test]
fn attributes_are_set_of_files_and_of_links_themselves() {
    everywhere(|_, root| async move {
        let file = create(&root, "file").await;
        root.symlink(&name("link"), &name("file")).await.unwrap();
        let mtime = Timestamp { secs: 1_000_000_007, nanos: 5000 };
        let change = AttributeChange {
            uid: Some(12),
            gid: Some(34),
            mode: Some(0o4751),
            atime: SetTime::Now,
            mtime: SetTime::At(mtime),
        };
        file.set_attributes(change).await.unwrap();
        let stat = file.stat().unwrap();
        assert_eq!((stat.uid, stat.gid, stat.mode, stat.mtime), (12, 34, 0o4751, mtime));
        let older = Timestamp { secs: 7, nanos: 0 };
        let change = AttributeChange { uid: Some(56), mtime: SetTime::At(older), ..AttributeChange::NONE };
        root.set_attributes_at(&name("link"), change).await.unwrap();
        let link = root.stat_at(&name("link")).await.unwrap();
        assert_eq!((link.kind, link.uid, link.mtime), (FileKind::Symlink, 56, older));
        assert_eq!(file.stat().unwrap().mtime, mtime);
        let mode = AttributeChange { mode: Some(0o777), ..AttributeChange::NONE };
        assert_eq!(errno(root.set_attributes_at(&name("link"), mode).await), Err(libc::EOPNOTSUPP));
    });
}
