//! Symbolic links as themselves: read, named by their numbers, promised to clients.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use identity::Writable;
use lane::backend::sim::{Config, seeds};
use lane::fs::FileKind;
use lane::time;
use vfs::{Error, Holder, Number, RelPath, Replace};

use super::{name, nobody, on_lanes, root, watched};

#[test]
fn a_link_is_what_it_says_and_has_a_number() {
    watched(Writable::anyone(), |volume, _| async move {
        let root = root(&volume).await;
        root.symlink(&nobody(), name("l"), b"#files.").await.unwrap();
        let link = root.symbolic_link(&nobody(), name("l")).await.unwrap();
        assert_eq!((link.target.as_slice(), link.attributes.kind), (&b"#files."[..], FileKind::Symlink));
        assert_eq!(link.object.seen_in(), Some((Number::ROOT, (*b"l").into())));
        root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let no_link = root.symbolic_link(&nobody(), name("d")).await;
        assert!(matches!(no_link, Err(Error::NotServable)));
        assert!(matches!(root.symbolic_link(&nobody(), name("x")).await, Err(Error::NotFound)));
    });
}

#[test]
fn a_link_is_promised_by_number_until_it_is_gone() {
    watched(Writable::anyone(), |volume, _| async move {
        let (root, client) = (root(&volume).await, volume.cache().client(Holder(7)).unwrap());
        root.symlink(&nobody(), name("l"), b"target").await.unwrap();
        let number = root.symbolic_link(&nobody(), name("l")).await.unwrap().object.number();
        let until = time::now() + Duration::from_secs(60);
        // It is not in use any more: the index knows where it was.
        let look_with_callback =
            volume.find_link_with_callback(&nobody(), &client, number, until).await.unwrap();
        assert_eq!(look_with_callback.link().target, b"target");
        assert_eq!(look_with_callback.confirm().unwrap().version, look_with_callback.link().object.version());
        root.rename(&nobody(), name("l"), &root, name("m"), vfs::Replace::Never).await.unwrap();
        let again = volume.find_link_with_callback(&nobody(), &client, number, until).await.unwrap();
        assert_eq!(again.link().object.seen_in(), Some((Number::ROOT, (*b"m").into())));
        root.remove(&nobody(), name("m")).await.unwrap();
        assert!(again.confirm().is_none(), "it is gone");
        let gone = volume.find_link_with_callback(&nobody(), &client, number, until).await;
        assert!(matches!(gone, Err(Error::Stale)), "{gone:?}");
        let never = Number { vnode: 4444, uniquifier: 1 };
        assert!(matches!(
            volume.find_link_with_callback(&nobody(), &client, never, until).await,
            Err(Error::Stale)
        ));
    });
}

#[test]
fn a_living_link_is_found_by_its_number_whatever_overtakes_a_look() {
    seeds(300, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let (number, is_over) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
        on_lanes(seed, config, 2, move |lane, _, volume| {
            let (number, is_over) = (Rc::clone(&number), Rc::clone(&is_over));
            async move {
                let (top, me) = (root(&volume).await, nobody());
                if lane == 1 {
                    let sub = top.make_directory(&me, name("sub"), 0o755).await.unwrap();
                    top.symlink(&me, name("l"), b"target").await.unwrap();
                    number.set(Some(top.symbolic_link(&me, name("l")).await.unwrap().object.number()));
                    for _ in 0..6 {
                        top.rename(&me, name("l"), &sub, name("m"), Replace::Never).await.unwrap();
                        sub.rename(&me, name("m"), &top, name("l"), Replace::Never).await.unwrap();
                    }
                    is_over.set(true);
                    return;
                }
                let client = volume.cache().client(Holder(7)).unwrap();
                while !is_over.get() {
                    let Some(number) = number.get() else {
                        time::sleep(Duration::from_micros(50)).await;
                        continue;
                    };
                    let until = time::now() + Duration::from_secs(60);
                    match volume.find_link_with_callback(&me, &client, number, until).await {
                        Ok(look_with_callback) => assert_eq!(look_with_callback.link().target, b"target"),
                        Err(error) => assert!(matches!(error, Error::Unsettled), "{error}"),
                    }
                }
            }
        });
    });
}

#[test]
fn ways_through_links_have_a_budget_for_each_look_up_and_each_listing() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let (root, fs) = (root(&volume).await, process.host.fs());
        root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let far = root.make_directory(&nobody(), name("far"), 0o755).await.unwrap();
        fs.symlink("d", "/srv/c0").unwrap();
        let link = |at: u32, detours: usize, of: &str| {
            let target = "d/../".repeat(detours) + &format!("{of}{}", at - 1);
            fs.symlink(&target, &format!("/srv/{of}{at}")).unwrap();
        };
        fs.symlink("d", "/srv/e0").unwrap();
        for at in 1..39 {
            link(at, 100, "c");
            link(at, 5, "e");
        }
        let read = async |at: &str| volume.lookup(RelPath::parse(at.as_bytes()).unwrap()).await;
        // As many links as the kernel follows, by ways that people make.
        assert!(read("e38").await.is_ok());
        let refused = read("c38").await;
        assert!(matches!(refused, Err(Error::SymlinkRefused)), "{refused:?}");
        assert!(volume.counters().link_steps_used_up.get() > 0);
        // One look more is no way round it; and each link of a listing takes from what all have.
        for number in 0..300 {
            fs.symlink("../e37", &format!("/srv/far/l{number}")).unwrap();
        }
        let listed = far.entries(1000).await.unwrap();
        let followed = listed.iter().filter(|entry| entry.attributes.is_directory()).count();
        assert!((10..300).contains(&followed), "{followed}");
        assert_eq!(listed.iter().count(), 300, "the others are there as themselves");
        assert_eq!(listed.links().len(), 300);
    });
}

#[test]
fn links_of_a_listing_that_lead_through_long_chains_are_listed_as_themselves_once_its_budget_is_spent() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let (root, fs) = (root(&volume).await, process.host.fs());
        for made in ["chains", "heads", "farm", "store"] {
            root.make_directory(&nobody(), name(made), 0o755).await.unwrap();
        }
        fs.write("/srv/store/page", "text").unwrap();
        let (links, hops) = (500, 30);
        for n in 0..links {
            for hop in 0..hops {
                fs.symlink(&format!("{n}-{}", hop + 1), &format!("/srv/chains/{n}-{hop}")).unwrap();
            }
            fs.symlink("../store/page", &format!("/srv/chains/{n}-{hops}")).unwrap();
            fs.symlink(&format!("../chains/{n}-0"), &format!("/srv/heads/{n}")).unwrap();
            fs.write(&format!("/srv/store/{n}"), "text").unwrap();
            fs.symlink(&format!("../store/{n}"), &format!("/srv/farm/{n}")).unwrap();
        }
        // Looks are of far ends, all files: what is none was not followed.
        let listed = async |at: &str| {
            let directory = volume.lookup(super::path(at)).await.unwrap().into_directory().unwrap().0;
            let listed = directory.entries(1000).await.unwrap();
            let followed = listed.iter().filter(|entry| entry.attributes.kind == FileKind::File).count();
            (listed.iter().count(), followed)
        };
        let (all, followed) = listed("heads").await;
        // 31 looks each of 16 beyond the link's own, of 32,768 and 24 for each link.
        let affordable = (32_768 + 24 * links) / (16 * hops);
        assert_eq!(all, links);
        assert!((affordable / 2..=affordable).contains(&followed), "{followed} of {affordable}");
        assert!(volume.counters().link_steps_used_up.get() > 0);
        // A link to a file beside it is none of these, however many there are.
        assert_eq!(listed("farm").await, (links, links));
        // By its own name each leads where it does.
        let last = volume.lookup(super::path("heads/499")).await.unwrap();
        assert_eq!(last.attributes().kind, FileKind::File);
    });
}
