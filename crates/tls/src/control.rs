//! Alerts and handshake messages after the handshake: key updates, session tickets, refused renegotiation,
//! and the limits on all of these.

use rustls::{AlertDescription, ContentType};

use crate::error::TlsError;
use crate::keys::TlsVersion;

/// Most warning alerts that a connection may receive (BoringSSL's figure).
const WARNINGS_MAX: u8 = 4;

/// Most key updates without application data between them (BoringSSL's figure).
const KEY_UPDATES_MAX: u8 = 32;

/// Longest NewSessionTicket that a client takes, in bytes.
const TICKET_LEN_MAX: usize = 16 << 10;

/// Bytes of a handshake message's header: type and 24-bit length (RFC 8446 section 4).
const MESSAGE_HEADER_LEN: usize = 4;

const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// Role of this end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// Request of a control message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// The peer sends no more data.
    CloseNotify,
    /// The peer's next record has a new key; `answer` asks us for a new one too.
    KeyUpdate { answer: bool },
    /// Session ticket, without its message header. Clients only.
    Ticket(Vec<u8>),
    /// Answer with the warning no_renegotiation (RFC 5746 section 4.5).
    RefuseRenegotiation,
}

/// Reader of control messages, which also counts them against limits.
pub(crate) struct ControlReader {
    role: Role,
    version: TlsVersion,
    warnings: u8,
    key_updates: u8,
    renegotiations: u8,
    /// Beginning of a handshake message that a record's end has cut; empty otherwise.
    partial: Vec<u8>,
}

impl ControlReader {
    pub(crate) fn new(role: Role, version: TlsVersion) -> Self {
        Self { role, version, warnings: 0, key_updates: 0, renegotiations: 0, partial: Vec::new() }
    }

    /// Notes a record with application data in it.
    ///
    /// # Errors
    /// In the middle of a handshake message no other record may come (RFC 8446 section 5.1).
    pub(crate) fn note_application_data(&mut self, len: usize) -> Result<(), TlsError> {
        if !self.partial.is_empty() {
            return Err(TlsError::Unexpected("record inside a handshake message"));
        }
        if len > 0 {
            self.key_updates = 0;
        }
        Ok(())
    }

    /// Reads one record that is not application data.
    pub(crate) fn read(
        &mut self,
        content_type: ContentType,
        payload: &[u8],
    ) -> Result<Vec<Control>, TlsError> {
        if content_type != ContentType::Handshake && !self.partial.is_empty() {
            return Err(TlsError::Unexpected("record inside a handshake message"));
        }
        match (content_type, self.version) {
            (ContentType::Alert, _) => Ok(self.read_alert(payload)?.into_iter().collect()),
            (ContentType::Handshake, TlsVersion::Tls13) => self.read_handshake(payload),
            (ContentType::Handshake, TlsVersion::Tls12) => self.read_renegotiation(payload),
            (ContentType::ChangeCipherSpec, _) => {
                Err(TlsError::Unexpected("change_cipher_spec after the handshake"))
            }
            _ => Err(TlsError::Unexpected("unknown content type")),
        }
    }

    /// Reads an alert (RFC 8446 section 6): in TLS 1.3 the level means nothing, and all but two alerts are
    /// fatal.
    fn read_alert(&mut self, payload: &[u8]) -> Result<Option<Control>, TlsError> {
        let &[level, description] = payload else {
            return Err(TlsError::Decode("alert of the wrong length"));
        };
        let description = AlertDescription::from(description);
        let is_warning = match self.version {
            TlsVersion::Tls13 => description == AlertDescription::UserCanceled,
            TlsVersion::Tls12 => level == 1,
        };
        if description == AlertDescription::CloseNotify {
            return Ok(Some(Control::CloseNotify));
        }
        if !is_warning {
            return Err(TlsError::PeerAlert(description));
        }
        self.warnings += 1;
        if self.warnings > WARNINGS_MAX { Err(TlsError::Flood("warning alerts")) } else { Ok(None) }
    }

    /// Answers a TLS 1.2 renegotiation: the first attempt with a warning, the second with an error that ends
    /// the connection.
    fn read_renegotiation(&mut self, payload: &[u8]) -> Result<Vec<Control>, TlsError> {
        let expected = match self.role {
            Role::Server => CLIENT_HELLO,
            Role::Client => 0, // hello_request
        };
        if payload.first() != Some(&expected) || self.renegotiations > 0 {
            return Err(TlsError::Unexpected("handshake message after the handshake"));
        }
        self.renegotiations += 1;
        Ok(vec![Control::RefuseRenegotiation])
    }

    fn read_handshake(&mut self, payload: &[u8]) -> Result<Vec<Control>, TlsError> {
        let mut controls = Vec::new();
        self.partial.extend_from_slice(payload);
        let mut bytes = std::mem::take(&mut self.partial);
        let mut rest = bytes.as_slice();
        while let Some((&[message_type, len_hi, len_mid, len_lo], body)) =
            rest.split_first_chunk::<MESSAGE_HEADER_LEN>()
        {
            let len = u32::from_be_bytes([0, len_hi, len_mid, len_lo]) as usize;
            self.check_message(message_type, len)?;
            let Some((body, after)) = body.split_at_checked(len) else {
                break;
            };
            controls.push(self.read_message(message_type, body, after)?);
            rest = after;
        }
        // A lone type byte already tells whether the message may come at all.
        if let Some(&message_type) = rest.first() {
            self.check_message(message_type, 1)?;
        }
        let read_len = bytes.len() - rest.len();
        bytes.drain(..read_len);
        if !bytes.is_empty() {
            self.partial = bytes;
        }
        Ok(controls)
    }

    /// Checks a message's type and length before its body is gathered.
    fn check_message(&self, message_type: u8, len: usize) -> Result<(), TlsError> {
        match (message_type, self.role) {
            (KEY_UPDATE, _) if len != 1 => Err(TlsError::Decode("key_update of the wrong length")),
            (KEY_UPDATE, _) => Ok(()),
            (NEW_SESSION_TICKET, Role::Client) if len > TICKET_LEN_MAX => {
                Err(TlsError::Decode("session ticket too long"))
            }
            (NEW_SESSION_TICKET, Role::Client) => Ok(()),
            _ => Err(TlsError::Unexpected("handshake message after the handshake")),
        }
    }

    fn read_message(&mut self, message_type: u8, body: &[u8], after: &[u8]) -> Result<Control, TlsError> {
        if message_type == NEW_SESSION_TICKET {
            return Ok(Control::Ticket(body.to_vec()));
        }
        // RFC 8446 section 5.1: messages before a key change end at a record's end.
        if !after.is_empty() {
            return Err(TlsError::Unexpected("message behind key_update in its record"));
        }
        self.key_updates += 1;
        if self.key_updates > KEY_UPDATES_MAX {
            return Err(TlsError::Flood("key updates"));
        }
        match body {
            [0] => Ok(Control::KeyUpdate { answer: false }),
            [1] => Ok(Control::KeyUpdate { answer: true }),
            _ => Err(TlsError::Decode("key_update value")),
        }
    }
}

/// Builds a KeyUpdate message; `answer` asks the peer for a new key too (RFC 8446 section 4.6.3).
pub(crate) fn key_update_message(answer: bool) -> [u8; 5] {
    [KEY_UPDATE, 0, 0, 1, u8::from(answer)]
}

/// Builds an alert message; all but the two warnings that we send are fatal.
pub(crate) fn alert_message(description: AlertDescription) -> [u8; 2] {
    let is_warning = matches!(description, AlertDescription::CloseNotify | AlertDescription::NoRenegotiation);
    [if is_warning { 1 } else { 2 }, u8::from(description)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ControlReader {
        ControlReader::new(Role::Server, TlsVersion::Tls13)
    }

    fn handshake(reader: &mut ControlReader, payload: &[u8]) -> Result<Vec<Control>, TlsError> {
        reader.read(ContentType::Handshake, payload)
    }

    #[test]
    fn key_update_cut_at_any_byte_is_read_once() {
        for cut in 1..5 {
            let mut reader = server();
            let message = key_update_message(true);
            assert_eq!(handshake(&mut reader, &message[..cut]).unwrap(), []);
            let rest = handshake(&mut reader, &message[cut..]).unwrap();
            assert_eq!(rest, [Control::KeyUpdate { answer: true }]);
            assert_eq!(reader.partial.capacity(), 0);
        }
    }

    #[test]
    fn application_data_inside_a_handshake_message_is_refused() {
        let mut reader = server();
        handshake(&mut reader, &key_update_message(false)[..3]).unwrap();
        assert!(matches!(reader.note_application_data(1), Err(TlsError::Unexpected(_))));
    }

    #[test]
    fn message_behind_a_key_update_in_its_record_is_refused() {
        let twice = [key_update_message(false), key_update_message(false)].concat();
        assert!(matches!(handshake(&mut server(), &twice), Err(TlsError::Unexpected(_))));
    }

    #[test]
    fn key_updates_without_data_are_bounded_and_data_resets_the_bound() {
        let mut reader = server();
        for _ in 0..KEY_UPDATES_MAX {
            handshake(&mut reader, &key_update_message(true)).unwrap();
        }
        reader.note_application_data(0).unwrap();
        assert!(matches!(handshake(&mut reader, &key_update_message(true)), Err(TlsError::Flood(_))));

        let mut reader = server();
        for _ in 0..3 * u16::from(KEY_UPDATES_MAX) {
            handshake(&mut reader, &key_update_message(true)).unwrap();
            reader.note_application_data(1).unwrap();
        }
    }

    #[test]
    fn server_takes_no_ticket_and_no_client_hello_after_the_handshake() {
        for message_type in [NEW_SESSION_TICKET, CLIENT_HELLO, 0, 255] {
            let result = handshake(&mut server(), &[message_type]);
            assert!(matches!(result, Err(TlsError::Unexpected(_))), "type {message_type}");
        }
    }

    #[test]
    fn oversized_messages_are_refused_by_their_header() {
        let result = handshake(&mut server(), &[KEY_UPDATE, 0, 0, 2]);
        assert!(matches!(result, Err(TlsError::Decode(_))));
        let mut client = ControlReader::new(Role::Client, TlsVersion::Tls13);
        let result = handshake(&mut client, &[NEW_SESSION_TICKET, 0xff, 0xff, 0xff]);
        assert!(matches!(result, Err(TlsError::Decode(_))));
    }

    #[test]
    fn several_tickets_in_one_record_are_all_read() {
        let mut client = ControlReader::new(Role::Client, TlsVersion::Tls13);
        let record = [NEW_SESSION_TICKET, 0, 0, 2, 7, 8, NEW_SESSION_TICKET, 0, 0, 1, 9];
        let controls = handshake(&mut client, &record).unwrap();
        assert_eq!(controls, [Control::Ticket(vec![7, 8]), Control::Ticket(vec![9])]);
    }

    #[test]
    fn alert_level_counts_in_tls12_only() {
        let warning = [1, u8::from(AlertDescription::InternalError)];
        let mut tls12 = ControlReader::new(Role::Server, TlsVersion::Tls12);
        for _ in 0..WARNINGS_MAX {
            assert_eq!(tls12.read(ContentType::Alert, &warning).unwrap(), []);
        }
        assert!(matches!(tls12.read(ContentType::Alert, &warning), Err(TlsError::Flood(_))));
        let result = server().read(ContentType::Alert, &warning);
        assert!(matches!(result, Err(TlsError::PeerAlert(AlertDescription::InternalError))));
    }

    #[test]
    fn second_renegotiation_is_fatal() {
        let mut tls12 = ControlReader::new(Role::Server, TlsVersion::Tls12);
        let hello = [CLIENT_HELLO, 0, 0, 40];
        assert_eq!(handshake(&mut tls12, &hello).unwrap(), [Control::RefuseRenegotiation]);
        assert!(matches!(handshake(&mut tls12, &hello), Err(TlsError::Unexpected(_))));
    }
}
