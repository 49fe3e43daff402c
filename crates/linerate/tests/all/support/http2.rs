//! An HTTP/2 client that sends exactly the frames it is told to (RFC 9113 4.1), over TLS.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tls::{ClientTrust, Versions, client_config};

use super::raw;

pub(crate) type Connection = StreamOwned<ClientConnection, TcpStream>;

/// Connects and says what every client says first (RFC 9113 3.4).
pub(crate) fn connect(addr: SocketAddr) -> Connection {
    let mut connection = tls(raw::connect(addr), b"h2");
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    connection.write_all(&frame(SETTINGS, 0, 0, b"")).unwrap();
    connection.flush().unwrap();
    assert_eq!(connection.conn.alpn_protocol(), Some(&b"h2"[..]));
    connection
}

/// TLS over a connection, for this protocol.
pub(crate) fn tls(stream: TcpStream, alpn: &[u8]) -> Connection {
    let mut config = client_config(&ClientTrust::AnyCertificate, Versions::default(), &[]).unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(tls, stream)
}

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const ACK: u8 = 1;
