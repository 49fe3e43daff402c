//! Security descriptors of single files and directories: kept, kept to for every caller, and handed down.

use std::sync::Arc;

use identity::{Accounts, Id, Rights};
use lane::backend::sim::{Config, World};
use smb_sid::Sids;
use smb_wire::create::access::rights::{APPEND_DATA, FILE_ALL, FILE_EXECUTE, FILE_READ, READ_DATA};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_flags, ace_type};
use vfs::{Caller, CreateOptions, Directory, Error, Expect, Resolved, Volume};

use super::usage::{count, walk};
use super::{Process, directory, name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

fn accounts() -> Arc<Accounts> {
    let text = "version = 1\n[user.alice]\nid = 1\n[user.bob]\nid = 2\n[user.root]\nid = 3\n\
                [group.\"system:administrators\"]\nid = -204\nmembers = [\"root\"]\n";
    Accounts::parse(text).unwrap()
}

fn caller(who: &str) -> Caller {
    Caller::new(accounts().user(who).unwrap())
}

fn sids() -> Sids {
    Sids::new("files")
}

fn allow(flags: u8, mask: u32, sid: Sid) -> Ace {
    Ace { kind: ace_type::ACCESS_ALLOWED, flags, mask, sid }
}

fn with(aces: Vec<Ace>) -> Arc<Descriptor> {
    Arc::new(Descriptor { dacl: Some(aces), ..Descriptor::default() })
}

/// Alice alone.
fn private() -> Arc<Descriptor> {
    with(vec![allow(0, FILE_ALL, sids().of_id(Id(1)))])
}

async fn describe(volume: &Volume, home: &Directory, of: &str, descriptor: &Arc<Descriptor>) {
    let at = format!("home/{of}");
    let found = volume.lookup_as(&caller("root"), path(&at), Rights::NONE).await.unwrap();
    let object = found.object().unwrap();
    home.set_descriptor_of(&caller("root"), name(of), object, descriptor).await.unwrap();
}

async fn rights(volume: &Volume, who: &Caller, at: &str) -> Rights {
    match volume.lookup_with_rights(who, path(at), Rights::NONE).await {
        Ok(found) => found.rights(&who.principal),
        Err(Error::Denied(_)) => Rights::NONE,
        Err(other) => panic!("{at}: {other}"),
    }
}

/// Runs a test with a volume in which every user may write, and a directory `home` with a file `page`.
fn in_home<F: Future<Output = ()> + 'static>(
    test: impl Fn(Volume, Directory, Process) -> F + Copy + 'static,
) {
    on_lanes(1, Config::clean(), 1, move |_, process, volume| async move {
        process.objects.call_by(sids());
        let home = root(&volume).await.make_directory(&nobody(), name("home"), 0o755).await.unwrap();
        home.create(&nobody(), name("page"), NEW).await.unwrap();
        test(volume, home, process).await;
    });
}

#[test]
fn a_file_with_a_descriptor_is_its_own_and_its_neighbour_the_directorys() {
    in_home(|volume, home, _| async move {
        home.create(&nobody(), name("other"), NEW).await.unwrap();
        describe(&volume, &home, "page", &private()).await;
        for (who, page) in [("alice", "rlwka"), ("bob", "l"), ("root", "la")] {
            let who = caller(who);
            assert_eq!(rights(&volume, &who, "home/page").await.to_string(), page, "{who:?}");
            assert!(rights(&volume, &who, "home/other").await.contains(Rights::WRITER), "{who:?}");
        }
        let (alice, bob) = (caller("alice"), caller("bob"));
        let read = |who: &Caller| {
            let (volume, who) = (volume.clone(), who.clone());
            async move { volume.lookup_as(&who, path("home/page"), Rights::READ).await.map(drop) }
        };
        assert!(read(&alice).await.is_ok());
        assert!(matches!(read(&bob).await, Err(Error::Denied(_))));
        assert!(matches!(read(&nobody()).await, Err(Error::Denied(_))));
        assert!(home.open_writer(&alice, name("page")).await.is_ok());
        assert!(matches!(home.open_writer(&bob, name("page")).await, Err(Error::Denied(_))));
        assert!(matches!(home.link(&bob, name("page"), name("two")).await, Err(Error::Denied(_))));
        let times = lane::fs::AttributeChange { mode: Some(0o600), ..lane::fs::AttributeChange::NONE };
        assert!(matches!(home.set_attributes_of(&bob, name("page"), times).await, Err(Error::Denied(_))));
        assert!(home.set_attributes_of(&alice, name("page"), times).await.is_ok());
    });
}

#[test]
fn what_is_granted_is_told_as_smb_has_it() {
    in_home(|volume, home, _| async move {
        let appends = with(vec![allow(0, FILE_EXECUTE | APPEND_DATA, Sid::EVERYONE)]);
        describe(&volume, &home, "page", &appends).await;
        let bob = caller("bob");
        let found = volume.lookup_with_rights(&bob, path("home/page"), Rights::NONE).await.unwrap();
        assert_eq!(found.granted(&bob.principal), Some(FILE_EXECUTE | APPEND_DATA));
        // To others, which know no such thing, it is no right to write or read.
        assert!(!found.rights(&bob.principal).intersects(Rights::WRITE | Rights::READ));
        assert!(matches!(home.open_writer(&bob, name("page")).await, Err(Error::Denied(_))));
        let home = volume.lookup_with_rights(&bob, path("home"), Rights::NONE).await.unwrap();
        assert_eq!(home.granted(&bob.principal), None);
    });
}

#[test]
fn who_may_not_write_to_a_file_does_not_replace_it_whole_and_a_new_content_keeps_the_descriptor() {
    in_home(|volume, home, _| async move {
        describe(&volume, &home, "page", &private()).await;
        let staged = home.stage(&caller("bob"), 0o644).await.unwrap();
        let refused = staged.publish(&caller("bob"), name("page"), Expect::Anything).await;
        assert!(matches!(refused, Err(Error::Denied(_))));
        let staged = home.stage(&caller("alice"), 0o644).await.unwrap();
        let put = staged.publish(&caller("alice"), name("page"), Expect::Anything).await.unwrap();
        assert!(!put.is_new);
        assert_eq!(put.file.object().unwrap().descriptor(), Some(private()));
        assert!(!rights(&volume, &caller("bob"), "home/page").await.contains(Rights::READ));
    });
}

#[test]
fn what_is_made_in_a_directory_with_a_descriptor_gets_its_own_of_it_whoever_makes_it_and_how() {
    in_home(|volume, home, _| async move {
        let below = ace_flags::OBJECT_INHERIT | ace_flags::CONTAINER_INHERIT;
        let root = caller("root");
        let handed = with(vec![
            allow(below, FILE_READ | FILE_EXECUTE, Sid::EVERYONE),
            allow(below, FILE_ALL, Sid::CREATOR_OWNER),
            allow(0, FILE_ALL, sids().of_id(Id(1))),
        ]);
        home.set_descriptor(&root, &handed).await.unwrap();
        let (alice, bob) = (caller("alice"), caller("bob"));
        home.create(&alice, name("made"), NEW).await.unwrap();
        let staged = home.stage(&alice, 0o644).await.unwrap();
        staged.publish(&alice, name("put"), Expect::Absent).await.unwrap();
        let sub = home.make_directory(&alice, name("sub"), 0o755).await.unwrap();
        sub.create(&alice, name("deep"), NEW).await.unwrap();
        for at in ["home/made", "home/put", "home/sub/deep"] {
            assert_eq!(rights(&volume, &alice, at).await.to_string(), "rlwka", "{at}");
            assert_eq!(rights(&volume, &bob, at).await.to_string(), "rlk", "{at}");
        }
        assert_eq!(rights(&volume, &bob, "home/sub").await.to_string(), "rlk");
        assert!(matches!(home.create(&bob, name("no"), NEW).await, Err(Error::Denied(_))));
        // Where nothing is handed down, what is made belongs to its maker.
        home.set_descriptor(&root, &with(vec![allow(0, FILE_ALL, Sid::EVERYONE)])).await.unwrap();
        home.create(&bob, name("bobs"), NEW).await.unwrap();
        assert!(rights(&volume, &bob, "home/bobs").await.contains(Rights::WRITE));
        assert!(!rights(&volume, &alice, "home/bobs").await.contains(Rights::READ));
    });
}

#[test]
fn descriptors_count_for_what_a_volume_holds() {
    let world = World::new(1, Config::clean());
    let process = Process { is_counted: true, ..Process::new(&world, 1) };
    let (host, fs) = (process.host.clone(), process.host.fs());
    world.block_on(&host, async move {
        process.objects.call_by(sids());
        let volume = process.volume();
        count(&volume).await;
        let used = || volume.space().unwrap().used;
        let (who, top) = (nobody(), root(&volume).await);
        let home = top.make_directory(&who, name("home"), 0o755).await.unwrap();
        home.create(&who, name("page"), NEW).await.unwrap();
        describe(&volume, &home, "page", &private()).await;
        assert!(used().bytes > 0);
        assert_eq!(used(), walk(&fs));
        let below = ace_flags::OBJECT_INHERIT | ace_flags::CONTAINER_INHERIT;
        home.set_descriptor(&caller("root"), &with(vec![allow(below, FILE_ALL, Sid::EVERYONE)]))
            .await
            .unwrap();
        home.create(&who, name("made"), NEW).await.unwrap();
        let staged = home.stage(&who, 0o644).await.unwrap();
        staged.publish(&who, name("put"), Expect::Absent).await.unwrap();
        home.make_directory(&who, name("sub"), 0o755).await.unwrap();
        assert_eq!(used(), walk(&fs));
        let staged = home.stage(&who, 0o644).await.unwrap();
        staged.publish(&who, name("put"), Expect::Anything).await.unwrap();
        home.remove(&who, name("made")).await.unwrap();
        home.remove_directory(&who, name("sub")).await.unwrap();
        assert_eq!(used(), walk(&fs));
        assert_eq!(count(&volume).await.used, used());
    });
}

#[test]
fn who_may_not_pass_through_a_directory_finds_nothing_in_it_and_a_list_set_there_counts_again() {
    in_home(|volume, home, _| async move {
        home.set_descriptor(&caller("root"), &private()).await.unwrap();
        let bob = caller("bob");
        assert!(matches!(
            volume.lookup_as(&bob, path("home/page"), Rights::NONE).await,
            Err(Error::Denied(_))
        ));
        assert_eq!(rights(&volume, &bob, "home").await, Rights::NONE);
        assert!(rights(&volume, &caller("alice"), "home").await.contains(Rights::ALL));
        let mut acl = identity::Acl::new();
        acl.set(identity::Side::Given, "bob".parse().unwrap(), Rights::READER).unwrap();
        home.set_access_list(&caller("root"), Some(&acl)).await.unwrap();
        assert_eq!(home.object().unwrap().descriptor(), None);
        assert_eq!(rights(&volume, &bob, "home").await.to_string(), "rl");
        assert_eq!(rights(&volume, &caller("alice"), "home").await, Rights::NONE);
    });
}

#[test]
fn a_descriptor_outlives_the_process_and_one_that_cannot_be_read_grants_nothing() {
    in_home(|volume, home, process| async move {
        describe(&volume, &home, "page", &private()).await;
        let before = process.host.fs();
        // As the next process finds them: nothing of it in memory.
        let next = Process { objects: Process::objects_with(1, |_| {}), ..process.clone() };
        next.objects.call_by(sids());
        drop((volume, home));
        let volume = next.volume();
        assert!(rights(&volume, &caller("alice"), "home/page").await.contains(Rights::READ));
        assert!(!rights(&volume, &caller("bob"), "home/page").await.contains(Rights::READ));
        let found = volume.lookup_as(&caller("root"), path("home/page"), Rights::NONE).await.unwrap();
        let Resolved::File(file, _) = &found else { panic!("it is a file") };
        assert_eq!(file.extended(b"NTACL", 10).await.unwrap_err().to_string(), Error::Reserved.to_string());
        assert!(file.extended_names().await.unwrap().is_empty(), "it is no attribute of clients");
        drop(found);
        drop(volume);
        before.set_xattr("/srv/home/page", "user.NTACL", b"damaged").unwrap();
        let last = Process { objects: Process::objects_with(1, |_| {}), ..process.clone() };
        let volume = last.volume();
        for (who, expected) in [("alice", "l"), ("bob", "l"), ("root", "la")] {
            assert_eq!(rights(&volume, &caller(who), "home/page").await.to_string(), expected, "{who}");
        }
    });
}

#[test]
fn every_lane_keeps_to_a_descriptor_as_soon_as_it_is_set() {
    on_lanes(7, Config::clean(), 2, |n, process, volume| async move {
        process.objects.call_by(sids());
        let bob = caller("bob");
        if n == 0 {
            let home = root(&volume).await.make_directory(&nobody(), name("home"), 0o755).await.unwrap();
            home.create(&nobody(), name("page"), NEW).await.unwrap();
            lane::time::sleep(std::time::Duration::from_secs(2)).await;
            describe(&volume, &home, "page", &with(vec![allow(0, READ_DATA, sids().of_id(Id(1)))])).await;
            home.create(&nobody(), name("set"), NEW).await.unwrap();
            lane::time::sleep(std::time::Duration::from_secs(2)).await;
            return;
        }
        lane::time::sleep(std::time::Duration::from_secs(1)).await;
        // Kept open by this lane from here on.
        assert!(rights(&volume, &bob, "home/page").await.contains(Rights::READ));
        let home = directory(&volume, "home").await;
        while home.lookup_as(&caller("root"), name("set"), Rights::NONE).await.is_err() {
            lane::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(!rights(&volume, &bob, "home/page").await.contains(Rights::READ));
        assert!(rights(&volume, &caller("alice"), "home/page").await.contains(Rights::READ));
    });
}
