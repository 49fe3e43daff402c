//! The receiving side: a member's port at an exchange.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::calls::Ticket;
use super::exchange::{Envelope, ExchangeShared, MailEnd};
use super::members::{Member, Members};
use super::sender::Sender;
use crate::backend;

/// Port at which a member takes the mail of one exchange. Dropped, it closes: what is unread is dropped, and
/// calls among it end unanswered.
pub struct Port<M: Send + 'static, R: Send + 'static = ()> {
    shared: Arc<ExchangeShared<M, R>>,
    me: Member,
    /// Senders that may have messages in their boxes.
    unread: Members,
    /// Member at which the next look begins: every sender has its turn.
    next: usize,
    /// True if a ring was given out last.
    rang_last: bool,
}

/// Mail that a port takes.
#[derive(Debug)]
pub enum Mail<M, R: Send + 'static = ()> {
    /// A member rang, once or often: the receiver looks at what is shared.
    Rung,
    /// A message from a member.
    Cast(Member, M),
    /// A message from a member that asks for an answer, with the ticket for that.
    Call(Member, M, Ticket<R>),
}

impl<M: Send + 'static, R: Send + 'static> Port<M, R> {
    pub(super) fn new(shared: Arc<ExchangeShared<M, R>>, me: Member) -> Self {
        let unread = Members::none_of(shared.members());
        Self { shared, me, unread, next: 0, rang_last: false }
    }

    /// Returns the member that owns the port.
    pub fn member(&self) -> Member {
        self.me
    }

    /// Returns the sender of the same member.
    pub fn sender(&self) -> Sender<M, R> {
        Sender::new(Arc::clone(&self.shared), self.me)
    }

    /// Takes the next mail, of each sender in turn; returns `None` when the port is closed and all was taken.
    pub async fn recv(&mut self) -> Option<Mail<M, R>> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next mail, for hand-written futures ([`Port::recv`]).
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Mail<M, R>>> {
        if let Some(mail) = self.try_recv() {
            return Poll::Ready(Some(mail));
        }
        self.end().doorbell.listen(cx.waker());
        if let Some(mail) = self.try_recv() {
            return Poll::Ready(Some(mail));
        }
        if !self.end().is_closing() {
            return Poll::Pending;
        }
        // Word of what was sent before the port closed may still be on its way, and need not be waited for.
        let unread: Vec<Member> = self.end().unread().collect();
        unread.iter().for_each(|&from| self.unread.insert(from));
        match self.try_recv() {
            Some(mail) => Poll::Ready(Some(mail)),
            None if unread.is_empty() => Poll::Ready(None),
            None => {
                // A sender is just putting it there.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Takes the next mail if there is any now.
    pub fn try_recv(&mut self) -> Option<Mail<M, R>> {
        if !self.rang_last && self.end().doorbell.take_called() {
            self.rang_last = true;
            return Some(Mail::Rung);
        }
        self.rang_last = false;
        if let Some((from, envelope)) = self.take_letter() {
            backend::try_with(|backend| backend.counters().mail_received.increment());
            return Some(match envelope.ticket {
                None => Mail::Cast(from, envelope.message),
                Some(ticket) => Mail::Call(from, envelope.message, ticket),
            });
        }
        self.end().doorbell.take_called().then_some(Mail::Rung)
    }

    /// Refuses new mail from now on; what was sent before can still be taken.
    pub fn close(&mut self) {
        self.end().close();
    }

    fn take_letter(&mut self) -> Option<(Member, Envelope<M, R>)> {
        let end = self.shared.end(self.me).expect("made when the port was opened");
        end.doorbell.take_senders().for_each(|(word, bits)| self.unread.add_word(word, bits));
        while let Some(from) = self.unread.next_from(self.next) {
            self.next = from.index() + 1;
            match end.take(from) {
                Some(envelope) => return Some((from, envelope)),
                // What comes after this look rings again.
                None => self.unread.remove(from),
            }
        }
        None
    }

    fn end(&self) -> &MailEnd<M, R> {
        self.shared.end(self.me).expect("made when the port was opened")
    }
}

impl<M: Send + 'static, R: Send + 'static> Drop for Port<M, R> {
    fn drop(&mut self) {
        let lost = self.end().abandon();
        backend::try_with(|backend| backend.counters().mail_lost.add(lost as u64));
    }
}

impl<M: Send + 'static, R: Send + 'static> std::fmt::Debug for Port<M, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("member", &self.me).finish_non_exhaustive()
    }
}
