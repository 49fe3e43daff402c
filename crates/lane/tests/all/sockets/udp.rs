//! Tests of bursts over loopback: datagrams sent in one call arrive as the same datagrams, joined or not.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lane::socket::udp::{Burst, Received, SendError, receive, send_many, send_segments};
use lane::socket::{gro, gso, options, pktinfo};

const SEGMENT: u16 = 1444;

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    options::set_receive_buffer(&socket, 4 << 20).unwrap();
    socket
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 / 7) as u8).collect()
}

fn burst<'a>(to: &UdpSocket, segment_bytes: u16, parts: &'a [IoSlice<'a>]) -> Burst<'a> {
    Burst { destination: to.local_addr().unwrap(), source: None, class: 0, segment_bytes, parts }
}

fn receive_soon(socket: &UdpSocket, buffer: &mut [u8]) -> Received {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match receive(socket.as_fd(), buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {}
            result => return result.unwrap(),
        }
    }
}

/// Receives every datagram of `length` payload bytes, however the kernel joins them.
fn receive_datagrams(socket: &UdpSocket, length: usize) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; gro::BYTES_MAX];
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    while datagrams.iter().map(Vec::len).sum::<usize>() < length {
        let received = receive_soon(socket, &mut buffer);
        assert!(!received.truncated);
        datagrams.extend(gro::datagrams(&buffer[..received.length], received.stride).map(<[u8]>::to_vec));
    }
    datagrams
}

#[test]
fn segmented_burst_arrives_as_its_datagrams() {
    assert!(gso::is_available().unwrap());
    let (sender, receiver) = (bound(), bound());
    let sent = payload(45 * 1444 - 100);
    let (head, tail) = sent.split_at(5000);
    let parts = [IoSlice::new(head), IoSlice::new(tail)];
    assert_eq!(send_segments(sender.as_fd(), &burst(&receiver, SEGMENT, &parts)).unwrap(), sent.len());
    let came = receive_datagrams(&receiver, sent.len());
    assert_eq!(came.len(), 45);
    assert!(came[..44].iter().all(|datagram| datagram.len() == 1444));
    assert_eq!(came.concat(), sent);
}

#[test]
fn joined_receive_tells_the_stride() {
    let (sender, receiver) = (bound(), bound());
    gro::enable(&receiver).unwrap();
    let sent = payload(20 * 1444 + 7);
    send_segments(sender.as_fd(), &burst(&receiver, SEGMENT, &[IoSlice::new(&sent)])).unwrap();
    let mut buffer = vec![0; gro::BYTES_MAX];
    let received = receive_soon(&receiver, &mut buffer);
    assert_eq!((received.length, received.stride), (sent.len(), Some(1444)), "loopback joins a whole burst");
    assert_eq!(received.from, sender.local_addr().unwrap());
    let datagrams: Vec<&[u8]> = gro::datagrams(&buffer[..received.length], received.stride).collect();
    assert_eq!((datagrams.len(), datagrams[20].len()), (21, 7));
    assert_eq!(buffer[..received.length], sent);
}

#[test]
fn burst_by_many_messages_arrives_the_same() {
    let (sender, receiver) = (bound(), bound());
    let sent = payload(10 * 1444 + 1);
    let parts: Vec<IoSlice<'_>> = sent.chunks(1000).map(IoSlice::new).collect();
    assert_eq!(send_many(sender.as_fd(), &burst(&receiver, SEGMENT, &parts)).unwrap(), 11);
    let came = receive_datagrams(&receiver, sent.len());
    assert_eq!(came.iter().map(Vec::len).collect::<Vec<_>>(), [vec![1444; 10], vec![1]].concat());
    assert_eq!(came.concat(), sent);
}

#[test]
fn most_datagrams_one_call_takes_are_taken_and_one_more_is_refused() {
    let (sender, receiver) = (bound(), bound());
    for segment in [512, 1000, 1444] {
        let most = gso::segments_per_call(segment);
        let sent = payload(most * segment);
        let parts = [IoSlice::new(&sent)];
        send_segments(sender.as_fd(), &burst(&receiver, segment as u16, &parts)).unwrap();
        assert_eq!(receive_datagrams(&receiver, sent.len()).len(), most);
        let more = payload(most * segment + 1);
        let refused =
            send_segments(sender.as_fd(), &burst(&receiver, segment as u16, &[IoSlice::new(&more)]));
        assert!(matches!(refused, Err(SendError::TooLarge { .. })), "{refused:?}");
    }
}

#[test]
fn answer_leaves_from_the_address_the_question_came_to() {
    let receiver = UdpSocket::bind("0.0.0.0:0").unwrap();
    pktinfo::enable(&receiver).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let client = bound();
    let second: IpAddr = Ipv4Addr::new(127, 0, 0, 9).into();
    client.send_to(b"?", (second, port)).unwrap();
    let mut buffer = [0; 64];
    let question = receive_soon(&receiver, &mut buffer);
    let info = question.info.unwrap();
    assert_eq!((info.local, info.ifindex), (second, nix::net::if_::if_nametoindex("lo").unwrap()));
    for send in [send_segments, send_many] {
        let parts = [IoSlice::new(b"!")];
        let answer = Burst {
            destination: question.from,
            source: Some(info.local),
            class: 0,
            segment_bytes: 100,
            parts: &parts,
        };
        send(receiver.as_fd(), &answer).unwrap();
        assert_eq!(receive_soon(&client, &mut buffer).from, (second, port).into());
    }
}

#[test]
fn receive_into_a_small_buffer_is_marked() {
    let (sender, receiver) = (bound(), bound());
    sender.send_to(&[1; 100], receiver.local_addr().unwrap()).unwrap();
    let received = receive_soon(&receiver, &mut [0; 10]);
    assert!(received.truncated);
    assert_eq!(received.length, 10);
}
