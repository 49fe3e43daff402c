//! Notification of other programs' changes, told within a second, and of this server's own, told once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::Rights;
use lane::backend::sim::{Config, Fs, World, seeds};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_tree::{Open, OpensLimits, RequestContext};
use smb_wire::Status;
use smb_wire::body::change_notify::{ChangeNotifyRequest, FLAG_WATCH_TREE, filter};
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use smb_wire::info::file::class;
use smb_wire::info::notify::{action, parse};
use vfs::{Expect, Name, RelPath, Replace};

use super::information::{full, renamed, set};
use super::own_file::put;
use super::{Side, Wish, beside_programs, in_world_beside, request_context};

const ALL: u32 =
    filter::FILE_NAME | filter::DIR_NAME | filter::SIZE | filter::LAST_WRITE | filter::ATTRIBUTES;

/// Returns what is told within a second.
async fn heard(side: &Side, who: &RequestContext, open: &Arc<Open>, bits: u16) -> Vec<(u32, String)> {
    heard_for(Duration::from_secs(1), side, who, open, bits).await
}

async fn heard_for(
    time: Duration,
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    bits: u16,
) -> Vec<(u32, String)> {
    let mut request = ChangeNotifyRequest::blank();
    request.flags.set(bits);
    request.completion_filter.set(ALL);
    request.output_buffer_length.set(4096);
    let until = lane::time::now() + time;
    let mut told = Vec::new();
    while lane::time::now() < until {
        let left = until.saturating_duration_since(lane::time::now());
        let waits = side.share.change_notify(who, open, &request);
        let Ok(answer) = lane::time::timeout(left, waits).await else { break };
        let answer = answer.unwrap();
        assert_eq!(answer.status, Status::SUCCESS);
        told.extend(parse(&answer.output).map(Result::unwrap).map(|(what, name)| (what, name.lossy())));
    }
    told
}

async fn directory(side: &Side, who: &RequestContext, name: &str) -> Arc<Open> {
    let wish = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::OpenIf) };
    side.open(who, name, &wish.with(options::DIRECTORY_FILE)).await
}

/// Runs a test beside other programs, by an open of `sub` that has been told of nothing yet.
fn watching<F: Future<Output = ()> + 'static>(
    test: impl Fn(Side, Fs, RequestContext, Arc<Open>) -> F + Copy + 'static,
) {
    beside_programs(move |side, fs| async move {
        let who = request_context(1);
        let open = directory(&side, &who, "sub").await;
        assert_eq!(heard(&side, &who, &open, 0).await, []);
        test(side, fs, who, open).await;
    });
}

fn events(expected: &[(u32, &str)]) -> Vec<(u32, String)> {
    expected.iter().map(|(what, name)| (*what, (*name).to_owned())).collect()
}

#[test]
fn what_other_programs_do_is_told_within_a_second() {
    watching(|side, fs, who, open| async move {
        let told = async |what: &str, expected: &[(u32, &str)]| {
            assert_eq!(heard(&side, &who, &open, 0).await, events(expected), "{what}");
        };
        fs.write("/srv/sub/page", "1").unwrap();
        told("made and written", &[(action::ADDED, "page"), (action::MODIFIED, "page")]).await;
        fs.append("/srv/sub/page", b"2").unwrap();
        told("written to", &[(action::MODIFIED, "page")]).await;
        fs.set_mode("/srv/sub/page", 0o600).unwrap();
        told("other attributes", &[(action::MODIFIED, "page")]).await;
        fs.rename("/srv/sub/page", "/srv/sub/other").unwrap();
        let both = [(action::RENAMED_OLD_NAME, "page"), (action::RENAMED_NEW_NAME, "other")];
        told("renamed", &both).await;
        fs.hard_link("/srv/sub/other", "/srv/sub/more").unwrap();
        told("linked", &[(action::ADDED, "more")]).await;
        fs.remove("/srv/sub/other").unwrap();
        told("removed", &[(action::REMOVED, "other")]).await;
        fs.create_dir_all("/srv/sub/below").unwrap();
        told("a directory", &[(action::ADDED, "below")]).await;
        fs.rename("/srv/sub/more", "/srv/sub/below/more").unwrap();
        told("moved away", &[(action::REMOVED, "more")]).await;
        fs.rename("/srv/sub/below/more", "/srv/sub/more").unwrap();
        told("moved here", &[(action::ADDED, "more")]).await;
        fs.write("/srv/sub/below/deep", "1").unwrap();
        told("beneath, which is not watched", &[]).await;
        side.share.close(&who, &open, 0).await.unwrap();
        lane::time::sleep(Duration::from_secs(1)).await;
    });
}

#[test]
fn what_other_programs_do_just_after_a_watch_begins_is_told_though_others_have_begun_before() {
    watching(|side, fs, who, open| async move {
        for n in 0..20_u64 {
            let name = format!("new{n}");
            fs.create_dir_all(&format!("/srv/{name}")).unwrap();
            // Whatever else is looked at now and then may have been so just now.
            lane::time::sleep(Duration::from_millis(30 * n)).await;
            let new = directory(&side, &who, &name).await;
            let changes = async {
                lane::time::sleep(Duration::from_millis(20)).await;
                fs.write(&format!("/srv/{name}/page"), "").unwrap();
            };
            let (told, ()) = futures_util::join!(heard(&side, &who, &new, 0), changes);
            assert_eq!(told.first(), Some(&(action::ADDED, "page".to_owned())), "{n}");
            side.share.close(&who, &new, 0).await.unwrap();
        }
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn what_other_programs_do_beneath_is_told_in_directories_old_and_new() {
    beside_programs(|side, fs| async move {
        let who = request_context(1);
        fs.create_dir_all("/srv/sub/a/b").unwrap();
        let open = directory(&side, &who, "sub").await;
        assert_eq!(heard(&side, &who, &open, FLAG_WATCH_TREE).await, []);
        let told = async |what: &str, expected: &[(u32, &str)]| {
            let told = heard(&side, &who, &open, FLAG_WATCH_TREE).await;
            let told: Vec<_> = told.into_iter().filter(|(what, _)| *what != action::MODIFIED).collect();
            assert_eq!(told, events(expected), "{what}");
        };
        fs.write("/srv/sub/a/b/page", "1").unwrap();
        told("in an old one", &[(action::ADDED, "a\\b\\page")]).await;
        fs.create_dir_all("/srv/sub/new").unwrap();
        told("a new one", &[(action::ADDED, "new")]).await;
        fs.write("/srv/sub/new/page", "1").unwrap();
        told("in a new one", &[(action::ADDED, "new\\page")]).await;
        fs.rename("/srv/sub/a", "/srv/sub/z").unwrap();
        told("renamed", &[(action::RENAMED_OLD_NAME, "a"), (action::RENAMED_NEW_NAME, "z")]).await;
        fs.remove("/srv/sub/z/b/page").unwrap();
        told("in a renamed one", &[(action::REMOVED, "z\\b\\page")]).await;
        side.share.close(&who, &open, 0).await.unwrap();
        lane::time::sleep(Duration::from_secs(1)).await;
    });
}

/// Makes a change by this server in `sub`.
async fn act(side: &Side, who: &RequestContext) {
    side.make(who, "sub\\page", b"1").await;
    let page = side.open(who, "sub\\page", &full()).await;
    set(side, who, &page, class::RENAME, &renamed("sub\\other", false)).await.unwrap();
    side.share.close(who, &page, 0).await.unwrap();
    let goes = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
    assert_eq!(side.status(who, "sub\\other", &goes.with(options::DELETE_ON_CLOSE)).await, Status::SUCCESS);
}

#[test]
fn what_this_server_does_is_told_once_however_many_lanes_hear_of_it() {
    for lanes in [1, 3] {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        in_world_beside(world, &host, OpensLimits::default(), lanes, move |lane, side, fs| async move {
            let who = request_context(lane as u64 + 1);
            let open = directory(&side, &who, "sub").await;
            let changing = async {
                if lane != 0 {
                    return;
                }
                lane::time::sleep(Duration::from_secs(1)).await;
                act(&side, &who).await;
                lane::time::sleep(Duration::from_secs(1)).await;
                fs.write("/srv/sub/page", "1").unwrap();
                fs.remove("/srv/sub/page").unwrap();
            };
            let hearing = heard_for(Duration::from_secs(4), &side, &who, &open, 0);
            let (told, ()) = futures_util::join!(hearing, changing);
            let told: Vec<_> = told.into_iter().filter(|(what, _)| *what != action::MODIFIED).collect();
            let expected = events(&[
                (action::ADDED, "page"),
                (action::RENAMED_OLD_NAME, "page"),
                (action::RENAMED_NEW_NAME, "other"),
                (action::REMOVED, "other"),
                // By another program, told once on whatever lane it is heard of.
                (action::ADDED, "page"),
                (action::REMOVED, "page"),
            ]);
            assert_eq!(told, expected, "lane {lane}");
            side.share.close(&who, &open, 0).await.unwrap();
            lane::time::sleep(Duration::from_secs(2)).await;
        });
    }
}

/// Deeds of this server.
async fn make(side: &Side, who: &RequestContext, name: &str) -> bool {
    let Ok(made) = side.create(who, &format!("sub\\{name}"), &Wish::new(Disposition::Create)).await else {
        return false;
    };
    side.share.write_bytes(who, &made.open, 0, b"1", false).await.unwrap();
    side.share.close(who, &made.open, 0).await.unwrap();
    true
}

async fn write(side: &Side, who: &RequestContext, name: &str) -> bool {
    let Ok(opened) = side.create(who, &format!("sub\\{name}"), &Wish::new(Disposition::Open)).await else {
        return false;
    };
    side.share.write_bytes(who, &opened.open, 0, b"22", false).await.unwrap();
    side.share.close(who, &opened.open, 0).await.unwrap();
    true
}

async fn rename(side: &Side, who: &RequestContext, from: &str, to: &str) -> bool {
    let opens = Wish { disposition: Disposition::Open, ..full() };
    let Ok(opened) = side.create(who, &format!("sub\\{from}"), &opens).await else { return false };
    let moved = set(side, who, &opened.open, class::RENAME, &renamed(&format!("sub\\{to}"), false)).await;
    side.share.close(who, &opened.open, 0).await.unwrap();
    moved.is_ok()
}

async fn delete(side: &Side, who: &RequestContext, name: &str) -> bool {
    let goes = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
    side.status(who, &format!("sub\\{name}"), &goes.with(options::DELETE_ON_CLOSE)).await == Status::SUCCESS
}

#[test]
fn what_this_server_puts_in_place_of_another_is_told_once_and_hides_nothing_that_programs_do_next() {
    use action::{ADDED, MODIFIED, REMOVED, RENAMED_NEW_NAME, RENAMED_OLD_NAME};
    beside_programs(|side, fs| async move {
        let who = request_context(1);
        let open = directory(&side, &who, "").await;
        assert_eq!(heard(&side, &who, &open, 0).await, []);
        let told = async |what: &str, expected: &[(u32, &str)]| {
            assert_eq!(heard(&side, &who, &open, 0).await, events(expected), "{what}");
        };
        for name in ["/srv/a", "/srv/b"] {
            fs.write(name, "1").unwrap();
        }
        heard(&side, &who, &open, 0).await;
        put(&side, &who, "a", b"another", Expect::Anything).await.unwrap();
        told("put", &[(MODIFIED, "a")]).await;
        fs.remove("/srv/a").unwrap();
        fs.write("/srv/a", "1").unwrap();
        told("removed and made behind it", &[(REMOVED, "a"), (ADDED, "a"), (MODIFIED, "a")]).await;
        let found = side.volume.lookup_as(&who.caller, RelPath::ROOT, Rights::NONE).await.unwrap();
        let top = found.into_directory().unwrap().0;
        let [from, to] = [b"a", b"b"].map(|name| Name::parse(name).unwrap());
        top.rename(&who.caller, from, &top, to, Replace::Existing).await.unwrap();
        let renamed = [(REMOVED, "b"), (RENAMED_OLD_NAME, "a"), (RENAMED_NEW_NAME, "b"), (MODIFIED, "b")];
        told("renamed over", &renamed).await;
        fs.remove("/srv/b").unwrap();
        fs.write("/srv/b", "1").unwrap();
        told("the same behind that", &[(REMOVED, "b"), (ADDED, "b"), (MODIFIED, "b")]).await;
        side.share.close(&who, &open, 0).await.unwrap();
        lane::time::sleep(Duration::from_secs(2)).await;
    });
}

/// Returns what happened to one name, or was told of it; a rename is told by both.
fn of_name<'a>(name: &'a str, events: &'a [(u32, String)]) -> impl Iterator<Item = u32> + 'a {
    events.iter().filter(move |(_, of)| of == name).map(|(what, _)| *what)
}

/// Between names that come and go, whether something was modified.
fn spans(events: impl Iterator<Item = u32>) -> (Vec<u32>, Vec<bool>) {
    let (mut names, mut modified) = (Vec::new(), vec![false]);
    for what in events {
        match what {
            action::MODIFIED => *modified.last_mut().expect("there is one") = true,
            what => {
                names.push(what);
                modified.push(false);
            }
        }
    }
    (names, modified)
}

/// Each name is told in the order in which it happened, and nothing is left out.
fn check(what: &str, told: &[(u32, String)], happened: &[(u32, String)]) {
    let mut names: Vec<_> = happened.iter().chain(told).map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let ((told_names, told_modified), (names, modified)) =
            (spans(of_name(name, told)), spans(of_name(name, happened)));
        assert_eq!(told_names, names, "{what}: {name} of {told:?}, where {happened:?}");
        let is_told = modified.iter().zip(&told_modified).all(|(is, told)| *told || !is);
        assert!(is_told, "{what}: {name} was modified: {told:?}, where {happened:?}");
    }
    let halves = told.windows(2).filter(|pair| pair[0].0 == action::RENAMED_OLD_NAME);
    assert!(halves.clone().all(|pair| pair[1].0 == action::RENAMED_NEW_NAME), "{what}: {told:?}");
}

#[test]
fn what_a_program_does_at_once_is_told_as_it_happened_and_nothing_is_left_out() {
    use action::{ADDED, MODIFIED, REMOVED, RENAMED_NEW_NAME, RENAMED_OLD_NAME};
    watching(|side, fs, who, open| async move {
        let told = async |what: &str, expected: &[(u32, &str)]| {
            assert_eq!(heard(&side, &who, &open, 0).await, events(expected), "{what}");
        };
        fs.write("/srv/sub/a", "1").unwrap();
        fs.append("/srv/sub/a", b"2").unwrap();
        fs.rename("/srv/sub/a", "/srv/sub/b").unwrap();
        fs.append("/srv/sub/b", b"3").unwrap();
        fs.remove("/srv/sub/b").unwrap();
        let all = [
            (ADDED, "a"),
            (MODIFIED, "a"),
            (RENAMED_OLD_NAME, "a"),
            (RENAMED_NEW_NAME, "b"),
            (MODIFIED, "b"),
            (REMOVED, "b"),
        ];
        told("all of a life", &all).await;
        fs.write("/srv/sub/a", "1").unwrap();
        assert!(rename(&side, &who, "a", "b").await);
        fs.append("/srv/sub/b", b"3").unwrap();
        assert!(delete(&side, &who, "b").await);
        let now = heard(&side, &who, &open, 0).await;
        check("beside this server", &now, &events(&all));
        for name in ["a", "b"] {
            fs.write(&format!("/srv/sub/{name}"), "1").unwrap();
        }
        heard(&side, &who, &open, 0).await;
        fs.rename("/srv/sub/a", "/srv/sub/b").unwrap();
        told("renamed over", &[(RENAMED_OLD_NAME, "a"), (RENAMED_NEW_NAME, "b")]).await;
        for _ in 0..20 {
            fs.append("/srv/sub/b", b"3").unwrap();
        }
        told("written to many times", &[(MODIFIED, "b")]).await;
        side.share.close(&who, &open, 0).await.unwrap();
        lane::time::sleep(Duration::from_secs(1)).await;
    });
}

#[test]
fn what_this_server_and_programs_do_to_a_name_is_told_in_its_order() {
    for lanes in [1, 2] {
        seeds(if lanes == 1 { 150 } else { 60 }, move |seed| {
            let world = World::new(seed, Config::clean());
            let host = world.host("10.0.0.1");
            let happened: Rc<RefCell<Vec<(u32, String)>>> = Rc::default();
            in_world_beside(world, &host, OpensLimits::default(), lanes, move |lane, side, fs| {
                let happened = Rc::clone(&happened);
                async move {
                    let who = request_context(lane as u64 + 1);
                    let open = directory(&side, &who, "sub").await;
                    let acting = async {
                        lane::time::sleep(Duration::from_secs(1)).await;
                        if lane == 0 {
                            act_at_random(seed, &side, &who, &fs, &happened).await;
                        }
                    };
                    let hearing = heard_for(Duration::from_secs(5), &side, &who, &open, 0);
                    let (told, ()) = futures_util::join!(hearing, acting);
                    check(&format!("seed {seed}, lane {lane} of {lanes}"), &told, &happened.borrow());
                    side.share.close(&who, &open, 0).await.unwrap();
                    lane::time::sleep(Duration::from_secs(2)).await;
                }
            });
        });
    }
}

async fn act_at_random(
    seed: u64,
    side: &Side,
    who: &RequestContext,
    fs: &Fs,
    happened: &RefCell<Vec<(u32, String)>>,
) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let happens = |what: u32, name: &str| happened.borrow_mut().push((what, name.to_owned()));
    let mut there: Vec<&str> = Vec::new();
    for _ in 0..14 {
        // What it has not heard of yet this server may refuse.
        let free: Vec<_> = ["a", "b", "c"].into_iter().filter(|name| !there.contains(name)).collect();
        let new = (!free.is_empty()).then(|| free[rng.random_range(0..free.len())]);
        let old = (!there.is_empty()).then(|| rng.random_range(0..there.len()));
        let (is_own, path) = (rng.random_bool(0.4), |name: &str| format!("/srv/sub/{name}"));
        match (rng.random_range(0..4), old, new) {
            (0, _, Some(new)) => {
                if !is_own {
                    fs.write(&path(new), "1").unwrap();
                } else if !make(side, who, new).await {
                    continue;
                }
                happens(action::ADDED, new);
                happens(action::MODIFIED, new);
                there.push(new);
            }
            (1, Some(old), _) => {
                if !is_own {
                    fs.append(&path(there[old]), b"2").unwrap();
                } else if !write(side, who, there[old]).await {
                    continue;
                }
                happens(action::MODIFIED, there[old]);
            }
            (2, Some(old), Some(new)) => {
                if !is_own {
                    fs.rename(&path(there[old]), &path(new)).unwrap();
                } else if !rename(side, who, there[old], new).await {
                    continue;
                }
                happens(action::RENAMED_OLD_NAME, there[old]);
                happens(action::RENAMED_NEW_NAME, new);
                there[old] = new;
            }
            (3, Some(old), _) => {
                if !is_own {
                    fs.remove(&path(there[old])).unwrap();
                } else if !delete(side, who, there[old]).await {
                    continue;
                }
                happens(action::REMOVED, there.remove(old));
            }
            _ => {}
        }
        let pause = [0, 0, 0, 1, 20, 60, 130][rng.random_range(0..7)];
        lane::time::sleep(Duration::from_millis(pause)).await;
    }
}

#[test]
fn who_watches_is_not_sent_to_look_for_what_he_is_told_though_others_rely_on_the_directory() {
    watching(|side, fs, who, open| async move {
        // As a client of AFS does that has listed it.
        let found = side.volume.lookup_as(&who.caller, RelPath::parse(b"sub").unwrap(), Rights::LOOKUP).await;
        let listed = found.unwrap().into_directory().unwrap().0;
        let history = listed.names(10).await.unwrap().history;
        for round in 0..3 {
            fs.write("/srv/sub/page", "1").unwrap();
            lane::time::sleep(Duration::from_millis(round * 60)).await;
            fs.rename("/srv/sub/page", "/srv/sub/other").unwrap();
            listed.lookup(Name::parse(b"other").unwrap()).await.unwrap();
            fs.remove("/srv/sub/other").unwrap();
            let told = heard(&side, &who, &open, 0).await;
            let told: Vec<_> = told.into_iter().filter(|(what, _)| *what != action::MODIFIED).collect();
            let all = [
                (action::ADDED, "page"),
                (action::RENAMED_OLD_NAME, "page"),
                (action::RENAMED_NEW_NAME, "other"),
                (action::REMOVED, "other"),
            ];
            assert_eq!(told, events(&all), "{round}");
        }
        drop(history);
        side.share.close(&who, &open, 0).await.unwrap();
        lane::time::sleep(Duration::from_secs(2)).await;
    });
}

#[test]
fn who_watches_is_sent_to_look_where_the_kernel_has_lost_what_happened() {
    watching(|side, fs, who, open| async move {
        fs.write("/srv/sub/page", "1").unwrap();
        fs.overflow_watches();
        let mut request = ChangeNotifyRequest::blank();
        request.completion_filter.set(ALL);
        request.output_buffer_length.set(4096);
        let waits = side.share.change_notify(&who, &open, &request);
        let answer = lane::time::timeout(Duration::from_secs(1), waits).await.expect("it is told").unwrap();
        assert_eq!(answer.status, Status::NOTIFY_ENUM_DIR);
        side.share.close(&who, &open, 0).await.unwrap();
        lane::time::sleep(Duration::from_secs(2)).await;
    });
}
