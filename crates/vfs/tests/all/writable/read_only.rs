//! Volumes that nobody may change and whose files lanes share all the same: for clients that cache.

use std::rc::Rc;

use identity::{Acl, Rights, Writable};
use lane::fs::{AttributeChange, FileKind};
use vfs::{Caller, Directory, Error, Expect, How, Over, Volume};

use super::access::operator;
use super::told::{Said, Service, promised, until};
use super::{name, nobody, root, watched};

#[test]
fn clients_are_promised_what_nobody_but_others_behind_the_servers_back_can_change() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "first").unwrap();
        assert!(volume.has_objects() && !volume.is_writable());
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        let look = promised(&volume, &client, "page").await;
        let (before, page) = (look.confirm().unwrap().version, look.resolved().object().unwrap().clone());
        assert_eq!(page.number().kind(), index::Kind::File);
        fs.write("/srv/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(page.identity().clone()))]);
        let look = promised(&volume, &client, "page").await;
        assert!(look.confirm().unwrap().version > before, "each content has its version");
    });
}

#[test]
fn promises_outlast_a_gate_that_was_closed() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "first").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(vfs::Holder(1)).unwrap();
        volume.shared().unwrap().close(vfs::Closed::ReadOnly);
        promised(&volume, &client, "page").await;
        fs.write("/srv/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        promised(&volume, &client, "page").await;
    });
}

#[test]
fn every_change_is_refused_whoever_asks() {
    watched(Writable::Nobody, |volume, fs| async move {
        fs.write("/srv/page", "as it was").unwrap();
        fs.create_dir_all("/srv/sub").unwrap();
        for caller in [nobody(), operator()] {
            let root = root(&volume).await;
            let page = name("page");
            root.access_list(&caller).await.unwrap();
            for refused in attempts(&volume, &root, &caller).await {
                assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
            }
            let expected = root.lookup_as(&caller, page, Rights::READ).await.unwrap();
            assert_eq!(expected.attributes().kind, FileKind::File);
        }
        assert_eq!(fs.read("/srv/page").unwrap(), b"as it was");
    });
}

/// One change of each kind.
async fn attempts(volume: &Volume, root: &Directory, caller: &Caller) -> Vec<Result<(), Error>> {
    let (page, new) = (name("page"), name("new"));
    let how = How { exclusive: false, mode: 0o644 };
    let change = AttributeChange { mode: Some(0o700), ..AttributeChange::NONE };
    assert!(volume.lookup_as(caller, super::path("page"), Rights::READ).await.is_ok());
    vec![
        root.create(caller, new, how).await.map(drop),
        root.create(caller, page, how).await.map(drop),
        root.open_writer(caller, page).await.map(drop),
        root.stage(caller, 0o644).await.map(drop),
        root.make_directory(caller, new, 0o755).await.map(drop),
        root.symlink(caller, new, b"page").await,
        root.link(caller, page, new).await,
        root.remove_if(caller, page, Expect::Anything).await,
        root.remove_directory(caller, name("sub")).await,
        root.rename(caller, page, root, new, Over::Anything).await,
        root.exchange(caller, page, root, name("sub")).await,
        root.set_attributes(caller, change).await,
        root.set_access_list(caller, Some(&Acl::new())).await,
    ]
}
