//! Memory of a lane: pooled send and read buffers ([`Buf`]), and received bytes ([`RecvBuf`]).
//!
//! A [`BufferPool`] is one mapping made and sized at start, on the lane's own thread so that first touch
//! places it on the lane's node; huge pages are asked for. It never grows: a task that finds it empty waits.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use self::lent::Lent;
use crate::memory::Mapping;

mod lent;
mod provided;
mod received;

pub use self::lent::Lender;
pub(crate) use self::provided::BufRing;
pub use self::received::RecvBuf;

/// Size of a buffer that a lane keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufClass {
    /// A response head with a small body, or a log batch: 32 KiB.
    Small,
    /// A batch of TLS records or of file data: 272 KiB. That is sixteen full records with their headers and
    /// tags.
    Large,
}

/// Number of buffers of each class that a lane has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferCounts {
    /// Number of buffers of [`BufClass::Small`].
    pub small: usize,
    /// Number of buffers of [`BufClass::Large`].
    pub large: usize,
}

/// A pool of the buffers of a lane.
#[derive(Clone)]
pub struct BufferPool {
    inner: Rc<PoolInner>,
}

/// A buffer, of the lane's pool as a rule: bytes `0..len` are written, `len..capacity` is room. Dropping it
/// gives the memory back to its owner.
pub struct Buf {
    memory: Memory,
    len: usize,
}

/// Owner of a buffer's memory.
enum Memory {
    Pooled {
        pool: Rc<PoolInner>,
        class: BufClass,
        index: u32,
    },
    Lent(Lent),
    /// Received bytes, all of them written.
    Received(RecvBuf),
}

/// Buffers that a pool holds and has lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUsage {
    /// Buffers made at start, all that the pool ever has.
    pub allocated: usize,
    /// Buffers in the pool now.
    pub free: usize,
    /// Buffers lent now; `allocated == free + in_use` always.
    pub in_use: usize,
}

impl BufClass {
    /// Returns the bytes of a buffer of this class.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Small => 32 << 10,
            Self::Large => 272 << 10,
        }
    }
}

impl Default for BufferCounts {
    fn default() -> Self {
        //@ limit: large buffers for bodies that user space seals
        //@ section: HTTP
        //@ unit: buffer of 272 KiB
        //@ connection: one
        //@ address: three times what is free
        //@ all: lane: 256
        //@ empty: the transfer goes on with a small buffer, in smaller steps
        //@ counter: lane_buffers_large_in_use, http_reply_memory_waits
        //@ attack: http-stalled-files
        Self { small: 1024, large: 256 }
    }
}

impl BufferPool {
    /// Maps the memory of all buffers. Pages are placed by the first thread that writes them.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn new(counts: BufferCounts) -> io::Result<Self> {
        let small = Shelf::new(BufClass::Small.bytes(), counts.small)?;
        let large = Shelf::new(BufClass::Large.bytes(), counts.large)?;
        Ok(Self { inner: Rc::new(PoolInner { small, large, registered: Cell::new(false) }) })
    }

    /// Returns the address ranges of the pool's two mappings, small buffers first.
    pub(crate) fn addresses(&self) -> [std::ops::Range<usize>; 2] {
        [&self.inner.small, &self.inner.large].map(|shelf| shelf.memory.addresses())
    }

    /// Notes that the lane's ring knows the memory of [`BufferPool::addresses`], in this order.
    pub(crate) fn set_registered(&self) {
        self.inner.registered.set(true);
    }

    /// Takes a buffer if one is free.
    pub fn try_get(&self, class: BufClass) -> Option<Buf> {
        let index = self.inner.shelf(class).state.borrow_mut().free.pop()?;
        Some(Buf { memory: Memory::Pooled { pool: Rc::clone(&self.inner), class, index }, len: 0 })
    }

    /// Takes a buffer, waiting in line for one to come back.
    pub fn get(&self, class: BufClass) -> Get<'_> {
        Get { pool: self, class, waited: false }
    }

    /// Returns the pool's counts for one class.
    pub fn usage(&self, class: BufClass) -> PoolUsage {
        let shelf = self.inner.shelf(class);
        let free = shelf.state.borrow().free.len();
        PoolUsage { allocated: shelf.count, free, in_use: shelf.count - free }
    }

    /// Returns how often a task had to wait for a buffer of this class.
    pub fn waits(&self, class: BufClass) -> u64 {
        self.inner.shelf(class).state.borrow().waits
    }
}

impl Buf {
    /// Returns the bytes that the buffer can hold, written ones included.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Pooled { class, .. } => class.bytes(),
            Memory::Lent(lent) => lent.bytes().len(),
            Memory::Received(received) => received.len(),
        }
    }

    /// Returns the bytes of room left.
    pub fn spare(&self) -> usize {
        self.capacity() - self.len
    }

    /// Returns the room after the written bytes. The content of the room is unspecified.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.memory_mut()[len..]
    }

    /// Returns the number under which the lane's ring knows the buffer's memory, if registered.
    pub(crate) fn registered(&self) -> Option<u16> {
        let Memory::Pooled { pool, class, .. } = &self.memory else { return None };
        pool.registered.get().then_some(match class {
            BufClass::Small => 0,
            BufClass::Large => 1,
        })
    }

    /// Counts `n` bytes of the room as written.
    ///
    /// # Panics
    /// When there is less room.
    pub fn grow(&mut self, n: usize) {
        assert!(n <= self.spare(), "grew a buffer by {n} with room for {}", self.spare());
        self.len += n;
    }

    /// Keeps the first `len` bytes written.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends as many of `bytes` as there is room for; returns how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.spare());
        self.spare_mut()[..n].copy_from_slice(&bytes[..n]);
        self.grow(n);
        n
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Pooled { pool, class, index } => {
                let shelf = pool.shelf(*class);
                let offset = *index as usize * shelf.size;
                // SAFETY: the index was taken off the free list and is held by this Buf alone until it is dropped,
                // so no other reference to these bytes exists; the mapping lives as long as the pool's Rc.
                unsafe { shelf.memory.slice_mut(offset, shelf.size) }
            }
            Memory::Lent(lent) => lent.bytes_mut(),
            Memory::Received(received) => received,
        }
    }

    fn memory(&self) -> &[u8] {
        match &self.memory {
            Memory::Pooled { pool, class, index } => {
                let shelf = pool.shelf(*class);
                let offset = *index as usize * shelf.size;
                // SAFETY: as in `memory_mut`; `&self` keeps writers of this Buf out.
                unsafe { shelf.memory.slice(offset, shelf.size) }
            }
            Memory::Lent(lent) => lent.bytes(),
            Memory::Received(received) => received,
        }
    }
}

/// Makes a buffer of received bytes as they lie, without a copy: what a stream brought is written from the
/// lane's receive buffer. It has no room behind them, and keeps the receive ring that much shorter until it
/// is dropped.
impl From<RecvBuf> for Buf {
    fn from(received: RecvBuf) -> Self {
        let len = received.len();
        Self { memory: Memory::Received(received), len }
    }
}

/// Makes a buffer of bytes with memory of their own, without room behind them.
impl From<Vec<u8>> for Buf {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(RecvBuf::from_vec(bytes))
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory()[..self.len]
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.memory_mut()[..len]
    }
}

impl Write for Buf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.append(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.memory {
            Memory::Pooled { class, index, .. } => write!(f, "Buf({class:?} #{index}, {} bytes)", self.len),
            Memory::Lent(lent) => write!(f, "Buf(lent #{}, {} bytes)", lent.key(), self.len),
            Memory::Received(_) => write!(f, "Buf(received, {} bytes)", self.len),
        }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // Other memory goes back to where it is from by itself.
        if let Memory::Pooled { pool, class, index } = &self.memory {
            let shelf = pool.shelf(*class);
            shelf.state.borrow_mut().free.push(*index);
            shelf.wake_one_if_free();
        }
    }
}

/// Future that waits for a buffer; see [`BufferPool::get`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct Get<'a> {
    pool: &'a BufferPool,
    class: BufClass,
    waited: bool,
}

impl Future for Get<'_> {
    type Output = Buf;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Buf> {
        if let Some(buf) = self.pool.try_get(self.class) {
            self.waited = false;
            return Poll::Ready(buf);
        }
        let mut state = self.pool.inner.shelf(self.class).state.borrow_mut();
        state.waiting.push_back(cx.waker().clone());
        state.waits += u64::from(!self.waited);
        drop(state);
        self.waited = true;
        Poll::Pending
    }
}

impl Drop for Get<'_> {
    /// Passes the turn on where a waiter that was woken gives up, else the buffer would lie there unseen.
    fn drop(&mut self) {
        if self.waited {
            self.pool.inner.shelf(self.class).wake_one_if_free();
        }
    }
}

struct PoolInner {
    small: Shelf,
    large: Shelf,
    /// True where the ring knows both shelves, by number.
    registered: Cell<bool>,
}

impl PoolInner {
    fn shelf(&self, class: BufClass) -> &Shelf {
        match class {
            BufClass::Small => &self.small,
            BufClass::Large => &self.large,
        }
    }
}

/// Buffers of one class, in a mapping of their own.
struct Shelf {
    memory: Mapping,
    size: usize,
    count: usize,
    state: RefCell<ShelfState>,
}

struct ShelfState {
    /// Numbers of free buffers, as a stack: the buffer given back last is the warmest.
    free: Vec<u32>,
    waiting: VecDeque<Waker>,
    waits: u64,
}

impl Shelf {
    fn new(size: usize, count: usize) -> io::Result<Self> {
        let memory = Mapping::new(size * count)?;
        let free = (0..u32::try_from(count).map_err(io::Error::other)?).rev().collect();
        let state = RefCell::new(ShelfState { free, waiting: VecDeque::new(), waits: 0 });
        Ok(Self { memory, size, count, state })
    }

    fn wake_one_if_free(&self) {
        let mut state = self.state.borrow_mut();
        let next = if state.free.is_empty() { None } else { state.waiting.pop_front() };
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_balance_through_lending_and_return() {
        let pool = BufferPool::new(BufferCounts { small: 2, large: 1 }).unwrap();
        let first = pool.try_get(BufClass::Small).unwrap();
        let second = pool.try_get(BufClass::Small).unwrap();
        assert!(pool.try_get(BufClass::Small).is_none());
        assert_eq!(pool.usage(BufClass::Small), PoolUsage { allocated: 2, free: 0, in_use: 2 });
        drop((first, second));
        assert_eq!(pool.usage(BufClass::Small), PoolUsage { allocated: 2, free: 2, in_use: 0 });
        assert!(pool.try_get(BufClass::Large).is_some());
    }

    #[test]
    fn received_bytes_are_a_buffer_without_room() {
        let mut received = RecvBuf::from_vec(b"head and body".to_vec());
        received.advance(9);
        let mut buf = Buf::from(received);
        assert_eq!((&*buf, buf.capacity(), buf.spare()), (&b"body"[..], 4, 0));
        assert_eq!(buf.append(b"more"), 0);
        buf.truncate(2);
        buf[0] = b'B';
        assert_eq!((&*buf, &*Buf::from(b"x".to_vec())), (&b"Bo"[..], &b"x"[..]));
        assert!(size_of::<Buf>() <= 72, "buffers move by value: {}", size_of::<Buf>());
    }

    #[test]
    fn two_buffers_never_share_bytes() {
        let pool = BufferPool::new(BufferCounts { small: 2, large: 0 }).unwrap();
        let mut first = pool.try_get(BufClass::Small).unwrap();
        let mut second = pool.try_get(BufClass::Small).unwrap();
        first.append(&[1; 40_000]);
        second.append(&[2; 40_000]);
        assert_eq!(first.len(), BufClass::Small.bytes());
        assert!(first.iter().all(|&b| b == 1));
        assert!(second.iter().all(|&b| b == 2));
    }
}
