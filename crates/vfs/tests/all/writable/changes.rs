//! Effects of each change, and its refusals.

use lane::backend::sim::Config;
use lane::buffer::{Buf, BufClass};
use vfs::{Attributes, CreateOptions, Directory, Error, OpenFile, Replace, Version, Volume, Writer};

use super::{Process, directory, inode, name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
const ANY: CreateOptions = CreateOptions { exclusive: false, mode: 0o644 };

#[test]
fn a_new_file_is_made_once_and_one_that_is_there_is_opened_as_it_is() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let made = root.create(&nobody(), name("a"), NEW).await.unwrap();
        assert!(made.is_new);
        write(&made.writer, 0, "text").await.unwrap();
        assert!(matches!(root.create(&nobody(), name("a"), NEW).await, Err(Error::Exists)));
        let opened = root.create(&nobody(), name("a"), ANY).await.unwrap();
        assert!(!opened.is_new);
        assert_eq!(opened.attributes.size, 4);
        assert_eq!(text(&volume, "a").await, "text");
        root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let refused = root.create(&nobody(), name("d"), ANY).await;
        assert!(matches!(refused, Err(Error::IsADirectory)), "{refused:?}");
    });
}

#[test]
fn writes_land_where_they_are_told_and_appends_at_the_end() {
    alone(|_, volume| async move {
        let file = root(&volume).await.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        write(&file, 2, "cd").await.unwrap();
        file.append(&nobody(), buf("ef").await).await.0.unwrap();
        assert_eq!(text(&volume, "a").await, "\0\0cdef");
        file.truncate(&nobody(), 3).await.unwrap();
        file.append(&nobody(), buf("!").await).await.0.unwrap();
        assert_eq!(text(&volume, "a").await, "\0\0c!");
        file.truncate(&nobody(), 6).await.unwrap();
        assert_eq!(text(&volume, "a").await, "\0\0c!\0\0");
    });
}

#[test]
fn a_change_adds_exactly_one_to_the_version_of_what_it_changes() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let one = root.make_directory(&nobody(), name("one"), 0o755).await.unwrap();
        let two = root.make_directory(&nobody(), name("two"), 0o755).await.unwrap();
        let mut last = [version(&root), version(&one), version(&two)];
        let mut rises = |by: [u32; 3]| {
            let now = [version(&root), version(&one), version(&two)];
            let rose: Vec<_> = now.iter().zip(last).map(|(now, last)| now.count - last.count).collect();
            assert_eq!(rose, by);
            last = now;
        };
        let file = one.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        rises([0, 1, 0]);
        one.rename(&nobody(), name("a"), &one, name("b"), Replace::Never).await.unwrap();
        rises([0, 1, 0]);
        one.rename(&nobody(), name("b"), &two, name("b"), Replace::Never).await.unwrap();
        rises([0, 1, 1]);
        root.rename(&nobody(), name("one"), &two, name("inner"), Replace::Never).await.unwrap();
        rises([1, 1, 1]);
        two.remove(&nobody(), name("b")).await.unwrap();
        rises([0, 0, 1]);
        two.remove_directory(&nobody(), name("inner")).await.unwrap();
        rises([0, 0, 1]);

        let content = |file: &Writer| file.file().object().unwrap().version();
        let before = content(&file);
        write(&file, 0, "x").await.unwrap();
        file.append(&nobody(), buf("y").await).await.0.unwrap();
        file.truncate(&nobody(), 0).await.unwrap();
        assert_eq!(content(&file), Version { count: before.count + 3, ..before });
        rises([0, 0, 0]);
    });
}

#[test]
fn a_removed_file_lives_on_with_those_who_have_it_open() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let file = root.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        write(&file, 0, "kept").await.unwrap();
        let before = file.file().object().unwrap().version();
        root.remove(&nobody(), name("a")).await.unwrap();
        assert_eq!(inode(&volume, "a").await, None);
        write(&file, 4, "!").await.unwrap();
        assert_eq!(read(file.file()).await, "kept!");
        assert_eq!(file.file().object().unwrap().version(), before.next());
        let again = root.create(&nobody(), name("a"), NEW).await.unwrap();
        assert_ne!(again.attributes.id, file.file().id());
        assert_eq!(text(&volume, "a").await, "");
    });
}

#[test]
fn a_rename_replaces_what_it_may_and_nothing_else() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        for file in ["a", "b"] {
            let made = root.create(&nobody(), name(file), NEW).await.unwrap();
            write(&made.writer, 0, file).await.unwrap();
        }
        for at in ["d", "e", "full"] {
            root.make_directory(&nobody(), name(at), 0o755).await.unwrap();
        }
        directory(&volume, "full").await.create(&nobody(), name("x"), NEW).await.unwrap();
        let rename = async |from: &str, to: &str, over| {
            root.rename(&nobody(), name(from), &root, name(to), over).await
        };
        assert!(matches!(rename("a", "b", Replace::Never).await, Err(Error::Exists)));
        assert!(matches!(rename("none", "b", Replace::Existing).await, Err(Error::NotFound)));
        assert!(matches!(rename("a", "d", Replace::Existing).await, Err(Error::IsADirectory)));
        assert!(matches!(rename("d", "a", Replace::Existing).await, Err(Error::NotADirectory)));
        assert!(matches!(rename("d", "full", Replace::Existing).await, Err(Error::NotEmpty)));
        rename("a", "a", Replace::Existing).await.unwrap();
        rename("a", "b", Replace::Existing).await.unwrap();
        rename("d", "e", Replace::Existing).await.unwrap();
        rename("full", "e", Replace::Existing).await.unwrap();
        assert_eq!(text(&volume, "b").await, "a");
        assert!(inode(&volume, "e/x").await.is_some());
        for gone in ["a", "d", "full"] {
            assert_eq!(inode(&volume, gone).await, None, "{gone}");
        }
    });
}

#[test]
fn a_directory_held_open_is_looked_into_wherever_it_has_moved() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let outer = root.make_directory(&nobody(), name("outer"), 0o755).await.unwrap();
        let held = outer.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let file = held.create(&nobody(), name("x"), NEW).await.unwrap();
        outer.rename(&nobody(), name("d"), &root, name("e"), Replace::Never).await.unwrap();
        outer.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        root.rename(&nobody(), name("e"), &outer, name("f"), Replace::Never).await.unwrap();
        let found = held.lookup(name("x")).await.unwrap();
        assert_eq!(found.attributes().id, file.attributes.id);
        assert!(matches!(held.lookup(name("y")).await, Err(Error::NotFound)));
        held.remove(&nobody(), name("x")).await.unwrap();
        outer.remove_directory(&nobody(), name("f")).await.unwrap();
        let gone = held.lookup(name("x")).await;
        assert!(matches!(gone, Err(Error::Stale)), "{gone:?}");
    });
}

#[test]
fn a_directory_does_not_move_into_itself() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        let outer = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let inner = outer.make_directory(&nobody(), name("e"), 0o755).await.unwrap();
        for into in [&outer, &inner] {
            let moved = root.rename(&nobody(), name("d"), into, name("x"), Replace::Existing).await;
            assert!(matches!(moved, Err(Error::IntoItself)), "{moved:?}");
        }
        assert!(inode(&volume, "d/e").await.is_some());
    });
}

#[test]
fn removals_take_what_they_are_for_and_only_empty_directories() {
    alone(|_, volume| async move {
        let root = root(&volume).await;
        root.create(&nobody(), name("a"), NEW).await.unwrap();
        let inner = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        inner.create(&nobody(), name("x"), NEW).await.unwrap();
        assert!(matches!(root.remove(&nobody(), name("d")).await, Err(Error::IsADirectory)));
        assert!(matches!(root.remove_directory(&nobody(), name("a")).await, Err(Error::NotADirectory)));
        assert!(matches!(root.remove_directory(&nobody(), name("d")).await, Err(Error::NotEmpty)));
        assert!(matches!(root.remove(&nobody(), name("none")).await, Err(Error::NotFound)));
        inner.remove(&nobody(), name("x")).await.unwrap();
        root.remove_directory(&nobody(), name("d")).await.unwrap();
        let refused = inner.create(&nobody(), name("y"), NEW).await;
        assert!(matches!(refused, Err(Error::Stale)), "{refused:?}");
    });
}

#[test]
fn the_servers_own_names_are_nobodys() {
    alone(|process, volume| async move {
        process.host.fs().write("/srv/.linerate-7", "own").unwrap();
        let root = root(&volume).await;
        root.create(&nobody(), name("a"), NEW).await.unwrap();
        let own = name(".linerate-7");
        assert!(matches!(volume.lookup(path(".linerate-7")).await, Err(Error::Hidden)));
        assert!(matches!(root.create(&nobody(), own, ANY).await, Err(Error::Reserved)));
        assert!(matches!(root.make_directory(&nobody(), own, 0o755).await, Err(Error::Reserved)));
        assert!(matches!(root.remove(&nobody(), own).await, Err(Error::Reserved)));
        for (from, to) in [(own, name("b")), (name("a"), own)] {
            let renamed = root.rename(&nobody(), from, &root, to, Replace::Existing).await;
            assert!(matches!(renamed, Err(Error::Reserved)), "{renamed:?}");
        }
        let names: Vec<_> = root.entries(10).await.unwrap().iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(names, [Box::from(*b"a")]);
    });
}

#[test]
fn a_full_disk_is_told_as_such_and_the_version_has_risen() {
    alone(|process, volume| async move {
        let file = root(&volume).await.create(&nobody(), name("a"), NEW).await.unwrap().writer;
        let before = file.file().object().unwrap().version();
        process.host.fs().configure(|fs| fs.write_error = 1.0);
        let refused = write(&file, 0, "x").await.unwrap_err();
        assert!(matches!(refused, Error::NoSpace | Error::Io(_)), "{refused:?}");
        assert_eq!(file.file().object().unwrap().version(), before.next());
        process.host.fs().configure(|fs| fs.write_error = 0.0);
        write(&file, 0, "x").await.unwrap();
    });
}

#[test]
fn a_volume_that_is_not_writable_refuses_every_change() {
    use identity::Writable;
    use vfs::{Cache, CacheOptions, VolumeOptions, VolumeSpec};
    alone(|process, volume| async move {
        drop(volume);
        process.host.fs().write("/ro/a", "x").unwrap();
        let spec = |writable| {
            VolumeSpec::new("ro".parse().unwrap(), "/ro", VolumeOptions::default()).writable_by(writable)
        };
        let cache = Cache::new(CacheOptions::default());
        assert!(matches!(Volume::open(&cache, &spec(Writable::anyone())), Err(Error::ReadOnly)));
        let root = root(&Volume::open(&cache, &spec(Writable::Nobody)).unwrap()).await;
        assert!(root.object().is_none());
        assert!(matches!(root.create(&nobody(), name("b"), NEW).await, Err(Error::ReadOnly)));
        assert!(matches!(root.remove(&nobody(), name("a")).await, Err(Error::ReadOnly)));
        assert!(matches!(root.stage(&nobody(), 0o644).await, Err(Error::ReadOnly)));
    });
}

/// On one lane of a calm world.
fn alone<F: Future<Output = ()> + 'static>(test: impl Fn(Process, Volume) -> F) {
    on_lanes(1, Config::clean(), 1, |_, process, volume| test(process, volume));
}

pub(crate) async fn buf(text: &str) -> Buf {
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(text.as_bytes()), text.len());
    buf
}

pub(crate) async fn write(file: &Writer, offset: u64, text: &str) -> Result<(), Error> {
    file.write_at(&nobody(), offset, buf(text).await).await.0
}

pub(crate) async fn text(volume: &Volume, at: &str) -> String {
    let (file, _): (_, Attributes) = volume.lookup(path(at)).await.unwrap().into_file().unwrap();
    read(&file).await
}

pub(crate) async fn read(file: &OpenFile) -> String {
    let buf = lane::current().buffers().get(BufClass::Small).await;
    let (read, buf) = file.read_at(0, usize::MAX, buf).await;
    read.unwrap();
    String::from_utf8(buf.to_vec()).unwrap()
}

fn version(directory: &Directory) -> Version {
    directory.object().unwrap().version()
}
