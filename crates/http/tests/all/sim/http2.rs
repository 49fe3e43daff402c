//! HTTP/2 streams whose client does not take what it asked for: they hold next to nothing, and go on when it does.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::client::{self, SendRequest};
use http::limits::Limits;
use http::service::Role;
use http::settings::Auth;
use httptypes::Request;
use identity::Writable;
use lane::Task;
use lane::backend::sim::{Config, seeds};
use lane::net::TcpStream;
use lane::time::{Sleep, now, sleep, sleep_until};
use rustls::CipherSuite;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sim::client::Client;
use crate::sim::server::{ADDRESS, Pair, noise};
use crate::sim::tls_client::TlsClient;
use crate::sim::uploads::writable;

/// Fewer than elsewhere: each has a crowd of streams.
const SEEDS: u64 = 12;

/// Memory that the server reserves for a stream at most, with its texts, in bytes.
const STREAM_BYTES_MAX: u64 = 3 * 1024;

/// A TLS connection as h2 wants one.
struct Io {
    stream: Rc<TcpStream>,
    tls: Box<TlsClient>,
    plain: VecDeque<u8>,
    outgoing: Vec<u8>,
    writable: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
    /// Bytes per second that it takes, and the pause that this makes.
    rate: Option<u64>,
    pause: Option<Sleep>,
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.plain.is_empty() {
            if let Some(pause) = &mut self.pause {
                ready!(Pin::new(pause).poll(cx));
                self.pause = None;
            }
            let bytes = ready!(self.stream.poll_recv(cx))?;
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let pause = |rate| Duration::from_micros(bytes.len() as u64 * 1_000_000 / rate);
            self.pause = self.rate.map(|rate| sleep_until(now() + pause(rate)));
            let mut plain = Vec::new();
            self.tls.read(&bytes, &mut plain);
            self.plain.extend(plain);
        }
        let taken = self.plain.len().min(buf.remaining());
        let bytes: Vec<u8> = self.plain.drain(..taken).collect();
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.tls.write(bytes);
        let sealed = self.tls.output();
        self.outgoing.extend(sealed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            if let Some(writable) = &mut self.writable {
                ready!(writable.as_mut().poll(cx))?;
                self.writable = None;
            }
            match self.stream.try_send(&[IoSlice::new(&self.outgoing)], false)? {
                Some(sent) => drop(self.outgoing.drain(..sent)),
                None => {
                    let stream = Rc::clone(&self.stream);
                    self.writable = Some(Box::pin(async move { stream.writable().await }));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection with these windows, and the task that drives it.
async fn connect(stream_window: u32) -> (SendRequest<bytes::Bytes>, Task<()>) {
    connect_slow(stream_window, None).await
}

/// Connects a client that takes so many bytes per second at most.
async fn connect_slow(stream_window: u32, rate: Option<u64>) -> (SendRequest<bytes::Bytes>, Task<()>) {
    let tls = TlsClient::http2(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let (stream, tls) = Client::connect_tls(ADDRESS, tls).await.unwrap().into_tls();
    let io = Io {
        stream: Rc::new(stream),
        tls,
        plain: VecDeque::new(),
        outgoing: Vec::new(),
        writable: None,
        rate,
        pause: None,
    };
    let (send, connection) = client::Builder::new()
        .initial_window_size(stream_window)
        .initial_connection_window_size(1 << 30)
        .handshake(io)
        .await
        .unwrap();
    // What the server ends is seen by the streams.
    let driver = lane::spawn(async move { drop(connection.await) });
    (send, driver)
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("https://sim{path}")).body(()).unwrap()
}

#[test]
fn stream_without_a_window_holds_no_body_and_with_one_gets_all() {
    seeds(SEEDS, |seed| {
        let long = noise(seed, 300_000);
        let short = noise(seed + 1, 9_000);
        let files: Vec<(String, &[u8])> = (0..200).map(|n| (format!("some-file-{n}"), &b"x"[..])).collect();
        let mut files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&name[..], *bytes)).collect();
        files.push(("long", &long));
        files.push(("short", &short));
        let pair = Pair::tls(seed, Config::default(), Limits::default(), &files);
        let connections = pair.connections.clone();
        pair.run(async move {
            let (mut send, driver) = connect(0).await;
            let mut streams = Vec::new();
            for number in 0..90 {
                let path = ["/long", "/short", "/?sort=size"][number % 3];
                send = send.ready().await.unwrap();
                let (response, _) = send.send_request(get(path), true).unwrap();
                streams.push((path, response.await.unwrap().into_body()));
            }
            sleep(Duration::from_secs(1)).await;
            let held = connections.reply_memory_bytes.get();
            assert!(held <= 90 * STREAM_BYTES_MAX, "{held} bytes for 90 streams");
            drop(streams);
            drop((send, driver));

            let (mut send, driver) = connect(1000).await;
            for path in ["/long", "/short", "/"] {
                send = send.ready().await.unwrap();
                let (response, _) = send.send_request(get(path), true).unwrap();
                let mut body = response.await.unwrap().into_body();
                let mut whole = Vec::new();
                while let Some(part) = body.data().await {
                    let part = part.unwrap();
                    assert!(part.len() <= 1000);
                    body.flow_control().release_capacity(part.len()).unwrap();
                    whole.extend_from_slice(&part);
                }
                match path {
                    "/long" => assert!(whole == long),
                    "/short" => assert!(whole == short),
                    _ => assert!(whole.ends_with(b"</html>\n")),
                }
            }
            drop((send, driver));
            sleep(Duration::from_secs(5)).await;
        });
        assert_eq!(pair.connections.reply_memory_bytes.get(), 0, "all is given back");
        pair.end();
    });
}

#[test]
fn crowd_of_stalled_streams_keeps_the_lane_s_replies_small() {
    seeds(4, |seed| {
        let long = noise(seed, 1_000_000);
        let expected = long.clone();
        let pair = Pair::tls(seed, Config::default(), Limits::default(), &[("long", &long)]);
        let connections = pair.connections.clone();
        pair.run(async move {
            let mut crowd = Vec::new();
            for window in [0, 1, 100, 5000] {
                for _ in 0..3 {
                    let (mut send, driver) = connect(window).await;
                    let mut bodies = Vec::new();
                    for _ in 0..100 {
                        send = send.ready().await.unwrap();
                        let (response, _) = send.send_request(get("/long"), true).unwrap();
                        bodies.push(response.await.unwrap().into_body());
                    }
                    crowd.push((send, driver, bodies));
                }
            }
            sleep(Duration::from_secs(3)).await;
            let held = connections.reply_memory_bytes.get();
            assert!(held <= 1200 * STREAM_BYTES_MAX, "{held} bytes for 1,200 streams");
            let mut good =
                Client::connect_tls(ADDRESS, TlsClient::new(CipherSuite::TLS13_AES_128_GCM_SHA256))
                    .await
                    .unwrap();
            assert!(good.get("/long", "").await.unwrap().body == expected);
            drop((crowd, good));
            sleep(Duration::from_secs(5)).await;
        });
        assert_eq!(pair.connections.reply_memory_bytes.get(), 0);
        pair.end();
    });
}

#[test]
fn client_that_takes_little_is_served_and_one_that_takes_nothing_but_pings_is_not() {
    seeds(4, |seed| {
        let long = noise(seed, 4_000_000);
        let mut config = Config::default();
        config.net.tcp.send_buffer = 3_000_000;
        config.net.tcp.recv_buffer = 128 << 10;
        let pair = Pair::tls(seed, config, Limits::default(), &[("long", &long)]);
        let counters = pair.counters.clone();
        pair.run(async move {
            let (mut send, driver) = connect_slow((1 << 31) - 1, Some(30_000)).await;
            let (response, _) = send.send_request(get("/long"), true).unwrap();
            let mut body = response.await.unwrap().into_body();
            let mut whole = Vec::new();
            while let Some(part) = body.data().await {
                whole.extend_from_slice(&part.unwrap());
            }
            assert!(whole == long);
            drop((send, driver, body));

            let (mut send, mut pings) = connect_pinging().await;
            let (response, _) = send.send_request(get("/long"), true).unwrap();
            let mut body = response.await.unwrap().into_body();
            let begun = now();
            while counters.aborted_stalled.get() == 0 {
                // Answers to pings are taken, and are no bytes of a body.
                let _ = pings.ping(h2::Ping::opaque()).await;
                sleep(Duration::from_secs(1)).await;
                assert!(now().duration_since(begun) < Duration::from_secs(45));
            }
            assert!(now().duration_since(begun) > Duration::from_secs(29));
            assert!(body.data().await.is_none_or(|part| part.is_err()));
        });
        assert_eq!(pair.counters.aborted_stalled.get(), 1);
        pair.world.run_for(Duration::from_secs(5));
        pair.end();
    });
}

/// A connection whose streams have no window, and its pings.
async fn connect_pinging() -> (SendRequest<bytes::Bytes>, h2::PingPong) {
    let tls = TlsClient::http2(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let (stream, tls) = Client::connect_tls(ADDRESS, tls).await.unwrap().into_tls();
    let io = Io {
        stream: Rc::new(stream),
        tls,
        plain: VecDeque::new(),
        outgoing: Vec::new(),
        writable: None,
        rate: None,
        pause: None,
    };
    let (send, mut connection) =
        client::Builder::new().initial_window_size(0).handshake::<_, bytes::Bytes>(io).await.unwrap();
    let pings = connection.ping_pong().unwrap();
    lane::spawn(async move { drop(connection.await) }).detach();
    (send, pings)
}

/// One frame (RFC 9113 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn requests_taken_back_at_once_end_their_connection_and_leave_nothing() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const WHOLE: u8 = 5;
    seeds(SEEDS, |seed| {
        let long = noise(seed, 300_000);
        let expected = long.clone();
        let pair = Pair::tls(seed, Config::default(), Limits::default(), &[("long", &long)]);
        pair.run(async move {
            let tls = TlsClient::http2(CipherSuite::TLS13_AES_128_GCM_SHA256);
            let mut hostile = Client::connect_tls(ADDRESS, tls).await.unwrap();
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend(frame(SETTINGS, 0, 0, b""));
            for stream in (1..2000).step_by(2) {
                // GET, https, /long (RFC 7541 6.1, 6.2.2).
                bytes.extend(frame(HEADERS, WHOLE, stream, b"\x82\x87\x04\x05/long"));
                bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            }
            hostile.send_sealed(bytes).await.unwrap();
            let (_, came) = hostile.end().await;
            // The last that came is the farewell: ENHANCE_YOUR_CALM.
            assert!(came.ends_with(&[0, 0, 0, 0xb]), "{:02x?}", &came[came.len().saturating_sub(20)..]);

            let (mut send, driver) = connect(1 << 20).await;
            let (response, _) = send.send_request(get("/long"), true).unwrap();
            let mut body = response.await.unwrap().into_body();
            let mut whole = Vec::new();
            while let Some(part) = body.data().await {
                whole.extend_from_slice(&part.unwrap());
            }
            assert!(whole == expected);
            drop((send, driver, body));
            sleep(Duration::from_secs(5)).await;
        });
        assert_eq!(pair.connections.reply_memory_bytes.get(), 0, "all is given back");
        assert_eq!(pair.counters.closed_http2_flood.get(), 1);
        pair.end();
    });
}

#[test]
fn header_block_that_comes_slowly_ends_its_connection_and_one_that_ends_in_time_is_answered() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const CONTINUATION: u8 = 9;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    seeds(4, |seed| {
        let pair = Pair::tls(seed, Config::default(), Limits::default(), &[("file", b"content")]);
        let counters = pair.counters.clone();
        pair.run(async move {
            let connect = async || {
                let tls = TlsClient::http2(CipherSuite::TLS13_AES_128_GCM_SHA256);
                let mut client = Client::connect_tls(ADDRESS, tls).await.unwrap();
                let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
                bytes.extend(frame(SETTINGS, 0, 0, b""));
                bytes.extend(frame(HEADERS, END_STREAM, 1, b"\x82"));
                client.send_sealed(bytes).await.unwrap();
                client
            };
            let (mut hostile, mut slow) = (connect().await, connect().await);
            let begun = now();
            // GET, https, /file (RFC 7541 6.1, 6.2.2), a byte a second.
            for byte in b"\x87\x04\x05/file" {
                sleep(Duration::from_secs(1)).await;
                slow.send_sealed(frame(CONTINUATION, 0, 1, &[*byte])).await.unwrap();
                hostile.send_sealed(frame(CONTINUATION, 0, 1, &[0x87])).await.unwrap();
            }
            slow.send_sealed(frame(CONTINUATION, END_HEADERS, 1, b"")).await.unwrap();
            while counters.closed_header_timeout.get() == 0 {
                // It may be over already.
                let _ = hostile.send_sealed(frame(CONTINUATION, 0, 1, &[0x87])).await;
                sleep(Duration::from_secs(1)).await;
                assert!(now().duration_since(begun) < Duration::from_secs(18));
            }
            assert!(now().duration_since(begun) > Duration::from_secs(14));
            let (_, came) = hostile.end().await;
            // The farewell is ENHANCE_YOUR_CALM.
            assert!(came.ends_with(&[0, 0, 0, 0xb]), "{came:02x?}");
            sleep(Duration::from_secs(20)).await;
            assert_eq!((counters.closed_header_timeout.get(), counters.requests_http2.get()), (1, 1));
            drop(slow);
            sleep(Duration::from_secs(5)).await;
        });
        assert_eq!(pair.connections.reply_memory_bytes.get(), 0, "all is given back");
        pair.end();
    });
}

#[test]
fn uploads_of_one_connection_come_whole_as_fast_as_they_are_taken() {
    seeds(SEEDS, |seed| {
        let site = || writable(Writable::anyone(), Auth::WhenRequired);
        let config = if seed % 2 == 0 { Config::rough() } else { Config::default() };
        let pair = Pair::serving(seed, config, Limits::default(), &[("f3", b"old")], Role::Tls, site);
        let bodies: Vec<Vec<u8>> = (0..5).map(|n| noise(seed + n, 1 + n as usize * 90_001)).collect();
        let all = bodies.clone();
        pair.run(async move {
            let (mut send, driver) = connect(65_535).await;
            let mut uploads = Vec::new();
            for (n, body) in all.into_iter().enumerate() {
                send = send.ready().await.unwrap();
                let mut put = Request::put(format!("https://sim/f{n}")).body(()).unwrap();
                if n % 2 == 0 {
                    put.headers_mut().insert("content-length", body.len().into());
                }
                let (response, mut stream) = send.send_request(put, false).unwrap();
                uploads.push(lane::spawn(async move {
                    let mut rest = bytes::Bytes::from(body);
                    while !rest.is_empty() {
                        stream.reserve_capacity(rest.len());
                        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                        let part = rest.split_to(room.unwrap().unwrap().min(rest.len()));
                        stream.send_data(part, rest.is_empty()).unwrap();
                    }
                    response.await.unwrap().status().as_u16()
                }));
            }
            let mut statuses = Vec::new();
            for upload in uploads {
                statuses.push(upload.await);
            }
            assert_eq!(statuses, [201, 201, 201, 204, 201]);
            // One that is refused says so while its body is on its way.
            send = send.ready().await.unwrap();
            let put = Request::put("https://sim/absent/f").body(()).unwrap();
            let (response, mut stream) = send.send_request(put, false).unwrap();
            stream.send_data(bytes::Bytes::from(vec![0; 60_000]), false).unwrap();
            assert_eq!(response.await.unwrap().status().as_u16(), 409);
            // One that is taken back leaves nothing.
            send = send.ready().await.unwrap();
            let put = Request::put("https://sim/back").body(()).unwrap();
            let (response, mut stream) = send.send_request(put, false).unwrap();
            stream.send_data(bytes::Bytes::from(vec![0; 60_000]), false).unwrap();
            sleep(Duration::from_millis(300)).await;
            stream.send_reset(h2::Reason::CANCEL);
            drop((response, stream));
            sleep(Duration::from_secs(2)).await;
            drop((send, driver));
            sleep(Duration::from_secs(5)).await;
        });
        for (n, body) in bodies.iter().enumerate() {
            assert!(pair.server.fs().read(&format!("/srv/f{n}")).unwrap() == *body, "f{n}");
        }
        let names = pair.server.fs().tree().keys().filter(|path| path.starts_with("/srv/")).count();
        assert_eq!(names, 5);
        assert_eq!((pair.counters.uploads.get(), pair.counters.uploads_open.get()), (5, 0));
        assert_eq!(pair.connections.reply_memory_bytes.get(), 0, "all is given back");
        pair.end();
    });
}
