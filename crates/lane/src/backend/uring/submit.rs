//! Submission of operations and receives to the kernel.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use crossbeam_queue::SegQueue;
use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};

use super::Uring;
use super::key::{Key, Kind};
use super::park::Parker;
use super::sockets::{Arrived, Receive, Socket};
use crate::backend::operation::{Answer, Job, Op, Start};
use crate::backend::{Fd, OpId, Unpark};
use crate::buffer::{BufRing, BufferPool, RecvBuf};
use crate::counters::LaneCounters;
use crate::helper::account;
use crate::helper::queue::Party;

impl Uring {
    /// Starts an operation on the ring, or on a helper thread.
    pub(super) fn start(&self, op: Op) -> OpId {
        let mut ops = self.ops.borrow_mut();
        let (key, op) = ops.insert(op);
        let start = op.prepare(self);
        drop(ops);
        match start {
            Start::Ring(entry) => self.push(&entry, key),
            Start::Helper(file, job) => self.submit_to_helper(key, file, job),
            Start::Ended(completion) => {
                drop(self.ops.borrow_mut().finish(key, |op| op.complete(completion, self)));
            }
            Start::Done(outcome) => drop(self.ops.borrow_mut().finish(key, |_| outcome)),
        }
        OpId(key.pack())
    }

    pub(crate) fn counters(&self) -> &LaneCounters {
        &self.counters
    }

    /// Returns whether the running kernel's ring has the operation of this entry.
    pub(crate) fn knows(&self, entry: &squeue::Entry) -> bool {
        self.opcodes.has(entry.get_opcode())
    }

    /// Returns whether the lane itself makes a call that touches this many pages of an open file. It does
    /// when there is no disk to wait for, and not so often in one turn that other tasks wait. Elsewhere the
    /// call takes its task a turn.
    pub(crate) fn makes_call(&self, file: Fd, pages: usize) -> bool {
        self.left_in_turn.get() > 0 && self.is_in_memory(file) && self.takes_of_turn(pages)
    }

    /// Returns whether the lane takes arrivals of a socket, up to this many pages, by a call of its own; a
    /// turn allows a limited number.
    pub(crate) fn receives_at_once(&self, pages: usize) -> bool {
        self.takes_of_turn(pages)
    }

    fn takes_of_turn(&self, pages: usize) -> bool {
        let left = self.left_in_turn.get();
        if left > 0 {
            self.left_in_turn.set(left.saturating_sub(1 + pages));
            self.count_syscall();
        }
        left > 0
    }

    /// Returns whether the kernel can be asked to tell if a zero-copy send copied.
    pub(crate) fn reports_copies(&self) -> bool {
        self.reports_copies.get()
    }

    /// Notes the end of a zero-copy send that ended at once. A kernel before 6.2 does not know the question.
    pub(crate) fn note_zero_copy(&self, ended: &io::Result<usize>) {
        if ended.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            self.reports_copies.set(false);
        }
    }

    /// Registers the pool's memory with the kernel, so that operations in it need not look its pages up. It
    /// is all in memory from then on and counts for RLIMIT_MEMLOCK; where that does not allow it, all goes on
    /// without.
    pub(crate) fn register_buffers(&self, pool: &BufferPool) {
        let part = |range: std::ops::Range<usize>| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(if range.is_empty() { 0 } else { range.start }),
            iov_len: range.len(),
        };
        let parts = pool.addresses().map(part);
        // SAFETY: the ranges are the pool's own mappings. The kernel holds their pages until the ring is gone.
        match unsafe { self.ring.borrow().submitter().register_buffers(&parts) } {
            Ok(()) => pool.set_registered(),
            Err(_) => self.counters.buffers_unregistered.increment(),
        }
    }

    /// Returns the flags that make a send wait until all is sent.
    pub(crate) fn wait_all(&self, socket: Fd) -> libc::c_int {
        self.sockets.borrow_mut().wait_all(socket.0)
    }

    /// Queues an entry, which the kernel sees at the next turn, or now if the queue is full.
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

    /// Takes the untaken arrivals of a stream, or the error that ends the stream; `None` where there is
    /// neither.
    pub(super) fn take_arrived(&self, socket: &mut Socket) -> Option<io::Result<RecvBuf>> {
        let Arrived::Bytes(untaken) = &mut socket.arrived else {
            return Some(Err(io::Error::from_raw_os_error(libc::EINVAL)));
        };
        socket.told = false;
        if let Some(bytes) = self.shares.take(untaken) {
            return Some(Ok(bytes));
        }
        let error = socket.error.take()?;
        socket.receive = Receive::Ended;
        Some(Err(error))
    }

    /// Makes the task of `cx` the one to wake at an arrival, and arms the socket if not armed.
    pub(super) fn wait_for_arrival(&self, fd: i32, socket: &mut Socket, cx: &mut Context<'_>) {
        socket.keeps_quiet = false;
        socket.wait(cx);
        self.arm_receive(fd, socket);
    }

    /// Starts the multishot operation of a socket, or the substitute for one buffer, if none is running.
    pub(super) fn arm_receive(&self, fd: i32, socket: &mut Socket) {
        // In a line for buffers its turn comes.
        if socket.receive != Receive::Off || socket.starved || socket.keeps_quiet {
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

    /// Starts a poll of the list of mounts, which tells of changes since the poll before.
    pub(super) fn arm_mounts(&self) {
        let watcher = self.watcher.borrow();
        let Some(mounts) = watcher.as_ref().and_then(|watching| watching.mounts.as_ref()) else { return };
        let poll = opcode::PollAdd::new(RingFd(mounts.raw_fd()), libc::POLLPRI.cast_unsigned().into());
        self.push(&poll.build(), Key { kind: Kind::Mounts, generation: 0, index: 0 });
    }

    /// Returns the ring of datagram buffers, made when the first UDP socket needs one.
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

    /// Runs `job` on the silo's helpers with a duplicate of the descriptor, as the lane may close the file
    /// meanwhile.
    pub(super) fn submit_to_helper(&self, key: Key, file: Fd, job: Job) {
        self.counters.helper_jobs.increment();
        self.count_syscall();
        let own = match self.borrow_fd(file).try_clone_to_owned() {
            Ok(own) => own,
            Err(error) => return self.refuse(key, error),
        };
        let asked = HelperRequest {
            key: Some(key),
            helped: Arc::clone(&self.helped),
            parker: Arc::clone(&self.parker),
            counters: Arc::clone(&self.counters),
        };
        let job = Box::new(move || {
            let counters = Arc::clone(&asked.counters);
            let answer = catch_unwind(AssertUnwindSafe(|| job(own)));
            asked.answer(answer.unwrap_or_else(|_| {
                Box::new(move |op| {
                    // On the lane again: the counter is its own.
                    counters.helper_panics.increment();
                    op.refuse(io::Error::other("the helper's job panicked"))
                })
            }));
        });
        // What is given back tells its end as it is dropped.
        let party = Party { client: account::current(), system: self.system_of(file) };
        drop(self.helpers.submit(party, job));
    }

    /// Ends an operation that was not begun with an error, at the next turn as any other.
    fn refuse(&self, key: Key, error: io::Error) {
        self.helped.push((key, Box::new(move |op| op.refuse(error))));
        self.parker.unpark();
    }
}

/// Request of a lane that a helper make an operation's call. Dropped undone, because others had their turn or
/// the helpers have ended, it is refused.
struct HelperRequest {
    /// Key of the operation; `None` once answered.
    key: Option<Key>,
    helped: Arc<SegQueue<(Key, Answer)>>,
    parker: Arc<Parker>,
    counters: Arc<LaneCounters>,
}

impl HelperRequest {
    fn answer(mut self, answer: Answer) {
        self.end(answer);
    }

    fn end(&mut self, answer: Answer) {
        if let Some(key) = self.key.take() {
            self.helped.push((key, answer));
            self.parker.unpark();
        }
    }
}

impl Drop for HelperRequest {
    fn drop(&mut self) {
        let counters = Arc::clone(&self.counters);
        self.end(Box::new(move |op| {
            counters.helper_refused.increment();
            op.refuse(io::Error::from_raw_os_error(libc::EAGAIN))
        }));
    }
}

//@ limit: calls on files that a lane makes itself
//@ section: Lanes
//@ unit: page written or let go
//@ connection: 1 MiB by one call; one message received
//@ all: lane: {} pages (8 MiB) or 256 calls in one turn
//@ empty: the ring's threads or a helper make it; a turn is 2 ms longer at most
//@ counter: lane_helper_jobs, lane_submissions
//@ attack: smb-cut
/// Most pages that a lane touches itself in a turn before other tasks run: 8 MiB, about two milliseconds; or
/// as many calls that touch none.
pub(super) const PAGES_A_TURN: usize = 2048;
