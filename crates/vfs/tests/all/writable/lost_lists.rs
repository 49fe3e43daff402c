//! Directories that had lists or descriptors and are found without: denied to all but administrators until
//! one accepts it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Rights, Writable};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, Fs, World};
use lane::time;
use vfs::{
    ACCEPTED_TRUSTED, ACCEPTED_USER, Accepted, Cache, CacheOptions, CheckOptions, Error, ProblemKind,
    Replace, Volume, VolumeOptions, VolumeSpec,
};

use super::access::{alice, directory_as, index, list, operator, reads, root_as, served, sharing};
use super::{name, nobody};

/// Directories that have lists, by their paths; `o` has none.
const LISTED: [&str; 3] = ["d", "d/e", "o/secret"];

/// A tree with a page in each directory, and lists for Alice alone in some.
fn plant(fs: &Fs, top: &str, attribute: Option<&str>) {
    for at in ["d", "d/e", "o", "o/secret", "o/secret/deep"] {
        if at == top || at.starts_with(&format!("{top}/")) || top.is_empty() {
            fs.write(&format!("/srv/{at}/page"), "").unwrap();
            if let Some(attribute) = attribute.filter(|_| LISTED.contains(&at)) {
                let list = list(&[("alice", Rights::READER)]).encode();
                fs.set_xattr(&format!("/srv/{at}"), attribute, &list).unwrap();
            }
        }
    }
}

pub(super) fn world() -> (World, Fs) {
    let world = World::new(1, Config::clean());
    let fs = world.host("10.0.0.1").fs();
    fs.configure(|config| config.privileged = true);
    fs.create_dir_all("/old").unwrap();
    (world, fs)
}

/// Returns which users read the page of each directory: anonymous, Alice, an administrator.
pub(super) async fn readers(volume: &Volume, at: &str) -> [bool; 3] {
    let at = format!("{at}/page");
    [
        reads(volume, &nobody(), &at).await,
        reads(volume, &alice(), &at).await,
        reads(volume, &operator(), &at).await,
    ]
}

pub(super) const OPEN: [bool; 3] = [true; 3];
pub(super) const LISTS: [bool; 3] = [false, true, true];
pub(super) const CLOSED: [bool; 3] = [false, false, true];

async fn all_read(volume: &Volume, wanted: &[(&str, [bool; 3])], why: &str) {
    for (at, wanted) in wanted {
        assert_eq!(readers(volume, at).await, *wanted, "{why}: {at}");
    }
}

fn accept(fs: &Fs, at: &str, sees_trusted: bool, is_of_all: bool, at_ms: u64) {
    let name = if sees_trusted { ACCEPTED_TRUSTED } else { ACCEPTED_USER };
    let value = Accepted { at_ms, is_of_all }.encode();
    fs.set_xattr(at, name.to_str().unwrap(), value.as_bytes()).unwrap();
}

/// The time of day in the world, in milliseconds.
fn now_ms() -> u64 {
    let since = time::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[test]
fn a_directory_restored_without_its_list_at_whatever_depth_is_administrators_until_accepted() {
    for sees_trusted in [true, false] {
        for top in ["d", "d/e", "o", "o/secret"] {
            let (world, fs) = world();
            let attribute = if sees_trusted { "trusted.linerate.acl" } else { "user.linerate.acl" };
            plant(&fs, "", Some(attribute));
            let index = index();
            served(&world, &index, sees_trusted, async |volume| {
                let wanted = [
                    ("d", LISTS),
                    ("d/e", LISTS),
                    ("o", OPEN),
                    ("o/secret", LISTS),
                    ("o/secret/deep", LISTS),
                ];
                all_read(&volume, &wanted, "before").await;
            });
            // `rm -rf TOP; cp -r BACKUP TOP`
            fs.rename(&format!("/srv/{top}"), "/old/it").unwrap();
            plant(&fs, top, None);
            let lost = move |at: &str| at == top || at.starts_with(&format!("{top}/"));
            let wanted = |at: &'static str| {
                let is_beneath_lost = LISTED
                    .iter()
                    .any(|listed| (at == *listed || at.starts_with(&format!("{listed}/"))) && lost(listed));
                let has_own = LISTED.contains(&at) && !lost(at);
                let is_listed =
                    LISTED.iter().any(|listed| at == *listed || at.starts_with(&format!("{listed}/")));
                (
                    at,
                    match (has_own, is_beneath_lost, is_listed) {
                        // A way through what is closed leads nowhere.
                        (true, false, _) | (false, false, true) => LISTS,
                        (_, true, _) => CLOSED,
                        _ => OPEN,
                    },
                )
            };
            let wanted = ["d", "d/e", "o", "o/secret", "o/secret/deep"].map(wanted);
            let when = Rc::new(std::cell::Cell::new(0));
            for _ in 0..2 {
                let when = Rc::clone(&when);
                let top = top.to_owned();
                served(&world, &index, sees_trusted, async move |volume| {
                    all_read(&volume, &wanted, &format!("{top} restored")).await;
                    assert!(!volume.shared().unwrap().lost_lists().is_empty());
                    when.set(now_ms());
                });
            }
            // What was said before the lists were last seen says nothing of them.
            accept(&fs, "/srv", sees_trusted, true, 1);
            let unheard = top.to_owned();
            served(&world, &index, sees_trusted, async move |volume| {
                all_read(&volume, &wanted, &format!("{unheard}: accepted long ago")).await;
            });
            // Where other users may write it is no word of an administrator.
            if sees_trusted {
                accept(&fs, &format!("/srv/{top}"), false, true, when.get());
                let unheard = top.to_owned();
                served(&world, &index, sees_trusted, async move |volume| {
                    all_read(&volume, &wanted, &format!("{unheard}: accepted by another")).await;
                });
            }
            accept(&fs, &format!("/srv/{top}"), sees_trusted, true, when.get());
            for _ in 0..2 {
                served(&world, &index, sees_trusted, async move |volume| {
                    let shared = Arc::clone(volume.shared().unwrap());
                    for at in ["d", "d/e", "o", "o/secret", "o/secret/deep"].iter().filter(|at| lost(at)) {
                        let under_list = top == "d/e";
                        let wanted = if under_list { LISTS } else { OPEN };
                        assert_eq!(readers(&volume, at).await, wanted, "{top} accepted: {at}");
                    }
                    assert_eq!(shared.lost_lists(), Vec::<std::path::PathBuf>::new());
                });
            }
        }
    }
}

#[test]
fn a_loss_is_told_of_until_the_directory_is_back_with_its_list() {
    let (world, fs) = world();
    plant(&fs, "", Some("user.linerate.acl"));
    served(&world, &index(), false, async move |volume| {
        let shared = Arc::clone(volume.shared().unwrap());
        all_read(&volume, &[("d", LISTS)], "before").await;
        // Somebody uses it all the while.
        let used = directory_as(&volume, &operator(), "d").await;
        fs.rename("/srv/d", "/old/it").unwrap();
        plant(&fs, "d", None);
        time::sleep(Duration::from_secs(2)).await;
        all_read(&volume, &[("d", CLOSED)], "restored without").await;
        assert_eq!(shared.lost_lists(), [std::path::PathBuf::from("d")]);
        fs.rename("/srv/d", "/old/copy").unwrap();
        fs.rename("/old/it", "/srv/d").unwrap();
        time::sleep(Duration::from_secs(2)).await;
        all_read(&volume, &[("d", LISTS), ("d/e", LISTS)], "back").await;
        assert_eq!(shared.lost_lists(), Vec::<std::path::PathBuf>::new());
        drop(used);
    });
}

#[test]
fn a_list_that_the_index_cannot_remember_or_the_file_system_cannot_keep_is_not_given() {
    let alone = list(&[("alice", Rights::READER)]);
    for trouble in ["index", "attribute"] {
        let (world, fs) = world();
        plant(&fs, "", Some("user.linerate.acl"));
        let kept = Memory::default();
        let index = Arc::new(Index::open(kept.clone(), Options::default()).unwrap());
        let (alone, disk) = (alone.clone(), fs.clone());
        served(&world, &index, false, async move |volume| {
            all_read(&volume, &[("d", LISTS), ("o", OPEN)], "before").await;
            let [closed, open] = [
                directory_as(&volume, &operator(), "d").await,
                directory_as(&volume, &operator(), "o").await,
            ];
            let fail = |fails: bool| match trouble {
                "index" => kept.set_failing(fails),
                _ => disk.configure(|config| config.xattr_bytes_max = if fails { 0 } else { 4096 }),
            };
            fail(true);
            for directory in [&closed, &open] {
                let set = directory
                    .set_access_list(&operator(), Some(&list(&[("system:anyuser", Rights::ALL)])))
                    .await;
                assert!(matches!(set, Err(Error::Busy | Error::NoSpace)), "{trouble}: {set:?}");
            }
            all_read(&volume, &[("d", LISTS), ("o", OPEN)], trouble).await;
            // Beneath a list nothing is made that cannot have it.
            if trouble == "attribute" {
                let made = closed.make_directory(&operator(), name("new"), 0o755).await;
                assert!(matches!(made, Err(Error::NoSpace)), "{:?}", made.map(drop));
                assert!(!disk.tree().contains_key("/srv/d/new"));
            }
            fail(false);
            open.set_access_list(&operator(), Some(&alone)).await.unwrap();
            all_read(&volume, &[("d", LISTS), ("o", LISTS)], "after").await;
            open.set_access_list(&operator(), None).await.unwrap();
            fail(true);
            let set = open.set_access_list(&operator(), Some(&alone)).await;
            assert!(matches!(set, Err(Error::Busy | Error::NoSpace)), "{trouble}: {set:?}");
            fail(false);
        });
        // The one that was not given is not missed.
        served(&world, &index, false, async move |volume| {
            all_read(&volume, &[("d", LISTS), ("o", OPEN)], "after a restart").await;
            assert_eq!(volume.shared().unwrap().lost_lists(), Vec::<std::path::PathBuf>::new());
        });
    }
}

#[test]
fn what_is_accepted_for_one_directory_alone_says_nothing_of_those_beneath() {
    let (world, fs) = world();
    plant(&fs, "", Some("user.linerate.acl"));
    let (index, when) = (index(), Rc::new(std::cell::Cell::new(0)));
    let then = Rc::clone(&when);
    served(&world, &index, false, async move |volume| {
        all_read(&volume, &[("d", LISTS), ("d/e", LISTS)], "before").await;
        then.set(now_ms());
    });
    assert_eq!(checked(&world, &index), Vec::<String>::new());
    fs.rename("/srv/d", "/old/it").unwrap();
    plant(&fs, "d", None);
    assert_eq!(checked(&world, &index), ["d", "d/e"]);
    accept(&fs, "/srv/d", false, false, when.get());
    assert_eq!(checked(&world, &index), ["d/e"]);
    for _ in 0..2 {
        served(&world, &index, false, async |volume| {
            all_read(&volume, &[("d", OPEN), ("d/e", CLOSED)], "accepted alone").await;
        });
    }
}

/// Directories of which a check says that they have lost their lists.
fn checked(world: &World, index: &Arc<Index>) -> Vec<String> {
    let (index, volume) = (Arc::clone(index), index.volumes()[0].0);
    let options = CheckOptions { repair: false, trusted_attributes: false };
    let host = world.host("10.0.0.1");
    host.fs().configure(|config| config.privileged = false);
    let report = world
        .block_on(&host, async move { vfs::check(&index, volume, options, Arc::default()).await.unwrap() });
    host.fs().configure(|config| config.privileged = true);
    let lost = report.problems.into_iter().filter_map(|problem| match problem.trouble {
        ProblemKind::AccessList { path, why } if why.contains("it is gone") => Some(path),
        _ => None,
    });
    let mut lost: Vec<_> = lost.collect();
    lost.sort();
    lost
}

#[test]
fn a_list_taken_away_through_the_server_or_beside_it_while_it_runs_is_not_lost() {
    let (world, fs) = world();
    plant(&fs, "", Some("user.linerate.acl"));
    let index = index();
    let beside = fs.clone();
    served(&world, &index, false, async move |volume| {
        all_read(&volume, &[("d", LISTS), ("o/secret", LISTS)], "before").await;
        directory_as(&volume, &operator(), "d").await.set_access_list(&operator(), None).await.unwrap();
        beside.remove_xattr("/srv/o/secret", "user.linerate.acl").unwrap();
        time::sleep(Duration::from_secs(2)).await;
        all_read(&volume, &[("d", OPEN), ("o/secret", OPEN)], "taken away").await;
    });
    served(&world, &index, false, async |volume| {
        all_read(&volume, &[("d", OPEN), ("d/e", LISTS), ("o/secret", OPEN)], "after a restart").await;
        let d = directory_as(&volume, &operator(), "d").await;
        d.set_access_list(&operator(), Some(&list(&[("alice", Rights::READER)]))).await.unwrap();
    });
    // It was not looked at since: it was remembered as it was set.
    fs.remove_xattr("/srv/d", "user.linerate.acl").unwrap();
    served(&world, &index, false, async |volume| {
        all_read(&volume, &[("d", CLOSED), ("d/e", CLOSED)], "lost later").await;
        // Another list counts at once, and what is beneath has its own still.
        let d = directory_as(&volume, &operator(), "d").await;
        d.set_access_list(&operator(), Some(&list(&[("alice", Rights::READER)]))).await.unwrap();
        all_read(&volume, &[("d", LISTS), ("d/e", LISTS)], "set anew").await;
    });
    // A directory that is put in the place of another while the server runs is another.
    served(&world, &index, false, async move |volume| {
        all_read(&volume, &[("d", LISTS)], "before").await;
        fs.rename("/srv/d", "/old/it").unwrap();
        plant(&fs, "d", None);
        time::sleep(Duration::from_secs(2)).await;
        all_read(&volume, &[("d", CLOSED), ("d/e", CLOSED)], "replaced").await;
    });
}

#[test]
fn what_is_remembered_follows_what_clients_do_with_directories() {
    let (world, fs) = world();
    plant(&fs, "", Some("user.linerate.acl"));
    let index = index();
    served(&world, &index, false, async |volume| {
        let wanted = [("d", LISTS), ("d/e", LISTS), ("o/secret", LISTS)];
        all_read(&volume, &wanted, "before").await;
        let (root, who) = (root_as(&volume).await, operator());
        let o = directory_as(&volume, &who, "o").await;
        root.rename(&who, name("d"), &o, name("moved"), Replace::Never).await.unwrap();
        // By the name that it left something new begins without.
        root.make_directory(&who, name("d"), 0o755).await.unwrap();
        o.make_directory(&who, name("none"), 0o755).await.unwrap();
        o.exchange(&who, name("none"), &o, name("secret")).await.unwrap();
        // What is made beneath a list begins with a copy, and no client looks at it.
        let moved = directory_as(&volume, &who, "o/moved").await;
        moved.make_directory(&who, name("made"), 0o755).await.unwrap();
        moved.make_directory(&who, name("gone"), 0o755).await.unwrap();
        moved.remove_directory(&who, name("gone")).await.unwrap();
    });
    for at in ["d", "o/secret"] {
        fs.write(&format!("/srv/{at}/page"), "").unwrap();
    }
    for at in ["o/moved", "o/moved/e", "o/moved/made", "o/none"] {
        fs.remove_xattr(&format!("/srv/{at}"), "user.linerate.acl").unwrap();
    }
    for at in ["o/moved/made", "o/moved/gone", "o/none"] {
        fs.write(&format!("/srv/{at}/page"), "").unwrap();
    }
    served(&world, &index, false, async |volume| {
        let wanted = [
            ("d", OPEN),
            ("o/secret", OPEN),
            ("o/moved", CLOSED),
            ("o/moved/e", CLOSED),
            ("o/moved/made", CLOSED),
            ("o/none", CLOSED),
        ];
        all_read(&volume, &wanted, "lost").await;
        let moved = directory_as(&volume, &operator(), "o/moved").await;
        moved.set_access_list(&operator(), None).await.unwrap();
        let wanted =
            [("o/moved", OPEN), ("o/moved/e", CLOSED), ("o/moved/made", CLOSED), ("o/moved/gone", OPEN)];
        all_read(&volume, &wanted, "the upper one may go").await;
    });
}

/// Runs a test with a read-only volume, as HTTP alone serves it.
fn read_only(world: &World, index: &Arc<Index>, test: impl AsyncFnOnce(Volume) + 'static) {
    let objects = sharing(index, false);
    let host = world.host("10.0.0.1");
    host.fs().configure(|config| config.privileged = false);
    world.block_on(&host, async move {
        let cache = Cache::sharing(CacheOptions::default(), &objects);
        let spec = VolumeSpec::new("other".parse().unwrap(), "/srv", VolumeOptions::default());
        let spec = spec.guarded().writable_by(Writable::Nobody);
        test(Volume::open(&cache, &spec).unwrap()).await;
        cache.clear();
    });
    host.fs().configure(|config| config.privileged = true);
}

#[test]
fn a_volume_that_is_only_read_goes_by_what_the_index_knows_of_its_mark() {
    let (world, fs) = world();
    plant(&fs, "", Some("user.linerate.acl"));
    let (index, when) = (index(), Rc::new(std::cell::Cell::new(0)));
    let then = Rc::clone(&when);
    served(&world, &index, false, async move |volume| {
        all_read(&volume, &[("d", LISTS), ("o/secret", LISTS)], "before").await;
        then.set(now_ms());
    });
    fs.rename("/srv/o", "/old/it").unwrap();
    plant(&fs, "o", None);
    read_only(&world, &index, async |volume| {
        all_read(&volume, &[("d", LISTS), ("o", OPEN), ("o/secret", CLOSED)], "restored").await;
    });
    accept(&fs, "/srv", false, true, when.get());
    read_only(&world, &index, async |volume| {
        all_read(&volume, &[("d", LISTS), ("o/secret", OPEN)], "accepted").await;
    });
    // An index that knows nothing of the volume says nothing.
    fs.remove_xattr("/srv/d", "user.linerate.acl").unwrap();
    read_only(&world, &super::access::index(), async |volume| {
        all_read(&volume, &[("d", OPEN)], "unknown").await;
    });
}

#[test]
fn a_mark_that_vanishes_while_the_volume_is_served_leaves_it_to_administrators() {
    for (sees_trusted, lost, why) in [
        (false, &["user.linerate.volume"][..], "has lost the volume's attribute"),
        (true, &["trusted.linerate.volume"], "are gone"),
        (true, &["trusted.linerate.volume", "user.linerate.volume"], "has lost the volume's attribute"),
    ] {
        let (world, fs) = world();
        plant(&fs, "", None);
        served(&world, &index(), sees_trusted, async move |volume| {
            all_read(&volume, &[("d", OPEN), ("o/secret", OPEN)], "before").await;
            let shared = Arc::clone(volume.shared().unwrap());
            let kept = [Some("user.linerate.volume"), sees_trusted.then_some("trusted.linerate.volume")];
            let root = lane::fs::Dir::open_root("/srv".as_ref()).unwrap();
            let marks = || {
                let at = |name: Option<&str>| {
                    let name = std::ffi::CString::new(name?).unwrap();
                    root.xattr_at_start(&name, 64).ok()
                };
                kept.map(at)
            };
            shared.look_at_mark(marks());
            assert_eq!(shared.seal(), None);
            lost.iter().for_each(|name| fs.remove_xattr("/srv", name).unwrap());
            shared.look_at_mark(marks());
            assert!(shared.seal().unwrap().contains(why), "{:?}", shared.seal());
            all_read(&volume, &[("d", CLOSED), ("o/secret", CLOSED)], "the mark is gone").await;
        });
    }
}

/// Last step on directories with lists before the server is killed.
#[derive(Clone, Copy, Debug)]
enum Last {
    TakesTheListAway,
    RemovesAndMakesAnew,
    MovesAwayAndMakesAnew,
    MovesOneWithoutThere,
    Exchanges,
    GivesAList,
}

impl Last {
    async fn happens(self, volume: &Volume) {
        let (top, who) = (root_as(volume).await, operator());
        match self {
            Self::TakesTheListAway => {
                directory_as(volume, &who, "d/e").await.set_access_list(&who, None).await.unwrap();
                directory_as(volume, &who, "d").await.set_access_list(&who, None).await.unwrap();
            }
            Self::RemovesAndMakesAnew => {
                let d = directory_as(volume, &who, "d").await;
                let e = directory_as(volume, &who, "d/e").await;
                e.remove(&who, name("page")).await.unwrap();
                d.remove_directory(&who, name("e")).await.unwrap();
                d.remove(&who, name("page")).await.unwrap();
                top.remove_directory(&who, name("d")).await.unwrap();
                let d = top.make_directory(&who, name("d"), 0o755).await.unwrap();
                d.make_directory(&who, name("e"), 0o755).await.unwrap();
            }
            Self::MovesAwayAndMakesAnew => {
                top.rename(&who, name("d"), &top, name("f"), Replace::Never).await.unwrap();
                let d = top.make_directory(&who, name("d"), 0o755).await.unwrap();
                d.make_directory(&who, name("e"), 0o755).await.unwrap();
            }
            Self::MovesOneWithoutThere => {
                top.rename(&who, name("d"), &top, name("f"), Replace::Never).await.unwrap();
                let made = top.make_directory(&who, name("g"), 0o755).await.unwrap();
                made.make_directory(&who, name("e"), 0o755).await.unwrap();
                top.rename(&who, name("g"), &top, name("d"), Replace::Never).await.unwrap();
            }
            Self::Exchanges => {
                let made = top.make_directory(&who, name("f"), 0o755).await.unwrap();
                made.make_directory(&who, name("e"), 0o755).await.unwrap();
                top.exchange(&who, name("d"), &top, name("f")).await.unwrap();
            }
            Self::GivesAList => {
                let readers = list(&[("alice", Rights::READER)]);
                top.make_directory(&who, name("f"), 0o755).await.unwrap();
                directory_as(volume, &who, "f").await.set_access_list(&who, Some(&readers)).await.unwrap();
            }
        }
    }

    /// Returns which users read in `d`, `d/e` and `f` after it.
    fn wanted(self) -> Vec<(&'static str, [bool; 3])> {
        match self {
            Self::TakesTheListAway | Self::RemovesAndMakesAnew => vec![("d", OPEN), ("d/e", OPEN)],
            Self::MovesAwayAndMakesAnew | Self::MovesOneWithoutThere | Self::Exchanges => {
                vec![("d", OPEN), ("d/e", OPEN), ("f", LISTS), ("f/e", LISTS)]
            }
            Self::GivesAList => vec![("d", LISTS), ("d/e", LISTS), ("f", LISTS)],
        }
    }
}

#[test]
fn what_clients_do_with_directories_just_before_a_kill_closes_none_after_it() {
    use Last::*;
    for last in [
        TakesTheListAway,
        RemovesAndMakesAnew,
        MovesAwayAndMakesAnew,
        MovesOneWithoutThere,
        Exchanges,
        GivesAList,
    ] {
        let (world, fs) = world();
        plant(&fs, "d", Some("user.linerate.acl"));
        let kept = Memory::default();
        let index = || Arc::new(Index::open(kept.clone(), Options::default()).unwrap());
        let first = index();
        let told = Arc::clone(&first);
        served(&world, &first, false, async move |volume| {
            all_read(&volume, &[("d", LISTS), ("d/e", LISTS)], "before").await;
            // Long enough for it to be kept.
            told.flush().unwrap();
            last.happens(&volume).await;
        });
        // Nothing of what waits comes through.
        drop(first);
        for (at, _) in last.wanted() {
            fs.write(&format!("/srv/{at}/page"), "").unwrap();
        }
        served(&world, &index(), false, async move |volume| {
            all_read(&volume, &last.wanted(), &format!("{last:?}")).await;
            assert!(volume.shared().unwrap().lost_lists().is_empty(), "{last:?}");
        });
    }
}
