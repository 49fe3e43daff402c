//! TLS connection without sockets: bytes from the peer go in, plaintext and bytes to send come out.
//!
//! Call order: [`TlsSession::receive`] with whatever came, its [`Receive::next`] until `None`, then send
//! [`TlsSession::take_output`]. Plaintext to send is laid out by [`TlsSession::layout`] and sealed in place
//! by [`TlsSession::seal`]. Everything leaves in the order in which it was sealed.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ContentType, ServerConfig};

use crate::control::alert_message;
use crate::error::TlsError;
use crate::established::{Found, KernelControl, Open, Step, Tx};
use crate::handshake::{Handshake, SessionInfo};
use crate::keys::TrafficKeys;
use crate::layout::RecordLayout;
use crate::open::Place;

/// Most bytes of a server's part of the handshake: certificate chains are long.
pub const HANDSHAKE_LEN_MAX: usize = 64 << 10;

/// Most bytes that a client sends before it is answered: a ClientHello with post-quantum key shares is under
/// 4 KiB. Of its whole part of the handshake it is half: a ClientHello may have to be sent again.
pub const CLIENT_HELLO_LEN_MAX: usize = 16 << 10;

/// Event that received bytes caused.
#[derive(Debug)]
pub enum TlsEvent<'a> {
    /// The handshake is done: [`TlsSession::info`] is there and plaintext may be sealed.
    Established,
    /// Plaintext from the peer, decrypted in place.
    Data(&'a mut [u8]),
    /// The peer has sent close_notify; later input is ignored.
    PeerClosed,
}

/// TLS connection, server or client side.
///
/// Small while idle: two AEAD contexts, the key schedule and the counters; no record buffer.
pub struct TlsSession {
    state: State,
    output: Vec<u8>,
}

enum State {
    Handshaking(Box<Handshake>),
    Open(Box<Open>),
    /// The session failed: only an alert in `output` may still leave.
    Ended,
}

impl TlsSession {
    /// Makes the server side of a new connection.
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, TlsError> {
        let handshake = Handshake::server(config, CLIENT_HELLO_LEN_MAX)?;
        Ok(Self { state: State::Handshaking(Box::new(handshake)), output: Vec::new() })
    }

    /// Makes the client side of a new connection; its first message waits in [`Self::take_output`].
    pub fn client(config: Arc<ClientConfig>, server_name: ServerName<'static>) -> Result<Self, TlsError> {
        let mut output = Vec::new();
        let handshake = Handshake::client(config, server_name, HANDSHAKE_LEN_MAX, &mut output)?;
        Ok(Self { state: State::Handshaking(Box::new(handshake)), output })
    }

    /// Returns the parameters that the handshake settled; `None` before it is done.
    pub fn info(&self) -> Option<&SessionInfo> {
        self.open().map(|open| &open.info)
    }

    /// Returns whether the handshake is under way: the caller's handshake deadline applies.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking(_))
    }

    /// Returns the memory that messages of a handshake under way take until they are whole, in bytes.
    pub fn handshake_bytes(&self) -> usize {
        if let State::Handshaking(handshake) = &self.state { handshake.kept_bytes() } else { 0 }
    }

    /// Returns the bytes of an incomplete record that are held back; zero when the peer is idle between
    /// records.
    pub fn carried_len(&self) -> usize {
        self.open().map_or(0, |open| open.opener.carried_len())
    }

    /// Takes bytes from the peer; the returned cursor yields their events.
    ///
    /// Bytes that the cursor has not [`consumed`](Receive::consumed) when it is dropped must be passed
    /// again: a caller that has no room for more plaintext simply stops asking.
    pub fn receive<'a>(&'a mut self, input: &'a mut [u8]) -> Receive<'a> {
        Receive { session: self, input, consumed: 0 }
    }

    /// Returns whether bytes wait to be sent.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Takes the bytes that must be sent next: handshake messages, alerts, key updates.
    pub fn take_output(&mut self) -> Vec<u8> {
        if let State::Open(open) = &mut self.state {
            open.key_update_waits = false;
        }
        std::mem::take(&mut self.output)
    }

    /// Returns the layout of plaintext to be sealed; `None` before the handshake is done and with kernel TLS.
    pub fn layout(&self) -> Option<RecordLayout> {
        match &self.open()?.tx {
            Tx::Undecided(keys) => Some(keys.form().layout()),
            Tx::User { sealer, .. } => Some(sealer.layout()),
            Tx::Kernel { .. } => None,
        }
    }

    /// Seals `plain_len` bytes of application data, lying in the slots of [`Self::layout`], in place.
    ///
    /// Returns the control bytes that must be sent before `buf`'s first `sealed_len(plain_len)` bytes;
    /// usually none. Where the key is near its limit, TLS 1.3 changes it here.
    ///
    /// # Errors
    /// [`TlsError::KeyExhausted`] when TLS 1.2 has used up its key: close the connection.
    /// [`TlsError::NotOpen`] before the handshake is done, after [`Self::close`] and with kernel TLS.
    ///
    /// # Panics
    /// When `buf` is shorter than `layout().sealed_len(plain_len)`.
    #[must_use = "control bytes must be sent before the sealed ones"]
    pub fn seal(&mut self, buf: &mut [u8], plain_len: usize) -> Result<Vec<u8>, TlsError> {
        let State::Open(open) = &mut self.state else {
            return Err(TlsError::NotOpen);
        };
        if open.close_sent {
            return Err(TlsError::NotOpen);
        }
        open.make_room(plain_len, &mut self.output)?;
        open.user_sealer()?.seal(ContentType::ApplicationData, buf, plain_len)?;
        Ok(self.take_output())
    }

    /// Seals a copy of `plain` behind the pending output: for short messages and tests.
    pub fn write(&mut self, plain: &[u8]) -> Result<(), TlsError> {
        let layout = self.layout().ok_or(TlsError::NotOpen)?;
        let mut buf = vec![0; layout.sealed_len(plain.len())];
        layout.copy_in(&mut buf, 0, plain);
        let control = self.seal(&mut buf, plain.len())?;
        self.output.extend_from_slice(&control);
        self.output.extend_from_slice(&buf);
        Ok(())
    }

    /// Changes our sending key, and asks for the peer's to change too if `ask_peer` (RFC 8446 section 4.6.3).
    ///
    /// # Errors
    /// [`TlsError::NotOpen`] in TLS 1.2 and before the handshake is done.
    pub fn update_key(&mut self, ask_peer: bool) -> Result<(), TlsError> {
        match &mut self.state {
            State::Open(open) if open.schedule.is_some() => open.rekey_tx(ask_peer, &mut self.output),
            _ => Err(TlsError::NotOpen),
        }
    }

    /// Queues close_notify, once, after which we send no more. Data may still be received.
    pub fn close(&mut self) {
        if let State::Open(open) = &mut self.state
            && !open.close_sent
        {
            open.send_alert(AlertDescription::CloseNotify, &mut self.output);
        }
    }

    /// Returns the sending keys at their next record, for the kernel to continue with.
    ///
    /// Absent before the handshake is done, while output waits (it must be in the socket before the kernel gets the
    /// key), after [`Self::keep_user_tx`], and where this key had better stay: `plain_len` bytes, about to be sent,
    /// would take more than half of what it may protect, or the peer has asked for new keys, and the kernel cannot
    /// change them (`can_rekey`: Linux from 6.14 on takes a second TLS_TX key).
    pub fn kernel_tx_keys(&mut self, plain_len: u64, can_rekey: bool) -> Option<&TrafficKeys> {
        match &mut self.state {
            State::Open(open) if self.output.is_empty() => open.kernel_keys(plain_len, can_rekey),
            _ => None,
        }
    }

    /// Notes that the kernel has taken [`Self::kernel_tx_keys`]: plaintext now goes to the socket, control
    /// messages come from [`Self::take_kernel_control`].
    pub fn use_kernel_tx(&mut self, can_rekey: bool) {
        let State::Open(open) = &mut self.state else { return };
        let Some(keys) = open.kernel_keys(0, true) else { return };
        let (records_left, reserve) = (keys.record_limit.saturating_sub(keys.seq), keys.record_limit / 2);
        open.tx = Tx::Kernel { records_left, reserve, can_rekey };
    }

    /// Keeps records in user space for good: wipes the copy of the keys that is kept for the kernel.
    pub fn keep_user_tx(&mut self) {
        if let State::Open(open) = &mut self.state
            && open.user_sealer().is_ok()
            && let Tx::User { keys, .. } = &mut open.tx
        {
            *keys = None;
        }
    }

    /// Returns whether another response may be begun: false once a key that cannot be changed has protected
    /// half of its limit. Close after the response under way then: any response of less than the other half
    /// gets through.
    pub fn key_lasts(&self) -> bool {
        self.open().is_none_or(Open::key_lasts)
    }

    /// Returns whether the kernel makes the records.
    pub fn is_sealed_by_kernel(&self) -> bool {
        self.open().is_some_and(|open| matches!(open.tx, Tx::Kernel { .. }))
    }

    /// Counts plaintext that is about to be handed to a kernel TLS socket in one call.
    ///
    /// # Errors
    /// [`TlsError::KeyExhausted`] when the key is used up and cannot be changed: close the connection.
    pub fn count_kernel_tx(&mut self, plain_len: u64) -> Result<(), TlsError> {
        let State::Open(open) = &mut self.state else {
            return Err(TlsError::NotOpen);
        };
        open.count_kernel_tx(plain_len, &mut self.output)
    }

    /// Takes the control records that must be sent next on a kernel TLS socket.
    pub fn take_kernel_control(&mut self) -> Vec<KernelControl> {
        let State::Open(open) = &mut self.state else {
            return Vec::new();
        };
        open.key_update_waits = false;
        std::mem::take(&mut open.kernel_queue)
    }

    /// Sets the key's limit, which tests reach without 2^24 records.
    #[cfg(test)]
    pub(crate) fn set_record_limit(&mut self, limit: u64) {
        if let State::Open(open) = &mut self.state
            && let Tx::Undecided(keys) = &mut open.tx
        {
            keys.record_limit = limit;
        }
    }

    /// Seals a record that no honest peer would send, for tests.
    #[cfg(test)]
    pub(crate) fn write_record(&mut self, content_type: ContentType, payload: &[u8]) {
        let State::Open(open) = &mut self.state else { panic!("not established") };
        open.user_sealer().unwrap().append(content_type, payload, &mut self.output).unwrap();
    }

    fn open(&self) -> Option<&Open> {
        match &self.state {
            State::Open(open) => Some(open),
            State::Handshaking(_) | State::Ended => None,
        }
    }

    fn step(&mut self, input: &mut [u8]) -> Result<Step, TlsError> {
        match &mut self.state {
            State::Handshaking(handshake) => {
                let (consumed, is_done) = handshake.advance(input, &mut self.output)?;
                if is_done {
                    self.establish()?;
                }
                Ok(Step { consumed, found: if is_done { Found::Established } else { Found::NeedMore } })
            }
            State::Open(open) => open.receive(input, &mut self.output),
            State::Ended => Err(TlsError::NotOpen),
        }
    }

    fn establish(&mut self) -> Result<(), TlsError> {
        let State::Handshaking(handshake) = std::mem::replace(&mut self.state, State::Ended) else {
            return Err(TlsError::NotOpen);
        };
        let role = handshake.role();
        self.state = State::Open(Box::new(Open::new(role, handshake.finish()?)?));
        Ok(())
    }

    /// Ends the session; the alert that belongs to `error` waits in the output.
    fn fail(&mut self, error: &TlsError) {
        let alert = error.alert();
        match (&mut self.state, alert) {
            (State::Open(open), Some(alert)) => open.send_alert(alert, &mut self.output),
            (State::Handshaking(handshake), Some(alert)) if !handshake.has_answered() => {
                self.output.extend_from_slice(&[u8::from(ContentType::Alert), 3, 3, 0, 2]);
                self.output.extend_from_slice(&alert_message(alert));
            }
            _ => {}
        }
        // A kernel TLS socket's last alert has to be fetched, so the session stays for that.
        match &mut self.state {
            State::Open(open) if !open.kernel_queue.is_empty() => open.peer_closed = true,
            _ => self.state = State::Ended,
        }
    }
}

/// Cursor over received bytes; see [`TlsSession::receive`].
pub struct Receive<'a> {
    session: &'a mut TlsSession,
    input: &'a mut [u8],
    consumed: usize,
}

impl Receive<'_> {
    /// Returns the next event; `None` when all input is consumed.
    ///
    /// # Errors
    /// The connection is over; an alert may wait in [`TlsSession::take_output`].
    #[expect(clippy::should_implement_trait, reason = "events borrow from the cursor")]
    pub fn next(&mut self) -> Result<Option<TlsEvent<'_>>, TlsError> {
        loop {
            let start = self.consumed;
            let step = match self.session.step(&mut self.input[start..]) {
                Ok(step) => step,
                Err(error) => {
                    self.consumed = self.input.len();
                    self.session.fail(&error);
                    return Err(error);
                }
            };
            self.consumed += step.consumed;
            match step.found {
                Found::Nothing => {}
                Found::NeedMore => return Ok(None),
                Found::Established => return Ok(Some(TlsEvent::Established)),
                Found::PeerClosed => return Ok(Some(TlsEvent::PeerClosed)),
                Found::Data(Place::Input(plain)) => {
                    let plain = &mut self.input[start..][plain];
                    return Ok(Some(TlsEvent::Data(plain)));
                }
                Found::Data(Place::Carry(plain)) => {
                    let State::Open(open) = &mut self.session.state else {
                        return Err(TlsError::NotOpen);
                    };
                    return Ok(Some(TlsEvent::Data(open.opener.carried(plain))));
                }
            }
        }
    }

    /// Returns the number of input bytes that are consumed.
    pub fn consumed(&self) -> usize {
        self.consumed
    }
}
