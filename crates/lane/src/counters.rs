//! Counters that a lane writes and a collector reads: a block of cache lines per lane, plain loads and
//! stores, no line shared between lanes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of a counter block, changed only by the lane that owns the block.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`, wrapping at 2^64. Wraps at 2^64.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one, wrapping at 2^64.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Subtracts `n`, for gauges.
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// Replaces the value, for gauges.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Returns the value, from any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The counter only grows, wrapping at 2^64.
    Count,
    /// The counter is a level, which falls too.
    Gauge,
}

/// Reading of a counter by a collector.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Name in snake case, without prefix: `bytes_in`.
    pub name: &'static str,
    /// Description of what the counter counts, in one line.
    pub help: &'static str,
    /// Kind of the counter.
    pub kind: CounterKind,
    /// Label and value that split a family, as `("reason", "bad_request")`.
    pub label: Option<(&'static str, &'static str)>,
    /// Value of the counter at the reading.
    pub value: u64,
}

/// A block of counters that a collector can visit.
pub trait CounterBlock: Send + Sync {
    /// Calls `visit` for every counter of the block.
    fn visit(&self, visit: &mut dyn FnMut(Reading));
}

/// Declares a counter block: a struct of [`Counter`] fields on cache lines of its own, and its
/// [`CounterBlock`] walk. `count` fields only grow, `gauge` fields are levels; `[label = "value"]` makes the
/// field one member of the family named before it.
///
/// ```
/// lane::counter_block! {
///     /// What the echo service counts.
///     pub struct EchoCounters {
///         count echoes: "Requests echoed.",
///         gauge open: "Connections open.",
///         count refused_large as refused [reason = "large"]: "Requests refused.",
///         count refused_late as refused [reason = "late"]: "Requests refused.",
///     }
/// }
/// let counters = EchoCounters::default();
/// counters.echoes.increment();
/// assert_eq!(counters.echoes.get(), 1);
/// ```
#[macro_export]
macro_rules! counter_block {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($kind:ident $field:ident $(as $family:ident [$label:ident = $value:literal])? : $help:literal),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        $vis struct $name {
            $(#[doc = $help] pub $field: $crate::counters::Counter,)*
        }

        impl $crate::counters::CounterBlock for $name {
            fn visit(&self, visit: &mut dyn FnMut($crate::counters::Reading)) {
                $(visit($crate::counters::Reading {
                    name: $crate::counter_block!(@name $field $($family)?),
                    help: $help,
                    kind: $crate::counter_block!(@kind $kind),
                    label: $crate::counter_block!(@label $($label $value)?),
                    value: self.$field.get(),
                });)*
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $family:ident) => { stringify!($family) };
    (@kind count) => { $crate::counters::CounterKind::Count };
    (@kind gauge) => { $crate::counters::CounterKind::Gauge };
    (@label) => { None };
    (@label $label:ident $value:literal) => { Some((stringify!($label), $value)) };
}

counter_block! {
    /// Counters of every lane.
    pub struct LaneCounters {
        count bytes_in: "Bytes received from the network.",
        count bytes_out: "Bytes sent to the network.",
        count datagrams_in: "UDP datagrams received.",
        count datagrams_out: "UDP datagrams sent.",
        count datagrams_bad: "UDP receives dropped because the kernel had to cut them.",
        count unreachable: "Datagrams that the network reported as not arrived.",
        count unreachable_dropped: "Of these reports, those dropped because their socket had its limit untaken.",
        count accepted: "TCP connections accepted.",
        count accept_errors: "Failed accepts: descriptors or memory ran out.",
        gauge sockets: "Sockets open.",
        gauge files: "Files open.",
        gauge tasks: "Tasks alive.",
        count task_panics: "Tasks ended by a panic: defects.",
        count essential_restarts: "Essential tasks begun again after a panic or an unexpected end.",
        count failed: "Ends of the lane because a task that it needs could not go on.",
        count turns: "Rounds of the lane's loop.",
        count parks: "Rounds that waited in the kernel.",
        count gathers: "Of these, those that waited for more to arrive.",
        count syscalls: "System calls made by the lane's thread.",
        count submissions: "Operations handed to the ring.",
        count completions: "Completions taken from the ring.",
        count recv_starved: "Receives stopped because every provided buffer was in use.",
        count recv_paused: "Receives stopped because a task had not taken what came before.",
        count recv_copied: "Arrivals copied out of the receive ring: nobody waited for them, or the ring was short.",
        count recv_reclaimed: "Buffers of the receive ring taken back from streams that left them untaken.",
        count recv_disarmed: "Receives stopped because copies had half their budget; those waited for begin again at once, for one buffer.",
        gauge recv_held_bytes: "Memory of copies of received bytes that nobody took.",
        count zero_copy_sends: "Sends out of the memory that their bytes lie in.",
        count zero_copy_copied: "Of these, those that the kernel copied in spite of all.",
        count zero_copy_refused: "Of these, those that the kernel or the socket refused and that were copied.",
        count pipes_short: "Splices that went another way because the lane had lent all its pipes.",
        count pipes_closed: "Pipes closed because bytes were left in them.",
        count buffers_unregistered: "Pools of buffers that the ring could not register: more than may be locked in memory.",
        count cold_reads: "File reads that the page cache could not serve inline.",
        count closes_aside: "Files that helper threads closed: the close waits for the disk when a file has no name left or was cut.",
        count helper_jobs: "Calls given to the silo's helper threads.",
        count ring_lacks: "Of these, those that the running kernel's ring has no operation for.",
        count helper_refused: "Calls refused because the helpers' queue was full.",
        count helper_panics: "Calls that panicked on a helper thread: defects.",
        count abandoned: "Operations that the kernel had not let go of when the lane ended; their memory is never used again.",
        gauge buffers_small_in_use: "Small buffers lent.",
        gauge buffers_large_in_use: "Large buffers lent.",
        count mail_sent: "Messages and calls sent to other lanes.",
        count mail_received: "Messages and calls of other lanes taken.",
        count mail_refused_full as mail_refused [reason = "full"]: "Messages and calls that another lane did not take.",
        count mail_refused_gone as mail_refused [reason = "gone"]: "Messages and calls that another lane did not take.",
        count mail_lost: "Messages and calls of other lanes dropped unread because their port was closed.",
        count wakes: "Times the lane woke another that waited in the kernel.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_start_on_a_cache_line_pair_of_their_own() {
        assert_eq!(std::mem::align_of::<LaneCounters>(), 128);
        assert_eq!(std::mem::size_of::<LaneCounters>() % 128, 0);
    }
}
