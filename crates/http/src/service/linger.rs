//! The end of a connection whose client is to get all that was sent: closing at once with unread bytes would reset the
//! connection and could destroy the answer (RFC 9112 9.6).

use std::time::Duration;

use lane::backend::SocketOption;
use lane::net::TcpStream;
use lane::time::now;
use service::alarm::Alarm;

/// Data that a client may have under way after the server's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnderWay {
    /// Requests, which it should not have sent.
    Requests,
    /// The rest of a body, with all that the two sockets hold of it.
    Body,
}

/// Waits a little for the client to close, after the server's end, and throws away what it sends meanwhile.
pub(super) async fn linger(stream: &TcpStream, alarm: &mut Alarm, under_way: UnderWay) {
    let deadline = now() + LINGER_MAX;
    let mut left = match under_way {
        UnderWay::Requests => REQUEST_BYTES_MAX,
        UnderWay::Body => BODY_BYTES_MAX,
    };
    while let Ok(Ok(bytes)) = alarm.race(deadline, stream.recv()).await {
        if bytes.is_empty() || bytes.len() > left {
            return;
        }
        left -= bytes.len();
    }
    // What the client has not taken yet is the kernel's from now on, out of reach of a change of marks.
    let _ = stream.set_option(SocketOption::Mark(0));
}

/// Time that a closed connection waits for the client to read the answer.
const LINGER_MAX: Duration = Duration::from_secs(2);
const REQUEST_BYTES_MAX: usize = 1 << 20;
//@ limit: bytes of requests and bodies that nobody has read
//@ section: HTTP
//@ unit: byte in the kernel's receive buffer of a connection
//@ connection: the second figure of `net.ipv4.tcp_rmem` (128 KiB) with its place; the third after an upload that was read as fast
//@ address: as many times that as it has places; of uploads `uploads_per_address` (64)
//@ all: process: what the kernel keeps for TCP (`net.ipv4.tcp_mem`)
//@ empty: the client may send no more until some is read; one that is let go of is read for {LINGER_MAX}; others feel nothing
//@ counter: http_connections, http_uploads_open
//@ attack: http-slow-uploads
//@ limit: the rest of a refused upload
//@ section: HTTP
//@ unit: byte
//@ connection: 64 KiB (`body_bytes`) where its length is known; else {:b} for {LINGER_MAX}
//@ empty: the connection ends; others feel nothing
//@ counter: http_refused{reason="body_too_large"}, http_responses{class="4xx"}
//@ attack: http-edges
const BODY_BYTES_MAX: usize = 16 << 20;
