//! Each field of each SET_INFO: what MS-FSA takes, and what it refuses.

use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::info::ea::EaHead;
use smb_wire::info::file::{BasicInformation, RenameFixed, class, disposition, plain};
use smb_wire::text::encoded;
use zerocopy::{FromZeros, IntoBytes};

use super::{LARGEST, NEGATIVE, Opens, Variant, varied};
use crate::information::{file, full, renamed, set};
use crate::{Wish, alone, request_context};

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
fn what_is_valid_of_a_file_reaches_as_far_as_the_file() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"12345").await;
        for name in ["page", "page:stream"] {
            let open = side.open(&who, name, &full()).await;
            side.share.write_bytes(&who, &open, 0, b"12345", false).await.unwrap();
            for (len, expected) in
                [(0, false), (1, false), (4, false), (5, true), (6, false), (u64::MAX, false)]
            {
                let came = set(&side, &who, &open, class::VALID_DATA_LENGTH, &u64::to_le_bytes(len)).await;
                let expected = if expected { Ok(()) } else { Err(Status::INVALID_PARAMETER) };
                assert_eq!(came, expected, "{name}: {len}");
            }
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, name).await, Ok(b"12345".to_vec()), "{name}");
        }
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
fn deletion_is_said_by_bits_that_are_known_and_on_close_by_an_open_that_deletes_then() {
    alone(|side| async move {
        let who = request_context(1);
        let (ok, unsupported) = (Ok(()), Err(Status::NOT_SUPPORTED));
        for (name, kind) in [("page", 0), ("sub", options::DIRECTORY_FILE)] {
            for deletes_on_close in [false, true] {
                for bits in (0..0x20).chain([0x20, 0x21, 0x80, 0x8000_0000, 0x8000_0001, u32::MAX]) {
                    // What goes at once is gone for the next try.
                    let more = if deletes_on_close { options::DELETE_ON_CLOSE } else { 0 };
                    let open = side.open(&who, name, &full().with(kind | more)).await;
                    let came = set(&side, &who, &open, class::DISPOSITION_EX, &bits.to_le_bytes()).await;
                    let expected = match bits {
                        0x20.. => unsupported,
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
fn each_field_of_a_class_is_judged_by_its_value() {
    alone(|side| async move {
        let who = request_context(1);
        let opens = Opens::of(&side, &who).await;
        let (ok, invalid) = (Ok(()), Err(Status::INVALID_PARAMETER));
        for (what, open) in opens.all() {
            for Variant { field, value, bytes } in varied(&BasicInformation::new_zeroed()) {
                let expected = match (field, value) {
                    ("creation_time" | "last_access_time" | "last_write_time" | "change_time", ..-2) => {
                        invalid
                    }
                    ("creation_time" | "last_access_time" | "last_write_time" | "change_time", _) => ok,
                    // FILE_ATTRIBUTE_DIRECTORY of what is none, or FILE_ATTRIBUTE_TEMPORARY of one, and more.
                    ("file_attributes", -2 | -1 | 0x7fff_ffff) => invalid,
                    ("file_attributes" | "reserved", _) => ok,
                    unknown => panic!("{unknown:?}"),
                };
                let came = set(&side, &who, open, class::BASIC, &bytes).await;
                assert_eq!(came, expected, "{what}: {field} {value:x}");
                let plain =
                    BasicInformation { file_attributes: 0x80.into(), ..BasicInformation::new_zeroed() };
                set(&side, &who, open, class::BASIC, plain.as_bytes()).await.unwrap();
            }
            let attribute = EaHead {
                next_entry_offset: 0.into(),
                flags: 0,
                ea_name_length: 1,
                ea_value_length: 1.into(),
            };
            for Variant { field, value, bytes } in varied(&attribute) {
                let expected = match (field, value) {
                    ("next_entry_offset", 0) | ("ea_name_length", 1) | ("ea_value_length", 0 | 1) => ok,
                    // FILE_NEED_EA is the one that there is.
                    ("flags", 0 | -0x80) => ok,
                    ("flags", _) => Err(Status::INVALID_EA_NAME),
                    ("next_entry_offset" | "ea_name_length" | "ea_value_length", _) => invalid,
                    unknown => panic!("{unknown:?}"),
                };
                let came = set(&side, &who, open, class::FULL_EA, &[&bytes[..], b"A\0v"].concat()).await;
                assert_eq!(came, expected, "{what}: {field} {value:x}");
            }
        }
        opens.close(&side, &who).await;
        // What others have open beneath would hold a directory's name.
        for (what, name, kind) in [("a file", "page", 0), ("a directory", "sub", options::DIRECTORY_FILE)] {
            let open = side.open(&who, name, &full().with(kind)).await;
            let to = encoded("moved");
            let whole =
                RenameFixed { file_name_length: (to.len() as u32).into(), ..RenameFixed::new_zeroed() };
            for class in [class::RENAME, class::RENAME_EX] {
                for Variant { field, value, bytes } in varied(&whole) {
                    let expected = match (field, value) {
                        ("flags" | "reserved", _) | ("root_directory", 0) | ("file_name_length", 2) => ok,
                        ("root_directory" | "file_name_length", _) => invalid,
                        unknown => panic!("{unknown:?}"),
                    };
                    let came = set(&side, &who, &open, class, &[&bytes[..], &to].concat()).await;
                    assert_eq!(came, expected, "{what}: {class} {field} {value:x}");
                    set(&side, &who, &open, class, &renamed(name, false)).await.unwrap();
                }
            }
            side.share.close(&who, &open, 0).await.unwrap();
        }
    });
}
