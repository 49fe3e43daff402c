//! Changes of a file's content in several steps: one version for all, unless there was a look in between; and
//! attributes of what cannot be opened to write.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Rights, Writable};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, World, seeds};
use lane::buffer::{Buf, BufClass};
use lane::fs::{Allocate, AttributeChange, SetTime, Timestamp};
use lane::time;
use vfs::{
    Cache, CacheOptions, CallbackNotifier, Client, CreateOptions, Error, Holder, Notice, NotifyFuture,
    NotifyOutcome, Objects, ObjectsOptions, Quota, Replace, Version, Volume, VolumeOptions, VolumeSpec,
};

use super::{Process, name, nobody, path, root, watched};

/// A notifier of clients that hear at once.
#[derive(Default)]
struct Telling(RefCell<Vec<Holder>>);

impl CallbackNotifier for Telling {
    fn knows(&self, _: Holder) -> bool {
        true
    }

    fn notify(&self, client: &Arc<Client>, _: Vec<Notice>) -> NotifyFuture {
        self.0.borrow_mut().push(client.holder());
        Box::pin(async { NotifyOutcome::Acknowledged })
    }
}

async fn version(volume: &Volume, at: &str) -> Version {
    volume.lookup(path(at)).await.unwrap().object().unwrap().version()
}

async fn filled(byte: u8, len: usize) -> Vec<Buf> {
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(&vec![byte; len]), len);
    vec![buf]
}

#[test]
fn steps_of_one_change_raise_the_version_once_unless_a_client_looks_in_between() {
    watched(Writable::anyone(), |volume, fs| async move {
        let telling = Rc::new(Telling::default());
        let teller: Rc<dyn CallbackNotifier> = Rc::clone(&telling) as _;
        volume.cache().add_callback_notifier(&teller);
        let (writer, reader) = (Holder(1), volume.cache().client(Holder(2)).unwrap());
        let writing = nobody().sparing(writer);
        let root = root(&volume).await;
        let made =
            root.create(&writing, name("f"), CreateOptions { exclusive: true, mode: 0o644 }).await.unwrap();
        let first = version(&volume, "f").await;

        let store = made.writer.store(&writing);
        assert_eq!(store.version(), None);
        store.reserve(0, 3000).await.unwrap();
        assert_eq!(version(&volume, "f").await, first, "room is no content");
        for step in 0..3 {
            let (written, bufs) = store.write_vectored_at(step * 1000, filled(b'x', 1000).await).await;
            written.unwrap();
            assert_eq!(bufs.map(|bufs| bufs.len()), Some(1));
        }
        store.truncate(2500).await.unwrap();
        assert_eq!(version(&volume, "f").await, first.next());
        assert_eq!(store.version(), Some(first.next()));
        assert_eq!(fs.read("/srv/f").unwrap(), vec![b'x'; 2500]);

        // Another store begins the next version; a look ends what its steps share, as it shows the half of it.
        let store = made.writer.store(&writing);
        store.write_vectored_at(0, filled(b'y', 10).await).await.0.unwrap();
        let until = time::now() + Duration::from_secs(60);
        let look_with_callback =
            volume.lookup_with_callback(&nobody(), &reader, path("f"), Rights::READ, until).await.unwrap();
        assert_eq!(look_with_callback.confirm().unwrap().version, first.next().next());
        store.write_vectored_at(10, filled(b'y', 10).await).await.0.unwrap();
        assert_eq!(version(&volume, "f").await, first.next().next().next());
        assert_eq!(*telling.0.borrow(), [Holder(2)], "who looked is told that the rest has come");
        assert!(look_with_callback.confirm().is_none());
    });
}

#[test]
fn what_has_no_room_changes_neither_content_nor_version() {
    let mut config = Config::clean();
    config.fs.capacity_bytes = 2 << 20;
    let world = World::new(1, config);
    let process = Process::new(&world, 1);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = process.volume();
        let root = root(&volume).await;
        let made =
            root.create(&nobody(), name("f"), CreateOptions { exclusive: true, mode: 0o644 }).await.unwrap();
        let before = version(&volume, "f").await;
        let store = made.writer.store(&nobody());
        assert!(matches!(store.reserve(0, 8 << 20).await, Err(Error::NoSpace)));
        assert_eq!((version(&volume, "f").await, store.version()), (before, None));
        store.reserve(0, 1 << 20).await.unwrap();
        assert_eq!(process.host.fs().read("/srv/f").unwrap(), b"");
    });
}

#[test]
fn what_is_announced_takes_room_as_it_comes_is_charged_and_given_back_however_it_ends() {
    const MIB: u64 = 1 << 20;
    /// End of a store.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        /// Nothing comes.
        Silent,
        /// The client goes away after a part.
        Aborted,
        /// The store is shorter in the end than announced.
        Cut,
        /// All has come.
        Whole,
        /// Beyond what there is room for.
        Full,
    }
    for end in [End::Silent, End::Aborted, End::Cut, End::Whole, End::Full] {
        let mut config = Config::clean();
        config.fs.capacity_bytes = 64 << 20;
        let world = World::new(1, config);
        let mut process = Process::new(&world, 1);
        process.quota = Quota { bytes: Some(32 * MIB), files: None };
        let host = process.host.clone();
        world.block_on(&host, async move {
            let (volume, fs) = (process.volume(), process.host.fs());
            super::usage::count(&volume).await;
            let free = || {
                let system = fs.system();
                system.blocks_free * system.block_bytes
            };
            let root = root(&volume).await;
            let made = root
                .create(&nobody(), name("f"), CreateOptions { exclusive: true, mode: 0o644 })
                .await
                .unwrap();
            let before = free();
            let store = made.writer.store(&nobody());
            assert!(matches!(store.reserve(0, 33 * MIB).await, Err(Error::Quota)));
            let announced = 16 * MIB;
            store.reserve(0, announced).await.unwrap();
            assert_eq!(free(), before, "what is announced takes nothing");
            volume.fits(31 * MIB).unwrap();
            let piece = async || {
                let mut buf = lane::current().buffers().get(BufClass::Large).await;
                buf.append(&[b'x'; 64 << 10]);
                vec![buf]
            };
            let mut came = 0;
            let most = match end {
                End::Silent => 0,
                End::Aborted | End::Cut => 5 * MIB,
                End::Whole | End::Full => announced,
            };
            while came < most {
                if end == End::Full && came == 8 * MIB {
                    fs.write("/srv/other", vec![1; usize::try_from(free()).unwrap()]).unwrap();
                }
                let (written, _) = store.write_vectored_at(came, piece().await).await;
                if matches!(written, Err(Error::NoSpace)) && end == End::Full {
                    break;
                }
                written.unwrap();
                came += 64 << 10;
                let taken = before - free();
                if end != End::Full || came <= 8 * MIB {
                    assert!(taken <= 2 * came + MIB + (64 << 10), "{taken} for {came}");
                    assert!(taken >= came, "{taken} for {came}");
                    // What is taken is shared room: it counts.
                    assert!(
                        matches!(volume.fits(32 * MIB - taken + 1), Err(Error::Quota)),
                        "{taken} for {came}"
                    );
                    assert!(volume.fits(32 * MIB - taken).is_ok(), "{taken} for {came}");
                }
            }
            if end == End::Cut {
                store.truncate(MIB).await.unwrap();
                came = MIB;
            }
            drop(store);
            time::sleep(Duration::from_millis(100)).await;
            if end == End::Full {
                fs.remove("/srv/other").unwrap();
            }
            assert_eq!(fs.stat("/srv/f").unwrap().size, came, "{end:?}");
            assert_eq!(before - free(), came, "{end:?}: nothing but the content is left taken");
            volume.fits(32 * MIB - came).unwrap();
            // Nor does anything else than content take room in vain.
            made.writer.allocate(&nobody(), Allocate::KeepSize, 0, 20 * MIB).await.unwrap();
            assert_eq!(before - free(), came, "{end:?}: set aside for nobody");
            let much = made.writer.allocate(&nobody(), Allocate::KeepSize, 0, 40 * MIB).await;
            assert!(matches!(much, Err(Error::Quota)), "{much:?}");
        });
    }
}

#[test]
fn room_ahead_of_a_store_is_given_back_by_the_start_after_a_kill() {
    const MIB: u64 = 1 << 20;
    let beside = tempfile::tempdir().unwrap();
    let record = beside.path().join("room");
    let mut config = Config::clean();
    config.fs.capacity_bytes = 256 * MIB;
    let world = World::new(1, config);
    let host = world.host("10.0.0.1");
    host.fs().create_dir_all("/srv/closed").unwrap();
    let mut memory = Memory::journaled();
    let start = |memory: &Memory| {
        let options = Options { boot: [1; 16], ..Options::default() };
        let index = Arc::new(Index::open(memory.clone(), options).unwrap());
        let objects = Objects::new(ObjectsOptions { lanes_max: 1, ..Default::default() }, index);
        objects.record_room_in(&record).unwrap();
        objects
    };
    let open = |objects: &Objects| {
        let cache = Cache::sharing(CacheOptions::default(), objects);
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
        Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap()
    };
    let free = |host: &lane::backend::sim::Host| {
        let system = host.fs().system();
        system.blocks_free * system.block_bytes
    };
    let before = free(&host);
    let objects = start(&memory);
    let storing = {
        let objects = objects.clone();
        host.start_on(0, async move {
            let volume = open(&objects);
            let (root, closed) = (root(&volume).await, super::directory(&volume, "closed").await);
            let mut stores = Vec::new();
            for (directory, at) in [(&root, "moved"), (&closed, "in"), (&root, "gone"), (&root, "whole")] {
                let made = directory
                    .create(&nobody(), name(at), CreateOptions { exclusive: true, mode: 0o600 })
                    .await;
                let made = made.unwrap();
                let store = made.writer.store(&nobody());
                let announced = if at == "whole" { 3 * MIB } else { 40 * MIB };
                store.reserve(0, announced).await.unwrap();
                for offset in (0..3 * MIB).step_by(64 << 10) {
                    let mut buf = lane::current().buffers().get(BufClass::Large).await;
                    buf.append(&[b'x'; 64 << 10]);
                    store.write_vectored_at(offset, vec![buf]).await.0.unwrap();
                }
                stores.push((made, store));
            }
            // One that has come to its end leaves nothing to do.
            drop(stores.pop());
            root.rename(&nobody(), name("moved"), &closed, name("there"), Replace::Never).await.unwrap();
            root.remove(&nobody(), name("gone")).await.unwrap();
            std::future::pending::<()>().await;
        })
    };
    world.run_for(Duration::from_secs(5));
    let at_the_kill = before - free(&host);
    assert!(at_the_kill > 4 * 3 * MIB + 2 * MIB, "{at_the_kill}");
    for lives in 0..2 {
        memory = memory.parted();
        host.kill();
        host.restart();
        let objects = start(&memory);
        if lives == 0 {
            // Killed before it has come to it.
            continue;
        }
        // Only the operator of the machine may go there.
        host.fs().set_mode("/srv/closed", 0o700).unwrap();
        let swept = host.start_on(0, async move {
            let volume = open(&objects);
            volume.sweep().await;
            assert_eq!(volume.counters().room_given_back.get(), 2);
        });
        world.block_on(&host, swept);
    }
    drop((storing, objects));
    for path in ["/srv/closed/there", "/srv/closed/in", "/srv/whole"] {
        assert_eq!(host.fs().stat(path).unwrap().size, 3 * MIB, "{path}");
    }
    assert_eq!(before - free(&host), 3 * 3 * MIB, "nothing but content is left taken");
    assert!(std::fs::read(&record).unwrap().iter().all(|byte| *byte == 0), "nothing is recorded any more");
}

#[test]
fn attributes_of_a_file_that_nobody_may_write_to_and_of_a_link_can_be_set() {
    watched(Writable::anyone(), |volume, _| async move {
        let root = root(&volume).await;
        root.create(&nobody(), name("f"), CreateOptions { exclusive: true, mode: 0o400 }).await.unwrap();
        root.symlink(&nobody(), name("l"), b"f").await.unwrap();
        let before = version(&volume, "f").await;
        let at = Timestamp { secs: 1_000_000, nanos: 0 };
        let change = AttributeChange { mode: Some(0o640), mtime: SetTime::At(at), ..AttributeChange::NONE };
        for of in ["f", "l"] {
            root.set_attributes_of(&nobody(), name(of), change).await.unwrap();
        }
        let attributes = *volume.lookup(path("f")).await.unwrap().attributes();
        assert_eq!((attributes.mode & 0o777, attributes.mtime), (0o640, at));
        assert_eq!(version(&volume, "f").await, before);
        let refused = root.set_attributes_of(&nobody(), name("none"), change).await;
        assert!(matches!(refused, Err(Error::NotFound)));
        let owner = AttributeChange { uid: Some(1), ..AttributeChange::NONE };
        let refused = root.set_attributes_of(&nobody(), name("f"), owner).await;
        assert!(matches!(refused, Err(Error::Denied(_))));
        root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let refused = root.set_attributes_of(&nobody(), name("d"), change).await;
        assert!(matches!(refused, Err(Error::IsADirectory)));
    });
}

#[test]
fn what_one_client_writes_through_one_lane_and_relies_on_by_another_is_nobody_elses_change() {
    seeds(50, |seed| {
        let world = World::new(seed, Config::rough());
        let process = Process::new(&world, 2);
        process.host.fs().write("/srv/f", vec![b'.'; 5000]).unwrap();
        let (is_relied_on, is_over): (Rc<Cell<bool>>, Rc<Cell<bool>>) = Default::default();
        let watching = |process: &Process| {
            let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
            let cache = Cache::sharing(CacheOptions::default(), &process.objects);
            Volume::open(&cache, &spec.with_objects().writable_by(Writable::anyone())).unwrap()
        };
        let (reading, relied_on, over) = (process.clone(), Rc::clone(&is_relied_on), Rc::clone(&is_over));
        let reader = process.host.start_on(process.lanes[1], async move {
            let volume = watching(&reading);
            let telling = Rc::new(Telling::default());
            let teller: Rc<dyn CallbackNotifier> = Rc::clone(&telling) as _;
            volume.cache().add_callback_notifier(&teller);
            let client = volume.cache().client(Holder(1)).unwrap();
            while !over.get() {
                // As a client that reads by one connection what it writes by another; its promise stays between.
                let until = time::now() + Duration::from_secs(60);
                let look = volume
                    .lookup_with_callback(&nobody(), &client, path("f"), Rights::READ, until)
                    .await
                    .unwrap();
                look.confirm();
                relied_on.set(true);
                time::sleep(Duration::from_millis(37)).await;
            }
            assert!(telling.0.borrow().is_empty(), "nobody else has changed it");
            volume.counters().external_changes.get()
        });
        let writing = process.clone();
        let behind = world.block_on(&process.host, async move {
            let volume = watching(&writing);
            let writer = nobody().sparing(Holder(1));
            let file = root(&volume).await.open_writer(&writer, name("f")).await.unwrap();
            while !is_relied_on.get() {
                time::sleep(Duration::from_millis(1)).await;
            }
            for round in 0..20 {
                let store = file.store(&writer);
                // Each needs room that the file does not have yet, and the first bytes may be long in coming.
                store.reserve(round * 10_000, 10_000).await.unwrap();
                time::sleep(Duration::from_millis(13)).await;
                for step in 0..5 {
                    store.write_vectored_at(step * 1000, filled(b'x', 1000).await).await.0.unwrap();
                    // Long enough for notification, on either lane.
                    time::sleep(Duration::from_millis(9)).await;
                }
                store.truncate(4500).await.unwrap();
                time::sleep(Duration::from_millis(15)).await;
            }
            is_over.set(true);
            reader.await + volume.counters().external_changes.get()
        });
        assert_eq!(behind, 0, "a change of ours was taken for somebody else's");
    });
}
