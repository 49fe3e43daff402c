//! What completions mean: bytes, datagrams and connections go to their sockets, outcomes to their operations.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::task::Waker;

use io_uring::{cqueue, opcode};

use super::key::{Key, Kind};
use super::sockets::{Arrived, Receive, Socket};
use super::{Uring, setup, submit};
use crate::buffer::RecvBuf;

impl Uring {
    /// Takes everything the ring has completed, and what helper threads finished.
    pub(super) fn reap(&self) {
        loop {
            let Some(entry) = self.ring.borrow_mut().completion().next() else { break };
            self.counters.completions.increment();
            self.complete(&entry);
        }
        while let Some((key, result)) = self.helped.pop() {
            let waker = self.ops.borrow_mut().finish(key, result);
            self.woken.borrow_mut().extend(waker);
        }
        self.feed_starved();
        let woken = self.woken.take();
        woken.into_iter().for_each(Waker::wake);
    }

    fn complete(&self, entry: &cqueue::Entry) {
        let key = Key::unpack(entry.user_data());
        match key.kind {
            Kind::Ignored => {}
            Kind::Accept | Kind::Stream | Kind::Datagrams => self.complete_socket(key, entry),
            Kind::Op => {
                let result = setup::result_of(entry);
                let waker = self.ops.borrow_mut().finish(key, |owned| submit::outcome(self, owned, result));
                self.woken.borrow_mut().extend(waker);
            }
            Kind::Unpark if !cqueue::more(entry.flags()) => self.arm_unpark(),
            Kind::Unpark => {}
            Kind::Watch => {
                if let Some(watching) = &mut *self.watcher.borrow_mut() {
                    watching.readable = true;
                    self.woken.borrow_mut().extend(watching.waker.take());
                }
                if !cqueue::more(entry.flags()) {
                    self.arm_watch();
                }
            }
        }
    }

    /// A multishot accept or receive handed something over, or ended.
    fn complete_socket(&self, key: Key, entry: &cqueue::Entry) {
        let result = setup::result_of(entry);
        let mut sockets = self.sockets.borrow_mut();
        let Some(socket) = sockets.of_completion(key.index, key.generation) else {
            drop(sockets);
            self.discard(key.kind, entry, &result);
            return;
        };
        let armed = cqueue::more(entry.flags());
        if !armed {
            socket.receive = Receive::Off;
        }
        match result {
            Ok(n) => self.arrive(socket, entry, n),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && key.kind != Kind::Accept => {
                self.counters.recv_starved.increment();
                self.starved.borrow_mut().push((key.index.cast_signed(), key.generation));
            }
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
            Err(error) => socket.error = Some(error),
        }
        if armed && socket.receive == Receive::On && socket.is_crowded() {
            socket.receive = Receive::Pausing;
            self.counters.recv_paused.increment();
            self.push(&opcode::AsyncCancel::new(key.pack()).build(), Key::IGNORED);
        }
        // A pause that ended leaves bytes behind; the task takes them and its next poll arms again.
        if let Some(waker) = socket.waker.take() {
            self.woken.borrow_mut().push(waker);
        }
    }

    fn arrive(&self, socket: &mut Socket, entry: &cqueue::Entry, n: u32) {
        match &mut socket.arrived {
            Arrived::Connections(queue) => {
                self.counters.accepted.increment();
                queue.push_back(n.cast_signed());
            }
            Arrived::Bytes(queue) => match cqueue::buffer_select(entry.flags()) {
                Some(id) => {
                    self.counters.bytes_in.add(u64::from(n));
                    self.streams.note_lent();
                    queue.push_back(RecvBuf::provided(Rc::clone(&self.streams), id, 0, n as usize));
                }
                None => socket.receive = Receive::Ended,
            },
            Arrived::Datagrams(queue) => {
                if let Some(datagram) = self.parse_datagram(entry, n) {
                    self.counters.bytes_in.add(datagram.buf.len() as u64);
                    let count = datagram.buf.len().div_ceil(usize::from(datagram.segment.max(1)));
                    self.counters.datagrams_in.add(count as u64);
                    queue.push_back(datagram);
                }
            }
        }
    }

    /// A completion for a socket that is closed: what it carries must not leak.
    fn discard(&self, kind: Kind, entry: &cqueue::Entry, result: &io::Result<u32>) {
        match (kind, cqueue::buffer_select(entry.flags()), result) {
            (Kind::Accept, _, Ok(fd)) => {
                // SAFETY: the kernel made this descriptor for us and nobody else knows it.
                drop(unsafe { OwnedFd::from_raw_fd(fd.cast_signed()) });
            }
            (Kind::Stream, Some(id), _) => {
                self.streams.note_lent();
                self.streams.give_back(id);
            }
            (Kind::Datagrams, Some(id), _) => {
                let ring = self.datagrams.borrow();
                let ring = ring.as_ref().expect("datagrams arrive in the datagram ring");
                ring.note_lent();
                ring.give_back(id);
            }
            _ => {}
        }
    }

    /// Lets receives that stopped for want of buffers start again.
    fn feed_starved(&self) {
        if self.starved.borrow().is_empty() {
            return;
        }
        let datagrams_ready = self.datagrams.borrow().as_ref().is_none_or(|ring| ring.is_replenished());
        if !self.streams.is_replenished() || !datagrams_ready {
            return;
        }
        for (fd, generation) in self.starved.take() {
            let mut sockets = self.sockets.borrow_mut();
            if let Some(socket) = sockets.get_mut(fd).filter(|s| s.generation == generation) {
                self.arm_receive(fd, socket);
            }
        }
    }
}
