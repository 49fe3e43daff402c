//! Rights of users by place; and that none outlives the change that forbids it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use grants::{Access, NameEnd, Share, StatOpen};
use identity::{Accounts, Acl, Nearest, Rights, Side, Writable};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_sid::ntacl;
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};
use vfs::{
    Cache, CacheOptions, Caller, CloseOutcome, CreateOptions, Directory, Error, Expect, FileId, Objects,
    ObjectsOptions, OpenHow, Replace, Resolved, Volume, VolumeOptions, VolumeSpec, Withheld,
};

use super::callbacks::until;
use super::suspended_watches::come_and_go;
use super::{CLIENT, Process, directory, name, nobody, on_lanes, path, root};

const LIST: &str = "user.linerate.acl";
const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

#[test]
fn each_change_takes_its_right_and_no_other() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let home = root.make_directory(&nobody(), name("home"), 0o755).await.unwrap();
        home.create(&nobody(), name("a"), NEW).await.unwrap();
        for (rights, allowed) in [
            (Rights::INSERT, "create stage make"),
            (Rights::DELETE, "remove"),
            (Rights::WRITE, "open"),
            (Rights::INSERT | Rights::DELETE, "create stage make remove rename replace"),
            (Rights::READ | Rights::LOCK, ""),
        ] {
            let caller = alice();
            home.set_access_list(&operator(), Some(&list(&[("alice", rights | Rights::LOOKUP)])))
                .await
                .unwrap();
            let mut may = Vec::new();
            let mut note = |what, result: Result<(), Error>| match result {
                Ok(()) => may.push(what),
                Err(Error::Denied(_)) => {}
                Err(other) => panic!("{what}: {other}"),
            };
            note("create", home.create(&caller, name("new"), NEW).await.map(drop));
            note("stage", home.stage(&caller, 0o644).await.map(drop));
            note("make", home.make_directory(&caller, name("d"), 0o755).await.map(drop));
            note("open", home.open_writer(&caller, name("a")).await.map(drop));
            let _ = home.remove(&operator(), name("new")).await;
            let _ = home.remove_directory(&operator(), name("d")).await;
            home.create(&operator(), name("gone"), NEW).await.unwrap();
            note("remove", home.remove(&caller, name("gone")).await);
            let _ = home.remove(&operator(), name("gone")).await;
            note("rename", home.rename(&caller, name("a"), &home, name("b"), Replace::Never).await);
            let _ = home.rename(&operator(), name("b"), &home, name("a"), Replace::Never).await;
            let staged = home.stage(&operator(), 0o644).await.unwrap();
            note("replace", staged.publish(&caller, name("a"), Expect::Anything).await.map(drop));
            assert_eq!(may.join(" "), allowed, "{rights:?}");
        }
    });
}

#[test]
fn what_an_open_was_granted_to_delete_goes_though_who_closes_it_may_delete_nothing() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let home = root.make_directory(&nobody(), name("home"), 0o755).await.unwrap();
        let given = list(&[("alice", Rights::INSERT | Rights::LOOKUP)]);
        home.set_access_list(&operator(), Some(&given)).await.unwrap();
        let how = |access| OpenHow {
            stream: b"",
            looks: StatOpen::No,
            access,
            share: Share::ALL,
            need: Rights::NONE,
            overwrites: false,
            consumer: CLIENT,
            wanted: None,
        };
        // The maker of a file has it go with the open that has made it.
        drop(home.create(&alice(), name("made"), NEW).await.unwrap());
        let at = path("home/made");
        let (made, _) = volume.open_shared(&alice(), at, &how(Access::DELETE), &mut |_| {}).await.unwrap();
        made.delete_on_close(Some(NameEnd::LastClose)).unwrap();
        assert_eq!(made.close(&volume, &alice()).await.unwrap(), CloseOutcome::Deleted);
        assert!(matches!(volume.lookup_as(&operator(), at, Rights::NONE).await, Err(Error::NotFound)));
        // And a user that may delete it does, whichever looks at it last.
        drop(home.create(&operator(), name("made"), NEW).await.unwrap());
        let (theirs, _) =
            volume.open_shared(&operator(), at, &how(Access::DELETE), &mut |_| {}).await.unwrap();
        let (last, _) = volume.open_shared(&alice(), at, &how(Access::NONE), &mut |_| {}).await.unwrap();
        theirs.set_deletion(&volume, Some(NameEnd::LastClose)).await.unwrap();
        assert_eq!(theirs.close(&volume, &operator()).await.unwrap(), CloseOutcome::Stays);
        assert_eq!(last.close(&volume, &alice()).await.unwrap(), CloseOutcome::Deleted);
        // By its name Alice deletes nothing.
        drop(home.create(&operator(), name("made"), NEW).await.unwrap());
        assert!(matches!(home.remove(&alice(), name("made")).await, Err(Error::Denied(_))));
    });
}

#[test]
fn a_list_counts_beneath_until_another_does_and_a_new_directory_begins_with_it() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let upper = root.make_directory(&nobody(), name("upper"), 0o755).await.unwrap();
        let inner = upper.make_directory(&nobody(), name("inner"), 0o755).await.unwrap();
        inner.create(&nobody(), name("a"), NEW).await.unwrap();
        assert!(read(&volume, &nobody(), "upper/inner/a").await.is_ok());

        let closed = list(&[("alice", Rights::READER)]);
        upper.set_access_list(&operator(), Some(&closed)).await.unwrap();
        let refused = read(&volume, &nobody(), "upper/inner/a").await;
        assert!(matches!(refused, Err(Error::Denied(_))), "{refused:?}");
        assert!(read(&volume, &alice(), "upper/inner/a").await.is_ok());
        // Nor is told what is there and what is not.
        assert!(matches!(read(&volume, &nobody(), "upper/inner/none").await, Err(Error::Denied(_))));
        assert!(matches!(read(&volume, &alice(), "upper/inner/none").await, Err(Error::NotFound)));

        inner.set_access_list(&operator(), Some(&list(&[("system:anyuser", Rights::READER)]))).await.unwrap();
        // A way through what is closed leads nowhere.
        assert!(matches!(read(&volume, &nobody(), "upper/inner/a").await, Err(Error::Denied(_))));

        let made = upper.make_directory(&operator(), name("made"), 0o755).await.unwrap();
        upper.set_access_list(&operator(), None).await.unwrap();
        assert!(read(&volume, &nobody(), "upper/inner/a").await.is_ok());
        assert_eq!(made.access_list(&alice()).await.unwrap(), Nearest::List(Arc::new(closed)));
        assert!(matches!(read(&volume, &nobody(), "upper/made").await, Err(Error::Denied(_))));
        assert!(matches!(made.set_access_list(&alice(), None).await, Err(Error::Denied(_))));
    });
}

#[test]
fn what_moves_has_the_rights_of_where_it_is() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let closed = root.make_directory(&nobody(), name("closed"), 0o755).await.unwrap();
        let open = root.make_directory(&nobody(), name("open"), 0o755).await.unwrap();
        let inner = open.make_directory(&nobody(), name("inner"), 0o755).await.unwrap();
        inner.create(&nobody(), name("a"), NEW).await.unwrap();
        closed.set_access_list(&operator(), Some(&list(&[("alice", Rights::ALL)]))).await.unwrap();
        assert!(read(&volume, &nobody(), "open/inner/a").await.is_ok());
        open.rename(&operator(), name("inner"), &closed, name("inner"), Replace::Never).await.unwrap();
        assert!(matches!(read(&volume, &nobody(), "closed/inner/a").await, Err(Error::Denied(_))));
        // Held open from before, too.
        assert!(matches!(inner.create(&nobody(), name("b"), NEW).await, Err(Error::Denied(_))));
        inner.create(&alice(), name("b"), NEW).await.unwrap();
    });
}

#[test]
fn a_link_gives_no_rights_to_where_it_leads() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let root = root(&volume).await;
        let closed = root.make_directory(&nobody(), name("closed"), 0o755).await.unwrap();
        closed.create(&nobody(), name("a"), NEW).await.unwrap();
        root.create(&nobody(), name("b"), NEW).await.unwrap();
        let fs = process.host.fs();
        for (target, link) in [
            ("closed/a", "file"),
            ("closed", "way"),
            ("/srv/closed/../closed/a", "absolute"),
            ("file", "chain"),
            ("b", "open"),
            ("../etc", "out"),
            ("round", "round"),
        ] {
            fs.symlink(target, &format!("/srv/{link}")).unwrap();
        }
        for at in ["file", "way/a", "absolute", "chain", "open"] {
            assert!(read(&volume, &nobody(), at).await.is_ok(), "{at}");
        }
        closed.set_access_list(&operator(), Some(&list(&[("alice", Rights::READER)]))).await.unwrap();
        for at in ["file", "way/a", "absolute", "chain"] {
            let refused = read(&volume, &nobody(), at).await;
            assert!(matches!(refused, Err(Error::Denied(_))), "{at}: {refused:?}");
            assert!(read(&volume, &alice(), at).await.is_ok(), "{at}");
        }
        assert!(read(&volume, &nobody(), "open").await.is_ok());
        assert!(matches!(read(&volume, &nobody(), "out").await, Err(Error::Escapes)));
        assert!(matches!(read(&volume, &nobody(), "round").await, Err(Error::SymlinkRefused)));
        // What a link leads to is seen to change.
        root.remove(&nobody(), name("b")).await.unwrap();
        assert!(matches!(read(&volume, &nobody(), "open").await, Err(Error::NotFound)));
    });
}

#[test]
fn rights_are_gone_on_every_lane_before_the_change_that_takes_them_is_answered() {
    seeds(1000, |seed| {
        // And how often it was opened: it may be closed again by the time of the answer.
        let is_closed: Rc<Cell<(bool, u32)>> = Rc::default();
        on_lanes(seed, Config::rough(), 3, move |lane, _, volume| {
            let is_closed = Rc::clone(&is_closed);
            async move {
                let mut rng = SmallRng::seed_from_u64(seed * 3 + lane as u64);
                let root = root(&volume).await;
                if lane == 0 {
                    let d = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
                    d.make_directory(&nobody(), name("e"), 0o755).await.unwrap();
                    for step in 0..10 {
                        time::sleep(Duration::from_micros(rng.random_range(0..3000))).await;
                        let closed = list(&[("alice", Rights::READER)]);
                        let closes = step % 2 == 0;
                        if !closes {
                            is_closed.set((false, step));
                        }
                        d.set_access_list(&operator(), closes.then_some(&closed)).await.unwrap();
                        is_closed.set((closes, is_closed.get().1));
                    }
                    return;
                }
                for step in 0..30 {
                    time::sleep(Duration::from_micros(rng.random_range(0..1000))).await;
                    let was_closed = is_closed.get();
                    let result = match volume.lookup_as(&operator(), path("d/e"), Rights::READ).await {
                        Ok(Resolved::Directory(e, _)) => {
                            let file = format!("{lane}-{step}");
                            e.create(&nobody(), name(&file), NEW).await.map(drop)
                        }
                        other => other.map(drop),
                    };
                    match result {
                        Ok(()) => {
                            let stayed = was_closed == is_closed.get();
                            assert!(!(was_closed.0 && stayed), "allowed though closed all the time")
                        }
                        Err(Error::Denied(_)) | Err(Error::NotFound) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        });
    });
}

#[test]
fn a_damaged_list_lets_in_nobody_but_who_can_mend_it() {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 1);
    let opening = process.clone();
    world.block_on(&process.host, async move {
        let volume = opening.volume();
        let root = root(&volume).await;
        let d = root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let raw = lane::fs::Dir::open_root("/srv/d".as_ref()).unwrap();
        let attribute = identity::ATTRIBUTE_UNPRIVILEGED.to_owned();
        raw.as_file().set_xattr(&attribute, b"?".to_vec(), lane::fs::XattrHow::Any).await.unwrap();
        assert!(matches!(read(&volume, &nobody(), "d").await, Err(Error::Denied(_))));
        d.set_access_list(&operator(), None).await.unwrap();
        assert!(read(&volume, &nobody(), "d").await.is_ok());
    });
}

#[test]
fn rights_that_others_change_count_within_a_second_at_every_depth_however_that_is_told() {
    /// Ways by which a lane is told what others change.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Told {
        Watched,
        /// The kernel has no watch left.
        Unwatched,
        /// The server itself changes so much there that the watch rests.
        Resting,
    }
    for told in [Told::Watched, Told::Unwatched, Told::Resting] {
        let world = World::new(1, Config::clean());
        let process = Process::with(&world, 1, |options| options.privileged = true);
        let host = process.host.clone();
        world.block_on(&host, async move {
            let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
            let watches_max = if told == Told::Unwatched { 0 } else { 64 };
            let cache = CacheOptions { watches_max, ..CacheOptions::default() };
            let cache = Cache::sharing(cache, &process.objects);
            let spec = spec.with_objects().writable_by(Writable::anyone());
            let volume = Volume::open(&cache, &spec).unwrap();
            let fs = process.host.fs();
            fs.configure(|config| config.privileged = true);
            fs.write("/srv/d/e/page", "").unwrap();
            for at in ["/srv", "/srv/d", "/srv/d/e"] {
                fs.set_mode(at, 0o777).unwrap();
            }
            let top = root(&volume).await;
            let may = async |step| {
                for _ in 0..10 {
                    time::sleep(Duration::from_millis(100)).await;
                    if told == Told::Resting {
                        come_and_go(&top, 10).await;
                    }
                    // A client that keeps asking is not let in for longer by that.
                    let _ = read(&volume, &nobody(), "d/e/page").await;
                }
                time::sleep(Duration::from_millis(1)).await;
                match read(&volume, &nobody(), "d/e/page").await {
                    Ok(_) => true,
                    Err(Error::Denied(_)) => false,
                    Err(other) => panic!("{told:?}: {step}: {other}"),
                }
            };
            assert!(may("before").await, "{told:?}");
            // The root is closed by its list alone: what the server itself does there is anonymous.
            let closed =
                list(&[("alice", Rights::READER), ("system:anyuser", Rights::INSERT | Rights::DELETE)]);
            for at in ["", "/d", "/d/e"] {
                let at = format!("/srv{at}");
                fs.set_xattr(&at, LIST, &closed.encode()).unwrap();
                assert!(!may("a list").await, "{told:?}: {at}: a list that was set");
                fs.set_xattr(&at, LIST, b"?").unwrap();
                if told != Told::Resting {
                    assert!(!may("damage").await, "{told:?}: {at}: a list that was damaged");
                }
                fs.remove_xattr(&at, LIST).unwrap();
                assert!(may("no list").await, "{told:?}: {at}: a list that was taken away");
                if told != Told::Resting {
                    fs.set_mode(&at, 0o700).unwrap();
                    assert!(!may("mode").await, "{told:?}: {at}: a mode");
                    fs.set_mode(&at, 0o777).unwrap();
                    assert!(may("mode back").await, "{told:?}: {at}: a mode that was set back");
                    fs.set_owner(&at, 1000, 1000).unwrap();
                    assert!(may("owner").await, "{told:?}: {at}: an owner");
                }
            }
            assert_eq!(volume.counters().watches_rested.get() > 0, told == Told::Resting, "{told:?}");
        });
    }
}

/// A process that sees `trusted.` attributes, or one that does not, which serves `/srv` of a host.
pub(super) fn served(
    world: &World,
    index: &Arc<Index>,
    sees_trusted: bool,
    test: impl AsyncFnOnce(Volume) + 'static,
) {
    let host = &world.host("10.0.0.1");
    let objects = sharing(index, sees_trusted);
    host.fs().configure(|config| config.privileged = sees_trusted);
    let kept = objects.clone();
    world.block_on(host, async move {
        let (cache, volume) = opened(&objects);
        test(volume).await;
        cache.clear();
    });
    host.fs().configure(|config| config.privileged = true);
    assert_eq!(kept.in_use(), 0);
}

pub(super) fn sharing(index: &Arc<Index>, sees_trusted: bool) -> Objects {
    let options = ObjectsOptions { lanes_max: 1, trusted_attributes: sees_trusted, ..Default::default() };
    Objects::new(options, Arc::clone(index))
}

/// Opens the volume, writable by any user, in a cache of its own.
pub(super) fn opened(objects: &Objects) -> (Cache, Volume) {
    let cache = Cache::sharing(CacheOptions::default(), objects);
    let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
    let volume = Volume::open(&cache, &spec.with_objects().writable_by(Writable::anyone())).unwrap();
    (cache, volume)
}

pub(super) fn index() -> Arc<Index> {
    Arc::new(Index::open(Memory::default(), Options::default()).unwrap())
}

pub(super) async fn reads(volume: &Volume, who: &Caller, at: &str) -> bool {
    match read(volume, who, at).await {
        Ok(_) => true,
        Err(Error::Denied(_)) => false,
        Err(other) => panic!("{at}: {other}"),
    }
}

#[test]
fn a_list_or_descriptor_of_the_other_kind_grants_nobody_anything_at_any_depth() {
    let everyone = list(&[("system:anyuser", Rights::READER)]).encode();
    let alices = list(&[("alice", Rights::READER)]).encode();
    let granted = Ace { kind: ace_type::ACCESS_ALLOWED, flags: 3, mask: 0x1f01ff, sid: Sid::EVERYONE };
    let granted = Descriptor { dacl: Some(vec![granted]), ..Descriptor::default() };
    let granted = ntacl::encode(&granted).unwrap();
    for (made, serves) in [(false, false), (false, true), (true, true)] {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.configure(|config| config.privileged = true);
        fs.write("/srv/d/e/page", "").unwrap();
        for at in ["/srv", "/srv/d", "/srv/d/e"] {
            fs.set_mode(at, 0o777).unwrap();
        }
        let index = index();
        served(&world, &index, made, async move |volume| {
            assert!(reads(&volume, &nobody(), "d/e/page").await)
        });
        let kinds = ["trusted.linerate.acl", "user.linerate.acl"];
        let [own, other] = if made { kinds } else { [kinds[1], kinds[0]] };
        let (everyone, alices, granted) = (everyone.clone(), alices.clone(), granted.clone());
        served(&world, &index, serves, async move |volume| {
            assert_eq!(volume.shared().unwrap().seal(), None);
            let seen = async |step: &str, wanted: [bool; 3]| {
                time::sleep(Duration::from_millis(1001)).await;
                for (who, wanted) in [nobody(), alice(), operator()].iter().zip(wanted) {
                    let reads = reads(&volume, who, "d/e/page").await;
                    assert_eq!(reads, wanted, "made {made}, serves {serves}: {step}");
                }
            };
            // As an administrator of the machine sets them, which sees everything.
            let set = |at: &str, name: &str, value: &[u8]| {
                fs.configure(|config| config.privileged = true);
                fs.set_xattr(at, name, value).unwrap();
                fs.configure(|config| config.privileged = serves);
            };
            let remove = |at: &str, name: &str| {
                fs.configure(|config| config.privileged = true);
                fs.remove_xattr(at, name).unwrap();
                fs.configure(|config| config.privileged = serves);
            };
            for at in ["/srv", "/srv/d", "/srv/d/e"] {
                set(at, own, &alices);
                seen("its own kind", [false, true, true]).await;
                // What lies out of sight is told by what stands for it.
                let other = if serves { other } else { "user.linerate.acl-is-trusted" };
                set(at, other, &everyone);
                seen("both", [false, false, true]).await;
                remove(at, own);
                seen("the other kind", [false, false, true]).await;
                remove(at, other);
                seen("none", [true; 3]).await;
            }
            // The simulated disk has no `security.` attributes.
            for at in ["/srv/d/e/page", "/srv/d"] {
                set(at, "user.NTACL", &granted);
                seen("a descriptor", if made { [false, false, true] } else { [true; 3] }).await;
                remove(at, "user.NTACL");
            }
            // Setting one removes the other.
            if serves {
                set("/srv/d", other_list(made), &everyone);
                seen("the other kind", [false, false, true]).await;
                let d = directory_as(&volume, &operator(), "d").await;
                d.set_access_list(&operator(), Some(&list(&[("alice", Rights::READER)]))).await.unwrap();
                seen("set", [false, true, true]).await;
                d.set_access_list(&operator(), None).await.unwrap();
                seen("taken away", [true; 3]).await;
            }
        });
    }
}

fn other_list(is_trusted: bool) -> &'static str {
    if is_trusted { "user.linerate.acl" } else { "trusted.linerate.acl" }
}

pub(super) async fn directory_as(volume: &Volume, who: &Caller, at: &str) -> Directory {
    let found = volume.lookup_as(who, path(at), Rights::NONE).await.unwrap();
    found.into_directory().unwrap().0
}

#[test]
fn a_volume_whose_lists_cannot_be_seen_or_were_lost_is_served_to_administrators_alone() {
    let closed = async |volume: Volume, why: &str| {
        let seal = volume.shared().unwrap().seal().unwrap_or_default();
        assert!(seal.contains(why), "{seal}");
        for at in ["", "page", "open/page"] {
            assert!(!reads(&volume, &nobody(), at).await && !reads(&volume, &alice(), at).await, "{at}");
            assert!(reads(&volume, &operator(), at).await, "{at}");
        }
        let made = root_as(&volume).await.create(&alice(), name("new"), NEW).await;
        assert!(matches!(made, Err(Error::Denied(_) | Error::ReadOnly)), "{made:?}");
    };
    let open = async |volume: Volume| {
        assert_eq!(volume.shared().unwrap().seal(), None);
        assert!(reads(&volume, &nobody(), "open/page").await);
    };
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.configure(|config| config.privileged = true);
    fs.write("/srv/open/page", "").unwrap();
    fs.write("/srv/page", "").unwrap();
    let index = index();
    served(&world, &index, true, open);
    let lists = list(&[("system:anyuser", Rights::READER)]).encode();
    fs.set_xattr("/srv/open", "trusted.linerate.acl", &lists).unwrap();
    served(&world, &index, true, open);
    served(&world, &index, false, async move |volume| closed(volume, "convert").await);
    // Nor does a server that had nothing to do with it before.
    served(&world, &self::index(), false, async move |volume| closed(volume, "convert").await);
    served(&world, &index, true, open);
    // A copy that leaves out what takes a privilege.
    fs.remove_xattr("/srv", "trusted.linerate.volume").unwrap();
    fs.remove_xattr("/srv/open", "trusted.linerate.acl").unwrap();
    for _ in 0..2 {
        served(&world, &index, true, async move |volume| closed(volume, "are gone").await);
    }
    served(&world, &self::index(), true, async move |volume| closed(volume, "are gone").await);
    // One that leaves out all.
    fs.remove_xattr("/srv", "user.linerate.volume").unwrap();
    for _ in 0..2 {
        served(&world, &index, true, async move |volume| {
            closed(volume, "has lost the volume's attribute").await
        });
    }
    fs.set_xattr("/srv", "user.linerate.accepted", b"1").unwrap();
    served(&world, &index, true, async move |volume| closed(volume, "has lost the volume's attribute").await);
    fs.set_xattr("/srv", "trusted.linerate.accepted", b"1").unwrap();
    served(&world, &index, true, open);
}

#[test]
fn a_list_whose_change_is_interrupted_is_the_one_from_before_or_the_new_one() {
    let one = list(&[("alice", Rights::READER)]);
    let other = list(&[("system:anyuser", Rights::READER)]);
    let lists = [None, Some(one), Some(other)];
    for (before, after) in lists.iter().flat_map(|before| lists.iter().map(move |after| (before, after))) {
        let mut seen = Vec::new();
        for steps in 0.. {
            let world = World::new(1, Config::clean());
            let host = world.host("10.0.0.1");
            let (fs, index) = (host.fs(), index());
            fs.configure(|config| config.privileged = true);
            fs.write("/srv/open/page", "").unwrap();
            let set = before.clone();
            served(&world, &index, true, async move |volume| set_list(&volume, set.as_ref()).await);
            let is_done = Rc::new(Cell::new(false));
            let (done, set, objects) = (Rc::clone(&is_done), after.clone(), sharing(&index, true));
            host.spawn(async move {
                let (_cache, volume) = opened(&objects);
                fs.kill_after(steps);
                set_list(&volume, set.as_ref()).await;
                done.set(true);
                std::future::pending::<()>().await;
            });
            world.run_for(Duration::from_secs(1));
            host.kill();
            host.restart();
            let found = Rc::new(Cell::new(None));
            let told = Rc::clone(&found);
            served(&world, &self::index(), true, async move |volume| {
                let directory = directory_as(&volume, &operator(), "open").await;
                told.set(Some(directory.access_list(&operator()).await.unwrap()));
            });
            seen.push(found.take().unwrap());
            if is_done.get() {
                break;
            }
        }
        let [before, after] = [before, after]
            .map(|list| list.clone().map_or(Nearest::None, |list| Nearest::List(Arc::new(list))));
        assert_eq!(seen.last(), Some(&after));
        assert!(
            seen.iter().all(|list| [&before, &after].contains(&list)),
            "{before:?} to {after:?}: {seen:?}"
        );
    }
}

async fn set_list(volume: &Volume, list: Option<&Acl>) {
    let directory = directory_as(volume, &operator(), "open").await;
    directory.set_access_list(&operator(), list).await.unwrap();
}

pub(super) async fn root_as(volume: &Volume) -> Directory {
    directory_as(volume, &operator(), "").await
}

#[test]
fn rights_that_are_doubted_are_looked_at_anew_at_once_on_every_lane() {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 2);
    let fs = process.host.fs();
    fs.write("/srv/d/e/page", "").unwrap();
    let step: Rc<Cell<u32>> = Rc::default();
    let tasks: Vec<_> = process
        .lanes
        .iter()
        .map(|&lane| {
            let (opening, fs, step) = (process.clone(), fs.clone(), Rc::clone(&step));
            process.host.start_on(lane, async move {
                let volume = opening.volume();
                for (at, n) in ["/srv", "/srv/d", "/srv/d/e"].iter().zip(0..) {
                    assert!(reads(&volume, &nobody(), "d/e/page").await);
                    until(|| step.get() == 4 * n + 1 || lane == 0).await;
                    if lane == 0 {
                        step.set(4 * n + 1);
                        time::sleep(Duration::from_secs(1)).await;
                        fs.set_xattr(at, LIST, &list(&[("alice", Rights::READER)]).encode()).unwrap();
                        opening.objects.revalidate_rights();
                        step.set(4 * n + 2);
                    }
                    until(|| step.get() >= 4 * n + 2).await;
                    assert!(!reads(&volume, &nobody(), "d/e/page").await, "{at}");
                    assert!(reads(&volume, &alice(), "d/e/page").await, "{at}");
                    time::sleep(Duration::from_secs(1)).await;
                    if lane == 0 {
                        fs.remove_xattr(at, LIST).unwrap();
                        opening.objects.revalidate_rights();
                        step.set(4 * n + 4);
                    }
                    until(|| step.get() >= 4 * n + 4).await;
                    assert!(reads(&volume, &nobody(), "d/e/page").await, "{at}");
                    time::sleep(Duration::from_secs(1)).await;
                }
                volume.cache().clear();
            })
        })
        .collect();
    world.block_on(&process.host, async move {
        for task in tasks {
            task.await;
        }
    });
}

#[test]
fn what_is_withheld_is_served_to_nobody_by_whatever_name() {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 1);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let fs = process.host.fs();
        for at in ["state/index", "etc/key", "etc/other", "open/page"] {
            fs.write(&format!("/srv/{at}"), "content").unwrap();
        }
        fs.hard_link("/srv/etc/key", "/srv/open/alias").unwrap();
        fs.symlink("../etc/key", "/srv/open/link").unwrap();
        fs.symlink("../state", "/srv/open/way").unwrap();
        let id = |at: &str| {
            let stat = fs.stat(&format!("/srv/{at}")).unwrap();
            FileId { dev: stat.dev, ino: stat.ino }
        };
        let withheld = Arc::new(Withheld::new());
        let cache = Cache::sharing(CacheOptions::default(), &process.objects);
        cache.withhold(&withheld);
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
        let spec = spec.with_objects().writable_by(Writable::anyone());
        let volume = Volume::open(&cache, &spec).unwrap();
        let plain = Cache::new(CacheOptions::default());
        plain.withhold(&withheld);
        let spec = VolumeSpec::new("plain".parse().unwrap(), "/srv", VolumeOptions::default());
        let plain = Volume::open(&plain, &spec).unwrap();
        let names = [
            "state",
            "state/index",
            "etc/key",
            "etc/other",
            "open/alias",
            "open/link",
            "open/way",
            "open/page",
        ];
        let seen = async |who: &Caller, at| match volume.lookup_as(who, path(at), Rights::READ).await {
            Ok(_) => true,
            Err(Error::Hidden) => false,
            Err(other) => panic!("{at}: {other}"),
        };
        for at in names {
            assert!(seen(&nobody(), at).await, "{at}: nothing is withheld yet");
        }
        withheld.add(id("state"));
        withheld.add(id("etc/key"));
        withheld.add_name(id("etc"), b"key");
        withheld.add_name(id("etc"), b"later");
        time::sleep(Duration::from_secs(1)).await;
        for who in [nobody(), alice(), operator()] {
            for at in names {
                let is_open = ["etc/other", "open/page"].contains(&at);
                assert_eq!(seen(&who, at).await, is_open, "{at}");
            }
            let (top, etc, open) = (
                directory(&volume, "").await,
                directory(&volume, "etc").await,
                directory(&volume, "open").await,
            );
            let hidden = |what: &str, done: Result<(), Error>| {
                assert!(matches!(done, Err(Error::Hidden | Error::Denied(_))), "{what}: {done:?}");
            };
            for (directory, at) in [(&etc, "key"), (&etc, "later"), (&open, "alias")] {
                hidden("write", directory.open_writer(&who, name(at)).await.map(drop));
                let how = CreateOptions { exclusive: false, mode: 0o644 };
                hidden("make", directory.create(&who, name(at), how).await.map(drop));
                let staged = etc.stage(&who, 0o644).await.unwrap();
                let over = if at == "alias" { continue } else { directory };
                hidden("replace", staged.publish(&who, name(at), Expect::Anything).await.map(drop));
                hidden("remove", over.remove(&who, name(at)).await);
                hidden("move", over.rename(&who, name(at), &open, name("moved"), Replace::Never).await);
                hidden("move over", etc.rename(&who, name("other"), over, name(at), Replace::Existing).await);
                hidden("link", over.link(&who, name(at), name("linked")).await);
            }
            hidden("move", top.rename(&who, name("state"), &open, name("moved"), Replace::Never).await);
            // What leads there stays, or another directory would be what the server finds at its path.
            withheld.fix_name(id(""), b"etc");
            let (page, etc_name) = (name("page"), name("etc"));
            hidden("move", top.rename(&who, etc_name, &open, name("moved"), Replace::Never).await);
            hidden("exchange", top.exchange(&who, etc_name, &top, name("open")).await);
            hidden("exchange", top.exchange(&who, name("open"), &top, etc_name).await);
            hidden("move over", open.rename(&who, page, &top, etc_name, Replace::Existing).await);
            hidden("remove", top.remove_directory(&who, etc_name).await);
            let listed = |listing: &[vfs::Entry]| {
                let names = listing.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
                names.collect::<Vec<_>>()
            };
            assert_eq!(listed(&top.entries(100).await.unwrap()), ["etc", "open"]);
            assert_eq!(listed(&etc.entries(100).await.unwrap()), ["other"]);
            assert_eq!(listed(&open.entries(100).await.unwrap()), ["page"]);
        }
        // Replaced as programs replace their files, and made later.
        fs.replace("/srv/etc/key", "another").unwrap();
        fs.write("/srv/etc/later", "made").unwrap();
        fs.write("/srv/state/deep/made", "made").unwrap();
        time::sleep(Duration::from_secs(1)).await;
        for at in ["etc/key", "etc/later", "state/deep", "state/deep/made", "open/way/deep/made"] {
            assert!(!seen(&operator(), at).await, "{at}");
        }
        // Where no objects are looked at, files are known by their identity.
        for at in ["open/alias", "state"] {
            let found = plain.lookup(path(at)).await;
            assert!(matches!(found, Err(Error::Hidden)), "{at}: {found:?}");
        }
        assert!(plain.lookup(path("open/page")).await.is_ok());
    });
}

#[test]
fn only_whom_the_volume_names_may_change_it() {
    let world = World::new(1, Config::clean());
    let mut process = Process::new(&world, 1);
    process.writable = Writable::to(["alice".parse().unwrap()]).unwrap();
    let opening = process.clone();
    world.block_on(&process.host, async move {
        let volume = opening.volume();
        let root = directory(&volume, "").await;
        assert!(matches!(root.create(&nobody(), name("a"), NEW).await, Err(Error::Denied(_))));
        root.create(&alice(), name("a"), NEW).await.unwrap();
        assert!(read(&volume, &nobody(), "a").await.is_ok());
    });
}

pub(super) async fn read(volume: &Volume, who: &Caller, at: &str) -> Result<Resolved, Error> {
    volume.lookup_as(who, path(at), Rights::READ).await
}

fn accounts() -> Arc<Accounts> {
    Accounts::parse("version = 1\n[user.alice]\nid = 1000\n").unwrap()
}

pub(crate) fn alice() -> Caller {
    Caller::new(accounts().user("alice").unwrap())
}

pub(crate) fn operator() -> Caller {
    Caller::new(accounts().local_administrator())
}

pub(crate) fn list(given: &[(&str, Rights)]) -> Acl {
    let mut acl = Acl::new();
    for (who, rights) in given {
        acl.set(Side::Given, who.parse().unwrap(), *rights).unwrap();
    }
    acl
}
