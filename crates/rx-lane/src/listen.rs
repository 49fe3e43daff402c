//! The sockets of a server with several lanes.

use std::net::SocketAddr;

use lane::backend::UdpOptions;
use lane::socket::reuseport::{Group, GroupConfig, GroupError, Steering, Transport};

/// Opens one socket for each lane of `steering` on one address; packets are steered to the lane that owns
/// their connection. Each lane adopts its descriptor and starts a driver on it.
///
/// # Errors
/// [`GroupError`].
pub fn open_group(
    address: SocketAddr,
    socket_options: &UdpOptions,
    steering: Steering,
) -> Result<Group, GroupError> {
    let wanted = socket_options.clone();
    let config = GroupConfig {
        address,
        transport: Transport::Rx,
        prepare: Box::new(move |socket| wanted.prepare(socket)),
    };
    Group::open(config, steering)
}
