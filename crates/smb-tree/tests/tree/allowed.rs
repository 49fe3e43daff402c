//! Rights that are granted: MAXIMUM_ALLOWED is what asking for each right by itself gives, for each list of
//! docs/users/access.md, owners and others, users with a `uid` and without; owners set the rights over what
//! is theirs.

use std::rc::Rc;
use std::sync::Arc;

use identity::{Accounts, Acl, Rights, Side as ListSide, Writable};
use lane::backend::sim::{Config, World};
use lane::fs::AttributeChange;
use smb_tree::{Opens, OpensLimits, RequestContext, ShareOptions, Tree};
use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use vfs::{Cache, CacheOptions, Caller, Objects, ObjectsOptions, RelPath, Volume, VolumeOptions, VolumeSpec};

use super::{Heard, Side, Wish, request_context};

const USERS: &str = "version = 1\n[user.bob]\nid = 1000\nuid = 501\ngid = 50\n[user.mary]\nid = 7\n\
                     [user.root]\nid = 8\n[group.\"system:administrators\"]\nid = -204\nmembers = [\"root\"]\n";

/// Runs a test on the lane of a server that gives files away, or of one that does not.
pub(super) fn served_by<F: Future<Output = ()> + 'static>(
    is_root: bool,
    test: impl Fn(Side, Arc<Accounts>) -> F,
) {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    host.fs().create_dir_all("/srv").unwrap();
    host.fs().configure(|config| config.privileged = is_root);
    let objects = Objects::in_memory(ObjectsOptions {
        privileged: is_root,
        gives_files: is_root,
        trusted_attributes: is_root,
        user: host.fs().stat("/srv").unwrap().uid,
        ..ObjectsOptions::default()
    });
    let accounts = Accounts::parse(USERS).unwrap();
    let (sharing, theirs) = (objects.clone(), Arc::clone(&accounts));
    let opens = Opens::new(OpensLimits::default());
    let opened = host.start_on(0, async move {
        let options = VolumeOptions { serve_hidden: true, ..Default::default() };
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", options);
        let spec = spec.with_objects().writable_by(Writable::AsListed);
        let volume = Volume::open(&Cache::sharing(CacheOptions::default(), &sharing), &spec).unwrap();
        let heard = Rc::new(Heard::default());
        let tree = Tree::new(opens, Rc::clone(&heard) as _);
        let options = ShareOptions { accounts: theirs, ..ShareOptions::default() };
        sharing.call_by(options.sids.clone());
        let share = tree.add_share("test", volume.clone(), options);
        Side { volume, share, tree, heard }
    });
    let side = world.block_on(&host, opened);
    let task = host.start_on(0, test(side, accounts));
    world.block_on(&host, task);
    let _ = world.end();
}

pub(super) fn user(accounts: &Accounts, name: &str, session: u64) -> RequestContext {
    let principal = match name {
        "" => accounts.anonymous(),
        name => accounts.user(name).unwrap(),
    };
    RequestContext { caller: Caller::new(principal), ..request_context(session) }
}

pub(super) async fn set_list(side: &Side, directories: &[&str], entries: &[(&str, &str)]) {
    let mut acl = Acl::new();
    for (who, letters) in entries {
        let (list_side, who) = match who.strip_prefix('-') {
            Some(denied) => (ListSide::Denied, denied),
            None => (ListSide::Given, *who),
        };
        acl.set(list_side, who.parse().unwrap(), letters.parse().unwrap()).unwrap();
    }
    let operator = request_context(9).caller;
    for at in directories {
        let path = RelPath::parse(at.as_bytes()).unwrap();
        let found = side.volume.lookup_as(&operator, path, Rights::NONE).await.unwrap();
        found.into_directory().unwrap().0.set_access_list(&operator, Some(&acl)).await.unwrap();
    }
}

fn wish(access: u32, is_directory: bool) -> Wish {
    let wish = Wish { access, ..Wish::new(Disposition::Open) };
    wish.with(if is_directory { options::DIRECTORY_FILE } else { 0 })
}

/// Returns what asking for each right by itself gives.
async fn bit_by_bit(side: &Side, who: &RequestContext, name: &str, is_directory: bool) -> u32 {
    let mut granted = 0;
    for bit in (0..32).map(|bit| 1 << bit).filter(|bit| rights::FILE_ALL & bit != 0) {
        match side.status(who, name, &wish(bit, is_directory)).await {
            Status::SUCCESS => granted |= bit,
            status => assert_eq!(status, Status::ACCESS_DENIED, "{name} {bit:x}"),
        }
    }
    granted
}

async fn at_most(side: &Side, who: &RequestContext, name: &str, is_directory: bool) -> u32 {
    match side.create(who, name, &wish(rights::MAXIMUM_ALLOWED, is_directory)).await {
        Ok(created) => {
            let granted = created.open.granted_access();
            side.share.close(who, &created.open, 0).await.unwrap();
            granted
        }
        Err(error) => {
            assert_eq!(error.status, Status::ACCESS_DENIED);
            0
        }
    }
}

/// Lists of docs/users/access.md, and others of their kinds.
const LISTS: [&str; 14] =
    ["all", "write", "read", "rlidwka", "rlidwk", "rlid", "rlw", "rlk", "rl", "li", "l", "a", "la", "none"];

#[test]
fn the_most_that_is_allowed_is_what_single_rights_give() {
    for is_root in [true, false] {
        served_by(is_root, move |side, accounts| async move {
            let operator = request_context(9);
            let made = wish(rights::FILE_ALL, true);
            let sub = Wish { disposition: Disposition::Create, ..made };
            assert_eq!(side.status(&operator, "sub", &sub).await, Status::SUCCESS);
            set_list(&side, &["", "sub"], &[("system:anyuser", "all")]).await;
            for (name, n) in [("bob", 1), ("mary", 2), ("root", 3)] {
                let who = user(&accounts, name, n);
                side.make(&who, &format!("sub\\{name}-file"), b"1").await;
                let directory = Wish { disposition: Disposition::Create, ..wish(rights::FILE_READ, true) };
                let at = format!("sub\\{name}-directory");
                assert_eq!(side.status(&who, &at, &directory).await, Status::SUCCESS, "{name}");
            }
            for letters in LISTS {
                for denied in ["none", "a"] {
                    let entries = [("system:anyuser", letters), ("-system:anyuser", denied)];
                    set_list(&side, &["sub/bob-directory", "sub/mary-directory", "sub", ""], &entries).await;
                    for (name, n) in [("bob", 1), ("mary", 2), ("root", 3), ("", 4)] {
                        let who = user(&accounts, name, n);
                        for (at, is_directory) in [
                            ("", true),
                            ("sub", true),
                            ("sub\\bob-file", false),
                            ("sub\\mary-file", false),
                            ("sub\\root-file", false),
                            ("sub\\bob-directory", true),
                            ("sub\\mary-directory", true),
                        ] {
                            let single = bit_by_bit(&side, &who, at, is_directory).await;
                            let most = at_most(&side, &who, at, is_directory).await;
                            let case = format!("{name:?} of {at:?} by {letters} -{denied}, root: {is_root}");
                            assert_eq!(most, single, "{case}: {most:x}, {single:x}");
                            let is_own = is_root && at.contains(&format!("\\{name}-")) && !name.is_empty();
                            let owns = rights::READ_CONTROL | rights::WRITE_DAC;
                            if is_own && single != 0 {
                                assert_eq!(single & owns, owns, "{case}: {single:x}");
                            }
                            let has_all = ["all", "rlidwka"].contains(&letters) && denied == "none";
                            if has_all && !name.is_empty() {
                                assert_eq!(single, rights::FILE_ALL, "{case}: {single:x}");
                            }
                            if name.is_empty() {
                                assert_eq!(single & rights::WRITE_OWNER, 0, "{case}: {single:x}");
                            }
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn in_a_sticky_directory_only_what_is_somebodys_own_is_opened_to_be_deleted() {
    served_by(true, |side, accounts| async move {
        let operator = request_context(9);
        let sub = Wish { disposition: Disposition::Create, ..wish(rights::FILE_ALL, true) };
        assert_eq!(side.status(&operator, "sub", &sub).await, Status::SUCCESS);
        set_list(&side, &["", "sub"], &[("system:anyuser", "all")]).await;
        let path = RelPath::parse(b"sub").unwrap();
        let found = side.volume.lookup_as(&operator.caller, path, Rights::NONE).await.unwrap();
        let directory = found.into_directory().unwrap().0;
        for is_sticky in [false, true] {
            let mode = Some(if is_sticky { 0o1777 } else { 0o777 });
            let change = AttributeChange { mode, ..AttributeChange::NONE };
            directory.set_attributes(&operator.caller, change).await.unwrap();
            for (maker, n) in [("bob", 1), ("mary", 2)] {
                for (name, session) in [("mary", 2), ("", 4), ("root", 3), ("bob", 1)] {
                    let (whose, who) = (user(&accounts, maker, n), user(&accounts, name, session));
                    side.make(&whose, "sub\\file", b"1").await;
                    let may = !is_sticky || name == maker || name == "root";
                    let wanted = if may { Status::SUCCESS } else { Status::ACCESS_DENIED };
                    let case = format!("{name:?} deletes what {maker} made, sticky: {is_sticky}");
                    let deletes = wish(rights::DELETE, false);
                    assert_eq!(side.status(&who, "sub\\file", &deletes).await, wanted, "{case}");
                    let most = at_most(&side, &who, "sub\\file", false).await;
                    assert_eq!(most & rights::DELETE != 0, may, "{case}");
                    let goes = deletes.with(options::DELETE_ON_CLOSE);
                    assert_eq!(side.status(&who, "sub\\file", &goes).await, wanted, "{case}");
                    let left = side.status(&whose, "sub\\file", &goes).await;
                    let is_there = if may { Status::OBJECT_NAME_NOT_FOUND } else { Status::SUCCESS };
                    assert_eq!(left, is_there, "{case}");
                }
            }
        }
    });
}

#[test]
fn who_may_not_see_attributes_is_not_told_which_streams_there_are() {
    served_by(true, |side, accounts| async move {
        let operator = request_context(9);
        let sub = Wish { disposition: Disposition::Create, ..wish(rights::FILE_ALL, true) };
        assert_eq!(side.status(&operator, "sub", &sub).await, Status::SUCCESS);
        set_list(&side, &["", "sub"], &[("system:anyuser", "all")]).await;
        let mary = user(&accounts, "mary", 2);
        let streams = ["sub:there", "sub\\file:there", "sub\\file:there:$DATA"];
        side.make(&mary, "sub\\file", b"1").await;
        side.make(&mary, "sub:there", b"2").await;
        side.make(&mary, "sub\\file:there", b"2").await;
        let bob = user(&accounts, "bob", 1);
        let dispositions = [
            Disposition::Open,
            Disposition::Create,
            Disposition::OpenIf,
            Disposition::Overwrite,
            Disposition::OverwriteIf,
            Disposition::Supersede,
        ];
        let every_right =
            (0..32).map(|bit| 1 << bit).filter(|bit| (rights::FILE_ALL | rights::MAXIMUM_ALLOWED) & bit != 0);
        let every_right: Vec<u32> = every_right.collect();
        for letters in ["none", "i", "k", "d"] {
            let entries = [("mary", "all"), ("bob", letters)];
            set_list(&side, &["sub"], &entries).await;
            for name in streams {
                for &access in &every_right {
                    for disposition in dispositions {
                        let asked = Wish { access, ..Wish::new(disposition) };
                        let absent = name.replace("there", "absent");
                        let (there, absent) =
                            (side.status(&bob, name, &asked).await, side.status(&bob, &absent, &asked).await);
                        let case = format!("{name} by {letters}, {access:x}, {disposition:?}");
                        assert_eq!(there, absent, "{case}");
                        assert!(there.is_error(), "{case}");
                    }
                }
            }
        }
        // Who may is told.
        set_list(&side, &["sub"], &[("mary", "all"), ("bob", "rl")]).await;
        let asked = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        for name in streams {
            assert_eq!(side.status(&bob, name, &asked).await, Status::SUCCESS, "{name}");
            let absent = name.replace("there", "absent");
            assert_eq!(side.status(&bob, &absent, &asked).await, Status::OBJECT_NAME_NOT_FOUND, "{name}");
        }
    });
}
