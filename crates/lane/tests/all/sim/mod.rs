//! Tests of the simulated backend, driven through the lane's own types. What holds on io_uring holds here,
//! faults strike as told, and a seed repeats a run to the last event.

mod crash;
mod disk;
mod faults;
mod fs;
mod handover;
mod ktls;
mod mesh;
mod offload;
mod operations;
mod parity;
mod supervise;
mod tcp;
mod udp;
mod world;

use std::net::SocketAddr;
use std::time::Duration;

use lane::backend::ListenOptions;
use lane::buffer::BufClass;
use lane::net::{TcpListener, TcpStream};
use lane::time;

/// Listens on every address of the calling lane's host.
fn listen(port: u16) -> TcpListener {
    TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port)), &ListenOptions::default()).unwrap()
}

async fn connect(to: &str) -> std::io::Result<TcpStream> {
    TcpStream::connect(to.parse().unwrap()).await
}

/// Accepts the next connection, however often the host is short of something.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        if let Ok(stream) = listener.accept().await {
            return stream;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sends all of `bytes`.
async fn send(stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    for chunk in bytes.chunks(BufClass::Small.bytes()) {
        let mut buf = lane::current().buffers().get(BufClass::Small).await;
        buf.append(chunk);
        stream.send(buf, false).await.0?;
    }
    Ok(())
}

/// Receives until the end of the stream.
async fn receive_all(stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let bytes = stream.recv().await?;
        if bytes.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&bytes);
    }
}

/// Sends back all received bytes until the end, for every connection to `port`.
async fn echo_server(port: u16) {
    let listener = listen(port);
    loop {
        let stream = accept(&listener).await;
        lane::spawn(async move {
            loop {
                let Ok(received) = stream.recv().await else { return };
                if received.is_empty() || send(&stream, &received).await.is_err() {
                    return;
                }
            }
        })
        .detach();
    }
}

/// Returns bytes by which their places can be told.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
