//! VL: every form of an entry, lists, and what is refused.

use afs::attached_volumes::VolumeType;
use afs::cell::{Location, Volumes};
use afs::roots::SyntheticVolumes;
use afs_wire::code::cell::{
    VL_BADINDEX, VL_BADMASK, VL_BADNAME, VL_BADVOLTYPE, VL_INDEXERANGE, VL_NOENT, VL_PERM,
};
use afs_wire::{self as wire, afs_vol, vl};
use xdr::List;
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Received, code};

use crate::cell::{SINCE, UUID, with};

const ADDRESS: u32 = u32::from_be_bytes([10, 0, 0, 1]);
const FILES: &[(&str, VolumeType)] = &[
    ("files", VolumeType::ReadWrite),
    ("music", VolumeType::ReadOnly),
    ("root.cell", VolumeType::ReadWrite),
];

async fn ask<P: Call>(client: &crate::cell::Client, request: &P) -> Result<Received<P>, i32> {
    client.ask(Location::SERVICE, request).await
}

#[test]
fn an_entry_is_the_same_in_all_three_forms_by_name_and_by_number() {
    with(FILES, async |client| {
        let first = client.first();
        for name in ["files", "files\0", &first.to_string()] {
            let old = ask(&client, &vl::GetEntryByName { name: name.into() }).await.unwrap().get().entry;
            let plain = ask(&client, &vl::GetEntryByNameN { name: name.into() }).await.unwrap().get().entry;
            let by_uuid = ask(&client, &vl::GetEntryByNameU { name: name.into() }).await.unwrap().get().entry;
            assert_eq!(
                (old.name.text(), plain.name.text(), by_uuid.name.text()),
                (&b"files"[..], &b"files"[..], &b"files"[..])
            );
            assert_eq!((old.site_count, plain.site_count, by_uuid.site_count), (1, 1, 1));
            assert_eq!((old.server[0], plain.server[0], by_uuid.server[0]), (ADDRESS, ADDRESS, UUID));
            assert_eq!((old.partition[0], plain.partition[0], by_uuid.partition[0]), (0, 0, 0));
            assert_eq!((old.site_flags[0], plain.site_flags[0], by_uuid.site_flags[0]), (4, 4, 0x14));
            assert_eq!(plain.volume, [first, first + 1, first + 2]);
            assert_eq!((old.volume, by_uuid.volume), (plain.volume, plain.volume));
            assert_eq!((old.flags, plain.flags, by_uuid.flags), (0x1000, 0x1000, 0x1000));
        }
        let by_name = ask(&client, &vl::GetEntryByNameN { name: "files".into() }).await.unwrap().get().entry;
        for kind in [-1, 0] {
            let request = vl::GetEntryByIDN { volume: first, kind };
            assert_eq!(ask(&client, &request).await.unwrap().get().entry, by_name);
        }
        let request = vl::GetEntryByID { volume: first, kind: -1 };
        assert_eq!(ask(&client, &request).await.unwrap().get().entry.volume, by_name.volume);
        let request = vl::GetEntryByIDU { volume: first, kind: -1 };
        assert_eq!(ask(&client, &request).await.unwrap().get().entry.volume, by_name.volume);
    });
}

#[test]
fn a_copy_is_told_of_only_to_who_asks_for_it() {
    with(FILES, async |client| {
        let first = client.first();
        for (name, id, flags, site) in
            [("files.readonly", first + 1, 0x3000, 2), ("files.backup", first + 2, 0x5000, 8)]
        {
            let by_name = ask(&client, &vl::GetEntryByNameN { name: name.into() }).await.unwrap().get().entry;
            let by_id = ask(&client, &vl::GetEntryByIDN { volume: id, kind: -1 }).await.unwrap().get().entry;
            assert_eq!(by_name, by_id);
            assert_eq!(
                (by_id.flags, by_id.site_count, &by_id.site_flags[..3]),
                (flags, 2, &[4, site, 0][..])
            );
        }
        // Nor of the tree of what is attached as a copy, though its number leads there.
        let music = ask(&client, &vl::GetEntryByNameN { name: "music".into() }).await.unwrap().get().entry;
        assert_eq!((music.flags, music.site_count, music.site_flags[0]), (0x2000, 1, 2));
        let tree = vl::GetEntryByIDN { volume: music.volume[0], kind: -1 };
        assert_eq!(ask(&client, &tree).await.unwrap().get().entry, music);
    });
}

#[test]
fn clients_without_a_root_of_their_own_begin_at_the_first_volume() {
    with(FILES, async |client| {
        for (name, leads_to) in [("root.afs", &b"files"[..]), ("root.cell", b"root.cell")] {
            let entry = ask(&client, &vl::GetEntryByNameU { name: name.into() }).await.unwrap().get().entry;
            assert_eq!(entry.name.text(), leads_to);
        }
    });
}

#[test]
fn roots_that_are_made_up_are_told_of_beside_the_volumes() {
    with(&[("files", VolumeType::ReadWrite)], async |client| {
        let synthetic = SyntheticVolumes::default();
        client.set_synthetic(&synthetic);
        let mut names = Vec::new();
        for (name, kinds) in [("root.afs", 0x1000), ("root.cell", 0x1000)] {
            let entry = ask(&client, &vl::GetEntryByNameU { name: name.into() }).await.unwrap().get().entry;
            assert_eq!((entry.name.text(), entry.flags), (name.as_bytes(), kinds));
            let by_id = vl::GetEntryByIDU { volume: entry.volume[1], kind: 1 };
            assert_eq!(ask(&client, &by_id).await.unwrap().get().entry.name, entry.name);
            let one = afs_vol::ListOneVolume { partition: 0, volume: entry.volume[0] };
            let told = client.ask(Volumes::SERVICE, &one).await.unwrap().get().volumes.0[0];
            assert_eq!((told.name.text(), told.status, told.files), (name.as_bytes(), 2, 2));
            assert!(told.created > 0);
            names.push(entry.volume[0]);
        }
        let all = wire::LocationChoice::default();
        let listed = ask(&client, &vl::ListAttributesN { choice: all }).await.unwrap().get();
        assert_eq!(listed.count, 3);
        let list = afs_vol::XListVolumes { partition: 0, whole: 1 };
        let listed = client.ask(Volumes::SERVICE, &list).await.unwrap().get().volumes.0;
        let numbers: Vec<_> = listed.iter().map(|volume| volume.volume).collect();
        assert_eq!(numbers[1..], names);
    });
}

#[test]
fn what_is_not_there_or_cannot_be_is_refused_as_stock_servers_do() {
    with(FILES, async |client| {
        let first = client.first();
        let name = |name: &'static str| vl::GetEntryByNameU { name: name.into() };
        assert_eq!(ask(&client, &name("nowhere")).await.unwrap_err(), VL_NOENT);
        assert_eq!(ask(&client, &name("")).await.unwrap_err(), VL_BADNAME);
        let id = |volume, kind| vl::GetEntryByIDN { volume, kind };
        assert_eq!(ask(&client, &id(7, -1)).await.unwrap_err(), VL_NOENT);
        assert_eq!(ask(&client, &id(first, 1)).await.unwrap_err(), VL_NOENT);
        assert_eq!(ask(&client, &id(first, 3)).await.unwrap_err(), VL_BADVOLTYPE);
        assert_eq!(ask(&client, &vl::ListEntry { previous: 4 }).await.unwrap_err(), VL_BADINDEX);
        assert_eq!(ask(&client, &vl::ListEntryN { previous: -1 }).await.unwrap_err(), VL_BADINDEX);
        let choice = wire::LocationChoice { mask: 0x100, ..Default::default() };
        assert_eq!(ask(&client, &vl::ListAttributesN { choice }).await.unwrap_err(), VL_BADMASK);
        assert_eq!(client.counters.volumes_not_found.get(), 3);
    });
}

#[test]
fn lists_have_every_volume_once_and_choose_by_server_partition_volume_and_flag() {
    with(FILES, async |client| {
        let mut names = Vec::new();
        let mut previous = 0;
        loop {
            let reply = ask(&client, &vl::ListEntryN { previous }).await.unwrap();
            if reply.get().next == 0 {
                break;
            }
            assert_eq!(reply.get().count as usize, 3 - names.len());
            names.push(reply.get().entry.name.text().to_vec());
            previous = reply.get().next;
        }
        assert_eq!(names, [&b"files"[..], b"music", b"root.cell"]);
        let old = ask(&client, &vl::ListEntry { previous: 1 }).await.unwrap();
        assert_eq!(old.get().entry.name.text(), b"music");

        let all = wire::LocationChoice::default();
        let at = |server| wire::LocationChoice { mask: wire::VL_BY_SERVER, server, ..all };
        let partition = |partition| wire::LocationChoice { mask: wire::VL_BY_PARTITION, partition, ..all };
        let volume = |volume| wire::LocationChoice { mask: wire::VL_BY_VOLUME, volume, ..all };
        let flag = |flag| wire::LocationChoice { mask: wire::VL_BY_FLAG, flag, ..all };
        let first = client.first();
        for (choice, count) in [
            (all, 3),
            (at(ADDRESS), 3),
            (at(ADDRESS + 1), 0),
            (partition(0), 3),
            (partition(1), 0),
            (volume(first), 1),
            (volume(first + 2), 1),
            (volume(1), 0),
            (flag(0x2000), 1),
        ] {
            let reply = ask(&client, &vl::ListAttributes { choice }).await.unwrap();
            assert_eq!((reply.get().count, reply.get().entries.len()), (count, count as usize), "{choice:?}");
            let reply = ask(&client, &vl::ListAttributesN { choice }).await.unwrap();
            assert_eq!((reply.get().count, reply.get().entries.len()), (count, count as usize));
            let request = vl::ListAttributesN2 { choice, name: "".into(), start: 0 };
            let reply = ask(&client, &request).await.unwrap();
            assert_eq!((reply.get().count, reply.get().next), (count, -1));
        }
        let request = vl::ListAttributesN2 { choice: all, name: "music".into(), start: 0 };
        assert_eq!(ask(&client, &request).await.unwrap().get().entries[0].name.text(), b"music");
        let request = vl::ListAttributesN2 { choice: all, name: ".*".into(), start: 2 };
        let reply = ask(&client, &request).await.unwrap();
        assert_eq!((reply.get().count, reply.get().entries[0].name.text()), (1, &b"root.cell"[..]));
    });
}

#[test]
fn a_server_is_found_by_uuid_address_and_number() {
    with(FILES, async |client| {
        let entry = ask(&client, &vl::GetEntryByNameU { name: "files".into() }).await.unwrap().get().entry;
        let none = wire::ServerChoice::default();
        for choice in [
            wire::ServerChoice { mask: wire::VL_BY_UUID as i32, uuid: UUID, ..none },
            wire::ServerChoice { mask: wire::VL_BY_ADDRESS as i32, address: ADDRESS, ..none },
            wire::ServerChoice { mask: wire::VL_BY_INDEX as i32, index: 1, ..none },
        ] {
            let reply = ask(&client, &vl::GetAddrsU { choice }).await.unwrap();
            let reply = reply.get();
            assert_eq!((reply.uuid, reply.count, &reply.addresses[..]), (UUID, 1, &[ADDRESS][..]));
            assert_eq!(reply.unique, entry.unique[0], "else clients ask again and again");
        }
        for (choice, refusal) in [
            (wire::ServerChoice { mask: wire::VL_BY_UUID as i32, uuid: AfsUuid([1; 16]), ..none }, VL_NOENT),
            (wire::ServerChoice { mask: wire::VL_BY_ADDRESS as i32, address: 1, ..none }, VL_NOENT),
            (wire::ServerChoice { mask: wire::VL_BY_INDEX as i32, index: 2, ..none }, VL_INDEXERANGE),
            (none, VL_BADMASK),
        ] {
            assert_eq!(ask(&client, &vl::GetAddrsU { choice }).await.unwrap_err(), refusal);
        }
        let all = ask(&client, &vl::GetAddrs { handle: 0, spare: 0 }).await.unwrap();
        assert_eq!((all.get().count, &all.get().addresses[..]), (1, &[ADDRESS][..]));
    });
}

#[test]
fn statistics_count_calls_by_their_numbers() {
    with(FILES, async |client| {
        ask(&client, &vl::Probe {}).await.unwrap();
        ask(&client, &vl::GetEntryByNameN { name: "files".into() }).await.unwrap();
        ask(&client, &vl::GetEntryByNameN { name: "nowhere".into() }).await.unwrap_err();
        let reply = ask(&client, &vl::GetStats {}).await.unwrap();
        let vl::GetStatsReply { statistics, header } = reply.get();
        assert_eq!(statistics.since, SINCE);
        let (probe, by_name) = (514 - 501, 519 - 501);
        assert_eq!((statistics.requests[probe], statistics.requests[by_name]), (1, 2));
        assert_eq!((statistics.aborts[probe], statistics.aborts[by_name]), (0, 1));
        assert_eq!((header.version, header.entries), (4, [2, 1, 0]));
        assert_eq!(client.counters.location_calls.get(), 4);
    });
}

#[test]
fn nothing_can_be_changed() {
    with(FILES, async |client| {
        let volume = client.first();
        let release = 0;
        let entry = wire::LocationEntryOld::default();
        let plain = wire::LocationEntry::default();
        let update = wire::LocationUpdate::default();
        let refusals = [
            ask(&client, &vl::CreateEntry { entry }).await.err(),
            ask(&client, &vl::DeleteEntry { volume, kind: 0 }).await.err(),
            ask(&client, &vl::GetNewVolumeId { count: 1 }).await.err(),
            ask(&client, &vl::ReplaceEntry { volume, kind: 0, entry, release }).await.err(),
            ask(&client, &vl::UpdateEntry { volume, kind: 0, update, release }).await.err(),
            ask(&client, &vl::SetLock { volume, kind: 0, operation: 0x10 }).await.err(),
            ask(&client, &vl::ReleaseLock { volume, kind: 0, release }).await.err(),
            ask(&client, &vl::ChangeAddr { old: ADDRESS, new: 1 }).await.err(),
            ask(&client, &vl::CreateEntryN { entry: plain }).await.err(),
            ask(&client, &vl::ReplaceEntryN { volume, kind: 0, entry: plain, release }).await.err(),
            ask(&client, &vl::UpdateEntryByName { name: "files".into(), update, release }).await.err(),
            ask(&client, &vl::RegisterAddrs { uuid: UUID, spare: 0, addresses: List(vec![1]) }).await.err(),
        ];
        assert_eq!(refusals, [Some(VL_PERM); 12]);
        assert_eq!(client.counters.changes_refused.get(), 12);
        // Linux asks for this first of all, and takes the refusal for a stock server's.
        let mut call = client.connect(Location::SERVICE).call().await.unwrap();
        call.write(&65537u32.to_be_bytes()).await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.read_to_end(100).await.unwrap_err(), rx_lane::CallError::Aborted(code::OPCODE));
    });
}
