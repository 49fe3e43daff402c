//! Sockets of a lane.

pub mod tcp;
pub mod udp;

pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
