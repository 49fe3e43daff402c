//! Lanes that are asked before a name changes: lanes that may remember something of it, and no others.

use std::cell::Cell;
use std::rc::Rc;

use lane::backend::sim::Config;
use vfs::{CreateOptions, Expect, Holder, Replace, Volume};

use super::callbacks::{Said, Service, look_with_callback, until};
use super::{directory, inode, name, nobody, on_lanes, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

/// Two lanes that take turns: what `step` says.
fn in_turns<F, G>(
    first: impl Fn(Volume, Rc<Cell<u32>>) -> F + Copy + 'static,
    second: impl Fn(Volume, Rc<Cell<u32>>) -> G + Copy + 'static,
) where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    let step: Rc<Cell<u32>> = Rc::default();
    on_lanes(1, Config::clean(), 2, move |lane, _, volume| {
        let step = Rc::clone(&step);
        async move {
            match lane {
                0 => first(volume, step).await,
                _ => second(volume, step).await,
            }
        }
    });
}

#[test]
fn a_lane_is_asked_of_names_that_it_remembers_and_of_no_others() {
    in_turns(
        async |volume, step| {
            until(|| step.get() == 1).await;
            let root = root(&volume).await;
            let asked = volume.counters();
            for n in 0..20 {
                let other = format!("other{n}");
                root.create(&nobody(), name(&other), NEW).await.unwrap();
                root.rename(&nobody(), name(&other), &root, name("moved"), Replace::Never).await.unwrap();
                root.remove(&nobody(), name("moved")).await.unwrap();
            }
            // Two names may have one count, by chance.
            assert!(asked.invalidations_sent.get() < 6, "{} questions", asked.invalidations_sent.get());
            assert!(asked.invalidations_filtered.get() > 50);
            let before = asked.invalidations_sent.get();
            root.create(&nobody(), name("absent"), NEW).await.unwrap();
            root.remove(&nobody(), name("there")).await.unwrap();
            root.rename(&nobody(), name("dir"), &root, name("elsewhere"), Replace::Never).await.unwrap();
            assert!(asked.invalidations_sent.get() >= before + 3);
            step.set(2);
        },
        async |volume, step| {
            let top = root(&volume).await;
            top.create(&nobody(), name("there"), NEW).await.unwrap();
            let dir = top.make_directory(&nobody(), name("dir"), 0o755).await.unwrap();
            dir.create(&nobody(), name("page"), NEW).await.unwrap();
            assert!(inode(&volume, "dir/page").await.is_some());
            assert_eq!(inode(&volume, "absent").await, None);
            step.set(1);
            until(|| step.get() == 2).await;
            assert!(inode(&volume, "absent").await.is_some());
            assert_eq!(inode(&volume, "there").await, None);
            assert_eq!(inode(&volume, "dir/page").await, None);
            assert!(inode(&volume, "elsewhere/page").await.is_some());
        },
    );
}

#[test]
fn a_lane_whose_client_was_promised_a_directory_is_asked_whatever_it_remembers() {
    in_turns(
        async |volume, step| {
            until(|| step.get() == 1).await;
            let root = root(&volume).await;
            root.create(&nobody(), name("new"), NEW).await.unwrap();
            step.set(2);
        },
        async |volume, step| {
            let service = Service::teller_on(&volume);
            let client = volume.cache().client(Holder(1)).unwrap();
            let top = look_with_callback(&volume, &client, "")
                .await
                .resolved()
                .object()
                .unwrap()
                .identity()
                .clone();
            step.set(1);
            until(|| step.get() == 2).await;
            assert_eq!(service.told.take(), [(1, Said::Object(top))]);
        },
    );
}

#[test]
fn a_lane_is_asked_no_more_once_its_client_has_heard_that_all_is_void() {
    in_turns(
        async |volume, step| {
            until(|| step.get() == 1).await;
            let root = root(&volume).await;
            for n in 0..20 {
                root.create(&nobody(), name(&format!("new{n}")), NEW).await.unwrap();
            }
            let asked = volume.counters().invalidations_sent.get();
            // Two names may have one count, by chance.
            assert!(asked <= 3, "{asked} questions");
            step.set(2);
        },
        async |volume, step| {
            let service = Service::teller_on(&volume);
            let client = volume.cache().client(Holder(1)).unwrap();
            assert!(look_with_callback(&volume, &client, "").await.confirm().is_some());
            volume.cache().void_all(&client).await;
            assert_eq!(service.told.take(), [(1, Said::All)]);
            step.set(1);
            until(|| step.get() == 2).await;
            assert!(service.told.take().is_empty());
        },
    );
}

#[test]
fn uploads_to_one_name_from_two_lanes_ask_nobody_once_it_is_there() {
    async fn upload(volume: Volume, step: Rc<Cell<u32>>, odd: u32) {
        let root = directory(&volume, "").await;
        while step.get() < 40 {
            until(|| step.get() % 2 == odd).await;
            if step.get() < 40 {
                let staged = root.stage(&nobody(), 0o644).await.unwrap();
                staged.publish(&nobody(), name("page"), Expect::Anything).await.unwrap();
                step.set(step.get() + 1);
            }
        }
        // The first one is kept, as it took no other's place.
        assert!(
            volume.counters().invalidations_sent.get() <= 1,
            "{}",
            volume.counters().invalidations_sent.get()
        );
        assert!(volume.counters().invalidations_filtered.get() > 10);
    }
    in_turns(|volume, step| upload(volume, step, 0), |volume, step| upload(volume, step, 1));
}
