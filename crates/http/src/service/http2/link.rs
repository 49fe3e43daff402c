//! A lane's TLS connection under HTTP/2: what came in, and what gathers until the turn's end.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lane::net::TcpStream;
use service::alarm::Alarm;
use service::memory::{Account, Charge};
use service::pacer::Ticket;
use tls::{TlsEvent, TlsSession};

use super::outgoing::OutgoingBytes;
use super::progress::Progress;
use crate::service::linger::{UnderWay, linger};
use crate::service::receive_buffer::ReceiveBuffer;

/// Reads plaintext and writes sealed records.
pub(super) struct Http2Link {
    stream: Rc<TcpStream>,
    ticket: Ticket,
    tls: Option<Box<TlsSession>>,
    receive_buffer: ReceiveBuffer,
    ended: bool,
    pub(super) outgoing: OutgoingBytes,
    writable: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
    progress: Rc<Progress>,
    account: Rc<Account>,
    /// Charge of what a full socket leaves in `outgoing`.
    held: Option<Charge>,
}

impl Http2Link {
    /// Tells `progress` what leaves.
    pub(super) fn new(
        stream: Rc<TcpStream>,
        ticket: Ticket,
        tls: Option<Box<TlsSession>>,
        receive_buffer: ReceiveBuffer,
        progress: Rc<Progress>,
        account: Rc<Account>,
    ) -> Self {
        let outgoing = OutgoingBytes::new(tls.as_ref().and_then(|tls| tls.layout()));
        Self {
            stream,
            ticket,
            tls,
            receive_buffer,
            ended: false,
            outgoing,
            writable: None,
            progress,
            account,
            held: None,
        }
    }

    /// Returns what came and was not used yet.
    pub(super) fn unread(&self) -> &[u8] {
        self.receive_buffer.unread()
    }

    pub(super) fn consume(&mut self, n: usize) {
        self.receive_buffer.consume(n);
    }

    /// Returns whether the client sends no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes what has arrived into the inbox.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut received = ready!(self.stream.poll_recv(cx))?;
        if received.is_empty() {
            self.ended = true;
            return Poll::Ready(Ok(()));
        }
        let Some(tls) = &mut self.tls else {
            self.receive_buffer.extend(&received);
            return Poll::Ready(Ok(()));
        };
        let mut cursor = tls.receive(&mut received);
        let outcome = loop {
            match cursor.next() {
                Ok(Some(TlsEvent::Data(plain))) => self.receive_buffer.extend(plain),
                Ok(Some(TlsEvent::PeerClosed)) => self.ended = true,
                Ok(Some(TlsEvent::Established)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(io::Error::other(error)),
            }
        };
        if tls.has_output() {
            // An alert or key update leaves now if it can, else with what is sent next.
            if outcome.is_err() {
                self.outgoing.forget();
            }
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(outcome)
    }

    /// Sends until nothing waits.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.outgoing.sealed().is_empty() {
                self.seal()?;
            }
            let waiting = self.outgoing.sealed();
            if waiting.is_empty() {
                break;
            }
            if let Some(writable) = &mut self.writable {
                ready!(writable.as_mut().poll(cx))?;
                self.writable = None;
            }
            let granted = self.ticket.poll_grant(cx, waiting.len());
            self.progress.waits(granted.is_pending());
            let granted = ready!(granted);
            let sent = self.stream.try_send(&[IoSlice::new(&waiting[..granted])], false)?;
            self.ticket.give_back(granted - sent.unwrap_or(0));
            match sent {
                Some(sent) => {
                    self.outgoing.consume(sent);
                    self.progress.handed(sent);
                    self.account.stall(false);
                }
                None => {
                    self.hold_rest();
                    let stream = Rc::clone(&self.stream);
                    self.writable = Some(Box::pin(async move { stream.writable().await }));
                }
            }
        }
        self.held = None;
        Poll::Ready(Ok(()))
    }

    /// Charges what a full socket leaves, which may stay for long, in memory of its own size.
    fn hold_rest(&mut self) {
        self.outgoing.shrink();
        self.held = None;
        self.held = Some(self.account.charge(self.outgoing.capacity()));
    }

    /// Makes records of what has gathered, behind what the session itself has to say.
    fn seal(&mut self) -> io::Result<()> {
        let added = self.outgoing.seal(self.tls.as_deref_mut()).map_err(io::Error::other)?;
        self.progress.takes(added, 0);
        Ok(())
    }

    /// Sends what waits, and says that nothing follows.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if let Some(tls) = &mut self.tls {
            tls.close();
        }
        ready!(self.poll_send(cx))?;
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }

    /// Waits a little for the client to close, after it was sent the end of the connection.
    pub(super) async fn linger(self, alarm: &mut Alarm) {
        if !self.ended {
            // Its windows bound what it sends.
            linger(&self.stream, alarm, UnderWay::Body).await;
        }
    }
}
