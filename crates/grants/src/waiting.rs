//! Requests that wait for holders. A waiter stays in the list until it leaves, so that meanwhile no caching
//! is granted that would have to be broken for it.

use crate::ExemptHolder;
use crate::conflict::FileOperation;
use crate::event::{Event, Ticket};

/// The queue of operations that wait for an object's holders.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    list: Vec<Waiter>,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    /// Name of the waiter's stream.
    pub(crate) stream: Box<[u8]>,
    pub(crate) by: Option<ExemptHolder>,
    pub(crate) operation: FileOperation,
    /// Set if the waiter was woken and has not repeated its request.
    is_woken: bool,
}

impl WaitQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.list.iter()
    }

    /// Adds a waiting request, or updates one that is repeated.
    pub(crate) fn join(
        &mut self,
        ticket: Ticket,
        stream: &[u8],
        by: Option<ExemptHolder>,
        operation: FileOperation,
    ) {
        match self.list.iter_mut().find(|waiter| waiter.ticket == ticket) {
            Some(waiter) => {
                waiter.operation = operation;
                waiter.is_woken = false;
            }
            None => {
                self.list.push(Waiter { ticket, stream: stream.into(), by, operation, is_woken: false });
            }
        }
    }

    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.list.retain(|waiter| waiter.ticket != ticket);
    }

    /// Wakes the waiters of a stream after something was given back.
    pub(crate) fn wake(&mut self, stream: &[u8], events: &mut Vec<Event>) {
        for waiter in &mut self.list {
            if *waiter.stream == *stream && !std::mem::replace(&mut waiter.is_woken, true) {
                events.push(Event::Wake(waiter.ticket));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn sleeping(&self) -> impl Iterator<Item = &Waiter> {
        self.list.iter().filter(|waiter| !waiter.is_woken)
    }
}
