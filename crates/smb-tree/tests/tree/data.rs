//! Reads and writes, closes and what goes with them.

use smb_wire::Status;
use smb_wire::body::close::FLAG_POSTQUERY_ATTRIB;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};

use super::{Wish, alone, on_lanes, request_context};

#[test]
fn what_is_written_is_read_and_close_tells_of_it() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &Wish::new(Disposition::Create)).await;
        assert_eq!(side.share.write_bytes(&who, &open, 0, b"hello world", true).await, Ok(11));
        assert_eq!(side.read(&who, &open, 6, 100).await, Ok(b"world".to_vec()));
        assert_eq!(side.read(&who, &open, 11, 1).await, Err(Status::END_OF_FILE));
        assert_eq!(side.share.read(&who, &open, 6, 9, 6).await.err(), Some(Status::END_OF_FILE));
        side.share.flush(&who, &open).await.unwrap();
        let closed = side.share.close(&who, &open, FLAG_POSTQUERY_ATTRIB).await.unwrap();
        assert_eq!((closed.end_of_file.get(), closed.allocation_size.get()), (11, 4096));
        assert_ne!(closed.last_write_time.get(), 0);
        assert_eq!(side.share.close(&who, &open, 0).await, Err(Status::FILE_CLOSED));
        assert_eq!(side.tree.opens().find(1, open.id()).err(), Some(Status::FILE_CLOSED));
    });
}

#[test]
fn an_open_does_only_what_it_was_granted() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"text").await;
        let only = |access| Wish { access, ..Wish::new(Disposition::Open) };
        let reader = side.open(&who, "page", &only(rights::READ_DATA)).await;
        assert_eq!(side.share.write_bytes(&who, &reader, 0, b"x", false).await, Err(Status::ACCESS_DENIED));
        assert_eq!(side.share.flush(&who, &reader).await, Err(Status::ACCESS_DENIED));
        let looker = side.open(&who, "page", &only(rights::READ_ATTRIBUTES)).await;
        assert_eq!(side.read(&who, &looker, 0, 1).await, Err(Status::ACCESS_DENIED));
        let appender = side.open(&who, "page", &only(rights::APPEND_DATA)).await;
        // As with Windows and Samba, a client that may append writes anywhere, but not beyond what NTFS has
        // room for.
        assert_eq!(side.share.write_bytes(&who, &appender, 0, b"T", false).await, Ok(1));
        assert_eq!(side.share.write_bytes(&who, &appender, 4, b"!", false).await, Ok(1));
        let beyond = side.share.write_bytes(&who, &appender, 0xfff_ffff_0000, b"x", false).await;
        assert_eq!(beyond, Err(Status::INVALID_PARAMETER));
        let directory = side.open(&who, "", &only(rights::FILE_READ)).await;
        assert_eq!(side.read(&who, &directory, 0, 1).await, Err(Status::INVALID_DEVICE_REQUEST));
        assert_eq!(side.content(&who, "page").await, Ok(b"Text!".to_vec()));
        // Another session has none of them.
        assert_eq!(side.tree.opens().find(2, reader.id()).err(), Some(Status::FILE_CLOSED));
        side.tree.close_all(&who, side.tree.opens().of_session(1)).await;
    });
}

#[test]
fn a_file_goes_with_its_last_open_and_a_stream_with_its_own() {
    alone(|side| async move {
        let who = request_context(1);
        let goes = Wish::new(Disposition::Create).with(options::DELETE_ON_CLOSE);
        let open = side.open(&who, "gone", &goes).await;
        let other = side.open(&who, "GONE", &Wish::new(Disposition::Open)).await;
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.status(&who, "gone", &Wish::new(Disposition::Open)).await, Status::DELETE_PENDING);
        side.share.close(&who, &other, 0).await.unwrap();
        assert_eq!(
            side.status(&who, "gone", &Wish::new(Disposition::Open)).await,
            Status::OBJECT_NAME_NOT_FOUND
        );
        side.make(&who, "page", b"data").await;
        let stream = side.open(&who, "page:one", &goes).await;
        side.share.write_bytes(&who, &stream, 3, b"more", false).await.unwrap();
        assert_eq!(side.read(&who, &stream, 0, 99).await, Ok(b"\0\0\0more".to_vec()));
        assert_eq!(side.content(&who, "page").await, Ok(b"data".to_vec()));
        side.share.close(&who, &stream, 0).await.unwrap();
        assert_eq!(
            side.status(&who, "page:one", &Wish::new(Disposition::Open)).await,
            Status::OBJECT_NAME_NOT_FOUND
        );
        assert_eq!(side.content(&who, "page").await, Ok(b"data".to_vec()));
    });
}

#[test]
fn an_open_of_one_lane_is_used_and_closed_by_another() {
    let handed = std::sync::Arc::new(std::sync::Mutex::new(None));
    on_lanes(1, 2, move |lane, side| {
        let handed = handed.clone();
        async move {
            let who = request_context(1);
            if lane == 0 {
                let open = side.open(&who, "page", &Wish::new(Disposition::Create)).await;
                side.share.write_bytes(&who, &open, 0, b"first", false).await.unwrap();
                handed.lock().unwrap().replace(open);
                while handed.lock().unwrap().is_some() {
                    lane::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                assert_eq!(side.content(&who, "page").await, Ok(b"second".to_vec()));
                return;
            }
            let open = loop {
                if let Some(open) = handed.lock().unwrap().clone() {
                    break open;
                }
                lane::time::sleep(std::time::Duration::from_millis(1)).await;
            };
            assert_eq!(side.read(&who, &open, 0, 9).await, Ok(b"first".to_vec()));
            side.share.write_bytes(&who, &open, 0, b"second", false).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
            handed.lock().unwrap().take();
        }
    });
}
