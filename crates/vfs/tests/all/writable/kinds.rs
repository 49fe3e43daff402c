//! Links, attributes, room, and names in any case.

use std::sync::Arc;

use identity::Rights;
use lane::backend::sim::{Config, seeds};
use lane::fs::{Allocate, AttributeChange, SetTime, SyncOf, XattrHow};
use vfs::{CreateOptions, Directory, Error, Resolved, Volume};

use super::changes::{text, write};
use super::{Process, directory, inode, name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
const KEEP: AttributeChange =
    AttributeChange { uid: None, gid: None, mode: None, atime: SetTime::Keep, mtime: SetTime::Keep };

#[test]
fn two_names_of_a_file_are_one_object_and_renames_leave_it_what_it_is() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let made = root.create(&nobody(), name("a"), NEW).await.unwrap();
        root.link(&nobody(), name("a"), name("b")).await.unwrap();
        assert!(matches!(root.link(&nobody(), name("a"), name("b")).await, Err(Error::Exists)));
        assert!(matches!(root.link(&nobody(), name("none"), name("c")).await, Err(Error::NotFound)));
        let (b, attributes) = volume.lookup(path("b")).await.unwrap().into_file().unwrap();
        assert_eq!(attributes.nlink, 2);
        assert!(Arc::ptr_eq(made.writer.file().object().unwrap(), b.object().unwrap()));
        write(&made.writer, 0, "both").await.unwrap();
        assert_eq!(text(&volume, "b").await, "both");
        let identity = b.object().unwrap().identity().clone();
        assert!(identity.handle().is_some(), "the simulated file system has handles");
        root.rename(&nobody(), name("b"), &root, name("c"), vfs::Replace::Never).await.unwrap();
        root.remove(&nobody(), name("a")).await.unwrap();
        let (c, _) = volume.lookup(path("c")).await.unwrap().into_file().unwrap();
        assert_eq!(*c.object().unwrap().identity(), identity);
    });
}

#[test]
fn a_symbolic_link_is_stored_as_given_and_leads_nowhere_outside() {
    alone(|process, volume| async move {
        process.host.fs().write("/etc/passwd", "secret").unwrap();
        let root = root(&volume).await;
        root.create(&nobody(), name("a"), NEW).await.unwrap();
        for (link, target) in [("in", "./a"), ("out", "/etc/passwd"), ("up", "../../etc/passwd")] {
            root.symlink(&nobody(), name(link), target.as_bytes()).await.unwrap();
            assert_eq!(root.read_link(&nobody(), name(link)).await.unwrap(), target.as_bytes());
        }
        assert_eq!(inode(&volume, "in").await, inode(&volume, "a").await);
        for link in ["out", "up"] {
            assert!(matches!(volume.lookup(path(link)).await, Err(Error::Escapes)), "{link}");
        }
        assert!(matches!(root.symlink(&nobody(), name("in"), b"a").await, Err(Error::Exists)));
        assert!(matches!(root.symlink(&nobody(), name("x"), b"").await, Err(Error::Name(_))));
        assert!(matches!(root.read_link(&nobody(), name("a")).await, Err(Error::NotServable)));
        let opened =
            root.create(&nobody(), name("out"), CreateOptions { exclusive: false, mode: 0o644 }).await;
        assert!(matches!(opened, Err(Error::SymlinkRefused)), "{opened:?}");
        root.remove(&nobody(), name("out")).await.unwrap();
        assert_eq!(process.host.fs().read("/etc/passwd").unwrap(), b"secret");
    });
}

#[test]
fn attributes_are_set_without_a_new_version_and_owners_by_administrators_alone() {
    alone(|_, volume| async move {
        let file = root(&volume).await.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        let before = file.file().object().unwrap().version();
        file.set_attributes(&nobody(), AttributeChange { mode: Some(0o6750), ..KEEP }).await.unwrap();
        assert_eq!(file.file().attributes().unwrap().mode & 0o7777, 0o750);
        assert_eq!(file.file().object().unwrap().version(), before);
        let chown = AttributeChange { uid: Some(1), ..KEEP };
        assert!(matches!(file.set_attributes(&nobody(), chown).await, Err(Error::Denied(_))));
        let refused = root(&volume).await.set_attributes(&nobody(), KEEP).await;
        assert!(matches!(refused, Err(Error::Denied(Rights::ADMINISTER))), "{refused:?}");
    });
}

#[test]
fn extended_attributes_are_the_clients_and_the_servers_own_are_not_among_them() {
    alone(|_, volume| async move {
        let file = root(&volume).await.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        file.set_extended(&nobody(), b"colour", b"red".to_vec(), XattrHow::Create).await.unwrap();
        let again = file.set_extended(&nobody(), b"colour", vec![], XattrHow::Create).await;
        assert!(matches!(again, Err(Error::Exists)));
        let own = c"user.linerate.acl".to_owned();
        file.file().lane_file().set_xattr(&own, b"x".to_vec(), XattrHow::Any).await.unwrap();
        assert_eq!(file.file().extended_names().await.unwrap(), [b"colour"]);
        assert_eq!(file.file().extended(b"colour", 9).await.unwrap().unwrap(), b"red");
        assert!(file.file().extended(b"none", 9).await.unwrap().is_none());
        assert!(matches!(file.file().extended(b"colour", 2).await, Err(Error::TooLarge { max: 2 })));
        assert!(matches!(file.file().extended(b"linerate.acl", 9).await, Err(Error::Reserved)));
        let set = file.set_extended(&nobody(), b"linerate.acl", vec![], XattrHow::Any).await;
        assert!(matches!(set, Err(Error::Reserved)));
        file.remove_extended(&nobody(), b"colour").await.unwrap();
        assert!(matches!(file.remove_extended(&nobody(), b"colour").await, Err(Error::NotFound)));
    });
}

#[test]
fn a_file_has_so_many_extended_attributes_and_no_more() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let file = root.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        let set = async |name: String| {
            file.set_extended(&nobody(), name.as_bytes(), b"1".to_vec(), XattrHow::Any).await
        };
        let edit = async |name: &str| {
            file.edit_extended(&nobody(), name.as_bytes(), 9, |_| (Some(b"2".to_vec()), ())).await
        };
        for n in 0..64 {
            set(format!("stream {n}")).await.unwrap();
        }
        assert!(matches!(set("one more".to_owned()).await, Err(Error::NoSpace)));
        assert!(matches!(edit("one more").await, Err(Error::NoSpace)));
        // What is there changes, DOS attributes find a place, and so does another in place of one.
        set("stream 7".to_owned()).await.unwrap();
        edit("stream 8").await.unwrap();
        edit("DOSATTRIB").await.unwrap();
        file.remove_extended(&nobody(), b"stream 9").await.unwrap();
        file.remove_extended(&nobody(), b"stream 10").await.unwrap();
        set("one more".to_owned()).await.unwrap();
        assert!(matches!(edit("another").await, Err(Error::NoSpace)));
        // A directory likewise.
        let dir = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        for n in 0..65 {
            let done =
                dir.edit_extended(&nobody(), format!("{n}").as_bytes(), 9, &|_| Some(b"1".to_vec())).await;
            assert_eq!(done.is_ok(), n < 64, "{n}: {done:?}");
        }
    });
}

#[test]
fn holes_and_copies_change_the_content_under_one_more_version_each() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let file = root.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        write(&file, 0, "abcdefgh").await.unwrap();
        let before = file.file().object().unwrap().version();
        file.allocate(&nobody(), Allocate::Punch, 2, 3).await.unwrap();
        assert_eq!(text(&volume, "a").await, "ab\0\0\0fgh");
        let copy = root.create(&nobody(), name("b"), NEW).await.unwrap().writer;
        assert_eq!(copy.copy_from(&nobody(), file.file(), 5, 1, 100).await.unwrap(), 3);
        assert_eq!(text(&volume, "b").await, "\0fgh");
        assert_eq!(file.copy_from(&nobody(), file.file(), 0, 8, 2).await.unwrap(), 2);
        assert_eq!(text(&volume, "a").await, "ab\0\0\0fghab");
        assert_eq!(file.file().object().unwrap().version(), before.next().next());
        copy.sync(SyncOf::Data).await.unwrap();
        root.sync().await.unwrap();
    });
}

#[test]
fn a_name_is_found_in_any_case_as_it_is_stored_and_as_given_first() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let d = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        for file in ["ReadMe.txt", "Übung", "same", "SAME"] {
            d.create(&nobody(), name(file), NEW).await.unwrap();
        }
        // Within the tick of the file system's clock no listing is kept.
        lane::time::sleep(std::time::Duration::from_secs(3)).await;
        for (asked, stored) in [
            ("readme.TXT", Some("ReadMe.txt")),
            ("üBUNG", Some("Übung")),
            ("same", Some("same")),
            ("SAME", Some("SAME")),
            ("Same", Some("SAME")),
            ("none", None),
        ] {
            assert_eq!(folded(&d, asked).await.as_deref(), stored, "{asked}");
        }
        let listings = volume.counters().listings.get();
        assert_eq!(folded(&d, "README.txt").await.as_deref(), Some("ReadMe.txt"));
        assert_eq!(volume.counters().listings.get(), listings, "no scan where the directory is cached");
        d.remove(&nobody(), name("ReadMe.txt")).await.unwrap();
        assert_eq!(folded(&d, "README.txt").await, None);
    });
}

#[test]
fn a_crowd_that_looks_for_a_directory_and_lists_it_reads_it_once() {
    alone(|process, volume| async move {
        for n in 0..100 {
            process.host.fs().write(&format!("/srv/dir/f{n}"), "x").unwrap();
        }
        // Within the tick of the file system's clock no listing is kept.
        lane::time::sleep(std::time::Duration::from_secs(3)).await;
        let crowd: Vec<_> = (0..50)
            .map(|_| {
                let volume = volume.clone();
                lane::spawn(async move { directory(&volume, "dir").await.entries(1000).await.unwrap().len() })
            })
            .collect();
        for listing in crowd {
            assert_eq!(listing.await, 100);
        }
        assert_eq!(volume.counters().listings.get(), 1);
        // That it has too many is found once as well, until it changes.
        process.host.fs().write("/srv/large/f", "x").unwrap();
        for n in 0..100 {
            process.host.fs().write(&format!("/srv/large/f{n}"), "x").unwrap();
        }
        lane::time::sleep(std::time::Duration::from_secs(3)).await;
        let crowd: Vec<_> = (0..50)
            .map(|_| {
                let volume = volume.clone();
                lane::spawn(async move { directory(&volume, "large").await.entries(100).await })
            })
            .collect();
        for listing in crowd {
            assert!(matches!(listing.await, Err(Error::TooLarge { max: 100 })));
        }
        assert_eq!(volume.counters().listings.get(), 2);
        assert_eq!(directory(&volume, "large").await.entries(101).await.unwrap().len(), 101);
        process.host.fs().remove("/srv/large/f").unwrap();
        lane::time::sleep(std::time::Duration::from_secs(3)).await;
        assert_eq!(directory(&volume, "large").await.entries(100).await.unwrap().len(), 100);
    });
}

#[test]
fn the_names_of_a_directory_are_read_once_for_all_that_comes_and_goes_in_it() {
    alone(|process, volume| async move {
        let root = root(&volume).await;
        let d = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        d.create(&nobody(), name("First"), NEW).await.unwrap();
        assert_eq!(folded(&d, "FIRST").await.as_deref(), Some("First"));
        let listings = volume.counters().listings.get();
        for n in 0..60 {
            let file = format!("File{n}");
            assert_eq!(folded(&d, &file.to_uppercase()).await, None);
            d.create(&nobody(), name(&file), NEW).await.unwrap();
            assert_eq!(folded(&d, &file.to_uppercase()).await, Some(file));
        }
        d.rename(&nobody(), name("File7"), &d, name("Seven"), vfs::Replace::Never).await.unwrap();
        d.rename(&nobody(), name("File8"), &root, name("Eight"), vfs::Replace::Never).await.unwrap();
        d.remove(&nobody(), name("File9")).await.unwrap();
        let staged = d.stage(&nobody(), 0o644).await.unwrap();
        staged.publish(&nobody(), name("File1"), vfs::Expect::Anything).await.unwrap();
        for (asked, stored) in [
            ("FILE7", None),
            ("SEVEN", Some("Seven")),
            ("FILE8", None),
            ("FILE9", None),
            ("FILE1", Some("File1")),
            ("first", Some("First")),
        ] {
            assert_eq!(folded(&d, asked).await.as_deref(), stored, "{asked}");
        }
        assert_eq!(volume.counters().listings.get(), listings, "what was read is kept up to date");
        // Another program's are found by the time of the directory.
        lane::time::sleep(std::time::Duration::from_secs(3)).await;
        process.host.fs().write("/srv/d/Theirs", b"theirs".to_vec()).unwrap();
        assert_eq!(folded(&d, "THEIRS").await.as_deref(), Some("Theirs"));
        assert_eq!(volume.counters().listings.get(), listings + 1);
    });
}

#[test]
fn every_lane_finds_what_another_makes_and_moves_in_whatever_case() {
    const ROUNDS: usize = 30;
    on_lanes(3, Config::clean(), 2, |lane, _, volume| async move {
        let root = root(&volume).await;
        let mut kept = None;
        for n in 0..ROUNDS {
            let mine = format!("Lane{lane}-{n}");
            root.create(&nobody(), name(&mine), NEW).await.unwrap();
            assert_eq!(folded(&root, &mine.to_uppercase()).await.as_deref(), Some(&*mine));
            let theirs = format!("Lane{}-{n}", 1 - lane);
            if volume.lookup(path(&theirs)).await.is_ok() {
                let found = folded(&root, &theirs.to_lowercase()).await;
                assert!(found.is_none_or(|found| found == theirs));
            }
            if let Some(kept) = kept.replace(mine) {
                root.remove(&nobody(), name(&kept)).await.unwrap();
                assert_eq!(folded(&root, &kept.to_uppercase()).await, None);
            }
        }
        // What the other lane has made last stays, and is there for this one as soon as it can be opened by its name.
        let theirs = format!("Lane{}-{}", 1 - lane, ROUNDS - 1);
        while volume.lookup(path(&theirs)).await.is_err() {
            lane::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(folded(&root, &theirs.to_uppercase()).await, Some(theirs));
    });
}

#[test]
fn a_name_that_nobody_has_is_not_there_however_fast_others_come_and_go() {
    seeds(300, |seed| {
        on_lanes(seed, Config::rough(), 2, |lane, _, volume| async move {
            let root = root(&volume).await;
            match root.make_directory(&nobody(), name("d"), 0o755).await {
                Ok(_) | Err(Error::Exists) => {}
                Err(error) => panic!("{error}"),
            }
            let d = directory(&volume, "d").await;
            for n in 0..10 {
                let mine = format!("Lane{lane}-{n}");
                assert_eq!(folded(&d, &mine).await, None);
                d.create(&nobody(), name(&mine), NEW).await.unwrap();
                assert_eq!(folded(&d, &mine.to_uppercase()).await.as_deref(), Some(&*mine));
                d.remove(&nobody(), name(&mine)).await.unwrap();
                assert_eq!(folded(&d, &mine).await, None);
            }
        });
    });
}

async fn folded(directory: &Directory, asked: &str) -> Option<String> {
    match directory.lookup_folded(&nobody(), name(asked), Rights::READ, 100).await {
        Ok((stored, Resolved::File(..))) => Some(String::from_utf8(stored.into()).unwrap()),
        Ok(other) => panic!("{other:?}"),
        Err(Error::NotFound) => None,
        Err(other) => panic!("{other}"),
    }
}

/// On one lane of a calm world.
fn alone<F: Future<Output = ()> + 'static>(test: impl Fn(Process, Volume) -> F) {
    on_lanes(1, Config::clean(), 1, |_, process, volume| test(process, volume));
}
