//! Counters of one endpoint. Every refusal of network input has a counter of its own.

macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Returns the name and value of every counter, in the order of declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counters! {
    /// Counters of an endpoint since its start.
    EndpointStats {
        /// Datagrams given to `handle_datagram`.
        datagrams_received,
        /// Bytes of received datagrams.
        bytes_received,
        /// Bursts returned by `poll_transmit`.
        transmits,
        /// Datagrams sent.
        datagrams_sent,
        /// Bytes of sent datagrams.
        bytes_sent,
        /// DATA packets received, sub-packets of jumbograms counted each.
        data_received,
        /// DATA packets sent, resends included.
        data_sent,
        /// ACK packets received.
        acks_received,
        /// ACK packets sent.
        acks_sent,
        /// ABORT packets received.
        aborts_received,
        /// ABORT packets sent.
        aborts_sent,
        /// BUSY packets received.
        busies_received,
        /// BUSY packets sent.
        busies_sent,
        /// CHALLENGE packets sent.
        challenges_sent,
        /// RESPONSE packets sent.
        responses_sent,
        /// PING ACKs sent as tail probe, window probe, keep-alive, reachability check or MTU probe.
        pings_sent,
        /// VERSION answers sent.
        versions_sent,
        /// DEBUG answers sent.
        debugs_sent,
        /// DATA packets sent again.
        resends,
        /// Resends of DATA packets that had arrived the first time.
        resends_spurious,
        /// Jumbograms sent.
        jumbograms_sent,
        /// Jumbograms sent that IP cuts into fragments.
        jumbograms_cut,
        /// Times a call to a stock peer waited for more ACKs, to send more at once.
        bursts_gathered,
        /// Times a call waited because other calls' packets filled the stock peer's socket buffer.
        bursts_crowded,
        /// Packets of calls received from stock peers.
        stock_received,
        /// Retransmission timeouts.
        timeouts,
        /// Tail probes (a PING instead of a resend).
        tail_probes,
        /// Path-MTU probes sent.
        mtu_probes,
        /// Path-MTU probes that were not answered or not even taken by the system.
        mtu_probes_lost,
        /// Client calls opened.
        calls_opened,
        /// Server calls accepted.
        calls_accepted,
        /// Calls that ended well.
        calls_finished,
        /// Calls that ended with an abort, either side's.
        calls_aborted,
        /// Calls that died of a time limit.
        calls_dead,
        /// Connections opened or accepted.
        connections_made,
        /// Connections removed.
        connections_reaped,
        /// Server connections whose client moved to another address.
        connections_rebound,
        /// VERSION questions to addresses that a client may have moved to.
        moves_asked,
        /// Dropped: packets with a connection's ids from another address, whose sender is unknown.
        strays,
        /// Calls refused because the endpoint takes no more.
        calls_refused,
        /// PINGs to newcomers of which nothing is kept until they answer.
        cookies_sent,
        /// Answers to cookies: addresses proved.
        cookies_returned,
        /// Answers to cookies that are not remembered, as their network has its share of proofs.
        cookies_refused,
        /// Refused: shorter than a header or of unknown type.
        bad_headers,
        /// Refused: ACK payload malformed.
        bad_acks,
        /// Refused: ACK for packets never sent.
        acks_never_sent,
        /// Refused: ACK whose ranges overlap or do not ascend.
        acks_disordered,
        /// Ignored: ACK overtaken by a later one.
        acks_stale,
        /// Refused: the rest of a jumbogram with wrong lengths.
        bad_jumbograms,
        /// Refused: DATA with sequence number 0 or after the last packet.
        bad_data,
        /// Dropped: DATA already received.
        duplicates,
        /// Dropped: DATA beyond the receive window.
        beyond_window,
        /// Dropped: DATA for which no buffer was free.
        no_buffers,
        /// Dropped: DATA beyond its sender's share of the pool.
        over_share,
        /// Writes put off because the client's host had its share of the pool.
        over_share_writes,
        /// Packets ahead of a gap given up to others when the pool ran short.
        packets_reclaimed,
        /// Dropped: security index differs from the connection's.
        wrong_security,
        /// Refused by the security class.
        security_refusals,
        /// Dropped: packet for a connection or call that does not exist.
        unknown_calls,
        /// Dropped: packet of an older call on its channel.
        old_calls,
        /// Refused: service not offered.
        unknown_services,
        /// Refused: no room for another connection.
        connections_refused,
        /// Idle connections removed to make room, of the host or network that had most.
        connections_displaced,
        /// Unproved connections evicted to make room for newer ones.
        connections_evicted,
        /// Aborts not sent because their source had too many.
        aborts_limited,
        /// VERSION and DEBUG questions, and other lanes' parts in them, not answered because there were too many.
        answers_limited,
        /// Dropped: packets of strangers beyond their share of the turn's answers.
        strangers_limited,
        /// Packets held back because the address has not answered, or not since its newest calls began.
        amplification_limited,
        /// Timers that were due again after several turns in a row, and were put off: always 0 but for a fault of ours.
        timers_put_off,
        /// Believed: reports of the network that a peer cannot be reached.
        unreachable_believed,
        /// Ignored: reports that quote no packet sent lately for a call of ours, or whose peer is heard.
        unreachable_ignored,
        /// Packets of a type without meaning in their place.
        misplaced,
        /// Challenge answers that did not verify.
        bad_responses,
        /// Calls aborted because the path stopped carrying packets as large as those sent.
        calls_too_large,
        /// RESPONSEs that a security class made longer than a datagram may be; their connections failed.
        responses_too_large,
        /// Dropped: RESPONSEs that came while security classes had their limit to check.
        checks_refused,
        /// Connections ended because their client's proof had expired.
        connections_expired,
        /// Times a connection waited for its turn at what the endpoint may send.
        share_waits,
        /// Packets that could not be built because the pool was empty.
        transmit_starved,
    }
}

impl EndpointStats {
    /// Returns the number of calls that have begun and not ended, from either side.
    pub fn calls_under_way(&self) -> u64 {
        let ended = self.calls_finished + self.calls_aborted + self.calls_dead;
        (self.calls_opened + self.calls_accepted).saturating_sub(ended)
    }
}
