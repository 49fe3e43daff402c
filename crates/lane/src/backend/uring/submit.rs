//! From operations to submission queue entries, and back from results to outcomes.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};

use super::key::{Key, Kind};
use super::ops::Owned;
use super::sockets::{Arrived, Receive, Socket};
use super::{HelperResult, Uring, files};
use crate::backend::{Fd, Op, OpId, Outcome};
use crate::buffer::BufRing;

/// Starts an operation on the ring, or on a helper thread when the ring has none or runs it badly.
pub(super) fn submit(uring: &Uring, op: Op) -> OpId {
    let key = match op {
        Op::Connect { socket, addr } => uring.submit_with(Owned::address(addr), |owned| {
            let Owned::Address(addr) = owned else { unreachable!("just made") };
            opcode::Connect::new(RingFd(socket.0), addr.as_ptr().cast(), addr.len()).build()
        }),
        Op::Send { socket, buf, from, more } => {
            let wait_all = uring.sockets.borrow_mut().wait_all(socket.0);
            uring.submit_with(Owned::Sent(buf), |owned| {
                let Owned::Sent(buf) = owned else { unreachable!("just made") };
                let bytes = &buf[from..];
                let len = u32::try_from(bytes.len()).expect("buffers are far below 4 GiB");
                let flags = libc::MSG_NOSIGNAL | wait_all | if more { libc::MSG_MORE } else { 0 };
                opcode::Send::new(RingFd(socket.0), bytes.as_ptr(), len).flags(flags).build()
            })
        }
        Op::Ready { socket, writable } => uring.submit_with(Owned::Nothing, |_| {
            let events = if writable { libc::POLLOUT } else { libc::POLLIN };
            opcode::PollAdd::new(RingFd(socket.0), u32::from(events.cast_unsigned())).build()
        }),
        Op::ReadAt { file, offset, len, buf } => uring.submit_with(Owned::Filled(buf), |owned| {
            let Owned::Filled(buf) = owned else { unreachable!("just made") };
            let room = buf.spare_mut();
            let len = u32::try_from(len.min(room.len())).expect("buffers are far below 4 GiB");
            opcode::Read::new(RingFd(file.0), room.as_mut_ptr(), len).offset(offset).build()
        }),
        Op::OpenAt { dir, path, how } => {
            let (flags, resolve) = files::open_rules(how);
            let how = io_uring::types::OpenHow::new().flags(flags.bits().into()).resolve(resolve.bits());
            uring.submit_with(Owned::Open(Box::new((path, how))), |owned| {
                let Owned::Open(open) = owned else { unreachable!("just made") };
                opcode::OpenAt2::new(RingFd(dir.0), open.0.as_ptr(), &raw const open.1).build()
            })
        }
        Op::Warm { file, offset, len } => uring.submit_to_helper(file, move |file| {
            let result = files::warm(file.as_fd(), offset, len).map(|()| len);
            Box::new(move |_| Outcome::Done(result, None))
        }),
        Op::StatAt { dir, path } => uring.submit_to_helper(dir, move |dir| {
            let result = files::stat_at(dir.as_fd(), &path);
            Box::new(move |_| Outcome::Stat(result))
        }),
        Op::ReadLinkAt { dir, path } => uring.submit_to_helper(dir, move |dir| {
            let result = files::read_link_at(dir.as_fd(), &path);
            Box::new(move |_| Outcome::Link(result))
        }),
        Op::ReadDir { dir, max } => uring.submit_to_helper(dir, move |dir| {
            let result = files::read_dir(dir.as_fd(), max);
            Box::new(move |_| Outcome::Entries(result))
        }),
    };
    OpId(key.pack())
}

/// What a finished ring operation means.
pub(super) fn outcome(uring: &Uring, owned: Owned, result: io::Result<u32>) -> Outcome<OwnedFd> {
    match owned {
        Owned::Open(_) => Outcome::Opened(result.and_then(|fd| {
            // SAFETY: the kernel made this descriptor for us and nobody else knows it.
            let fd = unsafe { OwnedFd::from_raw_fd(fd.cast_signed()) };
            files::settle(fd)
        })),
        Owned::Sent(buf) => {
            uring.counters.bytes_out.add(result.as_ref().map_or(0, |n| u64::from(*n)));
            Outcome::Done(result.map(|n| n as usize), Some(buf))
        }
        Owned::Filled(mut buf) => {
            let result = result.map(|n| n as usize);
            if let Ok(n) = result {
                buf.grow(n);
            }
            Outcome::Done(result, Some(buf))
        }
        Owned::Nothing | Owned::Address(_) => Outcome::Done(result.map(|n| n as usize), None),
    }
}

impl Uring {
    /// Queues an entry; the kernel sees it at the next turn, or now if the queue is full.
    pub(super) fn push(&self, entry: &squeue::Entry, key: Key) {
        let entry = entry.clone().user_data(key.pack());
        loop {
            // SAFETY: what the entry points to is owned by `ops`, or by `self` for multishots, until completion.
            let pushed = unsafe { self.ring.borrow_mut().submission().push(&entry) };
            if pushed.is_ok() {
                return;
            }
            self.count_syscall();
            // A full completion queue refuses submissions for a moment; the loop tries again.
            let _ = self.ring.borrow_mut().submit();
        }
    }

    /// Makes `cx` the one to wake when something arrives, and arms the socket if it is not.
    pub(super) fn wait_for_arrival(&self, fd: i32, socket: &mut Socket, cx: &mut Context<'_>) {
        match &mut socket.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => socket.waker = Some(cx.waker().clone()),
        }
        self.arm_receive(fd, socket);
    }

    /// Starts the multishot operation of a socket, or its stand-in for one buffer, if none is running.
    pub(super) fn arm_receive(&self, fd: i32, socket: &mut Socket) {
        // In a line for buffers its turn comes.
        if socket.receive != Receive::Off || socket.starved {
            return;
        }
        let (kind, entry) = match &socket.arrived {
            Arrived::Connections(_) => {
                let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                (Kind::Accept, opcode::AcceptMulti::new(RingFd(fd)).flags(flags).build())
            }
            Arrived::Bytes(_) if self.shares.is_tight() => {
                let once = opcode::Recv::new(RingFd(fd), std::ptr::null_mut(), 0);
                let entry = once.buf_group(self.streams.group()).build();
                (Kind::Stream, entry.flags(squeue::Flags::BUFFER_SELECT))
            }
            Arrived::Bytes(_) => {
                (Kind::Stream, opcode::RecvMulti::new(RingFd(fd), self.streams.group()).build())
            }
            Arrived::Datagrams(_) => match self.datagram_ring() {
                Ok(ring) => {
                    let template = &raw const *self.message_template;
                    (Kind::Datagrams, opcode::RecvMsgMulti::new(RingFd(fd), template, ring.group()).build())
                }
                Err(error) => {
                    socket.error = Some(error);
                    self.woken.borrow_mut().extend(socket.waker.take());
                    return;
                }
            },
        };
        socket.receive = Receive::On;
        self.multishots.set(self.multishots.get() + 1);
        let index = fd.cast_unsigned();
        self.push(&entry, Key { kind, generation: socket.generation, index });
    }

    pub(super) fn arm_unpark(&self) {
        let poll = opcode::PollAdd::new(RingFd(self.parker.raw_fd()), libc::POLLIN.cast_unsigned().into());
        self.push(&poll.multi(true).build(), Key { kind: Kind::Unpark, generation: 0, index: 0 });
    }

    pub(super) fn arm_watch(&self) {
        let Some(fd) = self.watcher.borrow().as_ref().map(|watching| watching.watcher.raw_fd()) else {
            return;
        };
        let poll = opcode::PollAdd::new(RingFd(fd), libc::POLLIN.cast_unsigned().into());
        self.push(&poll.multi(true).build(), Key { kind: Kind::Watch, generation: 0, index: 0 });
    }

    /// The ring of datagram buffers, made when the first UDP socket needs it.
    pub(super) fn datagram_ring(&self) -> io::Result<Rc<BufRing>> {
        let mut slot = self.datagrams.borrow_mut();
        if let Some(ring) = &*slot {
            return Ok(Rc::clone(ring));
        }
        let (count, size) = (self.options.datagram_buffers, self.options.datagram_buffer_bytes);
        let ring = Rc::new(BufRing::register(&self.ring.borrow().submitter(), 1, count, size)?);
        self.memory.add_pool(ring.addresses());
        Ok(Rc::clone(slot.insert(ring)))
    }

    fn submit_with(&self, owned: Owned, entry: impl FnOnce(&mut Owned) -> squeue::Entry) -> Key {
        let mut ops = self.ops.borrow_mut();
        let key = ops.insert(owned);
        let entry = entry(ops.owned_mut(key));
        drop(ops);
        self.push(&entry, key);
        key
    }

    /// Runs `job` on the silo's helpers with a descriptor of its own: the lane may close its one meanwhile.
    pub(super) fn submit_to_helper(
        &self,
        fd: Fd,
        job: impl FnOnce(OwnedFd) -> HelperResult + Send + 'static,
    ) -> Key {
        let key = self.ops.borrow_mut().insert(Owned::Nothing);
        self.counters.helper_jobs.increment();
        self.count_syscall();
        let refused =
            |error: io::Error| -> HelperResult { Box::new(move |_| Outcome::Done(Err(error), None)) };
        let own = match self.borrow_fd(fd).try_clone_to_owned() {
            Ok(own) => own,
            Err(error) => {
                self.helped.push((key, refused(error)));
                crate::backend::Unpark::unpark(&*self.parker);
                return key;
            }
        };
        let (helped, parker) = (Arc::clone(&self.helped), Arc::clone(&self.parker));
        let counters = Arc::clone(&self.counters);
        let submitted = self.helpers.submit(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| job(own)));
            let result = result.unwrap_or_else(|_| {
                Box::new(move |_| {
                    // On the lane again: the counter is its own.
                    counters.helper_panics.increment();
                    Outcome::Done(Err(io::Error::other("the helper's job panicked")), None)
                })
            });
            helped.push((key, result));
            crate::backend::Unpark::unpark(&*parker);
        }));
        if submitted.is_err() {
            self.counters.helper_refused.increment();
            self.helped.push((key, refused(io::Error::from_raw_os_error(libc::EAGAIN))));
            crate::backend::Unpark::unpark(&*self.parker);
        }
        key
    }
}
