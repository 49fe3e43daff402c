//! Tests of holes, room and copies on the disk.

use lane::fs::{Allocate, SeekTo, SyncOf};

use super::{Place, create, errno, everywhere, name, open, read, write};

#[test]
fn holes_are_punched_and_found() {
    everywhere(|_, root| async move {
        let file = create(&root, "file").await;
        let (mib, quarter) = (1 << 20, 256 << 10);
        write(&file, 0, &vec![1; mib as usize]).await;
        file.sync(SyncOf::All).await.unwrap();
        file.allocate(Allocate::Punch, quarter, quarter).await.unwrap();
        assert_eq!(file.stat().unwrap().size, mib);
        let content = read(&file).await;
        let (start, end) = (quarter as usize, 2 * quarter as usize);
        assert!(content[..start].iter().chain(&content[end..]).all(|&byte| byte == 1));
        assert!(content[start..end].iter().all(|&byte| byte == 0));
        assert_eq!(file.seek(0, SeekTo::Hole).await.unwrap(), quarter);
        assert_eq!(file.seek(quarter + 1, SeekTo::Data).await.unwrap(), 2 * quarter);
        assert_eq!(file.seek(2 * quarter, SeekTo::Hole).await.unwrap(), mib);
        assert_eq!(errno(file.seek(mib, SeekTo::Data).await), Err(libc::ENXIO));
        file.truncate(2 * mib).await.unwrap();
        assert_eq!(errno(file.seek(mib, SeekTo::Data).await), Err(libc::ENXIO));
        assert_eq!(file.seek(mib, SeekTo::Hole).await.unwrap(), mib);
    });
}

#[test]
fn room_is_taken_as_told() {
    everywhere(|place, root| async move {
        let file = create(&root, "file").await;
        file.allocate(Allocate::KeepSize, 0, 100_000).await.unwrap();
        assert_eq!(file.stat().unwrap().size, 0);
        file.allocate(Allocate::Extend, 50_000, 50_000).await.unwrap();
        assert_eq!(read(&file).await, vec![0; 100_000]);
        write(&file, 0, &[1; 100_000]).await;
        let zeroed = errno(file.allocate(Allocate::Zero, 90_000, 20_000).await);
        match place {
            Place::Tmpfs => assert_eq!(zeroed, Err(libc::EOPNOTSUPP)),
            Place::Ext4 | Place::Xfs => {
                assert_eq!(zeroed, Ok(()));
                assert_eq!(read(&file).await, [vec![1; 90_000], vec![0; 20_000]].concat());
            }
        }
        assert_eq!(errno(file.allocate(Allocate::Extend, 0, 0).await), Err(libc::EINVAL));
        file.sync_range(0, 50_000).await.unwrap();
        file.sync_range(0, 0).await.unwrap();
        file.sync_range(0, 1 << 40).await.unwrap();
    });
}

#[test]
fn copies_are_made_on_the_disk_and_room_is_shared_where_it_can_be() {
    everywhere(|place, root| async move {
        let (from, to) = (create(&root, "from").await, create(&root, "to").await);
        let content: Vec<u8> = (0..300_000_u32).map(|n| (n / 7) as u8).collect();
        write(&from, 0, &content).await;
        assert_eq!(from.copy_range(100_000, &to, 10, 1 << 20).await.unwrap(), 200_000);
        assert_eq!(read(&to).await, [&[0; 10], &content[100_000..]].concat());
        assert_eq!(from.copy_range(300_000, &to, 0, 100).await.unwrap(), 0);
        assert_eq!(errno(from.copy_range(0, &from, 5, 10).await), Err(libc::EINVAL));
        let reader = root.open(&name("to"), lane::fs::OpenHow::FOLLOW).await.unwrap();
        assert_eq!(errno(from.copy_range(0, &reader, 0, 10).await), Err(libc::EBADF));
        let shared = errno(to.reflink_from(&from).await);
        if place != Place::Xfs {
            return assert_eq!(shared, Err(libc::EOPNOTSUPP));
        }
        assert_eq!(shared, Ok(()));
        // A change of one is none of the other.
        write(&from, 0, b"changed").await;
        assert_eq!(read(&to).await, content);
        let again = open(&root, "to").await.unwrap();
        assert_eq!(read(&again).await, content);
    });
}
