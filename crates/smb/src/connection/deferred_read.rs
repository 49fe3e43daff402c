//! Long replies to READ that are to be signed or sealed. Their data is read when the connection can send
//! them, not when it is asked for: a client that takes nothing costs the lane one reply, however many it has
//! asked for.
//!
//! What is read ahead of the stream grows as the client takes it, as a congestion window does: nothing at first, then twice what has
//! left, up to [`AHEAD_MAX`]; after a pause of [`SLOW`] nothing again. One reply may be under way in any case.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use lane::buffer::Buf;
use smb_proto::sealing::{ByParts, NoNonce};
use smb_proto::signing::{Signature, SigningAlgorithm, SigningKey};
use smb_wire::body::error::ErrorResponse;
use smb_wire::body::read::ReadResponseFixed;
use smb_wire::framing::PREFIX_LEN;
use smb_wire::header::{HEADER_LEN, SIGNATURE, flags};
use smb_wire::{Dialect, Header, Role, Status};
use vfs::OpenFile;
use zerocopy::IntoBytes;

use super::call::DATA_AT;
use super::replies::{FRONT, Replies, begin_sealing, front, seal};
use super::send_queue::{OutgoingFrame, Payload};
use super::{Connection, at_once};
use crate::audit::Trail;
use crate::cpu_scheduler::{CpuTurn, ROUND_COST};
use crate::memory::Pieces;
use crate::session::Channel;

/// A READ whose reply is sealed or signed, and whose data is read when the connection can send it.
pub(super) struct DeferredRead {
    pub(super) file: Rc<OpenFile>,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) header: Header,
    pub(super) signer: Option<Rc<Channel>>,
    pub(super) sealer: Option<Rc<Channel>>,
    /// Audit record, which gets the result; a READ that has none was cancelled.
    pub(super) trail: Option<Trail>,
}

impl DeferredRead {
    fn ended(&mut self, status: Status) {
        if let Some(trail) = self.trail.take() {
            trail.ended(status);
        }
    }
}

/// The deferred reads of a connection, and the bytes of them that are under way.
#[derive(Default)]
pub(super) struct DeferredReads {
    waiting: RefCell<VecDeque<DeferredRead>>,
    /// Bytes of data that are being read, or wait for the stream.
    under_way: Cell<usize>,
    allowed: Cell<usize>,
    is_starting: Cell<bool>,
}

impl DeferredReads {
    /// Replies whose data is not read yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Returns true when no deferred read waits or is under way.
    pub(super) fn are_done(&self) -> bool {
        self.under_way.get() == 0 && self.waiting() == 0
    }

    /// Drops all deferred reads: nothing leaves any more.
    pub(super) fn drop_all(&self) {
        drop(self.waiting.take());
    }

    /// Notes that the client has taken nothing for long.
    pub(super) fn is_slow(&self) {
        self.allowed.set(0);
    }

    fn next(&self) -> Option<DeferredRead> {
        let mut waiting = self.waiting.borrow_mut();
        let (len, under_way) = (waiting.front()?.len as usize, self.under_way.get());
        if under_way > 0 && under_way + len > self.allowed.get() {
            return None;
        }
        self.under_way.set(under_way + len);
        waiting.pop_front()
    }
}

impl Connection {
    /// Queues a READ whose data is read when its reply can be sent.
    pub(super) fn defer_read(self: &Rc<Self>, deferred_read: DeferredRead) {
        if !self.has_ended() {
            self.send_queue.deferred_reads.waiting.borrow_mut().push_back(deferred_read);
            self.start_deferred_reads();
        }
    }

    /// Counts the data of a reply that the stream has taken, and starts the next reads.
    pub(super) fn deferred_read_sent(self: &Rc<Self>, bytes: usize) {
        let deferred_reads = &self.send_queue.deferred_reads;
        deferred_reads.allowed.update(|allowed| (allowed + 2 * bytes).min(AHEAD_MAX));
        self.no_more_under_way(bytes);
    }

    fn no_more_under_way(self: &Rc<Self>, bytes: usize) {
        self.send_queue.deferred_reads.under_way.update(|under_way| under_way - bytes);
        self.start_deferred_reads();
    }

    /// Starts the deferred reads that may be under way now.
    fn start_deferred_reads(self: &Rc<Self>) {
        let deferred_reads = &self.send_queue.deferred_reads;
        // One that fails at once makes room for the next, which this loop finds.
        if deferred_reads.is_starting.replace(true) {
            return;
        }
        while let Some(deferred_read) = deferred_reads.next() {
            self.spawn(Rc::clone(self).serve_deferred_read(deferred_read));
        }
        deferred_reads.is_starting.set(false);
    }

    async fn serve_deferred_read(self: Rc<Self>, mut deferred_read: DeferredRead) {
        match self.put_together(&deferred_read).await {
            Ok(frame) => {
                deferred_read.ended(Status::SUCCESS);
                self.send(frame);
            }
            Err(ReadFailure::Failed(status)) => {
                deferred_read.ended(status);
                self.send_error(&deferred_read, status);
                self.no_more_under_way(deferred_read.len as usize);
                self.send_queue.wake();
            }
            Err(ReadFailure::Ended) => {}
            Err(ReadFailure::NoNonce) => self.end(),
        }
    }

    async fn put_together(
        self: &Rc<Self>,
        deferred_read: &DeferredRead,
    ) -> Result<OutgoingFrame, ReadFailure> {
        let size = DATA_AT + deferred_read.len as usize;
        let charge = self.account.acquire(Pieces::size(size)).await;
        let mut piece = self.lane.pieces.lend_blank(size, DATA_AT);
        put_read_headers(
            &mut piece,
            &deferred_read.header,
            deferred_read.signer.is_some(),
            deferred_read.len as usize,
        );
        let mut piece = match &deferred_read.sealer {
            Some(channel) => self.read_and_seal(deferred_read, channel, piece).await?,
            None => self.read_and_sign(deferred_read, piece).await?,
        };
        self.lane.counters.bytes_read.add((piece.len() - DATA_AT) as u64);
        let from = front(&mut piece, deferred_read.sealer.is_some());
        let payload = Payload::Piece { piece, from };
        Ok(OutgoingFrame {
            head: Vec::new(),
            from: 0,
            payload,
            charge: Some(charge),
            deferred_bytes: deferred_read.len as usize,
        })
    }

    /// Returns the next turn at a step of work for long replies.
    async fn turn(&self) -> CpuTurn<'_> {
        let turn = self.lane.cpu_scheduler.take(&self.account).await;
        self.lane.counters.long_steps.increment();
        turn
    }

    /// Appends a step of the data to `piece`: how much, and the turn for what is to be done with it. What the page cache lacks is
    /// waited for outside the turn.
    async fn read_step(
        &self,
        deferred_read: &DeferredRead,
        step_max: usize,
        piece: Buf,
    ) -> Result<(CpuTurn<'_>, usize, Buf), ReadFailure> {
        let turn = self.turn().await;
        if self.has_ended() {
            return Err(ReadFailure::Ended);
        }
        let done = piece.len() - DATA_AT;
        let step = (deferred_read.len as usize - done).min(step_max);
        let mut reading =
            pin!(deferred_read.file.lane_file().read_at(deferred_read.offset + done as u64, step, piece));
        let (turn, (read, piece)) = match at_once(&mut reading).await {
            Some(read) => (turn, read),
            None => {
                drop(turn);
                let read = reading.await;
                (self.turn().await, read)
            }
        };
        match read {
            Ok(read) => Ok((turn, read, piece)),
            Err(_) => Err(ReadFailure::Failed(Status::UNEXPECTED_IO_ERROR)),
        }
    }

    /// Reads and signs the data. Each step is signed while the processor's cache has it.
    async fn read_and_sign(&self, deferred_read: &DeferredRead, mut piece: Buf) -> Result<Buf, ReadFailure> {
        let signing = deferred_read.signer.as_ref().and_then(|channel| {
            let by_gmac = channel.session.agreed.signing == SigningAlgorithm::AesGmac;
            Some((channel.signing.as_ref()?, if by_gmac { GMAC_FASTER } else { 1 }))
        });
        let mut signature = signing.map(|(key, _)| begin(key, &piece));
        while piece.len() < DATA_AT + deferred_read.len as usize {
            let (turn, read, back) = self.read_step(deferred_read, SIGN_STEP, piece).await?;
            piece = back;
            if read == 0 {
                break;
            }
            let mut cost = read / READ_FASTER;
            if let (Some(signature), Some((_, faster))) = (&mut signature, signing) {
                signature.update(&piece[piece.len() - read..]);
                cost += read / faster;
            }
            turn.end(cost).await;
        }
        if self.became_shorter(deferred_read, &mut piece)?
            && let Some((key, faster)) = signing
        {
            // The header says another length.
            let mut again = begin(key, &piece);
            for part in piece[DATA_AT..].chunks(SIGN_STEP) {
                let turn = self.turn().await;
                again.update(part);
                turn.end(part.len() / faster).await;
            }
            signature = Some(again);
        }
        if let Some(signature) = signature {
            let signature = signature.finish();
            piece[FRONT..][SIGNATURE].copy_from_slice(&signature);
        }
        Ok(piece)
    }

    /// Reads and seals the data. AES-GCM takes a message whole: in the turn that has read it, if one step does.
    /// AES-CCM, whose MAC is one chain of blocks, goes by steps.
    async fn read_and_seal(
        &self,
        deferred_read: &DeferredRead,
        channel: &Channel,
        mut piece: Buf,
    ) -> Result<Buf, ReadFailure> {
        let whole = DATA_AT + deferred_read.len as usize;
        let last = loop {
            let (turn, read, back) = self.read_step(deferred_read, SEAL_STEP, piece).await?;
            piece = back;
            if whole <= DATA_AT + SEAL_STEP {
                break turn;
            }
            turn.end(read / READ_FASTER).await;
            if read == 0 || piece.len() == whole {
                break self.turn().await;
            }
        };
        self.became_shorter(deferred_read, &mut piece)?;
        match begin_sealing(channel, &piece).map_err(|NoNonce| ReadFailure::NoNonce)? {
            Some(sealing) => {
                last.end(piece.len().min(SEAL_STEP) / READ_FASTER).await;
                self.seal_by_turns(sealing, &mut piece).await?;
            }
            None => {
                seal(channel, &mut piece).map_err(|NoNonce| ReadFailure::NoNonce)?;
                last.end(piece.len() / READ_FASTER + piece.len() / SEAL_FASTER).await;
            }
        }
        Ok(piece)
    }

    async fn seal_by_turns(&self, mut sealing: ByParts<'_>, piece: &mut [u8]) -> Result<(), ReadFailure> {
        for part in piece[FRONT..].chunks_mut(CCM_STEP) {
            let turn = self.turn().await;
            if self.has_ended() {
                return Err(ReadFailure::Ended);
            }
            sealing.update(part);
            turn.end(part.len() / 2 * CCM_HALVES).await;
        }
        piece[PREFIX_LEN..FRONT].copy_from_slice(sealing.finish().as_bytes());
        Ok(())
    }

    /// Returns whether the file has become shorter since it was looked at: the header says so then.
    fn became_shorter(&self, deferred_read: &DeferredRead, piece: &mut Buf) -> Result<bool, ReadFailure> {
        match piece.len() - DATA_AT {
            0 => Err(ReadFailure::Failed(Status::END_OF_FILE)),
            read if read == deferred_read.len as usize => Ok(false),
            read => {
                put_read_headers(piece, &deferred_read.header, deferred_read.signer.is_some(), read);
                Ok(true)
            }
        }
    }

    /// Sends the error instead.
    fn send_error(self: &Rc<Self>, deferred_read: &DeferredRead, status: Status) {
        self.lane.counters.requests_failed.increment();
        let mut header = deferred_read.header;
        header.status.set(status.0);
        let dialect = self.negotiated.get().map_or(Dialect::Smb202, |negotiated| negotiated.dialect);
        let mut replies = Replies::new();
        replies.push(&header, deferred_read.signer.clone(), |body| ErrorResponse::write(body, dialect, &[]));
        if replies.leave(self, deferred_read.sealer.as_deref()).is_err() {
            self.end();
        }
    }
}

/// The reason why a deferred read has no reply.
enum ReadFailure {
    Failed(Status),
    Ended,
    NoNonce,
}

/// Writes the headers of a READ's answer before its data, which begins at [`DATA_AT`].
pub(super) fn put_read_headers(message: &mut [u8], header: &Header, is_signed: bool, data: usize) {
    let header = if is_signed { header.with(flags::SIGNED) } else { *header };
    message[FRONT..FRONT + HEADER_LEN].copy_from_slice(header.as_bytes());
    message[FRONT + HEADER_LEN..DATA_AT].copy_from_slice(ReadResponseFixed::new(data as u32).as_bytes());
}

/// Begins the signature of an answer by its headers.
fn begin<'a>(key: &'a SigningKey, message: &[u8]) -> Signature<'a> {
    let (head, fixed) = message[FRONT..DATA_AT].split_first_chunk().expect("a header of ours and more");
    let mut signature = key.begin(Role::Server, head).expect("a header of ours");
    signature.update(fixed);
    signature
}

/// Deferred reads of a connection that wait before no more requests are read.
pub(super) const DEFERRED_READS_MAX: usize = 256;
/// A client that takes nothing for so long has nothing read ahead.
pub(super) const SLOW: Duration = Duration::from_millis(100);
//@ limit: signed or sealed replies to READ read ahead
//@ section: SMB
//@ unit: byte
//@ connection: one, and twice what the client has taken of late, {:b} at most; {DEFERRED_READS_MAX} that are not read yet
//@ address: as the memory of long WRITEs
//@ empty: they are read, signed and sealed when it is their turn; others feel nothing
//@ counter: smb_long_steps
//@ attack: smb-unread
/// Bytes of data that are read ahead at most, beside a longer reply that is alone.
const AHEAD_MAX: usize = 8 << 20;
/// A step of reading and signing: little enough to be signed where it was read to.
const SIGN_STEP: usize = ROUND_COST / 2;
/// A step of reading what is to be sealed.
const SEAL_STEP: usize = 4 * ROUND_COST;
/// Factor by which a byte costs less to read, to seal (AES-GCM) and to sign by AES-GMAC than to sign by
/// AES-CMAC.
const READ_FASTER: usize = 4;
const SEAL_FASTER: usize = 4;
/// Cost of half a byte to seal by AES-CCM: its MAC is a CBC as AES-CMAC's, with keys of up to 256 bits, and
/// it encrypts besides.
const CCM_HALVES: usize = 3;
/// A step of sealing by AES-CCM.
const CCM_STEP: usize = ROUND_COST / 2;
const GMAC_FASTER: usize = 16;

const _: () = assert!(CCM_STEP / 2 * CCM_HALVES <= ROUND_COST && CCM_STEP.is_multiple_of(ByParts::UNIT));
