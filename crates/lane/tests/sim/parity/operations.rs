//! Operations: what they bring, and what becomes of them when nobody waits any more.

use std::ffi::CString;
use std::net::Shutdown;
use std::time::Duration;

use lane::buffer::{Buf, BufClass};
use lane::fs::{Dir, OpenHow, SyncOf};
use lane::net::TcpStream;
use lane::time;

use super::{Entry, errno, pair, receive, same_on_both, settle};

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
        let bytes = crate::pattern(3 << 20);
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
        let bytes = crate::pattern(1_500_000);
        let (client, server) = pair().await;
        let mut got = Vec::new();
        let mut sent = 0;
        for (round, piece) in [1, 5000, 70_000, 200_000, 300_000, 100, 400_000].into_iter().enumerate() {
            crate::send(&client, &bytes[sent..sent + piece]).await.unwrap();
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
        crate::send(&client, &[7; 1000]).await.unwrap();
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

/// Sends all, then ends the stream.
fn feed(stream: TcpStream, bytes: Vec<u8>) -> lane::Task<()> {
    lane::spawn(async move {
        crate::send(&stream, &bytes).await.unwrap();
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

/// Enough to tell two contents apart.
fn digest(bytes: &[u8]) -> (usize, u64) {
    (bytes.len(), bytes.iter().fold(0, |sum, &byte| sum * 31 % 1_000_003 + u64::from(byte)))
}
