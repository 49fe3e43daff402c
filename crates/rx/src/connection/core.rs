//! State of a connection that its calls share: addresses, security, validation of the client, time limits.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::config::{Limits, Priority};
use crate::dscp::Dscp;
use crate::event::{ConnectionHandle, Side};
use crate::header::flags;
use crate::packet::BufferAccount;
use crate::rate::Rate;
use crate::security::{Expiry, Security};

/// State of a connection without its calls.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) side: Side,
    pub(crate) epoch: u32,
    /// Connection id, without channel bits.
    pub(crate) cid: u32,
    pub(crate) peer: usize,
    pub(crate) remote: SocketAddr,
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) service: u16,
    pub(crate) security_index: u8,
    pub(crate) security: Box<dyn Security>,
    /// Time when the connection ends by its security class.
    pub(crate) expiry: Option<Expiry>,
    /// True when a client asks for the service's newer version on the first packet.
    pub(crate) wants_upgrade: bool,
    /// Serial of the last packet sent.
    pub(crate) serial: u32,
    /// Time when a packet last came from `remote`.
    pub(crate) heard_at: Instant,
    /// True when the connection is found by its client's address too: another one has, or had, the same ids.
    pub(crate) by_address: bool,
    /// Address that the client may have moved to, and the time when it was asked.
    pub(crate) asked: Option<(SocketAddr, Instant)>,
    /// Address besides the client's from which the security class has accepted DATA.
    pub(crate) accepted_from: Option<SocketAddr>,
    /// DATA packets that the security class has accepted.
    pub(crate) opened: u64,
    /// Bytes charged to the credit of the client's address.
    pub(super) debt: u32,
    /// Rate of the connection's DATA, if bounded.
    pub(crate) rate: Option<Rate>,
    /// True when the connection has sent DATA since it last waited for the endpoint's share.
    pub(super) had_share: bool,
    /// Round of the credit waiters' list in which the connection was last added.
    pub(crate) waits_for_credit: u64,
    /// Turns in a row after which packets of the connection were still due.
    pub(crate) overdue_turns: u8,
    pub(super) account: BufferAccount,
    pub(crate) validation: Validation,
    pub(crate) limits: Limits,
    pub(crate) priority: Priority,
    pub(crate) dscp: Dscp,
    pub(crate) error: Option<i32>,
    /// True once a call of the connection has been delivered: the application may keep data for it.
    pub(crate) delivered: bool,
    /// True when calls end as soon as the peer reports its port closed; see
    /// [`ConnectOptions`](crate::ConnectOptions).
    pub(crate) ends_at_closed_port: bool,
    /// Report of the network that the peer cannot be reached.
    pub(super) doubt: Option<UnreachableReport>,
    pub(crate) active_at: Instant,
    /// True while the connection stands in `Shared::ready`.
    pub(crate) queued: bool,
    /// Earliest wake-up set for the connection.
    pub(crate) armed: Option<Instant>,
}

/// Validation of a client: its address by reach, its identity by the security class.
#[derive(Debug)]
pub(crate) struct Validation {
    /// True once the address has answered.
    pub(crate) reached: bool,
    /// True once the security class is satisfied.
    pub(crate) authentic: bool,
    /// Bytes that the client's packets have paid for.
    pub(crate) budget: u64,
    /// True when a call waits for the address to be proved.
    pub(crate) wanted: bool,
    /// Serial that an answer must exceed: earlier ones went to another address, or nowhere.
    pub(crate) serial_floor: u32,
    pub(crate) probe_at: Option<Instant>,
    /// Number of probes sent to this address.
    pub(crate) probes: u32,
    pub(crate) challenge_at: Option<Instant>,
    pub(crate) challenges: u32,
    /// True while the security class checks a RESPONSE.
    pub(crate) checking: bool,
}

impl Validation {
    pub(crate) fn new(serial_floor: u32, reached: bool, authentic: bool) -> Self {
        Self {
            reached,
            authentic,
            budget: 0,
            wanted: false,
            serial_floor,
            probe_at: None,
            probes: 0,
            challenge_at: None,
            challenges: 0,
            checking: false,
        }
    }

    /// Adds the credit for `len` bytes from the client's address.
    pub(crate) fn pay_in(&mut self, len: usize) {
        self.budget = (self.budget + AMPLIFICATION_MAX * len as u64).min(BUDGET_MAX);
    }
}

/// First report that the peer is unreachable, while it waits for another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreachableReport {
    pub(super) since: Instant,
    /// Last serial used when the report came.
    pub(super) serial: u32,
    /// Bytes that had been received from the peer, on all connections.
    pub(super) received: u64,
    pub(super) asked: bool,
}

impl Core {
    pub(crate) fn handle(&self) -> ConnectionHandle {
        ConnectionHandle { index: self.index, generation: self.generation }
    }

    /// Returns the header flag of our side.
    pub(crate) fn side_flag(&self) -> u8 {
        if self.side == Side::Client { flags::CLIENT_INITIATED } else { 0 }
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Returns whether the security class lets received packets be opened and calls delivered.
    pub(crate) fn is_authentic(&self) -> bool {
        self.side == Side::Client || self.validation.authentic
    }

    /// Returns the account that packets of the connection are charged to.
    pub(crate) fn account(&self) -> BufferAccount {
        self.account
    }

    /// Clears the debt, as the client is at another address: charges at the old one stay there.
    pub(crate) fn forget_debt(&mut self) {
        self.debt = 0;
    }
}

//@ limit: bytes sent to an address that has not answered
//@ section: Rx
//@ unit: byte
//@ connection: {} times what it sent, at most {BUDGET_MAX:b} ahead; one question more when the server stops
//@ address: the same for each of its connections
//@ empty: held back until a probe is answered; a spoofed address gets less than it would from any other server
//@ counter: rx_amplification_limited
//@ attack: rx-reflection
/// Bytes sent to an address that has not answered, for each byte that came from there (RFC 9000 8.1).
pub(crate) const AMPLIFICATION_MAX: u64 = 3;
/// Most bytes that a client's packets may pay for ahead.
const BUDGET_MAX: u64 = 64 * 1024;
