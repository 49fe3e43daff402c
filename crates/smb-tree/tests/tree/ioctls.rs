//! Control codes of files.

use lane::backend::sim::FsConfig;
use smb_tree::Answer;
use smb_wire::Status;
use smb_wire::create::Disposition;
use smb_wire::create::access::rights;
use smb_wire::fixed::prefix;
use smb_wire::fsctl::code;
use smb_wire::fsctl::copy::{
    CHUNK_LEN_MAX, Chunk, Copy, CopyResponse, DUPLICATE_SOURCE_ATOMIC, DuplicateExtents, DuplicateExtentsEx,
    ResumeKeyResponse,
};
use smb_wire::fsctl::ranges::parse_allocated;
use smb_wire::info::file::{class as file_class, plain};
use smb_wire::info::file_system::{AttributeFixed, attribute, class};
use zerocopy::IntoBytes;

use super::information::{file_system, set};
use super::{Wish, alone, on_disk, request_context};

fn pair(a: u64, b: u64) -> Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

#[test]
fn ranges_are_copied_between_opens_of_a_session() {
    alone(|side| async move {
        let who = request_context(1);
        let content: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        side.make(&who, "from", &content).await;
        let from = side.open(&who, "from", &Wish::new(Disposition::Open)).await;
        let to = side.open(&who, "to", &Wish::new(Disposition::Create)).await;
        let key = side.share.ioctl(&who, &from, code::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
        let key = *plain::<ResumeKeyResponse>(&key.output).unwrap();
        let chunk = |source: u64, target: u64, length: u32| Chunk {
            source_offset: source.into(),
            target_offset: target.into(),
            length: length.into(),
            reserved: 0.into(),
        };
        let copy = |chunks: &[Chunk]| Copy { source_key: &key.resume_key, chunks }.to_bytes();
        let input = copy(&[chunk(0, 5000, 4000), chunk(9000, 0, 1000)]);
        let done = side.share.ioctl(&who, &to, code::SRV_COPYCHUNK, &input, 12).await.unwrap();
        let response = plain::<CopyResponse>(&done.output).unwrap();
        assert_eq!((response.chunks_written.get(), response.total_bytes_written.get()), (2, 5000));
        assert_eq!(side.read(&who, &to, 5000, 4000).await, Ok(content[..4000].to_vec()));
        assert_eq!(side.read(&who, &to, 0, 1000).await, Ok(content[9000..].to_vec()));
        let input = copy(&[chunk(0, 0, CHUNK_LEN_MAX + 1)]);
        let limits = side.share.ioctl(&who, &to, code::SRV_COPYCHUNK, &input, 12).await.unwrap();
        assert_eq!(
            (limits.status, limits.output),
            (Status::INVALID_PARAMETER, CopyResponse::limits().as_bytes().to_vec())
        );
        let input = copy(&[chunk(9000, 0, 1001)]);
        let beyond = side.share.ioctl(&who, &to, code::SRV_COPYCHUNK_WRITE, &input, 12).await;
        let far = |answer: Answer| {
            let response = prefix::<CopyResponse>(&answer.output).unwrap().0;
            (answer.status, response.chunks_written.get(), response.total_bytes_written.get())
        };
        assert_eq!(beyond.map(far), Ok((Status::INVALID_VIEW_SIZE, 0, 0)), "it tells how far it came");
        let extents = DuplicateExtents {
            source: from.id(),
            source_offset: 0.into(),
            target_offset: 0.into(),
            byte_count: 10_000.into(),
        };
        set(&side, &who, &to, file_class::END_OF_FILE, &10_000u64.to_le_bytes()).await.unwrap();
        let shared =
            side.share.ioctl(&who, &to, code::DUPLICATE_EXTENTS_TO_FILE, extents.as_bytes(), 0).await;
        assert_eq!(shared.map(|answer| answer.status), Ok(Status::SUCCESS));
        assert_eq!(side.content(&who, "to").await, Ok(content));
        // Another session does not know the key.
        let other = request_context(2);
        let its = side.open(&other, "its", &Wish::new(Disposition::Create)).await;
        let stolen = side.share.ioctl(&other, &its, code::SRV_COPYCHUNK, &copy(&[chunk(0, 0, 1)]), 12).await;
        assert_eq!(stolen, Err(Status::OBJECT_NAME_NOT_FOUND));
        for (who, open) in [(&who, &from), (&who, &to), (&other, &its)] {
            side.share.close(who, open, 0).await.unwrap();
        }
    });
}

#[test]
fn extents_are_shared_where_the_file_system_can_and_clients_are_told() {
    for can in [true, false] {
        let config = move |fs: &mut FsConfig| fs.reflinks = can;
        on_disk(config, move |side| async move {
            let who = request_context(1);
            let content: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
            side.make(&who, "from", &content).await;
            let from = side.open(&who, "from", &Wish::new(Disposition::Open)).await;
            let to = side.open(&who, "to", &Wish::new(Disposition::Create)).await;
            // What is behind the end is not cloned into.
            set(&side, &who, &to, file_class::END_OF_FILE, &10_000u64.to_le_bytes()).await.unwrap();
            let told = file_system(&side, &who, &from, class::ATTRIBUTE).await;
            let (told, _) = prefix::<AttributeFixed>(&told).unwrap();
            assert_eq!(told.attributes.get() & attribute::SUPPORTS_BLOCK_REFCOUNTING != 0, can);
            let extents = |len: u64| DuplicateExtents {
                source: from.id(),
                source_offset: 0.into(),
                target_offset: 0.into(),
                byte_count: len.into(),
            };
            let ex = |len, flags: u32| DuplicateExtentsEx {
                structure_size: 48.into(),
                extents: extents(len),
                flags: flags.into(),
                reserved: 0.into(),
            };
            let asked = async |code, input: &[u8]| {
                side.share.ioctl(&who, &to, code, input, 0).await.map(|answer| answer.status)
            };
            let (plain, extended) = (code::DUPLICATE_EXTENTS_TO_FILE, code::DUPLICATE_EXTENTS_TO_FILE_EX);
            for (code, input, expected) in [
                (plain, extents(4096).as_bytes(), Ok(Status::SUCCESS)),
                (extended, ex(10_000, 0).as_bytes(), Ok(Status::SUCCESS)),
                (extended, ex(10_000, DUPLICATE_SOURCE_ATOMIC).as_bytes(), Err(Status::NOT_SUPPORTED)),
                (plain, extents(10_001).as_bytes(), Err(Status::NOT_SUPPORTED)),
                (extended, extents(1).as_bytes(), Err(Status::INVALID_PARAMETER)),
            ] {
                let expected = if can { expected } else { Err(Status::INVALID_DEVICE_REQUEST) };
                assert_eq!(asked(code, input).await, expected);
            }
            let copied = if can { content } else { vec![0; 10_000] };
            assert_eq!(side.content(&who, "to").await, Ok(copied));
            side.tree.close_all(&who, side.tree.opens().of_session(1)).await;
        });
    }
}

#[test]
fn holes_are_made_and_told_and_other_codes_are_refused() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &Wish::new(Disposition::Create)).await;
        side.share.write_bytes(&who, &open, 0, &[7; 65_536], false).await.unwrap();
        side.share.ioctl(&who, &open, code::SET_SPARSE, &[], 0).await.unwrap();
        side.share.ioctl(&who, &open, code::SET_ZERO_DATA, &pair(16_384, 49_152), 0).await.unwrap();
        let told = side.share.ioctl(&who, &open, code::QUERY_ALLOCATED_RANGES, &pair(0, 1 << 30), 64).await;
        let told = told.unwrap().output;
        let told = parse_allocated(&told).unwrap();
        let told: Vec<_> = told.iter().map(|range| (range.file_offset.get(), range.length.get())).collect();
        assert_eq!(told, [(0, 16_384), (49_152, 16_384)]);
        let cut = side.share.ioctl(&who, &open, code::QUERY_ALLOCATED_RANGES, &pair(0, 1 << 30), 16).await;
        assert_eq!(cut.map(|answer| (answer.status, answer.output.len())), Ok((Status::BUFFER_OVERFLOW, 16)));
        assert_eq!(side.read(&who, &open, 16_384, 4).await, Ok(vec![0; 4]));
        for (control, input, room, expected) in [
            (code::SET_ZERO_DATA, &pair(5, 4)[..], 0, Err(Status::INVALID_PARAMETER)),
            (code::CREATE_OR_GET_OBJECT_ID, &[], 64, Ok(64)),
            (code::CREATE_OR_GET_OBJECT_ID, &[], 63, Err(Status::INVALID_PARAMETER)),
            (code::GET_COMPRESSION, &[], 2, Ok(2)),
            (code::GET_COMPRESSION, &[], 1, Err(Status::INVALID_PARAMETER)),
            // A file system that compresses nothing: what is so already is so.
            (code::SET_COMPRESSION, &[0, 0], 0, Ok(0)),
            (code::SET_COMPRESSION, &[2, 0], 0, Err(Status::NOT_SUPPORTED)),
            (code::SET_COMPRESSION, &[1, 0], 0, Err(Status::NOT_SUPPORTED)),
            (code::SET_COMPRESSION, &[0x42, 0], 0, Err(Status::INVALID_PARAMETER)),
            (code::SET_COMPRESSION, &[0], 0, Err(Status::INVALID_PARAMETER)),
            (code::GET_REPARSE_POINT, &[], 1024, Err(Status::NOT_A_REPARSE_POINT)),
            (code::SRV_ENUMERATE_SNAPSHOTS, &[], 16, Ok(16)),
            (0x0009_ffff, &[], 64, Err(Status::INVALID_DEVICE_REQUEST)),
        ] {
            let answer = side.share.ioctl(&who, &open, control, input, room).await;
            assert_eq!(answer.map(|answer| answer.output.len()), expected, "{control:x}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
        let reader = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
        let reader = side.open(&who, "page", &reader).await;
        let refused = side.share.ioctl(&who, &reader, code::SET_ZERO_DATA, &pair(0, 1), 0).await;
        assert_eq!(refused, Err(Status::ACCESS_DENIED));
        let refused = side.share.ioctl(&who, &reader, code::SET_COMPRESSION, &[0, 0], 0).await;
        assert_eq!(refused, Err(Status::ACCESS_DENIED));
        side.share.close(&who, &reader, 0).await.unwrap();
    });
}
