//! Read-only volumes whose files lanes share all the same: for clients that cache.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Acl, Rights, Writable};
use lane::backend::sim::{Config, World};
use lane::fs::{AttributeChange, FileKind};
use lane::time;
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Directory, Error, Expect, Objects, ObjectsOptions, Replace,
    Volume, VolumeOptions, VolumeSpec,
};

use super::access::{alice, list, operator};
use super::callbacks::{Said, Service, look_with_callback, until};
use super::{name, nobody, path, root, watched};

#[test]
fn clients_are_promised_what_nobody_but_others_behind_the_servers_back_can_change() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "first").unwrap();
        assert!(volume.has_objects() && !volume.is_writable());
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        let look = look_with_callback(&volume, &client, "page").await;
        let (before, page) = (look.confirm().unwrap().version, look.resolved().object().unwrap().clone());
        assert_eq!(page.number().kind(), index::Kind::File);
        fs.write("/srv/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(page.identity().clone()))]);
        let look = look_with_callback(&volume, &client, "page").await;
        assert!(look.confirm().unwrap().version > before, "each content has its version");
    });
}

#[test]
fn callbacks_outlast_a_gate_that_was_closed() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "first").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        volume.shared().unwrap().close(vfs::Closed::ReadOnly);
        look_with_callback(&volume, &client, "page").await;
        fs.write("/srv/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        look_with_callback(&volume, &client, "page").await;
    });
}

#[test]
fn a_tree_that_the_index_knows_by_another_name_is_read_by_both() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "text").unwrap();
        fs.create_dir_all("/srv/sub").unwrap();
        fs.write("/srv/sub/page", "text").unwrap();
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        let known = look_with_callback(&volume, &client, "sub/page").await;
        let spec = VolumeSpec::new("other".parse().unwrap(), "/srv", VolumeOptions::default());
        let other = Volume::open(volume.cache(), &spec.with_objects()).unwrap();
        assert!(other.shared().unwrap().trouble().is_some(), "its files have numbers already");
        for at in ["page", "sub/page", "sub"] {
            for volume in [&other, &volume, &other] {
                volume.lookup_as(&nobody(), path(at), Rights::NONE).await.unwrap();
            }
        }
        let again = look_with_callback(&volume, &client, "sub/page").await;
        let number = |look: &vfs::LookupWithCallback| look.resolved().object().unwrap().number();
        assert_eq!(number(&again), number(&known));
    });
}

#[test]
fn a_volume_is_opened_by_its_new_name_as_what_it_was() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/page", "text").unwrap();
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        let before = look_with_callback(&volume, &client, "page").await;
        let shared = volume.shared().unwrap();
        shared.rename(&"other".parse().unwrap());
        assert_eq!(shared.record().unwrap().name, "other");
        let spec = VolumeSpec::new("other".parse().unwrap(), "/srv", VolumeOptions::default());
        let other = Volume::open(volume.cache(), &spec.writable_by(Writable::anyone())).unwrap();
        assert!(Arc::ptr_eq(shared, other.shared().unwrap()));
        let after = look_with_callback(&other, &client, "page").await;
        let seen = |look: &vfs::LookupWithCallback| {
            (look.resolved().object().unwrap().number(), look.confirm().unwrap().version)
        };
        assert_eq!(seen(&after), seen(&before));
    });
}

#[test]
fn every_change_is_refused_whoever_asks() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "as it was").unwrap();
        fs.create_dir_all("/srv/sub").unwrap();
        for caller in [nobody(), operator()] {
            let root = root(&volume).await;
            let page = name("page");
            root.access_list(&caller).await.unwrap();
            for refused in attempts(&volume, &root, &caller).await {
                assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
            }
            let expected = root.lookup_as(&caller, page, Rights::READ).await.unwrap();
            assert_eq!(expected.attributes().kind, FileKind::File);
        }
        assert_eq!(fs.read("/srv/page").unwrap(), b"as it was");
    });
}

#[test]
fn rights_count_in_a_volume_of_which_nothing_else_is_kept() {
    for watches_max in [0, 64] {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        fs.write("/srv/d/e/page", "").unwrap();
        fs.symlink("../d/e/page", "/srv/d/link").unwrap();
        fs.write("/srv/other/page", "").unwrap();
        fs.symlink("../d/e/page", "/srv/other/link").unwrap();
        let objects = Objects::unnumbered(ObjectsOptions { lanes_max: 1, ..Default::default() });
        let used = objects.clone();
        world.block_on(&host, async move {
            let cache = Cache::sharing(CacheOptions { watches_max, ..Default::default() }, &objects);
            let open = |name: &str, path: &str| {
                let spec = VolumeSpec::new(name.parse().unwrap(), path, VolumeOptions::default());
                Volume::open(&cache, &spec.guarded()).unwrap()
            };
            // One file lies in both.
            let (volume, inner) = (open("test", "/srv"), open("inner", "/srv/d"));
            assert!(volume.has_objects() && !volume.is_writable() && objects.volumes().is_empty());
            let closed = list(&[("alice", Rights::READER)]);
            let seen = async |who: &Caller, of: &Volume, at: &str| match of
                .lookup_as(who, super::path(at), Rights::READ)
                .await
            {
                Ok(_) => true,
                Err(Error::Denied(_)) => false,
                Err(other) => panic!("{at}: {other}"),
            };
            for (at, beneath) in
                [("/srv", &["", "d/e/page", "other/page", "other/link"][..]), ("/srv/d", &["d", "d/e/page"])]
            {
                for &name in beneath {
                    assert!(seen(&nobody(), &volume, name).await, "{at}: {name}");
                }
                assert!(seen(&nobody(), &inner, "e/page").await);
                fs.set_xattr(at, "user.linerate.acl", &closed.encode()).unwrap();
                time::sleep(Duration::from_millis(1001)).await;
                for &name in beneath {
                    assert!(!seen(&nobody(), &volume, name).await, "{at}: {name}");
                    assert!(seen(&alice(), &volume, name).await, "{at}: {name}");
                }
                let from_within = seen(&nobody(), &inner, "e/page").await;
                assert_eq!(from_within, at == "/srv", "a volume begins at its own directory");
                if at == "/srv/d" {
                    assert!(!seen(&nobody(), &volume, "other/link").await, "a link leads past no list");
                }
                fs.remove_xattr(at, "user.linerate.acl").unwrap();
                time::sleep(Duration::from_millis(1001)).await;
            }
            assert!(seen(&nobody(), &volume, "d/e/page").await);
            // What is known of a directory is not asked for again.
            let before = volume.counters().lookup_misses.get();
            for _ in 0..100 {
                assert!(seen(&nobody(), &volume, "d/e/page").await);
            }
            assert_eq!(volume.counters().lookup_misses.get(), before);
            let raw = lane::fs::Dir::open_root("/srv".as_ref()).unwrap();
            assert!(raw.as_file().xattrs().await.unwrap().is_empty(), "nothing is written");
            drop((volume, inner));
            cache.clear();
        });
        assert_eq!(used.in_use(), 0);
    }
}

/// One change of each kind.
async fn attempts(volume: &Volume, root: &Directory, caller: &Caller) -> Vec<Result<(), Error>> {
    let (page, new) = (name("page"), name("new"));
    let how = CreateOptions { exclusive: false, mode: 0o644 };
    let change = AttributeChange { mode: Some(0o700), ..AttributeChange::NONE };
    assert!(volume.lookup_as(caller, super::path("page"), Rights::READ).await.is_ok());
    vec![
        root.create(caller, new, how).await.map(drop),
        root.create(caller, page, how).await.map(drop),
        root.open_writer(caller, page).await.map(drop),
        root.stage(caller, 0o644).await.map(drop),
        root.make_directory(caller, new, 0o755).await.map(drop),
        root.symlink(caller, new, b"page").await,
        root.link(caller, page, new).await,
        root.remove_if(caller, page, Expect::Anything).await,
        root.remove_directory(caller, name("sub")).await,
        root.rename(caller, page, root, new, Replace::Existing).await,
        root.exchange(caller, page, root, name("sub")).await,
        root.set_attributes(caller, change).await,
        root.set_access_list(caller, Some(&Acl::new())).await,
    ]
}
