//! AFSVol: lists and room, and what is refused.

use afs::attached_volumes::VolumeType;
use afs::cell::Volumes;
use afs_wire::code::cell::{VOLSERBAD_ACCESS, VOLSERILLEGAL_PARTITION, VOLSERNOVOL};
use afs_wire::{self as wire, afs_vol};
use xdr::rpc::{Call, Received};

use crate::cell::with;

const FILES: &[(&str, VolumeType)] = &[("files", VolumeType::ReadWrite), ("music", VolumeType::ReadOnly)];
const ENOENT: i32 = 2;
const ENODEV: i32 = 19;

async fn ask<P: Call>(client: &crate::cell::Client, request: &P) -> Result<Received<P>, i32> {
    client.ask(Volumes::SERVICE, request).await
}

#[test]
fn volumes_are_listed_whole_or_by_number_in_both_forms() {
    with(FILES, async |client| {
        let files = client.first();
        let music = client.cell.get().attached.all()[1].id();
        let list = |whole| afs_vol::ListVolumes { partition: 0, whole };
        let reply = ask(&client, &list(1)).await.unwrap();
        let whole = reply.get().volumes.0;
        assert_eq!(whole.len(), 2);
        assert_eq!((whole[0].name.text(), whole[0].volume, whole[0].kind), (&b"files"[..], files, 0));
        assert_eq!(
            (whole[1].name.text(), whole[1].volume, whole[1].kind),
            (&b"music.readonly"[..], music, 1)
        );
        assert_eq!((whole[1].parent_volume, whole[0].parent_volume), (music - 1, files));
        for volume in &whole {
            assert_eq!((volume.status, volume.in_use, volume.quota_max), (2, 1, 0));
            assert!(volume.created > 0 && volume.updated >= volume.created);
        }
        let numbers = ask(&client, &list(0)).await.unwrap().get().volumes.0;
        assert_eq!((numbers[0].volume, numbers[1].volume, numbers[0].name.text()), (files, music, &b""[..]));
        let long = ask(&client, &afs_vol::XListVolumes { partition: 0, whole: 1 }).await.unwrap();
        for (long, short) in long.get().volumes.iter().zip(&whole) {
            assert_eq!((long.name, long.volume, long.kind), (short.name, short.volume, short.kind));
            assert_eq!((long.created, long.size, long.files), (short.created, short.size, short.files));
        }
        let one = ask(&client, &afs_vol::ListOneVolume { partition: 0, volume: music }).await.unwrap();
        assert_eq!(one.get().volumes.0, [whole[1]]);
        let one = ask(&client, &afs_vol::XListOneVolume { partition: 0, volume: files }).await.unwrap();
        assert_eq!(one.get().volumes[0].name.text(), b"files");
        let second = ask(&client, &afs_vol::GetNthVolume { index: 1 }).await.unwrap();
        assert_eq!((second.get().volume, second.get().partition), (music, 0));
        assert!(ask(&client, &afs_vol::Monitor {}).await.unwrap().get().transactions.is_empty());
    });
}

#[test]
fn a_copy_is_told_of_to_who_asks_by_its_number_and_in_no_list() {
    with(FILES, async |client| {
        let files = client.first();
        for (kind, name) in [(1, &b"files.readonly"[..]), (2, b"files.backup")] {
            let (partition, volume) = (0, files + kind);
            let short = ask(&client, &afs_vol::ListOneVolume { partition, volume }).await.unwrap();
            let short = short.get().volumes[0];
            assert_eq!((short.name.text(), short.volume, short.kind), (name, volume, kind as i32));
            assert_eq!((short.parent_volume, short.status, short.in_use), (files, 2, 1));
            let long = ask(&client, &afs_vol::XListOneVolume { partition, volume }).await.unwrap();
            let long = long.get().volumes[0];
            assert_eq!((long.name, long.volume, long.kind), (short.name, volume, kind as i32));
        }
        let list = ask(&client, &afs_vol::ListVolumes { partition: 0, whole: 0 }).await.unwrap();
        assert_eq!(list.get().volumes.len(), 2);
    });
}

#[test]
fn a_partition_is_a_file_system_with_its_room() {
    with(FILES, async |client| {
        let old = ask(&client, &afs_vol::ListPartitions {}).await.unwrap().get().partitions;
        assert_eq!((old.id[0], &old.id[1..]), (0, &[-1; 25][..]));
        assert_eq!(ask(&client, &afs_vol::XListPartitions {}).await.unwrap().get().partitions.0, [0]);
        let room = client.cell.get().attached.all()[0].volume.room().await.unwrap();
        let kilobytes = |blocks: u64| (blocks * room.block_bytes / 1024) as i64;
        for name in ["/vicepa", "/vicepa\0"] {
            let wide =
                ask(&client, &afs_vol::PartitionInfo64 { name: name.into() }).await.unwrap().get().partition;
            assert_eq!(wide.name.text(), b"/vicepa");
            assert_eq!((wide.total, wide.free), (kilobytes(room.blocks), kilobytes(room.blocks_free)));
            let old =
                ask(&client, &afs_vol::PartitionInfo { name: name.into() }).await.unwrap().get().partition;
            assert_eq!(i64::from(old.total), wide.total.min(i32::MAX.into()));
            assert_eq!((old.usable, wide.usable), (old.total, wide.total), "what `vos partinfo` prints");
        }
        let absent = afs_vol::PartitionInfo64 { name: "/vicepb".into() };
        assert_eq!(ask(&client, &absent).await.unwrap_err(), VOLSERILLEGAL_PARTITION);
    });
}

#[test]
fn what_is_not_there_is_refused_as_stock_servers_do() {
    with(FILES, async |client| {
        let volume = client.first();
        // Of the second volume a copy alone is told of.
        let tree_of_music = client.cell.get().attached.all()[1].first;
        for absent in [tree_of_music, volume - 1] {
            let absent = afs_vol::ListOneVolume { partition: 0, volume: absent };
            assert_eq!(ask(&client, &absent).await.unwrap_err(), ENODEV);
        }
        let elsewhere = afs_vol::ListOneVolume { partition: 1, volume };
        assert_eq!(ask(&client, &elsewhere).await.unwrap_err(), VOLSERILLEGAL_PARTITION);
        let list = afs_vol::ListVolumes { partition: -1, whole: 1 };
        assert_eq!(ask(&client, &list).await.unwrap_err(), VOLSERILLEGAL_PARTITION);
        for index in [2, -1] {
            assert_eq!(ask(&client, &afs_vol::GetNthVolume { index }).await.unwrap_err(), VOLSERNOVOL);
        }
        assert_eq!(ask(&client, &afs_vol::GetStatus { transaction: 1 }).await.unwrap_err(), ENOENT);
        assert_eq!(ask(&client, &afs_vol::EndTrans { transaction: 1 }).await.unwrap_err(), ENOENT);
        assert_eq!(ask(&client, &afs_vol::GetFlags { transaction: 1 }).await.unwrap_err(), ENOENT);
        assert_eq!(ask(&client, &afs_vol::GetName { transaction: 1 }).await.err(), Some(ENOENT));
        assert_eq!(ask(&client, &afs_vol::GetSize { transaction: 1, since: 0 }).await.unwrap_err(), ENOENT);
    });
}

#[test]
fn nothing_can_be_changed() {
    with(FILES, async |client| {
        let (volume, transaction, partition) = (client.first(), 1, 0);
        let name = || "new".into();
        let cookie = wire::RestoreCookie::default();
        let server = wire::Destination::default();
        let create = afs_vol::CreateVolume { partition, name: name(), kind: 0, parent: 0, volume: 0 };
        let forward = afs_vol::Forward { transaction, since: 0, server, there_transaction: 0, cookie };
        let many = afs_vol::ForwardMultiple { transaction, cookie, ..Default::default() };
        let ids = afs_vol::SetIdsTypes { transaction, name: name(), ..Default::default() };
        let signal = afs_vol::SignalRestore { name: name(), kind: 0, parent: 0, clone: 0 };
        let info = wire::VolumeInfo::default();
        let refusals = [
            ask(&client, &afs_vol::TransCreate { volume, partition, flags: 0 }).await.err(),
            ask(&client, &create).await.err(),
            ask(&client, &afs_vol::DeleteVolume { transaction }).await.err(),
            ask(&client, &forward).await.err(),
            ask(&client, &many).await.err(),
            ask(&client, &afs_vol::Clone { transaction, purged: 0, kind: 1, name: name(), volume: 0 })
                .await
                .err(),
            ask(&client, &afs_vol::ReClone { transaction, clone: 0 }).await.err(),
            ask(&client, &afs_vol::SetFlags { transaction, flags: 0 }).await.err(),
            ask(&client, &afs_vol::SetForwarding { transaction, site: 0 }).await.err(),
            ask(&client, &signal).await.err(),
            ask(&client, &ids).await.err(),
            ask(&client, &afs_vol::NukeVolume { partition, volume }).await.err(),
            ask(&client, &afs_vol::SetDate { transaction, date: 0 }).await.err(),
            ask(&client, &afs_vol::SetInfo { transaction, info }).await.err(),
            ask(&client, &afs_vol::ConvertToReadWrite { partition, volume }).await.err(),
        ];
        assert_eq!(refusals, [Some(VOLSERBAD_ACCESS); 15]);
        // Of a split call's data the end is not awaited.
        let mut call = client.connect(Volumes::SERVICE).call().await.unwrap();
        xdr::rpc::start(&mut call, &afs_vol::Restore { transaction, flags: 0, cookie }).await.unwrap();
        let _ = call.write(&[0; 10_000]).await;
        assert_eq!(call.read_to_end(1).await.unwrap_err(), rx_lane::CallError::Aborted(VOLSERBAD_ACCESS));
        assert_eq!(client.counters.changes_refused.get(), 16);
        for opcode in [afs_vol::opcode::DUMP, afs_vol::opcode::DUMP_V2] {
            let mut call = client.connect(Volumes::SERVICE).call().await.unwrap();
            let words = [opcode, 1, 0, 0].map(u32::to_be_bytes).concat();
            call.write(&words).await.unwrap();
            call.finish().await.unwrap();
            assert_eq!(call.read_to_end(1).await.unwrap_err(), rx_lane::CallError::Aborted(ENOENT));
        }
    });
}
