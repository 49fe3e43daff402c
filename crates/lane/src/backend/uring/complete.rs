//! Handling of completions: bytes, datagrams and connections go to their sockets, outcomes to their
//! operations.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::task::Waker;

use io_uring::{cqueue, opcode};

use super::key::{Key, Kind};
use super::ops::EndedOperation;
use super::sockets::{Arrived, CONNECTIONS_UNTAKEN_MAX, Receive, Socket};
use super::{Uring, setup};
use crate::backend::StreamToken;
use crate::backend::operation::{Keeper, Op, Opened, Outcome};
use crate::backend::receive::{Kept, datagrams_lent_max};
use crate::buffer::RecvBuf;

/// Disposal of results that no task waited for.
impl Keeper for &Uring {
    fn close(&mut self, opened: Opened) {
        // The kernel closes it.
        drop(opened);
    }

    fn put_back(&mut self, stream: StreamToken, mut bytes: Vec<u8>) {
        bytes.shrink_to_fit();
        self.give_back(stream, RecvBuf::from_vec(bytes));
    }
}

impl Uring {
    /// Takes all completions of the ring, and the jobs that helper threads finished.
    pub(super) fn reap(&self) {
        self.reclaim();
        loop {
            let Some(entry) = self.ring.borrow_mut().completion().next() else { break };
            self.counters.completions.increment();
            self.complete(&entry);
        }
        while let Some((key, result)) = self.helped.pop() {
            self.end(key, result);
        }
        self.keep_budget();
        self.feed_starved();
        let woken = self.woken.take();
        woken.into_iter().for_each(Waker::wake);
    }

    fn complete(&self, entry: &cqueue::Entry) {
        let key = Key::unpack(entry.user_data());
        match key.kind {
            Kind::Ignored => {}
            Kind::Accept | Kind::Stream | Kind::Datagrams => self.complete_socket(key, entry),
            Kind::Op if cqueue::more(entry.flags()) => {
                let waker = self.ops.borrow_mut().get_mut(key).and_then(|op| op.progress(entry.into(), self));
                self.woken.borrow_mut().extend(waker);
            }
            Kind::Op => self.end(key, |op| op.complete(entry.into(), self)),
            Kind::Unpark if !cqueue::more(entry.flags()) => self.arm_unpark(),
            Kind::Unpark => {}
            Kind::Mounts => {
                if let Some(watching) = &mut *self.watcher.borrow_mut() {
                    watching.mounts_moved = true;
                    self.woken.borrow_mut().extend(watching.waker.take());
                }
                // A kernel that cannot poll the list would say so again and again.
                if entry.result() >= 0 {
                    self.arm_mounts();
                }
            }
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

    /// Ends an operation with the result of `outcome`, and wakes its task.
    fn end(&self, key: Key, outcome: impl FnOnce(Op) -> Outcome) {
        let ended = self.ops.borrow_mut().finish(key, outcome);
        match ended {
            EndedOperation::Told(waker) => self.woken.borrow_mut().extend(waker),
            EndedOperation::Unwanted(outcome, held) => {
                outcome.abandon(&mut &*self);
                self.close_let_go();
                drop(held);
            }
        }
    }

    /// Takes a completion of a multishot accept or receive, which brought something or ended.
    fn complete_socket(&self, key: Key, entry: &cqueue::Entry) {
        let result = setup::result_of(entry);
        if !cqueue::more(entry.flags()) {
            self.multishots.set(self.multishots.get() - 1);
        }
        let mut sockets = self.sockets.borrow_mut();
        let udp_sockets = sockets.udp();
        let Some(socket) = sockets.of_completion(key.index, key.generation) else {
            drop(sockets);
            self.discard(key.kind, entry, &result);
            return;
        };
        let armed = cqueue::more(entry.flags());
        if !armed {
            socket.receive = Receive::Off;
        }
        let fd = key.index.cast_signed();
        match result {
            Ok(n) => self.arrive(socket, entry, n),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && key.kind != Kind::Accept => {
                self.note_starved(fd, socket);
                return;
            }
            // A pause has ended. A task that asked meanwhile goes on waiting.
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {
                match socket.keeps_quiet {
                    true => self.woken.borrow_mut().extend(socket.tell()),
                    false if socket.waker.is_some() => self.arm_receive(fd, socket),
                    false => {}
                }
                return;
            }
            Err(error) => socket.error = Some(error),
        }
        let waker = socket.tell();
        if armed && socket.receive == Receive::On && self.is_crowded(socket, udp_sockets) {
            self.counters.recv_paused.increment();
            self.pause(fd, socket);
        }
        self.woken.borrow_mut().extend(waker);
    }

    pub(super) fn pause(&self, fd: i32, socket: &mut Socket) {
        let kind = match socket.arrived {
            Arrived::Connections(_) => Kind::Accept,
            Arrived::Bytes(_) => Kind::Stream,
            Arrived::Datagrams(_) => Kind::Datagrams,
        };
        socket.receive = Receive::Pausing;
        let key = Key { kind, generation: socket.generation, index: fd.cast_unsigned() };
        self.push(&opcode::AsyncCancel::new(key.pack()).build(), Key::IGNORED);
    }

    /// Returns whether so much lies untaken that the kernel should hand over no more.
    fn is_crowded(&self, socket: &Socket, udp_sockets: usize) -> bool {
        match &socket.arrived {
            Arrived::Connections(queue) => queue.len() >= CONNECTIONS_UNTAKEN_MAX,
            Arrived::Bytes(untaken) => self.shares.is_crowded(untaken, socket.is_attended()),
            Arrived::Datagrams(queue) => {
                let ring: usize = self.options.datagram_buffers.into();
                queue.len() >= (datagrams_lent_max(ring) / udp_sockets.max(1)).max(1)
            }
        }
    }

    /// Returns whether so many datagram buffers are lent that no more may be.
    pub(super) fn is_datagram_ring_short(&self, lent: usize) -> bool {
        lent > datagrams_lent_max(self.options.datagram_buffers.into())
    }

    /// Takes buffers of the receive ring back from streams that left them untaken.
    fn reclaim(&self) {
        if self.shares.must_reclaim(self.streams.lent()) {
            let mut sockets = self.sockets.borrow_mut();
            let untaken = sockets.iter_mut().filter_map(|(_, socket)| match &mut socket.arrived {
                Arrived::Bytes(untaken) => Some(untaken),
                Arrived::Connections(_) | Arrived::Datagrams(_) => None,
            });
            self.counters.recv_reclaimed.add(self.shares.reclaim(untaken) as u64);
        }
    }

    /// Keeps the memory of copies within its limit.
    fn keep_budget(&self) {
        if self.shares.must_disarm() {
            for (fd, socket) in self.sockets.borrow_mut().iter_mut() {
                let is_stream = matches!(socket.arrived, Arrived::Bytes(_));
                // A stream with a waiting task begins again, for one buffer.
                if is_stream && socket.receive == Receive::On {
                    self.counters.recv_disarmed.increment();
                    self.pause(fd, socket);
                }
            }
        }
        self.counters.recv_held_bytes.set(self.shares.copied_bytes() as u64);
    }

    fn arrive(&self, socket: &mut Socket, entry: &cqueue::Entry, n: u32) {
        let attended = socket.is_attended();
        match &mut socket.arrived {
            Arrived::Connections(queue) => {
                self.counters.accepted.increment();
                // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
                queue.push_back(unsafe { OwnedFd::from_raw_fd(n.cast_signed()) });
            }
            Arrived::Bytes(untaken) => match cqueue::buffer_select(entry.flags()) {
                // A receive for one buffer may have taken one for the end of the stream.
                Some(id) if n == 0 => {
                    self.streams.note_lent();
                    self.streams.give_back(id);
                    socket.receive = Receive::Ended;
                }
                Some(id) => {
                    self.counters.bytes_in.add(u64::from(n));
                    self.streams.note_lent();
                    let buf = RecvBuf::provided(Rc::clone(&self.streams), id, 0, n as usize);
                    if self.shares.keep(untaken, buf, attended, self.streams.lent()) == Kept::Copied {
                        self.counters.recv_copied.increment();
                    }
                }
                None => socket.receive = Receive::Ended,
            },
            Arrived::Datagrams(queue) => {
                if let Some(mut datagram) = self.parse_datagram(entry, n) {
                    let lent = self.datagrams.borrow().as_ref().map_or(0, |ring| ring.lent());
                    if self.is_datagram_ring_short(lent) {
                        datagram.buf = RecvBuf::copied(&datagram.buf);
                        self.counters.recv_copied.increment();
                    }
                    self.counters.bytes_in.add(datagram.buf.len() as u64);
                    let count = datagram.buf.len().div_ceil(usize::from(datagram.segment.max(1)));
                    self.counters.datagrams_in.add(count as u64);
                    queue.push_back(datagram);
                }
            }
        }
    }

    /// Frees what a completion for a closed socket carries.
    fn discard(&self, kind: Kind, entry: &cqueue::Entry, result: &io::Result<u32>) {
        match (kind, cqueue::buffer_select(entry.flags()), result) {
            (Kind::Accept, _, Ok(fd)) => {
                // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
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
}
