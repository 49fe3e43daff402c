//! A CREATE that is refused once it has made its file takes that file away, and nothing else: another program or client may have put its own in
//! the place meanwhile.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Fs, World};
use lane::time;
use smb_tree::OpensLimits;
use smb_wire::Status;
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::attributes;
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::{Disposition, options};
use smb_wire::info::ea::{self, Ea};
use vfs::Expect;

use super::own_file::put;
use super::{Side, Wish, in_world_beside, request_context};

/// A CREATE that fails when its file is there: of extended attributes a file may have fewer.
fn refused_late(kind: u32) -> Wish {
    let mut list = Vec::new();
    let mut entries = EntryWriter::new(&mut list, 4, 65_536);
    for n in 0..65 {
        assert!(ea::write(&mut entries, &Ea { name: format!("E{n}").as_bytes(), value: b"1" }));
    }
    let mut contexts = ContextWriter::new();
    contexts.push(tag::EA_BUFFER, &list);
    Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Create) }.with(kind)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Nothing,
    ReplacedBeside,
    MadeAnewBeside,
    ParentMadeAnewBeside,
    Put,
    DirectoryMadeAnewBeside,
}

impl Taken {
    async fn happens(self, side: &Side, fs: &Fs) {
        match self {
            Self::Nothing => {}
            Self::ReplacedBeside => fs.replace("/srv/d/page", "").unwrap(),
            Self::MadeAnewBeside => {
                let _ = fs.remove("/srv/d/page");
                fs.write("/srv/d/page", "").unwrap();
            }
            Self::ParentMadeAnewBeside => {
                fs.rename("/srv/d", "/srv/e").unwrap();
                fs.create_dir_all("/srv/d").unwrap();
                fs.write("/srv/d/page", "").unwrap();
            }
            Self::Put => put(side, &request_context(2), "page", b"", Expect::Anything).await.unwrap(),
            Self::DirectoryMadeAnewBeside => {
                let _ = fs.remove("/srv/d/page");
                fs.create_dir_all("/srv/d/page").unwrap();
            }
        }
    }

    fn path(self) -> &'static str {
        if self == Self::Put { "page" } else { "d\\page" }
    }
}

/// Has a CREATE be made, and its name taken so long afterwards; returns what it came to, and what there is then by its name.
fn run(wish: &Wish, taken: Taken, after: Duration) -> (Status, Option<(u64, bool)>, u64, usize) {
    let outcome = Rc::new(RefCell::new(None));
    let (put, wish) = (Rc::clone(&outcome), wish.clone());
    let mut config = Config::clean();
    config.fs.delay = Duration::from_micros(5)..Duration::from_micros(150);
    let world = World::new(after.as_micros() as u64, config);
    let host = world.host("10.0.0.1");
    in_world_beside(world, &host, OpensLimits::default(), 1, move |_, side, fs| {
        let (put, wish) = (Rc::clone(&put), wish.clone());
        async move {
            fs.create_dir_all("/srv/d").unwrap();
            let creating = lane::spawn({
                let (side, wish) = (side.clone(), wish.clone());
                async move { side.status(&request_context(1), taken.path(), &wish).await }
            });
            time::sleep(after).await;
            taken.happens(&side, &fs).await;
            let at = format!("/srv/{}", taken.path().replace('\\', "/"));
            let ino = fs.stat(&at).map(|stat| stat.ino).unwrap_or_default();
            let status = creating.await;
            time::sleep(Duration::from_secs(2)).await;
            let tree = fs.tree();
            let found = tree.get(&at).map(|found| {
                let is_marked = found.xattrs.keys().any(|name| name.starts_with(b"user."));
                (found.ino, is_marked)
            });
            let left = tree.keys().filter(|path| path.ends_with("/page")).count();
            put.replace(Some((status, found, ino, left)));
        }
    });
    outcome.take().unwrap()
}

#[test]
fn a_refused_create_takes_away_what_it_made_and_nothing_that_took_its_place() {
    for (kind, all) in [
        (0, &[Taken::ReplacedBeside, Taken::MadeAnewBeside, Taken::ParentMadeAnewBeside, Taken::Put][..]),
        (options::DIRECTORY_FILE, &[Taken::DirectoryMadeAnewBeside]),
    ] {
        let wish = refused_late(kind);
        let (status, found, _, left) = run(&wish, Taken::Nothing, Duration::ZERO);
        assert_eq!((status, found, left), (Status::EA_TOO_LARGE, None, 0));
        for &taken in all {
            let mut late = 0;
            for micros in (0..24_000).step_by(300) {
                let (status, found, ino, left) = run(&wish, taken, Duration::from_micros(micros));
                let what = format!("{taken:?} after {micros}: {status:?}");
                assert_ne!(status, Status::SUCCESS, "{what}");
                assert_eq!(found.map(|found| found.0), Some(ino), "{what}: it is the other's");
                // What PUT replaces hands its attributes down.
                let is_marked = found.is_some_and(|found| found.1);
                assert!(taken == Taken::Put || !is_marked, "{what}: it is as the other has made it");
                assert_eq!(left, 1, "{what}: nothing else is left");
                late += u32::from(status != Status::OBJECT_NAME_COLLISION);
            }
            assert!(late > 10, "{taken:?}: it was taken while it was being made: {late}");
        }
    }
}

#[test]
fn what_took_the_place_of_a_new_file_is_opened_and_set_by_nobody_as_if_it_were_that() {
    let wish = Wish { attributes: attributes::HIDDEN, ..Wish::new(Disposition::Create) };
    let mut collisions = 0;
    for taken in [Taken::ReplacedBeside, Taken::MadeAnewBeside, Taken::Put] {
        for micros in (0..6_000).step_by(25) {
            let (status, found, ino, _) = run(&wish, taken, Duration::from_micros(micros));
            let what = format!("{taken:?} after {micros}: {status:?}");
            assert!([Status::SUCCESS, Status::OBJECT_NAME_COLLISION].contains(&status), "{what}");
            // What PUT replaces hands its attributes down.
            if taken != Taken::Put {
                assert_eq!(found, Some((ino, false)), "{what}: it is as the other has made it");
            }
            collisions += u32::from(status == Status::OBJECT_NAME_COLLISION);
        }
    }
    assert!(collisions > 10, "{collisions}");
}
