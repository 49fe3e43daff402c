//! Each field of the control codes that copy or share what a file holds.

use smb_wire::fsctl::code;
use smb_wire::fsctl::copy::{
    CHUNK_LEN_MAX, CHUNKS_MAX, COPY_LEN_MAX, Chunk, Copy, CopyFixed, CopyResponse, DuplicateExtents,
    DuplicateExtentsEx, ResumeKeyResponse,
};
use smb_wire::info::file::{class, plain};
use smb_wire::{FileId, Status};
use zerocopy::IntoBytes;

use super::{LARGEST, Variant, varied};
use crate::information::{full, set};
use crate::{alone, on_disk, request_context};

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

#[test]
fn each_field_of_a_copy_is_judged_by_its_value() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "from", b"12345").await;
        let from = side.open(&who, "from", &full()).await;
        let to = side.open(&who, "to", &full()).await;
        let key = side.share.ioctl(&who, &from, code::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
        let key = plain::<ResumeKeyResponse>(&key.output).unwrap().resume_key;
        let (ok, invalid) = (Status::SUCCESS, Status::INVALID_PARAMETER);
        let (beyond, unknown) = (Status::INVALID_VIEW_SIZE, Status::OBJECT_NAME_NOT_FOUND);
        let chunk = |source: u64, target: u64, length: u32| Chunk {
            source_offset: source.into(),
            target_offset: target.into(),
            length: length.into(),
            reserved: 0.into(),
        };
        let asked = async |code, input: &[u8]| {
            let done = side.share.ioctl(&who, &to, code, input, 12).await;
            done.map_or_else(|status| (status, Vec::new()), |answer| (answer.status, answer.output))
        };
        let fixed = CopyFixed { source_key: key, chunk_count: 1.into(), reserved: 0.into() };
        for code in [code::SRV_COPYCHUNK, code::SRV_COPYCHUNK_WRITE] {
            for Variant { field, value, bytes } in varied(&chunk(0, 0, 5)) {
                let (came, told) = asked(code, &[fixed.as_bytes(), &bytes].concat()).await;
                let expected = match (field, value) {
                    ("source_offset", 0) | ("target_offset", 0..=2) | ("length", 1..=2) | ("reserved", _) => {
                        ok
                    }
                    ("source_offset", _) => beyond,
                    ("target_offset" | "length", _) => invalid,
                    unknown => panic!("{unknown:?}"),
                };
                assert_eq!(came, expected, "{code:x}: {field} {value:x}");
                if field == "length" && expected == invalid {
                    assert_eq!(told, CopyResponse::limits().as_bytes(), "{value:x}");
                }
            }
            for Variant { field, value, bytes } in varied(&fixed) {
                let (came, told) = asked(code, &[&bytes[..], chunk(0, 0, 5).as_bytes()].concat()).await;
                let expected = match (field, value) {
                    ("source_key", _) => unknown,
                    ("chunk_count", 0 | 1) | ("reserved", _) => ok,
                    ("chunk_count", _) => invalid,
                    unknown => panic!("{unknown:?}"),
                };
                assert_eq!(came, expected, "{code:x}: {field} {value:x}");
                if (field, value) == ("chunk_count", 0) {
                    assert_eq!(told, [0; 12], "nothing was copied");
                }
            }
            // The key counts as a whole.
            for at in 0..key.len() {
                let mut wrong = key;
                wrong[at] ^= 1;
                let input = Copy { source_key: &wrong, chunks: &[chunk(0, 0, 5)] }.to_bytes();
                assert_eq!(asked(code, &input).await.0, unknown, "{code:x}: byte {at}");
            }
            let many = |count: u32, len: u32| vec![chunk(0, 0, len); count as usize];
            for (chunks, expected) in [
                (many(CHUNKS_MAX, 1), ok),
                (many(CHUNKS_MAX + 1, 1), invalid),
                (many(COPY_LEN_MAX / CHUNK_LEN_MAX, CHUNK_LEN_MAX), beyond),
                (many(COPY_LEN_MAX / CHUNK_LEN_MAX + 1, CHUNK_LEN_MAX), invalid),
                // One that is empty or too long behind others: nothing is copied.
                (vec![chunk(0, 0, 5), chunk(0, 0, 0)], invalid),
                (vec![chunk(0, 0, 5), chunk(0, 0, CHUNK_LEN_MAX + 1)], invalid),
            ] {
                let input = Copy { source_key: &key, chunks: &chunks }.to_bytes();
                let (came, told) = asked(code, &input).await;
                assert_eq!(came, expected, "{code:x}: {} chunks", chunks.len());
                if expected == invalid {
                    assert_eq!(told, CopyResponse::limits().as_bytes(), "{code:x}: {} chunks", chunks.len());
                }
            }
        }
        side.share.close(&who, &from, 0).await.unwrap();
        let input = Copy { source_key: &key, chunks: &[chunk(0, 0, 5)] }.to_bytes();
        assert_eq!(asked(code::SRV_COPYCHUNK, &input).await.0, unknown, "its open is closed");
        side.share.close(&who, &to, 0).await.unwrap();
    });
}

#[test]
fn each_field_of_a_request_for_extents_is_judged_by_its_value() {
    on_disk(
        |fs| fs.reflinks = true,
        |side| async move {
            let who = request_context(1);
            side.make(&who, "from", &[7; 9000]).await;
            let from = side.open(&who, "from", &full()).await;
            let to = side.open(&who, "to", &full()).await;
            set(&side, &who, &to, class::END_OF_FILE, &9000u64.to_le_bytes()).await.unwrap();
            let (ok, invalid, unsupported) =
                (Status::SUCCESS, Status::INVALID_PARAMETER, Status::NOT_SUPPORTED);
            let extents = DuplicateExtents {
                source: from.id(),
                source_offset: 0.into(),
                target_offset: 0.into(),
                byte_count: 4096.into(),
            };
            let asked = async |code, input: &[u8]| {
                let done = side.share.ioctl(&who, &to, code, input, 0).await;
                done.map_or_else(|status| status, |answer| answer.status)
            };
            let of_extents = |field, value| match (field, value) {
                ("source", _) => Status::INVALID_HANDLE,
                ("source_offset" | "target_offset" | "byte_count", ..0) => invalid,
                ("source_offset" | "target_offset" | "byte_count", 0..=2) => ok,
                // Behind the target's end nothing is copied.
                ("target_offset", _) => ok,
                ("source_offset" | "byte_count", _) => unsupported,
                unknown => panic!("{unknown:?}"),
            };
            for Variant { field, value, bytes } in varied(&extents) {
                let came = asked(code::DUPLICATE_EXTENTS_TO_FILE, &bytes).await;
                assert_eq!(came, of_extents(field, value), "{field} {value:x}");
                let whole = [&48u64.to_le_bytes()[..], &bytes, &[0; 8]].concat();
                let came = asked(code::DUPLICATE_EXTENTS_TO_FILE_EX, &whole).await;
                assert_eq!(came, of_extents(field, value), "{field} {value:x}");
            }
            let ex = DuplicateExtentsEx {
                structure_size: 48.into(),
                extents,
                flags: 0.into(),
                reserved: 0.into(),
            };
            for Variant { field, value, bytes } in varied(&ex) {
                let expected = match (field, value) {
                    ("structure_size", _) => invalid,
                    // As a whole: no open has this number.
                    ("extents", _) => Status::INVALID_HANDLE,
                    ("flags", 0) | ("reserved", _) => ok,
                    // DUPLICATE_EXTENTS_DATA_EX_SOURCE_ATOMIC, the one that there is.
                    ("flags", 1) => unsupported,
                    ("flags", _) => invalid,
                    unknown => panic!("{unknown:?}"),
                };
                let came = asked(code::DUPLICATE_EXTENTS_TO_FILE_EX, &bytes).await;
                assert_eq!(came, expected, "{field} {value:x}");
            }
            for size in [40u64, 47, 49, 56] {
                let wrong = DuplicateExtentsEx { structure_size: size.into(), ..ex };
                let came = asked(code::DUPLICATE_EXTENTS_TO_FILE_EX, wrong.as_bytes()).await;
                assert_eq!(came, invalid, "{size}");
            }
            for open in [&from, &to] {
                side.share.close(&who, open, 0).await.unwrap();
            }
        },
    );
}
