//! A connection as the services see it: received bytes into an [`ReceiveBuffer`], responses out, plain or TLS.
//!
//! Everything that waits for the peer waits here, under a deadline.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::backend::SocketOption;
use lane::buffer::{Buf, BufClass, RecvBuf};
use lane::net::TcpStream;
use lane::time::{Elapsed, now};
use rustls::ServerConfig;
use service::alarm::Alarm;
use service::memory::{Account, Charge};
use service::pacer::Ticket;

use super::abort::Abort;
use super::linger::{UnderWay, linger};
use super::receive_buffer::ReceiveBuffer;
use super::send_buffer::SendBuffer;
use super::transfer::{BodyTransfer, LOOKS, ProgressWatch, Taken};
use super::unsent::{UNSENT_MIN, Unsent, UnsentRoom};
use crate::limits::Limits;
use crate::response::Writer;
use tls::{Alpn, CryptoInfo, KernelControl, KtlsSupport, SessionInfo, TlsEvent, TlsSession, UserSpaceReason};

mod receive;
mod send_file;

/// Bodies up to this size are copied behind their head and leave with it in one send: below it a second
/// system call costs more than the copy.
pub(super) const SMALL_BODY_MAX: u64 = 16 * 1024;

/// One connection.
pub(super) struct Wire {
    stream: Rc<TcpStream>,
    tls: Option<Box<TlsSession>>,
    /// close_notify has come: what was received before it is all there is.
    ended: bool,
    under_way: UnderWay,
    send_buffer: SendBuffer,
    /// Charge of the buffer in `send_buffer`.
    held: Option<Charge>,
    account: Rc<Account>,
    large_buffers: Rc<Account>,
    unsent: Rc<Unsent>,
    /// Room of the socket for unsent bytes, beyond that of every connection.
    unsent_room: Option<UnsentRoom>,
    alarm: Alarm,
    ticket: Ticket,
    /// Time spent waiting for a turn at the server's rate, which is no fault of the client's.
    waited: Duration,
    stall: Duration,
    send_rate_min: u64,
    sent: u64,
    /// The bodies that are being sent, where there is a floor for their rate, and when to judge it next.
    transfer: Option<(BodyTransfer, Instant)>,
    /// Bytes of an earlier answer that were not acknowledged at the last look.
    left_before: Option<u64>,
}

impl Wire {
    pub(super) fn new(
        stream: Rc<TcpStream>,
        ticket: Ticket,
        (account, large_buffers): (Rc<Account>, Rc<Account>),
        unsent: Rc<Unsent>,
        limits: &Limits,
    ) -> Self {
        Self {
            stream,
            tls: None,
            ended: false,
            under_way: UnderWay::Requests,
            send_buffer: SendBuffer::default(),
            held: None,
            account,
            large_buffers,
            unsent,
            unsent_room: None,
            alarm: Alarm::default(),
            ticket,
            waited: Duration::ZERO,
            stall: limits.write_stall_timeout,
            send_rate_min: limits.send_rate_min,
            sent: 0,
            transfer: None,
            left_before: None,
        }
    }

    pub(super) fn peer_ip(&self) -> IpAddr {
        self.stream.peer_addr().ip().to_canonical()
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns true if plaintext has to lie in records: sending means copying.
    pub(super) fn is_sealed(&self) -> bool {
        self.send_buffer.layout.is_some()
    }

    /// Returns whether the TLS key is good for another response, if there is one.
    pub(super) fn key_lasts(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.key_lasts())
    }

    pub(super) fn is_sealed_by_kernel(&self) -> bool {
        self.tls.is_some() && self.send_buffer.layout.is_none()
    }

    /// Returns what the connection holds of the lane's memory for replies.
    pub(super) fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// Returns what the connection holds of the lane's large buffers.
    pub(super) fn large_buffers(&self) -> &Rc<Account> {
        &self.large_buffers
    }

    /// Returns the number of bytes handed to the socket so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Drops the TLS session, as the peer turned out to speak plain text.
    pub(super) fn forget_tls(&mut self) {
        self.tls = None;
        self.send_buffer = SendBuffer::default();
    }

    /// Returns a mark to come back to with [`Wire::rewind`], as long as nothing was flushed in between.
    pub(super) fn mark(&self) -> usize {
        self.send_buffer.mark()
    }

    pub(super) fn rewind(&mut self, mark: usize) {
        self.send_buffer.rewind(mark);
    }

    /// Ends a failed TLS session with the alert that says why.
    pub(super) async fn send_alert(mut self) {
        // The connection is over either way.
        let _ = self.send_tls_output().await;
    }

    /// Splits the connection for HTTP/2, which has its own buffers. Nothing may wait in the send buffer.
    pub(super) fn into_parts(self) -> (Rc<TcpStream>, Ticket, Option<Box<TlsSession>>, Rc<Account>) {
        debug_assert!(!self.send_buffer.has_buffer());
        (self.stream, self.ticket, self.tls, self.account)
    }

    /// Does the server's part of a TLS handshake and hands sending to the kernel where it can; where it cannot, the
    /// answer says why.
    pub(super) async fn handshake(
        &mut self,
        config: Arc<ServerConfig>,
        ktls: &RefCell<KtlsSupport>,
        receive_buffer: &mut ReceiveBuffer,
        deadline: Instant,
    ) -> Result<(SessionInfo, Option<UserSpaceReason>), Abort> {
        self.tls = Some(Box::new(TlsSession::server(config)?));
        let mut held = None;
        loop {
            if self.receive(receive_buffer, deadline).await? == Received::End {
                return Err(Abort::PeerClosed);
            }
            self.hold_handshake(&mut held)?;
            if let Some(info) = self.tls.as_ref().and_then(|tls| tls.info()).cloned() {
                let in_user_space = match info.alpn {
                    Some(Alpn::H2) => Some(UserSpaceReason::Http2),
                    _ => self.offer_to_kernel(&mut ktls.borrow_mut()).err(),
                };
                if in_user_space.is_some() {
                    self.tls.iter_mut().for_each(|tls| tls.keep_user_tx());
                }
                self.send_buffer.layout = self.tls.as_ref().and_then(|tls| tls.layout());
                return Ok((info, in_user_space));
            }
        }
    }

    /// Charges what the handshake keeps of messages that are not whole, beyond what most clients send at once.
    fn hold_handshake(&self, held: &mut Option<Charge>) -> Result<(), Abort> {
        let kept = self.tls.as_ref().map_or(0, |tls| tls.handshake_bytes());
        if kept <= HANDSHAKE_BYTES_FREE {
            *held = None;
        } else if held.as_ref().is_none_or(|held| held.bytes() < kept) {
            // One of the two, so that a connection is not in its own way.
            *held = None;
            *held = Some(self.account.try_charge(kept).ok_or(Abort::Evicted)?);
        }
        Ok(())
    }

    /// Waits for bytes from the peer, after sending all that is owed to it.
    ///
    /// # Errors
    /// [`Abort::Io`] with `TimedOut` when the deadline passes.
    pub(super) async fn receive(
        &mut self,
        receive_buffer: &mut ReceiveBuffer,
        deadline: Instant,
    ) -> Result<Received, Abort> {
        self.flush(false).await?;
        let received = self.arrival(deadline).await?;
        self.take_in(received, receive_buffer).await
    }

    /// Waits for bytes from the peer, for [`Wire::take_in`]; nothing may wait in the send buffer. An idle connection
    /// is in no other wait, and what this one keeps is all that it adds to the connection's task.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(super) async fn arrival(&mut self, deadline: Instant) -> Result<Option<RecvBuf>, Abort> {
        if self.ended {
            return Ok(None);
        }
        let received = self.alarm.race(deadline, self.stream.recv()).await;
        // A client that asks for more has taken what it asked for before, or nearly.
        self.narrow();
        Ok(Some(received.map_err(|Elapsed| timed_out())??))
    }

    /// Takes what has arrived into the inbox; `None` is the end.
    pub(super) async fn take_in(
        &mut self,
        received: Option<RecvBuf>,
        receive_buffer: &mut ReceiveBuffer,
    ) -> Result<Received, Abort> {
        let Some(mut received) = received else { return Ok(Received::End) };
        let Some(tls) = &mut self.tls else {
            receive_buffer.extend(&received);
            return Ok(if received.is_empty() { Received::End } else { Received::Bytes });
        };
        if received.is_empty() {
            // Whatever the missing close_notify may mean, a request cut short is no request.
            return Ok(Received::End);
        }
        let mut cursor = tls.receive(&mut received);
        let outcome = loop {
            match cursor.next() {
                Ok(Some(TlsEvent::Data(plain))) => receive_buffer.extend(plain),
                Ok(Some(TlsEvent::Established)) => {}
                // What came before it in the same segment is to be answered first.
                Ok(Some(TlsEvent::PeerClosed)) => self.ended = true,
                Ok(None) => break Ok(Received::Bytes),
                Err(error) => break Err(error),
            }
        };
        drop(received);
        self.send_tls_output().await?;
        Ok(outcome?)
    }

    /// Returns whether the client, which asks for nothing, still takes what it was answered, as far as the
    /// last look tells: one system call.
    pub(super) fn is_taking(&mut self) -> bool {
        let left = self.stream.unacknowledged().ok().filter(|left| *left > 0);
        let before = std::mem::replace(&mut self.left_before, left);
        left.is_some_and(|left| before.is_none_or(|before| left < before))
    }

    /// Makes room for `n` bytes, sending what waits if need be. `n` must fit a small buffer.
    pub(super) async fn reserve(&mut self, n: usize, class: BufClass) -> Result<(), Abort> {
        if self.send_buffer.has_buffer() && self.send_buffer.room() < n {
            self.flush(true).await?;
        }
        if !self.send_buffer.has_buffer() {
            let (buf, held) = self.take_buffer(class).await?;
            self.held = Some(held);
            self.send_buffer.open(buf);
        }
        Ok(())
    }

    /// Writes at most `max` bytes of text, for which room was reserved.
    pub(super) fn write(&mut self, max: usize, write: impl FnOnce(&mut Writer<'_>)) {
        self.send_buffer.write(max, write);
    }

    /// Sends bytes that are in memory.
    pub(super) async fn send_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Abort> {
        while !bytes.is_empty() {
            self.reserve(1, BufClass::Small).await?;
            let taken = self.send_buffer.append(bytes);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Sends what waits in the send buffer. `more` says that more follows at once.
    pub(super) async fn flush(&mut self, more: bool) -> Result<(), Abort> {
        let Some((mut buf, plain_len)) = self.send_buffer.take() else { return Ok(()) };
        let _held = self.held.take();
        if plain_len == 0 {
            return Ok(());
        }
        let len = match (&mut self.tls, self.send_buffer.layout) {
            (Some(tls), Some(layout)) => {
                let first = tls.seal(&mut buf, plain_len)?;
                if !first.is_empty() {
                    self.push_out(&first, true).await?;
                }
                layout.sealed_len(plain_len)
            }
            (Some(tls), None) => {
                tls.count_kernel_tx(plain_len as u64)?;
                self.send_tls_output().await?;
                plain_len
            }
            (None, _) => plain_len,
        };
        buf.truncate(len);
        self.push_buffer(buf, more).await
    }

    /// Notes that the client is sending a body that will not be read to its end.
    pub(super) fn leave_body(&mut self) {
        self.under_way = UnderWay::Body;
    }

    /// Ends the connection so that the peer gets all that was sent: says so, and waits a little for its end.
    pub(super) async fn close(mut self, receive_buffer: &mut ReceiveBuffer) {
        if self.flush(false).await.is_err() {
            return;
        }
        // Kernel TLS may hold back the end of a record that the socket had no room for, which a shutdown would
        // overtake. With room for a record, close_notify pushes it out before itself.
        if self.is_sealed_by_kernel() && self.wait_writable().await.is_err() {
            return;
        }
        if let Some(tls) = &mut self.tls {
            tls.close();
            if self.send_tls_output().await.is_err() {
                return;
            }
        }
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        receive_buffer.consume(receive_buffer.unread().len());
        linger(&self.stream, &mut self.alarm, self.under_way).await;
    }

    /// Ends the connection so that the peer knows that what it has is not the whole.
    pub(super) fn reset(self) {
        // If the option cannot be set the socket is broken already, and closing it tells the peer too.
        let _ = self.stream.set_option(SocketOption::ResetOnClose);
    }

    /// Lets the socket hold more of a body of so many bytes unsent, as far as its client's share allows.
    fn widen(&mut self, bytes: u64) {
        if bytes > u64::from(UNSENT_MIN) && self.unsent_room.is_none() {
            self.unsent_room = self.unsent.widen(&self.stream);
        }
    }

    /// Gives back what [`Wire::widen`] took once the client has nearly all of it.
    fn narrow(&mut self) {
        if self.unsent_room.is_some() && self.unsent.narrow(&self.stream) {
            self.unsent_room = None;
        }
    }

    /// Takes a buffer of the pool, within the shares of this connection and its address.
    async fn take_buffer(&mut self, class: BufClass) -> Result<(Buf, Charge), Abort> {
        let buffers = lane::current().buffers().clone();
        // Large buffers are few: without one a transfer goes on in small steps.
        if class == BufClass::Large
            && let Some(held) = self.large_buffers.try_charge(class.bytes())
            && let Some(buf) = buffers.try_get(class)
        {
            return Ok((buf, held));
        }
        let bytes = BufClass::Small.bytes();
        let held = match self.account.try_charge(bytes) {
            Some(held) => held,
            None => {
                let deadline = now() + self.stall;
                let held = self.alarm.race(deadline, self.account.acquire(bytes)).await;
                held.map_err(|Elapsed| Abort::Evicted)?
            }
        };
        Ok((buffers.get(BufClass::Small).await, held))
    }

    /// Returns `future`'s output, unless the client takes nothing for too long while it waits, or what it is sent too
    /// slowly. `handed` says how many bytes of the connection the socket has by now.
    async fn unless_stalled<F: Future>(
        &mut self,
        future: F,
        handed: impl Fn() -> u64,
    ) -> Result<F::Output, Abort> {
        let account = Rc::clone(&self.account);
        let mut future = pin!(account.unless_short(future));
        let mut watch = ProgressWatch::default();
        loop {
            let look_at = watch.next_look(self.stall);
            if let Ok(output) = self.alarm.race(look_at, future.as_mut()).await {
                return Ok(output?);
            }
            let taken = self.taken(handed())?;
            watch.look(taken.bytes, self.stall)?;
            let client_time = self.client_time();
            if let Some((transfer, _)) = &mut self.transfer {
                transfer.check(taken, self.send_rate_min, self.stall, client_time)?;
            }
        }
    }

    /// Returns what the client has taken of `handed` bytes that the socket got: one system call.
    fn taken(&self, handed: u64) -> Result<Taken, Abort> {
        let left = self.stream.unacknowledged()?;
        Ok(Taken { bytes: handed as i64 - left as i64, is_owed_more: left > 0 })
    }

    /// Begins to judge how fast the client takes a body, if there is a floor. Answers that follow one another
    /// are judged together.
    pub(super) fn begin_transfer(&mut self) {
        if self.send_rate_min > 0 && self.transfer.is_none() {
            self.transfer = Some((BodyTransfer::default(), now() + self.stall / LOOKS));
        }
    }

    /// Notes that the body has been handed to the socket.
    pub(super) fn end_transfer(&mut self) {
        self.transfer = None;
    }

    /// Judges a client that always has room in its socket, now and then.
    pub(super) fn judge_transfer(&mut self) -> Result<(), Abort> {
        if self.transfer.as_ref().is_none_or(|(_, judged_at)| now() < *judged_at) {
            return Ok(());
        }
        let (taken, client_time) = (self.taken(self.sent)?, self.client_time());
        if let Some((transfer, judged_at)) = &mut self.transfer {
            transfer.check(taken, self.send_rate_min, self.stall, client_time)?;
            *judged_at = now() + self.stall / LOOKS;
        }
        Ok(())
    }

    /// Returns the time on a clock that stands still while the server's rate keeps the connection waiting.
    fn client_time(&self) -> Instant {
        now() - self.waited
    }

    /// Waits for leave to send, within the server's rate, some of `want` bytes.
    async fn permit(&mut self, want: usize) -> usize {
        if !self.ticket.is_bounded() {
            return self.ticket.grant(want).await;
        }
        let asked = now();
        let granted = self.ticket.grant(want).await;
        self.waited += now().duration_since(asked);
        granted
    }

    /// Sends handshake messages, alerts and key updates.
    async fn send_tls_output(&mut self) -> Result<(), Abort> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let (controls, output) = (tls.take_kernel_control(), tls.take_output());
        for KernelControl { record_type, payload, then_rekey } in controls {
            while !self.stream.try_send_record(record_type, &payload)? {
                self.wait_writable().await?;
            }
            if let Some(next) = then_rekey {
                self.stream.set_tls_key(next.as_bytes()).map_err(io::Error::other)?;
            }
        }
        if output.is_empty() {
            return Ok(());
        }
        self.push_out(&output, false).await
    }

    /// Sends a buffer. When it ends the answer it goes through the ring: the kernel is entered once for the
    /// short answers of a whole turn. When file pages follow it must be in the socket before them.
    async fn push_buffer(&mut self, buf: Buf, more: bool) -> Result<(), Abort> {
        if more || buf.len() > QUEUED_SEND_MAX {
            return self.push_out(&buf, more).await;
        }
        let mut granted = 0;
        while granted < buf.len() {
            granted += self.permit(buf.len() - granted).await;
        }
        let len = buf.len() as u64;
        let (stream, handed) = (Rc::clone(&self.stream), self.sent);
        let (sent, _) = self.unless_stalled(stream.send(buf, false), || handed).await?;
        sent?;
        self.sent += len;
        Ok(())
    }

    async fn push_out(&mut self, bytes: &[u8], more: bool) -> Result<(), Abort> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let granted = self.permit(rest.len()).await;
            let more = more || granted < rest.len();
            let sent = self.stream.try_send(&[IoSlice::new(&rest[..granted])], more)?;
            self.ticket.give_back(granted - sent.unwrap_or(0));
            match sent {
                Some(sent) => {
                    self.sent += sent as u64;
                    rest = &rest[sent..];
                }
                None => self.wait_writable().await?,
            }
        }
        Ok(())
    }

    /// Waits for room in the socket. A buffer that is held meanwhile is given back when others need it more.
    async fn wait_writable(&mut self) -> Result<(), Abort> {
        let (stream, handed) = (Rc::clone(&self.stream), self.sent);
        Ok(self.unless_stalled(stream.writable(), || handed).await??)
    }

    fn offer_to_kernel(&mut self, support: &mut KtlsSupport) -> Result<(), UserSpaceReason> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let can_rekey = self.stream.can_change_tls_key();
        let Some(keys) = tls.kernel_tx_keys(0, can_rekey) else { return Err(UserSpaceReason::KeyUpdate) };
        support.should_try(keys)?;
        let Ok(info) = CryptoInfo::new(keys) else { return Err(UserSpaceReason::NoCipher) };
        match self.stream.set_tls_key(info.as_bytes()) {
            Ok(()) => {
                tls.use_kernel_tx(can_rekey);
                Ok(())
            }
            Err(refusal) => Err(support.note_refusal(keys, &refusal)),
        }
    }
}

/// Result of [`Wire::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The socket brought at least one record or segment; with TLS perhaps no plaintext yet.
    Bytes,
    /// The peer sends no more.
    End,
}

fn timed_out() -> Abort {
    Abort::Io(io::ErrorKind::TimedOut.into())
}

//@ limit: TLS handshakes whose messages are not whole
//@ section: HTTP
//@ unit: byte
//@ connection: {HANDSHAKE_BYTES_FREE:b} with its place, a ClientHello of 16 KiB on the books
//@ address: on the books of memory of replies
//@ empty: the connection ends; others feel nothing
//@ counter: http_tls_handshakes{kind="failed"}, http_aborted{cause="evicted"}, http_reply_memory_bytes
//@ attack: http-places-taken
/// Bytes of a handshake that are kept with the connection's place: ClientHellos with post-quantum keys are
/// shorter.
const HANDSHAKE_BYTES_FREE: usize = 4 << 10;
/// A longer send may take several steps, between which progress is watched.
const QUEUED_SEND_MAX: usize = 32 * 1024;
