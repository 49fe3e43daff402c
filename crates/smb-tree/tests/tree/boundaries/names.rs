//! Names at their bounds: empty, absolute, too long, of a directory, of the file itself.

use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::info::file::{RenameFixed, class};
use smb_wire::text::encoded;
use zerocopy::FromBytes;

use super::Opens;
use crate::information::{file, full, renamed, set};
use crate::{Wish, alone, on_lanes, request_context};

#[test]
fn names_that_are_empty_odd_too_long_or_absolute_rename_and_link_nothing() {
    alone(|side| async move {
        let who = request_context(1);
        let opens = Opens::of(&side, &who).await;
        let cut = |name: &str, len: u32, root: u64| {
            let mut data = renamed(name, true);
            let (fixed, _) = RenameFixed::mut_from_prefix(&mut data).unwrap();
            fixed.file_name_length.set(len);
            fixed.root_directory.set(root);
            data
        };
        let (invalid, no_name) = (Status::INVALID_PARAMETER, Status::OBJECT_NAME_INVALID);
        for class in [class::RENAME, class::LINK, class::RENAME_EX] {
            for (what, data, expected) in [
                ("empty", renamed("", true), invalid),
                ("no length", cut("x", 0, 0), invalid),
                ("odd", cut("xy", 3, 0), invalid),
                ("beyond its buffer", cut("x", 4, 0), invalid),
                ("without end", cut("x", u32::MAX - 1, 0), invalid),
                ("a root", cut("x", 2, 1), invalid),
                ("absolute", renamed("\\x", true), invalid),
                ("a wildcard", renamed("a*b", true), no_name),
                ("a stream", renamed("x:s", true), no_name),
                ("the content", renamed("x::$DATA", true), no_name),
                ("itself as a directory", renamed(".", true), no_name),
                ("beneath itself as a directory", renamed(".\\x", true), no_name),
                ("out of the share", renamed("..\\x", true), Status::OBJECT_PATH_SYNTAX_BAD),
                ("onto the root", renamed("sub\\..", true), Status::ACCESS_DENIED),
                (
                    "onto the root, not to replace it",
                    renamed("sub\\..", false),
                    Status::OBJECT_NAME_COLLISION,
                ),
                ("too long", renamed(&"x".repeat(256), true), no_name),
                ("nowhere", renamed("none\\x", true), Status::OBJECT_PATH_NOT_FOUND),
            ] {
                let refused = set(&side, &who, &opens.page, class, &data).await;
                assert_eq!(refused, Err(expected), "{class}: {what}");
            }
        }
        for (what, open, expected) in [
            ("a directory", &opens.directory, Status::FILE_IS_A_DIRECTORY),
            ("a stream", &opens.stream, invalid),
            ("a directory's stream", &opens.of_directory, invalid),
        ] {
            let refused = set(&side, &who, open, class::LINK, &renamed("more", false)).await;
            assert_eq!(refused, Err(expected), "{what}");
        }
        opens.close(&side, &who).await;
        assert_eq!(side.content(&who, "page").await, Ok(b"12345".to_vec()));
    });
}

#[test]
fn a_rename_onto_another_name_of_the_file_leaves_the_new_name_alone() {
    for replaces in [false, true] {
        for (target, left) in [("sub\\more", "sub\\more"), ("sub\\MORE", "sub\\MORE"), ("third", "third")] {
            alone(move |side| async move {
                let who = request_context(1);
                let directory = full().with(options::DIRECTORY_FILE);
                assert_eq!(side.status(&who, "sub", &directory).await, Status::SUCCESS);
                side.make(&who, "page", b"12345").await;
                let open = side.open(&who, "page", &full()).await;
                for name in ["sub\\more", "third"] {
                    set(&side, &who, &open, class::LINK, &renamed(name, false)).await.unwrap();
                }
                let moved = set(&side, &who, &open, class::RENAME, &renamed(target, replaces)).await;
                assert_eq!(moved, Ok(()), "{target} {replaces}");
                let name = file(&side, &who, &open, class::NORMALIZED_NAME).await.unwrap();
                assert_eq!(name[4..], encoded(left), "{target} {replaces}");
                side.share.write_bytes(&who, &open, 0, b"X", false).await.unwrap();
                side.share.close(&who, &open, 0).await.unwrap();
                let gone = side.content(&who, "page").await;
                assert_eq!(gone, Err(Status::OBJECT_NAME_NOT_FOUND), "{target} {replaces}");
                for name in ["sub\\more", "third"] {
                    assert_eq!(side.content(&who, name).await, Ok(b"X2345".to_vec()), "{name}");
                }
            });
        }
    }
}

#[test]
fn a_directory_takes_the_place_of_nothing_that_has_its_new_name() {
    alone(|side| async move {
        let who = request_context(1);
        side.make_directory(&who, "other").await;
        side.make(&who, "page", b"12345").await;
        side.make_directory(&who, "sub").await;
        let open = side.open(&who, "sub", &full().with(options::DIRECTORY_FILE)).await;
        let (taken, denied) = (Status::OBJECT_NAME_COLLISION, Status::ACCESS_DENIED);
        for class in [class::RENAME, class::RENAME_EX] {
            for (name, replaces, expected) in [
                ("page", false, taken),
                ("PAGE", false, taken),
                ("other", false, taken),
                ("page", true, taken),
                ("PAGE", true, taken),
                ("other", true, denied),
            ] {
                let moved = set(&side, &who, &open, class, &renamed(name, replaces)).await;
                assert_eq!(moved, Err(expected), "{class}: {name} {replaces}");
            }
        }
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.content(&who, "page").await, Ok(b"12345".to_vec()));
    });
}

#[test]
fn a_name_with_a_backslash_at_its_end_is_a_directorys() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"1").await;
        let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "sub\\", &directory).await, Status::SUCCESS);
        let (no_name, other) = (Status::OBJECT_NAME_INVALID, options::NON_DIRECTORY_FILE);
        for (name, disposition, bits, expected) in [
            ("page\\", Disposition::Open, other, no_name),
            ("page\\", Disposition::OverwriteIf, other, no_name),
            ("page\\", Disposition::Open, 0, no_name),
            ("page\\", Disposition::OpenIf, 0, no_name),
            ("page\\", Disposition::Open, options::DIRECTORY_FILE, Status::NOT_A_DIRECTORY),
            ("sub\\", Disposition::Open, 0, Status::SUCCESS),
            ("sub\\", Disposition::Open, options::DIRECTORY_FILE, Status::SUCCESS),
            ("sub\\", Disposition::Open, other, no_name),
            ("none\\", Disposition::Open, 0, Status::OBJECT_NAME_NOT_FOUND),
            ("none\\", Disposition::Open, other, no_name),
            ("none\\", Disposition::Create, 0, no_name),
            ("none\\", Disposition::OpenIf, 0, no_name),
        ] {
            let status = side.status(&who, name, &Wish::new(disposition).with(bits)).await;
            assert_eq!(status, expected, "{name} {disposition:?} {bits:x}");
        }
        assert_eq!(side.content(&who, "page").await, Ok(b"1".to_vec()));
    });
}

#[test]
fn a_root_is_no_file_and_a_stream_no_directory_whatever_is_asked_of_them() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"1").await;
        side.make_directory(&who, "sub").await;
        let of_file = [Disposition::Create, Disposition::Open, Disposition::OpenIf, Disposition::Overwrite];
        for name in ["", "sub\\..", "sub/.."] {
            for disposition in of_file {
                let file = Wish::new(disposition).with(options::NON_DIRECTORY_FILE);
                assert_eq!(side.status(&who, name, &file).await, Status::FILE_IS_A_DIRECTORY, "{name}");
            }
        }
        let directory = [Disposition::Create, Disposition::Open, Disposition::OpenIf];
        for name in ["none:s", "none::$DATA", "page:s", "page::$DATA", "sub:s", "sub::$DATA"] {
            for disposition in directory {
                let wish = Wish::new(disposition).with(options::DIRECTORY_FILE);
                let status = side.status(&who, name, &wish).await;
                assert_eq!(status, Status::NOT_A_DIRECTORY, "{name} {disposition:?}");
            }
        }
    });
}

#[test]
fn what_is_made_in_a_directory_that_goes_has_no_path() {
    for seed in 0..30 {
        on_lanes(seed, 2, |lane, side| async move {
            let who = request_context(lane as u64 + 1);
            let directory = |disposition| Wish::new(disposition).with(options::DIRECTORY_FILE);
            for _ in 0..20 {
                if lane == 0 {
                    side.status(&who, "sub", &directory(Disposition::OpenIf)).await;
                    let goes = directory(Disposition::Open);
                    let goes = Wish {
                        access: rights::DELETE,
                        options: goes.options | options::DELETE_ON_CLOSE,
                        ..goes
                    };
                    side.status(&who, "sub", &goes).await;
                } else {
                    for disposition in [Disposition::Create, Disposition::OpenIf, Disposition::Supersede] {
                        let wish = Wish::new(disposition);
                        let goes = Wish { options: options::DELETE_ON_CLOSE, ..wish };
                        let status = side.status(&who, "sub\\page", &goes).await;
                        let is_fine = matches!(
                            status,
                            Status::SUCCESS | Status::OBJECT_PATH_NOT_FOUND | Status::DELETE_PENDING
                        );
                        assert!(is_fine, "{disposition:?}: {status:?}");
                    }
                }
            }
        });
    }
}
