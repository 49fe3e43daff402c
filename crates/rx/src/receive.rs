//! Receive window of one call: packets that wait for the reader, and their state for an ACK.
//!
//! Slots are a ring indexed by sequence number; received runs above the in-order point are kept as a short
//! sorted list, so building an ACK costs the number of gaps, not the size of the window.

use std::collections::VecDeque;

use crate::packet::{Packet, PacketPool};

/// Verdict on a DATA packet, decided before its bytes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet is the next in order.
    InOrder,
    /// The packet is in the window, with a gap before it.
    Ahead,
    /// The packet was already received.
    Duplicate,
    /// The packet lies beyond the window.
    BeyondWindow,
    /// The packet contradicts the end of the stream that the peer has stated.
    AfterLast,
}

/// Received packet, opened; `start..end` are the unread data bytes of its payload.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) packet: Packet,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Checksum in the header of a packet that the security class has yet to open.
    pub(crate) sealed: Option<u16>,
}

#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    /// Chunks by packet, of which `slots[0]` is packet `base`.
    slots: VecDeque<Option<Chunk>>,
    /// Lowest packet that the reader has not used up.
    base: u32,
    /// Lowest packet not received.
    next: u32,
    /// First packet number above the highest received.
    top: u32,
    /// Last packet of the stream, once seen.
    last: Option<u32>,
    /// Packets accepted from `base` on.
    window: u32,
    /// Received runs `start..end` above `next`, ascending, never touching.
    runs: VecDeque<(u32, u32)>,
    /// Packets held, those lent to the reader included.
    held: u32,
    /// Packets from `base` on that the reader is past, while some of them are lent: their places stay in the
    /// window.
    taken: u32,
    /// Packets that the reader is past and whose buffers it holds.
    lent: u32,
    /// Value of `base` when the window last grew.
    grown_at: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(window: u32) -> Self {
        Self {
            slots: VecDeque::new(),
            base: 1,
            next: 1,
            top: 1,
            last: None,
            window,
            runs: VecDeque::new(),
            held: 0,
            taken: 0,
            lent: 0,
            grown_at: 1,
        }
    }

    /// Widens the window, which never shrinks, since packets may be on their way to it.
    pub(crate) fn set_window(&mut self, window: u32) {
        self.window = self.window.max(window);
    }

    /// Doubles the window, up to `max`, when its reader has used up half of it since the last time and leaves
    /// little unread. A slow reader's window stays small: it would only fill with packets that other calls
    /// could have used.
    pub(crate) fn grow_window(&mut self, max: u32) {
        let keeps_up = self.next - self.base <= self.window / 4;
        if keeps_up && self.window < max && self.base - self.grown_at >= self.window / 2 {
            self.window = self.window.saturating_mul(2).min(max);
            self.grown_at = self.base;
        }
    }

    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// Checks whether a packet may be stored. The order of the checks follows OpenAFS: old, too far, seen.
    pub(crate) fn classify(&self, seq: u32, last: bool) -> Verdict {
        if seq < self.base {
            return Verdict::Duplicate;
        }
        if seq >= self.edge() {
            return Verdict::BeyondWindow;
        }
        if self.last.is_some_and(|end| seq > end) || (last && seq + 1 < self.top) {
            return Verdict::AfterLast;
        }
        let slot = self.slots.get((seq - self.base) as usize);
        if slot.is_some_and(Option::is_some) || seq < self.next {
            return Verdict::Duplicate;
        }
        if seq == self.next { Verdict::InOrder } else { Verdict::Ahead }
    }

    /// Stores a packet that [`classify`](Self::classify) called `InOrder` or `Ahead`.
    pub(crate) fn store(&mut self, seq: u32, last: bool, chunk: Chunk) {
        let index = (seq - self.base) as usize;
        while self.slots.len() <= index {
            self.slots.push_back(None);
        }
        self.slots[index] = Some(chunk);
        self.held += 1;
        self.top = self.top.max(seq + 1);
        if last {
            self.last = Some(seq);
        }
        if seq == self.next {
            self.next += 1;
            if self.runs.front().is_some_and(|run| run.0 == self.next)
                && let Some(run) = self.runs.pop_front()
            {
                self.next = run.1;
            }
        } else {
            self.add_to_runs(seq);
        }
    }

    fn add_to_runs(&mut self, seq: u32) {
        if let Some(tail) = self.runs.back_mut()
            && tail.1 == seq
        {
            tail.1 += 1;
            return;
        }
        let at = self.runs.partition_point(|run| run.0 < seq);
        let joins_left = at > 0 && self.runs[at - 1].1 == seq;
        let joins_right = at < self.runs.len() && self.runs[at].0 == seq + 1;
        match (joins_left, joins_right) {
            (true, true) => {
                self.runs[at - 1].1 = self.runs[at].1;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].1 += 1,
            (false, true) => self.runs[at].0 = seq,
            (false, false) => self.runs.insert(at, (seq, seq + 1)),
        }
    }

    /// Returns the unread bytes next in order, with their buffer. Empty packets are skipped.
    pub(crate) fn front(&mut self, pool: &mut PacketPool) -> Option<&Chunk> {
        self.drop_used(pool);
        if self.base + self.taken == self.next {
            return None;
        }
        self.slots.get(self.taken as usize).and_then(Option::as_ref)
    }

    /// Returns the unread chunks in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.slots.iter().take((self.next - self.base) as usize).skip(self.taken as usize).flatten()
    }

    /// Returns every packet held, with its sequence number.
    pub(crate) fn held_mut(&mut self) -> impl Iterator<Item = (u32, &mut Chunk)> {
        let base = self.base;
        let numbered = self.slots.iter_mut().enumerate();
        numbered.filter_map(move |(index, slot)| Some((base + index as u32, slot.as_mut()?)))
    }

    /// Returns whether an unread byte waits in order.
    pub(crate) fn is_readable(&self) -> bool {
        self.chunks().any(|chunk| chunk.start < chunk.end)
    }

    /// Marks `count` bytes as read and frees the packets they used up. Returns the bytes that could not be
    /// consumed.
    pub(crate) fn consume(&mut self, mut count: usize, pool: &mut PacketPool) -> usize {
        while count > 0 {
            self.drop_used(pool);
            if self.base + self.taken == self.next {
                break;
            }
            let Some(Some(chunk)) = self.slots.get_mut(self.taken as usize) else { break };
            let used = count.min((chunk.end - chunk.start) as usize);
            chunk.start += used as u32;
            count -= used;
        }
        self.drop_used(pool);
        count
    }

    /// Frees the packets at the front that hold no unread byte.
    pub(crate) fn drop_used(&mut self, pool: &mut PacketPool) {
        if self.taken > 0 {
            return self.drop_used_behind_taken(pool);
        }
        while self.base < self.next {
            match self.slots.front_mut() {
                Some(Some(chunk)) if chunk.start < chunk.end => return,
                _ => {}
            }
            if let Some(Some(chunk)) = self.slots.pop_front() {
                self.held -= 1;
                pool.free(chunk.packet);
            }
            self.base += 1;
        }
    }

    /// Drops used packets behind those that the reader holds: the window moves once these are given back.
    #[cold]
    fn drop_used_behind_taken(&mut self, pool: &mut PacketPool) {
        while self.base + self.taken < self.next {
            match self.slots.get_mut(self.taken as usize) {
                Some(Some(chunk)) if chunk.start < chunk.end => return,
                Some(slot) => {
                    if let Some(chunk) = slot.take() {
                        self.held -= 1;
                        pool.free(chunk.packet);
                    }
                }
                None => return,
            }
            self.taken += 1;
        }
    }

    /// Takes the next unread packet out of the window for the reader to hold, if all its bytes are within
    /// `max`. The packet's place stays taken until [`release`](Self::release).
    pub(crate) fn take(&mut self, max: usize, pool: &mut PacketPool) -> Option<Chunk> {
        let fits = self.front(pool).is_some_and(|chunk| (chunk.end - chunk.start) as usize <= max);
        let chunk = self.slots.get_mut(self.taken as usize).filter(|_| fits)?.take()?;
        self.taken += 1;
        self.lent += 1;
        Some(chunk)
    }

    /// Takes back `count` packets, in any order, that the reader held.
    pub(crate) fn release(&mut self, count: u32) {
        assert!(count <= self.lent, "a reader gives back what it holds");
        self.lent -= count;
        self.held -= count;
        // With none held any more the window moves past those read meanwhile as well.
        let freed = if self.lent == 0 { self.taken } else { count };
        debug_assert!(freed <= self.taken, "the window moves over what was read");
        self.taken -= freed;
        self.base += freed;
        self.slots.drain(..freed as usize);
    }

    /// Returns the number of packets that the reader holds.
    pub(crate) fn lent(&self) -> u32 {
        self.lent
    }

    /// Returns the number of packets held ahead of a gap.
    pub(crate) fn ahead(&self) -> u32 {
        self.runs.iter().map(|(start, end)| end - start).sum()
    }

    /// Frees the packets ahead of the gap, which were only soft-acknowledged, and returns how many. ACKs go
    /// on naming them, as not received: a peer sends again only what it is told is missing.
    pub(crate) fn drop_ahead(&mut self, pool: &mut PacketPool) -> u32 {
        let from = (self.next - self.base) as usize;
        let mut dropped = 0;
        for chunk in self.slots.iter_mut().skip(from).filter_map(Option::take) {
            pool.free(chunk.packet);
            dropped += 1;
        }
        self.runs.clear();
        debug_assert!(dropped <= self.held, "what is dropped was held");
        self.held -= dropped;
        dropped
    }

    /// Returns the number of packets in order that are unread, or held by the reader.
    pub(crate) fn in_order(&self) -> u32 {
        self.next - self.base
    }

    /// Frees every packet but those that the reader holds.
    pub(crate) fn clear(&mut self, pool: &mut PacketPool) {
        for chunk in self.slots.drain(..).flatten() {
            pool.free(chunk.packet);
        }
        self.runs.clear();
        self.held = 0;
    }

    /// Returns whether every packet up to the last has been received.
    pub(crate) fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.next > last)
    }

    /// Returns whether every byte up to the last packet's has been read.
    pub(crate) fn is_consumed(&self) -> bool {
        self.is_complete() && self.base + self.taken == self.next
    }

    pub(crate) fn has_gap(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns the lowest packet not received.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Returns the lowest packet that the reader has not used up.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// Returns the highest packet received; 0 before the first.
    pub(crate) fn highest(&self) -> u32 {
        self.top - 1
    }

    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Returns the first packet number beyond those acceptable now.
    pub(crate) fn edge(&self) -> u32 {
        self.base.saturating_add(self.window)
    }

    /// Returns the `firstPacket` of an ACK.
    ///
    /// Stock Rx hard-acknowledges what the reader used up. With windows over 255 packets that would leave most of the
    /// window outside the table. There (`on_receipt`) packets are hard-acknowledged when received in order: they are
    /// never dropped afterwards. The last packet of a full window is held back so that the window stated is never 0.
    /// OpenAFS would read that as 1 and overrun it by one packet each time.
    pub(crate) fn hard_ack(&self, on_receipt: bool) -> u32 {
        if !on_receipt {
            return self.base;
        }
        if self.next == self.edge() && !self.is_complete() { self.next - 1 } else { self.next }
    }

    /// Returns the window to state from `first` on: its right edge is `base + window` and never moves left.
    pub(crate) fn window_from(&self, first: u32) -> u32 {
        self.edge().saturating_sub(first).max(1)
    }

    /// Fills soft-ACK entries from packet `first` on, and returns how many are used.
    pub(crate) fn fill_table(&self, first: u32, table: &mut [u8]) -> usize {
        let used = (self.top.saturating_sub(first) as usize).min(table.len());
        let table = &mut table[..used];
        let in_order = (self.next.saturating_sub(first) as usize).min(used);
        table[..in_order].fill(1);
        table[in_order..].fill(0);
        for &(start, end) in &self.runs {
            let from = start.saturating_sub(first) as usize;
            if from >= used {
                break;
            }
            let to = (end.saturating_sub(first) as usize).min(used);
            table[from..to].fill(1);
        }
        used
    }

    /// Returns the received runs at or above `from`, as first packet and count.
    pub(crate) fn runs_from(&self, from: u32) -> impl Iterator<Item = (u32, u32)> {
        let start = self.runs.partition_point(|run| run.1 <= from);
        self.runs.range(start..).map(move |&(first, end)| (first.max(from), end - first.max(from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(window: &mut ReceiveWindow, pool: &mut PacketPool, seq: u32, last: bool, len: u32) -> Verdict {
        let verdict = window.classify(seq, last);
        if matches!(verdict, Verdict::InOrder | Verdict::Ahead) {
            let packet = pool.alloc().expect("pool is large enough");
            window.store(seq, last, Chunk { packet, start: 0, end: len, sealed: None });
        }
        verdict
    }

    fn table(window: &ReceiveWindow, first: u32) -> Vec<u8> {
        let mut table = [9; 255];
        let used = window.fill_table(first, &mut table);
        table[..used].to_vec()
    }

    #[test]
    fn gaps_show_in_the_table_until_filled() {
        let mut pool = PacketPool::new(16, 10);
        let mut window = ReceiveWindow::new(8);
        assert_eq!(put(&mut window, &mut pool, 1, false, 5), Verdict::InOrder);
        assert_eq!(put(&mut window, &mut pool, 3, false, 5), Verdict::Ahead);
        assert_eq!(put(&mut window, &mut pool, 6, false, 5), Verdict::Ahead);
        assert_eq!(put(&mut window, &mut pool, 5, false, 5), Verdict::Ahead);
        assert_eq!(table(&window, 1), [1, 0, 1, 0, 1, 1]);
        assert_eq!(window.runs_from(4).collect::<Vec<_>>(), [(5, 2)]);
        put(&mut window, &mut pool, 4, false, 5);
        assert_eq!(window.runs_from(4).collect::<Vec<_>>(), [(4, 3)]);
        put(&mut window, &mut pool, 2, false, 5);
        assert_eq!((window.next(), window.has_gap()), (7, false));
        window.clear(&mut pool);
        assert!(pool.is_empty());
    }

    #[test]
    fn duplicates_and_packets_beyond_the_window_are_not_stored() {
        let mut pool = PacketPool::new(16, 10);
        let mut window = ReceiveWindow::new(4);
        put(&mut window, &mut pool, 1, false, 5);
        put(&mut window, &mut pool, 3, false, 5);
        assert_eq!(window.classify(0, false), Verdict::Duplicate);
        assert_eq!(window.classify(1, false), Verdict::Duplicate);
        assert_eq!(window.classify(3, false), Verdict::Duplicate);
        assert_eq!(window.classify(4, false), Verdict::Ahead);
        assert_eq!(window.classify(5, false), Verdict::BeyondWindow);
        assert_eq!(window.classify(u32::MAX, false), Verdict::BeyondWindow);
        window.clear(&mut pool);
    }

    #[test]
    fn packets_after_the_last_are_refused() {
        let mut pool = PacketPool::new(16, 10);
        let mut window = ReceiveWindow::new(8);
        put(&mut window, &mut pool, 3, true, 5);
        assert_eq!(window.classify(4, false), Verdict::AfterLast);
        let mut window2 = ReceiveWindow::new(8);
        put(&mut window2, &mut pool, 3, false, 5);
        assert_eq!(window2.classify(2, true), Verdict::AfterLast);
        window.clear(&mut pool);
        window2.clear(&mut pool);
    }

    #[test]
    fn consuming_frees_packets_and_opens_the_window() {
        let mut pool = PacketPool::new(16, 10);
        let mut window = ReceiveWindow::new(4);
        for seq in 1..=4 {
            put(&mut window, &mut pool, seq, seq == 4, if seq == 2 { 0 } else { 5 });
        }
        assert_eq!(window.consume(7, &mut pool), 0);
        assert_eq!((window.base(), window.held(), pool.in_use()), (3, 2, 2));
        assert_eq!(window.front(&mut pool).map(|chunk| chunk.start), Some(2));
        assert_eq!(window.consume(100, &mut pool), 92);
        assert!(window.is_consumed() && pool.is_empty());
    }

    #[test]
    fn packets_dropped_ahead_of_a_gap_are_reported_missing_and_taken_again() {
        let mut pool = PacketPool::new(16, 10);
        let mut window = ReceiveWindow::new(8);
        for seq in [1, 2, 4, 5, 7] {
            put(&mut window, &mut pool, seq, seq == 7, 5);
        }
        assert_eq!((window.ahead(), window.drop_ahead(&mut pool)), (3, 3));
        assert_eq!((window.held(), window.has_gap(), pool.in_use()), (2, false, 2));
        assert_eq!(table(&window, 1), [1, 1, 0, 0, 0, 0, 0], "told one by one");
        for seq in [7, 3, 4, 5, 6] {
            assert!(matches!(
                put(&mut window, &mut pool, seq, seq == 7, 5),
                Verdict::Ahead | Verdict::InOrder
            ));
        }
        assert!(window.is_complete());
        window.clear(&mut pool);
        assert!(pool.is_empty());
    }

    #[test]
    fn window_grows_for_readers_that_keep_up_only() {
        let mut pool = PacketPool::new(64, 10);
        let mut window = ReceiveWindow::new(4);
        for seq in 1..=4 {
            put(&mut window, &mut pool, seq, false, 5);
        }
        window.consume(5, &mut pool);
        window.grow_window(10);
        assert_eq!(window.window(), 4, "one packet of four read");
        window.consume(15, &mut pool);
        window.grow_window(10);
        assert_eq!(window.window(), 8);
        window.grow_window(10);
        assert_eq!(window.window(), 8, "nothing read since");
        for seq in 5..=12 {
            put(&mut window, &mut pool, seq, false, 5);
        }
        window.consume(40, &mut pool);
        window.grow_window(10);
        assert_eq!(window.window(), 10);
    }

    #[test]
    fn full_window_never_states_zero_and_its_edge_stands_still() {
        let mut pool = PacketPool::new(16, 10);
        let mut window = ReceiveWindow::new(4);
        for seq in 1..=4 {
            put(&mut window, &mut pool, seq, false, 5);
            let first = window.hard_ack(true);
            assert_eq!(first + window.window_from(first), 5);
        }
        assert_eq!(window.hard_ack(true), 4);
        assert_eq!(table(&window, 4), [1]);
        assert_eq!((window.hard_ack(false), window.window_from(1)), (1, 4));
        window.clear(&mut pool);
    }
}
