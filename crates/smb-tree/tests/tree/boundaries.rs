//! Boundary values of each field of each SET_INFO, of control codes and of names: negative, zero, -1, -2, the largest, empty, itself. What
//! MS-FSA answers; docs/design/smb.md lists where Samba differs.

use std::sync::Arc;

use smb_tree::{Asker, Open};
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::fsctl::code;
use smb_wire::info::file::{BasicInformation, RenameFixed, class, disposition, plain};
use smb_wire::text::encoded;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::information::{file, full, renamed, set};
use super::{Side, Wish, alone, asker, on_lanes};

const NEGATIVE: [i64; 4] = [-3, -1000, i64::MIN, i64::MIN + 1];
const LARGEST: u64 = 0xfff_ffff_0000;

/// What there is to set something of.
struct Opens {
    page: Arc<Open>,
    directory: Arc<Open>,
    stream: Arc<Open>,
    of_directory: Arc<Open>,
}

impl Opens {
    async fn of(side: &Side, who: &Asker) -> Self {
        side.make(who, "page", b"12345").await;
        let directory = side.open(who, "sub", &full().with(options::DIRECTORY_FILE)).await;
        let page = side.open(who, "page", &full()).await;
        let stream = side.open(who, "page:one", &full()).await;
        let of_directory = side.open(who, "sub:one", &full()).await;
        Self { page, directory, stream, of_directory }
    }

    fn all(&self) -> [(&'static str, &Arc<Open>); 4] {
        [
            ("a file", &self.page),
            ("a directory", &self.directory),
            ("a stream", &self.stream),
            ("a directory's stream", &self.of_directory),
        ]
    }

    async fn close(&self, side: &Side, who: &Asker) {
        for (_, open) in self.all() {
            side.share.close(who, open, 0).await.unwrap();
        }
    }
}

#[test]
fn times_below_minus_two_are_none_and_the_others_are_taken() {
    alone(|side| async move {
        let who = asker(1);
        let opens = Opens::of(&side, &who).await;
        for (what, open) in opens.all() {
            let before = file(&side, &who, open, class::BASIC).await.unwrap();
            for field in 0..4 {
                for time in NEGATIVE {
                    let mut basic = BasicInformation::new_zeroed();
                    basic.as_mut_bytes()[8 * field..8 * field + 8].copy_from_slice(&time.to_le_bytes());
                    let refused = set(&side, &who, open, class::BASIC, basic.as_bytes()).await;
                    assert_eq!(refused, Err(Status::INVALID_PARAMETER), "{what}: {field} {time}");
                }
            }
            assert_eq!(file(&side, &who, open, class::BASIC).await.unwrap(), before, "{what}");
            for field in 0..4 {
                for time in [-1i64, -2, 0, 1, i64::MAX] {
                    let mut basic = BasicInformation::new_zeroed();
                    basic.as_mut_bytes()[8 * field..8 * field + 8].copy_from_slice(&time.to_le_bytes());
                    let taken = set(&side, &who, open, class::BASIC, basic.as_bytes()).await;
                    assert_eq!(taken, Ok(()), "{what}: {field} {time}");
                }
            }
        }
        opens.close(&side, &who).await;
    });
}

#[test]
fn lengths_positions_and_modes_are_within_their_bounds() {
    alone(|side| async move {
        let who = asker(1);
        let opens = Opens::of(&side, &who).await;
        let invalid = Err(Status::INVALID_PARAMETER);
        let beyond = [LARGEST + 1, i64::MAX as u64, i64::MIN as u64, -1i64 as u64, -2i64 as u64];
        for (what, open) in opens.all() {
            for class in [class::END_OF_FILE, class::ALLOCATION, class::VALID_DATA_LENGTH] {
                for size in beyond {
                    let refused = set(&side, &who, open, class, &size.to_le_bytes()).await;
                    assert_eq!(refused, invalid, "{what}: {class} {size:x}");
                }
                let expected = if what == "a directory" { invalid } else { Ok(()) };
                let none = set(&side, &who, open, class, &0u64.to_le_bytes()).await;
                assert_eq!(none, expected, "{what}: {class}");
            }
            for (position, expected) in [
                (0, Ok(())),
                (1, Ok(())),
                (i64::MAX, Ok(())),
                (-1, invalid),
                (-2, invalid),
                (i64::MIN, invalid),
            ] {
                let moved = set(&side, &who, open, class::POSITION, &position.to_le_bytes()).await;
                assert_eq!(moved, expected, "{what}: {position}");
            }
            for (mode, expected) in [
                (0, Ok(())),
                (2, Ok(())),
                (4, Ok(())),
                (6, Ok(())),
                (1, invalid),
                (8, invalid),
                (0x10, invalid),
                (0x20, invalid),
                (0x30, invalid),
                (0x40, invalid),
                (u32::MAX, invalid),
            ] {
                let set = set(&side, &who, open, class::MODE, &mode.to_le_bytes()).await;
                assert_eq!(set, expected, "{what}: mode {mode:x}");
            }
        }
        opens.close(&side, &who).await;
        let waits = full().with(0x20);
        let open = side.open(&who, "page", &waits).await;
        for (mode, expected) in [(0x20, Ok(())), (0x10, Ok(())), (0, invalid), (0x30, invalid)] {
            let mode: u32 = mode;
            assert_eq!(set(&side, &who, &open, class::MODE, &mode.to_le_bytes()).await, expected, "{mode:x}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
        let whole = full().with(options::NO_INTERMEDIATE_BUFFERING);
        let open = side.open(&who, "page", &whole).await;
        for (position, expected) in [(0u64, Ok(())), (512, Ok(())), (1, invalid), (513, invalid)] {
            let moved = set(&side, &who, &open, class::POSITION, &position.to_le_bytes()).await;
            assert_eq!(moved, expected, "{position}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn attributes_that_do_not_fit_are_refused_and_unknown_ones_passed_over() {
    alone(|side| async move {
        let who = asker(1);
        let opens = Opens::of(&side, &who).await;
        let invalid = Err(Status::INVALID_PARAMETER);
        for (what, open) in opens.all() {
            for (bits, expected) in [
                (attributes::DIRECTORY, if what == "a directory" { Ok(()) } else { invalid }),
                (attributes::TEMPORARY, if what.contains("directory") { invalid } else { Ok(()) }),
                (attributes::NORMAL, Ok(())),
                (attributes::REPARSE_POINT, Ok(())),
                (attributes::ENCRYPTED, Ok(())),
                (0x8000_0000, Ok(())),
                (8, Ok(())),
            ] {
                let mut basic = BasicInformation::new_zeroed();
                basic.file_attributes.set(bits);
                let taken = set(&side, &who, open, class::BASIC, basic.as_bytes()).await;
                assert_eq!(taken, expected, "{what}: {bits:x}");
                let told = file(&side, &who, open, class::BASIC).await.unwrap();
                let told = plain::<BasicInformation>(&told).unwrap().file_attributes.get();
                assert_eq!(told & 0x8000_4408, 0, "{what}: {bits:x}");
            }
        }
        opens.close(&side, &who).await;
    });
}

#[test]
fn what_is_shorter_than_its_class_is_refused_as_that() {
    alone(|side| async move {
        let who = asker(1);
        let opens = Opens::of(&side, &who).await;
        for (class, len) in [
            (class::BASIC, 40),
            (class::RENAME, 20),
            (class::LINK, 20),
            (class::DISPOSITION, 1),
            (class::POSITION, 8),
            (class::MODE, 4),
            (class::ALLOCATION, 8),
            (class::END_OF_FILE, 8),
            (class::VALID_DATA_LENGTH, 8),
            (class::DISPOSITION_EX, 4),
            (class::RENAME_EX, 20),
        ] {
            for short in 0..len {
                let refused = set(&side, &who, &opens.page, class, &vec![0; short]).await;
                assert_eq!(refused, Err(Status::INFO_LENGTH_MISMATCH), "{class} {short}");
            }
        }
        opens.close(&side, &who).await;
    });
}

#[test]
fn names_that_are_empty_odd_too_long_or_absolute_rename_and_link_nothing() {
    alone(|side| async move {
        let who = asker(1);
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
                ("itself as a directory", renamed(".", true), Status::OBJECT_PATH_SYNTAX_BAD),
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
fn a_stream_is_renamed_to_another_stream_alone() {
    alone(|side| async move {
        let who = asker(1);
        let opens = Opens::of(&side, &who).await;
        side.share.write_bytes(&who, &opens.stream, 0, b"abc", false).await.unwrap();
        side.make(&who, "page:two", b"2").await;
        let (invalid, collides) = (Err(Status::INVALID_PARAMETER), Err(Status::OBJECT_NAME_COLLISION));
        let mismatch = Err(Status::OBJECT_TYPE_MISMATCH);
        for (name, replaces, of_file, of_directory) in [
            (":", true, invalid, invalid),
            ("::", true, invalid, invalid),
            (":x:", true, invalid, invalid),
            (":a:b:c", true, invalid, invalid),
            (":a\\b", true, invalid, invalid),
            (":x:$INDEX_ALLOCATION", true, mismatch, mismatch),
            (":x:other", true, mismatch, mismatch),
            // The content of the file is there, and is not empty; a directory has none.
            ("::$DATA", false, collides, invalid),
            ("::$data", true, invalid, invalid),
            (":two", false, collides, Ok(())),
            (":TWO:$DATA", false, collides, Ok(())),
            (":three", false, Ok(()), Ok(())),
        ] {
            for (what, open, expected) in
                [("a file's", &opens.stream, of_file), ("a directory's", &opens.of_directory, of_directory)]
            {
                let set = set(&side, &who, open, class::RENAME, &renamed(name, replaces)).await;
                assert_eq!(set, expected, "{what}: {name}");
            }
        }
        let of_none = set(&side, &who, &opens.directory, class::RENAME, &renamed(":x", false)).await;
        assert_eq!(of_none, invalid, "a directory is no stream");
        opens.close(&side, &who).await;
        assert_eq!(side.content(&who, "page").await, Ok(b"12345".to_vec()));
        assert_eq!(side.content(&who, "page:three").await, Ok(b"abc".to_vec()));
        assert_eq!(side.content(&who, "page:two").await, Ok(b"2".to_vec()));
    });
}

#[test]
fn a_rename_onto_another_name_of_the_file_leaves_the_new_name_alone() {
    for replaces in [false, true] {
        for (target, left) in [("sub\\more", "sub\\more"), ("sub\\MORE", "sub\\MORE"), ("third", "third")] {
            alone(move |side| async move {
                let who = asker(1);
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
fn extended_attributes_have_names_of_their_kind() {
    alone(|side| async move {
        let who = asker(1);
        let open = side.open(&who, "page", &full()).await;
        let list =
            |name: &[u8], bits: u8| [&[0, 0, 0, 0, bits, name.len() as u8, 1, 0][..], name, b"\0v"].concat();
        let no_name = Err(Status::INVALID_EA_NAME);
        for (name, bits, expected) in [
            (&b"plain"[..], 0, Ok(())),
            (b"a b", 0, Ok(())),
            (b"a.b", 0x80, Ok(())),
            (&[b'x'; 250], 0, Ok(())),
            (&[b'x'; 251], 0, no_name),
            (b"", 0, no_name),
            (b"a:b", 0, no_name),
            (b"a*b", 0, no_name),
            (b"a\\b", 0, no_name),
            (b"a/b", 0, no_name),
            (b"a=b", 0, no_name),
            (b"a\x01b", 0, no_name),
            (b"plain", 1, no_name),
            (b"plain", 0xff, no_name),
        ] {
            let set = set(&side, &who, &open, class::FULL_EA, &list(name, bits)).await;
            assert_eq!(set, expected, "{name:?} {bits:x}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn ranges_of_control_codes_are_not_negative() {
    alone(|side| async move {
        let who = asker(1);
        let open = side.open(&who, "page", &full()).await;
        let negative = [-1i64 as u64, -2i64 as u64, i64::MIN as u64];
        for code in [code::SET_ZERO_DATA, code::QUERY_ALLOCATED_RANGES] {
            for value in negative {
                for (a, b) in [(value, 0), (0, value), (value, value)] {
                    let input = [a.to_le_bytes(), b.to_le_bytes()].concat();
                    let refused = side.share.ioctl(&who, &open, code, &input, 64).await;
                    assert_eq!(refused.err(), Some(Status::INVALID_PARAMETER), "{code:x} {a:x} {b:x}");
                }
            }
            let short = side.share.ioctl(&who, &open, code, &[0; 15], 64).await;
            assert_eq!(short.err(), Some(Status::INVALID_PARAMETER), "{code:x}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn what_is_read_only_is_deleted_in_no_way_file_or_directory() {
    alone(|side| async move {
        let who = asker(1);
        for (name, kind) in [("page", 0), ("sub", options::DIRECTORY_FILE)] {
            let open = side.open(&who, name, &full().with(kind)).await;
            let mut basic = BasicInformation::new_zeroed();
            basic.file_attributes.set(attributes::READONLY);
            set(&side, &who, &open, class::BASIC, basic.as_bytes()).await.unwrap();
            let ignores = disposition::DELETE | disposition::IGNORE_READONLY;
            for (class, bits, expected) in [
                (class::DISPOSITION, 1, Err(Status::CANNOT_DELETE)),
                (class::DISPOSITION, 0, Ok(())),
                (class::DISPOSITION_EX, disposition::DELETE, Err(Status::CANNOT_DELETE)),
                (class::DISPOSITION_EX, ignores, Ok(())),
                (class::DISPOSITION_EX, 0, Ok(())),
            ] {
                let set = set(&side, &who, &open, class, &bits.to_le_bytes()).await;
                assert_eq!(set, expected, "{name}: {class} {bits:x}");
            }
            side.share.close(&who, &open, 0).await.unwrap();
            let goes = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
            let goes = side.status(&who, name, &goes.with(kind | options::DELETE_ON_CLOSE)).await;
            assert_eq!(goes, Status::CANNOT_DELETE, "{name}");
            // Who may not write attributes passes over none.
            let weak = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
            let weak = side.open(&who, name, &weak.with(kind)).await;
            let set = set(&side, &who, &weak, class::DISPOSITION_EX, &ignores.to_le_bytes()).await;
            assert_eq!(set, Err(Status::CANNOT_DELETE), "{name}");
            side.share.close(&who, &weak, 0).await.unwrap();
            assert_eq!(
                side.status(&who, name, &Wish { access: 0x80, ..Wish::new(Disposition::Open) }).await,
                Status::SUCCESS
            );
        }
    });
}

#[test]
fn a_name_with_a_backslash_at_its_end_is_a_directorys() {
    alone(|side| async move {
        let who = asker(1);
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
fn what_is_made_in_a_directory_that_goes_has_no_path() {
    for seed in 0..30 {
        on_lanes(seed, 2, |lane, side| async move {
            let who = asker(lane as u64 + 1);
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
