//! Call: a byte stream each way on one channel of a connection.
//!
//! This file holds the call's state and its write and read halves as the application sees them; what packets
//! do to it is in `call/input.rs`, what it sends in `call/output.rs`.

mod ack_policy;
mod burst;
mod held;
mod input;
mod output;
mod write_batch;

use std::time::{Duration, Instant};

use crate::congestion::Pacer;
use crate::connection::Core;
use crate::event::{CallHandle, Event, Side};
use crate::header::{HEADER_LEN, Header, PacketType, SERVICE_UPGRADE, flags};
use crate::packet::{BufferAccount, Packet};
use crate::receive::ReceiveWindow;
use crate::recovery::Recovery;
use crate::security::PacketContext;
use crate::send_limit::SendLimit;
use crate::shared::Shared;
use crate::source::may_take_more;
use crate::window::SendWindow;

pub use held::ReadBatch;
pub use write_batch::WriteBatch;

pub(crate) use ack_policy::AckPolicy;
pub(crate) use input::DataOutcome;
pub(crate) use output::TimerOutcome;

/// State of a server call before the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The call waits for the client's address or identity to be proved.
    Held,
    /// The application has the call's handle.
    Delivered,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) handle: CallHandle,
    pub(crate) side: Side,
    pub(crate) delivery: Delivery,
    pub(crate) tx: SendWindow,
    pub(crate) recovery: Recovery,
    /// First packet beyond the window of the peer.
    pub(crate) edge: u32,
    /// Packet that the application is filling.
    filling: Option<Filling>,
    /// Set once the application has written its last byte.
    pub(crate) finished_writing: bool,
    /// Set while rooms are lent to the application.
    rooms_lent: bool,
    write_refused: bool,
    pub(crate) rx: ReceiveWindow,
    pub(crate) acks: AckPolicy,
    readable_told: bool,
    /// Set if the application found no bytes to read and waits.
    reader_waits: bool,
    /// Header serial of the latest ACK applied.
    newest_ack: Option<u32>,
    /// Number of DATA packets sent since one asked for an ACK.
    since_request: u32,
    /// Set if the congestion window, not the application, ended the last burst.
    pub(crate) window_limited: bool,
    pacer: Pacer,
    /// Time until which the pacer holds back something to send.
    paced_until: Option<Instant>,
    bursts: burst::Bursts,
    /// Packets that a datagram of the DATA packet taken last may have, until that is asked.
    pub(crate) parts_max: u8,
    /// Set once the client has shown that it knows of the call: an ACK of it named a serial after
    /// `serial_floor`.
    pub(crate) confirmed: bool,
    pub(crate) serial_floor: u32,
    pub(crate) ping_due: bool,
    pub(crate) pinged: Option<(u32, Instant)>,
    pub(crate) started_at: Instant,
    pub(crate) heard_at: Instant,
    pub(crate) progress_at: Instant,
    /// Packets freed by hard ACKs since the last progress.
    freed: u32,
    pub(crate) last_ping_at: Instant,
    /// Set if a retransmission timeout asks for one packet, whatever the congestion window says.
    timeout_resend: bool,
    /// Serials of the latest resends, to recognise in DUPLICATE ACKs.
    resent: [u32; RESENT_REMEMBERED],
    resent_at: usize,
}

#[derive(Debug)]
struct Filling {
    packet: Packet,
    used: usize,
    /// Data bytes that the packet takes.
    capacity: usize,
}

/// Reason why a call takes no bytes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The call has as much queued as allowed; [`Event::Writable`] follows.
    #[error("no room to write now")]
    Blocked,
    /// The writing half was finished.
    #[error("the call's writing half is finished")]
    Finished,
    /// Rooms of the call are lent out: writes behind them wait until they are back.
    #[error("payload rooms of the call are lent out")]
    Lent,
    /// The security class refused a packet, and the call is aborted with this code.
    #[error("security class refused a packet with code {0}")]
    Security(i32),
}

impl Call {
    pub(crate) fn new(
        handle: CallHandle,
        side: Side,
        window: u32,
        core: &Core,
        shared: &Shared,
        now: Instant,
    ) -> Self {
        let peer = &shared.peers[core.peer];
        let large = peer.takes_large_windows();
        let offered = shared.first_window(window);
        let window = if large { offered } else { offered.min(CLASSIC_WINDOW_MAX) };
        let edge = 1 + if peer.extended { peer.window } else { peer.window.min(INITIAL_SEND_WINDOW) };
        let delivery = if side == Side::Client { Delivery::Delivered } else { Delivery::Held };
        Self {
            handle,
            side,
            delivery,
            tx: SendWindow::new(),
            recovery: Recovery::new(side == Side::Server, peer.reordering(now)),
            edge,
            filling: None,
            finished_writing: false,
            rooms_lent: false,
            write_refused: false,
            rx: ReceiveWindow::new(window),
            acks: AckPolicy::new(large),
            readable_told: false,
            reader_waits: false,
            newest_ack: None,
            since_request: 0,
            window_limited: false,
            pacer: Pacer::new(),
            paced_until: None,
            bursts: burst::Bursts::default(),
            parts_max: 1,
            confirmed: side == Side::Client,
            serial_floor: core.serial,
            ping_due: false,
            pinged: None,
            started_at: now,
            heard_at: now,
            progress_at: now,
            freed: 0,
            last_ping_at: now,
            timeout_resend: false,
            resent: [0; RESENT_REMEMBERED],
            resent_at: 0,
        }
    }

    /// Reserves room in the packet being filled, at least one byte.
    pub(crate) fn reserve<'s>(
        &mut self,
        core: &mut Core,
        shared: &'s mut Shared,
        limit: SendLimit,
    ) -> Result<&'s mut [u8], WriteError> {
        self.refuse_if_finished()?;
        if self.filling.as_ref().is_some_and(|filling| filling.used == filling.capacity) {
            self.queue_filling(core, shared, false)?;
        }
        if self.filling.is_none() {
            self.filling = Some(self.start_packet(core, shared, limit.held)?);
        }
        let Some(filling) = &self.filling else { return Err(WriteError::Blocked) };
        let room = core.security.header_room();
        let range = room + filling.used..room + filling.capacity;
        Ok(&mut shared.pool.payload_room(&filling.packet)[range])
    }

    /// Notes that `count` bytes of the reserved room are filled.
    pub(crate) fn commit(&mut self, count: usize) {
        if let Some(filling) = &mut self.filling {
            assert!(count <= filling.capacity - filling.used, "commit at most what was reserved");
            filling.used += count;
        }
    }

    /// Queues the packet being filled, unless it is empty.
    pub(crate) fn flush(&mut self, core: &mut Core, shared: &mut Shared) -> Result<(), WriteError> {
        self.refuse_if_finished()?;
        if self.filling.as_ref().is_some_and(|filling| filling.used > 0) {
            self.queue_filling(core, shared, false)?;
        }
        Ok(())
    }

    /// Ends the writing half: everything written so far goes out, the last packet marked as such.
    pub(crate) fn finish(&mut self, core: &mut Core, shared: &mut Shared) -> Result<(), WriteError> {
        self.refuse_if_finished()?;
        if self.filling.is_none() {
            let account = core.account();
            let packet = shared.pool.alloc_for(account).ok_or_else(|| self.refuse_write(shared))?;
            self.filling = Some(Filling { packet, used: 0, capacity: 0 });
        }
        self.queue_filling(core, shared, true)?;
        self.finished_writing = true;
        self.discard_unwanted_request(&mut shared.pool);
        Ok(())
    }

    /// Returns whether the reply has to wait for the end of the request. To a client the first packet of a
    /// reply acknowledges all of its request, so none leaves before that has come; and what cannot leave must
    /// not fill the pool.
    pub(crate) fn reply_must_wait(&self) -> bool {
        self.side == Side::Server && !self.rx.is_complete()
    }

    fn refuse_if_finished(&self) -> Result<(), WriteError> {
        if self.finished_writing {
            return Err(WriteError::Finished);
        }
        if self.rooms_lent { Err(WriteError::Lent) } else { Ok(()) }
    }

    fn refuse_write(&mut self, shared: &mut Shared) -> WriteError {
        if !std::mem::replace(&mut self.write_refused, true) {
            shared.waiting_for_packets.push_back(self.handle);
        }
        WriteError::Blocked
    }

    fn start_packet(
        &mut self,
        core: &mut Core,
        shared: &mut Shared,
        held_max: u32,
    ) -> Result<Filling, WriteError> {
        let limit = if self.reply_must_wait() { REPLY_AHEAD_MAX.min(held_max) } else { held_max };
        let crowded = self.tx.held() >= CROWDED_SHARE_MIN && shared.is_working_set_full(core.peer);
        let account = core.account();
        let over_share = account != BufferAccount::OWN
            && self.tx.held() >= SHARE_MIN
            && !may_take_more(
                shared.pool.held_by(account),
                shared.pool.free_count().saturating_sub(shared.reserved_from_writers),
                0,
            );
        shared.stats.over_share_writes += u64::from(over_share && !self.write_refused);
        if self.unacked() >= limit || self.tx.held() >= shared.config.send_window || crowded || over_share {
            // The ACKs of what it holds bring it back. All of it may have left before the refusal, unasked for.
            self.write_refused = true;
            let unasked = self.tx.unsent() == 0 && self.tx.outstanding() > 0 && !self.recovery.awaits_ack();
            if unasked && self.pinged.is_none() && !std::mem::replace(&mut self.ping_due, true) {
                shared.mark_ready(core);
            }
            return Err(WriteError::Blocked);
        }
        if shared.pool.free_count() <= shared.reserved_from_writers {
            return Err(self.refuse_write(shared));
        }
        let Some(packet) = shared.pool.alloc_for(account) else { return Err(self.refuse_write(shared)) };
        let size = shared.peers[core.peer].packet_size().min(HEADER_LEN + shared.pool.payload_max());
        let overhead = core.security.header_room() + core.security.trailer_room();
        Ok(Filling { packet, used: 0, capacity: size - HEADER_LEN - overhead })
    }

    /// Seals the packet being filled, writes its header and puts it on the send window.
    fn queue_filling(&mut self, core: &mut Core, shared: &mut Shared, last: bool) -> Result<(), WriteError> {
        // Apart from the rest: a load that spans what was just stored would wait for all stores before it, and those are
        // of a payload that may be in no cache.
        let Some(used) = self.filling.as_ref().map(|filling| filling.used) else { return Ok(()) };
        let Some(Filling { packet, .. }) = self.filling.take() else { return Ok(()) };
        let seq = self.tx.end();
        let cid = core.cid | u32::from(self.handle.channel);
        let from_client = self.side == Side::Client;
        let context = PacketContext { epoch: core.epoch, cid, call: self.handle.number, seq, from_client };
        let room = core.security.header_room() + used + core.security.trailer_room();
        let payload = &mut shared.pool.payload_room(&packet)[..room];
        let sealed = match core.security.seal(&context, payload, used) {
            Ok(sealed) => sealed,
            Err(error) => {
                shared.pool.free(packet);
                return Err(WriteError::Security(error.code));
            }
        };
        shared.pool.set_payload_len(&packet, sealed.len);
        let upgrade = from_client && seq == 1 && core.wants_upgrade;
        let header = Header {
            epoch: core.epoch,
            cid,
            call: self.handle.number,
            seq,
            serial: 0,
            kind: PacketType::Data,
            flags: core.side_flag() | if last { flags::LAST_PACKET } else { 0 },
            user_status: if upgrade { SERVICE_UPGRADE } else { 0 },
            security: core.security_index,
            checksum: sealed.checksum,
            service: core.service,
        };
        let buffer = shared.pool.buffer_mut(&packet);
        header.encode(buffer.first_chunk_mut().expect("a buffer holds a header"));
        self.tx.queue(packet, last);
        Ok(())
    }

    /// Returns whether the application was refused room to write and has not been told that there is some.
    pub(crate) fn awaits_room(&self) -> bool {
        self.write_refused
    }

    /// Notifies the application that it may write again, if it was refused and there is now a fair amount of
    /// room.
    pub(crate) fn notify_writable(&mut self, limit: SendLimit, shared: &mut Shared) {
        if self.reply_must_wait() || self.finished_writing {
            return;
        }
        let room = self.unacked() < limit.held && self.tx.held() < shared.config.send_window;
        if self.write_refused && self.tx.unsent() <= limit.ahead / 2 && room {
            self.write_refused = false;
            shared.events.push_back(Event::Writable(self.handle));
        }
    }

    /// Notifies the application once that there is something to read.
    pub(crate) fn notify_readable(&mut self, shared: &mut Shared) {
        if self.readable_told || self.delivery == Delivery::Held {
            return;
        }
        if self.rx.is_readable() || self.rx.is_complete() {
            self.readable_told = true;
            self.reader_waits = false;
            shared.events.push_back(Event::Readable(self.handle));
        }
    }

    /// Marks `count` bytes as read. Returns false if there were not that many.
    pub(crate) fn consume(&mut self, count: usize, now: Instant, core: &Core, shared: &mut Shared) -> bool {
        let missing = self.rx.consume(count, &mut shared.pool);
        if !self.rx.is_readable() {
            self.readable_told = false;
        }
        self.on_room(now, core, shared);
        missing == 0
    }

    /// Notes that the reader has used up packets: the window may widen, and the peer is told.
    fn on_room(&mut self, now: Instant, core: &Core, shared: &mut Shared) {
        if self.acks.on_receipt && !shared.is_pool_short() {
            self.rx.grow_window(shared.config.receive_window);
        }
        let peer = &shared.peers[core.peer];
        let modern = peer.modern && shared.config.extensions;
        self.acks.on_consumed(now, &self.rx, self.side, modern, &shared.config);
    }

    /// Notes that the reader found nothing, and is to be told when data has come.
    pub(crate) fn blocked_reading(&mut self) {
        self.readable_told = self.rx.is_complete();
        self.reader_waits = true;
    }

    /// Returns the packets queued or under way. Those that have arrived behind a gap are held as well, but not
    /// counted. On a path that loses some there is always a gap, and what follows must not wait until it is filled.
    fn unacked(&self) -> u32 {
        self.tx.held() - self.tx.soft_acked()
    }

    pub(crate) fn packets_held(&self) -> u32 {
        self.tx.held() + self.rx.held() + u32::from(self.filling.is_some())
    }

    /// Frees every packet the call holds. `peer` is where they went.
    pub(crate) fn clear(&mut self, peer: usize, shared: &mut Shared) {
        self.leave_room(peer, shared);
        let pool = &mut shared.pool;
        self.tx.clear(pool);
        self.rx.clear(pool);
        if let Some(filling) = self.filling.take() {
            pool.free(filling.packet);
        }
    }

    /// Returns whether a client call has nothing left to do.
    pub(crate) fn is_over(&self) -> bool {
        match self.side {
            Side::Client => self.rx.is_consumed(),
            Side::Server => self.finished_writing && self.tx.outstanding() == 0 && self.tx.unsent() == 0,
        }
    }
}

impl Shared {
    /// Returns how long packets may have waited for one another on this lane.
    pub(crate) fn own_queue(&self) -> Duration {
        if self.pool.held() < WORKING_SET_MIN as usize { Duration::ZERO } else { OWN_QUEUE_MAX }
    }

    /// Returns whether the lane has as much under way as a path to this peer can use.
    fn is_working_set_full(&self, peer: usize) -> bool {
        let held = self.pool.held() as u128;
        held >= WORKING_SET_MIN
            && held >= WORKING_SET_MIN + PACKETS_PER_US * self.peers[peer].rtt.min_rtt().as_micros()
    }
}

/// Largest window that is offered to peers not known to take larger ones: the soft-ACK table's size.
const CLASSIC_WINDOW_MAX: u32 = 255;
/// Packets sent on a new call before the peer has stated its window.
const INITIAL_SEND_WINDOW: u32 = 16;
/// Packets of a reply that may be written before the request is complete.
const REPLY_AHEAD_MAX: u32 = 4;
const RESENT_REMEMBERED: usize = 16;
/// Packets that a lane has under way before each call is reduced to its share, on a path without delay. More
/// would only stand in queues, and fall out of the processor's cache before their turn.
const WORKING_SET_MIN: u128 = 1024;
/// Longest time that a lane takes for all that is under way, once the working set is full.
const OWN_QUEUE_MAX: Duration = Duration::from_millis(20);
/// Packets of the working set for every microsecond of the path's smallest round trip: what the fastest lane
/// sends in that time.
const PACKETS_PER_US: u128 = 2;
/// Least packets that a call may hold when many other calls hold packets.
///
/// A thousand calls have as many thousands of packets under way, and with sixteen each they cost half as much
/// again for every byte.
const CROWDED_SHARE_MIN: u32 = 8;
/// Least packets that a call may hold, whatever its host has under way.
const SHARE_MIN: u32 = 16;
