//! Streams: bytes in a sender's buffer, on the wire and untaken at the receiver; windows, acknowledgements,
//! half-close, resets, and stalls while the way is cut.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use super::byte_queue::ByteQueue;
use super::link::{Links, time_for};
use super::{ConnId, HostId, NetEvent, RecordLayer, SocketId};
use crate::backend::sim::config::TcpConfig;
use crate::backend::sim::engine::{Engine, Event};
use crate::backend::sim::ops::OpKey;
use crate::socket::options::{KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_PROBES};

/// A TCP connection as a whole: both ends and both directions.
pub(in crate::backend::sim) struct Conn {
    pub(super) phase: Phase,
    /// Time when the server's consent reaches the client; no byte of the server's may come before.
    pub(super) opens_at: Duration,
    /// Ends of the connection, indexed by [`Side`].
    pub(super) ends: [End; 2],
    /// Flow of each side, indexed by the sending [`Side`].
    pub(super) flows: [Flow; 2],
    segment_max: usize,
}

/// Side of a stream: the client's or the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::sim) enum Side {
    Client = 0,
    Server = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Open,
    Failed(i32),
}

/// State of one end of a connection.
pub(super) struct End {
    pub(super) host: HostId,
    pub(super) addr: SocketAddr,
    pub(super) reader: Option<Waker>,
    /// Socket whose receive takes the bytes that arrive.
    pub(super) socket: Option<SocketId>,
    pub(super) waiting: Vec<OpKey>,
    /// Sends with memory that the kernel keeps until the peer has acknowledged their bytes.
    pub(super) unreleased: Vec<OpKey>,
    /// Error that the next operation returns, once.
    pub(super) error: Option<i32>,
    /// True once reset or timed out: nothing moves any more.
    pub(super) broken: bool,
    /// True once the owner has closed the socket.
    pub(super) detached: bool,
    pub(super) read_shut: bool,
    /// Kernel TLS, which makes records of what is sent.
    pub(super) records: Option<Box<dyn RecordLayer>>,
}

/// State of one direction of a connection.
#[derive(Default)]
pub(super) struct Flow {
    out: ByteQueue,
    fin_wanted: bool,
    fin_sent: bool,
    corked: bool,
    /// Position in the stream up to which bytes are sent; beside it those acknowledged, and those that the
    /// receiver allows.
    sent: u64,
    acked: u64,
    limit: u64,
    pub(super) send_buffer: usize,
    pub(super) unsent_max: Option<usize>,
    pub(super) pacing: Option<u64>,
    paced_until: Duration,

    wire: VecDeque<Segment>,
    last_arrival: Duration,
    delivering: bool,
    stalled_since: Option<Duration>,
    backoff: Duration,

    pub(super) inbox: VecDeque<Vec<u8>>,
    inbox_bytes: usize,
    consumed: u64,
    delivered: u64,
    /// Position up to which the sender was last allowed to send.
    offered: u64,
    pub(super) eof: bool,
}

struct Segment {
    arrival: Duration,
    bytes: Vec<u8>,
    fin: bool,
}

/// Parts of the world that a connection needs to act.
pub(super) struct Around<'a> {
    pub(super) id: ConnId,
    pub(super) links: &'a mut Links,
    pub(super) tcp: &'a TcpConfig,
    pub(super) engine: &'a mut Engine,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl Conn {
    pub(super) fn new(ends: [End; 2], segment_max: usize, tcp: &TcpConfig) -> Self {
        let flow = || Flow {
            send_buffer: tcp.send_buffer,
            limit: tcp.recv_buffer as u64,
            offered: tcp.recv_buffer as u64,
            ..Flow::default()
        };
        Self {
            phase: Phase::Connecting,
            opens_at: Duration::ZERO,
            ends,
            flows: [flow(), flow()],
            segment_max,
        }
    }

    /// Notes the server's consent, of which the client learns at `moment`.
    pub(super) fn consent(&mut self, moment: Duration) {
        self.opens_at = moment;
        self.flows[Side::Server as usize].last_arrival = moment;
    }

    /// Takes as much of `parts` into the send buffer as fits.
    pub(super) fn send(
        &mut self,
        side: Side,
        parts: &[io::IoSlice<'_>],
        more: bool,
        around: &mut Around<'_>,
    ) -> io::Result<Option<usize>> {
        self.check_sendable(side)?;
        let flow = &mut self.flows[side as usize];
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let room = flow.room().min(total);
        if room == 0 && total > 0 {
            return Ok(None);
        }
        let take = around.engine.cut_short(room, around.tcp.partial_send);
        let mut left = take;
        for part in parts {
            let n = part.len().min(left);
            match &mut self.ends[side as usize].records {
                None => flow.out.push(&part[..n]),
                // What records add goes beyond the buffer's bound, as it does in Linux.
                Some(records) => part[..n]
                    .chunks(RECORD_BYTES_MAX)
                    .for_each(|plain| flow.out.push(&records.seal(APPLICATION_DATA, plain))),
            }
            left -= n;
        }
        flow.corked = more;
        self.pump(side, around);
        if more {
            // Segments held back for bytes that never come leave after all.
            around.engine.after(CORK_MAX, Event::Net(NetEvent::Uncork { conn: around.id, side }));
        }
        Ok(Some(take))
    }

    /// Takes all of `bytes`, whatever the send buffer's bound.
    pub(super) fn send_whole(&mut self, side: Side, bytes: &[u8], around: &mut Around<'_>) -> io::Result<()> {
        self.check_sendable(side)?;
        let flow = &mut self.flows[side as usize];
        flow.out.push(bytes);
        flow.corked = false;
        self.pump(side, around);
        Ok(())
    }

    /// Returns the bytes of `side` that the peer's host has not acknowledged, those that a receiver's window
    /// keeps out included.
    pub(super) fn unacknowledged(&self, side: Side) -> u64 {
        let flow = &self.flows[side as usize];
        flow.out.len() as u64 + flow.sent - flow.acked
    }

    /// Returns whether a send would take bytes or tell an error.
    pub(super) fn is_writable(&self, side: Side) -> bool {
        let (end, flow) = (&self.ends[side as usize], &self.flows[side as usize]);
        let is_drained = flow.unsent_max.is_none_or(|max| 2 * flow.out.len() < max);
        end.broken || flow.fin_wanted || (is_drained && flow.buffer_room() * 3 >= flow.send_buffer)
    }

    /// Takes the next bytes, at most `most`, out of the socket's buffer.
    ///
    /// # Panics
    /// When there are none.
    pub(super) fn hand_over(&mut self, side: Side, most: usize, around: &mut Around<'_>) -> Vec<u8> {
        let flow = &mut self.flows[side.other() as usize];
        let mut chunk = flow.inbox.pop_front().expect("asked only when there are bytes");
        let n = around.engine.cut_short(chunk.len().min(most), around.tcp.split);
        if n < chunk.len() {
            let rest = chunk.split_off(n);
            flow.inbox.push_front(rest);
        }
        flow.inbox_bytes -= n;
        flow.consumed += n as u64;
        self.offer_window(side.other(), around);
        chunk
    }

    /// Returns whether the stream has ended for its reader, after all bytes before were taken; or the error
    /// that ended the stream.
    pub(super) fn ended(&mut self, side: Side) -> io::Result<bool> {
        let end = &mut self.ends[side as usize];
        // A stream that ended in good order stays so for its reader, whatever came later.
        if self.flows[side.other() as usize].eof || end.read_shut {
            return Ok(true);
        }
        if let Some(errno) = end.error.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(end.broken)
    }

    /// Ends the side's sending once all bytes sent before have left.
    pub(super) fn finish_sending(&mut self, side: Side, around: &mut Around<'_>) {
        self.flows[side as usize].fin_wanted = true;
        self.flows[side as usize].corked = false;
        self.pump(side, around);
    }

    /// Lets go of one end, as its owner has. Untaken bytes, or `reset`, break the connection; else what was
    /// sent still leaves.
    pub(super) fn detach(&mut self, side: Side, reset: bool, around: &mut Around<'_>) {
        let end = &mut self.ends[side as usize];
        end.detached = true;
        end.reader = None;
        around.engine.wake_ops(&mut end.waiting);
        let untaken = !self.flows[side.other() as usize].inbox.is_empty();
        if end.broken {
            return;
        }
        let gave_up = side == Side::Client && self.phase == Phase::Connecting;
        if reset || untaken || gave_up {
            self.reset_from(side, around);
        } else {
            self.finish_sending(side, around);
        }
    }

    /// Takes away the end of a host that loses power, without a packet to the other end.
    pub(super) fn vanish(&mut self, side: Side) {
        let end = &mut self.ends[side as usize];
        (end.broken, end.detached, end.reader) = (true, true, None);
        end.waiting.clear();
        self.flows[side as usize].drop_unsent();
    }

    /// Returns whether neither end is held and nothing is in flight.
    pub(super) fn is_over(&self) -> bool {
        let done = |end: &End, flow: &Flow| {
            end.detached && (end.broken || (flow.out.is_empty() && flow.wire.is_empty()))
        };
        done(&self.ends[0], &self.flows[0]) && done(&self.ends[1], &self.flows[1])
    }

    /// Sends what a cork held back.
    pub(super) fn uncork(&mut self, side: Side, around: &mut Around<'_>) {
        self.flows[side as usize].corked = false;
        self.pump(side, around);
    }

    /// Puts on the wire as much as the receiver's window lets through.
    pub(super) fn pump(&mut self, side: Side, around: &mut Around<'_>) {
        if self.ends[side as usize].broken {
            return;
        }
        let (from, to) = self.hosts(side);
        let flow = &mut self.flows[side as usize];
        let mut delay = around.links.stream_delay(from, to, around.engine);
        while !flow.out.is_empty() && flow.sent < flow.limit {
            let window = usize::try_from(flow.limit - flow.sent).unwrap_or(usize::MAX);
            let n = flow.out.len().min(window).min(self.segment_max);
            if flow.corked && flow.out.len() < self.segment_max {
                break;
            }
            let n = around.engine.cut_short(n, around.tcp.split);
            let bytes = flow.out.pop(n);
            let start = flow.pace(n, around.engine.now());
            let left = around.links.depart(from, to, n + HEADERS, start);
            flow.put_on_wire(Segment { arrival: left + delay, bytes, fin: false });
            // Most of a burst travels together.
            if around.engine.chance(around.tcp.split) {
                delay = around.links.stream_delay(from, to, around.engine);
            }
        }
        if flow.fin_wanted && !flow.fin_sent && flow.out.is_empty() {
            flow.fin_sent = true;
            let left = around.links.depart(from, to, HEADERS, flow.paced_until.max(around.engine.now()));
            flow.put_on_wire(Segment { arrival: left + delay, bytes: Vec::new(), fin: true });
        }
        flow.schedule_delivery(side, around);
    }

    /// Brings the segments that are due to the receiver, or stalls them where the way is cut.
    pub(super) fn deliver(&mut self, side: Side, around: &mut Around<'_>) {
        self.flows[side as usize].delivering = false;
        let (from, to) = self.hosts(side);
        if around.links.is_cut(from, to) || around.links.is_cut(to, from) {
            self.stall(side, around);
            return;
        }
        if !self.flows[side as usize].wire.is_empty() && around.engine.chance(around.tcp.reset) {
            self.break_end(side, libc::ECONNRESET, around);
            self.break_end(side.other(), libc::ECONNRESET, around);
            return;
        }
        let receiver = &mut self.ends[side.other() as usize];
        let flow = &mut self.flows[side as usize];
        (flow.stalled_since, flow.backoff) = (None, Duration::ZERO);
        let now = around.engine.now();
        let mut refused = false;
        while flow.wire.front().is_some_and(|segment| segment.arrival <= now) {
            let segment = flow.wire.pop_front().expect("looked at above");
            flow.delivered += segment.bytes.len() as u64;
            around.engine.note("segment", &[around.id, side as u64, segment.bytes.len() as u64]);
            flow.eof |= segment.fin;
            refused |= receiver.broken || (receiver.detached && !segment.bytes.is_empty());
            if receiver.read_shut {
                flow.consumed += segment.bytes.len() as u64;
            } else if !segment.bytes.is_empty() && !refused {
                flow.inbox_bytes += segment.bytes.len();
                flow.inbox.push_back(segment.bytes);
            }
        }
        if flow.eof {
            around.engine.wake(receiver.reader.take());
        }
        around.engine.wake_ops(&mut receiver.waiting);
        if refused {
            self.reset_from(side.other(), around);
            return;
        }
        self.acknowledge(side, around);
        self.flows[side as usize].schedule_delivery(side, around);
    }

    /// Tells the sender what has arrived and how far to send.
    pub(super) fn acknowledged(&mut self, side: Side, upto: u64, limit: u64, around: &mut Around<'_>) {
        let (from, to) = self.hosts(side);
        if around.links.is_cut(to, from) {
            if self.note_stall(side, around).is_some() {
                let again = Event::Net(NetEvent::Ack { conn: around.id, side, upto, limit });
                around.engine.after(ACK_AGAIN, again);
            }
            return;
        }
        let flow = &mut self.flows[side as usize];
        flow.acked = flow.acked.max(upto);
        flow.limit = flow.limit.max(limit);
        around.engine.wake_ops(&mut self.ends[side as usize].unreleased);
        self.pump(side, around);
        if self.is_writable(side) {
            around.engine.wake_ops(&mut self.ends[side as usize].waiting);
        }
    }

    /// Breaks `side`, which a reset reaches, with an error.
    pub(super) fn break_end(&mut self, side: Side, errno: i32, around: &mut Around<'_>) {
        let end = &mut self.ends[side as usize];
        if std::mem::replace(&mut end.broken, true) {
            return;
        }
        around.engine.note("broken", &[around.id, side as u64, errno.unsigned_abs().into()]);
        // A side that has seen the peer's end learns of its reset as of a pipe without a reader.
        let ended = self.flows[side.other() as usize].eof && errno == libc::ECONNRESET;
        end.error = Some(if ended { libc::EPIPE } else { errno });
        around.engine.wake(end.reader.take());
        around.engine.wake_ops(&mut end.waiting);
        around.engine.wake_ops(&mut end.unreleased);
        self.flows[side as usize].drop_unsent();
        self.flows[side.other() as usize].wire.clear();
        if self.phase == Phase::Connecting {
            self.phase = Phase::Failed(errno);
        }
    }

    /// Breaks `side` and resets the other end; the reset overtakes what is in flight and may be lost.
    fn reset_from(&mut self, side: Side, around: &mut Around<'_>) {
        let end = &mut self.ends[side as usize];
        end.broken = true;
        let flow = &mut self.flows[side as usize];
        flow.out.clear();
        let (from, to) = self.hosts(side);
        let delay = around.links.stream_delay(from, to, around.engine);
        let reset = NetEvent::Reset { conn: around.id, side: side.other(), errno: libc::ECONNRESET };
        around.engine.at(self.opens_at.max(around.engine.now() + delay), Event::Net(reset));
    }

    fn acknowledge(&mut self, side: Side, around: &mut Around<'_>) {
        let (from, to) = self.hosts(side);
        let flow = &mut self.flows[side as usize];
        flow.offered = flow.offered.max(flow.consumed + around.tcp.recv_buffer as u64);
        let ack = NetEvent::Ack { conn: around.id, side, upto: flow.delivered, limit: flow.offered };
        let delay = around.links.stream_delay(to, from, around.engine);
        around.engine.after(delay, Event::Net(ack));
    }

    /// Tells the sender of `side` that the receiver has made room, when there is enough to tell.
    fn offer_window(&mut self, side: Side, around: &mut Around<'_>) {
        let flow = &self.flows[side as usize];
        let window = around.tcp.recv_buffer as u64;
        let gained = (flow.consumed + window).saturating_sub(flow.offered);
        if gained * 2 >= window || gained >= 2 * self.segment_max as u64 {
            self.acknowledge(side, around);
        }
    }

    fn stall(&mut self, side: Side, around: &mut Around<'_>) {
        if let Some(backoff) = self.note_stall(side, around) {
            self.flows[side as usize].delivering = true;
            around.engine.after(backoff, Event::Net(NetEvent::Deliver { conn: around.id, side }));
        }
    }

    /// Returns the wait before another attempt, or `None` when the sender has given up.
    fn note_stall(&mut self, side: Side, around: &mut Around<'_>) -> Option<Duration> {
        let now = around.engine.now();
        let flow = &mut self.flows[side as usize];
        let since = *flow.stalled_since.get_or_insert(now);
        if now - since >= around.tcp.timeout {
            self.break_end(side, libc::ETIMEDOUT, around);
            return None;
        }
        flow.backoff = (flow.backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        Some(flow.backoff)
    }

    /// Asks from the server's end whether the client's host is there and knows the connection. It does not
    /// ask while something that it sent waits for an answer: that is sent again until it times out.
    pub(super) fn keep_alive(&mut self, unanswered: u32, around: &mut Around<'_>) {
        let server = &self.ends[Side::Server as usize];
        if server.broken || server.detached {
            return;
        }
        let (here, there) = self.hosts(Side::Server);
        let flow = &self.flows[Side::Server as usize];
        let waits = flow.acked < flow.sent || !flow.wire.is_empty();
        let is_cut = around.links.is_cut(here, there) || around.links.is_cut(there, here);
        let (after, unanswered) = match is_cut && !waits {
            true if unanswered == KEEP_ALIVE_PROBES => {
                return self.break_end(Side::Server, libc::ETIMEDOUT, around);
            }
            true => (KEEP_ALIVE_INTERVAL, unanswered + 1),
            // It answers with a reset.
            false if self.ends[Side::Client as usize].broken && !is_cut => {
                return self.break_end(Side::Server, libc::ECONNRESET, around);
            }
            false => (KEEP_ALIVE_IDLE, 0),
        };
        around.engine.after(after, Event::Net(NetEvent::KeepAlive { conn: around.id, unanswered }));
    }

    /// Returns the sender and receiver of what `side` sends.
    fn hosts(&self, side: Side) -> (HostId, HostId) {
        (self.ends[side as usize].host, self.ends[side.other() as usize].host)
    }

    fn check_sendable(&mut self, side: Side) -> io::Result<()> {
        let end = &mut self.ends[side as usize];
        if let Some(errno) = end.error.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if end.broken || self.flows[side as usize].fin_wanted {
            return Err(io::Error::from_raw_os_error(libc::EPIPE));
        }
        Ok(())
    }
}

impl End {
    pub(super) fn new(host: HostId, addr: SocketAddr) -> Self {
        Self {
            host,
            addr,
            reader: None,
            socket: None,
            waiting: Vec::new(),
            unreleased: Vec::new(),
            error: None,
            broken: false,
            detached: false,
            read_shut: false,
            records: None,
        }
    }
}

impl Flow {
    /// Returns the number of bytes taken from the sender.
    pub(super) fn taken(&self) -> u64 {
        self.sent + self.out.len() as u64
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    fn buffer_room(&self) -> usize {
        let in_flight = usize::try_from(self.sent - self.acked).expect("bounded by the receiver's window");
        self.send_buffer.saturating_sub(self.out.len() + in_flight)
    }

    /// Returns the number of bytes that may be taken from the sender now.
    fn room(&self) -> usize {
        let unsent = self.unsent_max.map_or(usize::MAX, |max| max.saturating_sub(self.out.len()));
        self.buffer_room().min(unsent)
    }

    /// Returns the time when a paced sender may send `n` more bytes.
    fn pace(&mut self, n: usize, now: Duration) -> Duration {
        let start = self.paced_until.max(now);
        if let Some(rate) = self.pacing {
            self.paced_until = start + time_for(n, rate);
        }
        start
    }

    fn put_on_wire(&mut self, mut segment: Segment) {
        segment.arrival = segment.arrival.max(self.last_arrival);
        self.last_arrival = segment.arrival;
        self.sent += segment.bytes.len() as u64;
        self.wire.push_back(segment);
    }

    fn schedule_delivery(&mut self, side: Side, around: &mut Around<'_>) {
        let Some(first) = self.wire.front() else { return };
        if !self.delivering {
            self.delivering = true;
            around.engine.at(first.arrival, Event::Net(NetEvent::Deliver { conn: around.id, side }));
        }
    }

    fn drop_unsent(&mut self) {
        self.out.clear();
        self.wire.clear();
    }
}

/// Most plaintext of a TLS record in bytes, and the content type for application data.
const RECORD_BYTES_MAX: usize = 16 << 10;
const APPLICATION_DATA: u8 = 23;
/// Bytes of Ethernet, IP and TCP headers of a segment, for links of limited width.
const HEADERS: usize = 66;
/// Longest time that MSG_MORE holds bytes back.
const CORK_MAX: Duration = Duration::from_millis(200);
/// Shortest and longest wait between attempts to get through a cut.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(8);
const ACK_AGAIN: Duration = Duration::from_millis(500);
