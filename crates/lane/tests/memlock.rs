//! Test of a lane for a user that may lock less memory than the lane's buffers have. It stands alone, as the
//! limit is the process's.

use std::net::SocketAddr;

use lane::backend::ListenOptions;
use lane::backend::uring::RingOptions;
use lane::buffer::{BufClass, BufferCounts};
use lane::net::{TcpListener, TcpStream};
use lane::runtime::{RuntimeOptions, run_here};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

#[test]
fn lane_that_may_lock_too_little_goes_on_without_registered_buffers() {
    let limit = Rlimit { current: Some(LOCKED), ..getrlimit(Resource::Memlock) };
    setrlimit(Resource::Memlock, limit).expect("anybody may have less");
    let mut able = capabilities(None).expect("every thread has some or none");
    able.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, able).expect("anybody may have less");
    let ring = RingOptions { register_buffers: true, ..RingOptions::default() };
    let buffers = BufferCounts { small: 16, large: 2 * LOCKED as usize / BufClass::Large.bytes() };
    run_here(RuntimeOptions { ring, buffers }, async {
        let counters = lane::current().counters().clone();
        assert_eq!(counters.buffers_unregistered.get(), 1);
        let listener =
            TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &ListenOptions::default()).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap();
        let mut buf = lane::current().buffers().get(BufClass::Large).await;
        assert_eq!(buf.append(&[7; 100_000]), 100_000);
        let receiving = lane::spawn(async move { server.recv_exact(Vec::new(), 200_000).await });
        let (sent, lent) = client.send_zero_copy(vec![buf], false).await;
        sent.unwrap();
        let buf = lent.buffers().await.pop().expect("one was sent");
        client.send(buf, false).await.0.unwrap();
        let (received, bytes) = receiving.await;
        received.unwrap();
        assert!(bytes == [7; 200_000]);
    })
    .unwrap();
}

/// Limit that users have by default, in bytes: enough for the ring itself.
const LOCKED: u64 = 8 << 20;
