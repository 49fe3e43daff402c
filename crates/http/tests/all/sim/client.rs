//! A client that believes nothing: lengths are checked, and the end of a connection is no end of a body.

use std::io::{self, IoSlice};
use std::time::Duration;

use lane::net::TcpStream;
use lane::time::sleep;

use crate::sim::tls_client::TlsClient;

/// A connection to the server.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    tls: Option<Box<TlsClient>>,
    inbox: Vec<u8>,
    /// Bytes per second that it takes.
    rate: Option<u64>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// There is no complete response.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection ended after this many bytes of it.
    Closed(usize),
    /// A TLS connection ended without close_notify.
    Cut,
    /// The connection was reset, or never was.
    Reset(#[expect(dead_code, reason = "shown when a test fails")] io::Error),
}

impl Client {
    pub(crate) async fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address.parse().unwrap()).await?;
        Ok(Self { stream, tls: None, inbox: Vec::new(), rate: None })
    }

    /// Connects and shakes hands.
    pub(crate) async fn connect_tls(address: &str, tls: TlsClient) -> io::Result<Self> {
        let mut client = Self::connect(address).await?;
        client.tls = Some(Box::new(tls));
        while client.tls().is_handshaking() {
            let bytes = client.tls().output();
            client.send_raw(&bytes).await?;
            if client.tls().is_handshaking() {
                client.fill().await.map_err(|failure| io::Error::other(format!("{failure:?}")))?;
            }
        }
        Ok(client)
    }

    /// The connection and its TLS session, for another protocol over them.
    pub(crate) fn into_tls(self) -> (TcpStream, Box<TlsClient>) {
        assert!(self.inbox.is_empty());
        (self.stream, self.tls.expect("a TLS client"))
    }

    /// Takes no more than `rate` bytes per second from now on.
    pub(crate) fn slow_down(&mut self, rate: u64) {
        self.rate = Some(rate);
    }

    /// The TLS session.
    pub(crate) fn tls(&mut self) -> &mut TlsClient {
        self.tls.as_mut().expect("a TLS client")
    }

    /// Sends plaintext on a TLS connection, and what waits before it.
    pub(crate) async fn send_sealed(&mut self, plain: impl AsRef<[u8]>) -> io::Result<()> {
        self.tls().write(plain.as_ref());
        let bytes = self.tls().output();
        self.send_raw(&bytes).await
    }

    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        assert!(self.tls.is_none(), "plaintext on a TLS connection");
        self.send_raw(bytes.as_ref()).await
    }

    async fn send_raw(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.try_send(&[IoSlice::new(rest)], false)? {
                Some(sent) => rest = &rest[sent..],
                None => self.stream.writable().await?,
            }
        }
        Ok(())
    }

    /// Sends a GET of `path` with these header lines, and takes the response.
    pub(crate) async fn get(&mut self, path: &str, lines: &str) -> Result<Response, Failure> {
        let request = request("GET", path, lines);
        match self.tls {
            Some(_) => self.send_sealed(request).await,
            None => self.send(request).await,
        }
        .map_err(Failure::Reset)?;
        self.response().await
    }

    /// The next response to anything but HEAD.
    pub(crate) async fn response(&mut self) -> Result<Response, Failure> {
        self.response_to("GET").await
    }

    /// The next response to a request with this method.
    pub(crate) async fn response_to(&mut self, method: &str) -> Result<Response, Failure> {
        let head_len = loop {
            if let Some(at) = self.inbox.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8(self.inbox[..head_len].to_vec()).expect("heads are ASCII");
        let mut lines = head.split("\r\n").filter(|line| !line.is_empty());
        let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        let fields: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").expect("a field line"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut response = Response { status, fields, body: Vec::new() };
        let has_body = method != "HEAD" && !matches!(status, 204 | 304);
        self.inbox.drain(..head_len);
        if !has_body {
            return Ok(response);
        }
        if response.field("Transfer-Encoding") == Some("chunked") {
            assert_eq!(response.field("Content-Length"), None, "one framing alone");
            while let Some(chunk) = self.chunk().await? {
                response.body.extend_from_slice(&chunk);
            }
            return Ok(response);
        }
        response.body = self.take(response.field("Content-Length").unwrap().parse().unwrap()).await?;
        Ok(response)
    }

    /// The next chunk of a body, `None` after the last.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let line_len = loop {
            if let Some(at) = self.inbox.windows(2).position(|window| window == b"\r\n") {
                break at;
            }
            self.fill().await?;
        };
        let line = self.take(line_len + 2).await?;
        let len = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim_end(), 16).unwrap();
        let mut chunk = self.take(len + 2).await?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk ends with a line end");
        chunk.truncate(len);
        Ok((len > 0).then_some(chunk))
    }

    async fn take(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        while self.inbox.len() < len {
            self.fill().await?;
        }
        Ok(self.inbox.drain(..len).collect())
    }

    /// Takes all that comes until the connection ends; gives how it ended, and the bytes.
    pub(crate) async fn end(mut self) -> (Failure, Vec<u8>) {
        loop {
            if let Err(failure) = self.fill().await {
                return (failure, self.inbox);
            }
        }
    }

    /// Asserts that the server ends the connection without another byte.
    pub(crate) async fn expect_end(mut self) {
        match self.fill().await {
            Err(_) if self.inbox.is_empty() => {}
            _ => panic!("more came: {}", self.inbox.escape_ascii()),
        }
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        let bytes = self.stream.recv().await.map_err(Failure::Reset)?;
        if let Some(rate) = self.rate {
            sleep(Duration::from_micros(bytes.len() as u64 * 1_000_000 / rate)).await;
        }
        let Some(tls) = &mut self.tls else {
            if bytes.is_empty() {
                return Err(Failure::Closed(self.inbox.len()));
            }
            self.inbox.extend_from_slice(&bytes);
            return Ok(());
        };
        tls.read(&bytes, &mut self.inbox);
        match (bytes.is_empty(), tls.peer_has_closed()) {
            (false, _) => Ok(()),
            (true, true) => Err(Failure::Closed(self.inbox.len())),
            (true, false) => Err(Failure::Cut),
        }
    }
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A request head.
pub(crate) fn request(method: &str, path: &str, lines: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{lines}\r\n")
}
