//! Sockets of a lane: TCP listeners and streams, and UDP sockets.

mod receive;
mod send;
mod splice;
pub mod tcp;
pub mod udp;

pub use send::InKernel;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
