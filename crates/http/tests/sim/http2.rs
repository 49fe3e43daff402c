//! HTTP/2 streams whose client does not take what it asked for: they hold next to nothing, and go on when it does.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::client::{self, SendRequest};
use http::limits::Limits;
use httptypes::Request;
use lane::Task;
use lane::backend::sim::{Config, seeds};
use lane::net::TcpStream;
use lane::time::sleep;
use rustls::CipherSuite;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::Client;
use crate::server::{ADDRESS, Pair, noise};
use crate::tls_client::TlsClient;

/// Fewer than elsewhere: each has a crowd of streams.
const SEEDS: u64 = 12;

/// What the server reserves for a stream at most, with its texts, in bytes.
const STREAM_BYTES_MAX: u64 = 3 * 1024;

/// A TLS connection as h2 wants one.
struct Io {
    stream: Rc<TcpStream>,
    tls: Box<TlsClient>,
    plain: VecDeque<u8>,
    outgoing: Vec<u8>,
    writable: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.plain.is_empty() {
            let bytes = ready!(self.stream.poll_recv(cx))?;
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
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
    let tls = TlsClient::http2(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let (stream, tls) = Client::connect_tls(ADDRESS, tls).await.unwrap().into_tls();
    let io =
        Io { stream: Rc::new(stream), tls, plain: VecDeque::new(), outgoing: Vec::new(), writable: None };
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
        let counters = pair.counters.clone();
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
            let held = counters.reply_memory_bytes.get();
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
        assert_eq!(pair.counters.reply_memory_bytes.get(), 0, "all is given back");
        pair.end();
    });
}

#[test]
fn crowd_of_stalled_streams_keeps_the_lane_s_replies_small() {
    seeds(4, |seed| {
        let long = noise(seed, 1_000_000);
        let expected = long.clone();
        let pair = Pair::tls(seed, Config::default(), Limits::default(), &[("long", &long)]);
        let counters = pair.counters.clone();
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
            let held = counters.reply_memory_bytes.get();
            assert!(held <= 1200 * STREAM_BYTES_MAX, "{held} bytes for 1,200 streams");
            let mut good =
                Client::connect_tls(ADDRESS, TlsClient::new(CipherSuite::TLS13_AES_128_GCM_SHA256))
                    .await
                    .unwrap();
            assert!(good.get("/long", "").await.unwrap().body == expected);
            drop((crowd, good));
            sleep(Duration::from_secs(5)).await;
        });
        assert_eq!(pair.counters.reply_memory_bytes.get(), 0);
        pair.end();
    });
}
