//! Sockets of a lane.

mod receive;
pub mod tcp;
pub mod udp;

pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
