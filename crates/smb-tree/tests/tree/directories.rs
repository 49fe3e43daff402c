//! Listings: every class, patterns, single names, many names over many replies and lanes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use smb_tree::{Open, RequestContext};
use smb_wire::Status;
use smb_wire::body::query_directory::{QueryDirectoryRequest, QueryDirectoryRequestFixed, flags};
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::context::{AaplRequest, ContextWriter, Contexts, tag};
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::{Fixed, prefix};
use smb_wire::info::directory::{Class, parse};
use smb_wire::info::file::class;
use smb_wire::info::posix::{Posix, PosixHead};
use smb_wire::text::{Text, encoded};

use super::{Side, Wish, alone, on_lanes, request_context, turns_of};

pub(super) async fn list(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    (pattern, bits, class, room): (&str, u8, Class, u32),
) -> Result<Vec<String>, Status> {
    let answer = answered(side, who, open, (pattern, bits, class, room)).await?;
    Ok(parse(&answer, class).map(|entry| entry.unwrap().name.lossy()).collect())
}

pub(super) async fn answered(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    (pattern, bits, class, room): (&str, u8, Class, u32),
) -> Result<Vec<u8>, Status> {
    let mut fixed = QueryDirectoryRequestFixed::blank();
    fixed.file_information_class = class.to_wire();
    fixed.flags = bits;
    fixed.output_buffer_length.set(room);
    let pattern = encoded(pattern);
    let request = QueryDirectoryRequest { fixed: &fixed, pattern: Text::new(&pattern).unwrap() };
    let answer = side.share.query_directory(who, open, &request).await?;
    assert!(answer.output.len() <= room as usize);
    Ok(answer.output)
}

pub(super) async fn root(side: &Side, who: &RequestContext) -> Arc<Open> {
    let wish = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
    side.open(who, "", &wish.with(options::DIRECTORY_FILE)).await
}

const ALL: Class = Class::IdBothDirectory;

#[test]
fn patterns_and_single_names_are_found_in_any_case_in_every_class() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        for name in ["Alpha.txt", "beta.TXT", "gamma"] {
            side.make(&who, name, b"1234").await;
        }
        let open = root(&side, &who).await;
        for (pattern, expected) in [
            ("*", vec![".", "..", "Alpha.txt", "beta.TXT", "gamma"]),
            ("*.txt", vec!["Alpha.txt", "beta.TXT"]),
            ("ALPHA.TXT", vec!["Alpha.txt"]),
            ("?????", vec!["gamma"]),
            (".", vec!["."]),
            (&*format!("{}TXT", "*".repeat(252)), vec!["Alpha.txt", "beta.TXT"]),
        ] {
            for class in Class::ALL {
                let found = list(&side, &who, &open, (pattern, flags::REOPEN, class, 65_536)).await.unwrap();
                assert_eq!(found, expected, "{pattern} {class:?}");
                let more = list(&side, &who, &open, ("*", 0, class, 65_536)).await;
                assert_eq!(more, Err(Status::NO_MORE_FILES), "the first pattern counts");
            }
        }
        for pattern in ["none", "*.doc"] {
            let found = list(&side, &who, &open, (pattern, flags::REOPEN, ALL, 65_536)).await;
            assert_eq!(found, Err(Status::NO_SUCH_FILE));
        }
        for (pattern, room, expected) in [
            ("", 65_536, Status::OBJECT_NAME_INVALID),
            ("a\\b", 65_536, Status::OBJECT_NAME_INVALID),
            (&*"*".repeat(256), 65_536, Status::OBJECT_NAME_INVALID),
            (&*format!("*{}", "\u{1f600}".repeat(128)), 65_536, Status::OBJECT_NAME_INVALID),
            ("*", 50, Status::INFO_LENGTH_MISMATCH),
            ("*", 105, Status::INFO_LENGTH_MISMATCH),
        ] {
            let found = list(&side, &who, &open, (pattern, flags::REOPEN, ALL, room)).await;
            assert_eq!(found, Err(expected), "{pattern} {room}");
        }
        let plain = request_context(1);
        let found = list(&side, &plain, &open, ("*", flags::REOPEN, Class::Posix, 65_536)).await;
        assert_eq!(found, Err(Status::INVALID_INFO_CLASS), "who has not negotiated it has no such class");
        side.share.close(&who, &open, 0).await.unwrap();
        let file = side.open(&who, "gamma", &Wish::new(Disposition::Open)).await;
        assert_eq!(list(&side, &who, &file, ("*", 0, ALL, 999)).await, Err(Status::INVALID_PARAMETER));
        side.share.close(&who, &file, 0).await.unwrap();
    });
}

/// Turns that others of the lane have while a pattern is looked for among 150 long names that never fit.
async fn turns_beside(side: &Side, who: &RequestContext, open: &Arc<Open>, pattern: &str) -> usize {
    // The names are read once before.
    let mut turns = 0;
    for _ in 0..2 {
        let listing = list(side, who, open, (pattern, flags::RESTART_SCANS, ALL, 65_536));
        let found;
        (found, turns) = turns_of(listing).await;
        assert_eq!(found, Err(Status::NO_SUCH_FILE), "{pattern}");
    }
    turns
}

#[test]
fn a_pattern_that_costs_much_gives_way_by_what_it_costs() {
    alone(|side| async move {
        let who = request_context(1);
        for n in 0..150 {
            side.make(&who, &format!("{}{n:05}", "a".repeat(240)), b"").await;
        }
        let open = root(&side, &who).await;
        let of_few = turns_beside(&side, &who, &open, "b*").await;
        for unit in ["?*", "*a", "<a", "*?a"] {
            let mut pattern = unit.repeat(254 / unit.len());
            pattern.push('z');
            // 150 times 255 times 246 steps.
            let of_many = turns_beside(&side, &who, &open, &pattern).await;
            assert!(of_many >= of_few + 70, "{pattern}: {of_many} beside {of_few}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn many_names_come_once_each_though_others_come_and_go() {
    alone(|side| async move {
        let who = request_context(1);
        for n in 0..300 {
            side.make(&who, &format!("name {n:05}"), b"").await;
        }
        let open = root(&side, &who).await;
        let mut found = Vec::new();
        loop {
            match list(&side, &who, &open, ("name*", 0, ALL, 2048)).await {
                Ok(names) => found.extend(names),
                Err(status) => {
                    assert_eq!(status, Status::NO_MORE_FILES);
                    break;
                }
            }
            // What was told already, and what no client was told for certain.
            let gone = Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, &found[found.len() - 1], &gone).await, Status::SUCCESS);
        }
        let each: BTreeSet<_> = found.iter().collect();
        assert_eq!((found.len(), each.len()), (300, 300));
        let first =
            list(&side, &who, &open, ("name*", flags::RESTART_SCANS | flags::RETURN_SINGLE_ENTRY, ALL, 2048));
        assert_eq!(first.await.unwrap(), [found[0].clone()]);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn an_entry_tells_what_the_file_itself_does() {
    alone(|side| async move {
        let who = request_context(1);
        let made = Wish { attributes: attributes::SYSTEM, ..Wish::new(Disposition::Create) };
        let created = side.create(&who, "page", &made).await.unwrap();
        side.share.close(&who, &created.open, 0).await.unwrap();
        // Once before what is kept of it is remembered, once after.
        for _ in 0..2 {
            let open = root(&side, &who).await;
            let answer = answered(&side, &who, &open, ("p*", 0, Class::Directory, 4096)).await.unwrap();
            let head = *parse(&answer, Class::Directory).next().unwrap().unwrap().head.unwrap();
            assert_eq!(head.file_attributes.get(), attributes::SYSTEM | attributes::ARCHIVE);
            assert_eq!(head.creation_time.get(), created.fixed.creation_time.get());
            side.share.close(&who, &open, 0).await.unwrap();
            lane::time::sleep(std::time::Duration::from_secs(3)).await;
        }
    });
}

#[test]
fn an_entry_of_posix_tells_what_the_create_and_the_file_itself_do() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        let mut contexts = ContextWriter::new();
        contexts.push(tag::POSIX, &0o640u32.to_le_bytes());
        let made = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Create) };
        let created = side.create(&who, "page", &made).await.unwrap();
        let told = Contexts::parse(&created.contexts).unwrap().find(tag::POSIX).unwrap();
        let (of_create, rest) = Posix::parse(told).unwrap();
        assert_eq!((of_create.links, of_create.mode, rest.len()), (1, 0o640, 0));
        side.share.write_bytes(&who, &created.open, 0, b"12345", false).await.unwrap();
        let told = super::information::file(&side, &who, &created.open, class::POSIX).await.unwrap();
        let (head, rest) = prefix::<PosixHead>(&told).unwrap();
        assert_eq!(Posix::parse(rest), Ok((of_create, &[][..])));
        let open = root(&side, &who).await;
        let answer = answered(&side, &who, &open, ("p*", 0, Class::Posix, 4096)).await.unwrap();
        let entry = parse(&answer, Class::Posix).next().unwrap().unwrap();
        let (listed, posix) = entry.posix.unwrap();
        assert_eq!((posix, listed.end_of_file.get()), (of_create, 5));
        assert_eq!(
            (listed.index_number, listed.device, listed.creation_time),
            (head.index_number, head.device, head.creation_time)
        );
        side.share.close(&who, &open, 0).await.unwrap();
        side.share.close(&who, &created.open, 0).await.unwrap();
    });
}

#[test]
fn a_mac_is_told_with_each_name_what_finder_wants_to_know() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "letter", b"").await;
        let mut information = [0; 60];
        information[..4].copy_from_slice(b"AFP\0");
        information[16..24].copy_from_slice(b"TEXTttxt");
        side.make(&who, "letter:AFP_AfpInfo", &information).await;
        side.make(&who, "letter:AFP_Resource", b"fork").await;
        let short_name = async |open: &Arc<Open>| {
            let answer = answered(&side, &who, open, ("letter", flags::REOPEN, ALL, 4096)).await.unwrap();
            (answer[64..68].to_vec(), answer[68], answer[70..94].to_vec(), answer[94..96].to_vec())
        };
        let open = root(&side, &who).await;
        assert_eq!(
            short_name(&open).await,
            (vec![0; 4], 0, vec![0; 24], vec![0; 2]),
            "others have no use for it"
        );
        side.share.close(&who, &open, 0).await.unwrap();
        let asked = AaplRequest {
            command: 1.into(),
            reserved: 0.into(),
            bitmap: 7.into(),
            client_capabilities: 1.into(),
        };
        let mut contexts = ContextWriter::new();
        contexts.push_plain(tag::AAPL, &asked);
        let wish = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Open) };
        let created = side.create(&who, "", &wish.with(options::DIRECTORY_FILE)).await.unwrap();
        assert_eq!(Contexts::parse(&created.contexts).unwrap().find(tag::AAPL).unwrap()[8], 7);
        // What is remembered of a file counts until it changes.
        for len in [4, 5] {
            let (access, name_len, name, mode) = short_name(&created.open).await;
            assert_eq!(access, rights::FILE_ALL.to_le_bytes());
            assert_eq!((name_len, name[0], &name[8..16]), (24, len, &b"TEXTttxt"[..]));
            assert_eq!(mode[1] & 0xf0, 0x80, "a file");
            lane::time::sleep(std::time::Duration::from_secs(3)).await;
            assert_eq!(short_name(&created.open).await.2[0], len);
            let fork = side.open(&who, "letter:AFP_Resource", &Wish::new(Disposition::Open)).await;
            side.share.write_bytes(&who, &fork, 4, b"s", false).await.unwrap();
            side.share.close(&who, &fork, 0).await.unwrap();
        }
        side.share.close(&who, &created.open, 0).await.unwrap();
    });
}

#[test]
fn names_that_nothing_is_remembered_of_are_looked_at_many_at_once() {
    on_lanes(1, 2, |lane, side| async move {
        let who = request_context(1 + lane as u64);
        if lane == 0 {
            for n in 0..600 {
                let bits = if n % 2 == 0 { attributes::SYSTEM } else { 0 };
                let made = Wish { attributes: bits, ..Wish::new(Disposition::Create) };
                let open = side.open(&who, &format!("name {n:05}"), &made).await;
                side.share.write_bytes(&who, &open, 0, &vec![7; n], false).await.unwrap();
                side.share.close(&who, &open, 0).await.unwrap();
            }
            return;
        }
        // This lane has seen none of them.
        lane::time::sleep(Duration::from_secs(60)).await;
        let open = root(&side, &who).await;
        let mut told = 0;
        let mut turns = 0;
        for bits in [flags::RESTART_SCANS, 0] {
            let (answer, waited) = turns_of(answered(&side, &who, &open, ("name*", bits, ALL, 65_536))).await;
            let Ok(answer) = answer else { break };
            turns += waited;
            for entry in parse(&answer, ALL) {
                let (head, name) = entry.map(|entry| (*entry.head.unwrap(), entry.name.lossy())).unwrap();
                let n: usize = name.strip_prefix("name ").unwrap().parse().unwrap();
                assert_eq!(n, told);
                assert_eq!(head.end_of_file.get(), n as u64);
                let is_system = head.file_attributes.get() & attributes::SYSTEM != 0;
                assert_eq!(is_system, n.is_multiple_of(2), "{name}");
                told += 1;
            }
        }
        assert_eq!(told, 600);
        assert!(turns < 100, "600 names took {turns} turns");
        side.share.close(&who, &open, 0).await.unwrap();
    });
}
