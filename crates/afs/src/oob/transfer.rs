//! One transfer: its streams, the grant that tells its client of them, and the word that it is over.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

use afs_wire::code::oob::{OOB_BUSY, OOB_PRIVATE, OOB_UNCLAIMED, OOB_UNSUITABLE};
use afs_wire::{OOB_VERSION, OobGrant, OobStream, OobWish};
use futures_util::future::{Either, select};
use lane::time::{now, timeout};
use oob::{Issued, Part, RANDOM_BYTES, split};
use oob_lane::Stop;
use rx::security::Principal;
use xdr::List;

use super::LaneOob;
use super::connection::{Awaited, ClaimedConnection, Owner};

/// The client that requests a transfer: its identity over Rx, and its address.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// The call's address.
    pub(crate) address: IpAddr,
    /// `None` for an anonymous one.
    pub(crate) principal: Option<Principal>,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The client receives.
    Fetch,
    /// The client sends.
    Store,
}

/// A transfer that was granted and has not begun.
pub(crate) struct GrantedTransfer {
    pub(super) oob: LaneOob,
    pub(super) number: u64,
    pub(super) streams: Vec<GrantedStream>,
    pub(super) stop: Stop,
    pub(super) slot: Rc<TransferSlot>,
    grant: OobGrant<'static>,
}

/// One stream: what it moves, and over what.
pub(super) struct GrantedStream {
    pub(super) part: Part,
    pub(super) source: StreamSource,
}

/// Source of a stream's connection.
pub(super) enum StreamSource {
    /// A connection that a call has named.
    Idle(ClaimedConnection),
    /// A connection that is to claim a token.
    Token(PendingToken),
}

/// A token that no connection has claimed yet; it is withdrawn when this is dropped.
pub(super) struct PendingToken {
    oob: LaneOob,
    issued: Issued,
    awaited: Rc<Awaited>,
}

/// A transfer's slot among those of the lane, given back when the last clone is dropped.
pub(super) struct TransferSlot {
    oob: LaneOob,
    address: IpAddr,
    receiving: usize,
}

impl LaneOob {
    /// Grants `len` bytes from `offset` on.
    ///
    /// # Errors
    /// The abort code that refuses it.
    pub(crate) fn begin(
        &self,
        requester: &Requester,
        wish: &OobWish,
        direction: Direction,
        (offset, len): (u64, u64),
    ) -> Result<GrantedTransfer, i32> {
        let (counters, options) = (&self.inner.counters, self.options());
        // No flag is understood: TLS is reserved.
        if wish.version != OOB_VERSION || wish.flags != 0 || wish.streams == 0 {
            counters.refused_unsuitable.increment();
            return Err(OOB_UNSUITABLE);
        }
        if requester.principal.as_ref().is_some_and(|principal| principal.level >= ENCRYPTED) {
            counters.refused_private.increment();
            return Err(OOB_PRIVATE);
        }
        let busy = || {
            counters.refused_busy.increment();
            OOB_BUSY
        };
        if !self.inner.transfer_slots.take(requester.address, options.transfers_max) {
            return Err(busy());
        }
        let wanted = (wish.streams as usize).min(options.streams_max);
        let mut slot = TransferSlot { oob: self.clone(), address: requester.address, receiving: 0 };
        counters.transfers.set(self.inner.transfer_slots.len() as u64);
        let streams_max = match direction {
            Direction::Fetch => wanted,
            Direction::Store if len == 0 => 1,
            Direction::Store => {
                let parts = split(offset, len, wanted, PART_MIN).count();
                slot.receiving = self.inner.transfer_slots.receive(parts, options.receiving_max);
                if slot.receiving == 0 {
                    return Err(busy());
                }
                slot.receiving
            }
        };
        let owner = Owner {
            address: requester.address.to_canonical(),
            principal: requester.principal.as_ref().map(|principal| principal.name.clone()),
        };
        let mut named = wish.connections.0.iter();
        let mut streams = Vec::new();
        for part in split(offset, len, streams_max, PART_MIN) {
            let source = match named.find_map(|number| self.named(*number, &owner)) {
                Some(connection) => {
                    counters.streams_idle.increment();
                    StreamSource::Idle(connection)
                }
                None => {
                    counters.streams_new.increment();
                    StreamSource::Token(self.issue(&owner).ok_or_else(busy)?)
                }
            };
            streams.push(GrantedStream { part, source });
        }
        let grant = OobGrant {
            version: OOB_VERSION,
            flags: 0,
            length: len,
            endpoints: self.endpoints(),
            streams: List(streams.iter().map(GrantedStream::to_wire).collect()),
        };
        let (stop, slot) = (Stop::default(), Rc::new(slot));
        Ok(GrantedTransfer { oob: self.clone(), number: wish.transfer, streams, stop, slot, grant })
    }

    fn issue(&self, owner: &Owner) -> Option<PendingToken> {
        let mut random = [0; RANDOM_BYTES + 8];
        // Without random numbers there are no tokens that cannot be guessed.
        lane::random::fill(&mut random).ok()?;
        let (secret, number) = random.split_at(RANDOM_BYTES);
        let awaited = Awaited::new(u64::from_be_bytes(number.try_into().ok()?), owner.clone());
        let until = now() + self.options().claim;
        let mut claims = self.inner.claims.borrow_mut();
        let issued = claims.issue(secret.try_into().ok()?, owner.address, until, Rc::clone(&awaited))?;
        drop(claims);
        self.count_unclaimed();
        Some(PendingToken { oob: self.clone(), issued, awaited })
    }
}

impl GrantedTransfer {
    /// Returns the grant that its client gets.
    pub(crate) fn grant(&self) -> &OobGrant<'static> {
        &self.grant
    }
}

impl GrantedStream {
    fn to_wire(&self) -> OobStream<'static> {
        let (connection, token) = match &self.source {
            StreamSource::Idle(connection) => (connection.number, Vec::new()),
            StreamSource::Token(waiting) => {
                (waiting.awaited.number, waiting.issued.token().as_bytes().to_vec())
            }
        };
        OobStream { connection, offset: self.part.offset, length: self.part.len, token: token.into() }
    }
}

impl StreamSource {
    /// Waits for the connection; the error is the code for the client.
    pub(super) async fn connection(self, stop: &Stop) -> Result<ClaimedConnection, i32> {
        let waiting = match self {
            Self::Idle(connection) => return Ok(connection),
            Self::Token(waiting) => waiting,
        };
        let claim = waiting.oob.options().claim;
        let arrived = std::pin::pin!(timeout(claim, waiting.awaited.arrived()));
        match select(arrived, std::pin::pin!(stop.stopped())).await {
            Either::Left((Ok(connection), _)) => Ok(connection),
            Either::Left((Err(_), _)) => {
                waiting.oob.inner.counters.tokens_unclaimed.increment();
                Err(OOB_UNCLAIMED)
            }
            Either::Right((code, _)) => Err(code),
        }
    }
}

impl Drop for PendingToken {
    fn drop(&mut self) {
        self.oob.inner.claims.borrow_mut().withdraw(self.issued);
        self.oob.count_unclaimed();
    }
}

impl Drop for TransferSlot {
    fn drop(&mut self) {
        let inner = &self.oob.inner;
        inner.transfer_slots.leave(self.address);
        inner.transfer_slots.end_receive(self.receiving);
        inner.counters.transfers.set(inner.transfer_slots.len() as u64);
    }
}

/// A transfer under way, in its call's hands. Dropped before its end it is over: the bytes stop.
pub(crate) struct RunningTransfer {
    state: Rc<TransferState>,
}

/// State that the streams of a transfer tell its call.
pub(super) struct TransferState {
    left: Cell<usize>,
    failed: Cell<Option<i32>>,
    waiting: RefCell<Option<Waker>>,
    stop: Stop,
}

impl RunningTransfer {
    pub(super) fn new(streams: usize, stop: &Stop) -> Self {
        let (failed, waiting) = Default::default();
        Self {
            state: Rc::new(TransferState { left: Cell::new(streams), failed, waiting, stop: stop.clone() }),
        }
    }

    pub(super) fn state(&self) -> Rc<TransferState> {
        Rc::clone(&self.state)
    }

    /// Waits until all of it has moved.
    ///
    /// # Errors
    /// The abort code of the first stream that failed.
    pub(crate) async fn ended(self) -> Result<(), i32> {
        poll_fn(|cx| match (self.state.failed.get(), self.state.left.get()) {
            (Some(code), _) => Poll::Ready(Err(code)),
            (None, 0) => Poll::Ready(Ok(())),
            _ => {
                *self.state.waiting.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        if self.state.left.get() > 0 {
            self.state.stop.stop(rx::abort::USER_ABORT);
        }
    }
}

impl TransferState {
    /// Ends a stream, and with it the others of its transfer, if it did not end well.
    pub(super) fn ended(&self, outcome: Result<(), i32>) {
        self.left.set(self.left.get() - 1);
        if let Err(code) = outcome {
            if self.failed.get().is_none() {
                self.failed.set(Some(code));
            }
            self.stop.stop(code);
        }
        if let Some(waker) = self.waiting.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// Protection level of packets that are encrypted.
const ENCRYPTED: u8 = 2;
/// Bytes of each part at least, where there are several.
const PART_MIN: u64 = 1 << 20;
