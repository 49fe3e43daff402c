//! Change notification of a directory, or beneath it, whichever service makes the change.

use std::sync::Arc;
use std::time::Duration;

use identity::{Acl, Rights, Side as AclSide};
use smb_tree::{Answer, Open, RequestContext};
use smb_wire::Status;
use smb_wire::body::change_notify::{ChangeNotifyRequest, FLAG_WATCH_TREE, filter};
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use smb_wire::info::notify::{action, parse};
use vfs::{Caller, CreateOptions, Name, RelPath, Replace};

use super::{Side, Wish, alone, mary, on_lanes, request_context};

async fn watch(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    (bits, wanted, room): (u16, u32, u32),
) -> Result<Answer, Status> {
    let mut request = ChangeNotifyRequest::blank();
    request.flags.set(bits);
    request.completion_filter.set(wanted);
    request.output_buffer_length.set(room);
    side.share.change_notify(who, open, &request).await
}

pub(super) async fn told(side: &Side, who: &RequestContext, open: &Arc<Open>) -> Vec<(u32, String)> {
    let answer = watch(side, who, open, NAMES).await.unwrap();
    assert_eq!(answer.status, Status::SUCCESS);
    parse(&answer.output).map(|entry| entry.map(|(action, name)| (action, name.lossy())).unwrap()).collect()
}

/// Returns what it has come to by now, asked once.
async fn polled<T>(waits: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *waits).poll(cx) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

const NAMES: (u16, u32, u32) = (0, filter::FILE_NAME | filter::DIR_NAME, 4096);

async fn root(side: &Side, who: &RequestContext) -> Arc<Open> {
    let wish = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
    side.open(who, "", &wish.with(options::DIRECTORY_FILE)).await
}

#[test]
fn what_another_service_does_on_another_lane_is_told() {
    on_lanes(1, 2, |lane, side| async move {
        let who = request_context(1);
        if lane == 1 {
            // As AFS or HTTP would, without any open.
            lane::time::sleep(Duration::from_millis(100)).await;
            let volume = side.share.volume();
            let caller = Caller::anonymous();
            let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
            let name = |text: &'static str| Name::parse(text.as_bytes()).unwrap();
            let new = CreateOptions { exclusive: true, mode: 0o644 };
            drop(root.create(&caller, name("made"), new).await.unwrap());
            lane::time::sleep(Duration::from_millis(100)).await;
            root.rename(&caller, name("made"), &root, name("moved"), Replace::Never).await.unwrap();
            root.remove(&caller, name("moved")).await.unwrap();
            lane::time::sleep(Duration::from_millis(100)).await;
            return;
        }
        let open = root(&side, &who).await;
        assert_eq!(told(&side, &who, &open).await, [(action::ADDED, "made".to_owned())]);
        let mut rest = Vec::new();
        while rest.len() < 3 {
            rest.extend(told(&side, &who, &open).await);
        }
        let moved = || "moved".to_owned();
        let expected = [
            (action::RENAMED_OLD_NAME, "made".to_owned()),
            (action::RENAMED_NEW_NAME, moved()),
            (action::REMOVED, moved()),
        ];
        assert_eq!(rest, expected);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn a_watch_ends_with_its_open_and_keeps_what_comes_between_two_requests() {
    alone(|side| async move {
        let who = request_context(1);
        let open = root(&side, &who).await;
        let first = {
            let (side, who, open) = (side.clone(), who.clone(), open.clone());
            lane::spawn(async move { told(&side, &who, &open).await })
        };
        lane::time::sleep(Duration::from_millis(10)).await;
        side.make(&who, "one", b"").await;
        assert_eq!(first.await, [(action::ADDED, "one".to_owned())]);
        side.make(&who, "two", b"").await;
        assert_eq!(told(&side, &who, &open).await, [(action::ADDED, "two".to_owned())]);
        side.make(&who, "a name that does not fit", b"").await;
        let overflown = watch(&side, &who, &open, (0, filter::FILE_NAME, 20)).await.unwrap();
        assert_eq!((overflown.status, overflown.output.len()), (Status::NOTIFY_ENUM_DIR, 0));
        let last = {
            let (side, who, open) = (side.clone(), who.clone(), open.clone());
            lane::spawn(async move { watch(&side, &who, &open, NAMES).await })
        };
        lane::time::sleep(Duration::from_millis(10)).await;
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(last.await.map(|answer| answer.status), Ok(Status::NOTIFY_CLEANUP));
        let unasked = root(&side, &who).await;
        assert_eq!(watch(&side, &who, &unasked, (0, 0, 4096)).await, Err(Status::INVALID_PARAMETER));
        side.share.close(&who, &unasked, 0).await.unwrap();
        let blind = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        let blind = side.open(&who, "", &blind).await;
        assert_eq!(watch(&side, &who, &blind, NAMES).await, Err(Status::ACCESS_DENIED));
        side.share.close(&who, &blind, 0).await.unwrap();
    });
}

/// Opens a directory, which is made if it is not there, to watch it.
async fn directory(side: &Side, who: &RequestContext, path: &str) -> Arc<Open> {
    let wish = Wish { access: rights::FILE_READ | rights::DELETE, ..Wish::new(Disposition::OpenIf) };
    side.open(who, path, &wish.with(options::DIRECTORY_FILE)).await
}

#[test]
fn what_happens_beneath_is_told_to_who_watches_the_tree_and_each_filter_has_its_own() {
    alone(|side| async move {
        let who = request_context(1);
        let (top, below) = (directory(&side, &who, "top").await, directory(&side, &who, r"top\below").await);
        let beside = directory(&side, &who, "beside").await;
        let sized = directory(&side, &who, "top").await;
        // The first request of each says what it watches.
        let tree = (FLAG_WATCH_TREE, NAMES.1, 4096);
        for (open, how) in [(&top, tree), (&beside, tree), (&below, NAMES), (&sized, (1, filter::SIZE, 4096))]
        {
            let mut first = Box::pin(watch(&side, &who, open, how));
            assert!(polled(&mut first).await.is_none(), "nothing has happened yet");
        }
        side.make(&who, r"top\below\file", b"").await;
        let added = |name: &str| vec![(action::ADDED, name.to_owned())];
        assert_eq!(told(&side, &who, &below).await, added("file"));
        assert_eq!(told(&side, &who, &top).await, added(r"below\file"));
        let wish = Wish { access: rights::FILE_ALL, ..Wish::new(Disposition::Open) };
        let file = side.open(&who, r"top\below\file", &wish).await;
        side.share.write_bytes(&who, &file, 0, b"12", false).await.unwrap();
        side.share.close(&who, &file, 0).await.unwrap();
        assert_eq!(told(&side, &who, &sized).await, [(action::MODIFIED, r"below\file".to_owned())]);
        // Nothing of it was beside, and what was written is no name.
        for open in [&top, &below, &beside] {
            let mut next = Box::pin(watch(&side, &who, open, NAMES));
            assert!(polled(&mut next).await.is_none());
        }
        for open in [top, below, beside, sized] {
            side.share.close(&who, &open, 0).await.unwrap();
        }
    });
}

#[test]
fn who_watches_a_directory_that_is_taken_away_hears_of_it() {
    alone(|side| async move {
        let who = request_context(1);
        let watched = directory(&side, &who, "gone").await;
        let mut waits = Box::pin(watch(&side, &who, &watched, NAMES));
        assert!(polled(&mut waits).await.is_none());
        let wish = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
        let going = side.open(&who, "gone", &wish.with(options::DELETE_ON_CLOSE)).await;
        side.share.close(&who, &going, 0).await.unwrap();
        assert_eq!(waits.await.map(|answer| answer.status), Ok(Status::DELETE_PENDING));
        side.share.close(&who, &watched, 0).await.unwrap();
    });
}

#[test]
fn of_two_requests_the_first_is_told_what_happens_first() {
    alone(|side| async move {
        let who = request_context(1);
        let open = root(&side, &who).await;
        let ask = || {
            let (side, who, open) = (side.clone(), who.clone(), open.clone());
            lane::spawn(async move { told(&side, &who, &open).await })
        };
        let (first, second) = (ask(), ask());
        lane::yield_if_due().await;
        lane::time::sleep(Duration::from_millis(10)).await;
        side.make(&who, "one", b"").await;
        assert_eq!(first.await, [(action::ADDED, "one".to_owned())]);
        side.make(&who, "two", b"").await;
        assert_eq!(second.await, [(action::ADDED, "two".to_owned())]);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn names_in_directories_that_the_watcher_may_not_list_are_not_told() {
    alone(|side| async move {
        let (who, mary) = (request_context(1), mary(2));
        let list = |rights: &str| {
            let mut acl = Acl::new();
            acl.set(AclSide::Given, "mary".parse().unwrap(), rights.parse().unwrap()).unwrap();
            acl
        };
        for name in ["secret", "secret\\deep", "open"] {
            let made = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
            assert_eq!(side.status(&who, name, &made).await, Status::SUCCESS, "{name}");
        }
        for (path, rights) in [("", "rl"), ("secret", "none"), ("secret/deep", "none")] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            let found = side.volume.lookup_as(&who.caller, path, Rights::NONE).await.unwrap();
            let directory = found.into_directory().unwrap().0;
            directory.set_access_list(&who.caller, Some(&list(rights))).await.unwrap();
        }
        let open = root(&side, &mary).await;
        let tree = (FLAG_WATCH_TREE, NAMES.1, 4096);
        let mut waits = Box::pin(watch(&side, &mary, &open, tree));
        assert!(polled(&mut waits).await.is_none());
        for name in ["secret\\merger", "secret\\deep\\fire bob"] {
            side.make(&who, name, b"").await;
        }
        lane::time::sleep(Duration::from_secs(1)).await;
        assert!(polled(&mut waits).await.is_none(), "nothing of it is told");
        side.make(&who, "open\\known", b"").await;
        let answer = waits.await.unwrap();
        let names: Vec<_> = parse(&answer.output).map(|entry| entry.unwrap().1.lossy()).collect();
        assert_eq!((answer.status, names), (Status::SUCCESS, vec!["open\\known".to_owned()]));
        side.share.close(&mary, &open, 0).await.unwrap();
    });
}
