//! Tests of streams, listeners and the addresses that they take.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use lane::backend::sim::{Config, ReceiveConfig};
use lane::backend::uring::RingOptions;
use lane::backend::{ListenOptions, UdpOptions};
use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::runtime::RuntimeOptions;
use lane::time;

use super::{LOOPBACK, errno, pair, receive, same_on_both, same_on_both_with, settle};

#[test]
fn streams_end_alike() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        // A half-closed stream still gives the other way.
        let (client, server) = pair().await;
        client.shutdown(Shutdown::Write).unwrap();
        seen.push(("half-closed", receive(&server).await));
        crate::sim::send(&server, b"still here").await.unwrap();
        let mut other_way = Vec::new();
        while other_way.len() < 10 {
            other_way.extend(receive(&client).await.unwrap());
        }
        seen.push(("other way", Ok(other_way)));
        let refused = errno(client.try_send(&[IoSlice::new(b"x")], false));
        seen.push(("send after shutdown", refused.map(|_| Vec::new())));
        // Closed with bytes untaken.
        let (client, server) = pair().await;
        client.try_send(&[IoSlice::new(b"never taken")], false).unwrap();
        settle().await;
        drop(server);
        seen.push(("untaken", receive(&client).await));
        seen.push(("after the reset", receive(&client).await));
        let broken = errno(client.try_send(&[IoSlice::new(b"x")], false));
        seen.push(("send after the reset", broken.map(|_| Vec::new())));
        // Bytes before a reset can still be taken.
        let (client, server) = pair().await;
        server.try_send(&[IoSlice::new(b"before")], false).unwrap();
        settle().await;
        server.reset();
        settle().await;
        let broken = errno(client.try_send(&[IoSlice::new(b"x")], false));
        seen.push(("send learns of the reset first", broken.map(|_| Vec::new())));
        // Sending to a stream closed in good order: the first takes, the next learns.
        let (client, server) = pair().await;
        drop(server);
        settle().await;
        seen.push(("end", receive(&client).await));
        seen.push(("first", errno(client.try_send(&[IoSlice::new(b"x")], false)).map(|_| Vec::new())));
        settle().await;
        seen.push(("second", errno(client.try_send(&[IoSlice::new(b"x")], false)).map(|_| Vec::new())));
        // No more reading.
        let (client, server) = pair().await;
        client.shutdown(Shutdown::Read).unwrap();
        seen.push(("shut for reading", receive(&client).await));
        drop(server);
        seen
    });
}

#[test]
fn a_ring_of_few_buffers_serves_whoever_listens_alike() {
    let (buffers, buffer_bytes) = (16, 1024);
    let ring = RingOptions { stream_buffers: 16, stream_buffer_bytes: 1024, ..RingOptions::default() };
    let mut config = Config::default();
    config.net.receive = ReceiveConfig { buffers, buffer_bytes, ..ReceiveConfig::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    same_on_both_with(&options, &config, &[], move |_, _| async move {
        let counters = lane::current().counters().clone();
        let mut seen = Vec::new();
        let mut unheard = Vec::new();
        for _ in 0..60 {
            let (client, server) = pair().await;
            client.try_send(&[IoSlice::new(b"!")], false).unwrap();
            assert_eq!(receive(&server).await.unwrap(), b"!");
            unheard.push((client, server, Vec::new()));
        }
        let (client, server) = pair().await;
        // Single bytes from many that no task listens to, then more than all may hold.
        for piece in [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3000, 3000, 20_000] {
            for (client, _, sent) in &mut unheard {
                let bytes = crate::sim::pattern(sent.len() + piece).split_off(sent.len());
                crate::sim::send(client, &bytes).await.unwrap();
                sent.extend(bytes);
            }
            settle().await;
            client.try_send(&[IoSlice::new(b"?")], false).unwrap();
            let served = time::timeout(Duration::from_millis(500), receive(&server)).await;
            seen.push((format!("beside {piece}"), served.ok()));
        }
        let held = counters.recv_held_bytes.get() as usize;
        // Half of the budget of four rings, an eighth more for each round of disarming, and what one is late.
        seen.push((format!("bounded: {}", held <= 5 * buffers * buffer_bytes), None));
        // A receive without a waiting task ends where it finds no buffer, too.
        let starved = counters.recv_starved.get();
        let stopped = counters.recv_disarmed.get() + counters.recv_paused.get() + starved;
        seen.push((format!("stopped: {}", stopped >= 60), None));
        seen.push((format!("few starved: {}", starved <= 60 * 4), None));
        for (_, server, sent) in &unheard {
            let mut heard = Vec::new();
            while heard.len() < sent.len() {
                heard.extend(receive(server).await.unwrap());
            }
            assert!(heard == *sent);
        }
        seen
    });
}

#[test]
fn addresses_are_taken_and_shared_alike() {
    same_on_both(&[], |_, _| async {
        let alone = ListenOptions::default();
        let shared = ListenOptions { reuse_port: true, ..alone.clone() };
        let first = TcpListener::bind(LOOPBACK, &alone).unwrap();
        let addr = first.local_addr().unwrap();
        let wildcard = SocketAddr::from(([0, 0, 0, 0], addr.port()));
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        let mut seen = Vec::new();
        for (addr, options) in
            [(addr, &alone), (addr, &shared), (wildcard, &alone), (wildcard, &shared), (foreign, &alone)]
        {
            seen.push(errno(TcpListener::bind(addr, options).map(drop)));
        }
        drop(first);
        settle().await;
        let members = [TcpListener::bind(addr, &shared), TcpListener::bind(addr, &shared)];
        seen.extend(members.iter().map(|member| member.as_ref().map(drop).map_err(io::Error::raw_os_error)));
        seen.push(errno(TcpListener::bind(addr, &alone).map(drop)));
        drop(members);
        settle().await;
        seen.push(errno(TcpStream::connect(addr).await.map(drop)));
        let udp = UdpSocket::bind(addr, &UdpOptions::default());
        seen.push(errno(udp.map(drop)));
        let listener = TcpListener::bind(LOOPBACK, &alone).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(client.local_addr().unwrap(), server.peer_addr());
        assert_eq!(server.local_addr().unwrap(), client.peer_addr());
        seen
    });
}

#[test]
fn streams_that_were_received_from_alone_are_given_away_alike() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        let (client, server) = pair().await;
        crate::sim::send(&client, b"headrest").await.unwrap();
        let (result, head) = server.recv_alone(Vec::new(), 4).await;
        seen.push(("head", errno(result).map(|()| head)));
        let peer = server.peer_addr();
        let given = server.release().map_err(|_| None);
        let server = given.map(|given| TcpStream::adopt(given, peer).unwrap());
        seen.push(("given", server.as_ref().map(|_| Vec::new()).map_err(|errno| *errno)));
        let Ok(server) = server else { return seen };
        let (result, rest) = server.recv_alone(Vec::new(), 4).await;
        seen.push(("rest", errno(result).map(|()| rest)));
        drop(client);
        let (result, none) = server.recv_alone(Vec::new(), 1).await;
        seen.push(("end", errno(result).map(|()| none)));
        seen
    });
}
