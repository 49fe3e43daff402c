//! Bounded mailboxes between lanes: one sending lane, one receiving lane, no lock.
//!
//! **Who may wait for whom.** Sending never waits: [`Sender::send`] gives the message back when the mailbox is full,
//! and the sender sheds it, counts it or keeps it for its next turn. Only receivers wait. So no cycle
//! of lanes can ever wait for each other, whatever they send.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::context;

/// Makes a mailbox for at most `capacity` messages. Each end may be moved to its lane; neither can be cloned.
pub fn mailbox<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let waker = Arc::new(AtomicWaker::new());
    (Sender { producer, waker: Arc::clone(&waker) }, Receiver { consumer, waker })
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<T> {
    producer: rtrb::Producer<T>,
    waker: Arc<AtomicWaker>,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    consumer: rtrb::Consumer<T>,
    waker: Arc<AtomicWaker>,
}

/// The mailbox was full, or its receiver is gone; here is the message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mailbox of the other lane is full")]
pub struct Full<T>(pub T);

impl<T: Send> Sender<T> {
    /// Puts a message into the mailbox and wakes the receiving lane if it waits.
    ///
    /// # Errors
    /// [`Full`] with the message.
    pub fn send(&mut self, message: T) -> Result<(), Full<T>> {
        if self.producer.is_abandoned() {
            return Err(Full(message));
        }
        match self.producer.push(message) {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(rtrb::PushError::Full(message)) => {
                context::try_with(|lane| lane.counters.mail_full.increment());
                Err(Full(message))
            }
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The receiver must learn that nothing more will come.
        self.waker.wake();
    }
}

impl<T: Send> Receiver<T> {
    /// The next message; `None` when the sender is gone and the mailbox empty.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Option<T> {
        self.consumer.pop().ok()
    }

    /// As [`Receiver::recv`], for hand-written futures.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Ok(message) = self.consumer.pop() {
            return Poll::Ready(Some(message));
        }
        self.waker.register(cx.waker());
        // Looked at before the last pop: a sender that is gone by then has pushed all it will.
        let abandoned = self.consumer.is_abandoned();
        match self.consumer.pop() {
            Ok(message) => Poll::Ready(Some(message)),
            Err(_) if abandoned => Poll::Ready(None),
            Err(_) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mailbox_gives_the_message_back() {
        let (mut sender, mut receiver) = mailbox(1);
        assert_eq!(sender.send(1), Ok(()));
        assert_eq!(sender.send(2), Err(Full(2)));
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!(sender.send(3), Ok(()));
    }

    #[test]
    fn messages_sent_before_the_sender_went_are_delivered() {
        let (mut sender, mut receiver) = mailbox(4);
        sender.send(1).unwrap();
        drop(sender);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(receiver.poll_recv(&mut cx), Poll::Ready(Some(1)));
        assert_eq!(receiver.poll_recv(&mut cx), Poll::Ready(None));
    }
}
