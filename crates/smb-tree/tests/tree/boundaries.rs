//! Boundary values of each field of each SET_INFO, of CREATE's contexts, of control codes and of names: negative, zero, -1, -2, the largest,
//! empty, itself. What MS-FSA answers; docs/design/smb.md lists where Samba differs.

use std::sync::Arc;

use smb_tree::{Open, RequestContext};
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::{Disposition, options};
use smb_wire::fsctl::code;
use smb_wire::fsctl::copy::{
    CHUNK_LEN_MAX, Chunk, Copy, DuplicateExtents, DuplicateExtentsEx, ResumeKeyResponse,
};
use smb_wire::info::file::{BasicInformation, RenameFixed, class, disposition, plain};
use smb_wire::info::security::{Descriptor, Sid};
use smb_wire::text::encoded;
use smb_wire::{FileId, Status};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::durable::LEASE;
use super::information::{file, full, renamed, set};
use super::{Side, Wish, alone, on_disk, on_lanes, request_context};

const NEGATIVE: [i64; 4] = [-3, -1000, i64::MIN, i64::MIN + 1];
const LARGEST: u64 = 0xfff_ffff_0000;

/// Opens whose values are set.
struct Opens {
    page: Arc<Open>,
    directory: Arc<Open>,
    stream: Arc<Open>,
    of_directory: Arc<Open>,
}

impl Opens {
    async fn of(side: &Side, who: &RequestContext) -> Self {
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

    async fn close(&self, side: &Side, who: &RequestContext) {
        for (_, open) in self.all() {
            side.share.close(who, open, 0).await.unwrap();
        }
    }
}

#[test]
fn times_below_minus_two_are_none_and_the_others_are_taken() {
    alone(|side| async move {
        let who = request_context(1);
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
        let who = request_context(1);
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
        let who = request_context(1);
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
        let who = request_context(1);
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
        let who = request_context(1);
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
fn extended_attributes_have_names_of_their_kind() {
    alone(|side| async move {
        let who = request_context(1);
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
        let who = request_context(1);
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
        let who = request_context(1);
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
            // A user that may not write attributes passes over none.
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

#[test]
fn ranges_of_copies_are_within_both_files_and_their_keys_known() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "from", b"12345").await;
        let from = side.open(&who, "from", &full()).await;
        let to = side.open(&who, "to", &full()).await;
        let key = side.share.ioctl(&who, &from, code::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
        let key = plain::<ResumeKeyResponse>(&key.output).unwrap().resume_key;
        let own = side.share.ioctl(&who, &to, code::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
        let own = plain::<ResumeKeyResponse>(&own.output).unwrap().resume_key;
        let (invalid, beyond) = (Status::INVALID_PARAMETER, Status::INVALID_VIEW_SIZE);
        let (max, most_negative) = (i64::MAX as u64, i64::MIN as u64);
        for code in [code::SRV_COPYCHUNK, code::SRV_COPYCHUNK_WRITE] {
            for (source, target, length, expected) in [
                (0, 0, 5, Status::SUCCESS),
                (4, 0, 1, Status::SUCCESS),
                (5, 0, 1, beyond),
                (0, 0, 6, beyond),
                (-1i64 as u64, 0, 1, beyond),
                (-2i64 as u64, 0, 1, beyond),
                (most_negative, 0, 1, beyond),
                (max, 0, 1, beyond),
                (0, 0, 0, invalid),
                (0, 0, u32::MAX, invalid),
                (0, 0, CHUNK_LEN_MAX + 1, invalid),
                (0, LARGEST - 4, 5, invalid),
                (0, LARGEST, 1, invalid),
                (0, LARGEST + 1, 1, invalid),
                (0, max, 1, invalid),
                (0, most_negative, 1, invalid),
                (0, -2i64 as u64, 1, invalid),
                (0, -1i64 as u64, 1, invalid),
                (0, -1i64 as u64, 5, invalid),
            ] {
                let chunk = Chunk {
                    source_offset: source.into(),
                    target_offset: target.into(),
                    length: length.into(),
                    reserved: 0.into(),
                };
                let input = Copy { source_key: &key, chunks: &[chunk] }.to_bytes();
                let done = side.share.ioctl(&who, &to, code, &input, 12).await;
                let done = done.map_or_else(|status| status, |answer| answer.status);
                assert_eq!(done, expected, "{code:x}: {source:x} {target:x} {length:x}");
                if length == 5 {
                    let written = side.share.write_bytes(&who, &to, target, b"12345", false).await;
                    let written = written.err().unwrap_or(Status::SUCCESS);
                    assert_eq!(written, expected, "as a write of {target:x}");
                }
            }
            // Onto itself: all of a chunk is read before any of it is written.
            for (source, target, expected) in [(0, 0, &b"12345"[..]), (0, 2, b"12123"), (2, 0, b"34545")] {
                let chunk = Chunk {
                    source_offset: source.into(),
                    target_offset: target.into(),
                    length: 3.into(),
                    reserved: 0.into(),
                };
                let input = Copy { source_key: &own, chunks: &[chunk] }.to_bytes();
                side.share.write_bytes(&who, &to, 0, b"12345", false).await.unwrap();
                let done = side.share.ioctl(&who, &to, code, &input, 12).await.unwrap();
                assert_eq!(done.status, Status::SUCCESS);
                assert_eq!(side.read(&who, &to, 0, 5).await.unwrap(), expected, "{source} to {target}");
            }
            for wrong in [[0; 24], [0xff; 24]] {
                let chunk = Chunk {
                    source_offset: 0.into(),
                    target_offset: 0.into(),
                    length: 1.into(),
                    reserved: 0.into(),
                };
                let input = Copy { source_key: &wrong, chunks: &[chunk] }.to_bytes();
                let done = side.share.ioctl(&who, &to, code, &input, 12).await;
                assert_eq!(done.err(), Some(Status::OBJECT_NAME_NOT_FOUND), "{code:x}");
            }
            let none = Copy { source_key: &key, chunks: &[] }.to_bytes();
            let done = side.share.ioctl(&who, &to, code, &none, 12).await.unwrap();
            assert_eq!((done.status, done.output), (Status::SUCCESS, vec![0; 12]), "no chunk");
            for short in 0..32 {
                let done = side.share.ioctl(&who, &to, code, &none[..short], 12).await;
                assert_eq!(done.err(), Some(invalid), "{short}");
            }
            let done = side.share.ioctl(&who, &to, code, &none, 11).await;
            assert_eq!(done.err(), Some(invalid), "no room for the answer");
        }
        for open in [&from, &to] {
            side.share.close(&who, open, 0).await.unwrap();
        }
    });
}

#[test]
fn ranges_of_zeros_and_of_questions_are_whole_and_make_no_file_longer() {
    alone(|side| async move {
        let who = request_context(1);
        let invalid = Err(Status::INVALID_PARAMETER);
        let pair = |a: i64, b: i64| [a.to_le_bytes(), b.to_le_bytes()].concat();
        for (kind, name) in [("a file", "page"), ("a directory", "sub"), ("a stream", "page:one")] {
            let wish = if name == "sub" { full().with(options::DIRECTORY_FILE) } else { full() };
            let open = side.open(&who, name, &wish).await;
            if name == "page" {
                side.share.write_bytes(&who, &open, 0, b"12345", false).await.unwrap();
            }
            for (from, beyond, expected) in [
                (0, 0, Ok(())),
                (5, 5, Ok(())),
                (i64::MAX, i64::MAX, Ok(())),
                (5, i64::MAX, Ok(())),
                (1, 0, invalid),
                (i64::MAX, 0, invalid),
                (-1, 0, invalid),
                (-2, -1, invalid),
                (0, -1, invalid),
                (i64::MIN, i64::MAX, invalid),
            ] {
                let done = side.share.ioctl(&who, &open, code::SET_ZERO_DATA, &pair(from, beyond), 0).await;
                let expected = if kind == "a file" { expected } else { invalid };
                assert_eq!(done.map(drop), expected, "{kind}: {from} {beyond}");
            }
            let none = || Ok(Vec::new());
            for (from, len, expected) in [
                (0, 0, none()),
                (5, 0, none()),
                (5, 1, none()),
                (i64::MAX, 0, none()),
                (0, i64::MAX, Ok(pair(0, 5))),
                (4, i64::MAX - 4, Ok(pair(4, 1))),
                (1, i64::MAX, Err(Status::INVALID_PARAMETER)),
                (i64::MAX, 1, Err(Status::INVALID_PARAMETER)),
                (i64::MAX, i64::MAX, Err(Status::INVALID_PARAMETER)),
                (-1, 1, Err(Status::INVALID_PARAMETER)),
                (1, -1, Err(Status::INVALID_PARAMETER)),
            ] {
                let code = code::QUERY_ALLOCATED_RANGES;
                let told = side.share.ioctl(&who, &open, code, &pair(from, len), 64).await;
                let expected = if kind == "a file" { expected } else { Err(Status::INVALID_PARAMETER) };
                assert_eq!(told.map(|answer| answer.output), expected, "{kind}: {from} {len}");
            }
            side.share.close(&who, &open, 0).await.unwrap();
        }
        assert_eq!(side.content(&who, "page").await, Ok(b"12345".to_vec()));
    });
}

#[test]
fn extents_are_those_of_a_known_open_and_within_the_source() {
    on_disk(
        |fs| fs.reflinks = true,
        |side| async move {
            let who = request_context(1);
            side.make(&who, "from", &[7; 9000]).await;
            let from = side.open(&who, "from", &full()).await;
            let to = side.open(&who, "to", &full()).await;
            set(&side, &who, &to, class::END_OF_FILE, &9000u64.to_le_bytes()).await.unwrap();
            let (invalid, unsupported) = (Status::INVALID_PARAMETER, Status::NOT_SUPPORTED);
            for (source, target, count, expected) in [
                (0, 0, 0, Status::SUCCESS),
                (0, 0, 4096, Status::SUCCESS),
                (4096, 4096, 4904, Status::SUCCESS),
                (9000, 0, 0, Status::SUCCESS),
                (9000, 0, 1, unsupported),
                (0, 0, 9001, unsupported),
                (0, 0, i64::MAX, unsupported),
                (i64::MAX, 0, 1, unsupported),
                (0, i64::MAX, 1, Status::SUCCESS),
                (-1, 0, 1, invalid),
                (0, -1, 1, invalid),
                (0, 0, -1, invalid),
                (-2, 0, 1, invalid),
                (0, i64::MIN, 1, invalid),
                (0, 0, i64::MIN, invalid),
            ] {
                let extents = |source_open| DuplicateExtents {
                    source: source_open,
                    source_offset: (source as u64).into(),
                    target_offset: (target as u64).into(),
                    byte_count: (count as u64).into(),
                };
                let case = format!("{source:x} {target:x} {count:x}");
                let ex = DuplicateExtentsEx {
                    structure_size: 48.into(),
                    extents: extents(from.id()),
                    flags: 0.into(),
                    reserved: 0.into(),
                };
                let plain = extents(from.id());
                for (code, input) in [
                    (code::DUPLICATE_EXTENTS_TO_FILE, plain.as_bytes()),
                    (code::DUPLICATE_EXTENTS_TO_FILE_EX, ex.as_bytes()),
                ] {
                    let done = side.share.ioctl(&who, &to, code, input, 0).await;
                    let done = done.map_or_else(|status| status, |answer| answer.status);
                    assert_eq!(done, expected, "{code:x}: {case}");
                    let short = side.share.ioctl(&who, &to, code, &input[..input.len() - 1], 0).await;
                    assert_eq!(short.err(), Some(invalid), "{code:x}");
                }
                for unknown in [FileId::new(0, 0), FileId::new(u64::MAX, u64::MAX)] {
                    let code = code::DUPLICATE_EXTENTS_TO_FILE;
                    let done = side.share.ioctl(&who, &to, code, extents(unknown).as_bytes(), 0).await;
                    assert_eq!(done.err(), Some(Status::INVALID_HANDLE), "{case}");
                }
            }
            assert_eq!(side.content(&who, "to").await.unwrap().len(), 9000);
            for open in [&from, &to] {
                side.share.close(&who, open, 0).await.unwrap();
            }
        },
    );
}

/// A CREATE of `made` with one context, what it comes to, and whether there is anything after it.
async fn with_context(
    side: &Side,
    who: &RequestContext,
    tag: &[u8],
    data: &[u8],
    oplock: u8,
) -> (Status, bool) {
    let mut contexts = ContextWriter::new();
    contexts.push(tag, data);
    let wish = Wish { contexts: contexts.bytes().to_vec(), oplock, ..Wish::new(Disposition::Create) };
    let status = side.status(who, "made", &wish).await;
    let goes = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
    let is_there = side.status(who, "made", &goes.with(options::DELETE_ON_CLOSE)).await == Status::SUCCESS;
    (status, is_there)
}

#[test]
fn contexts_of_other_lengths_than_theirs_make_nothing() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        for (tag, lens) in [
            (tag::DURABLE_REQUEST, &[16][..]),
            (tag::DURABLE_RECONNECT, &[16]),
            (tag::ALLOCATION_SIZE, &[8]),
            (tag::MAXIMAL_ACCESS, &[0, 8]),
            (tag::TIMEWARP, &[8]),
            (tag::ON_DISK_ID, &[0]),
            (tag::LEASE, &[32, 52]),
            (tag::DURABLE_REQUEST_V2, &[32]),
            (tag::DURABLE_RECONNECT_V2, &[36]),
            (tag::APP_INSTANCE_ID, &[20]),
            (tag::APP_INSTANCE_VERSION, &[24]),
            (tag::AAPL, &[24]),
            (tag::POSIX, &[4]),
        ] {
            for len in (0..64).filter(|len| !lens.contains(len)) {
                for byte in [0, 1, 0xff] {
                    let came = with_context(&side, &who, tag, &vec![byte; len], LEASE).await;
                    assert_eq!(came, (Status::INVALID_PARAMETER, false), "{tag:?}: {len} times {byte:x}");
                }
            }
        }
    });
}

#[test]
fn each_value_of_each_field_of_a_context_is_taken_or_refused_and_what_is_refused_makes_nothing() {
    alone(|side| async move {
        let (ok, invalid) = (Status::SUCCESS, Status::INVALID_PARAMETER);
        let gone = Status::OBJECT_NAME_NOT_FOUND;
        let plain = request_context(1);
        let posix = RequestContext { posix: true, ..request_context(1) };
        let each = async |who: &RequestContext, tag: &[u8], data: &[u8], expected: Status| {
            let came = with_context(&side, who, tag, data, LEASE).await;
            assert_eq!(came, (expected, expected == ok), "{tag:x?} {data:x?}");
        };
        let beyond = [LARGEST + 1, i64::MAX as u64, i64::MIN as u64, -1i64 as u64, -2i64 as u64];
        for size in [0, 1, 4096] {
            each(&plain, tag::ALLOCATION_SIZE, &u64::to_le_bytes(size), ok).await;
        }
        for size in beyond {
            each(&plain, tag::ALLOCATION_SIZE, &size.to_le_bytes(), Status::DISK_FULL).await;
        }
        for time in [0, 1, -1, -2, i64::MAX, i64::MIN] {
            each(&plain, tag::MAXIMAL_ACCESS, &time.to_le_bytes(), ok).await;
            each(&plain, tag::TIMEWARP, &time.to_le_bytes(), gone).await;
        }
        for byte in [0, 1, 0x80, 0xff] {
            // What is asked for is granted as far as there is any of it.
            for (tag, len) in [
                (tag::LEASE, 32),
                (tag::LEASE, 52),
                (tag::DURABLE_REQUEST, 16),
                (tag::DURABLE_REQUEST_V2, 32),
                (tag::AAPL, 24),
            ] {
                each(&plain, tag, &vec![byte; len], ok).await;
            }
            for (tag, len) in [(tag::DURABLE_RECONNECT, 16), (tag::DURABLE_RECONNECT_V2, 36)] {
                each(&plain, tag, &vec![byte; len], gone).await;
            }
            for (tag, len) in [(tag::APP_INSTANCE_ID, 20u16), (tag::APP_INSTANCE_VERSION, 24)] {
                each(&plain, tag, &vec![byte; len.into()], invalid).await;
                let mut sized = vec![byte; len.into()];
                sized[..2].copy_from_slice(&len.to_le_bytes());
                each(&plain, tag, &sized, ok).await;
            }
        }
        for mode in [0o600, 0o777, 0o7777, 0x8000_0180, u32::MAX, u32::MAX - 1] {
            each(&posix, tag::POSIX, &mode.to_le_bytes(), ok).await;
            each(&plain, tag::POSIX, &mode.to_le_bytes(), ok).await;
        }
        // A list of no attributes; one of which each field is wrong.
        each(&plain, tag::EA_BUFFER, &[], ok).await;
        let attribute = |next: u32, bits: u8, name_len: u8, value_len: u16| {
            let head = [&next.to_le_bytes()[..], &[bits, name_len], &value_len.to_le_bytes()].concat();
            [&head[..], b"A\0v"].concat()
        };
        each(&plain, tag::EA_BUFFER, &attribute(0, 0, 1, 1), ok).await;
        for next in [1, 8, 12, 0x7fff_ffff, u32::MAX - 1, u32::MAX] {
            each(&plain, tag::EA_BUFFER, &attribute(next, 0, 1, 1), Status::EA_CORRUPT_ERROR).await;
        }
        for (name_len, value_len) in [(2, 1), (255, 1), (1, 2), (1, u16::MAX)] {
            let list = attribute(0, 0, name_len, value_len);
            each(&plain, tag::EA_BUFFER, &list, Status::EA_CORRUPT_ERROR).await;
        }
        for bits in [1, 0xff] {
            each(&plain, tag::EA_BUFFER, &attribute(0, bits, 1, 1), Status::INVALID_EA_NAME).await;
        }
        let nameless = [0, 0, 0, 0, 0, 0, 1, 0, 0, b'v'];
        each(&plain, tag::EA_BUFFER, &nameless, Status::INVALID_EA_NAME).await;
        let whole =
            Descriptor { owner: Some(Sid::EVERYONE), dacl: Some(Vec::new()), ..Descriptor::default() };
        let whole = whole.to_bytes();
        for short in 0..20 {
            let came = with_context(&side, &plain, tag::SD_BUFFER, &whole[..short], LEASE).await;
            assert!(came.0 != ok && !came.1, "{short}: {came:?}");
        }
        // Where each part lies.
        for at in [4, 8, 12, 16] {
            for offset in [1, whole.len() as u32, 0x7fff_ffff, -2i32 as u32, u32::MAX] {
                let mut wrong = whole.clone();
                wrong[at..at + 4].copy_from_slice(&offset.to_le_bytes());
                let came = with_context(&side, &plain, tag::SD_BUFFER, &wrong, LEASE).await;
                assert!(came.0 != ok || at == 8 || at == 12, "{at}: {offset:x}");
                assert_eq!(came.1, came.0 == ok, "{at}: {offset:x}");
            }
        }
    });
}

#[test]
fn deletion_is_said_by_bits_that_are_known_and_on_close_by_an_open_that_deletes_then() {
    alone(|side| async move {
        let who = request_context(1);
        let (ok, invalid, unsupported) = (Ok(()), Err(Status::INVALID_PARAMETER), Err(Status::NOT_SUPPORTED));
        for (name, kind) in [("page", 0), ("sub", options::DIRECTORY_FILE)] {
            for deletes_on_close in [false, true] {
                for bits in (0..0x20).chain([0x20, 0x21, 0x80, 0x8000_0000, 0x8000_0001, u32::MAX]) {
                    // What goes at once is gone for the next try.
                    let more = if deletes_on_close { options::DELETE_ON_CLOSE } else { 0 };
                    let open = side.open(&who, name, &full().with(kind | more)).await;
                    let came = set(&side, &who, &open, class::DISPOSITION_EX, &bits.to_le_bytes()).await;
                    let expected = match bits {
                        0x20.. => invalid,
                        bits if bits & disposition::ON_CLOSE != 0 && !deletes_on_close => unsupported,
                        _ => ok,
                    };
                    assert_eq!(came, expected, "{name} {bits:x} {deletes_on_close}");
                    side.share.close(&who, &open, 0).await.unwrap();
                    let stays = Wish { access: 0x80, ..Wish::new(Disposition::Open) };
                    let is_there = side.status(&who, name, &stays).await == Status::SUCCESS;
                    let deletes = bits & disposition::DELETE != 0;
                    let expected = match (came, bits & disposition::ON_CLOSE != 0) {
                        // It is taken back, or said once more.
                        (Ok(()), true) => deletes,
                        (Ok(()), false) => deletes || deletes_on_close,
                        (Err(_), _) => deletes_on_close,
                    };
                    assert_eq!(is_there, !expected, "{name} {bits:x} {deletes_on_close}");
                }
            }
        }
    });
}
