//! Tests of whole sessions, driven in memory against rustls' own connections and against each other.

mod adversary;
mod certificates;
mod exchange;
mod fake_kernel;
mod fuzz;
mod kernel;
mod lifecycle;
mod opener;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, ServerConfig};

use super::*;

/// Directory of a certificate that all tests share, kept as long as the process.
static STATE_DIR: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap().keep();
    TlsConfig::new(&dir).load(Arc::new(TicketKeys::new().unwrap())).unwrap();
    dir
});

const SUITES: [(Versions, CipherSuite); 6] = [
    (Versions::Tls13Only, CipherSuite::TLS13_AES_128_GCM_SHA256),
    (Versions::Tls13Only, CipherSuite::TLS13_AES_256_GCM_SHA384),
    (Versions::Tls13Only, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    (Versions::Tls12Only, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    (Versions::Tls12Only, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    (Versions::Tls12Only, CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
];

fn server_config() -> Arc<ServerConfig> {
    static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
        TlsConfig::new(&*STATE_DIR).load(Arc::new(TicketKeys::new().unwrap())).unwrap().config
    });
    Arc::clone(&CONFIG)
}

fn any_client(versions: Versions) -> ClientConfig {
    client_config(&ClientTrust::AnyCertificate, versions, &[Alpn::Http11]).unwrap()
}

/// Makes a rustls client configuration that offers only one suite.
fn client_with_suite(versions: Versions, suite: CipherSuite) -> ClientConfig {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|offered| offered.suite() == suite);
    client::client_config_with(provider, &ClientTrust::AnyCertificate, versions, &[Alpn::Http11]).unwrap()
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// Our server connected to rustls' client.
struct Pair {
    client: ClientConnection,
    server: TlsSession,
    /// Plaintext that the server has received.
    at_server: Vec<u8>,
    /// Plaintext that the client has received.
    at_client: Vec<u8>,
    server_saw_close: bool,
}

impl Pair {
    fn new(config: ClientConfig) -> Self {
        Self::with_server(Arc::new(config), server_config())
    }

    fn with_server(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Self {
        let mut pair = Self {
            client: ClientConnection::new(client, localhost()).unwrap(),
            server: TlsSession::server(server).unwrap(),
            at_server: Vec::new(),
            at_client: Vec::new(),
            server_saw_close: false,
        };
        pair.pump();
        assert!(pair.server.info().is_some() && !pair.client.is_handshaking());
        pair
    }

    /// Moves bytes both ways until both sides are quiet.
    fn pump(&mut self) {
        loop {
            let upward = self.client_output();
            let is_quiet = upward.is_empty() && !self.server.has_output();
            self.deliver_to_server(&upward).unwrap();
            let downward = self.server.take_output();
            self.deliver_to_client(&downward).unwrap();
            if is_quiet {
                return;
            }
        }
    }

    fn client_output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut out).unwrap();
        }
        out
    }

    fn deliver_to_server(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let mut bytes = bytes.to_vec();
        let mut receive = self.server.receive(&mut bytes);
        while let Some(event) = receive.next()? {
            match event {
                TlsEvent::Established => {}
                TlsEvent::Data(plain) => self.at_server.extend_from_slice(plain),
                TlsEvent::PeerClosed => self.server_saw_close = true,
            }
        }
        assert_eq!(receive.consumed(), bytes.len());
        Ok(())
    }

    fn deliver_to_client(&mut self, mut bytes: &[u8]) -> Result<(), rustls::Error> {
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            let state = self.client.process_new_packets()?;
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            self.client.reader().read_exact(&mut plain).unwrap();
            self.at_client.extend_from_slice(&plain);
        }
        Ok(())
    }

    fn client_sends(&mut self, plain: &[u8]) {
        self.client.set_buffer_limit(None);
        self.client.writer().write_all(plain).unwrap();
        self.pump();
    }

    fn server_sends(&mut self, plain: &[u8]) {
        self.server.write(plain).unwrap();
        self.pump();
    }

    /// Checks that data still flows both ways.
    fn assert_alive(&mut self) {
        self.at_server.clear();
        self.at_client.clear();
        self.client_sends(b"still there?");
        self.server_sends(b"yes");
        assert_eq!(self.at_server, b"still there?");
        assert_eq!(self.at_client, b"yes");
    }
}

/// Our client connected to our server, for what rustls' client would not send.
struct OwnPair {
    client: TlsSession,
    server: TlsSession,
    at_server: Vec<u8>,
    at_client: Vec<u8>,
}

impl OwnPair {
    fn new(versions: Versions) -> Self {
        let mut pair = Self {
            client: TlsSession::client(Arc::new(any_client(versions)), localhost()).unwrap(),
            server: TlsSession::server(server_config()).unwrap(),
            at_server: Vec::new(),
            at_client: Vec::new(),
        };
        pair.pump().unwrap();
        assert!(pair.server.info().is_some() && pair.client.info().is_some());
        pair
    }

    fn pump(&mut self) -> Result<(), TlsError> {
        while self.client.has_output() || self.server.has_output() {
            self.pump_to_server()?;
            let downward = self.server.take_output();
            self.at_client.extend(received(&mut self.client, downward)?);
        }
        Ok(())
    }

    fn pump_to_server(&mut self) -> Result<(), TlsError> {
        let upward = self.client.take_output();
        self.at_server.extend(received(&mut self.server, upward)?);
        Ok(())
    }
}

fn received(session: &mut TlsSession, mut bytes: Vec<u8>) -> Result<Vec<u8>, TlsError> {
    let mut plaintext = Vec::new();
    let mut receive = session.receive(&mut bytes);
    while let Some(event) = receive.next()? {
        if let TlsEvent::Data(plain) = event {
            plaintext.extend_from_slice(plain);
        }
    }
    Ok(plaintext)
}

/// Returns bytes that differ from their neighbours at every distance that matters here.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}
