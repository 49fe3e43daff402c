//! Memory that named pipes keep for their clients, process-wide: requests that are not all there, and answers that wait to be read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use budget::{Books, Consumer, Shares, give_back};
use lane::counters::{CounterBlock, CounterKind, Reading};
use lane::mesh::Member;

/// The memory of all pipes, counted by session, address and user.
#[derive(Clone, Debug)]
pub(crate) struct PipeMemory(Arc<Mutex<MemoryHeld>>);

#[derive(Debug)]
struct MemoryHeld {
    books: Books,
    sessions: HashMap<u64, usize>,
    /// Bytes of the pipes that were opened on a lane.
    lanes: HashMap<Member, usize>,
}

/// Bytes that one pipe keeps. Dropped, they are free again.
#[derive(Debug)]
pub(crate) struct PipeCharge {
    memory: PipeMemory,
    consumer: Consumer,
    session: u64,
    lane: Member,
    bytes: usize,
}

/// Shows the bytes of the pipes that were opened on a lane.
pub(crate) struct PipeBytes {
    memory: PipeMemory,
    lane: Member,
}

impl PipeMemory {
    /// Begins the charge of a pipe of `session`, opened on `lane` for `consumer`.
    pub(crate) fn charge(&self, session: u64, consumer: Consumer, lane: Member) -> PipeCharge {
        PipeCharge { memory: self.clone(), consumer, session, lane, bytes: 0 }
    }

    /// Shows the bytes of the pipes that were opened on `lane`.
    pub(crate) fn shown(&self, lane: Member) -> PipeBytes {
        PipeBytes { memory: self.clone(), lane }
    }

    /// Returns how many bytes all pipes keep.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.lock().books.held()
    }

    fn lock(&self) -> MutexGuard<'_, MemoryHeld> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for PipeMemory {
    fn default() -> Self {
        let books = Books::new(ALL_MAX, Shares::THRICE);
        Self(Arc::new(Mutex::new(MemoryHeld { books, sessions: HashMap::new(), lanes: HashMap::new() })))
    }
}

impl MemoryHeld {
    fn take(&mut self, charge: &PipeCharge, bytes: usize) -> bool {
        let of_session = self.sessions.get(&charge.session).copied().unwrap_or_default();
        if of_session + bytes > PER_SESSION_MAX || self.books.take(charge.consumer, bytes).is_err() {
            return false;
        }
        self.sessions.insert(charge.session, of_session + bytes);
        *self.lanes.entry(charge.lane).or_default() += bytes;
        true
    }

    fn give_back(&mut self, charge: &PipeCharge, bytes: usize) {
        self.books.give_back(charge.consumer, bytes);
        give_back(&mut self.sessions, charge.session, bytes);
        give_back(&mut self.lanes, charge.lane, bytes);
    }
}

impl smb_rpc::Memory for PipeCharge {
    fn resize(&mut self, bytes: usize) -> bool {
        if bytes == self.bytes {
            return true;
        }
        let mut held = self.memory.lock();
        match bytes.checked_sub(self.bytes) {
            Some(more) if !held.take(self, more) => return false,
            Some(_) => {}
            None => held.give_back(self, self.bytes - bytes),
        }
        drop(held);
        self.bytes = bytes;
        true
    }
}

impl Drop for PipeCharge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.lock().give_back(self, self.bytes);
        }
    }
}

impl CounterBlock for PipeBytes {
    fn visit(&self, visit: &mut dyn FnMut(Reading)) {
        let held = self.memory.lock().lanes.get(&self.lane).copied().unwrap_or_default();
        visit(Reading {
            name: "pipe_bytes",
            help: "Bytes of requests that are not all there, and of answers not yet read, in named pipes.",
            kind: CounterKind::Gauge,
            label: None,
            value: held as u64,
        });
    }
}

//@ limit: bytes of requests and answers in named pipes
//@ section: SMB
//@ unit: byte; of one pipe 64 KiB of a request and one answer of 1 MiB at most
//@ connection: {PER_SESSION_MAX:b} of a session
//@ address: three times what is free
//@ all: process: {:b}
//@ empty: STATUS_INSUFFICIENT_RESOURCES, or a fault in place of the answer; others feel nothing
//@ counter: smb_pipe_bytes, smb_pipe_memory_refused
//@ attack: smb-pools
/// Bytes that all pipes keep together.
const ALL_MAX: usize = 16 << 20;
/// Bytes of a session's pipes: room for the longest answer, and for a short one in each of some hundred pipes.
const PER_SESSION_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use budget::UserNumber;
    use smb_rpc::Memory;

    use super::*;

    const PIECE: usize = 64 << 10;

    fn charges(memory: &PipeMemory, session: u64, consumer: Consumer) -> Vec<PipeCharge> {
        let lane = Member::from(0);
        std::iter::from_fn(|| {
            let mut charge = memory.charge(session, consumer, lane);
            charge.resize(PIECE).then_some(charge)
        })
        .collect()
    }

    #[test]
    fn a_session_an_address_and_a_user_leave_memory_to_others_and_give_it_back() {
        let user = Some(UserNumber(7));
        let here = IpAddr::from([192, 0, 2, 1]);
        let of_address = |_| Consumer { address: here, user: None };
        let of_user = |last| Consumer { address: [192, 0, 2, last].into(), user };
        for consumer in [&of_address as &dyn Fn(u8) -> Consumer, &of_user] {
            let memory = PipeMemory::default();
            let mut taken = Vec::new();
            for session in 0..64 {
                let more = charges(&memory, session, consumer(session as u8));
                assert!(more.len() * PIECE <= PER_SESSION_MAX);
                taken.extend(more);
            }
            let all = taken.len() * PIECE;
            assert!((ALL_MAX / 4 * 3 - PIECE..=ALL_MAX / 4 * 3).contains(&all), "{all}");
            let other = Consumer { address: [198, 51, 100, 7].into(), user: Some(UserNumber(8)) };
            assert_eq!(charges(&memory, 100, other).len() * PIECE, PER_SESSION_MAX);
            assert!(taken[0].resize(1), "less is always to be had");
            drop(taken);
            let held = memory.lock();
            assert!(held.books.is_empty() && held.sessions.is_empty() && held.lanes.is_empty());
        }
    }
}
