//! Tests of operations on the kernel of this machine, in cases that worlds do not have.

use std::ffi::CString;
use std::net::SocketAddr;
use std::time::Duration;

use lane::backend::ListenOptions;
use lane::backend::uring::RingOptions;
use lane::buffer::{Buf, BufClass, BufferCounts};
use lane::fs::{Dir, OpenHow, SyncOf};
use lane::net::{TcpListener, TcpStream};
use lane::runtime::{RuntimeOptions, run_here};
use lane::time;

#[test]
fn registered_buffers_are_read_written_and_sent_from() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("file"), vec![b'f'; 100_000]).unwrap();
    let root = dir.path().to_owned();
    let registered = run(true, async move {
        let counters = lane::current().counters().clone();
        let root = Dir::open_root(&root).unwrap();
        let file = root.open(&CString::new("file").unwrap(), OpenHow::WRITE).await.unwrap();
        let (written, _) = file.write_at(50_000, filled(BufClass::Large, &[b'w'; 60_000]).await).await;
        written.unwrap();
        file.sync(SyncOf::Data).await.unwrap();
        // Out of the page cache, so that the ring reads it.
        rustix::fs::fadvise(
            std::fs::File::open(dir.path().join("file")).unwrap(),
            0,
            None,
            rustix::fs::Advice::DontNeed,
        )
        .unwrap();
        let buf = lane::current().buffers().get(BufClass::Large).await;
        let (read, buf) = file.read_at(0, 200_000, buf).await;
        assert_eq!(read.unwrap(), 110_000);
        assert!(buf[..50_000].iter().all(|&b| b == b'f') && buf[50_000..].iter().all(|&b| b == b'w'));
        let (client, server) = pair().await;
        let receiving = lane::spawn(async move { server.recv_exact(Vec::new(), 110_000).await });
        let (sent, lent) = client.send_zero_copy(vec![buf], false).await;
        sent.unwrap();
        let (received, bytes) = receiving.await;
        received.unwrap();
        let back = lent.buffers().await;
        assert!(bytes[..] == back[0][..]);
        if counters.zero_copy_refused.get() > 0 {
            testkit::skip(format_args!("the kernel has no zero-copy sends"));
        } else {
            assert_eq!(counters.zero_copy_sends.get(), 1);
            // On loopback the receiver's bytes are a copy, where the kernel says so at all (6.2).
            assert!(counters.zero_copy_copied.get() <= 1);
        }
        counters.buffers_unregistered.get() == 0
    });
    if !registered {
        testkit::skip(format_args!("RLIMIT_MEMLOCK does not allow registered buffers"));
    }
}

#[test]
fn a_zero_copy_send_is_over_before_its_buffers_are_back() {
    run(false, async {
        let (client, server) = pair().await;
        let mut bufs = Vec::new();
        for _ in 0..4 {
            bufs.push(filled(BufClass::Large, &[7; 200_000]).await);
        }
        let receiving = lane::spawn(async move { server.recv_exact(Vec::new(), 800_000).await });
        let (sent, lent) =
            time::timeout(Duration::from_secs(10), client.send_zero_copy(bufs, false)).await.unwrap();
        sent.unwrap();
        drop(lent);
        assert!(receiving.await.0.is_ok());
        while lane::current().buffers().usage(BufClass::Large).in_use > 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn an_eight_mebibyte_message_is_received_by_few_operations() {
    run(false, async {
        let (client, server) = pair().await;
        let sender = lane::spawn(async move {
            let mut left = 8 << 20;
            while left > 0 {
                let buf = filled(BufClass::Large, &[9; 256 << 10]).await;
                client.send(buf, false).await.0.unwrap();
                left -= 256 << 10;
            }
            client
        });
        let counters = lane::current().counters().clone();
        let before = counters.completions.get();
        let (received, bytes) = server.recv_exact(Vec::new(), 8 << 20).await;
        received.unwrap();
        assert!(bytes.len() == 8 << 20 && bytes.iter().all(|&byte| byte == 9));
        // 32 sends, and the receive with the waits between; buffers of the ring would be a thousand.
        let completions = counters.completions.get() - before;
        assert!(completions < 200, "{completions} completions");
        drop(sender.await);
    });
}

async fn filled(class: BufClass, bytes: &[u8]) -> Buf {
    let mut buf = lane::current().buffers().get(class).await;
    assert_eq!(buf.append(bytes), bytes.len());
    buf
}

async fn pair() -> (TcpStream, TcpStream) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap())
}

fn run<T: 'static>(register_buffers: bool, test: impl Future<Output = T> + 'static) -> T {
    let ring = RingOptions { register_buffers, ..RingOptions::default() };
    let buffers = BufferCounts { small: 16, large: 16 };
    run_here(RuntimeOptions { ring, buffers }, test).unwrap()
}
