//! An HTTPS client that believes nothing: it takes one cipher suite, gives bodies to the caller that compares
//! them, and tells an end by close_notify from a connection that was cut.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, SupportedCipherSuite};
use tls::{ClientTrust, Versions, client_config_with};

/// A connection.
pub(crate) struct Https {
    tls: ClientConnection,
    tcp: BufferedTcp,
    /// Plaintext that came behind what was asked for.
    inbox: Vec<u8>,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server said that it sends no more.
    CloseNotify,
    /// The connection went without a word: what came last may be cut short.
    Cut,
}

/// A response's first lines.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    text: String,
}

impl Https {
    /// Connects and shakes hands.
    pub(crate) fn connect(to: SocketAddr, suite: SupportedCipherSuite) -> anyhow::Result<Self> {
        let mut client = Self::start(to, suite)?;
        while client.tls.is_handshaking() {
            client.tls.complete_io(&mut client.tcp)?;
        }
        Ok(client)
    }

    /// Connects and sends the last message of the handshake, a key update that asks for one in return, and `requests`
    /// in a single write.
    pub(crate) fn connect_with_key_update(
        to: SocketAddr,
        suite: SupportedCipherSuite,
        requests: &str,
    ) -> anyhow::Result<Self> {
        let mut client = Self::start(to, suite)?;
        loop {
            let mut bytes = Vec::new();
            while client.tls.wants_write() {
                client.tls.write_tls(&mut bytes)?;
            }
            if client.tls.is_handshaking() {
                client.tcp.write_all(&bytes)?;
                ensure!(client.tls.read_tls(&mut client.tcp)? > 0, "the server ended the handshake");
                client.tls.process_new_packets()?;
                continue;
            }
            client.tls.refresh_traffic_keys()?;
            client.tls.writer().write_all(requests.as_bytes())?;
            while client.tls.wants_write() {
                client.tls.write_tls(&mut bytes)?;
            }
            client.tcp.write_all(&bytes)?;
            return Ok(client);
        }
    }

    fn start(to: SocketAddr, suite: SupportedCipherSuite) -> anyhow::Result<Self> {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() };
        let config = client_config_with(provider, &ClientTrust::AnyCertificate, Versions::default(), &[])?;
        let tcp = TcpStream::connect(to).with_context(|| format!("connecting to {to}"))?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        let tls = ClientConnection::new(Arc::new(config), ServerName::from(to.ip()))?;
        Ok(Self { tls, tcp: BufferedTcp(BufReader::with_capacity(READ_BYTES, tcp)), inbox: Vec::new() })
    }

    /// Waits for so long at most from now on.
    pub(crate) fn wait_at_most(&self, patience: Duration) -> anyhow::Result<()> {
        self.tcp.0.get_ref().set_read_timeout(Some(patience))?;
        Ok(self.tcp.0.get_ref().set_write_timeout(Some(patience))?)
    }

    /// Takes little at a time from now on.
    pub(crate) fn narrow(&self) -> anyhow::Result<()> {
        Ok(rustix::net::sockopt::set_socket_recv_buffer_size(self.tcp.0.get_ref(), NARROW_BYTES)?)
    }

    /// Sends requests.
    pub(crate) fn send(&mut self, requests: &str) -> anyhow::Result<()> {
        self.tls.writer().write_all(requests.as_bytes())?;
        self.flush()
    }

    /// Changes the sending key and asks the server to change its own (RFC 8446 4.6.3).
    pub(crate) fn update_keys(&mut self) -> anyhow::Result<()> {
        self.tls.refresh_traffic_keys()?;
        self.flush()
    }

    /// Reads the next response's head.
    pub(crate) fn head(&mut self) -> anyhow::Result<Head> {
        loop {
            if let Some(end) = self.inbox.windows(4).position(|window| window == b"\r\n\r\n") {
                let text = String::from_utf8(self.inbox.drain(..end + 4).collect())?;
                let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
                return Ok(Head { status: status.context("a status line")?.parse()?, text });
            }
            let mut bytes = [0; 4096];
            let n = self.read(&mut bytes)?;
            ensure!(n > 0, "the connection ended before a response");
            self.inbox.extend_from_slice(&bytes[..n]);
        }
    }

    /// Gives the next `len` bytes of a body to `check`, with the place where they lie.
    pub(crate) fn body(
        &mut self,
        len: u64,
        mut check: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut at = 0;
        while at < len {
            let want = usize::try_from(len - at).unwrap_or(usize::MAX).min(buffer.len());
            let n = if self.inbox.is_empty() {
                self.read(&mut buffer[..want]).with_context(|| format!("after {at} bytes of {len}"))?
            } else {
                let n = want.min(self.inbox.len());
                buffer[..n].copy_from_slice(&self.inbox[..n]);
                self.inbox.drain(..n);
                n
            };
            ensure!(n > 0, "close_notify after {at} bytes of {len}");
            check(at, &buffer[..n])?;
            at += n as u64;
        }
        Ok(())
    }

    /// Asks for `path` with these header lines and compares what comes with `content`; gives the head.
    pub(crate) fn get(&mut self, path: &str, lines: &str, content: &[u8]) -> anyhow::Result<Head> {
        self.send(&request(path, lines))?;
        self.expect(content).with_context(|| path.to_owned())
    }

    /// Compares the next response's body with `content`.
    pub(crate) fn expect(&mut self, content: &[u8]) -> anyhow::Result<Head> {
        let head = self.head()?;
        let len = head.length()?;
        ensure!(len == content.len() as u64, "{len} bytes instead of {}: {}", content.len(), head.text);
        self.body(len, |at, bytes| {
            let at = at as usize;
            ensure!(bytes == &content[at..at + bytes.len()], "wrong bytes from {at} on");
            Ok(())
        })?;
        Ok(head)
    }

    /// Takes all that comes until the connection ends; gives the number of bytes and the way it ended.
    pub(crate) fn end(
        &mut self,
        mut check: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<(u64, End)> {
        let mut at = self.inbox.len() as u64;
        check(0, &std::mem::take(&mut self.inbox))?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return Ok((at, End::CloseNotify)),
                Ok(n) => {
                    check(at, &buffer[..n])?;
                    at += n as u64;
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe => return Ok((at, End::Cut)),
                    _ => bail!("after {at} bytes: {error}"),
                },
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.tls, &mut self.tcp).read(buffer)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.tcp)?;
        }
        Ok(())
    }
}

impl Head {
    /// Returns what Content-Length says.
    pub(crate) fn length(&self) -> anyhow::Result<u64> {
        Ok(self.field("content-length").context("no Content-Length")?.parse()?)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.text.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Makes a GET request.
pub(crate) fn request(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: lab\r\n{lines}\r\n")
}

/// rustls asks for 4 KiB at a time; each call into an emulated kernel is dear.
struct BufferedTcp(BufReader<TcpStream>);

impl Read for BufferedTcp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for BufferedTcp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

/// Software emulation makes everything slow.
const PATIENCE: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 128 << 10;
const NARROW_BYTES: usize = 32 << 10;
