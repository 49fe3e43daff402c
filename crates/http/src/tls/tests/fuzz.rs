//! Fuzz harnesses (bolero): a property test under `cargo test`, libFuzzer with `cargo bolero test`.

use std::sync::Mutex;

use crate::tls::control::{ControlReader, Role};
use crate::tls::keys::RecordCipher;
use crate::tls::open::{Opened, Place};

use super::opener::{fixed_keys, tls13_record};
use super::*;

/// Any bytes, in any cuts: an error or no record, never a panic, never more held than one record.
#[test]
fn opener_survives_any_input() {
    bolero::check!().with_type::<(bool, Vec<Vec<u8>>)>().for_each(|(is_tls13, chunks)| {
        let version = if *is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let mut opener = RecordOpener::new(&fixed_keys(version)).unwrap();
        for chunk in chunks {
            let mut chunk = chunk.clone();
            if opener.open(&mut chunk).is_err() {
                break;
            }
            assert!(opener.carried_len() <= HEADER_LEN + PLAINTEXT_MAX + 2048);
        }
    });
}

/// Authentic records with any inner bytes, cut anywhere: the opener gives back what was sealed, and the
/// control reader never panics on it.
#[test]
fn sealed_records_with_any_content_are_opened_or_refused() {
    bolero::check!().with_type::<(Vec<Vec<u8>>, Vec<u16>)>().for_each(|(inners, cuts)| {
        let keys = fixed_keys(TlsVersion::Tls13);
        let mut cipher = RecordCipher::new(&keys).unwrap();
        let mut opener = RecordOpener::new(&keys).unwrap();
        let mut server = ControlReader::new(Role::Server, TlsVersion::Tls13);
        let mut client = ControlReader::new(Role::Client, TlsVersion::Tls12);
        let stream: Vec<u8> = inners.iter().flat_map(|inner| tls13_record(&mut cipher, inner)).collect();
        let mut expected = inners.iter();
        for mut chunk in cut(&stream, cuts) {
            let mut rest = chunk.as_mut_slice();
            loop {
                let (consumed, content_type, plain) = match opener.open(rest) {
                    Err(_) => return,
                    Ok(Opened::NeedMore) => break,
                    Ok(Opened::Record { consumed, content_type, plain }) => (consumed, content_type, plain),
                };
                let plain = match plain {
                    Place::Input(range) => rest[range].to_vec(),
                    Place::Carry(range) => opener.carried(range).to_vec(),
                };
                let inner = expected.next().expect("no more records than were sealed");
                assert!(inner.starts_with(&plain) && inner[plain.len()] == u8::from(content_type));
                let _ = server.read(content_type, &plain);
                let _ = client.read(content_type, &plain);
                rest = &mut rest[consumed..];
            }
        }
        assert_eq!(expected.next(), None, "every record came out");
    });
}

fn cut(stream: &[u8], cuts: &[u16]) -> Vec<Vec<u8>> {
    let mut rest = stream;
    let mut chunks = Vec::new();
    for &len in cuts {
        let (chunk, after) = rest.split_at(usize::from(len).min(rest.len()));
        chunks.push(chunk.to_vec());
        rest = after;
    }
    chunks.push(rest.to_vec());
    chunks
}

/// Any bytes at a server that waits for a ClientHello, and at one that waits for the client's Finished.
#[test]
fn handshake_survives_any_input() {
    static HELLO: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let mut client = TlsSession::client(Arc::new(any_client(Versions::Tls12And13)), localhost()).unwrap();
    *HELLO.lock().unwrap() = client.take_output();
    bolero::check!().with_iterations(300).with_type::<(u16, Vec<u8>, bool)>().for_each(
        |(mutate_at, bytes, after_hello)| {
            let mut hello = HELLO.lock().unwrap().clone();
            let mut server = TlsSession::server(server_config()).unwrap();
            if *after_hello {
                received(&mut server, hello).unwrap();
                let _ = received(&mut server, bytes.clone());
            } else {
                let at = usize::from(*mutate_at) % hello.len();
                let end = (at + bytes.len()).min(hello.len());
                hello[at..end].copy_from_slice(&bytes[..end - at]);
                let _ = received(&mut server, hello);
                let _ = received(&mut server, bytes.clone());
            }
            assert!(server.info().is_none());
        },
    );
}
