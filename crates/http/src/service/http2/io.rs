//! A lane's TLS connection as h2 wants one.
//!
//! h2 flushes behind every frame of data. What it writes in one turn leaves together instead: plaintext gathers in the
//! slots of the records that it will leave in, however many frames share one, until the turn ends ([`Link::poll_send`])
//! or there is enough for a send.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lane::net::TcpStream;
use service::memory::{Account, Charge};
use service::pacer::Ticket;
use tls::{TlsEvent, TlsSession};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::outgoing::Outgoing;
use super::progress::{DataMeter, Progress};
use crate::service::inbox::Inbox;

/// h2's half of a [`Link`].
pub(super) struct Io(Rc<RefCell<Link>>);

/// Reads plaintext and writes sealed records.
pub(super) struct Link {
    stream: Rc<TcpStream>,
    ticket: Ticket,
    tls: Option<Box<TlsSession>>,
    inbox: Inbox,
    /// Arrivals taken since this last gave way to others.
    arrivals: u32,
    ended: bool,
    outgoing: Outgoing,
    writable: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
    meter: DataMeter,
    progress: Rc<Progress>,
    account: Rc<Account>,
    /// For what a full socket leaves in `outgoing`.
    held: Option<Charge>,
}

impl Io {
    pub(super) fn new(link: &Rc<RefCell<Link>>) -> Self {
        Self(Rc::clone(link))
    }
}

impl Link {
    /// Tells `progress` what leaves.
    pub(super) fn new(
        stream: Rc<TcpStream>,
        ticket: Ticket,
        tls: Option<Box<TlsSession>>,
        inbox: Inbox,
        progress: Rc<Progress>,
        account: Rc<Account>,
    ) -> Rc<RefCell<Self>> {
        let outgoing = Outgoing::new(tls.as_ref().and_then(|tls| tls.layout()));
        Rc::new(RefCell::new(Self {
            stream,
            ticket,
            tls,
            inbox,
            arrivals: 0,
            ended: false,
            outgoing,
            writable: None,
            meter: DataMeter::default(),
            progress,
            account,
            held: None,
        }))
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

    /// The socket is full: what is left may stay for long, in memory of its own size and on the books.
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

    /// Takes what there is room for.
    fn take(&mut self, parts: &[IoSlice<'_>]) -> usize {
        let mut taken = 0;
        for part in parts {
            let part = &part[..self.outgoing.append(part)];
            self.progress.takes(part.len(), self.meter.count(part));
            taken += part.len();
        }
        taken
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
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

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if let Some(tls) = &mut self.tls {
            tls.close();
        }
        ready!(self.poll_send(cx))?;
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let link = &mut *self.0.borrow_mut();
        // Behind a full socket nothing gathers in store.
        if link.writable.is_some() || !link.outgoing.has_room() {
            ready!(link.poll_send(cx))?;
        }
        Poll::Ready(Ok(link.take(parts)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Leaves it to the turn's end.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(cx)
    }
}

/// Arrivals of one connection between two turns of the others.
const ARRIVALS_PER_TURN: u32 = 16;
