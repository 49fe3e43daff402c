//! Every operation of SMB through symbolic links: it is done to what the link leads to, where that is; docs/design/smb.md has the rule.

use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, create_action, options};
use smb_wire::info::file::{BasicInformation, StandardInformation, class, plain};
use smb_wire::info::notify::action;
use zerocopy::{FromZeros, IntoBytes};

use super::directories::list;
use super::information::{file, renamed, set};
use super::links::make_links;
use super::{Side, Wish, alone, request_context};

/// A file and a directory with one in it, and all kinds of links to them from the root.
async fn tree(side: &Side) {
    let who = request_context(9);
    side.make(&who, "f", b"content").await;
    let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
    for name in ["d", "d\\sub"] {
        assert_eq!(side.status(&who, name, &directory).await, Status::SUCCESS);
    }
    side.make(&who, "d\\in", b"content").await;
    make_links(
        side,
        &[
            ("to-f", "f"),
            ("chain", "to-f"),
            ("absolute", "/srv/f"),
            ("by-dots", "./d/../d/./in"),
            ("to-d", "d"),
            ("chain-d", "to-d"),
            ("absolute-d", "/srv/d"),
            ("slash-d", "d/"),
            ("dot-d", "/srv/d/."),
            ("slash", "f/"),
            ("dot", "./f/."),
            ("absolute-slash", "/srv/f/"),
            ("over-f", "f/../d/in"),
            ("over-nothing", "no/../f"),
            ("outside", "/etc"),
            ("up", "../etc"),
            ("gone", "nowhere"),
            ("gone-d", "no/where"),
            ("loop", "pool"),
            ("pool", "loop"),
            ("self", "self"),
        ],
    )
    .await;
}

/// A way to a file, and where that is.
const FILES: [(&str, &str); 7] = [
    ("to-f", "f"),
    ("chain", "f"),
    ("absolute", "f"),
    ("by-dots", "d\\in"),
    ("to-d\\in", "d\\in"),
    ("chain-d\\in", "d\\in"),
    ("absolute-d\\in", "d\\in"),
];

const DIRECTORIES: [&str; 5] = ["to-d", "chain-d", "absolute-d", "slash-d", "dot-d"];

const DISPOSITIONS: [Disposition; 6] = [
    Disposition::Supersede,
    Disposition::Open,
    Disposition::Create,
    Disposition::OpenIf,
    Disposition::Overwrite,
    Disposition::OverwriteIf,
];

fn with_access(access: u32) -> Wish {
    Wish { access, ..Wish::new(Disposition::Open) }
}

#[test]
fn each_mask_and_disposition_opens_what_a_link_leads_to_as_if_by_its_own_name() {
    for (link, real) in FILES {
        alone(move |side| async move {
            let who = request_context(1);
            tree(&side).await;
            let masks = (0..9).chain(16..21).map(|bit| 1 << bit);
            let wide =
                [rights::GENERIC_READ, rights::GENERIC_WRITE, rights::GENERIC_ALL, rights::MAXIMUM_ALLOWED];
            for access in masks.chain(wide) {
                let wish = with_access(access);
                let by_name = side.status(&who, real, &wish).await;
                assert_eq!(by_name, Status::SUCCESS, "{real} {access:#x}");
                assert_eq!(side.status(&who, link, &wish).await, by_name, "{link} {access:#x}");
            }
            for disposition in DISPOSITIONS {
                let wish = Wish::new(disposition);
                let action = |created: Result<smb_tree::Created, smb_tree::CreateError>| {
                    created
                        .map(|created| (created.fixed.create_action.get(), created.open))
                        .map_err(|error| error.status)
                };
                let by_link = action(side.create(&who, link, &wish).await);
                if let Ok((_, open)) = &by_link {
                    side.share.close(&who, open, 0).await.unwrap();
                }
                let by_name = action(side.create(&who, real, &wish).await);
                if let Ok((_, open)) = &by_name {
                    side.share.close(&who, open, 0).await.unwrap();
                }
                let kind = |opened: Result<(u32, _), Status>| opened.map(|(action, _)| action);
                assert_eq!(kind(by_link), kind(by_name), "{link} {disposition:?}");
            }
        });
    }
}

#[test]
fn data_attributes_streams_and_names_are_those_of_what_a_link_leads_to() {
    for (link, real) in FILES {
        alone(move |side| async move {
            let who = request_context(1);
            tree(&side).await;
            let open = side.open(&who, link, &Wish::new(Disposition::Open)).await;
            side.share.write_bytes(&who, &open, 0, b"CONTENT!", false).await.unwrap();
            let times = BasicInformation {
                last_write_time: 125_911_584_010_000_000.into(),
                ..BasicInformation::new_zeroed()
            };
            set(&side, &who, &open, class::BASIC, times.as_bytes()).await.unwrap();
            let standard = file(&side, &who, &open, class::STANDARD).await.unwrap();
            assert_eq!(plain::<StandardInformation>(&standard).unwrap().end_of_file.get(), 8);
            assert_eq!(side.read(&who, &open, 0, 100).await.unwrap(), b"CONTENT!");
            set(&side, &who, &open, class::END_OF_FILE, &4u64.to_le_bytes()).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, real).await.unwrap(), b"CONT");
            side.make(&who, &format!("{link}:stream"), b"aside").await;
            assert_eq!(side.content(&who, &format!("{real}:stream")).await.unwrap(), b"aside");
            // One more name, beside the link.
            let open = side.open(&who, link, &Wish::new(Disposition::Open)).await;
            set(&side, &who, &open, class::LINK, &renamed("second", false)).await.unwrap();
            assert_eq!(side.content(&who, "second").await.unwrap(), b"CONT");
            // What is renamed and what goes has the name: the link, or the file where links are but further up.
            set(&side, &who, &open, class::RENAME, &renamed("third", false)).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, "third").await.unwrap(), b"CONT");
            assert_eq!(side.content(&who, link).await, Err(Status::OBJECT_NAME_NOT_FOUND), "{link}");
            let is_link = !link.contains('\\');
            let stays = if is_link { Ok(b"CONT".to_vec()) } else { Err(Status::OBJECT_NAME_NOT_FOUND) };
            assert_eq!(side.content(&who, real).await, stays, "{link}");
            let goes = with_access(rights::DELETE).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, "third", &goes).await, Status::SUCCESS);
            assert_eq!(side.content(&who, "third").await, Err(Status::OBJECT_NAME_NOT_FOUND), "{link}");
            assert_eq!(side.content(&who, real).await, stays, "{link}");
        });
    }
}

#[test]
fn what_is_made_through_a_link_to_a_directory_is_made_there() {
    for link in DIRECTORIES {
        alone(move |side| async move {
            let who = request_context(1);
            tree(&side).await;
            let making =
                [Disposition::Create, Disposition::OpenIf, Disposition::Supersede, Disposition::OverwriteIf];
            for (at, disposition) in making.into_iter().enumerate() {
                let name = format!("new{at}");
                let created = side.create(&who, &format!("{link}\\{name}"), &Wish::new(disposition)).await;
                let created =
                    created.unwrap_or_else(|error| panic!("{link} {disposition:?} {:?}", error.status));
                assert_eq!(created.fixed.create_action.get(), create_action::CREATED);
                side.share.write_bytes(&who, &created.open, 0, b"new", false).await.unwrap();
                side.share.close(&who, &created.open, 0).await.unwrap();
                assert_eq!(side.content(&who, &format!("d\\{name}")).await.unwrap(), b"new");
            }
            let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
            assert_eq!(side.status(&who, &format!("{link}\\below"), &directory).await, Status::SUCCESS);
            assert_eq!(
                side.status(&who, &format!("{link}\\below\\file"), &Wish::new(Disposition::Create)).await,
                Status::SUCCESS
            );
            // In another case too, of the link and of what is behind it.
            assert_eq!(
                side.content(&who, &format!("{}\\BELOW\\FILE", link.to_uppercase())).await.unwrap(),
                b""
            );
            let upper = format!("{}\\another", link.to_uppercase());
            assert_eq!(side.status(&who, &upper, &Wish::new(Disposition::Create)).await, Status::SUCCESS);
            assert_eq!(side.content(&who, "d\\another").await.unwrap(), b"");
            // Names of what is there move in, and out again.
            let open = side.open(&who, "f", &Wish::new(Disposition::Open)).await;
            set(&side, &who, &open, class::RENAME, &renamed(&format!("{link}\\moved"), false)).await.unwrap();
            assert_eq!(side.content(&who, "d\\moved").await.unwrap(), b"content");
            set(&side, &who, &open, class::LINK, &renamed(&format!("{link}\\twice"), false)).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, "d\\twice").await.unwrap(), b"content");
            // The directory is listed, and watched.
            let open =
                side.open(&who, link, &with_access(rights::FILE_READ).with(options::DIRECTORY_FILE)).await;
            let seen = list(
                &side,
                &who,
                &open,
                ("n*", 0, smb_wire::info::directory::Class::IdBothDirectory, 65_536),
            )
            .await;
            assert_eq!(seen.unwrap(), ["new0", "new1", "new2", "new3"]);
            let watch = {
                let (side, who, open) = (side.clone(), who.clone(), open.clone());
                lane::spawn(async move { super::notifies::told(&side, &who, &open).await })
            };
            lane::time::sleep(std::time::Duration::from_millis(10)).await;
            side.make(&who, "d\\watched", b"").await;
            assert_eq!(watch.await, [(action::ADDED, "watched".to_owned())]);
            side.share.close(&who, &open, 0).await.unwrap();
            // It goes as what it is.
            let goes = with_access(rights::DELETE).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, &format!("{link}\\sub"), &goes).await, Status::SUCCESS);
            let again = with_access(rights::READ_ATTRIBUTES);
            assert_eq!(side.status(&who, "d\\sub", &again).await, Status::OBJECT_NAME_NOT_FOUND);
        });
    }
}

#[test]
fn a_link_that_leads_nowhere_out_or_round_in_circles_says_so_whatever_is_asked() {
    alone(|side| async move {
        let who = request_context(1);
        tree(&side).await;
        let kinds = [0, options::DIRECTORY_FILE, options::NON_DIRECTORY_FILE];
        for (link, status, below) in [
            ("gone", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            ("gone-d", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            // To a file, or over one or nothing, as if that were a directory.
            ("slash", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            ("dot", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            ("absolute-slash", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            ("over-f", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            ("over-nothing", Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND),
            ("outside", Status::ACCESS_DENIED, Status::ACCESS_DENIED),
            ("up", Status::ACCESS_DENIED, Status::ACCESS_DENIED),
            ("loop", Status::ACCESS_DENIED, Status::ACCESS_DENIED),
            ("self", Status::ACCESS_DENIED, Status::ACCESS_DENIED),
        ] {
            for disposition in DISPOSITIONS {
                for kind in kinds {
                    let wish = Wish::new(disposition).with(kind);
                    let makes = !matches!(
                        disposition,
                        Disposition::Supersede | Disposition::Overwrite | Disposition::OverwriteIf
                    );
                    if kind == options::DIRECTORY_FILE && !makes {
                        continue;
                    }
                    assert_eq!(
                        side.status(&who, link, &wish).await,
                        status,
                        "{link} {disposition:?} {kind:#x}"
                    );
                    let inside = format!("{link}\\hosts");
                    assert_eq!(
                        side.status(&who, &inside, &wish).await,
                        below,
                        "{inside} {disposition:?} {kind:#x}"
                    );
                }
            }
        }
        assert_eq!(side.tree.counters().creates_given_up.get(), 0);
        // Nothing was made anywhere.
        let open = super::directories::root(&side, &who).await;
        let seen =
            list(&side, &who, &open, ("*", 0, smb_wire::info::directory::Class::IdBothDirectory, 65_536))
                .await;
        let expected = [
            ".",
            "..",
            "absolute",
            "absolute-d",
            "by-dots",
            "chain",
            "chain-d",
            "d",
            "dot-d",
            "f",
            "slash-d",
            "to-d",
            "to-f",
        ];
        assert_eq!(seen.unwrap(), expected);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn a_link_itself_is_opened_through_another_further_up() {
    alone(|side| async move {
        let who = request_context(1);
        tree(&side).await;
        // The one link of the tree that is not in the root.
        let found = side.volume.lookup(vfs::RelPath::parse(b"d").unwrap()).await.unwrap();
        let (directory, _) = found.into_directory().unwrap();
        let name = vfs::Name::parse(b"inner").unwrap();
        directory.symlink(&who.caller, name, b"in").await.unwrap();
        for link in DIRECTORIES {
            let name = format!("{link}\\inner");
            let itself =
                with_access(rights::DELETE | rights::READ_ATTRIBUTES).with(options::OPEN_REPARSE_POINT);
            let open = side.open(&who, &name, &itself).await;
            assert_eq!(open.kind(), smb_tree::OpenKind::Link);
            side.share.close(&who, &open, 0).await.unwrap();
            assert_eq!(side.content(&who, &name).await.unwrap(), b"content");
        }
        let goes = with_access(rights::DELETE).with(options::OPEN_REPARSE_POINT | options::DELETE_ON_CLOSE);
        assert_eq!(side.status(&who, "to-d\\inner", &goes).await, Status::SUCCESS);
        assert_eq!(side.content(&who, "d\\inner").await, Err(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(side.content(&who, "d\\in").await.unwrap(), b"content");
    });
}

#[test]
fn an_open_keeps_to_its_file_when_the_link_comes_to_lead_elsewhere() {
    alone(|side| async move {
        let who = request_context(1);
        tree(&side).await;
        side.make(&who, "other", b"other").await;
        let open = side.open(&who, "to-f", &Wish::new(Disposition::Open)).await;
        // Another link takes its name, as `ln -sfn` has it.
        make_links(&side, &[("next", "other")]).await;
        let itself = with_access(rights::DELETE).with(options::OPEN_REPARSE_POINT);
        let link = side.open(&who, "next", &itself).await;
        set(&side, &who, &link, class::RENAME, &renamed("to-f", true)).await.unwrap();
        side.share.close(&who, &link, 0).await.unwrap();
        assert_eq!(side.content(&who, "to-f").await.unwrap(), b"other");
        side.share.write_bytes(&who, &open, 0, b"CONTENT", false).await.unwrap();
        // The link that it came by has no name any more, and the next one's is not its.
        let moved = set(&side, &who, &open, class::RENAME, &renamed("g", false)).await;
        assert_eq!(moved, Err(Status::OBJECT_NAME_NOT_FOUND));
        set(&side, &who, &open, class::DISPOSITION, &[1]).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        for (name, content) in [
            ("other", Ok(b"other".to_vec())),
            ("to-f", Ok(b"other".to_vec())),
            ("f", Ok(b"CONTENT".to_vec())),
            ("g", Err(Status::OBJECT_NAME_NOT_FOUND)),
        ] {
            assert_eq!(side.content(&who, name).await, content, "{name}");
        }
    });
}

#[test]
fn a_name_that_is_taken_is_the_links_own_and_what_it_led_to_stays() {
    alone(|side| async move {
        let who = request_context(1);
        tree(&side).await;
        side.make(&who, "new", b"new").await;
        let open = side.open(&who, "new", &Wish::new(Disposition::Open)).await;
        set(&side, &who, &open, class::RENAME, &renamed("to-f", true)).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.content(&who, "to-f").await.unwrap(), b"new");
        assert_eq!(side.content(&who, "f").await.unwrap(), b"content");
    });
}
