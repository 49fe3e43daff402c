//! A client of HTTP/2 (RFC 9113) that sends what frames it likes and reads only what it is told to.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tls::{Alpn, ClientTrust, Versions, client_config};

use crate::hostile::net::connect_from;
use crate::hostile::server::HTTPS;

/// A connection whose streams may not send a byte of any body: their window is 0.
pub(super) struct Http2 {
    stream: StreamOwned<ClientConnection, TcpStream>,
    next_stream: u32,
    frames: Vec<u8>,
}

impl Http2 {
    pub(super) fn connect(from: Ipv4Addr) -> anyhow::Result<Self> {
        let tls = ClientConnection::new(config(Alpn::H2)?, ServerName::from(HTTPS.ip()))?;
        let tcp = connect_from(from, HTTPS)?;
        tcp.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        let mut client = Self { stream: StreamOwned::new(tls, tcp), next_stream: 1, frames: Vec::new() };
        client.frames.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // SETTINGS_INITIAL_WINDOW_SIZE = 0 (RFC 9113 6.5.2).
        client.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        client.flush()?;
        client.stream.sock.set_read_timeout(Some(Duration::from_millis(1)))?;
        Ok(client)
    }

    /// Puts down a GET; gives its stream.
    pub(super) fn get(&mut self, path: &str) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        // :method GET and :scheme https by index, :path and :authority literally (RFC 7541 6.1, 6.2.2, A).
        let mut block = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).expect("short paths")];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(&[0x01, 1, b'a']);
        self.frame(HEADERS, END_STREAM | END_HEADERS, stream, &block);
        stream
    }

    /// Puts down the beginning of a request's head and so many frames of 16 KB that go on with it; it does not end.
    pub(super) fn endless_block(&mut self, frames: usize) {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.frame(HEADERS, END_STREAM, stream, &[0x82, 0x87]);
        (0..frames).for_each(|_| self.frame(CONTINUATION, 0, stream, &[0x82; 16_000]));
    }

    /// Puts down the end of a stream.
    pub(super) fn reset(&mut self, stream: u32) {
        const CANCEL: u32 = 8;
        self.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }

    /// Puts down an answer to a ping that was never sent.
    pub(super) fn ping_ack(&mut self) {
        self.frame(PING, ACK, 0, b"unasked!");
    }

    /// Sends what was put down.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let frames = std::mem::take(&mut self.frames);
        self.stream.write_all(&frames)?;
        self.stream.flush()
    }

    /// Throws away what has come.
    pub(super) fn discard(&mut self) -> io::Result<()> {
        let mut part = [0; 16 << 10];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let len = u32::try_from(payload.len()).expect("short frames").to_be_bytes();
        self.frames.extend_from_slice(&len[1..]);
        self.frames.extend_from_slice(&[kind, flags]);
        self.frames.extend_from_slice(&stream.to_be_bytes());
        self.frames.extend_from_slice(payload);
    }
}

/// Begins HTTP/1.1 over TLS.
pub(super) fn tls_over(tcp: TcpStream) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let tls = ClientConnection::new(config(Alpn::Http11)?, ServerName::from(HTTPS.ip()))?;
    Ok(StreamOwned::new(tls, tcp))
}

fn config(protocol: Alpn) -> anyhow::Result<Arc<ClientConfig>> {
    let config = client_config(&ClientTrust::AnyCertificate, Versions::default(), &[protocol])?;
    Ok(Arc::new(config))
}

/// Frame types and flags (RFC 9113 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
