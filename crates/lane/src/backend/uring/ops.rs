//! Single operations in flight: what they own, who waits, and what became of them.

use std::ffi::CString;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::key::{GENERATION_MASK, Key, Kind};
use crate::backend::{OpId, Outcome};
use crate::buffer::Buf;

/// Operations by slot.
#[derive(Default)]
pub(super) struct Ops {
    slots: Slab<Slot>,
    generation: u32,
}

struct Slot {
    generation: u32,
    state: State,
    owned: Owned,
}

enum State {
    Waiting(Option<Waker>),
    /// What was opened is closed if nobody takes it.
    Finished(Outcome<OwnedFd>),
    /// Nobody wants the outcome; the slot stays until the kernel is done with what it owns.
    Orphaned,
}

/// Memory the kernel reads or writes until the operation completes.
pub(super) enum Owned {
    /// Nothing: the operation runs on a helper thread or needs no memory.
    Nothing,
    /// Bytes being sent.
    Sent(Buf),
    /// A buffer being read into, after its length.
    Filled(Buf),
    /// A path and how to open it.
    Open(Box<(CString, io_uring::types::OpenHow)>),
    /// A socket address.
    Address(Box<socket2::SockAddr>),
}

impl Ops {
    pub(super) fn insert(&mut self, owned: Owned) -> Key {
        self.generation = (self.generation + 1) & GENERATION_MASK;
        let slot = Slot { generation: self.generation, state: State::Waiting(None), owned };
        let index = u32::try_from(self.slots.insert(slot)).expect("fewer than 2^32 operations in flight");
        Key { kind: Kind::Op, generation: self.generation, index }
    }

    /// The memory of an operation, at an address that does not move while it is in flight.
    pub(super) fn owned_mut(&mut self, key: Key) -> &mut Owned {
        &mut self.slots[key.index as usize].owned
    }

    pub(super) fn poll(&mut self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome<OwnedFd>> {
        let key = Key::unpack(id.0);
        let slot = &mut self.slots[key.index as usize];
        assert_eq!(slot.generation, key.generation, "an operation's outcome is taken once");
        if let State::Waiting(waker) = &mut slot.state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match self.slots.remove(key.index as usize).state {
            State::Finished(outcome) => Poll::Ready(outcome),
            State::Waiting(_) | State::Orphaned => unreachable!("checked above; orphans have no id holders"),
        }
    }

    /// Ends an operation with what `outcome` makes of the memory it owned. Returns whom to wake.
    pub(super) fn finish(
        &mut self,
        key: Key,
        outcome: impl FnOnce(Owned) -> Outcome<OwnedFd>,
    ) -> Option<Waker> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        let owned = std::mem::replace(&mut slot.owned, Owned::Nothing);
        let outcome = outcome(owned);
        match std::mem::replace(&mut slot.state, State::Orphaned) {
            State::Waiting(waker) => {
                slot.state = State::Finished(outcome);
                waker
            }
            State::Orphaned => {
                self.slots.remove(key.index as usize);
                drop(outcome);
                None
            }
            State::Finished(_) => unreachable!("an operation completes once"),
        }
    }

    /// Nobody wants the outcome any more. True when the operation is still in flight.
    pub(super) fn forget(&mut self, id: OpId) -> Option<Key> {
        let key = Key::unpack(id.0);
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        if let State::Waiting(_) = slot.state {
            slot.state = State::Orphaned;
            return Some(key);
        }
        self.slots.remove(key.index as usize);
        None
    }

    /// Operations whose memory the kernel may still touch.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| !matches!(slot.state, State::Finished(_))).count()
    }
}

impl Owned {
    pub(super) fn address(addr: SocketAddr) -> Self {
        Self::Address(Box::new(addr.into()))
    }
}
