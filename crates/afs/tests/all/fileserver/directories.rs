//! Directories as clients fetch them, which agree with a client's own edits of its copy.

use std::collections::BTreeMap;

use afs_wire::directory::{Directory, Target};
use afs_wire::{Fid, StoreStatus, rxafs};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use xdr::List;

use super::bed::{Client, code, run, without_hidden};

async fn fetch(client: &Client, fid: Fid) -> (Directory, u64) {
    let (bytes, reply) = client.fetch(fid, 0, 1 << 30).await.unwrap();
    assert_eq!(reply.status.length_low as usize, bytes.len());
    (Directory::parse(&bytes).unwrap(), reply.status.data_version())
}

fn target(fid: Fid) -> Target {
    Target { vnode: fid.vnode, uniquifier: fid.uniquifier }
}

#[test]
fn a_directory_names_nothing_that_is_not_served() {
    without_hidden(async move |bed| {
        for dir in ["d", ".hidden", ".well-known", "d/.well-known"] {
            bed.fs.create_dir_all(&format!("/srv/{dir}")).unwrap();
            bed.fs.write(&format!("/srv/{dir}/f"), "").unwrap();
            bed.fs.write(&format!("/srv/{dir}/.f"), "").unwrap();
        }
        let client = bed.client();
        let mut ahead = vec![bed.root()];
        let mut seen = Vec::new();
        while let Some(fid) = ahead.pop() {
            let (names, _) = fetch(&client, fid).await;
            for (name, target) in names.entries() {
                let fid = Fid { vnode: target.vnode, uniquifier: target.uniquifier, ..fid };
                let status = client.status(fid).await;
                assert!(status.is_ok(), "{} is named and not served", String::from_utf8_lossy(name));
                seen.push(String::from_utf8(name.to_vec()).unwrap());
                if fid.is_directory() {
                    ahead.push(fid);
                }
            }
        }
        seen.sort();
        assert_eq!(seen, [".well-known", "d", "f", "f"]);
        // Names that come by edits are of the image that was made.
        client.create(bed.root(), "new").await.unwrap();
        assert!(client.create(bed.root(), ".new").await.is_err());
        let (names, _) = fetch(&client, bed.root()).await;
        assert!(names.lookup(b"new").is_some() && names.lookup(b".hidden").is_none());
    });
}

/// Linux's client keeps the size that it was told with a version, whatever it fetches of that version later.
#[test]
fn a_directory_is_as_large_as_a_fetch_of_it_whichever_reply_tells_so() {
    for reply in 0..11 {
        run(async move |bed| {
            bed.fs.create_dir_all("/srv/large/below").unwrap();
            for n in 0..1000 {
                bed.fs.write(&format!("/srv/large/{n}"), "").unwrap();
            }
            // No client has fetched it from this server yet.
            let (client, root) = (bed.client(), bed.root());
            let (names, _) = fetch(&client, root).await;
            let fid = |target: Target| Fid { vnode: target.vnode, uniquifier: target.uniquifier, ..root };
            let large = fid(names.lookup(b"large").unwrap());
            let change = StoreStatus::default();
            let status = match reply {
                0 => client.status(large).await.unwrap(),
                1 => {
                    let told = client.call(&rxafs::BulkStatus { fids: List(vec![large]) }).await.unwrap();
                    told.get().statuses.0[0]
                }
                2 => {
                    let fids = List(vec![root, root, large]);
                    client.call(&rxafs::InlineBulkStatus { fids }).await.unwrap().get().statuses.0[2]
                }
                3 => client.create(large, "new").await.unwrap().directory_status,
                4 => client.make_dir(large, "new").await.unwrap().directory_status,
                5 => {
                    let request = rxafs::RemoveFile { directory: large, name: "7".into() };
                    client.call(&request).await.unwrap().get().status
                }
                6 => {
                    let request = rxafs::RemoveDir { directory: large, name: "below".into() };
                    client.call(&request).await.unwrap().get().status
                }
                7 => {
                    let request = rxafs::Rename {
                        from: large,
                        old_name: "7".into(),
                        to: root,
                        new_name: "seven".into(),
                    };
                    client.call(&request).await.unwrap().get().from_status
                }
                8 => {
                    let request =
                        rxafs::Symlink { directory: large, name: "new".into(), target: "7".into(), change };
                    client.call(&request).await.unwrap().get().directory_status
                }
                9 => client.call(&rxafs::FetchACL { fid: large }).await.unwrap().get().status,
                _ => {
                    let made = client.create(large, "made").await.unwrap();
                    let request = rxafs::Link { directory: large, name: "new".into(), existing: made.fid };
                    client.call(&request).await.unwrap().get().directory_status
                }
            };
            let (fetched, known) = fetch(&client, large).await;
            assert_eq!(
                (status.data_version(), status.length_low as usize),
                (known, fetched.size()),
                "reply {reply}"
            );
        });
    }
}

#[test]
fn a_clients_own_edits_leave_the_bytes_that_it_would_fetch() {
    run(async |bed| {
        for n in 0..300 {
            bed.fs.write(&format!("/srv/old{n}"), "").unwrap();
        }
        let (client, root) = (bed.client(), bed.root());
        let (mut copy, mut known) = fetch(&client, root).await;
        let mut names: BTreeMap<String, ()> = (0..300).map(|n| (format!("old{n}"), ())).collect();
        let mut random = SmallRng::seed_from_u64(5);
        for step in 0..300 {
            let pick = names.keys().nth(random.random_range(0..names.len())).cloned().unwrap();
            let new = format!("{step}-{}", "x".repeat(random.random_range(0..60)));
            let status = match random.random_range(0..4) {
                0 | 1 => {
                    let made = client.create(root, &new).await.unwrap();
                    copy.add(new.as_bytes(), target(made.fid)).unwrap();
                    names.insert(new, ());
                    made.directory_status
                }
                2 => {
                    let request = rxafs::RemoveFile { directory: root, name: pick.as_str().into() };
                    let removed = client.call(&request).await.unwrap().get();
                    copy.remove(pick.as_bytes()).unwrap();
                    names.remove(&pick);
                    removed.status
                }
                _ => {
                    let request = rxafs::Rename {
                        from: root,
                        old_name: pick.as_str().into(),
                        to: root,
                        new_name: new.as_str().into(),
                    };
                    let moved = client.call(&request).await.unwrap().get();
                    let target = copy.remove(pick.as_bytes()).unwrap();
                    copy.add(new.as_bytes(), target).unwrap();
                    names.remove(&pick);
                    names.insert(new, ());
                    moved.to_status
                }
            };
            assert_eq!(status.data_version(), known + 1, "step {step}");
            assert_eq!(status.length_low as usize, copy.size(), "step {step}");
            known += 1;
        }
        assert_eq!(client.broken(), [], "nobody else was here");
        let (fetched, version) = fetch(&client, root).await;
        assert_eq!(version, known);
        assert_eq!(fetched, copy, "byte for byte");
        assert_eq!(bed.server.counters().images_built.get(), 1);
        assert!(bed.server.counters().images_edited.get() > 0);
    });
}

/// A directory that is not empty stays, with all that clients know of it and of the one above.
#[test]
fn what_cannot_be_removed_is_as_it_was() {
    run(async |bed| {
        bed.fs.create_dir_all("/srv/dir/sub").unwrap();
        for n in 0..60 {
            bed.fs.write(&format!("/srv/dir/a rather long name of a file, number {n}"), "").unwrap();
        }
        bed.fs.write("/srv/dir/sub/other", "x").unwrap();
        let client = bed.client();
        let at = async |directory, name: &str| {
            let target = fetch(&client, directory).await.0.lookup(name.as_bytes()).unwrap();
            Fid { vnode: target.vnode, uniquifier: target.uniquifier, ..bed.root() }
        };
        let dir = at(bed.root(), "dir").await;
        let sub = at(dir, "sub").await;
        let other = at(sub, "other").await;
        let known = client.status(sub).await.unwrap().data_version();
        let link = rxafs::Symlink {
            directory: dir,
            name: "link".into(),
            target: "x".into(),
            change: StoreStatus::default(),
        };
        client.call(&link).await.unwrap();
        let (mut copy, mut above) = fetch(&client, dir).await;
        let refused = client.call(&rxafs::RemoveDir { directory: dir, name: "sub".into() }).await;
        assert_eq!(code(refused), afs_wire::code::ENOTEMPTY);
        assert_eq!(client.status(sub).await.unwrap().data_version(), known);
        assert_eq!(client.status(dir).await.unwrap().data_version(), above);
        for n in 0..60 {
            let gone = format!("a rather long name of a file, number {n}");
            let status = client.call(&rxafs::RemoveFile { directory: dir, name: gone.as_str().into() }).await;
            let status = status.unwrap().get().status;
            copy.remove(gone.as_bytes()).unwrap();
            above += 1;
            assert_eq!((status.data_version(), status.length_low as usize), (above, copy.size()), "{gone}");
            let fids = xdr::List(vec![dir, sub, other]);
            let told = client.call(&rxafs::InlineBulkStatus { fids }).await.unwrap();
            let errors: Vec<_> = told.get().statuses.0.iter().map(|status| status.error_code).collect();
            assert_eq!(errors, [0, 0, 0], "{gone}");
        }
        assert_eq!(fetch(&client, dir).await.0, copy);
        assert_eq!(fetch(&client, sub).await.0.lookup(b"other"), Some(target(other)));
    });
}

#[test]
fn what_others_do_shows_and_is_told() {
    run(async |bed| {
        let (one, two) = (bed.client(), bed.client());
        let (before, _) = fetch(&one, bed.root()).await;
        assert_eq!(before.entries().count(), 0);
        two.create(bed.root(), "new").await.unwrap();
        assert_eq!(one.broken(), [bed.root()]);
        assert!(fetch(&one, bed.root()).await.0.lookup(b"new").is_some());
        // Behind the server's back, and later than a tick of the file system's clock.
        let second = std::time::Duration::from_secs(1);
        lane::time::sleep(second).await;
        bed.fs.write("/srv/foreign", "").unwrap();
        lane::time::sleep(second).await;
        assert_eq!(one.broken(), [bed.root()]);
        assert!(fetch(&one, bed.root()).await.0.lookup(b"foreign").is_some());
    });
}

#[test]
fn a_moved_directory_has_another_parent() {
    run(async |bed| {
        let client = bed.client();
        let [a, b] = [
            client.make_dir(bed.root(), "a").await.unwrap().fid,
            client.make_dir(bed.root(), "b").await.unwrap().fid,
        ];
        let inner = client.make_dir(a, "inner").await.unwrap().fid;
        assert_eq!(fetch(&client, inner).await.0.lookup(b".."), Some(target(a)));
        let before = client.status(inner).await.unwrap().data_version();
        let request = rxafs::Rename { from: a, old_name: "inner".into(), to: b, new_name: "moved".into() };
        client.call(&request).await.unwrap();
        let (moved, after) = fetch(&client, inner).await;
        assert_eq!(after, before + 1);
        assert_eq!((moved.lookup(b".."), moved.lookup(b".")), (Some(target(b)), Some(target(inner))));
        assert_eq!(client.status(inner).await.unwrap().parent_vnode, b.vnode);
    });
}

#[test]
fn links_say_what_they_say_and_mount_points_are_told_by_it() {
    run(async |bed| {
        let client = bed.client();
        for (name, says, mode) in [("link", "page/one", 0o755), ("mount", "#root.cell.", 0o644)] {
            let change = StoreStatus::default();
            let request =
                rxafs::Symlink { directory: bed.root(), name: name.into(), target: says.into(), change };
            let made = client.call(&request).await.unwrap().get();
            assert_eq!((made.status.file_type, made.status.unix_mode_bits), (3, mode));
            assert_eq!(made.status.length_low as usize, says.len());
            let (bytes, reply) = client.fetch(made.fid, 0, 1000).await.unwrap();
            assert_eq!((bytes.as_slice(), reply.status), (says.as_bytes(), made.status));
            assert_eq!(client.fetch(made.fid, 2, 3).await.unwrap().0, says.as_bytes()[2..5]);
            let request = rxafs::RemoveFile { directory: bed.root(), name: name.into() };
            client.call(&request).await.unwrap();
            assert_eq!(code(client.status(made.fid).await), afs_wire::code::VNOVNODE);
        }
    });
}
