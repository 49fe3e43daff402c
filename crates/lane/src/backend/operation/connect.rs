//! Operation that connects a socket (connect(2)).

use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;
use socket2::SockAddr;

use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;

/// Connects `socket`, from [`crate::backend::Backend::tcp_socket`], to `peer`.
pub(crate) struct Connect {
    socket: Fd,
    peer: SocketAddr,
    /// Address in the form that the kernel reads.
    address: Box<SockAddr>,
}

impl Connect {
    pub(crate) fn new(socket: Fd, peer: SocketAddr) -> Self {
        Self { socket, peer, address: Box::new(peer.into()) }
    }
}

impl Operation for Connect {
    const NAME: &'static str = "connect";
    type Value = ();
    type Output = io::Result<()>;

    fn descriptor(&self) -> Fd {
        self.socket
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let (address, length) = (self.address.as_ptr().cast(), self.address.len());
        Start::Ring(opcode::Connect::new(RingFd(self.socket.0), address, length).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<()> {
        completion.result().map(drop)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<()>> {
        let at = step.socket()?;
        match at.net.connect(at.socket, self.peer, at.key, at.engine)? {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn finish(self, result: io::Result<()>) -> io::Result<()> {
        result
    }
}
