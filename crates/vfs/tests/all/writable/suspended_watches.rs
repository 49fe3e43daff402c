//! Directories in which this server changes something again and again: they stay relied on, and their watches rest.

use std::rc::Rc;
use std::time::Duration;

use identity::Writable;
use lane::backend::sim::{Config, World};
use lane::time;
use vfs::{Cache, CacheOptions, CreateOptions, Directory, Holder, Volume, VolumeOptions, VolumeSpec};

use super::callbacks::{Said, Service, look_with_callback, sorted, until};
use super::{Process, directory, inode, name, nobody, root, watched};

#[test]
fn a_directory_is_relied_on_after_its_last_name_has_gone() {
    watched(Writable::anyone(), |volume, _| async move {
        let root = root(&volume).await;
        come_and_go(&root, 1).await;
        assert_eq!(volume.counters().watches.get(), 1);
        time::sleep(CacheOptions::default().idle_max * 3).await;
        assert_eq!(volume.counters().watches.get(), 0, "until nothing is changed there any more");
    });
}

#[test]
fn a_watch_rests_while_the_server_itself_changes_much_and_no_change_of_others_is_missed_for_long() {
    watched(Writable::anyone(), |volume, fs| async move {
        let root = root(&volume).await;
        fs.write("/srv/page", "first").unwrap();
        let first = inode(&volume, "page").await.unwrap();
        come_and_go(&root, 100).await;
        let counters = volume.counters();
        assert_eq!((counters.watches.get(), counters.watches_rested.get()), (0, 1));
        // Nothing tells of this but the end of the time to live.
        fs.replace("/srv/page", "second").unwrap();
        time::sleep(CacheOptions::default().ttl).await;
        let second = inode(&volume, "page").await.unwrap();
        assert_ne!(first, second);
        come_and_go(&root, 100).await;
        assert_eq!(counters.watches.get(), 0, "it rests for as long as there is much");
        for _ in 0..3 {
            time::sleep(CacheOptions::default().ttl).await;
            assert_eq!(inode(&volume, "page").await, Some(second));
        }
        assert_eq!((counters.watches.get(), counters.watches_rested.get()), (1, 1));
        // From here on changes are told again.
        fs.replace("/srv/page", "third").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_ne!(inode(&volume, "page").await, Some(second));
    });
}

#[test]
fn who_relies_on_something_where_a_watch_rested_hears_what_others_did_meanwhile() {
    watched(Writable::anyone(), |volume, fs| async move {
        for at in ["written", "replaced", "stays"] {
            fs.write(&format!("/srv/{at}"), at).unwrap();
        }
        let root = root(&volume).await;
        let counters = volume.counters();
        come_and_go(&root, 100).await;
        assert_eq!((counters.watches.get(), counters.watches_rested.get()), (0, 1));
        let service = Service::on(&volume, &Rc::default());
        let [one, two] = [1, 2].map(|n| volume.cache().client(Holder(n)).unwrap());
        let rely = async |at| {
            look_with_callback(&volume, &one, at).await.resolved().object().unwrap().identity().clone()
        };
        let (written, replaced, stays) = (rely("written").await, rely("replaced").await, rely("stays").await);
        look_with_callback(&volume, &two, "").await;
        fs.write("/srv/written", "by another").unwrap();
        fs.replace("/srv/replaced", "by another").unwrap();
        time::sleep(Duration::from_millis(100)).await;
        assert!(service.told.borrow().is_empty(), "nobody watches");
        until(|| service.told.borrow().len() >= 3).await;
        let top = root.object().unwrap().identity().clone();
        let heard = [(1, Said::Object(written)), (1, Said::Object(replaced)), (2, Said::Object(top))];
        assert_eq!(sorted(&service.told), sorted(&Rc::new(std::cell::RefCell::new(heard.into()))));
        // From here on it is watched again, for as long as the client relies on something in it.
        time::sleep(CacheOptions::default().idle_max * 10).await;
        assert_eq!((counters.watches.get(), counters.watches_rested.get()), (1, 1));
        fs.write("/srv/stays", "by another").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(stays))]);
    });
}

#[test]
fn a_watch_rests_too_where_a_change_above_had_the_directory_looked_at_anew() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/many/stays", "there").unwrap();
        let many = directory(&volume, "many").await;
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let rely = async |at| look_with_callback(&volume, &client, at).await;
        let stays = rely("many/stays").await.resolved().object().unwrap().identity().clone();
        rely("").await;
        for storm in 1..=3 {
            // All beneath may be something else by now.
            fs.write(&format!("/srv/beside {storm}"), "").unwrap();
            until(|| !service.told.borrow().is_empty()).await;
            service.told.take();
            rely("").await;
            come_and_go(&many, 100).await;
            assert_eq!(volume.counters().watches_rested.get(), storm);
            fs.write("/srv/many/stays", format!("after storm {storm}")).unwrap();
            until(|| !service.told.borrow().is_empty()).await;
            assert_eq!(
                service.told.take(),
                [(1, Said::Object(stays.clone()))],
                "told at the end of the rest"
            );
            rely("many/stays").await;
            fs.write("/srv/many/stays", "meanwhile").unwrap();
            until(|| !service.told.borrow().is_empty()).await;
            assert_eq!(service.told.take(), [(1, Said::Object(stays.clone()))], "told by its watch");
            rely("many/stays").await;
        }
    });
}

#[test]
fn numbers_that_are_reserved_change_nothing_that_anybody_is_told_of() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/many/stays", "there").unwrap();
        let many = directory(&volume, "many").await;
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        look_with_callback(&volume, &client, "").await;
        let stamp = || fs.stat("/srv").unwrap().ctime;
        let before = stamp();
        come_and_go(&many, 40_000).await;
        time::sleep(Duration::from_secs(10)).await;
        assert_ne!(stamp(), before, "its mark has been written");
        look_with_callback(&volume, &client, "").await;
        assert_eq!(service.told.take(), []);
        assert_eq!(volume.counters().external_changes.get(), 0);
    });
}

#[test]
fn a_watch_rests_too_while_another_lane_changes_much_that_this_one_remembers_nothing_of() {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 2);
    let (quiet, busy) = (process.clone(), process.clone());
    let fs = process.host.fs();
    fs.write("/srv/page", "first").unwrap();
    let relying = process.host.start_on(1, async move {
        let volume = watching(&quiet);
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let page = look_with_callback(&volume, &client, "page")
            .await
            .resolved()
            .object()
            .unwrap()
            .identity()
            .clone();
        assert_eq!(volume.counters().watches.get(), 1);
        until(|| volume.counters().watches_rested.get() == 1).await;
        quiet.host.fs().write("/srv/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(page))]);
        assert_eq!(volume.counters().watches.get(), 1);
    });
    world.block_on(&process.host, async move {
        let volume = watching(&busy);
        time::sleep(Duration::from_millis(100)).await;
        come_and_go(&root(&volume).await, 100).await;
        relying.await;
    });
    world.end();
}

#[test]
fn what_nobody_saw_while_the_watches_of_several_lanes_rested_is_told_once() {
    const LANES: usize = 4;
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, LANES);
    process.host.fs().create_dir_all("/srv/many").unwrap();
    let others = process.lanes[1..].to_vec();
    let relying: Vec<_> = others
        .into_iter()
        .map(|lane| {
            let process = process.clone();
            process.host.clone().start_on(lane, async move {
                let volume = watching(&process);
                let service = Service::on(&volume, &Rc::default());
                let client = volume.cache().client(Holder(lane as u64)).unwrap();
                let many =
                    look_with_callback(&volume, &client, "many").await.resolved().object().unwrap().clone();
                until(|| volume.counters().watches_rested.get() == 1).await;
                // The client was told of the first change, and relies on it anew once there are no more.
                let storm_is_over = async || {
                    let before = many.version();
                    time::sleep(Duration::from_millis(100)).await;
                    many.version() == before
                };
                while !storm_is_over().await {}
                look_with_callback(&volume, &client, "many").await;
                service.told.take();
                let after_storm = many.version();
                time::sleep(Duration::from_secs(10)).await;
                let raised = u64::from(many.version()) - u64::from(after_storm);
                // Once more by the lane whose clients rely on nothing, which may be the first.
                assert!((1..=2).contains(&raised), "{raised}");
                assert_eq!(service.told.take().len(), 1);
                look_with_callback(&volume, &client, "many").await;
                time::sleep(Duration::from_secs(10)).await;
                if lane == process.lanes[1] {
                    process.host.fs().write("/srv/many/theirs", "").unwrap();
                }
                until(|| !service.told.borrow().is_empty()).await;
            })
        })
        .collect();
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = watching(&process);
        time::sleep(Duration::from_millis(100)).await;
        come_and_go(&directory(&volume, "many").await, 100).await;
        for task in relying {
            task.await;
        }
    });
    world.end();
}

/// The volume, on the current lane, in a cache that watches.
fn watching(process: &Process) -> Volume {
    let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
    let cache = Cache::sharing(CacheOptions::default(), &process.objects);
    Volume::open(&cache, &spec.with_objects().writable_by(process.writable.clone())).unwrap()
}

pub(super) async fn come_and_go(root: &Directory, times: usize) {
    for _ in 0..times {
        root.create(&nobody(), name("lock"), CreateOptions { exclusive: true, mode: 0o644 }).await.unwrap();
        root.remove(&nobody(), name("lock")).await.unwrap();
    }
}
