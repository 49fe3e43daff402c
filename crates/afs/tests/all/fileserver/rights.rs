//! Rights by access lists, and lists that clients set.

use std::rc::Rc;

use afs::attached_volumes::{AfsName, AttachedVolumes, Attachment, VolumeType};
use afs_wire::code::EACCES;
use afs_wire::{Fid, StoreStatus, rxafs};
use identity::{Accounts, Acl, Rights, Side};
use vfs::{Caller, RelPath};

use super::bed::{Bed, Client, code, run};

/// Gives every user these rights in a directory.
async fn give(bed: &Bed, directory: &str, rights: Rights) {
    let mut acl = Acl::new();
    acl.set(Side::Given, "system:anyuser".parse().unwrap(), rights).unwrap();
    set(bed, directory, &acl).await;
}

/// An operator puts a list on a directory.
async fn set(bed: &Bed, directory: &str, acl: &Acl) {
    let operator = Caller::new(Accounts::none().local_administrator());
    let path = RelPath::parse(directory.as_bytes()).unwrap();
    let found = bed.volume.lookup_as(&operator, path, Rights::NONE).await.unwrap();
    let (found, _) = found.into_directory().unwrap();
    found.set_access_list(&operator, Some(acl)).await.unwrap();
}

/// Returns what becomes of each change of names in `d`, by its code.
async fn attempts(client: &Client, root: Fid, d: Fid, round: usize) -> Vec<(&'static str, i32)> {
    let name = |what: &str| format!("{what}{round}");
    let change = StoreStatus::default();
    let rename = |from, old: String, to, new: String| rxafs::Rename {
        from,
        old_name: old.into_bytes().into(),
        to,
        new_name: new.into_bytes().into(),
    };
    let symlink = rxafs::Symlink {
        directory: d,
        name: name("link").into_bytes().into(),
        target: "there".into(),
        change,
    };
    let remove = rxafs::RemoveFile { directory: d, name: name("old").into_bytes().into() };
    let remove_dir = rxafs::RemoveDir { directory: d, name: name("empty").into_bytes().into() };
    vec![
        ("CreateFile", code(client.create(d, &name("new")).await)),
        ("MakeDir", code(client.make_dir(d, &name("dir")).await)),
        ("Symlink", code(client.call(&symlink).await)),
        ("RemoveFile", code(client.call(&remove).await)),
        ("RemoveDir", code(client.call(&remove_dir).await)),
        ("Rename within", code(client.call(&rename(d, name("within"), d, name("moved"))).await)),
        ("Rename out", code(client.call(&rename(d, name("out"), root, name("out"))).await)),
        ("Rename in", code(client.call(&rename(root, name("in"), d, name("in"))).await)),
    ]
}

#[test]
fn names_come_by_the_right_to_insert_and_go_by_that_to_delete() {
    run(async |bed| {
        let (client, root) = (bed.client(), bed.root());
        let d = client.make_dir(root, "d").await.unwrap().fid;
        for round in 0..4 {
            for (directory, name) in [(d, "old"), (d, "within"), (d, "out"), (root, "in")] {
                client.create(directory, &format!("{name}{round}")).await.unwrap();
            }
            client.make_dir(d, &format!("empty{round}")).await.unwrap();
        }
        let rights = [Rights::NONE, Rights::INSERT, Rights::DELETE, Rights::INSERT | Rights::DELETE];
        let others = Rights::READ | Rights::LOOKUP | Rights::WRITE | Rights::LOCK;
        for (round, rights) in rights.into_iter().enumerate() {
            give(&bed, "d", rights | others).await;
            let before = client.status(d).await.unwrap().data_version();
            let outcomes = attempts(&client, root, d, round).await;
            for (what, outcome) in &outcomes {
                let need = match *what {
                    "CreateFile" | "MakeDir" | "Symlink" | "Rename in" => Rights::INSERT,
                    "RemoveFile" | "RemoveDir" | "Rename out" => Rights::DELETE,
                    _ => Rights::INSERT | Rights::DELETE,
                };
                let wanted = if rights.contains(need) { 0 } else { EACCES };
                assert_eq!(*outcome, wanted, "{what} with {rights:?}");
            }
            // What was refused has changed nothing.
            let made = outcomes.iter().filter(|(_, outcome)| *outcome == 0).count() as u64;
            assert_eq!(client.status(d).await.unwrap().data_version(), before + made, "{rights:?}");
        }
    });
}

#[test]
fn a_list_that_a_client_sets_is_read_back_and_counts_at_once() {
    run(async |bed| {
        let (client, other) = (bed.client(), bed.client());
        let d = client.make_dir(bed.root(), "d").await.unwrap().fid;
        give(&bed, "d", Rights::ALL).await;
        let read = async |client: &Client| {
            let told = client.call(&rxafs::FetchACL { fid: d }).await.unwrap();
            String::from_utf8(told.get().access_list.to_vec()).unwrap()
        };
        let before = other.status(d).await.unwrap();
        other.broken();
        let text = "1\n1\nsystem:anyuser\t127\nmallory\t2\n\0";
        let request = rxafs::StoreACL { fid: d, access_list: text.into() };
        let told = client.call(&request).await.unwrap().get().status;
        assert_eq!(told.data_version(), before.data_version(), "no name has changed");
        assert_eq!((read(&client).await, read(&other).await), (text.to_owned(), text.to_owned()));
        assert!(!other.broken().is_empty(), "whoever relied on rights has heard");
        // By the number of old, and without the right to add names.
        let text = "1\n0\nsystem:anyuser\t9\n\0";
        let request = rxafs::OldStoreACL { fid: d, access_list: text.into() };
        let told = client.call(&request).await.unwrap().get().status;
        assert_eq!((told.caller_access & 0x7f, told.anonymous_access & 0x7f), (9, 9));
        assert_eq!(read(&other).await, text);
        assert_eq!(code(other.create(d, "new").await), EACCES);
        assert_eq!(code(client.call(&request).await), EACCES, "who has given away the right to set it");
    });
}

/// A denial of an existing user denies no other. One of an unknown name denies every user, as it may have
/// been any user's: so names are judged by the accounts of the server, whichever protocol asks.
#[test]
fn denials_are_judged_by_the_accounts_of_the_server() {
    run(async |bed| {
        let client = bed.client();
        let d = client.make_dir(bed.root(), "d").await.unwrap().fid;
        let attach = |accounts: &Accounts| {
            let name: AfsName = "files".parse().unwrap();
            let attachment =
                Attachment { volume: "files".parse().unwrap(), name, kind: VolumeType::ReadWrite };
            let attached = AttachedVolumes::of([(attachment, bed.volume.clone())]).unwrap();
            bed.server.attach(Rc::new(attached.with_accounts(accounts)));
        };
        let text = "version = 1\n[user.bob]\nid = 1001\n[group.staff]\nid = -2001\nmembers = [\"bob\"]\n";
        let accounts = Accounts::parse(text).unwrap();
        let given = Rights::ALL.without(Rights::ADMINISTER);
        for (round, (name, is_known)) in
            [("bob", true), ("staff", true), ("eve", false)].into_iter().enumerate()
        {
            let mut acl = Acl::new();
            acl.set(Side::Given, "system:anyuser".parse().unwrap(), given).unwrap();
            acl.set(Side::Denied, name.parse().unwrap(), Rights::INSERT).unwrap();
            set(&bed, "d", &acl).await;
            attach(&accounts);
            let wanted = if is_known { 0 } else { EACCES };
            assert_eq!(code(client.create(d, &format!("a{round}")).await), wanted, "{name}");
            attach(&Accounts::none());
            assert_eq!(code(client.create(d, &format!("b{round}")).await), EACCES, "{name} is nobody's name");
        }
    });
}
