//! Answers of CREATE, by disposition, existing file, rights and share modes.

use smb_tree::RequestContext;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::create::{Disposition, create_action, options};
use smb_wire::info::file::class;
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};

use super::information::descriptor;
use super::{EVERYTHING, Wish, alone, mary, request_context};

#[test]
fn dispositions_are_those_of_the_specification() {
    use Disposition::{Create, Open, OpenIf, Overwrite, OverwriteIf, Supersede};
    alone(|side| async move {
        let who = request_context(1);
        // With what is there, and without: the action, or the status.
        for (disposition, there, absent) in [
            (Supersede, Ok(create_action::SUPERSEDED), Ok(create_action::CREATED)),
            (Open, Ok(create_action::OPENED), Err(Status::OBJECT_NAME_NOT_FOUND)),
            (Create, Err(Status::OBJECT_NAME_COLLISION), Ok(create_action::CREATED)),
            (OpenIf, Ok(create_action::OPENED), Ok(create_action::CREATED)),
            (Overwrite, Ok(create_action::OVERWRITTEN), Err(Status::OBJECT_NAME_NOT_FOUND)),
            (OverwriteIf, Ok(create_action::OVERWRITTEN), Ok(create_action::CREATED)),
        ] {
            for (name, expected) in [("there", there), ("absent", absent)] {
                side.make(&who, "there", b"content").await;
                let created = side.create(&who, name, &Wish::new(disposition)).await;
                let empties = matches!(disposition, Supersede | Overwrite | OverwriteIf);
                match created {
                    Ok(created) => {
                        assert_eq!(Ok(created.fixed.create_action.get()), expected, "{disposition:?} {name}");
                        let size = if name == "there" && !empties { 7 } else { 0 };
                        assert_eq!(created.fixed.end_of_file.get(), size, "{disposition:?} {name}");
                        side.share.close(&who, &created.open, 0).await.unwrap();
                    }
                    Err(error) => assert_eq!(Err(error.status), expected, "{disposition:?} {name}"),
                }
                let goes = Wish::new(OpenIf).with(options::DELETE_ON_CLOSE);
                for name in ["there", "absent"] {
                    assert_eq!(side.status(&who, name, &goes).await, Status::SUCCESS);
                }
            }
        }
    });
}

#[test]
fn what_is_made_gets_the_descriptor_that_its_create_brings_and_nobody_gives_files_away() {
    alone(|side| async move {
        let who = request_context(1);
        let wish = |options, descriptor: Descriptor| {
            let mut contexts = ContextWriter::new();
            contexts.push(tag::SD_BUFFER, &descriptor.to_bytes());
            let contexts = contexts.bytes().to_vec();
            Wish { contexts, access: rights::FILE_ALL, ..Wish::new(Disposition::OpenIf) }.with(options)
        };
        let allow = |mask, sid| Ace { kind: ace_type::ACCESS_ALLOWED, flags: 3, mask, sid };
        let reads = rights::FILE_READ | rights::EXECUTE;
        let of = |sid| Descriptor { dacl: Some(vec![allow(reads, sid)]), ..Descriptor::default() };
        let directory = options::DIRECTORY_FILE;
        let open = side.open(&who, "sub", &wish(directory, of(Sid::EVERYONE))).await;
        let told = descriptor(&side, &who, &open).await.dacl.unwrap();
        assert_eq!(told.iter().map(|ace| (ace.mask, ace.sid)).collect::<Vec<_>>(), [(reads, Sid::EVERYONE)]);
        side.share.close(&who, &open, 0).await.unwrap();
        let unheard = Sid::new(5, &[21, 1, 2, 3, 500]).unwrap();
        let mary = mary(2);
        for given in [
            Descriptor { owner: Some(unheard), ..Descriptor::default() },
            Descriptor { group: Some(unheard), ..Descriptor::default() },
        ] {
            assert_eq!(side.status(&mary, "given", &wish(directory, given)).await, Status::ACCESS_DENIED);
        }
        let absent = side.status(&mary, "given", &Wish::new(Disposition::Open)).await;
        assert_eq!(absent, Status::OBJECT_NAME_NOT_FOUND);
        assert_eq!(side.tree.counters().security_refused.get(), 2);
        // What no list holds is the file's own; the open that has made it has what it asked for.
        for (name, wish) in [("page", wish(0, of(Sid::EVERYONE))), ("other", wish(directory, of(unheard)))] {
            let open = side.open(&mary, name, &wish).await;
            let told = descriptor(&side, &mary, &open).await;
            assert_eq!(told.dacl.unwrap()[0].mask, reads, "{name}");
            side.share.close(&mary, &open, 0).await.unwrap();
        }
        let asks = |access| Wish { access, ..Wish::new(Disposition::Open) };
        assert_eq!(side.status(&mary, "page", &asks(rights::READ_DATA)).await, Status::SUCCESS);
        for (name, access) in [("page", rights::WRITE_DATA), ("other", rights::READ_DATA)] {
            assert_eq!(side.status(&mary, name, &asks(access)).await, Status::ACCESS_DENIED, "{name}");
        }
        // Beneath a list a file may have what it says of files; one that is there keeps what it has.
        let page = side.open(&who, "sub\\page", &wish(0, of(Sid::EVERYONE))).await;
        side.share.close(&who, &page, 0).await.unwrap();
        assert_eq!(side.status(&who, "sub\\page", &wish(0, of(unheard))).await, Status::SUCCESS);
    });
}

#[test]
fn files_and_directories_are_told_apart_and_found_in_any_case() {
    alone(|side| async move {
        let who = request_context(1);
        let directory = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "Sub", &directory).await, Status::SUCCESS);
        side.make(&who, "sub\\Page", b"").await;
        let open = |options| Wish::new(Disposition::Open).with(options);
        for (name, wish, expected) in [
            ("SUB\\PAGE", open(0), Status::SUCCESS),
            ("sub", open(options::NON_DIRECTORY_FILE), Status::FILE_IS_A_DIRECTORY),
            ("sub\\page", open(options::DIRECTORY_FILE), Status::NOT_A_DIRECTORY),
            ("sub", Wish::new(Disposition::Overwrite), Status::INVALID_PARAMETER),
            ("sub\\page\\x", open(0), Status::OBJECT_PATH_NOT_FOUND),
            ("none\\x", open(0), Status::OBJECT_PATH_NOT_FOUND),
            ("sub\\none", open(0), Status::OBJECT_NAME_NOT_FOUND),
            ("", open(0), Status::SUCCESS),
            ("", Wish::new(Disposition::Create), Status::OBJECT_NAME_COLLISION),
            ("SUB", directory.clone(), Status::OBJECT_NAME_COLLISION),
            ("sub:x", open(0), Status::OBJECT_NAME_NOT_FOUND),
            ("sub:x", directory.clone(), Status::NOT_A_DIRECTORY),
            ("a*", open(0), Status::OBJECT_NAME_INVALID),
        ] {
            assert_eq!(side.status(&who, name, &wish).await, expected, "{name}");
        }
    });
}

#[test]
fn who_opens_by_posix_means_the_name_he_says_and_no_other() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        let mut contexts = ContextWriter::new();
        contexts.push(tag::POSIX, &0o644u32.to_le_bytes());
        let by_posix = |disposition| Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(disposition) };
        side.make(&who, "Makefile", b"one").await;
        let missing = side.status(&who, "makefile", &by_posix(Disposition::Open)).await;
        assert_eq!(missing, Status::OBJECT_NAME_NOT_FOUND);
        let nowhere = side.status(&who, "sub\\makefile", &by_posix(Disposition::Create)).await;
        assert_eq!(nowhere, Status::OBJECT_PATH_NOT_FOUND);
        assert_eq!(side.status(&who, "makefile", &by_posix(Disposition::Create)).await, Status::SUCCESS);
        assert_eq!(side.content(&who, "Makefile").await.unwrap(), b"one");
        assert_eq!(side.content(&who, "makefile").await.unwrap(), b"");
        let open = side.open(&who, "makefile", &by_posix(Disposition::Open)).await;
        let renamed = super::information::renamed("MAKEFILE", false);
        super::information::set(&side, &who, &open, class::RENAME, &renamed).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        // Others find one of them by any case.
        assert_eq!(side.content(&who, "MakeFile").await.map(|_| ()), Ok(()));
        assert_eq!(side.content(&who, "Makefile").await.unwrap(), b"one");
    });
}

#[test]
fn who_does_not_share_keeps_others_out() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        side.make(&who, "page", b"x").await;
        let (read, write, delete) = (rights::READ_DATA, rights::WRITE_DATA, rights::DELETE);
        for (first, share, second, its_share, expected) in [
            (read, 1, read, 7, Status::SUCCESS),
            (read, 1, write, 7, Status::SHARING_VIOLATION),
            (read, 7, read, 6, Status::SHARING_VIOLATION),
            (write, 0, rights::READ_ATTRIBUTES, 0, Status::SUCCESS),
            (read, 3, delete, 7, Status::SHARING_VIOLATION),
            (rights::READ_ATTRIBUTES, 0, read | write | delete, 0, Status::SUCCESS),
        ] {
            let open = Wish::new(Disposition::Open);
            let kept = side.open(&who, "page", &Wish { access: first, share, ..open.clone() }).await;
            let wish = Wish { access: second, share: its_share, ..open };
            assert_eq!(side.status(&other, "page", &wish).await, expected, "{first:x} {share} {second:x}");
            side.share.close(&who, &kept, 0).await.unwrap();
        }
        assert_eq!(side.tree.counters().refused_sharing.get(), 3);
    });
}

#[test]
fn attributes_are_kept_and_guard_the_file() {
    alone(|side| async move {
        let who = request_context(1);
        let made =
            Wish { attributes: attributes::READONLY | attributes::HIDDEN, ..Wish::new(Disposition::Create) };
        let created = side.create(&who, "page", &made).await.unwrap();
        let kept = attributes::READONLY | attributes::HIDDEN | attributes::ARCHIVE;
        assert_eq!(created.fixed.file_attributes.get(), kept);
        assert_eq!(side.share.write_bytes(&who, &created.open, 0, b"by its maker", false).await, Ok(12));
        side.share.close(&who, &created.open, 0).await.unwrap();
        let open = Wish::new(Disposition::Open);
        assert_eq!(side.status(&who, "page", &open).await, Status::ACCESS_DENIED);
        let reading = Wish { access: rights::FILE_READ | rights::DELETE, ..open.clone() };
        assert_eq!(side.status(&who, "page", &reading).await, Status::SUCCESS);
        let goes = reading.with(options::DELETE_ON_CLOSE);
        assert_eq!(side.status(&who, "page", &goes).await, Status::CANNOT_DELETE);
        let most = Wish { access: rights::MAXIMUM_ALLOWED, ..open };
        let most = side.open(&who, "page", &most).await;
        assert_eq!(most.granted_access(), rights::FILE_ALL & !(rights::WRITE_DATA | rights::APPEND_DATA));
        side.share.close(&who, &most, 0).await.unwrap();

        // No directory is temporary, and none is made that is to be.
        for disposition in [Disposition::Create, Disposition::OpenIf] {
            let temporary = Wish { attributes: attributes::TEMPORARY, ..Wish::new(disposition) };
            let directory = temporary.clone().with(options::DIRECTORY_FILE);
            assert_eq!(side.status(&who, "scratch", &directory).await, Status::INVALID_PARAMETER);
            assert_eq!(
                side.status(&who, "scratch", &Wish::new(Disposition::Open)).await,
                Status::OBJECT_NAME_NOT_FOUND
            );
        }
        let hidden = Wish { attributes: attributes::HIDDEN, ..Wish::new(Disposition::Create) };
        assert_eq!(side.status(&who, "shy", &hidden).await, Status::SUCCESS);
        let over = Wish::new(Disposition::OverwriteIf);
        assert_eq!(side.status(&who, "shy", &over).await, Status::ACCESS_DENIED);
        let over = Wish { attributes: attributes::HIDDEN, ..over };
        assert_eq!(side.status(&who, "shy", &over).await, Status::SUCCESS);
    });
}

#[test]
fn masks_and_options_that_make_no_sense_are_refused() {
    alone(|side| async move {
        let who = request_context(1);
        let open = Wish::new(Disposition::OpenIf);
        for (wish, expected) in [
            (Wish { access: 0, ..open.clone() }, Status::ACCESS_DENIED),
            (Wish { access: rights::RESERVED, ..open.clone() }, Status::ACCESS_DENIED),
            (
                Wish { access: EVERYTHING | rights::ACCESS_SYSTEM_SECURITY, ..open.clone() },
                Status::PRIVILEGE_NOT_HELD,
            ),
            (Wish { share: 8, ..open.clone() }, Status::INVALID_PARAMETER),
            (Wish { attributes: 0x8000, ..open.clone() }, Status::INVALID_PARAMETER),
            (open.clone().with(options::OPEN_BY_FILE_ID), Status::NOT_SUPPORTED),
            (open.clone().with(0x0100_0000), Status::INVALID_PARAMETER),
            (
                Wish { access: rights::READ_DATA, ..open.clone().with(options::DELETE_ON_CLOSE) },
                Status::INVALID_PARAMETER,
            ),
        ] {
            assert_eq!(side.status(&who, "page", &wish).await, expected);
        }
        assert_eq!(side.tree.opens().usage().opens, 0);
    });
}
