//! Socket features, each tried on a socket made for that.

use std::io;

use super::{Area, Finding, Verdict};
use crate::socket::reuseport::{Group, GroupConfig, Steering, Transport};
use crate::socket::{gro, gso, ktls};

pub(super) fn all() -> Vec<Finding> {
    vec![kernel_tls(), kernel_tls_keys(), udp_segmentation(), udp_joining(), listener_selection()]
}

fn kernel_tls() -> Finding {
    let advice = "modprobe tls, and the line `tls` in /etc/modules-load.d/linerate.conf, where the kernel has the \
                  module; until then records are made in user space and files are copied once more";
    feature("kernel TLS", ktls::is_available(), advice)
}

/// Checks whether clients may ask for new keys. Without the module there is nothing to ask.
fn kernel_tls_keys() -> Finding {
    let name = "kernel TLS key change";
    let wanted = "works (Linux 6.14)";
    let (found, verdict, advice) = match (ktls::is_available(), ktls::can_change_key()) {
        (Ok(true), Ok(true)) => return Finding::new(Area::Sockets, name, "works", wanted),
        (Ok(true), Ok(false)) => (
            "absent".to_owned(),
            Verdict::Good,
            "nothing to do: a connection whose client asks for a new key ends with close_notify and comes again;              Linux 6.14 changes the key instead",
        ),
        (Ok(true), Err(error)) => (
            format!("not asked: {error}"),
            Verdict::Warn,
            "`ip link set lo up`: the question needs a connection on loopback",
        ),
        (Ok(false) | Err(_), _) => {
            let found = "no kernel TLS";
            return Finding::new(Area::Sockets, name, found, wanted);
        }
    };
    Finding::new(Area::Sockets, name, found, wanted).unless(false, verdict, advice)
}

fn udp_segmentation() -> Finding {
    feature(
        "UDP segmentation (GSO)",
        gso::is_available(),
        "every Rx packet takes its own share of a sendmmsg",
    )
}

fn udp_joining() -> Finding {
    let enabled = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| gro::enable(&socket));
    let advice = "Rx packets are received one by one; a kernel from 5.0 on joins them";
    feature("UDP joining (GRO)", available(enabled), advice)
}

/// Checks whether classic BPF can be attached to a group of listeners.
fn listener_selection() -> Finding {
    let config = GroupConfig {
        address: ([127, 0, 0, 1], 0).into(),
        transport: Transport::Tcp { backlog: 1 },
        prepare: Box::new(|_| Ok(())),
    };
    let steering = Steering::single_silo(1).map_err(io::Error::other);
    let opened = steering.and_then(|steering| Group::open(config, steering).map_err(io::Error::other));
    let advice =
        "allow SO_ATTACH_REUSEPORT_CBPF; connections are spread without regard to NIC and node otherwise";
    feature("listener selection (BPF)", opened.map(|_| true), advice)
}

/// Turns the error of an option that the kernel does not know into false; other errors are returned.
fn available(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(error),
    }
}

fn feature(name: &str, available: io::Result<bool>, advice: &str) -> Finding {
    let found = match &available {
        Ok(true) => "works".to_owned(),
        Ok(false) => "absent".to_owned(),
        Err(error) => format!("refused: {error}"),
    };
    let holds = matches!(available, Ok(true));
    Finding::new(Area::Sockets, name, found, "works").unless(holds, Verdict::Warn, advice)
}
