//! Volumes in a simulated world: every answer is one that was true within the time to live, whatever the
//! disk, the change notification and the limits do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lane::backend::sim::{Config, Fs, Host, Remains, World, seeds};
use lane::buffer::BufClass;
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    Cache, CacheOptions, Caller, Error, OpenFile, PageLimits, RelPath, Resolved, Volume, VolumeOptions,
    VolumeSpec,
};

#[test]
fn an_answer_is_never_older_than_the_time_to_live() {
    seeds(100, |seed| {
        in_world(seed, Config::rough(), |world| async move {
            // Half of all worlds have no watches, a few lose what the watches tell.
            let watches_max = if seed % 2 == 0 { 64 } else { 0 };
            let options = CacheOptions { ttl: TTL, watches_max, open_files_max: 4, ..Default::default() };
            let volume = world.volume(options, VolumeOptions::default());
            let history = Rc::new(RefCell::new(History::default()));
            for path in PATHS {
                history.borrow_mut().note(path, None);
            }
            let changes = lane::spawn(change_at_random(world.fs.clone(), seed, Rc::clone(&history)));
            let mut readers = Vec::new();
            for reader in 0..4 {
                readers.push(lane::spawn(read_at_random(volume.clone(), seed + reader, Rc::clone(&history))));
            }
            changes.await;
            for reader in readers {
                reader.await;
            }
        });
    });
}

#[test]
fn a_change_during_a_slow_open_is_not_hidden_by_what_the_open_found() {
    seeds(50, |seed| {
        let mut config = Config::clean();
        config.fs.cold_open = 1.0;
        config.fs.delay = Duration::from_millis(5)..Duration::from_millis(20);
        in_world(seed, config, |world| async move {
            world.fs.write("/srv/a/page", "old").unwrap();
            world.fs.hard_link("/srv/a/page", "/srv/keeps-old-alive").unwrap();
            let volume = world.volume(patient(), VolumeOptions::default());
            let mut rng = SmallRng::seed_from_u64(seed);
            let first = lane::spawn({
                let volume = volume.clone();
                async move { lookup(&volume, "a/page").await.map(drop) }
            });
            time::sleep(Duration::from_millis(rng.random_range(0..80))).await;
            world.fs.replace("/srv/a/page", "new").unwrap();
            first.await.unwrap();
            time::sleep(Duration::from_millis(1)).await;
            assert_eq!(text(&volume, "a/page").await.unwrap(), "new");
        });
    });
}

#[test]
fn lost_events_make_every_cached_answer_doubtful() {
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/a/page", "old").unwrap();
        world.fs.hard_link("/srv/a/page", "/srv/keeps-old-alive").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        assert_eq!(text(&volume, "a/page").await.unwrap(), "old");
        assert!(matches!(lookup(&volume, "a/none").await, Err(Error::NotFound)));
        world.fs.replace("/srv/a/page", "new").unwrap();
        world.fs.write("/srv/a/none", "there").unwrap();
        world.fs.overflow_watches();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(text(&volume, "a/page").await.unwrap(), "new");
        assert_eq!(text(&volume, "a/none").await.unwrap(), "there");
        assert_eq!(volume.counters().notify_overflows.get(), 1);
        // And changes are heard again.
        world.fs.replace("/srv/a/page", "newer").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(text(&volume, "a/page").await.unwrap(), "newer");
    });
}

#[test]
fn a_directory_lost_with_the_events_and_made_anew_is_watched_anew() {
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/a/page", "old").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        assert_eq!(text(&volume, "a/page").await.unwrap(), "old");
        world.fs.remove("/srv/a").unwrap();
        world.fs.write("/srv/a/page", "new").unwrap();
        world.fs.hard_link("/srv/a/page", "/srv/keeps-new-alive").unwrap();
        world.fs.overflow_watches();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(text(&volume, "a/page").await.unwrap(), "new");
        world.fs.replace("/srv/a/page", "newer").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(text(&volume, "a/page").await.unwrap(), "newer");
        let hits = volume.counters().lookup_hits.get();
        assert_eq!(text(&volume, "a/page").await.unwrap(), "newer");
        assert_eq!(volume.counters().lookup_hits.get(), hits + 1);
    });
}

#[test]
fn a_directory_closed_to_the_server_closes_what_is_cached_beneath_it() {
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/a/b/page", "x").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        assert_eq!(text(&volume, "a/b/page").await.unwrap(), "x");
        world.fs.set_mode("/srv/a", 0).unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert!(matches!(lookup(&volume, "a/b/page").await, Err(Error::AccessDenied)));
        world.fs.set_mode("/srv/a", 0o755).unwrap();
        assert_eq!(text(&volume, "a/b/page").await.unwrap(), "x");
    });
}

#[test]
fn no_name_leads_out_of_the_volume() {
    seeds(20, |seed| {
        in_world(seed, Config::rough(), |world| async move {
            world.fs.write("/etc/passwd", "secret").unwrap();
            world.fs.write("/srv/a/b/file", "inside").unwrap();
            for (target, link) in [
                ("/etc/passwd", "absolute"),
                ("../etc/passwd", "relative"),
                ("../../../etc", "a/b/up"),
                ("..", "parent"),
                ("a/b/up", "chain"),
                ("/srv/../etc", "dotted"),
                ("/srvant/a", "other"),
                ("/srv/again/again", "again"),
            ] {
                world.fs.symlink(target, &format!("/srv/{link}")).unwrap();
            }
            world.fs.symlink("b/file", "/srv/a/alias").unwrap();
            world.fs.pipe("/srv/pipe").unwrap();
            let volume = world.volume(CacheOptions::default(), VolumeOptions::default());
            for path in [
                "absolute",
                "relative",
                "a/b/up",
                "a/b/up/passwd",
                "parent",
                "parent/etc",
                "chain",
                "dotted/passwd",
                "other",
            ] {
                assert!(matches!(lookup(&volume, path).await, Err(Error::Escapes)), "{path}");
            }
            assert!(matches!(lookup(&volume, "pipe").await, Err(Error::NotServable)));
            assert!(matches!(lookup(&volume, "again").await, Err(Error::SymlinkRefused)));
            assert_eq!(text(&volume, "a/alias").await.unwrap(), "inside");
            let root = lookup(&volume, "").await.unwrap().into_directory().unwrap().0;
            let listing = root.entries(100).await.unwrap();
            assert_eq!(listing.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), [b"a"]);
            assert_eq!(volume.counters().refused_escape.get(), 9);
        });
    });
}

#[test]
fn absolute_links_that_stay_inside_lead_where_they_say() {
    seeds(20, |seed| {
        in_world(seed, Config::rough(), |world| async move {
            world.fs.write("/disk/pub/a/b/file", "inside").unwrap();
            world.fs.symlink("/disk/pub", "/srv/pub").unwrap();
            for (target, link) in [
                ("/srv/pub/a/b/file", "file"),
                ("/disk/pub/a", "dir"),
                ("/srv/pub/dir/b", "chain"),
                ("../chain", "a/relative"),
                ("/srv/pub/", "top"),
                ("/disk/pub/a/b/../b/./file", "dots"),
                ("/srv/pub/loop", "loop"),
                ("/disk/elsewhere", "out"),
            ] {
                world.fs.symlink(target, &format!("/disk/pub/{link}")).unwrap();
            }
            let spec = VolumeSpec::new("v".parse().unwrap(), "/srv/pub", VolumeOptions::default());
            let volume = Volume::open(&Cache::new(CacheOptions::default()), &spec).unwrap();
            for path in ["file", "dir/b/file", "chain/file", "a/relative/file", "top/top/dir/b/file", "dots"]
            {
                assert_eq!(text(&volume, path).await.unwrap(), "inside", "{path}");
            }
            for path in ["out", "top/out/x"] {
                assert!(matches!(lookup(&volume, path).await, Err(Error::Escapes)), "{path}");
            }
            assert!(matches!(lookup(&volume, "loop").await, Err(Error::SymlinkRefused)));
            assert!(matches!(lookup(&volume, "dir/none").await, Err(Error::NotFound)));
            let root = lookup(&volume, "").await.unwrap().into_directory().unwrap().0;
            let names: Vec<_> =
                root.entries(100).await.unwrap().iter().map(|entry| entry.name.to_vec()).collect();
            assert_eq!(
                names,
                ["a", "chain", "dir", "dots", "file", "top"].map(|name| name.as_bytes().to_vec())
            );
            let chain = lookup(&volume, "chain").await.unwrap().into_directory().unwrap().0;
            assert_eq!(chain.entries(100).await.unwrap().len(), 1);
            let none = VolumeOptions { follow_symlinks: false, ..VolumeOptions::default() };
            let spec = VolumeSpec::new("w".parse().unwrap(), "/srv/pub", none);
            let strict = Volume::open(&Cache::new(CacheOptions::default()), &spec).unwrap();
            assert!(matches!(lookup(&strict, "file").await, Err(Error::SymlinkRefused)));
        });
    });
}

#[test]
fn a_read_with_an_unchanged_token_is_of_one_version() {
    seeds(100, |seed| {
        in_world(seed, Config::rough(), |world| async move {
            let version = |n: u8| vec![n; 20_000 - usize::from(n)];
            world.fs.write("/srv/file", version(0)).unwrap();
            // Away from the clock tick of the first version.
            time::sleep(Duration::from_millis(100)).await;
            let volume = world.volume(CacheOptions::default(), VolumeOptions::default());
            let writer = lane::spawn({
                let fs = world.fs.clone();
                async move {
                    for n in 1..20 {
                        time::sleep(Duration::from_millis(3)).await;
                        match n % 3 {
                            0 => fs.truncate("/srv/file", 1000 + usize::from(n)).unwrap(),
                            _ => fs.write("/srv/file", version(n)).unwrap(),
                        }
                    }
                }
            });
            let mut changed = 0;
            while !writer.is_finished() {
                let (file, before) = lookup(&volume, "file").await.unwrap().into_file().unwrap();
                let content = read_all(&file).await;
                match file.check_unchanged(&before.change_token()) {
                    Ok(()) => {
                        assert_eq!(content.len() as u64, before.size);
                        assert!(content.iter().all(|&byte| byte == content[0]));
                    }
                    Err(Error::Changed) => changed += 1,
                    Err(other) => panic!("{other}"),
                }
                time::sleep(Duration::from_micros(100)).await;
            }
            assert_eq!(volume.counters().changed_while_read.get(), changed);
        });
    });
}

#[test]
fn out_of_descriptors_only_new_files_are_refused_and_only_until_some_are_free() {
    in_world(1, Config::clean(), |world| async move {
        for n in 0..40 {
            world.fs.write(&format!("/srv/f{n}"), "x").unwrap();
        }
        let volume = world.volume(CacheOptions::default(), VolumeOptions::default());
        world.host.set_descriptors_max(16);
        // Nothing uses what is cached: it makes room.
        for n in 0..40 {
            lookup(&volume, &format!("f{n}")).await.unwrap();
        }
        assert!(volume.counters().invalidated_shed.get() > 0);
        let mut in_use = Vec::new();
        let refused = loop {
            match lookup(&volume, &format!("f{}", in_use.len())).await {
                Ok(found) => in_use.push(found.into_file().unwrap().0),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::TooManyOpen));
        assert!(in_use.len() >= 12 && in_use.iter().all(|file| file.attributes().is_ok()));
        in_use.clear();
        lookup(&volume, "f39").await.unwrap();
    });
}

#[test]
fn a_failing_disk_is_told_and_not_remembered() {
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/file", "x").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        world.fs.configure(|fs| fs.name_error = 1.0);
        assert!(matches!(lookup(&volume, "file").await, Err(Error::Io(_))));
        assert_eq!(volume.counters().refused_io.get(), 1);
        world.fs.configure(|fs| fs.name_error = 0.0);
        assert_eq!(text(&volume, "file").await.unwrap(), "x");
    });
}

/// The operator reads what a failing disk did.
#[test]
fn a_failing_disk_is_logged_with_the_path_and_what_clients_do_wrong_is_not() {
    let told = Told::default();
    let _guard = tracing::subscriber::set_default(told.clone());
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/dir/file", "x").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        let (file, _) = lookup(&volume, "dir/file").await.unwrap().into_file().unwrap();
        world.fs.configure(|fs| fs.read_error = 1.0);
        assert!(file.try_read_at(0, &mut [0]).is_err());
        world.fs.configure(|fs| (fs.read_error, fs.name_error) = (0.0, 1.0));
        assert!(lookup(&volume, "dir/other").await.is_err());
        assert_eq!((volume.counters().read_errors.get(), volume.counters().refused_io.get()), (1, 1));
        world.fs.configure(|fs| fs.name_error = 0.0);
        assert!(lookup(&volume, "dir/none").await.is_err());
        assert!(lookup(&volume, ".hidden").await.is_err());
    });
    let told = told.0.lock().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    for (line, path) in told.iter().zip(["/srv/dir/file", "/srv/dir/other"]) {
        assert!(
            line.contains(&format!("path={path} "))
                && line.contains("(os error 5)")
                && line.contains(&format!(" {path}: ")),
            "{line}"
        );
    }
}

/// Keeps events as text.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Told {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            line += &format!("{field}={value:?} ");
        });
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_crowd_that_asks_for_one_listing_reads_the_directory_once() {
    in_world(1, Config::clean(), |world| async move {
        for n in 0..100 {
            world.fs.write(&format!("/srv/dir/f{n}"), "x").unwrap();
        }
        time::sleep(Duration::from_secs(3)).await;
        let volume = world.volume(patient(), VolumeOptions::default());
        let directory = lookup(&volume, "dir").await.unwrap().into_directory().unwrap().0;
        let crowd: Vec<_> = (0..50)
            .map(|_| {
                let directory = directory.clone();
                lane::spawn(async move { directory.entries(1000).await.unwrap().len() })
            })
            .collect();
        for listing in crowd {
            assert_eq!(listing.await, 100);
        }
        assert_eq!(volume.counters().listings.get(), 1);
    });
}

#[test]
fn readers_of_listings_that_changed_hold_a_bounded_number_of_entries() {
    in_world(1, Config::clean(), |world| async move {
        for n in 0..100 {
            world.fs.write(&format!("/srv/dir/f{n}"), "x").unwrap();
        }
        let volume =
            world.volume(CacheOptions { listing_entries_max: 500, ..patient() }, VolumeOptions::default());
        let directory = lookup(&volume, "dir").await.unwrap().into_directory().unwrap().0;
        let mut held = Vec::new();
        let refused = loop {
            world.fs.write(&format!("/srv/dir/new{}", held.len()), "x").unwrap();
            time::sleep(Duration::from_secs(1)).await;
            match directory.entries(1000).await {
                Ok(listing) => held.push(listing),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Overloaded), "{refused:?}");
        assert!(held.iter().map(|listing| listing.len()).sum::<usize>() <= 2 * 500 + 200);
        assert_eq!(volume.counters().listings_refused.get(), 1);
        held.clear();
        assert!(directory.entries(1000).await.is_ok());
    });
}

#[test]
fn pages_hold_each_name_that_stays_once_in_order_while_others_come_and_go() {
    seeds(30, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::from_micros(10)..Duration::from_millis(5);
        in_world(seed, config, |world| async move {
            for n in 0..200 {
                world.fs.write(&format!("/srv/dir/stays {n:03}"), "x").unwrap();
            }
            let volume = world.volume(patient(), VolumeOptions::default());
            let directory = lookup(&volume, "dir").await.unwrap().into_directory().unwrap().0;
            let fs = world.fs.clone();
            let changing = lane::spawn(async move {
                let mut rng = SmallRng::seed_from_u64(seed);
                for _ in 0..300 {
                    let path = format!("/srv/dir/goes {:02}", rng.random_range(0..40));
                    if fs.remove(&path).is_err() {
                        fs.write(&path, "y").unwrap();
                    }
                    time::sleep(Duration::from_micros(rng.random_range(0..2000))).await;
                }
            });
            let caller = Caller::anonymous();
            let limits = PageLimits { names_max: 1000, bytes_max: 1500 };
            let mut found: Vec<Vec<u8>> = Vec::new();
            loop {
                let after = found.last().cloned();
                let page = directory.page_after(&caller, after.as_deref(), limits).await.unwrap();
                assert!(page.memory() <= 1500 && page.covers(after.as_deref()));
                assert_eq!(volume.cache().page_bytes(), page.memory());
                assert_eq!(page.covers(None), after.is_none(), "what is before is on other pages");
                let names: Vec<_> = (0..page.len()).map(|at| page.name(at)).collect();
                let looked = directory.look_at(&page, &names, false, (b"kept", 16)).await.unwrap();
                for (name, looked) in names.iter().zip(looked) {
                    assert!(looked.is_some() || name.starts_with(b"goes"));
                    assert!(looked.is_none_or(|looked| looked.entry.name[..] == **name));
                }
                found.extend(names.iter().map(|name| name.to_vec()));
                if page.is_last() {
                    break;
                }
            }
            changing.await;
            assert_eq!(volume.cache().page_bytes(), 0);
            assert!(found.is_sorted_by(|a, b| a < b), "each once, in order");
            assert_eq!(found.iter().filter(|name| name.starts_with(b"stays")).count(), 200);
            let few = directory.page_after(&caller, None, PageLimits { names_max: 199, ..limits }).await;
            assert!(matches!(few, Err(Error::TooLarge { max: 199 })));
        });
    });
}

#[test]
fn a_reading_given_up_does_not_hold_up_those_who_wait_for_it() {
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/dir/file", "x").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        let directory = lookup(&volume, "dir").await.unwrap().into_directory().unwrap().0;
        world.fs.configure(|fs| fs.delay = Duration::from_secs(1)..Duration::from_secs(1));
        let spawn = |directory: vfs::Directory| lane::spawn(async move { directory.entries(9).await });
        let (given_up, waiting) = (spawn(directory.clone()), spawn(directory));
        time::sleep(Duration::from_millis(500)).await;
        drop(given_up);
        assert_eq!(waiting.await.unwrap().len(), 1);
    });
}

#[test]
fn a_name_made_within_the_clock_tick_of_a_listing_shows_in_the_next() {
    let mut config = Config::clean();
    config.fs.timestamp_step = Duration::from_millis(10);
    config.fs.delay = Duration::from_micros(1)..Duration::from_micros(1);
    in_world(1, config, |world| async move {
        // Nothing but the directory's own time stamp could tell.
        let options = CacheOptions { watches_max: 0, ..patient() };
        let volume = world.volume(options, VolumeOptions::default());
        for n in 0..100 {
            world.fs.write(&format!("/srv/f{n}"), "x").unwrap();
            let root = lookup(&volume, "").await.unwrap().into_directory().unwrap().0;
            assert_eq!(root.entries(1000).await.unwrap().len(), n + 1);
        }
        let stamps: Vec<_> = (0..100).map(|n| world.fs.stat(&format!("/srv/f{n}")).unwrap().mtime).collect();
        assert!(stamps.windows(2).any(|pair| pair[0] == pair[1]));
    });
}

#[test]
fn a_volume_whose_directory_is_moved_goes_on_to_hear_of_changes() {
    in_world(1, Config::clean(), |world| async move {
        world.fs.write("/srv/page", "old").unwrap();
        let volume = world.volume(patient(), VolumeOptions::default());
        assert_eq!(text(&volume, "page").await.unwrap(), "old");
        world.fs.rename("/srv", "/moved").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(text(&volume, "page").await.unwrap(), "old");
        world.fs.hard_link("/moved/page", "/keeps-old-alive").unwrap();
        world.fs.replace("/moved/page", "new").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert_eq!(text(&volume, "page").await.unwrap(), "new");
    });
}

/// One host of a world, seen from its lane.
struct OnHost {
    host: Host,
    fs: Fs,
}

impl OnHost {
    fn volume(&self, cache: CacheOptions, options: VolumeOptions) -> Volume {
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", options);
        Volume::open(&Cache::new(cache), &spec).unwrap()
    }
}

/// Truth by time: the content of each path, `None` where there was none.
#[derive(Default)]
struct History {
    of: BTreeMap<&'static str, Vec<(std::time::Instant, Option<String>)>>,
}

impl History {
    fn note(&mut self, path: &'static str, content: Option<String>) {
        self.of.entry(path).or_default().push((time::now(), content));
    }

    /// Returns whether `path` held `content` at some moment from `since` to now.
    fn was_true(&self, path: &str, content: Option<&str>, since: std::time::Instant) -> bool {
        let versions = &self.of[path];
        versions.iter().enumerate().any(|(n, (_, version))| {
            let ended = versions.get(n + 1).map(|(next, _)| *next);
            version.as_deref() == content && ended.is_none_or(|ended| ended >= since)
        })
    }
}

/// Writes, replaces, removes and moves, and loses events now and then.
async fn change_at_random(fs: Fs, seed: u64, history: Rc<RefCell<History>>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for step in 0..200 {
        time::sleep(Duration::from_millis(rng.random_range(0..40))).await;
        let path = PATHS.choose(&mut rng).unwrap();
        let full = format!("/srv/{path}");
        match rng.random_range(0..10) {
            0..5 => {
                // The second name keeps the old file's link count up: only its name tells of the change.
                let _ = fs.hard_link(&full, &format!("/old-{step}"));
                if fs.replace(&full, format!("{path} {step}")).is_err() {
                    fs.write(&full, format!("{path} {step}")).unwrap();
                }
                history.borrow_mut().note(path, Some(format!("{path} {step}")));
            }
            5..8 => {
                if fs.remove(&full).is_ok() {
                    history.borrow_mut().note(path, None);
                }
            }
            8 => {
                // A whole directory goes, with what lies in it.
                if fs.rename("/srv/d", &format!("/gone-{step}")).is_ok() {
                    for path in PATHS.iter().filter(|path| path.starts_with("d/")) {
                        history.borrow_mut().note(path, None);
                    }
                }
            }
            _ => fs.overflow_watches(),
        }
    }
}

async fn read_at_random(volume: Volume, seed: u64, history: Rc<RefCell<History>>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..200 {
        time::sleep(Duration::from_millis(rng.random_range(0..40))).await;
        let path = PATHS.choose(&mut rng).unwrap();
        let since = time::now() - TTL;
        let found = match lookup(&volume, path).await {
            Ok(Resolved::File(file, _)) => Some(String::from_utf8(read_all(&file).await).unwrap()),
            Ok(Resolved::Directory(..)) => unreachable!("no path of the test names a directory"),
            Err(Error::NotFound) => None,
            Err(other) => panic!("{path}: {other}"),
        };
        assert!(history.borrow().was_true(path, found.as_deref(), since), "{path}: {found:?} is too old");
    }
}

fn in_world<F: Future<Output = ()> + 'static>(seed: u64, config: Config, test: impl FnOnce(OnHost) -> F) {
    let world = World::new(seed, config);
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.create_dir_all("/srv").unwrap();
    let main = test(OnHost { host: host.clone(), fs });
    world.block_on(&host, main);
    assert_eq!(world.end(), Remains::default());
}

/// Times to live beyond any test: what is noticed, notification told.
fn patient() -> CacheOptions {
    CacheOptions {
        ttl: Duration::from_secs(3600),
        listing_ttl: Duration::from_secs(3600),
        ..Default::default()
    }
}

async fn lookup(volume: &Volume, path: &str) -> Result<Resolved, Error> {
    volume.lookup(RelPath::parse(path.as_bytes()).unwrap()).await
}

async fn text(volume: &Volume, path: &str) -> Result<String, Error> {
    let (file, _) = lookup(volume, path).await?.into_file()?;
    Ok(String::from_utf8(read_all(&file).await).unwrap())
}

async fn read_all(file: &OpenFile) -> Vec<u8> {
    let buf = lane::current().buffers().get(BufClass::Small).await;
    let (read, buf) = file.read_at(0, usize::MAX, buf).await;
    read.unwrap();
    buf.to_vec()
}

const PATHS: [&str; 6] = ["a", "b", "d/a", "d/b", "d/e/a", "f/a"];
const TTL: Duration = Duration::from_millis(200);
