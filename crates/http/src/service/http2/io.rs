//! A lane's TLS connection as h2 wants one.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lane::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::{DataMeter, Progress};
use crate::service::inbox::Inbox;
use service::memory::{Account, Charge};
use service::pacer::Ticket;
use tls::{TlsEvent, TlsSession};

/// Reads plaintext and writes sealed records.
pub(super) struct Io {
    stream: Rc<TcpStream>,
    ticket: Ticket,
    tls: Option<Box<TlsSession>>,
    inbox: Inbox,
    /// Arrivals taken since this last gave way to others.
    arrivals: u32,
    ended: bool,
    /// Bytes on their way out, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    writable: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
    meter: DataMeter,
    progress: Rc<Progress>,
    account: Rc<Account>,
    /// For what a full socket leaves in `outgoing`.
    held: Option<Charge>,
}

impl Io {
    /// Tells `progress` what leaves.
    pub(super) fn new(
        stream: Rc<TcpStream>,
        ticket: Ticket,
        tls: Option<Box<TlsSession>>,
        inbox: Inbox,
        progress: Rc<Progress>,
        account: Rc<Account>,
    ) -> Self {
        Self {
            stream,
            ticket,
            tls,
            inbox,
            arrivals: 0,
            ended: false,
            outgoing: Vec::new(),
            sent: 0,
            writable: None,
            meter: DataMeter::default(),
            progress,
            account,
            held: None,
        }
    }

    /// Takes what has arrived into the inbox.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut received = ready!(self.stream.poll_recv(cx))?;
        if received.is_empty() {
            self.ended = true;
            return Poll::Ready(Ok(()));
        }
        let Some(tls) = &mut self.tls else {
            self.inbox.extend(&received);
            return Poll::Ready(Ok(()));
        };
        let mut cursor = tls.receive(&mut received);
        let outcome = loop {
            match cursor.next() {
                Ok(Some(TlsEvent::Data(plain))) => self.inbox.extend(plain),
                Ok(Some(TlsEvent::PeerClosed)) => self.ended = true,
                Ok(Some(TlsEvent::Established)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(io::Error::other(error)),
            }
        };
        let output = tls.take_output();
        self.progress.sealed(output.len(), 0);
        self.outgoing.extend_from_slice(&output);
        // An alert or key update leaves now if it can, else with the next write.
        if let Poll::Ready(Err(error)) = self.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(outcome)
    }

    /// Sends until nothing waits.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.outgoing.len() {
            if let Some(writable) = &mut self.writable {
                ready!(writable.as_mut().poll(cx))?;
                self.writable = None;
            }
            let granted = self.ticket.poll_grant(cx, self.outgoing.len() - self.sent);
            self.progress.waits(granted.is_pending());
            let granted = ready!(granted);
            let part = IoSlice::new(&self.outgoing[self.sent..][..granted]);
            let sent = self.stream.try_send(&[part], false)?;
            self.ticket.give_back(granted - sent.unwrap_or(0));
            match sent {
                Some(sent) => {
                    self.sent += sent;
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
        self.sent = 0;
        self.held = None;
        self.outgoing.clear();
        if self.outgoing.capacity() > OUTGOING_KEPT_MAX {
            self.outgoing = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// The socket is full: what is left may stay for long, in memory of its own size and on the books.
    fn hold_rest(&mut self) {
        self.outgoing.drain(..self.sent);
        self.outgoing.shrink_to_fit();
        self.sent = 0;
        self.held = None;
        self.held = Some(self.account.charge(self.outgoing.capacity()));
    }

    /// Seals what there is room for.
    fn take(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut plain;
        // A head and its payload leave in one record.
        let plain = match parts {
            [part] => &part[..part.len().min(TAKEN_MAX)],
            _ => {
                let len = parts.iter().map(|part| part.len()).sum::<usize>();
                plain = Vec::with_capacity(len.min(TAKEN_MAX));
                for part in parts {
                    plain.extend_from_slice(&part[..part.len().min(TAKEN_MAX - plain.len())]);
                }
                &plain[..]
            }
        };
        let (data, before) = (self.meter.count(plain), self.outgoing.len());
        match &mut self.tls {
            Some(tls) => {
                tls.write(plain).map_err(io::Error::other)?;
                let sealed = tls.take_output();
                self.outgoing.extend_from_slice(&sealed);
            }
            None => self.outgoing.extend_from_slice(plain),
        }
        self.progress.sealed(self.outgoing.len() - before, data);
        Ok(plain.len())
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.inbox.unread().is_empty() && !self.ended {
            // Frames that ask for nothing, such as PING without end, must not keep the lane to their connection.
            if self.arrivals == ARRIVALS_PER_TURN {
                self.arrivals = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.poll_fill(cx)?.is_pending() {
                self.arrivals = 0;
                return Poll::Pending;
            }
            self.arrivals += 1;
        }
        let taken = self.inbox.unread().len().min(buf.remaining());
        buf.put_slice(&self.inbox.unread()[..taken]);
        self.inbox.consume(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Behind a full socket nothing is sealed in store.
        if self.writable.is_some() || self.outgoing.len() - self.sent >= OUTGOING_MAX {
            ready!(self.poll_send(cx))?;
        }
        Poll::Ready(self.take(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            tls.close();
            let alert = tls.take_output();
            self.progress.sealed(alert.len(), 0);
            self.outgoing.extend_from_slice(&alert);
        }
        ready!(self.poll_send(cx))?;
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

/// Arrivals of one connection between two turns of the others.
const ARRIVALS_PER_TURN: u32 = 16;
/// Sealed bytes that may wait while h2 writes on.
const OUTGOING_MAX: usize = 32 * 1024;
/// What is taken at a time: a record, or a few.
const TAKEN_MAX: usize = 32 * 1024;
/// Capacity that an idle connection keeps.
const OUTGOING_KEPT_MAX: usize = 1024;
