//! View of a volume by a share: names that are left out, short names, bits of descriptors.

use smb_tree::{RequestContext, ShareOptions};
use smb_wire::Status;
use smb_wire::body::query_directory::flags;
use smb_wire::create::access::rights::{
    self as rights, FILE_ALL, FILE_READ, READ_ATTRIBUTES, READ_CONTROL, READ_DATA, READ_EA, SYNCHRONIZE,
};
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::{Disposition, options};
use smb_wire::info::directory::Class;
use smb_wire::info::file::class;
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type, control};
use vfs::{CreateOptions, RelPath};

use super::directories::{answered, list, root};
use super::information::{descriptor, renamed, set};
use super::links::make_links;
use super::{Side, Wish, alone, mary, request_context};

/// Returns the volume by another share.
fn shown(side: &Side, options: ShareOptions) -> Side {
    let share = side.tree.add_share("shown", side.volume.clone(), options);
    Side { share, ..side.clone() }
}

/// Makes something over which every user has the same rights.
async fn make(side: &Side, who: &RequestContext, name: &str, mask: u32, bits: u32) {
    let ace = Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask, sid: Sid::EVERYONE };
    let descriptor = Descriptor { dacl: Some(vec![ace]), ..Descriptor::default() };
    let mut contexts = ContextWriter::new();
    contexts.push(tag::SD_BUFFER, &descriptor.to_bytes());
    let contexts = contexts.bytes().to_vec();
    let wish = Wish { contexts, ..Wish::new(Disposition::Create) }.with(bits);
    assert_eq!(side.status(who, name, &wish).await, Status::SUCCESS, "{name}");
}

async fn names(side: &Side, who: &RequestContext, pattern: &str) -> Result<Vec<String>, Status> {
    let open = root(side, who).await;
    let found = list(side, who, &open, (pattern, flags::REOPEN, Class::IdBothDirectory, 65_536)).await;
    side.share.close(who, &open, 0).await.unwrap();
    found
}

#[test]
fn who_may_not_read_something_does_not_see_its_name_where_the_share_says_so() {
    alone(|side| async move {
        let (who, mary) = (request_context(1), mary(2));
        let reads = READ_CONTROL | READ_DATA | READ_ATTRIBUTES | READ_EA | SYNCHRONIZE;
        for (name, mask, bits) in [
            ("a reads", reads, 0),
            ("b no ea", reads & !READ_EA, 0),
            ("c no attributes", reads & !READ_ATTRIBUTES, 0),
            ("d no data", reads & !READ_DATA, 0),
            ("e directory", reads & !READ_DATA, options::DIRECTORY_FILE),
            ("f directory", reads, options::DIRECTORY_FILE),
        ] {
            make(&side, &who, name, mask, bits).await;
        }
        side.make(&who, "g plain", b"").await;
        make_links(&side, &[("h link", "a reads")]).await;
        let all = names(&side, &mary, "*").await.unwrap();
        assert_eq!(all.len(), 2 + 8, "{all:?}");
        let hiding = shown(&side, ShareOptions { hide_unreadable: true, ..ShareOptions::default() });
        let seen = names(&hiding, &mary, "*").await;
        assert_eq!(seen.unwrap(), [".", "..", "a reads", "f directory", "g plain", "h link"]);
        for (pattern, seen) in
            [("A READS", Ok(vec!["a reads".to_owned()])), ("d no data", Err(Status::NO_SUCH_FILE))]
        {
            assert_eq!(names(&hiding, &mary, pattern).await, seen, "{pattern}");
        }
        assert_eq!(names(&hiding, &who, "*").await.unwrap().len(), all.len(), "the operator reads all");
        // A name that is left out is there: a user that knows it has its rights.
        let asks = Wish { access: READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        assert_eq!(hiding.status(&mary, "d no data", &asks).await, Status::SUCCESS);
        assert!(hiding.share.hides_unreadable() && !side.share.hides_unreadable());
    });
}

#[test]
fn that_a_list_was_inherited_is_kept_unasked_only_where_the_share_says_so() {
    alone(|side| async move {
        let who = request_context(1);
        let keeping = shown(&side, ShareOptions { keep_inherited: true, ..ShareOptions::default() });
        let (said, asked) = (control::DACL_AUTO_INHERITED, control::DACL_AUTO_INHERIT_REQ);
        for (n, (share, bits, kept)) in [
            (&side, said, 0),
            (&side, said | asked, said),
            (&keeping, said, said),
            (&keeping, asked, 0),
            (&keeping, said | asked, said),
        ]
        .into_iter()
        .enumerate()
        {
            let ace = Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask: FILE_ALL, sid: Sid::EVERYONE };
            let given = Descriptor { control: bits, dacl: Some(vec![ace]), ..Descriptor::default() };
            let mut contexts = ContextWriter::new();
            contexts.push(tag::SD_BUFFER, &given.to_bytes());
            let wish = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Create) };
            let open = share.open(&who, &format!("page{n}"), &Wish { access: FILE_ALL, ..wish }).await;
            assert_eq!(descriptor(share, &who, &open).await.control & (said | asked), kept, "{n}");
            share.share.close(&who, &open, 0).await.unwrap();
        }
    });
}

/// The short name that a listing tells beside the only one that there is.
async fn short_name(side: &Side, who: &RequestContext) -> String {
    let open = root(side, who).await;
    let class = Class::IdBothDirectory;
    let entries = answered(side, who, &open, ("long*", flags::REOPEN, class, 65_536)).await.unwrap();
    side.share.close(who, &open, 0).await.unwrap();
    // ShortNameLength, a byte that is reserved, ShortName (MS-FSCC 2.4.22).
    let (len, units) = (usize::from(entries[68]), &entries[70..94]);
    units[..len].chunks_exact(2).map(|unit| char::from(unit[0])).collect()
}

#[test]
fn a_file_that_is_made_anew_by_its_short_name_keeps_its_long_one_for_a_while() {
    alone(|side| async move {
        let who = request_context(1);
        let side = shown(&side, ShareOptions { short_names: true, ..ShareOptions::default() });
        side.make(&who, "long name of a file.text", b"one").await;
        let short = short_name(&side, &who).await;
        let goes = Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE);
        assert_eq!(side.status(&who, &short.to_lowercase(), &goes).await, Status::SUCCESS);
        let reads = Wish { access: FILE_READ, ..Wish::new(Disposition::Open) };
        assert_eq!(side.status(&who, &short, &reads).await, Status::OBJECT_NAME_NOT_FOUND);
        side.make(&who, &short, b"two").await;
        assert_eq!(names(&side, &who, "long*").await.unwrap(), ["long name of a file.text"]);
        assert_eq!(side.content(&who, &short).await.unwrap(), b"two");
        // Elsewhere, and later, it is a name like any other.
        assert_eq!(side.status(&who, &short, &goes).await, Status::SUCCESS);
        let sub = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "sub", &sub).await, Status::SUCCESS);
        side.make(&who, &format!("sub\\{short}"), b"").await;
        lane::time::sleep(std::time::Duration::from_secs(16)).await;
        side.make(&who, &short, b"three").await;
        assert_eq!(names(&side, &who, "long*").await, Err(Status::NO_SUCH_FILE));
        assert_eq!(names(&side, &who, &short).await.unwrap(), [short]);
    });
}

#[test]
fn what_is_no_unicode_is_listed_watched_opened_renamed_and_deleted_by_the_name_that_it_is_shown_by() {
    alone(|side| async move {
        let who = request_context(1);
        // As another service makes them.
        let found = side.volume.lookup(RelPath::ROOT).await.unwrap();
        let (above, _) = found.into_directory().unwrap();
        let directory = vfs::Name::parse(b"caf\xe9").unwrap();
        above.make_directory(&who.caller, directory, 0o755).await.unwrap();
        let within = RelPath::parse(b"caf\xe9").unwrap();
        let (within, _) = side.volume.lookup(within).await.unwrap().into_directory().unwrap();
        let stored: [&[u8]; 5] = [b"\xff", b"a\xc3", "\u{efc3}".as_bytes(), "\u{f022}".as_bytes(), b"x:"];
        for name in stored {
            let new = CreateOptions { exclusive: true, mode: 0o644 };
            drop(within.create(&who.caller, vfs::Name::parse(name).unwrap(), new).await.unwrap());
        }
        assert_eq!(names(&side, &who, "*").await.unwrap(), [".", "..", "caf\u{efe9}"]);
        assert_eq!(names(&side, &who, "CAF\u{efe9}").await.unwrap(), ["caf\u{efe9}"]);
        let path = |name: &str| format!("caf\u{efe9}\\{name}");
        let access = FILE_READ | rights::DELETE;
        let wish = Wish { access, ..Wish::new(Disposition::Open) };
        let lists = Wish { access: FILE_READ, ..wish.clone() }.with(options::DIRECTORY_FILE);
        let open = side.open(&who, "caf\u{efe9}", &lists).await;
        let listed = list(&side, &who, &open, ("*", flags::REOPEN, Class::IdBothDirectory, 65_536)).await;
        let listed = listed.unwrap();
        assert_eq!(
            listed,
            [
                ".",
                "..",
                "a\u{efc3}",
                "x\u{f022}",
                "\u{efee}\u{efbf}\u{ef83}",
                "\u{efef}\u{ef80}\u{efa2}",
                "\u{efff}"
            ]
        );
        // What is made by a client has the name that it gave, and no name leads to another's file.
        side.make(&who, &path("\u{efe9}"), b"made").await;
        assert_eq!(side.content(&who, &path("\u{efe9}")).await.unwrap(), b"made");
        let made = Wish::new(Disposition::OpenIf);
        assert_eq!(side.status(&who, &path("\u{efc3}\u{efa9}"), &made).await, Status::OBJECT_NAME_INVALID);
        let file = side.open(&who, &path("\u{efe9}"), &wish).await;
        let to = path("\u{efc3}\u{efa9}");
        let moved = set(&side, &who, &file, class::RENAME, &renamed(&to, false)).await;
        assert_eq!(moved, Err(Status::OBJECT_NAME_INVALID));
        let to = path("b\u{ef80}");
        set(&side, &who, &file, class::RENAME, &renamed(&to, false)).await.unwrap();
        assert_eq!(side.content(&who, &to).await.unwrap(), b"made");
        side.share.close(&who, &file, 0).await.unwrap();
        // Everything goes, and then the directory.
        let goes = wish.clone().with(options::DELETE_ON_CLOSE);
        for name in listed[2..].iter().map(String::as_str).chain(["b\u{ef80}"]) {
            assert_eq!(side.status(&who, &path(name), &goes).await, Status::SUCCESS, "{name}");
        }
        side.share.close(&who, &open, 0).await.unwrap();
        let goes = goes.with(options::DIRECTORY_FILE | options::DELETE_ON_CLOSE);
        assert_eq!(side.status(&who, "caf\u{efe9}", &goes).await, Status::SUCCESS);
        assert_eq!(names(&side, &who, "*").await.unwrap(), [".", ".."]);
    });
}
