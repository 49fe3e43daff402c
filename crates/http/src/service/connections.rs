//! The open connections of a lane, for what concerns all of them at once: their number, and how they leave.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use lane::backend::SocketOption;
use lane::net::TcpStream;
use slab::Slab;

use super::counters::HttpCounters;

/// Open connections, and how the kernel is to send what they send.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: RefCell<Slab<Weak<TcpStream>>>,
    /// Bytes per second of each.
    pacing: Cell<Option<u64>>,
    /// Mark of their packets; 0 for none.
    mark: Cell<u32>,
}

impl Connections {
    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Takes a new connection in, which leaves as all do. The key is for [`Connections::remove`].
    pub(super) fn insert(&self, stream: &Rc<TcpStream>, counters: &HttpCounters) -> usize {
        if let Some(rate) = self.pacing.get() {
            pace(stream, rate, counters);
        }
        if self.mark.get() != 0 {
            mark(stream, self.mark.get(), counters);
        }
        counters.connections.add(1);
        self.open.borrow_mut().insert(Rc::downgrade(stream))
    }

    pub(super) fn remove(&self, key: usize, counters: &HttpCounters) {
        self.open.borrow_mut().remove(key);
        counters.connections.sub(1);
    }

    /// Bounds the rate of each connection, open or to come.
    pub(super) fn set_pacing(&self, rate: Option<u64>, counters: &HttpCounters) {
        if self.pacing.replace(rate) != rate {
            self.for_each(|stream| pace(stream, rate.unwrap_or(u64::MAX), counters));
        }
    }

    /// Marks the packets of every connection, open or to come; 0 takes the mark away.
    pub(super) fn set_mark(&self, new: u32, counters: &HttpCounters) {
        counters.egress_mark.set(u64::from(new));
        if self.mark.replace(new) != new {
            self.for_each(|stream| {
                mark(stream, new, counters);
                counters.connections_remarked.increment();
            });
        }
    }

    fn for_each(&self, mut act: impl FnMut(&TcpStream)) {
        for (_, stream) in self.open.borrow().iter() {
            if let Some(stream) = stream.upgrade() {
                act(&stream);
            }
        }
    }
}

/// A connection that could not be bounded or marked works, so it goes on; the count tells.
fn pace(stream: &TcpStream, rate: u64, counters: &HttpCounters) {
    if stream.set_option(SocketOption::PacingRate(rate)).is_err() {
        counters.pacing_failed.increment();
    }
}

fn mark(stream: &TcpStream, mark: u32, counters: &HttpCounters) {
    if stream.set_option(SocketOption::Mark(mark)).is_err() {
        counters.marks_failed.increment();
    }
}
