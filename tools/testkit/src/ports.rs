//! Ports for servers that tests start.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns an address of this machine whose port is free at any address of either family.
///
/// It lies below the ports that the kernel gives to clients: one that the kernel chose would soon be some connection's
/// own, and the server that was to have it could not start. Calls in a process get different ones, and processes
/// begin at different places.
///
/// # Panics
/// When no port is free.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(97);
    for _ in 0..PORTS {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port =
            FIRST + u16::try_from(begin.wrapping_add(step) % u32::from(PORTS)).expect("less than PORTS");
        let is_taken = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        let four = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_err_and(is_taken);
        // Machines without IPv6 fail otherwise.
        let six = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_err_and(is_taken);
        if !four && !six {
            return (Ipv4Addr::LOCALHOST, port).into();
        }
    }
    panic!("no port from {FIRST} on is free");
}

/// First port: Linux gives clients the ports from 32,768 on (`ip_local_port_range`).
const FIRST: u16 = 12_000;
const PORTS: u16 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_differ_and_are_no_clients() {
        let first = free_address();
        let held = TcpListener::bind(first).unwrap();
        let others: Vec<SocketAddr> = (0..100).map(|_| free_address()).collect();
        assert!(!others.contains(&held.local_addr().unwrap()));
        assert!(others.iter().all(|other| (FIRST..FIRST + PORTS).contains(&other.port())));
    }
}
