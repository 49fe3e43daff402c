//! Operations in flight: memory, waiting tasks and outcomes.

use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::key::{GENERATION_MASK, Key, Kind};
use crate::backend::operation::{Op, Outcome};
use crate::backend::{Fd, KeepAlive, OpId};

/// Operations of a lane by slot.
#[derive(Default)]
pub(super) struct Ops {
    slots: Slab<OperationSlot>,
    generation: u32,
    /// Slots of operations that were given up and name descriptors that the kernel may not have looked up yet.
    orphans: Vec<usize>,
}

struct OperationSlot {
    generation: u32,
    state: OperationState,
}

enum OperationState {
    /// The kernel or a helper thread works on the operation.
    Working(Op, Option<Waker>),
    Finished(Outcome),
    /// No task wants the outcome; the slot stays until the kernel is done with the operation's memory.
    Orphaned(Op, Option<KeepAlive>),
    /// The operation changes from one state to another.
    Moving,
}

/// Receiver of an operation's end.
pub(super) enum EndedOperation {
    /// The task that waits for the operation, if one does yet.
    Told(Option<Waker>),
    /// No task waits: the outcome comes with what was held until now.
    Unwanted(Outcome, Option<KeepAlive>),
}

impl Ops {
    /// Gives an operation a slot until the operation has ended.
    pub(super) fn insert(&mut self, op: Op) -> (Key, &mut Op) {
        self.generation = (self.generation + 1) & GENERATION_MASK;
        let entry = self.slots.vacant_entry();
        let index = u32::try_from(entry.key()).expect("fewer than 2^32 operations in flight");
        let key = Key { kind: Kind::Op, generation: self.generation, index };
        let slot = OperationSlot { generation: self.generation, state: OperationState::Working(op, None) };
        let OperationState::Working(op, _) = &mut entry.insert(slot).state else { unreachable!("just made") };
        (key, op)
    }

    pub(super) fn poll(&mut self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome> {
        let key = Key::unpack(id.0);
        let slot = &mut self.slots[key.index as usize];
        assert_eq!(slot.generation, key.generation, "an operation's outcome is taken once");
        if let OperationState::Working(_, waker) = &mut slot.state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match self.slots.remove(key.index as usize).state {
            OperationState::Finished(outcome) => Poll::Ready(outcome),
            _ => unreachable!("checked above; orphans have no id holders"),
        }
    }

    /// Returns the operation of a completion that is not the last.
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Op> {
        match &mut self.slot(key)?.state {
            OperationState::Working(op, _) | OperationState::Orphaned(op, _) => Some(op),
            OperationState::Finished(_) | OperationState::Moving => None,
        }
    }

    /// Ends an operation with the result of `outcome`.
    pub(super) fn finish(&mut self, key: Key, outcome: impl FnOnce(Op) -> Outcome) -> EndedOperation {
        let Some(slot) = self.slot(key) else { return EndedOperation::Told(None) };
        match std::mem::replace(&mut slot.state, OperationState::Moving) {
            OperationState::Working(op, waker) => {
                slot.state = OperationState::Finished(outcome(op));
                EndedOperation::Told(waker)
            }
            OperationState::Orphaned(op, held) => {
                let index = key.index as usize;
                self.slots.remove(index);
                if op.is_looked_up_late() {
                    self.orphans.retain(|orphan| *orphan != index);
                }
                EndedOperation::Unwanted(outcome(op), held)
            }
            OperationState::Finished(_) | OperationState::Moving => unreachable!("an operation ends once"),
        }
    }

    /// Gives up an operation, and returns the outcome if there is one. Otherwise returns the key, for the
    /// operation is still in flight, and has `held` kept until the end.
    pub(super) fn forget(&mut self, id: OpId, held: Option<KeepAlive>) -> Result<Option<Outcome>, Key> {
        let key = Key::unpack(id.0);
        let Some(slot) = self.slot(key) else { return Ok(None) };
        match std::mem::replace(&mut slot.state, OperationState::Moving) {
            OperationState::Working(op, _) => {
                let is_late = op.is_looked_up_late();
                slot.state = OperationState::Orphaned(op, held);
                if is_late {
                    self.orphans.push(key.index as usize);
                }
                Err(key)
            }
            OperationState::Finished(outcome) => {
                self.slots.remove(key.index as usize);
                Ok(Some(outcome))
            }
            OperationState::Orphaned(..) | OperationState::Moving => {
                unreachable!("an operation is given up once")
            }
        }
    }

    /// Returns the number of operations with memory that the kernel may still touch.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| !matches!(slot.state, OperationState::Finished(_))).count()
    }

    /// Returns the number of operations in flight that no cancellation ends.
    pub(super) fn lasting(&self) -> usize {
        let lasts = |slot: &OperationSlot| match &slot.state {
            OperationState::Working(op, _) | OperationState::Orphaned(op, _) => !op.can_be_cancelled(),
            OperationState::Finished(_) | OperationState::Moving => false,
        };
        self.slots.iter().filter(|(_, slot)| lasts(slot)).count()
    }

    /// Returns whether an operation that was given up names this descriptor, and may still be looked up by
    /// the kernel.
    pub(super) fn is_named_by_orphans(&self, fd: Fd) -> bool {
        let names = |orphan: &usize| match &self.slots[*orphan].state {
            OperationState::Orphaned(op, _) => op.descriptor() == fd || op.second() == Some(fd),
            _ => false,
        };
        self.orphans.iter().any(names)
    }

    fn slot(&mut self, key: Key) -> Option<&mut OperationSlot> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }
}
