//! What clients rely on in directories that another program moves: they hear of what is done there afterwards, though nobody looks.

use std::rc::Rc;
use std::time::Duration;

use identity::{Rights, Writable};
use lane::backend::sim::{Config, Fs};
use lane::time;
use vfs::Holder;

use super::callbacks::{Said, Service, look_with_callback};
use super::{nobody, on_lanes, path, root, watched};

/// Within so long the kernel's watches tell, and what they tell of is looked at.
const SOON: Duration = Duration::from_secs(1);
/// Longer than the clock of a file system's stamps stands still.
const TICK: Duration = Duration::from_millis(20);

/// A move by another program, and where `/srv/d/e` is then.
type Move = (&'static str, fn(&Fs), &'static str);

const MOVES: [Move; 5] = [
    ("moved", |fs| fs.rename("/srv/d/e", "/srv/d/x").unwrap(), "/srv/d/x"),
    ("moved above", |fs| fs.rename("/srv/d", "/srv/x").unwrap(), "/srv/x/e"),
    (
        "another in its place",
        |fs| {
            fs.rename("/srv/d/e", "/srv/x").unwrap();
            fs.create_dir_all("/srv/d/e/g").unwrap();
            fs.write("/srv/d/e/file", "another").unwrap();
        },
        "/srv/x",
    ),
    (
        "moved twice",
        |fs| {
            fs.rename("/srv/d", "/srv/x").unwrap();
            fs.rename("/srv/x/e", "/srv/y").unwrap();
        },
        "/srv/y",
    ),
    (
        "moved there and back",
        |fs| {
            fs.rename("/srv/d/e", "/srv/x").unwrap();
            fs.rename("/srv/x", "/srv/d/e").unwrap();
        },
        "/srv/d/e",
    ),
];

/// A change by another program, beneath where the directory is now.
type Act = (&'static str, fn(&Fs, &str));

/// Places beneath `/srv/d/e` that a client relies on, each with what other programs do to it.
const RELIED: [(&str, &[Act]); 4] = [
    ("file", FILE_ACTS),
    ("g/deep", FILE_ACTS),
    ("", &[("new name", |fs, at| fs.write(&format!("{at}/more"), "").unwrap()), GONE_NAME]),
    ("g", &[("new name", |fs, at| fs.write(&format!("{at}/more"), "").unwrap())]),
];
const GONE_NAME: Act = ("removed name", |fs, at| fs.remove(&format!("{at}/file")).unwrap());
const FILE_ACTS: &[Act] = &[
    ("written", |fs, at| fs.write_at(at, 1, b"X").unwrap()),
    ("removed", |fs, at| fs.remove(at).unwrap()),
    ("replaced", |fs, at| fs.replace(at, "new").unwrap()),
];

#[test]
fn who_relies_on_something_in_a_directory_that_was_moved_hears_of_what_is_done_there() {
    for (moved, moves, now) in MOVES {
        for (relied, acts) in RELIED {
            for (done, act) in acts {
                for (made, pause) in
                    [(SOON, Duration::ZERO), (SOON, SOON), (TICK, Duration::ZERO), (TICK, TICK * 10)]
                {
                    watched(Writable::anyone(), move |volume, fs| async move {
                        let what = format!("{moved}, {relied:?}, {done}, {made:?}, {pause:?}");
                        let service = Service::on(&volume, &Rc::default());
                        let client = volume.cache().client(Holder(1)).unwrap();
                        fs.create_dir_all("/srv/d/e/g").unwrap();
                        fs.write("/srv/d/e/file", "text").unwrap();
                        fs.write("/srv/d/e/g/deep", "text").unwrap();
                        time::sleep(made).await;
                        // The names are watched, and looked at as they are made.
                        let _above = look_with_callback(&volume, &client, "d/e").await;
                        let at = format!("d/e/{relied}");
                        if made == TICK && relied == "file" {
                            // What is looked for in vain is looked for no more than now and then.
                            fs.write("/srv/d/e/noise", "").unwrap();
                            time::sleep(TICK).await;
                            fs.remove("/srv/d/e/file").unwrap();
                            fs.write("/srv/d/e/file", "text").unwrap();
                            time::sleep(TICK).await;
                        }
                        let look = look_with_callback(&volume, &client, at.trim_end_matches('/')).await;
                        time::sleep(made).await;
                        service.told.take();
                        moves(&fs);
                        time::sleep(TICK + pause).await;
                        act(&fs, format!("{now}/{relied}").trim_end_matches('/'));
                        time::sleep(SOON).await;
                        let object = look.resolved().object().unwrap().identity().clone();
                        let is_told =
                            service.told.take().iter().any(|(_, said)| *said == Said::Object(object.clone()));
                        assert!(is_told && look.confirm().is_none(), "{what}");
                    });
                }
            }
        }
    }
}

#[test]
fn what_was_looked_at_before_and_after_a_move_is_sought_where_it_is() {
    watched(Writable::anyone(), |volume, fs| async move {
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        fs.create_dir_all("/srv/d").unwrap();
        fs.write("/srv/d/file", "text").unwrap();
        time::sleep(SOON).await;
        let relied = async || look_with_callback(&volume, &client, "d/file").await;
        let _before = relied().await;
        // What is behind names is sought at once, then not for a while: what is looked at meanwhile is sought together.
        fs.write("/srv/d/noise", "").unwrap();
        time::sleep(TICK).await;
        fs.write_at("/srv/d/file", 1, b"X").unwrap();
        time::sleep(TICK).await;
        let look = relied().await;
        fs.rename("/srv/d", "/srv/x").unwrap();
        time::sleep(TICK * 5).await;
        service.told.take();
        fs.remove("/srv/x/file").unwrap();
        time::sleep(SOON).await;
        let object = look.resolved().object().unwrap().identity().clone();
        let is_told = service.told.take().iter().any(|(_, said)| *said == Said::Object(object.clone()));
        assert!(is_told && look.confirm().is_none());
    });
}

#[test]
fn every_lane_tells_of_what_is_done_in_a_moved_directory_whichever_has_found_it_first() {
    let mut config = Config::clean();
    config.fs.delay = Duration::ZERO..Duration::from_micros(50);
    for seed in 0..40 {
        on_lanes(seed, config.clone(), 2, move |lane, process, unwatched| async move {
            drop(unwatched);
            let (volume, fs) = (process.watching(), process.host.fs());
            if lane == 0 {
                fs.create_dir_all("/srv/d").unwrap();
                fs.create_dir_all("/srv/e").unwrap();
                fs.write("/srv/d/file", "text").unwrap();
            }
            time::sleep(SOON).await;
            let service = Service::on(&volume, &Rc::default());
            let client = volume.cache().client(Holder(lane as u64 + 1)).unwrap();
            // Who relies on the names above hears of the move itself, on all lanes: what is beneath is forgotten meanwhile.
            let _above = look_with_callback(&volume, &client, "").await;
            let _names = root(&volume).await.names(100).await.unwrap();
            let look = look_with_callback(&volume, &client, "d/file").await;
            time::sleep(SOON).await;
            service.told.take();
            if lane == 0 {
                fs.rename("/srv/d", "/srv/aside").unwrap();
                fs.rename("/srv/e", "/srv/d").unwrap();
                fs.rename("/srv/aside", "/srv/e").unwrap();
                fs.write_at("/srv/e/file", 1, b"X").unwrap();
            }
            time::sleep(SOON).await;
            let object = look.resolved().object().unwrap().identity().clone();
            let is_told = service.told.take().iter().any(|(_, said)| *said == Said::Object(object.clone()));
            assert!(is_told && look.confirm().is_none(), "seed {seed}, lane {lane}");
        });
    }
}

#[test]
fn who_relies_on_something_in_a_directory_that_left_the_volume_hears_that_it_is_gone() {
    for relied in ["file", "g/deep", "", "g"] {
        watched(Writable::anyone(), move |volume, fs| async move {
            let service = Service::on(&volume, &Rc::default());
            let client = volume.cache().client(Holder(1)).unwrap();
            fs.create_dir_all("/srv/d/e/g").unwrap();
            fs.create_dir_all("/out").unwrap();
            fs.write("/srv/d/e/file", "text").unwrap();
            fs.write("/srv/d/e/g/deep", "text").unwrap();
            time::sleep(SOON).await;
            let at = format!("d/e/{relied}");
            let look = look_with_callback(&volume, &client, at.trim_end_matches('/')).await;
            time::sleep(SOON).await;
            service.told.take();
            fs.rename("/srv/d", "/out/d").unwrap();
            time::sleep(SOON).await;
            assert!(!service.told.take().is_empty() && look.confirm().is_none(), "{relied:?}");
        });
    }
}

#[test]
fn a_file_that_another_program_moved_is_found_by_its_number_though_no_name_was_looked_at() {
    // By its handle, as without one nothing but a name leads there.
    for (from, to) in
        [("/srv/d/file", "/srv/e/moved"), ("/srv/file", "/srv/e/moved"), ("/srv/d/file", "/srv/x")]
    {
        for links in [false, true] {
            on_lanes(1, Config::clean(), 1, move |_, process, unwatched| async move {
                drop(unwatched);
                let fs = process.host.fs();
                fs.create_dir_all("/srv/d").unwrap();
                fs.create_dir_all("/srv/e").unwrap();
                fs.write(from, "text").unwrap();
                let volume = process.watching();
                let at = from.strip_prefix("/srv/").unwrap();
                let found = volume.lookup_as(&nobody(), path(at), Rights::READ).await.unwrap();
                let number = found.object().unwrap().number();
                match links {
                    true => {
                        fs.hard_link(from, to).unwrap();
                        fs.remove(from).unwrap();
                    }
                    false => fs.rename(from, to).unwrap(),
                }
                for pause in [Duration::ZERO, SOON] {
                    time::sleep(pause).await;
                    let again = volume.find(&nobody(), number, Rights::READ).await;
                    let again = again.unwrap_or_else(|error| panic!("{from}, {to}, {links}: {error}"));
                    assert!(std::sync::Arc::ptr_eq(again.object().unwrap(), found.object().unwrap()));
                }
            });
        }
    }
}
