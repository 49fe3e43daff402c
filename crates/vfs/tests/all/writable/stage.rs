//! Files that come into being whole.

use std::time::Duration;

use lane::backend::sim::{Config, seeds};
use lane::fs::Dir;
use lane::time;
use vfs::{CreateOptions, Directory, Error, Expect, Published};

use super::changes::{buf, text};
use super::{inode, name, nobody, on_lanes, root};

#[test]
fn a_staged_file_is_not_there_until_it_is_whole_and_then_in_place_of_the_old_one() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        for (text_now, is_new) in [("first", true), ("second", false)] {
            let staged = root.stage(&nobody(), 0o644).await.unwrap();
            staged.write_at(0, buf(text_now).await).await.0.unwrap();
            let before = root.object().unwrap().version();
            if is_new {
                assert_eq!(inode(&volume, "page").await, None);
            } else {
                assert_eq!(text(&volume, "page").await, "first");
            }
            assert_eq!(root.entries(10).await.unwrap().len(), usize::from(!is_new));
            let published = staged.publish(&nobody(), name("page"), Expect::Anything).await.unwrap();
            assert_eq!((published.is_new, published.attributes.size), (is_new, text_now.len() as u64));
            assert_eq!(text(&volume, "page").await, text_now);
            assert_eq!(root.object().unwrap().version(), before.next());
        }
        assert_eq!(names().await, ["page"]);
    });
}

#[test]
fn a_staged_file_that_is_dropped_leaves_nothing() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let staged = root(&volume).await.stage(&nobody(), 0o644).await.unwrap();
        staged.write_at(0, buf("x").await).await.0.unwrap();
        drop(staged);
        time::sleep(Duration::from_millis(10)).await;
        assert_eq!(names().await, Vec::<String>::new());
    });
}

#[test]
fn stamped_files_of_any_lane_have_times_of_their_own() {
    let times = on_lanes(1, Config::clean(), 4, |n, _, volume| async move {
        let root = root(&volume).await;
        let mut times = Vec::new();
        for _ in 0..5 {
            let staged = root.stage(&nobody(), 0o644).await.unwrap();
            let stamp = staged.stamp().await.unwrap();
            let published =
                staged.publish(&nobody(), name(&format!("f{n}")), Expect::Anything).await.unwrap();
            assert_eq!(published.attributes.mtime, stamp);
            times.push((stamp.secs, stamp.nanos));
        }
        times
    });
    let mut all = times.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20);
}

#[test]
fn what_is_removed_is_what_was_expected() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let published = publish(&root, Expect::Absent).await.unwrap();
        let is = |id| move |found: Option<&vfs::Attributes>| found.is_some_and(|found| found.id == id);
        let (mine, other) = (is(published.file.id()), is(vfs::FileId { dev: 0, ino: 0 }));
        let remove = async |expect: Expect<'_>| root.remove_if(&nobody(), name("page"), expect).await;
        assert!(matches!(remove(Expect::Like(&other)).await, Err(Error::Unexpected)));
        remove(Expect::Like(&mine)).await.unwrap();
        assert!(matches!(remove(Expect::Like(&mine)).await, Err(Error::NotFound)));
    });
}

#[test]
fn a_name_left_by_an_earlier_life_is_passed_over() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        process.host.fs().write("/srv/.linerate-0-0", "left").unwrap();
        let staged = root(&volume).await.stage(&nobody(), 0o644).await.unwrap();
        staged.publish(&nobody(), name("page"), Expect::Absent).await.unwrap();
        assert_eq!(process.host.fs().read("/srv/.linerate-0-0").unwrap(), b"left");
    });
}

#[test]
fn what_is_expected_is_judged_when_nobody_can_change_it_any_more() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let publish = async |expect: Expect<'_>| {
            let staged = root.stage(&nobody(), 0o644).await.unwrap();
            staged.publish(&nobody(), name("page"), expect).await
        };
        assert!(matches!(publish(Expect::Like(&|found| found.is_some())).await, Err(Error::Unexpected)));
        let first = publish(Expect::Absent).await.unwrap();
        assert!(matches!(publish(Expect::Absent).await, Err(Error::Unexpected)));
        let other = |found: Option<&vfs::Attributes>| found.is_some_and(|found| found.id != first.file.id());
        assert!(matches!(publish(Expect::Like(&other)).await, Err(Error::Unexpected)));
        let same = |found: Option<&vfs::Attributes>| found.is_some_and(|found| found.id == first.file.id());
        assert!(!publish(Expect::Like(&same)).await.unwrap().is_new);
        root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let staged = root.stage(&nobody(), 0o644).await.unwrap();
        let refused = staged.publish(&nobody(), name("d"), Expect::Anything).await;
        assert!(matches!(refused, Err(Error::IsADirectory)), "{refused:?}");
        time::sleep(Duration::from_millis(10)).await;
        assert_eq!(names().await, ["d", "page"]);
    });
}

#[test]
fn of_ten_that_expect_nothing_under_a_name_one_publishes_and_of_ten_that_take_anything_all() {
    seeds(100, |seed| {
        let published = on_lanes(seed, Config::rough(), 5, |_, _, volume| async move {
            let root = root(&volume).await;
            let all = [publish(&root, Expect::Absent), publish(&root, Expect::Absent)];
            let absent = futures(all).await.into_iter().filter(Result::is_ok).count();
            let all = [publish(&root, Expect::Anything), publish(&root, Expect::Anything)];
            let any = futures(all).await.into_iter().filter(Result::is_ok).count();
            (absent, any)
        });
        assert_eq!(published.iter().map(|(absent, _)| absent).sum::<usize>(), 1);
        assert_eq!(published.iter().map(|(_, any)| any).sum::<usize>(), 10);
    });
}

#[test]
fn a_file_that_appears_behind_the_servers_back_is_not_replaced_unawares() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let root = root(&volume).await;
        // The lane has learnt that there is none, and is not told otherwise.
        assert_eq!(inode(&volume, "page").await, None);
        process.host.fs().write("/srv/page", "theirs").unwrap();
        let how = CreateOptions { exclusive: true, mode: 0o644 };
        assert!(matches!(root.create(&nobody(), name("page"), how).await, Err(Error::Exists)));
        assert_eq!(process.host.fs().read("/srv/page").unwrap(), b"theirs");
    });
}

async fn publish(root: &Directory, expect: Expect<'_>) -> Result<Published, Error> {
    root.stage(&nobody(), 0o644).await.unwrap().publish(&nobody(), name("page"), expect).await
}

/// Waits for both, at once.
async fn futures<T>(both: [impl Future<Output = T>; 2]) -> Vec<T> {
    let mut both = both.map(|one| (Box::pin(one), None));
    std::future::poll_fn(|cx| {
        for (future, result) in &mut both {
            if result.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *result = Some(value);
            }
        }
        match both.iter().all(|(_, result)| result.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    both.into_iter().filter_map(|(_, result)| result).collect()
}

/// Returns what is in the volume's directory on the disk.
async fn names() -> Vec<String> {
    let entries = Dir::open_root("/srv".as_ref()).unwrap().entries(100).await.unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect();
    names.sort();
    names
}
