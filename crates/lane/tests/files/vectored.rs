//! Writes of what lies in several places: a stream's receive buffers, the lane's own, memory that somebody lends.

use std::net::SocketAddr;

use lane::backend::ListenOptions;
use lane::buffer::{Buf, BufClass};
use lane::net::{TcpListener, TcpStream};

use super::{create, everywhere, read};

#[test]
fn received_bytes_are_written_from_the_buffers_that_they_came_in() {
    everywhere(|_, root| async move {
        let file = create(&root, "file").await;
        let listener =
            TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &ListenOptions::default()).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap();
        let content: Vec<u8> = (0..400_000_u32).map(|n| (n / 11) as u8).collect();
        let sent = content.clone();
        let sender = lane::spawn(async move {
            for part in sent.chunks(100_000) {
                let mut buf = lane::current().buffers().get(BufClass::Large).await;
                buf.append(part);
                client.send(buf, false).await.0.unwrap();
            }
        });
        let mut written = 0;
        while written < content.len() {
            let mut bufs: Vec<Buf> = vec![];
            for _ in 0..3 {
                if bufs.iter().map(|buf| buf.len()).sum::<usize>() + written == content.len() {
                    break;
                }
                bufs.push(server.recv().await.unwrap().into());
            }
            let len: usize = bufs.iter().map(|buf| buf.len()).sum();
            let (result, bufs) = file.write_vectored_at(written as u64, bufs).await;
            result.unwrap();
            assert!(
                bufs.iter().map(|buf| &**buf).collect::<Vec<_>>().concat() == content[written..written + len]
            );
            written += len;
        }
        sender.await;
        assert!(read(&file).await == content);
    });
}
