//! Limits and timers of an endpoint.

use std::time::Duration;

use crate::congestion::Algorithm;
use crate::event::Side;
use crate::source::AddressRange;

/// Conditions under which jumbograms are sent to stock peers that take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jumbograms {
    /// Jumbograms are never sent.
    Off,
    /// Jumbograms are sent where the path carries them whole.
    #[default]
    Whole,
    /// Jumbograms are sent as IP fragments too, as OpenAFS does, on connections where a foreign fragment
    /// would be noticed.
    ///
    /// These are connections with a security class that [protects the
    /// data](crate::security::Security::protects_data), and those to
    /// [`checked_paths`](crate::EndpointConfig::checked_paths). Half the processor time on plain Ethernet.
    Fragments,
}

/// Configuration of an endpoint. The defaults suit a server of many clients.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Number of packet buffers in the pool.
    pub packets: usize,
    /// Number of packet buffers that keep memory while free; `None` for all, allocated at start. A process of
    /// many endpoints keeps few in each.
    pub packets_kept: Option<usize>,
    /// Largest datagram payload sent or buffered, in bytes: Rx header and data. Bounds path-MTU discovery.
    pub packet_size_max: u16,
    /// Datagram payload to start with on an unknown path, in bytes (stock Rx: 1444).
    pub packet_size_initial: u16,
    /// Receive window of a call in packets, towards peers that take windows over 255.
    pub receive_window: u32,
    /// Most packets that one call may have queued and unacknowledged.
    pub send_window: u32,
    /// Conditions under which jumbograms are announced, and sent to stock peers that take them.
    pub jumbograms: Jumbograms,
    /// Peers to which data is checked by more than UDP's sum without a security class, by the operator's
    /// word.
    ///
    /// The network between encrypts or signs, or makes no fragments. With [`Jumbograms::Fragments`] they get
    /// those.
    pub checked_paths: Vec<AddressRange>,
    /// Packets that a call to a stock peer gathers to send at once while the peer has others to work on; 1
    /// sends as ACKs come, two by two.
    pub stock_burst: u32,
    /// Most packets under way to one stock address over a path without delay, of all calls together: what its
    /// socket's receive buffer takes. OpenAFS has 64 KB, which is 42 packets, unless its `-udpsize` says
    /// more.
    pub stock_in_flight: u32,
    /// Most connections, both sides together.
    pub connections_max: usize,
    /// Most server connections with unproved client addresses. One that has had a second for its answer gives
    /// way to the next; where all are younger, nothing is kept of a newcomer until it answers.
    pub unproved_max: usize,
    /// Congestion controller of new calls.
    pub congestion: Algorithm,
    /// True to check that a client answers at its address before its first call is delivered.
    pub check_reach: bool,
    /// True to advertise and understand our ACK extension, and to do path-MTU discovery.
    pub extensions: bool,
    /// Clients whose connections may follow them to another address without a proof by a security class.
    ///
    /// An attacker that knows a connection's ids can then take it over while its client is silent. By the
    /// client's address; none by default. Without it, such a client goes on by its next call.
    pub roaming: Vec<AddressRange>,
    /// Addresses, besides those of this host, to which DEBUG answers show connection ids and serials. Others
    /// find zeros: a host that knows them can interfere with a connection that no security class protects.
    pub debug_ids: Vec<AddressRange>,
    /// Silence of the peer after which a call dies.
    pub dead_time: Duration,
    /// Time without progress after which a client's call dies here; `None` for never.
    pub idle_time: Option<Duration>,
    /// Time without progress after which a call that this endpoint makes dies. Off by default: a server may
    /// think about an answer as long as it answers pings.
    pub client_idle_time: Option<Duration>,
    /// Age at which a call dies; `None` for never.
    pub hard_time: Option<Duration>,
    /// Most RESPONSEs that security classes check, or make, at once; one host has an eighth of them. More are
    /// dropped, and the challenge repeated.
    pub checks_max: usize,
    /// Time after which a peer's connection without calls is removed. Those that we opened stay until they
    /// are closed.
    pub reap_time: Duration,
    /// Time for which a proof of an address holds after its last packet.
    pub reach_time: Duration,
    /// Longest time until an in-order packet is acknowledged.
    pub ack_delay: Duration,
    /// Time after which the end of a reply is acknowledged, unless the next call on the channel does it.
    pub final_ack_delay: Duration,
    /// Most ABORT packets to one source in a second.
    pub aborts_per_second: u32,
    /// Number of this lane among the `lanes` that share the server's address: ids of connections opened here
    /// lead back to it (`Route::lane`).
    pub lane: u32,
    /// Number of lanes that share the server's address.
    pub lanes: u32,
    /// Answer to VERSION requests; cut to 64 bytes.
    pub version: String,
}

/// Time limits of the calls of one connection; see [`Endpoint::set_limits`](crate::Endpoint::set_limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Silence of the peer after which a call dies.
    pub dead_time: Duration,
    /// Time without progress, while the peer has the next move, after which a call dies; `None` for never.
    pub idle_time: Option<Duration>,
    /// Age at which a call dies; `None` for never.
    pub hard_time: Option<Duration>,
}

/// Order in which connections' packets leave; see [`Endpoint::set_priority`](crate::Endpoint::set_priority).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Packets leave before others: calls of few bytes that a caller waits for.
    High,
    /// Priority that every connection begins with.
    #[default]
    Normal,
    /// Packets leave after others: bulk that no caller waits for.
    Low,
}

impl EndpointConfig {
    /// Returns the time limits that a new connection begins with.
    pub(crate) fn limits(&self, side: Side) -> Limits {
        let idle_time = if side == Side::Client { self.client_idle_time } else { self.idle_time };
        Limits { dead_time: self.dead_time, idle_time, hard_time: self.hard_time }
    }
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            //@ limit: packet buffers
            //@ section: Rx
            //@ unit: buffer
            //@ connection: its windows, 12,288 packets at most each way; at least 16
            //@ address: as many as are free: half for one host, two thirds if its calls hold fewer than 16 each
            //@ all: lane: `packets` ({}); unproved clients an eighth, writers leave a quarter
            //@ empty: packets beyond are dropped and writes wait; others have half of the pool beside one hog
            //@ counter: rx_refused{reason="over_share"}, rx_over_share_writes, rx_packets_reclaimed, rx_packets_in_use
            //@ attack: rx-gap
            packets: 32 * 1024,
            packets_kept: None,
            packet_size_max: 1444,
            packet_size_initial: 1444,
            receive_window: 12 * 1024,
            send_window: 12 * 1024,
            jumbograms: Jumbograms::Whole,
            checked_paths: Vec::new(),
            stock_burst: 8,
            stock_in_flight: 40,
            //@ limit: connections
            //@ section: Rx
            //@ unit: connection
            //@ connection: 4 calls
            //@ address: as many as are free, at least 16
            //@ all: lane: `connections_max` ({})
            //@ empty: a host or network with its share replaces its own idle ones; a full table takes idle ones from the source that has most
            //@ counter: rx_connections_displaced, rx_refused{reason="connections_full"}, rx_connections
            //@ attack: rx-connections
            connections_max: 64 * 1024,
            //@ limit: unproved connections
            //@ section: Rx
            //@ unit: connection
            //@ connection: 32 packets a call
            //@ all: lane: {}
            //@ empty: one older than a second gives way, and the newcomer is asked by a cookie; it waits for one retransmission
            //@ counter: rx_connections_evicted, rx_cookies
            //@ attack: rx-spoofed-flood
            unproved_max: 4096,
            congestion: Algorithm::Auto,
            check_reach: true,
            extensions: true,
            roaming: Vec::new(),
            debug_ids: Vec::new(),
            dead_time: Duration::from_secs(12),
            //@ limit: time of a call without progress
            //@ section: Rx
            //@ unit: time
            //@ connection: {} without a hard ACK that frees a 64th, or DATA in order
            //@ empty: aborted, and all it held is free; others feel nothing
            //@ counter: rx_calls_ended{how="dead"}, rx_handlers
            //@ attack: rx-soft-acks
            idle_time: Some(Duration::from_secs(60)),
            client_idle_time: None,
            hard_time: None,
            //@ limit: RESPONSEs that security classes check, or make
            //@ section: Rx
            //@ unit: RESPONSE
            //@ connection: 1
            //@ address: 32 of a host
            //@ all: lane: {}, half of them for addresses that have not answered a probe
            //@ empty: dropped, and the challenge comes again; others' challenge is repeated
            //@ counter: rx_refused{reason="checks_full"}
            //@ attack: none, no service of the server has a security class with challenges yet
            //@ reach: server
            checks_max: 256,
            reap_time: Duration::from_secs(700),
            reach_time: Duration::from_secs(60),
            ack_delay: Duration::from_millis(100),
            final_ack_delay: Duration::from_millis(50),
            aborts_per_second: 20,
            lane: 0,
            lanes: 1,
            version: concat!("linerate ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
