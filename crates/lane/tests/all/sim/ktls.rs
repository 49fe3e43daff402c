//! Tests of kernel TLS of simulated hosts, with records that are not encrypted: type, key, length, plaintext.

use lane::backend::sim::{Config, KernelTls, RecordLayer, World, seeds};
use lane::buffer::BufClass;
use lane::net::TcpStream;
use lane::socket::control::ControlWriter;
use lane::socket::ktls::KtlsRefusal;

use super::{accept, connect, listen, send};

/// Record layer that "encrypts" by naming the key.
struct Readable {
    key: u8,
}

impl RecordLayer for Readable {
    fn set_key(&mut self, crypto_info: &[u8]) -> Result<(), KtlsRefusal> {
        match crypto_info {
            &[key] => self.key = key,
            _ => return Err(KtlsRefusal::NoCipher),
        }
        Ok(())
    }

    fn seal(&mut self, record_type: u8, plain: &[u8]) -> Vec<u8> {
        assert!((1..=16 << 10).contains(&plain.len()));
        let len = (plain.len() as u16).to_be_bytes();
        [&[record_type, self.key, len[0], len[1]], plain].concat()
    }
}

fn config(can_change_key: bool) -> Config {
    let mut config = Config::default();
    config.net.tcp.kernel_tls = Some(KernelTls::new(can_change_key, || Box::new(Readable { key: 0 })));
    config
}

/// Receives until the end of the stream.
async fn read_all(stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let more = stream.recv().await.unwrap();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&more);
    }
}

/// Parses records as (type, key, plaintext), with neighbours of the same type and key joined.
fn parse(bytes: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let mut records: Vec<(u8, u8, Vec<u8>)> = Vec::new();
    let mut rest = bytes;
    while let [record_type, key, hi, lo, after @ ..] = rest {
        let (plain, after) = after.split_at(usize::from(u16::from_be_bytes([*hi, *lo])));
        match records.last_mut() {
            Some(last) if (last.0, last.1) == (*record_type, *key) => last.2.extend_from_slice(plain),
            _ => records.push((*record_type, *key, plain.to_vec())),
        }
        rest = after;
    }
    records
}

async fn send_record(stream: &TcpStream, record_type: u8, payload: &[u8]) {
    while !stream.try_send_record(record_type, payload).unwrap() {
        stream.writable().await.unwrap();
    }
}

#[test]
fn what_is_sent_becomes_records_and_control_records_keep_their_place() {
    seeds(20, |seed| {
        let world = World::new(seed, config(true));
        let server = world.host("10.0.0.1");
        server.spawn(async {
            let stream = accept(&listen(443)).await;
            send(&stream, b"plain").await.unwrap();
            stream.set_tls_key(&[1]).unwrap();
            send(&stream, &[7; 100_000]).await.unwrap();
            send_record(&stream, 22, b"next key").await;
            stream.set_tls_key(&[2]).unwrap();
            send(&stream, b"under the next key").await.unwrap();
            send_record(&stream, 21, b"\x01\x00").await;
        });
        let client = world.host("10.0.0.2");
        let got = world.block_on(&client, async {
            let stream = connect("10.0.0.1:443").await.unwrap();
            let mut first = Vec::new();
            while first.len() < 5 {
                // Bytes may come split, and what follows may come along.
                first.extend_from_slice(&stream.recv().await.unwrap());
            }
            assert_eq!(first[..5], *b"plain");
            let rest = first.split_off(5);
            (rest, read_all(&stream).await)
        });
        let bytes = [got.0, got.1].concat();
        let expected: [(u8, u8, &[u8]); 4] = [
            (23, 1, &[7; 100_000]),
            (22, 1, b"next key"),
            (23, 2, b"under the next key"),
            (21, 2, b"\x01\x00"),
        ];
        let expected: Vec<_> = expected.map(|(kind, key, plain)| (kind, key, plain.to_vec())).into();
        assert!(parse(&bytes) == expected, "seed {seed}");
    });
}

#[test]
fn zero_copy_send_is_copied_where_the_host_makes_the_records() {
    let world = World::new(1, config(true));
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = accept(&listen(443)).await;
        let send = async |byte: u8| {
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            buf.append(&[byte; 10_000]);
            let (sent, lent) = stream.send_zero_copy(vec![buf], false).await;
            sent.unwrap();
            lent.buffers().await;
        };
        let counters = lane::current().counters().clone();
        send(1).await;
        assert_eq!(counters.zero_copy_refused.get(), 0);
        stream.set_tls_key(&[1]).unwrap();
        send(2).await;
        assert_eq!(counters.zero_copy_refused.get(), 1, "it was told so by the kernel, and went on");
    });
    let client = world.host("10.0.0.2");
    let got = world.block_on(&client, async {
        let stream = connect("10.0.0.1:443").await.unwrap();
        read_all(&stream).await
    });
    assert!(got[..10_000].iter().all(|&byte| byte == 1));
    assert!(parse(&got[10_000..]) == [(23, 1, vec![2; 10_000])]);
}

#[test]
fn control_message_of_several_buffers_names_their_record() {
    seeds(20, |seed| {
        let world = World::new(seed, config(true));
        let server = world.host("10.0.0.1");
        server.spawn(async {
            let stream = accept(&listen(443)).await;
            stream.set_tls_key(&[1]).unwrap();
            let mut bytes = [0; 64];
            let mut control = ControlWriter::new(&mut bytes);
            control.push(libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE, &[22]).unwrap();
            let length = control.len();
            for control in [&[][..], &bytes[..length], &[]] {
                let mut bufs = Vec::new();
                for part in [&b"several "[..], b"", b"buffers"] {
                    let mut buf = lane::current().buffers().get(BufClass::Small).await;
                    buf.append(part);
                    bufs.push(buf);
                }
                let (sent, back) = stream.send_message(bufs, control, false).await;
                sent.unwrap();
                assert_eq!(back.len(), 3);
            }
        });
        let client = world.host("10.0.0.2");
        let got = world.block_on(&client, async {
            let stream = connect("10.0.0.1:443").await.unwrap();
            read_all(&stream).await
        });
        let expected = [23, 22, 23].map(|kind| (kind, 1, b"several buffers".to_vec()));
        assert!(parse(&got) == expected, "seed {seed}");
    });
}

#[test]
fn old_kernel_refuses_a_second_key_and_goes_on_with_the_first() {
    let world = World::new(1, config(false));
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = accept(&listen(443)).await;
        assert!(matches!(stream.set_tls_key(b"two bytes"), Err(KtlsRefusal::NoCipher)));
        stream.set_tls_key(&[1]).unwrap();
        assert!(matches!(stream.set_tls_key(&[2]), Err(KtlsRefusal::KeyFixed)));
        send(&stream, b"still the first").await.unwrap();
    });
    let client = world.host("10.0.0.2");
    let got = world.block_on(&client, async {
        let stream = connect("10.0.0.1:443").await.unwrap();
        read_all(&stream).await
    });
    assert_eq!(parse(&got), [(23, 1, b"still the first".to_vec())]);
}

#[test]
fn host_without_the_module_refuses_and_sends_plainly() {
    let world = World::new(1, Config::default());
    let server = world.host("10.0.0.1");
    server.spawn(async {
        let stream = accept(&listen(443)).await;
        assert!(matches!(stream.set_tls_key(&[1]), Err(KtlsRefusal::NoModule)));
        send(&stream, b"as it is").await.unwrap();
        send_record(&stream, 21, b", TLS or not").await;
    });
    let client = world.host("10.0.0.2");
    let got = world.block_on(&client, async {
        let stream = connect("10.0.0.1:443").await.unwrap();
        read_all(&stream).await
    });
    assert_eq!(got, b"as it is, TLS or not");
}
