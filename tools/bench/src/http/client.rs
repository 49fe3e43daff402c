//! One connection of the load: plain or TLS, asking and being answered.

use std::sync::Arc;

use lane::backend::SocketOption;
use lane::buffer::{BufClass, RecvBuf};
use lane::net::TcpStream;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tls::{TlsEvent, TlsSession};

use super::error::ClientError;
use super::response::{Found, ResponseReader};
use super::target::Target;

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    pub(super) keep_alive: bool,
}

/// A connection that has finished its handshake.
pub(super) struct Connection {
    stream: TcpStream,
    tls: Option<Box<TlsSession>>,
    reader: ResponseReader,
    request: Arc<[u8]>,
}

impl Connection {
    pub(super) async fn open(
        target: &Target,
        tls: Option<&Arc<ClientConfig>>,
        request: Arc<[u8]>,
    ) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_option(SocketOption::NoDelay(true))?;
        let mut connection = Self { stream, tls: None, reader: ResponseReader::new(), request };
        if let Some(config) = tls {
            let name = ServerName::try_from(target.host.clone())
                .map_err(|_| ClientError::ServerName(target.host.clone()))?;
            connection.tls = Some(Box::new(TlsSession::client(Arc::clone(config), name)?));
            connection.handshake().await?;
        }
        Ok(connection)
    }

    /// Asks once; `body` is called with every part of the answer's body.
    pub(super) async fn ask(
        &mut self,
        mut body: impl FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<Answer, ClientError> {
        let request = Arc::clone(&self.request);
        match &mut self.tls {
            None => self.send(&request).await?,
            Some(tls) => {
                tls.write(&request)?;
                self.flush().await?;
            }
        }
        let mut answer = Answer { status: 0, body_bytes: 0, keep_alive: true };
        loop {
            let mut received = self.stream.recv().await?;
            let done = self.take(&mut received, &mut answer, &mut body)?;
            drop(received);
            if self.tls.as_ref().is_some_and(|tls| tls.has_output()) {
                self.flush().await?;
            }
            if done {
                return Ok(answer);
            }
        }
    }

    fn take(
        &mut self,
        received: &mut RecvBuf,
        answer: &mut Answer,
        body: &mut impl FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<bool, ClientError> {
        if received.is_empty() {
            return Err(ClientError::Cut);
        }
        let Some(tls) = &mut self.tls else { return feed(&mut self.reader, received, answer, body) };
        let mut done = false;
        let mut cursor = tls.receive(received);
        while let Some(event) = cursor.next()? {
            match event {
                TlsEvent::Data(plain) => done |= feed(&mut self.reader, plain, answer, body)?,
                TlsEvent::Established => {}
                TlsEvent::PeerClosed if done => answer.keep_alive = false,
                TlsEvent::PeerClosed => return Err(ClientError::Cut),
            }
        }
        Ok(done)
    }

    async fn handshake(&mut self) -> Result<(), ClientError> {
        loop {
            self.flush().await?;
            let tls = self.tls.as_mut().expect("a handshake has a session");
            if !tls.is_handshaking() {
                return Ok(());
            }
            let mut received = self.stream.recv().await?;
            if received.is_empty() {
                return Err(ClientError::Cut);
            }
            let mut cursor = tls.receive(&mut received);
            while let Some(event) = cursor.next()? {
                if let TlsEvent::Data(_) = event {
                    return Err(ClientError::BadAnswer("bytes nobody asked for"));
                }
            }
        }
    }

    async fn flush(&mut self) -> Result<(), ClientError> {
        let output = self.tls.as_mut().map(|tls| tls.take_output()).unwrap_or_default();
        if output.is_empty() { Ok(()) } else { self.send(&output).await }
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), ClientError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            let n = buf.append(rest);
            rest = &rest[n..];
            self.stream.send(buf, !rest.is_empty()).await.0?;
        }
        Ok(())
    }
}

/// Feeds plaintext to the reader; true when it ended the answer.
fn feed(
    reader: &mut ResponseReader,
    mut bytes: &[u8],
    answer: &mut Answer,
    body: &mut impl FnMut(&[u8]) -> Result<(), ClientError>,
) -> Result<bool, ClientError> {
    let mut done = false;
    while !done {
        let (used, found) = reader.feed(bytes)?;
        bytes = &bytes[used..];
        match found {
            Found::Nothing => return Ok(false),
            Found::Head { status, keep_alive, .. } => {
                answer.status = status;
                answer.keep_alive = keep_alive;
            }
            Found::Body { bytes, last } => {
                answer.body_bytes += bytes.len() as u64;
                body(bytes)?;
                done = last;
            }
        }
    }
    if bytes.is_empty() { Ok(true) } else { Err(ClientError::BadAnswer("bytes after its end")) }
}
