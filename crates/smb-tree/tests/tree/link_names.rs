//! Names of symbolic links: a client that deletes or renames by one does it to the link, and what it leads to
//! stays, as with Samba.

use smb_tree::RequestContext;
use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::info::file::{class, disposition};
use vfs::{Name, RelPath};

use super::allowed::{served_by, set_list, user};
use super::information::{renamed, set};
use super::leases::lease;
use super::links::make_links;
use super::{Side, Wish, alone, request_context};

/// Two files and two empty directories, and links to them.
async fn tree(side: &Side) {
    let who = request_context(9);
    for name in ["f", "g"] {
        side.make(&who, name, name.as_bytes()).await;
    }
    let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
    for name in ["d", "e"] {
        assert_eq!(side.status(&who, name, &directory).await, Status::SUCCESS);
    }
    let links = [
        ("to-f", "f"),
        ("chain", "to-f"),
        ("absolute", "/srv/f"),
        ("to-d", "d"),
        ("chain-d", "to-d"),
        ("to-e", "e"),
        ("gone", "nowhere"),
        ("outside", "/etc"),
        ("loop", "loop"),
    ];
    make_links(side, &links).await;
    let found = side.volume.lookup(RelPath::parse(b"e").unwrap()).await.unwrap();
    let (e, _) = found.into_directory().unwrap();
    e.symlink(&who.caller, Name::parse(b"inner").unwrap(), b"../f").await.unwrap();
}

/// Returns what the link of this name says, if one has it.
async fn says(side: &Side, name: &str) -> Option<String> {
    let path = name.replace('\\', "/");
    let caller = request_context(9).caller;
    let found = side.volume.find_link(&caller, RelPath::parse(path.as_bytes()).unwrap()).await.unwrap();
    found.map(|found| String::from_utf8(found.link.target).unwrap())
}

/// All that links lead to is there.
async fn check_targets(side: &Side, context: &str) {
    let who = request_context(9);
    for name in ["f", "g"] {
        assert_eq!(side.content(&who, name).await.as_deref(), Ok(name.as_bytes()), "{context}");
    }
    for name in ["d", "e"] {
        let looks = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        let status = side.status(&who, name, &looks.with(options::DIRECTORY_FILE)).await;
        assert_eq!(status, Status::SUCCESS, "{context}: {name}");
    }
}

/// Links that lead to something, and what they say.
const LINKS: [(&str, &str); 6] = [
    ("to-f", "f"),
    ("chain", "to-f"),
    ("absolute", "/srv/f"),
    ("to-d", "d"),
    ("chain-d", "to-d"),
    ("to-e\\inner", "../f"),
];

/// Links that nothing is opened through.
const CLOSED: [(&str, Status); 3] = [
    ("gone", Status::OBJECT_NAME_NOT_FOUND),
    ("outside", Status::ACCESS_DENIED),
    ("loop", Status::ACCESS_DENIED),
];

#[derive(Clone, Copy, Debug)]
enum Act {
    DeleteOnClose,
    DeleteByAnyRight,
    Disposition,
    DispositionEx,
    DispositionAtOnce,
    Rename,
    RenameEx,
    RenameOver,
}

const ACTS: [Act; 8] = [
    Act::DeleteOnClose,
    Act::DeleteByAnyRight,
    Act::Disposition,
    Act::DispositionEx,
    Act::DispositionAtOnce,
    Act::Rename,
    Act::RenameEx,
    Act::RenameOver,
];

impl Act {
    fn wish(self) -> Wish {
        let options = match self {
            Self::DeleteOnClose | Self::DeleteByAnyRight => options::DELETE_ON_CLOSE,
            _ => 0,
        };
        let access = match self {
            Self::DeleteByAnyRight => rights::MAXIMUM_ALLOWED,
            _ => rights::DELETE,
        };
        Wish { access, ..Wish::new(Disposition::Open) }.with(options)
    }

    /// The name that a link has afterwards.
    fn to(self) -> Option<&'static str> {
        match self {
            Self::Rename | Self::RenameEx => Some("renamed"),
            Self::RenameOver => Some("over"),
            _ => None,
        }
    }

    async fn is_done(self, side: &Side, who: &RequestContext, name: &str) -> Result<(), Status> {
        let created = side.create(who, name, &self.wish()).await.map_err(|error| error.status)?;
        let open = created.open;
        let delete = disposition::DELETE;
        let at_once = delete | disposition::POSIX_SEMANTICS;
        let done = match self {
            Self::DeleteOnClose | Self::DeleteByAnyRight => Ok(()),
            Self::Disposition => set(side, who, &open, class::DISPOSITION, &[1]).await,
            Self::DispositionEx => set(side, who, &open, class::DISPOSITION_EX, &delete.to_le_bytes()).await,
            Self::DispositionAtOnce => {
                set(side, who, &open, class::DISPOSITION_EX, &at_once.to_le_bytes()).await
            }
            Self::Rename => set(side, who, &open, class::RENAME, &renamed("renamed", false)).await,
            Self::RenameEx => set(side, who, &open, class::RENAME_EX, &renamed("renamed", false)).await,
            Self::RenameOver => set(side, who, &open, class::RENAME, &renamed("over", true)).await,
        };
        side.share.close(who, &open, 0).await.unwrap();
        done
    }
}

#[test]
fn each_deletion_and_rename_by_a_links_name_is_the_links() {
    for (link, target) in LINKS {
        for act in ACTS {
            alone(move |side| async move {
                let who = request_context(1);
                tree(&side).await;
                side.make(&who, "over", b"over").await;
                let context = format!("{link} {act:?}");
                assert_eq!(act.is_done(&side, &who, link).await, Ok(()), "{context}");
                assert_eq!(says(&side, link).await, None, "{context}");
                if let Some(to) = act.to() {
                    assert_eq!(says(&side, to).await.as_deref(), Some(target), "{context}");
                }
                check_targets(&side, &context).await;
            });
        }
    }
}

#[test]
fn a_link_that_leads_to_nothing_that_is_served_is_deleted_and_renamed_as_itself_alone() {
    for (link, status) in CLOSED {
        for act in ACTS {
            alone(move |side| async move {
                let who = request_context(1);
                tree(&side).await;
                let before = says(&side, link).await;
                assert_eq!(act.is_done(&side, &who, link).await, Err(status), "{link} {act:?}");
                assert_eq!(says(&side, link).await, before, "{link} {act:?}");
                let itself = act.wish().with(act.wish().options | options::OPEN_REPARSE_POINT);
                assert_eq!(side.status(&who, link, &itself).await, Status::SUCCESS, "{link} {act:?}");
            });
        }
    }
}

#[test]
fn what_is_emptied_through_a_link_is_the_file_and_what_goes_with_the_open_is_the_link() {
    for disposition in [Disposition::Supersede, Disposition::Overwrite, Disposition::OverwriteIf] {
        alone(move |side| async move {
            let who = request_context(1);
            tree(&side).await;
            let wish = Wish::new(disposition).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, "to-f", &wish).await, Status::SUCCESS);
            assert_eq!(says(&side, "to-f").await, None, "{disposition:?}");
            assert_eq!(side.content(&who, "f").await.as_deref(), Ok(b"".as_slice()), "{disposition:?}");
        });
    }
}

#[test]
fn a_link_that_has_the_new_name_is_replaced_itself_or_in_the_way() {
    let links = ["to-f", "chain", "absolute", "to-d", "gone", "outside", "loop", "to-e\\inner"];
    for link in links {
        for (from, class) in
            [("f", class::RENAME), ("g", class::RENAME), ("g", class::LINK), ("f", class::LINK)]
        {
            alone(move |side| async move {
                let who = request_context(1);
                tree(&side).await;
                let context = format!("{from} to {link} by {class}");
                let open = side.open(&who, from, &Wish::new(Disposition::Open)).await;
                let before = says(&side, link).await;
                assert!(before.is_some());
                let kept = set(&side, &who, &open, class, &renamed(link, false)).await;
                assert_eq!(kept, Err(Status::OBJECT_NAME_COLLISION), "{context}");
                assert_eq!(says(&side, link).await, before, "{context}");
                assert_eq!(set(&side, &who, &open, class, &renamed(link, true)).await, Ok(()), "{context}");
                side.share.close(&who, &open, 0).await.unwrap();
                assert_eq!(says(&side, link).await, None, "{context}");
                assert_eq!(side.content(&who, link).await.as_deref(), Ok(from.as_bytes()), "{context}");
                let other = if from == "f" { "g" } else { "f" };
                assert_eq!(side.content(&who, other).await.as_deref(), Ok(other.as_bytes()), "{context}");
            });
        }
    }
}

#[test]
fn a_link_gets_its_own_name_in_another_case_and_never_that_of_what_it_leads_to() {
    alone(|side| async move {
        let who = request_context(1);
        tree(&side).await;
        let open = side.open(&who, "to-f", &Wish::new(Disposition::Open)).await;
        set(&side, &who, &open, class::RENAME, &renamed("to-f", false)).await.unwrap();
        set(&side, &who, &open, class::RENAME, &renamed("TO-F", false)).await.unwrap();
        assert_eq!(says(&side, "TO-F").await.as_deref(), Some("f"));
        for (replaces, status) in [(false, Status::OBJECT_NAME_COLLISION), (true, Status::ACCESS_DENIED)] {
            let over = set(&side, &who, &open, class::RENAME, &renamed("f", replaces)).await;
            assert_eq!(over, Err(status));
        }
        side.share.close(&who, &open, 0).await.unwrap();
        check_targets(&side, "renamed onto what it leads to").await;
    });
}

#[test]
fn who_has_the_file_open_or_cached_is_neither_in_the_way_nor_asked() {
    for act in ACTS.into_iter().filter(|act| !matches!(act, Act::DeleteByAnyRight)) {
        alone(move |side| async move {
            let (who, other) = (request_context(1), request_context(2));
            tree(&side).await;
            let alone = Wish { share: 0, access: rights::FILE_READ, ..lease(1, 7, None) };
            let open = side.open(&other, "f", &Wish { disposition: Disposition::Open, ..alone }).await;
            side.make(&who, "over", b"over").await;
            assert_eq!(act.is_done(&side, &who, "to-f").await, Ok(()), "{act:?}");
            assert!(side.heard.leases.borrow().is_empty(), "{act:?}");
            assert_eq!(says(&side, "to-f").await, None, "{act:?}");
            side.share.close(&other, &open, 0).await.unwrap();
            check_targets(&side, "beside another open").await;
        });
    }
}

#[test]
fn another_link_that_has_the_name_by_then_stays() {
    for act in [Act::Disposition, Act::DispositionAtOnce, Act::Rename] {
        alone(move |side| async move {
            let who = request_context(1);
            tree(&side).await;
            let open = side.open(&who, "to-f", &act.wish()).await;
            let itself = act.wish().with(options::OPEN_REPARSE_POINT);
            let next = side.open(&who, "to-d", &itself).await;
            set(&side, &who, &next, class::RENAME, &renamed("to-f", true)).await.unwrap();
            side.share.close(&who, &next, 0).await.unwrap();
            let gone = Err(Status::OBJECT_NAME_NOT_FOUND);
            match act {
                Act::Rename => {
                    let moved = set(&side, &who, &open, class::RENAME, &renamed("renamed", false)).await;
                    assert_eq!(moved, gone);
                }
                Act::DispositionAtOnce => {
                    let bits = disposition::DELETE | disposition::POSIX_SEMANTICS;
                    set(&side, &who, &open, class::DISPOSITION_EX, &bits.to_le_bytes()).await.unwrap();
                }
                _ => set(&side, &who, &open, class::DISPOSITION, &[1]).await.unwrap(),
            }
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(says(&side, "to-f").await.as_deref(), Some("d"), "{act:?}");
            check_targets(&side, "another link has the name").await;
        });
    }
}

#[test]
fn a_links_name_is_deleted_by_who_may_delete_in_its_directory() {
    served_by(true, |side, accounts| async move {
        let (operator, mary) = (request_context(9), user(&accounts, "mary", 1));
        let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        for name in ["links", "files"] {
            assert_eq!(side.status(&operator, name, &directory).await, Status::SUCCESS);
        }
        side.make(&operator, "files\\f", b"f").await;
        let found = side.volume.lookup(RelPath::parse(b"links").unwrap()).await.unwrap();
        let (links, _) = found.into_directory().unwrap();
        links.symlink(&operator.caller, Name::parse(b"to-f").unwrap(), b"../files/f").await.unwrap();
        set_list(&side, &[""], &[("mary", "rl")]).await;
        for (in_links, in_files, expected) in
            [("rl", "rlidwk", Status::ACCESS_DENIED), ("rlid", "rl", Status::SUCCESS)]
        {
            set_list(&side, &["links"], &[("mary", in_links)]).await;
            set_list(&side, &["files"], &[("mary", in_files)]).await;
            let goes = Act::DeleteOnClose.wish();
            assert_eq!(side.status(&mary, "links\\to-f", &goes).await, expected, "{in_links}");
            let path = "links\\to-f";
            assert_eq!(says(&side, path).await.is_some(), expected != Status::SUCCESS, "{in_links}");
            assert_eq!(side.content(&operator, "files\\f").await.as_deref(), Ok(b"f".as_slice()));
        }
    });
}
