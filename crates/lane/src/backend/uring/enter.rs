//! Calls into the kernel: queued entries are handed over, waits end, and all operations are cancelled when
//! the lane goes.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use io_uring::opcode;
use io_uring::types::{CancelBuilder, Fd as RingFd, SubmitArgs, Timespec};

use super::key::Key;
use super::{Uring, setup};

impl Uring {
    /// Hands over queued entries and runs the kernel's deferred work, without waiting.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.count_syscall();
        let mut ring = self.ring.borrow_mut();
        let queued = ring.submission().len();
        self.counters.submissions.add(queued as u64);
        let queued = u32::try_from(queued).expect("the ring is far smaller");
        // SAFETY: no argument is passed, and every queued entry's memory is owned by `ops` or `sockets`.
        match unsafe { ring.submitter().enter::<libc::sigset_t>(queued, 0, ENTER_GETEVENTS, None) } {
            Ok(_) => Ok(()),
            Err(error) => ignore_transient(error),
        }
    }

    pub(super) fn enter_and_wait(&self, deadline: Option<Instant>) -> io::Result<()> {
        self.count_syscall();
        self.counters.parks.increment();
        let mut ring = self.ring.borrow_mut();
        self.counters.submissions.add(ring.submission().len() as u64);
        let gather = self.gather.take();
        let entered = match deadline {
            None => ring.submitter().submit_and_wait(1),
            Some(deadline) => {
                let wait = deadline.saturating_duration_since(Instant::now());
                let timespec = Timespec::from(wait);
                let args = SubmitArgs::new().timespec(&timespec);
                if gather > Duration::ZERO && wait > gather && ring.params().is_feature_min_timeout() {
                    self.counters.gathers.increment();
                    let gather = u32::try_from(gather.as_micros()).unwrap_or(u32::MAX);
                    ring.submitter().submit_with_args(GATHERED_MAX, &args.min_wait_usec(gather))
                } else {
                    ring.submitter().submit_with_args(1, &args)
                }
            }
        };
        entered.map(drop).or_else(ignore_transient)
    }

    /// Returns the number of operations under way that read or write the lane's memory.
    fn in_our_memory(&self) -> usize {
        self.ops.borrow().in_flight() + self.multishots.get()
    }
}

impl Drop for Uring {
    /// Cancels everything and waits until the kernel has let go of the lane's memory. What it does not let go
    /// of in time it may write to for ever: that memory stays mapped and is used for nothing else. So does
    /// what peers have not acknowledged of zero-copy sends, which is not waited for as long: how long that
    /// takes is theirs to say.
    fn drop(&mut self) {
        // What still arrives has no receiver.
        for fd in self.sockets.take().descriptors() {
            self.push(&opcode::Close::new(RingFd(fd)).build(), Key::IGNORED);
        }
        self.push(&opcode::AsyncCancel2::new(CancelBuilder::any()).build(), Key::IGNORED);
        let began = Instant::now();
        let give_up = began + self.options.patience;
        let give_peers_up = began + self.options.patience.min(PATIENCE_WITH_PEERS);
        // Once in any case: closes that were only queued would leave listeners open, and clients in their
        // queues, for as long as the process lives.
        loop {
            let soon = Instant::now() + Duration::from_millis(10);
            if self.enter_and_wait(Some(soon)).is_err() {
                break;
            }
            self.reap();
            let (left, now) = (self.in_our_memory(), Instant::now());
            let only_peers = left == self.ops.borrow().lasting();
            if left == 0 || now > give_up || (only_peers && now > give_peers_up) {
                // What the last to end left to be closed.
                let _ = self.enter();
                break;
            }
        }
        let left = self.in_our_memory();
        if left > 0 {
            //@ limit: operations in the kernel when a lane ends
            //@ section: Lanes
            //@ unit: second
            //@ all: lane: 5
            //@ empty: their memory stays mapped until the process ends; the lane ends that much later
            //@ counter: lane_abandoned
            //@ attack: none, it is the kernel's delay at the end of a lane
            //@ reach: server
            self.counters.abandoned.add(left as u64);
            std::mem::forget((self.ops.take(), Rc::clone(&self.streams), self.datagrams.take()));
            std::mem::forget(std::mem::replace(
                &mut self.message_template,
                Box::new(setup::message_template()),
            ));
        }
    }
}

/// Turns interruptions, an elapsed wait and a busy completion queue into success, as none is a failure of the
/// loop.
fn ignore_transient(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
        _ => Err(error),
    }
}

/// Longest wait for peers: a round trip as a rule, within which a peer with more to send has shown it.
const PATIENCE_WITH_PEERS: Duration = Duration::from_millis(200);
/// Completions that end at once a park that gathers.
const GATHERED_MAX: usize = 64;
/// Flag IORING_ENTER_GETEVENTS: deferred work runs only when events are asked for.
const ENTER_GETEVENTS: u32 = 1;
