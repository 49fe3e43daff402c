//! A full disk: what finds no room is refused and leaves what there was, and is done once room is given back.

use smb_wire::Status;
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::{Disposition, options};
use smb_wire::info::file::{StandardInformation, class, plain};

use super::information::{file, set};
use super::{Wish, on_disk, request_context};

const KIB: usize = 1 << 10;

#[test]
fn a_write_without_room_leaves_what_was_written_before_and_goes_through_once_there_is_some() {
    on_disk(
        |fs| fs.capacity_bytes = 64 << 10,
        |side| async move {
            let who = request_context(1);
            side.make(&who, "filler", &[1; 32 * KIB]).await;
            side.make(&who, "page", &[7; 8 * KIB]).await;
            let open = side.open(&who, "page", &Wish::new(Disposition::Open)).await;
            let more = [9; 40 * KIB];
            let writes = async || side.share.write_bytes(&who, &open, 8 << 10, &more, false).await;
            assert_eq!(writes().await, Err(Status::DISK_FULL));
            assert_eq!(side.read(&who, &open, 0, 8 << 10).await, Ok(vec![7; 8 * KIB]));
            // What has its room is written over.
            assert_eq!(side.share.write_bytes(&who, &open, 0, &[8; 4 * KIB], true).await, Ok(4 << 10));
            let gone = Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, "filler", &gone).await, Status::SUCCESS);
            assert_eq!(writes().await, Ok(40 << 10));
            let whole = [vec![8; 4 * KIB], vec![7; 4 * KIB], more.to_vec()].concat();
            assert!(side.read(&who, &open, 0, 48 << 10).await == Ok(whole));
            side.share.close(&who, &open, 0).await.unwrap();
        },
    );
}

#[test]
fn room_that_there_is_not_is_set_aside_for_nobody_and_what_was_to_have_it_is_not_made() {
    on_disk(
        |fs| fs.capacity_bytes = 64 << 10,
        |side| async move {
            let who = request_context(1);
            side.make(&who, "page", &[7; 8 * KIB]).await;
            let open = side.open(&who, "page", &Wish::new(Disposition::Open)).await;
            let sized = async |size: u64, class| set(&side, &who, &open, class, &size.to_le_bytes()).await;
            assert_eq!(sized(1 << 20, class::ALLOCATION).await, Err(Status::DISK_FULL));
            let told = file(&side, &who, &open, class::STANDARD).await.unwrap();
            let told = plain::<StandardInformation>(&told).unwrap();
            assert_eq!((told.allocation_size.get(), told.end_of_file.get()), (8 << 10, 8 << 10));
            let allocated = |bytes: u64| {
                let mut out = ContextWriter::new();
                out.push(tag::ALLOCATION_SIZE, &bytes.to_le_bytes());
                Wish { contexts: out.bytes().to_vec(), ..Wish::new(Disposition::Create) }
            };
            assert_eq!(side.status(&who, "new", &allocated(1 << 20)).await, Status::DISK_FULL);
            let there = Wish::new(Disposition::Open);
            assert_eq!(side.status(&who, "new", &there).await, Status::OBJECT_NAME_NOT_FOUND);
            assert_eq!(side.status(&who, "new", &allocated(16 << 10)).await, Status::SUCCESS);
            assert_eq!(sized(16 << 10, class::ALLOCATION).await, Ok(()));
            // A length alone takes no room: what was not written is a hole.
            assert_eq!(sized(1 << 20, class::END_OF_FILE).await, Ok(()));
            assert_eq!(side.read(&who, &open, 0, 8 << 10).await, Ok(vec![7; 8 * KIB]));
            side.share.close(&who, &open, 0).await.unwrap();
        },
    );
}

#[test]
fn a_stream_without_room_is_not_made_and_no_file_for_it() {
    on_disk(
        |fs| fs.xattr_bytes_max = 200,
        |side| async move {
            let who = request_context(1);
            side.make(&who, "page", b"text").await;
            let (made, there) = (Wish::new(Disposition::Create), Wish::new(Disposition::Open));
            for file in ["page", "new"] {
                let name = format!("{file}:{}", "x".repeat(200));
                assert_eq!(side.status(&who, &name, &made).await, Status::DISK_FULL, "{name}");
                assert_eq!(side.status(&who, &name, &there).await, Status::OBJECT_NAME_NOT_FOUND, "{name}");
            }
            assert_eq!(side.status(&who, "new", &there).await, Status::OBJECT_NAME_NOT_FOUND);
            assert_eq!(side.content(&who, "page").await, Ok(b"text".to_vec()));
        },
    );
}
