//! Volumes on the kernel of this machine: what resolves, what is refused, and what the caches notice.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use identity::Writable;
use lane::buffer::BufClass;
use lane::fs::AttributeChange;
use lane::runtime::{RuntimeOptions, run_here};
use lane::time;
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Directory, Error, Expect, FileKind, Name, Objects,
    ObjectsOptions, OpenFile, RelPath, Resolved, Volume, VolumeOptions, VolumeSpec,
};

#[test]
fn names_resolve_beneath_the_root_and_nowhere_else() {
    on_tree(|tree| async move {
        fs::create_dir_all(tree.path("a/b")).unwrap();
        fs::write(tree.path("a/b/file"), "inside").unwrap();
        symlink("/etc/passwd", tree.path("absolute")).unwrap();
        symlink("../../../etc/passwd", tree.path("a/relative")).unwrap();
        symlink("../..", tree.path("a/up")).unwrap();
        symlink("b/file", tree.path("a/alias")).unwrap();
        symlink("/proc/self/root", tree.path("magic")).unwrap();
        symlink("circle", tree.path("circle")).unwrap();
        let volume = tree.volume(VolumeOptions::default());
        assert_eq!(text(&volume, "a/b/file").await.unwrap(), "inside");
        assert_eq!(text(&volume, "a/alias").await.unwrap(), "inside");
        for escape in ["absolute", "a/relative", "a/up/etc", "magic/etc/passwd"] {
            assert!(matches!(lookup(&volume, escape).await, Err(Error::Escapes)), "{escape}");
        }
        assert!(matches!(lookup(&volume, "circle").await, Err(Error::SymlinkRefused)));
        assert!(matches!(lookup(&volume, "a/b/file/x").await, Err(Error::NotADirectory)));
        assert!(matches!(lookup(&volume, "a/none").await, Err(Error::NotFound)));
        assert_eq!(volume.counters().refused_escape.get(), 4);
    });
}

#[test]
fn absolute_links_that_stay_inside_lead_where_they_say() {
    on_tree(|tree| async move {
        fs::create_dir_all(tree.path("a/b")).unwrap();
        fs::write(tree.path("a/b/file"), "inside").unwrap();
        symlink(tree.path("a/b/file"), tree.path("file")).unwrap();
        symlink(tree.path("a"), tree.path("dir")).unwrap();
        symlink(tree.path("dir/b"), tree.path("a/chain")).unwrap();
        symlink("chain", tree.path("a/relative")).unwrap();
        symlink(tree.path(""), tree.path("top")).unwrap();
        symlink(tree.path("loop"), tree.path("loop")).unwrap();
        symlink(tree.path("../etc"), tree.path("out")).unwrap();
        let beside = format!("{}-beside/file", tree.dir.path().display());
        symlink(beside, tree.path("beside")).unwrap();
        let volume = tree.volume(VolumeOptions::default());
        for path in ["file", "dir/b/file", "a/chain/file", "dir/relative/file", "top/top/file"] {
            assert_eq!(text(&volume, path).await.unwrap(), "inside", "{path}");
        }
        for path in ["out", "out/passwd", "top/out", "beside"] {
            assert!(matches!(lookup(&volume, path).await, Err(Error::Escapes)), "{path}");
        }
        assert!(matches!(lookup(&volume, "loop").await, Err(Error::SymlinkRefused)));
        assert_eq!(names(&directory(&volume, "").await).await, ["a", "dir", "file", "top"]);
        assert_eq!(names(&directory(&volume, "a/chain").await).await, ["file"]);
    });
}

#[test]
fn symbolic_links_are_refused_where_the_volume_follows_none() {
    on_tree(|tree| async move {
        fs::create_dir(tree.path("dir")).unwrap();
        fs::write(tree.path("dir/file"), "x").unwrap();
        symlink("dir", tree.path("link")).unwrap();
        let volume = tree.volume(VolumeOptions { follow_symlinks: false, ..Default::default() });
        assert!(matches!(lookup(&volume, "link").await, Err(Error::SymlinkRefused)));
        assert!(matches!(lookup(&volume, "link/file").await, Err(Error::SymlinkRefused)));
        assert!(lookup(&volume, "dir/file").await.is_ok());
        assert_eq!(names(&directory(&volume, "").await).await, ["dir"]);
    });
}

#[test]
fn devices_and_pipes_are_never_served() {
    on_tree(|tree| async move {
        let pipe = tree.path("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(tree.path("socket")).unwrap();
        let volume = tree.volume(VolumeOptions::default());
        assert!(matches!(lookup(&volume, "pipe").await, Err(Error::NotServable)));
        assert!(matches!(lookup(&volume, "socket").await, Err(Error::NotServable)));
        assert!(names(&directory(&volume, "").await).await.is_empty());
        assert_eq!(volume.counters().refused_device.get(), 2);
    });
}

#[test]
fn one_server_at_a_time_writes_to_a_tree_whatever_else_they_have_in_common() {
    on_tree(|_| async move {
        // Where its file system keeps attributes, which that of temporary files may not.
        let tree = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // As several processes, which have their state in different places.
        let server = || {
            let objects = Objects::in_memory(ObjectsOptions::default());
            let cache = Cache::sharing(CacheOptions::default(), &objects);
            (objects, cache)
        };
        let open = |(_, cache): &(Objects, Cache), name: &str, writable| {
            let spec = VolumeSpec::new(name.parse().unwrap(), tree.path(), VolumeOptions::default());
            Volume::open(cache, &spec.with_objects().writable_by(writable))
        };
        let trouble = |(objects, _): &(Objects, Cache)| objects.volumes()[0].trouble().map(str::to_owned);
        let make = async |volume: &Volume, at: &'static str| {
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            let name = Name::parse(at.as_bytes()).unwrap();
            directory(volume, "").await.create(&Caller::anonymous(), name, how).await.map(drop)
        };
        let close = async |(objects, cache): &(Objects, Cache), volume: Volume| {
            drop(volume);
            until(async || {
                cache.clear();
                objects.volumes().is_empty()
            })
            .await;
        };
        let (first, second, reader) = (server(), server(), server());
        let one = open(&first, "one", Writable::anyone()).unwrap();
        make(&one, "a").await.unwrap();
        let other = open(&second, "other", Writable::anyone()).unwrap();
        let told = trouble(&second).unwrap();
        assert!(told.contains("another server"), "{told}");
        assert!(matches!(make(&other, "b").await, Err(Error::ReadOnly)));
        assert!(lookup(&other, "a").await.is_ok(), "it is read all the same");
        // A reader keeps no other out, and a reload lets it write only when no other does.
        let reads = open(&reader, "reads", Writable::Nobody).unwrap();
        assert_eq!(trouble(&reader), None);
        assert!(open(&reader, "reads", Writable::anyone()).is_err());
        close(&first, one).await;
        let writes = open(&reader, "reads", Writable::anyone()).unwrap();
        make(&writes, "c").await.unwrap();
        // The same server opens it by another name too, as while a reload renames it.
        let renamed = open(&reader, "renamed", Writable::anyone()).unwrap();
        drop((reads, writes));
        let third = server();
        let late = open(&third, "late", Writable::anyone()).unwrap();
        assert!(trouble(&third).unwrap().contains("another server"));
        drop((renamed, late));
    });
}

#[test]
fn hidden_names_are_served_only_where_the_volume_says_so() {
    on_tree(|tree| async move {
        fs::create_dir_all(tree.path(".git")).unwrap();
        fs::create_dir_all(tree.path(".well-known")).unwrap();
        fs::write(tree.path(".git/config"), "secret").unwrap();
        fs::write(tree.path(".well-known/x"), "public").unwrap();
        let volume = tree.volume(VolumeOptions::default());
        assert!(matches!(lookup(&volume, ".git/config").await, Err(Error::Hidden)));
        assert!(matches!(lookup(&volume, ".absent").await, Err(Error::Hidden)));
        assert_eq!(text(&volume, ".well-known/x").await.unwrap(), "public");
        assert_eq!(names(&directory(&volume, "").await).await, [".well-known"]);
        let open = tree.volume(VolumeOptions { serve_hidden: true, ..Default::default() });
        assert_eq!(text(&open, ".git/config").await.unwrap(), "secret");
    });
}

#[test]
fn a_second_look_up_is_a_hit_on_the_same_open_file() {
    on_tree(|tree| async move {
        fs::write(tree.path("file"), "12345").unwrap();
        let volume = tree.volume(VolumeOptions::default());
        let (first, attributes) = file(&volume, "file").await;
        let (second, _) = file(&volume, "file").await;
        assert!(Rc::ptr_eq(&first, &second));
        assert_eq!((attributes.size, attributes.kind), (5, FileKind::File));
        let counters = volume.counters();
        assert_eq!(
            (counters.lookup_hits.get(), counters.lookup_misses.get(), counters.opens.get()),
            (1, 1, 1)
        );
    });
}

#[test]
fn attributes_of_a_hit_are_those_of_this_moment() {
    on_tree(|tree| async move {
        fs::write(tree.path("file"), "12345").unwrap();
        let volume = tree.volume(VolumeOptions::default());
        let (_, before) = file(&volume, "file").await;
        fs::write(tree.path("file"), "123456789").unwrap();
        let (_, after) = file(&volume, "file").await;
        assert_eq!((before.size, after.size), (5, 9));
        assert_ne!(before.change_token(), after.change_token());
    });
}

#[test]
fn a_file_renamed_over_a_cached_one_is_served_from_the_next_look_up() {
    on_tree(|tree| async move {
        fs::write(tree.path("page"), "old").unwrap();
        let volume = tree.volume(VolumeOptions::default());
        let (old, _) = file(&volume, "page").await;
        fs::write(tree.path("page.new"), "new").unwrap();
        fs::rename(tree.path("page.new"), tree.path("page")).unwrap();
        assert_eq!(text(&volume, "page").await.unwrap(), "new");
        // A reader that began with the old file ends with it.
        assert_eq!(read_all(&old).await, "old");
    });
}

#[test]
fn a_hard_linked_file_that_was_replaced_is_noticed_by_notification() {
    on_tree(|tree| async move {
        fs::write(tree.path("page"), "old").unwrap();
        fs::hard_link(tree.path("page"), tree.path("keeps-old-alive")).unwrap();
        let volume = tree.volume_with(patient(), VolumeOptions::default());
        assert_eq!(text(&volume, "page").await.unwrap(), "old");
        fs::write(tree.path("page.new"), "new").unwrap();
        fs::rename(tree.path("page.new"), tree.path("page")).unwrap();
        until(async || text(&volume, "page").await.unwrap() == "new").await;
        assert!(volume.counters().invalidated_changed.get() >= 1);
    });
}

#[test]
fn without_watches_a_replaced_name_is_noticed_when_its_time_is_over() {
    on_tree(|tree| async move {
        fs::write(tree.path("page"), "old").unwrap();
        fs::hard_link(tree.path("page"), tree.path("keeps-old-alive")).unwrap();
        let ttl = Duration::from_millis(200);
        let options = CacheOptions { watches_max: 0, ttl, ..Default::default() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        assert_eq!(text(&volume, "page").await.unwrap(), "old");
        fs::write(tree.path("page.new"), "new").unwrap();
        fs::rename(tree.path("page.new"), tree.path("page")).unwrap();
        time::sleep(ttl).await;
        assert_eq!(text(&volume, "page").await.unwrap(), "new");
        let counters = volume.counters();
        assert_eq!((counters.watches.get(), counters.invalidated_replaced.get()), (0, 1));
        assert!(counters.watches_refused.get() > 0);
    });
}

#[test]
fn a_recheck_that_finds_the_same_file_keeps_the_open_one() {
    on_tree(|tree| async move {
        fs::write(tree.path("file"), "x").unwrap();
        let options = CacheOptions { ttl: Duration::from_millis(50), ..Default::default() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        let (first, _) = file(&volume, "file").await;
        time::sleep(Duration::from_millis(60)).await;
        let (second, _) = file(&volume, "file").await;
        assert!(Rc::ptr_eq(&first, &second));
        assert_eq!(volume.counters().rechecks.get(), 1);
    });
}

#[test]
fn a_moved_directory_takes_its_cached_files_along() {
    on_tree(|tree| async move {
        fs::create_dir_all(tree.path("a/b/c")).unwrap();
        fs::write(tree.path("a/b/c/file"), "x").unwrap();
        let volume = tree.volume_with(patient(), VolumeOptions::default());
        assert_eq!(text(&volume, "a/b/c/file").await.unwrap(), "x");
        assert_eq!(volume.counters().watches.get(), 4);
        fs::rename(tree.path("a"), tree.path("z")).unwrap();
        until(async || matches!(lookup(&volume, "a/b/c/file").await, Err(Error::NotFound))).await;
        assert_eq!(text(&volume, "z/b/c/file").await.unwrap(), "x");
    });
}

#[test]
fn an_absent_name_is_remembered_until_it_appears() {
    on_tree(|tree| async move {
        fs::write(tree.path("page.html"), "x").unwrap();
        let volume = tree.volume_with(patient(), VolumeOptions::default());
        assert!(matches!(lookup(&volume, "page.html.br").await, Err(Error::NotFound)));
        assert!(matches!(lookup(&volume, "page.html.br").await, Err(Error::NotFound)));
        assert_eq!((volume.counters().lookup_absent_hits.get(), volume.counters().opens.get()), (1, 1));
        fs::write(tree.path("page.html.br"), "packed").unwrap();
        until(async || lookup(&volume, "page.html.br").await.is_ok()).await;
    });
}

#[test]
fn a_removed_file_is_let_go_so_that_its_space_comes_back() {
    on_tree(|tree| async move {
        fs::write(tree.path("big"), "x").unwrap();
        let volume = tree.volume_with(patient(), VolumeOptions::default());
        let kept = Rc::downgrade(&file(&volume, "big").await.0);
        assert!(kept.upgrade().is_some());
        fs::remove_file(tree.path("big")).unwrap();
        until(async || kept.upgrade().is_none()).await;
    });
}

#[test]
fn answers_nobody_uses_are_let_go_and_their_watches_with_them() {
    on_tree(|tree| async move {
        fs::create_dir(tree.path("dir")).unwrap();
        fs::write(tree.path("dir/file"), "x").unwrap();
        let soon = Duration::from_millis(50);
        let options = CacheOptions { idle_max: soon, open_idle_max: soon, ..Default::default() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        lookup(&volume, "dir/file").await.unwrap();
        let _ = lookup(&volume, "dir/none").await;
        let counters = volume.counters();
        assert_eq!((counters.open_cached.get(), counters.watches.get()), (1, 2));
        let levels = || (counters.open_cached.get(), counters.absent_cached.get(), counters.watches.get());
        until(async || levels() == (0, 0, 0)).await;
        lookup(&volume, "dir/file").await.unwrap();
        assert_eq!(levels(), (1, 0, 2));
        until(async || levels() == (0, 0, 0)).await;
    });
}

#[test]
fn caches_stay_within_their_bounds() {
    on_tree(|tree| async move {
        for n in 0..300 {
            fs::create_dir(tree.path(&format!("d{n}"))).unwrap();
            fs::write(tree.path(&format!("d{n}/f")), "x").unwrap();
        }
        let options =
            CacheOptions { open_files_max: 16, absent_names_max: 16, watches_max: 8, ..Default::default() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        for n in 0..300 {
            lookup(&volume, &format!("d{n}/f")).await.unwrap();
            assert!(lookup(&volume, &format!("d{n}/none")).await.is_err());
            let counters = volume.counters();
            assert!(counters.open_cached.get() <= 16 && counters.absent_cached.get() <= 16);
            assert!(counters.watches.get() <= 8);
        }
        time::sleep(Duration::from_millis(10)).await;
        // Besides what is kept: the volume's directory.
        assert!(lane::current().counters().files.get() <= 17);
    });
}

#[test]
fn a_listing_is_sorted_and_shows_what_can_be_opened() {
    on_tree(|tree| async move {
        fs::write(tree.path("b"), "22").unwrap();
        fs::create_dir(tree.path("c")).unwrap();
        fs::write(tree.path("A"), "1").unwrap();
        symlink("b", tree.path("link")).unwrap();
        symlink("nowhere", tree.path("dangling")).unwrap();
        symlink("/etc", tree.path("escape")).unwrap();
        let volume = tree.volume(VolumeOptions::default());
        let root = directory(&volume, "").await;
        let listing = root.entries(10).await.unwrap();
        let shown: Vec<_> = listing
            .iter()
            .map(|e| {
                (e.name.escape_ascii().to_string(), e.attributes.kind, e.attributes.size.min(2), e.symlink)
            })
            .map(|(name, kind, size, link)| (name, kind, if kind == FileKind::File { size } else { 0 }, link))
            .collect();
        assert_eq!(
            shown,
            [
                ("A".into(), FileKind::File, 1, false),
                ("b".into(), FileKind::File, 2, false),
                ("c".into(), FileKind::Directory, 0, false),
                ("link".into(), FileKind::File, 2, true),
            ]
        );
        assert!(matches!(root.entries(5).await, Err(Error::TooLarge { max: 5 })));
        let name = Name::parse(b"b").unwrap();
        assert_eq!(root.lookup(name).await.unwrap().attributes().size, 2);
    });
}

#[test]
fn a_cached_listing_is_read_anew_after_a_change() {
    on_tree(|tree| async move {
        fs::write(tree.path("one"), "1").unwrap();
        settle().await;
        let options = CacheOptions { listing_ttl: Duration::from_secs(3600), ..patient() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        let root = directory(&volume, "").await;
        assert_eq!(names(&root).await, ["one"]);
        assert_eq!(names(&root).await, ["one"]);
        let counters = volume.counters();
        assert_eq!((counters.listings.get(), counters.listing_hits.get()), (1, 1));
        assert!(matches!(root.entries(0).await, Err(Error::TooLarge { max: 0 })));
        // A new name shows in the directory's own time stamp, at once.
        fs::write(tree.path("two"), "2").unwrap();
        assert_eq!(names(&root).await, ["one", "two"]);
        // A new size does not; notification tells.
        settle().await;
        assert_eq!(root.entries(9).await.unwrap()[0].attributes.size, 1);
        fs::write(tree.path("one"), "11111").unwrap();
        until(async || root.entries(9).await.unwrap()[0].attributes.size == 5).await;
    });
}

#[test]
fn a_listing_without_a_watch_lives_for_the_short_time() {
    on_tree(|tree| async move {
        fs::write(tree.path("one"), "1").unwrap();
        settle().await;
        let ttl = Duration::from_millis(100);
        let options = CacheOptions { watches_max: 0, ttl, ..Default::default() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        let root = directory(&volume, "").await;
        assert_eq!(root.entries(9).await.unwrap()[0].attributes.size, 1);
        fs::write(tree.path("one"), "11111").unwrap();
        time::sleep(ttl).await;
        assert_eq!(root.entries(9).await.unwrap()[0].attributes.size, 5);
    });
}

#[test]
fn a_file_truncated_while_it_is_read_is_reported() {
    on_tree(|tree| async move {
        fs::write(tree.path("file"), vec![7; 100_000]).unwrap();
        settle().await;
        let volume = tree.volume(VolumeOptions::default());
        let (open, before) = file(&volume, "file").await;
        let buf = lane::current().buffers().get(BufClass::Small).await;
        let (read, buf) = open.read_at(0, 30_000, buf).await;
        assert_eq!((read.unwrap(), buf.len()), (30_000, 30_000));
        open.check_unchanged(&before.change_token()).unwrap();
        fs::File::options().write(true).open(tree.path("file")).unwrap().set_len(40_000).unwrap();
        assert!(matches!(open.check_unchanged(&before.change_token()), Err(Error::Changed)));
        let mut into = [0; 100];
        assert_eq!(open.try_read_at(40_000, &mut into).unwrap(), Some(0));
        assert_eq!(volume.counters().changed_while_read.get(), 1);
    });
}

#[test]
fn a_rename_over_a_file_being_read_is_no_change_of_it() {
    on_tree(|tree| async move {
        fs::write(tree.path("file"), "old").unwrap();
        let volume = tree.volume(VolumeOptions::default());
        let (open, before) = file(&volume, "file").await;
        fs::write(tree.path("other"), "new").unwrap();
        fs::rename(tree.path("other"), tree.path("file")).unwrap();
        open.check_unchanged(&before.change_token()).unwrap();
    });
}

#[test]
fn two_volumes_of_one_directory_share_its_watch_and_both_hear_of_changes() {
    on_tree(|tree| async move {
        fs::create_dir(tree.path("sub")).unwrap();
        fs::write(tree.path("sub/file"), "old").unwrap();
        fs::hard_link(tree.path("sub/file"), tree.path("keeps-old-alive")).unwrap();
        let cache = Cache::new(patient());
        let open = |path: PathBuf| {
            let spec = VolumeSpec::new("v".parse().unwrap(), path, VolumeOptions::default());
            Volume::open(&cache, &spec).unwrap()
        };
        let (outer, inner) = (open(tree.path("")), open(tree.path("sub")));
        assert_eq!(text(&outer, "sub/file").await.unwrap(), "old");
        assert_eq!(text(&inner, "file").await.unwrap(), "old");
        assert_eq!(cache.counters().watches.get(), 2);
        fs::write(tree.path("new"), "new").unwrap();
        fs::rename(tree.path("new"), tree.path("sub/file")).unwrap();
        until(async || text(&outer, "sub/file").await.unwrap() == "new").await;
        until(async || text(&inner, "file").await.unwrap() == "new").await;
    });
}

#[test]
fn what_the_process_may_not_read_is_denied() {
    if rustix::process::geteuid().is_root() {
        // Root reads everything; the mapping itself is proved beside the error type.
        return;
    }
    on_tree(|tree| async move {
        fs::write(tree.path("file"), "x").unwrap();
        fs::set_permissions(tree.path("file"), fs::Permissions::from_mode(0o000)).unwrap();
        let volume = tree.volume(VolumeOptions::default());
        assert!(matches!(lookup(&volume, "file").await, Err(Error::AccessDenied)));
    });
}

#[test]
fn a_program_that_was_uploaded_can_be_run_at_once_though_the_lane_keeps_it_open() {
    on_tree(|tree| async move {
        let cache = Cache::sharing(patient(), &Objects::in_memory(ObjectsOptions::default()));
        let spec = VolumeSpec::new("test".parse().unwrap(), tree.dir.path(), VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let root = directory(&volume, "").await;
        let (anyone, name) = (Caller::anonymous(), Name::parse(b"program").unwrap());
        let program = fs::read("/bin/true").unwrap();
        // A new one, then one in its place.
        for _ in 0..2 {
            let staged = root.stage(&anyone, 0o755).await.unwrap();
            for (chunk, offset) in program.chunks(1 << 14).zip((0..).step_by(1 << 14)) {
                let mut buf = lane::current().buffers().get(BufClass::Small).await;
                assert_eq!(buf.append(chunk), chunk.len());
                staged.write_at(offset, buf).await.0.unwrap();
            }
            drop(staged.publish(&anyone, name, Expect::Anything).await.unwrap());
            assert!(cache.counters().open_cached.get() > 0, "the lane keeps it");
            let before = cache.counters().opens.get();
            // What the lane has put off, its closes, comes in its next turns; what it keeps, it would for half a minute.
            let path = tree.path("program");
            until(async || std::process::Command::new(&path).status().is_ok_and(|status| status.success()))
                .await;
            assert_eq!(file(&volume, "program").await.1.size, program.len() as u64);
            assert_eq!(cache.counters().opens.get(), before, "it was at hand");
        }
    });
}

#[test]
fn a_program_that_was_written_can_be_run_when_its_writer_is_gone() {
    on_tree(|tree| async move {
        let cache = Cache::sharing(patient(), &Objects::in_memory(ObjectsOptions::default()));
        let spec = VolumeSpec::new("test".parse().unwrap(), tree.dir.path(), VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let root = directory(&volume, "").await;
        let anyone = Caller::anonymous();
        let program = fs::read("/bin/true").unwrap();
        // Made as one that is executed, and made so by either way to.
        for (at, mode) in [("made", 0o755), ("by-writer", 0o644), ("by-name", 0o644)] {
            let name = Name::parse(at.as_bytes()).unwrap();
            let created = root.create(&anyone, name, CreateOptions { exclusive: true, mode }).await.unwrap();
            for (chunk, offset) in program.chunks(1 << 14).zip((0..).step_by(1 << 14)) {
                let mut buf = lane::current().buffers().get(BufClass::Small).await;
                assert_eq!(buf.append(chunk), chunk.len());
                created.writer.write_at(&anyone, offset, buf).await.0.unwrap();
            }
            let mode = AttributeChange { mode: Some(0o755), ..AttributeChange::NONE };
            match at {
                "by-writer" => created.writer.set_attributes(&anyone, mode).await.unwrap(),
                "by-name" => root.set_attributes_of(&anyone, name, mode).await.unwrap(),
                _ => {}
            }
            drop(created);
            // The lane's closes come in its next turns.
            let path = tree.path(at);
            until(async || std::process::Command::new(&path).status().is_ok_and(|status| status.success()))
                .await;
            assert_eq!(file(&volume, at).await.1.size, program.len() as u64);
        }
    });
}

#[test]
fn what_is_reached_through_a_link_is_another_as_soon_as_the_link_is_switched() {
    // The link, what it says of a release, and what is asked for by it.
    let shapes: [(&str, &str, &str); 7] = [
        ("current", "releases/{}", "current/page"),
        ("sites/blog/current", "../../releases/{}", "sites/blog/current/deep/page"),
        ("chained/current", "../releases/{}", "public/deep/page"),
        ("away/current", "{top}/releases/{}", "away/current/page"),
        ("latest", "releases/{}/page", "latest"),
        ("over/current", "../sites/../releases/{}", "over/current/page"),
        ("unmade/current", "../releases/{}", "unmade/current/late"),
    ];
    let switches: [fn(&PathBuf, &PathBuf); 3] = [
        // ln -s TARGET new && mv -T new current
        |link, target| {
            let new = link.with_extension("new");
            symlink(target, &new).unwrap();
            fs::rename(new, link).unwrap();
        },
        // ln -sfn of old
        |link, target| {
            fs::remove_file(link).unwrap();
            symlink(target, link).unwrap();
        },
        // The directory with the link makes way for another.
        |link, target| {
            let (above, old) = (link.parent().unwrap(), link.parent().unwrap().with_extension("old"));
            let _ = fs::remove_dir_all(&old);
            fs::rename(above, &old).unwrap();
            fs::create_dir(above).unwrap();
            symlink(target, link).unwrap();
        },
    ];
    for (shape, (link, said, asked)) in shapes.into_iter().enumerate() {
        for (way, switch, kind) in switches.into_iter().enumerate().flat_map(|(way, switch)| {
            [Kind::Plain, Kind::Guarded, Kind::Writable].map(|kind| (way, switch, kind))
        }) {
            if way == 2 && !link.contains('/') {
                continue;
            }
            on_tree(async move |tree: Tree| {
                let target = |release: &str| {
                    let top = tree.dir.path().display().to_string();
                    PathBuf::from(said.replace("{top}", &top).replace("{}", release))
                };
                for release in ["41", "42", "43"] {
                    let deep = tree.path(&format!("releases/{release}/deep"));
                    fs::create_dir_all(&deep).unwrap();
                    fs::write(deep.join("page"), release).unwrap();
                    fs::write(deep.join("../page"), release).unwrap();
                    // What keeps an old file alive does not keep it served.
                    fs::hard_link(deep.join("page"), deep.join("kept")).unwrap();
                }
                let is_late = asked.ends_with("late");
                if is_late {
                    fs::write(tree.path("releases/42/late"), "42").unwrap();
                    fs::write(tree.path("releases/43/late"), "43").unwrap();
                }
                let link = tree.path(link);
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                fs::create_dir_all(tree.path("sites")).unwrap();
                symlink(target("41"), &link).unwrap();
                symlink("chained/current", tree.path("public")).unwrap();
                let volume = tree.volume_of(kind);
                match is_late {
                    true => assert!(matches!(lookup(&volume, asked).await, Err(Error::NotFound))),
                    false => assert_eq!(text(&volume, asked).await.unwrap(), "41"),
                }
                for release in ["42", "43"] {
                    let opens = volume.counters().opens.get();
                    if release == "43" {
                        assert_eq!(text(&volume, asked).await.unwrap(), "42");
                        // Where rights count, each look-up goes the way that a link says.
                        let is_at_hand = volume.counters().opens.get() == opens;
                        assert!(is_at_hand || kind != Kind::Plain, "it is at hand: {shape}");
                    }
                    switch(&link, &target(release));
                    until(async || text(&volume, asked).await.is_ok_and(|text| text == release)).await;
                }
            });
        }
    }
}

#[test]
fn the_far_end_of_a_link_is_watched_as_well() {
    on_tree(|tree| async move {
        fs::create_dir_all(tree.path("releases/41")).unwrap();
        fs::write(tree.path("releases/41/page"), "old").unwrap();
        symlink("releases/41", tree.path("current")).unwrap();
        symlink("releases/41/page", tree.path("latest")).unwrap();
        let volume = tree.volume_with(patient(), VolumeOptions::default());
        for path in ["current/page", "latest"] {
            assert_eq!(text(&volume, path).await.unwrap(), "old");
        }
        assert_eq!(names(&directory(&volume, "current").await).await, ["page"]);
        // It makes way, and is still there under another name.
        fs::rename(tree.path("releases/41/page"), tree.path("releases/41/page.old")).unwrap();
        fs::write(tree.path("releases/41/page"), "new").unwrap();
        for path in ["current/page", "latest"] {
            until(async || text(&volume, path).await.is_ok_and(|text| text == "new")).await;
        }
        settle().await;
        assert_eq!(names(&directory(&volume, "current").await).await, ["page", "page.old"]);
        // The whole release does.
        fs::create_dir_all(tree.path("releases/next")).unwrap();
        fs::write(tree.path("releases/next/page"), "newest").unwrap();
        fs::rename(tree.path("releases/41"), tree.path("releases/40")).unwrap();
        fs::rename(tree.path("releases/next"), tree.path("releases/41")).unwrap();
        for path in ["current/page", "latest"] {
            until(async || text(&volume, path).await.is_ok_and(|text| text == "newest")).await;
        }
        // Bytes that are written in place make nothing doubtful.
        let (opens, routes) = (volume.counters().opens.get(), volume.counters().link_routes.get());
        for n in 0..10 {
            fs::write(tree.path("releases/41/page"), format!("{n}")).unwrap();
            settle().await;
            assert_eq!(text(&volume, "current/page").await.unwrap(), format!("{n}"));
        }
        assert_eq!(volume.counters().opens.get(), opens);
        assert_eq!(volume.counters().link_routes.get(), routes);
    });
}

#[test]
fn without_watches_a_switched_link_is_noticed_when_its_time_is_over() {
    on_tree(|tree| async move {
        for release in ["41", "42"] {
            fs::create_dir_all(tree.path(&format!("releases/{release}"))).unwrap();
            fs::write(tree.path(&format!("releases/{release}/page")), release).unwrap();
        }
        symlink("releases/41", tree.path("current")).unwrap();
        let ttl = Duration::from_millis(200);
        let options = CacheOptions { watches_max: 0, ttl, ..Default::default() };
        let volume = tree.volume_with(options, VolumeOptions::default());
        assert_eq!(text(&volume, "current/page").await.unwrap(), "41");
        symlink("releases/42", tree.path("new")).unwrap();
        fs::rename(tree.path("new"), tree.path("current")).unwrap();
        time::sleep(ttl).await;
        assert_eq!(text(&volume, "current/page").await.unwrap(), "42");
    });
}

/// Every client hears at once, and what was told is counted.
#[derive(Default)]
struct Telling(std::cell::Cell<usize>);

impl vfs::CallbackNotifier for Telling {
    fn knows(&self, _: vfs::Holder) -> bool {
        true
    }

    fn notify(&self, _: &std::sync::Arc<vfs::Client>, notices: Vec<vfs::Notice>) -> vfs::NotifyFuture {
        self.0.set(self.0.get() + notices.len());
        Box::pin(async { vfs::NotifyOutcome::Acknowledged })
    }
}

#[test]
fn stores_through_a_mapping_show_at_once_to_who_reads_and_to_who_caches_when_the_file_is_closed() {
    on_tree(|_| async move {
        // Where the kernel stamps what is stored through mappings, which it does not on tmpfs.
        let tree = Tree { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        let text_of = |letter: u8| String::from_utf8(vec![letter; 4096]).unwrap();
        fs::write(tree.path("mapped"), text_of(b'a')).unwrap();
        let volume = tree.volume_of(Kind::Writable);
        let telling = Rc::new(Telling::default());
        let teller: Rc<dyn vfs::CallbackNotifier> = Rc::clone(&telling) as _;
        volume.cache().add_callback_notifier(&teller);
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        let until_then = time::now() + Duration::from_secs(3600);
        let (caller, at) = (Caller::anonymous(), RelPath::parse(b"mapped").unwrap());
        settle().await;
        let look = volume
            .lookup_with_callback(&caller, &client, at, identity::Rights::READ, until_then)
            .await
            .unwrap();
        look.confirm();
        let (_, before) = file(&volume, "mapped").await;
        // Another program, as mapping takes unsafe code; what it maps is shared.
        let script = "import mmap,os,sys\n\
                      f = os.open(sys.argv[1], os.O_RDWR)\n\
                      m = mmap.mmap(f, 4096)\n\
                      m[:] = b'b' * 4096\n\
                      print('stored', flush=True)\n\
                      sys.stdin.readline()\n\
                      m.close()\n\
                      os.close(f)\n\
                      print('closed', flush=True)\n\
                      sys.stdin.readline()\n";
        let mut python = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(tree.path("mapped"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("python3 maps a file");
        let mut said = std::io::BufReader::new(python.stdout.take().unwrap());
        let mut told = python.stdin.take().unwrap();
        let mut next = || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut said, &mut line).unwrap();
            line.trim().to_owned()
        };
        assert_eq!(next(), "stored");
        // The pages are the file's, and the first store to one moves its time of change.
        assert_eq!(text(&volume, "mapped").await.unwrap(), text_of(b'b'));
        let (_, after) = file(&volume, "mapped").await;
        assert_ne!(before.change_token(), after.change_token());
        time::sleep(Duration::from_millis(200)).await;
        assert_eq!(telling.0.get(), 0, "nothing tells of a store");
        std::io::Write::write_all(&mut told, b"\n").unwrap();
        assert_eq!(next(), "closed");
        until(async || telling.0.get() == 1).await;
        drop(told);
        python.wait().unwrap();
        drop((client, teller));
    });
}

/// The kernel tells of a move in three steps, between which a lane may have looked for the directory already.
#[test]
fn a_directory_that_another_program_moved_is_watched_where_it_is_whenever_its_lane_hears_of_it() {
    on_tree(|tree| async move {
        let volume = tree.volume_of(Kind::Writable);
        let telling = Rc::new(TellingWhich::default());
        let teller: Rc<dyn vfs::CallbackNotifier> = Rc::clone(&telling) as _;
        volume.cache().add_callback_notifier(&teller);
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        let until_then = time::now() + Duration::from_secs(3600);
        let caller = Caller::anonymous();
        for round in 0..12 {
            let (from, to) = (tree.path(&format!("{round}/from")), tree.path(&format!("{round}/to")));
            fs::create_dir_all(&from).unwrap();
            fs::write(from.join("file"), "text").unwrap();
            time::sleep(Duration::from_millis(30)).await;
            let mut relied = None;
            for at in
                [String::new(), format!("{round}"), format!("{round}/from"), format!("{round}/from/file")]
            {
                let at = RelPath::parse(at.as_bytes()).unwrap();
                let need = identity::Rights::READ;
                let look = volume.lookup_with_callback(&caller, &client, at, need, until_then).await.unwrap();
                look.confirm().expect("nothing has changed");
                relied = look.resolved().object().map(|object| object.identity().clone());
            }
            let relied = relied.unwrap();
            time::sleep(Duration::from_millis(30)).await;
            let moving = {
                let to = to.clone();
                std::thread::spawn(move || fs::rename(from, to).unwrap())
            };
            time::sleep(Duration::from_millis(200)).await;
            moving.join().unwrap();
            let (file, other) = (to.join("file"), tree.path("other"));
            let act = move || match round % 3 {
                0 => fs::write(file, "another text").unwrap(),
                1 => fs::remove_file(file).unwrap(),
                _ => {
                    fs::write(&other, "another").unwrap();
                    fs::rename(other, file).unwrap();
                }
            };
            std::thread::spawn(act).join().unwrap();
            let began = time::now();
            while !telling.0.borrow().contains(&relied) {
                assert!(time::now() - began < Duration::from_secs(5), "round {round} was not told of");
                time::sleep(Duration::from_millis(10)).await;
            }
        }
        drop((client, teller));
    });
}

/// Notifier that keeps the identities of what clients are told of.
#[derive(Default)]
struct TellingWhich(std::cell::RefCell<Vec<vfs::Identity>>);

impl vfs::CallbackNotifier for TellingWhich {
    fn knows(&self, _: vfs::Holder) -> bool {
        true
    }

    fn notify(&self, _: &std::sync::Arc<vfs::Client>, notices: Vec<vfs::Notice>) -> vfs::NotifyFuture {
        let objects = notices.into_iter().filter_map(|notice| match notice {
            vfs::Notice::Object(object) => Some(object.identity().clone()),
            vfs::Notice::Volume(_) | vfs::Notice::All => None,
        });
        self.0.borrow_mut().extend(objects);
        Box::pin(async { vfs::NotifyOutcome::Acknowledged })
    }
}

/// Amount that a server keeps of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Rights count in it.
    Guarded,
    Writable,
}

/// A directory to export.
struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn volume(&self, options: VolumeOptions) -> Volume {
        self.volume_with(CacheOptions::default(), options)
    }

    /// Of which nothing but notification tells for a long time.
    fn volume_of(&self, kind: Kind) -> Volume {
        let spec = VolumeSpec::new("test".parse().unwrap(), self.dir.path(), VolumeOptions::default());
        let objects = Objects::in_memory(ObjectsOptions::default());
        match kind {
            Kind::Plain => Volume::open(&Cache::new(patient()), &spec).unwrap(),
            Kind::Guarded => Volume::open(&Cache::sharing(patient(), &objects), &spec.guarded()).unwrap(),
            Kind::Writable => {
                let spec = spec.writable_by(Writable::anyone());
                Volume::open(&Cache::sharing(patient(), &objects), &spec).unwrap()
            }
        }
    }

    fn volume_with(&self, cache: CacheOptions, options: VolumeOptions) -> Volume {
        let spec = VolumeSpec::new("test".parse().unwrap(), self.dir.path(), options);
        Volume::open(&Cache::new(cache), &spec).unwrap()
    }
}

fn on_tree<F: Future<Output = ()> + 'static>(test: impl FnOnce(Tree) -> F) {
    let tree = Tree { dir: tempfile::tempdir().unwrap() };
    run_here(RuntimeOptions::default(), test(tree)).unwrap();
}

/// Times to live beyond any test: what is noticed, notification told.
fn patient() -> CacheOptions {
    CacheOptions { ttl: Duration::from_secs(3600), ..Default::default() }
}

async fn lookup(volume: &Volume, path: &str) -> Result<Resolved, Error> {
    volume.lookup(RelPath::parse(path.as_bytes()).unwrap()).await
}

async fn file(volume: &Volume, path: &str) -> (Rc<OpenFile>, vfs::Attributes) {
    lookup(volume, path).await.unwrap().into_file().unwrap()
}

async fn directory(volume: &Volume, path: &str) -> Directory {
    lookup(volume, path).await.unwrap().into_directory().unwrap().0
}

async fn text(volume: &Volume, path: &str) -> Result<String, Error> {
    let (file, _) = lookup(volume, path).await?.into_file()?;
    Ok(read_all(&file).await)
}

async fn read_all(file: &OpenFile) -> String {
    let buf = lane::current().buffers().get(BufClass::Small).await;
    let (read, buf) = file.read_at(0, usize::MAX, buf).await;
    read.unwrap();
    String::from_utf8(buf.to_vec()).unwrap()
}

async fn names(directory: &Directory) -> Vec<String> {
    let listing = directory.entries(1000).await.unwrap();
    listing.iter().map(|entry| entry.name.escape_ascii().to_string()).collect()
}

/// Waits for what notification brings about.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was noticed within five seconds");
}

/// Longer than the tick of the file system's clock.
async fn settle() {
    time::sleep(Duration::from_millis(40)).await;
}
