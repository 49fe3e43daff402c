//! Sharing of a lane's receive buffers among its streams, on io_uring and in simulated worlds alike.
//!
//! The kernel fills buffers of one ring. A stream whose task waits is lent the buffer as it is. What arrives
//! for a stream without a waiting task is kept too, but never at the others' cost:
//!
//! - little of it is copied behind what the stream holds already, so that single bytes share one piece of memory;
//! - once half of the ring is lent nothing more is: what arrives is copied out. So after every turn half of
//!   the ring is with the kernel again. Of what is left untaken, those that hold most have theirs copied out
//!   first;
//! - the copies of all streams have one budget. Half of it used, it is tight: all receives are disarmed, and
//!   until less than a quarter is used each begins again only while its task waits, and for one buffer. So
//!   what comes then is taken, and no task waits longer.

use std::cell::Cell;
use std::collections::VecDeque;

use crate::buffer::RecvBuf;

/// Account of the bytes that one lane received and no task has taken.
#[derive(Debug)]
pub(crate) struct ReceiveShares {
    ring_buffers: usize,
    buffer_bytes: usize,
    /// Number of the ring's buffers among untaken bytes.
    lent: Cell<usize>,
    /// Bytes of memory of untaken copies.
    copied_bytes: Cell<usize>,
    /// True from when half of the copies' budget is used until less than a quarter is.
    tight: Cell<bool>,
}

/// Bytes that one stream has received and no task has taken.
#[derive(Debug, Default)]
pub(crate) struct Untaken {
    queue: VecDeque<RecvBuf>,
    lent: usize,
    copied_bytes: usize,
}

/// Way in which an arrival was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The stream has the ring's buffer.
    Lent,
    /// The stream has a copy, and the ring its buffer again.
    Copied,
}

impl ReceiveShares {
    pub(crate) fn new(ring_buffers: usize, buffer_bytes: usize) -> Self {
        Self {
            ring_buffers,
            buffer_bytes,
            lent: Cell::new(0),
            copied_bytes: Cell::new(0),
            tight: Cell::new(false),
        }
    }

    /// Keeps `buf`, a buffer of the ring, for its stream. `lent` says how many the ring has lent to streams,
    /// this one included; `attended` whether the stream's task waits or is about to run.
    pub(crate) fn keep(&self, untaken: &mut Untaken, buf: RecvBuf, attended: bool, lent: usize) -> Kept {
        let little = buf.len() * LITTLE_SHARE <= self.buffer_bytes;
        if self.is_short(lent) || (little && !attended) {
            let before = untaken.copied_bytes;
            untaken.append_copy(&buf, self.buffer_bytes);
            self.copied_bytes.set(self.copied_bytes.get() + untaken.copied_bytes - before);
            return Kept::Copied;
        }
        untaken.queue.push_back(buf);
        untaken.lent += 1;
        self.lent.set(self.lent.get() + 1);
        Kept::Lent
    }

    /// Takes the next bytes of a stream.
    pub(crate) fn take(&self, untaken: &mut Untaken) -> Option<RecvBuf> {
        let buf = untaken.queue.pop_front()?;
        match buf.heap_bytes() {
            None => {
                untaken.lent -= 1;
                self.lent.set(self.lent.get() - 1);
            }
            Some(bytes) => {
                untaken.copied_bytes -= bytes;
                self.copied_bytes.set(self.copied_bytes.get() - bytes);
                if self.copied_bytes.get() < self.budget_bytes() / 4 {
                    self.tight.set(false);
                }
            }
        }
        Some(buf)
    }

    /// Puts back bytes that were taken and are not wanted yet.
    pub(crate) fn put_back(&self, untaken: &mut Untaken, buf: RecvBuf) {
        if buf.is_empty() {
            return;
        }
        match buf.heap_bytes() {
            None => {
                untaken.lent += 1;
                self.lent.set(self.lent.get() + 1);
            }
            Some(bytes) => {
                untaken.copied_bytes += bytes;
                self.copied_bytes.set(self.copied_bytes.get() + bytes);
            }
        }
        untaken.queue.push_front(buf);
    }

    /// Drops the bytes that a closed stream left.
    pub(crate) fn drop_all(&self, untaken: &mut Untaken) {
        while self.take(untaken).is_some() {}
    }

    /// Returns whether a stream has so many untaken bytes that its receive should pause.
    pub(crate) fn is_crowded(&self, untaken: &Untaken, attended: bool) -> bool {
        let share = STREAM_BUFFERS_MAX * self.buffer_bytes;
        let held = untaken.copied_bytes + untaken.lent * self.buffer_bytes;
        held >= share || (!attended && held > 0 && self.is_tight())
    }

    /// Returns whether it is time to take buffers of the ring back from streams. To be asked once tasks have
    /// run and taken what they were woken for: bytes untaken then stay so for a while.
    pub(crate) fn must_reclaim(&self, lent: usize) -> bool {
        lent * 4 > self.ring_buffers && self.lent.get() > self.ring_buffers / 8
    }

    /// Copies bytes out of the ring's buffers for the streams that hold most, until an eighth of the ring is
    /// left with streams that hold little. Returns how many buffers went back.
    pub(crate) fn reclaim<'a>(&self, streams: impl Iterator<Item = &'a mut Untaken>) -> usize {
        let mut holders: Vec<_> = streams.filter(|untaken| untaken.lent > 0).collect();
        holders.sort_by_key(|untaken| std::cmp::Reverse(untaken.lent));
        let before = self.lent.get();
        for untaken in holders {
            if self.lent.get() <= self.ring_buffers / 8 {
                break;
            }
            let copied = untaken.copy_out();
            self.copied_bytes.set(self.copied_bytes.get() + copied);
            self.lent.set(self.lent.get() - std::mem::take(&mut untaken.lent));
        }
        before - self.lent.get()
    }

    /// Returns whether the budget has just become tight, so that every receive must be disarmed once.
    pub(crate) fn must_disarm(&self) -> bool {
        let became_tight = !self.is_tight() && self.copied_bytes.get() >= self.budget_bytes() / 2;
        self.tight.set(self.is_tight() || became_tight);
        became_tight
    }

    /// Returns whether a receive is for one buffer only, for a task that waits: more would be left untaken.
    pub(crate) fn is_tight(&self) -> bool {
        self.tight.get()
    }

    /// Returns the memory of copies that no task has taken, in bytes.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.copied_bytes.get()
    }

    /// Returns how many starved receives may begin again now: each may find several buffers' worth of bytes
    /// waiting.
    pub(crate) fn to_feed(&self, lent: usize) -> usize {
        if self.is_short(lent) { 0 } else { ((self.ring_buffers - lent) / STREAM_BUFFERS_MAX).max(1) }
    }

    fn is_short(&self, lent: usize) -> bool {
        lent * 2 > self.ring_buffers
    }

    fn budget_bytes(&self) -> usize {
        BUDGET_RINGS * self.ring_buffers * self.buffer_bytes
    }
}

impl Untaken {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn append_copy(&mut self, bytes: &[u8], piece_bytes_max: usize) {
        if let Some(last) = self.queue.back_mut()
            && let Some(before) = last.heap_bytes()
            && last.len() + bytes.len() <= piece_bytes_max
        {
            last.append(bytes);
            self.copied_bytes += last.heap_bytes().unwrap_or(before) - before;
            return;
        }
        let copy = RecvBuf::copied(bytes);
        self.copied_bytes += copy.heap_bytes().unwrap_or(0);
        self.queue.push_back(copy);
    }

    /// Replaces lent buffers by copies, and returns how much memory these take.
    fn copy_out(&mut self) -> usize {
        let before = self.copied_bytes;
        for buf in self.queue.iter_mut().filter(|buf| buf.heap_bytes().is_none()) {
            *buf = RecvBuf::copied(buf);
            self.copied_bytes += buf.heap_bytes().unwrap_or(0);
        }
        self.copied_bytes - before
    }
}

/// Returns the most datagram buffers that are lent, of a ring of `ring_buffers`.
///
/// Datagrams beyond are copied out, so that a datagram that a task holds is never missed by another task. The
/// sockets of a lane share as many for untaken ones.
pub(crate) fn datagrams_lent_max(ring_buffers: usize) -> usize {
    ring_buffers / 4 * 3
}

//@ limit: receive ring of streams
//@ section: Lanes
//@ unit: buffer of 8 KiB
//@ connection: {} untaken
//@ all: lane: 512, half of them lent at most
//@ empty: what arrives is copied out of the ring; others feel a copy of at most 8 KiB for an arrival
//@ counter: lane_recv_copied, lane_recv_reclaimed
//@ attack: http-drips-10000
/// Buffers' worth of bytes that one stream may leave untaken, beyond which its receive pauses.
pub(crate) const STREAM_BUFFERS_MAX: usize = 8;
/// Divisor of a buffer's size up to which an arrival counts as little.
const LITTLE_SHARE: usize = 8;
//@ limit: copies of what was received and not taken
//@ section: Lanes
//@ unit: byte
//@ connection: 64 KiB; none of what comes while all have 8 MiB
//@ all: lane: {} rings, 16 MiB; receives are disarmed at half of it until less than a quarter is used
//@ empty: the rest waits in the kernel's socket buffer, then at the sender; others need one more operation for each 8 KiB
//@ counter: lane_recv_paused, lane_recv_disarmed, lane_recv_held_bytes
//@ attack: http-drips-10000
/// Budget of copies, in sizes of the ring.
const BUDGET_RINGS: usize = 4;

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Ring as the shares see it: the number of its lent buffers.
    struct Ring {
        lent: Rc<Cell<usize>>,
        shares: ReceiveShares,
    }

    impl Ring {
        fn new(buffers: usize, bytes: usize) -> Self {
            Self { lent: Rc::default(), shares: ReceiveShares::new(buffers, bytes) }
        }

        fn arrive(&self, untaken: &mut Untaken, len: usize, attended: bool) -> Kept {
            let buf = RecvBuf::lent(vec![7; len], &self.lent);
            self.shares.keep(untaken, buf, attended, self.lent.get())
        }
    }

    #[test]
    fn single_bytes_that_nobody_waits_for_hold_no_buffer() {
        let ring = Ring::new(16, 1024);
        let mut streams: Vec<_> = (0..100).map(|_| Untaken::default()).collect();
        for _ in 0..10 {
            streams.iter_mut().for_each(|untaken| assert_eq!(ring.arrive(untaken, 1, false), Kept::Copied));
        }
        assert_eq!(ring.lent.get(), 0);
        for untaken in &mut streams {
            assert_eq!(ring.shares.take(untaken).unwrap().len(), 10);
            assert!(ring.shares.take(untaken).is_none());
        }
        assert_eq!(ring.shares.copied_bytes(), 0);
    }

    #[test]
    fn half_of_the_ring_is_never_lent_and_who_holds_most_gives_way_first() {
        let ring = Ring::new(16, 1024);
        let (mut greedy, mut modest) = (Untaken::default(), Untaken::default());
        assert_eq!(ring.arrive(&mut modest, 1024, true), Kept::Lent);
        for n in 0..20 {
            let kept = ring.arrive(&mut greedy, 1024, true);
            assert_eq!(kept, if n < 7 { Kept::Lent } else { Kept::Copied });
            assert!(ring.lent.get() <= 8);
        }
        // One that a task holds makes it more than half.
        let _in_work = RecvBuf::lent(vec![0], &ring.lent);
        assert!(ring.shares.must_reclaim(ring.lent.get()));
        assert_eq!(ring.shares.reclaim([&mut modest, &mut greedy].into_iter()), 7);
        assert_eq!((modest.lent, greedy.lent, ring.lent.get()), (1, 0, 2));
        let mut total = 0;
        while let Some(buf) = ring.shares.take(&mut greedy) {
            total += buf.len();
        }
        assert_eq!(total, 20 * 1024);
        ring.shares.drop_all(&mut modest);
        assert_eq!((ring.shares.copied_bytes(), ring.lent.get()), (0, 1));
    }

    #[test]
    fn copies_over_half_the_budget_are_tight_until_less_than_a_quarter_is_left() {
        let ring = Ring::new(16, 1024);
        let held: Vec<_> = (0..9).map(|_| RecvBuf::lent(vec![0], &ring.lent)).collect();
        let mut streams: Vec<_> = (0..40).map(|_| Untaken::default()).collect();
        let mut rounds = 0;
        for untaken in &mut streams {
            assert_eq!(ring.arrive(untaken, 1024, false), Kept::Copied);
            rounds += usize::from(ring.shares.must_disarm());
        }
        assert_eq!(rounds, 1);
        assert!(ring.shares.is_tight());
        assert!(ring.shares.is_crowded(&streams[0], false));
        assert!(!ring.shares.is_crowded(&streams[0], true));
        // 16 KiB are a quarter of the budget.
        streams[..24].iter_mut().for_each(|untaken| ring.shares.drop_all(untaken));
        assert!(ring.shares.is_tight());
        ring.shares.drop_all(&mut streams[24]);
        assert!(!ring.shares.is_tight() && !ring.shares.must_disarm());
        drop(held);
    }
}
