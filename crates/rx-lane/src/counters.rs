//! Counters of one lane's Rx, in a block that a collector may read from any thread.

use rx::{EndpointStats, PacketPool};

/// Declares the counter block and the copying of the endpoint's own counters, so that each is listed once.
macro_rules! rx_counters {
    (
        own { $($own:tt)* }
        endpoint { $($field:ident $(as $family:ident [$label:ident = $value:literal])? : $help:literal,)* }
    ) => {
        lane::counter_block! {
            /// Counters of one lane's Rx: packet books, traffic, calls, and every refusal by its reason.
            pub struct RxCounters {
                $($own)*
                $(count $field $(as $family [$label = $value])? : $help,)*
            }
        }

        impl RxCounters {
            fn copy(&self, stats: &EndpointStats) {
                $(self.$field.set(stats.$field);)*
            }
        }
    };
}

rx_counters! {
    own {
        gauge packets_allocated: "Packet buffers of the pool; always free and in use together.",
        gauge packets_free: "Packet buffers nobody holds.",
        gauge packets_in_use: "Packet buffers that calls, queues and transmits hold.",
        gauge packets_low_water: "Fewest free packet buffers since start.",
        count packets_exhausted: "Packet buffers asked for when none was free.",
        gauge connections: "Connections, opened and accepted.",
        gauge handlers: "Calls in the hands of services.",
        count handlers_refused: "Calls aborted because services had their limit in hand, or their host its share.",
        count handlers_cancelled: "Services' tasks ended because their call had died.",
        count handlers_failed: "Calls aborted with their handler's error.",
        count handlers_panicked: "Services' tasks that a panic has ended; their calls were aborted.",
        count calls_cut: "Calls aborted because they had not ended by the deadline of a drain.",
        count handed_over as handed_over [to = "own_silo"]: "Packets given to the lane that owns their connection.",
        count handed_across as handed_over [to = "other_silo"]: "Packets given to the lane that owns their connection.",
        count handed_in: "Packets that other lanes gave to this one.",
        count handover_full: "Packets dropped because the owner's box for this lane was full.",
        count handover_lost: "Packets dropped because their connection's owner ended, or changed again and again.",
        count lane_mail_undelivered: "Questions between lanes, and answers, that found the box full or the lane gone.",
        count shares_limited: "Lanes' parts in DEBUG answers not given: too many.",
        count send_blocked: "Times the socket took no more.",
        count passes_idle: "Passes in a row that did nothing and were to follow at once: a fault of the server; it sleeps.",
        count receive_errors: "Receives that the system failed.",
        count send_errors: "Bursts that the system refused; lost, as far as Rx knows.",
    }
    endpoint {
        datagrams_received: "Datagrams received.",
        bytes_received: "Bytes of datagrams received.",
        transmits: "Bursts sent.",
        datagrams_sent: "Datagrams sent.",
        bytes_sent: "Bytes of datagrams sent.",
        data_received as packets_received [kind = "data"]: "Packets received by kind.",
        acks_received as packets_received [kind = "ack"]: "Packets received by kind.",
        aborts_received as packets_received [kind = "abort"]: "Packets received by kind.",
        busies_received as packets_received [kind = "busy"]: "Packets received by kind.",
        data_sent as packets_sent [kind = "data"]: "Packets sent by kind.",
        acks_sent as packets_sent [kind = "ack"]: "Packets sent by kind.",
        aborts_sent as packets_sent [kind = "abort"]: "Packets sent by kind.",
        busies_sent as packets_sent [kind = "busy"]: "Packets sent by kind.",
        challenges_sent as packets_sent [kind = "challenge"]: "Packets sent by kind.",
        responses_sent as packets_sent [kind = "response"]: "Packets sent by kind.",
        pings_sent as packets_sent [kind = "ping"]: "Packets sent by kind.",
        versions_sent as packets_sent [kind = "version"]: "Packets sent by kind.",
        debugs_sent as packets_sent [kind = "debug"]: "Packets sent by kind.",
        resends: "DATA packets sent again.",
        resends_spurious: "Resends of packets that turned out to have arrived.",
        jumbograms_sent: "Datagrams of several DATA packets sent, to stock peers.",
        jumbograms_cut: "Of these, those sent as IP fragments.",
        bursts_gathered as bursts_held [why = "gathered"]: "Times a call to a stock peer waited to send more at once.",
        bursts_crowded as bursts_held [why = "socket_full"]: "Times a call to a stock peer waited to send more at once.",
        stock_received: "Packets received from stock peers.",
        timeouts: "Retransmission timeouts.",
        tail_probes: "Tail losses probed with a ping.",
        mtu_probes: "Path-MTU probes sent.",
        mtu_probes_lost: "Path-MTU probes that the path or the interface did not carry.",
        calls_opened: "Calls made.",
        calls_accepted: "Calls accepted.",
        calls_finished as calls_ended [how = "finished"]: "Calls ended.",
        calls_aborted as calls_ended [how = "aborted"]: "Calls ended.",
        calls_dead as calls_ended [how = "dead"]: "Calls ended.",
        connections_made: "Connections opened or accepted.",
        connections_reaped: "Connections removed.",
        connections_rebound: "Connections whose client moved to another address.",
        moves_asked: "Questions to addresses that a client may have moved to.",
        strays as refused [reason = "stray"]: "Packets refused or dropped.",
        calls_refused as refused [reason = "draining"]: "Packets refused or dropped.",
        cookies_sent as cookies [step = "sent"]: "Newcomers asked to answer before anything is kept of them.",
        cookies_returned as cookies [step = "returned"]: "Newcomers asked to answer before anything is kept of them.",
        cookies_refused as cookies [step = "refused"]: "Newcomers asked to answer before anything is kept of them.",
        bad_headers as refused [reason = "bad_header"]: "Packets refused or dropped.",
        bad_acks as refused [reason = "bad_ack"]: "Packets refused or dropped.",
        acks_never_sent as refused [reason = "ack_never_sent"]: "Packets refused or dropped.",
        acks_disordered as refused [reason = "ack_disordered"]: "Packets refused or dropped.",
        acks_stale as refused [reason = "ack_stale"]: "Packets refused or dropped.",
        bad_jumbograms as refused [reason = "bad_jumbogram"]: "Packets refused or dropped.",
        bad_data as refused [reason = "bad_data"]: "Packets refused or dropped.",
        duplicates as refused [reason = "duplicate"]: "Packets refused or dropped.",
        beyond_window as refused [reason = "beyond_window"]: "Packets refused or dropped.",
        no_buffers as refused [reason = "no_buffer"]: "Packets refused or dropped.",
        over_share as refused [reason = "over_share"]: "Packets refused or dropped.",
        over_share_writes: "Writes put off because the client's host had its share of the packet buffers.",
        packets_reclaimed: "Packets ahead of a gap that the largest holder gave up when buffers ran short.",
        wrong_security as refused [reason = "wrong_security"]: "Packets refused or dropped.",
        security_refusals as refused [reason = "security"]: "Packets refused or dropped.",
        unknown_calls as refused [reason = "unknown_call"]: "Packets refused or dropped.",
        old_calls as refused [reason = "old_call"]: "Packets refused or dropped.",
        unknown_services as refused [reason = "unknown_service"]: "Packets refused or dropped.",
        connections_refused as refused [reason = "connections_full"]: "Packets refused or dropped.",
        connections_displaced: "Idle connections of whoever had most, removed to make room.",
        connections_evicted: "Unproved connections that gave way to newer ones.",
        aborts_limited: "Aborts not sent because their source had too many.",
        answers_limited: "VERSION and DEBUG questions not answered: too many.",
        strangers_limited as refused [reason = "strangers"]: "Packets refused or dropped.",
        amplification_limited: "Packets held back because the address has not answered lately.",
        timers_put_off: "Timers put off because turns in a row did not settle them: a fault of the server.",
        unreachable_believed as unreachable [report = "believed"]: "Reports of the network that a peer cannot be reached.",
        unreachable_ignored as unreachable [report = "ignored"]: "Reports of the network that a peer cannot be reached.",
        misplaced as refused [reason = "misplaced"]: "Packets refused or dropped.",
        bad_responses as refused [reason = "bad_response"]: "Packets refused or dropped.",
        calls_too_large: "Calls aborted because the path stopped carrying packets of their size.",
        responses_too_large: "Connections failed because a security class made too long a RESPONSE.",
        checks_refused as refused [reason = "checks_full"]: "Packets refused or dropped.",
        connections_expired: "Connections ended because their client's proof had expired.",
        share_waits: "Times a connection waited for its turn at the lane's part of the server's rate.",
        transmit_starved: "Packets not built because the pool was empty.",
    }
}

impl RxCounters {
    /// Copies the endpoint's counters and the pool's books. Plain stores: cheap enough for every pass.
    pub(super) fn publish(&self, stats: &EndpointStats, pool: &PacketPool, connections: usize) {
        self.copy(stats);
        self.packets_allocated.set(pool.allocated() as u64);
        self.packets_free.set(pool.free_count() as u64);
        self.packets_in_use.set((pool.allocated() - pool.free_count()) as u64);
        self.packets_low_water.set(pool.low_water() as u64);
        self.packets_exhausted.set(pool.exhausted());
        self.connections.set(connections as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::counters::CounterBlock;

    #[test]
    fn every_counter_of_the_endpoint_is_in_the_block() {
        let counters = RxCounters::default();
        let (mut stats, mut total) = (EndpointStats::default(), 0);
        counters.visit(&mut |_| total += 1);
        let own = total - stats.each().count();
        assert_eq!(own, 23, "a counter is missing in the block, or a new one of its own needs counting here");
        stats.resends_spurious = 3;
        counters.publish(&stats, &PacketPool::new(4, 100), 2);
        assert_eq!((counters.resends_spurious.get(), counters.connections.get()), (3, 2));
        assert_eq!((counters.packets_allocated.get(), counters.packets_free.get()), (4, 4));
    }
}
