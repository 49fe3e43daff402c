//! Tests of names, files and the events of their changes.

use std::ffi::CString;
use std::time::Duration;

use lane::backend::Watch;
use lane::buffer::BufClass;
use lane::fs::{Dir, OpenHow, OpenKind, WatchEvent, watch_events};
use lane::time;

use super::{Edit, Entry, errno, same_on_both, settle};

#[test]
fn names_resolve_alike() {
    let tree = [
        Entry::File("file", "content"),
        Entry::File("dir/inner", "x"),
        Entry::File("dir/deep/er", "x"),
        Entry::Link("link", "file"),
        Entry::Link("dirlink", "dir"),
        Entry::Link("dirlink_slash", "dir/"),
        Entry::Link("filelink_slash", "file/"),
        Entry::Link("absolute", "/etc"),
        Entry::Link("escape", "../outside"),
        Entry::Link("dangling", "nowhere"),
        Entry::Link("loop", "loop"),
        Entry::Link("loop_a", "loop_b"),
        Entry::Link("loop_b", "loop_a"),
        Entry::Link("dir/up", ".."),
        Entry::Link("dir/upup", "../.."),
        Entry::Link("dir/self", "."),
        Entry::Link("chain", "dir/up/link"),
        Entry::Pipe("pipe"),
        Entry::Link("to_pipe", "pipe"),
    ];
    same_on_both(&tree, |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let mut seen = Vec::new();
        for path in PATHS {
            let name = CString::new(*path).unwrap();
            for kind in [OpenKind::Any, OpenKind::Directory] {
                for symlinks in [true, false] {
                    let opened = root.open(&name, OpenHow { kind, symlinks, write: false }).await;
                    let found = errno(opened.map(|file| file.stat().unwrap().kind));
                    seen.push(format!("open {path:?} {kind:?} links {symlinks}: {found:?}"));
                }
            }
            let found = errno(root.stat_at(&name).await.map(|stat| stat.kind));
            seen.push(format!("stat {path:?}: {found:?}"));
        }
        seen
    });
}

#[test]
fn reads_end_alike() {
    same_on_both(&[Entry::File("file", "0123456789"), Entry::File("dir/x", "")], |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let file = root.open(&CString::new("file").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let dir = root.open(&CString::new("dir").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let mut seen = Vec::new();
        for (file, offset, len) in
            [(&file, 0, 4), (&file, 8, 10), (&file, 10, 1), (&file, 99, 1), (&file, 0, 0), (&dir, 0, 1)]
        {
            let buf = lane::current().buffers().get(BufClass::Small).await;
            let (read, buf) = file.read_at(offset, len, buf).await;
            seen.push((errno(read), buf.to_vec()));
        }
        let stat = file.stat().unwrap();
        seen.push((Ok(stat.size as usize), Vec::new()));
        seen.push((Ok(stat.nlink as usize), Vec::new()));
        seen.push((errno(file.into_dir()).map(|_| 0), Vec::new()));
        seen
    });
}

#[test]
fn changes_are_told_alike() {
    let tree = [Entry::File("kept", ""), Entry::File("sub/x", ""), Entry::File("open/x", "")];
    same_on_both(&tree, |root, edit| async move {
        let dir = Dir::open_root(&root).unwrap();
        let watch = dir.watch().unwrap();
        assert_eq!(dir.watch().unwrap(), watch);
        let open_beneath = async |name: &str| {
            let sub = dir.open(&CString::new(name).unwrap(), OpenHow::FOLLOW).await.unwrap();
            sub.into_dir().unwrap()
        };
        let sub_watch = open_beneath("sub").await.watch().unwrap();
        let kept_open = open_beneath("open").await;
        let open_watch = kept_open.watch().unwrap();
        let nothing = time::timeout(Duration::from_millis(20), watch_events()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        let name_of = |watch_told: Watch| match watch_told {
            told if told == watch => "root",
            told if told == sub_watch => "sub",
            told if told == open_watch => "open",
            _ => "unknown",
        };
        let told = async || {
            settle().await;
            let mut told = Vec::new();
            while let Ok(events) = time::timeout(Duration::from_millis(20), watch_events()).await {
                told.extend(events.unwrap().into_iter().map(|event| match event {
                    WatchEvent::Entry { watch, name, .. } => {
                        format!("{} {}", name_of(watch), String::from_utf8(name).unwrap())
                    }
                    WatchEvent::Itself(watch) => format!("{} itself", name_of(watch)),
                    WatchEvent::Gone(watch) => format!("{} gone", name_of(watch)),
                    WatchEvent::Mounts => "mounts".to_owned(),
                    WatchEvent::Overflow => "overflow".to_owned(),
                }));
            }
            told.dedup();
            told
        };
        let mut seen = Vec::new();
        for change in [
            Edit::Write("new", "content"),
            Edit::Write("new", "other"),
            Edit::Append("kept", "more"),
            Edit::Mode("kept", 0o600),
            Edit::Rename("new", "newer"),
            Edit::Rename("newer", "sub/newest"),
            Edit::Rename("sub/newest", "kept"),
            Edit::Write("unwatched/x", "content"),
            Edit::Append("unwatched/x", "more"),
            Edit::Remove("kept"),
            Edit::Remove("sub"),
            Edit::Remove("open"),
        ] {
            edit(change);
            seen.push((format!("{change:?}"), told().await));
        }
        drop(kept_open);
        seen.push(("the removed directory is closed".to_owned(), told().await));
        lane::fs::unwatch(watch);
        seen.push(("unwatched".to_owned(), told().await));
        edit(Edit::Write("unseen", ""));
        seen.push(("written".to_owned(), told().await));
        seen
    });
}

const PATHS: &[&str] = &[
    "",
    ".",
    "./",
    "/",
    "/etc/passwd",
    "..",
    "../srv/file",
    "file",
    "./file",
    "file/",
    "file/.",
    "file/x",
    "dir",
    "dir/",
    "dir//inner",
    "dir/.",
    "dir/..",
    "dir/../file",
    "dir/../..",
    "dir/deep/../../file",
    "dir/deep/../../../srv/file",
    "absent",
    "absent/x",
    "absent/..",
    "link",
    "link/",
    "link/x",
    "dirlink",
    "dirlink/",
    "dirlink/inner",
    "dirlink/../file",
    "dirlink_slash",
    "dirlink_slash/inner",
    "filelink_slash",
    "absolute",
    "absolute/passwd",
    "escape",
    "dangling",
    "dangling/x",
    "loop",
    "loop/x",
    "loop_a",
    "dir/up/file",
    "dir/up/dir/up/link",
    "dir/upup",
    "dir/upup/srv",
    "dir/self/self/inner",
    "chain",
    "pipe",
    "pipe/",
    "to_pipe",
];
