//! Symbolic links as themselves: read, named by their numbers, promised to clients.

use std::time::Duration;

use identity::Writable;
use lane::fs::FileKind;
use lane::time;
use vfs::{Error, Holder, Number};

use super::{name, nobody, root, watched};

#[test]
fn a_link_is_what_it_says_and_has_a_number() {
    watched(Writable::anyone(), |volume, _| async move {
        let root = root(&volume).await;
        root.symlink(&nobody(), name("l"), b"#files.").await.unwrap();
        let link = root.symbolic_link(&nobody(), name("l")).await.unwrap();
        assert_eq!((link.target.as_slice(), link.attributes.kind), (&b"#files."[..], FileKind::Symlink));
        assert_eq!(link.object.seen_in(), Some((Number::ROOT, (*b"l").into())));
        root.make_directory(&nobody(), name("d"), 0o755).await.unwrap();
        let no_link = root.symbolic_link(&nobody(), name("d")).await;
        assert!(matches!(no_link, Err(Error::NotServable)));
        assert!(matches!(root.symbolic_link(&nobody(), name("x")).await, Err(Error::NotFound)));
    });
}

#[test]
fn a_link_is_promised_by_number_until_it_is_gone() {
    watched(Writable::anyone(), |volume, _| async move {
        let (root, client) = (root(&volume).await, volume.cache().client(Holder(7)).unwrap());
        root.symlink(&nobody(), name("l"), b"target").await.unwrap();
        let number = root.symbolic_link(&nobody(), name("l")).await.unwrap().object.number();
        let until = time::now() + Duration::from_secs(60);
        // Nobody uses it any more: the index knows where it was.
        let promised = volume.promised_link(&nobody(), &client, number, until).await.unwrap();
        assert_eq!(promised.link().target, b"target");
        assert_eq!(promised.confirm().unwrap().version, promised.link().object.version());
        root.rename(&nobody(), name("l"), &root, name("m"), vfs::Over::Nothing).await.unwrap();
        let again = volume.promised_link(&nobody(), &client, number, until).await.unwrap();
        assert_eq!(again.link().object.seen_in(), Some((Number::ROOT, (*b"m").into())));
        root.remove(&nobody(), name("m")).await.unwrap();
        assert!(again.confirm().is_none(), "it is gone");
        let gone = volume.promised_link(&nobody(), &client, number, until).await;
        assert!(matches!(gone, Err(Error::Stale)), "{gone:?}");
        let never = Number { vnode: 4444, uniquifier: 1 };
        assert!(matches!(volume.promised_link(&nobody(), &client, never, until).await, Err(Error::Stale)));
    });
}
