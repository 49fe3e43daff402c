//! Fuzzes every parser: any bytes are taken without panic, and nothing is believed that is not there.

use rx::ack::{ACK_FIXED, Ack, RANGES_MAX};
use rx::header::{HEADER_LEN, Header, PacketType};
use rx::jumbo::{JUMBO_PACKETS_MAX, JUMBO_PAYLOAD, SubPackets};

#[test]
fn any_datagram_parses_or_is_refused() {
    bolero::check!().for_each(|datagram: &[u8]| {
        let Ok((header, payload)) = Header::parse(datagram) else { return };
        assert_eq!(payload.len(), datagram.len() - HEADER_LEN);
        let mut again = [0; HEADER_LEN];
        header.encode(&mut again);
        // The reserved types 9 to 12 are one to us.
        if header.kind != PacketType::Params {
            assert_eq!(again, datagram[..HEADER_LEN], "decoding and encoding are inverse");
        }
        check_ack(payload);
        check_jumbo(header, payload);
    });
}

fn check_ack(payload: &[u8]) {
    let Ok(ack) = Ack::parse(payload) else { return };
    assert_eq!(ack.table.len(), usize::from(payload[17]));
    assert!(ack.table.len() <= payload.len() - ACK_FIXED);
    assert!(ack.soft_acked() <= ack.table.len());
    assert!(ack.ranges().count() <= RANGES_MAX);
    assert!(ack.ranges().count() * 8 <= payload.len());
}

fn check_jumbo(header: Header, payload: &[u8]) {
    let mut total = 0;
    let mut count = 0;
    for part in SubPackets::new(header, payload) {
        count += 1;
        let Ok((part, bytes)) = part else { continue };
        total += bytes.len();
        assert_eq!(part.seq, header.seq.wrapping_add(count - 1));
        assert_eq!(
            (part.cid, part.call, part.from_client()),
            (header.cid, header.call, header.from_client())
        );
        assert!(count == 1 || bytes.len() <= JUMBO_PAYLOAD || total <= payload.len());
    }
    assert!(total <= payload.len());
    assert!(count as usize <= JUMBO_PACKETS_MAX);
}
