//! Sockets of a lane.

pub mod tcp;
pub mod udp;

pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::backend::Fd;
use crate::context;

/// A descriptor that closes with its owner.
#[derive(Debug)]
struct Owned(Fd);

impl Drop for Owned {
    fn drop(&mut self) {
        context::close(self.0);
    }
}
