//! State that all connections of an endpoint share: pool, peers, counters, queues of work, events and timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use crate::ack::Trailer;
use crate::checks::Checks;
use crate::config::EndpointConfig;
use crate::connection::Core;
use crate::event::{CallHandle, Event};
use crate::jumbo_path::PARTS_MAX;
use crate::packet::PacketPool;
use crate::peer::Peers;
use crate::rate::Share;
use crate::ready::Ready;
use crate::security::Surroundings;
use crate::stats::EndpointStats;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: EndpointConfig,
    pub(crate) pool: PacketPool,
    pub(crate) peers: Peers,
    pub(crate) stats: EndpointStats,
    pub(crate) rng: StdRng,
    pub(crate) events: VecDeque<Event>,
    /// Connections to look at in the next transmit pass, each at most once.
    pub(crate) ready: Ready,
    timers: BinaryHeap<Reverse<Timer>>,
    /// Time when timers ran last.
    timers_ran_at: Option<Instant>,
    /// Calls whose write was refused for want of a buffer.
    pub(crate) waiting_for_packets: VecDeque<CallHandle>,
    /// Buffers that writers leave for received packets.
    pub(crate) reserved_from_writers: usize,
    /// Buffers that received packets leave for ACKs and the like.
    pub(crate) reserved_from_readers: usize,
    pub(crate) scratch: Vec<u8>,
    /// Abort code of clients' further calls, once further calls are refused.
    pub(crate) refuses: Option<i32>,
    /// Checks of RESPONSEs by connections' security classes.
    pub(crate) checks: Checks,
    /// Rate that all connections share.
    pub(crate) share: Share,
    /// Time when the time of day was last set, and its value since 1970.
    pub(crate) time_of_day: Option<(Instant, Duration)>,
    /// Connections held back for want of credit at their address.
    waiting_for_credit: Vec<u32>,
    /// Number of times that the list was emptied: a connection added since is on it.
    credit_round: u64,
}

/// Timer: time, connection index and generation.
type Timer = (Instant, u32, u32);

impl Shared {
    pub(crate) fn new(config: EndpointConfig, rng: StdRng) -> Self {
        let packet_size = usize::from(config.packet_size_max.max(PACKET_SIZE_MIN));
        let payload_max = packet_size - crate::header::HEADER_LEN;
        let pool = match config.packets_kept {
            None => PacketPool::new(config.packets, payload_max),
            Some(kept) => PacketPool::keeping(config.packets, payload_max, kept),
        };
        let peers = Peers::new(config.connections_max);
        Self {
            reserved_from_writers: config.packets / 4,
            reserved_from_readers: config.packets / 16,
            scratch: vec![0; packet_size],
            pool,
            config,
            peers,
            stats: EndpointStats::default(),
            rng,
            events: VecDeque::new(),
            ready: Ready::default(),
            timers: BinaryHeap::new(),
            timers_ran_at: None,
            waiting_for_packets: VecDeque::new(),
            refuses: None,
            checks: Checks::default(),
            time_of_day: None,
            share: Share::default(),
            waiting_for_credit: Vec::new(),
            credit_round: 1,
        }
    }

    /// Returns the clock and random numbers for a security class.
    pub(crate) fn surroundings(&mut self, now: Instant) -> Surroundings<'_> {
        let unix = self.time_of_day.map(|(told, unix)| unix + now.saturating_duration_since(told));
        Surroundings { now, unix, random: &mut self.rng }
    }

    /// Returns when a time of day comes, as far as is known; at once if it has passed.
    pub(crate) fn instant_of(&self, unix: Duration) -> Option<Instant> {
        let (told, then) = self.time_of_day?;
        told.checked_add(unix.saturating_sub(then))
    }

    /// Adds a connection to those that continue once an address has its credit back.
    pub(crate) fn wait_for_credit(&mut self, core: &mut Core) {
        // Once only, however often it looks in vain. Where the list is full of others its own timers make it look again:
        // to call all of them here would be a transmit pass that never ends.
        let is_listed = core.waits_for_credit == self.credit_round;
        if !is_listed && self.waiting_for_credit.len() < WAITING_MAX {
            core.waits_for_credit = self.credit_round;
            self.waiting_for_credit.push(core.index);
        }
    }

    /// Notes that credit came back to an address: connections that wait for some look again in the next
    /// transmit pass.
    pub(crate) fn credit_returned(&mut self) {
        if !self.waiting_for_credit.is_empty() {
            self.credit_round += 1;
            self.ready.extend(self.waiting_for_credit.drain(..));
        }
    }

    /// Returns whether buffers run short, so that no peer is offered more of them than it can use.
    pub(crate) fn is_pool_short(&self) -> bool {
        self.pool.free_count() < self.pool.allocated() / 4
    }

    /// Returns the receive window of a new call, in packets, where the last one's on its channel was `last`.
    pub(crate) fn first_window(&self, last: u32) -> u32 {
        let window = if self.is_pool_short() { WINDOW_FIRST } else { last.max(WINDOW_FIRST) };
        window.min(self.config.receive_window)
    }

    /// Adds a connection to the list for the next transmit pass.
    pub(crate) fn mark_ready(&mut self, core: &mut Core) {
        if !std::mem::replace(&mut core.queued, true) {
            self.ready.push(core.index);
        }
    }

    /// Returns when to wake a connection whose turn has ended and that wants to be woken at `at`. A timer is a fault
    /// of ours if it was due when timers ran last, and still is after some turns in a row. It is tried again later,
    /// and not at once.
    pub(crate) fn put_off(&mut self, core: &mut Core, now: Instant, at: Instant) -> Instant {
        if self.timers_ran_at.is_none_or(|ran| at > ran) {
            core.overdue_turns = 0;
            return at;
        }
        core.overdue_turns += 1;
        if core.overdue_turns < OVERDUE_TURNS_MAX {
            return at;
        }
        core.overdue_turns = 0;
        self.stats.timers_put_off += 1;
        debug_assert!(false, "a timer of a connection is due after {OVERDUE_TURNS_MAX} turns that ran it");
        now + OVERDUE_RETRY
    }

    /// Notes that timers are about to run.
    pub(crate) fn timers_run(&mut self, now: Instant) {
        self.timers_ran_at = Some(now);
    }

    /// Ensures that the connection is woken at `at` or earlier. A wake-up already set for earlier is kept:
    /// when it comes, the connection states its true deadline again. So moving a deadline later costs
    /// nothing.
    pub(crate) fn arm(&mut self, core: &mut Core, at: Instant) {
        if core.armed.is_none_or(|armed| at < armed) {
            core.armed = Some(at);
            self.timers.push(Reverse((at, core.index, core.generation)));
        }
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes a timer that is due: index, generation and time.
    pub(crate) fn pop_timer(&mut self, now: Instant) -> Option<Timer> {
        let Reverse((at, ..)) = self.timers.peek()?;
        if *at > now {
            return None;
        }
        self.timers.pop().map(|Reverse(timer)| timer)
    }

    /// Returns the number of wake-ups set, stale ones included.
    pub(crate) fn timer_count(&self) -> usize {
        self.timers.len()
    }

    /// Drops the wake-ups for which `keep(index, generation)` does not hold.
    pub(crate) fn retain_timers(&mut self, keep: impl Fn(u32, u32) -> bool) {
        self.timers.retain(|&Reverse((_, index, generation))| keep(index, generation));
    }

    /// Returns the trailer of an ACK to an unknown peer.
    pub(crate) fn own_trailer(&self) -> Trailer {
        let packet = self.scratch.len() as u32;
        let jumbo_max = if self.config.extensions { 0 } else { 1 };
        Trailer { max_mtu: packet, if_mtu: packet, window: 0, jumbo_max }
    }

    /// Returns the trailer of a connection's ACKs; the window is the call's own.
    pub(crate) fn trailer(&self, now: Instant, core: &Core) -> Trailer {
        let (own, peer) = (self.own_trailer(), &self.peers[core.peer]);
        // What holds of a path for ours is taken to hold for theirs.
        let takes = (peer.is_stock() || !self.config.extensions)
            && peer.jumbo.carried(now, || core.security.protects_data()) > 1;
        Trailer { jumbo_max: if takes { PARTS_MAX.into() } else { own.jumbo_max }, ..own }
    }
}

//@ limit: timers that their turns do not settle
//@ section: Rx
//@ unit: turn
//@ connection: {}, then put off by {OVERDUE_RETRY}
//@ all: lane: a driver sleeps 5 ms after 16 passes in which nothing happened
//@ empty: tried again later; a lane does not spin
//@ counter: rx_timers_put_off, rx_passes_idle
//@ attack: rx-owed-acks
/// Turns in a row after which packets of a connection are still due, before it is put off.
const OVERDUE_TURNS_MAX: u8 = 4;
/// Time for which a connection with a timer that its turns do not settle is put off.
const OVERDUE_RETRY: Duration = Duration::from_millis(20);
/// Places in the list of connections that wait for credit.
const WAITING_MAX: usize = 16 * 1024;
/// Receive window of a channel's first call, in packets: enough for any slow start, little for a reader that
/// is slow.
const WINDOW_FIRST: u32 = 512;
/// Packet size that every Rx must take, in bytes with Rx header.
const PACKET_SIZE_MIN: u16 = 1444;
