//! Security classes, which prove a client's identity and protect a connection's packets.
//!
//! The transport calls a [`Security`] for every DATA packet in both directions and for the challenge and
//! response that precede the first call of a server connection. `null` is here; rxkad and rxgk implement the
//! same trait.

use std::ops::Range;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

pub use rand::RngCore;

/// Security index of [`NullSecurity`].
pub const SECURITY_NULL: u8 = 0;

/// Security index of rxkad: Kerberos tokens.
pub const SECURITY_RXKAD: u8 = 2;

/// Security index of OpenAFS's rxgk.
pub const SECURITY_RXGK: u8 = 4;

/// Security index of AuriStorFS's and Linux's rxgk.
pub const SECURITY_YFS_RXGK: u8 = 6;

/// Returns the abort code by which a client learns that its proof is not accepted; `None` for classes without
/// one.
///
/// This is what the class itself calls "not authenticated", as any other code means something else to the
/// client.
pub fn not_authenticated(index: u8) -> Option<i32> {
    match index {
        SECURITY_RXKAD => Some(RXKAD_NOAUTH),
        SECURITY_RXGK => Some(RXGK_NOTAUTH),
        SECURITY_YFS_RXGK => Some(YFS_RXGK_NOTAUTH),
        _ => None,
    }
}

/// Abort code RXKADNOAUTH of rxkad.
const RXKAD_NOAUTH: i32 = 19_270_405;
/// Abort code RXGK_NOTAUTH of OpenAFS (`rxgk_errs.et`).
const RXGK_NOTAUTH: i32 = 1_233_242_887;
/// Abort code RXGK_NOTAUTH of AuriStorFS, which counts in another order (Linux, `uapi/linux/rxrpc.h`).
const YFS_RXGK_NOTAUTH: i32 = 1_233_242_884;

/// Longest payload of a RESPONSE packet, in bytes, sent or taken.
pub const RESPONSE_MAX: usize = crate::packet::LARGE_PAYLOAD_MAX;

/// DATA packet as named to a security class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketContext {
    /// Epoch of the connection.
    pub epoch: u32,
    /// Connection id with the channel in its low bits.
    pub cid: u32,
    /// Call number on the channel.
    pub call: u32,
    /// Sequence number within the call's direction.
    pub seq: u32,
    /// Set if the client sends the packet.
    pub from_client: bool,
}

/// Packet after [`Security::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Payload bytes to send, counted from the start of the payload.
    pub len: usize,
    /// Value of the header's checksum field.
    pub checksum: u16,
}

/// Identity that a connection's client proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Printable name as the class knows it, for instance a Kerberos principal.
    pub name: String,
    /// Protection level of the packets: 0 clear, 1 authenticated, 2 encrypted.
    pub level: u8,
    /// Time when the proof expires, in seconds since 1970; `None` for never.
    pub expires_unix_s: Option<u64>,
}

/// Statistics of a security class about one connection (`struct rx_securityObjectStats`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityStats {
    /// Kind of the class.
    pub kind: SecurityKind,
    /// Protection level: 0 clear, 1 auth, 2 crypt.
    pub level: u8,
    /// Flags: 1 not set up, 2 authenticated, 4 expired, 8 packet checksums.
    pub flags: u32,
    /// Time when the ticket expires, in seconds since 1970; 0 for never.
    pub expires: u32,
    /// Packets received, modulo 2^32.
    pub packets_received: u32,
    /// Packets sent, modulo 2^32.
    pub packets_sent: u32,
    /// Bytes received, modulo 2^32.
    pub bytes_received: u32,
    /// Bytes sent, modulo 2^32.
    pub bytes_sent: u32,
}

/// Kind of security class (`RX_SECTYPE_*`; not the security index).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityKind {
    /// Class rxnull, without protection.
    Null,
    /// Class rxvab, of historic interest.
    Vab,
    /// Class rxkad, with Kerberos tickets.
    Kad,
    /// Class rxgk, with GSSAPI.
    Gk,
    /// Class of a newer server, by its value.
    Unknown(u8),
}

/// Clock and random numbers of the endpoint, lent to a security class: equal seeds and inputs give equal
/// outputs.
pub struct Surroundings<'e> {
    /// Time of the endpoint's clock.
    pub now: Instant,
    /// Time of day since 1970; `None` until [`Endpoint::set_time_of_day`](crate::Endpoint::set_time_of_day).
    pub unix: Option<Duration>,
    /// Random numbers, fit for nonces and keys where the endpoint's seed is secret.
    pub random: &'e mut dyn RngCore,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("now", &self.now)
            .field("unix", &self.unix)
            .finish_non_exhaustive()
    }
}

/// Time when a connection's proof ends, and the connection too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Time of day, since 1970.
    pub unix: Duration,
    /// Abort code of the connection's calls from then on (rxkad: 19270409, RXKADEXPIRED).
    pub code: i32,
}

/// Refusal by a security class; the connection is aborted with the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("security class refused the packet with abort code {code}")]
pub struct SecurityError {
    /// Abort code to send (for rxkad 19270400 and up).
    pub code: i32,
}

/// Security class's state of one connection.
///
/// A DATA payload on the wire is `header room | data | trailer room`; the transport leaves both rooms free
/// when the application writes and strips what [`Security::open`] says.
pub trait Security: std::fmt::Debug + Send {
    /// Begins the state of a new connection, before any other call. Randomness that `seal` and `open` need a
    /// class takes here, to seed a generator of its own.
    fn begin(&mut self, around: &mut Surroundings<'_>, connection: &ConnectionContext) {
        let _ = (around, connection);
    }

    /// Returns when the connection ends, asked after [`begin`](Self::begin) and after the challenge is answered. From
    /// then on the endpoint aborts its calls, those under way too, with the code, and takes no more on it. The client
    /// has to open another connection with a new proof.
    fn expiry(&self) -> Option<Expiry> {
        None
    }

    /// Returns the bytes to leave free before the data of every packet.
    fn header_room(&self) -> usize {
        0
    }

    /// Returns the bytes to leave free after the data of every packet (MAC, padding).
    fn trailer_room(&self) -> usize {
        0
    }

    /// Protects a packet once, before its first transmission. `payload` holds header room, `data_len` bytes
    /// of data and trailer room.
    fn seal(
        &mut self,
        context: &PacketContext,
        payload: &mut [u8],
        data_len: usize,
    ) -> Result<Sealed, SecurityError>;

    /// Checks a received packet in place and returns the range of its data in `payload`.
    fn open(
        &mut self,
        context: &PacketContext,
        checksum: u16,
        payload: &mut [u8],
    ) -> Result<Range<usize>, SecurityError>;

    /// Returns whether [`open`](Self::open) at the other end refuses a packet of which any byte was changed
    /// on the way. Only such packets may become [jumbograms cut into
    /// fragments](crate::Jumbograms::Fragments).
    fn protects_data(&self) -> bool {
        false
    }

    /// Returns whether the client still has to prove itself before calls are delivered (server side).
    fn needs_challenge(&self) -> bool {
        false
    }

    /// Appends the payload of a CHALLENGE packet to `out` (server side). Called again for every retry, which
    /// must repeat the same question, as the answer to any of them may come. The question must be
    /// unguessable: a client that answers it has also proved that packets reach its address.
    fn challenge(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) {
        let _ = (around, out);
    }

    /// Checks the payload of a RESPONSE packet, up to [`RESPONSE_MAX`] bytes (server side). On success
    /// returns the client's call numbers: what is older on its channel has ended.
    ///
    /// A class that needs time (a helper thread, another server) says `Pending`, keeps `waker` and wakes it, from any
    /// thread, when [`poll_check`](Self::poll_check) has an answer. Until then the connection's calls are held, and
    /// further RESPONSEs dropped. The endpoint counts a check until its last waker is gone, so work in a helper's hands
    /// counts even when its connection has ended.
    fn check_response(
        &mut self,
        around: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        response: &[u8],
        waker: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        let _ = (around, connection, response, waker);
        Poll::Ready(Ok([0; 4]))
    }

    /// Returns the outcome of a check that was `Pending` (server side); again `Pending` where `waker` was
    /// woken for nothing.
    fn poll_check(
        &mut self,
        around: &mut Surroundings<'_>,
        waker: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        let _ = (around, waker);
        Poll::Ready(Err(SecurityError { code: crate::abort::PROTOCOL_ERROR }))
    }

    /// Returns the statistics that `rxdebug` shows of this connection's class; `None` shows nothing.
    fn statistics(&self) -> Option<SecurityStats> {
        None
    }

    /// Appends the payload of a RESPONSE to `challenge` to `out`, at most [`RESPONSE_MAX`] bytes (client
    /// side). More fails the connection with [`MESSAGE_SIZE`](crate::abort::MESSAGE_SIZE). One larger than a
    /// packet goes out as IP fragments. The default, for classes without a challenge, refuses it.
    ///
    /// A class that needs time says `Pending`, as in [`check_response`](Self::check_response), and gives its answer to
    /// [`poll_respond`](Self::poll_respond); further challenges are dropped until then.
    fn respond(
        &mut self,
        around: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        challenge: &[u8],
        waker: &Waker,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), SecurityError>> {
        let _ = (around, connection, challenge, waker, out);
        Poll::Ready(Err(SecurityError { code: crate::abort::PROTOCOL_ERROR }))
    }

    /// Appends the RESPONSE to a challenge that was `Pending` to `out` (client side).
    fn poll_respond(
        &mut self,
        around: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        waker: &Waker,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), SecurityError>> {
        let _ = (around, connection, waker, out);
        Poll::Ready(Err(SecurityError { code: crate::abort::PROTOCOL_ERROR }))
    }

    /// Returns the principal that the client proved to be; `None` for an anonymous connection.
    fn principal(&self) -> Option<&Principal> {
        None
    }
}

/// Connection as named to the challenge exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionContext {
    /// Epoch of the connection.
    pub epoch: u32,
    /// Connection id, without channel bits.
    pub cid: u32,
    /// Security index of the connection.
    pub security: u8,
    /// Highest call number of each channel.
    pub calls: [u32; 4],
}

/// Factory of the server side's [`Security`] for new connections with one security index.
pub trait SecurityFactory: std::fmt::Debug + Send {
    /// Returns the security index that the factory serves.
    fn index(&self) -> u8;

    /// Returns the state for one new server connection.
    fn accept(&mut self, epoch: u32, cid: u32) -> Box<dyn Security>;
}

/// Security class 0, without proof and protection.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSecurity;

impl Security for NullSecurity {
    fn seal(&mut self, _: &PacketContext, _: &mut [u8], data_len: usize) -> Result<Sealed, SecurityError> {
        Ok(Sealed { len: data_len, checksum: 0 })
    }

    fn open(&mut self, _: &PacketContext, _: u16, payload: &mut [u8]) -> Result<Range<usize>, SecurityError> {
        Ok(0..payload.len())
    }
}

impl SecurityFactory for NullSecurity {
    fn index(&self) -> u8 {
        SECURITY_NULL
    }

    fn accept(&mut self, _: u32, _: u32) -> Box<dyn Security> {
        Box::new(NullSecurity)
    }
}
