//! Fuzz harnesses (bolero): a property test under `cargo test`, libFuzzer with `cargo bolero test`.

use crate::control::{ControlReader, Role};
use crate::keys::RecordCipher;
use crate::open::{Opened, Place};

use super::opener::{fixed_keys, tls13_record};
use super::*;

/// Opens any bytes, in any cuts: an error or no record, never a panic, never more held than one record.
///
/// The first byte chooses the version and how long the pieces are.
#[test]
fn opener_survives_any_input() {
    bolero::check!().for_each(|input: &[u8]| {
        let Some((&choice, bytes)) = input.split_first() else {
            return;
        };
        let version = if choice & 1 == 0 { TlsVersion::Tls12 } else { TlsVersion::Tls13 };
        let mut opener = RecordOpener::new(&fixed_keys(version)).unwrap();
        for chunk in bytes.chunks(1 + usize::from(choice >> 1)) {
            let mut chunk = chunk.to_vec();
            if opener.open(&mut chunk).is_err() {
                break;
            }
            assert!(opener.carried_len() <= HEADER_LEN + PLAINTEXT_MAX + 2048);
        }
    });
}

/// Opens authentic records with any inner bytes, cut anywhere: the content comes back, and the control reader
/// never panics on it.
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

/// Sends any bytes to a server that waits for a ClientHello, cut into pieces of the first byte's length.
#[test]
fn server_survives_any_first_bytes() {
    bolero::check!().with_iterations(500).for_each(|input: &[u8]| {
        let Some((&chunk_len, bytes)) = input.split_first() else {
            return;
        };
        let mut server = TlsSession::server(server_config()).unwrap();
        for chunk in bytes.chunks(1 + usize::from(chunk_len)) {
            if received(&mut server, chunk.to_vec()).is_err() {
                assert!(matches!(received(&mut server, vec![22]), Err(TlsError::NotOpen)));
                break;
            }
        }
        assert!(server.info().is_none());
    });
}

/// Sends any bytes to a server that waits for the client's Finished message.
#[test]
fn server_survives_any_bytes_after_the_client_hello() {
    bolero::check!().with_iterations(300).for_each(|input: &[u8]| {
        let Some((&choice, bytes)) = input.split_first() else {
            return;
        };
        let versions = if choice & 1 == 0 { Versions::Tls12Only } else { Versions::Tls13Only };
        let mut client = TlsSession::client(Arc::new(any_client(versions)), localhost()).unwrap();
        let mut server = TlsSession::server(server_config()).unwrap();
        received(&mut server, client.take_output()).unwrap();
        for chunk in bytes.chunks(1 + usize::from(choice >> 1)) {
            if received(&mut server, chunk.to_vec()).is_err() {
                break;
            }
        }
        assert!(server.info().is_none());
    });
}
