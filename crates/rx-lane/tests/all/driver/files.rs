//! Tests of packets to and from files by the ring, without a copy.

use std::ffi::CString;
use std::rc::Rc;
use std::time::Duration;

use lane::fs::{Dir, File, OpenHow, OpenKind};
use rx_lane::{AbortCode, Anonymous, CallError, ServerCall};

use super::{SERVICE, assert_books_balance, bind, config, pattern, run};

const EIO: AbortCode = AbortCode(5);

async fn open(dir: &Dir, name: &str) -> File {
    let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: true };
    dir.open(&CString::new(name).unwrap(), how).await.unwrap()
}

/// Serves a call like StoreData: received packets go to the file, one by one, by vectored writes.
async fn store(mut call: ServerCall, file: Rc<File>) -> Result<(), AbortCode> {
    let mut at = 0;
    loop {
        let held = call.read_held(300_000).await?;
        let len = held.len() as u64;
        if len == 0 {
            break;
        }
        let (written, bufs) = file.write_vectored_at(at, held.into_bufs()).await;
        written.map_err(|_| EIO)?;
        drop(bufs);
        at += len;
    }
    call.write(&at.to_be_bytes()).await?;
    Ok(call.finish().await?)
}

/// Serves a call like FetchData: a small head, and the file in the packets behind it by vectored reads.
async fn fetch(mut call: ServerCall, file: Rc<File>) -> Result<(), AbortCode> {
    call.read_to_end(0).await?;
    let len = file.stat().map_err(|_| EIO)?.size;
    call.write(&len.to_be_bytes()).await?;
    let mut at = 0;
    while at < len {
        let mut packet_buffers =
            call.packet_buffers(usize::try_from(len - at).expect("small").min(1 << 20)).await?;
        let (read, bufs) = file.read_vectored_at(at, packet_buffers.len(), packet_buffers.bufs()).await;
        assert!(packet_buffers.slices_mut().next().is_none(), "they are lent");
        drop(bufs);
        let read = read.map_err(|_| EIO)?;
        packet_buffers.commit(read)?;
        at += read as u64;
    }
    Ok(call.finish().await?)
}

#[test]
fn file_is_stored_from_packets_and_fetched_into_packets() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), b"").unwrap();
    let path = home.path().to_owned();
    run(async move {
        let dir = Dir::open_root(&path).unwrap();
        let file = Rc::new(open(&dir, "file").await);
        let (server, client) = (bind(config()), bind(config()));
        let (to, from) = (Rc::clone(&file), file);
        server.serve(SERVICE, move |call| store(call, Rc::clone(&to)));
        server.serve(SERVICE + 1, move |call| fetch(call, Rc::clone(&from)));
        let address = server.local_addr().unwrap();
        let bytes = pattern(5_000_003);
        let connection = client.connect(address, SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.write(&bytes).await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.read_to_end(8).await.unwrap(), bytes.len().to_be_bytes());
        assert!(std::fs::read(path.join("file")).unwrap() == bytes);
        let connection = client.connect(address, SERVICE + 1, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.finish().await.unwrap();
        let mut len = [0; 8];
        call.read_exact(&mut len).await.unwrap();
        assert_eq!(len, bytes.len().to_be_bytes());
        assert!(call.read_to_end(bytes.len()).await.unwrap() == bytes);
        drop(call);
        assert_books_balance(&server).await;
    });
}

/// Drops the handler while the ring has its packets, or its lent buffers are not back.
#[test]
fn buffers_that_an_abandoned_operation_has_in_hand_come_back() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), pattern(3_000_000)).unwrap();
    let path = home.path().to_owned();
    run(async move {
        let dir = Dir::open_root(&path).unwrap();
        let file = Rc::new(open(&dir, "file").await);
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, move |mut call: ServerCall| {
            let file = Rc::clone(&file);
            async move {
                let held = call.read_held(usize::MAX).await?;
                let mut packet_buffers = call.packet_buffers(100_000).await?;
                let (len, bufs) = (packet_buffers.len(), packet_buffers.bufs());
                let write = file.write_vectored_at(0, held.into_bufs());
                // Begun, and given up in the middle.
                let _ = lane::time::timeout(Duration::ZERO, write).await;
                let _ = lane::time::timeout(Duration::ZERO, file.read_vectored_at(0, len, bufs)).await;
                match packet_buffers.commit(len) {
                    Ok(()) | Err(CallError::Lent) => Err(EIO),
                    Err(error) => Err(error.into()),
                }
            }
        });
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        for _ in 0..20 {
            let mut call = connection.call().await.unwrap();
            call.write(&pattern(60_000)).await.unwrap();
            call.finish().await.unwrap();
            assert_eq!(call.read_to_end(1 << 20).await, Err(CallError::Aborted(EIO.0)));
        }
        assert_books_balance(&server).await;
        assert_books_balance(&client).await;
    });
}
