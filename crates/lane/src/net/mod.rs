//! Sockets of a lane.

mod receive;
mod send;
mod splice;
pub mod tcp;
pub mod udp;

pub use send::InKernel;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
