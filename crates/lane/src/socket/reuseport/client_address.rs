//! Steering of a client's Rx packets to a lane: the same for all from one address and port.
//!
//! All connections of a cache manager come from one port, and NICs and GRO join their packets into common buffers. A
//! buffer goes to one socket whole. Were connections steered by their own ids, the packets behind the first would belong
//! to other lanes, be handed over, and be overtaken by those that came to these lanes directly: needless resends, and a
//! copy each. So the unit is the client's socket, in which packets have an order. A server has many of them; one alone
//! is served by one lane.
//!
//! ```text
//! selector = (source address XOR source port) * 0x9e3779b1 >> 15      IPv6: the XOR of the address's four words
//! lane     = selector mod lanes                                       lanes: all lanes of the server
//! in silo  = lane, if that is one of the silo, else first + (selector / lanes) mod size
//! ```
//!
//! With one silo that is all. With several, a client's packets go to the `in silo` lane of the silo that serves their
//! NIC. A client that moves, or comes by another NIC, reaches another lane, so drivers must remember which lane took a
//! connection up first.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Returns the number from which a client's lane is computed.
pub fn client_selector(client: SocketAddr) -> u32 {
    let address = match client.ip().to_canonical() {
        IpAddr::V4(ip) => u32::from(ip),
        IpAddr::V6(ip) => (0..4).fold(0, |folded, word| folded ^ (u128::from(ip) >> (32 * word)) as u32),
    };
    (address ^ u32::from(client.port())).wrapping_mul(SELECTOR_FACTOR) >> SELECTOR_SHIFT
}

/// Returns the lane of a silo that a client's packets through the silo's NICs are steered to. `silo` are the
/// silo's lanes, at least one, among all `lanes` of the server.
pub fn silo_lane(client: SocketAddr, silo: &Range<usize>, lanes: usize) -> usize {
    let selector = client_selector(client) as usize;
    let lane = selector % lanes;
    if silo.contains(&lane) {
        return lane;
    }
    // The quotient is independent of the residue that named the lane, so all lanes here get an equal share.
    silo.start + selector / lanes % silo.len()
}

/// Multiplier 2^32 / golden ratio, which spreads neighbouring addresses and ports evenly over the upper bits.
pub(super) const SELECTOR_FACTOR: u32 = 0x9e37_79b1;
/// Shift that leaves 17 bits: the upper ones, and enough of them for lanes and quotient.
pub(super) const SELECTOR_SHIFT: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_clients_are_spread_evenly() {
        for lanes in [2, 3, 8, 64] {
            let mut ports = vec![0u32; lanes];
            let mut hosts = vec![0u32; lanes];
            for n in 0..6400u16 {
                ports[silo_lane(([10, 0, 0, 1], 1024 + n).into(), &(0..lanes), lanes)] += 1;
                let [high, low] = n.to_be_bytes();
                hosts[silo_lane(([10, 0, high, low], 7001).into(), &(0..lanes), lanes)] += 1;
            }
            let fair = 6400 / lanes as u32;
            for shares in [ports, hosts] {
                assert!(shares.iter().all(|share| share.abs_diff(fair) <= fair / 4), "{lanes}: {shares:?}");
            }
        }
    }

    #[test]
    fn mapped_address_is_the_same_client() {
        let (plain, mapped) = ("192.0.2.7:7001", "[::ffff:192.0.2.7]:7001");
        assert_eq!(client_selector(plain.parse().unwrap()), client_selector(mapped.parse().unwrap()));
    }
}
