//! Tests of writes of bytes in several places: a stream's receive buffers, the lane's own, memory that a
//! lender lends.

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

#[test]
fn what_is_longer_than_a_write_takes_is_written_whole_and_others_of_the_lane_have_their_turn_meanwhile() {
    everywhere(|place, root| async move {
        let file = create(&root, "file").await;
        let content: Vec<u8> = (0..3_000_001_u32).map(|n| (n / 13) as u8).collect();
        let parts = |sizes: &[usize]| {
            let mut rest = &content[..];
            let bufs: Vec<Buf> = sizes
                .iter()
                .map(|size| {
                    let (part, behind) = rest.split_at(*size);
                    rest = behind;
                    Buf::from(part.to_vec())
                })
                .collect();
            assert!(rest.is_empty());
            bufs
        };
        for sizes in [&[3_000_001][..], &[1 << 20, 1, 700_000, 3_000_001 - (1 << 20) - 700_001]] {
            let turns = std::rc::Rc::new(std::cell::Cell::new(0));
            let others = std::rc::Rc::clone(&turns);
            let other = lane::spawn(async move {
                loop {
                    others.set(others.get() + 1);
                    lane::yield_now().await;
                }
            });
            file.truncate(0).await.unwrap();
            let before = turns.get();
            let (result, bufs) = file.write_vectored_at(0, parts(sizes)).await;
            result.unwrap();
            assert!(turns.get() > before, "others wait behind {sizes:?} on {place:?}");
            drop(other);
            assert_eq!(bufs.iter().map(|buf| buf.len()).collect::<Vec<_>>(), sizes);
            assert!(read(&file).await == content);
        }
        let (result, _) = file.write_at(1, parts(&[3_000_001]).pop().unwrap()).await;
        result.unwrap();
        assert!(read(&file).await[1..] == content);
    });
}
