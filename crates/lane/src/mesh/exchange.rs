//! State that the members of a protocol share: a bell for each open port, and a box for each of its senders.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use crossbeam_queue::SegQueue;
use futures_util::task::AtomicWaker;

use super::calls::Ticket;
use super::members::{Member, place};
use super::port::Port;
use super::sender::Sender;
use crate::backend::{self, DelayedDoorbells};

/// Mail of one protocol among up to a fixed number of members: `M` is the type of messages, `R` that of
/// answers to calls. Clones are handles to the same one.
pub struct Exchange<M, R: Send + 'static = ()> {
    shared: Arc<ExchangeShared<M, R>>,
}

/// Bounds of the mail under way from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most messages that wait to be taken, calls among them.
    pub messages: usize,
    /// Most calls that wait for an answer, taken or not.
    pub calls: usize,
}

/// Error of opening a port that the member has open already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member {} has its port open already", .0.index())]
pub struct AlreadyOpen(pub Member);

pub(super) struct ExchangeShared<M, R: Send + 'static> {
    pub(super) limits: Limits,
    ends: Box<[OnceLock<MailEnd<M, R>>]>,
}

/// Receiving end of a member's mail. Once made, it stays: a member that opens its port anew gets the same
/// one.
pub(super) struct MailEnd<M, R: Send + 'static> {
    state: AtomicU8,
    pub(super) doorbell: Doorbell,
    /// Mailboxes by sender, each made at the sender's first message.
    boxes: Box<[LazyMailbox<M, R>]>,
}

/// Bell that wakes a member's task when there is something to take.
pub(super) struct Doorbell {
    /// True once the member's waker has been called since the member last looked.
    rung: AtomicBool,
    /// True once a member rang without a message.
    called: AtomicBool,
    /// Bits of the members that sent since this member last looked.
    from: Box<[AtomicU64]>,
    waker: AtomicWaker,
}

type LazyMailbox<M, R> = OnceLock<Box<Mailbox<M, R>>>;

/// Box for the messages from one member to another.
pub(super) struct Mailbox<M, R: Send + 'static> {
    envelopes: SegQueue<Envelope<M, R>>,
    pub(super) counts: Arc<Counts>,
}

#[derive(Default)]
pub(super) struct Counts {
    /// Messages in the box, and those about to be put there.
    envelopes: AtomicUsize,
    /// Calls that have no answer yet.
    pub(super) calls: AtomicUsize,
}

/// A message, with the ticket that answers it if it is a call.
pub(super) struct Envelope<M, R: Send + 'static> {
    pub(super) message: M,
    pub(super) ticket: Option<Ticket<R>>,
}

/// Reason why a message was not put into its box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    Full,
    Gone,
}

impl<M: Send + 'static, R: Send + 'static> Exchange<M, R> {
    /// Makes an exchange for members 0 to `members - 1` that find each other without a [`Mesh`](super::Mesh).
    pub fn new(members: usize, limits: Limits) -> Self {
        let ends = (0..members).map(|_| OnceLock::new()).collect();
        Self { shared: Arc::new(ExchangeShared { limits, ends }) }
    }

    /// Returns the largest number of members.
    pub fn members(&self) -> usize {
        self.shared.ends.len()
    }

    /// Opens a member's port, which gets mail from now on. Mail sent before was refused.
    ///
    /// # Errors
    /// [`AlreadyOpen`].
    ///
    /// # Panics
    /// When there is no such member.
    pub fn open(&self, member: Member) -> Result<Port<M, R>, AlreadyOpen> {
        let members = self.members();
        let end = self.shared.ends[member.index()].get_or_init(|| MailEnd {
            state: AtomicU8::new(CLOSED),
            doorbell: Doorbell {
                rung: AtomicBool::new(false),
                called: AtomicBool::new(false),
                from: (0..members.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
                waker: AtomicWaker::new(),
            },
            boxes: (0..members).map(|_| OnceLock::new()).collect(),
        });
        if end.state.compare_exchange(CLOSED, OPEN, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Err(AlreadyOpen(member));
        }
        Ok(Port::new(Arc::clone(&self.shared), member))
    }

    /// Returns the sender of a member, with or without a port.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn sender(&self, member: Member) -> Sender<M, R> {
        assert!(member.index() < self.members(), "{member:?} is none of {} members", self.members());
        Sender::new(Arc::clone(&self.shared), member)
    }
}

impl<M, R: Send + 'static> ExchangeShared<M, R> {
    /// Returns the receiving end of a member's mail, if the member ever opened its port.
    pub(super) fn end(&self, member: Member) -> Option<&MailEnd<M, R>> {
        self.ends.get(member.index())?.get()
    }

    pub(super) fn is_open(&self, member: Member) -> bool {
        self.end(member).is_some_and(MailEnd::is_open)
    }

    pub(super) fn members(&self) -> usize {
        self.ends.len()
    }
}

impl<M, R: Send + 'static> MailEnd<M, R> {
    fn is_open(&self) -> bool {
        self.state.load(Ordering::SeqCst) == OPEN
    }

    /// Returns the box for the messages of `from`.
    pub(super) fn pair(&self, from: Member) -> &Mailbox<M, R> {
        self.boxes[from.index()].get_or_init(|| {
            let (envelopes, counts) = Default::default();
            Box::new(Mailbox { envelopes, counts })
        })
    }

    /// Puts a message into its box; the caller then rings the bell.
    pub(super) fn put(
        &self,
        from: Member,
        envelope: Envelope<M, R>,
        max: usize,
    ) -> Result<(), (NoRoom, Envelope<M, R>)> {
        let pair = self.pair(from);
        // Announced before the look at the state: closing waits for what is announced, or is seen here.
        let refused = match pair.counts.envelopes.fetch_add(1, Ordering::SeqCst) >= max {
            true => Some(NoRoom::Full),
            false => (!self.is_open()).then_some(NoRoom::Gone),
        };
        if let Some(why) = refused {
            pair.counts.envelopes.fetch_sub(1, Ordering::SeqCst);
            let why = if self.is_open() { why } else { NoRoom::Gone };
            return Err((why, envelope));
        }
        pair.envelopes.push(envelope);
        Ok(())
    }

    /// Takes the oldest message of `from`.
    pub(super) fn take(&self, from: Member) -> Option<Envelope<M, R>> {
        let pair = self.boxes[from.index()].get()?;
        let envelope = pair.envelopes.pop()?;
        let before = pair.counts.envelopes.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a message that is taken was announced");
        Some(envelope)
    }

    /// Refuses messages sent from now on.
    pub(super) fn close(&self) {
        // One that was dropped stays closed.
        let _ = self.state.compare_exchange(OPEN, CLOSING, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn is_closing(&self) -> bool {
        !self.is_open()
    }

    /// Returns the senders of messages in the boxes, or about to be put there.
    pub(super) fn unread(&self) -> impl Iterator<Item = Member> {
        let has = |pair: &LazyMailbox<M, R>| {
            pair.get().is_some_and(|pair| pair.counts.envelopes.load(Ordering::SeqCst) > 0)
        };
        self.boxes.iter().enumerate().filter(move |(_, pair)| has(pair)).map(|(from, _)| Member::from(from))
    }

    /// Closes at once, drops what is unread and returns how much that was. Calls among it end unanswered.
    pub(super) fn abandon(&self) -> usize {
        self.close();
        let mut lost = 0;
        for pair in self.boxes.iter().filter_map(OnceLock::get) {
            loop {
                while let Some(envelope) = pair.envelopes.pop() {
                    pair.counts.envelopes.fetch_sub(1, Ordering::SeqCst);
                    lost += 1;
                    drop(envelope);
                }
                if pair.counts.envelopes.load(Ordering::SeqCst) == 0 {
                    break;
                }
                // Its sender is between its announcement and the next few instructions.
                std::thread::yield_now();
            }
        }
        drop(self.doorbell.waker.take());
        self.doorbell.called.store(false, Ordering::SeqCst);
        self.state.store(CLOSED, Ordering::SeqCst);
        lost
    }
}

impl Doorbell {
    /// Notes a message of `from`, and returns the waker to call, if there is one.
    pub(super) fn message_from(&self, from: Member) -> Option<Waker> {
        let (word, bit) = place(from.index());
        self.from[word].fetch_or(bit, Ordering::SeqCst);
        self.ring()
    }

    /// Notes a ring without a message, and returns the waker to call, if there is one.
    pub(super) fn call(&self) -> Option<Waker> {
        if self.called.swap(true, Ordering::SeqCst) { None } else { self.ring() }
    }

    /// Registers `waker` for the next ring. The caller looks once more before it waits.
    pub(super) fn listen(&self, waker: &Waker) {
        self.waker.register(waker);
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Takes the note that a member rang without a message.
    pub(super) fn take_called(&self) -> bool {
        self.called.load(Ordering::SeqCst) && self.called.swap(false, Ordering::SeqCst)
    }

    /// Takes the members that sent since the last call, word by word of their set.
    pub(super) fn take_senders(&self) -> impl Iterator<Item = (usize, u64)> {
        let taken = |word: &AtomicU64| match word.load(Ordering::SeqCst) {
            0 => 0,
            _ => word.swap(0, Ordering::SeqCst),
        };
        self.from.iter().map(taken).enumerate().filter(|&(_, bits)| bits != 0)
    }

    fn ring(&self) -> Option<Waker> {
        // The first since it listened wakes it; the others find it rung.
        if self.rung.swap(true, Ordering::SeqCst) { None } else { self.waker.take() }
    }
}

/// Runs `ring`, which returns a waker to call: now, or on a simulated lane a while later, as `later`
/// arranges.
pub(super) fn tell(ring: impl FnOnce() -> Option<Waker>, later: impl FnOnce(&dyn DelayedDoorbells)) {
    let is_slow = backend::try_with(|backend| backend.slow_bells().map(later)).flatten().is_some();
    if !is_slow && let Some(waker) = ring() {
        waker.wake();
    }
}

/// Rings as [`tell`] does, later by a closure that owns all values needed.
pub(super) fn tell_owned(ring: impl FnOnce() -> Option<Waker> + 'static) {
    let ring = std::cell::Cell::new(Some(ring));
    let own = || ring.take().expect("one of two takes it");
    tell(|| own()(), |doorbells| doorbells.later(Box::new(own())));
}

impl<M, R: Send + 'static> Clone for Exchange<M, R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M, R: Send + 'static> std::fmt::Debug for Exchange<M, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("members", &self.shared.ends.len()).finish_non_exhaustive()
    }
}

//@ limit: mail from one lane to another
//@ section: Lanes
//@ unit: message, or call not answered
//@ all: lane: what each protocol says for each pair of lanes
//@ empty: the message comes back to its sender; others feel nothing, as each pair has room of its own
//@ counter: lane_mail_refused, lane_mail_lost
//@ attack: none, lanes write to each other, and each protocol bounds what a client causes
//@ reach: server
const OPEN: u8 = 0;
/// State of a box that takes nothing new, while earlier messages can still be read.
const CLOSING: u8 = 1;
/// State of a box that no port reads.
const CLOSED: u8 = 2;
