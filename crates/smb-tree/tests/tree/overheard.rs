//! What other programs of the machine do in directories that clients watch is told within a second, and what this server does itself once.

use std::sync::Arc;
use std::time::Duration;

use lane::backend::sim::{Config, World};
use smb_tree::{Asker, Open, OpensLimits};
use smb_wire::Status;
use smb_wire::body::change_notify::{ChangeNotifyRequest, FLAG_WATCH_TREE, filter};
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use smb_wire::info::file::class;
use smb_wire::info::notify::{action, parse};

use super::information::{full, renamed, set};
use super::{Side, Wish, asker, beside_programs, in_world_beside};

const ALL: u32 =
    filter::FILE_NAME | filter::DIR_NAME | filter::SIZE | filter::LAST_WRITE | filter::ATTRIBUTES;

/// What is told within a second.
async fn heard(side: &Side, who: &Asker, open: &Arc<Open>, bits: u16) -> Vec<(u32, String)> {
    heard_for(Duration::from_secs(1), side, who, open, bits).await
}

async fn heard_for(
    time: Duration,
    side: &Side,
    who: &Asker,
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

async fn directory(side: &Side, who: &Asker, name: &str) -> Arc<Open> {
    let wish = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::OpenIf) };
    side.open(who, name, &wish.with(options::DIRECTORY_FILE)).await
}

fn events(expected: &[(u32, &str)]) -> Vec<(u32, String)> {
    expected.iter().map(|(what, name)| (*what, (*name).to_owned())).collect()
}

#[test]
fn what_other_programs_do_is_told_within_a_second() {
    beside_programs(|side, fs| async move {
        let who = asker(1);
        let open = directory(&side, &who, "sub").await;
        assert_eq!(heard(&side, &who, &open, 0).await, []);
        let told = async |what: &str, expected: &[(u32, &str)]| {
            assert_eq!(heard(&side, &who, &open, 0).await, events(expected), "{what}");
        };
        fs.write("/srv/sub/page", "1").unwrap();
        told("made and written", &[(action::ADDED, "page")]).await;
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
fn what_other_programs_do_beneath_is_told_in_directories_old_and_new() {
    beside_programs(|side, fs| async move {
        let who = asker(1);
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

/// What this server does in `sub`.
async fn act(side: &Side, who: &Asker) {
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
            let who = asker(lane as u64 + 1);
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
