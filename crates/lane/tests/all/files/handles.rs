//! Tests of the kernel's handles, and the files that they name.

use std::time::Duration;

use lane::fs::{CreateHow, Dir, FileKind, OpenHow, RenameHow};
use lane::time;
use rustix::thread::CapabilitySet;

use super::{Place, create, errno, everywhere, name, read, write};

#[test]
fn a_handle_names_one_file_whatever_its_names_and_none_after_it() {
    everywhere(|_, root| async move {
        root.mkdir(&name("dir"), 0o755).await.unwrap();
        let dir = root.open(&name("dir"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        let file = create(&root, "file").await;
        write(&file, 0, b"content").await;
        let handle = file.handle().await.unwrap();
        assert_eq!(root.handle_at(&name("file")).await.unwrap(), handle);
        root.rename(&name("file"), &dir, &name("moved"), RenameHow::NoReplace).await.unwrap();
        dir.link(&file, &name("second")).await.unwrap();
        for there in ["moved", "second"] {
            assert_eq!(dir.handle_at(&name(there)).await.unwrap(), handle);
        }
        let reopened = root.open_handle(&handle, true).await.unwrap();
        assert_eq!(read(&reopened).await, b"content");
        // It lives on while it is open, and then its handle is nothing's, whatever file gets its inode next.
        dir.unlink(&name("moved")).await.unwrap();
        dir.unlink(&name("second")).await.unwrap();
        drop(file);
        assert_eq!(root.open_handle(&handle, false).await.unwrap().stat().unwrap().nlink, 0);
        drop(reopened);
        let gone = async || loop {
            // What is dropped is closed at the lane's next turns.
            match errno(root.open_handle(&handle, false).await.map(drop)) {
                Ok(()) => time::sleep(Duration::from_millis(1)).await,
                Err(number) => break number,
            }
        };
        assert_eq!(time::timeout(Duration::from_secs(10), gone()).await.unwrap(), libc::ESTALE);
        for n in 0..20 {
            let next = create(&root, &format!("next {n}")).await;
            assert_ne!(next.handle().await.unwrap(), handle);
        }
        assert_eq!(errno(root.open_handle(&handle, false).await.map(drop)), Err(libc::ESTALE));
    });
}

#[test]
fn an_open_file_tells_where_the_name_is_by_which_it_was_opened() {
    everywhere(|_, root| async move {
        let top = root.as_file().path().await.unwrap();
        let beneath = |path: Vec<u8>| String::from_utf8(path[top.len()..].to_vec()).unwrap();
        root.mkdir(&name("dir"), 0o755).await.unwrap();
        let dir = root.open(&name("dir"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        let file = create(&root, "file").await;
        root.link(&file, &name("second")).await.unwrap();
        assert_eq!(beneath(file.path().await.unwrap()), "/file");
        root.rename(&name("file"), &dir, &name("moved"), RenameHow::NoReplace).await.unwrap();
        root.rename(&name("dir"), &root, &name("renamed"), RenameHow::NoReplace).await.unwrap();
        assert_eq!(beneath(file.path().await.unwrap()), "/renamed/moved");
        assert_eq!(beneath(dir.as_file().path().await.unwrap()), "/renamed");
        dir.unlink(&name("moved")).await.unwrap();
        assert_eq!(
            beneath(file.path().await.unwrap()),
            "/renamed/moved (deleted)",
            "whatever it is called besides"
        );
    });
}

#[test]
fn a_directory_is_opened_by_its_handle_and_the_way_up_from_it_is_walked() {
    everywhere(|_, root| async move {
        root.mkdir(&name("a"), 0o755).await.unwrap();
        let a = root.open(&name("a"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        a.mkdir(&name("b"), 0o755).await.unwrap();
        let handle = a.handle_at(&name("b")).await.unwrap();
        root.rename(&name("a"), &root, &name("renamed"), RenameHow::Replace).await.unwrap();
        let b = root.open_handle(&handle, false).await.unwrap().into_dir().unwrap();
        assert_eq!(errno(root.open_handle(&handle, true).await.map(drop)), Err(libc::EISDIR));
        let above = b.parent().await.unwrap();
        let ids = |dir: &Dir| dir.as_file().stat().map(|stat| (stat.dev, stat.ino)).unwrap();
        assert_eq!(ids(&above), ids(&a));
        assert_eq!(ids(&above.parent().await.unwrap()), ids(&root));
        create(&b, "made in what was found").await;
        assert_eq!(a.stat_at(&name("b/made in what was found")).await.unwrap().kind, FileKind::File);
    });
}

#[test]
fn a_connectable_handle_says_where_its_file_is() {
    everywhere(|place, root| async move {
        let file = create(&root, "file").await;
        root.mkdir(&name("dir"), 0o755).await.unwrap();
        let dir = root.open(&name("dir"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        let here = match errno(root.connectable_handle_at(&name("file")).await) {
            Ok(handle) => handle,
            Err(libc::EINVAL) => return testkit::skip("connectable handles came with Linux 6.13"),
            Err(number) => return assert_eq!((place, number), (Place::Tmpfs, libc::EOPNOTSUPP)),
        };
        assert_ne!(here, file.handle().await.unwrap());
        let same = root.open_handle(&here, false).await.unwrap();
        assert_eq!(same.stat().unwrap(), file.stat().unwrap());
        root.rename(&name("file"), &dir, &name("file"), RenameHow::Replace).await.unwrap();
        assert_ne!(dir.connectable_handle_at(&name("file")).await.unwrap(), here);
    });
}

#[test]
fn links_and_pipes_have_handles_and_are_not_opened_by_them() {
    everywhere(|_, root| async move {
        root.symlink(&name("link"), &name("anywhere")).await.unwrap();
        let link = root.handle_at(&name("link")).await.unwrap();
        assert_eq!(errno(root.open_handle(&link, false).await.map(drop)), Err(libc::ELOOP));
        let mut broken = link;
        broken.bytes = vec![0xff; 200].into();
        assert_eq!(errno(root.open_handle(&broken, false).await.map(drop)), Err(libc::ESTALE));
    });
}

#[test]
fn a_file_without_a_name_gets_one_and_then_no_second_first() {
    everywhere(|_, root| async move {
        let file = root.create_unnamed(0o600).await.unwrap();
        write(&file, 0, b"all at once").await;
        assert_eq!(file.stat().unwrap().nlink, 0);
        root.link(&file, &name("named")).await.unwrap();
        assert_eq!(errno(root.link(&file, &name("named")).await), Err(libc::EEXIST));
        assert_eq!(read(&file).await, b"all at once");
        root.unlink(&name("named")).await.unwrap();
        assert_eq!(errno(root.link(&file, &name("again")).await), Err(libc::ENOENT));
        let born = file.born().await.unwrap().unwrap();
        let made = root.create(&name("later"), CreateHow { mode: 0o600, exclusive: false }).await.unwrap();
        assert!(made.born().await.unwrap().unwrap() >= born);
    });
}

#[test]
fn without_the_capability_handles_open_nothing_and_files_get_names_all_the_same() {
    // Of this thread and of those that it starts, and for good.
    let unprivileged = std::thread::spawn(|| {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::DAC_READ_SEARCH);
        sets.permitted.remove(CapabilitySet::DAC_READ_SEARCH);
        rustix::thread::set_capabilities(None, sets).unwrap();
        everywhere(|_, root| async move {
            let file = root.create_unnamed(0o600).await.unwrap();
            let handle = file.handle().await.unwrap();
            assert_eq!(errno(root.open_handle(&handle, false).await.map(drop)), Err(libc::EPERM));
            root.link(&file, &name("named")).await.unwrap();
            assert_eq!(root.handle_at(&name("named")).await.unwrap(), handle);
        });
    });
    unprivileged.join().unwrap();
}
