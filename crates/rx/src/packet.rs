//! Pool of packet buffers: a fixed number, never grown. Where many pools share a machine each keeps the
//! memory of a few buffers alone, and the rest have some only while in use.
//!
//! A buffer holds one whole packet, header directly before payload, so a run of packets of equal size goes out
//! as one UDP_SEGMENT burst from an array of `IoSlice`s with no copy. At every moment
//! `allocated == free + in_use`; a [`Packet`] is a move-only token, so it cannot be freed twice or forgotten by
//! copying.

use crate::header::{HEADER_LEN, flags, restamp};
use crate::jumbo::JUMBO_HEADER;

/// Token of one buffer in use, for its owner. Give it back with [`PacketPool::free`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a packet that is not freed is leaked"]
pub struct Packet(u32);

/// Reference to a buffer without ownership, as a transmit in progress holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRef(u32);

/// Buffer taken out of its slot and lent to the application; see [`PacketPool::lend`].
#[derive(Debug)]
pub(crate) struct LentBuffer {
    pub(crate) packet: Packet,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl LentBuffer {
    /// Returns the lent payload bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the payload room to fill.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }
}

/// Pool of a fixed number of packet buffers.
#[derive(Debug)]
pub struct PacketPool {
    /// Slots for large datagrams, without memory until they are taken, then the pool's buffers as far as they
    /// were ever used.
    slots: Vec<BufferSlot>,
    packets: usize,
    /// Free buffers that have memory.
    free: Vec<u32>,
    /// Free buffers without memory.
    bare: Vec<u32>,
    /// Number of the pool's buffers with memory, and how many of them keep it when they are free.
    filled: usize,
    kept: usize,
    free_large: Vec<u32>,
    payload_max: usize,
    /// Number of free buffers, with memory or without, used before or not.
    unheld: usize,
    low_water: usize,
    exhausted: u64,
    /// Number of buffers in use by account.
    held_by: Vec<u32>,
}

/// Account that a buffer in use is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BufferAccount(pub(crate) u32);

impl BufferAccount {
    /// Account of packets that live only until they are sent, and of our own calls.
    pub(crate) const OWN: Self = Self(0);
    /// Account of all clients with unproved addresses, together.
    pub(crate) const UNPROVED: Self = Self(1);
    /// First account of proved clients' hosts.
    pub(crate) const FIRST_SOURCE: u32 = 2;
}

#[derive(Debug, Default)]
struct BufferSlot {
    bytes: Box<[u8]>,
    len: u32,
    pins: u16,
    /// Bytes at the end of the packet's own header that a jumbo header overwrites while pinned.
    own: Option<[u8; JUMBO_HEADER]>,
    state: BufferState,
    account: BufferAccount,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BufferState {
    #[default]
    Free,
    InUse,
    /// The owner has freed the buffer, but a transmit in progress still reads it.
    Draining,
}

/// Offset of a jumbo header in the buffer of a packet that continues a jumbogram; of the flags otherwise.
const JUMBO_START: usize = HEADER_LEN - JUMBO_HEADER;
const FLAGS_AT: usize = 21;

impl PacketPool {
    /// Allocates `packets` buffers of [`HEADER_LEN`]` + payload_max` bytes each.
    pub fn new(packets: usize, payload_max: usize) -> Self {
        let mut pool = Self::keeping(packets, payload_max, packets);
        let made: Vec<_> = (0..packets).map(|_| pool.take_bare().expect("as many as there are")).collect();
        pool.free.extend(made.into_iter().rev());
        pool
    }

    /// Makes a pool ([`new`](Self::new)) with memory for buffers in use alone, and for `kept` free ones.
    pub fn keeping(packets: usize, payload_max: usize, kept: usize) -> Self {
        assert!(u32::try_from(packets + LARGE_MAX as usize).is_ok(), "packet count fits 32 bits");
        Self {
            slots: (0..LARGE_MAX).map(|_| BufferSlot::default()).collect(),
            packets,
            free: Vec::new(),
            bare: Vec::new(),
            filled: 0,
            kept,
            free_large: (0..LARGE_MAX).rev().collect(),
            payload_max,
            unheld: packets,
            low_water: packets,
            exhausted: 0,
            held_by: vec![0; BufferAccount::FIRST_SOURCE as usize],
        }
    }

    /// Takes a buffer, or `None` (counted) when all are in use.
    pub fn alloc(&mut self) -> Option<Packet> {
        self.alloc_for(BufferAccount::OWN)
    }

    /// Allocates a buffer ([`alloc`](Self::alloc)), charged to an account until the buffer is free again.
    #[inline]
    pub(crate) fn alloc_for(&mut self, account: BufferAccount) -> Option<Packet> {
        let Some(index) = self.free.pop().or_else(|| self.take_bare()) else {
            self.exhausted += 1;
            return None;
        };
        debug_assert!(self.unheld > 0, "a buffer that is free is counted");
        self.unheld -= 1;
        self.low_water = self.low_water.min(self.unheld);
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.state == BufferState::Free && slot.pins == 0);
        slot.state = BufferState::InUse;
        slot.account = account;
        slot.len = HEADER_LEN as u32;
        match self.held_by.get_mut(account.0 as usize) {
            Some(held) => *held += 1,
            None => self.open_account(account),
        }
        Some(Packet(index))
    }

    /// Takes a free buffer without memory, and allocates its memory.
    #[cold]
    fn take_bare(&mut self) -> Option<u32> {
        let index = self.bare.pop().or_else(|| {
            let more = self.slots.len() < self.packets + LARGE_MAX as usize;
            more.then(|| {
                self.slots.push(BufferSlot::default());
                self.slots.len() as u32 - 1
            })
        })?;
        self.slots[index as usize].bytes = vec![0; HEADER_LEN + self.payload_max].into();
        self.filled += 1;
        Some(index)
    }

    /// Takes a buffer of its own for a datagram larger than a packet, which IP cuts into fragments. At most
    /// [`LARGE_MAX`] are in use, of [`LARGE_PAYLOAD_MAX`] bytes at most, and they hold memory only while in
    /// use.
    pub(crate) fn alloc_large(&mut self, payload_len: usize) -> Option<Packet> {
        if payload_len > LARGE_PAYLOAD_MAX {
            return None;
        }
        let index = self.free_large.pop()?;
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.state == BufferState::Free && slot.pins == 0);
        slot.bytes = vec![0; HEADER_LEN + payload_len].into_boxed_slice();
        slot.state = BufferState::InUse;
        slot.len = HEADER_LEN as u32;
        Some(Packet(index))
    }

    /// Gives a buffer back. If a transmit still reads it, it stays in use until that is done.
    pub fn free(&mut self, packet: Packet) {
        let slot = &mut self.slots[packet.0 as usize];
        assert!(slot.state == BufferState::InUse, "a packet token always names a buffer in use");
        if slot.pins > 0 {
            slot.state = BufferState::Draining;
        } else {
            self.retire(packet.0);
        }
    }

    fn retire(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.state = BufferState::Free;
        if index < LARGE_MAX {
            slot.bytes = Box::default();
            self.free_large.push(index);
            return;
        }
        debug_assert!(self.held_by[slot.account.0 as usize] > 0, "a buffer was charged to its account");
        self.held_by[slot.account.0 as usize] -= 1;
        self.unheld += 1;
        if self.filled <= self.kept {
            self.free.push(index);
        } else {
            slot.bytes = Box::default();
            self.filled -= 1;
            self.bare.push(index);
        }
    }

    #[cold]
    fn open_account(&mut self, account: BufferAccount) {
        self.held_by.resize(account.0 as usize + 1, 0);
        self.held_by[account.0 as usize] = 1;
    }

    /// Returns the number of buffers charged to an account.
    pub(crate) fn held_by(&self, account: BufferAccount) -> usize {
        self.held_by.get(account.0 as usize).map_or(0, |&held| held as usize)
    }

    /// Returns the packet: header and payload.
    pub fn bytes(&self, packet: &Packet) -> &[u8] {
        let slot = &self.slots[packet.0 as usize];
        &slot.bytes[..slot.len as usize]
    }

    /// Returns the packet behind a transmit's reference.
    pub fn bytes_of(&self, packet: PacketRef) -> &[u8] {
        let slot = &self.slots[packet.0 as usize];
        &slot.bytes[..slot.len as usize]
    }

    /// Returns the whole buffer, whatever the packet's length.
    pub fn buffer(&self, packet: &Packet) -> &[u8] {
        &self.slots[packet.0 as usize].bytes
    }

    /// Returns the whole buffer to write to, whatever the packet's length.
    pub fn buffer_mut(&mut self, packet: &Packet) -> &mut [u8] {
        &mut self.slots[packet.0 as usize].bytes
    }

    /// Returns the whole payload room, whatever the packet's length.
    pub fn payload_room(&mut self, packet: &Packet) -> &mut [u8] {
        &mut self.slots[packet.0 as usize].bytes[HEADER_LEN..]
    }

    /// Returns the length of header and payload, in bytes.
    pub fn len(&self, packet: &Packet) -> usize {
        self.slots[packet.0 as usize].len as usize
    }

    /// Returns whether no buffer is in use.
    pub fn is_empty(&self) -> bool {
        self.free_count() == self.packets
    }

    /// Sets the payload's length; the packet is that much longer than a header.
    pub fn set_payload_len(&mut self, packet: &Packet, len: usize) {
        let slot = &mut self.slots[packet.0 as usize];
        assert!(HEADER_LEN + len <= slot.bytes.len(), "payload fits its buffer");
        slot.len = (HEADER_LEN + len) as u32;
    }

    /// Marks the packet as read by a transmit in progress.
    pub(crate) fn pin(&mut self, packet: &Packet) -> PacketRef {
        self.slots[packet.0 as usize].pins += 1;
        PacketRef(packet.0)
    }

    /// Sets the serial and flags of a transmission in the packet, and pins it. A transmit in progress that
    /// reads the packet would see its bytes change, which the caller has to [rule out](Self::is_pinned).
    #[inline]
    pub(crate) fn stamp(&mut self, packet: &Packet, serial: u32, flags: u8) -> PacketRef {
        let slot = &mut self.slots[packet.0 as usize];
        restamp(&mut slot.bytes, serial, flags);
        slot.pins += 1;
        PacketRef(packet.0)
    }

    /// Returns whether a transmit in progress reads the packet, so that its bytes must not change.
    pub(crate) fn is_pinned(&self, packet: &Packet) -> bool {
        self.slots[packet.0 as usize].pins > 0
    }

    /// Joins `packet`, pinned, to the jumbogram that `before` ends so far: a jumbo header overwrites the end
    /// of its own until it is unpinned.
    pub(crate) fn join(&mut self, before: PacketRef, before_is_joined: bool, packet: PacketRef) {
        let at = if before_is_joined { JUMBO_START } else { FLAGS_AT };
        self.slots[before.0 as usize].bytes[at] |= flags::JUMBO;
        let slot = &mut self.slots[packet.0 as usize];
        let end: &mut [u8; JUMBO_HEADER] =
            (&mut slot.bytes[JUMBO_START..HEADER_LEN]).try_into().expect("four bytes");
        let own = *end;
        // Its flags and its checksum; the rest is the first packet's.
        *end = [0, 0, own[0], own[1]];
        slot.own = Some(own);
        slot.bytes[JUMBO_START] = slot.bytes[FLAGS_AT];
    }

    /// Copies the packet's bytes as they are without a jumbo header.
    pub(crate) fn copy_own(&self, packet: &Packet, to: &mut [u8]) {
        let slot = &self.slots[packet.0 as usize];
        to.copy_from_slice(&slot.bytes[..slot.len as usize]);
        if let Some(own) = slot.own {
            to[JUMBO_START..HEADER_LEN].copy_from_slice(&own);
        }
    }

    /// Ends one transmit's hold on a packet.
    pub(crate) fn unpin(&mut self, packet: PacketRef) {
        let slot = &mut self.slots[packet.0 as usize];
        assert!(slot.pins > 0, "a transmit unpins what it pinned");
        slot.pins -= 1;
        if slot.pins == 0
            && let Some(own) = slot.own.take()
        {
            slot.bytes[JUMBO_START..HEADER_LEN].copy_from_slice(&own);
        }
        if slot.pins == 0 && slot.state == BufferState::Draining {
            self.retire(packet.0);
        }
    }

    /// Takes the buffer out of the pool's reach so that the application can fill or read payload bytes
    /// `start..end` while the pool goes on. It stays counted as in use. End with [`PacketPool::restore`].
    pub(crate) fn lend(&mut self, packet: Packet, start: usize, end: usize) -> LentBuffer {
        let bytes = std::mem::take(&mut self.slots[packet.0 as usize].bytes);
        LentBuffer { packet, bytes, start: HEADER_LEN + start, end: HEADER_LEN + end }
    }

    /// Puts a lent buffer back in its slot.
    pub(crate) fn restore(&mut self, lent: LentBuffer) -> Packet {
        self.slots[lent.packet.0 as usize].bytes = lent.bytes;
        lent.packet
    }

    /// Returns the number of buffers in the pool, without those of large datagrams.
    pub fn allocated(&self) -> usize {
        self.packets
    }

    /// Returns the number of free buffers.
    #[inline]
    pub fn free_count(&self) -> usize {
        self.unheld
    }

    /// Returns the bytes of memory that the buffers have now.
    pub fn memory(&self) -> usize {
        self.filled * (HEADER_LEN + self.payload_max) + self.slots.capacity() * size_of::<BufferSlot>()
    }

    /// Returns the number of buffers in use, by the free list.
    pub(crate) fn held(&self) -> usize {
        self.packets - self.free_count()
    }

    /// Returns the number of buffers in use, counted one by one: the check that [`PacketPool::free_count`]
    /// must pass.
    pub fn in_use(&self) -> usize {
        self.slots[LARGE_MAX as usize..].iter().filter(|slot| slot.state != BufferState::Free).count()
    }

    /// Returns the payload room of one buffer, in bytes.
    pub fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Returns the fewest free buffers seen since start.
    pub fn low_water(&self) -> usize {
        self.low_water
    }

    /// Returns the number of allocations refused because all buffers were in use.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

/// Payload of the largest datagram, in bytes: a security class's RESPONSE with a ticket of 12,000 bytes fits
/// (OpenAFS `RX_MAX_PACKET_SIZE` is 16,384).
pub const LARGE_PAYLOAD_MAX: usize = 16 * 1024 - HEADER_LEN;
//@ limit: datagrams larger than a packet
//@ section: Rx
//@ unit: buffer of 16,384 bytes
//@ connection: one RESPONSE of 16,356 bytes
//@ all: lane: {}
//@ empty: not sent; the challenge that asks for it comes again
//@ counter: rx_transmit_starved, rx_responses_too_large
//@ attack: none, no service of the server has a security class with challenges yet
//@ reach: server
/// Most large datagrams of one endpoint on their way to the socket.
pub const LARGE_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_is_always_free_plus_in_use() {
        let mut pool = PacketPool::new(3, 100);
        let first = pool.alloc().expect("free");
        let second = pool.alloc().expect("free");
        assert_eq!((pool.allocated(), pool.free_count(), pool.in_use()), (3, 1, 2));
        pool.free(first);
        assert_eq!((pool.free_count(), pool.in_use(), pool.low_water()), (2, 1, 1));
        pool.free(second);
        assert!(pool.is_empty());
    }

    #[test]
    fn buffers_are_charged_to_their_account_until_they_are_free() {
        let mut pool = PacketPool::new(3, 100);
        let (mine, other) = (BufferAccount(7), BufferAccount::UNPROVED);
        let first = pool.alloc_for(mine).expect("free");
        let second = pool.alloc_for(mine).expect("free");
        let third = pool.alloc_for(other).expect("free");
        assert_eq!((pool.held_by(mine), pool.held_by(other), pool.held_by(BufferAccount(99))), (2, 1, 0));
        let reference = pool.pin(&first);
        [first, second, third].into_iter().for_each(|packet| pool.free(packet));
        assert_eq!((pool.held_by(mine), pool.held_by(other)), (1, 0), "a transmit still reads one");
        pool.unpin(reference);
        assert_eq!(pool.held_by(mine), 0);
    }

    #[test]
    fn exhausted_pool_refuses_and_counts() {
        let mut pool = PacketPool::new(1, 100);
        let only = pool.alloc().expect("free");
        assert_eq!(pool.alloc(), None);
        assert_eq!(pool.exhausted(), 1);
        pool.free(only);
        let again = pool.alloc().expect("freed");
        pool.free(again);
    }

    #[test]
    fn freed_packet_stays_in_use_until_its_transmit_is_done() {
        let mut pool = PacketPool::new(1, 100);
        let packet = pool.alloc().expect("free");
        pool.set_payload_len(&packet, 5);
        let reference = pool.pin(&packet);
        pool.free(packet);
        assert_eq!((pool.free_count(), pool.in_use()), (0, 1));
        assert_eq!(pool.bytes_of(reference).len(), HEADER_LEN + 5);
        pool.unpin(reference);
        assert_eq!((pool.free_count(), pool.in_use()), (1, 0));
    }

    #[test]
    fn large_buffers_are_few_and_hold_no_memory_when_free() {
        let mut pool = PacketPool::new(1, 100);
        assert_eq!(pool.alloc_large(LARGE_PAYLOAD_MAX + 1), None);
        let all: Vec<_> = (0..LARGE_MAX).map(|_| pool.alloc_large(12_000).expect("free")).collect();
        assert_eq!(pool.alloc_large(1), None);
        assert_eq!((pool.allocated(), pool.free_count(), pool.in_use()), (1, 1, 0));
        pool.set_payload_len(&all[0], 12_000);
        let reference = pool.pin(&all[0]);
        all.into_iter().for_each(|packet| pool.free(packet));
        assert_eq!(pool.bytes_of(reference).len(), HEADER_LEN + 12_000, "a transmit still reads it");
        pool.unpin(reference);
        assert!(pool.slots[..LARGE_MAX as usize].iter().all(|slot| slot.bytes.is_empty()));
    }

    #[test]
    fn a_pool_that_keeps_few_has_memory_for_those_and_what_is_in_use() {
        let mut pool = PacketPool::keeping(100, 1_000, 4);
        assert_eq!((pool.allocated(), pool.free_count(), pool.filled), (100, 100, 0));
        for _ in 0..3 {
            let all: Vec<_> = (0..100).map(|_| pool.alloc().expect("free")).collect();
            assert_eq!((pool.alloc(), pool.free_count(), pool.in_use(), pool.filled), (None, 0, 100, 100));
            assert!(all.iter().all(|packet| pool.buffer(packet).len() == HEADER_LEN + 1_000));
            all.into_iter().for_each(|packet| pool.free(packet));
            assert_eq!((pool.free_count(), pool.in_use(), pool.filled), (100, 0, 4));
            assert!(pool.is_empty() && pool.memory() < 20_000);
        }
        let (few, filled) = (pool.alloc().expect("free"), pool.filled);
        assert_eq!(filled, 4, "one that had memory");
        pool.free(few);
    }

    #[test]
    fn lent_buffer_is_in_use_and_comes_back_filled() {
        let mut pool = PacketPool::new(2, 8);
        let packet = pool.alloc().expect("free");
        let mut lent = pool.lend(packet, 2, 6);
        lent.bytes_mut().copy_from_slice(b"data");
        assert_eq!(pool.in_use(), 1);
        let packet = pool.restore(lent);
        assert_eq!(&pool.payload_room(&packet)[2..6], b"data");
        pool.free(packet);
    }
}
