//! Leftovers of a crash from files that were not published, and their removal.

use std::time::Duration;

use grants::Share;
use lane::backend::sim::Config;
use lane::backend::sim::World;
use lane::time;
use vfs::{CreateOptions, Expect, OpenHow, Replace};

use super::changes::{buf, text};
use super::grants::EVERYTHING;
use super::{Process, name, nobody, on_lanes, path, root};

#[test]
fn a_staged_file_has_no_name_that_a_crash_could_leave_where_the_file_system_needs_none() {
    for has_unnamed in [true, false] {
        let mut config = Config::clean();
        config.fs.unnamed = has_unnamed;
        on_lanes(1, config, 1, move |_, process, volume| async move {
            let root = root(&volume).await;
            let on_disk = || process.host.fs().tree().into_keys().filter(|path| path.starts_with("/srv/"));
            for (said, published) in [("one", 0), ("two", 1), ("three", 1)] {
                let staged = root.stage(&nobody(), 0o644).await.unwrap();
                staged.write_at(0, buf(said).await).await.0.unwrap();
                assert_eq!(on_disk().count(), published + usize::from(!has_unnamed), "{said}");
                staged.publish(&nobody(), name("page"), Expect::Anything).await.unwrap();
                assert_eq!(on_disk().collect::<Vec<_>>(), ["/srv/page"]);
                assert_eq!(text(&volume, "page").await, said);
            }
            // A directory stands in the way: the name that it took to try goes with the file.
            let staged = root.stage(&nobody(), 0o644).await.unwrap();
            root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
            staged.publish(&nobody(), name("d"), Expect::Anything).await.unwrap_err();
            time::sleep(Duration::from_millis(10)).await;
            assert_eq!(on_disk().collect::<Vec<_>>(), ["/srv/d", "/srv/page"]);
        });
    }
}

#[test]
fn leftovers_of_others_go_when_they_are_old_and_nothing_else_does() {
    let mut config = Config::clean();
    config.fs.unnamed = false;
    config.time_limit = Duration::from_secs(6 * 3600);
    on_lanes(1, config, 1, |_, process, volume| async move {
        let fs = process.host.fs();
        let root = root(&volume).await;
        fs.create_dir_all("/srv/a/b").unwrap();
        for left in ["/srv/.linerate-1f-0-1", "/srv/a/b/.linerate-1f-3-12"] {
            fs.write(left, "half").unwrap();
        }
        let kept = ["/srv/.linerate-7", "/srv/.linerate-1f-0-x", "/srv/.linerate-1f-0", "/srv/a/1f-0-1"];
        kept.iter().for_each(|path| fs.write(path, "whole").unwrap());
        let staged = root.stage(&nobody(), 0o644).await.unwrap();
        time::sleep(Duration::from_secs(1800)).await;
        fs.write("/srv/a/.linerate-1f-0-2", "of one that may live").unwrap();

        let began = time::now();
        let sweep = lane::spawn(volume.sweep());
        time::sleep(Duration::from_secs(60)).await;
        assert_eq!(volume.counters().swept.get(), 0, "all are too young");
        fs.append("/srv/a/.linerate-1f-0-2", b"and does").unwrap();
        sweep.await;
        assert!(time::now() - began > Duration::from_secs(3600));
        assert_eq!(volume.counters().swept.get(), 2);
        assert!(fs.read("/srv/a/.linerate-1f-0-2").is_ok());
        kept.iter().for_each(|path| assert!(fs.read(path).is_ok(), "{path}"));
        staged.publish(&nobody(), name("page"), Expect::Absent).await.unwrap();
        assert_eq!(volume.counters().sweep_directories.get(), 6);
        // One look is enough for a process.
        volume.sweep().await;
        assert_eq!(volume.counters().sweep_directories.get(), 6);
    });
}

#[test]
fn leftovers_go_from_a_directory_that_is_read_in_parts() {
    let mut config = Config::clean();
    config.fs.unnamed = false;
    config.time_limit = Duration::from_secs(6 * 3600);
    on_lanes(1, config, 1, |_, process, volume| async move {
        let fs = process.host.fs();
        fs.create_dir_all("/srv/many").unwrap();
        for n in 0..200 {
            fs.write(&format!("/srv/many/{n}"), "whole").unwrap();
            fs.write(&format!("/srv/many/.linerate-1f-0-{n}"), "half").unwrap();
            fs.create_dir_all(&format!("/srv/many/d{n}")).unwrap();
            fs.write(&format!("/srv/many/d{n}/.linerate-1f-1-{n}"), "half").unwrap();
        }
        time::sleep(Duration::from_secs(3700)).await;
        volume.sweep().await;
        assert_eq!(volume.counters().swept.get(), 400);
        assert_eq!(volume.counters().sweep_directories.get(), 202);
        assert_eq!(volume.counters().sweep_skipped.get(), 0);
        let left = fs.tree().into_keys().filter(|path| path.starts_with("/srv/many/")).count();
        assert_eq!(left, 400, "files and directories");
    });
}

#[test]
fn what_linerate_put_did_not_finish_goes_at_a_start_and_ten_minutes_after_its_client_was_killed() {
    let mut config = Config::clean();
    config.time_limit = Duration::from_secs(6 * 3600);
    on_lanes(1, config, 1, |_, process, volume| async move {
        let fs = process.host.fs();
        let staged = |name: &str| transfer::staged_name(name);
        let is_there = |path: &str| fs.read(path).is_ok();
        fs.create_dir_all("/srv/a").unwrap();
        let root = root(&volume).await;
        let how = CreateOptions { exclusive: true, mode: 0o644 };
        // Theirs, whatever they are called like.
        let kept = ["/srv/large.linerate-put", "/srv/a/large.0123456789abcdef.linerate-put"];
        kept.iter().for_each(|path| fs.write(path, "a user's").unwrap());
        let [written, open, renamed] = ["written", "open", "renamed"].map(staged);
        let first = root.create(&nobody(), name(&written), how).await.unwrap();
        root.create(&nobody(), name(&open), how).await.unwrap();
        root.create(&nobody(), name(&renamed), how).await.unwrap();
        let opening = OpenHow { share: Share::from_bits(0), ..EVERYTHING };
        let (held, ..) = volume.open_shared(&nobody(), path(&open), &opening, &mut |_| {}).await.unwrap();
        root.rename(&nobody(), name(&renamed), &root, name("renamed"), Replace::Never).await.unwrap();
        // No client resumes one that another program puts there, but this server does not hear of it.
        volume.sweep().await;
        for minutes in 1..=9 {
            time::sleep(Duration::from_secs(60)).await;
            assert!(is_there(&format!("/srv/{written}")), "{minutes} min");
        }
        // Written to it has ten minutes more.
        first.writer.write_at(&nobody(), 0, buf("text").await).await.0.unwrap();
        time::sleep(Duration::from_secs(540)).await;
        assert!(is_there(&format!("/srv/{written}")));
        drop(first);
        time::sleep(Duration::from_secs(180)).await;
        assert!(!is_there(&format!("/srv/{written}")), "eleven minutes at most");
        assert!(is_there(&format!("/srv/{open}")), "somebody has it open");
        held.close(&volume, &nobody()).await.unwrap();
        time::sleep(Duration::from_secs(120)).await;
        assert!(!is_there(&format!("/srv/{open}")));
        assert!(is_there("/srv/renamed"));
        kept.iter().for_each(|path| assert!(is_there(path), "{path}"));
        assert_eq!(volume.counters().swept.get(), 2);
        // Again, once none was looked after.
        let again = staged("again");
        root.create(&nobody(), name(&again), how).await.unwrap();
        time::sleep(Duration::from_secs(720)).await;
        assert!(!is_there(&format!("/srv/{again}")));
        volume.cache().clear();
    });
}

#[test]
fn what_linerate_put_did_not_finish_before_a_start_goes_with_it() {
    let mut config = Config::clean();
    config.time_limit = Duration::from_secs(3600);
    let world = World::new(1, config);
    let process = Process::new(&world, 1);
    let (fs, host) = (process.host.fs(), process.host.clone());
    fs.create_dir_all("/srv/a/b").unwrap();
    let left = [
        format!("/srv/{}", transfer::staged_name("one")),
        format!("/srv/a/b/{}", transfer::staged_name("two")),
    ];
    left.iter().for_each(|path| fs.write(path, "half").unwrap());
    let kept = ["/srv/one.linerate-put", "/srv/a/b/two", "/srv/a/0.0123456789abcdef.linerate-put"];
    kept.iter().for_each(|path| fs.write(path, "whole").unwrap());
    world.run_for(Duration::from_millis(500));
    world.block_on(&host, async move {
        let volume = process.volume();
        // Seen by a client that comes at once.
        let listed = root(&volume).await.entries(100).await.unwrap();
        assert_eq!(listed.iter().count(), 3);
        // A client that goes on with one of this server's time.
        let late = transfer::staged_name("late");
        fs.write(&format!("/srv/a/{late}"), "half").unwrap();
        volume.sweep().await;
        left.iter().for_each(|path| assert!(fs.read(path).is_err(), "{path}"));
        kept.iter().for_each(|path| assert!(fs.read(path).is_ok(), "{path}"));
        assert!(fs.read(&format!("/srv/a/{late}")).is_ok());
        assert_eq!(root(&volume).await.entries(100).await.unwrap().iter().count(), 2);
        time::sleep(Duration::from_secs(720)).await;
        assert!(fs.read(&format!("/srv/a/{late}")).is_err());
        volume.cache().clear();
    });
}
