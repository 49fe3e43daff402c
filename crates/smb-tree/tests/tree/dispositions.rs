//! FileDispositionInformationEx by its flags (MS-FSCC 2.4.12, MS-FSA 2.1.5.15.4, 2.1.5.5): what is refused, when the name goes, and what others
//! that have the file open see of that.

use std::sync::Arc;

use smb_tree::Open;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::info::file::{BasicInformation, StandardInformation, class, disposition, plain};
use zerocopy::{FromZeros, IntoBytes};

use super::information::{file, full, set};
use super::{Side, Wish, alone, request_context};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    ReadOnlyFile,
    EmptyDirectory,
    FullDirectory,
}

const KINDS: [Kind; 4] = [Kind::File, Kind::ReadOnlyFile, Kind::EmptyDirectory, Kind::FullDirectory];

impl Kind {
    fn is_directory(self) -> bool {
        matches!(self, Self::EmptyDirectory | Self::FullDirectory)
    }

    fn options(self) -> u32 {
        if self.is_directory() { options::DIRECTORY_FILE } else { 0 }
    }
}

/// What else is open by the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// An open that shares the deletion.
    Sharing,
    /// One for attributes, which is asked for no sharing.
    Attributes,
}

/// When the name goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Never,
    WithThis,
    WithLast,
}

/// The status of a request with these flags, by the specification.
fn expected(kind: Kind, bits: u32, deletes_on_close: bool) -> Result<(), Status> {
    if bits & disposition::ON_CLOSE != 0 && !deletes_on_close {
        return Err(Status::NOT_SUPPORTED);
    }
    if bits & disposition::DELETE != 0 {
        if kind == Kind::ReadOnlyFile && bits & disposition::IGNORE_READONLY == 0 {
            return Err(Status::CANNOT_DELETE);
        }
        if kind == Kind::FullDirectory {
            return Err(Status::DIRECTORY_NOT_EMPTY);
        }
    }
    Ok(())
}

/// When the name goes after that.
fn goes(kind: Kind, bits: u32, deletes_on_close: bool, came: Result<(), Status>) -> Goes {
    let end = if bits & disposition::POSIX_SEMANTICS == 0 { Goes::WithLast } else { Goes::WithThis };
    match (came, bits & disposition::DELETE != 0, bits & disposition::ON_CLOSE != 0) {
        // A directory that is not empty when it is closed stays.
        _ if kind == Kind::FullDirectory => Goes::Never,
        (Ok(()), true, _) => end,
        (Ok(()), false, true) => Goes::Never,
        _ if deletes_on_close => Goes::WithLast,
        _ => Goes::Never,
    }
}

async fn standard(side: &Side, open: &Arc<Open>) -> (u8, u32) {
    let told = file(side, &request_context(1), open, class::STANDARD).await.unwrap();
    let told = plain::<StandardInformation>(&told).unwrap();
    (told.delete_pending, told.number_of_links.get())
}

#[test]
fn each_flag_does_what_the_specification_says_to_each_kind_of_file_whatever_else_is_open() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let looks = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        for kind in KINDS {
            for beside in [Beside::Nothing, Beside::Sharing, Beside::Attributes] {
                for deletes_on_close in [false, true] {
                    for bits in 0..=0x1f_u32 {
                        let what =
                            format!("{kind:?} {bits:#x}, delete on close: {deletes_on_close}, {beside:?}");
                        let on_close = if deletes_on_close { options::DELETE_ON_CLOSE } else { 0 };
                        let made = Wish { disposition: Disposition::Create, ..full() };
                        let open = side.open(&who, "it", &made.with(kind.options() | on_close)).await;
                        if kind == Kind::FullDirectory {
                            side.make(&who, "it\\in", b"").await;
                        }
                        if kind == Kind::ReadOnlyFile {
                            let mut basic = BasicInformation::new_zeroed();
                            basic.file_attributes.set(attributes::READONLY);
                            set(&side, &who, &open, class::BASIC, basic.as_bytes()).await.unwrap();
                        }
                        let second = match beside {
                            Beside::Nothing => None,
                            Beside::Sharing => {
                                let reads =
                                    Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
                                Some(side.open(&other, "it", &reads.with(kind.options())).await)
                            }
                            Beside::Attributes => {
                                let alone = Wish { share: 0, ..looks.clone() };
                                Some(side.open(&other, "it", &alone.with(kind.options())).await)
                            }
                        };
                        let came = set(&side, &who, &open, class::DISPOSITION_EX, &bits.to_le_bytes()).await;
                        assert_eq!(came, expected(kind, bits, deletes_on_close), "{what}");
                        // From now on nobody opens it; it is there all the same.
                        let is_marked = came.is_ok()
                            && bits & disposition::DELETE != 0
                            && bits & disposition::ON_CLOSE == 0;
                        let pending =
                            |is_so: bool| if is_so { Status::DELETE_PENDING } else { Status::SUCCESS };
                        assert_eq!(side.status(&other, "it", &looks).await, pending(is_marked), "{what}");
                        assert_eq!(standard(&side, &open).await.0, u8::from(is_marked), "{what}");
                        let goes = goes(kind, bits, deletes_on_close, came);
                        side.share.close(&who, &open, 0).await.unwrap();
                        let gone = Status::OBJECT_NAME_NOT_FOUND;
                        if let Some(second) = &second {
                            let now = side.status(&other, "it", &looks).await;
                            let then =
                                if goes == Goes::WithThis { gone } else { pending(goes == Goes::WithLast) };
                            assert_eq!(now, then, "{what}");
                            let told = (u8::from(goes != Goes::Never), u32::from(goes == Goes::Never));
                            assert_eq!(standard(&side, second).await, told, "{what}");
                            if goes == Goes::WithThis {
                                // The name is free for another, which the close of the nameless one leaves alone.
                                side.make(&who, "it", b"another").await;
                            }
                            side.share.close(&other, second, 0).await.unwrap();
                            if goes == Goes::WithThis {
                                assert_eq!(side.content(&who, "it").await, Ok(b"another".to_vec()), "{what}");
                                let ends = Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE);
                                assert_eq!(side.status(&who, "it", &ends).await, Status::SUCCESS, "{what}");
                            }
                        }
                        let now = side.status(&who, "it", &looks).await;
                        assert_eq!(now, if goes == Goes::Never { Status::SUCCESS } else { gone }, "{what}");
                        clear(&side, kind, goes).await;
                    }
                }
            }
        }
    });
}

/// Takes away what is left.
async fn clear(side: &Side, kind: Kind, goes: Goes) {
    let who = request_context(1);
    if goes != Goes::Never {
        return;
    }
    if kind == Kind::ReadOnlyFile {
        let writes = Wish { access: rights::WRITE_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        let open = side.open(&who, "it", &writes).await;
        let mut basic = BasicInformation::new_zeroed();
        basic.file_attributes.set(attributes::NORMAL);
        set(side, &who, &open, class::BASIC, basic.as_bytes()).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
    }
    let ends = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) }.with(options::DELETE_ON_CLOSE);
    if kind == Kind::FullDirectory {
        assert_eq!(side.status(&who, "it\\in", &ends).await, Status::SUCCESS);
    }
    assert_eq!(
        side.status(&who, "it", &ends.with(kind.options() | options::DELETE_ON_CLOSE)).await,
        Status::SUCCESS
    );
}

#[test]
fn a_deletion_is_taken_back_until_its_open_is_closed_by_whichever_open_and_class() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let posix = disposition::DELETE | disposition::POSIX_SEMANTICS;
        let nothing = 0_u32.to_le_bytes();
        for kind in [Kind::File, Kind::EmptyDirectory] {
            for bits in [disposition::DELETE, posix] {
                for (class, data) in
                    [(class::DISPOSITION_EX, &nothing[..]), (class::DISPOSITION, &nothing[..1])]
                {
                    for is_by_other in [false, true] {
                        let what = format!("{kind:?} {bits:#x} {class} {is_by_other}");
                        let open = side.open(&who, "it", &full().with(kind.options())).await;
                        let second = side.open(&other, "it", &full().with(kind.options())).await;
                        set(&side, &who, &open, class::DISPOSITION_EX, &bits.to_le_bytes()).await.unwrap();
                        let (by, whose) = if is_by_other { (&other, &second) } else { (&who, &open) };
                        set(&side, by, whose, class, data).await.unwrap();
                        let again = side.open(&who, "it", &full().with(kind.options())).await;
                        for (by, open) in [(&who, &open), (&other, &second), (&who, &again)] {
                            assert_eq!(standard(&side, open).await, (0, 1), "{what}");
                            side.share.close(by, open, 0).await.unwrap();
                        }
                        let looks = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
                        assert_eq!(side.status(&who, "it", &looks).await, Status::SUCCESS, "{what}");
                    }
                }
            }
            let ends = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
            let ends = ends.with(kind.options() | options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, "it", &ends).await, Status::SUCCESS);
        }
    });
}

#[test]
fn what_others_have_open_of_a_nameless_file_goes_on() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        side.make(&who, "it", b"first").await;
        let open = side.open(&who, "it", &full()).await;
        let second = side.open(&other, "it", &full()).await;
        let bits = disposition::DELETE | disposition::POSIX_SEMANTICS;
        set(&side, &who, &open, class::DISPOSITION_EX, &bits.to_le_bytes()).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.read(&other, &second, 0, 100).await, Ok(b"first".to_vec()));
        assert_eq!(side.share.write_bytes(&other, &second, 0, b"still", false).await, Ok(5));
        assert_eq!(side.read(&other, &second, 0, 100).await, Ok(b"still".to_vec()));
        side.share.close(&other, &second, 0).await.unwrap();
        let looks = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        assert_eq!(side.status(&who, "it", &looks).await, Status::OBJECT_NAME_NOT_FOUND);
    });
}
