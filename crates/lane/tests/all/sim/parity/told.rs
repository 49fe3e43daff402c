//! Tests of the events of a server's own changes for watchers of the directory.

use std::cell::RefCell;
use std::ffi::CString;
use std::time::Duration;

use lane::backend::Watch;
use lane::buffer::BufClass;
use lane::fs::{
    Allocate, AttributeChange, CreateHow, Dir, File, OpenHow, RenameHow, SetTime, Timestamp, WatchEvent,
    XattrHow, unwatch, watch_events,
};
use lane::time;

use super::{Edit, Entry, same_on_both, settle};

#[test]
fn a_servers_changes_are_told_alike() {
    let tree = [Entry::File("file", "content"), Entry::File("sub/x", ""), Entry::File("third/x", "")];
    same_on_both(&tree, |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let sub = root.open(&name("sub"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        let third = root.open(&name("third"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
        let watches = [root.watch().unwrap(), sub.watch().unwrap()];
        third.watch().unwrap();
        let told = async || {
            settle().await;
            let mut told = Vec::new();
            while let Ok(events) = time::timeout(Duration::from_millis(20), watch_events()).await {
                told.extend(events.unwrap().into_iter().map(|event| match event {
                    WatchEvent::Entry { watch, name, what, is_directory } => {
                        let dir = if watch == watches[0] { "root" } else { "sub" };
                        let kind = if is_directory { "directory" } else { "file" };
                        format!("{dir} {} {what:?} {kind}", String::from_utf8(name).unwrap())
                    }
                    WatchEvent::Itself(watch) => {
                        let known = watches.iter().position(|known| *known == watch);
                        format!("{} itself", known.map_or("third", |at| ["root", "sub"][at]))
                    }
                    WatchEvent::Gone(_) => "gone".to_owned(),
                    WatchEvent::Mounts => "mounts".to_owned(),
                    WatchEvent::Overflow => "overflow".to_owned(),
                }));
            }
            told.dedup();
            told
        };
        let mut seen = Vec::new();
        let file = root.open(&name("file"), OpenHow::WRITE).await.unwrap();
        for change in 0..30 {
            make(change, &root, &sub, &file).await;
            seen.push((change, told().await));
        }
        drop(file);
        seen.push((100, told().await));
        seen
    });
}

#[test]
fn a_change_through_another_name_is_told_where_that_name_is() {
    let tree = [Entry::File("one/a", "content"), Entry::File("other/x", "")];
    same_on_both(&tree, |root, edit| async move {
        let root = Dir::open_root(&root).unwrap();
        let open = async |path: &str| root.open(&name(path), OpenHow::NO_SYMLINKS).await.unwrap();
        let (one, other) = (open("one").await.into_dir().unwrap(), open("other").await.into_dir().unwrap());
        other.link(&open("one/a").await, &name("b")).await.unwrap();
        settle().await;
        let watches = [one.watch().unwrap(), other.watch().unwrap()];
        let mut seen = Vec::new();
        for change in [
            Edit::Append("other/b", "more"),
            Edit::Append("one/a", "more"),
            Edit::Mode("one/a", 0o600),
            Edit::Mode("other/b", 0o640),
        ] {
            edit(change);
            settle().await;
            let events = time::timeout(Duration::from_millis(50), watch_events()).await.unwrap().unwrap();
            let mut told: Vec<_> = events
                .into_iter()
                .map(|event| match event {
                    WatchEvent::Entry { watch, name, .. } => (watches.iter().position(|w| *w == watch), name),
                    other => panic!("{other:?}"),
                })
                .collect();
            told.dedup();
            seen.push((format!("{change:?}"), told));
        }
        seen
    });
}

#[test]
fn a_watched_file_is_told_of_by_whichever_name_it_is_changed() {
    let tree = [Entry::File("one/a", "content"), Entry::File("other/x", ""), Entry::File("other/y", "")];
    same_on_both(&tree, |root, edit| async move {
        let root = Dir::open_root(&root).unwrap();
        let open = async |path: &str| root.open(&name(path), OpenHow::NO_SYMLINKS).await.unwrap();
        let (one, other) = (open("one").await.into_dir().unwrap(), open("other").await.into_dir().unwrap());
        let directory = one.watch().unwrap();
        let file = open("one/a").await;
        let itself = file.watch().unwrap();
        assert_eq!(file.watch().unwrap(), itself);
        let told = async || {
            settle().await;
            let mut told = Vec::new();
            while let Ok(events) = time::timeout(Duration::from_millis(20), watch_events()).await {
                told.extend(events.unwrap().into_iter().map(|event| match event {
                    WatchEvent::Entry { watch, name, what, .. } if watch == directory => {
                        format!("{what:?} {}", String::from_utf8(name).unwrap())
                    }
                    WatchEvent::Itself(watch) if watch == itself => "itself".to_owned(),
                    WatchEvent::Gone(watch) if watch == itself => "gone".to_owned(),
                    other => panic!("{other:?}"),
                }));
            }
            each_once(told)
        };
        let mut seen = Vec::new();
        other.link(&file, &name("b")).await.unwrap();
        seen.push(("link".to_owned(), told().await));
        for change in [
            Edit::Append("other/b", "more"),
            Edit::Mode("other/b", 0o600),
            Edit::Append("one/a", "more"),
            Edit::Mode("one/a", 0o640),
            Edit::Append("other/x", "more"),
        ] {
            edit(change);
            seen.push((format!("{change:?}"), told().await));
        }
        other.rename(&name("y"), &other, &name("b"), RenameHow::Replace).await.unwrap();
        seen.push(("replaced".to_owned(), told().await));
        drop(file);
        edit(Edit::Remove("one/a"));
        seen.push(("removed".to_owned(), told().await));
        // What was moved away has its watch no more: it is looked at anew.
        let moved = open("other/x").await;
        assert_ne!(moved.watch().unwrap(), itself);
        drop(moved);
        seen
    });
}

#[test]
fn what_was_moved_tells_on_by_its_watch_until_that_is_removed() {
    let tree = [Entry::File("sub/x", ""), Entry::File("file", ""), Entry::File("other/y", "")];
    same_on_both(&tree, |root, edit| async move {
        let root = Dir::open_root(&root).unwrap();
        let open = async |path: &str| root.open(&name(path), OpenHow::NO_SYMLINKS).await.unwrap();
        let (sub, file) = (open("sub").await.into_dir().unwrap(), open("file").await);
        let watches = RefCell::new(vec![sub.watch().unwrap(), file.watch().unwrap()]);
        let place = |watch: Watch| watches.borrow().iter().position(|known| *known == watch);
        let told = async || {
            settle().await;
            let mut told = Vec::new();
            while let Ok(events) = time::timeout(Duration::from_millis(20), watch_events()).await {
                told.extend(events.unwrap().into_iter().map(|event| match event {
                    WatchEvent::Entry { watch, name, what, .. } => {
                        format!("{:?} {} {what:?}", place(watch), String::from_utf8(name).unwrap())
                    }
                    WatchEvent::Itself(watch) => format!("{:?} itself", place(watch)),
                    WatchEvent::Gone(watch) => format!("{:?} gone", place(watch)),
                    other => panic!("{other:?}"),
                }));
            }
            each_once(told)
        };
        let changes = [
            Edit::Rename("sub", "other/sub"),
            Edit::Append("other/sub/x", "more"),
            Edit::Write("other/sub/new", ""),
            Edit::Rename("other/sub", "sub"),
            Edit::Remove("sub/new"),
            Edit::Mode("sub", 0o700),
            Edit::Rename("file", "sub/file"),
            Edit::Append("sub/file", "more"),
        ];
        let mut seen = Vec::new();
        for is_removed in [false, true] {
            for change in changes {
                edit(change);
                seen.push((format!("{change:?}"), told().await));
            }
            edit(Edit::Rename("sub/file", "file"));
            seen.push(("back".to_owned(), told().await));
            // The same watch, for as long as it was not removed.
            let again = [sub.watch().unwrap(), file.watch().unwrap()];
            seen.push(("again".to_owned(), again.map(|watch| format!("{:?}", place(watch))).to_vec()));
            if !is_removed {
                again.into_iter().for_each(unwatch);
                edit(Edit::Append("sub/x", "more"));
                edit(Edit::Append("file", "more"));
                seen.push(("removed".to_owned(), told().await));
                *watches.borrow_mut() = vec![sub.watch().unwrap(), file.watch().unwrap()];
                seen.push(("new".to_owned(), again.map(|watch| format!("{:?}", place(watch))).to_vec()));
            }
        }
        seen
    });
}

async fn make(change: u32, root: &Dir, sub: &Dir, file: &File) {
    let mtime = SetTime::At(Timestamp { secs: 7, nanos: 7 });
    match change {
        0 => drop(root.create(&name("new"), CreateHow { mode: 0o600, exclusive: true }).await.unwrap()),
        1 => {
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            buf.append(b"bytes");
            file.write_at(0, buf).await.0.unwrap();
        }
        2 => file.truncate(3).await.unwrap(),
        3 => file.allocate(Allocate::Extend, 0, 100).await.unwrap(),
        4 => file.allocate(Allocate::Punch, 0, 10).await.unwrap(),
        5 => {
            let mode = AttributeChange { mode: Some(0o640), ..AttributeChange::NONE };
            file.set_attributes(mode).await.unwrap();
        }
        6 => file.set_attributes(AttributeChange { mtime, ..AttributeChange::NONE }).await.unwrap(),
        7 => file.set_xattr(&name("user.a"), b"value".to_vec(), XattrHow::Any).await.unwrap(),
        8 => file.remove_xattr(&name("user.a")).await.unwrap(),
        9 => sub.link(file, &name("linked")).await.unwrap(),
        10 => root.mkdir(&name("dir"), 0o755).await.unwrap(),
        11 => root.symlink(&name("link"), &name("anywhere")).await.unwrap(),
        12 => root.rename(&name("new"), sub, &name("moved"), RenameHow::NoReplace).await.unwrap(),
        13 => sub.rename(&name("moved"), root, &name("link"), RenameHow::Exchange).await.unwrap(),
        14 => sub.rename(&name("moved"), root, &name("link"), RenameHow::Replace).await.unwrap(),
        15 => root.unlink(&name("link")).await.unwrap(),
        16 => root.rmdir(&name("dir")).await.unwrap(),
        17 => root.rename(&name("third"), sub, &name("third"), RenameHow::Replace).await.unwrap(),
        18 => sub.unlink(&name("linked")).await.unwrap(),
        // Of directories their own watchers hear, too, whether the one above is watched or cannot be.
        19 | 20 => {
            let mode = AttributeChange { mode: Some(0o710), ..AttributeChange::NONE };
            itself(change, root, sub).set_attributes(mode).await.unwrap();
        }
        21 | 22 => {
            let times = AttributeChange { mtime, ..AttributeChange::NONE };
            itself(change, root, sub).set_attributes(times).await.unwrap();
        }
        23 | 24 => {
            let value = b"value".to_vec();
            itself(change, root, sub).set_xattr(&name("user.a"), value, XattrHow::Any).await.unwrap();
        }
        25 | 26 => itself(change, root, sub).remove_xattr(&name("user.a")).await.unwrap(),
        27 => root.mkdir(&name("dir"), 0o755).await.unwrap(),
        28 => sub.mkdir(&name("dir"), 0o755).await.unwrap(),
        _ => root.rename(&name("dir"), sub, &name("dir"), RenameHow::Replace).await.unwrap(),
    }
}

/// Returns what was told without repetitions: a program that writes closes afterwards, which is told as much.
fn each_once(told: Vec<String>) -> Vec<String> {
    let mut first = Vec::new();
    for one in told {
        if !first.contains(&one) {
            first.push(one);
        }
    }
    first
}

/// Returns the root for odd changes, the directory in it for even ones.
fn itself<'a>(change: u32, root: &'a Dir, sub: &'a Dir) -> &'a File {
    if change % 2 == 1 { root.as_file() } else { sub.as_file() }
}

fn name(name: &str) -> CString {
    CString::new(name).unwrap()
}
