//! Symbolic links: followed, opened themselves, told of, and taken away.

use std::sync::Arc;

use smb_tree::{Open, OpenKind, RequestContext};
use smb_wire::Status;
use smb_wire::body::error::SymlinkError;
use smb_wire::body::query_directory::flags;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::{Disposition, options};
use smb_wire::fsctl::{code, reparse};
use smb_wire::info::directory::{Class, parse};
use smb_wire::info::file::{AttributeTagInformation, BasicInformation, class, plain};
use smb_wire::info::posix::kind;
use vfs::{Name, RelPath};
use zerocopy::{FromZeros, IntoBytes};

use super::directories::{answered, list, root};
use super::information::{file, renamed, set};
use super::{Side, Wish, alone, on_lanes, request_context};

/// `links` are names and what they say.
pub(super) async fn make_links(side: &Side, links: &[(&str, &str)]) {
    let found = side.volume.lookup(RelPath::ROOT).await.unwrap();
    let (directory, _) = found.into_directory().unwrap();
    let caller = request_context(9).caller;
    for (name, target) in links {
        let name = Name::parse(name.as_bytes()).unwrap();
        directory.symlink(&caller, name, target.as_bytes()).await.unwrap();
    }
}

/// A moment of the year 2000, on a whole second.
const SECOND: u64 = 125_911_584_010_000_000;

fn itself() -> Wish {
    let access = rights::READ_ATTRIBUTES | rights::WRITE_ATTRIBUTES | rights::DELETE;
    Wish { access, ..Wish::new(Disposition::Open) }.with(options::OPEN_REPARSE_POINT)
}

async fn says(side: &Side, who: &RequestContext, open: &Arc<Open>) -> Result<(String, bool), Status> {
    let answer = side.share.ioctl(who, open, code::GET_REPARSE_POINT, &[], 4096).await?;
    let (tag, data) = reparse::parse(&answer.output).unwrap();
    assert_eq!(tag, reparse::SYMLINK);
    let link = reparse::Symlink::parse(data).unwrap();
    Ok((link.target, link.relative))
}

#[test]
fn who_asks_for_the_link_itself_has_it_opened_and_others_what_it_leads_to() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"content").await;
        make_links(&side, &[("link", "./page"), ("gone", "/no/where")]).await;
        assert_eq!(side.content(&who, "link").await.unwrap(), b"content");
        let open = side.open(&who, "link", &itself()).await;
        assert_eq!(open.kind(), OpenKind::Link);
        let tag = file(&side, &who, &open, class::ATTRIBUTE_TAG).await.unwrap();
        let tag = plain::<AttributeTagInformation>(&tag).unwrap();
        assert_ne!(tag.file_attributes.get() & attributes::REPARSE_POINT, 0);
        assert_eq!(tag.reparse_tag.get(), reparse::SYMLINK);
        assert_eq!(says(&side, &who, &open).await, Ok((".\\page".to_owned(), true)));
        let short = side.share.ioctl(&who, &open, code::GET_REPARSE_POINT, &[], 8).await;
        assert_eq!(short, Err(Status::BUFFER_TOO_SMALL));
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "gone", &itself()).await;
        assert_eq!(says(&side, &who, &open).await, Ok(("\\no\\where".to_owned(), false)));
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "page", &itself()).await;
        assert_eq!(open.kind(), OpenKind::File);
        assert_eq!(says(&side, &who, &open).await, Err(Status::NOT_A_REPARSE_POINT));
        side.share.close(&who, &open, 0).await.unwrap();
        let over = Wish { disposition: Disposition::OverwriteIf, ..itself() };
        assert_eq!(side.status(&who, "gone", &over).await, Status::ACCESS_DENIED);
        let made = Wish { disposition: Disposition::Create, ..itself() };
        assert_eq!(side.status(&who, "gone", &made).await, Status::OBJECT_NAME_COLLISION);
    });
}

#[test]
fn a_link_is_renamed_and_taken_away_and_what_it_leads_to_stays() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"content").await;
        let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "sub", &directory).await, Status::SUCCESS);
        make_links(&side, &[("one", "page"), ("two", "sub"), ("three", "nowhere")]).await;
        let open = side.open(&who, "one", &itself()).await;
        // As clients do before they delete something.
        let cleared =
            BasicInformation { file_attributes: attributes::NORMAL.into(), ..BasicInformation::new_zeroed() };
        set(&side, &who, &open, class::BASIC, cleared.as_bytes()).await.unwrap();
        let moved = BasicInformation { last_write_time: SECOND.into(), ..BasicInformation::new_zeroed() };
        set(&side, &who, &open, class::BASIC, moved.as_bytes()).await.unwrap();
        set(&side, &who, &open, class::RENAME, &renamed("first", false)).await.unwrap();
        assert_eq!(says(&side, &who, &open).await.unwrap().0, "page");
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "first", &itself()).await;
        let told = file(&side, &who, &open, class::BASIC).await.unwrap();
        assert_eq!(plain::<BasicInformation>(&told).unwrap().last_write_time.get(), SECOND);
        side.share.close(&who, &open, 0).await.unwrap();
        for name in ["first", "two", "three"] {
            let goes = Wish { options: options::OPEN_REPARSE_POINT | options::DELETE_ON_CLOSE, ..itself() };
            assert_eq!(side.status(&who, name, &goes).await, Status::SUCCESS, "{name}");
            assert_eq!(side.status(&who, name, &itself()).await, Status::OBJECT_NAME_NOT_FOUND, "{name}");
        }
        assert_eq!(side.content(&who, "page").await.unwrap(), b"content");
        let sub = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        assert_eq!(side.status(&who, "sub", &sub).await, Status::SUCCESS);
    });
}

#[test]
fn who_speaks_posix_is_stopped_by_a_link_and_sees_links_in_listings() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        side.make(&who, "page", b"content").await;
        make_links(&side, &[("a", "page"), ("z", "/no/where")]).await;
        let mut contexts = ContextWriter::new();
        contexts.push(tag::POSIX, &0u32.to_le_bytes());
        let by_posix = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Open) };
        for (name, target) in [("a", "page"), ("z", "/no/where")] {
            let error = side.create(&who, name, &by_posix).await.unwrap_err();
            assert_eq!(error.status, Status::STOPPED_ON_SYMLINK);
            let told = SymlinkError::parse(&error.data).unwrap();
            assert_eq!((told.target.as_str(), told.unparsed_len), (target, 0));
        }
        let open = root(&side, &who).await;
        let entries = answered(&side, &who, &open, ("*", flags::REOPEN, Class::Posix, 65_536)).await.unwrap();
        let kinds: Vec<_> = parse(&entries, Class::Posix)
            .map(|entry| {
                let entry = entry.unwrap();
                let (_, posix) = entry.posix.unwrap();
                (entry.name.lossy(), posix.mode & 0o70000, posix.reparse_tag)
            })
            .skip(2)
            .collect();
        let link = |name: &str| (name.to_owned(), kind::SYMLINK, reparse::SYMLINK);
        assert_eq!(kinds, [link("a"), ("page".to_owned(), kind::PLAIN, 0), link("z")]);
        let mut one_by_one = Vec::new();
        let mut bits = flags::REOPEN | flags::RETURN_SINGLE_ENTRY;
        while let Ok(names) = list(&side, &who, &open, ("?", bits, Class::Posix, 65_536)).await {
            one_by_one.extend(names);
            bits = flags::RETURN_SINGLE_ENTRY;
        }
        assert_eq!(one_by_one, [".", "a", "z"]);
        let others = list(&side, &who, &open, ("*", flags::REOPEN, Class::IdBothDirectory, 65_536)).await;
        assert_eq!(others.unwrap(), [".", "..", "a", "page"], "others see what links lead to");
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

/// The buffer of FSCTL_SET_REPARSE_POINT.
fn link_to(target: &str) -> Vec<u8> {
    reparse::Symlink { target: target.to_owned(), relative: !target.starts_with('\\') }.to_bytes().unwrap()
}

/// Makes the parameters by which Linux opens what it makes a link of.
fn to_make() -> Wish {
    let access = rights::DELETE | rights::READ_ATTRIBUTES | rights::WRITE_ATTRIBUTES;
    Wish { access, ..Wish::new(Disposition::Create) }.with(options::OPEN_REPARSE_POINT)
}

async fn become_link(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    input: &[u8],
) -> Result<(), Status> {
    side.share.ioctl(who, open, code::SET_REPARSE_POINT, input, 0).await.map(drop)
}

#[test]
fn a_file_that_was_just_made_becomes_a_link_and_its_open_one_of_that() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"content").await;
        for (name, target) in [("link", "page"), ("far", "\\no\\where"), ("up", "..\\..\\..\\etc\\passwd")] {
            let open = side.open(&who, name, &to_make()).await;
            assert_eq!(open.kind(), OpenKind::File);
            become_link(&side, &who, &open, &link_to(target)).await.unwrap();
            assert_eq!(open.kind(), OpenKind::Link);
            assert_eq!(says(&side, &who, &open).await.unwrap().0, target);
            let tag = file(&side, &who, &open, class::ATTRIBUTE_TAG).await.unwrap();
            assert_eq!(plain::<AttributeTagInformation>(&tag).unwrap().reparse_tag.get(), reparse::SYMLINK);
            assert_eq!(become_link(&side, &who, &open, &link_to("x")).await, Err(Status::NOT_SUPPORTED));
            side.share.close(&who, &open, 0).await.unwrap();
            let again = side.open(&who, name, &itself()).await;
            assert_eq!(says(&side, &who, &again).await.unwrap().0, target);
            side.share.close(&who, &again, 0).await.unwrap();
        }
        assert_eq!(side.content(&who, "link").await.unwrap(), b"content");
        for name in ["far", "up"] {
            assert_eq!(
                side.content(&who, name).await,
                Err(Status::ACCESS_DENIED),
                "nobody is led out: {name}"
            );
        }
        let open = root(&side, &who).await;
        let seen = list(&side, &who, &open, ("*", flags::REOPEN, Class::IdBothDirectory, 65_536)).await;
        assert_eq!(seen.unwrap(), [".", "..", "link", "page"]);
        side.share.close(&who, &open, 0).await.unwrap();
        // What the open is told to delete is the link.
        let open = side.open(&who, "gone", &to_make()).await;
        become_link(&side, &who, &open, &link_to("page")).await.unwrap();
        set(&side, &who, &open, class::DISPOSITION, &[1]).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.status(&who, "gone", &itself()).await, Status::OBJECT_NAME_NOT_FOUND);
        assert_eq!(side.content(&who, "page").await.unwrap(), b"content");
    });
}

#[test]
fn what_is_no_empty_file_becomes_no_link_and_other_tags_are_refused() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"content").await;
        let directory = to_make().with(options::DIRECTORY_FILE);
        let sub = side.open(&who, "sub", &directory).await;
        let opened = Wish { disposition: Disposition::Open, ..to_make() };
        let page = side.open(&who, "page", &opened).await;
        for open in [&sub, &page] {
            assert_eq!(become_link(&side, &who, open, &link_to("x")).await, Err(Status::NOT_SUPPORTED));
        }
        let new = side.open(&who, "new", &to_make()).await;
        let mut fifo = link_to("x");
        fifo[..4].copy_from_slice(&reparse::NFS.to_le_bytes());
        for (input, status) in [
            (fifo, Status::IO_REPARSE_TAG_NOT_HANDLED),
            (link_to("\\??\\C:\\x"), Status::IO_REPARSE_DATA_INVALID),
            (link_to("x")[..19].to_vec(), Status::IO_REPARSE_DATA_INVALID),
        ] {
            assert_eq!(become_link(&side, &who, &new, &input).await, Err(status));
        }
        let blind = Wish { access: rights::READ_DATA, ..opened };
        let blind = side.open(&who, "new", &blind).await;
        assert_eq!(become_link(&side, &who, &blind, &link_to("x")).await, Err(Status::ACCESS_DENIED));
        for open in [&sub, &page, &new, &blind] {
            side.share.close(&who, open, 0).await.unwrap();
        }
        assert_eq!(side.content(&who, "page").await.unwrap(), b"content");
        assert_eq!(side.content(&who, "new").await.unwrap(), b"");
    });
}

#[test]
fn what_has_become_a_link_is_one_to_lanes_that_had_the_file_at_hand() {
    on_lanes(1, 2, |lane, side| async move {
        let who = request_context(1);
        let second = std::time::Duration::from_secs(1);
        if lane == 0 {
            let open = side.open(&who, "link", &to_make()).await;
            lane::time::sleep(2 * second).await;
            become_link(&side, &who, &open, &link_to("page")).await.unwrap();
            lane::time::sleep(2 * second).await;
            side.share.close(&who, &open, 0).await.unwrap();
            return;
        }
        lane::time::sleep(second).await;
        let open = side.tree.opens().of_session(1).pop().unwrap();
        assert_eq!(says(&side, &who, &open).await, Err(Status::NOT_A_REPARSE_POINT));
        lane::time::sleep(2 * second).await;
        for _ in 0..2 {
            assert_eq!(says(&side, &who, &open).await, Ok(("page".to_owned(), true)));
        }
    });
}
