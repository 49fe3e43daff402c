//! Session after its handshake: dispatch of received records, and sealing in user space or by the kernel.

use rustls::{AlertDescription, ContentType};

use crate::control::{Control, ControlReader, Role, alert_message, key_update_message};
use crate::error::TlsError;
use crate::handshake::{Finished, KeySchedule, SessionInfo};
use crate::keys::TrafficKeys;
use crate::ktls::CryptoInfo;
use crate::layout::PLAINTEXT_MAX;
use crate::open::{Opened, Place, RecordOpener};
use crate::seal::RecordSealer;

/// Session after its handshake.
pub(crate) struct Open {
    pub(crate) opener: RecordOpener,
    pub(crate) tx: Tx,
    /// Key schedule, absent in TLS 1.2; boxed because it is the largest part.
    pub(crate) schedule: Option<Box<KeySchedule>>,
    control: ControlReader,
    pub(crate) info: SessionInfo,
    /// Control messages that kernel TLS has to send.
    pub(crate) kernel_queue: Vec<KernelControl>,
    pub(crate) peer_closed: bool,
    pub(crate) close_sent: bool,
    /// True while a KeyUpdate waits unsent: one answer is enough for all requests until then.
    pub(crate) key_update_waits: bool,
    /// True when the peer has asked for a new key, and may do so again.
    peer_asks_for_keys: bool,
}

/// State of the sending side.
pub(crate) enum Tx {
    /// No record was sealed yet.
    Undecided(TrafficKeys),
    /// User space seals. The keys stay while they may still go to the kernel; their sequence number is that
    /// of their first use.
    User { sealer: RecordSealer, keys: Option<Box<TrafficKeys>> },
    Kernel {
        records_left: u64,
        /// Number of records left below which a key that cannot be changed takes no new response.
        reserve: u64,
        can_rekey: bool,
    },
}

/// Control record that is sent by sendmsg with a TLS_SET_RECORD_TYPE control message.
pub struct KernelControl {
    /// Content type of the record.
    pub record_type: u8,
    /// Plaintext of the record.
    pub payload: Vec<u8>,
    /// Key to set with TLS_TX once the record is sent, before anything else is.
    pub then_rekey: Option<CryptoInfo>,
}

/// Result of one received record.
pub(crate) struct Step {
    pub(crate) consumed: usize,
    pub(crate) found: Found,
}

pub(crate) enum Found {
    /// The record brought no event; there may be more.
    Nothing,
    NeedMore,
    Established,
    Data(Place),
    PeerClosed,
}

impl Open {
    pub(crate) fn new(role: Role, finished: Finished) -> Result<Self, TlsError> {
        let Finished { rx, tx, schedule, info } = finished;
        Ok(Self {
            opener: RecordOpener::new(&rx)?,
            tx: Tx::Undecided(tx),
            schedule: schedule.map(Box::new),
            control: ControlReader::new(role, info.version),
            info,
            kernel_queue: Vec::new(),
            peer_closed: false,
            close_sent: false,
            key_update_waits: false,
            peer_asks_for_keys: false,
        })
    }

    pub(crate) fn receive(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> Result<Step, TlsError> {
        // RFC 8446 section 6.1: data after a closure alert is ignored.
        if self.peer_closed {
            return Ok(Step { consumed: input.len(), found: Found::NeedMore });
        }
        let (consumed, content_type, plain) = match self.opener.open(input)? {
            Opened::NeedMore => return Ok(Step { consumed: input.len(), found: Found::NeedMore }),
            Opened::Record { consumed, content_type, plain } => (consumed, content_type, plain),
        };
        if content_type == ContentType::ApplicationData {
            let (Place::Input(range) | Place::Carry(range)) = &plain;
            self.control.note_application_data(range.len())?;
            let found = if range.is_empty() { Found::Nothing } else { Found::Data(plain) };
            return Ok(Step { consumed, found });
        }
        let payload = match plain {
            Place::Input(range) => &input[range],
            Place::Carry(range) => &*self.opener.carried(range),
        };
        for control in self.control.read(content_type, payload)? {
            self.obey(control, output)?;
        }
        let found = if self.peer_closed { Found::PeerClosed } else { Found::Nothing };
        Ok(Step { consumed, found })
    }

    fn obey(&mut self, control: Control, output: &mut Vec<u8>) -> Result<(), TlsError> {
        match control {
            Control::CloseNotify => self.peer_closed = true,
            Control::RefuseRenegotiation => self.send_alert(AlertDescription::NoRenegotiation, output),
            Control::Ticket(ticket) => self.schedule()?.store_ticket(&ticket)?,
            Control::KeyUpdate { answer } => {
                let keys = self.schedule()?.next_rx()?;
                self.opener.rekey(&keys)?;
                self.peer_asks_for_keys |= answer;
                if answer && !self.key_update_waits && !self.close_sent {
                    self.rekey_tx(false, output)?;
                    self.key_update_waits = true;
                }
            }
        }
        Ok(())
    }

    fn schedule(&mut self) -> Result<&mut KeySchedule, TlsError> {
        self.schedule.as_deref_mut().ok_or(TlsError::Unexpected("key message in TLS 1.2"))
    }

    pub(crate) fn user_sealer(&mut self) -> Result<&mut RecordSealer, TlsError> {
        if let Tx::Undecided(keys) = &self.tx {
            let sealer = RecordSealer::new(keys)?;
            let undecided = std::mem::replace(&mut self.tx, Tx::User { sealer, keys: None });
            if let (Tx::Undecided(undecided), Tx::User { keys, .. }) = (undecided, &mut self.tx) {
                *keys = Some(Box::new(undecided));
            }
        }
        match &mut self.tx {
            Tx::User { sealer, .. } => Ok(sealer),
            Tx::Undecided(_) | Tx::Kernel { .. } => Err(TlsError::NotOpen),
        }
    }

    /// Returns the sending keys at their next record, if the kernel may have them and they last for
    /// `plain_len` bytes there.
    pub(crate) fn kernel_keys(&mut self, plain_len: u64, can_rekey: bool) -> Option<&TrafficKeys> {
        let keys = match &mut self.tx {
            Tx::Undecided(keys) => keys,
            Tx::User { sealer, keys: Some(keys) } => {
                keys.seq = sealer.next_seq();
                keys
            }
            Tx::User { keys: None, .. } | Tx::Kernel { .. } => return None,
        };
        // User space can change keys; in TLS 1.2 neither side can.
        let stays = self.schedule.is_some() && !can_rekey;
        let lasts = kernel_records(plain_len) < keys.record_limit.saturating_sub(keys.seq) / 2;
        let wanted = !self.close_sent && !(stays && (self.peer_asks_for_keys || !lasts));
        wanted.then_some(keys)
    }

    /// Returns whether the sending key, or its successor, is good for another response.
    pub(crate) fn key_lasts(&self) -> bool {
        match &self.tx {
            Tx::Undecided(_) => true,
            Tx::User { sealer, .. } => self.schedule.is_some() || sealer.is_fresh(),
            Tx::Kernel { records_left, reserve, can_rekey } => {
                (self.schedule.is_some() && *can_rekey) || records_left > reserve
            }
        }
    }

    /// Ensures that the key may protect `plain_len` more bytes and one control record after them.
    pub(crate) fn make_room(&mut self, plain_len: usize, output: &mut Vec<u8>) -> Result<(), TlsError> {
        let sealer = self.user_sealer()?;
        let needed = sealer.layout().records(plain_len) as u64;
        if sealer.records_left() > needed {
            return Ok(());
        }
        if self.schedule.is_none() {
            return Err(TlsError::KeyExhausted);
        }
        self.rekey_tx(false, output)
    }

    pub(crate) fn count_kernel_tx(&mut self, plain_len: u64, output: &mut Vec<u8>) -> Result<(), TlsError> {
        let Tx::Kernel { records_left, can_rekey, .. } = &mut self.tx else {
            return Err(TlsError::NotOpen);
        };
        let records = kernel_records(plain_len);
        if *records_left > records {
            *records_left -= records;
            return Ok(());
        }
        if self.schedule.is_none() || !*can_rekey {
            return Err(TlsError::KeyExhausted);
        }
        self.rekey_tx(false, output)?;
        self.count_kernel_tx(plain_len, output)
    }

    /// Sends a KeyUpdate under the old key and goes on with the new one.
    pub(crate) fn rekey_tx(&mut self, ask_peer: bool, output: &mut Vec<u8>) -> Result<(), TlsError> {
        if let Tx::Kernel { can_rekey: false, .. } = self.tx {
            return Err(TlsError::KernelRekey);
        }
        let message = key_update_message(ask_peer);
        if let Tx::Kernel { records_left, .. } = &mut self.tx {
            let keys = self.schedule.as_mut().ok_or(TlsError::KeyExhausted)?.next_tx()?;
            *records_left = keys.record_limit;
            self.kernel_queue.push(KernelControl {
                record_type: u8::from(ContentType::Handshake),
                payload: message.to_vec(),
                then_rekey: Some(CryptoInfo::new(&keys)?),
            });
            return Ok(());
        }
        self.user_sealer()?.append(ContentType::Handshake, &message, output)?;
        let next = self.schedule()?.next_tx()?;
        if let Tx::User { sealer, keys } = &mut self.tx {
            *sealer = RecordSealer::new(&next)?;
            *keys = keys.is_some().then(|| Box::new(next));
        }
        Ok(())
    }

    /// Queues an alert, unless it cannot be sealed: the connection ends all the same.
    pub(crate) fn send_alert(&mut self, description: AlertDescription, output: &mut Vec<u8>) {
        if self.close_sent {
            return;
        }
        self.close_sent = description != AlertDescription::NoRenegotiation;
        let message = alert_message(description);
        if let Tx::Kernel { .. } = self.tx {
            self.kernel_queue.push(KernelControl {
                record_type: u8::from(ContentType::Alert),
                payload: message.to_vec(),
                then_rekey: None,
            });
            return;
        }
        if let Ok(sealer) = self.user_sealer() {
            let _ = sealer.append(ContentType::Alert, &message, output);
        }
    }
}

/// Returns the most records that the kernel may make of `plain_len` bytes. It ends one wherever the socket is
/// full, and the socket takes about a record at least, so a long run of them is counted twice.
fn kernel_records(plain_len: u64) -> u64 {
    match plain_len.div_ceil(PLAINTEXT_MAX as u64) {
        one @ ..=1 => one,
        many => 2 * many,
    }
}
