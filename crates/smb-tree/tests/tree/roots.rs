//! Shares that begin in a directory of their volume, another one for each connection.

use std::sync::Arc;

use identity::Rights;
use smb_tree::{RequestContext, Root, RootSpec};
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, oplock_level, options};
use smb_wire::info::file::class;
use smb_wire::text::encoded;
use smb_wire::{Guid, Status};
use vfs::RelPath;

use super::information::{file, renamed, set};
use super::leases::{granted, lease};
use super::{Side, Wish, alone, mary, request_context};

fn entrance(path: &str, makes: bool) -> RootSpec {
    RootSpec { path: RelPath::parse(path.as_bytes()).unwrap().into(), varies: true, makes }
}

impl Side {
    /// Returns the side of a user that connects to this directory.
    async fn entered(&self, who: &RequestContext, path: &str, makes: bool) -> Result<Self, Status> {
        let root: Arc<Root> = self.share.enter(who, &entrance(path, makes)).await?;
        Ok(Self { share: self.share.beneath(&root), ..self.clone() })
    }

    pub(crate) async fn make_directory(&self, who: &RequestContext, name: &str) {
        let wish = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        assert_eq!(self.status(who, name, &wish).await, Status::SUCCESS, "{name}");
    }
}

#[test]
fn a_share_begins_at_its_root_and_paths_are_told_from_there() {
    alone(|side| async move {
        let who = request_context(1);
        side.make_directory(&who, "home").await;
        side.make_directory(&who, "home\\anne").await;
        let homes = side.entered(&who, "home/anne", false).await.unwrap();
        homes.make_directory(&who, "plans").await;
        homes.make(&who, "plans\\A.txt", b"mine").await;
        assert_eq!(side.content(&who, "home\\anne\\plans\\A.txt").await.unwrap(), b"mine");
        // In any case, from there on too.
        let open = homes.open(&who, "PLANS\\a.TXT", &Wish::new(Disposition::Open)).await;
        assert_eq!(homes.share.stored_path(&open).as_deref(), Some("/plans/A.txt"));
        assert_eq!(homes.tree.path_of(&open).as_deref(), Some("plans/A.txt"));
        let told = file(&homes, &who, &open, class::ALL).await.unwrap();
        assert!(told.ends_with(&encoded("\\plans\\A.txt")), "{told:?}");
        set(&homes, &who, &open, class::RENAME, &renamed("B.txt", false)).await.unwrap();
        assert_eq!(homes.tree.path_of(&open).as_deref(), Some("B.txt"));
        homes.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.content(&who, "home\\anne\\B.txt").await.unwrap(), b"mine");
        let above = homes.status(&who, "home\\anne\\B.txt", &Wish::new(Disposition::Open)).await;
        assert_eq!(above, Status::OBJECT_PATH_NOT_FOUND);
        let upwards = homes.status(&who, "..\\anne\\B.txt", &Wish::new(Disposition::Open)).await;
        assert_eq!(upwards, Status::OBJECT_PATH_SYNTAX_BAD);
    });
}

#[test]
fn a_root_keeps_its_name_and_is_none_that_there_is_not() {
    alone(|side| async move {
        let who = request_context(1);
        side.make_directory(&who, "home").await;
        side.make(&who, "file", b"").await;
        for path in ["nobody", "home/nobody", "file", "file/anne", "nobody/anne"] {
            let entered = side.entered(&who, path, false).await;
            assert_eq!(entered.err(), Some(Status::BAD_NETWORK_NAME), "{path}");
        }
        // Only its own name may be missing.
        assert_eq!(side.entered(&who, "nobody/anne", true).await.err(), Some(Status::BAD_NETWORK_NAME));
        let homes = side.entered(&who, "home/anne", true).await.unwrap();
        side.entered(&who, "home/anne", true).await.unwrap();
        let mine = mary(2);
        let refused = side.entered(&mine, "home/mary", true).await;
        assert!(refused.is_ok(), "anyone may write here");
        let deleting = Wish::new(Disposition::Open).with(options::DIRECTORY_FILE | options::DELETE_ON_CLOSE);
        let status = homes.status(&who, "", &deleting).await;
        assert!(matches!(status, Status::CANNOT_DELETE | Status::ACCESS_DENIED), "{status:?}");
        let opening = Wish { access: rights::FILE_READ | rights::FILE_WRITE, ..Wish::new(Disposition::Open) };
        let root = homes.open(&who, "", &opening.with(options::DIRECTORY_FILE)).await;
        assert_eq!(homes.share.stored_path(&root).as_deref(), Some("/"));
        let renaming = set(&homes, &who, &root, class::RENAME, &renamed("other", false)).await;
        assert_eq!(renaming, Err(Status::ACCESS_DENIED));
        homes.share.close(&who, &root, 0).await.unwrap();
        homes.make(&who, "f", b"x").await;
        assert_eq!(side.content(&who, "home\\anne\\f").await.unwrap(), b"x");
    });
}

#[test]
fn no_link_leads_out_of_a_root() {
    alone(|side| async move {
        let who = request_context(1);
        for name in ["home", "home\\anne", "home\\bob", "home\\anne\\inner"] {
            side.make_directory(&who, name).await;
        }
        side.make(&who, "home\\bob\\secret", b"his").await;
        side.make(&who, "home\\anne\\inner\\own", b"mine").await;
        let above =
            side.volume.lookup_as(&who.caller, RelPath::parse(b"home/anne").unwrap(), Rights::NONE).await;
        let (above, _) = above.unwrap().into_directory().unwrap();
        for (name, target) in [("dir", "../bob"), ("file", "../bob/secret"), ("own", "inner/own")] {
            let name = vfs::Name::parse(name.as_bytes()).unwrap();
            above.symlink(&who.caller, name, target.as_bytes()).await.unwrap();
        }
        let homes = side.entered(&who, "home/anne", false).await.unwrap();
        assert_eq!(homes.content(&who, "own").await.unwrap(), b"mine");
        assert_eq!(
            side.content(&who, "home\\anne\\file").await.unwrap(),
            b"his",
            "in the whole volume it is followed"
        );
        for (name, disposition) in [
            ("file", Disposition::Open),
            ("file", Disposition::OverwriteIf),
            ("dir", Disposition::Open),
            ("dir\\secret", Disposition::Open),
            ("DIR\\Secret", Disposition::Open),
            ("dir\\new", Disposition::Create),
        ] {
            let status = homes.status(&who, name, &Wish::new(disposition)).await;
            assert_eq!(status, Status::ACCESS_DENIED, "{name} {disposition:?}");
        }
        assert_eq!(side.content(&who, "home\\bob\\secret").await.unwrap(), b"his");
        let own = homes.open(&who, "inner\\own", &Wish::new(Disposition::Open)).await;
        let moved = set(&homes, &who, &own, class::RENAME, &renamed("dir\\taken", false)).await;
        assert_eq!(moved, Err(Status::ACCESS_DENIED));
        homes.share.close(&who, &own, 0).await.unwrap();
    });
}

#[test]
fn a_lease_key_for_one_name_below_two_roots_keeps_nothing_and_both_are_open() {
    alone(|side| async move {
        let who = request_context(1);
        let key = Guid::new([7; 16]);
        let first = side.entered(&who, "one", true).await.unwrap();
        let second = side.entered(&who, "two", true).await.unwrap();
        let held = first.create(&who, "page", &lease(7, 7, None)).await.unwrap();
        assert_eq!(granted(&held.contexts), 7);
        // Another name is what the client knows to be another file.
        let other = second.create(&who, "other", &lease(7, 7, None)).await.unwrap_err();
        assert_eq!(other.status, Status::INVALID_PARAMETER);
        let inner = first.create(&who, "other", &lease(7, 7, None)).await.unwrap_err();
        assert_eq!(inner.status, Status::INVALID_PARAMETER);
        assert!(side.heard.leases.borrow().is_empty());
        let alike = second.create(&who, "page", &lease(7, 7, None)).await.unwrap();
        assert_eq!((alike.fixed.oplock_level, granted(&alike.contexts)), (oplock_level::LEASE, 0));
        let told = side.heard.leases.borrow()[0];
        assert_eq!((told.key, told.from, told.to), (key, 7, 0));
        assert!(told.acknowledge, "it may have something to write back");
        assert_eq!(side.share.lease_break(&who, key, 0), Ok(0));
        // As long as it means both, neither has more by it, and a third name is still refused.
        for side in [&first, &second] {
            let again = side.create(&who, "page", &lease(7, 7, None)).await.unwrap();
            assert_eq!((again.fixed.oplock_level, granted(&again.contexts)), (oplock_level::LEASE, 0));
            side.share.close(&who, &again.open, 0).await.unwrap();
            let third = side.create(&who, "third", &lease(7, 7, None)).await.unwrap_err();
            assert_eq!(third.status, Status::INVALID_PARAMETER);
        }
        assert_eq!(side.heard.leases.borrow().len(), 1);
        for (side, open) in [(&first, held.open), (&second, alike.open)] {
            side.share.close(&who, &open, 0).await.unwrap();
        }
        // No tree connect has it any more: the next may.
        let alone = second.create(&who, "page", &lease(7, 7, None)).await.unwrap();
        assert_eq!(granted(&alone.contexts), 7);
        second.share.close(&who, &alone.open, 0).await.unwrap();
    });
}
