//! Names and attributes: what changes make of them.

use afs_wire::code::{EACCES, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY, EWOULDBLOCK, EXDEV, VBUSY};
use afs_wire::{SET_MOD_TIME, SET_MODE, SET_OWNER, StoreStatus, rxafs};
use lane::backend::sim::Config;
use lane::fs::LockKind;
use vfs::Quota;

use super::bed::{Bed, Client, code, run, with, within};

#[test]
fn names_come_move_and_go() {
    run(async |bed| {
        let (client, root) = (bed.client(), bed.root());
        let d = client.make_dir(root, "d").await.unwrap();
        assert_eq!((d.status.file_type, d.directory_status.link_count), (2, 3));
        let f = client.create(d.fid, "f").await.unwrap();
        assert!(f.call_back.expires > 60);
        assert_eq!(code(client.create(d.fid, "f").await), EEXIST);
        assert_eq!(code(client.make_dir(d.fid, "f").await), EEXIST);
        let rename = |from, old: &'static str, to, new: &'static str| rxafs::Rename {
            from,
            old_name: old.into(),
            to,
            new_name: new.into(),
        };
        client.call(&rename(d.fid, "f", root, "g")).await.unwrap();
        assert_eq!(client.status(f.fid).await.unwrap().parent_vnode, 1, "the same file");
        assert_eq!(code(client.call(&rename(root, "none", root, "g")).await), ENOENT);
        assert_eq!(code(client.call(&rename(root, "d", d.fid, "in")).await), EINVAL);
        assert_eq!(code(client.call(&rename(root, "g", root, "d")).await), EISDIR);
        let elsewhere = afs_wire::Fid { volume: root.volume + 3, ..root };
        assert_eq!(code(client.call(&rename(root, "g", elsewhere, "g")).await), EXDEV);
        let remove = |name: &'static str| rxafs::RemoveFile { directory: root, name: name.into() };
        let remove_dir = |name: &'static str| rxafs::RemoveDir { directory: root, name: name.into() };
        assert_eq!(code(client.call(&remove("d")).await), EISDIR);
        assert_eq!(code(client.call(&remove_dir("g")).await), ENOTDIR);
        client.create(d.fid, "x").await.unwrap();
        assert_eq!(code(client.call(&remove_dir("d")).await), ENOTEMPTY);
        assert_eq!(code(client.call(&remove("none")).await), ENOENT);
        client.call(&rename(d.fid, "x", root, "g")).await.unwrap();
        client.call(&remove_dir("d")).await.unwrap();
        client.call(&remove("g")).await.unwrap();
        assert_eq!(code(client.create(d.fid, "late").await), afs_wire::code::VNOVNODE);
    });
}

#[test]
fn links_are_within_a_directory() {
    run(async |bed| {
        let (client, root) = (bed.client(), bed.root());
        let d = client.make_dir(root, "d").await.unwrap().fid;
        let f = client.create(root, "f").await.unwrap().fid;
        let link =
            |directory, name: &'static str, existing| rxafs::Link { directory, name: name.into(), existing };
        let linked = client.call(&link(root, "g", f)).await.unwrap().get();
        assert_eq!(linked.status.link_count, 2);
        assert_eq!(code(client.call(&link(d, "g", f)).await), EXDEV);
        assert_eq!(code(client.call(&link(root, "g", f)).await), EEXIST);
        assert_eq!(code(client.call(&link(root, "e", d)).await), afs_wire::code::EPERM);
        client.call(&rxafs::RemoveFile { directory: root, name: "f".into() }).await.unwrap();
        assert_eq!(client.status(f).await.unwrap().link_count, 1, "it lives by its other name");
    });
}

#[test]
fn a_file_outlives_each_of_its_names_wherever_it_was_moved() {
    run(async |bed| {
        let (client, root) = (bed.client(), bed.root());
        let d = client.make_dir(root, "d").await.unwrap().fid;
        let sub = client.make_dir(d, "sub").await.unwrap().fid;
        let f = client.create(d, "x").await.unwrap().fid;
        client.store(f, 0, b"x", 1).await.unwrap();
        let rename = |from, old: &'static str, to, new: &'static str| rxafs::Rename {
            from,
            old_name: old.into(),
            to,
            new_name: new.into(),
        };
        client.call(&rename(d, "x", d, "y")).await.unwrap();
        client.call(&rename(d, "y", sub, "z")).await.unwrap();
        let link =
            |directory, name: &'static str, existing| rxafs::Link { directory, name: name.into(), existing };
        let linked = client.call(&link(sub, "other", f)).await.unwrap().get();
        assert_eq!(linked.status.link_count, 2);
        assert_eq!(code(client.call(&link(d, "across", f)).await), EXDEV);
        client.call(&rxafs::RemoveFile { directory: sub, name: "z".into() }).await.unwrap();
        let status = client.status(f).await.unwrap();
        assert_eq!((status.link_count, status.parent_vnode), (1, sub.vnode));
        assert_eq!(client.fetch(f, 0, 100).await.unwrap().0, b"x");
        client.fetch(sub, 0, 4096).await.unwrap();
    });
}

#[test]
fn attributes_are_set_and_leave_the_version() {
    run(async |bed| {
        let client = bed.client();
        let made = client.create(bed.root(), "f").await.unwrap();
        let change = StoreStatus {
            mask: SET_MODE | SET_MOD_TIME,
            client_mod_time: 1_000_000,
            unix_mode_bits: 0o4640,
            ..StoreStatus::default()
        };
        let status = client.call(&rxafs::StoreStatus { fid: made.fid, change }).await.unwrap().get().status;
        assert_eq!(
            (status.unix_mode_bits, status.client_mod_time),
            (0o640, 1_000_000),
            "no bit that lends rights"
        );
        assert_eq!(status.data_version_low, made.status.data_version_low);
        let owner = StoreStatus { mask: SET_OWNER, owner: 5, ..StoreStatus::default() };
        assert_eq!(code(client.call(&rxafs::StoreStatus { fid: made.fid, change: owner }).await), EACCES);
        let nothing = StoreStatus::default();
        let same =
            client.call(&rxafs::StoreStatus { fid: made.fid, change: nothing }).await.unwrap().get().status;
        assert_eq!(same, status);
        // No user may administer the directory.
        assert_eq!(code(client.call(&rxafs::StoreStatus { fid: bed.root(), change }).await), EACCES);
    });
}

#[test]
fn access_lists_are_told_and_not_everybodys_to_set() {
    run(async |bed| {
        let client = bed.client();
        let f = client.create(bed.root(), "f").await.unwrap().fid;
        for fid in [bed.root(), f] {
            let told = client.call(&rxafs::FetchACL { fid }).await.unwrap();
            assert_eq!(&*told.get().access_list, b"0\n0\n\0");
        }
        let store = |fid, text: &'static [u8]| rxafs::StoreACL { fid, access_list: text.into() };
        let good = b"1\n0\nsystem:anyuser\t9\n\0";
        assert_eq!(code(client.call(&store(bed.root(), good)).await), EACCES);
        assert_eq!(code(client.call(&store(f, good)).await), ENOTDIR);
        assert_eq!(code(client.call(&store(bed.root(), b"1\n")).await), EINVAL);
        let old = rxafs::OldStoreACL { fid: bed.root(), access_list: good.into() };
        assert_eq!(code(client.call(&old).await), EACCES);
    });
}

#[test]
fn locks_are_one_hosts_or_shared_and_end_by_themselves() {
    run(async |bed| {
        let (one, two) = (bed.client(), bed.client());
        let fid = one.create(bed.root(), "f").await.unwrap().fid;
        let (read, write) = (rxafs::SetLock { fid, r#type: 0 }, rxafs::SetLock { fid, r#type: 1 });
        one.call(&read).await.unwrap();
        two.call(&read).await.unwrap();
        assert_eq!(two.status(fid).await.unwrap().lock_count, 2);
        assert_eq!(code(one.call(&write).await), EWOULDBLOCK, "another reads");
        let release = rxafs::ReleaseLock { fid };
        two.call(&release).await.unwrap();
        assert_eq!(code(two.call(&release).await), EINVAL);
        one.call(&write).await.unwrap();
        assert_eq!(two.status(fid).await.unwrap().lock_count as i32, -1);
        assert_eq!(two.status(bed.root()).await.unwrap().lock_count, 0);
        assert_eq!(code(two.call(&rxafs::SetLock { fid, r#type: 0 }).await), EWOULDBLOCK);
        assert_eq!(code(two.call(&rxafs::ExtendLock { fid }).await), EINVAL, "it has none");
        for _ in 0..3 {
            lane::time::sleep(std::time::Duration::from_secs(200)).await;
            one.call(&rxafs::ExtendLock { fid }).await.unwrap();
        }
        assert_eq!(
            code(two.call(&rxafs::OldSetLock { fid, r#type: 0, ..Default::default() }).await),
            EWOULDBLOCK
        );
        lane::time::sleep(std::time::Duration::from_secs(301)).await;
        two.call(&write).await.unwrap();
        assert_eq!(code(one.call(&rxafs::ExtendLock { fid }).await), EINVAL, "its time is over");
        two.call(&release).await.unwrap();
        assert_eq!(one.status(fid).await.unwrap().lock_count, 0);
        assert_eq!(code(one.call(&rxafs::SetLock { fid, r#type: 2 }).await), EINVAL);
    });
}

#[test]
fn programs_beside_the_server_and_clients_find_each_others_locks() {
    run(async |bed| {
        let client = bed.client();
        let fid = client.create(bed.root(), "f").await.unwrap().fid;
        let theirs = |kind| bed.fs.lock("/srv/f", 0..1, kind);
        let (read, write) = (rxafs::SetLock { fid, r#type: 0 }, rxafs::SetLock { fid, r#type: 1 });
        client.call(&write).await.unwrap();
        assert!(theirs(LockKind::Shared).is_err());
        // Of a lock that lasts longer nothing is let go meanwhile.
        lane::time::sleep(std::time::Duration::from_secs(200)).await;
        client.call(&rxafs::ExtendLock { fid }).await.unwrap();
        lane::time::sleep(std::time::Duration::from_secs(200)).await;
        assert!(theirs(LockKind::Shared).is_err());
        client.call(&rxafs::ReleaseLock { fid }).await.unwrap();
        lane::time::sleep(std::time::Duration::from_millis(5)).await;
        let held = theirs(LockKind::Shared).unwrap();
        assert_eq!(code(client.call(&write).await), EWOULDBLOCK);
        client.call(&read).await.unwrap();
        drop(held);
        assert!(theirs(LockKind::Exclusive).is_err());
        // A client that does not come back keeps it as long as it lasts.
        lane::time::sleep(std::time::Duration::from_secs(301)).await;
        assert!(theirs(LockKind::Exclusive).is_ok());
    });
}

#[test]
fn a_host_has_so_many_locks_and_no_more_until_some_are_over() {
    // Every file is kept open.
    with(Config { descriptors_max: 8192, ..Config::clean() }, async |bed| {
        let (one, two) = (bed.client(), bed.client());
        let refused = || bed.server.counters().locks_refused.get();
        let mut fids = Vec::new();
        for at in 0..1025 {
            bed.fs.write(&format!("/srv/{at}"), "").unwrap();
        }
        let (pages, _) = one.fetch(bed.root(), 0, 1 << 20).await.unwrap();
        let directory = afs_wire::directory::Directory::parse(&pages).unwrap();
        for at in 0..1025 {
            let target = directory.lookup(at.to_string().as_bytes()).unwrap();
            fids.push(afs_wire::Fid { vnode: target.vnode, uniquifier: target.uniquifier, ..bed.root() });
        }
        for fid in &fids[..1024] {
            one.call(&rxafs::SetLock { fid: *fid, r#type: 0 }).await.unwrap();
        }
        let last = rxafs::SetLock { fid: fids[1024], r#type: 0 };
        assert_eq!(code(one.call(&last).await), VBUSY);
        assert_eq!(refused(), 1);
        assert_eq!(one.status(fids[1024]).await.unwrap().lock_count, 0, "what was refused is not kept");
        // Another host's room is its own; and one that goes makes room.
        two.call(&last).await.unwrap();
        one.call(&rxafs::ReleaseLock { fid: fids[0] }).await.unwrap();
        one.call(&last).await.unwrap();
        assert_eq!(code(one.call(&rxafs::SetLock { fid: fids[0], r#type: 0 }).await), VBUSY);
        lane::time::sleep(std::time::Duration::from_secs(301)).await;
        one.call(&rxafs::SetLock { fid: fids[0], r#type: 0 }).await.unwrap();
        assert_eq!(refused(), 2);
    });
}

#[test]
fn who_makes_names_where_others_do_is_told_of_each_however_often_they_change_it() {
    run(async |bed| {
        let clients: Vec<_> = (0..8).map(|_| bed.client()).collect();
        let tasks: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let root = bed.root();
                lane::spawn(async move {
                    for at in 0..20 {
                        let name = format!("{number}-{at}");
                        assert_eq!(code(client.create(root, &name).await), 0, "{name}");
                        let request = rxafs::RemoveFile { directory: root, name: name.as_str().into() };
                        assert_eq!(code(client.call(&request).await), 0, "{name}");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
}

/// A list of nothing, as Samba keeps it with a file.
const NOBODY: [u8; 36] = [
    1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 4, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 2, 0, 8, 0, 0, 0,
    0, 0,
];

#[test]
fn a_files_own_descriptor_counts_for_its_maker_too_and_who_has_a_callback_hears_of_it() {
    run(async |bed| {
        let client = bed.client();
        let fid = client.create(bed.root(), "f").await.unwrap().fid;
        client.store(fid, 0, b"blob", 4).await.unwrap();
        assert_eq!(client.status(fid).await.unwrap().caller_access & 0x7f, 0x3f, "rlidwk");
        client.broken();
        let operator = vfs::Caller::new(identity::Accounts::none().local_administrator());
        let at = vfs::RelPath::parse(b"f").unwrap();
        let found = bed.volume.lookup_as(&operator, at, identity::Rights::NONE).await.unwrap();
        let root = bed.volume.lookup_as(&operator, vfs::RelPath::ROOT, identity::Rights::NONE).await.unwrap();
        let (root, _) = root.into_directory().unwrap();
        let nothing = smb_sid::ntacl::parse(&NOBODY).unwrap();
        let name = vfs::Name::parse(b"f").unwrap();
        root.set_descriptor_of(&operator, name, found.object().unwrap(), &nothing.into()).await.unwrap();
        lane::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(client.broken(), [fid]);
        assert_eq!(code(client.store(fid, 0, b"X", 4).await), EACCES);
        assert_eq!(code(client.fetch(fid, 0, 9).await), EACCES);
        assert_eq!(client.status(fid).await.unwrap().caller_access & 0x7f, 8, "who may list sees attributes");
    });
}

/// A file that a local program has made, as `local`, and a client has read.
async fn local_file(bed: &Bed, client: &Client) -> afs_wire::Fid {
    bed.fs.write("/srv/local", "as it was").unwrap();
    let (pages, _) = client.fetch(bed.root(), 0, 1 << 20).await.unwrap();
    let found = afs_wire::directory::Directory::parse(&pages).unwrap().lookup(b"local").unwrap();
    let local = afs_wire::Fid { vnode: found.vnode, uniquifier: found.uniquifier, ..bed.root() };
    client.fetch(local, 0, 9).await.unwrap();
    local
}

#[test]
fn a_store_that_is_refused_keeps_no_file_open() {
    within(Quota { bytes: Some(100_000), ..Quota::default() }, async |bed| {
        let client = bed.client();
        let local = local_file(&bed, &client).await;
        let idle = bed.host.descriptors();
        let too_much = client.store(local, 0, &[7; 64], 200_000_000).await;
        assert_ne!(code(too_much), 0);
        assert!(code(client.store(local, 1 << 40, &[7; 64], 64).await) != 0);
        lane::time::sleep(std::time::Duration::from_millis(100)).await;
        let refused = bed.host.descriptors();
        assert!(refused <= idle, "{refused} and {idle}");
        // What is stored to is kept for the next store, and no longer than ten seconds.
        assert_eq!(code(client.store(local, 0, b"another", 7).await), 0);
        assert!(bed.host.descriptors() > refused);
        lane::time::sleep(std::time::Duration::from_secs(3)).await;
        assert!(bed.host.descriptors() > refused);
        lane::time::sleep(std::time::Duration::from_secs(9)).await;
        assert!(bed.host.descriptors() <= refused);
    });
}

#[test]
fn what_was_stored_to_is_closed_two_seconds_after_its_last_name_went() {
    type Change = fn(&lane::backend::sim::Fs);
    let changes: [(&str, Change); 3] = [
        ("removed", |fs| fs.remove("/srv/local").unwrap()),
        ("replaced", |fs| {
            fs.write("/srv/new", "other").unwrap();
            fs.rename("/srv/new", "/srv/local").unwrap();
        }),
        ("one of two names removed", |fs| {
            fs.hard_link("/srv/local", "/srv/other").unwrap();
            fs.remove("/srv/local").unwrap();
        }),
    ];
    for (what, change) in changes {
        within(Quota::default(), async move |bed| {
            let client = bed.client();
            let local = local_file(&bed, &client).await;
            lane::time::sleep(std::time::Duration::from_secs(20)).await;
            assert_eq!(code(client.store(local, 0, b"another", 7).await), 0);
            assert_eq!(bed.fs.unnamed().inodes, 0);
            change(&bed.fs);
            lane::time::sleep(std::time::Duration::from_millis(2_000)).await;
            assert_eq!(bed.fs.unnamed().inodes, 0, "{what}");
            assert_eq!(code(client.store(local, 0, b"again", 5).await) == 0, what.contains("two"), "{what}");
        });
    }
}
