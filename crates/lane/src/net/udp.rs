//! UDP sockets: batches in, batches out.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::backend::operation as op;
use crate::backend::{
    Datagram, DatagramBatch, Descriptor, Fd, OpFuture, SocketKind, SocketOption, UdpOptions,
};
use crate::context;
use crate::socket::unreachable::Unreachable;

/// A bound UDP socket of the current lane.
#[derive(Debug)]
pub struct UdpSocket {
    fd: Descriptor,
}

impl UdpSocket {
    /// Binds a socket to `addr` with the options given.
    pub fn bind(addr: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        context::with(|lane| lane.backend().udp_bind(addr, options)).map(|fd| Self { fd })
    }

    /// Takes over a bound socket made elsewhere.
    pub fn adopt(socket: OwnedFd) -> io::Result<Self> {
        context::with(|lane| lane.backend().adopt(socket, SocketKind::Udp)).map(|fd| Self { fd })
    }

    /// Returns the socket's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        context::with(|lane| lane.backend().local_addr(self.fd.fd()))
    }

    /// Appends datagrams that have arrived, at least one and at most `max`, waiting for the first.
    pub async fn recv(&self, out: &mut Vec<Datagram>, max: usize) -> io::Result<()> {
        poll_fn(|cx| self.poll_recv(cx, out, max)).await
    }

    /// Polls for received datagrams, for hand-written futures ([`UdpSocket::recv`]).
    pub fn poll_recv(
        &self,
        cx: &mut std::task::Context<'_>,
        out: &mut Vec<Datagram>,
        max: usize,
    ) -> std::task::Poll<io::Result<()>> {
        context::with(|lane| lane.backend().poll_recv_datagrams(self.fd.fd(), cx, out, max))
    }

    /// Sends a batch in one call; returns `None` when the socket takes nothing now.
    pub fn try_send(&self, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>> {
        context::with(|lane| lane.backend().try_send_datagrams(self.fd.fd(), batch))
    }

    /// Marks every packet sent from now on (SO_MARK); 0 ends that. Needs CAP_NET_ADMIN.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        context::with(|lane| lane.backend().set_option(self.fd.fd(), SocketOption::Mark(mark)))
    }

    /// Asks the kernel for reports of datagrams that do not reach their destination; see
    /// [`UdpSocket::try_take_unreachable`].
    pub fn report_unreachable(&self) -> io::Result<()> {
        context::with(|lane| lane.backend().set_option(self.fd.fd(), SocketOption::ReportUnreachable))
    }

    /// Takes the next report of a datagram that did not arrive. A receive fails when there are some, and
    /// there may be some after a send.
    pub fn try_take_unreachable(&self) -> Option<Unreachable> {
        context::with(|lane| lane.backend().try_take_unreachable(self.fd.fd()))
    }

    pub(super) fn fd(&self) -> Fd {
        self.fd.fd()
    }

    /// Waits until the socket takes datagrams again.
    pub async fn writable(&self) -> io::Result<()> {
        OpFuture::submit(op::Ready { socket: self.fd.fd() }).await
    }
}
