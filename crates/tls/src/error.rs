//! Errors that end a TLS connection, and the alert that tells the peer.

use rustls::AlertDescription;

/// The end of a TLS session, or the refusal of one call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The first bytes are an HTTP request line: answer in plain text, as no TLS peer is there.
    #[error("plain HTTP was sent to the HTTPS port")]
    PlainHttp,
    /// The first byte is no TLS record type.
    #[error("not TLS: the first byte is {0:#04x}")]
    NotTls(u8),
    /// The handshake failed; the source says why.
    #[error("handshake failed: {0}")]
    Handshake(#[from] rustls::Error),
    /// The peer's part of the handshake is longer than the configured bytes.
    #[error("handshake longer than {0} bytes")]
    HandshakeTooLong(usize),
    /// The peer closed before the handshake was done.
    #[error("peer closed during the handshake")]
    ClosedInHandshake,
    /// A record did not authenticate: corrupted, forged, reordered or replayed.
    #[error("record failed authentication")]
    BadRecordMac,
    /// A record is longer than the protocol allows, in bytes.
    #[error("record of {0} bytes is over the protocol's limit")]
    RecordOverflow(usize),
    /// A message has no place at this point of the protocol.
    #[error("unexpected message: {0}")]
    Unexpected(&'static str),
    /// A message has the wrong shape.
    #[error("malformed message: {0}")]
    Decode(&'static str),
    /// A TLS 1.2 record carries another version.
    #[error("record version {0:#06x} where 0x0303 belongs")]
    RecordVersion(u16),
    /// The peer sends well-formed messages that do no work, in numbers that only an attacker sends.
    #[error("too many {0}")]
    Flood(&'static str),
    /// The peer ended the connection with this fatal alert.
    #[error("peer sent the alert {0:?}")]
    PeerAlert(AlertDescription),
    /// The key has protected as many records as is safe and cannot be replaced.
    #[error("the key has protected as many records as is safe; close the connection")]
    KeyExhausted,
    /// The peer asked for a new key, but kernel TLS here cannot change keys (Linux before 6.14).
    #[error("this kernel cannot change the key of a TLS socket, and the peer asked for it")]
    KernelRekey,
    /// The call needs an established session that is still open.
    #[error("the session is not open")]
    NotOpen,
    /// The AEAD refused an operation that cannot fail with valid keys.
    #[error("the cipher refused to work")]
    Cipher,
}

impl TlsError {
    /// Returns the alert that RFC 8446 section 6.2 wants sent for this error, if any.
    ///
    /// Handshake errors have none here: rustls has queued its own alert already.
    pub fn alert(&self) -> Option<AlertDescription> {
        Some(match self {
            Self::BadRecordMac => AlertDescription::BadRecordMac,
            Self::RecordOverflow(_) => AlertDescription::RecordOverflow,
            Self::Unexpected(_) | Self::Flood(_) => AlertDescription::UnexpectedMessage,
            Self::Decode(_) => AlertDescription::DecodeError,
            Self::RecordVersion(_) => AlertDescription::ProtocolVersion,
            Self::Cipher => AlertDescription::InternalError,
            Self::KeyExhausted | Self::KernelRekey => AlertDescription::CloseNotify,
            _ => return None,
        })
    }

    /// Returns a short fixed name, for the label of a counter.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PlainHttp => "plain_http",
            Self::NotTls(_) => "not_tls",
            Self::Handshake(_) => "handshake_failed",
            Self::HandshakeTooLong(_) => "handshake_too_long",
            Self::ClosedInHandshake => "closed_in_handshake",
            Self::BadRecordMac => "bad_record_mac",
            Self::RecordOverflow(_) => "record_overflow",
            Self::Unexpected(_) => "unexpected_message",
            Self::Decode(_) => "decode_error",
            Self::RecordVersion(_) => "record_version",
            Self::Flood(_) => "flood",
            Self::PeerAlert(_) => "peer_alert",
            Self::KeyExhausted => "key_exhausted",
            Self::KernelRekey => "kernel_rekey",
            Self::NotOpen => "not_open",
            Self::Cipher => "cipher",
        }
    }
}
