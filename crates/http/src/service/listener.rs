//! Listeners of one lane: connections are accepted, taken from other lanes, or refused for want of room.

use std::io;
use std::rc::Rc;

use lane::backend::SocketOption;
use lane::net::{TcpListener, TcpStream};
use service::address::client_of;

use super::connection::serve_connection;
use super::shared::{ConnectionInfo, Role, Service};
use super::unsent::UNSENT_MIN;

impl Service {
    /// Accepts and serves connections until shutdown is asked for.
    pub async fn listen(self: Rc<Self>, listener: TcpListener, role: Role) {
        // A listener without another holder ends with the service.
        let _ = self.listen_where(&listener, || role, Some).await;
    }

    /// Serves a listener ([`Service::listen`]), but asks `role` and `place` about every connection: the
    /// latter gives back those to be served here, and keeps those that it gave to another lane.
    ///
    /// # Errors
    /// The kernel's, when the socket listens no more though shutdown was not asked for.
    pub async fn listen_where(
        self: &Rc<Self>,
        listener: &TcpListener,
        role: impl Fn() -> Role,
        place: impl Fn(TcpStream) -> Option<TcpStream>,
    ) -> io::Result<()> {
        let take = |stream| {
            if let Some(stream) = place(stream) {
                self.take(stream, role());
            }
        };
        self.connections.accept(listener, take).await
    }

    /// Serves a connection that was accepted here or by another lane, if there is room for it.
    pub fn take(self: &Rc<Self>, stream: TcpStream, role: Role) {
        let max = self.site.borrow().limits.connections_max;
        let (stream, open) = match self.connections.admit(stream, max) {
            Ok(admitted) => admitted,
            Err(refused) if role == Role::Tls => return drop(refused),
            Err(refused) => return send_busy(&refused),
        };
        match role {
            Role::Plain => &self.counters.accepted_plain,
            Role::Tls => &self.counters.accepted_tls,
            Role::Redirect { .. } => &self.counters.accepted_redirect,
        }
        .increment();
        // It only tunes: a connection without it works.
        let _ = stream.set_option(SocketOption::NoDelay(true));
        let _ = stream.set_option(SocketOption::UnsentMax(UNSENT_MIN));
        let (service, client) = (Rc::clone(self), client_of(stream.peer_addr().ip()));
        lane::spawn_for(client, async move {
            let info = ConnectionInfo { role, cohort: open.cohort(), place: open.slot() };
            serve_connection(&service, stream, info).await;
        })
        .detach();
    }
}

/// Sends the answer of a server at its limit. Never waits: the answer fits any socket buffer, and if it does not go,
/// closing says enough.
fn send_busy(stream: &TcpStream) {
    let mut rest = BUSY;
    while !rest.is_empty() {
        match stream.try_send(&[io::IoSlice::new(rest)], false) {
            Ok(Some(sent)) => rest = &rest[sent..],
            Ok(None) | Err(_) => return,
        }
    }
}

const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: linerate\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 62\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
    503 The server has its maximum of connections: try again soon\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_answer_has_the_length_it_says() {
        let text = std::str::from_utf8(BUSY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
