//! Listings show of a file what a look at the file shows, after a change by any of its names, on any lane.

use std::time::Duration;

use identity::Writable;
use lane::backend::sim::{Config, Fs, World};
use lane::fs::AttributeChange;
use lane::time;
use vfs::{CreateOptions, Replace, Volume};

use super::changes::write;
use super::{Process, directory, name, nobody, path, watched};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
const A_WHILE: Duration = Duration::from_millis(100);
/// A pause so that no stamp is of a whole second, which might be all that a file system has.
const A_MOMENT: Duration = Duration::from_millis(5);

/// All that a listing of each of these directories tells of their files, beside what a look at each tells.
async fn compare(volume: &Volume, what: &str) {
    for above in ["", "d", "e"] {
        let listing = directory(volume, above).await.entries(100).await.unwrap();
        for entry in &*listing {
            let at = format!("{above}/{}", String::from_utf8_lossy(&entry.name));
            let now = volume.lookup(path(at.trim_start_matches('/'))).await.unwrap();
            let (now, said) = (*now.attributes(), entry.attributes);
            assert_eq!(
                (said.size, said.mtime, said.nlink, said.mode),
                (now.size, now.mtime, now.nlink, now.mode),
                "{at} after {what}"
            );
        }
    }
}

/// A change of the file `d/a`, which may be `e/b` as well.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write(&'static str),
    SetMode(&'static str),
    Cut(&'static str),
    Link,
    Move,
    Lose,
    MakeBeneath,
}

impl Act {
    async fn happens(self, volume: Volume) {
        let by = nobody();
        let split = |at: &'static str| at.rsplit_once('/').unwrap();
        let writer = async |at: &'static str| {
            let (above, below) = split(at);
            directory(&volume, above).await.open_writer(&by, name(below)).await.unwrap()
        };
        let [d, e] = [directory(&volume, "d").await, directory(&volume, "e").await];
        match self {
            Self::Write(at) => {
                let writer = writer(at).await;
                let end = writer.file().attributes().unwrap().size;
                write(&writer, end, "more").await.unwrap();
            }
            Self::Cut(at) => writer(at).await.truncate(&by, 1).await.unwrap(),
            Self::SetMode(at) => {
                let (above, below) = split(at);
                let change = AttributeChange { mode: Some(0o600), ..AttributeChange::NONE };
                directory(&volume, above).await.set_attributes_of(&by, name(below), change).await.unwrap();
            }
            Self::Link => {
                let which = volume.lookup(path("d/a")).await.unwrap().object().unwrap().number();
                d.link_to(&by, which, name("a"), &e, name("b"), Replace::Never).await.unwrap();
            }
            Self::Move => d.rename(&by, name("a"), &e, name("c"), Replace::Never).await.unwrap(),
            Self::Lose => d.remove(&by, name("a")).await.unwrap(),
            Self::MakeBeneath => drop(d.create(&by, name("new"), NEW).await.unwrap()),
        }
    }
}

/// No lane has a watch, and what it remembers it believes for a day: what this server changes shows all the same.
#[test]
fn what_this_server_changes_shows_in_every_listing_at_once() {
    use Act::{Cut, Link, Lose, MakeBeneath, Move, SetMode, Write};
    for (acts, is_open) in [
        (&[Write("d/a"), Write("d/a"), Cut("d/a"), SetMode("d/a"), MakeBeneath][..], false),
        (&[Link, Write("d/a"), Write("e/b"), Cut("d/a"), Cut("e/b"), SetMode("e/b")], false),
        (&[Link, Write("e/b"), Lose, Write("e/b"), SetMode("e/b")], true),
        (&[Link, Move, Write("e/b"), Write("e/c"), SetMode("e/c"), Cut("e/b")], true),
        (&[Move, Write("e/c"), SetMode("e/c")], true),
    ] {
        let world = World::new(1, Config::clean());
        let process = Process::new(&world, 2);
        let host = process.host.clone();
        world.run_for(A_MOMENT);
        let volumes = [0, 1].map(|n| {
            let process = process.clone();
            world.block_on(&host, host.start_on(process.lanes[n], async move { process.volume() }))
        });
        let on = |n: usize, act: Act| {
            world.block_on(&host, host.start_on(process.lanes[n], act.happens(volumes[n].clone())));
        };
        let compare_on = |n: usize, what: String| {
            let volume = volumes[n].clone();
            let compared = async move { compare(&volume, &what).await };
            world.block_on(&host, host.start_on(process.lanes[n], compared));
        };
        let first = volumes[0].clone();
        let open = world.block_on(&host, async move {
            let top = directory(&first, "").await;
            for at in ["d", "e"] {
                top.make_directory(&nobody(), name(at), 0o755).await.unwrap();
            }
            let made = directory(&first, "d").await.create(&nobody(), name("a"), NEW).await.unwrap();
            write(&made.writer, 0, "text").await.unwrap();
            made
        });
        let open = is_open.then_some(open);
        for (step, act) in acts.iter().enumerate() {
            // Long enough for all listings to be remembered.
            world.run_for(A_WHILE);
            (0..2).for_each(|n| compare_on(n, format!("a while before {act:?}")));
            for (n, volume) in volumes.iter().enumerate() {
                let hits = || volume.counters().listing_hits.get();
                let before = hits();
                compare_on(n, format!("the same before {act:?}"));
                assert_eq!(hits() - before, 3, "all are remembered before {act:?} of {acts:?}");
            }
            on(step % 2, *act);
            (0..2).for_each(|n| compare_on(n, format!("{act:?} of {acts:?}, lane {n}, open {is_open}")));
        }
        let mut open = Some(open);
        for (n, volume) in volumes.into_iter().enumerate() {
            // Where it was opened.
            let open = open.take();
            world.block_on(&host, host.start_on(process.lanes[n], async move { drop((open, volume)) }));
        }
    }
}

/// A change by another program, by any name of a file that had several when it was listed, shows at once; by
/// a name that it has just given the file within a second.
#[test]
fn what_other_programs_change_by_another_name_shows_in_listings() {
    type Change = (&'static str, fn(&Fs), Duration);
    let changes: [Change; 5] = [
        ("a write by the name elsewhere", |fs| fs.append("/srv/e/b", b"more").unwrap(), Duration::ZERO),
        ("a write by the name here", |fs| fs.append("/srv/d/a", b"more").unwrap(), Duration::ZERO),
        ("a mode", |fs| fs.set_mode("/srv/e/b", 0o600).unwrap(), Duration::ZERO),
        // The directory that it goes from shows that itself, in the listing of the one above, within a second.
        ("a name that goes", |fs| fs.remove("/srv/e/b").unwrap(), Duration::from_secs(1)),
        (
            "a name that comes, and a write by it",
            |fs| {
                fs.hard_link("/srv/one", "/srv/e/two").unwrap();
                fs.append("/srv/e/two", b"more").unwrap();
            },
            Duration::from_secs(1),
        ),
    ];
    for files in [1, 20] {
        for (what, change, within) in changes {
            watched(Writable::anyone(), move |volume, fs| async move {
                time::sleep(A_MOMENT).await;
                fs.create_dir_all("/srv/d").unwrap();
                fs.create_dir_all("/srv/e").unwrap();
                fs.write("/srv/one", "text").unwrap();
                fs.write("/srv/d/a", "text").unwrap();
                fs.hard_link("/srv/d/a", "/srv/e/b").unwrap();
                for n in 1..files {
                    fs.write(&format!("/srv/d/{n}"), "text").unwrap();
                    fs.hard_link(&format!("/srv/d/{n}"), &format!("/srv/e/{n}")).unwrap();
                }
                time::sleep(A_WHILE).await;
                compare(&volume, "a while").await;
                let hits = || volume.counters().listing_hits.get();
                let before = hits();
                compare(&volume, "a while").await;
                assert_eq!(hits() - before, 3, "all are remembered");
                change(&fs);
                time::sleep(within).await;
                compare(&volume, what).await;
            });
        }
    }
}

/// A listing is remembered for as long as nothing in it changes, whether or not its files have other names.
#[test]
fn listings_are_remembered_though_files_have_other_names() {
    watched(Writable::anyone(), |volume, fs| async move {
        time::sleep(A_MOMENT).await;
        fs.create_dir_all("/srv/d").unwrap();
        for n in 0..20 {
            fs.write(&format!("/srv/d/{n}"), "text").unwrap();
            fs.hard_link(&format!("/srv/d/{n}"), &format!("/srv/{n}")).unwrap();
        }
        time::sleep(A_WHILE).await;
        let d = directory(&volume, "d").await;
        let hits = || volume.counters().listing_hits.get();
        let first = d.entries(100).await.unwrap().identity();
        let before = hits();
        for _ in 0..5 {
            assert_eq!(d.entries(100).await.unwrap().identity(), first);
        }
        assert_eq!(hits() - before, 5);
    });
}
