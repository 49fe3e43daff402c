//! Tests of datagrams: the same on both backends.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use lane::backend::sim::{Config, ReceiveConfig};
use lane::backend::uring::RingOptions;
use lane::backend::{DatagramBatch, UdpOptions};
use lane::net::UdpSocket;
use lane::runtime::RuntimeOptions;
use lane::time;

use super::{LOOPBACK, same_on_both, same_on_both_with, settle};

#[test]
fn bursts_of_datagrams_go_alike() {
    same_on_both(&[], |_, _| async {
        let receiver = UdpSocket::bind(LOOPBACK, &UdpOptions::default()).unwrap();
        let sender = UdpSocket::bind(LOOPBACK, &UdpOptions::default()).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut seen = Vec::new();
        for (total, segment) in
            [(10_000, 1000), (10_001, 1000), (999, 1000), (0, 1000), (10_000, 100), (10, 0)]
        {
            let bytes = vec![7; total];
            let parts = [IoSlice::new(&bytes)];
            let batch = DatagramBatch::new(to, segment, &parts);
            let sent = loop {
                match sender.try_send(&batch) {
                    Ok(None) => sender.writable().await.unwrap(),
                    Ok(Some(n)) => break Ok(n),
                    Err(error) => break Err(error.kind()),
                }
            };
            let mut lengths = Vec::new();
            while let Ok(n) = sent
                && (lengths.is_empty() || lengths.iter().sum::<usize>() < n)
            {
                let mut received = Vec::new();
                receiver.recv(&mut received, 16).await.unwrap();
                for datagram in &received {
                    assert_eq!(datagram.from, sender.local_addr().unwrap());
                    assert_eq!(datagram.local, Some(to.ip()));
                    match datagram.buf.len() {
                        0 => lengths.push(0),
                        _ => lengths.extend(datagram.segments().map(<[u8]>::len)),
                    }
                }
            }
            seen.push((sent, lengths));
        }
        seen
    });
}

#[test]
fn traffic_class_arrives_where_it_is_asked_for_and_joins_no_other() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        for traffic_class in [true, false] {
            let options = UdpOptions { traffic_class, ..UdpOptions::default() };
            let receiver = UdpSocket::bind(LOOPBACK, &options).unwrap();
            let sender = UdpSocket::bind(LOOPBACK, &UdpOptions::default()).unwrap();
            let to = receiver.local_addr().unwrap();
            let bytes = [7; 1000];
            let parts = [IoSlice::new(&bytes)];
            for class in [184, 32, 0] {
                let batch = DatagramBatch { class, ..DatagramBatch::new(to, 100, &parts) };
                while sender.try_send(&batch).unwrap().is_none() {
                    sender.writable().await.unwrap();
                }
            }
            let mut classes = Vec::new();
            while classes.len() < 30 {
                let mut received = Vec::new();
                receiver.recv(&mut received, 16).await.unwrap();
                classes
                    .extend(received.iter().flat_map(|datagram| datagram.segments().map(|_| datagram.class)));
            }
            seen.push(classes);
        }
        seen
    });
}

#[test]
fn datagrams_that_somebody_keeps_are_missed_by_nobody_on_either_side() {
    let ring = RingOptions { datagram_buffers: 16, ..RingOptions::default() };
    let mut config = Config::default();
    config.net.receive = ReceiveConfig { datagram_buffers: 16, ..ReceiveConfig::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    same_on_both_with(&options, &config, &[], |_, _| async {
        let bind = || UdpSocket::bind(LOOPBACK, &UdpOptions { gro: false, ..UdpOptions::default() }).unwrap();
        let (sender, keeper, other) = (bind(), bind(), bind());
        let send = async |to: &UdpSocket, byte: u8| {
            let payload = [byte];
            let parts = [IoSlice::new(&payload)];
            let to = to.local_addr().unwrap();
            let batch = DatagramBatch::new(to, 1, &parts);
            while sender.try_send(&batch).unwrap().is_none() {
                sender.writable().await.unwrap();
            }
        };
        let (mut kept, mut seen) = (Vec::new(), Vec::new());
        for round in 0..40 {
            send(&keeper, round).await;
            keeper.recv(&mut kept, 1).await.unwrap();
            send(&other, round).await;
            let mut received = Vec::new();
            let served = time::timeout(Duration::from_millis(500), other.recv(&mut received, 4)).await;
            assert!(served.is_ok(), "round {round}");
            seen.push(received.iter().map(|datagram| datagram.buf.to_vec()).collect());
        }
        // Twelve are lent; what came beyond was copied: the rest of the keeper's and what the other got then.
        let counters = lane::current().counters().clone();
        seen.push(vec![format!("copied {}", counters.recv_copied.get()).into_bytes()]);
        seen.push(vec![format!("starved {}", counters.recv_starved.get()).into_bytes()]);
        seen.push(kept.iter().map(|datagram| datagram.buf.to_vec()).collect::<Vec<Vec<u8>>>());
        seen
    });
}

#[test]
fn datagrams_for_a_closed_port_are_reported_alike_and_fail_no_others() {
    same_on_both(&[], |_, _| async {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (sender, receiver, closed) = (bind(), bind(), bind());
        let nobody = closed.local_addr().unwrap();
        drop(closed);
        settle().await;
        let send = async |to: SocketAddr, payload: &[u8]| {
            let parts = [IoSlice::new(payload)];
            let batch = DatagramBatch::new(to, 100, &parts);
            while sender.try_send(&batch).unwrap().is_none() {
                sender.writable().await.unwrap();
            }
        };
        let mut seen = Vec::new();
        let mut received = Vec::new();
        // No reports were asked for yet.
        send(nobody, b"lost").await;
        let silent = time::timeout(Duration::from_millis(50), sender.recv(&mut received, 16)).await.is_err();
        seen.push((silent, sender.try_take_unreachable().map(|report| (report.quoted, report.port_closed))));
        sender.report_unreachable().unwrap();
        for payload in [&[1; 300][..], &[2; 30]] {
            send(nobody, payload).await;
            // Meets the report of the one before, or not.
            send(receiver.local_addr().unwrap(), payload).await;
            let told = time::timeout(Duration::from_secs(5), sender.recv(&mut received, 16)).await.unwrap();
            let report = sender.try_take_unreachable().unwrap();
            assert_eq!(report.peer, nobody);
            seen.push((told.is_err(), Some((report.quoted, report.port_closed))));
            while sender.try_take_unreachable().is_some() {}
            let mut bytes = 0;
            while bytes < payload.len() {
                receiver.recv(&mut received, 16).await.unwrap();
                bytes += received.drain(..).map(|datagram| datagram.buf.len()).sum::<usize>();
            }
            assert_eq!(bytes, payload.len());
        }
        // The receive begins again after it.
        let parts = [IoSlice::new(b"answer")];
        let to = sender.local_addr().unwrap();
        let batch = DatagramBatch::new(to, 100, &parts);
        while receiver.try_send(&batch).unwrap().is_none() {
            receiver.writable().await.unwrap();
        }
        while received.is_empty() {
            // Reports of the datagrams after the first may come late.
            let _ = sender.recv(&mut received, 16).await;
        }
        seen.push((false, Some((received[0].buf.to_vec(), false))));
        seen
    });
}
