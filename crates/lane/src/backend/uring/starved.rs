//! Receives that found no buffer in their ring, and begin again in turn as buffers come back.

use std::collections::VecDeque;

use super::Uring;
use super::sockets::{Arrived, Socket};

/// Lines of sockets before the two rings. Each socket stands in one of them at most once.
#[derive(Default)]
pub(super) struct Starved {
    streams: VecDeque<(i32, u32)>,
    datagrams: VecDeque<(i32, u32)>,
}

impl Uring {
    /// Notes that a receive found its ring empty. If a task waits the receive is queued, else it begins with
    /// the next request.
    pub(super) fn note_starved(&self, fd: i32, socket: &mut Socket) {
        self.counters.recv_starved.increment();
        if !socket.is_attended() || std::mem::replace(&mut socket.starved, true) {
            return;
        }
        let mut starved = self.starved.borrow_mut();
        let line = match socket.arrived {
            Arrived::Datagrams(_) => &mut starved.datagrams,
            Arrived::Bytes(_) | Arrived::Connections(_) => &mut starved.streams,
        };
        line.push_back((fd, socket.generation));
    }

    /// Begins as many receives again as the rings have buffers for. Bytes wait for each of them, so the next
    /// turn comes soon, and more of them with it.
    pub(super) fn feed_starved(&self) {
        let starved = &mut *self.starved.borrow_mut();
        if starved.streams.is_empty() && starved.datagrams.is_empty() {
            return;
        }
        self.feed(&mut starved.streams, self.shares.to_feed(self.streams.lent()));
        let ring = self.datagrams.borrow().clone();
        if ring.is_some_and(|ring| !self.is_datagram_ring_short(ring.lent())) {
            self.feed(&mut starved.datagrams, 1);
        }
    }

    fn feed(&self, line: &mut VecDeque<(i32, u32)>, most: usize) {
        let mut sockets = self.sockets.borrow_mut();
        let mut armed = 0;
        while armed < most {
            let Some((fd, generation)) = line.pop_front() else { return };
            let socket = sockets.get_mut(fd).filter(|socket| socket.generation == generation);
            let Some(socket) = socket else { continue };
            socket.starved = false;
            if socket.waker.is_some() {
                self.arm_receive(fd, socket);
                armed += 1;
            }
        }
    }
}
