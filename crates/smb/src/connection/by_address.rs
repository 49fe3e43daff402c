//! Bytes that connections move, by address of the server: by which of its interfaces, as clients with several
//! channels choose them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use lane::counters::{Counter, CounterBlock, CounterKind, Reading};

/// Traffic of one lane, by address of the server. The last entry is that of all further addresses.
#[derive(Debug)]
pub(crate) struct ByAddress([AddressTraffic; ADDRESSES_MAX + 1]);

/// The requests and bytes of the connections to one of the server's addresses.
#[derive(Debug, Default)]
pub(crate) struct AddressTraffic {
    pub(crate) requests: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
}

/// Addresses as labels, in the order in which clients came by them. They stay for as long as the process lives, so there are not
/// more than so many; the rest are one.
static ADDRESSES: Mutex<Vec<(IpAddr, &'static str)>> = Mutex::new(Vec::new());

impl ByAddress {
    /// Returns the place of an address.
    pub(crate) fn place(local: Option<SocketAddr>) -> usize {
        let Some(ip) = local.map(|local| local.ip().to_canonical()) else { return ADDRESSES_MAX };
        let mut addresses = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = addresses.iter().position(|(there, _)| *there == ip) {
            return place;
        }
        if addresses.len() < ADDRESSES_MAX {
            addresses.push((ip, ip.to_string().leak()));
            return addresses.len() - 1;
        }
        ADDRESSES_MAX
    }

    /// Returns what is counted there.
    pub(crate) fn at(&self, place: usize) -> &AddressTraffic {
        &self.0[place.min(ADDRESSES_MAX)]
    }

    fn has_others(&self) -> bool {
        self.at(ADDRESSES_MAX).requests.get() > 0
    }
}

impl Default for ByAddress {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AddressTraffic::default()))
    }
}

impl CounterBlock for ByAddress {
    fn visit(&self, visit: &mut dyn FnMut(Reading)) {
        let addresses = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let labels = addresses.iter().map(|(_, label)| *label).chain(self.has_others().then_some(OTHERS));
        let places = (0..addresses.len()).chain([ADDRESSES_MAX]);
        for (label, place) in labels.zip(places) {
            let moved = self.at(place);
            let readings = [
                (
                    "address_requests",
                    "Requests answered, by the server's address that they came by.",
                    &moved.requests,
                ),
                (
                    "address_bytes_in",
                    "Bytes received, by the server's address that they came by.",
                    &moved.bytes_in,
                ),
                ("address_bytes_out", "Bytes sent, by the server's address.", &moved.bytes_out),
            ];
            for (name, help, counter) in readings {
                let label = Some(("address", label));
                visit(Reading { name, help, kind: CounterKind::Count, label, value: counter.get() });
            }
        }
    }
}

/// Most addresses counted by themselves: as many interfaces as clients with 32 channels can choose among.
const ADDRESSES_MAX: usize = 32;
const OTHERS: &str = "others";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_place_and_those_beyond_have_one_together() {
        let of = |n: u16| Some(SocketAddr::from(([198, 18, (n >> 8) as u8, n as u8], 445)));
        let places: Vec<_> = (0..100).map(|n| ByAddress::place(of(n))).collect();
        assert_eq!((places[0], places[99]), (ByAddress::place(of(0)), ADDRESSES_MAX));
        let lane = ByAddress::default();
        lane.at(places[0]).bytes_out.add(7);
        lane.at(places[99]).requests.increment();
        let (mut labels, mut sent) = (0, Vec::new());
        lane.visit(&mut |reading| {
            labels += usize::from(reading.name == "address_requests");
            if reading.value == 7 {
                sent.push((reading.name, reading.label));
            }
        });
        assert_eq!(labels, ADDRESSES_MAX + 1, "of a hundred");
        assert_eq!(sent, [("address_bytes_out", Some(("address", "198.18.0.0")))]);
    }
}
