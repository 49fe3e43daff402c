//! Statistics of a package's procedures.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Failure, Fault};

/// Counters of one lane's server about the `N` procedures of a package, in the order of its `PROCEDURES`. One
/// thread writes; any may read.
#[derive(Debug)]
pub struct Tally<const N: usize> {
    procedures: [Counts; N],
    unknown_opcodes: AtomicU64,
    without_opcode: AtomicU64,
}

/// Statistics of one procedure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcedureCounts {
    /// Calls whose opcode was read.
    pub calls: u64,
    /// Calls that ended with a reply.
    pub replied: u64,
    /// Calls that the procedure refused.
    pub refused: u64,
    /// Calls whose request or reply had parameters that break the interface.
    pub faults: u64,
    /// Calls that the client or the network ended.
    pub lost: u64,
    /// Sum of the time that ended calls took from their opcode on, in microseconds.
    pub took_us: u64,
    /// Longest time that an ended call took from its opcode on, in microseconds.
    pub took_us_max: u64,
}

impl AddAssign for ProcedureCounts {
    /// Adds the calls of another server.
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.replied += other.replied;
        self.refused += other.refused;
        self.faults += other.faults;
        self.lost += other.lost;
        self.took_us += other.took_us;
        self.took_us_max = self.took_us_max.max(other.took_us_max);
    }
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    replied: AtomicU64,
    refused: AtomicU64,
    faults: AtomicU64,
    lost: AtomicU64,
    took_us: AtomicU64,
    took_us_max: AtomicU64,
}

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self {
            procedures: std::array::from_fn(|_| Counts::default()),
            unknown_opcodes: AtomicU64::new(0),
            without_opcode: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Tally<N> {
    /// Returns the statistics of a procedure, by its index.
    ///
    /// # Panics
    /// When the package has no such procedure.
    pub fn of(&self, index: usize) -> ProcedureCounts {
        let counts = &self.procedures[index];
        ProcedureCounts {
            calls: counts.calls.load(Relaxed),
            replied: counts.replied.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            faults: counts.faults.load(Relaxed),
            lost: counts.lost.load(Relaxed),
            took_us: counts.took_us.load(Relaxed),
            took_us_max: counts.took_us_max.load(Relaxed),
        }
    }

    /// Returns the number of calls for procedures that the package has not.
    pub fn unknown_opcodes(&self) -> u64 {
        self.unknown_opcodes.load(Relaxed)
    }

    /// Returns the number of calls that ended before their opcode.
    pub fn without_opcode(&self) -> u64 {
        self.without_opcode.load(Relaxed)
    }

    /// Counts a call of a procedure, which begins.
    pub fn begin(&self, index: usize) {
        add(&self.procedures[index].calls, 1);
    }

    /// Counts the end of a call of a procedure, its outcome and the time that it took.
    pub fn end<T, E>(&self, index: usize, began: Instant, now: Instant, outcome: &Result<T, Failure<E>>) {
        let counts = &self.procedures[index];
        add(
            match outcome {
                Ok(_) => &counts.replied,
                Err(Failure::Refused(_)) => &counts.refused,
                Err(Failure::Fault(_)) => &counts.faults,
                Err(Failure::Stream(_)) => &counts.lost,
            },
            1,
        );
        let took: Duration = now.saturating_duration_since(began);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&counts.took_us, took_us);
        counts.took_us_max.store(counts.took_us_max.load(Relaxed).max(took_us), Relaxed);
    }

    /// Counts a call whose opcode is unknown or did not come.
    pub fn refuse<E>(&self, failure: &Failure<E>) {
        match failure {
            Failure::Fault(Fault::UnknownOpcode { .. }) => add(&self.unknown_opcodes, 1),
            _ => add(&self.without_opcode, 1),
        }
    }
}

/// Adds to a counter without a lock, as one thread writes.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}
