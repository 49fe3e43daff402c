//! Each field of control codes, but for those that copy.

use smb_tree::OpenKind;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::fsctl::code;
use smb_wire::fsctl::ranges::{AllocatedRange, ZeroData};
use smb_wire::fsctl::reparse::{NFS, REPARSE_MAX, ReparseHead, SYMLINK, Symlink, SymlinkFixed};
use smb_wire::info::file::{BasicInformation, class, plain};
use zerocopy::{FromBytes, IntoBytes};

use super::{Opens, Variant, varied};
use crate::information::{file, full};
use crate::{Wish, alone, request_context};

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
fn ranges_of_zeros_and_of_questions_are_whole_and_make_no_file_longer() {
    alone(|side| async move {
        let who = request_context(1);
        let invalid = Err(Status::INVALID_PARAMETER);
        let pair = |a: i64, b: i64| [a.to_le_bytes(), b.to_le_bytes()].concat();
        for (kind, name) in [("a file", "page"), ("a directory", "sub")] {
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
fn each_field_of_a_range_is_judged_by_its_value() {
    alone(|side| async move {
        let who = request_context(1);
        let opens = Opens::of(&side, &who).await;
        let invalid = Err(Status::INVALID_PARAMETER);
        let zero = ZeroData { file_offset: 1.into(), beyond_final_zero: 2.into() };
        let query = AllocatedRange { file_offset: 1.into(), length: 1.into() };
        for (what, open) in opens.all() {
            for Variant { field, value, bytes } in varied(&zero) {
                let done = side.share.ioctl(&who, open, code::SET_ZERO_DATA, &bytes, 0).await.map(drop);
                let expected = match (field, value) {
                    _ if what == "a directory" => invalid,
                    ("file_offset", 0..=2) | ("beyond_final_zero", 1..) => Ok(()),
                    ("file_offset" | "beyond_final_zero", _) => invalid,
                    unknown => panic!("{unknown:?}"),
                };
                assert_eq!(done, expected, "{what}: {field} {value:x}");
            }
            for Variant { field, value, bytes } in varied(&query) {
                let code = code::QUERY_ALLOCATED_RANGES;
                let done = side.share.ioctl(&who, open, code, &bytes, 64).await.map(drop);
                let expected = match (field, value) {
                    _ if what == "a directory" => invalid,
                    ("file_offset" | "length", 0..=2) => Ok(()),
                    ("file_offset" | "length", _) => invalid,
                    unknown => panic!("{unknown:?}"),
                };
                assert_eq!(done, expected, "{what}: {field} {value:x}");
            }
        }
        opens.close(&side, &who).await;
    });
}

/// One code for one kind of open: input, room for the answer, the answer's length or status.
type Case<'a> = (u32, &'a [u8], u32, Result<usize, Status>);

#[test]
fn codes_want_their_input_and_room_for_their_answer_whatever_is_open() {
    alone(|side| async move {
        let who = request_context(1);
        let opens = Opens::of(&side, &who).await;
        let (invalid, small) = (Err(Status::INVALID_PARAMETER), Err(Status::BUFFER_TOO_SMALL));
        let (none, unsupported) = (Err(Status::INVALID_DEVICE_REQUEST), Err(Status::NOT_SUPPORTED));
        let no_link = Err(Status::NOT_A_REPARSE_POINT);
        for (what, open) in opens.all() {
            let cases: [Case<'_>; 37] = [
                (code::SRV_REQUEST_RESUME_KEY, &[], 0, small),
                (code::SRV_REQUEST_RESUME_KEY, &[], 31, small),
                (code::SRV_REQUEST_RESUME_KEY, &[], 32, Ok(32)),
                (code::SRV_REQUEST_RESUME_KEY, &[0xff; 9], u32::MAX, Ok(32)),
                (code::CREATE_OR_GET_OBJECT_ID, &[], 0, invalid),
                (code::CREATE_OR_GET_OBJECT_ID, &[], 63, invalid),
                (code::CREATE_OR_GET_OBJECT_ID, &[], 64, Ok(64)),
                (code::CREATE_OR_GET_OBJECT_ID, &[0xff; 9], u32::MAX, Ok(64)),
                (code::GET_COMPRESSION, &[], 0, invalid),
                (code::GET_COMPRESSION, &[], 1, invalid),
                (code::GET_COMPRESSION, &[], 2, Ok(2)),
                (code::SET_COMPRESSION, &[], 0, invalid),
                (code::SET_COMPRESSION, &[0], 0, invalid),
                (code::SET_COMPRESSION, &[0, 0], 0, Ok(0)),
                (code::SET_COMPRESSION, &[0, 0, 0xff], 0, Ok(0)),
                (code::SET_COMPRESSION, &[1, 0], 0, unsupported),
                (code::SET_COMPRESSION, &[2, 0], 0, unsupported),
                (code::SET_COMPRESSION, &[3, 0], 0, invalid),
                (code::SET_COMPRESSION, &[0, 1], 0, invalid),
                (code::SET_COMPRESSION, &[0xff, 0xff], 0, invalid),
                (code::GET_REPARSE_POINT, &[], 0, no_link),
                (code::GET_REPARSE_POINT, &[], u32::MAX, no_link),
                (code::DELETE_REPARSE_POINT, &[], 0, no_link),
                (code::DELETE_REPARSE_POINT, &[0xff; 8], 0, no_link),
                (code::SRV_ENUMERATE_SNAPSHOTS, &[], 0, invalid),
                (code::SRV_ENUMERATE_SNAPSHOTS, &[], 15, invalid),
                (code::SRV_ENUMERATE_SNAPSHOTS, &[], 16, Ok(16)),
                (code::QUERY_ALLOCATED_RANGES, &[], 64, invalid),
                (code::QUERY_ALLOCATED_RANGES, &[0; 15], 64, invalid),
                (code::SET_ZERO_DATA, &[], 64, invalid),
                (code::SET_ZERO_DATA, &[0; 15], 64, invalid),
                // Pipes' alone, and codes that are not served.
                (code::PIPE_TRANSCEIVE, &[0; 8], 64, unsupported),
                (code::PIPE_PEEK, &[], 64, none),
                (code::FILE_LEVEL_TRIM, &[0; 24], 64, none),
                (code::OFFLOAD_READ, &[0; 32], 64, none),
                (0, &[], 64, none),
                (u32::MAX, &[], 64, none),
            ];
            for (control, input, room, expected) in cases {
                let came = side.share.ioctl(&who, open, control, input, room).await;
                let came = came.map(|answer| answer.output.len());
                assert_eq!(came, expected, "{what}: {control:x} {input:x?} {room}");
            }
            for (input, is_sparse) in [
                (&[][..], true),
                (&[0], false),
                (&[1], true),
                (&[2], true),
                (&[0, 1], false),
                (&[0xff], true),
            ] {
                let done = side.share.ioctl(&who, open, code::SET_SPARSE, input, 0).await.map(drop);
                let expected = if what == "a file" { Ok(()) } else { Err(Status::INVALID_PARAMETER) };
                assert_eq!(done, expected, "{what}: {input:x?}");
                let told = file(&side, &who, open, class::BASIC).await.unwrap();
                let told = plain::<BasicInformation>(&told).unwrap().file_attributes.get();
                let has = told & attributes::SPARSE_FILE != 0;
                assert!(has == is_sparse || what != "a file", "{input:x?}");
            }
        }
        opens.close(&side, &who).await;
    });
}

#[test]
fn each_field_of_a_reparse_point_is_judged_by_its_value_and_what_is_refused_leaves_the_file() {
    alone(|side| async move {
        let who = request_context(1);
        let link = Symlink { target: "a".to_owned(), relative: true }.to_bytes().unwrap();
        let (head, data) = ReparseHead::ref_from_prefix(&link).unwrap();
        let (fixed, names) = SymlinkFixed::ref_from_prefix(data).unwrap();
        let (ok, wrong) = (Ok(()), Err(Status::IO_REPARSE_DATA_INVALID));
        let other = Err(Status::IO_REPARSE_TAG_NOT_HANDLED);
        let mut cases = Vec::new();
        for Variant { field, value, bytes } in varied(head) {
            let expected = match (field, value) {
                ("tag", _) => other,
                ("data_length", _) => wrong,
                ("reserved", _) => ok,
                unknown => panic!("{unknown:?}"),
            };
            cases.push((format!("{field} {value:x}"), [&bytes[..], data].concat(), expected));
        }
        for Variant { field, value, bytes } in varied(fixed) {
            let expected = match (field, value) {
                // The name that is shown, here the same.
                ("substitute_name_offset", 0 | 2) | ("substitute_name_length", 2) => ok,
                // Half of one character and half of another, as they are two of one byte.
                ("substitute_name_offset", 1) => ok,
                ("substitute_name_offset" | "substitute_name_length", _) => wrong,
                ("print_name_offset" | "print_name_length", _) => ok,
                // It says that it is not relative, and is.
                ("flags", value) if value & 1 == 0 => wrong,
                ("flags", _) => ok,
                unknown => panic!("{unknown:?}"),
            };
            let whole = [head.as_bytes(), &bytes, names].concat();
            cases.push((format!("{field} {value:x}"), whole, expected));
        }
        for (what, input, expected) in [
            ("nothing", Vec::new(), wrong),
            ("a short head", link[..7].to_vec(), wrong),
            ("no data", ReparseHead { data_length: 0.into(), ..*head }.as_bytes().to_vec(), wrong),
            (
                "of NFS",
                ReparseHead { tag: NFS.into(), data_length: 0.into(), ..*head }.as_bytes().to_vec(),
                other,
            ),
            ("too long", vec![0; REPARSE_MAX + 1], wrong),
            ("of no tag", vec![0; 8], other),
        ] {
            cases.push((what.to_owned(), input, expected));
        }
        assert_eq!(head.tag.get(), SYMLINK);
        for (case, input, expected) in cases {
            let open = side.open(&who, "made", &Wish::new(Disposition::Create)).await;
            let done = side.share.ioctl(&who, &open, code::SET_REPARSE_POINT, &input, 0).await.map(drop);
            assert_eq!(done, expected, "{case}");
            side.share.close(&who, &open, 0).await.unwrap();
            let itself = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
            let itself = itself.with(options::OPEN_REPARSE_POINT | options::DELETE_ON_CLOSE);
            let open = side.open(&who, "made", &itself).await;
            let kind = if expected == ok { OpenKind::Link } else { OpenKind::File };
            assert_eq!(open.kind(), kind, "{case}");
            side.share.close(&who, &open, 0).await.unwrap();
        }
    });
}
