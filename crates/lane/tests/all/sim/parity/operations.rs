//! Tests of operations: their results, and their ends when no task waits any more.

use std::ffi::CString;
use std::net::Shutdown;
use std::time::Duration;

use lane::backend::UdpOptions;
use lane::buffer::{Buf, BufClass};
use lane::fs::{Dir, OpenHow, SyncOf};
use lane::net::{TcpStream, UdpSocket};
use lane::socket::control::ControlWriter;
use lane::time;

use super::{Entry, LOOPBACK, errno, pair, receive, same_on_both, settle};

#[test]
fn writes_show_alike() {
    let tree = [Entry::File("file", "0123456789"), Entry::File("dir/x", ""), Entry::Link("link", "file")];
    same_on_both(&tree, |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let open = async |name: &str, how| root.open(&CString::new(name).unwrap(), how).await;
        let mut seen = Vec::new();
        for name in ["dir", "absent", "../srv/file"] {
            seen.push((errno(open(name, OpenHow::WRITE).await.map(drop)), Vec::new()));
        }
        let (reader, writer) =
            (open("file", OpenHow::FOLLOW).await.unwrap(), open("link", OpenHow::WRITE).await.unwrap());
        seen.push((errno(reader.write_at(0, filled(b"x").await).await.0), Vec::new()));
        seen.push((errno(reader.write_vectored_at(0, vec![filled(b"x").await]).await.0), Vec::new()));
        seen.push((errno(reader.sync(SyncOf::All).await), Vec::new()));
        let content = async || {
            let bufs = vec![filled(b"<").await, filled(b"").await];
            let (read, bufs) = reader.read_vectored_at(2, 100_000, bufs).await;
            (
                Ok(()),
                format!("{read:?} {:?}", bufs.iter().map(|buf| digest(buf)).collect::<Vec<_>>()).into_bytes(),
            )
        };
        for (offset, bytes) in [(3, &b"abc"[..]), (10, b"tail"), (40, b"behind a hole"), (0, b"")] {
            let (written, back) = writer.write_at(offset, filled(bytes).await).await;
            seen.push((errno(written), back.to_vec()));
            seen.push(content().await);
        }
        let parts = vec![
            filled(b"one ").await,
            filled(b"").await,
            filled(&[b'2'; 32_768]).await,
            filled(b" three").await,
        ];
        let (written, back) = writer.write_vectored_at(7, parts).await;
        seen.push((
            errno(written),
            back.iter().map(|buf| buf.len().to_string()).collect::<String>().into_bytes(),
        ));
        seen.push(content().await);
        seen.push((errno(writer.sync(SyncOf::Data).await), Vec::new()));
        seen.push((
            errno(writer.sync(SyncOf::All).await),
            writer.stat().unwrap().size.to_string().into_bytes(),
        ));
        seen
    });
}

#[test]
fn long_messages_are_received_into_a_callers_buffer_alike() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        let bytes = crate::sim::pattern(3 << 20);
        let (client, server) = pair().await;
        let sender = feed(client, bytes.clone());
        // What the stream has received already comes first, and what is behind the message stays.
        let head = server.recv().await.unwrap().to_vec();
        settle().await;
        for len in [100, 1 << 20, 40_000, 0, 1 << 20] {
            let (result, buffer) = server.recv_exact(b"before".to_vec(), len).await;
            seen.push((errno(result), buffer.len()));
            let start = (seen.iter().map(|(_, len)| len - 6).sum::<usize>() + head.len()) - len;
            assert!(buffer[..6] == *b"before" && buffer[6..] == bytes[start..start + len]);
        }
        let taken = head.len() + seen.iter().map(|(_, len)| len - 6).sum::<usize>();
        let (result, rest) = server.recv_exact(Vec::new(), 3 << 20).await;
        assert!(rest == bytes[taken..]);
        seen.push((errno(result), taken + rest.len()));
        seen.push((errno(server.recv_exact(Vec::new(), 1 << 20).await.0), 0));
        seen.push((receive(&server).await.map(drop), 0));
        drop(server);
        sender.await;
        seen
    });
}

#[test]
fn a_receive_that_is_given_up_loses_no_byte_alike() {
    same_on_both(&[], |_, _| async {
        let bytes = crate::sim::pattern(1_500_000);
        let (client, server) = pair().await;
        let mut got = Vec::new();
        let mut sent = 0;
        for (round, piece) in [1, 5000, 70_000, 200_000, 300_000, 100, 400_000].into_iter().enumerate() {
            crate::sim::send(&client, &bytes[sent..sent + piece]).await.unwrap();
            sent += piece;
            settle().await;
            // More than there is: it waits with what has come in its hands.
            let wait = Duration::from_millis(5 * round as u64);
            assert!(time::timeout(wait, server.recv_exact(vec![1; 9], sent)).await.is_err());
            if round % 2 == 0 {
                got.extend(receive(&server).await.unwrap());
            }
        }
        let left = sent - got.len();
        let (result, rest) = server.recv_exact(got, left).await;
        assert!(rest == bytes[..sent], "{sent} bytes in their order");
        client.shutdown(Shutdown::Write).unwrap();
        vec![(errno(result), rest.len()), (receive(&server).await.map(drop), 0)]
    });
}

#[test]
fn a_receive_that_meets_a_reset_says_so_alike() {
    same_on_both(&[], |_, _| async {
        let (client, server) = pair().await;
        crate::sim::send(&client, &[7; 1000]).await.unwrap();
        let receiving = lane::spawn(async move {
            let (result, buffer) = server.recv_exact(Vec::new(), 100_000).await;
            // What fails it is the reset, or the end that one behind some bytes seems to be.
            (result.map_err(|_| None), buffer.len())
        });
        settle().await;
        client.reset();
        let with_bytes = receiving.await;
        let (client, server) = pair().await;
        let receiving = lane::spawn(async move { errno(server.recv_exact(Vec::new(), 100_000).await.0) });
        settle().await;
        client.reset();
        vec![with_bytes, (receiving.await, 0)]
    });
}

#[test]
fn messages_of_several_buffers_go_alike() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        let bytes = crate::sim::pattern(300_000);
        let (client, server) = pair().await;
        let receiving = lane::spawn(async move { server.recv_exact(Vec::new(), 600_000).await });
        for zero_copy in [false, true] {
            let mut bufs = Vec::new();
            for chunk in bytes.chunks(30_000) {
                bufs.push(filled(chunk).await);
                bufs.push(filled(b"").await);
            }
            let (result, bufs) = match zero_copy {
                false => client.send_message(bufs, &[], false).await,
                true => {
                    let (result, lent) = client.send_zero_copy(bufs, false).await;
                    (result, lent.buffers().await)
                }
            };
            assert!(bufs.iter().flat_map(|buf| buf.iter()).eq(&bytes), "they come back as they were");
            seen.push((errno(result), bufs.len()));
        }
        let (result, received) = receiving.await;
        assert!(received[..300_000] == bytes && received[300_000..] == bytes);
        seen.push((errno(result), received.len()));
        // To a peer that is gone.
        let (client, server) = pair().await;
        server.reset();
        settle().await;
        let (result, bufs) = client.send_message(vec![filled(b"for nobody").await], &[], false).await;
        seen.push((errno(result), bufs.len()));
        let (result, lent) = client.send_zero_copy(vec![filled(b"for nobody").await], false).await;
        seen.push((errno(result), lent.buffers().await.len()));
        seen
    });
}

#[test]
fn control_messages_of_streams_are_taken_or_refused_alike() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        let (client, server) = pair().await;
        // TLS's, which only a stream with kernel TLS heeds, and one that no socket knows.
        for (level, kind) in [(libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE), (libc::SOL_SOCKET, 9999)] {
            let mut bytes = [0; 64];
            let mut control = ControlWriter::new(&mut bytes);
            control.push(level, kind, &[22]).unwrap();
            let length = control.len();
            let bufs = vec![filled(b"two ").await, filled(b"parts").await];
            let (result, bufs) = client.send_message(bufs, &bytes[..length], false).await;
            seen.push((errno(result), bufs.len()));
        }
        let (result, received) = server.recv_exact(Vec::new(), 9).await;
        assert_eq!(received, b"two parts");
        seen.push((errno(result), received.len()));
        let more = time::timeout(Duration::from_millis(20), server.recv()).await;
        assert!(more.is_err(), "what was refused is not sent");
        seen
    });
}

#[test]
fn zero_copy_sends_keep_their_buffers_until_the_kernel_has_let_go_of_them_alike() {
    same_on_both(&[], |_, _| async {
        let in_use = || lane::current().buffers().usage(BufClass::Small).in_use;
        let (client, server) = pair().await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut bufs = Vec::new();
            for _ in 0..4 {
                bufs.push(filled(&[7; 30_000]).await);
            }
            // Given up at once: what was sent of them is not known. Their memory waits for the kernel.
            drop(time::timeout(Duration::ZERO, client.send_zero_copy(bufs, false)).await);
            seen.push(in_use() <= 4 * 3);
        }
        drop((client, server));
        let given_up = time::timeout(Duration::from_secs(5), async {
            while in_use() > 0 {
                settle().await;
            }
        });
        seen.push(given_up.await.is_ok());
        seen
    });
}

#[test]
fn datagrams_are_sent_as_messages_alike() {
    same_on_both(&[], |_, _| async {
        let bind = || UdpSocket::bind(LOOPBACK, &UdpOptions::default()).unwrap();
        let (sender, receiver) = (bind(), bind());
        let to = receiver.local_addr().unwrap();
        let mut seen = Vec::new();
        for (len, segment, source) in [
            (1000, None, None),
            (3000, Some(1000), None),
            (2500, Some(1000), Some(LOOPBACK.ip())),
            (0, None, None),
        ] {
            let bytes = crate::sim::pattern(len);
            let (first, second) = bytes.split_at(len / 3);
            let bufs = vec![filled(first).await, filled(second).await];
            let (sent, bufs) = sender.send_message(to, source, segment, bufs).await;
            let (mut received, mut lengths) = (Vec::new(), Vec::new());
            while received.len() < len || lengths.is_empty() {
                let mut datagrams = Vec::new();
                receiver.recv(&mut datagrams, 16).await.unwrap();
                for datagram in &datagrams {
                    received.extend_from_slice(&datagram.buf);
                    lengths.push(datagram.segments().map(<[u8]>::len).collect::<Vec<_>>());
                }
            }
            assert!(received == bytes);
            seen.push((errno(sent), bufs.len(), lengths.concat()));
        }
        let long = vec![filled(&[1; 32_768]).await, filled(&[1; 32_768]).await];
        let (sent, bufs) = sender.send_message(to, None, None, long).await;
        seen.push((errno(sent), bufs.len(), Vec::new()));
        let (sent, bufs) = sender.send_message(to, None, Some(10), vec![filled(&[1; 10_000]).await]).await;
        seen.push((errno(sent), bufs.len(), Vec::new()));
        seen
    });
}

#[test]
fn files_are_spliced_to_streams_alike() {
    let content: &'static str = String::from_utf8(vec![b'x'; 1_000_000]).unwrap().leak();
    same_on_both(&[Entry::File("file", content)], move |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let file = root.open(&CString::new("file").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let (client, server) = pair().await;
        let receiving = lane::spawn(async move { crate::sim::receive_all(&server).await.unwrap().len() });
        let mut seen = Vec::new();
        for (offset, len) in [(0, 1_000_000), (999_990, 20), (5, 0), (2_000_000, 1)] {
            seen.push(format!("{:?}", client.splice_file(&file, offset, len).await));
        }
        client.shutdown(Shutdown::Write).unwrap();
        seen.push(receiving.await.to_string());
        let counters = lane::current().counters().clone();
        seen.push(format!("closed {}", counters.pipes_closed.get()));
        // Given up while the peer takes nothing: bytes are left in the pipe, which is not used again.
        let (client, server) = pair().await;
        assert!(time::timeout(Duration::from_millis(300), splice_for_ever(&client, &file)).await.is_err());
        drop((client, server));
        settle().await;
        seen.push(format!("closed {}", counters.pipes_closed.get()));
        let (client, server) = pair().await;
        let receiving = lane::spawn(async move { crate::sim::receive_all(&server).await.unwrap().len() });
        seen.push(format!("{:?}", client.splice_file(&file, 0, 10).await));
        drop(client);
        seen.push(receiving.await.to_string());
        seen
    });
}

async fn splice_for_ever(stream: &TcpStream, file: &lane::fs::File) {
    loop {
        stream.splice_file(file, 0, 1_000_000).await.unwrap();
    }
}

/// Sends all bytes, then ends the stream.
fn feed(stream: TcpStream, bytes: Vec<u8>) -> lane::Task<()> {
    lane::spawn(async move {
        crate::sim::send(&stream, &bytes).await.unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Until the peer has taken all.
        let _ = stream.recv().await;
    })
}

async fn filled(bytes: &[u8]) -> Buf {
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(bytes), bytes.len());
    buf
}

/// Returns enough to tell two contents apart: the length and a sum.
fn digest(bytes: &[u8]) -> (usize, u64) {
    (bytes.len(), bytes.iter().fold(0, |sum, &byte| sum * 31 % 1_000_003 + u64::from(byte)))
}
