//! Files with names in several directories: made only where no user gets or loses rights by it, one file by
//! every name, and found by its number whichever name goes.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use identity::{Accounts, Acl, Rights, Side, Writable};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, World};
use smb_sid::Sids;
use smb_wire::create::access::rights::FILE_ALL;
use smb_wire::info::security::{Ace, Descriptor, ace_type};
use vfs::{
    Caller, CreateOptions, Directory, Edit, Error, Event, EventKind, EventMask, Holder, Number, Objects,
    ObjectsOptions, Replace, Resolved, Volume, WatchOptions, WatchReport,
};

use super::access::operator;
use super::callbacks::{Said, Service, look_with_callback, sorted};
use super::changes::{text, write};
use super::{Process, directory, name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

fn caller(who: &str) -> Caller {
    let text = "version = 1\n[user.alice]\nid = 1000\n[user.mallory]\nid = 1001\n";
    Caller::new(Accounts::parse(text).unwrap().user(who).unwrap())
}

fn list(given: &[(&str, &str)]) -> Acl {
    let mut acl = Acl::new();
    for (who, rights) in given {
        acl.set(Side::Given, who.parse().unwrap(), rights.parse().unwrap()).unwrap();
    }
    acl
}

async fn make(above: &Directory, at: &str, acl: Option<&Acl>) -> Directory {
    let made = above.make_directory(&operator(), name(at), 0o755).await.unwrap();
    made.set_access_list(&operator(), acl).await.unwrap();
    made
}

async fn number(volume: &Volume, at: &str) -> Number {
    volume.lookup_as(&operator(), path(at), Rights::NONE).await.unwrap().object().unwrap().number()
}

/// Gives the file `from` in the one directory the name `to` in the other.
async fn link(volume: &Volume, who: &Caller, (from, to): (&str, &str), over: Replace) -> Result<(), Error> {
    let [(here, from), (there, to)] = [from, to].map(|at| at.rsplit_once('/').unwrap());
    let which = number(volume, &format!("{here}/{from}")).await;
    let [here, there] = [here, there].map(|at| async move {
        volume.lookup_as(&operator(), path(at), Rights::NONE).await.unwrap().into_directory().unwrap().0
    });
    here.await.link_to(who, which, name(from), &there.await, name(to), over).await
}

async fn rights(volume: &Volume, who: &Caller, at: &str) -> Rights {
    match volume.lookup_with_rights(who, path(at), Rights::NONE).await {
        Ok(found) => found.rights(&who.principal),
        Err(Error::Denied(_)) => Rights::NONE,
        Err(other) => panic!("{at}: {other}"),
    }
}

/// Mallory writes to files of directory `from` and is master of `own`, which has this list.
#[test]
fn a_name_in_another_directory_is_had_where_all_rights_are_the_same_or_by_who_administers_the_first() {
    for (from, own, who, allowed) in [
        // What counts are rights, not whose list it is: each has its own copy.
        ("mallory rlidwk", "mallory rlidwk", "mallory", true),
        ("mallory rliw alice rl", "alice rl mallory rliw", "mallory", true),
        // Alice would have more there, and so would others.
        ("mallory rliw", "mallory rlidwka", "mallory", false),
        ("mallory rlidwk", "mallory rlidwk alice rl", "mallory", false),
        // Or others less, whose clients ask for the file by its number.
        ("mallory rlidwk alice rl", "mallory rlidwk", "mallory", false),
        ("mallory rlidwk", "", "mallory", false),
        // Alice might give and take them where the file is.
        ("mallory rlidwka", "mallory rlidwk alice rl", "mallory", true),
        ("mallory rlidwka alice rl", "mallory rliw", "mallory", true),
        // A user does not get rights over another's files by administering where they are to go.
        ("alice rl", "mallory rlidwka", "mallory", false),
        ("alice rl", "mallory rlidwka", "operator", true),
    ] {
        on_lanes(1, Config::clean(), 1, move |_, _, volume| async move {
            let root = root(&volume).await;
            let given = |text: &'static str| {
                let words: Vec<_> = text.split(' ').collect();
                let given: Vec<_> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                if given.is_empty() { None } else { Some(list(&given)) }
            };
            make(&root, "from", given(from).as_ref())
                .await
                .create(&operator(), name("a"), NEW)
                .await
                .unwrap();
            make(&root, "own", given(own).as_ref()).await;
            let who = if who == "operator" { operator() } else { caller(who) };
            let linked = link(&volume, &who, ("from/a", "own/b"), Replace::Never).await;
            match linked {
                Ok(()) => assert!(allowed, "{from:?} to {own:?}"),
                Err(Error::Denied(_)) => assert!(!allowed, "{from:?} to {own:?}"),
                Err(other) => panic!("{from:?} to {own:?}: {other}"),
            }
            let found = volume.lookup_as(&operator(), path("own/b"), Rights::NONE).await;
            assert_eq!(found.is_ok(), allowed);
        });
    }
}

#[test]
fn whoever_is_not_let_through_to_a_file_is_not_by_another_name_of_it_and_none_who_was_is_kept_out() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let shut = make(&root, "shut", Some(&list(&[("mallory", "rlidwk")]))).await;
        let all = list(&[("system:anyuser", "rlidwk")]);
        for above in [&shut, &root] {
            let open = make(above, "open", Some(&all)).await;
            open.create(&operator(), name("a"), NEW).await.unwrap();
            make(&open, "below", Some(&all)).await;
        }
        let mallory = caller("mallory");
        assert!(rights(&volume, &nobody(), "shut/open/a").await.is_empty());
        for (from, to) in
            [("shut/open/a", "open/b"), ("open/a", "shut/open/b"), ("shut/open/a", "open/below/b")]
        {
            let refused = link(&volume, &mallory, (from, to), Replace::Never).await;
            assert!(matches!(refused, Err(Error::Denied(Rights::ADMINISTER))), "{from} {to}: {refused:?}");
        }
        link(&volume, &mallory, ("open/a", "open/below/b"), Replace::Never).await.unwrap();
        // The users that the upper directory lets in are compared, not the directory: a second one with the
        // same list is as good.
        let other = make(&root, "other", Some(&list(&[("mallory", "rlidwk")]))).await;
        make(&other, "open", Some(&all)).await;
        link(&volume, &mallory, ("shut/open/a", "other/open/b"), Replace::Never).await.unwrap();
        // A user that administers the directory, but not the one above that shuts others out, makes no way
        // round that.
        let own = list(&[("system:anyuser", "rlidwk"), ("mallory", "rlidwka")]);
        directory_as(&volume, "shut/open").await.set_access_list(&operator(), Some(&own)).await.unwrap();
        let refused = link(&volume, &mallory, ("shut/open/a", "open/c"), Replace::Never).await;
        assert!(matches!(refused, Err(Error::Denied(Rights::ADMINISTER))), "{refused:?}");
    });
}

async fn directory_as(volume: &Volume, at: &str) -> Directory {
    let found = volume.lookup_as(&operator(), path(at), Rights::NONE).await;
    found.and_then(Resolved::into_directory).unwrap().0
}

#[test]
fn what_a_file_has_of_its_own_counts_by_every_name_and_lets_it_have_some_where_lists_differ() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        process.objects.call_by(Sids::new("files"));
        let root = root(&volume).await;
        let mallory = caller("mallory");
        let sid = Sids::new("files").of_id(mallory.principal.id());
        let aces = vec![Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask: FILE_ALL, sid }];
        let own = Arc::new(Descriptor { dacl: Some(aces), ..Descriptor::default() });
        let from = make(&root, "from", Some(&list(&[("system:anyuser", "rliw")]))).await;
        make(&root, "to", Some(&list(&[("system:anyuser", "rliwdk")]))).await;
        from.create(&operator(), name("a"), NEW).await.unwrap();
        let refused = link(&volume, &mallory, ("from/a", "to/b"), Replace::Never).await;
        assert!(matches!(refused, Err(Error::Denied(_))), "{refused:?}");
        let found = volume.lookup_as(&operator(), path("from/a"), Rights::NONE).await.unwrap();
        from.set_descriptor_of(&operator(), name("a"), found.object().unwrap(), &own).await.unwrap();
        // A user that lists the directory sees it: that is no other's either.
        let refused = link(&volume, &mallory, ("from/a", "to/b"), Replace::Never).await;
        assert!(matches!(refused, Err(Error::Denied(_))), "{refused:?}");
        let descriptor = Arc::new(Descriptor { dacl: None, ..Descriptor::default() });
        for at in ["from", "to"] {
            directory_as(&volume, at).await.set_descriptor(&operator(), &descriptor).await.unwrap();
        }
        link(&volume, &mallory, ("from/a", "to/b"), Replace::Never).await.unwrap();
        for at in ["from/a", "to/b"] {
            assert!(rights(&volume, &mallory, at).await.contains(Rights::WRITE));
            assert!(!rights(&volume, &caller("alice"), at).await.contains(Rights::READ), "{at}");
        }
    });
}

#[test]
fn a_name_that_might_not_be_made_in_a_directory_is_not_moved_there_while_the_file_has_another() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let from = make(&root, "from", Some(&list(&[("mallory", "rlidwk")]))).await;
        let own = make(&root, "own", Some(&list(&[("mallory", "rlidwka")]))).await;
        let mallory = caller("mallory");
        from.create(&operator(), name("a"), NEW).await.unwrap();
        own.create(&operator(), name("x"), NEW).await.unwrap();
        from.link(&mallory, name("a"), name("b")).await.unwrap();
        let moved = from.rename(&mallory, name("b"), &own, name("b"), Replace::Never).await;
        assert!(matches!(moved, Err(Error::CrossDevice)), "{moved:?}");
        let exchanged = own.exchange(&mallory, name("x"), &from, name("b")).await;
        assert!(matches!(exchanged, Err(Error::CrossDevice)), "{exchanged:?}");
        // Where the file is gone from one directory it is seen to be.
        from.remove(&mallory, name("a")).await.unwrap();
        from.rename(&mallory, name("b"), &own, name("b"), Replace::Never).await.unwrap();
    });
}

#[test]
fn a_file_with_names_in_two_directories_is_one_and_who_relies_on_it_or_the_new_ones_directory_is_told() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let root = root(&volume).await;
        let [a, b] = [make(&root, "a", None).await, make(&root, "b", None).await];
        let made = a.create(&nobody(), name("page"), NEW).await.unwrap().writer;
        let file = Arc::clone(made.file().object().unwrap());
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let mut looks = Vec::new();
        for at in ["a", "b", "a/page"] {
            looks.push(look_with_callback(&volume, &client, at).await);
        }
        let mut history = b.names(10).await.unwrap().history;
        let how = WatchOptions { beneath: false, kinds: EventMask::FILES };
        let [of_a, of_b] =
            [&a, &b].map(|directory| directory.watch(how, IpAddr::from([192, 0, 2, 1]).into()).unwrap());
        let versions = || [&a, &b].map(|directory| directory.object().unwrap().version());
        let (before, content) = (versions(), file.version());
        link(&volume, &nobody(), ("a/page", "b/other"), Replace::Never).await.unwrap();
        let directory = b.object().unwrap();
        let heard = [&file, directory].map(|object| (1, Said::Object(object.identity().clone())));
        assert_eq!(sorted(&service.told), sorted(&Rc::new(Vec::from(heard).into())));
        assert_eq!(versions(), [before[0], before[1].next()]);
        assert_eq!(file.version(), content, "what it says is what it was");
        let added = Edit::Added { name: (*b"other").into(), number: file.number() };
        assert_eq!(history.catch_up(), Some(vec![added]));
        let seen = poll_fn(|cx| Poll::Ready([of_a.poll(cx), of_b.poll(cx)])).await;
        let events = vec![Event { what: EventKind::Added, path: path("other").into() }];
        assert_eq!(seen, [Poll::Pending, Poll::Ready(WatchReport::Events(events))]);
        // Both names are the file's.
        assert_eq!(made.file().attributes().unwrap().nlink, 2);
        write(&made, 0, "both").await.unwrap();
        for at in ["a/page", "b/other"] {
            assert_eq!(text(&volume, at).await, "both");
        }
        // Refused or not, the second time nothing changes.
        let again = link(&volume, &nobody(), ("a/page", "b/other"), Replace::Never).await;
        assert!(matches!(again, Err(Error::Exists)), "{again:?}");
        link(&volume, &nobody(), ("a/page", "b/other"), Replace::Existing).await.unwrap();
        assert_eq!((versions()[1], made.file().attributes().unwrap().nlink), (before[1].next(), 2));
    });
}

#[test]
fn a_new_name_takes_the_place_of_another_file_in_one_step_or_leaves_it_where_it_is_refused() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let root = root(&volume).await;
        let own = make(&root, "own", Some(&list(&[("mallory", "rlidwk")]))).await;
        let more = make(&root, "more", Some(&list(&[("mallory", "rliwk")]))).await;
        let same = make(&root, "same", Some(&list(&[("mallory", "rlidwk")]))).await;
        for (directory, at) in [(&own, "a"), (&more, "b"), (&same, "b")] {
            let made = directory.create(&operator(), name(at), NEW).await.unwrap();
            write(&made.writer, 0, at).await.unwrap();
        }
        same.make_directory(&operator(), name("d"), 0o755).await.unwrap();
        let mallory = caller("mallory");
        let refused = link(&volume, &mallory, ("own/a", "more/b"), Replace::Existing).await;
        assert!(matches!(refused, Err(Error::Denied(_))), "{refused:?}");
        assert_eq!(process.host.fs().read("/srv/more/b").unwrap(), b"b", "it stays");
        let refused = link(&volume, &mallory, ("own/a", "same/b"), Replace::Never).await;
        assert!(matches!(refused, Err(Error::Exists)), "{refused:?}");
        let refused = link(&volume, &mallory, ("own/a", "same/d"), Replace::Existing).await;
        assert!(matches!(refused, Err(Error::IsADirectory)), "{refused:?}");
        link(&volume, &mallory, ("own/a", "same/b"), Replace::Existing).await.unwrap();
        assert_eq!(process.host.fs().read("/srv/same/b").unwrap(), b"a");
        let left: Vec<_> = process.host.fs().tree().into_keys().collect();
        assert!(left.iter().all(|path| !path.contains(".linerate-")), "{left:?}");
    });
}

/// Whichever of two names goes, and whether the server was started anew since or not.
#[test]
fn a_file_that_loses_one_of_two_names_is_found_by_its_number_after_a_restart_too() {
    for gone in ["a/page", "b/other"] {
        let world = World::new(1, Config::clean());
        let mut process = Process::new(&world, 1);
        process.writable = Writable::anyone();
        let storage = Memory::default();
        let live = || {
            let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
            let objects = Objects::new(ObjectsOptions::default(), Arc::clone(&index));
            (Process { objects, ..process.clone() }, index)
        };
        let (first, index) = live();
        let found = world.block_on(&process.host, async move {
            let volume = first.volume();
            let root = root(&volume).await;
            for at in ["a", "b"] {
                root.make_directory(&nobody(), name(at), 0o755).await.unwrap();
            }
            let made =
                directory(&volume, "a").await.create(&nobody(), name("page"), NEW).await.unwrap().writer;
            write(&made, 0, "text").await.unwrap();
            let file = made.file().object().unwrap().number();
            drop(made);
            link(&volume, &nobody(), ("a/page", "b/other"), Replace::Never).await.unwrap();
            let (at, last) = gone.split_once('/').unwrap();
            directory(&volume, at).await.remove(&nobody(), name(last)).await.unwrap();
            volume.cache().clear();
            volume.find(&nobody(), file, Rights::READ).await.unwrap();
            file
        });
        index.close().unwrap();
        process.host.fs().sync_all().unwrap();
        process.host.restart();
        let (after, _index) = live();
        world.block_on(&process.host, async move {
            let volume = after.volume();
            volume.find(&nobody(), found, Rights::READ).await.unwrap();
        });
        world.end();
    }
}

/// A file with several parents that is asked for by its number, as docs/design/access.md has it: the list of
/// the one that is recorded decides, which is the first where rights differed as the second name was made,
/// else the second; when that name goes, the other is recorded.
#[test]
fn by_its_number_a_file_has_the_rights_of_the_recorded_parent_and_of_the_other_when_that_name_goes() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let may = async |who: &str, which: Number| match volume.find(&caller(who), which, Rights::READ).await
        {
            Ok(_) => true,
            Err(Error::Denied(_)) => false,
            Err(other) => panic!("{who}: {other}"),
        };
        let [alices, mallorys] = [list(&[("alice", "rl")]), list(&[("mallory", "rl")])];
        let top = root(&volume).await;
        let both = list(&[("alice", "rl"), ("mallory", "rl")]);
        for (n, alike) in [false, true].into_iter().enumerate() {
            let [first, second] = [format!("first-{n}"), format!("second-{n}")];
            let (one, other) = if alike { (&both, &both) } else { (&alices, &mallorys) };
            let here = make(&top, &first, Some(one)).await;
            let there = make(&top, &second, Some(other)).await;
            here.create(&operator(), name("a"), NEW).await.unwrap();
            let which = number(&volume, &format!("{first}/a")).await;
            let names = (format!("{first}/a"), format!("{second}/b"));
            link(&volume, &operator(), (&names.0, &names.1), Replace::Never).await.unwrap();
            if alike {
                // The second is recorded: what is said there from now on counts.
                there.set_access_list(&operator(), Some(&mallorys)).await.unwrap();
                here.set_access_list(&operator(), Some(&alices)).await.unwrap();
            }
            let recorded = if alike { "mallory" } else { "alice" };
            let unrecorded = if alike { "alice" } else { "mallory" };
            volume.cache().clear();
            assert!(may(recorded, which).await && !may(unrecorded, which).await, "alike: {alike}");
            for (who, at) in [("alice", &names.0), ("mallory", &names.1)] {
                assert!(
                    rights(&volume, &caller(who), at).await.contains(Rights::READ),
                    "{who} by the name {at}"
                );
            }
            let (goes, its) = if alike { (&there, "b") } else { (&here, "a") };
            goes.remove(&operator(), name(its)).await.unwrap();
            assert!(
                may(unrecorded, which).await && !may(recorded, which).await,
                "alike: {alike}, when that has gone"
            );
        }
    });
}
