//! A TLS client without sockets, rustls' own: what the server sends must satisfy it.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConnection};
use tls::{Alpn, ClientTrust, Versions, client_config_with};

/// A session.
pub(crate) struct TlsClient(ClientConnection);

impl TlsClient {
    /// Offers one suite alone.
    pub(crate) fn new(suite: CipherSuite) -> Self {
        Self::speaking(suite, Alpn::Http11)
    }

    /// Makes a TLS client for HTTP/2.
    pub(crate) fn http2(suite: CipherSuite) -> Self {
        Self::speaking(suite, Alpn::H2)
    }

    fn speaking(suite: CipherSuite, protocol: Alpn) -> Self {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites.retain(|offered| offered.suite() == suite);
        let versions = if is_tls13(suite) { Versions::Tls13Only } else { Versions::Tls12Only };
        let config =
            client_config_with(provider, &ClientTrust::AnyCertificate, versions, &[protocol]).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Self(ClientConnection::new(Arc::new(config), name).unwrap())
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Changes the sending key and asks for the server's to change.
    pub(crate) fn update_keys(&mut self) {
        self.0.refresh_traffic_keys().unwrap();
    }

    /// Queues plaintext; it leaves with [`TlsClient::output`].
    pub(crate) fn write(&mut self, plain: &[u8]) {
        self.0.writer().write_all(plain).unwrap();
    }

    /// Queues close_notify.
    pub(crate) fn close(&mut self) {
        self.0.send_close_notify();
    }

    /// Bytes to send.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Takes bytes, and appends what they say to `plain`.
    ///
    /// # Panics
    /// When a record is not authentic or out of its place.
    pub(crate) fn read(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).unwrap();
            self.0.process_new_packets().unwrap();
            // At the end it tells whether the end was clean; the caller asks for that itself.
            let _ = self.0.reader().read_to_end(plain);
        }
    }

    /// close_notify has come.
    pub(crate) fn peer_has_closed(&mut self) -> bool {
        self.0.process_new_packets().unwrap().peer_has_closed()
    }
}

pub(crate) fn is_tls13(suite: CipherSuite) -> bool {
    SUITES[..3].contains(&suite)
}

/// All that the server has; the first three are those of TLS 1.3.
pub(crate) const SUITES: [CipherSuite; 6] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];
