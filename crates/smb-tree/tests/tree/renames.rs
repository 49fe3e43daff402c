//! Renames beside what others have open (MS-FSA 2.1.5.15.11).

use std::sync::Arc;

use identity::Rights;
use lane::time;
use smb_tree::{Open, RequestContext};
use smb_wire::create::access::rights;
use smb_wire::create::context::{AaplRequest, ContextWriter, tag};
use smb_wire::create::lease::state;
use smb_wire::create::{Disposition, options};
use smb_wire::info::file::class;
use smb_wire::info::notify::action;
use smb_wire::text::encoded;
use smb_wire::{Guid, Status};
use vfs::{Expect, Name, RelPath, Replace};

use super::durable::{GUID, LEASE, again, durable, lease as durable_lease, next_session, wish};
use super::information::{file, renamed, set};
use super::leases::{lease, until};
use super::notifies::told;
use super::persisted::{Site, user};
use super::{Side, Wish, alone, request_context};

const RH: u32 = state::READ | state::HANDLE;
const RWH: u32 = RH | state::WRITE;

fn directory() -> Wish {
    Wish { access: rights::FILE_READ | rights::DELETE, ..Wish::new(Disposition::OpenIf) }
        .with(options::DIRECTORY_FILE)
}

/// Begins a rename, and waits until a holder is told to give something back.
async fn begin(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    to: &'static str,
) -> lane::Task<Result<(), Status>> {
    let before = side.heard.leases.borrow().len();
    let renaming = {
        let (side, who, open) = (side.clone(), who.clone(), Arc::clone(open));
        lane::spawn(async move { set(&side, &who, &open, class::RENAME, &renamed(to, true)).await })
    };
    until(|| side.heard.leases.borrow().len() > before).await;
    renaming
}

fn last(side: &Side) -> (Guid, u32) {
    let told = *side.heard.leases.borrow().last().unwrap();
    (told.key, told.to)
}

#[test]
fn what_is_open_is_not_replaced_and_who_keeps_it_for_later_is_asked_for_it_first() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let key = Guid::new([7; 16]);
        side.make(&who, "one", b"1").await;
        let one = side.open(&who, "one", &Wish::new(Disposition::Open)).await;
        let kept = side.create(&other, "two", &lease(7, RWH, None)).await.unwrap().open;
        let renaming = begin(&side, &who, &one, "two").await;
        assert_eq!(last(&side), (key, state::READ | state::WRITE));
        assert_eq!(side.share.lease_break(&other, key, state::READ | state::WRITE), Ok(5));
        assert_eq!(renaming.await, Err(Status::ACCESS_DENIED), "he goes on with it");
        // The client keeps nothing for later, and is asked for nothing.
        let again = set(&side, &who, &one, class::RENAME, &renamed("two", true)).await;
        assert_eq!((again, side.heard.leases.borrow().len()), (Err(Status::ACCESS_DENIED), 1));
        side.share.close(&other, &kept, 0).await.unwrap();
        let kept = side.create(&other, "two", &lease(7, RWH, None)).await.unwrap().open;
        let renaming = begin(&side, &who, &one, "two").await;
        side.share.close(&other, &kept, 0).await.unwrap();
        assert_eq!(renaming.await, Ok(()));
        side.share.close(&who, &one, 0).await.unwrap();
        assert_eq!(side.content(&who, "two").await, Ok(b"1".to_vec()));
    });
}

#[test]
fn a_directory_moves_once_opens_beneath_are_closed_and_not_if_others_come_meanwhile() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let top = side.open(&who, "top", &directory()).await;
        let below = side.create(&other, "top\\one", &lease(7, RH, None)).await.unwrap().open;
        let renaming = begin(&side, &who, &top, "moved").await;
        assert_eq!(last(&side), (Guid::new([7; 16]), state::READ));
        let late = side.create(&other, "top\\two", &lease(8, RH, None)).await.unwrap().open;
        let begun = time::now();
        side.share.close(&other, &below, 0).await.unwrap();
        assert_eq!(renaming.await, Err(Status::ACCESS_DENIED));
        assert_eq!(time::now().duration_since(begun).as_secs(), 0, "nobody waits for who came later");
        assert_eq!(side.heard.leases.borrow().len(), 1);
        // One that stays open is enough: no holder is asked.
        let stays = side.open(&other, "top\\one", &Wish::new(Disposition::Open)).await;
        let denied = set(&side, &who, &top, class::RENAME, &renamed("moved", false)).await;
        assert_eq!((denied, side.heard.leases.borrow().len()), (Err(Status::ACCESS_DENIED), 1));
        side.share.close(&other, &stays, 0).await.unwrap();
        let renaming = begin(&side, &who, &top, "moved").await;
        side.share.close(&other, &late, 0).await.unwrap();
        assert_eq!(renaming.await, Ok(()));
        side.share.close(&who, &top, 0).await.unwrap();
    });
}

#[test]
fn a_directory_above_many_leased_files_is_refused_with_the_first_that_stays_open_and_else_waits_once_for_all()
{
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let top = side.open(&who, "top", &directory()).await;
        let mut kept = Vec::new();
        for n in 0..8 {
            let opened = side.create(&other, &format!("top\\{n}"), &lease(n, RH, None)).await.unwrap();
            kept.push(opened.open);
        }
        // One of them says that it goes on; of the others nothing is heard.
        let renaming = begin(&side, &who, &top, "moved").await;
        until(|| side.heard.leases.borrow().len() == 8).await;
        let begun = time::now();
        side.share.lease_break(&other, Guid::new([5; 16]), state::READ).unwrap();
        assert_eq!(renaming.await, Err(Status::ACCESS_DENIED));
        assert_eq!(time::now().duration_since(begun).as_secs(), 0, "nobody is waited for any more");
        side.share.close(&other, &kept.remove(5), 0).await.unwrap();
        for kept in &kept {
            side.share.close(&other, kept, 0).await.unwrap();
        }
        let mut again = Vec::new();
        for n in 0..8 {
            let opened = side.create(&other, &format!("top\\{n}"), &lease(n, RH, None)).await.unwrap();
            again.push(opened.open);
        }
        // No holder answers: all have their time together.
        let begun = time::now();
        let denied = set(&side, &who, &top, class::RENAME, &renamed("moved", false)).await;
        assert_eq!(denied, Err(Status::ACCESS_DENIED));
        let seconds = time::now().duration_since(begun).as_secs();
        assert!((35..40).contains(&seconds), "{seconds} s");
        for open in &again {
            side.share.close(&other, open, 0).await.unwrap();
        }
        side.share.close(&who, &top, 0).await.unwrap();
    });
}

#[test]
fn who_has_the_new_directory_open_to_delete_it_for_later_is_asked_for_it_first() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let key = Guid::new([7; 16]);
        side.make(&who, "one", b"1").await;
        let one = side.open(&who, "one", &Wish::new(Disposition::Open)).await;
        let wish = Wish { access: rights::DELETE, ..lease(7, RH, None) }.with(options::DIRECTORY_FILE);
        let there = side.create(&other, "there", &wish).await.unwrap().open;
        let renaming = begin(&side, &who, &one, "there\\one").await;
        assert_eq!(last(&side), (key, state::READ));
        assert_eq!(side.share.lease_break(&other, key, state::READ), Ok(state::READ));
        assert_eq!(renaming.await, Err(Status::SHARING_VIOLATION));
        side.share.close(&other, &there, 0).await.unwrap();
        let there = side.create(&other, "there", &wish).await.unwrap().open;
        let renaming = begin(&side, &who, &one, "there\\one").await;
        side.share.close(&other, &there, 0).await.unwrap();
        assert_eq!(renaming.await, Ok(()));
        side.share.close(&who, &one, 0).await.unwrap();
        assert_eq!(side.content(&who, "there\\one").await, Ok(b"1".to_vec()));
    });
}

/// Fate of the name of an open file.
#[derive(Clone, Copy, Debug)]
enum Taken {
    Upload,
    Rename,
    AnotherMade,
}

#[test]
fn an_open_whose_name_leads_to_another_file_renames_links_and_deletes_none() {
    for taken in [Taken::Upload, Taken::Rename, Taken::AnotherMade] {
        alone(move |side| async move {
            let who = request_context(1);
            side.make(&who, "one", b"first").await;
            side.make(&who, "other", b"other").await;
            let open = side.open(&who, "one", &Wish::new(Disposition::Open)).await;
            let top = side.volume.lookup_as(&who.caller, RelPath::ROOT, Rights::NONE).await.unwrap();
            let top = top.into_directory().unwrap().0;
            let name = |text: &'static str| Name::parse(text.as_bytes()).unwrap();
            match taken {
                Taken::Upload => {
                    let staged = top.stage(&who.caller, 0o644).await.unwrap();
                    drop(staged.publish(&who.caller, name("one"), Expect::Anything).await.unwrap());
                }
                Taken::Rename => {
                    let over = Replace::Existing;
                    top.rename(&who.caller, name("other"), &top, name("one"), over).await.unwrap();
                }
                Taken::AnotherMade => {
                    top.remove(&who.caller, name("one")).await.unwrap();
                    side.make(&who, "one", b"anew").await;
                }
            }
            let now = side.content(&who, "one").await.unwrap();
            for class in [class::RENAME, class::LINK] {
                let moved = set(&side, &who, &open, class, &renamed("moved", true)).await;
                let is_refused =
                    [Err(Status::OBJECT_NAME_NOT_FOUND), Err(Status::FILE_DELETED)].contains(&moved);
                assert!(is_refused, "{taken:?}: {moved:?}");
            }
            set(&side, &who, &open, class::DISPOSITION, &[1]).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, "one").await, Ok(now), "{taken:?}: the new file is where it was");
            let none = side.content(&who, "moved").await;
            assert_eq!(none, Err(Status::OBJECT_NAME_NOT_FOUND), "{taken:?}");
        });
    }
}

#[test]
fn all_who_rename_onto_one_name_in_place_of_what_has_it_do() {
    alone(|side| async move {
        let all: Vec<_> = (1..4)
            .map(|number| {
                let side = side.clone();
                lane::spawn(async move {
                    let (who, temporary) = (request_context(number), format!("temporary-{number}"));
                    for _ in 0..50 {
                        side.make(&who, &temporary, b"text").await;
                        let renaming = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
                        let open = side.open(&who, &temporary, &renaming).await;
                        // What another has renamed just now, and still has open for that, is replaced.
                        let came = set(&side, &who, &open, class::RENAME, &renamed("target", true)).await;
                        assert_eq!(came, Ok(()));
                        lane::yield_if_due().await;
                        side.share.close(&who, &open, 0).await.unwrap();
                        // Now and then there is nothing to replace.
                        let deleting = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
                        if let Ok(target) = side.create(&who, "target", &deleting).await {
                            set(&side, &who, &target.open, class::DISPOSITION, &[1]).await.unwrap();
                            side.share.close(&who, &target.open, 0).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for one in all {
            one.await;
        }
    });
}

#[test]
fn what_is_read_or_written_or_may_not_be_deleted_is_not_replaced() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        for (access, share, may) in [
            (rights::DELETE, 7, true),
            (rights::READ_ATTRIBUTES, 7, true),
            (rights::DELETE, 3, false),
            (rights::READ_DATA, 7, false),
            (rights::APPEND_DATA, 7, false),
            (rights::EXECUTE, 7, false),
        ] {
            side.make(&who, "one", b"1").await;
            side.make(&who, "two", b"2").await;
            let one = side
                .open(&who, "one", &Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) })
                .await;
            let two = side.open(&other, "two", &Wish { access, share, ..Wish::new(Disposition::Open) }).await;
            let came = set(&side, &who, &one, class::RENAME, &renamed("two", true)).await;
            assert_eq!(came.is_ok(), may, "{access:x}, {share}: {came:?}");
            if !may {
                assert_eq!(came, Err(Status::ACCESS_DENIED), "{access:x}, {share}");
            }
            side.share.close(&other, &two, 0).await.unwrap();
            set(&side, &who, &one, class::DISPOSITION, &[1]).await.unwrap();
            side.share.close(&who, &one, 0).await.unwrap();
            side.status(&who, "two", &Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE)).await;
        }
    });
}

async fn mac(side: &Side, session: u64) -> RequestContext {
    let who = RequestContext { apple: Arc::default(), ..request_context(session) };
    let asked = AaplRequest {
        command: 1.into(),
        reserved: 0.into(),
        bitmap: 7.into(),
        client_capabilities: 0.into(),
    };
    let mut contexts = ContextWriter::new();
    contexts.push_plain(tag::AAPL, &asked);
    let wish = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Open) };
    assert_eq!(side.status(&who, "", &wish.with(options::DIRECTORY_FILE)).await, Status::SUCCESS);
    who
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Speaks {
    Windows,
    Apple,
    Posix,
}

#[test]
fn who_speaks_apples_or_posix_extensions_renames_a_directory_with_all_that_is_open_in_it() {
    for speaks in [Speaks::Windows, Speaks::Apple, Speaks::Posix] {
        for is_own in [true, false] {
            alone(move |side| async move {
                let who = match speaks {
                    Speaks::Windows => request_context(1),
                    Speaks::Apple => mac(&side, 1).await,
                    Speaks::Posix => RequestContext { posix: true, ..request_context(1) },
                };
                let other = if is_own { who.clone() } else { request_context(2) };
                for name in ["top", "top\\sub"] {
                    assert_eq!(side.status(&who, name, &directory()).await, Status::SUCCESS);
                }
                let made = Wish { disposition: Disposition::OpenIf, ..lease(7, RWH, None) };
                let inside = side.open(&other, "top\\sub\\page", &made).await;
                side.share.write_bytes(&other, &inside, 0, b"12345", false).await.unwrap();
                let watched = side.open(&other, "top\\sub", &directory()).await;
                let waiting = (speaks != Speaks::Windows).then(|| {
                    let (side, other, watched) = (side.clone(), other.clone(), Arc::clone(&watched));
                    lane::spawn(async move { told(&side, &other, &watched).await })
                });
                time::sleep(std::time::Duration::from_millis(10)).await;
                let top = side.open(&who, "top", &directory()).await;
                let moved = set(&side, &who, &top, class::RENAME, &renamed("moved", false)).await;
                let case = format!("{speaks:?}, its own: {is_own}");
                if speaks == Speaks::Windows {
                    assert_eq!(moved, Err(Status::ACCESS_DENIED), "{case}");
                } else {
                    assert_eq!(moved, Ok(()), "{case}");
                    assert_eq!(side.heard.leases.borrow().len(), 0, "nobody is asked for anything");
                    let name = file(&side, &other, &inside, class::NORMALIZED_NAME).await.unwrap();
                    assert_eq!(name[4..], encoded("moved\\sub\\page"), "{case}");
                    side.share.write_bytes(&other, &inside, 0, b"X", false).await.unwrap();
                    side.make(&who, "moved\\sub\\more", b"1").await;
                    assert_eq!(waiting.unwrap().await, [(action::ADDED, "more".to_owned())], "{case}");
                    assert_eq!(side.share.stored_path(&inside).as_deref(), Some("/moved/sub/page"), "{case}");
                }
                for (who, open) in [(&other, &inside), (&other, &watched), (&who, &top)] {
                    side.share.close(who, open, 0).await.unwrap();
                }
                if speaks != Speaks::Windows {
                    assert_eq!(side.content(&who, "moved\\sub\\page").await, Ok(b"X2345".to_vec()), "{case}");
                }
            });
        }
    }
}

/// Makes `top\sub\page` with five bytes, and opens it durably under a lease.
async fn durable_page(side: &Side, who: &RequestContext) -> Arc<Open> {
    for name in ["top", "top\\sub"] {
        assert_eq!(side.status(who, name, &directory()).await, Status::SUCCESS);
    }
    let leased = wish(LEASE, |out| {
        durable(out, GUID, 0);
        durable_lease(out, 1, 7);
    });
    let open = side.open(who, "top\\sub\\page", &leased).await;
    side.share.write_bytes(who, &open, 0, b"12345", false).await.unwrap();
    open
}

#[test]
fn a_durable_open_in_a_renamed_directory_is_had_again_by_its_new_path_alone() {
    for speaks in [Speaks::Apple, Speaks::Posix] {
        for is_lost_first in [false, true] {
            alone(move |side| async move {
                let who = match speaks {
                    Speaks::Apple => mac(&side, 1).await,
                    _ => RequestContext { posix: true, ..request_context(1) },
                };
                let open = durable_page(&side, &who).await;
                let (id, mover) = (open.id(), RequestContext { session: 9, ..who.clone() });
                drop(open);
                let case = format!("{speaks:?}, lost before the rename: {is_lost_first}");
                if is_lost_first {
                    side.lose(&who).await;
                }
                let top = side.open(&mover, "top", &directory()).await;
                let moved = set(&side, &mover, &top, class::RENAME, &renamed("moved", false)).await;
                assert_eq!(moved, Ok(()), "{case}");
                side.share.close(&mover, &top, 0).await.unwrap();
                if !is_lost_first {
                    side.lose(&who).await;
                }
                let (next, wanted) = (next_session(&who), again(id, GUID, |out| durable_lease(out, 1, 7)));
                let before = side.status(&next, "top\\sub\\page", &wanted).await;
                assert_eq!(before, Status::INVALID_PARAMETER, "{case}");
                let had = side.create(&next, "moved\\sub\\page", &wanted).await;
                let had = had.unwrap_or_else(|error| panic!("{case}: {:?}", error.status)).open;
                assert_eq!(had.id(), id, "{case}");
                side.share.write_bytes(&next, &had, 0, b"X", false).await.unwrap();
                assert_eq!(side.share.stored_path(&had).as_deref(), Some("/moved/sub/page"), "{case}");
                side.share.close(&next, &had, 0).await.unwrap();
                assert_eq!(side.content(&next, "moved\\sub\\page").await, Ok(b"X2345".to_vec()), "{case}");
            });
        }
    }
}

#[test]
fn a_durable_open_in_a_renamed_directory_is_had_again_after_a_restart() {
    for is_lost_first in [false, true] {
        for lanes in [1, 2] {
            let mut site = Site::new(5, lanes);
            let (process, _) = site.begin(None);
            let alice = RequestContext { posix: true, ..user(&site.accounts, "alice", 1) };
            let (side, who) = (process.sides[0].clone(), alice.clone());
            let id = site.on(0, async move {
                let open = durable_page(&side, &who).await;
                if is_lost_first {
                    side.lose(&who).await;
                }
                open.id()
            });
            let (side, mover) =
                (process.sides[lanes - 1].clone(), RequestContext { session: 9, ..alice.clone() });
            site.on(lanes - 1, async move {
                let top = side.open(&mover, "top", &directory()).await;
                set(&side, &mover, &top, class::RENAME, &renamed("moved", false)).await.unwrap();
                side.share.close(&mover, &top, 0).await.unwrap();
            });
            let down = site.end(process);
            assert_eq!((down.kept, down.left_out), (1, 0), "{is_lost_first} {lanes}");
            let (process, taken) = site.begin(down.page);
            assert_eq!((taken.restored, taken.lost), (1, 0), "{is_lost_first} {lanes}");
            let side = process.sides[0].clone();
            site.on(0, async move {
                let (next, wanted) = (next_session(&alice), again(id, GUID, |out| durable_lease(out, 1, 7)));
                let before = side.status(&next, "top\\sub\\page", &wanted).await;
                assert_eq!(before, Status::INVALID_PARAMETER);
                let had = side.create(&next, "moved\\sub\\page", &wanted).await.unwrap().open;
                assert_eq!(had.id(), id);
                side.share.write_bytes(&next, &had, 0, b"X", false).await.unwrap();
                side.share.close(&next, &had, 0).await.unwrap();
                assert_eq!(side.content(&next, "moved\\sub\\page").await, Ok(b"X2345".to_vec()));
            });
            site.end(process);
        }
    }
}
