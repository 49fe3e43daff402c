//! Listings: every class, patterns, single names, many names over many replies and lanes.

use std::collections::BTreeSet;
use std::sync::Arc;

use smb_tree::{Asker, Open};
use smb_wire::Status;
use smb_wire::body::query_directory::{QueryDirectoryRequest, QueryDirectoryRequestFixed, flags};
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use smb_wire::info::directory::{Class, parse};
use smb_wire::text::{Text, encoded};

use super::{Side, Wish, alone, asker};

async fn list(
    side: &Side,
    who: &Asker,
    open: &Arc<Open>,
    (pattern, bits, class, room): (&str, u8, Class, u32),
) -> Result<Vec<String>, Status> {
    let mut fixed = QueryDirectoryRequestFixed::blank();
    fixed.file_information_class = class.to_wire();
    fixed.flags = bits;
    fixed.output_buffer_length.set(room);
    let pattern = encoded(pattern);
    let request = QueryDirectoryRequest { fixed: &fixed, pattern: Text::new(&pattern).unwrap() };
    let answer = side.share.query_directory(who, open, &request).await?;
    assert!(answer.output.len() <= room as usize);
    Ok(parse(&answer.output, class).map(|entry| entry.unwrap().name.lossy()).collect())
}

async fn root(side: &Side, who: &Asker) -> Arc<Open> {
    let wish = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
    side.open(who, "", &wish.with(options::DIRECTORY_FILE)).await
}

const ALL: Class = Class::IdBothDirectory;

#[test]
fn patterns_and_single_names_are_found_in_any_case_in_every_class() {
    alone(|side| async move {
        let who = asker(1);
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
            ("*", 50, Status::INFO_LENGTH_MISMATCH),
            ("*", 105, Status::INFO_LENGTH_MISMATCH),
        ] {
            let found = list(&side, &who, &open, (pattern, flags::REOPEN, ALL, room)).await;
            assert_eq!(found, Err(expected), "{pattern} {room}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
        let file = side.open(&who, "gamma", &Wish::new(Disposition::Open)).await;
        assert_eq!(list(&side, &who, &file, ("*", 0, ALL, 999)).await, Err(Status::INVALID_PARAMETER));
        side.share.close(&who, &file, 0).await.unwrap();
    });
}

#[test]
fn many_names_come_once_each_though_others_come_and_go() {
    alone(|side| async move {
        let who = asker(1);
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
            // What was told already, and what is told for certain to nobody.
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
        let who = asker(1);
        let made = Wish { attributes: attributes::SYSTEM, ..Wish::new(Disposition::Create) };
        let created = side.create(&who, "page", &made).await.unwrap();
        side.share.close(&who, &created.open, 0).await.unwrap();
        // Once before what is kept of it is remembered, once after.
        for _ in 0..2 {
            let open = root(&side, &who).await;
            let mut fixed = QueryDirectoryRequestFixed::blank();
            fixed.file_information_class = Class::Directory.to_wire();
            fixed.output_buffer_length.set(4096);
            let pattern = encoded("p*");
            let request = QueryDirectoryRequest { fixed: &fixed, pattern: Text::new(&pattern).unwrap() };
            let answer = side.share.query_directory(&who, &open, &request).await.unwrap();
            let head = *parse(&answer.output, Class::Directory).next().unwrap().unwrap().head.unwrap();
            assert_eq!(head.file_attributes.get(), attributes::SYSTEM | attributes::ARCHIVE);
            assert_eq!(head.creation_time.get(), created.fixed.creation_time.get());
            side.share.close(&who, &open, 0).await.unwrap();
            lane::time::sleep(std::time::Duration::from_secs(3)).await;
        }
    });
}
