//! Who changes an object and who waits to: first come, first served, on whatever lane, but for turns that [stay](stay) on a lane for a
//! while. To wake another lane takes as long as several changes, in which nobody would make any.
//!
//! Data writes of one client share a turn on whatever lanes they are made, and the turn is kept after the last of them: nobody can rely on
//! the object meanwhile, so the next need ask nobody. Whoever else comes takes it.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lane::LaneId;

use self::stay::{Stay, Watch};
use super::{Object, Pass};
use crate::callback::Holder;

pub(super) mod stay;

/// The turn at one object. Its lock is taken by changes alone.
#[derive(Default)]
pub(crate) struct Line {
    /// As `state` has it, for who looks without the lock.
    held: AtomicU8,
    /// What is held of the object, for who looks without its lock: [`Slot`](crate::grant::Slot)'s.
    pub(crate) marks: AtomicU8,
    /// Times that the turn is not to stay where nobody waits, as it stayed in vain.
    restless: AtomicU8,
    /// Beginnings and ends of changes: by these a [look](super::look) is known to be of one state. Written under the object's small lock.
    pub(super) steps: AtomicU32,
    state: Mutex<State>,
}

/// Nobody has the turn.
const FREE: u8 = 0;
/// It is kept for a next write.
const KEPT: u8 = 1;
/// Somebody is changing the object.
const BUSY: u8 = 2;

/// Whose writes share a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharer {
    /// A client's, through however many lanes.
    Holder(Holder),
    /// Those of one open file, whose number this is.
    Writer(u64),
}

#[derive(Default)]
struct State {
    /// Whose turn it is, by ticket.
    holder: Option<Ticket>,
    /// Whose it is instead.
    share: Option<Box<Share>>,
    next_ticket: u32,
    /// Most objects never have anybody wait.
    waiting: Option<Box<Waiters>>,
}

/// A turn that writes share.
struct Share {
    sharer: Sharer,
    /// Under way; none while it is kept.
    writes: u32,
}

type Ticket = NonZeroU32;

#[derive(Default)]
struct Waiters {
    line: VecDeque<Waiter>,
    /// Turns in a row by which somebody was overtaken.
    overtaken: u32,
    /// Nobody has the turn, but whoever comes next on a lane may take it.
    stay: Option<Stay>,
    /// Counts such stays.
    stays: u32,
    /// Who ends that, if he lives.
    watch: Weak<()>,
}

struct Waiter {
    ticket: Ticket,
    /// Where it waits, and since when; `None` off lanes.
    place: Option<(LaneId, Instant)>,
    waker: Option<Waker>,
}

/// Who comes after somebody.
enum Next {
    Waiter(Waiter),
    /// Whoever comes next on this lane, where all who wait are on others.
    Stay(LaneId),
}

/// The turn at one object, for as long as this lives.
pub(super) struct Turn {
    object: Arc<Object>,
    ticket: Ticket,
}

/// A part in a shared turn, for as long as this lives.
pub(crate) struct Shared {
    object: Arc<Object>,
    /// Given back last.
    _pass: Option<Pass>,
}

/// Waits for a turn. Dropped, it leaves the line, or hands on the turn that has just come.
pub(super) struct InLine {
    /// `None` once it has become a turn.
    object: Option<Arc<Object>>,
    ticket: Ticket,
}

/// As many wait as may.
#[derive(Debug)]
pub(super) struct LineIsFull;

impl Line {
    /// Whether somebody has the turn, or it is kept.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) != FREE
    }

    /// Whether somebody is changing the object right now.
    pub(super) fn is_busy(&self) -> bool {
        self.held.load(Ordering::SeqCst) == BUSY
    }

    /// Takes a turn back that is only kept; says whether nobody has it now.
    pub(crate) fn take_back(&self) -> bool {
        let mut state = self.lock();
        if state.is_free() && state.share.take().is_some() {
            self.held.store(FREE, Ordering::SeqCst);
        }
        state.is_free()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn give(&self, state: &mut State, ticket: Ticket) {
        (state.holder, state.share) = (Some(ticket), None);
        if let Some(waiting) = &mut state.waiting
            && waiting.stay.take().is_some()
        {
            waiting.overtaken += 1;
        }
        self.held.store(BUSY, Ordering::SeqCst);
    }

    /// The holder goes, or never came: the next has the turn.
    fn pass_on(object: &Arc<Object>, mut state: MutexGuard<'_, State>) {
        let line = object.line();
        match state.waiting.as_mut().and_then(|waiting| waiting.next(line)) {
            Some(Next::Stay(lane)) => line.stay(object, state, lane),
            Some(Next::Waiter(next)) => line.hand_over(state, Some(next)),
            None => line.hand_over(state, None),
        }
    }

    fn hand_over(&self, mut state: MutexGuard<'_, State>, next: Option<Waiter>) {
        if state.waiting.as_ref().is_some_and(|waiting| waiting.line.is_empty()) {
            state.waiting = None;
        }
        match next {
            Some(next) => {
                self.give(&mut state, next.ticket);
                drop(state);
                if let Some(waker) = next.waker {
                    waker.wake();
                }
            }
            None => {
                state.holder = None;
                self.held.store(FREE, Ordering::SeqCst);
            }
        }
    }

    /// Keeps the turn on this lane for a moment.
    fn stay(&self, object: &Arc<Object>, mut state: MutexGuard<'_, State>, lane: LaneId) {
        state.holder = None;
        self.held.store(FREE, Ordering::SeqCst);
        let Some(waiting) = &mut state.waiting else { return };
        let stay = waiting.begin_stay(lane);
        let watch = (waiting.watch.strong_count() == 0).then(|| Watch::new(object, &mut waiting.watch));
        drop(state);
        if let Some(watch) = watch {
            lane::spawn(watch.run(stay)).detach();
        }
    }
}

impl Waiters {
    /// Whose turn it is after that of somebody on this lane: who came first on it, for as long as [`Waiters::is_patient`], then who came
    /// first of all.
    fn next(&mut self, line: &Line) -> Option<Next> {
        let here = here();
        let is_near = |waiter: &Waiter| waiter.place.map(|(lane, _)| lane) == here;
        let near = self.line.iter().take(LOOKED_AT_MAX).position(is_near);
        let may_overtake = near != Some(0) && self.is_patient();
        match (near, here) {
            (Some(at), _) if may_overtake => {
                self.overtaken += 1;
                self.line.remove(at).map(Next::Waiter)
            }
            (None, Some(here)) if may_overtake && line.rests() => Some(Next::Stay(here)),
            _ => self.first().map(Next::Waiter),
        }
    }

    /// Who came first of all.
    fn first(&mut self) -> Option<Waiter> {
        self.overtaken = 0;
        let first = self.line.pop_front();
        if first.as_ref().is_some_and(|first| first.place.map(|(lane, _)| lane) != here()) {
            // The turn leaves this lane.
            self.watch = Weak::new();
        }
        first
    }

    /// Whether who is first in line can wait longer. Off lanes nobody knows for how long somebody has.
    fn is_patient(&self) -> bool {
        let since = self.line.front().and_then(|first| first.place).map(|(_, since)| since);
        let has_time = |since: Instant| lane::time::now() < since + OVERTAKEN_FOR;
        self.overtaken < OVERTAKEN_MAX && lane::on_lane() && since.is_some_and(has_time)
    }
}

fn here() -> Option<LaneId> {
    lane::on_lane().then(|| lane::current().id())
}

impl State {
    fn ticket(&mut self) -> Ticket {
        self.next_ticket = self.next_ticket.wrapping_add(1).max(1);
        Ticket::new(self.next_ticket).expect("it is at least 1")
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && self.share.as_ref().is_none_or(|share| share.writes == 0)
    }

    /// Whether who is here may have the turn.
    fn is_free_here(&self) -> bool {
        let stay = self.waiting.as_ref().and_then(|waiting| waiting.stay.as_ref());
        self.is_free() && stay.is_none_or(|stay| stay.is_for(here()))
    }
}

impl Turn {
    /// The turn if nobody has it or waits for it.
    pub(super) fn try_take(object: &Arc<Object>) -> Option<Self> {
        let line = object.line();
        let mut state = line.lock();
        if !state.is_free_here() {
            return None;
        }
        let ticket = state.ticket();
        line.give(&mut state, ticket);
        drop(state);
        Some(Self { object: Arc::clone(object), ticket })
    }

    pub(super) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Shares it with further writes of the same, until the last has ended and somebody else wants it.
    pub(super) fn share(self, sharer: Sharer, pass: Option<Pass>) -> Shared {
        let mut state = self.object.line().lock();
        (state.holder, state.share) = (None, Some(Box::new(Share { sharer, writes: 1 })));
        drop(state);
        Shared { object: Arc::clone(&self.object), _pass: pass }
    }
}

impl Shared {
    /// A part in the turn that writes of the same share, or have kept, unless others wait for it.
    pub(crate) fn join(object: &Arc<Object>, sharer: Sharer, pass: Pass) -> Option<Self> {
        let line = object.line();
        let mut state = line.lock();
        if state.waiting.is_some() {
            return None;
        }
        state.share.as_mut().filter(|share| share.sharer == sharer)?.writes += 1;
        line.held.store(BUSY, Ordering::SeqCst);
        drop(state);
        Some(Self { object: Arc::clone(object), _pass: Some(pass) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let line = self.object.line();
        let mut state = line.lock();
        let share = state.share.as_mut().expect("it is shared while somebody has a part");
        share.writes -= 1;
        if share.writes > 0 {
            return;
        }
        if state.waiting.is_none() {
            return line.held.store(KEPT, Ordering::SeqCst);
        }
        state.share = None;
        Line::pass_on(&self.object, state);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let line = self.object.line();
        let state = line.lock();
        // Else it was shared.
        if state.holder == Some(self.ticket) {
            Line::pass_on(&self.object, state);
        }
    }
}

impl InLine {
    /// Takes a place at the end of the line, of at most `max`.
    pub(super) fn join(object: Arc<Object>, max: usize) -> Result<Self, LineIsFull> {
        let line = object.line();
        let mut state = line.lock();
        let ticket = state.ticket();
        if state.is_free_here() {
            line.give(&mut state, ticket);
        } else {
            let waiting = &mut state.waiting.get_or_insert_default().line;
            if waiting.len() >= max {
                return Err(LineIsFull);
            }
            let place = here().map(|lane| (lane, lane::time::now()));
            waiting.push_back(Waiter { ticket, place, waker: None });
        }
        drop(state);
        Ok(Self { object: Some(object), ticket })
    }
}

impl Future for InLine {
    type Output = Turn;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn> {
        let ticket = self.ticket;
        let object = self.object.as_ref().expect("it is polled until it is ready");
        let mut state = object.line().lock();
        if state.holder == Some(ticket) {
            drop(state);
            let object = self.object.take().expect("looked at above");
            return Poll::Ready(Turn { object, ticket });
        }
        let mut waiting = state.waiting.iter_mut().flat_map(|waiting| waiting.line.iter_mut());
        let mine = waiting.find(|waiter| waiter.ticket == ticket);
        let mine = mine.expect("who has not left the line is in it");
        match &mut mine.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => mine.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        let line = object.line();
        let mut state = line.lock();
        if state.holder == Some(self.ticket) {
            return Line::pass_on(&object, state);
        }
        let ticket = self.ticket;
        let left = state.waiting.as_mut().and_then(|waiting| {
            let at = waiting.line.iter().position(|waiter| waiter.ticket == ticket)?;
            waiting.line.remove(at)
        });
        let waiting = state.waiting.take_if(|waiting| waiting.line.is_empty());
        drop(state);
        drop((left, waiting));
    }
}

/// Turns that stay on a lane while somebody on another is first in line, and for how long they do.
pub(super) const OVERTAKEN_MAX: u32 = 256;
pub(super) const OVERTAKEN_FOR: Duration = Duration::from_millis(2);
/// Of a long line so many are looked at for one of this lane.
const LOOKED_AT_MAX: usize = 64;
