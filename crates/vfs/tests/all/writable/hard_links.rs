//! Files with several names: what a file is does not hang on one of them, so nothing that happens to a name hides a change of the content,
//! loses the file's number or leaves a client without word.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use grants::{Access, Share};
use identity::{Rights, Writable};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, Fs, World};
use lane::time;
use vfs::{
    CheckOptions, CreateOptions, Directory, Error, Expect, Holder, Number, Objects, ObjectsOptions, OpenHow,
    Replace, Volume,
};

use super::access::operator;
use super::callbacks::{Said, Service, look_with_callback};
use super::changes::{buf, read, write};
use super::grants::EVERYTHING;
use super::{Process, directory, name, nobody, on_lanes, path, root, watched};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
/// Long enough for notification and for the search for files that are no longer where they were.
const SOON: Duration = Duration::from_secs(1);
const A_WHILE: Duration = Duration::from_millis(100);
/// Longer than a lane remembers what is not used.
const LONG: Duration = Duration::from_secs(400);

/// Fate of the first of two names.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Removed,
    RemovedElsewhere,
    PutOver,
    RenamedOver,
    LinkedOver,
    Exchanged,
    Moved,
}

const LOSSES: [Loss; 7] = [
    Loss::Removed,
    Loss::RemovedElsewhere,
    Loss::PutOver,
    Loss::RenamedOver,
    Loss::LinkedOver,
    Loss::Exchanged,
    Loss::Moved,
];

async fn make(above: &Directory, at: &str, text: &str) -> Number {
    let made = above.create(&nobody(), name(at), NEW).await.unwrap();
    write(&made.writer, 0, text).await.unwrap();
    made.writer.file().object().unwrap().number()
}

async fn put(above: &Directory, at: &str, text: &str) -> Result<Number, Error> {
    let staged = above.stage(&nobody(), 0o644).await?;
    staged.write_at(0, buf(text).await).await.0?;
    let published = staged.publish(&nobody(), name(at), Expect::Anything).await?;
    Ok(published.file.object().unwrap().number())
}

impl Loss {
    /// Of the file that has the names `first` and `second` in the root.
    async fn happens(self, volume: &Volume) {
        let top = root(volume).await;
        match self {
            Self::Removed => top.remove(&nobody(), name("first")).await.unwrap(),
            Self::RemovedElsewhere => {
                // Nothing of it is at hand when it goes.
                volume.cache().clear();
                root(volume).await.remove(&nobody(), name("first")).await.unwrap();
            }
            Self::PutOver => drop(put(&top, "first", "another").await.unwrap()),
            Self::RenamedOver => {
                make(&top, "other", "other").await;
                top.rename(&nobody(), name("other"), &top, name("first"), Replace::Existing).await.unwrap();
            }
            Self::LinkedOver => {
                let other = make(&top, "other", "other").await;
                let to = (name("other"), name("first"));
                top.link_to(&nobody(), other, to.0, &top, to.1, Replace::Existing).await.unwrap();
            }
            Self::Exchanged => {
                make(&top, "other", "other").await;
                top.exchange(&nobody(), name("first"), &top, name("other")).await.unwrap();
            }
            Self::Moved => {
                let there = top.make_directory(&nobody(), name("there"), 0o755).await.unwrap();
                top.rename(&nobody(), name("first"), &there, name("first"), Replace::Never).await.unwrap();
            }
        }
    }
}

#[test]
fn whatever_becomes_of_one_name_a_write_by_another_is_the_next_version_and_told() {
    for loss in LOSSES {
        for (relies, is_in_use) in [(false, false), (false, true), (true, false), (true, true)] {
            watched(Writable::anyone(), move |volume, fs| async move {
                let service = Service::on(&volume, &Rc::default());
                let client = volume.cache().client(Holder(1)).unwrap();
                let top = root(&volume).await;
                let file = make(&top, "first", "text").await;
                top.link(&nobody(), name("first"), name("second")).await.unwrap();
                let in_use = volume.lookup(path("second")).await.unwrap();
                let in_use = Some(in_use).filter(|_| is_in_use);
                time::sleep(A_WHILE).await;
                loss.happens(&volume).await;
                time::sleep(A_WHILE).await;
                let before = match (relies, &in_use) {
                    (true, _) => {
                        look_with_callback(&volume, &client, "second").await.confirm().unwrap().version
                    }
                    // No client looks before it is written.
                    (false, Some(file)) => file.object().unwrap().version(),
                    (false, None) => volume.lookup(path("second")).await.unwrap().object().unwrap().version(),
                };
                service.told.take();
                time::sleep(A_WHILE).await;
                fs.write("/srv/second", "by another program").unwrap();
                time::sleep(SOON).await;
                if relies {
                    assert_eq!(service.told.borrow().len(), 1, "{loss:?}: who relies on it hears");
                }
                let look = look_with_callback(&volume, &client, "second").await;
                assert_eq!(look.resolved().object().unwrap().number(), file, "{loss:?}");
                let now = look.confirm().unwrap();
                assert!(now.version > before, "{loss:?}, {relies}, {is_in_use}: {:?}", now.version);
                assert_eq!(now.attributes.size, 18);
            });
        }
    }
}

#[test]
fn whatever_becomes_of_one_name_what_nobody_writes_keeps_its_version() {
    for loss in LOSSES {
        watched(Writable::anyone(), move |volume, _| async move {
            let top = root(&volume).await;
            make(&top, "first", "text").await;
            top.link(&nobody(), name("first"), name("second")).await.unwrap();
            let client = volume.cache().client(Holder(1)).unwrap();
            let before = look_with_callback(&volume, &client, "second").await.confirm().unwrap().version;
            time::sleep(A_WHILE).await;
            loss.happens(&volume).await;
            time::sleep(SOON).await;
            volume.cache().clear();
            let now = look_with_callback(&volume, &client, "second").await.confirm().unwrap().version;
            assert_eq!(now, before, "{loss:?}");
        });
    }
}

/// The third name's place varies, and the name that the file was looked at by last before the first goes.
#[test]
fn a_number_leads_to_its_file_for_as_long_as_that_has_a_name() {
    for (opens, handles) in [(true, true), (false, true), (false, false)] {
        for to in ["g", ""] {
            for looked_at in [None, Some("d/a"), Some("e/b")] {
                let mut config = Config::clean();
                (config.fs.open_by_handle, config.fs.handles) = (opens, handles);
                on_lanes(1, config, 1, move |_, _, volume| async move {
                    let what = format!("to {to:?}, looked at {looked_at:?}, handles {handles}, {opens}");
                    let top = root(&volume).await;
                    for at in ["d", "e", "g"] {
                        top.make_directory(&nobody(), name(at), 0o755).await.unwrap();
                    }
                    let [d, e] = [directory(&volume, "d").await, directory(&volume, "e").await];
                    let there = directory(&volume, to).await;
                    let file = put(&d, "a", "text").await.unwrap();
                    d.link_to(&nobody(), file, name("a"), &e, name("b"), Replace::Never).await.unwrap();
                    if looked_at == Some("e/b") {
                        volume.cache().clear();
                        volume.lookup(path("e/b")).await.unwrap();
                    }
                    e.rename(&nobody(), name("b"), &there, name("b"), Replace::Never).await.unwrap();
                    if looked_at == Some("d/a") {
                        volume.cache().clear();
                        volume.lookup(path("d/a")).await.unwrap();
                    }
                    d.remove(&nobody(), name("a")).await.unwrap();
                    let found = volume.find(&nobody(), file, Rights::READ).await;
                    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(read(&found.into_file().unwrap().0).await, "text", "{what}");
                    there.remove(&nobody(), name("b")).await.unwrap();
                    let gone = volume.find(&nobody(), file, Rights::READ).await;
                    assert!(matches!(gone, Err(Error::Stale)), "{what}: {gone:?}");
                });
            }
        }
    }
}

/// Action of another program on `/srv/a`, a name of the file that a client relies on.
type Act = fn(&Fs);

#[test]
fn who_relies_on_a_file_hears_within_a_second_of_what_another_program_does_to_any_name_of_it() {
    let acts: [(&str, Act); 4] = [
        ("removed", |fs| fs.remove("/srv/a").unwrap()),
        ("replaced", |fs| fs.replace("/srv/a", "new").unwrap()),
        ("moved", |fs| fs.rename("/srv/a", "/srv/elsewhere").unwrap()),
        ("linked", |fs| fs.hard_link("/srv/a", "/srv/more").unwrap()),
    ];
    for (what, act) in acts {
        // The names that it has, and by which it was found last; what is busy with something else before.
        for (names, found) in [(&["a"][..], "a"), (&["a", "b"], "a"), (&["a", "b"], "b")] {
            for waits in [A_WHILE, Duration::from_secs(5)] {
                watched(Writable::anyone(), move |volume, fs| async move {
                    let service = Service::on(&volume, &Rc::default());
                    let client = volume.cache().client(Holder(1)).unwrap();
                    let top = root(&volume).await;
                    make(&top, "a", "text").await;
                    if let [_, other] = names {
                        top.link(&nobody(), name("a"), name(other)).await.unwrap();
                    }
                    volume.cache().clear();
                    let look = look_with_callback(&volume, &client, found).await;
                    time::sleep(waits).await;
                    // A client works in the directory.
                    fs.write("/srv/beside", "").unwrap();
                    fs.remove("/srv/beside").unwrap();
                    time::sleep(A_WHILE).await;
                    service.told.take();
                    assert!(look.confirm().is_some());
                    act(&fs);
                    time::sleep(SOON).await;
                    let file = look.resolved().object().unwrap().identity().clone();
                    let heard = service.told.take();
                    assert_eq!(heard, [(1, Said::Object(file))], "{what}, {names:?}, {found}, {waits:?}");
                });
            }
        }
    }
}

#[test]
fn what_another_program_has_changed_is_told_and_read_whatever_an_open_shares() {
    watched(Writable::anyone(), |volume, fs| async move {
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let top = root(&volume).await;
        put(&top, "page", "text").await.unwrap();
        let reading = OpenHow { access: Access::READ, share: Share::from_bits(1), ..EVERYTHING };
        let (open, _) = volume.open_shared(&nobody(), path("page"), &reading, &mut |_| {}).await.unwrap();
        let mut version = look_with_callback(&volume, &client, "page").await.confirm().unwrap().version;
        for (act, rises) in [
            ((|fs| fs.write("/srv/page", "more text").unwrap()) as Act, true),
            (|fs| fs.set_mode("/srv/page", 0o600).unwrap(), false),
            (|fs| fs.hard_link("/srv/page", "/srv/more").unwrap(), false),
        ] {
            time::sleep(A_WHILE).await;
            act(&fs);
            time::sleep(SOON).await;
            assert_eq!(service.told.take().len(), 1, "who relies on it hears");
            let now = look_with_callback(&volume, &client, "page").await.confirm().unwrap().version;
            assert_eq!(now > version, rises);
            version = now;
        }
        open.close(&volume, &nobody()).await.unwrap();
    });
}

/// Whichever of two names goes after a restart that was in order.
#[test]
fn a_name_that_goes_after_a_restart_changes_no_version() {
    for gone in ["first", "second"] {
        for is_at_hand in [false, true] {
            let world = World::new(1, Config::clean());
            let mut process = Process::new(&world, 1);
            process.writable = Writable::anyone();
            let storage = Memory::default();
            let live = || {
                let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
                let objects = Objects::new(ObjectsOptions::default(), Arc::clone(&index));
                (Process { objects, ..process.clone() }, index)
            };
            let (first, index) = live();
            world.block_on(&process.host, async move {
                let volume = first.volume();
                let top = root(&volume).await;
                make(&top, "first", "text").await;
                top.link(&nobody(), name("first"), name("second")).await.unwrap();
                time::sleep(A_WHILE).await;
                volume.cache().clear();
            });
            index.close().unwrap();
            process.host.fs().sync_all().unwrap();
            process.host.restart();
            let (after, _index) = live();
            world.block_on(&process.host, async move {
                let volume = after.volume();
                let other = if gone == "first" { "second" } else { "first" };
                let version = async |at| volume.lookup(path(at)).await.unwrap().object().unwrap().version();
                let before = version(other).await;
                if is_at_hand {
                    volume.lookup(path(gone)).await.unwrap();
                } else {
                    volume.cache().clear();
                }
                time::sleep(A_WHILE).await;
                root(&volume).await.remove(&nobody(), name(gone)).await.unwrap();
                assert_eq!(version(other).await, before, "{gone}, {is_at_hand}: at once");
                volume.cache().clear();
                assert_eq!(version(other).await, before, "{gone}, {is_at_hand}: when it is used anew");
            });
            world.end();
        }
    }
}

#[test]
fn what_is_renamed_as_one_file_is_not_another_that_has_its_name_by_now() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let top = root(&volume).await;
        let file = make(&top, "page", "first").await;
        let (from, to) = (name("page"), name("moved"));
        let another = put(&top, "page", "second").await.unwrap();
        let refused = top.rename_if(&nobody(), file, from, &top, to, Replace::Existing).await;
        assert!(matches!(refused, Err(Error::Unexpected)), "{refused:?}");
        let fs = process.host.fs();
        assert_eq!(
            (fs.read("/srv/page").unwrap(), fs.read("/srv/moved").is_ok()),
            (b"second".to_vec(), false)
        );
        top.rename_if(&nobody(), another, from, &top, to, Replace::Existing).await.unwrap();
        assert_eq!(fs.read("/srv/moved").unwrap(), b"second");
    });
}

#[test]
fn an_upload_that_a_directory_refuses_leaves_neither_a_file_nor_a_record() {
    for has_unnamed in [true, false] {
        let world = World::new(1, Config::clean());
        let mut process = Process::new(&world, 1);
        process.writable = Writable::anyone();
        let storage = Memory::default();
        let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
        let objects = Objects::new(ObjectsOptions::default(), Arc::clone(&index));
        process.objects = objects;
        let fs = process.host.fs();
        fs.configure(|config| config.unnamed = has_unnamed);
        let serving = process.clone();
        world.block_on(&process.host, async move {
            let volume = serving.volume();
            let top = root(&volume).await;
            top.make_directory(&operator(), name("d"), 0o755).await.unwrap();
            for _ in 0..3 {
                let refused = put(&top, "d", "text").await;
                assert!(matches!(refused, Err(Error::IsADirectory)), "{refused:?}");
            }
            volume.cache().clear();
            drop((top, volume));
            time::sleep(SOON).await;
        });
        drop(process.objects);
        index.close().unwrap();
        drop(index);
        let left: Vec<_> = fs.tree().into_keys().filter(|at| at.contains(".linerate-")).collect();
        assert!(left.is_empty(), "{left:?}");
        let index = Arc::new(Index::open(storage, Options::default()).unwrap());
        let (id, _) = index.volumes()[0].clone();
        let report = world.block_on(&process.host, async move {
            let options = CheckOptions { repair: false, trusted_attributes: false };
            vfs::check(&index, id, options, Arc::default()).await.unwrap()
        });
        assert!(report.is_clean(), "{has_unnamed}: {report:?}");
    }
}

#[test]
fn a_name_in_a_directory_that_nobody_watches_hides_no_change_from_who_relies_on_the_file() {
    let acts: [(&str, Act); 3] = [
        ("written", |fs| fs.write("/srv/e/b", "by another program").unwrap()),
        ("cut", |fs| fs.truncate("/srv/e/b", 2).unwrap()),
        ("moved and written", |fs| {
            fs.rename("/srv/e/b", "/srv/e/c").unwrap();
            fs.write_at("/srv/e/c", 1, b"X").unwrap();
        }),
    ];
    for (what, act) in acts {
        for (again, bulk) in [(false, false), (false, true), (true, false)] {
            watched(Writable::anyone(), move |volume, fs| async move {
                let service = Service::on(&volume, &Rc::default());
                let client = volume.cache().client(Holder(1)).unwrap();
                let top = root(&volume).await;
                for at in ["d", "e"] {
                    top.make_directory(&nobody(), name(at), 0o755).await.unwrap();
                }
                make(&directory(&volume, "d").await, "a", "text").await;
                fs.hard_link("/srv/d/a", "/srv/e/b").unwrap();
                time::sleep(LONG).await;
                let before = match bulk {
                    false => look_with_callback(&volume, &client, "d/a").await.confirm().unwrap().version,
                    true => {
                        volume.lookup(path("d/a")).await.unwrap();
                        let until = time::now() + 3 * LONG;
                        let look = volume.try_lookup_with_callback(
                            &nobody(),
                            &client,
                            path("d/a"),
                            Rights::READ,
                            until,
                        );
                        look.unwrap().unwrap().confirm().unwrap().version
                    }
                };
                if again {
                    // The name that it is known by is another, and its watch is made anew.
                    fs.rename("/srv/d/a", "/srv/d/z").unwrap();
                    time::sleep(SOON).await;
                    look_with_callback(&volume, &client, "d/z").await.confirm().unwrap();
                }
                time::sleep(LONG).await;
                service.told.take();
                act(&fs);
                time::sleep(SOON).await;
                assert_eq!(service.told.borrow().len(), 1, "{what}, {again}, {bulk}: who relies on it hears");
                let at = if again { "d/z" } else { "d/a" };
                let now = look_with_callback(&volume, &client, at).await.confirm().unwrap().version;
                assert!(now > before, "{what}, {again}, {bulk}");
            });
        }
    }
}
