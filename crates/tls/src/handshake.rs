//! Handshake, bytes in and bytes out, up to the moment at which the keys are ours.
//!
//! rustls gets one record at a time, so that application data which follows the peer's Finished in the
//! same buffer is left for our own record layer.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, HandshakeKind, ServerConfig, SupportedCipherSuite};

use crate::control::Role;
use crate::error::TlsError;
use crate::keys::{TlsVersion, TrafficKeys};
use crate::layout::{HEADER_LEN, PLAINTEXT_MAX};
use crate::sni;

/// Longest record that a handshake may bring, in bytes (RFC 8446 section 5.2; AEADs of TLS 1.2 add less).
const RECORD_LEN_MAX: usize = PLAINTEXT_MAX + 256;

/// Header of a record whose body never comes: longer than [`RECORD_LEN_MAX`], not too long for rustls.
const UNFINISHED_HEADER: [u8; HEADER_LEN] = [22, 3, 3, 0x47, 0xff];

/// Most steps after an error: more messages than any handshake flight has.
const LAST_STEPS_MAX: usize = 32;

/// Content types that a TLS record may begin with.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=23;

/// Parameters that the handshake settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Protocol version of the session.
    pub version: TlsVersion,
    /// Cipher suite of the session.
    pub suite: rustls::CipherSuite,
    /// Application protocol, when both sides named one (RFC 7301).
    pub alpn: Option<Alpn>,
    /// Server name that the client asked for, in lower case (RFC 6066 section 3). Server side only.
    pub server_name: Option<Box<str>>,
    /// True when an earlier session was resumed.
    pub resumed: bool,
}

/// Application protocol that Linerate serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// Protocol HTTP/2, `h2`.
    H2,
    /// Protocol HTTP/1.1, `http/1.1`.
    Http11,
}

impl Alpn {
    /// Returns the protocol's registered name.
    pub const fn wire_name(self) -> &'static [u8] {
        match self {
            Self::H2 => b"h2",
            Self::Http11 => b"http/1.1",
        }
    }

    fn from_wire(name: &[u8]) -> Option<Self> {
        [Self::H2, Self::Http11].into_iter().find(|alpn| alpn.wire_name() == name)
    }
}

/// Key schedule of an established session in rustls, which derives the keys that follow a key update.
pub(crate) enum KeySchedule {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

impl KeySchedule {
    pub(crate) fn next_tx(&mut self) -> Result<TrafficKeys, TlsError> {
        let (suite, secrets) = match self {
            Self::Server(kernel) => (kernel.negotiated_cipher_suite(), kernel.update_tx_secret()?),
            Self::Client(kernel) => (kernel.negotiated_cipher_suite(), kernel.update_tx_secret()?),
        };
        TrafficKeys::new(suite, secrets)
    }

    pub(crate) fn next_rx(&mut self) -> Result<TrafficKeys, TlsError> {
        let (suite, secrets) = match self {
            Self::Server(kernel) => (kernel.negotiated_cipher_suite(), kernel.update_rx_secret()?),
            Self::Client(kernel) => (kernel.negotiated_cipher_suite(), kernel.update_rx_secret()?),
        };
        TrafficKeys::new(suite, secrets)
    }

    /// Keeps a session ticket in the client's session store.
    pub(crate) fn store_ticket(&mut self, ticket: &[u8]) -> Result<(), TlsError> {
        match self {
            Self::Client(kernel) => Ok(kernel.handle_new_session_ticket(ticket)?),
            Self::Server(_) => Err(TlsError::Unexpected("session ticket from a client")),
        }
    }
}

/// Handshake that is done: the session's data, keys and key schedule.
pub(crate) struct Finished {
    pub(crate) rx: TrafficKeys,
    pub(crate) tx: TrafficKeys,
    /// Key schedule, absent in TLS 1.2, where keys never change.
    pub(crate) schedule: Option<KeySchedule>,
    pub(crate) info: SessionInfo,
}

/// Handshake that is under way.
pub(crate) struct Handshake {
    conn: Conn,
    /// Bytes that rustls still refers to, then the part of the next record that has come.
    buf: Vec<u8>,
    /// Length of the part of `buf` that rustls refers to.
    retained: usize,
    received: usize,
    received_max: usize,
    /// Bound of what comes before anything was sent.
    unanswered_max: usize,
    /// True once anything was sent, as a client may expect protected records from then on.
    answered: bool,
    server_name: Option<Box<str>>,
}

enum Conn {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Step that rustls wants next.
enum Next {
    Again,
    Input,
    Done,
}

impl Handshake {
    /// Makes a server's handshake that takes at most `hello_max` bytes from the client before it answers, and
    /// twice as many in all.
    pub(crate) fn server(config: Arc<ServerConfig>, hello_max: usize) -> Result<Self, TlsError> {
        let conn = Conn::Server(UnbufferedServerConnection::new(config)?);
        Ok(Self { unanswered_max: hello_max, ..Self::new(conn, 2 * hello_max) })
    }

    /// Makes a client's handshake, and writes its first message to `out`.
    pub(crate) fn client(
        config: Arc<ClientConfig>,
        server_name: ServerName<'static>,
        received_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Self, TlsError> {
        let conn = UnbufferedClientConnection::new(config, server_name)?;
        let mut handshake = Self::new(Conn::Client(conn), received_max);
        handshake.process(out)?;
        Ok(handshake)
    }

    fn new(conn: Conn, received_max: usize) -> Self {
        Self {
            conn,
            buf: Vec::new(),
            retained: 0,
            received: 0,
            received_max,
            unanswered_max: received_max,
            answered: false,
            server_name: None,
        }
    }

    /// Takes input, and writes to `out` what must be sent, which is an alert after a failure.
    ///
    /// Returns how many bytes were taken and whether the handshake is done. What follows the last
    /// handshake record is not taken.
    pub(crate) fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), TlsError> {
        let mut consumed = 0;
        loop {
            consumed += self.fill(&input[consumed..], HEADER_LEN)?;
            let Some(record_len) = self.record_len()? else {
                return Ok((consumed, false));
            };
            consumed += self.fill(&input[consumed..], record_len)?;
            if self.buf.len() - self.retained < record_len {
                return Ok((consumed, false));
            }
            let out_len = out.len();
            let is_done = self.process(out)?;
            self.answered |= out.len() > out_len;
            self.retained = self.buf.len();
            if is_done {
                return Ok((consumed, true));
            }
        }
    }

    /// Hands over keys and key schedule; [`Self::advance`] must have said that the handshake is done.
    pub(crate) fn finish(self) -> Result<Finished, TlsError> {
        if !self.buf.is_empty() {
            return Err(TlsError::Unexpected("handshake message behind Finished"));
        }
        match self.conn {
            Conn::Server(conn) => {
                let info = session_info(&conn, self.server_name)?;
                let (secrets, kernel) = conn.dangerous_into_kernel_connection()?;
                let suite = kernel.negotiated_cipher_suite();
                finished(info, suite, secrets, KeySchedule::Server(kernel))
            }
            Conn::Client(conn) => {
                let info = session_info(&conn, None)?;
                let (secrets, kernel) = conn.dangerous_into_kernel_connection()?;
                let suite = kernel.negotiated_cipher_suite();
                finished(info, suite, secrets, KeySchedule::Client(kernel))
            }
        }
    }

    /// Returns whether anything was sent: before that, an alert goes out unprotected.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered
    }

    /// Returns the memory of bytes that have come and are not done with.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// Brings the current record to `target` bytes as far as the input reaches; returns bytes taken.
    fn fill(&mut self, input: &[u8], target: usize) -> Result<usize, TlsError> {
        let have = self.buf.len() - self.retained;
        let take = target.saturating_sub(have).min(input.len());
        let most = if self.answered { self.received_max } else { self.unanswered_max };
        if self.received + take > most {
            return Err(TlsError::HandshakeTooLong(most));
        }
        self.check_first_byte(input)?;
        self.received += take;
        self.buf.extend_from_slice(&input[..take]);
        Ok(take)
    }

    /// Detects other protocols by the first byte while nothing has been answered.
    fn check_first_byte(&self, input: &[u8]) -> Result<(), TlsError> {
        match input.first() {
            Some(first) if self.received == 0 && !RECORD_TYPES.contains(first) => {
                Err(if first.is_ascii_uppercase() { TlsError::PlainHttp } else { TlsError::NotTls(*first) })
            }
            _ => Ok(()),
        }
    }

    fn record_len(&self) -> Result<Option<usize>, TlsError> {
        let record = &self.buf[self.retained..];
        let Some(&[content_type, major, _, len_hi, len_lo]) = record.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        if !RECORD_TYPES.contains(&content_type) || major != 3 {
            return Err(TlsError::Decode("record header"));
        }
        let len = usize::from(u16::from_be_bytes([len_hi, len_lo]));
        if len > RECORD_LEN_MAX {
            return Err(TlsError::RecordOverflow(len));
        }
        Ok(Some(HEADER_LEN + len))
    }

    /// Lets rustls work on `buf` until more input is wanted or the handshake is done.
    fn process(&mut self, out: &mut Vec<u8>) -> Result<bool, TlsError> {
        loop {
            match self.step(out) {
                Ok(Next::Again) => {}
                Ok(Next::Input) => return Ok(false),
                Ok(Next::Done) => return Ok(true),
                Err(error) => {
                    self.flush_after_error(out);
                    return Err(error);
                }
            }
        }
    }

    /// Takes the output that rustls has queued before and by an error: perhaps a ServerHello, then the alert.
    ///
    /// rustls would also look at the bad record again, and raise a second alert; so the record is made to
    /// look unfinished. If it was accepted and its content is what was bad, its header is not read again.
    fn flush_after_error(&mut self, out: &mut Vec<u8>) {
        if let Some(header) = self.buf.get_mut(self.retained..self.retained + HEADER_LEN) {
            header.copy_from_slice(&UNFINISHED_HEADER);
        }
        for _ in 0..LAST_STEPS_MAX {
            if !matches!(self.step(out), Ok(Next::Again)) {
                return;
            }
        }
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<Next, TlsError> {
        let (discard, next) = match &mut self.conn {
            Conn::Server(conn) => {
                let step = take_status(conn.process_tls_records(&mut self.buf), out);
                if let Some(name) = sni::take_seen_name() {
                    self.server_name = Some(name);
                }
                step
            }
            Conn::Client(conn) => take_status(conn.process_tls_records(&mut self.buf), out),
        };
        self.buf.drain(..discard);
        self.retained = self.retained.saturating_sub(discard);
        next
    }

    pub(crate) fn role(&self) -> Role {
        match self.conn {
            Conn::Server(_) => Role::Server,
            Conn::Client(_) => Role::Client,
        }
    }
}

fn take_status<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
) -> (usize, Result<Next, TlsError>) {
    let UnbufferedStatus { discard, state } = status;
    let next = match state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            encode_into(out, |buf| data.encode(buf)).map(|()| Next::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Next::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Next::Input),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Next::Done),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(TlsError::ClosedInHandshake),
        Ok(_) => Err(TlsError::Unexpected("application data during the handshake")),
        Err(error) => Err(TlsError::Handshake(error)),
    };
    (discard, next)
}

/// Appends the output of `encode` to `out`, after asking for its length.
fn encode_into(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), TlsError> {
    let start = out.len();
    match encode(&mut []) {
        Ok(_) => return Ok(()),
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
            out.resize(start + required_size, 0);
        }
        Err(EncodeError::AlreadyEncoded) => return Err(TlsError::Cipher),
    }
    let written = encode(&mut out[start..]).map_err(|_| TlsError::Cipher)?;
    out.truncate(start + written);
    Ok(())
}

fn session_info(state: &CommonState, server_name: Option<Box<str>>) -> Result<SessionInfo, TlsError> {
    let missing = TlsError::Handshake(rustls::Error::HandshakeNotComplete);
    let (Some(version), Some(suite)) = (state.protocol_version(), state.negotiated_cipher_suite()) else {
        return Err(missing);
    };
    Ok(SessionInfo {
        version: TlsVersion::from_rustls(version).ok_or(missing)?,
        suite: suite.suite(),
        alpn: state.alpn_protocol().and_then(Alpn::from_wire),
        server_name,
        resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
    })
}

fn finished(
    info: SessionInfo,
    suite: SupportedCipherSuite,
    secrets: rustls::ExtractedSecrets,
    schedule: KeySchedule,
) -> Result<Finished, TlsError> {
    Ok(Finished {
        rx: TrafficKeys::new(suite, secrets.rx)?,
        tx: TrafficKeys::new(suite, secrets.tx)?,
        schedule: (info.version == TlsVersion::Tls13).then_some(schedule),
        info,
    })
}
