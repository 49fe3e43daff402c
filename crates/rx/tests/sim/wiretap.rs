//! A witness on the wire: tells needed retransmissions from needless ones without asking the sender.

use std::collections::HashMap;
use std::ops::Sub;

use rx::header::{Header, PacketType};

/// Watches every datagram sent and knows which of them the network let through.
#[derive(Debug, Default)]
pub(crate) struct Wiretap {
    packets: HashMap<Key, bool>,
    pub(crate) counts: Counts,
}

/// DATA packets seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) data_sent: u64,
    /// Sent before.
    pub(crate) resent: u64,
    /// Of those, the ones of which an earlier copy arrived, or was on its way.
    pub(crate) spurious: u64,
    /// Datagrams of other types.
    pub(crate) control_sent: u64,
}

/// One DATA packet of one direction of one call.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    epoch: u32,
    cid: u32,
    call: u32,
    seq: u32,
    from_client: bool,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            data_sent: self.data_sent - earlier.data_sent,
            resent: self.resent - earlier.resent,
            spurious: self.spurious - earlier.spurious,
            control_sent: self.control_sent - earlier.control_sent,
        }
    }
}

impl Wiretap {
    /// A datagram has been sent; `arrives` tells whether the network will deliver it.
    pub(crate) fn observe(&mut self, datagram: &[u8], arrives: bool) {
        let (header, _) = Header::parse(datagram).expect("a node sent something that is not an Rx packet");
        if header.kind != PacketType::Data {
            self.counts.control_sent += 1;
            return;
        }
        let from_client = header.from_client();
        let Header { epoch, cid, call, seq, .. } = header;
        self.counts.data_sent += 1;
        let key = Key { epoch, cid, call, seq, from_client };
        match self.packets.get_mut(&key) {
            None => {
                self.packets.insert(key, arrives);
            }
            Some(earlier_arrives) => {
                self.counts.resent += 1;
                self.counts.spurious += u64::from(*earlier_arrives);
                *earlier_arrives |= arrives;
            }
        }
    }
}
