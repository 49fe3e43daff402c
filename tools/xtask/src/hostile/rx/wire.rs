//! Rx packets as attackers build them: well-formed, with whatever numbers and sender they like.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::bail;
use rx::ack::{self, Ack, AckFields, AckReason, Trailer};
use rx::header::{EPOCH_ANY_ADDRESS, HEADER_LEN, Header, PacketType, flags};
use rx::version::encode_version;
use rxperf::{Request, Work};
use socket2::{Domain, Protocol, Socket, Type};

use crate::hostile::server::RX;

/// A socket at one of the attackers' addresses.
pub(super) struct Line {
    socket: UdpSocket,
    buffer: Box<[u8; 1 << 16]>,
    /// Bytes of datagrams sent and received.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Line {
    pub(super) fn at(from: Ipv4Addr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_recv_buffer_size(4 << 20)?;
        socket.bind(&SocketAddrV4::new(from, 0).into())?;
        socket.connect(&RX.into())?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: socket.into(), buffer: Box::new([0; 1 << 16]), sent: 0, received: 0 })
    }

    pub(super) fn send(&mut self, packet: &[u8]) {
        // What the socket does not take is lost, as on any line.
        if self.socket.send(packet).is_ok() {
            self.sent += packet.len() as u64;
        }
    }

    /// Receives the next packet that has come.
    pub(super) fn receive(&mut self) -> Option<(Header, &[u8])> {
        loop {
            let len = self.socket.recv(&mut self.buffer[..]).ok()?;
            self.received += len as u64;
            if Header::parse(&self.buffer[..len]).is_ok() {
                return Header::parse(&self.buffer[..len]).ok();
            }
        }
    }
}

/// One connection's numbers. Clients that are stock set the bit that lets it move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) epoch: u32,
    pub(super) id: u32,
    pub(super) serial: u32,
}

impl Connection {
    /// Makes the nth connection of this bench.
    pub(super) fn new(n: u32) -> Self {
        // One epoch for all, as of one client.
        Self { epoch: EPOCH_ANY_ADDRESS | 0x0b5e_55ed, id: (n + 1) << 2, serial: 0 }
    }

    /// Makes a DATA packet.
    pub(super) fn data(&mut self, channel: u32, call: u32, seq: u32, more: u8, payload: &[u8]) -> Vec<u8> {
        self.packet(PacketType::Data, channel, call, seq, more, payload)
    }

    /// Makes the first packet of a call that is all of its request.
    pub(super) fn request(&mut self, channel: u32, call: u32, work: Work) -> Vec<u8> {
        let head = Request::new(work).encode().expect("requests within the limits");
        let payload = match work_bytes(&head) {
            0 => head,
            more => [head, vec![0; more]].concat(),
        };
        self.data(channel, call, 1, flags::LAST_PACKET | flags::REQUEST_ACK, &payload)
    }

    /// Makes an ACK of everything below `first`, of the next `table` packets softly, and of `ranges` by our extension.
    pub(super) fn ack(
        &mut self,
        (channel, call): (u32, u32),
        first: u32,
        (reason, prompt): (AckReason, u32),
        table: usize,
        ranges: &[(u32, u32)],
    ) -> Vec<u8> {
        let trailer = Trailer { max_mtu: 1444, if_mtu: 1444, window: WINDOW, jumbo_max: 1 };
        let fields = AckFields {
            first,
            previous: first,
            serial: prompt,
            reason,
            trailer,
            extended: !ranges.is_empty(),
        };
        let mut payload = [0; ack::ACK_PAYLOAD_MAX];
        let mut ranges = ranges.iter().copied();
        let fill = |entries: &mut [u8]| {
            entries[..table].fill(1);
            table
        };
        let len = ack::encode(&mut payload, &fields, fill, || ranges.next());
        self.packet(PacketType::Ack, channel, call, 0, 0, &payload[..len])
    }

    /// Returns what an honest client says to a question whether it is there; `None` to anything else.
    pub(super) fn answer(&mut self, header: &Header, payload: &[u8]) -> Option<Vec<u8>> {
        match header.kind {
            PacketType::Version if header.from_client() => {
                let mut packet =
                    self.packet(PacketType::Version, 0, header.call, 0, 0, &encode_version("bench"));
                packet[FLAGS_AT] &= !flags::CLIENT_INITIATED;
                packet[..8].copy_from_slice(&[header.epoch.to_be_bytes(), header.cid.to_be_bytes()].concat());
                Some(packet)
            }
            PacketType::Ack if Ack::parse(payload).is_ok_and(|ack| ack.reason == AckReason::Ping) => {
                let channel = header.cid & 3;
                Some(self.ack((channel, header.call), 1, (AckReason::PingResponse, header.serial), 0, &[]))
            }
            _ => None,
        }
    }

    /// Makes one call with a reply of one packet, patiently, as an honest client does.
    pub(super) fn call(&mut self, line: &mut Line, call: u32, patience: Duration) -> anyhow::Result<()> {
        let give_up = Instant::now() + patience;
        let mut resend_at = Instant::now();
        loop {
            if Instant::now() >= resend_at {
                let request = self.request(0, call, Work::Rpc { send: 4, receive: 100 });
                line.send(&request);
                resend_at = Instant::now() + RESEND;
            }
            while let Some((header, payload)) = line.receive() {
                if header.kind == PacketType::Abort {
                    bail!("aborted");
                }
                if let Some(answer) = self.answer(&header, payload) {
                    line.send(&answer);
                } else if header.kind == PacketType::Data && header.call == call && header.is_last() {
                    let ack =
                        self.ack((0, call), header.seq + 1, (AckReason::Requested, header.serial), 0, &[]);
                    line.send(&ack);
                    return Ok(());
                }
            }
            if Instant::now() > give_up {
                bail!("no reply within {patience:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn packet(
        &mut self,
        kind: PacketType,
        channel: u32,
        call: u32,
        seq: u32,
        more: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        self.serial = self.serial.wrapping_add(1);
        let header = Header {
            epoch: self.epoch,
            cid: self.id | channel,
            call,
            seq,
            serial: self.serial,
            kind,
            flags: flags::CLIENT_INITIATED | more,
            user_status: 0,
            security: 0,
            checksum: 0,
            service: rxperf::SERVICE,
        };
        let mut bytes = [0; HEADER_LEN];
        header.encode(&mut bytes);
        [&bytes, payload].concat()
    }
}

/// Sends datagrams in others' names.
pub(super) struct Spoofer {
    socket: Socket,
    /// Bytes of IP packets sent.
    pub(super) sent: u64,
}

impl Spoofer {
    pub(super) fn new() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, sent: 0 })
    }

    /// Sends to the server as if from `from`. The kernel fills in what is left 0 in the IP header (raw(7)).
    pub(super) fn send(&mut self, from: SocketAddrV4, payload: &[u8]) {
        let SocketAddr::V4(to) = RX else { unreachable!("the bench speaks IPv4") };
        let udp_len = u16::try_from(8 + payload.len()).expect("datagrams fit");
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, IPPROTO_UDP, 0, 0];
        packet.extend_from_slice(&from.ip().octets());
        packet.extend_from_slice(&to.ip().octets());
        for word in [from.port(), to.port(), udp_len, 0] {
            packet.extend_from_slice(&word.to_be_bytes());
        }
        packet.extend_from_slice(payload);
        if self.socket.send_to(&packet, &RX.into()).is_ok() {
            self.sent += packet.len() as u64;
        }
    }
}

/// Returns what of a request lies behind its head: for an RPC the bytes sent.
fn work_bytes(head: &[u8]) -> usize {
    const RPC: [u8; 4] = 3u32.to_be_bytes();
    match head.get(4..8) == Some(&RPC) {
        true => u32::from_be_bytes(head[16..20].try_into().expect("four bytes")) as usize,
        false => 0,
    }
}

const IPPROTO_RAW: i32 = 255;
const IPPROTO_UDP: u8 = 17;
const FLAGS_AT: usize = 21;
const RESEND: Duration = Duration::from_millis(250);
/// Window that ACKs announce: more packets than any server sends ahead.
const WINDOW: u32 = 12 * 1024;
