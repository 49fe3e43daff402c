//! Connections between stock ends, as they were on the wire: ours must take and make the same.

use krb::{Acceptor, Time};
use rx::header::{HEADER_LEN, Header, PacketType};
use rx::security::{ConnectionContext, PacketContext, Security};
use rxkad::wire::{Challenge, Response};
use rxkad::{DesKey, Level, PacketKey, Policy, RxkadServer, ServiceKeys};

use crate::proofs::{ask_of, check_at};

/// Keys and values; a value goes on in lines without a key.
fn vectors() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in include_str!("vectors/stock.txt").lines().filter(|line| !line.starts_with('#')) {
        match (line.split_once(" = "), all.last_mut()) {
            (Some((key, value)), _) => all.push((key.to_owned(), value.to_owned())),
            (None, last) => last.expect("a key comes first").1.push_str(line),
        }
    }
    all
}

fn values(key: &str) -> Vec<String> {
    vectors().into_iter().filter(|(name, _)| name == key).map(|(_, value)| value).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn keys() -> krb::Keys {
    krb::Keys::new(krb::keytab::parse_key_file_ext("KeyFileExt", &unhex(&values("keys")[0])).expect("keys"))
}

/// A connection of stock ends.
struct Recorded {
    now: i64,
    packets: Vec<(Header, Vec<u8>)>,
}

impl Recorded {
    fn of(name: &str) -> Self {
        let packets = values(name).into_iter().map(|packet| {
            let bytes = unhex(&packet);
            (Header::parse(&bytes).expect("a packet").0, bytes[HEADER_LEN..].to_vec())
        });
        Self { now: values("now")[0].parse().expect("seconds"), packets: packets.collect() }
    }

    fn payload(&self, kind: PacketType) -> &[u8] {
        &self.packets.iter().find(|(header, _)| header.kind == kind).expect("one").1
    }

    fn connection(&self) -> ConnectionContext {
        let header = &self.packets[0].0;
        ConnectionContext { epoch: header.epoch, cid: header.cid & !3, security: 2, calls: [1, 0, 0, 0] }
    }

    fn nonce(&self) -> u32 {
        Challenge::parse(self.payload(PacketType::Challenge)).expect("a challenge").nonce
    }

    /// The key of the connection, from its ticket.
    fn key(&self) -> DesKey {
        let response = Response::parse(self.payload(PacketType::Response)).expect("a response");
        let (acceptor, now) = (Acceptor::new(krb::Policy::rxkad()), Time::from_seconds(self.now));
        if response.kvno == 213 {
            let ticket = acceptor.open_encrypted_part(response.ticket, &keys(), now).expect("a ticket");
            return DesKey::from_bytes(ticket.session_key.bytes().try_into().expect("8 bytes"));
        }
        let ticket = acceptor.open_ticket(response.ticket, &keys(), now).expect("a ticket");
        DesKey::derive(&ticket.session_key).expect("a key")
    }

    fn data(&self) -> impl Iterator<Item = (PacketContext, u16, Vec<u8>)> + '_ {
        self.packets.iter().filter(|(header, _)| header.kind == PacketType::Data).map(|(header, payload)| {
            let context = PacketContext {
                epoch: header.epoch,
                cid: header.cid,
                call: header.call,
                seq: header.seq,
                from_client: header.from_client(),
            };
            (context, header.checksum, payload.clone())
        })
    }
}

const ALL: [(&str, Level, &str); 4] = [
    ("local", Level::Crypt, "<LocalAuth>"),
    ("auth", Level::Auth, "<LocalAuth>"),
    ("clear", Level::Clear, "alice@TEST.LOCAL"),
    ("crypt", Level::Crypt, "alice@TEST.LOCAL"),
];

#[test]
fn a_stock_clients_proof_and_packets_are_taken() {
    for (name, level, who) in ALL {
        let recorded = Recorded::of(name);
        let factory = RxkadServer::new(ServiceKeys::new(keys()), Policy::default());
        let mut server = factory.connection();
        let asked = ask_of(&mut server, recorded.nonce());
        assert_eq!(asked, recorded.payload(PacketType::Challenge), "{name}");
        let response = recorded.payload(PacketType::Response);
        let calls = check_at(&mut server, Some(recorded.now), recorded.connection(), response);
        assert_eq!(calls, Ok([1, 0, 0, 0]), "{name}");
        let principal = server.principal().expect("proved");
        assert_eq!((principal.name.as_str(), principal.level), (who, level as u8));
        for (at, checksum, mut payload) in recorded.data() {
            let len = payload.len();
            let data = server.open(&at, checksum, &mut payload);
            assert!(data.is_ok_and(|data| data.end <= len && !data.is_empty()), "{name} {at:?}");
        }
    }
}

#[test]
fn opened_packets_of_a_stock_client_are_what_it_said() {
    let recorded = Recorded::of("crypt");
    let key = PacketKey::new(&recorded.key(), recorded.connection().epoch, recorded.connection().cid);
    let said: Vec<Vec<u8>> = recorded
        .data()
        .map(|(at, checksum, mut payload)| {
            let data = key.open(Level::Crypt, &at, checksum, &mut payload).expect("right");
            payload[data].to_vec()
        })
        .collect();
    // PR_NameToID of one name, and the id; the last call is PR_ListEntry of it.
    assert_eq!(said[0][..12], [0, 0, 1, 0xf8, 0, 0, 0, 1, 0, 0, 0, b'a']);
    assert_eq!(said[1], [0, 0, 0, 1, 0, 0, 3, 0xe8]);
    assert_eq!(said[4], [0, 0, 2, 0, 0, 0, 3, 0xe8]);
    // What was clear in the other connection is the same.
    let clear: Vec<_> = Recorded::of("clear").data().map(|(_, _, payload)| payload).collect();
    assert_eq!(said[4..6], clear[4..6]);
}

#[test]
fn a_proof_and_packets_of_ours_are_those_of_a_stock_client() {
    for (name, level, _) in ALL {
        let (recorded, key) = (Recorded::of(name), Recorded::of(name).key());
        let given = Response::parse(recorded.payload(PacketType::Response)).expect("a response");
        let proof = given.open(&key, &recorded.connection()).expect("a proof");
        assert_eq!((proof.nonce, proof.level), (recorded.nonce().wrapping_add(1), level as u32));
        let mut made = Vec::new();
        Response::encode(&proof, &key, given.kvno, given.ticket, &mut made);
        assert!(made == recorded.payload(PacketType::Response), "{name}");
        let packets = PacketKey::new(&key, recorded.connection().epoch, recorded.connection().cid);
        for (at, checksum, payload) in recorded.data() {
            let mut opened = payload.clone();
            let data = packets.open(level, &at, checksum, &mut opened).expect("right");
            let sealed = packets.seal(level, &at, &mut opened, data.len()).expect("room");
            assert_eq!((sealed.len, sealed.checksum), (payload.len(), checksum), "{name}");
        }
    }
}
