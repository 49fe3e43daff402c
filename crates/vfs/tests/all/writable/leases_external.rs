//! Changes by another program of what clients cache under leases and oplocks: they are told, whether a client
//! looks or not.

use std::time::Duration;

use grants::{Caching, LeaseKey};
use identity::Writable;
use lane::backend::sim::{Config, Fs};
use lane::time;
use vfs::{Caller, CreateOptions, Open, OpenHow, Replace, RequestedCaching, Volume};

use super::grants::{EVERYTHING, listen, open};
use super::{directory, name, nobody, on_lanes, path, root, watched};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
/// Within so long the kernel's watches tell, and what they tell of is looked at.
const SOON: Duration = Duration::from_secs(1);
/// Longer than a lane remembers what is not used.
const LONG: Duration = Duration::from_secs(400);
/// Longer than the clock of a file system's stamps stands still.
const TICK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
enum Holds {
    Lease(Caching),
    Oplock(Caching),
}

impl Holds {
    fn wanted(self) -> RequestedCaching {
        match self {
            Self::Oplock(caching) => RequestedCaching::Oplock(caching),
            Self::Lease(caching) => {
                let key = LeaseKey { client: [1; 16], key: [1; 16] };
                RequestedCaching::Lease { key, caching, epoch: Some(0), parent: None }
            }
        }
    }

    async fn open(self, volume: &Volume, at: &str) -> Open {
        open(volume, at, &OpenHow { wanted: Some(self.wanted()), ..EVERYTHING }).await.unwrap()
    }
}

const HOLDS: [Holds; 4] = [
    Holds::Lease(Caching::R),
    Holds::Lease(Caching::RH),
    Holds::Oplock(Caching::R),
    Holds::Oplock(Caching::RWH),
];

/// Action of the holder between the open and the change, and the file's place then.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    Waits,
    Renames,
    MovesAway,
    MovesAndWaits,
    /// Another program moves the file,
    IsMoved,
    /// or its directory,
    DirectoryIsMoved,
    /// or one above, or exchanges it for another.
    AboveIsMoved,
    DirectoryIsExchanged,
}

impl Before {
    async fn happens(self, volume: &Volume, fs: &Fs, caller: &Caller) -> &'static str {
        let moves = async |from: &str, to: &str| {
            fs.rename(from, to).unwrap();
            time::sleep(SOON).await;
        };
        match self {
            Self::IsMoved => {
                moves("/srv/d/file", "/srv/e/moved").await;
                "e/moved"
            }
            Self::DirectoryIsMoved => {
                moves("/srv/d", "/srv/x").await;
                "x/file"
            }
            Self::AboveIsMoved => {
                moves("/srv/d", "/srv/e/d").await;
                moves("/srv/e", "/srv/x").await;
                "x/d/file"
            }
            Self::DirectoryIsExchanged => {
                fs.rename("/srv/d", "/srv/aside").unwrap();
                fs.rename("/srv/e", "/srv/d").unwrap();
                moves("/srv/aside", "/srv/e").await;
                "e/file"
            }
            Self::Nothing => "d/file",
            Self::Waits => {
                time::sleep(LONG).await;
                "d/file"
            }
            Self::Renames => {
                let d = directory(volume, "d").await;
                d.rename(caller, name("file"), &d, name("other"), Replace::Never).await.unwrap();
                "d/other"
            }
            Self::MovesAway | Self::MovesAndWaits => {
                let d = directory(volume, "d").await;
                let e = directory(volume, "e").await;
                d.rename(caller, name("file"), &e, name("moved"), Replace::Never).await.unwrap();
                drop((d, e));
                if matches!(self, Self::MovesAndWaits) {
                    time::sleep(LONG).await;
                }
                "e/moved"
            }
        }
    }
}

/// Change by another program.
#[derive(Clone, Copy, Debug)]
enum Change {
    Writes,
    Cuts,
    Removes,
    Replaces,
}

impl Change {
    fn happens(self, fs: &Fs, at: &str) {
        let at = format!("/srv/{at}");
        match self {
            Self::Writes => fs.write_at(&at, 1, b"X").unwrap(),
            Self::Cuts => fs.truncate(&at, 2).unwrap(),
            Self::Removes => fs.remove(&at).unwrap(),
            Self::Replaces => {
                fs.write("/srv/new", "another").unwrap();
                fs.rename("/srv/new", &at).unwrap();
            }
        }
    }
}

/// Two directories, and in one of them a file that was written to a while ago.
async fn make(volume: &Volume, fs: &Fs) {
    let top = root(volume).await;
    for one in ["d", "e"] {
        top.make_directory(&nobody(), name(one), 0o755).await.unwrap();
    }
    let file = directory(volume, "d").await.create(&nobody(), name("file"), NEW).await.unwrap();
    drop(file);
    fs.write("/srv/d/file", "text").unwrap();
    time::sleep(TICK).await;
}

#[test]
fn what_another_program_does_to_a_file_that_a_client_caches_is_told_though_nobody_looks() {
    use Before::*;
    for holds in HOLDS {
        for before in [
            Nothing,
            Waits,
            Renames,
            MovesAway,
            MovesAndWaits,
            IsMoved,
            DirectoryIsMoved,
            AboveIsMoved,
            DirectoryIsExchanged,
        ] {
            for change in [Change::Writes, Change::Cuts, Change::Removes, Change::Replaces] {
                watched(Writable::anyone(), move |volume, fs| async move {
                    let (told, _breaker) = listen(&volume);
                    make(&volume, &fs).await;
                    let open = holds.open(&volume, "d/file").await;
                    let at = before.happens(&volume, &fs, &open.caller(&nobody())).await;
                    let is_told = || {
                        let to: Vec<_> = told.0.take();
                        to.iter().any(|(holder, to)| *holder == open.holder() && to.is_none())
                    };
                    // A name that another program takes away is told of at once.
                    let is_over = is_told();
                    assert_eq!(is_over, matches!(before, IsMoved), "{holds:?} {before:?}");
                    if is_over {
                        let _ = open.acknowledge(volume.cache(), Caching::NONE);
                        open.close(&volume, &nobody()).await.unwrap();
                        return;
                    }
                    assert!(
                        open.caching().is_some_and(|left| left.contains(Caching::R)),
                        "{holds:?} {before:?}"
                    );
                    time::sleep(TICK).await;
                    change.happens(&fs, at);
                    time::sleep(SOON).await;
                    assert!(is_told(), "{holds:?}, {before:?}, {change:?}");
                    let _ = open.acknowledge(volume.cache(), Caching::NONE);
                    open.close(&volume, &nobody()).await.unwrap();
                });
            }
        }
    }
}

#[test]
fn where_nothing_is_watched_the_first_look_of_anybody_tells() {
    let is_asked_back = |holds, opens| opens && matches!(holds, Holds::Oplock(Caching::RWH));
    let cases = HOLDS.into_iter().flat_map(|holds| [(holds, true), (holds, false)]);
    // An open asks for what else there is of a batch oplock itself.
    for (holds, opens) in cases.filter(|&(holds, opens)| !is_asked_back(holds, opens)) {
        on_lanes(1, Config::clean(), 1, move |_, process, volume| async move {
            let (told, _breaker) = listen(&volume);
            make(&volume, &process.host.fs()).await;
            let open = holds.open(&volume, "d/file").await;
            time::sleep(TICK).await;
            Change::Writes.happens(&process.host.fs(), "d/file");
            time::sleep(SOON).await;
            assert_eq!(told.0.take(), [], "nobody knows");
            match opens {
                true => drop(super::grants::open(&volume, "d/file", &EVERYTHING).await.unwrap()),
                false => {
                    let need = identity::Rights::READ;
                    let found = volume.lookup_as(&nobody(), path("d/file"), need).await.unwrap();
                    volume.note_look(path("d/file"), &found);
                }
            }
            time::sleep(SOON).await;
            assert_eq!(told.0.take(), [(open.holder(), Caching::NONE)], "{holds:?}");
            let _ = open.acknowledge(volume.cache(), Caching::NONE);
            open.close(&volume, &nobody()).await.unwrap();
        });
    }
}

#[test]
fn what_the_holder_or_nobody_does_is_told_to_nobody() {
    // A level II oplock goes with its holder's own writes too.
    for holds in HOLDS.into_iter().filter(|holds| !matches!(holds, Holds::Oplock(Caching::R))) {
        watched(Writable::anyone(), move |volume, fs| async move {
            let (told, _breaker) = listen(&volume);
            make(&volume, &fs).await;
            let open = holds.open(&volume, "d/file").await;
            for round in 0..3 {
                let writer = directory(&volume, "d").await;
                let writer = writer.open_writer(&open.caller(&nobody()), name("file")).await.unwrap();
                writer.truncate(&open.caller(&nobody()), 5 + round).await.unwrap();
                drop(writer);
                time::sleep(SOON).await;
                // Beside it, and by its looks alone.
                fs.write("/srv/d/beside", "x").unwrap();
                let need = identity::Rights::READ;
                let found = volume.lookup_as(&nobody(), path("d/file"), need).await.unwrap();
                volume.note_look(path("d/file"), &found);
                time::sleep(SOON).await;
                assert_eq!(told.0.take(), [], "{holds:?}");
            }
            open.close(&volume, &nobody()).await.unwrap();
        });
    }
}

#[test]
fn what_is_done_by_a_name_in_a_directory_that_nobody_watches_is_told_to_who_caches_the_file() {
    for holds in HOLDS {
        for change in [Change::Writes, Change::Cuts] {
            watched(Writable::anyone(), move |volume, fs| async move {
                let (told, _breaker) = listen(&volume);
                make(&volume, &fs).await;
                fs.hard_link("/srv/d/file", "/srv/e/other").unwrap();
                time::sleep(LONG).await;
                let open = holds.open(&volume, "d/file").await;
                time::sleep(LONG).await;
                told.0.take();
                change.happens(&fs, "e/other");
                time::sleep(SOON).await;
                let to = told.0.take();
                let is_told = to.iter().any(|(holder, to)| *holder == open.holder() && to.is_none());
                assert!(is_told, "{holds:?}, {change:?}: {to:?}");
                let _ = open.acknowledge(volume.cache(), Caching::NONE);
                open.close(&volume, &nobody()).await.unwrap();
            });
        }
    }
}

#[test]
fn the_loss_of_a_name_by_which_a_file_is_open_is_told_though_it_was_last_found_by_another() {
    for holds in [Holds::Lease(Caching::R), Holds::Oplock(Caching::R)] {
        for moves in [false, true] {
            for change in [Change::Removes, Change::Replaces] {
                watched(Writable::anyone(), move |volume, fs| async move {
                    let (told, _breaker) = listen(&volume);
                    make(&volume, &fs).await;
                    fs.hard_link("/srv/d/file", "/srv/e/other").unwrap();
                    time::sleep(SOON).await;
                    let open = holds.open(&volume, "d/file").await;
                    match moves {
                        true => {
                            let e = directory(&volume, "e").await;
                            let (from, to) = (name("other"), name("moved"));
                            e.rename(&nobody(), from, &e, to, Replace::Never).await.unwrap();
                        }
                        false => {
                            let need = identity::Rights::READ;
                            let found = volume.lookup_as(&nobody(), path("e/other"), need).await.unwrap();
                            volume.note_look(path("e/other"), &found);
                        }
                    }
                    time::sleep(SOON).await;
                    let what = format!("{holds:?}, {moves}, {change:?}");
                    assert!(open.caching().is_some_and(|left| left.contains(Caching::R)), "{what}");
                    change.happens(&fs, "d/file");
                    time::sleep(SOON).await;
                    let to = told.0.take();
                    assert!(
                        to.iter().any(|(holder, to)| *holder == open.holder() && to.is_none()),
                        "{what}: {to:?}"
                    );
                    open.close(&volume, &nobody()).await.unwrap();
                });
            }
        }
    }
}
