//! Witness on the wire, which tells needed retransmissions from needless ones without asking the sender.

use std::collections::HashMap;
use std::ops::Sub;

use rx::header::{HEADER_LEN, Header, PacketType, flags};
use rx::jumbo::{JUMBO_PAYLOAD, SubPackets};

/// Observer of every datagram sent, which knows the datagrams that the network let through.
#[derive(Debug, Default)]
pub(crate) struct Wiretap {
    packets: HashMap<Key, bool>,
    pub(crate) counts: Counts,
}

/// Counts of DATA packets, and of other datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) data_sent: u64,
    /// DATA packets that were sent before.
    pub(crate) resent: u64,
    /// DATA packets sent before of which an earlier copy arrived, or was on its way.
    pub(crate) spurious: u64,
    /// Datagrams of other types.
    pub(crate) control_sent: u64,
}

/// DATA packet of one direction of a call.
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
    /// Notes a datagram sent; `arrives` tells whether the network will deliver it. The parts of a jumbogram
    /// share its fate and count one by one.
    pub(crate) fn observe(&mut self, datagram: &[u8], arrives: bool) {
        let (header, payload) =
            Header::parse(datagram).expect("a node sent something that is not an Rx packet");
        if header.kind != PacketType::Data {
            self.counts.control_sent += 1;
            return;
        }
        for part in SubPackets::new(header, payload) {
            let (part, _) = part.expect("a node sent a jumbogram that lies about its parts");
            self.observe_data(&part, arrives);
        }
    }

    fn observe_data(&mut self, header: &Header, arrives: bool) {
        let from_client = header.from_client();
        let Header { epoch, cid, call, seq, .. } = *header;
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

/// Returns a DATA datagram of packets from `first` on, as a jumbogram if there are several.
fn data_datagram(first: u32, packets: u32) -> Vec<u8> {
    let header = Header {
        epoch: 1,
        cid: 4,
        call: 1,
        seq: first,
        serial: first,
        kind: PacketType::Data,
        flags: if packets > 1 { flags::JUMBO } else { 0 },
        user_status: 0,
        security: 0,
        checksum: 0,
        service: 7,
    };
    let mut datagram = vec![0; HEADER_LEN];
    header.encode(datagram.first_chunk_mut().expect("room for a header"));
    for left in (0..packets).rev() {
        datagram.extend_from_slice(&[0; JUMBO_PAYLOAD]);
        if left > 0 {
            datagram.extend_from_slice(&[if left > 1 { flags::JUMBO } else { 0 }, 0, 0, 0]);
        }
    }
    datagram
}

#[test]
fn parts_of_a_jumbogram_are_witnessed_one_by_one() {
    let mut wiretap = Wiretap::default();
    wiretap.observe(&data_datagram(1, 3), false);
    wiretap.observe(&data_datagram(4, 2), true);
    assert_eq!(wiretap.counts, Counts { data_sent: 5, ..Counts::default() });
    wiretap.observe(&data_datagram(2, 1), true);
    assert_eq!((wiretap.counts.resent, wiretap.counts.spurious), (1, 0), "the jumbogram with it was lost");
    wiretap.observe(&data_datagram(3, 3), true);
    assert_eq!(wiretap.counts, Counts { data_sent: 9, resent: 4, spurious: 2, control_sent: 0 });
}
