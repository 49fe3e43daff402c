//! What CREATE answers, by disposition, by what is there, by rights and share modes.

use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, create_action, options};

use super::{EVERYTHING, Wish, alone, asker};

#[test]
fn dispositions_are_those_of_the_specification() {
    use Disposition::{Create, Open, OpenIf, Overwrite, OverwriteIf, Supersede};
    alone(|side| async move {
        let who = asker(1);
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
fn files_and_directories_are_told_apart_and_found_in_any_case() {
    alone(|side| async move {
        let who = asker(1);
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
fn who_does_not_share_keeps_others_out() {
    alone(|side| async move {
        let (who, other) = (asker(1), asker(2));
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
        let who = asker(1);
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
        let who = asker(1);
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
