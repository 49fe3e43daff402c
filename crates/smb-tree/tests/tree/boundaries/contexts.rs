//! Each context of a CREATE: its length, and each value of each field.

use smb_tree::RequestContext;
use smb_wire::Status;
use smb_wire::create::Disposition;
use smb_wire::create::context::{
    AaplRequest, AppInstanceId, AppInstanceVersion, ContextWriter, Contexts, DurableReconnectV2,
    DurableRequestV2, tag,
};
use smb_wire::create::lease::{LeaseV1, LeaseV2};
use smb_wire::fixed::{Layout, prefix};
use smb_wire::info::ea::EaHead;
use smb_wire::info::file::class;
use smb_wire::info::posix::PosixFixed;
use smb_wire::info::security::{Descriptor, DescriptorHead, Sid};
use zerocopy::FromZeros;

use super::{LARGEST, Variant, varied, with_contexts};
use crate::allowed::served_by;
use crate::durable::LEASE;
use crate::information::file;
use crate::{Side, Wish, alone, request_context};

/// A CREATE of `made` with one context, what it comes to, and whether there is anything after it.
async fn with_context(
    side: &Side,
    who: &RequestContext,
    tag: &[u8],
    data: &[u8],
    oplock: u8,
) -> (Status, bool) {
    let mut contexts = ContextWriter::new();
    contexts.push(tag, data);
    with_contexts(side, who, contexts.bytes(), oplock).await
}

#[test]
fn contexts_of_other_lengths_than_theirs_make_nothing() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        for (tag, lens) in [
            (tag::DURABLE_REQUEST, &[16][..]),
            (tag::DURABLE_RECONNECT, &[16]),
            (tag::ALLOCATION_SIZE, &[8]),
            (tag::MAXIMAL_ACCESS, &[0, 8]),
            (tag::TIMEWARP, &[8]),
            (tag::ON_DISK_ID, &[0]),
            (tag::LEASE, &[32, 52]),
            (tag::DURABLE_REQUEST_V2, &[32]),
            (tag::DURABLE_RECONNECT_V2, &[36]),
            (tag::APP_INSTANCE_ID, &[20]),
            (tag::APP_INSTANCE_VERSION, &[24]),
            (tag::AAPL, &[24]),
            (tag::POSIX, &[4]),
        ] {
            for len in (0..64).filter(|len| !lens.contains(len)) {
                for byte in [0, 1, 0xff] {
                    let came = with_context(&side, &who, tag, &vec![byte; len], LEASE).await;
                    assert_eq!(came, (Status::INVALID_PARAMETER, false), "{tag:?}: {len} times {byte:x}");
                }
            }
        }
    });
}

#[test]
fn each_value_of_each_field_of_a_context_is_taken_or_refused_and_what_is_refused_makes_nothing() {
    alone(|side| async move {
        let (ok, invalid) = (Status::SUCCESS, Status::INVALID_PARAMETER);
        let gone = Status::OBJECT_NAME_NOT_FOUND;
        let plain = request_context(1);
        let posix = RequestContext { posix: true, ..request_context(1) };
        let each = async |who: &RequestContext, tag: &[u8], data: &[u8], expected: Status| {
            let came = with_context(&side, who, tag, data, LEASE).await;
            assert_eq!(came, (expected, expected == ok), "{tag:x?} {data:x?}");
        };
        let beyond = [LARGEST + 1, i64::MAX as u64, i64::MIN as u64, -1i64 as u64, -2i64 as u64];
        for size in [0, 1, 4096] {
            each(&plain, tag::ALLOCATION_SIZE, &u64::to_le_bytes(size), ok).await;
        }
        for size in beyond {
            each(&plain, tag::ALLOCATION_SIZE, &size.to_le_bytes(), Status::DISK_FULL).await;
        }
        for time in [0, 1, -1, -2, i64::MAX, i64::MIN] {
            each(&plain, tag::MAXIMAL_ACCESS, &time.to_le_bytes(), ok).await;
            each(&plain, tag::TIMEWARP, &time.to_le_bytes(), gone).await;
        }
        for byte in [0, 1, 0x80, 0xff] {
            // What is asked for is granted as far as there is any of it.
            for (tag, len) in [
                (tag::LEASE, 32),
                (tag::LEASE, 52),
                (tag::DURABLE_REQUEST, 16),
                (tag::DURABLE_REQUEST_V2, 32),
                (tag::AAPL, 24),
            ] {
                each(&plain, tag, &vec![byte; len], ok).await;
            }
            for (tag, len) in [(tag::DURABLE_RECONNECT, 16), (tag::DURABLE_RECONNECT_V2, 36)] {
                each(&plain, tag, &vec![byte; len], gone).await;
            }
            for (tag, len) in [(tag::APP_INSTANCE_ID, 20u16), (tag::APP_INSTANCE_VERSION, 24)] {
                each(&plain, tag, &vec![byte; len.into()], invalid).await;
                let mut sized = vec![byte; len.into()];
                sized[..2].copy_from_slice(&len.to_le_bytes());
                each(&plain, tag, &sized, ok).await;
            }
        }
        for mode in [0o600, 0o777, 0o7777, 0x8000_0180, u32::MAX, u32::MAX - 1] {
            each(&posix, tag::POSIX, &mode.to_le_bytes(), ok).await;
            each(&plain, tag::POSIX, &mode.to_le_bytes(), ok).await;
        }
        // A list of no attributes; one of which each field is wrong.
        each(&plain, tag::EA_BUFFER, &[], ok).await;
        let attribute = |next: u32, bits: u8, name_len: u8, value_len: u16| {
            let head = [&next.to_le_bytes()[..], &[bits, name_len], &value_len.to_le_bytes()].concat();
            [&head[..], b"A\0v"].concat()
        };
        each(&plain, tag::EA_BUFFER, &attribute(0, 0, 1, 1), ok).await;
        for next in [1, 8, 12, 0x7fff_ffff, u32::MAX - 1, u32::MAX] {
            each(&plain, tag::EA_BUFFER, &attribute(next, 0, 1, 1), invalid).await;
        }
        for (name_len, value_len) in [(2, 1), (255, 1), (1, 2), (1, u16::MAX)] {
            let list = attribute(0, 0, name_len, value_len);
            each(&plain, tag::EA_BUFFER, &list, invalid).await;
        }
        for bits in [1, 0xff] {
            each(&plain, tag::EA_BUFFER, &attribute(0, bits, 1, 1), Status::INVALID_EA_NAME).await;
        }
        let nameless = [0, 0, 0, 0, 0, 0, 1, 0, 0, b'v'];
        each(&plain, tag::EA_BUFFER, &nameless, Status::INVALID_EA_NAME).await;
        let whole =
            Descriptor { owner: Some(Sid::EVERYONE), dacl: Some(Vec::new()), ..Descriptor::default() };
        let whole = whole.to_bytes();
        for short in 0..20 {
            let came = with_context(&side, &plain, tag::SD_BUFFER, &whole[..short], LEASE).await;
            assert!(came.0 != ok && !came.1, "{short}: {came:?}");
        }
        // Where each part lies.
        for at in [4, 8, 12, 16] {
            for offset in [1, whole.len() as u32, 0x7fff_ffff, -2i32 as u32, u32::MAX] {
                let mut wrong = whole.clone();
                wrong[at..at + 4].copy_from_slice(&offset.to_le_bytes());
                let came = with_context(&side, &plain, tag::SD_BUFFER, &wrong, LEASE).await;
                assert!(came.0 != ok || at == 8 || at == 12, "{at}: {offset:x}");
                assert_eq!(came.1, came.0 == ok, "{at}: {offset:x}");
            }
        }
    });
}

/// Each field of a context's structure at each boundary value, against what it should come to.
async fn each_field_is<T: Layout>(
    side: &Side,
    who: &RequestContext,
    tag: &[u8],
    (valid, rest): (&T, &[u8]),
    expected: impl Fn(&'static str, i64) -> Status,
) {
    for Variant { field, value, bytes } in varied(valid) {
        let came = with_context(side, who, tag, &[&bytes[..], rest].concat(), LEASE).await;
        let expected = expected(field, value);
        assert_eq!(
            came,
            (expected, expected == Status::SUCCESS),
            "{}: {field} {value:x}",
            tag.escape_ascii()
        );
    }
}

#[test]
fn each_field_of_a_structure_in_a_context_is_judged_by_its_value() {
    alone(|side| async move {
        let who = request_context(1);
        let (ok, invalid, no_name) = (Status::SUCCESS, Status::INVALID_PARAMETER, Status::INVALID_EA_NAME);
        // Bits and reserved bytes that mean nothing here are passed over.
        each_field_is(&side, &who, tag::LEASE, (&LeaseV1::new_zeroed(), &[]), |_, _| ok).await;
        each_field_is(&side, &who, tag::LEASE, (&LeaseV2::new_zeroed(), &[]), |_, _| ok).await;
        each_field_is(
            &side,
            &who,
            tag::DURABLE_REQUEST_V2,
            (&DurableRequestV2::new_zeroed(), &[]),
            |_, _| ok,
        )
        .await;
        each_field_is(&side, &who, tag::AAPL, (&AaplRequest::new_zeroed(), &[]), |_, _| ok).await;
        let gone = |_, _| Status::OBJECT_NAME_NOT_FOUND;
        let again = DurableReconnectV2::new_zeroed();
        each_field_is(&side, &who, tag::DURABLE_RECONNECT_V2, (&again, &[]), gone).await;
        let sized = |len: i64| {
            move |field: &'static str, value: i64| {
                if field == "structure_size" && value != len { invalid } else { ok }
            }
        };
        let id = AppInstanceId { structure_size: 20.into(), ..AppInstanceId::new_zeroed() };
        each_field_is(&side, &who, tag::APP_INSTANCE_ID, (&id, &[]), sized(20)).await;
        let version = AppInstanceVersion { structure_size: 24.into(), ..AppInstanceVersion::new_zeroed() };
        each_field_is(&side, &who, tag::APP_INSTANCE_VERSION, (&version, &[]), sized(24)).await;
        let attribute =
            EaHead { next_entry_offset: 0.into(), flags: 0, ea_name_length: 1, ea_value_length: 1.into() };
        each_field_is(&side, &who, tag::EA_BUFFER, (&attribute, b"A\0v"), |field, value| {
            match (field, value) {
                ("next_entry_offset", 0) | ("ea_name_length", 1) | ("ea_value_length", 0 | 1) => ok,
                // FILE_NEED_EA is the one that there is.
                ("flags", 0 | -0x80) => ok,
                ("flags", _) => no_name,
                _ => invalid,
            }
        })
        .await;
        let security = DescriptorHead { revision: 1, control: 0x8000.into(), ..DescriptorHead::new_zeroed() };
        let whole = Status::INVALID_SECURITY_DESCR;
        each_field_is(&side, &who, tag::SD_BUFFER, (&security, &[]), |field, value| match (field, value) {
            ("revision", 1) | ("sbz1", _) => ok,
            // What is not said to be there may lie anywhere.
            ("offset_owner" | "offset_group", 0) | ("offset_sacl" | "offset_dacl", _) => ok,
            // Self-relative, and lists that are there: at no place, so none.
            ("control", ..0) => ok,
            _ => whole,
        })
        .await;
        for present in [0x8004, 0x8010] {
            let with_list = DescriptorHead { control: present.into(), ..security };
            let list = if present == 0x8004 { "offset_dacl" } else { "offset_sacl" };
            each_field_is(&side, &who, tag::SD_BUFFER, (&with_list, &[]), |field, value| {
                match (field, value) {
                    (field, value) if field == list && value != 0 => whole,
                    ("revision", 1) | ("sbz1", _) | ("control", ..0) => ok,
                    ("offset_owner" | "offset_group", 0) | ("offset_sacl" | "offset_dacl", _) => ok,
                    _ => whole,
                }
            })
            .await;
        }
    });
}

#[test]
fn a_file_that_is_there_keeps_what_a_context_would_give_a_new_one() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"1").await;
        // MS-SMB2 3.3.5.9.1, 3.3.5.9.2: an existing file is neither given these nor is the context judged.
        for (tag, data) in [
            (tag::EA_BUFFER, &b"\x01\0\0\0\0\x01\x01\0A\0v"[..]),
            (tag::EA_BUFFER, b"\0\0\0\0\0\x01\x01\0A\0v"),
            (tag::SD_BUFFER, b"\xff"),
        ] {
            for disposition in
                [Disposition::Open, Disposition::OpenIf, Disposition::OverwriteIf, Disposition::Supersede]
            {
                let mut contexts = ContextWriter::new();
                contexts.push(tag, data);
                let wish = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(disposition) };
                let open = side.open(&who, "page", &wish).await;
                let kept = file(&side, &who, &open, class::FULL_EA).await;
                assert_eq!(kept, Err(Status::NO_EAS_ON_FILE), "{disposition:?}");
                side.share.close(&who, &open, 0).await.unwrap();
            }
        }
    });
}

/// Makes a file with a mode that lacks bits of its owner, and uses the open.
async fn made_with(side: &Side, mode: u32, expected: u32) {
    let who = RequestContext { posix: true, ..request_context(1) };
    let mut contexts = ContextWriter::new();
    contexts.push(tag::POSIX, &mode.to_le_bytes());
    let wish = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Create) };
    let made = side.create(&who, &format!("made-{mode}"), &wish).await.unwrap();
    let told = Contexts::parse(&made.contexts).unwrap();
    let (posix, _) = prefix::<PosixFixed>(told.find(tag::POSIX).unwrap()).unwrap();
    assert_eq!(posix.mode.get(), expected, "{mode:o}");
    side.share.write_bytes(&who, &made.open, 0, b"1", false).await.unwrap();
    assert_eq!(side.read(&who, &made.open, 0, 1).await, Ok(b"1".to_vec()), "{mode:o}");
    side.share.close(&who, &made.open, 0).await.unwrap();
}

#[test]
fn a_file_is_made_with_a_mode_that_keeps_its_owner_out_and_its_open_works() {
    for is_root in [true, false] {
        served_by(is_root, move |side, _| async move {
            // What a server that is not root could not even look at stays its own to read.
            let stays = if is_root { 0 } else { 0o400 };
            for mode in [0, 0o040, 0o200] {
                made_with(&side, mode, mode | stays).await;
            }
            made_with(&side, 0o400, 0o400).await;
        });
    }
}
