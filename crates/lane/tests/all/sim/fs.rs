use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

use lane::backend::sim::{Config, Remains, World, seeds};
use lane::buffer::BufClass;
use lane::fs::{Dir, EntryChange, OpenHow, OpenKind, WatchEvent, watch_events};
use lane::net::tcp::SentFile;
use lane::{spawn, time};

use crate::sim::{accept, connect, listen, pattern, receive_all};

#[test]
fn names_never_lead_out_of_the_directory() {
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.write("/etc/passwd", "root").unwrap();
    fs.write("/srv/inner", "x").unwrap();
    fs.write("/srv/sub/file", "x").unwrap();
    fs.symlink("/etc/passwd", "/srv/escape").unwrap();
    fs.symlink("../etc/passwd", "/srv/escape2").unwrap();
    fs.symlink("inner", "/srv/alias").unwrap();
    fs.symlink("loop", "/srv/loop").unwrap();
    fs.symlink("..", "/srv/sub/up").unwrap();
    fs.pipe("/srv/pipe").unwrap();
    fs.write("/srv/secret", "x").unwrap();
    fs.set_mode("/srv/secret", 0).unwrap();
    world.block_on(&host, async {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        let open = |name: &str, how| {
            let name = CString::new(name).unwrap();
            let root = &root;
            async move { root.open(&name, how).await.map(drop).map_err(|e| e.raw_os_error().unwrap()) }
        };
        let directory = OpenHow { kind: OpenKind::Directory, symlinks: true, write: false };
        for _ in 0..20 {
            assert_eq!(open("escape", OpenHow::FOLLOW).await, Err(libc::EXDEV));
            assert_eq!(open("escape2", OpenHow::FOLLOW).await, Err(libc::EXDEV));
            assert_eq!(open("../..", OpenHow::FOLLOW).await, Err(libc::EXDEV));
            assert_eq!(open("sub/../..", OpenHow::FOLLOW).await, Err(libc::EXDEV));
            assert_eq!(open("sub/../inner", OpenHow::FOLLOW).await, Ok(()));
            assert_eq!(open("sub/up/inner", OpenHow::FOLLOW).await, Ok(()));
            assert_eq!(open("sub/up/../inner", OpenHow::FOLLOW).await, Err(libc::EXDEV));
            assert_eq!(open("/etc/passwd", OpenHow::FOLLOW).await, Err(libc::EXDEV));
            assert_eq!(open("alias", OpenHow::FOLLOW).await, Ok(()));
            assert_eq!(open("alias", OpenHow::NO_SYMLINKS).await, Err(libc::ELOOP));
            assert_eq!(open("loop", OpenHow::FOLLOW).await, Err(libc::ELOOP));
            assert_eq!(open("pipe", OpenHow::FOLLOW).await, Err(libc::ENXIO));
            assert_eq!(open("absent", OpenHow::FOLLOW).await, Err(libc::ENOENT));
            assert_eq!(open("inner/x", OpenHow::FOLLOW).await, Err(libc::ENOTDIR));
            assert_eq!(open("inner/", OpenHow::FOLLOW).await, Err(libc::ENOTDIR));
            assert_eq!(open("inner", directory).await, Err(libc::ENOTDIR));
            assert_eq!(open("secret", OpenHow::FOLLOW).await, Err(libc::EACCES));
            assert_eq!(open(&"x".repeat(256), OpenHow::FOLLOW).await, Err(libc::ENAMETOOLONG));
            assert_eq!(open(".", directory).await, Ok(()));
        }
        let stat = root.stat_at(&CString::new("alias").unwrap()).await.unwrap();
        assert_eq!(stat.kind, lane::fs::FileKind::Symlink);
        assert_eq!(root.entries(100).await.unwrap().len(), 8);
        assert_eq!(root.entries(3).await.unwrap_err().raw_os_error(), Some(libc::EFBIG));
        let (mut listed, mut position) = (0, 0);
        while let Some(next) = root
            .entries_part(position, 2048)
            .await
            .map(|part| {
                listed += part.entries.len();
                part.next
            })
            .unwrap()
        {
            position = next;
        }
        assert_eq!(listed, 8);
        let (mut named, mut position) = (0, 0);
        while let Some(next) = root
            .names_part(position, 2048)
            .await
            .map(|part| {
                named += part.iter().count();
                part.next
            })
            .unwrap()
        {
            position = next;
        }
        assert_eq!(named, 8);
    });
}

#[test]
fn a_read_gives_the_bytes_of_the_file_however_the_disk_serves_them() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::rough());
        let host = world.host("10.0.0.1");
        host.fs().write("/srv/file", pattern(200_000)).unwrap();
        world.block_on(&host, async {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let file = root.open(&CString::new("file").unwrap(), OpenHow::FOLLOW).await.unwrap();
            assert_eq!(file.stat().unwrap().size, 200_000);
            let buf = lane::current().buffers().get(BufClass::Large).await;
            let (read, buf) = file.read_at(50_000, 1 << 20, buf).await;
            assert_eq!(read.unwrap(), 150_000);
            assert!(buf[..] == pattern(200_000)[50_000..]);
        });
    });
}

#[test]
fn a_file_goes_to_the_socket_whole_and_a_shorter_one_says_so() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::rough());
        let server = world.host("10.0.0.1");
        server.fs().write("/srv/file", pattern(300_000)).unwrap();
        server.spawn(async {
            let stream = accept(&listen(80)).await;
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let file = root.open(&CString::new("file").unwrap(), OpenHow::FOLLOW).await.unwrap();
            let mut seen = 0;
            let sent = stream.send_file(&file, 0, 300_000, |n| seen += n).await.unwrap();
            assert_eq!((sent, seen), (SentFile::All, 300_000));
            let sent = stream.send_file(&file, 299_990, 20, |_| ()).await.unwrap();
            assert_eq!(sent, SentFile::EndedAfter(10));
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async {
            let stream = connect("10.0.0.1:80").await.unwrap();
            let received = receive_all(&stream).await.unwrap();
            assert!(
                received[..300_000] == pattern(300_000) && received[300_000..] == received[299_990..300_000]
            );
        });
    });
}

#[test]
fn sending_a_file_with_holes_in_the_page_cache_never_waits_in_the_kernel() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::clean());
        let server = world.host("10.0.0.1");
        let content = pattern(6_000_000);
        server.fs().write("/f", content.clone()).unwrap();
        // Its ends are in memory, as those of each megabyte.
        let start = 1_000_000 + seed * 7919;
        for hole in [start..start + 1, 2_200_000..2_300_000, 5_999_000..5_999_100] {
            server.fs().evict("/f", hole).unwrap();
        }
        server.spawn(async {
            let root = Dir::open_root(Path::new("/")).unwrap();
            let file = root.open(&c"f".to_owned(), OpenHow::FOLLOW).await.unwrap();
            let stream = accept(&listen(80)).await;
            assert_eq!(stream.send_file(&file, 0, 6_000_000, |_| ()).await.unwrap(), SentFile::All);
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async move {
            let stream = connect("10.0.0.1:80").await.unwrap();
            assert!(receive_all(&stream).await.unwrap() == content);
        });
        assert_eq!(server.fs().blocked_sends(), 0);
    });
}

#[test]
fn a_file_truncated_while_it_is_sent_ends_short_and_a_replaced_one_stays_as_it_was() {
    seeds(50, |seed| {
        let mut config = Config::default();
        config.net.tcp.send_buffer = 20_000;
        let world = World::new(seed, config);
        let server = world.host("10.0.0.1");
        let fs = server.fs();
        fs.write("/srv/cut", pattern(200_000)).unwrap();
        fs.write("/srv/swapped", pattern(200_000)).unwrap();
        server.spawn(async {
            let listener = listen(80);
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            for name in ["cut", "swapped"] {
                let stream = listener.accept().await.unwrap();
                let file = root.open(&CString::new(name).unwrap(), OpenHow::FOLLOW).await.unwrap();
                match stream.send_file(&file, 0, 200_000, |_| ()).await.unwrap() {
                    SentFile::All => {}
                    SentFile::EndedAfter(_) => stream.reset(),
                }
            }
        });
        let client = world.host("10.0.0.2");
        world.block_on(&client, async move {
            let stream = connect("10.0.0.1:80").await.unwrap();
            let first = stream.recv().await.unwrap();
            assert!(!first.is_empty());
            fs.truncate("/srv/cut", 1000).unwrap();
            assert!(receive_all(&stream).await.is_err());
            let stream = connect("10.0.0.1:80").await.unwrap();
            let mut received = stream.recv().await.unwrap().to_vec();
            fs.replace("/srv/swapped", vec![0; 200_000]).unwrap();
            received.extend(receive_all(&stream).await.unwrap());
            assert!(received == pattern(200_000));
        });
    });
}

#[test]
fn changes_in_a_watched_directory_are_told() {
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.create_dir_all("/srv/sub").unwrap();
    world.block_on(&host, async move {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        let watch = root.watch().unwrap();
        assert_eq!(root.watch().unwrap(), watch);
        let entry = |name: &str, what| WatchEvent::Entry {
            watch,
            name: name.as_bytes().to_vec(),
            what,
            is_directory: false,
        };
        let changing = fs.clone();
        let changer = spawn(async move {
            time::sleep(Duration::from_secs(1)).await;
            changing.write("/srv/new", "content").unwrap();
            changing.append("/srv/new", b"!").unwrap();
            changing.rename("/srv/new", "/srv/other").unwrap();
            changing.remove("/srv/other").unwrap();
            changing.write("/srv/sub/unwatched", "").unwrap();
        });
        // Events of the same entry and kind in a row are one.
        let told = [
            entry("new", EntryChange::Added),
            entry("new", EntryChange::Modified),
            entry("new", EntryChange::MovedAway),
            entry("other", EntryChange::MovedHere),
            entry("other", EntryChange::Removed),
        ];
        assert_eq!(watch_events().await.unwrap(), told);
        changer.await;
        fs.write("/srv/lost", "").unwrap();
        fs.overflow_watches();
        assert_eq!(watch_events().await.unwrap(), [WatchEvent::Overflow]);
        fs.rename("/srv", "/elsewhere").unwrap();
        assert_eq!(watch_events().await.unwrap(), [WatchEvent::Gone(watch)]);
    });
}

#[test]
fn a_loss_of_power_tears_what_was_not_synced_and_keeps_what_was() {
    let mut outcomes = std::collections::BTreeSet::new();
    seeds(50, |seed| {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        let writer = fs.writer("/data").unwrap();
        writer.write_at(0, &[1; 2048]).unwrap();
        writer.sync().unwrap();
        writer.write_at(256, &[2; 1024]).unwrap();
        assert_eq!(fs.read("/data").unwrap()[300], 2);
        host.lose_power();
        host.restart();
        let bytes = fs.read("/data").unwrap();
        assert_eq!(bytes.len(), 2048);
        assert!(bytes[..256].iter().chain(&bytes[1280..]).all(|&byte| byte == 1));
        // Sectors are whole.
        let sectors = [&bytes[256..512], &bytes[512..1024], &bytes[1024..1280]];
        assert!(sectors.iter().all(|sector| sector.iter().all(|&byte| byte == sector[0])));
    });
    for seed in 0..100 {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        let writer = host.fs().writer("/data").unwrap();
        writer.write_at(0, &[1; 1024]).unwrap();
        host.lose_power();
        let bytes = host.fs().read("/data").unwrap();
        outcomes.insert(bytes.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>());
    }
    let all = [vec![], vec![0, 0], vec![1, 0], vec![0, 1], vec![1, 1]];
    assert_eq!(outcomes, all.into(), "the old size, or the new one with none, either or both of the sectors");
}

#[test]
fn failing_and_slow_disks_fail_and_are_slow() {
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.write("/srv/file", pattern(1000)).unwrap();
    world.block_on(&host, async move {
        let root = Dir::open_root(Path::new("/srv")).unwrap();
        let name = CString::new("file").unwrap();
        let file = root.open(&name, OpenHow::FOLLOW).await.unwrap();
        fs.configure(|config| {
            config.read_error = 1.0;
            config.name_error = 1.0;
        });
        let buf = lane::current().buffers().get(BufClass::Small).await;
        let (read, _) = file.read_at(0, 10, buf).await;
        assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(root.stat_at(&name).await.unwrap_err().raw_os_error(), Some(libc::EIO));
        fs.configure(|config| {
            config.name_error = 0.0;
            config.slow = 1.0;
        });
        let before = time::now();
        root.stat_at(&name).await.unwrap();
        assert_eq!(time::now() - before, Duration::from_secs(2));
    });
}

#[test]
fn opens_that_were_given_up_leave_nothing_open_however_late_they_succeed() {
    seeds(50, |seed| {
        let mut config = Config::default();
        config.fs.cold_open = 1.0;
        config.fs.slow = 0.2;
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        host.fs().write("/srv/file", "content").unwrap();
        world.block_on(&host, async {
            let root = Dir::open_root(Path::new("/srv")).unwrap();
            let name = CString::new("file").unwrap();
            for wait in 0..100 {
                let patience = Duration::from_micros(wait * 30);
                let _ = time::timeout(patience, root.open(&name, OpenHow::FOLLOW)).await;
            }
            drop(root);
            time::sleep(Duration::from_secs(10)).await;
        });
        assert_eq!(host.descriptors(), 0);
        assert_eq!(host.counters(0).files.get(), 0);
        assert_eq!(world.end(), Remains::default());
    });
}
