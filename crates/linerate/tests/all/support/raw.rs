//! A client that sends exactly the bytes it is told to, for requests no library would write.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A response as it came.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Parses a response and all that follows it.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no response head in {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).expect("heads are ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).expect("a status").parse().unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').expect("a colon");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Self { status, headers: lines.map(field).collect(), body: bytes[end + 4..].to_vec() }
    }

    /// The value of a header, given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns a header that must be there ([`Response::header`]).
    pub(crate) fn expect(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }
}

/// Connects, with a bound on every wait.
pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("the server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Connects ([`connect`]) from another of this machine's addresses.
pub(crate) fn connect_from(source: Ipv4Addr, addr: SocketAddr) -> TcpStream {
    connect_as(addr, |socket| rustix::net::bind(socket, &SocketAddr::from((source, 0))).unwrap())
}

/// Connects ([`connect`]) with a receive buffer of this many bytes, however generous the kernel is.
pub(crate) fn connect_narrow(addr: SocketAddr, bytes: usize) -> TcpStream {
    connect_as(addr, |socket| rustix::net::sockopt::set_socket_recv_buffer_size(socket, bytes).unwrap())
}

fn connect_as(addr: SocketAddr, prepare: impl FnOnce(&OwnedFd)) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::INET, kind, flags, None).unwrap();
    prepare(&socket);
    connect(&socket, &addr).expect("the server accepts");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends bytes; everything the server says until it closes.
///
/// The sending side stays open, so that the end is the server's own decision.
pub(crate) fn talk(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(addr);
    send_all(&mut stream, bytes);
    read_to_close(&mut stream)
}

/// A GET that closes after its answer.
pub(crate) fn get(addr: SocketAddr, target: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    Response::parse(&talk(addr, request.as_bytes()))
}

/// Sends what the server takes: it may refuse, and close, before the end.
pub(crate) fn send_all(stream: &mut TcpStream, bytes: &[u8]) {
    match stream.write_all(bytes) {
        Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            panic!("sending failed otherwise than by a close: {error}")
        }
        _ => {}
    }
}

/// Reads until the server closes or resets the connection.
pub(crate) fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            // A receive with a time limit is not begun again by the kernel.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
}

/// Reads one response head, byte by byte, so that the body stays in the socket.
pub(crate) fn read_head(stream: &mut TcpStream) -> Response {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a response");
        head.push(byte[0]);
    }
    Response::parse(&head)
}

/// Reads one response with a Content-Length.
pub(crate) fn read_response(stream: &mut TcpStream) -> Response {
    let mut response = read_head(stream);
    response.body = vec![0; response.expect("content-length").parse().unwrap()];
    stream.read_exact(&mut response.body).expect("the whole body");
    response
}

/// Tells the server that no more requests come.
pub(crate) fn finish(stream: &TcpStream) {
    // The server may have closed first.
    let _ = stream.shutdown(Shutdown::Write);
}
