//! unit: stubs that the generator made talk to each other, as client and server, and to hand-made bytes.

use proptest::prelude::*;
use xdr::afs::{AfsUuid, Time64};
use xdr::rpc::{Call, Fault, Procedure, SplitCall, code};
use xdr::{Bytes, Chars, Decode, Error, List, Opaque, Reader, Writer, to_vec};

#[allow(unreachable_pub, dead_code)]
mod generated {
    include!("../generated/interface.rs");
}

use generated::{Answer, Body, Colour, Counters, Maybe, Note, NoteId, Page, desk, note};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn sample_note() -> Note<'static> {
    Note {
        id: NoteId { cabinet: 1, sheet: 2 },
        title: "caf\u{e9}".into(),
        digest: Opaque([7; 20]),
        colour: Colour::Blue,
        shelf: Chars::from_text(b"top").unwrap(),
        initial: -3,
        rating: 200,
        depth: -300,
        port: 65535,
        r#type: -1,
        flags: 0x8000_0000,
        size: i64::MIN,
        version: u64::MAX,
        changed: Time64(12),
        author: AfsUuid([0xab; 16]),
        pinned: true,
        parent: Some(Box::new(NoteId::default())),
        aliases: List(vec!["a".into(), Bytes::default()]),
        tags: [1, -2, 3, -4],
    }
}

#[test]
fn request_is_opcode_then_in_parameters() {
    let mut wire = Vec::new();
    note::Read { id: NoteId { cabinet: 8, sheet: 9 }, pos: -1 }.start(&mut Writer::new(&mut wire)).unwrap();
    assert_eq!(wire, words(&[701, 8, 9, u32::MAX, u32::MAX]));
}

#[test]
fn plain_call_goes_there_and_back() {
    let request = note::List { ids: List(vec![NoteId::default()]), more: List(vec![5, 6]) };
    let mut wire = Vec::new();
    request.encode_request(&mut Writer::new(&mut wire)).unwrap();

    let mut reader = Reader::new(&wire);
    let seen = note::Request::decode(&mut reader).unwrap();
    reader.finish().unwrap();
    assert_eq!(seen, note::Request::List(request));
    assert_eq!(note::PROCEDURES[seen.index()].name, "NOTE_List");

    let reply =
        note::ListReply { notes: List(vec![sample_note(), sample_note()]), extra: Maybe::TagCount(4) };
    let mut wire = Vec::new();
    note::List::encode_reply(&reply, &mut Writer::new(&mut wire)).unwrap();
    let mut reader = Reader::new(&wire);
    assert_eq!(note::List::decode_reply(&mut reader), Ok(reply));
    reader.finish().unwrap();
}

#[test]
fn split_store_leaves_the_reader_at_the_raw_bytes() {
    let what = Body::Blue(Page { text: b"x".into(), next: Some(Box::new(Page::default())) });
    let request = note::Write { id: NoteId::default(), title: "t".into(), what, version: 3 };
    let mut wire = Vec::new();
    let mut writer = Writer::new(&mut wire);
    request.start(&mut writer).unwrap();
    writer.raw(b"raw bytes!").unwrap();

    let mut reader = Reader::new(&wire);
    assert_eq!(note::Request::decode(&mut reader), Ok(note::Request::Write(request)));
    assert_eq!(reader.rest(), b"raw bytes!");
}

#[test]
fn split_fetch_reads_its_end_behind_the_raw_bytes() {
    let reply =
        note::ReadReply { result: sample_note(), stats: Counters { load: 0.5, ..Counters::default() } };
    let mut wire = Vec::new();
    let mut writer = Writer::new(&mut wire);
    writer.raw(b"1234567").unwrap();
    note::Read::encode_reply(&reply, &mut writer).unwrap();

    let mut reader = Reader::new(&wire);
    assert_eq!(reader.raw(7), Ok(&b"1234567"[..]));
    assert_eq!(note::Read::end(&mut reader), Ok(reply));
    reader.finish().unwrap();
}

#[test]
fn inout_parameter_travels_both_ways() {
    let reply = note::WriteReply { version: 4, outcome: Answer::Other(-7, "no".into()) };
    let mut wire = Vec::new();
    note::Write::encode_reply(&reply, &mut Writer::new(&mut wire)).unwrap();
    assert_eq!(wire, [words(&[4, -7_i32 as u32, 2]), b"no\0\0".to_vec()].concat());
}

#[test]
fn direction_carries_over_from_the_procedure_before() {
    let mut wire = Vec::new();
    note::GetShelf.encode_request(&mut Writer::new(&mut wire)).unwrap();
    assert_eq!(wire, words(&[710]));
    let reply = note::GetShelfReply { name: Chars::from_text(b"z").unwrap() };
    assert_eq!(to_vec(&reply).unwrap().len(), 64 * 4);
}

#[test]
fn unnumbered_procedures_count_from_the_starting_opcode() {
    assert_eq!(desk::Open::OPCODE, 40);
    assert_eq!(desk::Close::OPCODE, 41);
    let wire = words(&[40, 6]);
    let request = desk::Request::decode(&mut Reader::new(&wire)).unwrap();
    assert_eq!(request, desk::Request::Open(desk::Open { number: 6 }));
}

#[test]
fn unknown_opcode_aborts_with_rxgen_opcode() {
    let wire = words(&[699]);
    let fault = note::Request::decode(&mut Reader::new(&wire)).unwrap_err();
    assert_eq!(fault, Fault::UnknownOpcode { opcode: 699 });
    assert_eq!((fault.abort_code(), fault.is_incomplete()), (code::OPCODE, false));
    assert_eq!(code::OPCODE, -455);
}

#[test]
fn request_without_opcode_aborts_with_rxgen_decode() {
    let fault = note::Request::decode(&mut Reader::new(&[0, 0, 2])).unwrap_err();
    assert_eq!((fault.abort_code(), fault.is_incomplete()), (code::DECODE, true));
}

#[test]
fn short_request_is_incomplete_and_a_bad_one_is_not() {
    let wire = words(&[702, 1, 2, 65]);
    let long = note::Request::decode(&mut Reader::new(&wire)).unwrap_err();
    let error = Error::TooLong { offset: 12, len: 65, max: 64 };
    assert_eq!(long, Fault::DecodeRequest { procedure: "NOTE_Write", error });
    assert_eq!((long.abort_code(), long.is_incomplete()), (code::SS_UNMARSHAL, false));

    let short = note::Request::decode(&mut Reader::new(&wire[..12])).unwrap_err();
    assert_eq!((short.abort_code(), short.is_incomplete()), (code::SS_UNMARSHAL, true));
}

#[test]
fn what_does_not_fit_its_bound_is_not_sent() {
    let request = note::List { ids: List(vec![NoteId::default(); 5]), more: List::default() };
    let fault = request.encode_request(&mut Writer::new(&mut Vec::new())).unwrap_err();
    assert_eq!(fault.abort_code(), code::CC_MARSHAL);

    let reply = note::ListReply { notes: List::default(), extra: Maybe::TagCount(0) };
    let fault = note::List::encode_reply(&reply, &mut Writer::new(&mut [0; 6][..])).unwrap_err();
    assert_eq!(fault.abort_code(), code::SS_MARSHAL);
}

#[test]
fn discriminant_or_enumerator_outside_its_type_is_refused() {
    let wire = words(&[4]);
    let read = Reader::new(&wire).value::<Colour>();
    assert_eq!(read, Err(Error::BadEnum { offset: 0, value: 4, type_name: "Colour" }));
    let wire = words(&[0, 3]);
    let fault = note::List::decode_reply(&mut Reader::new(&wire)).unwrap_err();
    let error = Error::BadEnum { offset: 4, value: 3, type_name: "Maybe" };
    assert_eq!(fault, Fault::DecodeReply { procedure: "NOTE_List", error });
    assert_eq!(fault.abort_code(), code::CC_UNMARSHAL);
}

#[test]
fn smallest_encodings_have_the_announced_size() {
    let note = Note { title: Bytes::default(), parent: None, aliases: List::default(), ..sample_note() };
    assert_eq!(to_vec(&note).unwrap().len(), Note::MIN_SIZE);
    assert_eq!(to_vec(&Counters::default()).unwrap().len(), Counters::MIN_SIZE);
    assert_eq!(to_vec(&Body::None).unwrap().len(), Body::MIN_SIZE);
}

#[test]
fn endless_page_list_is_refused() {
    let wire = [words(&[702, 1, 2, 0, 6]), words(&[0, 1]).repeat(100_000)].concat();
    let fault = note::Request::decode(&mut Reader::new(&wire)).unwrap_err();
    assert!(matches!(fault, Fault::DecodeRequest { error: Error::TooDeep { .. }, .. }), "{fault}");
}

proptest! {
    #[test]
    fn any_write_request_round_trips(
        cabinet: u32,
        version: u32,
        title in prop::collection::vec(any::<u8>(), 0..=64),
        pages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20),
    ) {
        let none: Option<Box<Page<'_>>> = None;
        let list = pages.iter().fold(none, |next, text| Some(Box::new(Page { text: text[..].into(), next })));
        let id = NoteId { cabinet, sheet: 0 };
        let request = note::Write { id, title: title[..].into(), what: Body::Blue(*list.unwrap()), version };
        let mut wire = Vec::new();
        request.start(&mut Writer::new(&mut wire)).unwrap();
        prop_assert_eq!(note::Request::decode(&mut Reader::new(&wire)), Ok(note::Request::Write(request)));
    }

    #[test]
    fn any_bytes_are_a_request_or_a_fault(opcode in 699u32..712, bytes: Vec<u8>) {
        let wire = [opcode.to_be_bytes().to_vec(), bytes].concat();
        if let Err(fault) = note::Request::decode(&mut Reader::new(&wire)) {
            prop_assert!([code::SS_UNMARSHAL, code::OPCODE].contains(&fault.abort_code()));
        }
    }
}
