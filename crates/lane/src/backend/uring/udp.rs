//! Datagrams: coalesced receives taken apart, bursts sent as one.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use io_uring::cqueue;

use super::Uring;
use crate::backend::{Datagram, DatagramBatch, Fd, UdpOptions};

pub(super) fn bind(_addr: SocketAddr, _options: &UdpOptions) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Uring {
    pub(super) fn send_datagrams(
        &self,
        _socket: Fd,
        _batch: &DatagramBatch<'_>,
    ) -> io::Result<Option<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn parse_datagram(&self, _entry: &cqueue::Entry, _n: u32) -> Option<Datagram> {
        None
    }
}
