//! Information about files and file systems, queried and set.

use std::sync::Arc;
use std::time::Duration;

use smb_tree::{Answer, Open, RequestContext};
use smb_wire::Status;
use smb_wire::body::query_info::{QueryInfoRequest, QueryInfoRequestFixed, info_type, security_information};
use smb_wire::body::set_info::{SetInfoRequest, SetInfoRequestFixed};
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use smb_wire::info::ea::{self, Ea};
use smb_wire::info::file::{
    AllInformationFixed, BasicInformation, RenameFixed, StandardInformation, class, disposition, parse_name,
    plain,
};
use smb_wire::info::file_system::{SizeInformation, class as fs_class};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};
use smb_wire::info::stream;
use smb_wire::text::encoded;
use smb_wire::time::from_unix;
use zerocopy::{FromZeros, IntoBytes};

use super::{Side, Wish, alone, beside_programs, mary, request_context};

async fn query(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    (kind, class, room): (u8, u8, u32),
) -> Result<Answer, Status> {
    let mut fixed = QueryInfoRequestFixed::blank();
    fixed.info_type = kind;
    fixed.file_info_class = class;
    fixed.output_buffer_length.set(room);
    if kind == info_type::SECURITY {
        use security_information::{DACL, GROUP, OWNER};
        fixed.additional_information.set(OWNER | GROUP | DACL);
    }
    side.share.query_info(who, open, &QueryInfoRequest { fixed: &fixed, input: &[] }).await
}

pub(super) async fn descriptor(side: &Side, who: &RequestContext, open: &Arc<Open>) -> Descriptor {
    let told = query(side, who, open, (info_type::SECURITY, 0, 4096)).await.unwrap();
    Descriptor::parse(&told.output).unwrap()
}

pub(super) async fn file(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    class: u8,
) -> Result<Vec<u8>, Status> {
    query(side, who, open, (info_type::FILE, class, 65_536)).await.map(|answer| answer.output)
}

pub(super) async fn file_system(side: &Side, who: &RequestContext, open: &Arc<Open>, class: u8) -> Vec<u8> {
    query(side, who, open, (info_type::FILE_SYSTEM, class, 1024)).await.unwrap().output
}

pub(super) async fn set(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    class: u8,
    data: &[u8],
) -> Result<(), Status> {
    set_of(side, who, open, info_type::FILE, class, data).await
}

pub(super) async fn set_of(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    kind: u8,
    class: u8,
    data: &[u8],
) -> Result<(), Status> {
    let mut fixed = SetInfoRequestFixed::blank();
    fixed.info_type = kind;
    fixed.file_info_class = class;
    if kind == info_type::SECURITY {
        fixed.additional_information.set(security_information::DACL);
    }
    side.share.set_info(who, open, &SetInfoRequest { fixed: &fixed, data }).await
}

pub(super) fn renamed(name: &str, replaces: bool) -> Vec<u8> {
    let name = encoded(name);
    let fixed = RenameFixed {
        flags: u32::from(replaces).into(),
        file_name_length: (name.len() as u32).into(),
        ..RenameFixed::new_zeroed()
    };
    [fixed.as_bytes(), &name].concat()
}

const FULL: u32 = rights::FILE_ALL;

pub(super) fn full() -> Wish {
    Wish { access: FULL, ..Wish::new(Disposition::OpenIf) }
}

#[test]
fn every_class_is_told_and_short_buffers_are_refused_or_cut() {
    alone(|side| async move {
        let who = request_context(1);
        let directory = full().with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "sub", &directory).await, Status::SUCCESS);
        let open = side.open(&who, "sub\\page", &full()).await;
        side.share.write_bytes(&who, &open, 0, b"12345", false).await.unwrap();
        for (class, len) in [
            (class::BASIC, 40),
            (class::STANDARD, 24),
            (class::INTERNAL, 8),
            (class::EA, 4),
            (class::ACCESS, 4),
            (class::POSITION, 8),
            (class::MODE, 4),
            (class::ALIGNMENT, 4),
            (class::COMPRESSION, 16),
            (class::NETWORK_OPEN, 56),
            (class::ATTRIBUTE_TAG, 8),
            (class::ID, 24),
        ] {
            assert_eq!(file(&side, &who, &open, class).await.unwrap().len(), len, "{class}");
            let short = query(&side, &who, &open, (info_type::FILE, class, len as u32 - 1)).await;
            assert_eq!(short, Err(Status::INFO_LENGTH_MISMATCH), "{class}");
        }
        let all = file(&side, &who, &open, class::ALL).await.unwrap();
        let fixed = plain::<AllInformationFixed>(&all).unwrap();
        assert_eq!((fixed.standard.end_of_file.get(), fixed.access_flags.get()), (5, FULL));
        assert_eq!(parse_name(&all[96..]).unwrap().lossy(), "\\sub\\page");
        let cut = query(&side, &who, &open, (info_type::FILE, class::ALL, 105)).await.unwrap();
        assert_eq!((cut.status, cut.output.len()), (Status::BUFFER_OVERFLOW, 105));
        let name = file(&side, &who, &open, class::NORMALIZED_NAME).await.unwrap();
        assert_eq!(parse_name(&name).unwrap().lossy(), "sub\\page");
        assert_eq!(file(&side, &who, &open, class::RENAME).await, Err(Status::INVALID_INFO_CLASS));
        for (class, len) in [
            (fs_class::VOLUME, 18 + 8),
            (fs_class::SIZE, 24),
            (fs_class::FULL_SIZE, 32),
            (fs_class::DEVICE, 8),
            (fs_class::ATTRIBUTE, 12 + 8),
            (fs_class::CONTROL, 48),
            (fs_class::OBJECT_ID, 64),
            (fs_class::SECTOR_SIZE, 28),
        ] {
            let told = query(&side, &who, &open, (info_type::FILE_SYSTEM, class, 4096)).await.unwrap();
            assert_eq!((told.status, told.output.len()), (Status::SUCCESS, len), "{class}");
        }
        let size = query(&side, &who, &open, (info_type::FILE_SYSTEM, fs_class::SIZE, 24)).await.unwrap();
        assert_ne!(plain::<SizeInformation>(&size.output).unwrap().total_allocation_units.get(), 0);
        side.share.close(&who, &open, 0).await.unwrap();
        let blind = Wish { access: rights::READ_DATA, ..Wish::new(Disposition::Open) };
        let blind = side.open(&who, "sub\\page", &blind).await;
        assert_eq!(file(&side, &who, &blind, class::BASIC).await, Err(Status::ACCESS_DENIED));
        assert!(file(&side, &who, &blind, class::STANDARD).await.is_ok());
        side.share.close(&who, &blind, 0).await.unwrap();
    });
}

#[test]
fn times_attributes_and_sizes_are_set_and_kept() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &full()).await;
        let mut basic = BasicInformation::new_zeroed();
        basic.creation_time.set(from_unix(1_000_000, 0));
        basic.last_write_time.set(from_unix(2_000_000, 0));
        basic.file_attributes.set(attributes::HIDDEN);
        set(&side, &who, &open, class::BASIC, basic.as_bytes()).await.unwrap();
        // What this open writes does not move a time that it has set.
        side.share.write_bytes(&who, &open, 0, b"12345", false).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "page", &full()).await;
        let told = file(&side, &who, &open, class::BASIC).await.unwrap();
        let told = plain::<BasicInformation>(&told).unwrap();
        assert_eq!(told.creation_time.get(), from_unix(1_000_000, 0));
        assert_eq!(told.last_write_time.get(), from_unix(2_000_000, 0));
        let archived = attributes::HIDDEN | attributes::ARCHIVE;
        assert_eq!(told.file_attributes.get(), archived, "it was written to since");
        basic = BasicInformation::new_zeroed();
        basic.file_attributes.set(attributes::DIRECTORY);
        assert_eq!(
            set(&side, &who, &open, class::BASIC, basic.as_bytes()).await,
            Err(Status::INVALID_PARAMETER)
        );
        for (class, size, expected) in
            [(class::END_OF_FILE, 3u64, 3), (class::ALLOCATION, 1 << 20, 3), (class::ALLOCATION, 1, 1)]
        {
            set(&side, &who, &open, class, &size.to_le_bytes()).await.unwrap();
            let told = file(&side, &who, &open, class::STANDARD).await.unwrap();
            assert_eq!(plain::<StandardInformation>(&told).unwrap().end_of_file.get(), expected);
        }
        set(&side, &who, &open, class::POSITION, &77u64.to_le_bytes()).await.unwrap();
        assert_eq!(file(&side, &who, &open, class::POSITION).await.unwrap(), 77u64.to_le_bytes());
        set(&side, &who, &open, class::MODE, &4u32.to_le_bytes()).await.unwrap();
        assert_eq!(file(&side, &who, &open, class::MODE).await.unwrap(), 4u32.to_le_bytes());
        assert_eq!(
            set(&side, &who, &open, class::MODE, &0x30u32.to_le_bytes()).await,
            Err(Status::INVALID_PARAMETER)
        );
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

async fn change_time(side: &Side, who: &RequestContext, open: &Arc<Open>) -> u64 {
    let told = file(side, who, open, class::BASIC).await.unwrap();
    plain::<BasicInformation>(&told).unwrap().change_time.get()
}

async fn set_change_time(side: &Side, who: &RequestContext, open: &Arc<Open>, wire: u64) {
    let mut basic = BasicInformation::new_zeroed();
    basic.change_time.set(wire);
    set(side, who, open, class::BASIC, basic.as_bytes()).await.unwrap();
}

#[test]
fn a_time_of_change_that_was_set_is_told_until_another_open_changes_the_file() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &full()).await;
        let (set_to, second) = (from_unix(3_000_000, 0), Duration::from_secs(1));
        set_change_time(&side, &who, &open, set_to).await;
        assert_eq!(change_time(&side, &who, &open).await, set_to);
        // What the open writes itself does not move it in the end.
        lane::time::sleep(second).await;
        side.share.write_bytes(&who, &open, 0, b"12345", false).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "page", &full()).await;
        assert_eq!(change_time(&side, &who, &open).await, set_to);
        lane::time::sleep(second).await;
        side.share.write_bytes(&who, &open, 0, b"678", false).await.unwrap();
        let moved = change_time(&side, &who, &open).await;
        assert!(moved > from_unix(4_000_000, 0), "{moved}");
        // Frozen, it is again what it was then; thawed, it moves.
        set_change_time(&side, &who, &open, u64::MAX).await;
        lane::time::sleep(second).await;
        side.share.write_bytes(&who, &open, 0, b"9", false).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "page", &full()).await;
        assert_eq!(change_time(&side, &who, &open).await, moved);
        set_change_time(&side, &who, &open, set_to).await;
        set_change_time(&side, &who, &open, u64::MAX - 1).await;
        lane::time::sleep(second).await;
        side.share.write_bytes(&who, &open, 0, b"0", false).await.unwrap();
        side.share.close(&who, &open, 0).await.unwrap();
        let open = side.open(&who, "page", &full()).await;
        assert!(change_time(&side, &who, &open).await > moved);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn a_rename_moves_the_time_of_change_to_others_and_not_to_who_renames() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "one", &full()).await;
        let before = change_time(&side, &who, &open).await;
        for name in ["two", "three"] {
            lane::time::sleep(Duration::from_secs(1)).await;
            set(&side, &who, &open, class::RENAME, &renamed(name, false)).await.unwrap();
            assert_eq!(change_time(&side, &who, &open).await, before);
        }
        side.share.write_bytes(&who, &open, 0, b"1", false).await.unwrap();
        assert!(change_time(&side, &who, &open).await > before);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn nothing_is_renamed_in_a_directory_that_somebody_has_open_to_delete_it() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let directory = full().with(options::DIRECTORY_FILE);
        let above = side.open(&other, "sub", &directory).await;
        let open = side.open(&who, "sub\\one", &full()).await;
        let rename = async || set(&side, &who, &open, class::RENAME, &renamed("sub\\two", false)).await;
        assert_eq!(rename().await, Err(Status::SHARING_VIOLATION));
        side.share.close(&other, &above, 0).await.unwrap();
        assert_eq!(rename().await, Ok(()));
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn a_file_gets_another_name_over_another_file_only_if_asked() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "one", b"1").await;
        side.make(&who, "Two", b"2").await;
        let directory = full().with(options::DIRECTORY_FILE);
        assert_eq!(side.status(&who, "sub", &directory).await, Status::SUCCESS);
        let open = side.open(&who, "one", &full()).await;
        for (name, replaces, expected) in [
            ("two", false, Err(Status::OBJECT_NAME_COLLISION)),
            ("sub", true, Err(Status::ACCESS_DENIED)),
            ("none\\x", true, Err(Status::OBJECT_PATH_NOT_FOUND)),
            ("a*b", true, Err(Status::OBJECT_NAME_INVALID)),
            ("one", false, Ok(())),
            ("ONE", false, Ok(())),
            ("two", true, Ok(())),
            ("sub\\moved", false, Ok(())),
        ] {
            assert_eq!(
                set(&side, &who, &open, class::RENAME, &renamed(name, replaces)).await,
                expected,
                "{name}"
            );
            if name == "ONE" {
                let all = file(&side, &who, &open, class::ALL).await.unwrap();
                assert_eq!(parse_name(&all[96..]).unwrap().lossy(), "\\ONE");
            }
        }
        assert_eq!(side.content(&who, "sub\\moved").await, Ok(b"1".to_vec()));
        assert_eq!(side.content(&who, "two").await, Err(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(set(&side, &who, &open, class::LINK, &renamed("sub\\more", false)).await, Ok(()));
        assert_eq!(side.content(&who, "sub\\more").await, Ok(b"1".to_vec()));
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn a_file_has_further_names_in_any_directory_over_another_file_only_if_asked_and_none_that_is_open() {
    alone(|side| async move {
        let who = request_context(1);
        let directory = full().with(options::DIRECTORY_FILE);
        for at in ["from", "to"] {
            assert_eq!(side.status(&who, at, &directory).await, Status::SUCCESS);
        }
        side.make(&who, "from\\one", b"1").await;
        side.make(&who, "to\\Two", b"2").await;
        side.make(&who, "to\\open", b"3").await;
        let open = side.open(&who, "from\\one", &full()).await;
        let held = side.open(&request_context(2), "to\\open", &full()).await;
        for (name, replaces, expected) in [
            ("to\\more", false, Ok(())),
            ("to\\MORE", false, Err(Status::OBJECT_NAME_COLLISION)),
            ("to\\MORE", true, Ok(())),
            ("to\\two", false, Err(Status::OBJECT_NAME_COLLISION)),
            ("to\\open", true, Err(Status::ACCESS_DENIED)),
            ("to", true, Err(Status::ACCESS_DENIED)),
            ("none\\x", true, Err(Status::OBJECT_PATH_NOT_FOUND)),
            ("to\\two", true, Ok(())),
            ("upper", false, Ok(())),
        ] {
            let linked = set(&side, &who, &open, class::LINK, &renamed(name, replaces)).await;
            assert_eq!(linked, expected, "{name}");
        }
        side.share.close(&request_context(2), &held, 0).await.unwrap();
        let all = file(&side, &who, &open, class::ALL).await.unwrap();
        assert_eq!(parse_name(&all[96..]).unwrap().lossy(), "\\from\\one", "it is open by its first name");
        let standard = file(&side, &who, &open, class::STANDARD).await.unwrap();
        assert_eq!(plain::<StandardInformation>(&standard).unwrap().number_of_links.get(), 4);
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.content(&who, "to\\open").await, Ok(b"3".to_vec()));
        for name in ["to\\more", "to\\Two", "upper"] {
            assert_eq!(side.content(&who, name).await, Ok(b"1".to_vec()), "{name}");
        }
        // Each name goes by itself.
        let first = side.open(&who, "from\\one", &full()).await;
        set(&side, &who, &first, class::DISPOSITION, &[1]).await.unwrap();
        side.share.close(&who, &first, 0).await.unwrap();
        assert_eq!(side.content(&who, "from\\one").await, Err(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(side.content(&who, "to\\more").await, Ok(b"1".to_vec()));
    });
}

#[test]
fn what_is_to_go_says_so_and_goes_or_stays() {
    alone(|side| async move {
        let who = request_context(1);
        let directory = full().with(options::DIRECTORY_FILE);
        let sub = side.open(&who, "sub", &directory).await;
        side.make(&who, "sub\\page", b"").await;
        let goes = [1];
        assert_eq!(set(&side, &who, &sub, class::DISPOSITION, &goes).await, Err(Status::DIRECTORY_NOT_EMPTY));
        let page = side.open(&who, "sub\\page", &full()).await;
        assert_eq!(set(&side, &who, &page, class::DISPOSITION, &goes).await, Ok(()));
        let told = file(&side, &who, &page, class::STANDARD).await.unwrap();
        let told = plain::<StandardInformation>(&told).unwrap();
        assert_eq!((told.delete_pending, told.number_of_links.get()), (1, 0));
        assert_eq!(set(&side, &who, &page, class::DISPOSITION, &[0]).await, Ok(()));
        assert_eq!(set(&side, &who, &page, class::DISPOSITION, &goes).await, Ok(()));
        side.share.close(&who, &page, 0).await.unwrap();
        assert_eq!(set(&side, &who, &sub, class::DISPOSITION, &goes).await, Ok(()));
        side.share.close(&who, &sub, 0).await.unwrap();
        assert_eq!(
            side.status(&who, "sub", &Wish::new(Disposition::Open)).await,
            Status::OBJECT_NAME_NOT_FOUND
        );
        // As POSIX has it: the name goes with this open, whatever else is open.
        let page = side.open(&who, "page", &full()).await;
        let bits = disposition::DELETE | disposition::POSIX_SEMANTICS;
        let other = side.open(&who, "page", &full()).await;
        set(&side, &who, &page, class::DISPOSITION_EX, &bits.to_le_bytes()).await.unwrap();
        let again = Wish::new(Disposition::Open);
        assert_eq!(side.status(&who, "page", &again).await, Status::DELETE_PENDING);
        side.share.close(&who, &page, 0).await.unwrap();
        assert_eq!(side.status(&who, "page", &again).await, Status::OBJECT_NAME_NOT_FOUND);
        let told = file(&side, &who, &other, class::STANDARD).await.unwrap();
        let told = plain::<StandardInformation>(&told).unwrap();
        assert_eq!((told.delete_pending, told.number_of_links.get()), (1, 0));
        side.share.close(&who, &other, 0).await.unwrap();
    });
}

#[test]
fn an_extended_attribute_has_one_name_in_whichever_case_a_list_names_it() {
    alone(|side| async move {
        let who = request_context(1);
        let list = |items: &[(&[u8], &[u8])]| {
            let mut list = Vec::new();
            let mut entries = EntryWriter::new(&mut list, 4, 4096);
            for (name, value) in items {
                assert!(ea::write(&mut entries, &Ea { name, value }));
            }
            list
        };
        for (items, left) in [
            (&[(&b"ABC"[..], &b"1"[..]), (b"abc", b"22")][..], &[(&b"ABC"[..], &b"22"[..])][..]),
            (&[(b"abc", b""), (b"Abc", b"3"), (b"aBC", b"4")], &[(b"ABC", b"4")]),
            (&[(b"x", b"1"), (b"ABC", b""), (b"X", b"2"), (b"abc", b"5")], &[(b"ABC", b"5"), (b"x", b"2")]),
            (&[(b"X", b""), (b"x", b""), (b"ABC", b"")], &[]),
        ] {
            let open = side.open(&who, "page", &full()).await;
            set(&side, &who, &open, class::FULL_EA, &list(items)).await.unwrap();
            let told = file(&side, &who, &open, class::FULL_EA).await;
            let told = match &told {
                Err(Status::NO_EAS_ON_FILE) => Vec::new(),
                told => ea::parse(told.as_ref().unwrap()).map(Result::unwrap).collect(),
            };
            let mut told: Vec<_> = told.iter().map(|ea| (ea.name, ea.value)).collect();
            told.sort_unstable();
            assert_eq!(told, left, "{items:?}");
            side.share.close(&who, &open, 0).await.unwrap();
        }
    });
}

#[test]
fn attributes_that_other_programs_have_set_are_told_where_smb_has_such() {
    beside_programs(|side, fs| async move {
        let who = request_context(1);
        side.make(&who, "page", b"12345").await;
        for byte in 1..=127u8 {
            fs.set_xattr("/srv/page", &format!("user.a{}b", char::from(byte)), b"v").unwrap();
            let open = side.open(&who, "page", &full()).await;
            let told = file(&side, &who, &open, class::FULL_EA).await;
            match &told {
                Err(status) => assert_eq!(*status, Status::NO_EAS_ON_FILE, "{byte}"),
                Ok(told) => assert_eq!(ea::parse(told).map(Result::unwrap).count(), 1, "{byte}"),
            }
            assert_eq!(told.is_err(), !ea::is_name(format!("a{}b", char::from(byte)).as_bytes()), "{byte}");
            side.share.close(&who, &open, 0).await.unwrap();
            fs.remove_xattr("/srv/page", &format!("user.a{}b", char::from(byte))).unwrap();
        }
        // Of attributes that are none to us a file has none.
        for len in [0, 1, 256, 257, 3000] {
            fs.set_xattr("/srv/page", "user.DOSATTRIB", &vec![b'A'; len]).unwrap();
            assert_eq!(side.content(&who, "page").await, Ok(b"12345".to_vec()), "{len}");
            let open = side.open(&who, "page", &full()).await;
            let told = file(&side, &who, &open, class::BASIC).await.unwrap();
            assert_ne!(plain::<BasicInformation>(&told).unwrap().file_attributes.get(), 0, "{len}");
            side.share.close(&who, &open, 0).await.unwrap();
        }
        let goes = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
        assert_eq!(side.status(&who, "page", &goes.with(options::DELETE_ON_CLOSE)).await, Status::SUCCESS);
    });
}

#[test]
fn streams_and_extended_attributes_are_told_apart() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &full()).await;
        let stream = side.open(&who, "page:One", &full()).await;
        side.share.write_bytes(&who, &stream, 0, b"123", false).await.unwrap();
        set(&side, &who, &stream, class::END_OF_FILE, &7u64.to_le_bytes()).await.unwrap();
        let told = file(&side, &who, &open, class::STREAM).await.unwrap();
        let told: Vec<_> = stream::parse(&told).map(Result::unwrap).collect();
        let told: Vec<_> = told.iter().map(|(head, name)| (name.lossy(), head.stream_size.get())).collect();
        assert_eq!(told, [("::$DATA".to_owned(), 0), (":One:$DATA".to_owned(), 7)]);
        assert_eq!(file(&side, &who, &open, class::FULL_EA).await, Err(Status::NO_EAS_ON_FILE));
        let mut list = Vec::new();
        let mut entries = EntryWriter::new(&mut list, 4, 4096);
        assert!(ea::write(&mut entries, &Ea { name: b"COLOUR", value: b"red" }));
        set(&side, &who, &open, class::FULL_EA, &list).await.unwrap();
        let told = file(&side, &who, &open, class::FULL_EA).await.unwrap();
        let told: Vec<_> = ea::parse(&told).map(Result::unwrap).collect();
        assert_eq!(told, [Ea { name: b"COLOUR", value: b"red" }]);
        assert_ne!(file(&side, &who, &open, class::EA).await.unwrap(), [0; 4]);
        set(&side, &who, &stream, class::RENAME, &renamed(":Two", false)).await.unwrap();
        let again = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
        assert_eq!(side.content(&who, "page:two").await, Ok(b"123\0\0\0\0".to_vec()));
        assert_eq!(side.status(&who, "page:one", &again).await, Status::OBJECT_NAME_NOT_FOUND);
        // Emptied, the file has neither.
        assert_eq!(side.share.close(&who, &stream, 0).await.map(drop), Ok(()));
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.status(&who, "page", &Wish::new(Disposition::Overwrite)).await, Status::SUCCESS);
        assert_eq!(side.status(&who, "page:two", &again).await, Status::OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn a_descriptor_says_who_may_what_and_what_no_list_holds_is_the_files_own() {
    alone(|side| async move {
        let who = request_context(1);
        let directory = side.open(&who, "sub", &full().with(options::DIRECTORY_FILE)).await;
        let page = side.open(&who, "page", &full()).await;
        let kind = info_type::SECURITY;
        for open in [&directory, &page] {
            let told = query(&side, &who, open, (kind, 0, 4096)).await.unwrap();
            let told = Descriptor::parse(&told.output).unwrap();
            assert!(told.owner.is_some() && told.group.is_some());
            assert!(!told.dacl.as_ref().unwrap().is_empty());
            assert_eq!(
                set_of(&side, &who, open, kind, 0, &told.to_bytes()).await,
                Ok(()),
                "it is so already"
            );
            // How much room it needs is told, and is enough.
            let len = u32::try_from(told.to_bytes().len()).unwrap();
            for room in [0, 20, len - 1] {
                let short = query(&side, &who, open, (kind, 0, room)).await.unwrap();
                assert_eq!(
                    (short.status, short.output),
                    (Status::BUFFER_TOO_SMALL, len.to_le_bytes().into())
                );
            }
            assert_eq!(query(&side, &who, open, (kind, 0, len)).await.unwrap().status, Status::SUCCESS);
        }
        // No user may have the audit list, alone or beside what every user may.
        for wanted in [8, 0xc, 0xf, 0x1c] {
            let mut asked = QueryInfoRequestFixed::blank();
            asked.info_type = kind;
            asked.output_buffer_length.set(4096);
            asked.additional_information.set(wanted);
            let asked = QueryInfoRequest { fixed: &asked, input: &[] };
            let told = side.share.query_info(&who, &page, &asked).await.map(|told| told.output);
            assert_eq!(told, Err(Status::ACCESS_DENIED), "{wanted:x}");
            let mut fixed = SetInfoRequestFixed::blank();
            fixed.info_type = kind;
            fixed.additional_information.set(wanted);
            let data = descriptor(&side, &who, &page).await.to_bytes();
            let set = side.share.set_info(&who, &page, &SetInfoRequest { fixed: &fixed, data: &data }).await;
            assert_eq!(set, Err(Status::ACCESS_DENIED), "{wanted:x}");
        }
        let allow = |mask, sid| Ace { kind: ace_type::ACCESS_ALLOWED, flags: 3, mask, sid };
        let with = |aces: Vec<Ace>| Descriptor { dacl: Some(aces), ..Descriptor::default() }.to_bytes();
        let reads = with(vec![allow(rights::FILE_READ | rights::EXECUTE, Sid::EVERYONE)]);
        assert_eq!(set_of(&side, &who, &directory, kind, 0, &reads).await, Ok(()));
        let told = query(&side, &who, &directory, (kind, 0, 4096)).await.unwrap();
        let told = Descriptor::parse(&told.output).unwrap().dacl.unwrap();
        assert_eq!((told.len(), told[0].sid), (1, Sid::EVERYONE));
        assert_eq!(told[0].mask, rights::FILE_READ | rights::EXECUTE);
        let unheard = Sid::new(5, &[21, 1, 2, 3, 500]).unwrap();
        for (open, descriptor) in [
            (&page, &reads),
            (&directory, &with(vec![allow(rights::FILE_READ, unheard)])),
            (&directory, &with(vec![allow(rights::WRITE_OWNER, Sid::EVERYONE)])),
        ] {
            assert_eq!(set_of(&side, &who, open, kind, 0, descriptor).await, Ok(()));
            let told = query(&side, &who, open, (kind, 0, 4096)).await.unwrap();
            let (told, set) =
                (Descriptor::parse(&told.output).unwrap(), Descriptor::parse(descriptor).unwrap());
            assert_eq!(told.dacl, set.dacl);
        }
        let too_long = with(vec![allow(rights::FILE_READ, unheard); smb_sid::ENTRIES_MAX + 1]);
        let refused = set_of(&side, &who, &page, kind, 0, &too_long).await;
        assert_eq!(refused, Err(Status::INVALID_SECURITY_DESCR));
        for (given, part) in [
            (Descriptor { owner: Some(unheard), ..Descriptor::default() }, security_information::OWNER),
            (Descriptor { group: Some(unheard), ..Descriptor::default() }, security_information::GROUP),
        ] {
            let mut fixed = SetInfoRequestFixed::blank();
            fixed.info_type = kind;
            fixed.additional_information.set(part);
            let request = SetInfoRequest { fixed: &fixed, data: &given.to_bytes() };
            let refused = side.share.set_info(&mary(2), &page, &request).await;
            assert_eq!(
                refused,
                Err(Status::ACCESS_DENIED),
                "nobody gives files away, nor to groups of others"
            );
        }
        assert_eq!(side.tree.counters().security_refused.get(), 2);
        side.tree.close_all(&who, side.tree.opens().of_session(1)).await;
    });
}
