//! Tests of a server's files in trouble. The power goes or the process is killed in the middle of a change;
//! the disk is full, refuses or forgets.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::path::Path;
use std::rc::Rc;

use lane::backend::sim::{Config, Fs, JournalKind, World, seeds};
use lane::buffer::{Buf, BufClass};
use lane::fs::{
    Allocate, AttributeChange, CreateHow, Dir, File, LockKind, OpenHow, RenameHow, SyncOf, XattrHow,
};

#[test]
fn a_file_that_is_synced_and_then_renamed_is_old_or_new_whenever_the_power_goes() {
    for journal in [JournalKind::Ordered, JournalKind::Unordered] {
        let (seen, acknowledged) = (RefCell::new(BTreeSet::new()), Cell::new(0));
        seeds(200, |seed| {
            let mut config = Config::clean();
            config.fs.journal = journal;
            let world = World::new(seed, config);
            let host = world.host("10.0.0.1");
            host.fs().write("/srv/file", vec![b'o'; 6000]).unwrap();
            host.fs().lose_power_after(seed % 6);
            let done = Rc::new(Cell::new(false));
            let told = Rc::clone(&done);
            host.spawn(async move {
                replace(&vec![b'n'; 9000]).await.unwrap();
                told.set(true);
            });
            world.run_for(std::time::Duration::from_secs(1));
            if done.get() {
                host.lose_power();
            }
            host.restart();
            let left = host.fs().read("/srv/file").unwrap();
            let is_new = left == vec![b'n'; 9000];
            assert!(is_new || left == vec![b'o'; 6000], "{} bytes are neither", left.len());
            assert!(is_new || !done.get(), "the server was told that it is safe");
            acknowledged.set(acknowledged.get() + u32::from(done.get()));
            let aside = host.fs().tree().keys().filter(|path| path.as_str() == "/srv/aside").count();
            seen.borrow_mut().insert((is_new, aside));
        });
        if acknowledged.get() > 1 {
            let all = match journal {
                JournalKind::Ordered => [(false, 0), (false, 1), (true, 0)].into(),
                JournalKind::Unordered => BTreeSet::from([(false, 0), (false, 1), (true, 0), (true, 1)]),
            };
            assert_eq!(*seen.borrow(), all, "new or not, and left aside or not");
        }
    }
}

#[test]
fn what_a_killed_process_wrote_stays_and_its_descriptors_and_locks_go() {
    let steps = Cell::new(BTreeSet::new());
    seeds(100, |seed| {
        let world = World::new(seed, Config::clean());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.write("/srv/file", "old").unwrap();
        // There are five: the last of these never comes.
        let (after, is_killed) = (1 + seed % 5, seed % 5 < 4);
        fs.kill_after(after);
        host.spawn(async {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let held = root.open(&name("file"), OpenHow::WRITE).await.unwrap();
            held.try_lock(0, 10, LockKind::Exclusive).await.unwrap();
            replace(b"new").await.unwrap();
            std::future::pending::<()>().await;
        });
        world.run_for(std::time::Duration::from_secs(1));
        if !is_killed {
            assert!(fs.lock("/srv/file", 0..10, LockKind::Shared).is_ok(), "it has another file now");
        }
        assert_eq!((fs.steps(), host.descriptors()), (after, if is_killed { 0 } else { 2 }));
        host.kill();
        assert_eq!(host.descriptors(), 0);
        drop(fs.lock("/srv/file", 0..10, LockKind::Exclusive).unwrap());
        let aside = fs.read("/srv/aside").ok();
        let left = (fs.read("/srv/file").unwrap(), aside);
        let mut all = steps.take();
        all.insert(left);
        steps.set(all);
        host.restart();
        host.fs().sync_all().unwrap();
        assert_eq!(fs.tree(), fs.tree_on_disk());
    });
    let whole = |bytes: &str| bytes.as_bytes().to_vec();
    let all = [(whole("new"), None), (whole("old"), Some(whole("new"))), (whole("old"), Some(whole("")))];
    assert!(steps.into_inner().is_subset(&all.into()));
}

#[test]
fn a_killed_server_leaves_its_peers_a_closed_stream() {
    let world = World::new(1, Config::clean());
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    server.spawn(crate::sim::echo_server(80));
    let killed = server.clone();
    world.block_on(&client, async move {
        let stream = crate::sim::connect("10.0.0.1:80").await.unwrap();
        crate::sim::send(&stream, b"hello").await.unwrap();
        assert_eq!(&stream.recv().await.unwrap()[..], b"hello");
        killed.kill();
        assert!(stream.recv().await.is_ok_and(|bytes| bytes.is_empty()), "the kernel closes what it had");
        let refused = crate::sim::connect("10.0.0.1:80").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        killed.restart();
        killed.spawn(crate::sim::echo_server(80));
        lane::time::sleep(std::time::Duration::from_millis(1)).await;
        assert!(crate::sim::connect("10.0.0.1:80").await.is_ok());
    });
}

#[test]
fn a_file_without_a_name_is_gone_with_the_power_and_a_removed_one_with_its_last_descriptor() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::clean());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.create_dir_all("/srv").unwrap();
        let free = fs.system();
        let outside = fs.clone();
        world.block_on(&host, async move {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let unnamed = root.create_unnamed(0o600).await.unwrap();
            write(&unnamed, 0, &[1; 5000]).await.unwrap();
            unnamed.sync(SyncOf::All).await.unwrap();
            assert_eq!(free.blocks_free - outside.system().blocks_free, 2);
            let removed = root.create(&name("removed"), NEW).await.unwrap();
            write(&removed, 0, &[2; 5000]).await.unwrap();
            root.unlink(&name("removed")).await.unwrap();
            assert_eq!((removed.stat().unwrap().size, removed.stat().unwrap().nlink), (5000, 0));
            assert_eq!(free.blocks_free - outside.system().blocks_free, 4);
            drop(removed);
            assert_eq!(free.blocks_free - outside.system().blocks_free, 2);
            let linked = root.create_unnamed(0o600).await.unwrap();
            write(&linked, 0, &[3; 100]).await.unwrap();
            linked.sync(SyncOf::All).await.unwrap();
            root.link(&linked, &name("linked")).await.unwrap();
            root.sync().await.unwrap();
        });
        host.lose_power();
        host.restart();
        assert_eq!(fs.read("/srv/linked").unwrap(), [3; 100]);
        assert_eq!(fs.tree().len(), 2);
        assert_eq!(free.blocks_free - fs.system().blocks_free, 1);
        assert_eq!(free.files_free - fs.system().files_free, 1);
    });
}

#[test]
fn every_description_that_was_open_is_told_once_that_something_was_lost() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.write("/srv/file", "").unwrap();
    world.block_on(&host, async move {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        let open = || async { root.open(&name("file"), OpenHow::WRITE).await.unwrap() };
        let (one, other) = (open().await, open().await);
        write(&one, 0, b"lost").await.unwrap();
        fs.configure(|config| config.sync_error = 1.0);
        assert_eq!(errno(one.sync(SyncOf::All).await), Err(libc::EIO));
        fs.configure(|config| config.sync_error = 0.0);
        let later = open().await;
        assert_eq!(errno(one.sync(SyncOf::All).await), Ok(()));
        assert_eq!(errno(other.sync(SyncOf::All).await), Err(libc::EIO));
        assert_eq!(errno(other.sync(SyncOf::All).await), Ok(()));
        assert_eq!(errno(later.sync(SyncOf::All).await), Ok(()), "it was opened after that was told");
        assert_eq!(fs.read("/srv/file").unwrap(), b"lost", "until memory forgets it");
    });
}

#[test]
fn what_the_disk_refused_is_seen_until_memory_forgets_it() {
    let (lost, kept) = (Cell::new(0), Cell::new(0));
    seeds(40, |seed| {
        let world = World::new(seed, Config::clean());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.write("/srv/file", vec![1; 512]).unwrap();
        let outside = fs.clone();
        world.block_on(&host, async move {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let file = root.open(&name("file"), OpenHow::WRITE).await.unwrap();
            write(&file, 0, &[2; 512]).await.unwrap();
            outside.configure(|config| config.sync_error = 1.0);
            assert_eq!(errno(file.sync(SyncOf::All).await), Err(libc::EIO));
            assert_eq!(outside.read("/srv/file").unwrap(), [2; 512]);
            outside.evict("/srv/file", 0..512).unwrap();
        });
        let seen = fs.read("/srv/file").unwrap();
        host.lose_power();
        assert_eq!(fs.read("/srv/file").unwrap(), seen, "memory has it as the disk has");
        let tally = if seen == [1; 512] { &lost } else { &kept };
        tally.set(tally.get() + 1);
    });
    assert!(lost.get() + kept.get() < 40 || (lost.get() > 0 && kept.get() > 0));
}

#[test]
fn room_is_counted_to_the_page_and_its_end_is_told() {
    for (quota, full) in [(false, libc::ENOSPC), (true, libc::EDQUOT)] {
        let mut config = Config::clean();
        config.fs.capacity_bytes = 10 * 4096;
        if quota {
            (config.fs.quota_bytes, config.fs.capacity_bytes) = (10 * 4096, 1 << 30);
        }
        let world = World::new(1, config);
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.create_dir_all("/srv").unwrap();
        let used = move || fs.system().blocks - fs.system().blocks_free;
        world.block_on(&host, async move {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let one = root.create(&name("one"), NEW).await.unwrap();
            write(&one, 0, &[1; 4 * 4096 + 1]).await.unwrap();
            assert_eq!(used(), 5);
            // A hole takes no room, and a page of it that is written does.
            one.truncate(1 << 30).await.unwrap();
            write(&one, 1 << 29, b"x").await.unwrap();
            assert_eq!(used(), 6);
            let other = root.create(&name("other"), NEW).await.unwrap();
            other.reflink_from(&one).await.unwrap();
            assert_eq!(used(), 6);
            write(&other, 5, b"x").await.unwrap();
            assert_eq!(used(), 7);
            // What fits of a write is written before it is refused.
            assert_eq!(errno(write(&other, 100 * 4096, &[3; 5 * 4096]).await), Err(full));
            assert_eq!(used(), 10);
            assert_eq!(errno(write(&other, 200 * 4096, b"x").await), Err(full));
            write(&other, 5, b"in place").await.unwrap();
            assert_eq!(errno(write(&one, 4096, b"x").await), Err(full), "it is shared");
            assert_eq!(errno(other.allocate(Allocate::KeepSize, 300 * 4096, 4096).await), Err(full));
            other.allocate(Allocate::Punch, 100 * 4096, 2 * 4096).await.unwrap();
            assert_eq!(used(), 8);
            other.allocate(Allocate::KeepSize, 300 * 4096, 2 * 4096).await.unwrap();
            assert_eq!(used(), 10);
            write(&other, 300 * 4096, &[4; 2 * 4096]).await.unwrap();
            drop(other);
            root.unlink(&name("other")).await.unwrap();
            assert_eq!(used(), 6);
            one.truncate(1).await.unwrap();
            assert_eq!(used(), 1);
        });
    }
}

#[test]
fn inodes_end_and_are_had_again() {
    let mut config = Config::clean();
    config.fs.capacity_inodes = 5;
    let world = World::new(1, config);
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.create_dir_all("/srv").unwrap();
    world.block_on(&host, async move {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        for file in ["a", "b"] {
            drop(root.create(&name(file), NEW).await.unwrap());
        }
        root.mkdir(&name("c"), 0o755).await.unwrap();
        assert_eq!(errno(root.mkdir(&name("d"), 0o755).await), Err(libc::ENOSPC));
        assert_eq!(errno(root.symlink(&name("d"), &name("a")).await), Err(libc::ENOSPC));
        assert_eq!(errno(root.create_unnamed(0o600).await.map(drop)), Err(libc::ENOSPC));
        root.unlink(&name("a")).await.unwrap();
        root.symlink(&name("d"), &name("b")).await.unwrap();
        fs.configure(|config| config.quota_inodes = 4);
        assert_eq!(errno(root.mkdir(&name("e"), 0o755).await), Err(libc::EDQUOT));
    });
}

#[test]
fn a_handle_names_one_file_for_ever() {
    let mut reused = 0;
    for seed in 0..20 {
        let world = World::new(seed, Config::clean());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.write("/srv/first", "1").unwrap();
        let reused_here = world.block_on(&host, async move {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let handle = root.handle_at(&name("first")).await.unwrap();
            let first = root.open_handle(&handle, false).await.unwrap();
            let number = first.stat().unwrap().ino;
            fs.rename("/srv/first", "/elsewhere").unwrap();
            assert_eq!(root.open_handle(&handle, true).await.unwrap().stat().unwrap().ino, number);
            fs.remove("/elsewhere").unwrap();
            drop(root.open_handle(&handle, false).await.expect("it is open yet"));
            drop(first);
            assert_eq!(errno(root.open_handle(&handle, false).await.map(drop)), Err(libc::ESTALE));
            let second = root.create(&name("second"), NEW).await.unwrap();
            assert_eq!(errno(root.open_handle(&handle, false).await.map(drop)), Err(libc::ESTALE));
            assert_ne!(second.handle().await.unwrap(), handle);
            fs.configure(|config| config.stale_handle = 1.0);
            let own = second.handle().await.unwrap();
            assert_eq!(errno(root.open_handle(&own, false).await.map(drop)), Err(libc::ESTALE));
            fs.configure(|config| config.open_by_handle = false);
            assert_eq!(errno(root.open_handle(&own, false).await.map(drop)), Err(libc::EPERM));
            fs.configure(|config| config.handles = false);
            assert_eq!(errno(second.handle().await.map(drop)), Err(libc::EOPNOTSUPP));
            second.stat().unwrap().ino == number
        });
        reused += u32::from(reused_here);
    }
    assert_eq!(reused, 20, "numbers are taken again at once");
}

#[test]
fn a_file_system_refuses_what_it_must() {
    let mut config = Config::clean();
    config.fs.links_max = 3;
    config.fs.xattr_bytes_max = 100;
    let world = World::new(1, config);
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.write("/srv/file", "content").unwrap();
    world.block_on(&host, async move {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        let file = root.open(&name("file"), OpenHow::WRITE).await.unwrap();
        root.link(&file, &name("2")).await.unwrap();
        root.link(&file, &name("3")).await.unwrap();
        assert_eq!(errno(root.link(&file, &name("4")).await), Err(libc::EMLINK));
        root.mkdir(&name("only"), 0o755).await.unwrap();
        assert_eq!(errno(root.mkdir(&name("another"), 0o755).await), Err(libc::EMLINK));
        assert_eq!(
            errno(file.set_xattr(&name("user.a"), vec![0; 200], XattrHow::Any).await),
            Err(libc::ENOSPC)
        );
        file.set_xattr(&name("user.a"), vec![0; 50], XattrHow::Any).await.unwrap();
        assert_eq!(
            errno(file.set_xattr(&name("user.b"), vec![0; 20], XattrHow::Any).await),
            Err(libc::ENOSPC)
        );
        assert_eq!(errno(file.set_xattr(&name("trusted.a"), vec![], XattrHow::Any).await), Err(libc::EPERM));
        let given = AttributeChange { uid: Some(1), ..AttributeChange::NONE };
        assert_eq!(errno(file.set_attributes(given).await), Err(libc::EPERM));
        fs.configure(|config| config.privileged = true);
        file.set_xattr(&name("trusted.a"), vec![], XattrHow::Any).await.unwrap();
        file.set_attributes(given).await.unwrap();
        fs.configure(|config| (config.privileged, config.reflinks) = (false, false));
        assert_eq!(errno(file.set_attributes(given).await), Err(libc::EPERM), "it is another's");
        assert_eq!(file.xattrs().await.unwrap(), [name("user.a")]);
        let other = root.create(&name("other"), NEW).await.unwrap();
        assert_eq!(errno(other.reflink_from(&file).await), Err(libc::EOPNOTSUPP));
        for (number, configure) in [
            (libc::EIO, &|fs: &Fs| fs.configure(|config| config.change_error = 1.0)),
            (libc::EROFS, &|fs: &Fs| fs.configure(|config| config.read_only = true)),
        ] as [(i32, &dyn Fn(&Fs)); 2]
        {
            configure(&fs);
            assert_eq!(errno(root.create(&name("new"), NEW).await.map(drop)), Err(number));
            assert_eq!(errno(root.mkdir(&name("new"), 0o755).await), Err(number));
            assert_eq!(errno(root.unlink(&name("2")).await), Err(number));
            assert_eq!(errno(root.rmdir(&name("only")).await), Err(number));
            let moved = root.rename(&name("2"), &root, &name("5"), RenameHow::Replace).await;
            assert_eq!(errno(moved), Err(number));
            assert_eq!(errno(file.truncate(1).await), Err(number));
            assert_eq!(errno(file.set_xattr(&name("user.c"), vec![], XattrHow::Any).await), Err(number));
            assert_eq!(errno(root.link(&other, &name("6")).await), Err(number));
            assert_eq!(errno(root.symlink(&name("7"), &name("2")).await), Err(number));
        }
        assert_eq!(errno(root.open(&name("file"), OpenHow::WRITE).await.map(drop)), Err(libc::EROFS));
        assert_eq!(errno(root.create(&name("file"), NEW).await.map(drop)), Err(libc::EEXIST));
        assert_eq!(errno(write(&other, 0, b"x").await), Err(libc::EROFS));
    });
}

#[test]
fn locks_of_other_processes_are_seen_and_see_ours() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.write("/srv/file", "content").unwrap();
    world.block_on(&host, async move {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        let file = root.open(&name("file"), OpenHow::WRITE).await.unwrap();
        let theirs = fs.lock("/srv/file", 10..20, LockKind::Shared).unwrap();
        assert_eq!(errno(file.try_lock(0, 11, LockKind::Exclusive).await), Err(libc::EAGAIN));
        file.try_lock(0, 10, LockKind::Exclusive).await.unwrap();
        file.try_lock(10, 5, LockKind::Shared).await.unwrap();
        let refused = fs.lock("/srv/file", 5..6, LockKind::Shared);
        assert_eq!(errno(refused.map(drop)), Err(libc::EAGAIN));
        assert_eq!(errno(fs.lock("/srv/file", 12..14, LockKind::Exclusive).map(drop)), Err(libc::EAGAIN));
        drop(theirs);
        file.try_lock(0, 0, LockKind::Exclusive).await.unwrap();
        assert!(fs.lock("/srv/file", 1 << 40..1 << 41, LockKind::Shared).is_err());
        drop(file);
        assert!(fs.lock("/srv/file", 0..1, LockKind::Exclusive).is_ok());
    });
}

/// Replaces a file in five steps: a new file beside, its bytes, safe; its name over the old one, safe.
async fn replace(bytes: &[u8]) -> io::Result<()> {
    let root = Dir::open_root(Path::new("/srv")).unwrap();
    let aside = root.create(&name("aside"), NEW).await?;
    write(&aside, 0, bytes).await?;
    aside.sync(SyncOf::All).await?;
    root.rename(&name("aside"), &root, &name("file"), RenameHow::Replace).await?;
    root.sync().await
}

async fn write(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut buf: Buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(bytes), bytes.len());
    file.write_at(offset, buf).await.0
}

fn name(name: &str) -> CString {
    CString::new(name).unwrap()
}

fn errno<T>(result: io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(0))
}

const NEW: CreateHow = CreateHow { mode: 0o644, exclusive: true };
