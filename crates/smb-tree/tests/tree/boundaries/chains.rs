//! How a CREATE's contexts lie: their heads, their order, the same one twice, and names that mean nothing.

use smb_wire::Status;
use smb_wire::create::context::{CONTEXTS_MAX, ContextHead, ContextWriter, tag};
use zerocopy::FromBytes;

use super::{Variant, varied, with_contexts};
use crate::durable::LEASE;
use crate::{alone, request_context};

const OK: Status = Status::SUCCESS;
const INVALID: Status = Status::INVALID_PARAMETER;

/// What the fields of a head say of a name of four bytes and data of eight.
const HEAD: (u16, u16, u16, u32) = (16, 4, 24, 8);

/// A context with this name and data behind such a head.
fn context(name: &[u8; 4], data: &[u8; 8]) -> Vec<u8> {
    let mut one = ContextWriter::new();
    one.push(name, data);
    assert_eq!(one.bytes().len(), size_of::<ContextHead>() + 4 + 4 + 8);
    one.bytes().to_vec()
}

fn list(contexts: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut list = ContextWriter::new();
    contexts.iter().for_each(|(name, data)| list.push(name, data));
    list.bytes().to_vec()
}

#[test]
fn each_field_of_a_contexts_head_is_judged_by_its_value() {
    alone(|side| async move {
        let who = request_context(1);
        let whole = context(b"MxAc", &[0; 8]);
        let (head, rest) = ContextHead::ref_from_prefix(&whole).unwrap();
        assert_eq!(
            (head.name_offset.get(), head.name_length.get(), head.data_offset.get(), head.data_length.get()),
            HEAD
        );
        for Variant { field, value, bytes } in varied(head) {
            let came = with_contexts(&side, &who, &[&bytes[..], rest].concat(), LEASE).await;
            let expected = match (field, value) {
                ("next", 0) | ("reserved", _) => OK,
                // MxAc has no data, or a time.
                ("data_length", 0) => OK,
                ("next" | "name_offset" | "name_length" | "data_offset" | "data_length", _) => INVALID,
                unknown => panic!("{unknown:?}"),
            };
            assert_eq!(came, (expected, expected == OK), "{field} {value:x}");
        }
        // Each offset and length within the context and around it.
        for (at, width) in [(4, 2), (6, 2), (10, 2), (12, 4)] {
            for value in 0..40u32 {
                let mut wrong = whole.clone();
                wrong[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                let expected = match (at, value) {
                    (4, 16) | (6, 4) | (10, 24) | (12, 0 | 8) => OK,
                    // Another name, which means nothing here.
                    (6, 5..=8) => OK,
                    _ => INVALID,
                };
                let came = with_contexts(&side, &who, &wrong, LEASE).await;
                assert_eq!(came, (expected, expected == OK), "{at}: {value}");
            }
        }
    });
}

#[test]
fn a_context_without_data_has_its_offset_anywhere_and_one_with_data_behind_its_name() {
    alone(|side| async move {
        let who = request_context(1);
        let empty = list(&[(tag::MAXIMAL_ACCESS, &[])]);
        let full = context(b"AlSi", &[0; 8]);
        for offset in [0u16, 8, 16, 20, 24, 32, 0x7fff, 0xffff] {
            // MS-SMB2 2.2.13.2: without data the offset is ignored.
            let mut with = empty.clone();
            with[10..12].copy_from_slice(&offset.to_le_bytes());
            assert_eq!(with_contexts(&side, &who, &with, LEASE).await, (OK, true), "{offset}");
            let mut with = full.clone();
            with[10..12].copy_from_slice(&offset.to_le_bytes());
            let expected = if offset == 24 { OK } else { INVALID };
            assert_eq!(
                with_contexts(&side, &who, &with, LEASE).await,
                (expected, expected == OK),
                "{offset}"
            );
        }
        for offset in [17u16, 18, 20, 23] {
            // Its name is aligned to 8 bytes.
            let mut with = [&empty[..], &[0; 8]].concat();
            with[4..6].copy_from_slice(&offset.to_le_bytes());
            assert_eq!(with_contexts(&side, &who, &with, LEASE).await, (INVALID, false), "{offset}");
        }
    });
}

#[test]
fn a_chain_goes_on_to_where_a_context_is_and_ends_with_one() {
    alone(|side| async move {
        let who = request_context(1);
        let two = list(&[(tag::MAXIMAL_ACCESS, &[]), (tag::ON_DISK_ID, &[])]);
        let second = two.len() / 2;
        for next in [0u32, 1, 4, 8, 16, 20, 23, 24, 25, 32, 40, 44, 48, 0x7fff_ffff, 0xffff_fff8, u32::MAX] {
            let mut wrong = two.clone();
            wrong[..4].copy_from_slice(&next.to_le_bytes());
            // Where the first is the last what lies behind it is nobody's.
            let expected = if next == 0 || next as usize == second { OK } else { INVALID };
            let came = with_contexts(&side, &who, &wrong, LEASE).await;
            assert_eq!(came, (expected, expected == OK), "{next:x}");
            let mut last = two.clone();
            last[second..second + 4].copy_from_slice(&next.to_le_bytes());
            let expected = if next == 0 { OK } else { INVALID };
            let came = with_contexts(&side, &who, &last, LEASE).await;
            assert_eq!(came, (expected, expected == OK), "the last: {next:x}");
        }
        for len in 1..20 {
            assert_eq!(with_contexts(&side, &who, &two[..len], LEASE).await, (INVALID, false), "{len}");
        }
        for (count, expected) in [(1, OK), (CONTEXTS_MAX, OK), (CONTEXTS_MAX + 1, INVALID)] {
            let many = list(&vec![(tag::ON_DISK_ID, &[][..]); count]);
            let came = with_contexts(&side, &who, &many, LEASE).await;
            assert_eq!(came, (expected, expected == OK), "{count}");
        }
    });
}

/// Names and data of contexts, in their order.
type Contexts<'a> = &'a [(&'a [u8], &'a [u8])];

#[test]
fn of_the_same_context_twice_the_last_counts_and_no_open_is_claimed_twice() {
    alone(|side| async move {
        let who = request_context(1);
        let none = Status::DISK_FULL;
        let (small, huge) = (4096u64.to_le_bytes(), u64::MAX.to_le_bytes());
        let (v1, v2) = ([0; 16], [0; 32]);
        let (again, again_v2) = ([1; 16], [1; 36]);
        let gone = Status::OBJECT_NAME_NOT_FOUND;
        let cases: [(Contexts<'_>, Status); 19] = [
            (&[(tag::ALLOCATION_SIZE, &huge), (tag::ALLOCATION_SIZE, &small)], OK),
            (&[(tag::ALLOCATION_SIZE, &small), (tag::ALLOCATION_SIZE, &huge)], none),
            (&[(tag::MAXIMAL_ACCESS, &small), (tag::MAXIMAL_ACCESS, &[])], OK),
            (&[(tag::ON_DISK_ID, &[]), (tag::ON_DISK_ID, &[])], OK),
            (&[(tag::LEASE, &v2), (tag::LEASE, &[1; 52])], OK),
            (&[(tag::DURABLE_REQUEST, &v1), (tag::DURABLE_REQUEST, &v1)], OK),
            (&[(tag::DURABLE_REQUEST_V2, &v2), (tag::DURABLE_REQUEST_V2, &v2)], OK),
            (&[(tag::POSIX, &[0; 4]), (tag::POSIX, &[1; 4])], OK),
            // MS-SMB2 3.3.5.9.6, .7, .10, .12: which of these stand beside each other.
            (&[(tag::DURABLE_REQUEST, &v1), (tag::DURABLE_REQUEST_V2, &v2)], INVALID),
            (&[(tag::DURABLE_REQUEST_V2, &v2), (tag::DURABLE_REQUEST, &v1)], INVALID),
            (&[(tag::DURABLE_REQUEST, &v1), (tag::DURABLE_RECONNECT, &again)], gone),
            (&[(tag::DURABLE_REQUEST, &v1), (tag::DURABLE_RECONNECT_V2, &again_v2)], INVALID),
            (&[(tag::DURABLE_REQUEST_V2, &v2), (tag::DURABLE_RECONNECT, &again)], INVALID),
            (&[(tag::DURABLE_REQUEST_V2, &v2), (tag::DURABLE_RECONNECT_V2, &again_v2)], INVALID),
            (&[(tag::DURABLE_RECONNECT, &again), (tag::DURABLE_RECONNECT_V2, &again_v2)], INVALID),
            (&[(tag::DURABLE_RECONNECT, &again), (tag::DURABLE_RECONNECT, &again)], INVALID),
            (&[(tag::DURABLE_RECONNECT_V2, &again_v2), (tag::DURABLE_RECONNECT_V2, &again_v2)], INVALID),
            // One of the wrong length fails the request, wherever it stands.
            (&[(tag::ON_DISK_ID, &[]), (tag::TIMEWARP, &[0; 7]), (tag::MAXIMAL_ACCESS, &[])], INVALID),
            (&[(tag::TIMEWARP, &small), (tag::ON_DISK_ID, &[1])], INVALID),
        ];
        for (contexts, expected) in cases {
            let came = with_contexts(&side, &who, &list(contexts), LEASE).await;
            assert_eq!(came, (expected, expected == OK), "{contexts:x?}");
        }
    });
}

#[test]
fn a_name_that_means_nothing_is_passed_over_whatever_its_data() {
    alone(|side| async move {
        let who = request_context(1);
        let names: [&[u8]; 9] = [
            b"None",
            b"mxac",
            b"\0\0\0\0",
            b"\xff\xff\xff\xff",
            b"MxAc\0",
            b"MxAcQFid",
            b"SecDx",
            &[0; 16],
            &[7; 64],
        ];
        for name in names {
            for len in [0, 1, 7, 8, 9, 300] {
                let data = vec![0xff; len];
                for contexts in [
                    list(&[(name, &data)]),
                    list(&[(tag::MAXIMAL_ACCESS, &[]), (name, &data), (tag::ON_DISK_ID, &[])]),
                ] {
                    let came = with_contexts(&side, &who, &contexts, LEASE).await;
                    assert_eq!(came, (OK, true), "{} {len}", name.escape_ascii());
                }
            }
        }
        for short in 0..4 {
            let came = with_contexts(&side, &who, &list(&[(&b"MxAc"[..short], &[])]), LEASE).await;
            assert_eq!(came, (INVALID, false), "a name of {short}");
        }
    });
}
