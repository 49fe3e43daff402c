//! `root.afs` and `root.cell` where they are made up.

use std::rc::Rc;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::roots::SyntheticVolumes;
use afs_wire::code::{EROFS, VNOVNODE, VNOVOL};
use afs_wire::directory::Directory;
use afs_wire::{CALL_BACK_SHARED, FILE_TYPE_DIRECTORY, FILE_TYPE_SYMBOLIC_LINK, Fid, rxafs};
use vfs::Number;
use xdr::List;

use super::bed::{Bed, code, run};

/// The roots of the bed's volume from now on; the number of one of them.
fn set_synthetic(bed: &Bed, synthetic: &SyntheticVolumes, cell: Option<&str>) {
    let (volume, name) = (bed.volume.name().clone(), "files".parse().unwrap());
    let attachment = Attachment { volume, name, kind: VolumeType::ReadWrite };
    let attached =
        AttachedVolumes::of([(attachment, bed.volume.clone())]).unwrap().with_synthetic(synthetic.clone());
    synthetic.set(cell, attached.all());
    bed.server.attach(Rc::new(attached));
}

fn root(name: &[u8], bed: &Bed, synthetic: &SyntheticVolumes) -> Fid {
    let (volume, name_of) = (bed.volume.name().clone(), "files".parse().unwrap());
    let attachment = Attachment { volume, name: name_of, kind: VolumeType::ReadWrite };
    let attached =
        AttachedVolumes::of([(attachment, bed.volume.clone())]).unwrap().with_synthetic(synthetic.clone());
    let (known, _) = attached.located_by_name(name).expect("it is made up");
    Fid { volume: known.id(), ..bed.fid(Number::ROOT) }
}

#[test]
fn the_way_from_root_afs_to_a_volume_is_read_as_any_directory_and_link() {
    run(async |bed| {
        let synthetic = SyntheticVolumes::default();
        set_synthetic(&bed, &synthetic, Some("test.example"));
        let client = bed.client();
        for (from, name, says) in
            [(&b"root.afs"[..], &b"test.example"[..], "#root.cell."), (b"root.cell", b"files", "#files.")]
        {
            let own = root(from, &bed, &synthetic);
            let status = client.status(own).await.unwrap();
            assert_eq!((status.file_type, status.caller_access), (FILE_TYPE_DIRECTORY, 9));
            let (pages, reply) = client.fetch(own, 0, i64::from(i32::MAX)).await.unwrap();
            assert_eq!((pages.len() as u32, reply.status), (status.length_low, status));
            assert_eq!(reply.call_back.r#type, CALL_BACK_SHARED);
            assert!(reply.call_back.expires > 60);
            let target = Directory::parse(&pages).unwrap().lookup(name).expect("the name is there");
            let link = Fid { vnode: target.vnode, uniquifier: target.uniquifier, ..own };
            let fids = List(vec![own, link, bed.root()]);
            let told = client.call(&rxafs::InlineBulkStatus { fids }).await.unwrap().get();
            let types: Vec<_> =
                told.statuses.0.iter().map(|status| (status.file_type, status.error_code)).collect();
            assert_eq!(
                types,
                [(FILE_TYPE_DIRECTORY, 0), (FILE_TYPE_SYMBOLIC_LINK, 0), (FILE_TYPE_DIRECTORY, 0)]
            );
            assert_eq!(told.statuses.0[1].unix_mode_bits, 0o644, "a mount point");
            assert_eq!(client.fetch(link, 0, 100).await.unwrap().0, says.as_bytes());
            assert_eq!(client.fetch(link, 3, 2).await.unwrap().0, &says.as_bytes()[3..5]);
            assert!(client.fetch(link, 100, 2).await.unwrap().0.is_empty());
        }
    });
}

#[test]
fn everybody_may_read_what_is_made_up_and_nobody_may_change_it() {
    run(async |bed| {
        let synthetic = SyntheticVolumes::default();
        set_synthetic(&bed, &synthetic, Some("test.example"));
        let (client, own) = (bed.client(), root(b"root.cell", &bed, &synthetic));
        let list = client.call(&rxafs::FetchACL { fid: own }).await.unwrap();
        assert_eq!(&list.get().access_list[..], b"1\n0\nsystem:anyuser\t9\n\0");
        let volume = client.call(&rxafs::GetVolumeStatus { volume: own.volume }).await.unwrap();
        assert_eq!((&volume.get().name[..], volume.get().status.id), (&b"root.cell"[..], own.volume as i32));
        let named = client.call(&rxafs::GetRootVolume).await.unwrap();
        assert_eq!(&named.get().name[..], b"root.afs");
        assert_eq!(code(client.create(own, "x").await), EROFS);
        assert_eq!(code(client.make_dir(own, "x").await), EROFS);
        assert_eq!(code(client.store(own, 0, b"x", 1).await), EROFS);
        let remove = rxafs::RemoveFile { directory: own, name: "files".into() };
        assert_eq!(code(client.call(&remove).await), EROFS);
        for wrong in [Fid { vnode: 2, ..own }, Fid { uniquifier: 2, ..own }, Fid { vnode: 0, ..own }] {
            assert_eq!(code(client.status(wrong).await), VNOVNODE, "{wrong}");
        }
        assert_eq!(client.status(Fid { volume: own.volume + 1, ..own }).await.unwrap().file_type, 2);
        // Where they are not made up any more, no client has them.
        set_synthetic(&bed, &synthetic, None);
        assert_eq!(code(client.status(own).await), VNOVOL);
        assert_eq!(code(client.call(&rxafs::GetVolumeStatus { volume: own.volume }).await), VNOVOL);
        assert_eq!(client.status(bed.root()).await.unwrap().file_type, FILE_TYPE_DIRECTORY);
    });
}
