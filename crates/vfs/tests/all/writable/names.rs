//! Directories with the numbers of what is in them, and images of them that are kept up to date by edits.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use identity::{Rights, Writable};
use index::Kind;
use lane::backend::sim::Config;
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{CreateOptions, Directory, Edit, Error, Expect, History, Number, RelPath, Replace, Volume};

use super::{directory, name, nobody, on_lanes, root, watched};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
/// Within this time what another program has changed is found where it is watched.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// A directory as an image of it shows it.
struct Image {
    names: BTreeMap<Vec<u8>, Number>,
    history: History,
}

impl Image {
    async fn of(directory: &Directory) -> Result<Self, Error> {
        Self::at_most(directory, 20_000).await
    }

    async fn at_most(directory: &Directory, max: usize) -> Result<Self, Error> {
        let names = directory.names(max).await?;
        let entries = names.entries.iter().map(|entry| (entry.name.to_vec(), entry.number));
        Ok(Self { names: entries.collect(), history: names.history })
    }

    /// Applies what has changed; `false` where that is not known.
    fn catch_up(&mut self) -> bool {
        let Some(edits) = self.history.catch_up() else { return false };
        for edit in edits {
            match edit {
                Edit::Added { name, number } => {
                    let before = self.names.insert(name.to_vec(), number);
                    assert_eq!(before, None, "it goes before it comes");
                }
                Edit::Removed { name } => assert!(self.names.remove(&*name).is_some()),
            }
        }
        true
    }
}

#[test]
fn ten_thousand_names_are_listed_with_their_numbers_and_each_has_the_one_it_is_found_by() {
    watched(Writable::anyone(), |volume, fs| async move {
        for n in 0..10_000 {
            fs.write(&format!("/srv/f{n}"), "").unwrap();
        }
        fs.create_dir_all("/srv/.sub").unwrap();
        fs.symlink("nowhere", "/srv/link").unwrap();
        fs.write("/srv/.linerate-1-2-3", "").unwrap();
        let root = root(&volume).await;
        assert!(matches!(root.names(10_000).await, Err(Error::TooLarge { .. })));
        let used = root.lookup(name("f77")).await.unwrap().object().unwrap().number();
        let image = Image::of(&root).await.unwrap();
        assert_eq!(image.names.len(), 10_002, "all but the server's own");
        assert_eq!(image.names[&b"f77"[..]], used);
        assert_eq!(image.names[&b".sub"[..]].kind(), Kind::Directory);
        assert_eq!(image.names[&b"link"[..]].kind(), Kind::File);
        let numbers: std::collections::BTreeSet<_> = image.names.values().collect();
        assert_eq!(numbers.len(), image.names.len());
        for at in ["f0", "f4711", "f9999"] {
            let number = image.names[at.as_bytes()];
            let found = volume.find(&nobody(), number, Rights::READ).await.unwrap();
            assert_eq!(found.attributes().id, root.lookup(name(at)).await.unwrap().attributes().id);
        }
        let again = Image::of(&root).await.unwrap();
        assert_eq!(again.names, image.names, "for ever");
        assert_eq!(again.history.version(), image.history.version());
    });
}

#[test]
fn what_another_program_does_between_changes_of_ours_is_in_another_version() {
    watched(Writable::anyone(), |volume, fs| async move {
        let (root, me) = (root(&volume).await, nobody());
        let mut image = Image::of(&root).await.unwrap();
        let before = image.history.version();
        root.create(&me, name("ours"), NEW).await.unwrap();
        time::sleep(SEEN_WITHIN).await;
        assert!(image.catch_up(), "what notification tells of a change of ours is no other's");
        assert_eq!(image.history.version(), before.next());
        // No client has looked since the change of ours.
        fs.write("/srv/theirs", "").unwrap();
        let mut image = Image::of(&root).await.unwrap();
        assert!(image.names.contains_key(&b"theirs"[..]));
        assert!(image.history.version() > before.next());
        time::sleep(SEEN_WITHIN).await;
        image = Image::of(&root).await.unwrap();
        // Within one tick of the clock for stamps, which a change of ours ends.
        fs.write("/srv/hidden", "").unwrap();
        root.create(&me, name("next"), NEW).await.unwrap();
        time::sleep(SEEN_WITHIN).await;
        assert!(!image.catch_up(), "there is a name that no edit brings");
        image = Image::of(&root).await.unwrap();
        assert!(image.names.contains_key(&b"hidden"[..]));
        // The very name that was made.
        root.create(&me, name("upload"), NEW).await.unwrap();
        fs.rename("/srv/upload", "/srv/taken").unwrap();
        time::sleep(SEEN_WITHIN).await;
        assert!(!image.catch_up());
        let image = Image::of(&root).await.unwrap();
        assert!(image.names.contains_key(&b"taken"[..]) && !image.names.contains_key(&b"upload"[..]));
    });
}

#[test]
fn an_image_follows_each_change_in_one_step_of_the_version() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let sub = root.make_directory(&nobody(), name("sub"), 0o755).await.unwrap();
        // What notification tells of that when there is an image already may be of any program.
        time::sleep(SEEN_WITHIN).await;
        let mut images = [Image::of(&root).await.unwrap(), Image::of(&sub).await.unwrap()];
        let reads = volume.counters().names_read.get();
        let me = nobody();
        let number = |image: &Image, at: &str| image.names.get(at.as_bytes()).copied();
        root.create(&me, name("a"), NEW).await.unwrap();
        root.link(&me, name("a"), name("b")).await.unwrap();
        root.symlink(&me, name("c"), b"a").await.unwrap();
        root.make_directory(&me, name("d"), 0o755).await.unwrap();
        assert!(images[0].catch_up());
        assert_eq!(number(&images[0], "a"), number(&images[0], "b"));
        let [a, c, d] = ["a", "c", "d"].map(|at| number(&images[0], at).unwrap());
        root.rename(&me, name("d"), &sub, name("e"), Replace::Never).await.unwrap();
        root.rename(&me, name("a"), &root, name("c"), Replace::Existing).await.unwrap();
        root.exchange(&me, name("b"), &sub, name("e")).await.unwrap();
        let staged = root.stage(&me, 0o644).await.unwrap();
        staged.publish(&me, name("c"), Expect::Anything).await.unwrap();
        root.remove_directory(&me, name("b")).await.unwrap();
        sub.remove(&me, name("e")).await.unwrap();
        assert!(images.iter_mut().all(Image::catch_up));
        assert_eq!(images[0].names.keys().collect::<Vec<_>>(), [b"c", &b"sub"[..]]);
        assert!(images[1].names.is_empty());
        assert!(![a, c, d].contains(&number(&images[0], "c").unwrap()), "it was published since");
        for (image, directory) in images.iter().zip([&root, &sub]) {
            assert_eq!(image.history.version(), directory.object().unwrap().version());
            assert_eq!(image.names, Image::of(directory).await.unwrap().names);
        }
        assert_eq!(volume.counters().names_read.get(), reads + 2, "by edits alone");
        // One that is refused leaves an image as it is; one that fails has it made anew.
        assert!(root.remove_directory(&me, name("c")).await.is_err());
        assert!(images[0].catch_up());
        root.create(&me, name("c"), NEW).await.unwrap_err();
        let is_known = images[0].catch_up();
        assert!(!is_known || images[0].history.version() == root.object().unwrap().version());
    });
}

#[test]
fn what_others_change_behind_the_servers_back_has_an_image_made_anew() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/a", "").unwrap();
        let root = root(&volume).await;
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        super::callbacks::look_with_callback(&volume, &client, "").await;
        let mut image = Image::of(&root).await.unwrap();
        assert!(image.catch_up());
        // Longer than a tick of the file system's clock.
        time::sleep(Duration::from_millis(20)).await;
        fs.write("/srv/b", "").unwrap();
        super::callbacks::look_with_callback(&volume, &client, "").await;
        assert!(!image.catch_up());
        assert_eq!(Image::of(&root).await.unwrap().names.len(), 2);
    });
}

#[test]
fn images_on_several_lanes_equal_the_directory_at_their_version_whatever_is_changed_meanwhile() {
    lane::backend::sim::seeds(1000, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let changing = Rc::new(Cell::new(2));
        on_lanes(seed, config, 3, move |lane, _, volume| {
            let changing = Rc::clone(&changing);
            async move {
                let mut rng = SmallRng::seed_from_u64(seed * 3 + lane as u64);
                if lane > 0 {
                    change_at_random(&volume, &mut rng).await;
                    changing.set(changing.get() - 1);
                    return;
                }
                let mut images: VecDeque<Image> = VecDeque::new();
                while changing.get() > 0 {
                    time::sleep(Duration::from_micros(rng.random_range(0..500))).await;
                    match Image::of(&root(&volume).await).await {
                        Ok(image) => images.push_back(image),
                        Err(error) => assert!(matches!(error, Error::Unsettled), "{error}"),
                    }
                    images.retain_mut(Image::catch_up);
                    images.truncate(4);
                }
                let last = Image::of(&root(&volume).await).await.unwrap();
                for image in &mut images {
                    if image.catch_up() {
                        assert_eq!(image.history.version(), last.history.version());
                        assert_eq!(image.names, last.names);
                    }
                }
                for (at, number) in &last.names {
                    let found = volume.find(&nobody(), *number, Rights::READ).await.unwrap();
                    let named = volume.lookup(RelPath::parse(at).unwrap()).await.unwrap();
                    assert_eq!(found.attributes().id, named.attributes().id);
                }
            }
        });
    });
}

async fn change_at_random(volume: &Volume, rng: &mut SmallRng) {
    let (top, me) = (root(volume).await, nobody());
    let names = ["a", "b", "c", "d"];
    for _ in 0..12 {
        time::sleep(Duration::from_micros(rng.random_range(0..500))).await;
        let [one, other] = [(); 2].map(|()| name(names.choose(rng).unwrap()));
        // What cannot be done is refused.
        match rng.random_range(0..6) {
            0 => drop(top.remove(&me, one).await),
            1 => drop(top.rename(&me, one, &top, other, Replace::Existing).await),
            2 => drop(top.link(&me, one, other).await),
            3 => drop(top.make_directory(&me, one, 0o755).await),
            4 => drop(top.remove_directory(&me, one).await),
            _ => drop(top.create(&me, one, NEW).await),
        }
    }
    assert!(directory(volume, "").await.object().is_some());
}
