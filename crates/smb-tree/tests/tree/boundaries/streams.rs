//! Names of named streams and of extended attributes, and what control codes of ranges do to streams.

use smb_wire::Status;
use smb_wire::create::Disposition;
use smb_wire::create::access::rights;
use smb_wire::fsctl::code;
use smb_wire::info::file::class;

use super::Opens;
use crate::information::{full, renamed, set};
use crate::{Wish, alone, request_context};

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
            // A stream stays in its file.
            ("three", false, invalid, invalid),
            ("page:three", true, invalid, invalid),
            ("none\\three", true, invalid, invalid),
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
fn ranges_of_a_stream_are_told_as_allocated_and_are_zeroed() {
    alone(|side| async move {
        let who = request_context(1);
        let opens = Opens::of(&side, &who).await;
        let pair = |a: i64, b: i64| [a.to_le_bytes(), b.to_le_bytes()].concat();
        let invalid = Status::INVALID_PARAMETER;
        for (what, open) in [("a file's", &opens.stream), ("a directory's", &opens.of_directory)] {
            side.share.write_bytes(&who, open, 0, b"123456", false).await.unwrap();
            for (from, len, room, expected) in [
                (0, 6, 16, Ok(pair(0, 6))),
                (0, i64::MAX, 16, Ok(pair(0, 6))),
                (5, 4, 16, Ok(pair(5, 1))),
                (6, 1, 16, Ok(Vec::new())),
                (0, 0, 0, Ok(Vec::new())),
                (0, 6, 15, Err(Status::BUFFER_TOO_SMALL)),
                (-1, 1, 16, Err(invalid)),
                (0, -1, 16, Err(invalid)),
            ] {
                let code = code::QUERY_ALLOCATED_RANGES;
                let told = side.share.ioctl(&who, open, code, &pair(from, len), room).await;
                assert_eq!(told.map(|answer| answer.output), expected, "{what}: {from} {len} {room}");
            }
            for (from, beyond, expected, left) in [
                (0, 0, Ok(()), &b"123456"[..]),
                (6, 9, Ok(()), b"123456"),
                (9, i64::MAX, Ok(()), b"123456"),
                (1, 3, Ok(()), b"1\0\x00456"),
                (5, 9, Ok(()), b"1\0\x0045\0"),
                (2, 1, Err(invalid), b"1\0\x0045\0"),
                (-1, 9, Err(invalid), b"1\0\x0045\0"),
                (0, i64::MAX, Ok(()), b"\0\0\0\0\0\0"),
            ] {
                let done = side.share.ioctl(&who, open, code::SET_ZERO_DATA, &pair(from, beyond), 0).await;
                assert_eq!(done.map(drop), expected, "{what}: {from} {beyond}");
                assert_eq!(side.read(&who, open, 0, 9).await.as_deref(), Ok(left), "{what}: {from} {beyond}");
            }
        }
        let reader = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
        let reader = side.open(&who, "page:one", &reader).await;
        let refused = side.share.ioctl(&who, &reader, code::SET_ZERO_DATA, &pair(0, 1), 0).await;
        assert_eq!(refused.err(), Some(Status::ACCESS_DENIED));
        side.share.close(&who, &reader, 0).await.unwrap();
        opens.close(&side, &who).await;
    });
}
