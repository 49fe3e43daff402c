//! Listings of large directories: page by page they tell what they tell whole, in bounded memory, and no buffer loses a name.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{join, join_all};
use smb_tree::{Open, RequestContext, ShareOptions};
use smb_wire::Status;
use smb_wire::body::query_directory::flags;
use smb_wire::create::access::attributes;
use smb_wire::create::{Disposition, options};
use smb_wire::info::directory::Class;

use super::directories::{answered, list, root};
use super::links::make_links;
use super::{Side, Wish, alone, on_lanes, request_context};

const ALL: Class = Class::IdBothDirectory;

/// Returns the volume by a share that lists directories of more than so many names by pages of so many bytes.
pub(super) fn paged(side: &Side, whole_names_max: usize, page_bytes_max: usize) -> Side {
    shown(side, ShareOptions { whole_names_max, page_bytes_max, ..ShareOptions::default() })
}

fn shown(side: &Side, options: ShareOptions) -> Side {
    let share = side.tree.add_share("paged", side.volume.clone(), options);
    Side { share, ..side.clone() }
}

fn page_bytes(side: &Side) -> usize {
    side.volume.cache().page_bytes()
}

async fn make_many(side: &Side, who: &RequestContext, count: usize) {
    for n in 0..count {
        side.make(who, &format!("name {n:05}"), b"").await;
    }
}

/// Returns what is left of an enumeration, reply by reply.
async fn rest(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    (class, room): (Class, u32),
) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        match list(side, who, open, ("*", 0, class, room)).await {
            Ok(names) => found.extend(names),
            Err(status) => {
                assert_eq!(status, Status::NO_MORE_FILES);
                return found;
            }
        }
    }
}

/// Returns an answer without the times of the last access: following a link moves the link's.
fn unread(mut answer: Vec<u8>, class: Class) -> Vec<u8> {
    let (mut at, mut next) = (0, usize::from(class != Class::Names));
    while next != 0 {
        next = u32::from_le_bytes(answer[at..at + 4].try_into().unwrap()) as usize;
        answer[at + 16..at + 24].fill(0);
        at += next;
    }
    answer
}

#[test]
fn pages_tell_the_same_of_the_same_names_as_a_whole_listing() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        for n in 0..200 {
            let bits = if n % 3 == 0 { attributes::SYSTEM } else { 0 };
            let made = Wish { attributes: bits, ..Wish::new(Disposition::Create) };
            let open = side.open(&who, &format!("Name {n:05}"), &made).await;
            side.share.write_bytes(&who, &open, 0, &vec![7; n], false).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
        }
        for name in [".dotted", "n\u{e4}me", "name.txt", "NAMES"] {
            side.make(&who, name, b"1").await;
        }
        let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "name of a directory", &directory).await, Status::SUCCESS);
        let links =
            [("name as link", "name.txt"), ("name gone", "nowhere"), ("name up", "name of a directory")];
        make_links(&side, &links).await;
        // Times have settled, so that both are told what is remembered or found.
        lane::time::sleep(Duration::from_secs(3)).await;
        let whole = root(&side, &who).await;
        for page_bytes_max in [0, 3000, 32 << 20] {
            let paged = paged(&side, 0, page_bytes_max);
            let open = root(&paged, &who).await;
            for class in Class::ALL {
                for (pattern, room) in [("n*", 65_536), ("N*", 700), ("*.txt", 65_536), ("name as*", 65_536)]
                {
                    let mut bits = flags::REOPEN;
                    let mut replies = 0;
                    loop {
                        let wanted = (pattern, bits, class, room);
                        let expected =
                            answered(&side, &who, &whole, wanted).await.map(|told| unread(told, class));
                        let found =
                            answered(&paged, &who, &open, wanted).await.map(|told| unread(told, class));
                        assert_eq!(found, expected, "{pattern} {class:?} {page_bytes_max}");
                        if found.is_err() {
                            assert_eq!(found, Err(Status::NO_MORE_FILES));
                            break;
                        }
                        (bits, replies) = (0, replies + 1);
                    }
                    assert!(replies > 0, "{pattern}");
                }
                let wanted = ("*", flags::REOPEN, class, 65_536);
                let mut expected = list(&side, &who, &whole, wanted).await.unwrap();
                expected.extend(rest(&side, &who, &whole, (class, 65_536)).await);
                let mut found = list(&paged, &who, &open, wanted).await.unwrap();
                found.extend(rest(&paged, &who, &open, (class, 65_536)).await);
                assert_eq!(found, expected, "{class:?}");
                assert_eq!(found[..3], [".", "..", ".dotted"]);
            }
            assert_eq!(
                list(&paged, &who, &open, ("none*", flags::REOPEN, ALL, 999)).await,
                Err(Status::NO_SUCH_FILE)
            );
            paged.share.close(&who, &open, 0).await.unwrap();
        }
        side.share.close(&who, &whole, 0).await.unwrap();
    });
}

#[test]
fn names_on_pages_come_once_each_though_others_come_and_go() {
    alone(|side| async move {
        let who = request_context(1);
        make_many(&side, &who, 300).await;
        let side = paged(&side, 10, 2000);
        let open = root(&side, &who).await;
        let (mut found, mut came) = (Vec::new(), 0);
        loop {
            match list(&side, &who, &open, ("name*", 0, ALL, 2048)).await {
                Ok(names) => found.extend(names),
                Err(status) => {
                    assert_eq!(status, Status::NO_MORE_FILES);
                    break;
                }
            }
            let told: &String = &found[found.len() - 1];
            let gone = Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, told, &gone).await, Status::SUCCESS);
            // In front of what was told, and behind everything.
            side.make(&who, &format!("A name {came}"), b"").await;
            side.make(&who, &format!("z name {came}"), b"").await;
            came += 1;
        }
        let each: BTreeSet<_> = found.iter().collect();
        assert_eq!((found.len(), each.len()), (300, 300));
        assert!(came > 10);
        let first = ("name*", flags::RESTART_SCANS | flags::RETURN_SINGLE_ENTRY, ALL, 2048);
        assert_eq!(list(&side, &who, &open, first).await.unwrap(), [found[0].clone()]);
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(page_bytes(&side), 0);
    });
}

#[test]
fn a_scan_goes_on_where_it_stands_on_whatever_lane() {
    let shared = Arc::new(Mutex::new(None));
    on_lanes(1, 2, move |lane, side| {
        let shared = Arc::clone(&shared);
        async move {
            let who = request_context(1);
            let mine = paged(&side, 10, 2000);
            let seconds = |n| lane::time::sleep(Duration::from_secs(n));
            let some = async |open: &Arc<Open>, bits| {
                list(&mine, &who, open, ("name*", bits, ALL, 2048)).await.unwrap()
            };
            if lane == 0 {
                make_many(&side, &who, 300).await;
                let open = root(&mine, &who).await;
                let (mut found, mut last) = (Vec::new(), String::new());
                for _ in 0..8 {
                    found.extend(some(&open, 0).await);
                }
                last.clone_from(&found[found.len() - 1]);
                assert!(page_bytes(&mine) > 0);
                *shared.lock().unwrap() = Some((Arc::clone(&open), last));
                seconds(60).await;
                // The other lane has begun anew meanwhile, and this one has names of the middle at hand.
                let (_, last) = shared.lock().unwrap().take().unwrap();
                let next = some(&open, 0).await;
                assert!(next[0] > last && next[0] < found[found.len() - 1]);
                let all: usize = next.len() + rest(&mine, &who, &open, (ALL, 65_536)).await.len();
                assert_eq!(all + last.strip_prefix("name ").unwrap().parse::<usize>().unwrap(), 299);
                mine.share.close(&who, &open, 0).await.unwrap();
                return;
            }
            seconds(30).await;
            let (open, last) = shared.lock().unwrap().take().unwrap();
            assert!(some(&open, 0).await[0] > last);
            mine.make(&who, "name 00000a", b"").await;
            let anew = some(&open, flags::RESTART_SCANS).await;
            assert_eq!(anew[..2], ["name 00000", "name 00000a"]);
            *shared.lock().unwrap() = Some((open, anew[anew.len() - 1].clone()));
        }
    });
}

#[test]
fn a_listing_holds_five_bytes_beside_each_name_or_a_page_and_gives_them_back() {
    alone(|side| async move {
        let who = request_context(1);
        let count = 900;
        make_many(&side, &who, count).await;
        let memory = count * ("name 00000".len() + 5);
        // Those of one page.
        let large = paged(&side, 10, 32 << 20);
        let open = root(&large, &who).await;
        list(&large, &who, &open, ("*", 0, ALL, 4096)).await.unwrap();
        assert_eq!(page_bytes(&large), memory);
        let first = list(&large, &who, &open, ("*", flags::RESTART_SCANS, ALL, 4096)).await.unwrap();
        assert_eq!(page_bytes(&large), memory, "what was read before is given back");
        assert_eq!(first.len() + rest(&large, &who, &open, (ALL, 65_536)).await.len(), 2 + count);
        assert_eq!(page_bytes(&large), 0, "all is told");
        list(&large, &who, &open, ("*", flags::RESTART_SCANS, ALL, 4096)).await.unwrap();
        assert_eq!(page_bytes(&large), memory);
        large.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(page_bytes(&large), 0, "CLOSE gives them back");
        // Pages that hold a part.
        let small = paged(&side, 10, 4000);
        let open = root(&small, &who).await;
        let mut told = 0;
        while let Ok(names) = list(&small, &who, &open, ("*", 0, ALL, 4096)).await {
            told += names.len();
            assert!(page_bytes(&small) <= 4000 && 4000 < memory / 3);
        }
        assert_eq!(told, 2 + count);
        assert_eq!(page_bytes(&small), 0);
        small.share.close(&who, &open, 0).await.unwrap();
        // A request that gives up while names are read leaves nothing.
        let open = root(&large, &who).await;
        {
            let mut listing = pin!(list(&large, &who, &open, ("*", 0, ALL, 4096)));
            let mut most = 0;
            std::future::poll_fn(|cx| {
                assert!(listing.as_mut().poll(cx).is_pending());
                most = page_bytes(&large);
                if most > 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            assert_eq!(most, 32 << 20, "its room is set aside before");
        }
        assert_eq!(page_bytes(&large), 0);
        let one = list(&large, &who, &open, ("name 00007*", flags::REOPEN, ALL, 4096)).await;
        assert_eq!(one.unwrap(), ["name 00007"]);
        large.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn opens_take_pages_from_each_other_and_lose_no_name_by_that() {
    alone(|side| async move {
        let who = request_context(1);
        make_many(&side, &who, 200).await;
        // One page takes all of the memory while it is read.
        let side = paged(&side, 10, 64 << 20);
        let opens = [root(&side, &who).await, root(&side, &who).await];
        let mut found = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            for (open, found) in opens.iter().zip(&mut found) {
                found.extend(list(&side, &who, open, ("*", 0, ALL, 2048)).await.unwrap());
                assert!((1..=200 * 15).contains(&page_bytes(&side)), "one at a time");
            }
        }
        for (open, mut found) in opens.iter().zip(found) {
            found.extend(rest(&side, &who, open, (ALL, 65_536)).await);
            let each: BTreeSet<_> = found.iter().collect();
            assert_eq!((found.len(), each.len()), (202, 202));
            side.share.close(&who, open, 0).await.unwrap();
        }
    });
}

#[test]
fn a_name_is_found_by_its_short_one_among_pages() {
    alone(|side| async move {
        let who = request_context(1);
        make_many(&side, &who, 150).await;
        side.make(&who, "the last name of all.text", b"this").await;
        for (whole_names_max, page_bytes_max) in [(1000, 2000), (10, 2000), (10, 1 << 20)] {
            let options = ShareOptions {
                short_names: true,
                whole_names_max,
                page_bytes_max,
                ..ShareOptions::default()
            };
            let side = shown(&side, options);
            let open = root(&side, &who).await;
            let entry = answered(&side, &who, &open, ("the*", flags::REOPEN, ALL, 65_536)).await.unwrap();
            // ShortNameLength and ShortName (MS-FSCC 2.4.17).
            let units = &entry[70..70 + usize::from(entry[68])];
            let short: String = units.chunks_exact(2).map(|unit| char::from(unit[0])).collect();
            let found = list(&side, &who, &open, (&short, flags::REOPEN, ALL, 65_536)).await;
            assert_eq!(found.unwrap(), ["the last name of all.text"]);
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, &short).await.unwrap(), b"this");
            let none = Wish::new(Disposition::Open);
            assert_eq!(side.status(&who, "TH~00000.TEX", &none).await, Status::OBJECT_NAME_NOT_FOUND);
        }
    });
}

#[test]
fn a_client_that_lists_much_at_once_waits_its_turn_and_others_do_not_wait_for_it() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let other = RequestContext { address: [198, 51, 100, 7].into(), ..other };
        assert_ne!(who.address, other.address);
        make_many(&side, &who, 200).await;
        let side = paged(&side, 10, 32 << 20);
        let mut opens = Vec::new();
        for _ in 0..20 {
            opens.push(root(&side, &who).await);
        }
        let of_other = root(&side, &other).await;
        let done = &Cell::new(0);
        let first = |of, open| {
            let side = &side;
            async move {
                let names = list(side, of, open, ("*", 0, ALL, 4096)).await;
                (names.map(|names| names[0].clone()), done.replace(done.get() + 1))
            }
        };
        let many = join_all(opens.iter().map(|open| first(&who, open)));
        let (many, (of_one, place)) = join(many, first(&other, &of_other)).await;
        for (names, _) in many {
            assert_eq!(names.unwrap(), ".");
        }
        assert_eq!(of_one.unwrap(), ".");
        assert!(place <= 4, "{place} listings of the other client were answered before");
        for open in &opens {
            side.share.close(&who, open, 0).await.unwrap();
        }
        side.share.close(&other, &of_other, 0).await.unwrap();
        assert_eq!(page_bytes(&side), 0);
    });
}

#[test]
fn too_many_names_are_refused() {
    alone(|side| async move {
        let who = request_context(1);
        make_many(&side, &who, 150).await;
        let wanted = ("*", flags::REOPEN, ALL, 65_536);
        let refused = Err(Status::INSUFFICIENT_RESOURCES);
        let defaults = ShareOptions { whole_names_max: 10, ..ShareOptions::default() };
        let few = shown(&side, ShareOptions { names_max: 149, ..defaults.clone() });
        let open = root(&few, &who).await;
        let before = few.tree.counters().listings_refused.get();
        assert_eq!(list(&few, &who, &open, wanted).await, refused);
        assert_eq!(few.tree.counters().listings_refused.get(), before + 1);
        few.share.close(&who, &open, 0).await.unwrap();
        let side = shown(&side, ShareOptions { names_max: 150, ..defaults });
        let open = root(&side, &who).await;
        assert_eq!(list(&side, &who, &open, wanted).await.unwrap().len(), 152);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn no_buffer_loses_a_name_in_any_class() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        side.make(&who, "file", b"1").await;
        side.make(&who, "file of a longer name", b"22").await;
        for side in [paged(&side, 0, 1 << 20), side] {
            let open = root(&side, &who).await;
            for class in Class::ALL {
                for (pattern, expected) in [
                    ("file", &["file"][..]),
                    ("file*", &["file", "file of a longer name"][..]),
                    (".", &["."][..]),
                    ("*", &[".", "..", "file", "file of a longer name"][..]),
                ] {
                    let ample = (pattern, flags::REOPEN, class, 65_536);
                    let two = answered(&side, &who, &open, ample).await.unwrap().len() as u32;
                    for room in 0..=two {
                        let first = list(&side, &who, &open, (pattern, flags::REOPEN, class, room)).await;
                        // What came too short may come too short again: nothing is lost by that either.
                        let mut found = match first {
                            Ok(names) => names,
                            Err(status) => {
                                assert_eq!(
                                    status,
                                    Status::INFO_LENGTH_MISMATCH,
                                    "{pattern} {class:?} {room}"
                                );
                                let again = list(&side, &who, &open, (pattern, 0, class, room)).await;
                                assert_eq!(again, Err(Status::INFO_LENGTH_MISMATCH));
                                Vec::new()
                            }
                        };
                        match list(&side, &who, &open, (pattern, 0, class, 65_536)).await {
                            Ok(names) => found.extend(names),
                            Err(status) => assert_eq!(status, Status::NO_MORE_FILES),
                        }
                        assert_eq!(found, expected, "{pattern} {class:?} {room}");
                        let end = list(&side, &who, &open, (pattern, 0, class, 65_536)).await;
                        assert_eq!(end, Err(Status::NO_MORE_FILES));
                    }
                }
            }
            side.share.close(&who, &open, 0).await.unwrap();
        }
    });
}
